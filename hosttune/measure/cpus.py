"""How many CPUs a process can keep busy: those of its affinity, within the quotas of its control
groups.

Sources: sched_getaffinity(2); cpu.max (kernel: Documentation/admin-guide/cgroup-v2.rst);
cpu.cfs_quota_us and cpu.cfs_period_us (Documentation/scheduler/sched-bwc.rst). A quota of a group
above counts as well.
"""

from __future__ import annotations

import os
from contextlib import suppress

from hosttune.facts.cpu.cpu import GROUPS, Quota, parse_cpu_max, parse_groups, walk_upwards
from hosttune.frozen import frozen
from hosttune.host.reading.bounded import head_text


@frozen
class Cpus:
    """`usable` is a number of CPUs, with a fraction where a quota says so; `reason` a sentence that
    tells why.
    """

    usable: float
    reason: str

    @property
    def whole(self) -> int:
        """The processes that can be kept busy, at least 1."""
        return max(1, int(self.usable))


def usable_cpus(pid: int = 0, *, root: str = "") -> Cpus:
    """The CPUs of a process, 0 is this one. `root` is before /proc and /sys, for tests of quotas.

    Raises ProcessLookupError for one that is gone.
    """
    allowed = len(os.sched_getaffinity(pid))
    return join_limits(allowed, find_quotas(pid, root=root))


def join_limits(allowed: int, found: tuple[Quota, ...]) -> Cpus:
    """The affinity and the tightest quota, joined. Pure."""
    # A quota of a group above counts for all below, so the tightest one decides, wherever it is.
    tightest = min(found, key=lambda quota: quota.cpus, default=None)
    if tightest is None or tightest.cpus >= allowed:
        return Cpus(float(allowed), f"{allowed} usable CPU{'s' * (allowed != 1)}")
    return Cpus(tightest.cpus, f"{round(tightest.cpus, 2):g} of {allowed} CPUs by {tightest.path}")


def find_quotas(pid: int = 0, *, root: str = "") -> tuple[Quota, ...]:
    """The quotas of a process's control group and of those above it, of version 1 and 2."""
    groups = parse_groups(_read(f"{root}/proc/{pid or 'self'}/cgroup"))
    found = []
    # With version 1 of the cpu controller, version 2 has none (hybrid set-up).
    is_v1 = "cpu" in groups
    mount = f"{root}{GROUPS}/cpu" if is_v1 else f"{root}{GROUPS}"
    # In a container the path of the host may be missing below the mount: then only the folders that
    # are there answer.
    for folder in walk_upwards(mount, groups.get("cpu", groups.get("", "/"))):
        cpus = _read_v1(folder) if is_v1 else _read_v2(folder)
        if cpus is not None:
            found.append(
                Quota(
                    cpus,
                    f"{folder.removeprefix(root)}/{'cpu.cfs_quota_us' if is_v1 else 'cpu.max'}",
                )
            )
    return tuple(found)


def _read_v2(folder: str) -> float | None:
    with suppress(ValueError):
        return parse_cpu_max(content) if (content := _read(f"{folder}/cpu.max").strip()) else None
    return None


def _read_v1(folder: str) -> float | None:
    with suppress(ValueError):
        quota, period = (int(_read(f"{folder}/cpu.cfs_{name}_us")) for name in ("quota", "period"))
        return quota / period if quota > 0 and period > 0 else None  # -1: no limit
    return None


def _read(path: str) -> str:
    return head_text(path)
