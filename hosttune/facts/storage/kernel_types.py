"""Types of file systems that the kernel of the next boot does not have: its modules.dep(5) and modules.builtin.

Sources: fs/*/Makefile of the kernel (names of modules), mount(8) (helpers); Ubuntu keeps some in linux-modules-extra,
https://github.com/CachyOS/linux-cachyos/issues/756 (a boot that ended in the emergency shell for want of ntfs3).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.reading import text
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
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
_FOLDERS = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")


def find_lacking_kernel(facts: Facts, fstype: str) -> str:
    """The release of the next boot's kernel, where it has none of these types; empty where it has one, or that is not
    known.
    """
    kinds = [one for one in fstype.split(",") if one]
    if not kinds or any(one not in _MODULES for one in kinds):
        return ""
    release, there = _read_modules(facts)
    if not there or any(name in there for one in kinds for name in _MODULES[one]):
        return ""
    return "" if any(one in _HELPED and _has_helper(facts.reader, one) for one in kinds) else release


@lru_cache(maxsize=1)  # each line asks
def _read_modules(facts: Facts) -> tuple[str, frozenset[str]]:
    """(release, its modules, those that are part of the kernel too); none where one of the lists cannot be read."""
    release = attempt(lambda: facts.boot.next_kernel or facts.kernel.release)
    if not isinstance(release, str) or not release or "/" in release:
        return "", frozenset()
    found: set[str] = set()
    for name in ("modules.builtin", "modules.dep"):
        answers = (attempt(text, facts.reader, f"{folder}/{release}/{name}") for folder in _MODULES_IN)
        content = next((one for one in answers if isinstance(one, str)), "")
        if not content.strip():
            return release, frozenset()
        found.update(match[1].replace("-", "_") for match in _MODULE.finditer(content))
    return release, frozenset(found)


def _has_helper(reader: Reader, fstype: str) -> bool:
    return any(reader.stat(f"{folder}/mount.{fstype}") is not ABSENT for folder in _FOLDERS)
