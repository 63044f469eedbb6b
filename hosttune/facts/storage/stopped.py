"""Local file systems that the kernel stopped because of an error, and those in which it counted errors.

ext4 with errors=remount-ro shows `emergency_ro` (or `shutdown`) in its super options from Linux 6.15 on; before 6.12,
and where CVE-2024-50191 is not mended, the file system turns `ro` while its mount stays `rw`. Kernels between show
neither, and there the kernel log tells; for whom it is hidden, what ext4 counts is left
(Documentation/ABI/testing/sysfs-fs-ext4; fs/ext4/super.c, sysfs.c). XFS that shut itself down shows nothing in the
mount table of any kernel, but refuses stat(2) of everything on it with EIO (xfs_vn_getattr in fs/xfs/xfs_iops.c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.facts.answers import integer
from hosttune.facts.base import Fact, UnknownFact, attempt, lazy, unread
from hosttune.facts.storage.mounts import LOCAL_TYPES
from hosttune.frozen import frozen
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader

_EXT4 = "/sys/fs/ext4"
_EIO = ": Input/output error"  # how the door's reason ends


@frozen
class LocalFilesystem(Fact):
    """A file system on local disks, where it is mounted first."""

    target: str
    source: str
    fstype: str
    stopped: str  # the word, of the mount table or of the kernel, that tells that nothing can be written any more
    errors: int  # that ext4 counted since e2fsck was there last; 0 for other types
    age_s: float  # since the last one; -1 where there is none
    is_recent: bool  # it came in this boot


@frozen
class Stopped(Fact):
    """All local file systems that a path reaches."""

    filesystems: tuple[LocalFilesystem, ...]


def word_of(options: tuple[str, ...], super_options: tuple[str, ...]) -> str:
    """emergency_ro, shutdown, or ro where the mount itself is rw; empty for a file system that works."""
    for word in ("emergency_ro", "shutdown"):
        if word in super_options:
            return word
    return "ro" if "ro" in super_options and "rw" in options else ""


def collect(reader: Reader, facts: Facts) -> Stopped:
    try:
        mounts = [one for one in facts.mounts.visible if one.fstype in LOCAL_TYPES and not one.is_bind]
    except UnknownFact as unknown:
        return Stopped(unread(unknown.reason))
    return Stopped(tuple(_looked_at(reader, facts, mount) for mount in mounts))


def _looked_at(reader: Reader, facts: Facts, mount: Mount) -> LocalFilesystem:
    errors: Any = 0
    last: Any = 0
    name = ""
    if mount.fstype in ("ext2", "ext3", "ext4") and not reader.persistent_only:
        place = reader.resolve(f"/sys/dev/block/{mount.device}")
        name = (place if isinstance(place, str) else mount.source).rsplit("/", 1)[-1]
        errors, last = (_count(reader, f"{_EXT4}/{name}/{what}") for what in ("errors_count", "last_error_time"))
    if not isinstance(errors, int) or not isinstance(last, int):
        hidden = next(one for one in (errors, last) if not isinstance(one, int))
        errors, age, recent = hidden, hidden, hidden
    else:
        age = max(0.0, reader.now() - last) if last else -1.0
        recent = bool(last) and _recent(facts, age)
    return LocalFilesystem(
        target=mount.target,
        source=mount.source,
        fstype=mount.fstype,
        stopped=lazy(_stopped, reader, facts, mount, name if recent is True else ""),
        errors=errors,
        age_s=age,
        is_recent=recent,
    )


def _stopped(reader: Reader, facts: Facts, mount: Mount, erring: str) -> str:
    """`erring` is the device on which ext4 counted an error in this boot."""
    if word := word_of(mount.options, mount.super_options):
        return word
    stat = ABSENT if reader.persistent_only else reader.stat(mount.target)
    if isinstance(stat, Unreadable) and stat.reason.endswith(_EIO):
        return "shut down" if mount.fstype == "xfs" else "answering with errors alone"
    refusing = attempt(lambda: facts.storage_log.refusing) if erring else ()
    return "stopped by an error" if isinstance(refusing, tuple) and erring in refusing else ""


def _count(reader: Reader, path: str) -> Any:
    """A number; 0 where the kernel, or an older record, does not count."""
    value = integer(reader, path)
    if isinstance(value, Unreadable):
        return 0 if value.reason.startswith("not in this record") else value
    return value if isinstance(value, int) else 0


def _recent(facts: Facts, age: float) -> Any:
    try:
        return age <= facts.pressure.uptime_days * 86400
    except UnknownFact as unknown:
        return unread(unknown.reason)
