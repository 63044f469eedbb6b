"""Memory: what a data set takes in it, and what there is for it.

Sources: MemAvailable (proc_meminfo(5)); memory.max and memory.high (kernel:
Documentation/admin-guide/cgroup-v2.rst), memory.limit_in_bytes (cgroup-v1/memory.rst), which count
page cache and the kernel's inodes as well.
"""

from __future__ import annotations

from typing import Final

from hosttune.facts.cpu.cpu import GROUPS, parse_groups, walk_upwards
from hosttune.facts.memory.memory import parse_meminfo
from hosttune.frozen import frozen
from hosttune.host.reading.bounded import head_text
from hosttune.numbers import parse_digits

FITS: Final = 0.6  # of the room: the rest is the job's own
TIGHT: Final = 0.8
DENTRY: Final = 192  # bytes of struct dentry, with a name of up to 39 bytes in it
# Bytes of an inode in memory (object sizes of /proc/slabinfo, Linux 6.18, x86-64); names cost a
# dentry each.
INODES: Final = {
    "ext4": 1128, "ext3": 1128, "ext2": 1128, "xfs": 1024, "btrfs": 1016, "tmpfs": 752,
    "overlay": 704, "squashfs": 704, "erofs": 696,
}  # fmt: skip
_INODE: Final = 1024  # of any other
_ENDLESS: Final = 1 << 60  # version 1 writes a huge number where there is no limit


@frozen
class Room:
    """`bytes` is what new work can have without swapping: memory that is available, or less by a
    control group. 0 where it is not known; `reason` says where it comes from.
    """

    bytes: int
    available_bytes: int
    limit_bytes: int | None
    reason: str


@frozen
class Fit:
    """Whether so many bytes have room, `low_bytes` to `high_bytes` by what is known (None: no one
    knows how many). `answer` is fits (all of it below 60 %), tight (to 80 %), too large (all of it
    above), or unknown, with the reason: memory, guess, margin (the interval goes across), sizes
    (not all were taken) or partial (not all was seen).
    """

    needs_bytes: int
    share: float
    answer: str
    low_bytes: int
    high_bytes: int | None
    why: str = ""


def fit(
    needs: int, room: Room, low: int | None = None, high: int | None = -1, why: str = "guess"
) -> Fit:
    """Pure. Without an interval `needs` is exact; `why` is the reason where there is no upper
    end.
    """
    low = needs if low is None else low
    high = needs if high == -1 else high
    if room.bytes <= 0:
        return Fit(needs, 0.0, "unknown", low, high, "memory")
    share = needs / room.bytes
    # Asked before the missing upper end: what is known to be too large stays so however much is
    # added.
    if low > TIGHT * room.bytes:
        return Fit(needs, share, "too large", low, high)
    if high is None:
        return Fit(needs, share, "unknown", low, None, why)
    if high < FITS * room.bytes:
        return Fit(needs, share, "fits", low, high)
    if low >= FITS * room.bytes and high <= TIGHT * room.bytes:
        return Fit(needs, share, "tight", low, high)
    return Fit(needs, share, "unknown", low, high, "margin")


def inode_bytes(fstype: str, files: int, folders: int) -> int:
    """What names and inodes of a data set take in the kernel. Pure."""
    return (files + folders) * (INODES.get(fstype, _INODE) + DENTRY)


def read_room(*, root: str = "") -> Room:
    """The room of this process; `root` is before /proc and /sys, for tests."""
    available = parse_meminfo(_read(f"{root}/proc/meminfo")).get("MemAvailable", 0)
    limits = memory_limits(root=root)
    path, limit = min(limits.items(), key=lambda one: one[1], default=("", None))
    if limit is not None and (limit < available or not available):
        return Room(limit, available, limit, f"limit of {path}")
    return Room(
        available, available, limit, "available memory" if available else "memory is not known"
    )


def memory_limits(pid: int = 0, *, root: str = "") -> dict[str, int]:
    """File -> bytes, of the control group of a process (0 is this one) and of those above it."""
    groups = parse_groups(_read(f"{root}/proc/{pid or 'self'}/cgroup"))
    is_v1 = "memory" in groups
    mount = f"{root}{GROUPS}/memory" if is_v1 else f"{root}{GROUPS}"
    # memory.high throttles and reclaims before memory.max is reached, so the page cache ends there.
    names = ("memory.limit_in_bytes",) if is_v1 else ("memory.max", "memory.high")
    found = {}
    for folder in walk_upwards(mount, groups.get("memory", groups.get("", "/"))):
        for name in names:
            word = _read(f"{folder}/{name}").strip()
            if (limit := parse_digits(word, _ENDLESS)) < _ENDLESS:
                found[f"{folder.removeprefix(root)}/{name}"] = limit
    return found


def _read(path: str) -> str:
    return head_text(path)
