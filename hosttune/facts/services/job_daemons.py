"""Whether the daemons run by which a cluster gives work: slurmd, munge, kubelet, containerd.

systemd makes a control group when it starts a service, and takes it away when nothing of the
service is left (cgroups(7)). So one that starts at boot, and has neither a control group nor a
process of its program, does not run. That is asked of no program: a kubelet that ends at once is
`activating` for most of the time. Not judged are a kubelet that has joined no cluster (kubeadm
starts it before, and it ends again for want of its settings), a slurmd of whose host slurm.conf has
no line (its package enables it), munge where Slurm does without it (AuthType=auth/slurm of
slurm.conf(5)), and all of them while hosttune's own gate holds work back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, keep_known
from hosttune.facts.containers.docker_flags import started_commands
from hosttune.facts.containers.kubernetes import DAEMONS
from hosttune.facts.managers import running_services
from hosttune.facts.reading import is_there
from hosttune.facts.services.units import GATE
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts

SLURM, KUBERNETES = "Slurm", "Kubernetes"
_SLURMD, _KUBELET = "slurmd.service", "kubelet.service"
_MUNGE, _CONTAINERD = "munge.service", "containerd.service"
# What a kubelet that joined a cluster has: of kubeadm, and of the clouds' own images.
_JOINED = ("/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/kubeconfig")


@frozen
class JobDaemon(Fact):
    """A daemon that starts at boot, and without which the host gets no work."""

    name: str  # of its unit: slurmd.service
    cluster: str  # what gives work by it: Slurm | Kubernetes
    is_running: bool  # something of it runs, or hosttune's gate holds it back


@frozen
class JobDaemons(Subject):
    """Those that start at boot."""

    @fact
    def all(self) -> tuple[JobDaemon, ...]:
        """By unit; empty on a host that no cluster gives work."""
        return keep_known(self._make, _list_enabled(self.facts))

    @fact
    def _running(self) -> frozenset[str]:
        return running_services(self.reader)

    def _make(self, one: tuple[str, str, str]) -> tuple[JobDaemon, ...]:
        """None of a daemon that does not run and is not meant to."""
        unit, program, cluster = one
        runs = unit in self._running or bool(self.facts.processes[program].commands)
        if not runs and not _is_meant(self.facts, unit):
            return ()
        return (JobDaemon(unit, cluster, is_running=runs or GATE in self._running),)


def _list_enabled(facts: Facts) -> tuple[tuple[str, str, str], ...]:
    """(unit, its program, cluster) of those that start at boot."""
    enabled = facts.units.enabled
    found = [
        (unit, DAEMONS[unit], KUBERNETES)
        for unit in DAEMONS
        if unit in enabled and "containerd" not in unit
    ]
    if _KUBELET in enabled and _CONTAINERD in enabled:
        found.append((_CONTAINERD, "containerd", KUBERNETES))
    if _SLURMD in enabled:
        found.append((_SLURMD, "slurmd", SLURM))
        found += [(_MUNGE, "munged", SLURM)] if _MUNGE in enabled else []
    return tuple(found)


def _is_meant(facts: Facts, unit: str) -> bool:
    if unit in {_KUBELET, _CONTAINERD}:
        return any(is_there(facts.reader, path) for path in _JOINED)
    if unit == _MUNGE:
        return _is_slurm_node(facts) and facts.slurm.uses_munge
    return unit != _SLURMD or _is_slurm_node(facts)


def _is_slurm_node(facts: Facts) -> bool:
    """Whether slurm.conf has a line of this host, or slurmd asks the controller for that file."""
    if facts.slurm.names_host:
        return True
    commands = started_commands(facts.reader, facts, _SLURMD)
    return any(word.startswith("--conf-server") for words, _ in commands for word in words)
