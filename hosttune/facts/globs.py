"""Patterns of names that files give: glob(7) as `fnmatch` has it, in time that grows linearly with
the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from typing import Any

from hosttune.facts.base import UnknownFact

LONGEST = 4096  # characters of a pattern; a name has at most 255
MOST_KEPT = 1 << 20  # characters of the patterns that are kept compiled
PER_PATTERN = 64  # what each counts besides
_SHOWN = 40


def fits_glob(name: str, pattern: str) -> bool:
    """As `fnmatchcase`. A pattern with a `glob_fault` is unknown."""
    try:
        return make_matcher(pattern)(name) is not None
    except ValueError as error:
        raise UnknownFact(str(error)) from None


def glob_fault(pattern: str) -> str:
    """Why a pattern is not matched; empty if it is. A set with letters beyond Latin-1 takes some
    milliseconds to compile, thousands of times as long as other characters.
    """
    if len(pattern) > LONGEST:
        return f"the pattern {pattern[:_SHOWN]}... is longer than {LONGEST} characters"
    if not pattern.isascii() and any(max(one) > "\xff" for one in _sets_in(pattern)):
        return f"the pattern {pattern[:_SHOWN]!r} has a letter beyond U+00FF in brackets"
    return ""


def _sets_in(pattern: str) -> Iterator[str]:
    """The sets in brackets; a `]` that comes first is a character of the set (glob(7))."""
    begin = pattern.find("[")
    while begin >= 0:
        first = begin + 1 + pattern.startswith("!", begin + 1)
        end = pattern.find("]", first + 1)
        if end < 0:
            return
        yield pattern[begin : end + 1]
        begin = pattern.find("[", end + 1)


def make_matcher(pattern: str) -> Callable[[str], Any]:
    """The compiled pattern. Raises ValueError with its `glob_fault`."""
    return _kept[pattern]


class _Matchers(dict[str, Callable[[str], Any]]):
    """Compiled patterns, all dropped when they are too many: `fnmatch` keeps 32,768, however long
    they are.
    """

    left = MOST_KEPT

    def __missing__(self, pattern: str) -> Callable[[str], Any]:
        """For each bracket `fnmatch` looks for its end. After the last `]` no bracket has one, so
        there each is written as the character that it is.
        """
        if fault := glob_fault(pattern):
            raise ValueError(fault)
        head, end, tail = pattern.rpartition("]")
        try:
            found = re.compile(translate(head + end + tail.replace("[", "[[]"))).match
        except re.error:  # before Python 3.10.5, of a range such as [z-a]
            raise ValueError(
                f"the pattern {pattern[:_SHOWN]} has a range that ends before it begins"
            ) from None
        self.left -= len(pattern) + PER_PATTERN
        if self.left < 0:
            self.clear()
            self.left = MOST_KEPT - len(pattern) - PER_PATTERN
        self[pattern] = found
        return found


_kept = _Matchers()
