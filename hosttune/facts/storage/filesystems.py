"""What block devices hold, mounted or not: file systems, swap, RAID and LVM members, with the tags
that fstab names.

udev keeps what it probed (`lsblk` prints it, for every user). Where no udev runs, blkid(8) probes
the devices itself, which needs root.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, keep_last, lazy
from hosttune.facts.reading import derive, hint, names_in, run_looking
from hosttune.facts.storage.disks import is_volume
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.storage.disks import Disk
    from hosttune.host.door import Reader

UDEV = "/run/udev/control"
# util-linux 2.33 and newer. No tree: a device below two others is named once.
LSBLK = ("lsblk", "--json", "--list", "--output", "NAME,PATH,FSTYPE,LABEL,UUID,PARTLABEL,PARTUUID")
BLKID = ("blkid", "-c", "/dev/null", "-o", "export")  # without its cache file, which it would write
_COLUMNS = ("fstype", "label", "uuid", "partlabel", "partuuid")
_BLKID_COLUMNS = ("TYPE", "LABEL", "UUID", "PARTLABEL", "PARTUUID")
_KINDS = {"zfs_member": "ZFS", "LVM2_member": "LVM", "linux_raid_member": "RAID"}
# What is a part of something else, and nothing to mount.
MEMBERS = frozenset({
    "linux_raid_member", "LVM2_member", "crypto_LUKS", "zfs_member", "bcache", "ceph_bluestore",
    "drbd", "isw_raid_member", "ddf_raid_member", "VMFS_volume_member", "mpath_member",
})  # fmt: skip


@frozen
class Filesystem(Fact):
    """One device with a signature. Empty words where it has none of that."""

    name: str  # sda1, dm-0, data (of /dev/mapper/data): the last part of its path
    path: str  # /dev/sda1, /dev/mapper/data
    fstype: str  # ext4, xfs, swap, LVM2_member ...; empty where only the partition has a name
    label: str  # LABEL=; empty without one
    uuid: str  # UUID=; empty without one
    part_label: str  # PARTLABEL=; empty without one
    part_uuid: str  # PARTUUID=; empty without one

    @property
    def is_member(self) -> bool:
        """Whether it is a part of a RAID, a volume group, an encrypted device ..., and cannot be
        mounted itself.
        """
        return self.fstype in MEMBERS

    @property
    def tags(self) -> tuple[str, ...]:
        """What fstab may call it: `UUID=...`, `LABEL=...`, `PARTUUID=...`, `PARTLABEL=...`, its
        path.
        """
        named = (
            ("UUID", self.uuid),
            ("LABEL", self.label),
            ("PARTUUID", self.part_uuid),
            ("PARTLABEL", self.part_label),
        )
        return (*(f"{key}={value}" for key, value in named if value), self.path)


_ZFS_CACHE = "/etc/zfs/zfs-list.cache"
_POOL = regex(r"[A-Za-z][\w.: -]{0,254}")  # zpoolconcepts(7)
_MOST_REQUIRED = 6


@frozen
class IdleGroup(Fact):
    """Devices that are parts of a pool, a volume group or an array that is not up."""

    kind: str  # ZFS | LVM | RAID
    name: str  # of the pool or array; empty of LVM, which tells its name to root alone
    paths: tuple[str, ...]  # the devices of one group, array or pool
    # of ZFS: folders that no boot can do without (zfs-mount-generator(8))
    required: tuple[str, ...] = ()


@frozen
class Filesystems(Subject):
    """All devices that hold something, by path."""

    all: tuple[Filesystem, ...] = read_with(lambda self: _read_all(self.reader))

    @fact
    def idle(self) -> tuple[IdleGroup, ...]:
        """What is not up, though parts of it are there."""
        return () if self.reader.persistent_only else _find_idle(self.reader, self.facts)

    @property
    @keep_last
    def by_path(self) -> Mapping[str, Filesystem]:
        """Device path -> what is on it."""
        return MappingProxyType({one.path: one for one in self.all})

    @property
    @keep_last
    def by_tag(self) -> Mapping[str, Filesystem]:
        """`UUID=...` and the other tags, and paths -> what is on the device; a tag of two devices
        names neither.
        """
        found: dict[str, list[Filesystem]] = {}
        for one in self.all:
            for tag in one.tags:
                found.setdefault(tag, []).append(one)
        return MappingProxyType({tag: same[0] for tag, same in found.items() if len(same) == 1})


def _escape_breaks(word: str) -> str:
    r"""Control characters as lsblk prints them in its lists, `\x0a`: a label must not write lines
    of its own.
    """
    return "".join(f"\\x{ord(one):02x}" if ord(one) < 0x20 else one for one in word)


def parse_lsblk(answer: str) -> tuple[Filesystem, ...]:
    """The JSON of lsblk(8). Raises ValueError for anything else."""
    import json

    data = json.loads(answer)
    rows = data.get("blockdevices") if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        message = "lsblk printed no list of block devices"
        raise ValueError(message)
    found = {}
    for row in rows:
        words = [_escape_breaks(str(row.get(column) or "")) for column in _COLUMNS]
        path = _escape_breaks(str(row.get("path") or ""))
        if path and any(words):
            found[path] = Filesystem(path.rpartition("/")[2], path, *words)
    return tuple(found[path] for path in sorted(found))


def parse_blkid(answer: str) -> tuple[Filesystem, ...]:
    r"""Blocks of KEY=value lines, as `blkid -o export` prints them; bytes that a shell would take
    are behind `\`.
    """
    found = []
    for block in answer.split("\n\n"):
        pairs = dict(_split_pair(line) for line in block.splitlines() if "=" in line)
        path = pairs.get("DEVNAME", "")
        words = [pairs.get(column, "") for column in _BLKID_COLUMNS]
        if path and any(words):
            found.append(Filesystem(path.rpartition("/")[2], path, *words))
    return tuple(sorted(found, key=lambda one: one.path))


def _split_pair(line: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    characters = iter(value)
    return key, "".join(
        next(characters, "") if character == "\\" else character for character in characters
    )


def _find_idle(reader: Reader, facts: Facts) -> tuple[IdleGroup, ...]:
    """A part is idle that holds nothing up: no device is made of it, and the kernel has no pool of
    its name. A disk of LVM may be a volume group's free room, so it counts only where no volume of
    LVM is there at all. A disk that was taken out of an array that runs has its mark still. What
    users attach neither counts nor hides anything: an import of their pool would mount what they
    like.
    """
    disks, attached = facts.disks.all, facts.disks.attached
    made = [(disk, _made_of(disk)) for disk in disks]
    used = {parent for _, parents in made for parent in parents}
    names = {disk.path: disk.name for disk in disks}
    mapped = (disk.name for disk in disks if disk.kind == "dm" and disk.name not in attached)
    has_volumes = any(is_volume(reader, name, or_unknown=True) for name in mapped)
    up = {*names_in(reader, "/proc/spl/kstat/zfs")}
    # A record may lack the folder in /proc. A dataset that is mounted shows that its pool is up.
    up |= {mount.source.partition("/")[0] for mount in facts.mounts.all if mount.fstype == "zfs"}
    found: dict[tuple[str, str], list[str]] = {}
    all_parts = facts.filesystems.all
    arrays = {
        one.uuid
        for one in all_parts
        if _KINDS.get(one.fstype) == "RAID" and names.get(one.path) in used
    } - {""}
    for one in all_parts:
        kind = _KINDS.get(one.fstype, "")
        is_up = (
            _is_pool_up(one.label, up)
            if kind == "ZFS"
            else (has_volumes and kind == "LVM")
            or names.get(one.path) in used
            or (kind == "RAID" and one.uuid in arrays)
        )
        if kind and not is_up and names.get(one.path) not in attached:
            found.setdefault((kind, one.label), []).append(one.path)
    return tuple(
        IdleGroup(kind, name, tuple(paths), _required_of(reader, name) if kind == "ZFS" else ())
        for (kind, name), paths in sorted(found.items())
    )


def _required_of(reader: Reader, pool: str) -> tuple[str, ...]:
    """The mount points of a pool that local-fs.target requires, the first of many: of
    /etc/zfs/zfs-list.cache, of which zfs-mount-generator(8) makes units (20 columns: name,
    mountpoint, canmount ... required-by, wanted-by, nofail, ignore). Only `nofail=off` requires
    one; `-`, the default, wants it, and units of one's own replace the target.
    """
    content = hint(reader, f"{_ZFS_CACHE}/{pool}") if _POOL.fullmatch(pool) else ""
    rows = (row.split("\t") for row in content.splitlines())
    asked = (
        row
        for row in rows
        if len(row) == 20 and row[2] == "on" and row[18] == "off" and row[19] != "on"
    )
    found = (row[1] for row in asked if row[16] == row[17] == "-")
    return tuple(islice((one for one in found if one.startswith("/")), _MOST_REQUIRED))


def _is_pool_up(name: str, up: set[str]) -> bool:
    """Where blkid does not tell the pool, any pool that is up may be its."""
    return name in up or (not name and bool(up))


def _made_of(disk: Disk) -> tuple[str, ...]:
    return disk.parents if disk.kind in {"dm", "md"} else ()


def look(reader: Reader) -> Filesystems:
    """What the devices hold now."""
    return Filesystems(lazy(_read_all, reader))


def _read_all(reader: Reader) -> tuple[Filesystem, ...]:
    if reader.persistent_only:
        raise UnknownFact("the disks of this root are not known; --root looks at files alone")
    if reader.stat(UDEV) is not ABSENT:
        return derive(run_looking(reader, LSBLK).text, "lsblk", parse_lsblk)
    if not reader.is_privileged:
        raise UnknownFact("no udev runs here, and only root can look into the disks")
    answer = run_looking(reader, BLKID, (0, 2))  # blkid(8): 2 is nothing found
    return parse_blkid(answer.text) if answer.status == 0 else ()
