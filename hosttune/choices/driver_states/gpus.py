"""States of the GPUs: do they answer, does this driver drive them, is their fabric up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.choices.apt_commands import lacks_package
from hosttune.choices.driver_states.modules import (
    enrol_key,
    libraries_missing,
    missing_now,
    next_module,
    running_module,
    tell_of_mismatch,
    tell_of_rejected,
    tell_of_stale,
    tell_of_swapped,
    will_be_other,
)
from hosttune.choices.driver_states.state import (
    INITRAMFS,
    REBOOT,
    ByPolicy,
    StateText,
    holds_state,
    installer_steps,
    is_node,
    read_log_fact,
    switch,
    uninstall,
    vendor_of,
)
from hosttune.choices.drivers.branch import not_driven, why_over
from hosttune.choices.drivers.bringer import guest_way
from hosttune.choices.drivers.choice import closed_alone, open_alone
from hosttune.choices.drivers.components import fabric_beside_pod, fabric_packages
from hosttune.choices.drivers.nvidia_archive import is_of_nvidia
from hosttune.choices.drivers.switches import LOG, SERVICE, has_switches, without_umad
from hosttune.choices.next_kernel import make_module_commands, suggest_replacement
from hosttune.facts.base import UnknownFact, attempt, get_raw, read_or_default
from hosttune.facts.gpu.archives import branch_in
from hosttune.facts.gpu.driver import NVIDIA_MODPROBE
from hosttune.facts.gpu.gpu_holders import make_blacklist
from hosttune.facts.gpu.gsp_firmware import (
    KERNEL_LOG,
    NOT_SET_UP,
    OF_FIRMWARE,
    UNLOAD,
    reload_driver,
    way_out,
)
from hosttune.facts.gpu.nvidia import smi_package
from hosttune.facts.gpu.ways_out import SUPPORT, find_place, list_report, way_of
from hosttune.numbers import parse_digits
from hosttune.quoting import join, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.facts.gpu.gsp_firmware import GspFailure
    from hosttune.facts.gpu.health import GpuHealth

_HARDWARE = "it is hardware, power or cooling"
_OF_NVIDIA = ("nvidia-", "nv-", "nv_")
_LINKS_HANG_DAYS = 66


def tell_of_firmware(facts: Facts) -> StateText | None:
    """GPUs whose own firmware was missing, was not read, or is of another version."""
    return _not_set_up(facts, is_firmware=True)


def not_set_up(facts: Facts) -> StateText | None:
    """GPUs that the driver could not set up, for a reason that proves nothing against the board. A
    vGPU is not set up by a driver that does not fit its hypervisor's.
    """
    return None if holds_state(tell_of_guest, facts) else _not_set_up(facts, is_firmware=False)


def _not_set_up(facts: Facts, *, is_firmware: bool) -> StateText | None:
    # These states leave the same lines in the kernel log ("RmInitAdapter failed"), and each of them
    # has a way out that can work. The firmware is blamed only if none of them holds.
    if not facts.driver.is_loaded or any(
        holds_state(look, facts)
        for look in (tell_of_unsupported, wrong_flavour, tell_of_stale, tell_of_mismatch)
    ):
        return None
    causes: dict[str, list[GspFailure]] = {}
    for one in facts.gsp_firmware.failures:
        if (one.cause in OF_FIRMWARE) is is_firmware:
            causes.setdefault(one.cause, []).append(one)
    if not causes:
        return None
    evidence = [found[0].describe(_describe_slots(found)) for found in causes.values()]
    ways = dict.fromkeys(_way_of(found, facts) for found in causes.values())
    return "; ".join(evidence), "\n".join(ways)


def _way_of(failures: list[GspFailure], facts: Facts) -> str:
    """That all of several GPUs fail in the same way speaks against none of the boards."""
    if failures[0].cause != NOT_SET_UP or not 1 < len(failures) == len(facts.gpus.devices):
        return way_out(failures[0], facts)
    return (
        f"see what came before: {KERNEL_LOG}\n"
        "that all GPUs fail speaks for driver or firmware, not for a board: try another version of "
        "the driver, or the firmware (VBIOS) of the boards from their vendor\n"
        "drain the host, and power it off and on"
    )


def _describe_slots(failures: list[GspFailure]) -> str:
    slots = [one.slot for one in failures]
    return (
        f"the GPU at {slots[0]}" if len(slots) == 1 else f"{len(slots)} GPUs ({', '.join(slots)})"
    )


def tell_of_lost(facts: Facts) -> StateText | None:
    """GPUs that do not answer, other than those that this driver cannot drive."""
    if not facts.driver.is_loaded:
        return None
    is_refused = read_log_fact(facts, "refusal") == "gpu lost"
    is_undrivable = holds_state(tell_of_unsupported, facts) or holds_state(wrong_flavour, facts)
    known = read_log_fact(facts, "silent") if is_refused else facts.nvidia.silent
    known = tuple(gpu for gpu in known if gpu.slot not in _find_explained(facts))
    silent = [
        gpu
        for gpu in known
        if gpu.sign in ("log", "smi")
        or (gpu.sign in ("left out", "firmware") and not is_undrivable)
    ]
    # A GPU of which it is not known whether it answers must not read as "none is lost".
    if not silent and (unknown := [gpu.why for gpu in known if gpu.sign == "not known"]):
        raise UnknownFact("; ".join(dict.fromkeys(unknown)))
    if not silent:
        is_gone = is_refused and not _find_explained(facts)
        return (
            (facts.nvidia.problem, _describe_hardware(facts, ("RESTART_BM",))) if is_gone else None
        )
    slots: dict[str, list[str]] = {}
    for gpu in silent:
        slots.setdefault(gpu.why, []).append(gpu.slot)
    evidence = [
        f"the GPU at {own[0]} {why}"
        if len(own) == 1
        else f"{len(own)} GPUs, {', '.join(own)}: each {why}"
        for why, own in slots.items()
    ]
    drained = [gpu.slot for gpu in silent if gpu.sign in ("left out", "firmware")]
    unless = (
        f" (unless it was drained: sudo nvidia-smi drain -q -p {quote(drained[0])})"
        if drained
        else ""
    )
    if not any(gpu.is_off_bus for gpu in silent):
        return "; ".join(evidence), way_of(
            {gpu.action for gpu in silent}, silent[0].slot, find_place(facts.reader, facts)
        )
    return "; ".join(evidence), _describe_hardware(
        facts, (gpu.action for gpu in silent), silent[0].slot, unless
    )


def _describe_hardware(
    facts: Facts, actions: Iterable[str], slot: str = "", unless: str = ""
) -> str:
    return f"{_HARDWARE}{unless}\n{way_of(actions, slot, find_place(facts.reader, facts))}"


def reset_required(facts: Facts) -> StateText | None:
    """The driver refuses work until a GPU is reset, and its lines do not name the GPU. One that
    names itself is in gpu-errors.
    """
    if not facts.driver.is_loaded or not read_log_fact(facts, "wants_reset"):
        return None
    gpus = attempt(lambda: facts.health.gpus)
    # Two rules would otherwise report one GPU with two ways out, of which the general one drains
    # the whole node.
    if isinstance(gpus, tuple) and any(map(_is_named, gpus)):
        return None
    evidence = (
        "the driver refuses work on a GPU until it is reset (NV_ERR_RESET_REQUIRED in the kernel "
        "log): CUDA calls it busy or unavailable, and nvidia-smi shows nothing"
    )
    report = list_report(find_place(facts.reader, facts))
    steps = ("drain the node", *report, "end all that uses the GPUs", reload_driver(facts), SUPPORT)
    return evidence, "\n".join(steps)


def _is_named(gpu: GpuHealth) -> bool:
    """The log or nvidia-smi says of this GPU that it needs a reset, or more."""
    errors = any(one.is_reported and one.weight == "fault" for one in gpu.errors)
    return errors or get_raw(gpu, "recovery_action") in {"Reset", "Reboot"}


def _find_explained(facts: Facts) -> frozenset[str]:
    """The GPUs of which it is known why they were not set up; none where the log cannot be read."""
    return read_or_default(
        lambda: frozenset(one.slot for one in facts.gsp_firmware.failures), frozenset()
    )


def all_lost(facts: Facts) -> StateText | None:
    """The GPUs of this host were there in this boot, and are on the PCI bus no more."""
    if not (evidence := read_log_fact(facts, "all_lost")):
        return None
    return evidence, _describe_hardware(
        facts, ("RESTART_BM",), unless=" (if it was taken out on purpose, reboot)"
    )


def tell_of_guest(facts: Facts) -> StateText | None:
    if not read_log_fact(facts, "is_vgpu") or (
        facts.driver.is_loaded and facts.nvidia.smi == "answers"
    ):
        return None
    if not facts.driver.is_loaded and not facts.driver.branch and holds_state(missing_now, facts):
        # the driver that fits is without its module, too; one of the distribution's packages never
        # fits
        return None
    return (
        (
            "this is a vGPU guest, and its driver does not answer: it must be the licensed one "
            "that fits the hypervisor's"
        ),
        f"{guest_way(facts)}; hosttune leaves it alone",
    )


def tell_of_unsupported(facts: Facts) -> StateText | None:
    driver = facts.driver
    legacy = read_log_fact(facts, "legacy_branch")
    if not driver.branch:
        return (
            _too_new_installer(facts, legacy)
            if legacy and driver.runfile and not driver.is_loaded
            else None
        )
    if legacy:
        evidence = f"the kernel log says that a GPU here needs branch {legacy}"
        way = switch(facts, "a driver of that branch", branch=legacy)
        if (
            isinstance(way, str)
            and not is_of_nvidia(facts)
            and (names := _of_branch(facts, legacy))
        ):
            way = f"sudo apt-get install {join(names)}\n{REBOOT}"
        return evidence, way
    left = not_driven(facts)
    if not left:
        return None
    return (
        f"branch {driver.branch} does not drive {', '.join(left)} ({facts.gpus.summary})",
        switch(facts, "a branch that does"),
    )


def _of_branch(facts: Facts, number: str) -> tuple[str, ...]:
    """What apt has of a branch, where a person installs it; none where that is not known, or
    something else brings the driver. A name can lead elsewhere: nvidia-driver-470 is an empty step
    to 535, and nvidia-driver-470-server is the branch (linuxmint/mintdrivers issue 111). The
    version tells. Debian's names are behind Ubuntu's.
    """
    if vendor_of(facts) or is_node(facts):
        return ()
    is_headless = any(one.name.startswith("nvidia-headless") for one in facts.driver.packages)
    sets: list[tuple[str, ...]] = [
        (f"nvidia-headless-{one}", f"nvidia-utils-{one}")
        if is_headless
        else (f"nvidia-driver-{one}",)
        for one in (number, f"{number}-server")
    ]
    sets += [(f"nvidia-tesla-{number}-driver",), (f"nvidia-legacy-{number}xx-driver",)]
    try:
        offers = facts.archives.offers_of({name for names in sets for name in names})
    except UnknownFact:
        return ()
    known = {
        name for name, one in offers.items() if branch_in(one.candidate) == parse_digits(number, 0)
    }
    return next((names for names in sets if known.issuperset(names)), ())


def _too_new_installer(facts: Facts, legacy: str) -> StateText:
    version = facts.driver.userspace_version
    named = f"the driver of NVIDIA's own installer{f', {version},' if version else ''}"
    evidence = (
        f"{named} does not drive {facts.gpus.summary}: the kernel log says that branch {legacy} is "
        "the last that does"
    )
    if facts.driver.is_vgpu_manager:  # vGPU releases drop GPUs earlier than the driver does
        return (
            evidence,
            (
                "sudo nvidia-uninstall\n"
                "bring a vGPU manager that still shares this GPU (docs.nvidia.com/vgpu)"
            ),
        )
    return evidence, f"sudo nvidia-uninstall\nbring a driver of branch {quote(legacy)} or older"


def wrong_flavour(facts: Facts) -> StateText | None:
    module = _module_in_use(facts)
    if module is None or will_be_other(facts) or holds_state(tell_of_unsupported, facts):
        return None
    name, is_open = module
    if is_open and (old := closed_alone(facts)):
        evidence = f"{name} is the open kernel module, and it does not drive {', '.join(old)}"
        return evidence, _other_kind(facts, "closed")
    if not is_open and (only_open := open_alone(facts)):
        evidence = (
            f"{name} is the closed kernel module, and {' and '.join(only_open)} needs the open one"
        )
        return evidence, _other_kind(facts, "open")
    return None


def _other_kind(facts: Facts, kind: str) -> str | ByPolicy:
    """The packages are of this kind already where another module is before theirs."""
    driver = facts.driver
    if not driver.branch:
        if not driver.runfile or driver.is_vgpu_manager:
            return f"bring a driver with the {kind} kernel module in the way this one came"
        return f"{_run_installer_again(facts, kind)}\n{REBOOT}\nor {uninstall(facts)}"
    if (kind == "open") != ("open" in driver.flavour):
        return switch(facts, f"the {kind} kernel module", kind=kind)
    module = next_module(facts)
    how = (
        suggest_replacement(facts, module)
        if module
        else make_module_commands(facts, facts.kernel.release)
    )
    return f"the packages are those of the {kind} one: {how}\n{INITRAMFS}\n{REBOOT}"


def _run_installer_again(facts: Facts, kind: str) -> str:
    """NVIDIA's installer with its other kind of modules (README of the driver, "Open Linux Kernel
    Modules").
    """
    driver = facts.driver
    version = driver.loaded_version or driver.userspace_version
    words = [
        f"-m={'kernel-open' if kind == 'open' else 'kernel'}",
        *(["--dkms"] if driver.dkms else []),
    ]
    return "\n".join(installer_steps(facts, version, *words))


def is_undriven_until_boot(facts: Facts) -> bool:
    """Whether a GPU needs the other kind of module than the loaded one, which the next boot
    loads.
    """
    return bool(closed_alone(facts) if facts.driver.is_open else open_alone(facts))


def is_mute(facts: Facts) -> bool:
    """Whether not every GPU answers nvidia-smi: one that does is driven, supported or not."""
    return facts.nvidia.smi != "answers" or bool(facts.gpus.undriven or facts.nvidia.silent)


def _module_in_use(facts: Facts) -> tuple[str, bool] | None:
    """What drives the GPUs, or will when it is loaded: how it is called, and whether it is the open
    one.
    """
    if facts.driver.is_loaded:
        return f"the loaded module {facts.driver.loaded_version}", facts.driver.is_open
    module = running_module(facts) if facts.driver.is_installed else None
    return (f"the installed module {module.version}", module.is_open) if module else None


def tell_of_undriven(facts: Facts) -> StateText | None:
    """GPUs that no kernel driver holds, beside others that the driver holds."""
    if not facts.driver.is_loaded or not facts.gpus.undriven or "nvidia" not in facts.gpus.drivers:
        return None
    slots = [slot for slot in facts.gpus.undriven if slot not in facts.nvidia.lost]
    if not slots or any(holds_state(look, facts) for look in (tell_of_unsupported, wrong_flavour)):
        return None
    if state := without_room(facts):
        return state
    models = {get_raw(gpu, "device_id") for gpu in facts.gpus.devices if gpu.slot in slots}
    others = sum(
        gpu.driver == "nvidia" for gpu in facts.gpus.devices if get_raw(gpu, "device_id") in models
    )
    evidence = f"no driver holds the GPU at {', '.join(slots)}, while nvidia holds others"
    if not others:
        return evidence, f"see why: {KERNEL_LOG}\n{REBOOT}"
    # What the kernel log calls not supported was not read from the board (NVIDIA/aicr issue 1858).
    evidence += (
        f", {others} of its model: so the driver is the right one, and this GPU did not start"
    )
    return (
        evidence,
        (
            f"see why: {KERNEL_LOG}\n"
            f"{way_of(('RESTART_BM',), slots[0], find_place(facts.reader, facts))}"
        ),
    )


def without_room(facts: Facts) -> StateText | None:
    """GPUs that have no driver, as firmware or hypervisor gave a window of theirs no address on the
    bus. A driver or a reboot changes nothing about it. VMware's parameters: NVIDIA/gpu-operator
    issue 492; pci=realloc: kernel-parameters.
    """
    slots = [slot for slot in read_log_fact(facts, "no_room") or () if slot in facts.gpus.undriven]
    if not slots:
        return None
    where = f"the GPU at {slots[0]}" if len(slots) == 1 else f"the GPUs at {', '.join(slots)}"
    evidence = f"{where} has no driver" if len(slots) == 1 else f"{where} have no driver"
    evidence += ": a window to the memory has no address on the PCI bus (BAR, kernel log)"
    if facts.host.is_vm:
        return evidence, (
            "ask who runs the hypervisor for EFI firmware and more room above 4 GB, at least twice "
            "the memory of all GPUs of this machine (QEMU: the 64-bit PCI window; VMware: "
            "pciPassthru.use64bitMMIO=TRUE and pciPassthru.64bitMMIOSizeGB): neither another "
            "driver nor a reboot in here changes that"
        )
    return evidence, (
        "switch on Above 4G Decoding in the firmware setup (and give more room where it has an "
        "MMIO size)\n"
        "power the host off and on\n"
        "if it is still so, try pci=realloc in the kernel command line"
    )


_LIKE_LIBRARIES = (
    f"see the version of the libraries, which the driver calls the client: {KERNEL_LOG}\n"
    "see which version the next boot loads: modinfo -F version nvidia\n"
    f"if it is that of the libraries, {REBOOT}; else a reboot does not fix this"
)


_NO_LIBRARY = "couldn't find libnvidia-ml.so"
_FIND_LIBRARIES = (
    "see which libraries of the driver the system finds: ldconfig -p | grep -E "
    "'libnvidia-ml|libcuda'\n"
    "see which version is loaded: cat /proc/driver/nvidia/version\n"
    "install the libraries of that version, as the driver itself was installed"
)


def tell_of_refusal(facts: Facts) -> StateText | None:
    """nvidia-smi says no, or nothing at all, and nothing above says why."""
    if not facts.driver.is_loaded:
        is_explained = any(
            holds_state(look, facts)
            for look in (
                missing_now,
                tell_of_rejected,
                tell_of_guest,
                tell_of_unsupported,
                wrong_flavour,
            )
        ) or read_log_fact(facts, "refused")
        return (
            _tell_of_unreached(facts)
            if facts.nvidia.smi == "refused" and not is_explained
            else None
        )
    if facts.nvidia.smi == "answers":
        return _tell_of_hanging(facts, facts.health.problem) if facts.health.is_stuck else None
    if facts.nvidia.smi not in ("refused", "hangs"):
        return None
    if facts.nvidia.refusal == "no permission":
        raise UnknownFact(facts.nvidia.problem)
    looks = (
        tell_of_firmware,
        not_set_up,
        tell_of_lost,
        tell_of_unsupported,
        wrong_flavour,
        tell_of_stale,
        tell_of_mismatch,
        libraries_missing,
    )
    if any(holds_state(look, facts) for look in looks) or (
        facts.nvidia.smi == "refused" and holds_state(tell_of_guest, facts)
    ):
        return None
    if holds_state(tell_of_swapped, facts) and is_undriven_until_boot(facts):
        return None
    if facts.nvidia.smi == "hangs":
        return _tell_of_hanging(facts, facts.nvidia.problem)
    return facts.nvidia.problem, _way_out_of_refusal(facts)


def _way_out_of_refusal(facts: Facts) -> str:
    """By what nvidia-smi says, where versions and packages are not known: else `mismatch`, `stale
    module` or `libraries missing` say more.
    """
    if facts.nvidia.refusal == "mismatch":
        return _LIKE_LIBRARIES
    if _NO_LIBRARY in facts.nvidia.problem:
        return _FIND_LIBRARIES
    unsaid = [
        f"if that does not say, {one}" for one in list_report(find_place(facts.reader, facts))
    ]
    return "\n".join((f"see why: {KERNEL_LOG}", *unsaid))


def _tell_of_unreached(facts: Facts) -> StateText:
    """Without the module nvidia-smi is not asked on a host; a report of nvidia-bug-report.sh has
    its answer.
    """
    if facts.driver.nouveau_bound:
        kept_out = make_blacklist(("nouveau",))
        first = "see that the driver has a module for this kernel: modinfo nvidia"
        return f"{facts.nvidia.problem}; nouveau holds the GPU", f"{first}\n{kept_out}\n{REBOOT}"
    load = f"sudo modprobe nvidia\nif it is still not loaded, see why: {KERNEL_LOG}"
    if read_log_fact(facts, "rejected_key"):
        signer = "see who signed the module of the driver: modinfo -F signer nvidia"
        refused = (
            f"{facts.nvidia.problem.rstrip('.')}; the kernel refused a module for its signature "
            "(kernel log)"
        )
        return refused, f"{signer}\nif it was signed here, {enrol_key(facts)}\n{load}"
    return facts.nvidia.problem, load


def _tell_of_hanging(facts: Facts, problem: str) -> StateText:
    """Tasks of the driver that the kernel calls blocked prove that it is not slow. What such a task
    holds is let go by no signal, so that a shutdown may wait for it, too
    (NVIDIA/nvidia-persistenced issue 15).
    """
    off = (
        f"see why: {KERNEL_LOG}\n{REBOOT}\nif the shutdown does not end, power the host off and on"
    )
    if is_known_hang(facts):
        known = (
            f"as it is known of HGX B200 with the open module after {_LINKS_HANG_DAYS} days "
            "without a reboot"
        )
        where = "github.com/NVIDIA/open-gpu-kernel-modules/issues/971"
        again = (
            f"reboot again before {_LINKS_HANG_DAYS} days are over, until a newer driver is proved "
            "free of it"
        )
        return f"{problem}: the driver hangs, {known} ({where})", f"{off}\n{again}"
    if tasks := blocked_by_driver(facts):
        return f"{problem}: the driver hangs, and the kernel calls {', '.join(tasks)} blocked", off
    return f"{problem}: a GPU or the driver hangs, or it takes that long to wake the GPUs", (
        "see which: time nvidia-smi\n"
        "if it is only slow, let gpu-persistence keep the GPUs awake\n"
        f"if it hangs, {off}"
    )


def is_known_hang(facts: Facts) -> bool:
    """The lines of that hang, and a host that runs for so long: one of the two proves nothing."""
    days = attempt(lambda: facts.pressure.uptime_days)
    is_open = attempt(lambda: facts.driver.is_open) is True
    return (
        is_open
        and bool(read_log_fact(facts, "loses_links"))
        and isinstance(days, float | int)
        and days >= _LINKS_HANG_DAYS
    )


def blocked_by_driver(facts: Facts) -> tuple[str, ...]:
    """Tasks of NVIDIA's programs and of the driver itself (nvidia-smi, nv-hostengine, nv_queue)
    that still hang.
    """
    hung = attempt(lambda: facts.storage_log.hung)
    return (
        tuple(one.name for one in hung if one.name.startswith(_OF_NVIDIA))
        if isinstance(hung, tuple)
        else ()
    )


def smi_missing(facts: Facts) -> StateText | None:
    """Of a driver in packages that is loaded, the package with nvidia-smi: headless metapackages
    leave it out.
    """
    package = smi_package(facts)
    if (
        not package
        or not facts.driver.is_loaded
        or facts.nvidia.smi != "absent"
        or holds_state(libraries_missing, facts)
    ):
        return None
    version = facts.driver.userspace_version
    wanted = f"{package}={version}*" if version else package
    evidence = "nvidia-smi is not installed, so that much of this host's GPUs is not known"
    if (
        lacks_package(facts, wanted)
        and facts.driver.branch
        and why_over(facts, int(facts.driver.branch))
    ):
        return (
            evidence,
            (
                f"no list of apt has {package} in {version} any more: what solves `outdated "
                "branch` brings it"
            ),
        )
    return evidence, f"sudo apt-get install {quote(wanted)}"


def files_gone(facts: Facts) -> StateText | None:
    """A loaded module of which nothing else is here: an image's own driver that was deleted under
    it (kubelet nodes that are to take the GPU Operator's). No program computes with it, and another
    driver cannot be loaded beside it.
    """
    driver = facts.driver
    if (
        not driver.is_loaded
        or driver.is_installed
        or driver.packages
        or facts.nvidia.smi != "absent"
    ):
        return None
    # Any of the three is a part of a driver in a place that is known, so that other states say more
    # exactly what is missing.
    if driver.userspace_version or driver.kernels_with_module or driver.is_vgpu_manager:
        return None
    theirs = "what brings the driver of this node (the GPU Operator, its image)"
    then = f"let {theirs} load its own" if is_node(facts) else "see: hosttune explain gpu-driver"
    evidence = (
        f"the module {driver.loaded_version} is loaded, and nothing else of its driver is known "
        "here"
    )
    return (
        f"{evidence}: no libraries, no nvidia-smi, no module on the disk",
        f"unload it: {UNLOAD}, or {REBOOT}\nthen {then}",
    )


def uvm_missing(facts: Facts) -> StateText | None:
    """CUDA has no device, and nothing makes it when a program starts. Where that is not known,
    nothing is claimed. A vGPU manager and a desktop compute nothing, and tools of containers with a
    hook of their own make it as root.
    """
    if (
        attempt(lambda: facts.driver.lacks_uvm) is not True
        or attempt(lambda: facts.nvidia.smi) != "answers"
    ):
        return None
    if facts.driver.is_vgpu_manager or attempt(lambda: facts.role.is_desktop) is True:
        return None
    containers = facts.containers
    if (
        attempt(
            lambda: (
                containers.has_operator_toolkit or (containers.has_toolkit and containers.is_legacy)
            )
        )
        is True
    ):
        return None
    missing = (
        "/dev/nvidia-uvm is missing, as is nvidia-modprobe, which makes it when a program starts"
    )
    install = "sudo apt-get install nvidia-modprobe\nsudo nvidia-modprobe -u -c=0"
    if attempt(lambda: facts.driver.has_plain_modprobe) is True:
        missing = (
            "/dev/nvidia-uvm is missing, and nvidia-modprobe, which makes it for a program, is not "
            "setuid root"
        )
        install = (
            "sudo nvidia-modprobe -u -c=0\n"
            f"ask who took the bit away: sudo dpkg-statoverride --list {NVIDIA_MODPROBE}\n"
            f"give it back: sudo chmod u+s {NVIDIA_MODPROBE}, or run the first command at each boot"
        )
    look = f"if the device is still missing, see why: sudo modprobe nvidia_uvm; {KERNEL_LOG}"
    return (
        f"CUDA starts only for root, and in no container that gets its GPU by CDI: {missing}",
        f"{install}\n{look}",
    )


def tell_of_fabric(facts: Facts) -> StateText | None:
    """Only the packages: whether the service runs is gpu-fabric's."""
    if not has_switches(facts) or not (found := fabric_packages(facts)):
        return None
    switches = f"{facts.gpus.nvswitches} NVSwitches" if facts.gpus.nvswitches else "NVSwitches"
    return f"{found[0]}; with {switches} CUDA does not start (error 802)", found[1]


def fabric_down(facts: Facts) -> StateText | None:
    """Its service does not run, though its package is there; or none runs beside a driver in a
    container.
    """
    if state := fabric_beside_pod(facts):
        return state
    if not facts.driver.is_loaded or not has_switches(facts) or holds_state(tell_of_fabric, facts):
        return None
    unit = facts.units[SERVICE]
    # A driver without packages, as one of a container or an image, can run Fabric Manager in a way
    # of its own. Without its unit nothing is known to be down.
    if unit.is_active or not (facts.driver.branch or (facts.driver.runfile and unit.exists)):
        return None
    evidence = (
        f"Fabric Manager does not run ({SERVICE} is {unit.active_state}): CUDA does not start "
        "(error 802)"
    )
    # `enable --now` fails on a masked unit, and unmasking would undo what an administrator decided.
    if unit.load_state == "masked":
        return (
            f"{evidence}; an administrator masked it ({unit.fragment or SERVICE})",
            "ask who did that, and why: nothing else starts it",
        )
    if missing := without_umad(facts):
        return f"{evidence}; {missing[0]}", f"{missing[1]}\nif it fails again, {LOG} say why"
    return evidence, f"sudo systemctl enable --now {SERVICE}\nif it fails, {LOG} say why"
