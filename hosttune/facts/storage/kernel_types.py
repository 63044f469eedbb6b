"""Types of file systems that the next boot cannot mount: its kernel lacks them, or may not load
their module.

Sources: modules.dep(5), modules.builtin; fs/*/Makefile of the kernel (names of modules); mount(8)
(helpers); modprobe.d(5) (install, and blacklist for what is loaded by an alias such as fs-vfat).
Ubuntu keeps some types in linux-modules-extra, https://github.com/CachyOS/linux-cachyos/issues/756
(a boot that ended in the emergency shell for want of ntfs3).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.kernel.module_options import normalize_module
from hosttune.facts.kernel.modules_at_boot import kept_out_at_boot, modules_at_boot
from hosttune.facts.reading import hint, read_text
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

# Not those whose service compiles the module when it starts, as BeeGFS.
_SAME = """
ext4 xfs btrfs f2fs jfs vfat msdos exfat ntfs3 udf squashfs erofs hfsplus hfs nilfs2 reiserfs
bcachefs overlay 9p
virtiofs nfs cifs ceph zfs gfs2 ocfs2 minix
"""
_MODULES = {
    **{one: (one,) for one in _SAME.split()},
    "ext2": ("ext2", "ext4"),
    "ext3": ("ext3", "ext4"),
    "iso9660": ("isofs",),
    "nfs4": ("nfsv4", "nfs"),
    "smb3": ("cifs",),
}
_MODULE = regex(r"(?m)^(?:\S*/)?([^/\s]+?)\.ko(?:\.\w+)?(?=:|\s*$)")
# types that a program may serve instead (exfat-fuse, hfsfuse)
_HELPED = frozenset({"exfat", "hfsplus"})
_MODULES_IN = ("/lib/modules", "/usr/lib/modules")
LOCK = "kernel.modules_disabled"
_UNLOCK = (
    "take kernel.modules_disabled out of {place}: it keeps drivers of GPUs and networks out, too\n"
    "if it is meant: set it by a service that starts after all mounts and drivers "
    "(After=multi-user.target)"
)
_FOLDERS = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")


def find_lacking_kernel(facts: Facts, fstype: str) -> str:
    """The release of the next boot's kernel, where it has none of these types; empty where it has
    one, or that is not known.
    """
    kinds = [one for one in fstype.split(",") if one]
    if not kinds or any(one not in _MODULES for one in kinds):
        return ""
    release, built_in, modules = read_modules(facts)
    there = built_in | modules
    # Without both lists nothing is known of the kernel, and nothing counts as missing.
    if not there or any(name in there for one in kinds for name in _MODULES[one]):
        return ""
    return (
        "" if any(one in _HELPED and _has_helper(facts.reader, one) for one in kinds) else release
    )


@frozen
class Lock:
    """What keeps the next boot from loading the module of a type of file system."""

    place: str  # the file, or a line of it, that says so
    why: str  # as the rest of a sentence
    way_out: str


def find_lock(facts: Facts, fstype: str, *, is_mounted: bool) -> Lock | None:
    """What keeps the next boot from mounting a type that is a module: kernel.modules_disabled, as
    systemd-sysctl.service comes before the mounts
    (https://github.com/ComplianceAsCode/content/issues/12508), or a line of modprobe.d
    (https://github.com/dev-sec/ansible-collection-hardening/issues/288). None for nothing, or where
    this boot has shown that the mount succeeds, or that is not known.
    """
    kinds = [one for one in fstype.split(",") if one]
    names = {name for one in kinds for name in _MODULES.get(one, ())}
    _, built_in, modules = read_modules(facts)
    needed = names & modules
    if any(one not in _MODULES for one in kinds) or not needed or names & built_in:
        return None
    # A module that is loaded by then stays, whatever forbids loading it later.
    if not names.isdisjoint(_loaded_before(facts)):
        return None
    kept_out = attempt(kept_out_at_boot, facts)
    shut = needed & kept_out.keys() if isinstance(kept_out, Mapping) else frozenset()
    # which needs both of its own
    if isinstance(kept_out, Mapping) and shut and (shut == needed or kinds == ["nfs4"]):
        name = min(shut)
        path = kept_out[name]
        why = f"a module, and {path} keeps it from being loaded ({name})"
        lock = Lock(path, why, f"take {name} out of {path}")
        # A boot that had this file and the mount has shown nothing about kernel.modules_disabled.
        if not (is_mounted and is_older_than_boot(facts, path)):
            return lock
    return find_shut(facts, works=is_mounted)


def find_shut(facts: Facts, *, works: bool) -> Lock | None:
    """That the next boot loads no modules after systemd-sysctl.service (kernel.modules_disabled);
    None where not, or where it works now and this boot was shut as well.
    """
    settings = attempt(lambda: facts.sysctl_at_boot[LOCK].settings)
    last = settings[-1] if isinstance(settings, tuple) and settings else None
    if last is None or last.value != "1":
        return None
    has_shown = attempt(lambda: facts.sysctl[LOCK].text) == "1" and is_older_than_boot(
        facts, last.path
    )
    why = f"a module, and {last.place} has the next boot load none any more ({LOCK}) before that"
    return None if works and has_shown else Lock(last.place, why, _UNLOCK.format(place=last.place))


def is_loaded_first(facts: Facts, module: str) -> bool:
    """Whether a boot loads a module by name, before systemd-sysctl.service, or the initial RAM disk
    does.
    """
    return module in _loaded_before(facts)


def _loaded_before(facts: Facts) -> set[str]:
    """What the initial RAM disk loads for /, and what is loaded by name before systemd-sysctl."""
    listed = hint(facts.reader, "/etc/initramfs-tools/modules").splitlines()
    kept_out = attempt(kept_out_at_boot, facts)
    barred = kept_out.keys() if isinstance(kept_out, Mapping) else frozenset()
    # systemd-modules-load.service leaves out what modprobe.d keeps from being loaded.
    named = (one.value for one in modules_at_boot(facts.reader))
    names = [
        *(name for name in named if normalize_module(name) not in barred),
        *(line.partition("#")[0] for line in listed),
    ]
    mounts = attempt(lambda: facts.mounts.all)
    for mount in mounts if isinstance(mounts, tuple) else ():
        if mount.target in {"/", "/usr"}:
            names += _MODULES.get(mount.fstype, ())
    return {name.split()[0].replace("-", "_") for name in names if name.split()}


def is_older_than_boot(facts: Facts, path: str) -> bool:
    """Whether this boot came up with a file as it is now; also where that is not known."""
    booted, stat = attempt(lambda: facts.kernel.booted_at), facts.reader.stat(path)
    return not (
        isinstance(stat, Stat) and isinstance(booted, int) and stat.mtime_ns > booted * 10**9
    )


@lru_cache(maxsize=1)  # each line asks
def read_modules(facts: Facts) -> tuple[str, frozenset[str], frozenset[str]]:
    """(release, what is part of it, its modules) of the next boot's kernel; none where a list
    cannot be read.
    """
    release = attempt(lambda: facts.boot.next_kernel or facts.kernel.release)
    if not isinstance(release, str) or not release or "/" in release:
        return "", frozenset(), frozenset()
    found: list[frozenset[str]] = []
    for name in ("modules.builtin", "modules.dep"):
        answers = (
            attempt(read_text, facts.reader, f"{folder}/{release}/{name}") for folder in _MODULES_IN
        )
        content = next((one for one in answers if isinstance(one, str)), "")
        # An empty list is a package that is half installed, not a kernel without modules.
        if not content.strip():
            return release, frozenset(), frozenset()
        found.append(frozenset(match[1].replace("-", "_") for match in _MODULE.finditer(content)))
    return release, found[0], found[1]


def _has_helper(reader: Reader, fstype: str) -> bool:
    return any(reader.stat(f"{folder}/mount.{fstype}") is not ABSENT for folder in _FOLDERS)
