"""Numbers: whole ones in text of others; counts, sizes and spans of time in sentences.

int() also takes blanks, `+`, `_` and digits of other scripts, and fails for thousands of digits
that str.isdecimal() passes.
"""

from __future__ import annotations

from typing import TypeVar

from hosttune.regex import regex

_DIGITS = regex(r"[0-9]{1,39}")  # 2**128 has 39
_WHOLE = regex(r"-?[0-9]{1,39}")
_SHOWN = 40
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

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


def say_size(size_bytes: float) -> str:
    """`512 B`, `1.7 TiB`, `372 GiB`."""
    number, unit = float(size_bytes), "B"
    for unit in _UNITS:
        if number < 1024 or unit == _UNITS[-1]:
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"


def say_gib(size_bytes: int) -> str:
    """`0.3 GiB`, `64 GiB`, `3.4 TiB`: of memory and disks."""
    tib = size_bytes / (1 << 40)
    return (
        f"{tib:.1f} TiB"
        if tib >= 2
        else f"{size_bytes / (1 << 30):.1f}".removesuffix(".0") + " GiB"
    )


def say_limit(limit_bytes: int) -> str:
    """`4 KiB`, `64 MiB`: of what is read."""
    return f"{limit_bytes >> 20} MiB" if limit_bytes >> 20 else f"{limit_bytes >> 10} KiB"


def say_time(seconds: float) -> str:
    """What was measured: `45 s`, `12 min`, `3.5 h`."""
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def say_span(seconds: int) -> str:
    """What was asked for, to the second: `15 min`, `90 s`, `2 h`."""
    for word, unit in (("h", 3600), ("min", 60)):
        if seconds % unit == 0:
            return f"{seconds // unit} {word}"
    return f"{seconds} s"
