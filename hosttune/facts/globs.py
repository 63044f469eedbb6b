"""Patterns of names that files give: glob(7) as `fnmatch` has it, in time that grows linearly with the pattern."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from hosttune.facts.base import UnknownFact

LONGEST = 4096  # characters of a pattern; a name has at most 255


def fits_glob(name: str, pattern: str) -> bool:
    """As `fnmatchcase`. A pattern that is longer than LONGEST is unknown.

    For each bracket `fnmatch` looks for its end. After the last `]` no bracket has one, so there each is written as the
    character that it is.
    """
    if len(pattern) > LONGEST:
        raise UnknownFact(f"the pattern {pattern[:40]}... is longer than {LONGEST} characters")
    head, end, tail = pattern.rpartition("]")
    try:
        return fnmatchcase(name, head + end + tail.replace("[", "[[]"))
    except re.error:  # before Python 3.10.5, of a range such as [z-a]
        raise UnknownFact(f"the pattern {pattern[:40]} has a range that ends before it begins") from None
