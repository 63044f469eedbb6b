"""What this container or Slurm job may use of its host, seen from inside: by the process that asks.

Sources: proc_pid_status(5) (Cpus_allowed_list), cgroups(7), cpu.max, memory.max, memory.high and
memory.events (Documentation/admin-guide/cgroup-v2.rst), cpu.cfs_quota_us (scheduler/sched-bwc.rst),
memory.limit_in_bytes and memory.oom_control (cgroup-v1/memory.rst), getrlimit(2). os.cpu_count() of
Python counts the CPUs on line, whatever of them may be used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.cpu.cpu import find_allowed, find_quota, group_folders, parse_groups
from hosttune.facts.limits.limits import UNLIMITED, parse_limits
from hosttune.facts.reading import (
    if_absent,
    is_there,
    parse_or_unknown,
    read_line,
    read_text,
    require_known,
)
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.work import SLURM_GROUP
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.facts.cpu.cpu import Quota
    from hosttune.host.door import Reader

_GROUP = "/proc/self/cgroup"
_LIMITS = "/proc/self/limits"
_ENDLESS = 1 << 60  # version 1 writes the largest multiple of a page for no limit


@frozen
class Confines(Subject):
    """The room of the process that asks. Nothing of it is looked at on a host outside of a job."""

    # docker, podman, kubernetes, lxc ...: as host.container; slurm for a job; empty for neither
    by: str = read_with(lambda self: _find_manager(self.reader, self.facts))

    @fact
    def cpus(self) -> float:
        """By affinity and the tightest quota."""
        return self._room[0]

    counted_cpus: int = read_with(lambda self: self.facts.cpu.threads)  # what os.cpu_count() says

    @fact
    def quota(self) -> str:
        """The file of the quota, where that decides; empty where the affinity does."""
        return self._room[1]

    @fact
    def memory_bytes(self) -> int:
        """The tightest limit of the control groups; 0 without one."""
        return self._memory[0]

    # what /proc/meminfo says, and programs that read it: of the host
    counted_memory_bytes: int = read_with(lambda self: self.facts.memory.total_bytes)

    @fact
    def memory_kills(self) -> int:
        """Processes that the kernel has killed in the group of that limit, which holds this one."""
        return self._memory[1]

    @fact
    def nofile(self) -> int:
        """Open files, the soft limit."""
        return self._limits["Max open files"][0]

    @fact
    def memlock(self) -> int:
        """Bytes of locked memory, the soft limit."""
        return self._limits["Max locked memory"][0]

    # devices of InfiniBand or RoCE can be opened here
    has_rdma: bool = read_with(lambda self: is_there(self.reader, "/dev/infiniband"))

    @fact
    def _room(self) -> tuple[float, str]:
        allowed = find_allowed(self.reader, "self")
        quota: Quota | None = find_quota(self.reader, "self")
        # Both bounds hold at once: a quota of 8 CPUs is worth no more than the 4 that affinity
        # leaves.
        return (quota.cpus, quota.path) if quota and quota.cpus < allowed else (float(allowed), "")

    @fact
    def _memory(self) -> tuple[int, int]:
        """The limit, and kills where it is set: version 2 counts there what was killed in all
        groups below, too.
        """
        is_v1, folders = group_folders(self.reader, "self", "memory")
        names = ("memory.limit_in_bytes",) if is_v1 else ("memory.max", "memory.high")
        words = (
            (read_line(self.reader, f"{folder}/{name}"), folder)
            for folder in folders
            for name in names
        )
        limits = [
            (parse_digits(word, _ENDLESS), folder) for word, folder in words if word is not ABSENT
        ]
        # A group can have a lower limit than this process's own: the tightest one above it is in
        # force.
        limit, folder = min(limits, default=(_ENDLESS, ""), key=lambda one: one[0])
        if limit >= _ENDLESS:
            return 0, 0
        events = if_absent(
            read_text(
                self.reader, f"{folder}/{'memory.oom_control' if is_v1 else 'memory.events'}"
            ),
            "",
        )
        kills = [line.split()[-1] for line in events.splitlines() if line.startswith("oom_kill ")]
        return limit, parse_digits(kills[0], 0) if kills else 0

    @fact
    def _limits(self) -> Mapping[str, tuple[int, int]]:
        return parse_or_unknown(
            parse_limits, require_known(read_text(self.reader, _LIMITS), _LIMITS)
        )

    @property
    def whole_cpus(self) -> int:
        """Threads or processes that can be busy, at least 1."""
        return max(1, int(self.cpus))

    @property
    def is_memlock_unlimited(self) -> bool:
        """Whether this shell may lock as much memory as it likes."""
        return self.memlock >= UNLIMITED

    @property
    def summary(self) -> str:
        """`4 of 64 CPUs, 16 of 251 GiB of memory, 1024 open files`."""
        gib = [f"{size / (1 << 30):.3g}" for size in (self.memory_bytes, self.counted_memory_bytes)]
        memory = (
            [f"{' of '.join(gib)} GiB of memory"]
            if 0 < self.memory_bytes < self.counted_memory_bytes
            else []
        )
        files = "any number of" if self.nofile >= UNLIMITED else self.nofile
        return ", ".join(
            [f"{self.cpus:g} of {self.counted_cpus} CPUs", *memory, f"{files} open files"]
        )


def _find_manager(reader: Reader, facts: Facts) -> str:
    if facts.host.is_container:
        return facts.host.container or "other"
    groups = attempt(lambda: if_absent(read_text(reader, _GROUP), ""))
    if not isinstance(groups, str):
        raise UnknownFact(groups.reason)
    return (
        "slurm" if any(SLURM_GROUP.match(group) for group in parse_groups(groups).values()) else ""
    )
