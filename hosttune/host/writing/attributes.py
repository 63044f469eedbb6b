"""What a file carries besides its bytes, and must keep when it is replaced: owner, mode, ACL,
attributes, flags.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat as stat_module
import struct
from typing import Final

from hosttune.errors import Refused
from hosttune.host.reading.bounded import head_of
from hosttune.quoting import quote

_IS_64_BIT = struct.calcsize("l") == 8
# FS_IOC_GETFLAGS, include/uapi/linux/fs.h
GETFLAGS: Final = 0x80086601 if _IS_64_BIT else 0x80046601
SETFLAGS: Final = 0x40086602 if _IS_64_BIT else 0x40046602
IMMUTABLE: Final = 0x10
APPEND_ONLY: Final = 0x20
VERITY: Final = 0x00100000
_NO_FLAGS: Final = frozenset({errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
# What chattr(1) sets on a file and a new one does not have: s u c S d A j t, and C of btrfs.
_KEPT_FLAGS: Final = 0x1 | 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x4000 | 0x8000 | 0x00800000
# Attributes that are made from the content: IMA's hash of the old bytes would lock the new file.
_OF_CONTENT: Final = frozenset({"security.ima", "security.evm"})


def flags_of(fd: int) -> int:
    """The inode flags of chattr(1); 0 where the file system has none. Raises OSError if they cannot
    be read.
    """
    # The number of the request is made with a long, but the kernel writes an int
    # (include/uapi/linux/fs.h).
    buffer = bytearray(8)
    try:
        fcntl.ioctl(fd, GETFLAGS, buffer)
    except OSError as error:
        if error.errno in _NO_FLAGS:
            return 0
        raise
    return int(struct.unpack("I", buffer[:4])[0])


def refuse_flags(fd: int, path: str) -> None:
    """An immutable, append-only or sealed file is someone's decision: it is never cleared here."""
    flags = flags_of(fd)
    if flags & IMMUTABLE:
        raise Refused(
            f"{path} is immutable (chattr +i)",
            hint=f"if it may change: sudo chattr -i {quote(path)}",
        )
    if flags & APPEND_ONLY:
        raise Refused(
            f"{path} is append-only (chattr +a)",
            hint=f"if it may change: sudo chattr -a {quote(path)}",
        )
    if flags & VERITY:
        raise Refused(
            f"{path} is sealed by fs-verity",
            hint="it was signed as it is; the one who seals it must change it",
        )


def refuse_mount_point(folder: int, fd: int, path: str) -> None:
    """A file bound over another cannot be renamed over (EBUSY), and neither st_dev nor ismount(3)
    shows it.

    proc_pid_fdinfo(5) gives the mount of a descriptor, and a file on another mount than its folder
    is a mount point.
    """
    outer, inner = mount_id(folder), mount_id(fd)
    if outer and inner and outer != inner:
        raise Refused(
            f"{path} is a mount point",
            hint="change it where it is mounted from (a container: on its host)",
        )


def mount_id(fd: int) -> str:
    """The id of the mount that a descriptor is on, as in mountinfo; empty where the kernel does not
    tell.
    """
    try:
        lines = head_of(f"/proc/self/fdinfo/{fd}")[0].decode("ascii", "replace").splitlines()
        return next((line.split()[1] for line in lines if line.startswith("mnt_id:")), "")
    except OSError:
        return ""


def refuse_signed(fd: int, path: str) -> None:
    """A file whose signature (IMA, EVM) would not fit another content."""
    if signed := _OF_CONTENT.intersection(_read(fd)):
        raise Refused(
            f"{path} is signed as it is ({min(signed)})", hint="change it where it is signed"
        )


def copy_attributes(source: int, target: int, path: str) -> None:
    """Give `target` all that `source` carries. Raises Refused, or OSError, when something cannot be
    kept.

    Owner first, because chown clears the set-id bits; mode before attributes, because ACLs
    (system.posix_acl_access) hold the mode of the group, and chmod would change them.
    """
    info = os.fstat(source)
    os.fchown(target, info.st_uid, info.st_gid)
    os.fchmod(target, stat_module.S_IMODE(info.st_mode))
    refuse_signed(source, path)
    wanted = _read(source)
    present = _read(target)
    for name in present.keys() - wanted.keys():
        if not name.startswith("security."):  # a label that the security module gave by itself
            os.removexattr(target, name)
    for name, value in wanted.items():
        if present.get(name) != value:
            os.setxattr(target, name, value)
    _copy_flags(source, target)
    now = os.fstat(target)
    same = (now.st_uid, now.st_gid, now.st_mode) == (info.st_uid, info.st_gid, info.st_mode)
    kept = _read(target)
    if not same or any(kept.get(name) != value for name, value in wanted.items()):
        raise Refused(f"owner, mode or attributes of {path} cannot be kept")


def _copy_flags(source: int, target: int) -> None:
    wanted, present = flags_of(source), flags_of(target)
    if (wanted ^ present) & _KEPT_FLAGS:
        flags = (present & ~_KEPT_FLAGS) | (wanted & _KEPT_FLAGS)
        fcntl.ioctl(target, SETFLAGS, struct.pack("l", flags))


def is_open_by_acl(fd: int, mode: int) -> bool:
    """Whether an ACL lets others write in a folder; `fd` may be an O_PATH descriptor. With an ACL
    the bits of the group in the mode are its mask (acl(5)): those that it names may have them.
    """
    if not mode & stat_module.S_IWGRP:
        return False
    try:
        return "system.posix_acl_access" in os.listxattr(f"/proc/self/fd/{fd}")
    except OSError as error:
        # What cannot be asked may have one: it counts as open.
        return error.errno not in (errno.ENOTSUP, errno.ENOSYS)


def _read(fd: int) -> dict[str, bytes]:
    try:
        return {name: os.getxattr(fd, name) for name in os.listxattr(fd)}
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return {}
        raise
