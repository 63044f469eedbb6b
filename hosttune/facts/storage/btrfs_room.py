"""Whether a btrfs can still make files: df shows room for data, and nothing of what is left for
metadata.

btrfs gives its disks out in pieces, each for data or for metadata. Once all of them are given out
and those for metadata are full, nothing can be made or changed (ENOSPC), whatever room the pieces
for data have. Removing files still works, by a reserve. Sources: btrfs-balance(8), btrfs(5);
/sys/fs/btrfs/UUID/allocation (fs/btrfs/sysfs.c), sizes in bytes, those of disks in sectors of 512
bytes; own measurement: btrfs of Linux 6.18 with 960 of 3072 MiB free in df.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.reading import if_absent, names_in, read_integer
from hosttune.facts.storage.room import size_text

if TYPE_CHECKING:
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader

_BTRFS = "/sys/fs/btrfs"
_DASHES = 4  # of a UUID
_KINDS = ("data", "metadata", "system")
_SECTOR = 512
_PIECE = 1 << 30  # the largest one of metadata
_LEAST = 20  # 5 % of the metadata, or of the disks


def find_folder(reader: Reader, mount: Mount) -> str:
    """/sys/fs/btrfs/UUID of a mounted btrfs; empty where there is none."""
    place = reader.resolve(mount.source)
    own = (place if isinstance(place, str) else mount.source).rsplit("/", 1)[-1]
    folders = (
        f"{_BTRFS}/{name}" for name in names_in(reader, _BTRFS) if name.count("-") == _DASHES
    )
    return next((one for one in folders if own in names_in(reader, f"{one}/devices")), "")


def find_crowding(reader: Reader, mount: Mount) -> str:
    """What follows the mount point, where its metadata is full and no piece is left for more; else
    empty.

    Raises UnknownFact.
    """
    folder = find_folder(reader, mount) if mount.fstype == "btrfs" else ""
    sizes = (
        {kind: _read(reader, f"{folder}/allocation/{kind}/disk_total") for kind in _KINDS}
        if folder
        else {}
    )
    if not all(sizes.values()):  # small ones mix data and metadata
        return ""
    disks = sum(
        _read(reader, f"/sys/class/block/{one}/size")
        for one in names_in(reader, f"{folder}/devices")
    )
    total = _read(reader, f"{folder}/allocation/metadata/total_bytes")
    used = _read(reader, f"{folder}/allocation/metadata/bytes_used")
    kept = _read(reader, f"{folder}/allocation/global_rsv_size")
    unused = disks * _SECTOR - sum(sizes.values())
    if (
        not total
        or unused >= min(_PIECE, disks * _SECTOR // _LEAST)
        or total - used - kept >= total // _LEAST
    ):
        return ""
    room = attempt(lambda: mount.available_bytes)
    shown = f", though df shows {size_text(room)} free" if isinstance(room, int) else ""
    percent = 100 * (used + kept) // total
    return f"has given out all of its room, and {percent} % of that for metadata is used{shown}"


def _read(reader: Reader, path: str) -> int:
    return if_absent(read_integer(reader, path), 0)
