"""Whether this host needs NVIDIA's Fabric Manager, and what stands in the way of running it.

CUDA cannot start (error 802, system not yet initialized) before Fabric Manager has set up the NVSwitches, and Fabric
Manager starts only beside a driver of exactly its own version (NVIDIA, Fabric Manager User Guide).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hosttune.choices.driver_state import before_boot
from hosttune.choices.drivers.components import unknown_to_apt
from hosttune.choices.drivers.switches import LOG, SERVICE, without_switches
from hosttune.facts import Facts
from hosttune.facts.base import Fact
from hosttune.facts.versions import upstream_of
from hosttune.frozen import frozen
from hosttune.regex import regex

_PACKAGE = regex(r"nvidia-fabricmanager(?:-\d+)?")


@frozen
class Fabric(Fact):
    """Whether Fabric Manager belongs here, and why it cannot run as things are."""

    is_needed: bool
    reason: str  # a sentence: why it is not needed
    refused: str = ""  # why it cannot be started as things are; empty where it can
    todo: str = ""  # the command that a person types then
    evidence: tuple[str, ...] = ()


def choose(facts: Facts, params: Mapping[str, Any]) -> Fabric:  # noqa: ARG001 - the interface of all choices
    """Raises UnknownFact where the answer hangs on something that could not be read."""
    if why_not := _not_here(facts):
        return Fabric(is_needed=False, reason=why_not)
    seen = f"{facts.gpus.nvswitches} NVSwitches on the PCI bus"
    if not facts.gpus.nvswitches:
        seen = "the NVSwitches of HGX B200 and newer do not show on the PCI bus; that they are here is told by the GPUs"
    installed = {name: facts.packages[name].version for name in facts.packages.names if _PACKAGE.fullmatch(name)}
    evidence = (seen, *(f"{name} {version} is installed" for name, version in installed.items()))
    if facts.units[SERVICE].active_state == "failed":
        evidence = (*evidence, f"it failed: {LOG} say why")
    refused, todo = _obstacle(facts, installed)
    return Fabric(is_needed=True, reason="", refused=refused, todo=todo, evidence=evidence)


def _not_here(facts: Facts) -> str:
    gpus = facts.gpus
    if not gpus.has_gpu:
        return "there is no NVIDIA GPU on the PCI bus"
    if facts.host.is_container:
        return "in a container the fabric belongs to the host"
    if facts.host.is_wsl:
        return "under WSL there is no NVSwitch"
    if gpus.is_passed_through:
        return "every GPU is held by vfio-pci for virtual machines"
    if not gpus.nvswitches and (why_not := without_switches(facts)):
        return why_not
    if facts.managers.gpu_operator and not facts.driver.branch:
        return "the GPU Operator brings driver and Fabric Manager in a container"
    return "" if facts.driver.is_present else "no driver is installed, which is the business of gpu-driver"


def _obstacle(facts: Facts, installed: Mapping[str, str]) -> tuple[str, str]:
    """(why Fabric Manager cannot run as things are, what to do), the first thing to solve."""
    driver = facts.driver
    if driver.branch and (found := _versions_differ(facts, installed)):
        return found
    if not facts.gpus.nvswitches and driver.branch and not facts.packages["nvlsm"].is_installed:
        return "the NVLink Subnet Manager (nvlsm) is not installed, which HGX B200 and newer need", (
            "sudo apt-get install nvlsm (from NVIDIA's archive where yours has none)"
        )
    if facts.units[SERVICE].is_active:
        return "", ""
    if driver.is_mismatched or not driver.is_loaded:
        state = before_boot(facts)
        why = state.evidence if state else "the driver is not loaded"
        return f"Fabric Manager cannot start: {why}", state.way_out if state else "sudo modprobe nvidia"
    if facts.work.is_gpu_busy:
        return (
            f"it is started on an idle host only ({'; '.join(facts.work.evidence)})",
            "drain the host, then run it again",
        )
    return "", ""


def _versions_differ(facts: Facts, installed: Mapping[str, str]) -> tuple[str, str] | None:
    """None where a Fabric Manager of the driver's version is installed, or the driver's is not known."""
    wanted = facts.driver.userspace_version or facts.driver.loaded_version
    package = "nvidia-fabricmanager" if _is_unnumbered(facts) else _package_of(facts.driver.branch)
    if installed and (not wanted or any(upstream_of(version) == wanted for version in installed.values())):
        return None
    has = ", ".join(f"{name} is {upstream_of(version)}" for name, version in installed.items())
    which = f"={wanted}*" if wanted else ""
    refused = has or f"{package} is not installed"
    refused += f", and the driver is {wanted}: they must be one version" if wanted else ""
    library = package.replace("nvidia-fabricmanager", "libnvidia-nscq")
    first = "" if _is_unnumbered(facts) else unknown_to_apt(facts, package)
    command = f"sudo apt-get install '{package}{which}' '{library}{which}'"
    return refused, "; then ".join(part for part in (first, command) if part)


def _package_of(branch: str) -> str:
    return f"nvidia-fabricmanager-{branch}"


def _is_unnumbered(facts: Facts) -> bool:
    """NVIDIA's own archive leaves the branch out of the names from 590 on."""
    names = ("nvidia-fabricmanager", "nvidia-driver", "nvidia-driver-cuda", "nvidia-open")
    return int(facts.driver.branch) >= 590 and any(facts.packages[name].is_installed for name in names)
