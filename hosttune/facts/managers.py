"""Who else manages this machine: tools and agents that set what hosttune would set.

A tool counts as present when it acts: its service is enabled or runs, or its traces on the running system say so. What
is installed and switched off owns nothing and is not present.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from hosttune.facts import kubernetes
from hosttune.facts.base import Fact, UnknownFact, unread
from hosttune.facts.reading import text
from hosttune.facts.tuned import active_profile, settings_of
from hosttune.facts.unit_files import enabled_names
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

# manager -> services, or patterns of them, any of which makes it present.
_SERVICES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tuned", ("tuned.service",)),
    ("power-profiles-daemon", ("power-profiles-daemon.service",)),
    ("tlp", ("tlp.service",)),
    ("thermald", ("thermald.service",)),
    ("laptop-mode", ("laptop-mode.service",)),
    ("auto-cpufreq", ("auto-cpufreq.service", "snap.auto-cpufreq.service.service")),
    ("kubelet", kubernetes.UNIT_PATTERNS),
    ("slurm", ("slurmd.service",)),
    ("lsf", ("lsfd.service",)),
    ("pbs", ("pbs.service", "pbs_mom.service")),
    ("gridengine", ("gridengine-exec.service", "sge_execd.service", "sgeexecd.service")),
    ("htcondor", ("condor.service",)),
    ("spark", ("spark.service", "spark-worker.service")),
    ("ray", ("ray.service", "ray-head.service", "ray-worker.service")),
    ("azure-agent", ("walinuxagent.service", "waagent.service")),
    ("google-guest-agent", ("google-guest-agent.service", "google-guest-agent-manager.service")),
    ("amazon-ssm-agent", ("amazon-ssm-agent.service", "snap.amazon-ssm-agent.amazon-ssm-agent.service")),
)  # fmt: skip
# manager -> paths that exist only where it works: state of the running system, or of a node agent.
_TRACES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gpu-operator", ("/run/nvidia/driver", "/run/nvidia/validations")),
    ("network-operator", ("/run/mellanox/drivers",)),
    ("skyhook", ("/etc/skyhook/history", "/etc/skyhook/flags", "/var/lib/skyhook")),
    ("kubelet", ("/var/lib/kubelet/config.yaml",)),
)
_CGROUP_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd")
# The kubelet makes them while it runs (its cgroupsPerQOS).
_PODS = frozenset({"kubepods", "kubepods.slice"})
# NVIDIA's names for the configuration packages of DGX OS (DGX configuration package decoder).
_DGX_PATTERNS = ("dgx-*", "nv-*", "nvidia-*-disable")
_DGX_OTHERS = ("nv-codec-headers*",)
_CGROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")


@frozen
class Manager(Fact):
    """One that is present, and the sentence that says how we know."""

    name: str
    evidence: str


@frozen
class Managers(Fact):
    """All that are present, by name, and what TuneD's active profile sets (empty where TuneD is not present)."""

    present: tuple[Manager, ...]
    tuned_profile: str
    tuned_sysctl_values: Mapping[str, str]  # by keys as sysctl(8) prints them, in TuneD's words (`>4096`)
    tuned_sysfs_values: Mapping[str, str]  # by patterns of files below /sys
    tuned_at_boot: bool  # TuneD starts with the machine

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those that are present, sorted."""
        return tuple(sorted({manager.name for manager in self.present}))

    @property
    def tuned_sysctls(self) -> tuple[str, ...]:
        """The keys that TuneD sets, sorted."""
        return tuple(sorted(self.tuned_sysctl_values))

    @property
    def tuned_sysfs(self) -> tuple[str, ...]:
        """The patterns of files below /sys that TuneD sets, sorted."""
        return tuple(sorted(self.tuned_sysfs_values))

    @property
    def tuned(self) -> bool:
        """TuneD is enabled or runs."""
        return "tuned" in self.names

    @property
    def cloud_init(self) -> bool:
        """cloud-init configures this machine when it boots."""
        return "cloud-init" in self.names

    @property
    def dgx(self) -> bool:
        """Configuration packages of DGX OS are installed."""
        return "dgx" in self.names

    @property
    def gpu_operator(self) -> bool:
        """The NVIDIA GPU Operator manages driver or toolkit of this node."""
        return "gpu-operator" in self.names

    @property
    def kubelet(self) -> bool:
        """The machine is a Kubernetes node."""
        return "kubelet" in self.names

    @property
    def slurm(self) -> bool:
        """The machine is a Slurm compute node."""
        return "slurm" in self.names


@dataclass(slots=True)
class _Search:
    """What was found on the way, and the first thing that could not be looked at."""

    reader: Reader
    found: dict[str, str] = field(default_factory=dict)
    problem: Unreadable | None = None
    enabled: frozenset[str] = frozenset()

    def exists(self, path: str) -> bool:
        stat = self.reader.stat(path)
        if isinstance(stat, Unreadable) and not self.reader.persistent_only:
            self.problem = self.problem or stat  # of an image, the running state is nobody's
        return isinstance(stat, Stat)

    def add(self, name: str, evidence: str) -> None:
        self.found.setdefault(name, evidence)


def collect(reader: Reader, facts: Facts) -> Managers:
    search = _Search(reader)
    _look_for_services(search)
    for name, paths in _TRACES:
        for path in paths:
            if search.exists(path):
                search.add(name, f"{path} exists")
    _look_for_pods(search)
    _look_for_cloud_init(search, facts)
    _look_for_dgx(search, facts)
    present = tuple(Manager(name, search.found[name]) for name in sorted(search.found))
    is_tuned = "tuned" in search.found
    profile, sysctls, sysfs = _tuned(reader) if is_tuned else ("", {}, {})
    at_boot = is_tuned and "tuned.service" in search.enabled
    if search.problem is None:
        return Managers(present, profile, sysctls, sysfs, at_boot)
    gone = unread(search.problem.reason)
    return Managers(gone, profile, sysctls, sysfs, at_boot) if is_tuned else Managers(gone, gone, gone, gone, gone)


def _tuned(reader: Reader) -> tuple[Any, Any, Any]:
    """(active profile, the sysctls, the files below /sys it sets); all are empty while there is no active profile."""
    profile = active_profile(reader)
    if not isinstance(profile, str):
        return ("", {}, {}) if profile is ABSENT else (profile, profile, profile)
    settings = settings_of(reader, profile)
    return (profile, settings, settings) if isinstance(settings, Unreadable) else (profile, *settings)


def _look_for_services(search: _Search) -> None:
    enabled = enabled_names(search.reader)
    if isinstance(enabled, Unreadable):
        search.problem = enabled
        return
    search.enabled = enabled
    # systemd makes a control group for a service when it starts it: cheaper than asking systemctl.
    running: set[str] = set()
    for folder in _CGROUPS:
        groups = search.reader.list(folder)
        running.update(groups if isinstance(groups, tuple) else ())
    for name, patterns in _SERVICES:
        for pattern in patterns:
            if service := _first(running, pattern):
                search.add(name, f"{service} runs")
            elif service := _first(enabled, pattern):
                search.add(name, f"{service} is enabled")


def _first(units: Collection[str], pattern: str) -> str:
    return min((unit for unit in units if fnmatchcase(unit, pattern)), default="")


def _look_for_pods(search: _Search) -> None:
    """A kubelet that no known unit starts. Its folders alone are leftovers where the control groups show no pods."""
    groups: set[str] = set()
    for root in () if search.reader.persistent_only else _CGROUP_ROOTS:
        names = search.reader.list(root)
        for name in sorted(_PODS.intersection(names)) if isinstance(names, tuple) else ():
            search.add("kubelet", f"{root}/{name} exists: pods run")
        groups.update(names if isinstance(names, tuple) else ())
    if groups:
        return
    for folder in kubernetes.FOLDERS:
        names = search.reader.list(folder)
        if isinstance(names, Unreadable):
            search.problem = search.problem or names
        elif isinstance(names, tuple) and names:
            search.add("kubelet", f"{folder} is not empty")


def _look_for_cloud_init(search: _Search, facts: Facts) -> None:
    """cloud-init's own generator decides at boot and leaves its decision in /run; of an image the package tells."""
    if not search.reader.persistent_only:
        if search.exists("/run/cloud-init/disabled") or not search.exists("/run/cloud-init"):
            return
        search.add("cloud-init", "/run/cloud-init exists: it ran in this boot")
        return
    if _installed(search, facts, "cloud-init") and not search.exists("/etc/cloud/cloud-init.disabled"):
        search.add("cloud-init", "the package is installed, and /etc/cloud/cloud-init.disabled does not exist")


def _look_for_dgx(search: _Search, facts: Facts) -> None:
    if search.exists("/etc/dgx-release"):
        release = text(search.reader, "/etc/dgx-release")
        rows = release.splitlines() if isinstance(release, str) else []
        version = next((row for row in rows if "VERSION" in row), "")
        search.add("dgx", f"/etc/dgx-release exists ({version})" if version else "/etc/dgx-release exists")
    if names := _names(search, facts, _is_dgx):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        search.add("dgx", f"{', '.join(names[:3])}{more} installed")


def _is_dgx(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in _DGX_PATTERNS) and not any(
        fnmatchcase(name, pattern) for pattern in _DGX_OTHERS
    )


def _installed(search: _Search, facts: Facts, name: str) -> bool:
    return bool(_names(search, facts, lambda installed: installed == name))


def _names(search: _Search, facts: Facts, chosen: Callable[[str], bool]) -> tuple[str, ...]:
    try:
        return tuple(name for name in facts.packages.names if chosen(name))
    except UnknownFact as unknown:
        search.problem = search.problem or Unreadable(unknown.reason)
        return ()
