"""Block devices, from the file systems down to the disks they lie on.

Sources: /sys/block (kernel: Documentation/ABI/stable/sysfs-block, Documentation/ABI/testing/sysfs-block-device) and the
device paths under /sys/devices; no program is started and no device is opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, raw
from hosttune.facts.reading import derived, integer, known, line
from hosttune.frozen import frozen
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_BLOCK = "/sys/block"
_SECTOR = 512  # `size` counts these, whatever the device's own sectors are
_KINDS = (
    (r"dm-\d+", "dm"),
    (r"md[\d_].*", "md"),
    (r"loop\d+", "loop"),
    (r"zram\d+", "zram"),
    (r"ram\d+", "ram"),
    (r"sr\d+", "cdrom"),
)
# In the device path, closest to the disk first: a SATA disk behind a SAS expander is reached by SAS.
_TRANSPORTS = (
    (re.compile(r"/usb\d+/"), "usb"),
    (re.compile(r"/virtio\d+/"), "virtio"),
    (re.compile(r"/(?:end_device|expander|sas_\w+)-"), "sas"),
    (re.compile(r"/ata\d+/"), "sata"),
    (re.compile(r"/mmc_host/"), "mmc"),
    (re.compile(r"/target\d+:"), "scsi"),
)
# Amazon EC2 (SSD instance store volumes), Azure (temporary NVMe disks), Google Cloud (Local SSD, NVMe and SCSI). Amazon
# EBS, Azure's remote disks (MSFT NVMe Accelerator) and Google's (nvme_card-pd) keep what is on them.
_EPHEMERAL = re.compile(r"Amazon EC2 NVMe Instance Storage|Microsoft NVMe Direct Disk.*|nvme_card\d*|EphemeralDisk")
# A unit of a storage array, reached over iSCSI or Fibre Channel (kernel: scsi_transport_iscsi.c, scsi_transport_fc.c).
_ARRAY = re.compile(r"/session\d+/|/rport-")


@frozen
class Disk(Fact):
    """One block device. `is_rotational` is what the kernel says, and nothing to go by where `is_virtual`."""

    name: str  # nvme0n1p2
    path: str  # /dev/nvme0n1p2, /dev/mapper/vg-data
    kind: str  # disk | partition | dm | md | loop | ram | zram | cdrom
    size_bytes: int
    is_rotational: bool
    transport: str  # nvme | sata | sas | virtio | usb | mmc | scsi; empty where there is none, or it is unknown
    model: str
    is_removable: bool
    can_discard: bool
    parents: tuple[str, ...]  # the devices it lies on directly
    disks: tuple[str, ...]  # the physical disks it ends on; its own name for such a disk
    device: str  # major:minor
    is_read_only: bool
    is_virtual: bool = (
        False  # a hypervisor or a storage array stands behind it: such disks say they rotate on any medium
    )

    @property
    def is_ephemeral(self) -> bool:
        """Whether it is a cloud's own disk of this instance, by its model: it comes back empty after a stop."""
        model = raw(self, "model")
        return isinstance(model, str) and _EPHEMERAL.fullmatch(model.strip()) is not None

    @property
    def rotates(self) -> bool:
        """Whether it is a hard disk, as far as this machine can tell."""
        return self.is_rotational and not self.is_virtual


@frozen
class Disks(Fact):
    """All block devices with a medium, by name; paths of a multipath NVMe namespace are left out, as in lsblk."""

    all: tuple[Disk, ...]

    @property
    def physical(self) -> tuple[Disk, ...]:
        """Whole disks, as far as this machine can tell: a virtual machine's virtual disks are its physical ones."""
        return tuple(disk for disk in self.all if disk.kind == "disk")

    @property
    def whole(self) -> tuple[Disk, ...]:
        """Physical disks without a partition, of which nothing else is made either."""
        parents = {parent for disk in self.all for parent in disk.parents}
        return tuple(disk for disk in self.physical if disk.name not in parents)

    @property
    def by_device(self) -> Mapping[str, Disk]:
        """Device number (major:minor) -> device."""
        return MappingProxyType({disk.device: disk for disk in self.all if isinstance(raw(disk, "device"), str)})

    @property
    def by_name(self) -> Mapping[str, Disk]:
        """Name -> device."""
        return MappingProxyType({disk.name: disk for disk in self.all})


def kind_of(name: str) -> str:
    """What the kernel's drivers call their whole devices."""
    return next((kind for pattern, kind in _KINDS if re.fullmatch(pattern, name)), "disk")


def transport_of(name: str, path: str) -> str:
    """How a disk is attached, from its name and its canonical path under /sys/devices."""
    if name.startswith("nvme"):
        return "nvme"
    return next((word for pattern, word in _TRANSPORTS if pattern.search(path)), "")


def end_on(name: str, parents: Mapping[str, object], physical: frozenset[str]) -> Any:
    """The physical disks under a device, through any number of layers; none for a loop, RAM or zram device. Unreadable
    where a layer is."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        if here in physical:
            found.add(here)
        below = parents.get(here, ())
        if isinstance(below, Unreadable):
            return below
        waiting.extend(below if isinstance(below, tuple) else ())
    return tuple(sorted(found))


def collect(reader: Reader, facts: Facts) -> Disks:
    names = reader.list(_BLOCK)
    if not isinstance(names, tuple):
        return Disks(known(names, _BLOCK))
    is_vm = raw(facts.host, "is_vm")
    found: list[Disk] = []
    for name in names:
        size = integer(reader, f"{_BLOCK}/{name}/size")
        # Size 0: a loop device without a file, a reader without a card. Hidden: one path of a multipath namespace.
        if size != 0 and line(reader, f"{_BLOCK}/{name}/hidden") != "1":
            whole = _whole(reader, name, size, is_vm)
            found.extend((whole, *_partitions(reader, whole)))
    parents = {disk.name: raw(disk, "parents") for disk in found}
    physical = frozenset(disk.name for disk in found if disk.kind == "disk")
    ended = [_with(disk, disks=end_on(disk.name, parents, physical)) for disk in found]
    arrays = {disk.name for disk in found if raw(disk, "is_virtual") is True}
    return Disks(tuple(sorted((_on(disk, arrays) for disk in ended), key=lambda disk: disk.name)))


def _on(disk: Disk, arrays: set[str]) -> Disk:
    """What lies on a virtual disk is virtual."""
    below = raw(disk, "disks")
    return _with(disk, is_virtual=True) if isinstance(below, tuple) and arrays & set(below) else disk


def _with(disk: Disk, **values: Any) -> Disk:
    """A copy with other values; `dataclasses.replace` would touch the fields that could not be read."""
    slots: Any = Disk.__slots__
    return Disk(**{name: raw(disk, name) for name in slots} | values)


def _whole(reader: Reader, name: str, size: Any, is_vm: Any) -> Disk:
    folder = f"{_BLOCK}/{name}"
    kind = kind_of(name)
    place = reader.resolve(folder)
    path = f"/dev/{name.replace('!', '/')}"  # sysfs cannot hold a slash: cciss!c0d0
    if kind == "dm":
        mapped = line(reader, f"{folder}/dm/name")
        path = f"/dev/mapper/{mapped}" if isinstance(mapped, str) and mapped else path
    slaves = reader.list(f"{folder}/slaves") if kind in {"dm", "md"} else ()
    discard = f"{folder}/queue/discard_max_bytes"
    model = line(reader, f"{folder}/device/model") if kind in {"disk", "cdrom"} else ""
    return Disk(
        name=name,
        path=path,
        kind=kind,
        size_bytes=derived(size, f"{folder}/size", lambda sectors: sectors * _SECTOR),
        is_rotational=_flag(reader, f"{folder}/queue/rotational"),
        transport=derived(place, folder, lambda where: transport_of(name, where) if kind in {"disk", "cdrom"} else ""),
        model=model if isinstance(model, (str, Unreadable)) else "",  # type: ignore[arg-type]
        is_removable=_flag(reader, f"{folder}/removable"),
        can_discard=derived(integer(reader, discard), discard, lambda limit: limit > 0),
        parents=slaves if isinstance(slaves, (tuple, Unreadable)) else (),  # type: ignore[arg-type]
        disks=(),
        device=known(line(reader, f"{folder}/dev"), f"{folder}/dev"),
        is_read_only=_flag(reader, f"{folder}/ro"),
        is_virtual=True if isinstance(place, str) and _ARRAY.search(place) else is_vm,
    )


def _flag(reader: Reader, path: str) -> Any:
    return derived(line(reader, path), path, lambda word: word == "1")


def _partitions(reader: Reader, whole: Disk) -> tuple[Disk, ...]:
    names = reader.list(f"{_BLOCK}/{whole.name}") if whole.kind in {"disk", "md", "loop"} else ()
    prefix = whole.name + ("p" if whole.name[-1].isdigit() else "")
    folders = (name for name in (names if isinstance(names, tuple) else ()) if name.startswith(prefix))
    return tuple(_partition(reader, whole, name) for name in folders if name.removeprefix(prefix).isdecimal())


def _partition(reader: Reader, whole: Disk, name: str) -> Disk:
    """A partition has no queue of its own: rotation and discard are the disk's."""
    folder = f"{_BLOCK}/{whole.name}/{name}"
    return _with(
        whole,
        name=name,
        path=f"/dev/{name.replace('!', '/')}",
        kind="partition",
        size_bytes=derived(integer(reader, f"{folder}/size"), folder, lambda sectors: sectors * _SECTOR),
        parents=(whole.name,),
        device=known(line(reader, f"{folder}/dev"), f"{folder}/dev"),
        is_read_only=_flag(reader, f"{folder}/ro"),
    )
