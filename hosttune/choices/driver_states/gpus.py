"""States of the GPUs: do they answer, does this driver drive them, is their fabric up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.choices.driver_states.modules import mismatch, running_module, stale
from hosttune.choices.driver_states.told import Told, holds, said_by_log, switch
from hosttune.choices.drivers.bringer import guest_way
from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu_errors import way_of
from hosttune.facts.nvidia_tables import branch_of, is_older

if TYPE_CHECKING:
    from hosttune.facts import Facts

_OPEN, _CLOSED = "the open module of the same branch", "the closed module of the same branch"


def lost(facts: Facts) -> Told | None:
    if not facts.driver.is_loaded:
        return None
    slots = ", ".join(facts.nvidia.lost)
    if not slots and facts.nvidia.refusal != "gpu lost":
        return None
    return (
        f"the GPU at {slots} has fallen off the bus (Xid 79)" if slots else facts.nvidia.problem,
        f"it is hardware, power or cooling: {way_of(('RESTART_BM',), slots)}",
    )


def guest(facts: Facts) -> Told | None:
    if not said_by_log(facts, "is_vgpu") or (facts.driver.is_loaded and facts.nvidia.smi == "answers"):
        return None
    return (
        "this is a vGPU guest, and its driver does not answer: it must be the licensed one that fits the hypervisor's",
        f"{guest_way(facts)}; hosttune leaves it alone",
    )


def unsupported(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.branch:
        return None
    legacy = said_by_log(facts, "legacy_branch")
    if legacy:
        said = f"the kernel log says that a GPU here needs branch {legacy}"
        return said, switch(facts, f'a driver of that branch (branch: "{legacy}")')
    left = [one for one in facts.gpus.generations if not branch_of(int(driver.branch)).drives(one)]
    if not left:
        return None
    return (
        f"branch {driver.branch} does not drive {', '.join(left)} ({facts.gpus.summary})",
        switch(facts, "a branch that does"),
    )


def wrong_flavour(facts: Facts) -> Told | None:
    module = _module_in_use(facts)
    if module is None:
        return None
    generations = facts.gpus.generations
    old = [one for one in generations if is_older(one, "turing")]
    if module[1] and (old or said_by_log(facts, "not_for_open")):
        what = ", ".join(old) or "a GPU here"
        return f"{module[0]} is the open kernel module, and it does not drive {what}", switch(facts, _CLOSED)
    if not module[1] and ("blackwell" in generations or said_by_log(facts, "needs_open")):
        what = "Blackwell" if "blackwell" in generations else "a GPU here"
        return f"{module[0]} is the closed kernel module, and {what} needs the open one", switch(facts, _OPEN)
    return None


def _module_in_use(facts: Facts) -> tuple[str, bool] | None:
    """What drives the GPUs, or will when it is loaded: how it is called, and whether it is the open one."""
    if facts.driver.is_loaded:
        return f"the loaded module {facts.driver.loaded_version}", facts.driver.is_open
    module = running_module(facts) if facts.driver.branch else None
    return (f"the installed module {module.version}", module.is_open) if module else None


def refused(facts: Facts) -> Told | None:
    """nvidia-smi says no, and nothing above says why."""
    if not facts.driver.is_loaded or facts.nvidia.smi != "refused":
        return None
    if facts.nvidia.refusal == "no permission":
        raise UnknownFact("nvidia.refusal", facts.nvidia.problem)
    if any(holds(look, facts) for look in (lost, unsupported, wrong_flavour, stale, mismatch)):
        return None
    return facts.nvidia.problem, "sudo dmesg | grep NVRM says why; if that does not, sudo nvidia-bug-report.sh"


def fabric(facts: Facts) -> Told | None:
    """Only the package: whether its service runs is gpu-fabric's."""
    if not facts.gpus.nvswitches or not facts.driver.branch:
        return None
    driver = facts.driver
    manager, wanted = driver.fabricmanager_version, driver.userspace_version
    if manager and (not wanted or manager == wanted):
        return None
    have = f"Fabric Manager is {manager}, the driver {wanted}" if manager else "Fabric Manager is not installed"
    version = next((f"={one.version}" for one in driver.packages if re.match(r"nvidia-utils-\d", one.name)), "")
    names = " ".join(f"{name}-{driver.branch}{version}" for name in ("nvidia-fabricmanager", "libnvidia-nscq"))
    said = f"{have}: with {facts.gpus.nvswitches} NVSwitches CUDA does not start (error 802)"
    return said, f"sudo apt-get install {names}"
