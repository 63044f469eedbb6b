"""A view of a folder that is read-only and keeps access times, in a mount namespace that hangs on a
descriptor.

open_tree(2) clones a mount without attaching it anywhere, mount_setattr(2) sets its flags. No other
process sees it, there is nothing to unmount, and it ends with the descriptor, however the process
ends. Linux 5.12 and newer, with CAP_SYS_ADMIN.

A program of a user finds a folder by its path, so it needs a namespace in which the view is mounted
there. It is mounted by descriptor as well: a user can exchange what a path leads to between two
looks of the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Thread
from typing import Any

from hosttune.errors import Refused
from hosttune.host.reading.paths import open_without_links
from hosttune.host.writing.mountapi import ATIME_VALUES

# The same numbers on every architecture but Alpha (scripts/syscall.tbl).
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_CLONE = 0x1  # OPEN_TREE_CLONE
_EMPTY_PATH = 0x1000
_RECURSIVE = 0x8000
_BOTH_EMPTY = 0x4 | 0x40  # MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH
_NEW_NAMESPACE = 0x00020000  # CLONE_NEWNS
_ALL_PRIVATE = 0x4000 | 0x40000  # MS_REC, MS_PRIVATE
_READ_ONLY, _NOSUID_NODEV = 0x1, 0x2 | 0x4
# mount_setattr(2) refuses a new access time mode with EINVAL unless the old one is in `attr_clr`.
_MODES = 0x70  # MOUNT_ATTR__ATIME: the whole field is cleared when any of it is set


class _Attributes(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")
    )


def _clone_mount(folder: int) -> int:
    """A mount of an open folder, and of all below it, that is attached nowhere, is read-only and
    keeps access times.
    """
    # Recursive, so that a file system that is mounted further below is read-only in the view as
    # well.
    flags = _CLONE | _EMPTY_PATH | os.O_CLOEXEC | _RECURSIVE
    fd = _call("open_tree", _OPEN_TREE, ctypes.c_int(folder), b"", ctypes.c_uint(flags))
    try:
        wanted = _Attributes(
            attr_set=_READ_ONLY | _NOSUID_NODEV | ATIME_VALUES["noatime"], attr_clr=_MODES
        )
        what = (ctypes.byref(wanted), ctypes.c_size_t(ctypes.sizeof(wanted)))
        _call(
            "mount_setattr",
            _MOUNT_SETATTR,
            ctypes.c_int(fd),
            b"",
            ctypes.c_uint(_EMPTY_PATH | _RECURSIVE),
            *what,
        )
    except Refused:
        os.close(fd)
        raise
    return fd


@contextmanager
def namespace_with_view(path: str) -> Iterator[tuple[int, int]]:
    """A mount namespace in which the folder at `path` is read-only and keeps all access times:
    descriptors of the namespace and of its root. Raises Refused where the kernel does not let us,
    OSError where a link is on the way.
    """
    held: list[int] = []
    failed: list[Exception] = []

    def make() -> None:
        try:
            held.extend(_make_namespace(path))
        except (OSError, Refused) as error:
            failed.append(error)

    # a thread can have a namespace of its own (unshare(2)), and it ends with the thread
    maker = Thread(target=make)
    maker.start()
    maker.join()
    if failed:
        raise failed[0]
    try:
        yield held[0], held[1]
    finally:
        for fd in held:
            os.close(fd)


def _make_namespace(path: str) -> tuple[int, int]:
    """Done by a thread of its own. The folder is opened once, and its view is mounted on that
    descriptor. So whatever a user has put at `path` by then is mounted only on itself, and no other
    path leads to it.
    """
    _require("unshare", _load_libc().unshare(_NEW_NAMESPACE))
    # A mount in a shared tree propagates to its peers (mount_namespaces(7)), so the view would
    # appear to everyone without this.
    _require("mount", _load_libc().mount(b"none", b"/", None, ctypes.c_ulong(_ALL_PRIVATE), None))
    with ExitStack() as closing:
        folder = open_without_links(path)
        closing.callback(os.close, folder)
        view = _clone_mount(folder)
        closing.callback(os.close, view)
        places = (ctypes.c_int(view), b"", ctypes.c_int(folder), b"")
        _call("move_mount", _MOVE_MOUNT, *places, ctypes.c_uint(_BOTH_EMPTY))
        # The path is opened once more: only a look through it proves that a program, which goes by
        # the path, meets the view.
        seen = open_without_links(path)
        closing.callback(os.close, seen)
        # of `/`, and of a folder that was exchanged since
        if not os.statvfs(seen).f_flag & os.ST_NOATIME:
            raise Refused(f"{path} does not lead to its view")
        # A namespace does not carry a root folder, and nsenter would keep the one outside, which
        # has no view below it.
        root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        closing.callback(os.close, root)
        namespace = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        return namespace, os.dup(root)


@cache
def _load_libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _call(name: str, number: int, *arguments: Any) -> int:
    return _require(name, _load_libc().syscall(ctypes.c_long(number), *arguments))


def _require(name: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        # ENOSYS and EINVAL both mean a kernel that is too old for the call or for a flag of it.
        way_out = "it needs root" if code == errno.EPERM else "it needs Linux 5.12 or newer"
        raise Refused(f"{name}: {os.strerror(code)}", hint=way_out)
    return int(result)
