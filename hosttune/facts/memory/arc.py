"""The cache of ZFS in memory (ARC), which the kernel counts as used and not as its own cache.

OpenZFS: module/os/linux/spl (kstat: /proc/spl/kstat/zfs/arcstats, rows `name type data`), zfs(4)
(zfs_arc_max: 0 means that OpenZFS chooses, half of the memory before version 2.3 and most of it
since).
"""

from __future__ import annotations

from collections.abc import Mapping

from hosttune.facts.base import UnknownFact
from hosttune.facts.reading import derive, if_absent, is_there, read_integer, read_text
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits

STATS = "/proc/spl/kstat/zfs/arcstats"
_LIMIT = "/sys/module/zfs/parameters/zfs_arc_max"


@frozen
class Arc(Subject):
    """The cache as it is now."""

    is_there: bool = read_with(lambda self: is_there(self.reader, STATS))  # ZFS is loaded

    @fact
    def size_bytes(self) -> int:
        """What it holds."""
        return self._value("size")

    @fact
    def max_bytes(self) -> int:
        """What it may grow to."""
        return self._value("c_max")

    # someone has set that
    is_limited: bool = read_with(lambda self: if_absent(read_integer(self.reader, _LIMIT), 0) > 0)

    @fact
    def _stats(self) -> Mapping[str, int]:
        return derive(read_text(self.reader, STATS), STATS, parse_arcstats)

    def _value(self, name: str) -> int:
        if name not in self._stats:
            raise UnknownFact(f"{STATS} has no {name}")
        return self._stats[name]


def parse_arcstats(content: str) -> Mapping[str, int]:
    """Name -> number of the rows below the two of the head."""
    rows = (row.split() for row in content.splitlines()[2:])
    return {
        row[0]: number
        for row in rows
        if len(row) == 3 and (number := parse_digits(row[2], -1)) >= 0
    }
