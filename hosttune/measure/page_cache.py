"""How much of a file is in the page cache, and how to let go of it; neither reads the file nor
moves its atime.

cachestat(2), Linux 6.5, counts a file's cached pages by its descriptor. Before, mincore(2) tells it
by a mapping. Both hide the files of others (CVE-2019-5489): since Linux 5.2 mincore claims that all
of such a file is resident, and since 6.14 cachestat answers EPERM. So None is "not known", never 0.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = mmap.PAGESIZE
_CACHESTAT: Final = 451  # the same number on every architecture but Alpha (scripts/syscall.tbl)
_WINDOW: Final = 64 << 20  # bytes that are mapped at a time: a result of 16 KiB
_WINDOWS: Final = 16  # of a larger file this many, evenly spaced


class _Range(ctypes.Structure):
    _fields_ = (("off", ctypes.c_uint64), ("len", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted")
    )


@cache
def _load_libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    )  # fmt: skip
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    return libc


@cache
def name_method() -> str:
    """`cachestat` where this kernel has it, else `mincore`."""
    # Asked with a descriptor that cannot be: EBADF proves the call is there, and EPERM comes from a
    # seccomp filter that does not know it.
    answer = _load_libc().syscall(_CACHESTAT, -1, None, None, 0)
    return (
        "mincore"
        if answer == -1 and ctypes.get_errno() in {errno.ENOSYS, errno.EPERM}
        else "cachestat"
    )


def resident_bytes(fd: int, info: os.stat_result | None = None) -> int | None:
    """The bytes of an open file that lie in the page cache, at most its size; None where the kernel
    does not tell.
    """
    info = info or os.fstat(fd)
    if info.st_size == 0:
        return 0
    pages = _ask_cachestat(fd) if name_method() == "cachestat" else _ask_mincore(fd, info)
    return None if pages is None else min(int(pages * PAGE), info.st_size)


def drop(fd: int, offset: int = 0, length: int = 0) -> None:
    """Let go of clean pages of an open file; length 0 means to its end. Pages that are dirty or
    mapped stay.
    """
    os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)


def _ask_cachestat(fd: int) -> float | None:
    counts = _Counts()
    whole = _Range(0, 0)
    if _load_libc().syscall(_CACHESTAT, fd, ctypes.byref(whole), ctypes.byref(counts), 0) != 0:
        return None
    return float(counts.cache)


def _ask_mincore(fd: int, info: os.stat_result) -> float | None:
    """The resident pages, of a large file extrapolated from evenly spaced windows."""
    if not _is_ours(fd, info):
        return None
    seen = found = 0
    for offset in _spread_windows(info.st_size):
        length = min(_WINDOW, info.st_size - offset)
        pages = _count_in_window(fd, offset, length)
        if pages is None:
            return None
        seen += length
        found += pages
    return found * info.st_size / seen


def _is_ours(fd: int, info: os.stat_result) -> bool:
    """Whether mincore tells the truth: to the owner, and to who may write (mm/mincore.c,
    can_do_mincore).
    """
    if os.geteuid() in {0, info.st_uid}:
        return True
    return os.access(f"/proc/self/fd/{fd}", os.W_OK, effective_ids=True)


def _spread_windows(size: int) -> Iterator[int]:
    if size <= _WINDOW * _WINDOWS:
        yield from range(0, size, _WINDOW)
    else:
        # mmap(2) takes offsets of whole pages only.
        step = (size - _WINDOW) // (_WINDOWS - 1) // PAGE * PAGE
        yield from range(0, step * _WINDOWS, step)


def _count_in_window(fd: int, offset: int, length: int) -> int | None:
    libc = _load_libc()
    place = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset)
    # MAP_FAILED is -1, which ctypes gives as an unsigned number.
    if place in {None, ctypes.c_void_p(-1).value}:
        return None
    try:
        flags = (ctypes.c_ubyte * (-(-length // PAGE)))()
        if libc.mincore(place, length, flags) != 0:
            return None
        return sum(one & 1 for one in flags)
    finally:
        libc.munmap(place, length)
