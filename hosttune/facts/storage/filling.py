"""What lies in /tmp. Counting it walks the disk, so this is asked last: only where the count decides or is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, raw, unread
from hosttune.frozen import frozen
from hosttune.host.door import Usage
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from typing import Any

    from hosttune.facts import Facts
    from hosttune.host.door import Reader


@frozen
class Filling(Fact):
    """Of a file system mounted at /tmp what is used of it; of a folder of a larger one what was counted."""

    used_bytes: int
    entries: int  # files and folders counted on the disk; 0 where the space of the mount was asked instead
    is_complete: bool  # False: there is more than `used_bytes` and `entries` say


def collect(reader: Reader, facts: Facts) -> Filling:
    try:
        if facts.tmp.is_mount:
            used: Any = raw(facts.tmp, "disk_used_bytes")
            return Filling(used, 0, is_complete=True)
    except UnknownFact as unknown:
        return _unknown(unknown.reason)
    usage = reader.usage("/tmp")
    if isinstance(usage, Unreadable):
        return _unknown(usage.reason)
    return Filling(usage.size_bytes, usage.entries, usage.is_complete) if isinstance(usage, Usage) else _EMPTY


def _unknown(reason: str) -> Filling:
    return Filling(unread(reason), unread(reason), unread(reason))


_EMPTY = Filling(0, 0, is_complete=True)
