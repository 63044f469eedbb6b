"""The functions and constants that expressions of rules may use; one table for evaluation, type
checks and docs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import GenericAlias
from typing import Any, TypeVar

from hosttune import quoting
from hosttune.facts.globs import make_matcher
from hosttune.frozen import frozen
from hosttune.numbers import parse_whole, say_count
from hosttune.values import StepLines

# Stand for a type in the forms below: a number, and anything with an order.
N = TypeVar("N", int, float)
Ordered = TypeVar("Ordered", int, float, str)

CONSTANTS: Mapping[str, int] = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


@frozen
class Form:
    """One way to call a helper; with `more`, the last argument may be repeated."""

    arguments: tuple[Any, ...]
    result: Any
    more: bool = False


@frozen
class Helper:
    """A function of expressions; `usage` and `doc` are what people read."""

    function: Callable[..., Any]
    forms: tuple[Form, ...]
    usage: str
    doc: str


def join(items: tuple[str, ...], separator: str = ", ") -> str:
    return separator.join(items)


MAX_PATTERN = 1000  # characters: Python makes a program of each pattern


def like(text: str, pattern: str) -> bool:
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a pattern has at most {MAX_PATTERN} characters")
    return make_matcher(pattern)(text) is not None


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def version(text: str) -> tuple[int, ...]:
    """The numbers that a version starts with: "535.183.01-0ubuntu1" is (535, 183, 1)."""
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", text)
    if match is None:
        raise ValueError(f"{text!r} does not start with a number")
    return tuple(int(part) for part in match.group().split("."))


def gib_text(size_bytes: float) -> str:
    """A number of bytes for people: "12.5 GiB", "1007 GiB", "0.25 GiB"."""
    size = size_bytes / CONSTANTS["gib"]
    if 0 < abs(size) < 0.01:
        return "less than 0.01 GiB" if size > 0 else "more than -0.01 GiB"
    digits = 0 if abs(size) >= 100 else 1 if abs(size) >= 1 else 2
    number = f"{size:.{digits}f}"
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} GiB"


def int_of(value: Any) -> int:
    return parse_whole(value.strip()) if isinstance(value, str) else int(value)


def text_of(value: Any) -> str:
    """A value inside a text: numbers plain, true and false in lower case, several texts with
    commas.
    """
    if isinstance(value, str):
        return value if isinstance(value, StepLines) else str(value)
    # Before the numbers, because a bool is an int: a file of settings would get True.
    if isinstance(value, bool):
        return "true" if value else "false"
    # Up to 2**53 a float holds each whole number. Above that it would show digits that no one has
    # measured.
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (tuple, list)):
        return ", ".join(text_of(item) for item in value)
    raise TypeError(
        f"{'nothing (None)' if value is None else type(value).__name__} cannot stand in a text"
    )


def list_of(item: Any) -> Any:
    """The type `tuple[item, ...]`."""
    return GenericAlias(tuple, (item, ...))


def _round_number(number: float, digits: int | None = None) -> float:
    """At most 30 digits either way: Python would compute with thousands of millions of them."""
    return round(number) if digits is None else round(number, max(-30, min(30, digits)))


_PLAIN = str | float | bool
_PICK = (Form((list_of(Ordered),), Ordered), Form((Ordered, Ordered), Ordered, more=True))

HELPERS: Mapping[str, Helper] = {
    "len": Helper(
        len,
        (Form((str | tuple[Any, ...] | Mapping[str, Any],), int),),
        "len(items)",
        "how many items, keys or characters",
    ),
    "any": Helper(any, (Form((list_of(bool),), bool),), "any(tests)", "true when one test holds"),
    "all": Helper(
        all,
        (Form((list_of(bool),), bool),),
        "all(tests)",
        "true when every test holds, or there is none",
    ),
    "min": Helper(min, _PICK, "min(items) or min(a, b, ...)", "the smallest"),
    "max": Helper(max, _PICK, "max(items) or max(a, b, ...)", "the largest"),
    "sum": Helper(sum, (Form((list_of(N),), N),), "sum(numbers)", "the sum, 0 of nothing"),
    "sorted": Helper(
        lambda items: tuple(sorted(items)),
        (Form((list_of(Ordered),), list_of(Ordered)),),
        "sorted(items)",
        "the items in order",
    ),
    "round": Helper(
        _round_number,
        (Form((float,), int), Form((float, int), float)),
        "round(number) or round(number, digits)",
        "the nearest whole number, the even one of two; or to digits after the point",
    ),
    "abs": Helper(abs, (Form((N,), N),), "abs(number)", "the number without its sign"),
    "int": Helper(
        int_of,
        (Form((_PLAIN,), int),),
        "int(value)",
        "a whole number: read from text, or cut from a fraction",
    ),
    "str": Helper(
        text_of,
        (Form((_PLAIN,), str),),
        "str(value)",
        "text of a value: numbers plain, true, false",
    ),
    "join": Helper(
        join,
        (Form((list_of(str),), str), Form((list_of(str), str), str)),
        "join(texts) or join(texts, separator)",
        'one text; the separator is ", " unless given',
    ),
    "starts_with": Helper(
        str.startswith,
        (Form((str, str), bool),),
        "starts_with(text, prefix)",
        "whether the text starts with the prefix",
    ),
    "ends_with": Helper(
        str.endswith,
        (Form((str, str), bool),),
        "ends_with(text, suffix)",
        "whether the text ends with the suffix",
    ),
    "like": Helper(
        like,
        (Form((str, str), bool),),
        "like(text, pattern)",
        "whether the whole text fits a pattern of the shell: * any text, ? one character, [abc] "
        "one of these",
    ),
    "shell_word": Helper(
        quoting.quote,
        (Form((str,), str),),
        "shell_word(text)",
        "the text as one word of a shell command: in quotes where a shell would act on it",
    ),
    "words": Helper(
        words, (Form((str,), list_of(str)),), "words(text)", "the words of a text, split at blanks"
    ),
    "lower": Helper(str.lower, (Form((str,), str),), "lower(text)", "the text in lower case"),
    "version": Helper(
        version,
        (Form((str,), list_of(int)),),
        "version(text)",
        'its leading numbers, to compare: version("535.183.01") is (535, 183, 1)',
    ),
    "gib_text": Helper(
        gib_text, (Form((float,), str),), "gib_text(bytes)", 'bytes for people: "12.5 GiB"'
    ),
    "counted": Helper(
        say_count,
        (Form((float, str), str), Form((float, str, str), str)),
        "counted(number, one) or counted(number, one, many)",
        'a number with what is counted: "1 error", "3 errors"',
    ),
}
