"""Set the atime mode of one live mount, and nothing else: mount_setattr(2), Linux 5.12 and newer.

A plain `mount -o remount,noatime` can turn a read-only mount writable and drop nosuid, nodev and
noexec; mount_setattr changes the atime field alone. The kernel wants the whole field cleared
(MOUNT_ATTR__ATIME) when any of it is set. Each call gets the descriptor of the mount: a user may be
able to exchange a folder on the way to it for a link to another mount.
"""

from __future__ import annotations

import ctypes
import errno
import os

from hosttune.errors import HosttuneError, Refused
from hosttune.host.reading.bounded import own_mounts
from hosttune.host.reading.mountinfo import MountLine, parse, topmost_at
from hosttune.host.writing.attributes import mount_id

SYS_MOUNT_SETATTR = 442  # the same number on every architecture (include/uapi/asm-generic/unistd.h)
AT_EMPTY_PATH = 0x1000
MOUNT_ATTR_ATIME = 0x70
ATIME_VALUES = {"relatime": 0x00, "noatime": 0x10, "strictatime": 0x20}
# Flags of mount(2), linux/mount.h.
_REMOUNT_BIND = 0x20 | 0x1000
_KEPT = {
    "ro": 0x1,
    "nosuid": 0x2,
    "nodev": 0x4,
    "noexec": 0x8,
    "nosymfollow": 0x100,
    "nodiratime": 0x800,
}
_MODES = {"relatime": 1 << 21, "noatime": 0x400, "strictatime": 1 << 24}


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def find_topmost(target: str) -> MountLine:
    """The mount that is seen at `target`: of several stacked there, the last. Raises Refused when
    nothing is mounted there.
    """
    found = topmost_at(parse(own_mounts()), target)
    if found is None:
        raise Refused(f"nothing is mounted at {target}")
    return found


def set_atime(target: str, mode: str) -> None:
    """Bring the mount at `target` to noatime, relatime or strictatime. Raises Refused with the
    reason when it stays as it was.
    """
    if mode not in ATIME_VALUES:
        raise Refused(f"{mode} is no atime mode", hint=f"there is: {', '.join(ATIME_VALUES)}")
    mount = find_topmost(target)
    try:
        fd = os.open(target, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(f"{target} cannot be opened: {error.strerror}") from None
    try:
        if mount_id(fd) not in ("", str(mount.id)):  # someone turned the way to it
            raise Refused(f"{target} leads to another mount now", hint="run the plan again")
        failed = _mount_setattr(fd, ATIME_VALUES[mode])
        if failed == errno.ENOSYS:
            failed = _remount(fd, mount, mode)
    finally:
        os.close(fd)
    if failed == errno.EPERM:
        raise Refused(
            f"the atime mode of {target} is locked",
            hint="it belongs to the host of this container, or root is missing",
        )
    if failed == errno.EINVAL:
        raise Refused(f"{target} is not the root of a mount")
    if failed:
        raise Refused(f"the atime mode of {target} cannot be set: {os.strerror(failed)}")
    _verify(mount, find_topmost(target), mode)


def _verify(before: MountLine, now: MountLine, mode: str) -> None:
    """The same mount, in the asked mode, every other word as it was."""
    if now.id != before.id or now.atime != mode:
        raise Refused(f"{before.target} is {now.atime} although {mode} was set")
    lost = {*before.options}.symmetric_difference(now.options) - {*ATIME_VALUES}
    if lost:
        raise HosttuneError(
            f"{before.target}: setting {mode} changed {', '.join(sorted(lost))} as well"
        )


def _mount_setattr(fd: int, value: int) -> int:
    """0, or the errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = _MountAttr(attr_set=value, attr_clr=MOUNT_ATTR_ATIME)
    result = libc.syscall(
        ctypes.c_long(SYS_MOUNT_SETATTR),
        ctypes.c_int(fd),
        ctypes.c_char_p(b""),
        ctypes.c_uint(AT_EMPTY_PATH),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    return 0 if result == 0 else ctypes.get_errno()


def _remount(fd: int, mount: MountLine, mode: str) -> int:
    """Kernels before 5.12: a bind remount that names every live flag of the mount. 0, or the
    errno.
    """
    flags = (
        _REMOUNT_BIND
        | _MODES[mode]
        | sum(flag for word, flag in _KEPT.items() if word in mount.options)
    )
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.mount(None, b"/proc/self/fd/%d" % fd, None, ctypes.c_ulong(flags), None)
    return 0 if result == 0 else ctypes.get_errno()
