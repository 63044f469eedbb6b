"""What a file is, as the kernel knows it: the server of a FUSE or NFS mount is not asked, for it
might never answer.

Source: statx(2), AT_STATX_DONT_SYNC. For device nodes and programs the kernel knows all of it.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from functools import cache
from typing import Any

from hosttune.frozen import frozen

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_NO_AUTOMOUNT, _AT_EMPTY_PATH, _AT_STATX_DONT_SYNC = 0x800, 0x1000, 0x4000
_PART = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_STATX_BASIC_STATS = 0x7FF
_SIZE = 256  # of struct statx (linux/stat.h)
# In this order: mask, blksize, attributes, nlink, uid, gid, mode, a spare, ino, size, blocks.
_HEAD = struct.Struct("=IIQIIIHHQQQ")
# major and minor of the node itself, and of the device that holds it
_NUMBERS = struct.Struct("=IIII")
_NUMBERS_AT = 128


@frozen
class FileStatus:
    """The part of statx(2) that is needed of files that users chose."""

    mode: int  # type and permissions, as st_mode
    uid: int
    inode: int
    rdev: tuple[int, int]  # major and minor number of a device node
    device: tuple[int, int]  # of the file system that holds the file
    size: int = 0  # bytes
    taken: int = 0  # bytes that its blocks take
    links: int = 1  # names that it has


def status_of(path: str) -> FileStatus | None:
    """What the kernel knows of the file, links followed; None where it is not there or may not be
    looked at.
    """
    return _read_status(_AT_FDCWD, os.fsencode(path))


def status_in(folder: int, name: str) -> FileStatus | None:
    """The same of a name in an open folder; no link is followed. Of a mount it is that of its
    top.
    """
    return _read_status(folder, os.fsencode(name), _AT_SYMLINK_NOFOLLOW)


def status_without_links(path: str, avoided: Iterable[str]) -> FileStatus | None:
    """The same of an absolute path that another mount namespace has given: no link is followed, and
    nothing below an `avoided` mount is looked up. None for what is there.
    """
    if any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in avoided):
        return None
    here = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        for part in filter(None, path.split("/")):
            below = os.open(part, _PART, dir_fd=here)
            os.close(here)
            here = below
        return _read_status(here, b"")
    except (OSError, ValueError):
        return None
    finally:
        os.close(here)


def _read_status(folder: int, path: bytes, flags: int = 0) -> FileStatus | None:
    buffer = ctypes.create_string_buffer(_SIZE)
    # Without the first a look at a folder of autofs would mount it, and wait for its server.
    flags |= _AT_NO_AUTOMOUNT | _AT_STATX_DONT_SYNC | (0 if path else _AT_EMPTY_PATH)
    if _load_statx()(folder, path, flags, _STATX_BASIC_STATS, buffer) != 0:
        return None
    _, _, _, links, uid, _, mode, _, inode, size, blocks = _HEAD.unpack_from(buffer)
    major, minor, held_major, held_minor = _NUMBERS.unpack_from(buffer, _NUMBERS_AT)
    taken = blocks * 512  # whatever the file system's own blocks are (statx(2))
    return FileStatus(
        mode, uid, inode, (major, minor), (held_major, held_minor), size, taken, links
    )


@cache
def _load_statx() -> Any:
    function = ctypes.CDLL(None).statx  # glibc 2.28
    function.argtypes = [
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_char_p,
    ]
    return function
