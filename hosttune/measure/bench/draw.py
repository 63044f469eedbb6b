"""What a data set is made of, as far as scratch copies have to resemble it: sizes and access times of a sample."""

from __future__ import annotations

import os
import random
import stat
import time

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.measure.bench.read_sample import DAY_S, names_below

MOST_LOOKED_AT = 20_000
MOST_SECONDS = 10.0  # to look for names
MOST_FILE_BYTES = 16 << 20  # of one scratch copy


@frozen
class RandomDraw:
    """A sample of the regular files of a tree."""

    sizes: tuple[int, ...]  # bytes, in random order
    stale: int  # of them, whose access time relatime would write at the next read
    seen: int  # names that were seen
    is_whole: bool  # all names of the tree were seen


def draw(folder: str, seed: int) -> RandomDraw:
    """Look at up to 20,000 files below `folder`. Opens none of them. Raises HosttuneError where there are none."""
    order = random.Random(seed)  # noqa: S311 - a sample, to be repeated from its seed
    until = time.monotonic() + MOST_SECONDS
    chosen: list[str] = []
    seen, is_whole = 0, True
    for path in names_below(folder):
        seen += 1
        if len(chosen) < MOST_LOOKED_AT:
            chosen.append(path)
        elif (place := order.randrange(seen)) < MOST_LOOKED_AT:
            chosen[place] = path
        if seen % 1024 == 0 and time.monotonic() > until:
            is_whole = False
            break
    order.shuffle(chosen)
    now, sizes, stale = time.time(), [], 0
    for path in chosen:
        try:
            info = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode) and info.st_size:
            sizes.append(info.st_size)
            stale += is_stale(info, now)
    if not sizes:
        raise HosttuneError(f"{folder} holds no files that can be looked at", hint="name the folder of the data set")
    return RandomDraw(tuple(sizes), stale, seen, is_whole)


def is_stale(info: os.stat_result, now: float) -> bool:
    """Whether relatime would write the access time at the next read (fs/inode.c, relatime_need_update)."""
    return info.st_atime <= max(info.st_mtime, info.st_ctime) or now - info.st_atime >= DAY_S


def copy_sizes(sizes: tuple[int, ...], files: int, most_bytes: int) -> tuple[int, ...]:
    """The sizes of at most `files` scratch copies, drawn in turn, together at most `most_bytes`. Never empty."""
    taken: list[int] = []
    total = 0
    while len(taken) < files:
        size = min(sizes[len(taken) % len(sizes)], MOST_FILE_BYTES, most_bytes)
        if total + size > most_bytes:
            break
        taken.append(size)
        total += size
    return tuple(taken)
