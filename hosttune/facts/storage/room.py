"""How much root can still write at a path: bytes and files of the file system that holds it
(statvfs(3)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt
from hosttune.facts.storage.mounts import mount_of
from hosttune.frozen import frozen
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts

_MIB = 1 << 20
_GIB = 1 << 30
MANY = 1 << 60  # files of a file system that makes inodes as it needs them (btrfs, vfat)


@frozen
class FreeRoom(Fact):
    """What is left of one file system, for root: packages are installed by root, so what is kept
    back counts.
    """

    target: str  # where it is mounted
    free_bytes: int
    free_files: int
    is_read_only: bool


def room_at(facts: Facts, path: str) -> FreeRoom:
    """Raises UnknownFact for a place whose space is not asked for: a file server, an image."""
    resolved = facts.reader.resolve(path)
    mount = mount_of(facts.mounts.visible, resolved if isinstance(resolved, str) else path)
    if mount is None:
        raise UnknownFact(f"no mounted file system holds {path}")
    reserved = attempt(lambda: mount.reserved_bytes)  # not in records of before
    # dpkg writes as root, and so also into what ext4 keeps back from users.
    free = mount.available_bytes + (0 if isinstance(reserved, Unreadable) else reserved)
    files = mount.available_inodes if mount.total_inodes else MANY
    return FreeRoom(mount.target, free, files, mount.is_read_only)


def size_text(size_bytes: int) -> str:
    """A number of bytes for people: 24 MiB, 1.3 GiB."""
    if size_bytes >= _GIB:
        return f"{size_bytes / _GIB:.1f} GiB"
    return (
        f"{size_bytes / _MIB:.0f} MiB"
        if size_bytes >= _MIB or not size_bytes
        else "less than 1 MiB"
    )
