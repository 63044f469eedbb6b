"""What is in /tmp. Counting it walks the disk, so this is asked last: only where the count decides or is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy, make_shared
from hosttune.facts.reading import if_absent
from hosttune.frozen import frozen
from hosttune.host.door import Usage

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader


@frozen
class Filling(Fact):
    """Of a file system mounted at /tmp what is used of it; of a folder of a larger one what was counted."""

    used_bytes: int  # of /tmp, as far as it was counted
    entries: int  # files and folders counted on the disk; 0 where the space of the mount was asked instead
    is_complete: bool  # False: there is more than `used_bytes` and `entries` say


def collect(reader: Reader, facts: Facts) -> Filling:
    counted = make_shared(_count_usage, reader, facts)
    return Filling(
        used_bytes=lazy(lambda: facts.tmp.disk_used_bytes if facts.tmp.is_mount else counted().size_bytes),
        entries=lazy(lambda: counted().entries),
        is_complete=lazy(lambda: counted().is_complete),
    )


def _count_usage(reader: Reader, facts: Facts) -> Usage:
    """What was counted in /tmp; nothing where it is a file system of its own."""
    nothing = Usage(0, 0, is_complete=True)
    return nothing if facts.tmp.is_mount else if_absent(reader.usage("/tmp"), nothing)
