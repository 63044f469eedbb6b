"""Block devices, from the file systems down to the disks they lie on.

Sources: /sys/block (kernel: Documentation/ABI/stable/sysfs-block,
Documentation/ABI/testing/sysfs-block-device) and the device paths under /sys/devices; no program is
started and no device is opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, attempt, get_raw, keep_last, lazy, make_shared
from hosttune.facts.reading import (
    derive,
    if_absent,
    names_in,
    read_integer,
    read_line,
    require_known,
)
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.quoting import quote
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
# In the device path, closest to the disk first: a SATA disk behind a SAS expander is reached by
# SAS.
_TRANSPORTS = (
    (regex(r"/usb\d+/"), "usb"),
    (regex(r"/virtio\d+/"), "virtio"),
    (regex(r"/(?:end_device|expander|sas_\w+)-"), "sas"),
    (regex(r"/ata\d+/"), "sata"),
    (regex(r"/mmc_host/"), "mmc"),
    (regex(r"/target\d+:"), "scsi"),
)
# Amazon EC2 (SSD instance store volumes), Azure (temporary NVMe disks), Google Cloud (Local SSD,
# NVMe and SCSI). Amazon EBS, Azure's remote disks (MSFT NVMe Accelerator) and Google's
# (nvme_card-pd) keep what is on them.
_EPHEMERAL = regex(
    r"Amazon EC2 NVMe Instance Storage|Microsoft NVMe Direct Disk.*|nvme_card\d*|EphemeralDisk"
)
# The temporary disk of Azure that is no NVMe: it has the model of all its virtual disks, and rules
# of udev name it (66-azure-ephemeral.rules of cloud-init, 66-azure-storage.rules of WALinuxAgent,
# azure-vm-utils).
_RESOURCES = ("/dev/disk/cloud/azure_resource", "/dev/disk/azure/resource")
# A unit of a storage array, reached over iSCSI or Fibre Channel (kernel: scsi_transport_iscsi.c,
# scsi_transport_fc.c).
_ARRAY = regex(r"/session\d+/|/rport-")
_MOST_COMMANDS = 4
_ALL_DISKS = "sudo hosttune disks"


@frozen
class Disk(Fact):
    """One block device. `is_rotational` is what the kernel says, and nothing to go by where
    `is_virtual`.
    """

    name: str  # nvme0n1p2
    path: str  # /dev/nvme0n1p2, /dev/mapper/vg-data
    kind: str  # disk | partition | dm | md | loop | ram | zram | cdrom
    size_bytes: int  # of the whole device
    is_rotational: bool  # a hard disk, or what looks like one; virtual disks may be wrong about it
    # nvme | sata | sas | virtio | usb | mmc | scsi; empty where there is none, or it is unknown
    transport: str
    model: str  # as the device names itself; empty where it does not
    is_removable: bool  # the kernel calls its medium removable
    can_discard: bool  # it takes discard (TRIM)
    parents: tuple[str, ...]  # the devices it is on directly
    disks: tuple[str, ...]  # the physical disks it ends on; its own name for such a disk
    device: str  # major:minor
    is_read_only: bool  # the kernel lets no one write to it
    # a hypervisor or a storage array is behind it: such disks say they rotate on any medium
    is_virtual: bool = False
    is_resource: bool = False  # udev names it as the temporary disk of an instance of Azure

    @property
    def is_ephemeral(self) -> bool:
        """Whether it is a cloud's own disk of this instance, by its model or for udev: it comes
        back empty after a stop.
        """
        model = get_raw(self, "model")
        is_known = isinstance(model, str) and _EPHEMERAL.fullmatch(model.strip()) is not None
        return is_known or get_raw(self, "is_resource") is True

    @property
    def rotates(self) -> bool:
        """Whether it is a hard disk, as far as this machine can tell."""
        return self.is_rotational and not self.is_virtual


@frozen
class Disks(Subject):
    """All block devices with a medium, by name; paths of a multipath NVMe namespace are left out,
    as in lsblk.
    """

    all: tuple[Disk, ...] = read_with(lambda self: _read_all(self.reader, self.facts))

    @property
    def physical(self) -> tuple[Disk, ...]:
        """Whole disks, as far as this machine can tell: a virtual machine's virtual disks are its
        physical ones.
        """
        return tuple(disk for disk in self.all if disk.kind == "disk")

    @property
    def whole(self) -> tuple[Disk, ...]:
        """Physical disks without a partition, of which nothing else is made either."""
        parents = {parent for disk in self.all for parent in disk.parents}
        return tuple(disk for disk in self.physical if disk.name not in parents)

    @property
    @keep_last
    def attached(self) -> frozenset[str]:
        """The names of loop devices, and of what is made of such only. Any user can attach a file
        (udisks2: loop-setup), and udev assembles the arrays and volume groups on it: what is there
        says nothing of this host.
        """
        loops = frozenset(disk.name for disk in self.all if disk.kind == "loop")
        by_name = self.by_name if loops else {}

        def below(name: str) -> tuple[str, ...]:
            parents = get_raw(by_name[name], "parents") if name in by_name else ()
            return parents if isinstance(parents, tuple) else ()

        return frozenset(
            disk.name
            for disk in by_name.values()
            if get_raw(disk, "disks") == () and end_on(disk.name, below, loops)
        )

    @property
    @keep_last
    def attached_paths(self) -> frozenset[str]:
        """The paths of these, as lsblk and the kernel have them."""
        found = (disk for disk in self.all if disk.name in self.attached)
        return frozenset(
            path for disk in found for path in (str(get_raw(disk, "path")), f"/dev/{disk.name}")
        )

    @property
    def by_device(self) -> Mapping[str, Disk]:
        """Device number (major:minor) -> device."""
        return MappingProxyType(
            {disk.device: disk for disk in self.all if isinstance(get_raw(disk, "device"), str)}
        )

    @property
    def by_name(self) -> Mapping[str, Disk]:
        """Name -> device."""
        return MappingProxyType({disk.name: disk for disk in self.all})


def find_health_commands(facts: Facts, names: Iterable[str]) -> str:
    """The commands that show how the physical disks below these devices are; the command that lists
    all disks if they are not known. A name is the kernel's, a path, or one of /dev/disk/by-id, as
    `zpool status` has it.
    """
    known = attempt(lambda: facts.disks.by_name)
    by_name = known if isinstance(known, Mapping) else {}
    found: dict[str, str] = {}
    for name in names:
        places = (
            facts.reader.resolve(path)
            for path in (name, f"/dev/disk/by-id/{name}")
            if path.startswith("/")
        )
        own = (str(place).rpartition("/")[2] for place in (name, *places) if isinstance(place, str))
        disk = by_name.get(next((one for one in own if one in by_name), ""))
        below = get_raw(disk, "disks") if disk else ()
        for whole in below if isinstance(below, tuple) else ():
            path = f"/dev/{whole}"
            found[whole] = (
                f"sudo nvme smart-log {quote(path)}"
                if whole.startswith("nvme")
                else f"sudo smartctl -a {quote(path)}"
            )
    return "; ".join(list(found.values())[:_MOST_COMMANDS]) or _ALL_DISKS


def kind_of(name: str) -> str:
    """What the kernel's drivers call their whole devices."""
    return next((kind for pattern, kind in _KINDS if re.fullmatch(pattern, name)), "disk")


def transport_of(name: str, path: str) -> str:
    """How a disk is attached, from its name and its canonical path under /sys/devices."""
    if name.startswith("nvme"):
        return "nvme"
    return next((word for pattern, word in _TRANSPORTS if pattern.search(path)), "")


def end_on(
    name: str, below: Callable[[str], tuple[str, ...]], physical: frozenset[str]
) -> tuple[str, ...]:
    """The physical disks under a device, through any number of layers; none for a loop, RAM or zram
    device. `below` tells what a device is on directly.
    """
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        here = waiting.pop()
        # In a record devices can be made of each other in a circle.
        if here in seen:
            continue
        seen.add(here)
        if here in physical:
            found.add(here)
        waiting.extend(below(here))
    return tuple(sorted(found))


def is_volume(reader: Reader, name: str, *, or_unknown: bool) -> bool:
    """Whether a mapped device is a volume of LVM, by its UUID in the kernel (lvm2: libdm,
    UUID_PREFIX); `or_unknown` where it has none that can be read.
    """
    uuid = read_line(reader, f"{_BLOCK}/{name}/dm/uuid")
    return uuid.startswith("LVM-") if isinstance(uuid, str) else or_unknown


def _read_all(reader: Reader, facts: Facts) -> tuple[Disk, ...]:
    found = _DeviceTree(reader, facts)
    # a record can have others
    for name in filter(str.isprintable, require_known(reader.list(_BLOCK), _BLOCK)):
        size_bytes = make_shared(_read_size, reader, f"{_BLOCK}/{name}")
        # Size 0: a loop device without a file, a reader without a card. Hidden: one path of a
        # multipath namespace.
        if (
            attempt(size_bytes) != 0
            and attempt(read_line, reader, f"{_BLOCK}/{name}/hidden") != "1"
        ):
            found.add(name, size_bytes)
    return tuple(found.all[name] for name in sorted(found.all))


class _DeviceTree:
    """The devices of a machine, each with what is below it."""

    def __init__(self, reader: Reader, facts: Facts) -> None:
        self.reader = reader
        self.facts = facts
        self.all: dict[str, Disk] = {}
        self._all_parts = make_shared(
            lambda: _list_partitions(_names_or_none(reader, "/sys/class/block"))
        )
        self._resources = make_shared(lambda: {reader.resolve(path) for path in _RESOURCES})
        # name -> whether that one, by itself, is virtual
        self.physical: dict[str, Callable[[], bool]] = {}

    def add(self, name: str, size_bytes: Callable[[], int]) -> None:
        """A whole device and its partitions, which have no queue of their own: rotation and discard
        are the disk's.
        """
        reader, folder, kind = self.reader, f"{_BLOCK}/{name}", kind_of(name)
        place = make_shared(lambda: require_known(reader.resolve(folder), folder))
        discard = f"{folder}/queue/discard_max_bytes"

        def is_virtual() -> bool:
            where = attempt(place)
            return (
                isinstance(where, str) and _ARRAY.search(where) is not None
            ) or self.facts.host.is_vm

        is_drive = kind in {"disk", "cdrom"}
        whole: dict[str, Any] = {
            "path": lazy(_make_path, reader, name, kind),
            "kind": kind,
            "size_bytes": lazy(size_bytes),
            "is_rotational": lazy(_read_flag, reader, f"{folder}/queue/rotational"),
            "transport": lazy(lambda: transport_of(name, place())) if is_drive else "",
            "model": lazy(lambda: if_absent(read_line(reader, f"{folder}/device/model"), ""))
            if is_drive
            else "",
            "is_removable": lazy(_read_flag, reader, f"{folder}/removable"),
            "can_discard": lazy(
                lambda: derive(read_integer(reader, discard), discard, lambda limit: limit > 0)
            ),
            "parents": lazy(names_in, reader, f"{folder}/slaves") if kind in {"dm", "md"} else (),
            "device": lazy(_read_number, reader, folder),
            "is_read_only": lazy(_read_flag, reader, f"{folder}/ro"),
            "is_resource": lazy(lambda: f"/dev/{name}" in self._resources()) if is_drive else False,
        }
        if kind == "disk":
            self.physical[name] = is_virtual
        self._put(name, is_virtual, whole)
        # A device of the device mapper has no partitions in sysfs: kpartx(8) makes a mapped device
        # of each.
        for part in self._parts(name) if kind in {"disk", "md", "loop"} else ():
            own = f"{folder}/{part}"
            self._put(part, is_virtual, whole | {
                "path": f"/dev/{part.replace('!', '/')}",
                "kind": "partition",
                "size_bytes": lazy(_read_size, reader, own),
                "parents": (name,),
                "device": lazy(_read_number, reader, own),
                "is_read_only": lazy(_read_flag, reader, f"{own}/ro"),
            })  # fmt: skip

    def _parts(self, name: str) -> Iterable[str]:
        names = self.reader.list(f"{_BLOCK}/{name}")
        # a support file names the devices, and not what else is in their folders
        parts = _list_partitions(names) if isinstance(names, tuple) else self._all_parts()
        return parts.get(name, ())

    def _put(self, name: str, is_virtual: Callable[[], bool], values: Mapping[str, Any]) -> None:
        virtual = lazy(self._is_virtual, name, is_virtual)
        self.all[name] = Disk(name=name, disks=lazy(self._ends, name), is_virtual=virtual, **values)

    def _ends(self, name: str) -> tuple[str, ...]:
        return end_on(name, self._below, frozenset(self.physical))

    def _below(self, name: str) -> tuple[str, ...]:
        return self.all[name].parents if name in self.all else ()

    def _is_virtual(self, name: str, is_virtual: Callable[[], bool]) -> bool:
        """What is on a virtual disk is virtual."""
        ends = attempt(self._ends, name)
        below = (attempt(self.physical[one]) for one in ends) if isinstance(ends, tuple) else ()
        return any(one is True for one in below) or is_virtual()


def _make_path(reader: Reader, name: str, kind: str) -> str:
    mapped = attempt(read_line, reader, f"{_BLOCK}/{name}/dm/name") if kind == "dm" else ""
    # sysfs cannot hold a slash: cciss!c0d0
    return (
        f"/dev/mapper/{mapped}"
        if isinstance(mapped, str) and mapped
        else f"/dev/{name.replace('!', '/')}"
    )


def _read_number(reader: Reader, folder: str) -> str:
    return require_known(read_line(reader, f"{folder}/dev"), f"{folder}/dev")


def _read_size(reader: Reader, folder: str) -> int:
    return derive(
        read_integer(reader, f"{folder}/size"), f"{folder}/size", lambda sectors: sectors * _SECTOR
    )


def _read_flag(reader: Reader, path: str) -> bool:
    return derive(read_line(reader, path), path, lambda word: word == "1")


def _names_or_none(reader: Reader, folder: str) -> tuple[str, ...]:
    names = reader.list(folder)
    return names if isinstance(names, tuple) else ()


def _list_partitions(names: Iterable[str]) -> dict[str, list[str]]:
    """The partitions among these devices, by the disk: sda1 is of sda, nvme0n1p1 of nvme0n1."""
    found: dict[str, list[str]] = {}
    for name in names:
        stem = name.rstrip("0123456789")
        is_numbered = stem[-1:] == "p" and stem[-2:-1].isdigit()
        if stem != name:
            found.setdefault(stem[:-1] if is_numbered else stem, []).append(name)
    return found
