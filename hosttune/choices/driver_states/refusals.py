"""The state in which the driver was loaded, took no GPU, and left the kernel again: neither a
reboot nor modprobe mends that.

Source: nv.c of github.com/NVIDIA/open-gpu-kernel-modules, whose sentences facts/gpu/nvidia_smi.py
reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.choices.driver_states.gpus import (
    tell_of_guest,
    tell_of_unsupported,
    without_room,
    wrong_flavour,
)
from hosttune.choices.driver_states.modules import name_of_driver, tell_of_rejected
from hosttune.choices.driver_states.state import REBOOT, StateText, holds_state, read_log_fact
from hosttune.facts.base import read_or_default
from hosttune.facts.gpu.gsp_firmware import KERNEL_LOG

if TYPE_CHECKING:
    from hosttune.facts import Facts

_LOG = {
    "open": "it calls the GPU one without the GSP that the open kernel module needs",
    "closed": "it calls the GPU one for the open kernel module alone",
    "release": "it does not know the GPU",
    "legacy": "it calls the GPU one for an older branch",
    "interrupt": "the kernel has no interrupt for the GPU",
    "other": "its start failed",
}


def tell_of_refused(facts: Facts) -> StateText | None:
    """No state above says why: driver and GPU fit by what is known, so that the GPU is in a state
    of which the driver cannot tell what it is, or the log has no reason.
    """
    if not (why := _why_refused(facts)) or is_explained(facts):
        return None
    if why == "other" and (state := without_room(facts)):
        return state
    version = facts.driver.userspace_version
    evidence = (
        f"{name_of_driver(facts)}{f' ({version})' if version else ''} was loaded and took no GPU "
        "(kernel log)"
    )
    if why == "interrupt":
        return f"{evidence}: {_LOG[why]}", _find_interrupt(facts)
    if why != "other":
        evidence += f": {_LOG[why]}, which does not fit what is known of {facts.gpus.summary}"
    return evidence, _way_out(facts)


def is_refused(facts: Facts) -> bool:
    """Whether the module that is not loaded now was, and took no GPU."""
    return bool(_why_refused(facts)) or is_explained(facts)


def is_explained(facts: Facts) -> bool:
    """Whether another state says why this driver cannot take the GPUs."""
    return any(
        holds_state(look, facts) for look in (tell_of_guest, tell_of_unsupported, wrong_flavour)
    )


def _why_refused(facts: Facts) -> str:
    driver = facts.driver
    if (
        not driver.is_installed
        or driver.is_loaded
        or driver.nouveau_bound
        or not driver.has_module_for_running_kernel
    ):
        return ""
    return (
        "" if holds_state(tell_of_rejected, facts) else str(read_log_fact(facts, "refused") or "")
    )


def _way_out(facts: Facts) -> str:
    log = f"{KERNEL_LOG} shows all that it said"
    if _is_vm(facts):
        return (
            "ask who runs the host of this virtual machine to shut the machine down, and reset the "
            "GPU or reboot that host\n"
            "ask whether the GPU's confidential computing mode is the one that the machine needs\n"
            "modprobe or a reboot in here does not change that\n"
            f"{log}"
        )
    return (
        f"{log}\n"
        f"{REBOOT} with the power off and on\n"
        "if it comes again, take the firmware (VBIOS) of the board from its vendor, and a newer "
        "driver"
    )


def _find_interrupt(facts: Facts) -> str:
    """The driver takes MSI-X, or the old kind of interrupt, but not MSI (nv_pci_probe of
    nv-pci.c).
    """
    if _is_vm(facts):
        return (
            "ask who runs the host of this virtual machine to give the GPU interrupts by MSI-X, or "
            "the machine another kind of virtual board\n"
            "modprobe or a reboot in here does not change that"
        )
    return (
        "see whether pci=nomsi or noapic is there, and take it out: cat /proc/cmdline\n"
        "if not, boot the kernel that was installed before this one: a kernel may have this fault\n"
        "if it is the same there, take the newest firmware (BIOS) of the board that holds the CPU"
    )


def _is_vm(facts: Facts) -> bool:
    return read_or_default(lambda: facts.host.is_vm, otherwise=False)
