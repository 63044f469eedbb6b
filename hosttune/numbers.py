"""Whole numbers: in text of others, and in sentences.

int() also takes blanks, `+`, `_` and digits of other scripts, and fails for thousands of digits that str.isdecimal()
passes.
"""

from __future__ import annotations

from typing import TypeVar

from hosttune.regex import regex

_DIGITS = regex(r"[0-9]{1,39}")  # 2**128 has 39
_WHOLE = regex(r"-?[0-9]{1,39}")
_SHOWN = 40

Default = TypeVar("Default")


def parse_digits(text: str, default: Default) -> int | Default:
    """The number that ASCII digits are, else the default."""
    return int(text) if _DIGITS.fullmatch(text) else default


def parse_whole(text: str) -> int:
    """The same with a minus before it. Raises ValueError for anything else."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:_SHOWN]!r} is not a whole number")
    return int(text)


def say_count(number: float, one: str, many: str = "") -> str:
    """`1 change`, `3 changes`, `2 processes`."""
    whole = int(number) if number == int(number) else number
    return f"{whole} {one if number == 1 else many or one + 's'}"
