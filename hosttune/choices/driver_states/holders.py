"""States of GPUs that another kernel driver holds: who it is, what frees the GPU, and whether a
boot does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.choices.driver_states.modules import misfit, name_of_driver, tell_of_rejected
from hosttune.choices.driver_states.refusals import is_refused
from hosttune.choices.driver_states.state import (
    INITRAMFS,
    REBOOT,
    BootOutlook,
    StateText,
    holds_state,
)
from hosttune.facts.gpu.gpu_holders import make_blacklist
from hosttune.facts.gpu.gsp_firmware import KERNEL_LOG
from hosttune.facts.kernel.modules_at_boot import ON_COMMAND_LINE, kept_out_now
from hosttune.facts.precedence import MODPROBE, way_without
from hosttune.quoting import quote
from hosttune.values import join_steps

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.gpu_holders import GpuHolder

NOUVEAU = "nouveau"
_AGAIN = f"reboot\nif it is still so afterwards, {INITRAMFS} and reboot again"


def tell_of_nouveau(facts: Facts) -> StateText | None:
    if not (facts.driver.nouveau_bound and facts.driver.is_installed):
        return None
    evidence = "nouveau holds a GPU, so the installed NVIDIA driver cannot use it"
    known = _find_nouveau(facts)
    if boot_after_nouveau(facts) is BootOutlook.MENDS:
        return evidence, _AGAIN
    if known and known.kept_out_by:
        place = f"{known.kept_out_by} keeps it out, but is not known to be in the initial RAM disk"
        return f"{evidence}; {place}, from which it is loaded", f"{INITRAMFS}\n{REBOOT}"
    return (
        f"{evidence}; nothing keeps it out, so it has the GPU after a reboot too",
        f"{make_blacklist((NOUVEAU,))}\n{REBOOT}",
    )


def holder_before_pod(facts: Facts) -> tuple[str, str] | None:
    """A driver of the kernel that holds a GPU for which a container is to bring the driver: its
    module cannot have it then (kubernetes-sigs/image-builder issue 1468). What is set aside on
    purpose says nothing.
    """
    for one in facts.driver.holders:
        if not (one.is_of_log or one.is_reserving):
            out = "" if one.kept_out_by else ", and nothing keeps it out"
            return f"{one.name} holds the GPU at {', '.join(one.slots)}{out}", _way_out(one, facts)
    return None


def boot_after_nouveau(facts: Facts) -> BootOutlook:
    """Packages of the driver bring the file that keeps it out, unless it was deleted; NVIDIA's
    installer does unless an option forbids it.
    """
    known = _find_nouveau(facts)
    return BootOutlook.MENDS if known is None or known.is_out_at_boot else BootOutlook.USELESS


def _find_nouveau(facts: Facts) -> GpuHolder | None:
    return next((one for one in facts.driver.holders if one.name == NOUVEAU), None)


def tell_of_other_holder(facts: Facts) -> StateText | None:
    """Another driver than nouveau. A loaded driver of NVIDIA's says nothing of GPUs that are set
    aside on purpose.
    """
    found = _list_others(facts)
    if not found or not facts.driver.is_present:
        return None
    evidence = [_describe_holder(one) for one in found]
    return "; ".join(evidence), join_steps(_way_out(one, facts) for one in found)


def boot_after_held(facts: Facts) -> BootOutlook:
    """Only what a package keeps out is sure to be gone after a boot: it has built the initial RAM
    disk anew.
    """
    found = _list_others(facts)
    return (
        BootOutlook.MENDS
        if found and all(one.is_out_at_boot for one in found)
        else BootOutlook.USELESS
    )


def not_loaded(facts: Facts) -> StateText | None:
    """No other driver has a GPU, and there is a module that could, and did not refuse."""
    driver = facts.driver
    if not driver.is_installed or driver.is_loaded or driver.nouveau_bound or _list_others(facts):
        return None
    if (
        not driver.has_module_for_running_kernel
        or holds_state(tell_of_rejected, facts)
        or is_refused(facts)
    ):
        return None
    file = kept_out_by(facts)
    evidence = (
        f"{name_of_driver(facts)} is installed, and {file} keeps the module nvidia from being "
        "loaded"
    )
    # A word of the command line is in no file of modprobe.d, so that a new initial RAM disk changes
    # nothing about it.
    if file.endswith(ON_COMMAND_LINE):
        word = file.removesuffix(f" {ON_COMMAND_LINE}")
        undo = (
            f"take {quote(word)} out of GRUB_CMDLINE_LINUX (and _DEFAULT) in /etc/default/grub or "
            "in a file of "
        )
        return (
            evidence,
            (
                f"leave it, if that is meant; else {undo}/etc/default/grub.d\n"
                "sudo update-grub\n"
                f"{REBOOT}"
            ),
        )
    if file:
        is_prime = facts.packages["nvidia-prime"].is_installed and file.endswith(
            "/blacklist-nvidia.conf"
        )
        undo = (
            "sudo prime-select nvidia"
            if is_prime
            else "leave it, if that is meant; else "
            f"{way_without(file, MODPROBE, facts.file_owners)}"
        )
        return evidence, f"{undo}\n{INITRAMFS}\n{REBOOT}"
    if state := misfit(facts):
        return state
    return (
        f"{name_of_driver(facts)} is installed with a module for this kernel, but is not loaded",
        (
            "sudo modprobe nvidia, or reboot\n"
            f"if it is still not loaded afterwards, see why: {KERNEL_LOG}"
        ),
    )


def boot_after_not_loaded(facts: Facts) -> BootOutlook:
    return BootOutlook.USELESS if kept_out_by(facts) or misfit(facts) else BootOutlook.MENDS


def kept_out_by(facts: Facts) -> str:
    """What keeps NVIDIA's own module from being loaded: a file of modprobe.d, or
    `module_blacklist=nvidia on the kernel command line`; empty for nothing.
    """
    return kept_out_now(facts, "nvidia")


def describe_holders(facts: Facts) -> str:
    """Who holds GPUs, for a host without a driver: nouveau, NovaCore; empty for none."""
    names = [one.name for one in facts.driver.holders if not one.is_of_log]
    return ", ".join(dict.fromkeys(names or ([NOUVEAU] if facts.driver.nouveau_bound else [])))


def _list_others(facts: Facts) -> tuple[GpuHolder, ...]:
    found = [one for one in facts.driver.holders if one.name != NOUVEAU]
    return tuple(one for one in found if not (one.is_reserving and facts.driver.is_loaded))


def _describe_holder(holder: GpuHolder) -> str:
    gpus = (
        f"the GPU at {holder.slots[0]}"
        if len(holder.slots) == 1
        else f"the GPUs at {', '.join(holder.slots)}"
    )
    if holder.is_of_log:
        return f"{holder.name} had {gpus} when the NVIDIA driver was loaded, as the kernel log says"
    if holder.is_reserving:
        return (
            f"{holder.name} holds {gpus}: it is set aside for a virtual machine or a program, and "
            "no driver has it"
        )
    again = (
        ""
        if holder.kept_out_by
        else ", and nothing keeps it out, so it has it again after a reboot"
    )
    called = (
        holder.name if holder.name == holder.modules[0] else f"{holder.name} ({holder.modules[0]})"
    )
    return f"{called} holds {gpus}, so that the installed NVIDIA driver cannot have it{again}"


def _way_out(holder: GpuHolder, facts: Facts) -> str:
    if holder.is_reserving:
        return (
            f"leave it so, or take it out of what sets it aside ({holder.name} in the kernel "
            "command line or in /etc/modprobe.d, driverctl, driver_override)\n"
            f"{INITRAMFS}\n"
            f"{REBOOT}"
        )
    if holder.is_out_at_boot:
        return _AGAIN
    if holder.kept_out_by:
        return (
            f"{holder.kept_out_by} keeps it out once the initial RAM disk has it: {INITRAMFS}\n"
            f"{REBOOT}"
        )
    newer = ""
    if "nova_core" in holder.modules and facts.driver.branch:
        newer = "\nUbuntu's nvidia packages since March 2026 keep it out themselves"
    return f"{make_blacklist(holder.modules)}\n{REBOOT}{newer}"
