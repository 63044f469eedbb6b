"""Reads a log of block writes: the format of Linux' dm-log-writes, which qemu's driver
`blklogwrites` writes too.

Sector 0 holds magic, version, number of entries and the sector size; then, from sector 1 on, every
entry is one sector (sector, number of sectors, flags, length of inline data) and the written data
behind it. A discard has no data, a mark has its text inside the entry's own sector. All numbers are
little endian. Source: Documentation/admin-guide/device-mapper/log-writes.rst of Linux,
block/blklogwrites.c of qemu.

qemu logs a request when it has been carried out and before the guest hears of it, so whatever the
guest waited for before a flush stands before that flush in the log.
"""

import enum
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = 0x6A736677736872
VERSION = 1
SUPER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")


class Flag(enum.IntFlag):
    """What an entry is besides a write. METADATA is a hint of newer kernels and changes nothing
    here.
    """

    FLUSH = 1
    FUA = 2
    DISCARD = 4
    MARK = 8
    METADATA = 16


KNOWN_FLAGS = 31


class BadLogError(ValueError):
    """The file is no such log, or it is damaged; the message says where."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One request. `offset` and `size` (bytes) are a place on the disk, `data` is a place in the
    log.
    """

    flags: Flag
    offset: int
    size: int
    data: int
    note: bytes = b""

    @property
    def is_write(self) -> bool:
        return self.size > 0 and not self.flags & (Flag.DISCARD | Flag.MARK)


def count(path: Path) -> int:
    """The number of entries so far. With qemu's `log-super-update-interval=1` it is exact while
    qemu runs.
    """
    with path.open("rb") as file:
        return _read_super(file.read(SUPER.size))[0]


def _read_super(head: bytes) -> tuple[int, int]:
    if len(head) < SUPER.size:
        raise BadLogError(f"a log begins with {SUPER.size} bytes, here are {len(head)}")
    magic, version, entries, sector_size = SUPER.unpack_from(head)
    if magic != MAGIC:
        raise BadLogError(f"not a log of block writes: it begins with {magic:#x}")
    if version != VERSION or sector_size < ENTRY.size or sector_size & (sector_size - 1):
        raise BadLogError(f"version {version} with sectors of {sector_size} bytes is not known")
    return entries, sector_size


class Log:
    """A whole log, its entries read at once and its data on demand."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        entries, self.sector_size = _read_super(self._map[: SUPER.size])
        self.entries = tuple(self._read(entries))

    def data(self, entry: Entry, start: int = 0, size: int | None = None) -> bytes:
        """The bytes that a write wrote, or `size` of them from `start` on."""
        stop = entry.size if size is None else start + size
        return self._map[entry.data + start : entry.data + stop]

    def _read(self, entries: int) -> Iterator[Entry]:
        at = self.sector_size
        for number in range(entries):
            if at + self.sector_size > len(self._map):
                raise BadLogError(f"the log ends before entry {number} of {entries}")
            sector, sectors, flags, inline = ENTRY.unpack_from(self._map, at)
            if flags & ~KNOWN_FLAGS:
                raise BadLogError(f"entry {number} at byte {at} has unknown flags: {flags:#x}")
            note = (
                self._map[at + ENTRY.size : at + ENTRY.size + inline] if flags & Flag.MARK else b""
            )
            at += self.sector_size
            size = sectors * self.sector_size
            yield Entry(Flag(flags), sector * self.sector_size, size, at, note)
            if not flags & (Flag.DISCARD | Flag.MARK):
                at += size
        if at > len(self._map):
            raise BadLogError(f"the log ends inside the data of entry {entries - 1}")
