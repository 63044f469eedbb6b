"""Who else manages this machine: tools and agents that set what hosttune would set.

A tool counts as present when it acts: its service is enabled or runs, or its traces on the running
system say so. What is installed and switched off owns nothing and is not present.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.facts.containers import kubernetes
from hosttune.facts.globs import fits_glob
from hosttune.facts.lookups import Lookup
from hosttune.facts.reading import hint, is_there, names_in, require_sure
from hosttune.facts.services.tuned import active_profile, settings_of
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from hosttune.host.door import Reader

# manager -> services, or patterns of them, any of which makes it present.
_SERVICES: Mapping[str, tuple[str, ...]] = {
    "tuned": ("tuned.service",),
    "power-profiles-daemon": ("power-profiles-daemon.service",),
    "tlp": ("tlp.service",),
    "thermald": ("thermald.service",),
    "laptop-mode": ("laptop-mode.service",),
    "auto-cpufreq": ("auto-cpufreq.service", "snap.auto-cpufreq.service.service"),
    "kubelet": kubernetes.UNIT_PATTERNS,
    "slurm": ("slurmd.service",),
    "lsf": ("lsfd.service",),
    "pbs": ("pbs.service", "pbs_mom.service"),
    "gridengine": ("gridengine-exec.service", "sge_execd.service", "sgeexecd.service"),
    "htcondor": ("condor.service",),
    "spark": ("spark.service", "spark-worker.service"),
    "ray": ("ray.service", "ray-head.service", "ray-worker.service"),
    "azure-agent": ("walinuxagent.service", "waagent.service"),
    "google-guest-agent": ("google-guest-agent.service", "google-guest-agent-manager.service"),
    "amazon-ssm-agent": (
        "amazon-ssm-agent.service",
        "snap.amazon-ssm-agent.amazon-ssm-agent.service",
    ),
}
# manager -> paths that exist only where it works: state of the running system, or of a node agent.
_TRACES: Mapping[str, tuple[str, ...]] = {
    "gpu-operator": ("/run/nvidia/driver", "/run/nvidia/validations"),
    "network-operator": ("/run/mellanox/drivers",),
    "skyhook": ("/etc/skyhook/history", "/etc/skyhook/flags", "/var/lib/skyhook"),
}
# They set the same: governors, energy preferences, parameters of disks. Their services show all of
# them.
_TUNERS = ("auto-cpufreq", "laptop-mode", "power-profiles-daemon", "tlp", "tuned")
# Of version 2 of control groups, and systemd's own hierarchy where there is version 1 (cgroups(7)).
_CGROUP_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd")
# The kubelet makes them while it runs (its cgroupsPerQOS).
_PODS = frozenset({"kubepods", "kubepods.slice"})
# NVIDIA's names for the configuration packages of DGX OS (DGX configuration package decoder).
_OF_DGX = regex(r"dgx-.*|nv-(?!codec-headers).*|nvidia-.*-disable")


@frozen
class ConfigurationManager(Fact):
    """One that is present, and the sentence that says how we know."""

    name: str  # as rules write it in yields_to: tuned, puppet ...
    evidence: str  # what shows that it is in use


@frozen
class Managers(Subject):
    """All that are present, by name, and what TuneD's active profile sets (empty where TuneD is not
    present).
    """

    @fact
    def present(self) -> tuple[ConfigurationManager, ...]:
        return self._find(sorted({*_SERVICES, *_TRACES, *_OF_ITS_OWN}))

    @fact
    def tuners(self) -> tuple[ConfigurationManager, ...]:
        """Of them those that tune the same things: TuneD, TLP ..."""
        return self._find(_TUNERS)

    @fact
    def tuned(self) -> bool:
        """TuneD is enabled or runs."""
        return bool(self._evidence["tuned"])

    @fact
    def cloud_init(self) -> bool:
        """cloud-init configures this machine when it boots."""
        return bool(self._evidence["cloud-init"])

    @fact
    def dgx(self) -> bool:
        """Configuration packages of DGX OS are installed."""
        return bool(self._evidence["dgx"])

    @fact
    def gpu_operator(self) -> bool:
        """The NVIDIA GPU Operator manages driver or toolkit of this node."""
        return bool(self._evidence["gpu-operator"])

    @fact
    def kubelet(self) -> bool:
        """The machine is a Kubernetes node."""
        return bool(self._evidence["kubelet"])

    @fact
    def slurm(self) -> bool:
        """The machine is a Slurm compute node."""
        return bool(self._evidence["slurm"])

    @fact
    def tuned_profile(self) -> str:
        """The active profile of TuneD; empty where it has none."""
        return active_profile(self.reader) if self.tuned else ""

    @fact
    def tuned_sysctl_values(self) -> Mapping[str, str]:
        """By keys as sysctl(8) prints them, in TuneD's words (`>4096`)."""
        return self._settings[0]

    @fact
    def tuned_sysfs_values(self) -> Mapping[str, str]:
        """By patterns of files below /sys."""
        return self._settings[1]

    @fact
    def tuned_at_boot(self) -> bool:
        """TuneD starts with the machine."""
        return self.tuned and "tuned.service" in self.facts.units.enabled

    @fact
    def _evidence(self) -> Mapping[str, str]:
        """By manager what says that it is present; empty for one that is not."""
        return Lookup(self._look_for)

    def _look_for(self, name: str) -> str:
        find_own = _OF_ITS_OWN.get(name)
        return (
            self._of_services(name) or self._of_traces(name) or (find_own(self) if find_own else "")
        )

    def _find(self, names: Iterable[str]) -> tuple[ConfigurationManager, ...]:
        """Those of these that are present."""
        return tuple(
            ConfigurationManager(name, self._evidence[name])
            for name in names
            if self._evidence[name]
        )

    @fact
    def _running(self) -> frozenset[str]:
        return running_services(self.reader)

    def _of_services(self, name: str) -> str:
        for pattern in _SERVICES.get(name, ()):
            enabled = self.facts.units.enabled
            # systemd makes a control group for a service when it starts it: cheaper than asking
            # systemctl.
            if service := _find_first(self._running, pattern):
                return f"{service} runs"
            if service := _find_first(enabled, pattern):
                return f"{service} is enabled"
        return ""

    def _of_traces(self, name: str) -> str:
        return next(
            (f"{path} exists" for path in _TRACES.get(name, ()) if _exists(self.reader, path)), ""
        )

    @fact
    def _settings(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return settings_of(self.reader, self.tuned_profile)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those that are present, sorted."""
        return tuple(manager.name for manager in self.present)

    @property
    def tuned_sysctls(self) -> tuple[str, ...]:
        """The keys that TuneD sets, sorted."""
        return tuple(sorted(self.tuned_sysctl_values))

    @property
    def tuned_sysfs(self) -> tuple[str, ...]:
        """The patterns of files below /sys that TuneD sets, sorted."""
        return tuple(sorted(self.tuned_sysfs_values))


def _exists(reader: Reader, path: str) -> bool:
    if reader.persistent_only:  # an image has no running state
        return isinstance(reader.stat(path), Stat)
    return is_there(reader, path)


def running_services(reader: Reader) -> frozenset[str]:
    """The services that have a control group; only one of the two hierarchies has system.slice.
    None of an image.
    """
    if reader.persistent_only:
        return frozenset()
    found = (require_sure(reader.list(f"{root}/system.slice")) for root in _CGROUP_ROOTS)
    return frozenset(next((groups for groups in found if isinstance(groups, tuple)), ()))


def _find_first(units: Collection[str], pattern: str) -> str:
    if "*" not in pattern:  # most of them, and each pattern is compiled
        return pattern if pattern in units else ""
    return min((unit for unit in units if fits_glob(unit, pattern)), default="")


def _find_pods(managers: Managers) -> str:
    """A kubelet that no known unit starts. Its files are leftovers where the control groups show no
    pods.
    """
    groups: tuple[str, ...] = ()
    for root in () if managers.reader.persistent_only else _CGROUP_ROOTS:
        names = managers.reader.list(root)
        groups += names if isinstance(names, tuple) else ()
        if pods := sorted(_PODS.intersection(groups)):
            return f"{root}/{pods[0]} exists: pods run"
        # Version 2 has all groups in one tree. Only beside version 1 is systemd's own hierarchy
        # looked at as well.
        if isinstance(names, tuple) and "systemd" not in names:
            break
    # The running system has the word: control groups that show no pods prove that the files of a
    # kubelet are of an earlier time.
    if groups:
        return ""
    if _exists(managers.reader, kubernetes.CONFIG):
        return f"{kubernetes.CONFIG} exists"
    return next(
        (
            f"{folder} is not empty"
            for folder in kubernetes.FOLDERS
            if names_in(managers.reader, folder)
        ),
        "",
    )


def _cloud_init(managers: Managers) -> str:
    """cloud-init's own generator decides at boot and leaves its decision in /run; of an image the
    package tells.
    """
    if not managers.reader.persistent_only:
        is_off = _exists(managers.reader, "/run/cloud-init/disabled") or not _exists(
            managers.reader, "/run/cloud-init"
        )
        return "" if is_off else "/run/cloud-init exists: it ran in this boot"
    if "cloud-init" in managers.facts.packages.names and not _exists(
        managers.reader, "/etc/cloud/cloud-init.disabled"
    ):
        return "the package is installed, and /etc/cloud/cloud-init.disabled does not exist"
    return ""


def _find_dgx(managers: Managers) -> str:
    if _exists(managers.reader, "/etc/dgx-release"):
        rows = hint(managers.reader, "/etc/dgx-release").splitlines()
        version = next((row for row in rows if "VERSION" in row), "")
        return f"/etc/dgx-release exists ({version})" if version else "/etc/dgx-release exists"
    names = [name for name in managers.facts.packages.names if _OF_DGX.fullmatch(name)]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} installed" if names else ""


_OF_ITS_OWN: Mapping[str, Callable[[Managers], str]] = {
    "kubelet": _find_pods,
    "cloud-init": _cloud_init,
    "dgx": _find_dgx,
}
