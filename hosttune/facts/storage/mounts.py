"""Mounted file systems, from /proc/self/mountinfo (proc_pid_mountinfo(5)) down to the disks they
end on.

Under a root without a kernel (`--root`) they are what the next boot will mount: the lines of its
fstab.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from itertools import takewhile
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosttune.facts.base import (
    Fact,
    UnknownFact,
    get_raw,
    keep_last,
    lazy,
    make_shared,
    make_unread,
)
from hosttune.facts.containers.kubernetes import is_of_pods
from hosttune.facts.reading import require_known, require_sure
from hosttune.facts.storage.fstab_lines import PATH as FSTAB
from hosttune.facts.storage.fstab_lines import describe_place
from hosttune.facts.storage.fstab_options import is_automount, is_on_demand
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.host.known.file_systems import IN_RAM
from hosttune.host.known.unit_folders import ADMIN, RUNTIME, VENDOR
from hosttune.host.reading.mounters import UTAB, users_in
from hosttune.host.reading.mountinfo import (
    MountLine,
    find_visible,
    ids_of_any_server,
    on_one_line,
    parse,
    topmost_at,
)
from hosttune.host.reading.named import waits_for_server
from hosttune.regex import regex
from hosttune.values import ABSENT, NOT_RECORDED, OnlyRunning, Unreadable

if TYPE_CHECKING:
    import re

    from hosttune.facts import Facts
    from hosttune.facts.storage.disks import Disk
    from hosttune.facts.storage.fstab import FstabEntry
    from hosttune.host.door import Reader, Space

MOUNTINFO = "/proc/self/mountinfo"
MOUNTINFO_OF_INIT = "/proc/1/mountinfo"  # for root alone
LOCAL_TYPES = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "bcachefs"})
NETWORK_TYPES = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "ceph", "lustre", "beegfs",
    "beegfs_nodev", "gpfs", "wekafs", "glusterfs", "orangefs", "pvfs2", "9p", "virtiofs", "drvfs",
    "panfs", "davfs", "fuse.sshfs", "fuse.s3fs", "fuse.goofys", "fuse.gcsfuse", "fuse.blobfuse",
    "fuse.blobfuse2", "fuse.rclone", "fuse.juicefs", "fuse.glusterfs", "fuse.ceph",
    "fuse.ceph-fuse", "fuse.mount-s3", "fuse.cvmfs2", "fuse.davfs", "fuse.alluxio",
    "fuse.curlftpfs", "fuse.s3backer", "fuse.s3ql", "fuse.ossfs", "fuse.cosfs", "fuse.obsfs",
    "fuse.seaweedfs", "fuse.weed", "fuse.lizardfs", "fuse.xtreemfs", "fuse.quobyte",
    "fuse.objectivefs", "fuse.hdfs", "fuse.fuse_dfs", "fuse.tigrisfs", "fuse.geesefs",
    "fuse.httpdirfs", "fuse.ipfs", "fuse.vmhgfs-fuse", "vboxsf", "vmhgfs", "prl_fs", "sshfs",
    "moosefs", "quobyte", "cvmfs", "saunafs", "fuse.moosefs", "fuse.mfsmount", "fuse.saunafs",
    "fuse.rclonefs", "fuse.afpfs", "fuse.mount.davfs", "fuse.hadoop-fuse-dfs",
    "fuse.google-drive-ocamlfuse", "fuse.gdfuse", "fuse.acd_cli", "fuse.fuse-nfs", "fuse.svfs",
    "fuse.smbnetfs",
})  # fmt: skip
_NOT_ASKED = "space is asked of visible local mounts only"
_UNASKED: int = make_unread(_NOT_ASKED)
_SPACE = ("total_bytes", "available_bytes", "total_inodes", "available_inodes", "reserved_bytes")
# statvfs(3) on any other type says nothing a rule needs, and on a dead network mount it hangs.
_MEASURED_TYPES = LOCAL_TYPES | {
    "tmpfs",
    "overlay",
    "zfs",
    "vfat",
    "ntfs3",
    "exfat",
    "reiserfs",
    "erofs",
}
# What a line without `ro` is to be written to. Left out: what is read-only by its nature (iso9660,
# udf, squashfs, erofs ...), by a property of its own (readonly=on of zfs, a kernel without ntfs
# that writes), and what is in memory.
WRITTEN_TYPES = (
    LOCAL_TYPES | NETWORK_TYPES | {"vfat", "exfat", "ntfs3", "fuseblk", "reiserfs", "nilfs2"}
) - {
    "cvmfs",
    "fuse.cvmfs2",
    "fuse.httpdirfs",
    "fuse.ipfs",
}
WRITTEN = ("below", "writers", "rescue", "unguarded", "guard")
# sources that are disks (mount(8))
_DEVICES = ("/dev/", "UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=", "ID=")
_SYSTEM = frozenset(
    {"/", "/usr", "/var", "/var/log", "/var/mail", "/var/spool", "/var/spool/mail", "/tmp"}
)
_SYSTEM_TREES = (
    "/boot/", "/snap/", "/var/snap/", "/run/", "/proc/", "/sys/", "/dev/", "/var/lib/snapd/",
)  # fmt: skip
_OF_PEOPLE = "/run/media/"  # where udisks mounts what people plug in
_ESCAPED = regex(r"(?:\\x[0-9a-f]{2})+")


@frozen
class Mount(Fact):
    """One mount. Under `--root`, `id` is the line of the fstab, and what only a kernel knows is
    unread.
    """

    id: int  # the first field of mountinfo
    parent: int  # the id of the mount below it
    device: str  # "major:minor"; anonymous ("0:45") for btrfs, tmpfs, network
    root: str  # which folder of the file system is mounted
    target: str  # where it is mounted
    source: str  # the device or the server's path, as the kernel names it
    fstype: str  # ext4, nfs4, fuse.sshfs ...
    options: tuple[str, ...]  # of this mount
    super_options: tuple[str, ...]  # of the file system, shared by all its mounts
    atime: str  # noatime | relatime | strictatime
    is_read_only: bool  # the mount or the file system takes no writes
    is_topmost: bool  # a path reaches it: not under a later mount
    is_bind: bool  # a folder, or another place, of a file system that is mounted elsewhere
    disks: tuple[str, ...]  # names of the physical disks it ends on
    is_rotational: bool  # a hard disk is below it; of virtual disks that is not known
    is_network: bool  # its files are on a server
    total_bytes: int  # of the file system
    available_bytes: int  # to an ordinary user
    total_inodes: int  # 0 where the file system makes them as it needs them (btrfs)
    available_inodes: int  # files that can still be made there
    reserved_bytes: int = -1  # free, and for root alone (ext4 keeps 5 %)
    unit: str = ""  # the unit file of this mount, where an administrator wrote one
    # a user mounted it (FUSE, udisks2, auto.net): what it says of itself is that user's word
    is_of_user: bool = False


@frozen
class ExpectedMount(Fact):
    """What a boot mounts by a line of fstab, or by a unit file."""

    target: str  # `line 7` where a misread line has none
    source: str  # empty of a misread line
    line: int  # from 1
    # any user may unmount it, or cloud-init wrote the line of a disk that not every instance has
    is_optional: bool
    is_mounted: bool  # something is mounted there
    # why the line is no entry, or a different one, to a program that reads it, as a sentence
    misread: str = ""
    # nothing can be written there, no line asks for that, and no error stopped it
    is_read_only: bool = False
    # services that run and write to the folder while nothing is mounted there, as a sentence
    writers: str = ""
    rescue: str = ""  # what to do before the mount hides that, and after
    below: str = ""  # what is in the folder while nothing is mounted there
    # services that start without this mount, and keep their data on it, as a sentence
    unguarded: str = ""
    guard: str = ""  # how to let them wait for it
    file: str = FSTAB  # or a unit file, where the line is that of its What=

    @property
    def where(self) -> str:
        """`line 3 of fstab`, `line 4 of /etc/systemd/system/data.mount`; a file that lacks the line
        by itself.
        """
        return describe_place(self.line, "fstab" if self.file == FSTAB else self.file)


@frozen
class Mounts(Subject):
    """All mounts by their targets, as a boot mounts disks in any order; those at one place as the
    kernel lists them.
    """

    @fact
    def all(self) -> tuple[Mount, ...]:
        return (_plan_mounts if self.are_planned else _read_mounted)(self.reader, self.facts)

    # by the fstab of an image
    are_planned: bool = read_with(lambda self: self.reader.persistent_only)

    @fact
    def expected(self) -> tuple[ExpectedMount, ...]:
        """By fstab, without what is mounted when someone asks for it."""
        return () if self.are_planned else _find_expected(self.reader, self.facts)

    @property
    def visible(self) -> tuple[Mount, ...]:
        """Those that a path reaches."""
        return tuple(mount for mount in self.all if mount.is_topmost)

    @property
    def used_disks(self) -> tuple[str, ...]:
        """The names of the disks below any mount."""
        return tuple(sorted({disk for mount in self.all for disk in mount.disks}))

    @property
    def local_data(self) -> tuple[Mount, ...]:
        """Writable file systems on local disks that hold data: not the system's own, no bind
        mounts, none of a user.
        """
        return tuple(mount for mount in self.visible if _is_local_data(mount))

    @property
    def root(self) -> Mount:
        """What is mounted at /. Raises UnknownFact in a chroot, whose mount table shows what is
        below it alone.
        """
        found = self.at.get("/")
        if found is None:
            if self.are_planned:
                raise UnknownFact(OnlyRunning("the fstab of the image has no line for /"))
            raise UnknownFact(f"{MOUNTINFO} shows no /: hosttune runs in a chroot")
        return found

    @property
    @keep_last
    def at(self) -> Mapping[str, Mount]:
        """The visible mount of each target."""
        return MappingProxyType({mount.target: mount for mount in self.visible})


def _is_local_data(mount: Mount) -> bool:
    return (
        mount.fstype in LOCAL_TYPES
        and not mount.is_network
        and not mount.is_bind
        and not mount.is_read_only
        and not mount.is_of_user
        and not is_system(mount.target)
    )


def is_system(target: str) -> bool:
    """Whether the system itself lives there: no place for data, and never tuned as one."""
    in_tree = f"{target}/".startswith(_SYSTEM_TREES) and not target.startswith(_OF_PEOPLE)
    return target in _SYSTEM or in_tree or is_of_pods(target)


def is_served(mount: Mount) -> bool:
    """Whether a look at a mount can wait for a server. A host that boots from the network has its /
    there, or nothing runs. An automount in /proc is the kernel's.
    """
    return (
        waits_for_server(mount.fstype)
        and mount.target != "/"
        and not mount.target.startswith("/proc/")
    )


def _find_expected(reader: Reader, facts: Facts) -> tuple[ExpectedMount, ...]:
    mounted = facts.mounts.all
    # A mount of a user that is not reached must not count as the mount of the host.
    there = frozenset(mount.target for mount in mounted if mount.is_topmost or not mount.is_of_user)
    shares = _Shares(mounted)
    at = facts.mounts.at
    units = facts.mount_units
    mounting = [one for one in units.all if not (one.entry.is_swap or one.is_masked)]
    lines = [one for one in facts.fstab.entries if one.target.startswith("/") and not one.is_swap]
    entries = [*lines, *(one.entry for one in mounting)]
    asked = {
        path for one in entries if asks_read_only(one.options) for path in (one.target, one.path)
    }
    by_unit = units.by_path
    lines = [one for one in lines if one.path not in by_unit]
    wanted = [one for one in lines if not is_on_demand(one.options)]
    wanted += [one.entry for one in mounting if one.is_started and not one.is_conditional]
    # One in memory holds no one's data, and /tmp as one comes with the next boot
    # (storage-tmp-tmpfs).
    wanted = [one for one in wanted if one.fstype not in IN_RAM]
    # What is mounted by hand is missed once a service that runs writes below it.
    by_hand = [one for one in lines if is_on_demand(one.options) and not is_automount(one.options)]
    by_hand += [one.entry for one in mounting if not (one.is_started or one.is_automounted)]
    wanted += [
        one
        for one in by_hand
        if _is_written_below(facts, one, there) and not shares.is_behind_link(reader, one)
    ]
    misread = (
        one for one in facts.fstab.misread if not one.is_swap and not is_on_demand(one.options)
    )
    found = [
        ExpectedMount(
            one.target,
            one.source,
            one.line,
            _is_optional(one),
            bool({one.target, one.path} & there) or shares.is_behind_link(reader, one),
            is_read_only=lazy(
                _came_read_only, reader, facts, one, at.get(one.target) or at.get(one.path)
            )
            if not {one.target, one.path} & asked
            else False,
            **{name: lazy(_describe_written, facts, one, name) for name in WRITTEN},
            file=one.file,
        )
        for one in wanted
    ]
    found += [
        ExpectedMount(
            one.target or f"line {one.line}",
            "",
            one.line,
            is_optional=False,
            is_mounted=one.target in there,
            misread=one.refusal,
        )
        for one in misread
    ]
    return tuple(sorted(found, key=lambda one: (one.file != FSTAB, one.file, one.line)))


def _describe_written(facts: Facts, entry: FstabEntry, word: str) -> str:
    from hosttune.facts.storage.written_below import tell_written

    return tell_written(facts, entry, word)


def _is_written_below(facts: Facts, entry: FstabEntry, there: frozenset[str]) -> bool:
    """Whether what no boot mounts is missed: not mounted, and a known service writes there."""
    from hosttune.facts.storage.written_below import find_writers

    if {entry.target, entry.path} & there:
        return False
    return bool(find_writers(facts, (entry.target, entry.path), are_all_asked=False))


def asks_read_only(options: Iterable[str]) -> bool:
    """Whether a line of fstab wants it read-only: of `ro` and `rw` the last wins (mount(8));
    `ro=vfs` and `ro=fs` are of util-linux 2.39, and what FUSE mounts has words of its own
    (--read-only of mount-s3, read_only of rclone).
    """
    words = [
        option.partition("=")[0].lstrip("-").replace("-", "").replace("_", "") for option in options
    ]
    return "readonly" in words or [word for word in words if word in {"ro", "rw"}][-1:] == ["ro"]


def _came_read_only(reader: Reader, facts: Facts, entry: FstabEntry, mount: Mount | None) -> bool:
    """mount(8) falls back to read-only where the device is write-protected; else someone mounted it
    anew, or / was left as the kernel mounts it. What an error stopped is another fact's (stopped).
    """
    if mount is None or not mount.is_read_only or mount.fstype not in WRITTEN_TYPES:
        return False
    if "ro" not in mount.super_options and not facts.host.shares_init_mounts:
        # ProtectSystem= of the unit that started us (systemd.exec(5)) makes mounts read-only for
        # us, no file system
        hosts = topmost_at(
            parse(require_known(reader.read(MOUNTINFO_OF_INIT), MOUNTINFO_OF_INIT)), mount.target
        )
        if hosts is None or not hosts.is_read_only:
            return False
    if {"bind", "rbind"} & set(entry.options):
        # It takes over how its source is mounted, whose own line counts; a symbolic link in its
        # path leads elsewhere.
        below = mount_of(facts.mounts.visible, entry.source)
        return below is not None and below.device == mount.device and not below.is_read_only
    stopped = (
        one
        for one in facts.stopped.filesystems
        if mount.target == one.target or mount.source == one.source
    )
    return not any(one.stopped for one in stopped)


def mount_of(mounts: tuple[Mount, ...], path: str) -> Mount | None:
    """The mount that a path is on."""
    on = (mount for mount in mounts if f"{path}/".startswith(mount.target.rstrip("/") + "/"))
    return max(on, key=lambda mount: len(mount.target), default=None)


def mount_below(facts: Facts, path: str) -> Mount | None:
    """The visible mount that a path is on; for many paths on a host with many mounts."""
    found, above = _by_target(facts)(), path.rstrip("/")
    if not path.startswith("/"):
        return None
    while above and above not in found:
        above = above[: above.rfind("/")]
    return found.get(above)


@lru_cache(maxsize=1)
def _by_target(facts: Facts) -> Callable[[], Mapping[str, Mount]]:
    return make_shared(
        lambda: {one.target.rstrip("/"): one for one in reversed(facts.mounts.visible)}
    )


class _Shares:
    """What servers share with this host, for all lines of fstab."""

    def __init__(self, mounted: tuple[Mount, ...]) -> None:
        self._served = {mount.target for mount in mounted if is_served(mount)}
        self._sources = {mount.source.rstrip("/") for mount in mounted if mount.is_network}

    def is_behind_link(self, reader: Reader, entry: FstabEntry) -> bool:
        """What a server shares is mounted elsewhere, and the target leads away by a symbolic link.
        Links are read up to where a server would have to answer, and not followed.
        """
        if (
            not is_network(entry.fstype, entry.source)
            or entry.source.rstrip("/") not in self._sources
        ):
            return False
        parts = entry.target.split("/")
        above = ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
        local = takewhile(lambda path: path not in self._served, above)
        return any(isinstance(reader.link(path), str) for path in local)


def _is_optional(entry: FstabEntry) -> bool:
    """By the mark of cloud-init in the line itself; what a server shares is there for every
    instance. `users` lets any user unmount it (mount(8)).
    """
    if "users" in entry.options:
        return True
    is_local = entry.source.startswith(_DEVICES) and not is_network(entry.fstype, entry.source)
    # cloud-init's own options, with which it writes _netdev
    waits = any("=cloud-init" in one for one in entry.options)
    return (
        is_local
        and "comment=cloudconfig" in entry.options
        and (waits or "_netdev" not in entry.options)
    )


def _plan_mounts(_reader: Reader, facts: Facts) -> tuple[Mount, ...]:
    return plan_mounts(entry for entry in facts.fstab.entries if not entry.is_swap)


def _read_mounted(reader: Reader, facts: Facts) -> tuple[Mount, ...]:
    data = require_sure(reader.read(MOUNTINFO))
    if data is ABSENT:
        raise UnknownFact(f"there is no {MOUNTINFO}")
    lines = parse(data)
    of_users = _of_users(lines, reader)
    in_the_way = _in_the_way([line for line in lines if line.id in of_users], lines, facts)
    seen, reachable = (
        find_visible(lines),
        find_visible(line for line in lines if line.id not in in_the_way),
    )
    binds = binds_of(lines, make_shared(_own_places, facts))
    devices = _MountDisks(reader, facts)
    mounts = (
        _mount(
            line,
            devices,
            is_seen=line.id in seen,
            is_topmost=line.id in reachable,
            is_bind=line.id in binds,
            is_of_user=line.id in of_users,
        )
        for line in lines
    )
    return tuple(sorted(mounts, key=lambda mount: mount.target))


def _of_users(lines: Iterable[MountLine], reader: Reader) -> frozenset[int]:
    """The ids of mounts that users made."""
    utab = reader.read(UTAB)
    helped = users_in(utab.decode(errors="surrogateescape")) if isinstance(utab, bytes) else {}
    lines = tuple(lines)
    own = (line.id for line in lines if line.fuse_user > 0 or line.target in helped)
    return ids_of_any_server(lines, partial(_read_content, reader)).union(own)


def _read_content(reader: Reader, path: str) -> bytes:
    answer = reader.read(path)
    return answer if isinstance(answer, bytes) else b""


def _in_the_way(
    of_users: list[MountLine], lines: Iterable[MountLine], facts: Facts
) -> frozenset[int]:
    """The ids of users' mounts that are made over a place of fstab, or over another mount:
    fusermount3(1) lets a user do that at each folder that the user owns. The host's mount is below
    it, and counts.
    """
    if not of_users:
        return frozenset()
    ids = {line.id for line in of_users}
    places = {line.target for line in lines if line.id not in ids} | set(_in_fstab(facts))
    ordered = sorted(places)

    def covers(target: str) -> bool:
        start = f"{target.rstrip('/')}/"
        at = bisect_left(ordered, start)
        return target in places or (at < len(ordered) and ordered[at].startswith(start))

    return frozenset(line.id for line in of_users if covers(line.target))


def _in_fstab(facts: Facts) -> Mapping[str, FstabEntry]:
    """What fstab mounts, by its paths; nothing when it cannot be read."""
    try:
        return facts.fstab.by_path
    except UnknownFact:
        return {}


def _own_places(facts: Facts) -> Mapping[str, float]:
    """The lines of fstab that mount something by themselves: path to the number of the line."""
    return {
        path: entry.line
        for path, entry in _in_fstab(facts).items()
        if not {"bind", "rbind"} & set(entry.options)
    }


def binds_of(
    lines: Iterable[MountLine], own_places: Callable[[], Mapping[str, float]]
) -> frozenset[int]:
    """The ids of mounts that show a folder, or a second place, of a file system mounted elsewhere.

    A btrfs subvolume has a root other than `/` too, but then the root is what `subvol=` says. Of
    several mounts of one root the file system's own is the one that comes first in fstab, because a
    boot mounts two lines in any order; where fstab has none of them, the first one listed: the
    kernel appends new mounts (ids are used again).
    """
    # by file system and folder: its places, and their ids
    shown: dict[tuple[str, str], dict[str, list[int]]] = {}
    found = set()
    for line in lines:
        shown.setdefault((line.device, line.root), {}).setdefault(line.target, []).append(line.id)
        subvolume = next(
            (
                o[7:]
                for o in line.super_options
                if line.fstype == "btrfs" and o.startswith("subvol=")
            ),
            "/",
        )
        if line.root != subvolume:
            found.add(line.id)
    for places in shown.values():
        if len(places) > 1:
            listed = own_places()
            own = min(places, key=lambda target: listed.get(target, inf))
            found.update(id_ for target, ids in places.items() if target != own for id_ in ids)
    return frozenset(found)


def atime_of(options: Iterable[str]) -> str:
    """The atime mode that fstab options ask for: relatime is the kernel's default (mount(8)), the
    last word wins.
    """
    meaning = {"atime": "relatime", "nostrictatime": "relatime", "norelatime": "relatime"}
    words = ("noatime", "relatime", "strictatime", *meaning)
    asked = [option for option in options if option in words]
    return meaning.get(asked[-1], asked[-1]) if asked else "relatime"


def is_network(fstype: str, source: str) -> bool:
    """Whether other machines serve this file system: by type, or by a `host:/path` or
    `//host/share` source.
    """
    kind = name_effective_type(fstype, source) if fstype == "fuse" else fstype
    return (
        kind in NETWORK_TYPES
        or source.startswith("//")
        # A path at the front makes it local: `/disk1:/disk2` is a source of mergerfs, and holds
        # `:/` as well.
        or (":/" in source and not source.startswith("/"))
    )


def name_effective_type(fstype: str, source: str) -> str:
    """The type with the program of FUSE that serves it: `fuse` with a source of `NAME#...` or
    `/usr/bin/NAME#...`, and with only that of a program, is fuse.NAME (mount.fuse3(8)).
    """
    program, mark, _ = source.partition("#")
    kind = f"fuse.{program.rpartition('/')[2]}"
    is_program = (
        not program.startswith("/dev/")
        and len(kind) > len("fuse.")
        and bool(mark or kind in NETWORK_TYPES)
    )
    return kind if fstype == "fuse" and is_program else fstype


def plan_mounts(entries: Iterable[FstabEntry]) -> tuple[Mount, ...]:
    """The mounts that a boot from this fstab will make."""
    unread = make_unread(OnlyRunning("no kernel runs under this root"))
    return tuple(
        Mount(
            id=entry.line,
            parent=0,
            device="",
            root="/",
            target=entry.target,
            source=entry.source,
            fstype=entry.fstype,
            options=entry.options,
            super_options=(),
            atime=atime_of(entry.options),
            is_read_only=asks_read_only(entry.options),
            is_topmost=True,
            is_bind=bool({"bind", "rbind"} & set(entry.options)),
            disks=unread,
            is_rotational=unread,
            is_network=is_network(entry.fstype, entry.source),
            total_bytes=unread,
            available_bytes=unread,
            total_inodes=unread,
            available_inodes=unread,
            reserved_bytes=unread,
        )
        for entry in entries
    )


def _mount(
    line: MountLine,
    devices: _MountDisks,
    *,
    is_seen: bool,
    is_topmost: bool,
    is_bind: bool,
    is_of_user: bool,
) -> Mount:
    """`is_seen`: a path leads to it, and to no mount of a user above it."""
    network = is_network(line.fstype, line.source)
    # Of a user's mount the path has to be the true one: no look goes into it.
    target, source = (one if is_of_user else on_one_line(one) for one in (line.target, line.source))
    space = make_shared(devices.space, line) if is_topmost and is_seen and not network else None
    unasked = _UNASKED
    if is_topmost and not is_seen and not network:
        unasked = make_unread(f"a user mounted a file system over {target}, which hides its space")
    return Mount(
        id=line.id,
        parent=line.parent,
        device=line.device,
        root=line.root,
        target=target,
        source=source,
        fstype=line.fstype,
        options=line.options,
        super_options=line.super_options,
        atime=line.atime,
        is_read_only=line.is_read_only,
        is_topmost=is_topmost,
        is_bind=is_bind,
        disks=lazy(devices.disks, line),
        is_rotational=lazy(devices.rotates, line),
        is_network=network,
        **{name: lazy(_read_size, space, name) if space else unasked for name in _SPACE},
        unit=lazy(devices.unit, line.target) if is_topmost and line.fstype in LOCAL_TYPES else "",
        is_of_user=is_of_user,
    )


def _read_size(space: Callable[[], Space], name: str) -> int:
    size: int = getattr(space(), name)
    if size < 0:
        raise UnknownFact(f"{NOT_RECORDED}: how much of its space is reserved for root")
    return size


class _MountDisks:
    """From a mount to its disks and its space."""

    def __init__(self, reader: Reader, facts: Facts) -> None:
        self.reader = reader
        self.by_device = make_shared(lambda: facts.disks.by_device)
        self.by_name = make_shared(lambda: {disk.name: disk for disk in self.by_device().values()})
        self.listed = make_shared(_in_fstab, facts)

    def disks(self, line: MountLine) -> tuple[str, ...]:
        """Names of the physical disks."""
        return tuple(
            sorted({name for disk in self._below(line) for name in disk.disks or (disk.name,)})
        )

    def rotates(self, line: MountLine) -> bool:
        """Whether one of them does."""
        return any(disk.rotates for disk in self._below(line))

    def _below(self, line: MountLine) -> list[Disk]:
        if line.device in self.by_device():
            return [self.by_device()[line.device]]
        # btrfs, bcachefs and zfs have anonymous devices: go by the source, of btrfs by all its
        # members
        if not line.source.startswith("/dev/") or line.fstype.startswith("fuse"):
            return []  # a user who mounts with fusermount3(1) names what he likes (fsname=)
        path = self.reader.resolve(line.source)
        name = (
            (path if isinstance(path, str) else line.source).removeprefix("/dev/").replace("/", "!")
        )
        names = self._btrfs_members(name) if line.fstype == "btrfs" else (name,)
        return [self.by_name()[one] for one in names if one in self.by_name()]

    def _btrfs_members(self, name: str) -> tuple[str, ...]:
        pools = self.reader.list("/sys/fs/btrfs")
        for pool in pools if isinstance(pools, tuple) else ():
            members = self.reader.list(f"/sys/fs/btrfs/{pool}/devices")
            if isinstance(members, tuple) and name in members:
                return members
        return (name,)

    def space(self, line: MountLine) -> Space:
        if line.fstype not in _MEASURED_TYPES:
            raise UnknownFact(f"the space of {line.fstype} is not asked for")
        space = require_sure(self.reader.space(line.target))
        if space is ABSENT:
            raise UnknownFact(f"{line.target} is gone")
        return space

    def unit(self, target: str) -> str:
        """The unit file that mounts `target`, or nothing. Names as systemd-escape(1) makes them."""
        name = unit_name(target)
        # A unit in /etc or /run comes before a line of fstab, and the line before the unit of a
        # package (systemd.unit(5)).
        for folder in (ADMIN, RUNTIME, *(() if target in self.listed() else VENDOR)):
            if getattr(self.reader.stat(f"{folder}/{name}"), "type", "") == "file":
                return f"{folder}/{name}"
        return ""


def is_measured(mount: Mount) -> bool:
    """Whether the space of a mount is asked for at all."""
    return (
        get_raw(mount, "total_bytes") != Unreadable(_NOT_ASKED) and mount.fstype in _MEASURED_TYPES
    )


def unit_name(target: str, suffix: str = "mount") -> str:
    r"""`/data/my-set` -> `data-my\x2dset.mount` (systemd.unit(5), "string escaping")."""
    path = target.strip("/") or "/"
    if path == "/":
        return f"-.{suffix}"
    escaped = []
    for index, byte in enumerate(path.encode("utf-8", "surrogateescape")):
        character = chr(byte)
        if character == "/":
            escaped.append("-")
        elif (
            (character.isascii() and character.isalnum())
            or character in "_:"
            # In front a dot would make a hidden file of the unit, so systemd escapes it there.
            or (character == "." and index)
        ):
            escaped.append(character)
        else:
            escaped.append(f"\\x{byte:02x}")
    return f"{''.join(escaped)}.{suffix}"


def target_of(name: str) -> str:
    """The folder or file that the name of a unit means: `unit_name` the other way round."""
    path = name.rpartition(".")[0]
    return "/" if path == "-" else "/" + _ESCAPED.sub(_unescape, path.replace("-", "/"))


def _unescape(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("\\x", "")).decode("utf-8", "surrogateescape")
