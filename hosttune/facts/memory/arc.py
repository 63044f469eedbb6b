"""The cache of ZFS in memory (ARC), which the kernel counts as used and not as its own cache.

OpenZFS: module/os/linux/spl (kstat: /proc/spl/kstat/zfs/arcstats, rows `name type data`), zfs(4) (zfs_arc_max: 0 means
that OpenZFS chooses, half of the memory before version 2.3 and most of it since).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy, make_shared
from hosttune.facts.reading import derive, if_absent, is_there, read_integer, read_text
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

STATS = "/proc/spl/kstat/zfs/arcstats"
_LIMIT = "/sys/module/zfs/parameters/zfs_arc_max"


@frozen
class Arc(Fact):
    """The cache as it is now."""

    is_there: bool  # ZFS is loaded
    size_bytes: int  # what it holds
    max_bytes: int  # what it may grow to
    is_limited: bool  # someone has set that


def parse_arcstats(content: str) -> Mapping[str, int]:
    """Name -> number of the rows below the two of the head."""
    rows = (row.split() for row in content.splitlines()[2:])
    return {row[0]: number for row in rows if len(row) == 3 and (number := parse_digits(row[2], -1)) >= 0}


def collect(reader: Reader, facts: Facts) -> Arc:
    del facts
    stats = make_shared(lambda: derive(read_text(reader, STATS), STATS, parse_arcstats))

    def value(name: str) -> int:
        if name not in stats():
            raise UnknownFact(f"{STATS} has no {name}")
        return stats()[name]

    return Arc(
        is_there=lazy(is_there, reader, STATS),
        size_bytes=lazy(value, "size"),
        max_bytes=lazy(value, "c_max"),
        is_limited=lazy(lambda: if_absent(read_integer(reader, _LIMIT), 0) > 0),
    )
