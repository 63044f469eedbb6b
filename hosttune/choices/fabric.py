"""Whether this host needs NVIDIA's Fabric Manager, and what is in the way of running it.

CUDA cannot start (error 802, system not yet initialized) before Fabric Manager has set up the
NVSwitches, and Fabric Manager starts only beside a driver of exactly its own version (NVIDIA,
Fabric Manager User Guide).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hosttune.choices.apt_commands import check_commands
from hosttune.choices.driver_state import before_boot
from hosttune.choices.drivers.components import fabric_beside_pod, fabric_packages, list_managers
from hosttune.choices.drivers.switches import (
    LOG,
    SERVICE,
    count_switches,
    way_into_fabric,
    way_to_links,
    why_no_switches,
    without_umad,
)
from hosttune.facts import Facts
from hosttune.facts.base import Fact, attempt, lazy
from hosttune.frozen import frozen

_IN_POD = "the GPU Operator brings driver and Fabric Manager in a container"


@frozen
class Fabric(Fact):
    """Whether Fabric Manager belongs here, and why it cannot run as things are."""

    is_needed: bool
    reason: str  # a sentence: why it is not needed
    refused: str = ""  # why it cannot be started as things are; empty where it can
    todo: str = ""  # the command that a person types then
    evidence: tuple[str, ...] = ()
    # what a person reads before it is started again: why it failed; empty where it did not
    look_first: str = ""
    # what a person does about a GPU that is not in its fabric, in every kind of setup
    way_in: str = ""
    way_to_links: str = ""  # what a person does about NVLinks of a board that are down or slow
    way_to_wait: str = ""  # the same about a GPU that the fabric has not taken in yet


def choose(facts: Facts, params: Mapping[str, Any]) -> Fabric:  # noqa: ARG001 - the interface of all choices
    """Raises UnknownFact where the answer hangs on something that could not be read."""
    why_not = _not_here(facts)
    # Links and fabric states are judged also where that is not known, which the state of the driver
    # says.
    state = attempt(fabric_beside_pod, facts) if why_not == _IN_POD else None
    if isinstance(state, tuple):
        ways = _list_ways(facts, is_run_here=False)
        return Fabric(is_needed=True, reason="", refused=state[0], todo=str(state[1]), **ways)
    if why_not:
        return Fabric(is_needed=False, reason=why_not, **_list_ways(facts, is_run_here=False))
    count = count_switches(facts)
    seen = f"{count} NVSwitches on the PCI bus"
    if not count:
        seen = (
            "the NVSwitches of HGX B200 and newer do not show on the PCI bus; that they are here "
            "is told by the GPUs"
        )
    evidence = (
        seen,
        *(f"{name} {version} is installed" for name, version in list_managers(facts).items()),
    )
    refused, todo = _find_obstacle(facts)
    look_first = ""
    if facts.units[SERVICE].active_state == "failed":
        evidence = (*evidence, f"it failed: {LOG} say why")
        look_first = (
            f"see why it failed: {LOG}\n"
            f"solve that, then start it again: sudo systemctl restart {SERVICE}"
        )
    return Fabric(
        is_needed=True,
        reason="",
        refused=refused,
        todo=todo,
        evidence=evidence,
        look_first=look_first,
        **_list_ways(facts, is_run_here=True),
    )


def _list_ways(facts: Facts, *, is_run_here: bool) -> dict[str, Any]:
    watch = "watch it, below Fabric: nvidia-smi -q\nif it stays so, go on"
    return {
        "way_in": lazy(way_into_fabric, facts, is_run_here=is_run_here),
        "way_to_links": lazy(way_to_links, facts),
        "way_to_wait": lazy(lambda: f"{watch}\n{way_to_links(facts)}"),
    }


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
    if why_not := why_no_switches(facts):
        return why_not
    if facts.managers.gpu_operator and not facts.driver.branch:
        return _IN_POD
    return "" if facts.driver.is_present else "no driver is installed (see gpu-driver)"


def _find_obstacle(facts: Facts) -> tuple[str, str]:
    """(why Fabric Manager cannot run as things are, what to do), the first thing to solve."""
    driver = facts.driver
    if found := fabric_packages(facts):
        way_out = check_commands(facts, str(found[1]))[0]
        # Packages leave the service switched off.
        return found[0], way_out if facts.units[
            SERVICE
        ].exists else f"{way_out}\nsudo systemctl enable --now {SERVICE}"
    # A service that runs has no obstacle, whatever the state of the module says: the looks below
    # explain only why it does not start.
    if facts.units[SERVICE].is_active:
        return "", ""
    if driver.is_mismatched or not driver.is_loaded:
        state = before_boot(facts)
        why = state.evidence if state else "the driver is not loaded"
        return (
            f"Fabric Manager cannot start: {why}",
            state.way_out if state else "sudo modprobe nvidia",
        )
    if missing := without_umad(facts):
        return f"Fabric Manager cannot start: {missing[0]}", missing[1]
    # Jobs can run on such a host without the fabric, each on one GPU, and a start sets up the
    # NVSwitches beneath them.
    if facts.work.is_gpu_busy:
        return (
            f"it is started on an idle host only ({'; '.join(facts.work.evidence)})",
            "drain the host, then run it again",
        )
    return "", ""
