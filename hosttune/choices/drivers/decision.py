"""The decision about the driver, without a look at what the next boot does: so a state of the
driver can ask, too, what a parameter of the policy would lead to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.choices.dpkg_stop import find_stop
from hosttune.choices.driver_states.gpus import wrong_flavour
from hosttune.choices.driver_states.state import RUNFILE, BootOutlook, holds_state, uninstall
from hosttune.choices.drivers.branch import not_driven, why_over
from hosttune.choices.drivers.bringer import guest_way, other_bringer, tell_of_guest
from hosttune.choices.drivers.change import NEWEST, choose_switch, choose_update
from hosttune.choices.drivers.choice import DriverChoice, keep_driver, module_kind, refuse
from hosttune.choices.drivers.components import why_server
from hosttune.choices.drivers.install import choose_install
from hosttune.choices.drivers.nvidia_archive import tell_updates
from hosttune.facts import Facts
from hosttune.facts.apt_decisions import decisions_about_offer, join_decisions
from hosttune.facts.base import UnknownFact, attempt, get_raw, read_or_default
from hosttune.facts.gpu.candidates import SEE
from hosttune.quoting import join

if TYPE_CHECKING:
    from hosttune.choices.drivers.change import First


def decide(facts: Facts, params: Mapping[str, Any], first: First) -> DriverChoice:
    """As `choices.driver.choose`; `first` says what has to be solved before another change."""
    why_not = _not_ours(facts, params)
    if why_not:
        return DriverChoice("none", (), (why_not,))
    if stop := find_stop(facts):
        return refuse(stop.evidence, way_out=stop.repair, driver=facts.driver)
    pin = str(params["branch"])
    if pin and not re.fullmatch(r"\d{3}", pin):
        return refuse(
            f'branch: "{pin}" of the policy is no branch',
            way_out='name a number in the policy, such as branch: "580"',
        )
    if facts.driver.is_present and not (facts.driver.is_gone and not facts.driver.branch):
        return _keep(facts, params, first)
    bringer = tell_of_guest(facts) or (
        other_bringer(facts) if params["bringer"] == "auto" else None
    )
    if bringer:
        return refuse(
            f"no driver for {facts.gpus.summary}", bringer.reason, way_out=bringer.way_out
        )
    if not facts.os.is_ubuntu:
        system = facts.os.name or facts.os.id
        return DriverChoice(
            "none", (), (f"the package names of this rule are Ubuntu's, and this is {system}",)
        )
    try:
        return choose_install(facts, params)
    except UnknownFact as missing:
        if facts.driver.is_present:
            raise
        decided = join_decisions(decisions_about_offer(facts))
        return refuse(
            f"no driver for {facts.gpus.summary}",
            decided.what if decided else f"what to install is not known: {missing}",
            way_out=decided.undo if decided else f"{_way_to_offer(facts)}, and run it again",
        )


def _way_to_offer(facts: Facts) -> str:
    """What a person does where ubuntu-drivers gave no answer to rely on."""
    way = attempt(lambda: facts.candidates.way_out)
    return way if isinstance(way, str) else SEE


def _not_ours(facts: Facts, params: Mapping[str, Any]) -> str:
    """Why the driver of this machine is not installed by us at all; empty where it may be."""
    if not facts.gpus.has_gpu:
        return "there is no NVIDIA GPU on the PCI bus"
    if facts.host.is_container:
        return "in a container the driver belongs to the host"
    if facts.host.is_wsl:
        return "under WSL the driver is the one of Windows"
    if facts.gpus.is_passed_through:
        return "every GPU is held by vfio-pci for virtual machines"
    if params["bringer"] == "external":
        return "the policy says that someone else brings the driver (bringer: external)"
    if facts.managers.gpu_operator and not facts.driver.is_installed:
        return "the GPU Operator brings the driver in a container"
    return ""


def _keep(facts: Facts, params: Mapping[str, Any], first: First) -> DriverChoice:
    driver = facts.driver
    brought = driver.userspace_version if driver.is_foreign else "from NVIDIA's own installer"
    present = driver.name or driver.loaded_version or brought
    if not driver.branch:
        origin = RUNFILE if driver.runfile else "something other than packages put a driver here"
        return DriverChoice(
            "keep", (), (origin, f"what no package brought is left alone ({present})")
        )
    if _is_guest(facts):
        clause = "a vGPU guest takes the licensed driver that its hypervisor names"
        return DriverChoice("none", (), (clause, guest_way(facts)))
    if driver.runfile:
        both = keep_driver(
            facts, RUNFILE, f"beside the packages of {present}, so both are left alone"
        )
        packages = f"sudo apt-get remove {join(one.name for one in driver.packages)}"
        # a manager stays
        return replace(both, way_out=packages if driver.is_vgpu_manager else uninstall(facts))
    why = _why_switch(facts, params)
    if why and params["switch_branch"]:
        return choose_switch(facts, params, why, first if _drives_gpus(facts) else _do_nothing)
    pin = str(params["branch"])
    if pin and pin != driver.branch:
        return refuse(
            f"the policy pins branch {pin}, and {driver.branch} is installed: a branch is switched "
            "only with switch_branch: true",
            way_out="params: {gpu-driver: {switch_branch: true}}, at a maintenance, or branch: "
            f'"{driver.branch}"',
            driver=driver,
        )
    if params["update"] and (newer := choose_update(facts, params, first)):
        return newer
    updates = tell_updates(facts)
    kept = "hosttune leaves it as it is" if updates else "keeps its branch"
    choice = keep_driver(
        facts, f"driver {present} is installed, and {kept}", *([why] if why else []), *updates
    )
    is_tried = facts.reader.has_tried_packages  # no module came with its package
    state = None if driver.is_in_use or is_tried else first()
    if state is None or state.boot is BootOutlook.MENDS:
        return choice
    word = (
        "no reboot before it is solved" if state.blocks_reboot else "no reboot brings it into use"
    )
    return replace(choice, unused=f"{word}: {state.name}", way_out=state.way_out)


def _do_nothing() -> None:
    """No boot into a driver that does not drive the GPUs has to come first."""


def _is_guest(facts: Facts) -> bool:
    # Its log and nvidia-smi may not be readable; then nothing speaks for it.
    return read_or_default(lambda: bool(facts.nvidia.is_vgpu), otherwise=False)


def _drives_gpus(facts: Facts) -> bool:
    """Whether the installed branch and flavour drive the GPUs at all."""
    kind = module_kind(facts)
    return not not_driven(facts) and (
        not isinstance(kind, str) or kind == "either" or _has_kind(facts, kind)
    )


def _why_switch(facts: Facts, params: Mapping[str, Any]) -> str:
    """Why the installed branch or flavour is not the one to have; empty where it may stay."""
    driver = facts.driver
    pin = str(params["branch"])
    if pin and pin != driver.branch:
        return f"the policy pins branch {pin}"
    if left := not_driven(facts):
        return f"branch {driver.branch} does not drive {', '.join(left)}"
    kind = module_kind(facts)
    if kind in ("open", "closed") and not _has_kind(facts, kind):
        if holds_state(wrong_flavour, facts) and (state := wrong_flavour(facts)):
            return state[0]
        return f"{facts.gpus.summary} needs the {kind} kernel module"
    if server := why_server(facts):
        return server
    if not pin and (over := why_over(facts, int(driver.branch))):
        return over
    if params["track"] == "newest" and not pin and params["switch_branch"]:
        return NEWEST
    return ""


def _has_kind(facts: Facts, kind: str) -> bool:
    """The packages, or the modules that they brought, are of this kind."""
    if (kind == "open") == ("open" in facts.driver.flavour):
        return True
    try:
        modules = facts.driver.modules
    except UnknownFact:
        return False
    return bool(modules) and all(get_raw(one, "is_open") is (kind == "open") for one in modules)
