"""What the first field of a line of fstab leads to on this host: which block devices, and what they
hold.

One resolver for every command that holds a line against the machine. Sources: fstab(5), mount(8)
(tags), udev(7) and 60-persistent-storage.rules (links below /dev/disk), lvm(8) (names below
/dev/VG).
"""

from __future__ import annotations

import posixpath
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt, get_raw
from hosttune.facts.kernel.initramfs import REBUILD
from hosttune.facts.reading import read_line
from hosttune.facts.services.units import failed_units, read_last_words
from hosttune.facts.storage.crypttab import MAPPER, crypt_lines
from hosttune.facts.storage.crypttab import PATH as CRYPTTAB
from hosttune.facts.storage.disks import is_volume
from hosttune.facts.storage.fstab_types import MOVES, ON_DISK, is_known
from hosttune.facts.storage.mounts import is_network
from hosttune.facts.storage.raid import name_volume
from hosttune.facts.storage.ways import Ways, ways_of
from hosttune.frozen import frozen
from hosttune.host.reading.mountinfo import folders_above
from hosttune.host.reading.paths import PATH_MAX
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.facts import Facts
    from hosttune.facts.storage.crypttab import CryptLine
    from hosttune.facts.storage.disks import Disk
    from hosttune.facts.storage.filesystems import Filesystem
    from hosttune.facts.storage.fstab import FstabEntry
    from hosttune.facts.storage.mounts import Mount

_TAGS = ("UUID", "LABEL", "PARTUUID", "PARTLABEL")
_LINKS = {f"/dev/disk/by-{tag.lower()}/": tag for tag in _TAGS}
# of which people write capitals; mount(8) and udev take them as strings
_ANY_CASE = frozenset({"UUID", "PARTUUID"})
_UNLOCKED = "/dev/mapper/luks-"  # what udisks2 calls an encrypted device that a user opened
_ENCODED = regex(r"\\x([0-9a-fA-F]{2})")  # how udev writes a blank in the name of a link
# What /sys/block lists whole, or what a boot makes of disks that are there: where it is not, no
# device has that name. Left out: what a program brings later (nbd, rbd, drbd, zvol, loop) and what
# has no medium at times (sr, fd).
_SURE = regex(r"/dev/(?:[shv]d[a-z]+|xvd[a-z]+|nvme\d|pmem\d|mmcblk\d|dm-\d|md|mapper/|disk/by-)")
_MAPPER = "/dev/mapper/"
_BROKEN_POOL = regex(
    r"Check of pool ([\w.+-]{1,128}/[\w.+-]{1,128}) failed \(status:\d+\)\. Manual repair required"
)
_ISCSI = regex(r"/session\d+/")  # kernel: drivers/scsi/scsi_transport_iscsi.c
# Types as blkid(8) names them -> what a line may say of such a disk.
_DRIVERS = {
    "ext2": {"ext3", "ext4"}, "ext3": {"ext4", "ext2"}, "vfat": {"msdos", "umsdos", "fat"},
    "msdos": {"vfat"}, "ntfs": {"ntfs3", "ntfs-3g", "lowntfs-3g", "fuseblk", "ntfsplus"},
    "iso9660": {"udf"}, "udf": {"iso9660"}, "swsuspend": {"swap"}, "exfat": {"exfat-fuse"},
    "hfsplus": {"hfs"},
}  # fmt: skip
# Types that blkid names wherever they are, so that a device with none of them does not hold them.
_NAMED = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "swap", "ntfs", "exfat", "f2fs", "jfs"}
)


class SourceKind(str, Enum):
    """What is wrong with the source of a line."""

    MISSING = "missing"  # no device has it
    HIDDEN = "hidden"  # no device has it, and it may lie in one from which nothing is made now
    OTHER = "other"  # it is another device than the mounted one
    TYPE = "type"  # what is on the device is not what the line says


_OF_MANY = frozenset({"btrfs", "bcachefs", "zfs"})  # one UUID on each of their disks
_MOST = 3  # devices that a sentence names
# devices of one UUID: members of btrfs, paths of multipath; and parts of one device
_MOST_OF_A_TAG = 256
_MOST_BELOW = 1024  # devices that one mount is made of
ZRAM = "take the line out: the service that makes it swaps on it, too"
EPHEMERAL = (
    "a line of such a disk needs nofail, and a unit that makes the file system at each boot: "
    "x-systemd.makefs, and the disk by its path in /dev/disk/by-id (of Azure: "
    "/dev/disk/cloud/azure_resource-part1) instead of a UUID"
)
_ARRAY = (
    "\n"
    "an array keeps its name only if mdadm.conf of the initial RAM disk has it: write the ARRAY "
    "lines of sudo mdadm --detail --scan into /etc/mdadm/mdadm.conf\n"
    f"{REBUILD}"
)
# What is in these can be seen once they are opened: how.
_OPENING = {
    "LVM2_member": "see whether the volume group lacks a disk: sudo vgs\n"
    "make its volumes: sudo vgchange -ay",
    "linux_raid_member": (
        "see which arrays there are: cat /proc/mdstat\n"
        "assemble them: sudo mdadm --assemble --scan\n"
        "start one without the member that is missing: sudo mdadm {run}"
    ),
    "crypto_LUKS": "open it: sudo cryptsetup open {device} {name}{line}",
}


@frozen
class SourceFault:
    """Why a line leads to nothing that can be mounted, or to something else than what is mounted at
    its target.
    """

    kind: SourceKind
    sentence: str  # what its source is: `names UUID=..., which no device has`
    way_out: str  # what to write, or where to look


class Sources:
    """The devices of one host, by all names that fstab may have for them."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.reader = facts.reader
        self._names: dict[str, str] = {}  # path -> name of the kernel
        self._disks: dict[str, Disk] = {}
        self._held: dict[str, Filesystem] = {}  # name -> what it holds
        self._tagged: dict[tuple[str, str], list[str]] = {}
        self._numbered: dict[str, str] = {}  # major:minor -> name
        self.lacking: UnknownFact | None = None  # why they are not known
        try:
            if facts.reader.persistent_only or facts.host.is_container:
                raise UnknownFact(
                    "an image has no devices, and a container does not see those of its host"
                )
            disks, filesystems = facts.disks.all, facts.filesystems.all
            self._attached = facts.disks.attached
        except UnknownFact as unknown:
            disks, filesystems, self._attached = (), (), frozenset()
            self.lacking = unknown
        self.is_known = bool(disks)  # if /sys/block is hidden, nothing can be missed
        for disk in disks:
            self._disks[disk.name] = disk
            self._names[f"/dev/{disk.name.replace('!', '/')}"] = disk.name
            if isinstance(path := get_raw(disk, "path"), str):
                self._names[path] = disk.name
            if isinstance(number := get_raw(disk, "device"), str):
                self._numbered[number] = disk.name
        attached = facts.disks.attached_paths if self._attached else frozenset()
        # what users attach pushes no disk out
        for one in sorted(filesystems, key=lambda one: one.path in attached):
            name = self._names.setdefault(one.path, one.name)
            self._held[name] = one
            for tag, value in zip(
                _TAGS, (one.uuid, one.label, one.part_uuid, one.part_label), strict=True
            ):
                same = self._tagged.setdefault((tag, _fold(tag, value)), []) if value else []
                if len(same) < _MOST_OF_A_TAG:
                    same.append(name)

    def find(self, source: str) -> tuple[str, ...] | None:
        """The names of the devices that a source means: none if no device has it; None if it is no
        device, or if that is not known, as of a node with another name than the kernel has for its
        device. What only `find_attached` has counts for none.
        """
        found = self._find_now(source)
        attached = self.find_attached(source) if found else ()
        return (
            tuple(name for name in found if name not in attached) if found and attached else found
        )

    def find_attached(self, source: str) -> tuple[str, ...]:
        """Those of loop devices, and of what is made of them, if the file that is attached names
        them. Any user can attach an image with the UUID or label of a missing disk, or the name of
        an array or a volume group (udisks2: loop-setup, encrypted-unlock), and the next boot does
        not have it.
        """
        path = plain_source(source)
        is_own = path.startswith("/dev/") and not path.startswith((*_LINKS, _UNLOCKED))
        found = (name for name in self._find_now(source) or () if name in self._attached)
        return tuple(name for name in found if not is_own or self._is_assembled(name))

    def _is_assembled(self, name: str) -> bool:
        """Whether it is of an array or a volume group, which udev brings up as soon as its parts
        are there.
        """
        disk = self._disks[name]
        if disk.kind == "partition":
            return any(
                parent in self._disks and self._is_assembled(parent)
                for parent in _list_parents(disk)
            )
        return disk.kind == "md" or (
            disk.kind == "dm" and is_volume(self._facts.reader, name, or_unknown=False)
        )

    def _find_now(self, source: str) -> tuple[str, ...] | None:
        found = self._find(source)
        if not found:
            return found
        return tuple(name for name in found if name in self._disks) or None

    def _find(self, source: str) -> tuple[str, ...] | None:
        source = plain_source(source)
        tag, equals, value = source.partition("=")
        if not self.is_known:
            return None
        if equals and tag in _TAGS:
            return self._find_tag(tag, value) if value else None
        if equals and tag == "ID":
            source = f"/dev/disk/by-id/{value}"
        if not source.startswith("/dev/"):
            return None
        return self._find_path(source)

    def _find_tag(self, tag: str, value: str) -> tuple[str, ...]:
        """The devices with exactly this value: util-linux/util-linux#1014."""
        # The index folds capitals to find what people mistyped; a boot finds only the exact value.
        words = {"UUID": "uuid", "PARTUUID": "part_uuid"}
        named = self._tagged.get((tag, _fold(tag, value)), ())
        return tuple(
            name
            for name in named
            if tag not in words or getattr(self._held[name], words[tag]) == value
        )

    def find_other_case(self, source: str) -> str:
        """The name of a device whose UUID is that of a source but for capitals; empty for none."""
        tag, _, value = plain_source(source).partition("=")
        folder = next((one for one in _LINKS if source.startswith(one)), "")
        if folder:
            tag, value = _LINKS[folder], source.removeprefix(folder)
        named = self._tagged.get((tag, _fold(tag, value)), ()) if tag in _ANY_CASE else ()
        return next(
            (name for name in named if name in self._disks and name not in self._attached), ""
        )

    def _find_path(self, path: str) -> tuple[str, ...] | None:
        if path in self._names:
            return (self._names[path],)
        for folder, tag in _LINKS.items():
            if path.startswith(folder):
                value = _ENCODED.sub(
                    lambda match: chr(int(match[1], 16)), path.removeprefix(folder)
                )
                return self._find_tag(tag, value)
        canonical = self._facts.reader.resolve(path)
        if isinstance(canonical, str):
            return (self._names[canonical],) if canonical in self._names else None
        if path.count("/") == 2:  # the kernel's own names are all in /sys/block
            return () if _SURE.match(path) else None
        # A name deeper below /dev may come from a program that starts later in the boot.
        is_link = _SURE.match(path) or path.count("/") == 3  # /dev/VG/LV
        return () if canonical is ABSENT and is_link and self._is_proof(path) else None

    def _is_proof(self, path: str) -> bool:
        """Whether a link that is not there proves that there is no such device: a record may not
        have its folder.
        """
        reader = self._facts.reader
        folder = getattr(reader.stat(path.rpartition("/")[0]), "type", "")
        return reader.kind == "live" or folder == "directory" or bool(self.closed)

    def holds(self, name: str) -> Filesystem | None:
        """What is on a device; None for nothing that blkid knows."""
        return self._held.get(name)

    def below(self, mount: Mount) -> frozenset[str]:
        """The names of the devices that a mount shows, of a file system on several all of them, and
        of what a device is made of (multipath, RAID) that as well.
        """
        number = get_raw(mount, "device")
        found = (
            {self._numbered[number]}
            if isinstance(number, str) and number in self._numbered
            else set()
        )
        if not found and mount.source.startswith("/dev/") and not mount.fstype.startswith("fuse"):
            found = set(self._find_now(mount.source) or ())
        for name in tuple(found):
            held = self._held.get(name)
            if held and held.uuid:
                same = set(self._tagged["UUID", _fold("UUID", held.uuid)])
                # A user can attach a file with the UUID of this file system: that device is not one
                # of its members.
                found |= same if name in self._attached else same - self._attached
        waiting = [*found]
        while waiting and len(found) < _MOST_BELOW:
            disk = self._disks.get(waiting.pop())
            parents = (
                get_raw(disk, "parents") if disk and get_raw(disk, "kind") in {"dm", "md"} else ()
            )
            new = set(parents[:_MOST_OF_A_TAG] if isinstance(parents, tuple) else ()) - found
            found |= new
            waiting += new
        return frozenset(found)

    @cached_property
    def closed(self) -> tuple[Filesystem, ...]:
        """Parts of a volume group, an array or an encrypted device that is not up: what is missing
        may lie in them. Of fixed disks alone: a user can bring a stick, or a file as a loop device,
        and is to hide nothing with it.
        """
        idle = {path for group in self._facts.filesystems.idle for path in group.paths}
        held = ((name, one) for name, one in sorted(self._held.items()) if one.fstype in _OPENING)
        return tuple(
            one
            for name, one in held
            if self._is_fixed(name)
            and (one.path in idle or (one.fstype == "crypto_LUKS" and name not in self._parts))
        )

    @cached_property
    def is_locked(self) -> bool:
        """Whether all that is closed is encrypted, and no line of /etc/crypttab opens anything at
        the next boot.
        """
        are_encrypted = bool(self.closed) and all(
            one.fstype == "crypto_LUKS" for one in self.closed
        )
        return are_encrypted and not any(one.is_at_boot for one in crypt_lines(self._facts))

    def _is_fixed(self, name: str) -> bool:
        disk = self._disks.get(name)
        ends = get_raw(disk, "disks") if disk else ()
        whole = [
            self._disks[one]
            for one in (ends if isinstance(ends, tuple) else ())
            if one in self._disks
        ]
        return bool(whole) and not any(
            get_raw(one, "is_removable") is not False or get_raw(one, "transport") == "usb"
            for one in whole
        )

    @cached_property
    def _parts(self) -> frozenset[str]:
        """The devices of which others are made."""
        return frozenset(parent for disk in self._disks.values() for parent in _list_parents(disk))

    @cached_property
    def _mounted(self) -> frozenset[str]:
        return frozenset(name for mount in self._facts.mounts.all for name in self.below(mount))

    @cached_property
    def _unused(self) -> Mapping[str, list[str]]:
        """The devices with a file system that no mount, no swap and no line uses: of each type the
        first ones. No loop device: a user can make one of a file (udisks2), and no line is to name
        that.
        """
        used = self._used
        found: dict[str, list[str]] = {}
        for name, one in sorted(self._held.items()):
            if (
                one.fstype
                and name not in used
                and name not in self._attached
                and len(same := found.setdefault(one.fstype, [])) <= _MOST
            ):
                same.append(name)
        return found

    @cached_property
    def _used(self) -> frozenset[str]:
        """The devices that a mount, a swap or a line uses."""
        lines = (*self.entries, *self._facts.fstab.misread)
        named = frozenset(name for one in lines for name in self.find(one.source) or ())
        return named | self._mounted | (self.swapped or frozenset())

    def is_used(self, name: str) -> bool:
        """Whether a mount, a swap or a line uses a device."""
        return name in self._used

    @cached_property
    def swapped(self) -> frozenset[str] | None:
        """The swap that is in use, by path and by name of its device; None where that is not
        known.
        """
        swaps = attempt(lambda: self._facts.memory.swaps)
        if not isinstance(swaps, tuple):
            return None
        paths = frozenset(one.path for one in swaps)
        return paths | {name for path in paths for name in self._find_now(path) or ()}

    def find_unused(self, entry: FstabEntry) -> tuple[str, ...]:
        """Those of them that hold a file system of the type of a line: the first ones."""
        unused, wanted = self._unused, set(entry.fstype.split(","))
        if "auto" in wanted:
            return self._first_unused
        others = (kind for kind, types in _DRIVERS.items() if types & wanted)
        kinds = {*wanted, *others}.intersection(unused)
        return tuple(sorted(name for kind in kinds for name in unused[kind])[: _MOST + 1])

    @cached_property
    def _first_unused(self) -> tuple[str, ...]:
        return tuple(sorted(name for names in self._unused.values() for name in names)[: _MOST + 1])

    @cached_property
    def empty_ephemeral(self) -> tuple[str, ...]:
        """The disks of this instance alone that hold nothing and are mounted nowhere."""
        used = self._parts | self._mounted
        empty = (
            name for name in sorted(self._disks) if name not in self._held and name not in used
        )
        return tuple(name for name in empty if self.is_ephemeral(name))

    @cached_property
    def missing(self) -> tuple[FstabEntry, ...]:
        """The lines of which no device has the name."""
        return tuple(one for one in self.entries if not one.is_swap and self.find(one.source) == ())

    @cached_property
    def entries(self) -> tuple[FstabEntry, ...]:
        """The lines of fstab, and the unit files that mount; without these where they cannot be
        read.
        """
        units = attempt(lambda: self._facts.mount_units.all)
        lines = self._facts.fstab.entries
        return (
            (*lines, *(one.entry for one in units if not one.is_masked))
            if isinstance(units, tuple)
            else lines
        )

    def find_place_fault(self, entry: FstabEntry) -> SourceFault | None:
        """Why a line cannot be mounted by what its folder and its source are, as files of this
        host.
        """
        reader = self._facts.reader
        if entry.is_swap or reader.persistent_only or self._ways.way(entry.path)[1]:
            return None
        if getattr(reader.stat(entry.path), "type", "") == "file":
            what = f"mounts on {entry.target}, which is a file and no folder"
            return SourceFault(SourceKind.TYPE, what, "move the file away, or name a folder")
        source = plain_source(entry.source)
        if entry.fstype not in ON_DISK or not source.startswith("/") or self._ways.way(source)[1]:
            return None
        if self.is_below_unmounted(source):
            return None
        stat = reader.stat(source)
        if stat is ABSENT and not source.startswith("/dev/"):
            return SourceFault(
                SourceKind.TYPE,
                f"names {source}, which is not there",
                "make the file, or take the line out",
            )
        kind = getattr(stat, "type", "")
        if kind == "directory" or (kind == "character" and source.startswith("/dev/")):
            what = (
                f"names {source}, which is "
                f"{'a folder' if kind == 'directory' else 'no block device'}"
            )
            return SourceFault(
                SourceKind.TYPE,
                what,
                "write `none` and `bind`, if a folder is to be shown at another place",
            )
        return None

    def is_below_unmounted(self, path: str) -> bool:
        """Whether a boot mounts something above a path that is not mounted now."""
        return len(path) < PATH_MAX and not self._unmounted.isdisjoint(folders_above(path))

    @cached_property
    def _unmounted(self) -> frozenset[str]:
        """The targets of lines and unit files at which nothing is mounted now."""
        there = {mount.target for mount in self._facts.mounts.all}
        return frozenset(one.target for one in self.entries if not {one.target, one.path} & there)

    @cached_property
    def _ways(self) -> Ways:
        return ways_of(self._facts)

    def describe(self, name: str) -> str:
        """`/dev/nvme1n1 (UUID=..., xfs)`."""
        held = self._held.get(name)
        words = [f"UUID={held.uuid}" if held.uuid else "", held.fstype] if held else []
        known = ", ".join(word for word in words if word)
        return f"{self._path(name)} ({known})" if known else self._path(name)

    def name_like(self, source: str, name: str) -> str:
        """How a line that names `source` would name this device: by the same kind of tag, by UUID,
        or by path.
        """
        held = self._held.get(name)
        values = (
            {"UUID": held.uuid, "LABEL": held.label, "PARTUUID": held.part_uuid} if held else {}
        )
        for tag in (plain_source(source).partition("=")[0], "UUID", "PARTUUID"):
            if value := values.get(tag):
                return f"{tag}={value}"
        return self._path(name)

    def _path(self, name: str) -> str:
        path = get_raw(self._disks[name], "path") if name in self._disks else ""
        return path if isinstance(path, str) and path else f"/dev/{name}"

    def made_of(self, name: str) -> tuple[str, ...]:
        """The names of the devices that are made of this one: RAID, LVM, multipath, an encrypted
        device.
        """
        return self._children.get(name, ())

    def partitions_of(self, name: str) -> tuple[str, ...]:
        """The partitions of a device."""
        return tuple(
            one for one in self.made_of(name) if get_raw(self._disks[one], "kind") == "partition"
        )

    @cached_property
    def _children(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for name, disk in sorted(self._disks.items()):
            for parent in dict.fromkeys(_list_parents(disk)):
                found.setdefault(parent, []).append(name)
        return {parent: tuple(names) for parent, names in found.items()}

    def find_copies(self, source: str) -> tuple[str, ...]:
        """The devices of one tag of which a boot may take any: copies of a disk. Empty where it is
        one device, or where many are meant: members of btrfs, bcachefs or RAID, paths to one disk,
        and volumes and snapshots of LVM, whose order udev knows (11-dm-lvm.rules, link_priority).
        """
        found = self.find(source) or ()
        held = [self._held.get(name) for name in found]
        if len(found) < 2 or any(
            one is None or one.is_member or one.fstype in _OF_MANY for one in held
        ):
            return ()
        if any(
            get_raw(self._disks[name], "kind") not in {"disk", "partition"} or name in self._parts
            for name in found
        ):
            return ()
        whole = {
            end
            for name in found
            if isinstance(ends := get_raw(self._disks[name], "disks"), tuple)
            for end in ends
        }
        known = [self._identity(name) for name in sorted(whole)]
        # Two paths to one disk show one identity. Where a disk shows none, it may be the same as
        # another one.
        return tuple(sorted(found)) if all(known) and len({*known}) == len(known) else ()

    def whole_of(self, name: str) -> tuple[str, ...]:
        """The disks that a device ends on."""
        ends = get_raw(self._disks[name], "disks") if name in self._disks else ()
        return ends if isinstance(ends, tuple) else ()

    def mappings_below(self, name: str) -> frozenset[str]:
        """The names below /dev/mapper of the encrypted devices that a device is made of, its own
        among them.
        """
        found, done, waiting = set(), {name}, [name]
        while waiting and len(done) < _MOST_BELOW:
            one = waiting.pop()
            path = self._path(one)
            if path.startswith(_MAPPER) and self.is_encrypted(path):
                found.add(path.removeprefix(_MAPPER))
            new = (
                set(_list_parents(self._disks[one])[:_MOST_OF_A_TAG] if one in self._disks else ())
                - done
            )
            done |= new
            waiting += new
        return frozenset(found)

    def is_encrypted(self, path: str) -> bool:
        """Whether what a mapping is made of says that it is encrypted (LUKS)."""
        return bool(self.encrypted_below(path))

    def encrypted_below(self, path: str) -> tuple[str, ...]:
        """The names of the encrypted devices that a mapping is made of, which is open now."""
        parents = (
            parent for name in self.find(path) or () for parent in _list_parents(self._disks[name])
        )
        return tuple(
            one for one in parents if (held := self._held.get(one)) and held.fstype == "crypto_LUKS"
        )

    def is_of_network(self, name: str) -> bool:
        """Whether it ends on a disk that comes over the network (iSCSI, nbd, rbd) once / is mounted
        from elsewhere.
        """
        return self._ends_on_network(name) and not self._has_network_root

    @cached_property
    def _has_network_root(self) -> bool:
        roots = (mount for mount in self._facts.mounts.all if mount.target == "/")
        return any(self._ends_on_network(name) for mount in roots for name in self.below(mount))

    def _ends_on_network(self, name: str) -> bool:
        return any(self._is_of_network(one) for one in (*self.whole_of(name), name))

    def _is_of_network(self, name: str) -> bool:
        if name.startswith(("nbd", "rbd")):
            return True
        place = self._facts.reader.resolve(f"/sys/block/{name}")
        return isinstance(place, str) and _ISCSI.search(place) is not None

    def find_snapshots(self, source: str) -> tuple[str, ...]:
        """The volumes of the device mapper that have one tag, as an origin of LVM and its
        snapshots; empty for one.
        """
        found = self.find(source) or ()
        are_volumes = all(get_raw(self._disks[name], "kind") == "dm" for name in found)
        held = [self._held.get(name) for name in found]
        is_plain = all(
            one is not None and not one.is_member and one.fstype not in _OF_MANY for one in held
        )
        return found if len(found) > 1 and are_volumes and is_plain else ()

    def _identity(self, name: str) -> str:
        """What a disk says of itself, the same by each path to it; empty where that is not
        known.
        """
        for attribute in ("device/wwid", "wwid", "device/serial", "serial", "device/cid"):
            value = attempt(read_line, self._facts.reader, f"/sys/block/{name}/{attribute}")
            if isinstance(value, str) and value:
                return value
        return ""

    def find_crypt_line(self, device: str) -> CryptLine | None:
        """The line of /etc/crypttab that opens a device."""
        lines = crypt_lines(self._facts)
        return next((one for one in lines if device in (self.find(one.source) or ())), None)

    def find_lost_crypt_line(self, source: str) -> CryptLine | None:
        """The line of /etc/crypttab that makes a source below /dev/mapper of what no device has."""
        lines = crypt_lines(self._facts) if source.startswith(MAPPER) else ()
        return next(
            (
                one
                for one in lines
                if source == f"{MAPPER}{one.name}" and self.find(one.source) == ()
            ),
            None,
        )

    def find_stopped_array(self, member: str) -> str:
        """/dev/md127, which has this member and is not started; empty for none."""
        arrays = attempt(lambda: self._facts.raid.arrays)
        stopped = (
            (one for one in arrays if one.kind == "md" and not one.is_active)
            if isinstance(arrays, tuple)
            else ()
        )
        return next((f"/dev/{one.name}" for one in stopped if member in one.members), "")

    def is_ephemeral(self, name: str) -> bool:
        """Whether it is on a cloud's own disk of this instance, which comes back empty after a
        stop.
        """
        return any(
            self._disks[one].is_ephemeral for one in self.whole_of(name) if one in self._disks
        )


# Each edit of a line asks, and a host can have many thousand devices.
sources_of = lru_cache(maxsize=1)(Sources)


def is_zram(source: str, options: Iterable[str]) -> bool:
    """Whether a line of swap names a device of zram that a service makes. With x-systemd.makefs it
    may be one that udev sets up as soon as the module is loaded.
    """
    return source.startswith("/dev/zram") and "x-systemd.makefs" not in options


def plain_source(source: str) -> str:
    """`LABEL="data"` and `LABEL='data'` name the label data."""
    key, equals, value = source.partition("=")
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return f"{key}={value[1:-1] if is_quoted else value}" if equals and key.isupper() else source


def names_device(source: str) -> bool:
    """Whether the first field is a block device, by its form."""
    return source.startswith("/dev/") or plain_source(source).partition("=")[0] in {*_TAGS, "ID"}


def find_fault(sources: Sources, entry: FstabEntry, mounts: Iterable[Mount]) -> SourceFault | None:
    """What is wrong with the source of a line; None if nothing is, if it is not a device, or if
    that is not known. `mounts` are those at its target.
    """
    here = [mount for mount in mounts if not mount.is_of_user]
    if MOVES.intersection(entry.options) or is_network(entry.fstype, entry.source):
        return None
    if not here and (fault := sources.find_place_fault(entry)):
        return fault
    found = sources.find(entry.source) if names_device(entry.source) else None
    shown = {name for mount in here for name in sources.below(mount)}
    if found == () and shown.intersection(attached := sources.find_attached(entry.source)):
        found = attached  # root mounted it, as a service does whose loop device each boot has
    if found is None or shown.intersection(found):
        return _name_mounted(sources, entry, found, shown) if found else None
    mounted = _choose_device(sources, shown)
    held = sources.holds(mounted)
    # What is no file system cannot be mounted: the numbers of devices are not those of this boot.
    # Or what is seen on the disks lacks even what is mounted.
    if (held and held.fstype in _OPENING) or (
        shown and not found and not any(map(sources.holds, shown))
    ):
        return None
    if not shown and any(names_device(mount.source) for mount in here):
        return None  # what is mounted is not among the devices that can be seen
    if not found:
        return _explain_missing(sources, entry, mounted)
    if mounted and not any(mount.is_bind for mount in here):
        whole = ", a whole disk with partitions" if sources.partitions_of(found[0]) else ""
        what = (
            f"names {_name(sources, entry, found[0])}{whole}, while {sources.describe(mounted)} is "
            "mounted there"
        )
        kind = (
            SourceKind.TYPE
            if _find_other_type(sources, entry, found, is_mounted=False)
            else SourceKind.OTHER
        )
        return SourceFault(
            kind, what, f"write {sources.name_like(entry.source, mounted)}, if that is meant"
        )
    return _find_other_type(sources, entry, found, is_mounted=False)


def _name_mounted(
    sources: Sources, entry: FstabEntry, found: tuple[str, ...], shown: Iterable[str]
) -> SourceFault | None:
    """What is wrong with a line that leads to what is mounted there, or to a part of that."""
    fault = _find_other_type(sources, entry, found, is_mounted=True)
    mounted = _choose_device(sources, shown) if fault else ""
    if fault and mounted and mounted not in found:
        todo = f"write {sources.name_like(entry.source, mounted)}, which is mounted there"
        return SourceFault(fault.kind, fault.sentence, todo)
    return fault


def _name(sources: Sources, entry: FstabEntry, name: str) -> str:
    source, described = plain_source(entry.source), sources.describe(name)
    return (
        described
        if described.startswith(source) or f"({source}," in described
        else f"{source}, which is {described}"
    )


def _choose_device(sources: Sources, names: Iterable[str]) -> str:
    """The one that a line would name; empty for none, as of what has no device."""
    ordered = sorted(names)
    held = [name for name in ordered if (one := sources.holds(name)) and not one.is_member]
    return (held or ordered or [""])[0]


def _explain_missing(sources: Sources, entry: FstabEntry, mounted: str) -> SourceFault:
    source = plain_source(entry.source)
    what = f"names {source}, which no device has"
    if attached := sources.find_attached(source):
        what = (
            f"names {source}, which no disk has, only {sources.describe(attached[0])}: a file that "
            "a user can attach"
        )
    if name := sources.find_other_case(source):
        what += f"; {sources.describe(name)} differs only in capitals"
        return SourceFault(
            SourceKind.MISSING, what, f"write {sources.name_like(source, name)}, if that is meant"
        )
    if mounted:
        what += f", while {sources.describe(mounted)} is mounted there"
        return SourceFault(
            SourceKind.MISSING,
            what,
            f"write {sources.name_like(source, mounted)}, if that is meant",
        )
    if line := sources.find_lost_crypt_line(source):
        what = (
            f"names {source}, made by line {line.line} of {CRYPTTAB} of {line.source}, which no "
            "device has"
        )
        return SourceFault(
            SourceKind.MISSING, what, "find the disk (sudo lsblk -f), or take both lines out"
        )
    if closed := sources.closed:
        what += (
            f"; it may lie in {closed[0].path} ({closed[0].fstype}), of which nothing is made now"
        )
        return SourceFault(SourceKind.HIDDEN, what, _tell_opening(sources, entry, closed[0]))
    unused = sources.find_unused(entry)
    # A disk that came back empty has neither the UUID nor the label of before.
    empty = sources.empty_ephemeral if source.partition("=")[0] in {"UUID", "LABEL"} else ()
    if empty:
        what += (
            f"; {sources.describe(empty[0])}, a disk of this instance, is empty, as after each stop"
        )
        return SourceFault(SourceKind.MISSING, what, EPHEMERAL)
    others = ", ".join(map(sources.describe, unused[:_MOST]))
    more = _ARRAY if source.startswith("/dev/md") else ""
    if len(unused) == 1 and len(sources.missing) == 1:
        todo = (
            f"write {sources.name_like(source, unused[0])}, if {others} is meant, which nothing "
            f"uses{more}"
        )
        return SourceFault(SourceKind.MISSING, what, todo)
    asked = f"is {others} meant, which nothing uses? Else " if others else ""
    return SourceFault(
        SourceKind.MISSING,
        what,
        f"{asked}find the disk (sudo lsblk -f), or take the line out{more}",
    )


def _tell_opening(sources: Sources, entry: FstabEntry, held: Filesystem) -> str:
    """How what is in a device can be seen; empty where that is not known."""
    device, wanted = posixpath.basename(held.path), entry.source.removeprefix("/dev/mapper/")
    names = sources.find(held.path) or (device,)  # the kernel's: dm-5 for /dev/mapper/vg-lv
    array = next(filter(None, map(sources.find_stopped_array, names)), "")
    known = next(filter(None, map(sources.find_crypt_line, names)), None)
    # A mapping without a name in fstab gets the one that the installer of Debian would give it.
    name = wanted if wanted != entry.source and "/" not in wanted else f"{device}_crypt"
    tag = f"UUID={held.uuid}" if held.uuid else held.path
    if held.fstype == "LVM2_member" and (pool := _find_broken_pool(sources, entry.source)):
        return (
            f"its thin pool {pool} did not pass its check. Keep a copy of the disks, then: sudo "
            f"lvconvert --repair {quote(pool)}"
        )
    if known:
        later = (
            ""
            if known.is_at_boot
            else f"\nfor the next boot: take noauto out of line {known.line} of /etc/crypttab"
        )
        if known.has_no_key and not later:
            later = (
                "\n"
                f"line {known.line} of /etc/crypttab names no key, so that each boot asks for a "
                "passphrase; for a boot that asks none: add one (cryptsetup luksAddKey), and its "
                "path as the third field"
            )
    else:
        later = (
            "\n"
            f"for the next boot: echo {quote(f'{name} {tag} none luks')} | sudo tee -a "
            "/etc/crypttab"
        )
    return _OPENING.get(held.fstype, "").format(
        device=quote(held.path), name=quote(known.name if known else name), line=later,
        run=f"--run {quote(array)}" if array else "--assemble --run --scan",
    )  # fmt: skip


def _find_broken_pool(sources: Sources, source: str) -> str:
    """The thin pool of a volume's group whose metadata this boot refused (lvm2,
    lib/activate/dev_manager.c); empty for none. A user can make a group on a file whose activation
    fails: of others than the volume's nothing is read.
    """
    group = name_volume(source.removeprefix("/dev/mapper/").removeprefix("/dev/")).rpartition("/")[
        0
    ]
    failed = attempt(failed_units, sources.reader)
    unit = f"lvm-activate-{group}.service"
    if not group or not isinstance(failed, tuple) or unit not in failed:
        return ""
    found = map(_BROKEN_POOL.search, read_last_words(sources.reader, unit))
    return next((match[1] for match in found if match and match[1].startswith(f"{group}/")), "")


def _find_other_type(
    sources: Sources, entry: FstabEntry, found: tuple[str, ...], *, is_mounted: bool
) -> SourceFault | None:
    wanted = [one for one in entry.fstype.split(",") if one]
    if "auto" in wanted and not is_mounted and not any(map(sources.holds, found)):
        parts = sources.partitions_of(found[0])
        return _explain_partitions(sources, entry, found[0], parts) if parts else None
    if not wanted or "auto" in wanted or not all(map(is_known, wanted)):
        return None
    held = [one for name in found if (one := sources.holds(name))]
    kinds = sorted({one.fstype for one in held if one.fstype})
    if not kinds:
        # What is mounted has a file system, whatever udev's database says; and others than these
        # blkid may not know.
        if is_mounted or not _NAMED.issuperset(wanted):
            return None
        if parts := sources.partitions_of(found[0]):
            return _explain_partitions(sources, entry, found[0], parts)
        what = f"names {_name(sources, entry, found[0])}, which holds no file system"
        todo = (
            "see what became of its data before anything is written to it: sudo wipefs --no-act "
            f"{quote(entry.source)}"
        )
        if sources.is_ephemeral(found[0]):
            what, todo = (
                f"{what}: it is a disk of this instance, and comes back empty after each stop",
                EPHEMERAL,
            )
        return SourceFault(SourceKind.TYPE, what, todo)
    if any(_fits(kind, wanted) for kind in kinds):
        return None
    if member := next((one for one in held if one.is_member), None):
        what = f"names {_name(sources, entry, found[0])}, which cannot be mounted itself"
        todo = _tell_opening(sources, entry, member) or "name what is made of it: lsblk -f"
        return SourceFault(SourceKind.TYPE, what, todo)
    what = f"says {entry.fstype}, and {_name(sources, entry, found[0])} holds {kinds[0]}"
    todo = (
        "name the device of the swap, or take the line out"
        if entry.is_swap
        else f"write {kinds[0]} as its type"
    )
    return SourceFault(SourceKind.TYPE, what, todo)


def _explain_partitions(
    sources: Sources, entry: FstabEntry, name: str, parts: tuple[str, ...]
) -> SourceFault:
    wanted = entry.fstype.split(",")
    fitting = [one for one in parts if (held := sources.holds(one)) and _fits(held.fstype, wanted)]
    fitting = [one for one in fitting if not sources.is_used(one)] or list(
        sources.find_unused(entry)
    )
    parts_text = ", ".join(map(sources.describe, parts[:_MOST])) + (
        " ..." if len(parts) > _MOST else ""
    )
    what = (
        f"names {_name(sources, entry, name)}, a whole disk, whose partitions hold what is on it: "
        f"{parts_text}"
    )
    todo = "name the partition that is meant"
    if len(fitting) == 1:
        meant = sources.describe(fitting[0])
        todo = (
            f"write {sources.name_like('UUID=', fitting[0])}, if {meant} is meant, which nothing "
            "uses"
        )
    return SourceFault(
        SourceKind.TYPE, what, f"{todo}; no mkfs on the disk, which would destroy them"
    )


def _fits(kind: str, wanted: Iterable[str]) -> bool:
    """Whether a line of one of these types mounts what blkid calls `kind`."""
    return not {kind, *_DRIVERS.get(kind, ())}.isdisjoint(wanted) or "auto" in wanted


def _fold(tag: str, value: str) -> str:
    return value.casefold() if tag in _ANY_CASE else value


def _list_parents(disk: Disk) -> tuple[str, ...]:
    parents = get_raw(disk, "parents")
    return parents if isinstance(parents, tuple) else ()
