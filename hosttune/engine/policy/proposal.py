"""Which profile fits a host, by its facts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import read_or_default
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts


@frozen
class Proposal:
    """A profile, and half a sentence that says why it fits."""

    profile: str
    why: str


def propose(facts: Facts) -> Proposal | None:
    """The profile that fits, the first in this order: who hands out the work, who sits there, what
    the network does.

    Nothing for a container, for a host that only `base` fits, and where a fact that decides is not
    known: whether a server trains or answers requests no file tells, so `inference-latency` is
    never proposed.
    """
    return read_or_default(
        lambda: None if facts.host.is_container else _propose_fitting(facts), None
    )


def _propose_fitting(facts: Facts) -> Proposal | None:
    managers = {manager.name: manager.evidence for manager in facts.managers.present}
    # A node of Kubernetes may run slurmd in a pod, and what gives out the work of the whole host
    # counts.
    if "kubelet" in managers:
        return Proposal("k8s-node", managers["kubelet"])
    if "slurm" in managers:
        return Proposal("slurm-node", managers["slurm"])
    if facts.role.display_manager:
        return Proposal("workstation", f"{facts.role.display_manager} starts a graphical session")
    rdma = facts.role.rdma_devices
    if rdma and facts.gpus.has_gpu:
        more = f" and {len(rdma) - 1} more" if len(rdma) > 1 else ""
        return Proposal("train-multinode", f"it has GPUs and RDMA ({rdma[0]}{more})")
    if facts.host.is_vm:
        # A virtual machine of no known cloud may be anything, also someone's own hypervisor.
        cloud = facts.host.cloud
        return Proposal("cloud-vm", f"it is a virtual machine of {cloud}") if cloud else None
    if facts.gpus.nvswitches:
        return Proposal(
            "train-single",
            f"{facts.gpus.count} GPUs are joined by NVSwitches, and there is no RDMA",
        )
    return None
