"""GPU work seen as jobs: ranks, the loaders that they forked, their CPUs, what they were started
with.

A DataLoader's worker is a fork of its rank and inherits the open GPU devices, so of a tree of GPU
processes the topmost is the rank. CPUs: sched_setaffinity(2), and cpu.max of the control group and
those above it (kernel: Documentation/admin-guide/cgroup-v2.rst). Of environments only names of a
fixed list are known (host/processes/proc.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, make_unread
from hosttune.facts.processes import container_of
from hosttune.facts.reading import hint, require_known
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.host.reading.bounded import CUT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Process, Reader

_GROUPS = "/sys/fs/cgroup"
_OFF = frozenset({"", "0", "off", "OFF", "false", "False"})
# What each means while it is set; values that mean "off" are left out.
_DEBUG: Mapping[str, str] = {
    "CUDA_LAUNCH_BLOCKING": "waits for every kernel",
    "CUDA_INJECTION64_PATH": "loads a profiler or debugger",
    "NSIGHT_CUDA_DEBUGGER": "runs under a debugger",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "dumps GPU memory on an error",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION": "stops and waits for a debugger on an error",
    "COMPUTE_PROFILE": "profiles",
    "PYTORCH_USE_CUDA_DSA": "asserts on the device",
    "TORCH_SHOW_CPP_STACKTRACES": "collects C++ stack traces",
}
_LEVELS: Mapping[str, frozenset[str]] = {
    "NCCL_DEBUG": frozenset({"TRACE"}),
    "TORCH_DISTRIBUTED_DEBUG": frozenset({"DETAIL"}),
}


@frozen
class Rank(Fact):
    """One process that computes on a GPU, with the processes that it forked."""

    name: str  # python (4711)
    pid: int  # the number of the process
    user: str  # whose process it is: a name, or a number that no name belongs to
    is_python: bool  # a Python interpreter
    is_contained: bool  # it runs in a container
    workers: int  # processes that it forked and that have its GPU open
    # that it may use: affinity, and the quota of its control groups; 0 where that is not known
    cpus: float
    threads: int  # OMP_NUM_THREADS, 0 where that is not set
    # CPUs that it may use whatever its quota: OpenMP starts as many threads if that is not set
    affinity: int
    debug: tuple[str, ...]  # "CUDA_LAUNCH_BLOCKING (waits for every kernel)"


@frozen
class Jobs(Subject):
    """The ranks of this host."""

    @fact
    def ranks(self) -> tuple[Rank, ...]:
        return _find_ranks(self._processes, self._quotas)

    @fact
    def cpus(self) -> float:
        """That all ranks together may use: of those that share them, once; 0 where that is not
        known.
        """
        return _combine_ranks(
            self.ranks, {one.pid: one.cgroup for one in self._processes.values()}, self._quotas
        )

    all_cpus: int = read_with(lambda self: self.facts.cpu.threads)  # of the host

    @fact
    def _processes(self) -> Mapping[int, Process]:
        return _gpu_processes(self.reader, self.facts)

    @fact
    def _quotas(self) -> dict[str, float | None]:
        return {
            group: _read_quota(self.reader, group)
            for group in {one.cgroup for one in self._processes.values()}
        }

    @property
    def workers(self) -> int:
        """The loader processes of all ranks."""
        return sum(rank.workers for rank in self.ranks)

    @property
    def threads(self) -> int:
        """OMP_NUM_THREADS over all ranks. A Python that does not set it counts as many as the CPUs
        of its affinity if these are all CPUs of the host, or if a quota gives it less; ranks that
        are bound to CPUs share none of them.
        """
        return sum(rank.threads or self._default_threads(rank) for rank in self.ranks)

    @property
    def unset(self) -> int:
        """The ranks that do not set OMP_NUM_THREADS, and start a thread for each CPU."""
        return sum(not rank.threads and self._default_threads(rank) > 0 for rank in self.ranks)

    def _default_threads(self, rank: Rank) -> int:
        is_wide = rank.affinity >= self.all_cpus or rank.cpus < rank.affinity
        return rank.affinity if rank.is_python and is_wide else 0

    @property
    def pythons(self) -> tuple[Rank, ...]:
        """The ranks that are Python."""
        return tuple(rank for rank in self.ranks if rank.is_python)


def debug_in(variables: Iterable[str]) -> tuple[str, ...]:
    """Those that make a job slower, or stop it, each with what it does."""
    found = []
    for name, _, value in (one.partition("=") for one in variables):
        if name in _DEBUG and value not in _OFF:
            found.append(f"{name} ({_DEBUG[name]})")
        elif value.upper() in _LEVELS.get(name, ()):
            found.append(f"{name}={value.upper()}")
    return tuple(found)


def quota_of(content: str) -> float | None:
    """CPUs that cpu.max grants: "200000 100000" is 2.0, "max 100000" is no limit."""
    match = re.fullmatch(r"(\d{1,15}) (\d{1,15})", content.strip())
    return int(match[1]) / int(match[2]) if match and int(match[2]) else None


def _gpu_processes(reader: Reader, facts: Facts) -> Mapping[int, Process]:
    pids = {one.pid for one in facts.work.gpu_processes}
    listed = require_known(reader.processes(), "the list of processes") if pids else ()
    return {one.pid: one for one in listed if one.pid in pids}


def _find_ranks(gpu: Mapping[int, Process], quotas: Mapping[str, float | None]) -> tuple[Rank, ...]:
    trees = Counter(_find_tops(gpu).values())
    return tuple(
        _make_rank(gpu[pid], size - 1, quotas[gpu[pid].cgroup])
        for pid, size in sorted(trees.items())
    )


def _find_tops(gpu: Mapping[int, Process]) -> Mapping[int, int]:
    """The topmost GPU process above each. Other programs may be launchers, and are not passed."""
    tops: dict[int, int] = {}
    for pid in gpu:
        top = pid
        passed = {top: None}
        # `passed` ends a ring: numbers of processes are used again, so that of a list that took a
        # while a parent can be its own descendant.
        while (parent := gpu[top].parent) in gpu and parent not in passed and parent not in tops:
            top = parent
            passed[top] = None
        tops |= dict.fromkeys(passed, tops.get(parent, top))
    return tops


def _make_rank(process: Process, workers: int, quota: float | None) -> Rank:
    own = dict(one.partition("=")[::2] for one in process.variables)
    first = process.command[0] if process.command not in ((), (CUT,)) else process.name
    program = first.rpartition("/")[2]
    reason = f"the environment of {process.name} ({process.pid}) could not be read whole"
    cut = make_unread(reason) if CUT in process.variables else None
    threads = own.get("OMP_NUM_THREADS", "").partition(",")[0]
    return Rank(
        name=f"{process.name} ({process.pid})",
        pid=process.pid,
        user=process.user,
        is_python=program.startswith("python"),
        is_contained=bool(container_of(process.cgroup)),
        workers=workers,
        cpus=min(float(process.cpus), quota)
        if quota is not None and process.cpus
        else float(process.cpus),
        threads=int(threads) if threads.isdecimal() and len(threads) < 5 else cut or 0,
        affinity=process.cpus,
        debug=cut or debug_in(process.variables),
    )


def _read_quota(reader: Reader, group: str) -> float | None:
    """The least of cpu.max in a control group and those above it; none where none is set."""
    found = []
    while group.strip("/"):
        if (quota := quota_of(hint(reader, f"{_GROUPS}{group}/cpu.max"))) is not None:
            found.append(quota)
        group = group.rpartition("/")[0]
    return min(found, default=None)


def _combine_ranks(
    ranks: tuple[Rank, ...], groups: Mapping[int, str], quotas: Mapping[str, float | None]
) -> float:
    """Ranks that may use many CPUs share them: the most of any; ranks bound to CPUs of their own,
    or with a quota each, add up to no less.
    """
    # One unknown part makes the sum unknown. Without it the rest would look like all CPUs that the
    # job has.
    if any(not rank.cpus for rank in ranks):
        return 0.0
    limited = {
        groups[rank.pid]: rank.cpus for rank in ranks if quotas[groups[rank.pid]] is not None
    }
    free = [rank.cpus for rank in ranks if quotas[groups[rank.pid]] is None]
    return sum(limited.values()) + max(free, default=0.0)
