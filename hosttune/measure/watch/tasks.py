"""The tasks of a job at one moment: how many want a CPU, and which processes wait for storage in
one of their threads.

/proc/PID/stat has the state of the main thread only; each thread has its own in
/proc/PID/task/TID/stat (proc_pid_stat(5)). Of a process with many threads an even sample is read,
and counts for all of them; a small one, of other threads in each look, where all were asleep and
the process did next to nothing since.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from hosttune.host.reading.bounded import names_in
from hosttune.measure.watch.kept import content_of
from hosttune.measure.watch.process import WatchedProcess

MOST_READ = 256  # threads whose state is read in one look
_LISTED = 16  # times as many are listed as are read
_LEAST_OF_ONE = 8
_OF_ASLEEP = 12  # of a process that does next to nothing


class TaskStates(NamedTuple):
    """`wanting`: tasks that run or queue for a CPU; `processes`: those with such a task; `blocked`:
    those with a task in uninterruptible sleep, and none that runs beside it.
    """

    wanting: float
    processes: int
    blocked: int


def look_at_tasks(alive: Iterable[WatchedProcess], proc: str = "/proc") -> TaskStates:
    """The busiest processes are looked into first; of those that are left over only the main thread
    counts.
    """
    wanting, processes, blocked, left = 0.0, 0, 0, MOST_READ
    # The number breaks ties, so that two looks at an idle job look into the same processes.
    ordered = sorted(alive, key=lambda one: (-one.cores, one.pid))
    pools = sum(one.counters is not None and one.counters.stat.threads > 1 for one in ordered)
    share = max(_LEAST_OF_ONE, MOST_READ // max(1, pools))
    for one in ordered:
        if one.counters is None:
            continue
        state, threads = one.counters.stat.state, one.counters.stat.threads
        states = [state]
        if threads > 1 and left > 0:
            states = _list_states(one, state, min(share, left), proc) or states
            one.are_asleep = not {"R", "D"}.intersection(states)
            left -= len(states)
        running = states.count("R")
        wanting += running * max(1, threads if len(states) > 1 else 1) / len(states)
        processes += running > 0
        # A process whose other threads run does not stand still for one that waits.
        blocked += state == "D" or ("D" in states and not running)
    return TaskStates(wanting, processes, blocked)


def _list_states(one: WatchedProcess, state: str, most: int, proc: str) -> list[str]:
    """Those of some threads, evenly over those that are listed; none if the process has just ended.
    That of the main thread need not be read: the process itself has told it.
    """
    folder = f"{proc}/{one.pid}/task"
    names: list[str] = []
    with suppress(OSError):
        names = names_in(folder, _LISTED * most)[0]
    known = {str(one.pid): state}
    if one.are_asleep and one.did_little and len(names) > _OF_ASLEEP < most:
        one.turn += 1
        step = -(-len(names) // _OF_ASLEEP)
        states = _read_states(folder, names[one.turn % step :: step], known)
        if not {"R", "D"}.intersection(states):
            return states
    return _read_states(folder, names[:: max(1, -(-len(names) // most))], known)


def _read_states(folder: str, chosen: list[str], known: dict[str, str]) -> list[str]:
    contents = (content_of(f"{folder}/{name}/stat") for name in chosen if name not in known)
    read = [one.rpartition(b")")[2][1:2].decode("ascii", "replace") for one in contents if one]
    return [known[name] for name in chosen if name in known] + read
