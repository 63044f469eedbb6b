"""Local NVMe disks that nothing uses, and what is on them.

Nothing is taken for blank that was not looked at: udev and blkid(8) name what they know, wipefs(8)
lists every signature (it writes nothing by itself), and the first megabytes are compared with
zeros, because databases and storage engines that take a raw disk leave no signature that libblkid
knows. Only root can do the last two.

Sources: kernel: Documentation/ABI/stable/sysfs-block (holders); wipefs(8); cmp(1).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy
from hosttune.facts.reading import names_in, read_line, run_looking
from hosttune.facts.storage.claims import find_claimed
from hosttune.facts.storage.mounts import LOCAL_TYPES
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.facts.storage.disks import Disk
    from hosttune.facts.storage.filesystems import Filesystem
    from hosttune.host.door import Reader

_LOOKED_AT = 16 << 20  # bytes at the beginning that have to be zeros


@frozen
class SpareDisk(Fact):
    """A disk that is not mounted, no swap, no part of anything, and that nothing claims
    (facts/storage/claims.py).
    """

    name: str  # nvme2n1
    path: str  # /dev/nvme2n1
    size_bytes: int  # of the whole device
    is_ephemeral: bool  # a cloud's own disk of this instance: it comes back empty
    is_blank: bool  # no partition, no signature, zeros at its beginning
    fstype: str  # of a plain file system on it, or on its only partition; empty where there is none
    tags: tuple[str, ...]  # what fstab may call that file system, its UUID first


@frozen
class Spare(Subject):
    """All of them, by name."""

    all: tuple[SpareDisk, ...] = read_with(lambda self: _find_all(self.reader, self.facts))


def make_wipefs(path: str) -> tuple[str, ...]:
    """The question which signatures are on a device."""
    return ("wipefs", "--no-act", "--json", "--output", "OFFSET,TYPE", path)


def make_comparison(path: str) -> tuple[str, ...]:
    """The question whether a device begins with zeros: status 0 says yes, 1 no."""
    return ("cmp", "--silent", f"--bytes={_LOOKED_AT}", path, "/dev/zero")


def _find_all(reader: Reader, facts: Facts) -> tuple[SpareDisk, ...]:
    used = _find_used(facts)
    disks = [
        disk for disk in facts.disks.physical if disk.transport == "nvme" and disk.name not in used
    ]
    free = [
        disk for disk in disks if _is_local(reader, disk.name) and not _is_held(reader, facts, disk)
    ]
    names = find_claimed(reader, facts) if free else frozenset()
    return tuple(
        _make_spare(reader, facts, disk) for disk in free if not _is_claimed(facts, disk, names)
    )


def _find_used(facts: Facts) -> frozenset[str]:
    """The disks below mounts, swap and every device that is made of others."""
    swaps = {swap.path for swap in facts.memory.swaps}
    made = (disk for disk in facts.disks.all if disk.kind != "partition" and disk.parents)
    below = {name for disk in made for name in disk.disks}
    swapped = {name for disk in facts.disks.all if disk.path in swaps for name in disk.disks}
    return frozenset({*facts.mounts.used_disks, *below, *swapped})


def _is_local(reader: Reader, name: str) -> bool:
    """Whether it sits in this machine: a disk over a network may be another host's. Raises
    UnknownFact.
    """
    folder = f"/sys/block/{name}/device"
    names = reader.list(folder)
    controllers = (
        [one for one in names if re.fullmatch(r"nvme\d+", one)] if isinstance(names, tuple) else []
    )
    files = [f"{folder}/{one}/transport" for one in controllers] or [f"{folder}/transport"]
    transports = [read_line(reader, file) for file in files]
    # A disk of another host may look the same from here, and nothing may be mounted or made on it.
    if ABSENT in transports:
        raise UnknownFact(f"{name} does not say how it is attached")
    return all(transport == "pcie" for transport in transports)


def _find_family(facts: Facts, disk: Disk) -> tuple[Disk, ...]:
    return (
        disk,
        *(
            one
            for one in facts.disks.all
            if one.kind == "partition" and one.parents == (disk.name,)
        ),
    )


def _is_held(reader: Reader, facts: Facts, disk: Disk) -> bool:
    """Whether something holds it, or has it mounted in a namespace of its own. Raises
    UnknownFact.
    """
    family = _find_family(facts, disk)
    folders = [
        f"/sys/block/{disk.name}" + (f"/{one.name}" if one is not disk else "") for one in family
    ]
    if any(names_in(reader, f"{folder}/holders") for folder in folders):
        return True
    names = {one.name for one in family}
    # While it is mounted anywhere, btrfs has a folder by UUID there, all others one by device.
    folders = [f"/sys/fs/{fstype}" for fstype in LOCAL_TYPES] + [
        f"/sys/fs/btrfs/{pool}/devices" for pool in _list_names(reader, "/sys/fs/btrfs")
    ]
    return any(names & set(_list_names(reader, folder)) for folder in folders)


def _is_claimed(facts: Facts, disk: Disk, names: frozenset[str]) -> bool:
    family = _find_family(facts, disk)
    paths = {one.path for one in family}
    return not names.isdisjoint(
        paths | {tag.casefold() for held in _find_held(facts, family) for tag in held.tags}
    )


def _list_names(reader: Reader, folder: str) -> tuple[str, ...]:
    names = reader.list(folder)
    return names if isinstance(names, tuple) else ()


def _find_held(facts: Facts, family: tuple[Disk, ...]) -> Iterator[Filesystem]:
    paths = {one.path for one in family}
    return (one for one in facts.filesystems.all if one.path in paths)


def _make_spare(reader: Reader, facts: Facts, disk: Disk) -> SpareDisk:
    family = _find_family(facts, disk)
    held = list(_find_held(facts, family))
    attached = facts.disks.attached_paths
    # Two of one UUID are a pool of btrfs, a copy, a snapshot; what users attach is none of them.
    uuids = [one.uuid for one in facts.filesystems.all if one.path not in attached]
    plain = [
        one for one in held if one.fstype in LOCAL_TYPES and one.uuid and uuids.count(one.uuid) == 1
    ]
    # With a second partition the disk has a use that one file system does not show.
    is_plain = len(held) == len(plain) == 1 and len(family) <= 2
    return SpareDisk(
        name=disk.name,
        path=disk.path,
        size_bytes=lazy(lambda: disk.size_bytes),
        is_ephemeral=disk.is_ephemeral,
        is_blank=False
        if held or len(family) > 1 or disk.is_read_only
        else lazy(is_blank, reader, disk.path),
        fstype=plain[0].fstype if is_plain else "",
        tags=plain[0].tags if is_plain else (),
    )


def is_blank(reader: Reader, path: str) -> bool:
    """Whether a device holds nothing: no signature, and zeros at its beginning. Raises UnknownFact
    where that was not looked at.
    """
    if not reader.is_privileged:
        raise UnknownFact(f"only root can see whether {path} is blank")
    signatures = run_looking(reader, make_wipefs(path))
    try:
        listed = json.loads(signatures.text or "{}").get("signatures")
    except (ValueError, AttributeError, RecursionError):
        raise UnknownFact(f"wipefs printed no list of the signatures on {path}") from None
    return not listed and run_looking(reader, make_comparison(path), (0, 1)).status == 0
