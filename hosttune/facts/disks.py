"""Block devices from /sys/block, down through dm and md to the disks they lie on.

Sources: Documentation/ABI/stable/sysfs-block (size in 512-byte sectors, queue/rotational, queue/discard_max_bytes), sysfs(5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, unread
from hosttune.facts.reading import integer, known, line
from hosttune.values import ABSENT, Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_BLOCK = "/sys/block"
_SECTOR = 512  # bytes, whatever the disk's own sector size (sysfs-block)
_KINDS = (
    (r"loop\d+", "loop"),
    (r"ram\d+", "ram"),
    (r"zram\d+", "zram"),
    (r"dm-\d+", "dm"),
    (r"md[\d_].*", "md"),
    (r"sr\d+", "cdrom"),
)
_SATA = re.compile(r"/ata\d+/")
_SAS = re.compile(r"/(?:end_device|sas_device|port)-\d+:")


@dataclass(frozen=True, slots=True)
class Disk(Fact):
    """One block device: a disk, a partition, or what device-mapper, md, loop or zram make of others."""

    name: str  # nvme0n1, sda1, dm-0
    path: str  # /dev/nvme0n1
    kind: str  # disk | partition | dm | md | loop | ram | zram | cdrom
    size_bytes: int
    is_rotational: bool  # what the device reports; some virtual disks report it wrongly
    transport: str  # nvme | virtio | usb | sata | sas | scsi | mmc, or empty
    model: str
    is_removable: bool
    can_discard: bool
    parents: tuple[str, ...]  # what it lies on, one level down
    disks: tuple[str, ...]  # the disks it ends on
    device: str  # major:minor
    is_read_only: bool


@dataclass(frozen=True, slots=True)
class Disks(Fact):
    """All block devices, by name."""

    all: tuple[Disk, ...]

    @property
    def physical(self) -> tuple[Disk, ...]:
        """Disks that are not made of others, and hold something."""
        return tuple(disk for disk in self.all if disk.kind == "disk" and disk.size_bytes > 0)

    @property
    def whole(self) -> tuple[Disk, ...]:
        """Physical disks that hold no partition and that nothing is made of."""
        parents = {parent for disk in self.all for parent in disk.parents}
        return tuple(disk for disk in self.physical if disk.name not in parents)

    @property
    def by_device(self) -> Mapping[str, Disk]:
        """Devices by major:minor."""
        return {disk.device: disk for disk in self.all}

    @property
    def by_name(self) -> Mapping[str, Disk]:
        return {disk.name: disk for disk in self.all}


def kind_of(name: str) -> str:
    """The kind of a device of /sys/block by its name (partitions are found below their disk)."""
    return next((kind for pattern, kind in _KINDS if re.fullmatch(pattern, name)), "disk")


def transport_of(name: str, place: str, driver: str) -> str:
    """How a disk is attached, from its name, its place in the device tree and its driver."""
    if name.startswith("nvme"):
        return "nvme"
    if driver == "virtio_blk" or "/virtio" in place:
        return "virtio"
    if name.startswith("mmcblk"):
        return "mmc"
    if "/usb" in place:
        return "usb"
    if _SATA.search(place):
        return "sata"
    if _SAS.search(place):
        return "sas"
    return "scsi" if name.startswith("sd") else ""


def collect(reader: Reader, facts: Facts) -> Disks:  # noqa: ARG001 - the interface of all subjects
    names = reader.list(_BLOCK)
    if isinstance(names, Unreadable):
        return Disks(known(names, _BLOCK))
    found: list[_Found] = []
    for name in names if isinstance(names, tuple) else ():
        found += _below(reader, name)
    return Disks(tuple(_disk(one, found) for one in found))


@dataclass(frozen=True, slots=True)
class _Found:
    name: str
    kind: str
    folder: str  # where its attributes are
    queue: str  # where the attributes of its queue are: a partition has its disk's
    place: str
    parents: tuple[str, ...]
    reader: Reader


def _below(reader: Reader, name: str) -> list[_Found]:
    """A device of /sys/block and its partitions."""
    folder = f"{_BLOCK}/{name}"
    resolved = reader.resolve(folder)
    place = resolved if isinstance(resolved, str) else folder
    slaves = reader.list(f"{folder}/slaves")
    parents = slaves if isinstance(slaves, tuple) else ()
    found = [_Found(name, kind_of(name), folder, folder, place, parents, reader)]
    entries = reader.list(folder)
    for entry in entries if isinstance(entries, tuple) else ():
        if entry.startswith(name) and reader.stat(f"{folder}/{entry}/partition") is not ABSENT:
            found.append(_Found(entry, "partition", f"{folder}/{entry}", folder, place, (name,), reader))
    return found


def _disk(one: _Found, found: list[_Found]) -> Disk:
    reader, queue = one.reader, f"{one.queue}/queue"
    driver = reader.link(f"{one.queue}/device/driver") if one.kind in {"disk", "partition"} else ABSENT
    model = line(reader, f"{one.queue}/device/model")
    ends = _ends(one.name, {other.name: other.parents for other in found})
    return Disk(
        name=one.name,
        path=f"/dev/{one.name.replace('!', '/')}",
        kind=one.kind,
        size_bytes=_number(integer(reader, f"{one.folder}/size"), _SECTOR),
        is_rotational=_flag(integer(reader, f"{queue}/rotational")),
        transport=transport_of(one.name, one.place, driver.rpartition("/")[2] if isinstance(driver, str) else ""),
        model=model if isinstance(model, str) else "",
        is_removable=_flag(integer(reader, f"{one.queue}/removable")),
        can_discard=_flag(integer(reader, f"{queue}/discard_max_bytes")),
        parents=one.parents,
        disks=ends,
        device=known(line(reader, f"{one.folder}/dev"), f"{one.folder}/dev"),
        is_read_only=_flag(integer(reader, f"{one.folder}/ro")),
    )


def _ends(name: str, parents: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The devices at the bottom, each once. Raises nothing for a loop, which the kernel does not allow."""

    @cache
    def below(one: str) -> frozenset[str]:
        direct = parents.get(one, ())
        return frozenset().union(*(below(parent) for parent in direct)) if direct else frozenset({one})

    return tuple(sorted(below(name)))


def _number(answer: Answer[int], unit: int = 1) -> Any:
    if isinstance(answer, int):
        return answer * unit
    return 0 if answer is ABSENT else unread(answer.reason)


def _flag(answer: Answer[int]) -> Any:
    if isinstance(answer, int):
        return answer > 0
    return False if answer is ABSENT else unread(answer.reason)
