"""The processes of a job: found by their parents, kept by what they are.

A process belongs to the job once it was seen as a child of a member, also after its parent has
ended and another has adopted it. With `follows_group` so does whatever is in the process group or
the session that the main process leads.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress

from hosttune.host.reading.bounded import process_ids
from hosttune.measure.watch.counting import Sums, compute_sums
from hosttune.measure.watch.family import Family, Member, is_worker, sort_family
from hosttune.measure.watch.kept import content_of
from hosttune.measure.watch.parse import ProcessStat, process_stat
from hosttune.measure.watch.process import FILES, WatchedProcess
from hosttune.measure.watch.tasks import look_at_tasks
from hosttune.measure.watch.tick import TreeTick

MOST_MEMBERS = 1 << 15
MOST_CHILDREN = 64  # whose cores a tick keeps
# looks between two searches that cost more: children of all threads, the process group
FULL_EVERY = 10
# looks between two at the words of a process that has not become another program
COMMAND_EVERY = 60
WORKING_CORES = 0.1  # a process that uses less only waits for the others
FIRST_LOOKS = 3  # in which what was started may still become another program
_SPARE_FILES = 128
_SHORT_S = 2  # that a process which comes and goes lives
_SHORTEST_S = 0.2  # of a process that has just been started: less shows nothing


class Tree:
    """The job under the process `root`. `proc` is where /proc is, for tests."""

    def __init__(self, root: int, *, follows_group: bool = False, proc: str = "/proc") -> None:
        self.root = root
        self.members: dict[int, WatchedProcess] = {}
        self.family = Family(frozenset({root}), frozenset())
        self._proc = proc
        self._is_cut = False  # it has more processes than are watched
        self._follows_group = follows_group
        self._looks = 0
        self._last_look = _read_now()
        self._known: frozenset[int] = frozenset()  # at the last look
        self._most_kept = max(
            8, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_FILES) // FILES
        )
        self._has_lists = True
        self.has_lost = False  # a process that was no short one has ended since the last look
        if self._adopt(root):
            self._discover(is_full=True)

    @property
    def has_root(self) -> bool:
        """The main process runs."""
        return self.root in self.members and self.members[self.root].is_alive

    def look(
        self, seconds: float, *, is_new: bool = True, on_gpu: frozenset[int] = frozenset()
    ) -> TreeTick | None:
        """What it did in the `seconds` since the last look; None once nothing of it is left.

        `is_new`: a process was started somewhere since then, so new children are looked for.
        `on_gpu`: the processes that hold memory of a GPU.
        """
        before = {pid: one.counters for pid, one in self.members.items() if one.counters}
        last_look, self._last_look = self._last_look, _read_now()
        for pid in [pid for pid, one in self.members.items() if not one.look()]:
            del self.members[pid]
        self._known = frozenset(self.members)
        self.has_lost = any(
            self._has_ended(pid, old.stat, last_look) for pid, old in before.items()
        )
        self._looks += 1
        is_full = self._looks % FULL_EVERY == 0
        for one in self.members.values():
            is_early = self._looks <= FIRST_LOOKS and not one.shows_its_program
            if is_early or (self._looks + one.pid) % COMMAND_EVERY == 0:
                one.look_at_command()
        if is_new or is_full:
            self._discover(is_full=is_full)
        if not self.members:
            return None
        now = {pid: one.counters for pid, one in self.members.items() if one.counters}
        return self._tick(seconds, compute_sums(before, now, last_look), on_gpu)

    def close(self) -> None:
        for one in self.members.values():
            one.close()

    def _has_ended(self, pid: int, stat: ProcessStat, last_look: int) -> bool:
        is_alive = pid in self.members and self.members[pid].is_alive
        return (
            not is_alive
            and stat.state not in "ZX"
            and last_look - stat.started >= _SHORT_S * os.sysconf("SC_CLK_TCK")
        )

    def _adopt(self, pid: int) -> bool:
        if len(self.members) >= MOST_MEMBERS:
            self._is_cut = True
            return False
        process = WatchedProcess(pid, self._proc, is_kept=len(self.members) < self._most_kept)
        if process.look():
            self.members[pid] = process
            return True
        return False

    def _discover(self, *, is_full: bool) -> None:
        waiting = list(self.members.values())
        while waiting and self._has_lists:
            one = waiting.pop()
            found = one.children()
            if found is None:  # it has just ended, or there are no lists (CONFIG_PROC_CHILDREN)
                own = os.getpid()
                self._has_lists = os.path.exists(f"{self._proc}/{own}/task/{own}/children")
                continue
            if is_full and one.counters is not None and one.counters.stat.threads > 1:
                found += one.children_of_threads()
            waiting += [
                self.members[pid] for pid in found if pid not in self.members and self._adopt(pid)
            ]
        if not self._has_lists or (is_full and self._follows_group):
            self._scan()

    def _scan(self) -> None:
        """Looks for members among all processes of the host: by parent, and by the group or session
        that is led.
        """
        seen = dict(self._all())
        root = self.members[self.root].counters if self.root in self.members else None
        leads_group = self._follows_group and root is not None and root.stat.group == self.root
        leads_session = self._follows_group and root is not None and root.stat.session == self.root
        children: dict[int, list[int]] = {}
        led = []
        for pid, stat in seen.items():
            children.setdefault(stat.parent, []).append(pid)
            if (leads_group and stat.group == self.root) or (
                leads_session and stat.session == self.root
            ):
                led.append(pid)
        waiting = [*led, *(pid for member in self.members for pid in children.get(member, ()))]
        while waiting:
            pid = waiting.pop()
            if pid not in self.members and self._adopt(pid):
                waiting += children.get(pid, ())

    def _all(self) -> Iterator[tuple[int, ProcessStat]]:
        with suppress(OSError):
            for pid in process_ids(self._proc)[0]:
                if pid != os.getpid():
                    stat = process_stat(content_of(f"{self._proc}/{pid}/stat") or b"")
                    if stat is not None:
                        yield pid, stat

    def _tick(self, seconds: float, done: Sums, on_gpu: frozenset[int]) -> TreeTick:
        hertz = os.sysconf("SC_CLK_TCK")
        alive = [one for one in self.members.values() if one.is_alive]
        for one in alive:
            one.cores = done.own.get(one.pid, 0) / hertz / seconds
        who = [
            Member(one.pid, one.counters.stat.parent, one.command, one.cores)
            for one in alive
            if one.counters
        ]
        self.family = sort_family(who, self.root, on_gpu)
        by_pid = {one.pid: one for one in who}
        new = [one for one in who if one.pid not in self._known and one.parent in by_pid]
        mains = [one.cores for one in alive if one.pid in self.family.mains]
        working = [cores for cores in mains if cores >= WORKING_CORES] or mains
        others = self.family.mains | self.family.launchers
        children = sorted((one.cores for one in alive if one.pid not in others), reverse=True)
        states = [one.counters.stat.state for one in alive if one.counters]
        tasks = look_at_tasks(alive, self._proc)
        return TreeTick(
            processes=len(alive),
            mains=len(mains),
            main_cores=sum(working) / len(working) if working else None,
            children=len(children),
            child_cores=tuple(round(cores, 3) for cores in children[:MOST_CHILDREN]),
            cores=done.ticks / hertz / seconds,
            most_runnable=None if done.delay is None else self._most_runnable(alive, done, seconds),
            line_cores=max(0.0, (done.ticks - done.lasting) / hertz / seconds),
            program=self._program(alive),
            run_delay_cores=None if done.delay is None else done.delay / 1e9 / seconds,
            blocked=tasks.blocked,
            is_stopped=bool(states) and all(state in "Tt" for state in states),
            read_bytes=done.io and done.io.read / seconds,
            device_bytes=done.io and done.io.device / seconds,
            written_bytes=done.io and done.io.written / seconds,
            is_partial=done.io is None or self._is_cut,
            wanting=tasks.wanting,
            faults=done.faults / seconds,
            new_workers=sum(is_worker(one, by_pid[one.parent]) for one in new)
            if self._known
            else 0,
            wanting_processes=tasks.processes,
            piece_ms=_find_longest_piece(alive, others, done, seconds),
        )

    def _most_runnable(self, alive: list[WatchedProcess], done: Sums, seconds: float) -> float:
        """A process that was started within the interval is judged by its own time."""
        hertz = os.sysconf("SC_CLK_TCK")
        shares = [0.0]
        for one in alive:
            age_s = (self._last_look - one.counters.stat.started) / hertz if one.counters else 0.0
            lived = min(1.0, max(age_s, _SHORTEST_S) / seconds)
            shares.append((one.cores + done.waited.get(one.pid, 0) / 1e9 / seconds) / lived)
        return max(shares)

    def _program(self, alive: list[WatchedProcess]) -> str:
        busiest = max(alive, key=lambda one: (one.cores, -one.pid), default=None)
        if busiest is None or busiest.counters is None or busiest.cores <= 0:
            return ""
        return busiest.counters.stat.name


def _find_longest_piece(
    alive: list[WatchedProcess], others: frozenset[int], done: Sums, seconds: float
) -> float | None:
    """Milliseconds between two waits of the active children, those in `others` left out."""
    pieces = [
        1000 * one.cores * seconds / done.turns[one.pid]
        for one in alive
        if one.pid not in others and one.cores >= WORKING_CORES and done.turns.get(one.pid)
    ]
    return max(pieces, default=None)


def _read_now() -> int:
    """Clock ticks since boot, as processes count their start."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
