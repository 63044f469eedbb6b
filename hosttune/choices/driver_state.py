"""What state the NVIDIA driver is in: every trouble that files and the driver itself tell, with its evidence and the
way out, the one that must be solved first leading.

The states follow from evidence that no single program gives: module, libraries, packages, boot files, PCI bus,
archives. A trouble whose evidence cannot be read is itself said, as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hosttune.choices.drivers.bringer import VENDORS, guest, guest_way, other_bringer
from hosttune.choices.next_kernel import commands
from hosttune.facts import Facts
from hosttune.facts.base import Fact, UnknownFact, unread
from hosttune.facts.gpu_errors import way_of
from hosttune.facts.nvidia_tables import branch_of, is_older, month_of, stale_note
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts.driver import DriverModule

SUBJECTS = ("archives", "nvidia")  # they wait for programs, where there is a driver: asked side by side from the start
_REBOOT = "drain the host and reboot"
_PREBUILT = "prebuilt modules (linux-modules-nvidia-...)"
_SIGNED = f"{_PREBUILT} (they are signed), or enrol the key at the console: mokutil --import"
_OPEN, _CLOSED = "the open module of the same branch", "the closed module of the same branch"
_INITRAMFS = "sudo update-initramfs -u -k all"
_CONTAINED = "driver in a container"


@frozen
class DriverState(Fact):
    """One thing to know about the driver."""

    name: str  # `mismatch`, `module missing`, `current` ...
    is_fault: bool  # something is to be done; False for `current`
    evidence: str  # a sentence
    way_out: str  # what a person does about it; empty for `current`
    rule: str = ""  # the rule that reports it in a check, where that is not gpu-driver-health


@frozen
class DriverStates(Fact):
    """All that hold, the one to solve first leading; `current` alone where there is nothing to do."""

    states: tuple[DriverState, ...]

    @property
    def leading(self) -> DriverState:
        return self.states[0]


_ELSEWHERE = {"module missing for the next kernel": "gpu-next-kernel-modules", "fabric different": "gpu-fabric"}
Told = tuple[str, str]  # evidence, way out


def choose(facts: Facts, params: Mapping[str, Any]) -> DriverStates:  # noqa: ARG001 - the interface of all choices
    """Every state that holds. A GPU is taken for granted: the rule asks for one."""
    elsewhere = _elsewhere(facts)
    if elsewhere and not (elsewhere.name == _CONTAINED and facts.driver.is_loaded):
        return DriverStates((elsewhere,))
    if not facts.driver.is_present:
        return DriverStates((_absent(facts),))
    found: list[DriverState] = []
    unknown: dict[str, list[str]] = {}
    for name, look in (_CONTAINED_STATES if elsewhere else _own_states(facts)).items():
        try:
            told = look(facts)
        except UnknownFact as missing:
            unknown.setdefault(missing.reason, []).append(name)
            continue
        if told:
            found.append(DriverState(name, True, *told, _ELSEWHERE.get(name, "")))
    for reason, names in unknown.items():  # after what is known: one reason, one line
        found.append(DriverState(f"whether: {', '.join(names)}", unread(reason), f"not known: {reason}", ""))
    return DriverStates(tuple(found) or (elsewhere or _current(facts),))


def _elsewhere(facts: Facts) -> DriverState | None:
    """The state of a driver that is not this system's business."""
    if facts.host.is_container:
        name, evidence = "container", "in a container the driver belongs to the host"
    elif facts.host.is_wsl:
        name, evidence = "WSL", "under WSL the driver is the one of Windows"
    elif facts.gpus.is_passed_through:
        name, evidence = "passed through", "every GPU is held by vfio-pci for virtual machines"
    elif facts.managers.gpu_operator and not facts.driver.branch:
        running = f" ({facts.driver.loaded_version} is loaded)" if facts.driver.is_loaded else ""
        name, evidence = _CONTAINED, f"the GPU Operator brings the driver in a container{running}"
    else:
        return None
    return DriverState(name, is_fault=False, evidence=evidence, way_out="")


def _own_states(facts: Facts) -> Mapping[str, Callable[[Any], Told | None]]:
    """Without what is no fault where a hypervisor or a vendor's image brings the driver in a way of its own."""
    theirs: frozenset[str] = frozenset()
    if _said(facts, "is_vgpu"):
        theirs = _OF_THE_HYPERVISOR
    elif _vendor(facts) or _is_node(facts):
        theirs = _OF_THE_VENDOR
    return {name: look for name, look in STATES.items() if name not in theirs}


def _vendor(facts: Facts) -> str:
    try:
        return facts.role.vendor_image
    except UnknownFact:
        return ""


def _is_node(facts: Facts) -> bool:
    try:
        return facts.managers.kubelet
    except UnknownFact:
        return False


def _absent(facts: Facts) -> DriverState:
    held = " (nouveau holds it, which computes nothing)" if facts.driver.nouveau_bound else ""
    way_out = "see: hosttune explain gpu-driver"
    if bringer := guest(facts) or other_bringer(facts):
        held, way_out = f"{held}: {bringer.reason}", bringer.way_out
    elif not facts.os.is_ubuntu:
        way_out = (
            "install the driver that your distribution offers (Debian: enable contrib, non-free and non-free-firmware, "
            "then apt-get install nvidia-driver)"
        )
    return DriverState("absent", is_fault=True, evidence=f"no driver for {facts.gpus.summary}{held}", way_out=way_out)


def _current(facts: Facts) -> DriverState:
    driver = facts.driver
    words = driver.name or "a driver without packages"
    version = driver.loaded_version or driver.userspace_version
    return DriverState("current", is_fault=False, evidence=f"{words} {version} is installed and loaded", way_out="")


def _broken(facts: Facts) -> Told | None:
    names = ", ".join(facts.driver.broken)
    return (
        (f"dpkg stopped half-way with {names}", "sudo dpkg --configure -a && sudo apt-get -f install")
        if names
        else None
    )


def _lost(facts: Facts) -> Told | None:
    if not facts.driver.is_loaded:
        return None
    slots = ", ".join(facts.nvidia.lost)
    if not slots and facts.nvidia.refusal != "gpu lost":
        return None
    return (
        f"the GPU at {slots} has fallen off the bus (Xid 79)" if slots else facts.nvidia.problem,
        f"it is hardware, power or cooling: {way_of(('RESTART_BM',), slots)}",
    )


def _runfile(facts: Facts) -> Told | None:
    if not facts.driver.runfile:
        return None
    return (
        "NVIDIA's own installer (runfile) put a driver here, outside of dpkg: upgrades break it",
        "at the next maintenance, sudo nvidia-uninstall, then let gpu-driver install packages",
    )


def _mixed(facts: Facts) -> Told | None:
    origins = _origins(facts)
    if len(origins) < 2:
        return None
    return (
        f"the packages of the driver come from several archives: {' and '.join(origins)}",
        "decide for one of them; purge the driver's packages by name and install it again from that one",
    )


def _foreign(facts: Facts) -> Told | None:
    origins = _origins(facts)
    if len(origins) != 1 or origins[0] in {"Ubuntu", "Debian"}:
        return None
    whose = {"NVIDIA": "NVIDIA's CUDA archive"}.get(origins[0], f"the archive {origins[0]}")
    return (
        f"the driver comes from {whose}: its modules are compiled on this host (DKMS), and hosttune leaves it alone",
        "keep to that archive for all of it, or migrate: purge it by name, remove the archive, run hosttune again",
    )


def _origins(facts: Facts) -> tuple[str, ...]:
    return tuple(origin for origin in facts.archives.origins if origin) if facts.driver.branch else ()


def _dkms_failed(facts: Facts) -> Told | None:
    failed = [build for build in facts.driver.dkms if build.failed]
    if not failed:
        return None
    kernels = ", ".join(sorted({build.kernel for build in failed if build.kernel})) or "a kernel"
    return (
        f"DKMS could not build nvidia {failed[0].version} for {kernels}",
        f"{_PREBUILT} instead; the log is /var/lib/dkms/nvidia/{failed[0].version}/build/make.log",
    )


def _rejected(facts: Facts) -> Told | None:
    if facts.driver.is_loaded or not facts.driver.branch:
        return None
    if _said(facts, "rejected_key"):
        return "the kernel refused the nvidia module for its signature (kernel log)", _SIGNED
    module = _running_module(facts)
    if module is None or module.source == "prebuilt" or not facts.boot.secure_boot:
        return None
    return (
        f"Secure Boot is on, and {module.path} was compiled here: only modules signed with a known key load",
        _SIGNED,
    )


def _wrong_flavour(facts: Facts) -> Told | None:
    module = _module_in_use(facts)
    if module is None:
        return None
    generations = facts.gpus.generations
    old = [one for one in generations if is_older(one, "turing")]
    if module[1] and (old or _said(facts, "not_for_open")):
        what = ", ".join(old) or "a GPU here"
        return f"{module[0]} is the open kernel module, and it does not drive {what}", _switch(facts, _CLOSED)
    if not module[1] and ("blackwell" in generations or _said(facts, "needs_open")):
        what = "Blackwell" if "blackwell" in generations else "a GPU here"
        return f"{module[0]} is the closed kernel module, and {what} needs the open one", _switch(facts, _OPEN)
    return None


def _switch(facts: Facts, what: str) -> str:
    if vendor := _vendor(facts):
        return f"{what}, in the way of {vendor}: {VENDORS[vendor][1]}"
    if _is_node(facts):
        return f"{what}: by whoever brings the driver of this Kubernetes node, its image or the GPU Operator"
    if not facts.os.is_ubuntu:  # where gpu-driver installs nothing
        return f"{what}: from your distribution, its backports, or NVIDIA's archive; then reboot"
    return f"{what}: switch_branch: true for gpu-driver in the policy, then reboot"


def _unsupported(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.branch:
        return None
    legacy = _said(facts, "legacy_branch")
    if legacy:
        said = f"the kernel log says that a GPU here needs branch {legacy}"
        return said, _switch(facts, f'a driver of that branch (branch: "{legacy}")')
    left = [one for one in facts.gpus.generations if not branch_of(int(driver.branch)).drives(one)]
    if not left:
        return None
    return (
        f"branch {driver.branch} does not drive {', '.join(left)} ({facts.gpus.summary})",
        _switch(facts, "a branch that does"),
    )


def _holds(look: Callable[[Facts], Told | None], facts: Facts) -> bool:
    """Whether another state says it already; one that is not known says nothing."""
    try:
        return look(facts) is not None
    except UnknownFact:
        return False


def _said(facts: Facts, name: str) -> Any:
    """What the kernel log says; it only adds to other evidence, so one that nobody may read says nothing."""
    try:
        return getattr(facts.nvidia, name)
    except UnknownFact:
        return ""


def _missing_now(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.branch or driver.is_loaded or driver.has_module_for_running_kernel:
        return None
    others, release = ", ".join(driver.kernels_with_module) or "none", facts.kernel.release
    return (
        f"{driver.name} is installed, and the running kernel {release} has no nvidia module (these have: {others})",
        f"boot a kernel that has one, or: {commands(facts, release)}",
    )


def _stale(facts: Facts) -> Told | None:
    """A module on the disk that is not of the libraries' version, and that the next boot loads."""
    module = _next_module(facts)
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
        f"{how}; {_INITRAMFS}; then {_REBOOT}",
    )


def _next_module(facts: Facts) -> DriverModule | None:
    """The module of the kernel that starts next, as far as that is known, else of the running one."""
    try:
        kernel = facts.boot.next_kernel or facts.kernel.release
    except UnknownFact:
        kernel = facts.kernel.release
    return facts.driver.module_for(kernel)


def _mismatch(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.is_mismatched or _holds(_stale, facts):
        return None
    versions = f"the loaded module is {driver.loaded_version} and the libraries are {driver.userspace_version}"
    return (
        f"{versions}: CUDA and nvidia-smi refuse to start",
        f"{_REBOOT}; if it is still so afterwards, an old module is in the initramfs: {_INITRAMFS}",
    )


def _nouveau(facts: Facts) -> Told | None:
    if not (facts.driver.nouveau_bound and facts.driver.is_installed):
        return None
    return (
        "nouveau holds a GPU, so that the installed NVIDIA driver cannot have it",
        f"reboot; if it is still so afterwards, {_INITRAMFS} and reboot again",
    )


def _not_loaded(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.branch or driver.is_loaded or driver.nouveau_bound or not driver.has_module_for_running_kernel:
        return None
    if _holds(_rejected, facts):
        return None
    return (
        f"{driver.name} is installed with a module for this kernel, and is not loaded",
        "sudo modprobe nvidia; if that fails, sudo dmesg says why",
    )


def _refused(facts: Facts) -> Told | None:
    """nvidia-smi says no, and nothing above says why."""
    if not facts.driver.is_loaded or facts.nvidia.smi != "refused":
        return None
    if facts.nvidia.refusal == "no permission":
        raise UnknownFact("nvidia.refusal", facts.nvidia.problem)
    if any(_holds(look, facts) for look in (_lost, _unsupported, _wrong_flavour, _stale, _mismatch)):
        return None
    return facts.nvidia.problem, "sudo dmesg | grep NVRM says why; if that does not, sudo nvidia-bug-report.sh"


def _fabric(facts: Facts) -> Told | None:
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


def _missing_next(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.branch or facts.boot.next_kernel in ("", facts.kernel.release) or driver.has_module_for_next_kernel:
        return None
    kernel = facts.boot.next_kernel
    return (
        f"the kernel that boots next, {kernel}, has no nvidia module: after a reboot no GPU works",
        f"do not reboot before: {commands(facts, kernel)}",
    )


def _reboot_pending(facts: Facts) -> Told | None:
    if facts.driver.is_mismatched:  # says the same, with more
        return None
    names = [name for name in facts.boot.reboot_packages if name.startswith(("nvidia", "libnvidia", "linux-"))]
    if not facts.boot.reboot_required or not names:
        return None
    return f"a reboot is pending for {', '.join(names)}", f"{_REBOOT} before other changes of the driver"


def _outdated(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.branch:
        return None
    month = month_of(facts.reader.now())
    branch = branch_of(int(driver.branch))
    over = f"NVIDIA's support of branch {driver.branch} has ended" if branch.is_over(month) else ""
    steps = (
        f"{', '.join(driver.transitional)} is an empty step to branch {driver.branch}" if driver.transitional else ""
    )
    if not over and not steps:
        return None
    said = "; ".join(part for part in (over, steps, stale_note(month)) if part)
    if not over:
        real = " ".join(re.sub(r"-\d{3}(?=-|$)", f"-{driver.branch}", one, count=1) for one in driver.transitional)
        gone = " ".join(driver.transitional)
        return said, f"name the branch: sudo apt-get install {real} && sudo apt-get remove {gone}"
    return said, _switch(facts, "a supported branch, at a maintenance")


def _held(facts: Facts) -> Told | None:
    """Held packages matter where something newer is kept from them."""
    held = [name for name in facts.driver.held if name in {offer.name for offer in facts.archives.updates}]
    if not held:
        return None
    return (
        f"held by an administrator (apt-mark), with an update waiting: {', '.join(held)}",
        "hosttune never unholds; when the hold has served, sudo apt-mark unhold, all of the driver's packages together",
    )


def _update(facts: Facts) -> Told | None:
    updates = [offer for offer in facts.archives.updates if offer.name not in facts.driver.held]
    if not facts.driver.branch or not updates:
        return None
    shown = ", ".join(f"{offer.name} {offer.installed} -> {offer.candidate}" for offer in updates[:3])
    more = f" and {len(updates) - 3} more" if len(updates) > 3 else ""
    return (
        f"an update within branch {facts.driver.branch} is offered: {shown}{more}",
        "update: true for gpu-driver in the policy, at a maintenance: it needs a reboot",
    )


def _guest(facts: Facts) -> Told | None:
    if not _said(facts, "is_vgpu") or (facts.driver.is_loaded and facts.nvidia.smi == "answers"):
        return None
    return (
        "this is a vGPU guest, and its driver does not answer: it must be the licensed one that fits the hypervisor's",
        f"{guest_way(facts)}; hosttune leaves it alone",
    )


def _running_module(facts: Facts) -> DriverModule | None:
    return facts.driver.module_for(facts.kernel.release)


def _module_in_use(facts: Facts) -> tuple[str, bool] | None:
    """What drives the GPUs, or will when it is loaded: how it is called, and whether it is the open one."""
    if facts.driver.is_loaded:
        return f"the loaded module {facts.driver.loaded_version}", facts.driver.is_open
    module = _running_module(facts) if facts.driver.branch else None
    return (f"the installed module {module.version}", module.is_open) if module else None


# In the order in which they must be solved: nothing is installed while dpkg is broken, no reboot before the next kernel
# has its module, and an update is the last thing.
STATES: Mapping[str, Callable[[Any], Told | None]] = {
    "broken packages": _broken,
    "GPU lost": _lost,
    "vGPU guest": _guest,
    "runfile": _runfile,
    "mixed sources": _mixed,
    "foreign archive": _foreign,
    "DKMS failed": _dkms_failed,
    "Secure Boot refuses": _rejected,
    "unsupported GPU": _unsupported,
    "wrong flavour": _wrong_flavour,
    "module missing": _missing_now,
    "stale module": _stale,
    "module missing for the next kernel": _missing_next,
    "mismatch": _mismatch,
    "nouveau": _nouveau,
    "not loaded": _not_loaded,
    "nvidia-smi refuses": _refused,
    "fabric different": _fabric,
    "reboot pending": _reboot_pending,
    "outdated branch": _outdated,
    "held": _held,
    "update offered": _update,
}
# The licensed driver of a vGPU comes by NVIDIA's installer or from the cloud's archive, as the hypervisor's release.
_OF_THE_HYPERVISOR = frozenset(
    {
        "runfile", "mixed sources", "foreign archive", "unsupported GPU", "wrong flavour", "outdated branch", "held",
        "update offered",
    }
)  # fmt: skip
# DGX OS and Lambda Stack have archives, AWS's images and those of Kubernetes nodes (AKS) installers of their own: the
# way back to Ubuntu's packages would break the image.
_OF_THE_VENDOR = frozenset({"runfile", "mixed sources", "foreign archive"})
# What a driver tells wherever it comes from.
_CONTAINED_STATES = {"GPU lost": _lost, "nvidia-smi refuses": _refused}
