"""Mounts that hang on a descriptor alone: a second view of a folder with an atime mode of its own, and a private tmpfs.

open_tree(2) clones a mount, and fsmount(2) makes one, without attaching it anywhere; mount_setattr(2) sets its flags.
No other process sees it, there is nothing to unmount, and it ends with the descriptor, however the process ends: what a
private mount namespace would give, without one. Linux 5.12 and newer, with CAP_SYS_ADMIN.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from hosttune.errors import Refused
from hosttune.host.mountapi import ATIME_VALUES

# The same numbers on every architecture but Alpha (scripts/syscall.tbl).
_OPEN_TREE, _FSOPEN, _FSCONFIG, _FSMOUNT, _MOUNT_SETATTR = 428, 430, 431, 432, 442
_CLONE = 0x1  # OPEN_TREE_CLONE
_EMPTY_PATH = 0x1000
_SET_STRING, _CREATE = 1, 6  # enum fsconfig_command
_CLOSE_ON_EXEC = 0x1  # FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC
_NOSUID_NODEV = 0x2 | 0x4
_MODES = 0x70  # MOUNT_ATTR__ATIME: the whole field is cleared when any of it is set


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd"))


@contextmanager
def view_of(folder: int, atime: str) -> Iterator[int]:
    """The open folder once more, on a mount with this atime mode. Raises Refused where the kernel does not let us."""
    fd = _call("open_tree", _OPEN_TREE, ctypes.c_int(folder), b"", ctypes.c_uint(_CLONE | _EMPTY_PATH | os.O_CLOEXEC))
    try:
        wanted = _Attributes(attr_set=ATIME_VALUES[atime], attr_clr=_MODES)
        what = (ctypes.byref(wanted), ctypes.c_size_t(ctypes.sizeof(wanted)))
        _call("mount_setattr", _MOUNT_SETATTR, ctypes.c_int(fd), b"", ctypes.c_uint(_EMPTY_PATH), *what)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def memory_folder(size_bytes: int) -> Iterator[int]:
    """The top of a tmpfs of this size that nobody else can reach. Raises Refused where the kernel does not let us."""
    settings = ctypes.c_int(_call("fsopen", _FSOPEN, b"tmpfs", ctypes.c_uint(_CLOSE_ON_EXEC)))
    try:
        for key, value in ((b"size", str(size_bytes).encode()), (b"mode", b"0700")):
            _call("fsconfig", _FSCONFIG, settings, ctypes.c_uint(_SET_STRING), key, value, ctypes.c_int(0))
        _call("fsconfig", _FSCONFIG, settings, ctypes.c_uint(_CREATE), None, None, ctypes.c_int(0))
        flags = (ctypes.c_uint(_CLOSE_ON_EXEC), ctypes.c_uint(_NOSUID_NODEV))
        mount = _call("fsmount", _FSMOUNT, settings, *flags)
    finally:
        os.close(settings.value)
    try:
        # what fsmount gives is as opened with O_PATH: no syncfs, no list
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=mount)
    finally:
        os.close(mount)
    try:
        yield fd
    finally:
        os.close(fd)


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _call(name: str, number: int, *arguments: Any) -> int:
    result = _libc().syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        way_out = "it needs root" if code == errno.EPERM else "it needs Linux 5.12 or newer"
        raise Refused(f"{name}: {os.strerror(code)}", hint=way_out)
    return int(result)
