"""The files that `bench read` reads: drawn at random, and only such as keep their access time when
they are read.

O_NOATIME is for the owner of a file and for root (open(2)). Of other files the access time moves
with a read, unless the mount says noatime, or says relatime and the file was read within the last
day and since it was written.
"""

from __future__ import annotations

import os
import random
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.measure.dataset.walk import Walk, open_regular
from hosttune.measure.page_cache import drop

MOST_NAMES: Final = 5_000_000
MOST_SECONDS: Final = 10.0  # to look for names
FILE_MOST: Final = 64 << 20  # bytes that are read of one file
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
DAY_S: Final = 24 * 3600  # relatime's, fs/inode.c relatime_need_update()


@frozen
class ReadSample:
    """Files in random order, and what was passed over."""

    paths: tuple[str, ...]
    sizes: tuple[int, ...]  # bytes that are read of each
    names: int  # regular files that were seen
    is_whole: bool  # all names of the tree were seen
    others: int  # of the drawn ones, left out because their access time would have moved
    unreadable: int

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


def draw(
    folder: str,
    *,
    files: int,
    most_bytes: int,
    seed: int,
    uid: int,
    takes: Callable[[str], bool] = lambda _: True,
    is_noatime: bool = False,
) -> ReadSample:
    """At most `files` files below `folder`, and `most_bytes` bytes, that a process of `uid` reads
    without a trace.

    `takes` says by its name whether a file is wanted; `is_noatime`: they are read through a view
    that keeps all access times. Raises HosttuneError where `folder` is none.
    """
    draws = random.Random(seed)  # noqa: S311 - a sample, to be repeated from its seed
    chosen: list[str] = []
    seen, is_whole = 0, True
    until = time.monotonic() + MOST_SECONDS
    for path in names_below(folder):
        if not takes(path):
            continue
        seen += 1
        if len(chosen) < files:
            chosen.append(path)
        # Algorithm R: each name has the same chance however many come, without a list of them all.
        elif (place := draws.randrange(seen)) < files:
            chosen[place] = path
        # The clock is asked rarely; a walk of millions of names would spend its time in it.
        if seen >= MOST_NAMES or (seen % 1024 == 0 and time.monotonic() > until):
            is_whole = False
            break
    draws.shuffle(chosen)
    paths, sizes, total, others, unreadable = [], [], 0, 0, 0
    now, flags = time.time(), os.statvfs(folder).f_flag
    for path in chosen:
        try:
            info = os.lstat(path)
        except OSError:
            unreadable += 1
            continue
        size = min(info.st_size, FILE_MOST)
        # A file that would pass the bound of bytes is left out, not cut off: a smaller one behind
        # it may still fit.
        if not stat.S_ISREG(info.st_mode) or not size or total + size > most_bytes:
            continue
        if not is_noatime and moves_atime(info, flags, uid, now):
            others += 1
        elif not may_read(path, info, uid):
            unreadable += 1
        else:
            paths.append(path)
            sizes.append(size)
            total += size
    return ReadSample(tuple(paths), tuple(sizes), seen, is_whole, others, unreadable)


def moves_atime(info: os.stat_result, flags: int, uid: int, now: float) -> bool:
    """Whether a read by a process of `uid` would write the access time; `flags` are f_flag of
    statvfs(3).
    """
    if uid in {0, info.st_uid} or flags & (os.ST_NOATIME | os.ST_RDONLY):
        return False
    if not flags & os.ST_RELATIME:
        return True
    # relatime writes when the old access time is not newer than both others, or a day old
    # (fs/inode.c, relatime_need_update).
    return info.st_atime <= max(info.st_mtime, info.st_ctime) or now - info.st_atime >= DAY_S


def may_read(path: str, info: os.stat_result, uid: int) -> bool:
    """Whether a process of `uid` will be able to open it, as far as that can be known before."""
    if uid == os.geteuid():
        return os.access(path, os.R_OK, effective_ids=True)
    # For another user only the mode is asked: ACLs and groups are not, so the probe of the decoder
    # has the last word.
    return bool(
        info.st_mode & (stat.S_IRUSR if uid == info.st_uid else stat.S_IROTH | stat.S_IRGRP)
    )


def names_below(folder: str) -> Iterator[str]:
    """The regular files below a folder, on its file system; links are not followed."""
    if not Path(folder).is_dir():
        raise HosttuneError(
            f"{folder} is not a folder", hint="name the folder that holds the files"
        )
    for place, entries in Walk(folder).chunks():
        for entry in entries:
            if not entry.is_symlink():
                yield f"{place}/{entry.name}"


def evict_files(paths: Iterable[str]) -> None:
    """Let go of what the page cache holds of these files; that needs no rights beyond those to read
    them.
    """
    for path in paths:
        with suppress(OSError):
            fd, _ = open_regular(path, _FLAGS)
            try:
                drop(fd)
            finally:
                os.close(fd)
