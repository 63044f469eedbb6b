"""Versions as Debian orders them (deb-version(7)); kernel releases in the file names of /boot are
ordered the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key
from itertools import zip_longest

from hosttune.numbers import parse_digits
from hosttune.regex import regex

_PARTS = regex(r"([^0-9]*)([0-9]*)")
_UPSTREAM = regex(r"(?:\d+:)?(\d+(?:\.\d+)+)")


def compare_versions(one: str, other: str) -> int:
    """Negative, 0 or positive: `one` is older than, as old as, or newer than `other`.

    Epoch, upstream version and revision in turn; in each, runs of other characters by themselves
    and runs of digits as numbers. `~` comes before everything, even before the end; letters come
    before all other characters. A missing revision is as old as "0".
    """
    first, second = _split(one), _split(other)
    if first[0] != second[0]:
        return -1 if first[0] < second[0] else 1
    return _compare_part(first[1], second[1]) or _compare_part(first[2], second[2])


def sorted_versions(versions: Iterable[str]) -> tuple[str, ...]:
    """Each once, oldest first; those that are equally old (1.0 and 1.00) by their text."""
    return tuple(sorted(sorted(set(versions)), key=cmp_to_key(compare_versions)))


def upstream_of(version: str) -> str:
    """The driver's own number in the version of one of its packages: 580.126.20 of
    1:580.126.20-0ubuntu0.24.04.1; empty where it starts with no such number.
    """
    match = _UPSTREAM.match(version)
    return match[1] if match else ""


def _split(version: str) -> tuple[int, str, str]:
    head, colon, rest = version.strip().partition(":")
    number = parse_digits(head, -1)
    epoch, rest = (number, rest) if colon and number >= 0 else (0, version.strip())
    upstream, dash, revision = rest.rpartition("-")
    return (epoch, upstream, revision) if dash else (epoch, rest, "")


def _compare_part(one: str, other: str) -> int:
    empty = ("", "")
    for (text, number), (its_text, its_number) in zip_longest(
        _PARTS.findall(one), _PARTS.findall(other), fillvalue=empty
    ):
        by_text = _compare_text(text, its_text)
        if by_text:
            return by_text
        # As texts: int() fails for thousands of digits.
        mine, its = number.lstrip("0"), its_number.lstrip("0")
        if mine != its:
            return -1 if (len(mine), mine) < (len(its), its) else 1
    return 0


def _compare_text(one: str, other: str) -> int:
    weights, its_weights = ([*map(_weigh_character, text), 0] for text in (one, other))
    if weights == its_weights:
        return 0
    return -1 if weights < its_weights else 1


def _weigh_character(character: str) -> int:
    """The order of characters that are no digits; the end of a run is 0."""
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256
