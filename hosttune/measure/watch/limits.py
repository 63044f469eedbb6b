"""Which limit keeps a job from CPUs that the host has: its size, who set it, and where it is
changed.

Sources: cpu.max and cpu.stat (kernel: Documentation/admin-guide/cgroup-v2.rst), cpu.cfs_quota_us
and cpu.stat of version 1 (Documentation/scheduler/sched-bwc.rst), cpuset.cpus of both,
sched_getaffinity(2). Names of groups: systemd.slice(5), docker run --cgroup-parent, Slurm's cgroup
plugins (cgroup.conf(5)), kubelet.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

from hosttune.facts.cpu.cpu import GROUPS, parse_groups, walk_upwards
from hosttune.measure.cpus import find_quotas
from hosttune.measure.watch.kept import content_of
from hosttune.measure.watch.parse import parse_counter
from hosttune.measure.watch.tick import CpuLimit, LimitKind
from hosttune.quoting import quote
from hosttune.ranges import number_list, number_list_text
from hosttune.regex import regex

_CONTAINER = regex(r"(?:docker|libpod|crio|cri-containerd)[-/]([0-9a-f]{12,64})")
_JOB = regex(r"job_(\d+)")
_FIRST_NAMESPACE = "cgroup:[4026531835]"  # PROC_CGROUP_INIT_INO, include/linux/proc_ns.h
_MOSTLY = 0.6  # of the job's CPU time, that of processes which share few CPUs


class CpuLimits:
    """`look_around` finds the limit anew, `throttled` asks whether a quota has just held the job
    back.
    """

    def __init__(self, root: int) -> None:
        self.limit: CpuLimit | None = None
        self.cpus = 1.0
        self.allowed: frozenset[int] | None = None  # None: all
        self.reason = ""
        self.are_hidden = False  # a quota above what is visible here may hold the job back
        # a quota that was not known has held the job back: time to look around
        self.is_surprised = False
        self._root = root
        self._was: dict[str, int] = {}
        self._folders: tuple[str, ...] = ()
        self.look_around({root: 0.0})

    def look_around(self, cores: Mapping[int, float]) -> None:
        """`cores` are those of the job's processes that work. Raises ProcessLookupError where none
        of them is left.
        """
        masks: dict[frozenset[int], list[float]] = {}
        for pid, used in cores.items():
            with suppress(OSError):
                masks.setdefault(frozenset(os.sched_getaffinity(pid)), []).append(used)
        # Of all working processes together: a launcher may be pinned while its workers are not, and
        # the other way round.
        allowed = frozenset().union(*masks) or frozenset(os.sched_getaffinity(self._root))
        # CPUs of the host, not those of this process, because "others are free" is said of the
        # host.
        whole = os.cpu_count() or 1
        groups = content_of(f"/proc/{self._root}/cgroup") or b""
        self.allowed = None if len(allowed) >= whole else allowed
        self._folders = cpu_folders(groups)
        self.are_hidden = hides_limits(self._folders)
        self.is_surprised = False
        tightest = min(find_quotas(self._root), key=lambda quota: quota.cpus, default=None)
        self.cpus, self.limit = float(len(allowed)), None
        self.reason = f"{len(allowed)} usable CPU{'s' * (len(allowed) != 1)}"
        if tightest is not None and tightest.cpus < len(allowed):
            # As a record keeps it, so that a replay is judged by the same number.
            self.cpus = round(tightest.cpus, 3)
            self.limit = CpuLimit(
                LimitKind.QUOTA, self.cpus, whole, tightest.path, name_setter(tightest.path)
            )
            self.reason = f"{self.cpus:g} of {len(allowed)} CPUs by {tightest.path}"
        elif len(allowed) < whole:
            path = cpuset_of(groups, allowed)
            kind = LimitKind.CPUSET if path else LimitKind.AFFINITY
            self.limit = CpuLimit(kind, self.cpus, whole, path, name_setter(path) if path else "")
        # A mask that is narrower for the workers only: the union above hides it.
        if (shared := shared_mask(masks)) and len(shared) < self.cpus:
            by = f"{len(masks[shared])} of its processes share CPU {number_list_text(shared)}"
            self.limit = CpuLimit(LimitKind.AFFINITY, float(len(shared)), whole, "", by)

    def compute_throttled(self, seconds: float) -> float | None:
        """The share of the time since the last look in whose periods the quota held the job back,
        percent.
        """
        was, self._was = self._was, {}
        own = (
            self.limit.path.rpartition("/")[0]
            if self.limit and self.limit.kind is LimitKind.QUOTA
            else ""
        )
        found = None
        for folder in self._folders:
            count = parse_counter(content_of(f"{folder}/cpu.stat") or b"", b"nr_throttled")
            if count is None:
                continue
            self._was[folder] = count
            passed = max(0, count - was.get(folder, count))
            if folder == own and folder in was:
                found = min(
                    100.0, 100 * passed * period_s(self.limit.path if self.limit else "") / seconds
                )
            # A quota that was set while the job runs (docker update, set-property) is found by the
            # time it takes.
            self.is_surprised |= passed > 0 and folder != own
        return found


def shared_mask(masks: Mapping[frozenset[int], list[float]]) -> frozenset[int] | None:
    """The CPUs that more processes share than there are of them, and that do most of the work:
    loaders that a library has pinned, beside a main process that may use all. None for ranks that
    have a part of the CPUs each. `masks`: the cores of each process by the CPUs that it may use.
    Pure.
    """
    total = sum(map(sum, masks.values()))
    found = (
        one for one, used in masks.items() if len(used) > len(one) and sum(used) >= _MOSTLY * total
    )
    return next(found, None) if len(masks) > 1 else None


def cpu_folders(groups: bytes) -> tuple[str, ...]:
    """The folders that may hold a quota: of the control group with the controller cpu, and those
    above it.
    """
    paths = parse_groups(groups.decode("utf-8", "surrogateescape"))
    mount = f"{GROUPS}/cpu" if "cpu" in paths else GROUPS
    return tuple(walk_upwards(mount, paths.get("cpu", paths.get("", "/"))))


def hides_limits(folders: tuple[str, ...]) -> bool:
    """Whether there may be control groups above these folders that are not visible: in a container
    they end at its own (cgroup_namespaces(7)), and some sandboxes show none.
    """
    try:
        # The initial namespace has a fixed number; in any other the groups above are not named.
        is_first = os.readlink("/proc/self/ns/cgroup") == _FIRST_NAMESPACE
    except OSError:
        is_first = True  # this kernel has no such namespaces
    return not is_first or not all(os.path.isdir(folder) for folder in folders[:1])


def period_s(path: str) -> float:
    """The period of the quota that this file sets, usually 0.1 s."""
    content = content_of(path.replace("cpu.cfs_quota_us", "cpu.cfs_period_us")) or b""
    words = content.split()
    return int(words[-1]) / 1e6 if words and words[-1].isdigit() and len(words[-1]) < 20 else 0.1


# How each owner of control groups changes a limit: of CPUs, and of memory.
_WAYS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "cpu": {
            "slurm": "ask for more with --cpus-per-task",
            "docker": "--cpus N {short} (--cpuset-cpus for the CPUs)",
            "podman": "--cpus N {short}",
            "kubernetes": "resources.limits.cpu of the pod",
            "systemd": "CPUQuota=",
        },
        "memory": {
            "slurm": "ask for more with --mem",
            "docker": "--memory N {short}",
            "podman": "--memory N {short}",
            "kubernetes": "resources.limits.memory of the pod",
            "systemd": "MemoryMax=",
        },
    }
)


def name_setter(path: str, what: str = "cpu") -> str:
    """Who makes control groups of this name, and where the limit of CPUs or memory is changed; ""
    if the name does not show it. Pure.
    """
    ways = _WAYS[what]
    # Slurm first: its step can run a container, and the allocation is what gives CPUs.
    if job := _JOB.search(path):
        return f"Slurm job {job[1]}: {ways['slurm']}"
    if found := _CONTAINER.search(path):
        short = found[1][:12]
        if "docker" in found[0]:
            return f"Docker container {short}: docker update {ways['docker'].format(short=short)}"
        if "libpod" in found[0]:
            return f"Podman container {short}: podman update {ways['podman'].format(short=short)}"
    if "kubepods" in path:
        return f"Kubernetes: {ways['kubernetes']}"
    if "/lxc" in path or "/machine.slice" in path:
        return "the container's own settings (lxc, machinectl)"
    units = [word for word in path.split("/") if word.endswith((".service", ".scope", ".slice"))]
    if units:
        unit = quote(units[-1])  # any name, in a control group that was given to a user
        return f"systemd unit {unit}: systemctl set-property -- {unit} {ways['systemd']}"
    return ""


def cpuset_of(groups: bytes, allowed: frozenset[int]) -> str:
    """The file of the control group that allows no more than these CPUs; "" where none does, so
    that the process itself or who started it chose them.
    """
    paths = parse_groups(groups.decode("utf-8", "surrogateescape"))
    is_v1 = "cpuset" in paths
    mount = f"{GROUPS}/cpuset" if is_v1 else GROUPS
    found = ""
    for folder in walk_upwards(mount, paths.get("cpuset", paths.get("", "/"))):
        for name in (
            ("cpuset.effective_cpus", "cpuset.cpus") if is_v1 else ("cpuset.cpus.effective",)
        ):
            content = content_of(f"{folder}/{name}")
            if content is not None and parse_numbers(content) == allowed:
                found = f"{folder}/cpuset.cpus"
                break
        else:
            break
    return found


def parse_numbers(content: bytes) -> frozenset[int]:
    """`0-3,8` as a set (cpuset(7), list format). Pure; empty for what is no list."""
    try:
        return frozenset(number_list(content.decode("ascii")))
    except ValueError:
        return frozenset()
