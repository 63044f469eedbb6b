"""Request queues of disks: who orders requests, and how far ahead of a reader the kernel reads.

Sources: kernel, Documentation/ABI/stable/sysfs-block (queue/scheduler, queue/read_ahead_kb) and
block/elevator.c (elevator_get_default: mq-deadline for a disk with one hardware queue, else none);
block/blk-settings.c (disk_update_readahead: twice the optimal size of a request, at least 128 KiB);
dm-multipath's uuid (`mpath-`); mdadm, udev-md-raid-arrays.rules (MD_UUID, and the command that
prints it).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy
from hosttune.facts.reading import (
    derive,
    if_absent,
    names_in,
    read_integer,
    read_line,
    read_text,
    require_known,
)
from hosttune.facts.storage.disks import Disk
from hosttune.facts.subject import Subject, read_with
from hosttune.facts.sysfs import scheduler_modules
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_KINDS = frozenset({"disk", "dm", "md"})
# Unlike ENV{ID_*} there before any udev rule has run. A virtio disk has `serial` alone
# (drivers/block/virtio_blk.c).
_IDENTITIES = ("device/wwid", "wwid", "dm/uuid", "md/uuid", "serial")
_PORT = regex(r"[\w.:/-]+")
_PLAIN = regex(r"[\w.:-](?:[\w.: -]*[\w.:-])?")  # no wildcard and no quote
# A kernel without md/uuid: udev's own rule asks mdadm, too late for ours. RESULT is what PROGRAM
# prints, in one text.
_BY_MD_UUID = (
    'PROGRAM=="/sbin/mdadm --detail --no-devices --export $devnode", RESULT=="*MD_UUID={}*"'
)
_MD_UUID = regex(r"(?m)^E:MD_UUID=([0-9a-f]{8}(?::[0-9a-f]{8}){3})$")
# Numbers in the path of a device that the kernel counts up as it finds devices, so that they differ
# from boot to boot.
_COUNTED = regex(r"/(?:host\d+|target\d+:|\d+:(?=\d+:\d+:\d+/)|virtio\d+|session\d+|nvme\d+)")
_LEAST_READ_AHEAD_KIB = 128  # VM_READAHEAD_PAGES
_CHOSEN = regex(r"\[([\w-]+)\]")


@frozen
class Queue(Fact):
    """The queue of a whole disk, or of a device that is made of disks. Its partitions share it."""

    name: str  # sda, dm-0, md127
    kind: str  # disk | dm | md
    transport: str  # as of Disk
    is_rotational: bool  # what the kernel says: virtual disks often say true on any medium
    is_path: bool  # one of several ways to the same disk, below dm-multipath
    scheduler: str  # none, mq-deadline ...
    hardware_queues: int  # 0 for a device that has no queue of requests (dm, md)
    read_ahead_kib: int  # queue/read_ahead_kb
    targets: tuple[str, ...]  # where its own file systems with data are mounted
    # a udev match on this very device: by what stays when its name changes, else by that name
    match: str
    has_deadline: bool = True  # mq-deadline is a part of the kernel, no module of it
    kernel_read_ahead_kib: int = _LEAST_READ_AHEAD_KIB  # what the kernel chooses by itself

    @property
    def medium(self) -> str:
        """How its requests are best ordered: nvme, hdd, ssd."""
        return "nvme" if self.transport == "nvme" else "hdd" if self.is_rotational else "ssd"

    @property
    def kernel_scheduler(self) -> str:
        """What the kernel chooses by itself."""
        return "none" if self.hardware_queues > 1 or not self.has_deadline else "mq-deadline"


@frozen
class Queues(Subject):
    """Queues by name."""

    all: tuple[Queue, ...] = read_with(lambda self: _read_all(self.reader, self.facts))

    @property
    def attached(self) -> tuple[Queue, ...]:
        """Those of disks that a controller of this machine holds, each reached one way; no USB
        sticks, no cards.
        """
        kinds = ("nvme", "sata", "sas", "scsi")
        return tuple(queue for queue in self.all if queue.transport in kinds and not queue.is_path)


def chosen_scheduler(content: str) -> str:
    """`mq-deadline kyber [none]` -> none; a device without a choice shows the word alone."""
    match = _CHOSEN.search(content)
    return match[1] if match else content


def _read_all(reader: Reader, facts: Facts) -> tuple[Queue, ...]:
    disks = [disk for disk in facts.disks.all if disk.kind in _KINDS]
    names = {disk.name: _match(reader, disk.name) or _by_array(reader, disk) for disk in disks}
    # A copied virtual disk, or one path of several, has the identity of another disk. A match by it
    # would set both.
    times = Counter(names.values())
    matches = {
        disk.name: one if (one := names[disk.name]) and times[one] == 1 else _by_place(reader, disk)
        for disk in disks
    }
    paths = {parent for disk in disks if disk.kind == "dm" for parent in _paths_of(reader, disk)}
    return tuple(
        _read_queue(reader, facts, disk, disk.name in paths, matches[disk.name]) for disk in disks
    )


def _paths_of(reader: Reader, disk: Disk) -> tuple[str, ...]:
    """The ways to a disk of dm-multipath; none where they are not known, and for any other
    device.
    """
    uuid = attempt(read_line, reader, f"/sys/block/{disk.name}/dm/uuid")
    if not (isinstance(uuid, str) and uuid.startswith("mpath-")):
        return ()
    try:
        return disk.parents
    except UnknownFact:
        return ()


def _list_targets(facts: Facts, disk: Disk) -> tuple[str, ...]:
    """The data mounts of this device and of its partitions."""
    parts = (
        one for one in facts.disks.all if one.kind == "partition" and one.parents == (disk.name,)
    )
    own = {disk.device, *(one.device for one in parts)}
    return tuple(mount.target for mount in facts.mounts.local_data if mount.device in own)


def _read_queue(reader: Reader, facts: Facts, disk: Disk, is_path: bool, match: str) -> Queue:  # noqa: FBT001 - as in the dataclass
    folder = f"/sys/block/{disk.name}"
    scheduler, ahead = f"{folder}/queue/scheduler", f"{folder}/queue/read_ahead_kb"
    return Queue(
        name=disk.name,
        kind=disk.kind,
        transport=lazy(lambda: disk.transport),
        is_rotational=lazy(lambda: disk.is_rotational),
        is_path=is_path,
        scheduler=lazy(lambda: derive(read_line(reader, scheduler), scheduler, chosen_scheduler)),
        hardware_queues=lazy(lambda: len(names_in(reader, f"{folder}/mq"))),
        read_ahead_kib=lazy(lambda: require_known(read_integer(reader, ahead), ahead)),
        targets=lazy(_list_targets, facts, disk),
        match=match,
        has_deadline=lazy(lambda: "mq-deadline" not in scheduler_modules(reader)),
        kernel_read_ahead_kib=lazy(_kernel_read_ahead, reader, folder),
    )


def _kernel_read_ahead(reader: Reader, folder: str) -> int:
    optimal = if_absent(read_integer(reader, f"{folder}/queue/optimal_io_size"), 0)
    return max(2 * optimal // 1024, _LEAST_READ_AHEAD_KIB)


def _match(reader: Reader, name: str) -> str:
    """What a device says of itself; empty where that is nothing that udev could match."""
    for attribute in _IDENTITIES:
        identity = attempt(read_line, reader, f"/sys/block/{name}/{attribute}")
        if isinstance(identity, str) and _PLAIN.fullmatch(identity):
            return f'ATTR{{{attribute}}}=="{identity}"'
    return ""


def _by_array(reader: Reader, disk: Disk) -> str:
    """An md array by the UUID that udev has of it: /dev/md0 may be /dev/md127 after the next
    boot.
    """
    rows = (
        attempt(lambda: read_text(reader, f"/run/udev/data/b{disk.device}"))
        if disk.kind == "md"
        else ""
    )
    found = _MD_UUID.search(rows) if isinstance(rows, str) else None
    return _BY_MD_UUID.format(found[1]) if found else ""


def _by_place(reader: Reader, disk: Disk) -> str:
    """A disk without an identity by the port that it is on: the letters of names change. Others by
    name, which mdadm.conf and LVM set.
    """
    path = reader.resolve(f"/sys/block/{disk.name}") if disk.kind == "disk" else ""
    folder = path.rpartition("/")[0].removeprefix("/sys") if isinstance(path, str) else ""
    if not folder.startswith("/devices/pci") or not _PORT.fullmatch(folder):
        return f'KERNEL=="{disk.name}"'
    # The number of a controller differs from boot to boot, that of a namespace on it does not.
    namespace = disk.name.rpartition("n")[2] if disk.name.startswith("nvme") else ""
    name = f"nvme*n{namespace}" if namespace else "*"
    return f'DEVPATH=="{_COUNTED.sub(_number_as_any, folder)}/{name}"'


def _number_as_any(match: re.Match[str]) -> str:
    """`/host2` -> `/host*`, `/target2:` -> `/target*:`, `/2:` -> `/*:`."""
    return re.sub(r"\d+", "*", match[0])
