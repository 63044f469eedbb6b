"""Arrays of the kernel's own RAID: what members they miss, and whether one is being rebuilt.

/proc/mdstat, readable by all (md(4); drivers/md/md.c, md_seq_show, and each level's status function): an array with its
members, of levels with redundancy `[wanted/working]`, and a line of progress while members are synchronised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.reading import names_in, parsed, text
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

MDSTAT = "/proc/mdstat"
_ARRAY = regex(
    r"(md\S*) : (active|inactive|broken)(?: \((?:auto-)?read-only\))?"
    r"(?: ((?:raid|linear|multipath|faulty)[^\s\[]*))?((?: \S+\[\d+\]\S*)*) *"
)
_MEMBER = regex(r"(\S+)\[\d+\]((?:\([A-Z]\))*)")
_WORKING = regex(r"\[(\d+)/(\d+)\] \[[U_]+\]")
_CONTAINER = regex(r" super external:[^/\s]")  # one of its arrays has `external:/md127/0`
_PROGRESS = regex(r"(recovery|resync|reshape|check) *= *(?:([0-9.]+)%|DELAYED|PENDING|REMOTE)")


@frozen
class Array(Fact):
    """One array."""

    name: str  # md0
    level: str  # raid1; empty for one that is not started
    is_active: bool  # it can be read and written
    wanted: int  # members that it is made of; 0 where the level has none to spare (raid0, linear)
    missing: int  # of these, how many do not work
    failed: tuple[str, ...]  # members that the kernel threw out and that are still listed
    is_container: bool  # of arrays of firmware RAID (IMSM, DDF), which are listed by themselves; never active
    sync: str  # recovery, resync or reshape while that goes on; empty for none; a check is no fault
    percent: float  # of that; -1 where it waits or none goes on


@frozen
class Raid(Fact):
    """All arrays of the kernel's own RAID."""

    arrays: tuple[Array, ...]


def collect(reader: Reader, facts: Facts) -> Raid:
    del facts
    return Raid(lazy(_arrays, reader))


def _arrays(reader: Reader) -> tuple[Array, ...]:
    if not any(name.startswith("md") for name in names_in(reader, "/sys/block")):
        return ()
    content = text(reader, MDSTAT)
    return () if content is ABSENT else parsed(parse_mdstat, str(content))


def parse_mdstat(content: str) -> tuple[Array, ...]:
    """The arrays of /proc/mdstat. Raises ValueError for a line of an array that is none."""
    found = []
    for block in f"\n{content}".split("\nmd")[1:]:
        head, _, rest = f"md{block}".partition("\n")
        match = _ARRAY.fullmatch(head)
        if not match:
            raise ValueError(f"{MDSTAT} says {head[:80]!r}, which is no array")
        members = _MEMBER.findall(match[4])
        working, progress = _WORKING.search(rest), _PROGRESS.search(rest)
        wanted, there = (int(working[1]), int(working[2])) if working else (0, 0)
        is_syncing = progress is not None and progress[1] != "check"
        found.append(
            Array(
                name=match[1],
                level=match[3] or "",
                is_active=match[2] == "active",
                wanted=wanted,
                missing=max(0, wanted - there),
                failed=tuple(name for name, flags in members if "(F)" in flags),
                is_container=bool(_CONTAINER.search(rest)),
                sync=progress[1] if progress and is_syncing else "",
                percent=float(progress[2]) if progress and is_syncing and progress[2] else -1.0,
            )
        )
    return tuple(sorted(found, key=lambda array: array.name))
