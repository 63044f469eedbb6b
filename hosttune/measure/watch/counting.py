"""What a set of processes did between two looks, those that came and went meanwhile included. Pure.

The kernel adds what a process took to its parent once that one has waited for it: CPU time (cutime,
cstime of proc_pid_stat(5)) and bytes (wait_task_zombie in kernel/exit.c adds up ioac). So the sum
over those alive, less what was counted of the ended ones before, is what all of them did; a run
delay is not handed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from hosttune.measure.watch.parse import ProcessIo, ProcessStat

_ROUNDING = 2  # clock ticks


class Counters(NamedTuple):
    """One process at one look. None where this user may not read it, or the kernel does not count
    it.
    """

    stat: ProcessStat
    io: ProcessIo | None
    delay: int | None
    turns: int | None = None


class Sums(NamedTuple):
    """Clock ticks of each process and nanoseconds that it waited for a CPU; ticks, bytes and
    nanoseconds of all. `turns`: how often the main thread of each was put on a CPU.
    """

    own: dict[int, int]
    waited: dict[int, int]
    ticks: int
    lasting: int  # of these, those of processes that were there at both looks and are there yet
    io: ProcessIo | None
    delay: int | None
    faults: int = 0
    turns: Mapping[int, int] = MappingProxyType({})


_NOTHING = ProcessIo(0, 0, 0)
_LITTLE_TICKS, _LITTLE_BYTES = 5, 64 << 10


def is_little(old: Counters, new: Counters) -> bool:
    """Whether a process did next to nothing between two looks: no file was waited for, and hardly
    any CPU time used.
    """
    if (
        old.io is None
        or new.io is None
        or new.io[1:] != old.io[1:]
        or new.stat.faults != old.stat.faults
    ):
        return False
    return (
        new.stat.own - old.stat.own <= _LITTLE_TICKS and new.io.read - old.io.read <= _LITTLE_BYTES
    )


def compute_sums(
    before: Mapping[int, Counters], now: Mapping[int, Counters], last_look: int
) -> Sums:
    """`last_look` in clock ticks since boot: what was started later is counted from its start, what
    was there and was not seen then counts from now on.
    """
    own: dict[int, int] = {}
    waited: dict[int, int] = {}
    turns: dict[int, int] = {}
    ticks = delay = lasting = faults = 0
    io = [0, 0, 0]
    for pid, new in now.items():
        old = before.get(pid)
        is_fresh = old is None and new.stat.started >= last_look
        if old is None and not is_fresh:
            own[pid] = 0
            continue
        own[pid] = new.stat.own - (old.stat.own if old else 0)
        lasting += own[pid] if old is not None and new.stat.state not in "ZX" else 0
        ticks += own[pid] + new.stat.ended - (old.stat.ended if old else 0)
        faults += new.stat.faults - (old.stat.faults if old else 0)
        base = old.io if old else _NOTHING
        if new.io is not None and base is not None:
            io = [total + now_ - was for total, now_, was in zip(io, new.io, base, strict=True)]
        since = old.delay if old else 0
        if new.delay is not None and since is not None:
            waited[pid] = new.delay - since
            delay += waited[pid]
        if new.turns is not None and old is not None and old.turns is not None:
            turns[pid] = new.turns - old.turns
    for old in _handed_on(before, now):
        ticks -= old.stat.own + old.stat.ended
        if old.io is not None:
            io = [total - was for total, was in zip(io, old.io, strict=True)]
    return Sums(
        own,
        waited,
        max(0, ticks),
        lasting,
        ProcessIo(*(max(0, total) for total in io))
        if all(one.io is not None for one in now.values())
        else None,
        max(0, delay) if all(one.delay is not None for one in now.values()) else None,
        max(0, faults),
        turns,
    )


def _handed_on(before: Mapping[int, Counters], now: Mapping[int, Counters]) -> Iterator[Counters]:
    """Those that have ended and were waited for: what they had taken until the last look was
    counted then, and is in the sum of all that waited. A whole line may end between two looks; all
    of it is then in the sum of the first forebear that lives, and no more than that one gained.
    """
    gone = [old for pid, old in before.items() if pid not in now]
    heirs = [_find_heir(old.stat, before, now) for old in gone]
    ended = [(heir, old) for heir, old in zip(heirs, gone, strict=True) if heir is not None]
    gained: dict[int, int] = {}
    for (_, heir), old in sorted(ended, key=lambda one: one[0]):
        left = gained.get(heir, now[heir].stat.ended - before[heir].stat.ended)
        counted = old.stat.own + old.stat.ended
        if left >= counted - _ROUNDING:
            gained[heir] = left - counted
            yield old


def _find_heir(
    child: ProcessStat, before: Mapping[int, Counters], now: Mapping[int, Counters]
) -> tuple[int, int] | None:
    """How many generations up the first forebear is that was there at both looks, and which it
    is.
    """
    pid = child.parent
    for generations in range(1, len(before) + 1):
        if pid not in before:
            return None
        if pid in now:
            return generations, pid
        pid = before[pid].stat.parent
    return None
