"""Who else uses the processors: looked up now and then, because it costs a look at every
process.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable

from hosttune.host.reading.bounded import process_ids
from hosttune.measure.watch.kept import content_of
from hosttune.measure.watch.parse import ProcessStat, process_stat
from hosttune.measure.watch.tick import GpuUser, Other

EVERY_S = 60.0
STALE_S = 15.0  # between two looks that belong together
MOST = 5
LEAST_CORES = 0.1
GONE = "process that has ended"
# nvidia-cuda-mps-server, as far as the kernel keeps names: it computes for the job itself
_MPS = "nvidia-cuda-mps"


class Others:
    """Two looks in a row make an answer; then there is none for a minute."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._was: dict[int, ProcessStat] = {}
        self._was_at = float("-inf")
        self._answered_at = float("-inf")

    def look(self, members: Container[int], now_s: float) -> tuple[Other, ...] | None:
        """The busiest processes that are no members; None where none is due."""
        if now_s - self._answered_at < EVERY_S:
            return None
        now = self._all()
        was, was_at = self._was, self._was_at
        self._was, self._was_at = now, now_s
        seconds = now_s - was_at
        # The first look of a pair: its counters are kept, and nothing is said of a minute ago.
        if seconds > STALE_S:
            return None
        self._answered_at = now_s
        self._was = {}
        return find_busiest(was, now, members, seconds, os.sysconf("SC_CLK_TCK"))

    def _all(self) -> dict[int, ProcessStat]:
        found = {}
        for pid in process_ids(self._proc)[0]:
            if pid != os.getpid():
                stat = process_stat(content_of(f"{self._proc}/{pid}/stat") or b"")
                if stat is not None:
                    found[pid] = stat
        return found


def gpu_users(
    pids: Iterable[int], members: Container[int], proc: str = "/proc"
) -> tuple[GpuUser, ...]:
    """Of the processes that hold memory on the job's GPUs those that are no members, by number. One
    that has ended, and whose memory the driver has not given back, is `GONE`.
    """
    found = []
    for pid in sorted({pid for pid in pids if pid not in members}):
        stat = process_stat(content_of(f"{proc}/{pid}/stat") or b"")
        if stat is None and not is_gone(pid):
            continue  # hidden by the option hidepid of proc(5)
        name = GONE if stat is None or stat.state in "ZX" else stat.name
        if not name.startswith(_MPS):
            found.append(GpuUser(pid, name))
    return tuple(found)


def is_gone(pid: int) -> bool:
    """Whether no process has this number; signal 0 is sent to none (kill(2))."""
    try:
        os.kill(pid, 0)
    # A trace, or a driver, may name a number that no process of this kernel can have.
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def find_busiest(
    was: dict[int, ProcessStat],
    now: dict[int, ProcessStat],
    members: Container[int],
    seconds: float,
    hertz: int,
) -> tuple[Other, ...]:
    """Those that used at least a tenth of a core, the busiest first. Pure."""
    found = []
    for pid, stat in now.items():
        old = was.get(pid)
        # The number belongs to another process by now, and a difference would be of two programs.
        if pid in members or (old is not None and old.started != stat.started):
            continue
        cores = (stat.own - (old.own if old else stat.own)) / hertz / seconds
        if cores >= LEAST_CORES:
            found.append(Other(pid, stat.name, round(cores, 2)))
    return tuple(sorted(found, key=lambda other: -other.cores)[:MOST])
