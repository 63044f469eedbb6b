"""Editions: the named states of the defaults. A policy that pins one gets the same plans from later versions.

An edition fixes which rules the profiles run and what the defaults of their parameters are. A rule says with `edition:`
which one brought it, a parameter with `was:` what its default used to be, an entry of a profile with `from:` and
`until:` in which editions it counts. Whoever changes anything else about a rule that changes plans gives it a new
parameter, or makes a new rule and lets the old one end (`until:` in its profiles): the digests of every edition over
all built hosts are held by a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hosttune.errors import HosttuneError

EDITIONS = ("2026.1", "2026.2")  # oldest first; the last is the one of a policy that pins none
FIRST = EDITIONS[0]


def rank(edition: str) -> int:
    """Its place among the editions; nothing means the newest."""
    return EDITIONS.index(edition) if edition else len(EDITIONS) - 1


def is_between(edition: str, first: str, last: str) -> bool:
    """Whether `edition` lies in the range; an empty end is open."""
    return (not first or rank(first) <= rank(edition)) and (not last or rank(edition) <= rank(last))


def value_in(edition: str, now: Any, was: Mapping[str, Any]) -> Any:
    """The value in an edition: `was` tells, for some editions, the last value up to and including each."""
    for last in sorted(was, key=rank):
        if rank(edition) <= rank(last):
            return was[last]
    return now


def all_editions() -> str:
    """The hint for a wrong one."""
    return f"there is: {', '.join(EDITIONS)}"


def is_edition(name: str) -> bool:
    return name in EDITIONS


def checked_edition(name: str) -> str:
    """An edition that somebody typed. Raises HosttuneError for one that there is not."""
    if not is_edition(name):
        raise HosttuneError(f"there is no edition {name}", hint=all_editions())
    return name
