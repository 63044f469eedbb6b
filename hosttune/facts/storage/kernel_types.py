"""Types of file systems that the kernel of the next boot does not have: its modules.dep(5) and modules.builtin.

Sources: fs/*/Makefile of the kernel (names of modules), mount(8) (helpers); Ubuntu keeps some in linux-modules-extra,
https://github.com/CachyOS/linux-cachyos/issues/756 (a boot that ended in the emergency shell for want of ntfs3).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.kernel.modules_at_boot import modules_at_boot
from hosttune.facts.reading import hint, text
from hosttune.host.door import Stat
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.placed import Placed
    from hosttune.host.door import Reader

# Not those whose service compiles the module when it starts, as BeeGFS.
_SAME = """
ext4 xfs btrfs f2fs jfs vfat msdos exfat ntfs3 udf squashfs erofs hfsplus hfs nilfs2 reiserfs bcachefs overlay 9p
virtiofs nfs cifs ceph zfs gfs2 ocfs2 minix
"""
_MODULES = {
    **{one: (one,) for one in _SAME.split()},
    "ext2": ("ext2", "ext4"), "ext3": ("ext3", "ext4"), "iso9660": ("isofs",), "nfs4": ("nfsv4", "nfs"),
    "smb3": ("cifs",),
}  # fmt: skip
_MODULE = regex(r"(?m)^(?:\S*/)?([^/\s]+?)\.ko(?:\.\w+)?(?=:|\s*$)")
_HELPED = frozenset({"exfat", "hfsplus"})  # types that a program may serve instead (exfat-fuse, hfsfuse)
_MODULES_IN = ("/lib/modules", "/usr/lib/modules")
_LOCK = "kernel.modules_disabled"
_FOLDERS = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")


def find_lacking_kernel(facts: Facts, fstype: str) -> str:
    """The release of the next boot's kernel, where it has none of these types; empty where it has one, or that is not
    known.
    """
    kinds = [one for one in fstype.split(",") if one]
    if not kinds or any(one not in _MODULES for one in kinds):
        return ""
    release, built_in, modules = _read_modules(facts)
    there = built_in | modules
    if not there or any(name in there for one in kinds for name in _MODULES[one]):
        return ""
    return "" if any(one in _HELPED and _has_helper(facts.reader, one) for one in kinds) else release


def find_lock(facts: Facts, fstype: str, *, is_mounted: bool) -> Placed | None:
    """The sysctl by which the next boot loads no module any more before it mounts a type that is one
    (kernel.modules_disabled; systemd-sysctl.service comes before the mounts); None for nothing, or where this boot has
    shown that the mount succeeds, or that is not known (https://github.com/ComplianceAsCode/content/issues/12508).
    """
    kinds = [one for one in fstype.split(",") if one]
    names = {name for one in kinds for name in _MODULES.get(one, ())}
    _, built_in, modules = _read_modules(facts)
    if any(one not in _MODULES for one in kinds) or not names & modules or names & built_in:
        return None
    settings = attempt(lambda: facts.sysctl_at_boot[_LOCK].settings)
    lock = settings[-1] if isinstance(settings, tuple) and settings else None
    if lock is None or lock.value != "1" or not names.isdisjoint(_loaded_before(facts)):
        return None
    return None if is_mounted and _has_booted_with(facts, lock) else lock


def _loaded_before(facts: Facts) -> set[str]:
    """What the initial RAM disk loads for /, and what is loaded by name before systemd-sysctl."""
    listed = hint(facts.reader, "/etc/initramfs-tools/modules").splitlines()
    names = [*(name for _, name in modules_at_boot(facts.reader)), *(line.partition("#")[0] for line in listed)]
    mounts = attempt(lambda: facts.mounts.all)
    for mount in mounts if isinstance(mounts, tuple) else ():
        if mount.target in {"/", "/usr"}:
            names += _MODULES.get(mount.fstype, ())
    return {name.split()[0].replace("-", "_") for name in names if name.split()}


def _has_booted_with(facts: Facts, lock: Placed) -> bool:
    """Whether this boot came up with the setting: it holds, and its file is older than the boot."""
    now, booted = attempt(lambda: facts.sysctl[_LOCK].text), attempt(lambda: facts.kernel.booted_at)
    stat = facts.reader.stat(lock.path)
    is_newer = isinstance(stat, Stat) and isinstance(booted, int) and stat.mtime_ns > booted * 10**9
    return now == "1" and not is_newer


@lru_cache(maxsize=1)  # each line asks
def _read_modules(facts: Facts) -> tuple[str, frozenset[str], frozenset[str]]:
    """(release, what is part of the kernel, its modules); none where one of the lists cannot be read."""
    release = attempt(lambda: facts.boot.next_kernel or facts.kernel.release)
    if not isinstance(release, str) or not release or "/" in release:
        return "", frozenset(), frozenset()
    found: list[frozenset[str]] = []
    for name in ("modules.builtin", "modules.dep"):
        answers = (attempt(text, facts.reader, f"{folder}/{release}/{name}") for folder in _MODULES_IN)
        content = next((one for one in answers if isinstance(one, str)), "")
        if not content.strip():
            return release, frozenset(), frozenset()
        found.append(frozenset(match[1].replace("-", "_") for match in _MODULE.finditer(content)))
    return release, found[0], found[1]


def _has_helper(reader: Reader, fstype: str) -> bool:
    return any(reader.stat(f"{folder}/mount.{fstype}") is not ABSENT for folder in _FOLDERS)
