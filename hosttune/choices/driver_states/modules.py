"""States of the kernel module: is there one for the kernel that runs and the one that starts next, is it of the
libraries' version, does it load; and what a reboot would do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.choices.driver_states.told import REBOOT, Told, holds, said_by_log
from hosttune.choices.next_kernel import commands
from hosttune.facts.base import UnknownFact

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.driver import DriverModule

_PREBUILT = "prebuilt modules (linux-modules-nvidia-...)"
_SIGNED = f"{_PREBUILT} (they are signed), or enrol the key at the console: mokutil --import"
_INITRAMFS = "sudo update-initramfs -u -k all"


def dkms_failed(facts: Facts) -> Told | None:
    failed = [build for build in facts.driver.dkms if build.failed]
    if not failed:
        return None
    kernels = ", ".join(sorted({build.kernel for build in failed if build.kernel})) or "a kernel"
    return (
        f"DKMS could not build nvidia {failed[0].version} for {kernels}",
        f"{_PREBUILT} instead; the log is /var/lib/dkms/nvidia/{failed[0].version}/build/make.log",
    )


def rejected(facts: Facts) -> Told | None:
    if facts.driver.is_loaded or not facts.driver.branch:
        return None
    if said_by_log(facts, "rejected_key"):
        return "the kernel refused the nvidia module for its signature (kernel log)", _SIGNED
    module = running_module(facts)
    if module is None or module.source == "prebuilt" or not facts.boot.secure_boot:
        return None
    return (
        f"Secure Boot is on, and {module.path} was compiled here: only modules signed with a known key load",
        _SIGNED,
    )


def missing_now(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.branch or driver.is_loaded or driver.has_module_for_running_kernel:
        return None
    others, release = ", ".join(driver.kernels_with_module) or "none", facts.kernel.release
    return (
        f"{driver.name} is installed, and the running kernel {release} has no nvidia module (these have: {others})",
        f"boot a kernel that has one, or: {commands(facts, release)}",
    )


def stale(facts: Facts) -> Told | None:
    """A module on the disk that is not of the libraries' version, and that the next boot loads."""
    module = next_module(facts)
    wanted = facts.driver.userspace_version
    if module is None or not wanted or module.version in ("", wanted):
        return None
    package = f"linux-modules-nvidia-{facts.driver.name}-{module.kernel}"
    how = (
        f"sudo apt-get install --reinstall {package}"
        if module.source == "prebuilt"
        else f"sudo dkms autoinstall -k {module.kernel}"
    )
    return (
        f"the module on the disk is {module.version} ({module.path}), the libraries are {wanted}: no reboot mends that",
        f"{how}; {_INITRAMFS}; then {REBOOT}",
    )


def next_module(facts: Facts) -> DriverModule | None:
    """The module of the kernel that starts next, as far as that is known, else of the running one."""
    try:
        kernel = facts.boot.next_kernel or facts.kernel.release
    except UnknownFact:
        kernel = facts.kernel.release
    return facts.driver.module_for(kernel)


def missing_next(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.branch or facts.boot.next_kernel in ("", facts.kernel.release) or driver.has_module_for_next_kernel:
        return None
    kernel = facts.boot.next_kernel
    return (
        f"the kernel that boots next, {kernel}, has no nvidia module: after a reboot no GPU works",
        f"do not reboot before: {commands(facts, kernel)}",
    )


def mismatch(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.is_mismatched or holds(stale, facts):
        return None
    versions = f"the loaded module is {driver.loaded_version} and the libraries are {driver.userspace_version}"
    return (
        f"{versions}: CUDA and nvidia-smi refuse to start",
        f"{REBOOT}; if it is still so afterwards, an old module is in the initramfs: {_INITRAMFS}",
    )


def nouveau(facts: Facts) -> Told | None:
    if not (facts.driver.nouveau_bound and facts.driver.is_installed):
        return None
    return (
        "nouveau holds a GPU, so that the installed NVIDIA driver cannot have it",
        f"reboot; if it is still so afterwards, {_INITRAMFS} and reboot again",
    )


def not_loaded(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.branch or driver.is_loaded or driver.nouveau_bound or not driver.has_module_for_running_kernel:
        return None
    if holds(rejected, facts):
        return None
    return (
        f"{driver.name} is installed with a module for this kernel, and is not loaded",
        "sudo modprobe nvidia; if that fails, sudo dmesg says why",
    )


def reboot_pending(facts: Facts) -> Told | None:
    if facts.driver.is_mismatched:  # says the same, with more
        return None
    names = [name for name in facts.boot.reboot_packages if name.startswith(("nvidia", "libnvidia", "linux-"))]
    if not facts.boot.reboot_required or not names:
        return None
    return f"a reboot is pending for {', '.join(names)}", f"{REBOOT} before other changes of the driver"


def running_module(facts: Facts) -> DriverModule | None:
    return facts.driver.module_for(facts.kernel.release)
