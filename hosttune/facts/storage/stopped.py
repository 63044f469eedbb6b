"""Local file systems that the kernel stopped because of an error, and those in which it counted
errors.

ext4 with errors=remount-ro shows `emergency_ro` (or `shutdown`) in its super options from Linux
6.15 on; before 6.12, and where CVE-2024-50191 is not mended, the file system turns `ro` while its
mount stays `rw`. Kernels between show neither, and there the kernel log tells; for whom it is
hidden, what ext4 counts is left (Documentation/ABI/testing/sysfs-fs-ext4; fs/ext4/super.c,
sysfs.c). XFS that shut itself down shows nothing in the mount table of any kernel, but refuses
stat(2) of everything on it with EIO (xfs_vn_getattr in fs/xfs/xfs_iops.c). Under a file system that
a user mounted over it nothing of that is seen, nor in the file of another program; there the log
tells.

btrfs counts what each of its disks did wrong until `btrfs device stats -z`, and goes on where it
has another copy (/sys/fs/btrfs/UUID/devinfo/N: error_stats, missing; Linux 5.14 and newer,
fs/btrfs/sysfs.c).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy, make_shared
from hosttune.facts.reading import (
    if_absent,
    names_in,
    read_integer,
    read_line,
    read_text,
    require_sure,
)
from hosttune.facts.storage.btrfs_room import find_folder
from hosttune.facts.storage.disks import find_health_commands
from hosttune.facts.storage.mounts import LOCAL_TYPES
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.host.reading.mountinfo import folders_above
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader

_EXT4 = "/sys/fs/ext4"
_CLASS = "/sys/class/block"
_STAT = regex(r"^(write|read|flush|corruption|generation)_errs (\d+)$", re.MULTILINE)
_EIO = ": Input/output error"  # how the door's reason ends
MISSING = "is missing"  # ends the sentence on a disk that a btrfs lacks
_CHECKS = {"xfs": "sudo xfs_repair", "btrfs": "sudo btrfs check"}
_NEVER_FREE = ("/", "/usr", "/var")
_GONE = "on a disk that is gone"
# Names that the kernel gives to disks and partitions, and to no other device.
_PLAIN = regex(r"/dev/((?:[sv]d|xvd)[a-z]{1,4}\d{0,3}|(?:nvme\d{1,4}n|mmcblk)\d{1,4}(?:p\d{1,3})?)")


@frozen
class LocalFilesystem(Fact):
    """A file system on local disks, where it is mounted first."""

    target: str  # where it is mounted
    source: str  # the device
    fstype: str  # ext4, xfs ...
    # the word, of the mount table or of the kernel, that tells that nothing can be written any more
    stopped: str
    # that ext4 counted since e2fsck was there last, or XFS logged since it was mounted; else 0
    errors: int
    age_s: float  # since the last one; -1 where there is none
    is_recent: bool  # it came in this boot
    health_commands: str = ""  # the commands that show how its disks are
    # of btrfs: what its disks did wrong, `disk 2: 3 corruption`, or `disk 2 is missing`
    erring: tuple[str, ...] = ()

    @property
    def way_to_check(self) -> str:
        """One step: the program that checks it, where nothing has it mounted
        (systemd-fsck@.service(8)).
        """
        check = f"{_CHECKS.get(self.fstype, 'sudo e2fsck -f')} {quote(self.source)}"
        if self.stopped == _GONE and self.target in _NEVER_FREE:
            return (
                f"power the machine off, attach the disk again, and check {self.target} from a "
                "rescue system"
            )
        if self.stopped == _GONE:
            return (
                "attach the disk again when it is unmounted, and check it before it is mounted: "
                f"sudo umount {quote(self.target)}"
            )
        if self.target not in _NEVER_FREE:
            return f"unmount it, and check it: {check}"
        if self.fstype in _CHECKS:
            return (
                f"check it from a rescue system, as {self.target} cannot be unmounted here: {check}"
            )
        once = "fsck.mode=force on the kernel command line once (e in GRUB's menu)"
        # systemd-fsck@.service comes with a last field other than 0 (fstab(5), fs_passno)
        if self.target != "/":
            once += ", and 2 as the last field of its line of fstab"
        return f"check {self.target} at a boot, with {once}: sudo reboot"


@frozen
class Stopped(Subject):
    """All local file systems that a path reaches."""

    @fact
    def filesystems(self) -> tuple[LocalFilesystem, ...]:
        # The words of a stick or an image that a user mounted are that user's: no fault of this
        # host.
        mounts = (
            one
            for one in self.facts.mounts.visible
            if one.fstype in LOCAL_TYPES and not one.is_bind and not one.is_of_user
        )
        of_users = frozenset(one.target for one in self.facts.mounts.all if one.is_of_user)
        return tuple(
            _looked_at(
                self.reader,
                self.facts,
                mount,
                is_covered=not of_users.isdisjoint((mount.target, *folders_above(mount.target))),
            )
            for mount in mounts
        )


def word_of(options: tuple[str, ...], super_options: tuple[str, ...]) -> str:
    """emergency_ro, shutdown, or ro where the mount itself is rw; empty for a file system that
    works.
    """
    for word in ("emergency_ro", "shutdown"):
        if word in super_options:
            return word
    return "ro" if "ro" in super_options and "rw" in options else ""


def _looked_at(reader: Reader, facts: Facts, mount: Mount, *, is_covered: bool) -> LocalFilesystem:
    """`is_covered`: a mount of a user is there or on the way, so that its path leads to what that
    user mounted.
    """
    counted = make_shared(_count_errors, reader, facts, mount)

    def age_s() -> float:
        last = counted()[1]
        return max(0.0, reader.now() - last) if last else -1.0

    def is_recent() -> bool:
        return 0 <= age_s() <= facts.pressure.uptime_days * 86400

    return LocalFilesystem(
        target=mount.target,
        source=mount.source,
        fstype=mount.fstype,
        stopped=lazy(_why_stopped, reader, facts, mount, is_recent, is_covered=is_covered),
        errors=lazy(lambda: counted()[0]),
        age_s=lazy(age_s),
        is_recent=lazy(is_recent),
        health_commands=lazy(lambda: find_health_commands(facts, (_name_device(reader, mount),))),
        erring=lazy(_find_erring, reader, mount),
    )


def _why_stopped(
    reader: Reader, facts: Facts, mount: Mount, is_recent: Callable[[], bool], *, is_covered: bool
) -> str:
    """`is_recent`: ext4 counted an error on its device in this boot."""
    if word := word_of(mount.options, mount.super_options):
        return word
    # The mount table keeps the mount of a disk that was pulled out or detached, and what is in
    # memory is still read: nothing fails until something is written.
    if not reader.persistent_only and (plain := _PLAIN.fullmatch(mount.source)):
        names = names_in(reader, _CLASS)
        is_listed = not names or plain[1] in names
        # Where another /sys is mounted, such as that of a test, the node is there all the same.
        if not is_listed and require_sure(reader.stat(mount.source)) is ABSENT:
            return _GONE
    stat = ABSENT if reader.persistent_only or is_covered else reader.stat(mount.target)
    if isinstance(stat, Unreadable) and stat.reason.endswith(_EIO):
        return "shut down" if mount.fstype == "xfs" else "answering with errors alone"
    # XFS that shut itself down refuses stat(2): the log of one that answers is of before it was
    # mounted anew.
    is_told = not isinstance(stat, Stat) if mount.fstype == "xfs" else attempt(is_recent) is True
    refusing = attempt(lambda: facts.storage_log.refusing) if is_told else ()
    if isinstance(refusing, tuple) and _name_device(reader, mount) in refusing:
        return "shut down" if mount.fstype == "xfs" else "stopped by an error"
    if is_covered and mount.fstype == "xfs":
        raise UnknownFact(
            f"a user mounted another file system over {mount.target}, which hides whether it shut "
            "down"
        )
    return ""


def _count_errors(reader: Reader, facts: Facts, mount: Mount) -> tuple[int, float]:
    """How many errors, and when the last one was, in seconds since the epoch; of XFS, now: its log
    is of this boot.
    """
    if mount.fstype == "xfs" and not reader.persistent_only:
        count = facts.storage_log.damaged.get(_name_device(reader, mount), 0)
        return count, reader.now() if count else 0
    if mount.fstype not in ("ext2", "ext3", "ext4") or reader.persistent_only:
        return 0, 0
    place = f"{_EXT4}/{_name_device(reader, mount)}"
    return _read_number(reader, f"{place}/errors_count"), _read_number(
        reader, f"{place}/last_error_time"
    )


def _find_erring(reader: Reader, mount: Mount) -> tuple[str, ...]:
    if mount.fstype != "btrfs" or reader.persistent_only:
        return ()
    folder = find_folder(reader, mount)
    found = []
    for disk in names_in(reader, f"{folder}/devinfo") if folder else ():
        if if_absent(read_line(reader, f"{folder}/devinfo/{disk}/missing"), "0") == "1":
            found.append(f"disk {disk} {MISSING}")
        stats = _STAT.findall(
            if_absent(read_text(reader, f"{folder}/devinfo/{disk}/error_stats"), "")
        )
        if wrong := [f"{count} {kind}" for kind, count in stats if count != "0"]:
            found.append(f"disk {disk}: {', '.join(wrong)}")
    return tuple(found)


def _name_device(reader: Reader, mount: Mount) -> str:
    """The kernel's name of the device that a file system is on: sda1."""
    place = reader.resolve(f"/sys/dev/block/{mount.device}")
    return (place if isinstance(place, str) else mount.source).rsplit("/", 1)[-1]


def _read_number(reader: Reader, path: str) -> int:
    """0 where the kernel does not count."""
    return if_absent(read_integer(reader, path), 0)
