"""Who else brings the driver of a host that has none, and the way that leads there.

Sources: NVIDIA's DGX OS user guides, GPU Operator guide (driver.enabled) and vGPU guide; Lambda's
installation guide of Lambda Stack; AWS's guide of its Deep Learning AMIs; Microsoft's
n-series-driver-setup and the resources of its driver extension (github.com/Azure/azhpc-extensions:
NVadsA10_v5 takes GRID, extension NvidiaGpuDriverLinux).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import attempt, read_or_default
from hosttune.facts.gpu.gpu_holders import make_blacklist
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts

VENDORS = {
    "DGX OS": (
        (
            "this is DGX OS, whose own archives and guide bring it with Fabric Manager and the "
            "rest of one release"
        ),
        "the user guide of its DGX OS release says how (docs.nvidia.com/dgx)",
    ),
    "Lambda Stack": (
        (
            "this is a machine with Lambda Stack, whose archive brings driver, CUDA and frameworks "
            "that fit each other"
        ),
        "sudo apt-get update && sudo apt-get install lambda-stack-cuda\nreboot",
    ),
    "AWS Deep Learning AMI": (
        "this is an AWS Deep Learning AMI, which comes with a driver",
        "start the instance from a current AMI (docs.aws.amazon.com/dlami)",
    ),
}
_AZURE = (
    "on Azure the NVIDIA GPU Driver Extension (Microsoft.HpcCompute, NvidiaGpuDriverLinux) or the "
    "GRID section of learn.microsoft.com/azure/virtual-machines/linux/n-series-driver-setup"
)
_HYPERVISOR = (
    "the GRID guest driver of the vGPU release that the hypervisor runs, from NVIDIA's licensing "
    "portal or as your cloud's guide says"
)


@frozen
class Bringer:
    """Someone else who brings the driver."""

    reason: str  # a sentence: who, and how that is known
    way_out: str  # what a person does


def guest_way(facts: Facts) -> str:
    """Where the driver of a vGPU guest comes from."""
    is_azure = read_or_default(lambda: facts.host.cloud == "azure", otherwise=False)
    return _AZURE if is_azure else _HYPERVISOR


def tell_of_guest(facts: Facts) -> Bringer | None:
    """A vGPU takes no driver of the distribution, whatever a policy says. None where no PCI id
    speaks for one.
    """
    if not facts.gpus.is_vgpu:
        return None
    return Bringer(
        "a hypervisor lends it (vGPU): it works with the licensed GRID driver alone, and the "
        "distribution's packages do not drive it",
        guest_way(facts),
    )


def _free_gpus(facts: Facts) -> str:
    """A clause for a driver in a container: packages of a driver keep nouveau out, and nothing does
    here.
    """
    holders = attempt(lambda: facts.driver.holders)
    found = holders if isinstance(holders, tuple) else ()
    ways = [make_blacklist(one.modules) for one in found if one.modules and not one.kept_out_by]
    return "".join(f"\nfree the GPU first: {way}\nreboot" for way in ways)


def other_bringer(facts: Facts) -> Bringer | None:
    """Who brings the driver here as a rule, where the policy does not say; None where no one is
    seen.
    """
    if facts.managers.kubelet:
        return Bringer(
            "a kubelet runs here, so the GPU Operator or the image of the node may bring it",
            "params: {gpu-driver: {bringer: external}} in the policy where one of them does; "
            "bringer: host where this host is to have its own (with driver.enabled=false for the "
            f"operator){_free_gpus(facts)}",
        )
    if vendor := VENDORS.get(facts.role.vendor_image):
        return Bringer(
            vendor[0], f"{vendor[1]} (bringer: host in the policy for Ubuntu's driver all the same)"
        )
    if facts.gpus.unlisted and facts.host.is_vm:
        return Bringer(
            f"in this virtual machine {', '.join(facts.gpus.unlisted)} is a board that hosttune "
            "does not know: a new one, or a part of one (vGPU), which takes the licensed driver of "
            "its hypervisor",
            "ask the provider of the machine; if it is a whole GPU, "
            "params: {gpu-driver: {bringer: host}} in the policy; if it is a vGPU, "
            f"{guest_way(facts)}",
        )
    return None
