"""One file of the sample, opened once: what of it is in the page cache, and what its header says.

Opening moves no atime, reading does, unless the descriptor has O_NOATIME (open(2): for the owner
and root). Readahead is switched off, and what was not in the page cache before is let go of again:
the look leaves the cache as it was.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen
from hosttune.measure import page_cache
from hosttune.measure.dataset.header import MOST_BYTES, Header, Source, Spent, read_header
from hosttune.measure.dataset.walk import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable

# A pipe or a terminal that took the place of a file must not hold who opens it.
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@frozen
class Probe:
    """`resident_bytes` is None where the kernel does not tell, `header` None where it was not read
    or no one knows it.
    """

    size: int
    resident_bytes: int | None
    header: Header | None
    was_read: bool
    has_moved_atime: bool


def probe_file(
    path: str,
    *,
    with_header: bool,
    is_whole: bool = False,
    has_time: Callable[[], bool] = lambda: True,
    held: Callable[[os.stat_result], int] = lambda info: info.st_size,
) -> Probe | None:
    """`is_whole` asks for all members of a shard; `held` says what counts as the size of a file. A
    header during which time ends counts as not read. None for a file that is gone, or is none any
    more. Raises PermissionError, OSError where it cannot be read.
    """
    try:
        fd, is_quiet = open_regular(path, _FLAGS)
    except FileNotFoundError:
        return None
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            return None
        # Before the header is read, which brings its own pages in.
        resident = page_cache.resident_bytes(fd, before)
        if not with_header or not before.st_size:
            return Probe(held(before), resident, None, was_read=False, has_moved_atime=False)
        header = _read_header(fd, before.st_size, has_time, is_whole=is_whole)
        # Time that ended in the middle may have cut a container short, and what was seen of it
        # would count as all.
        was_read = has_time()
        # Only where nothing was cached: the rest may be pages that a job needs.
        if resident == 0:
            with suppress(OSError):
                page_cache.drop(fd)
        has_moved = not is_quiet and os.fstat(fd).st_atime_ns != before.st_atime_ns
        return Probe(held(before), resident, header if was_read else None, was_read, has_moved)
    finally:
        os.close(fd)


def _read_header(
    fd: int, size: int, has_time: Callable[[], bool], *, is_whole: bool
) -> Header | None:
    """None where the time ends before the first bytes are read."""
    with suppress(OSError):  # a file system that knows no advice
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    with suppress(Spent):
        return read_header(
            Source(
                size,
                lambda offset, length: os.pread(fd, min(length, MOST_BYTES), offset),
                is_whole=is_whole,
                has_time=has_time,
            )
        )
    return None
