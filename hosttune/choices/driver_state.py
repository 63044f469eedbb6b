"""What state the NVIDIA driver is in: every trouble that files and the driver itself show, with its
evidence and the way out, the one that must be solved first leading.

The states follow from evidence that no single program gives: module, libraries, packages, boot
files, PCI bus, archives. A trouble whose evidence cannot be read is itself reported, as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.choices.apt_commands import check_commands
from hosttune.choices.dpkg_stop import say_error, say_why, try_find_stop
from hosttune.choices.driver_states import (
    branch_moves,
    gpus,
    holders,
    kept_back,
    mixed,
    modules,
    packages,
    refusals,
)
from hosttune.choices.driver_states.state import (
    UNMET,
    BootOutlook,
    ByPolicy,
    DriverState,
    Look,
    StateText,
    holds_state,
    is_node,
    read_log_fact,
    vendor_of,
)
from hosttune.choices.drivers.bringer import other_bringer, tell_of_guest
from hosttune.choices.drivers.choice import CHANGES, DEFAULTS
from hosttune.choices.drivers.decision import decide
from hosttune.choices.drivers.nvidia_archive import replace_unfit_offer, tell_updates
from hosttune.choices.drivers.switches import POD_LOG, SERVICE
from hosttune.choices.next_kernel import has_headers, repair_of_host, say_no_headers
from hosttune.choices.own_kernel import are_headers_here
from hosttune.facts import Facts
from hosttune.facts.apt_decisions import archive_of_other_system
from hosttune.facts.base import Fact, UnknownFact, attempt, make_unread, read_or_default
from hosttune.facts.gpu.driver import INSTALLER_LOG
from hosttune.facts.kernel.kernel import headers_for, is_of_proxmox
from hosttune.frozen import frozen
from hosttune.quoting import join
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.facts.gpu.driver import Driver
    from hosttune.facts.gpu.driver_modules import DkmsBuild

UNITS = (SERVICE,)  # asked of systemd by name
# they wait for programs, where there is a driver: asked side by side from the start
SUBJECTS = ("archives", "nvidia")
_CONTAINED = "driver in a container"
_LAST = "update offered"


@frozen
class DriverStates(Fact):
    """All that hold, faults before the others, of each the one to solve first leading; `current`
    alone where there is nothing to do.
    """

    states: tuple[DriverState, ...]


_ELSEWHERE = {
    "module missing for the next kernel": "gpu-next-kernel-modules",
    "fabric different": "gpu-fabric",
    "fabric down": "gpu-fabric",
}


def choose(facts: Facts, params: Mapping[str, Any]) -> DriverStates:
    """Every state that holds. A GPU is taken for granted, or one that was there: the rule asks for
    one. `params`: those of gpu-driver that the policy says, where they are known.
    """
    params = {**DEFAULTS, **params}
    if text := gpus.all_lost(facts):
        return DriverStates((_make_state("GPU lost", text, facts, params, ()),))
    elsewhere = attempt(_make_elsewhere_state, facts)
    unknown: dict[str, list[str]] = {}
    looks: Mapping[str, Look] = _CONTAINED_STATES
    # these states are the driver's own words, and hold in either case
    if isinstance(elsewhere, Unreadable):
        looks = looks if facts.driver.is_loaded else _PROVEN_STATES
        unknown[elsewhere.reason] = ["driver brought in another way"]
    else:
        if elsewhere and not (elsewhere.name == _CONTAINED and facts.driver.is_loaded):
            return DriverStates((elsewhere,))
        present = attempt(lambda: facts.driver.is_present)
        if present is False:
            return DriverStates((_make_absent_state(facts, params),))
        if isinstance(present, Unreadable):
            looks, unknown[present.reason] = _PROVEN_STATES, ["driver installed"]
        else:
            looks = looks if elsewhere else _own_states(facts)
    found: list[DriverState] = []
    for name, look in looks.items():
        try:
            if text := look(facts):
                found.append(_make_state(name, text, facts, params, found))
        except UnknownFact as missing:
            unknown.setdefault(missing.reason, []).append(name)
    if looks is _PROVEN_STATES and not found:
        raise UnknownFact(next(iter(unknown)))
    found += _make_unknown_states(unknown, found, facts)  # after what is known
    found = _whole_first(found, facts)
    # in the order of STATES otherwise
    ranked = tuple(sorted(_boots_last(found), key=lambda state: not state.is_dead))
    states = _with_apt(ranked, facts)
    return DriverStates(
        states or (elsewhere if isinstance(elsewhere, DriverState) else _make_current_state(facts),)
    )


def _make_unknown_states(
    unknown: Mapping[str, list[str]], found: Iterable[DriverState], facts: Facts
) -> list[DriverState]:
    """One reason, one line. What nvidia-smi or the loaded module tells is known, whatever else is
    not known of it.
    """
    known = _list_known(found, facts)
    left = {why: [name for name in names if name not in known] for why, names in unknown.items()}
    return [
        DriverState(f"not known: {', '.join(names)}", make_unread(why), why, "")
        for why, names in left.items()
        if names
    ]


def _list_known(found: Iterable[DriverState], facts: Facts) -> frozenset[str]:
    """States that are known not to hold, or that nvidia-smi's refusal, which is a fault already,
    names.
    """
    smi, refusal, known = (
        attempt(lambda: facts.nvidia.smi),
        attempt(lambda: facts.nvidia.refusal),
        frozenset[str](),
    )
    if attempt(lambda: facts.driver.is_loaded) is True:
        known |= _OF_NO_MODULE
    if isinstance(smi, str) and smi not in ("absent", "not asked"):
        known |= _OF_NO_SMI
    # it has reached the module with its libraries
    if smi == "answers" or refusal in ("no devices", "gpu lost"):
        known |= _OF_LIBRARIES
    if any(one.name == _REFUSES for one in found):
        known |= (
            _OF_LIBRARIES
            if refusal == "mismatch"
            else {"libraries missing"}
            if refusal == "no library"
            else set()
        )
    return known


def before_boot(facts: Facts) -> DriverState | None:
    """The first state that the next boot does not leave as it is: the one word on a reboot, for all
    who speak of one.

    Where a boot mends it (`boot` is MENDS), it may be made; one that it does not mend comes before.
    What is not known speaks against nothing.
    """
    mended = None
    if not facts.driver.is_present or _make_elsewhere_state(facts):
        return None
    looks = _own_states(facts)
    for name in (name for name in looks if name in _BOOT):
        if holds_state(looks[name], facts) and (text := looks[name](facts)):
            state = _make_state(name, text, facts, DEFAULTS, ())
            if state.boot in (BootOutlook.USELESS, BootOutlook.HARMS):
                return _with_apt((state,), facts)[0]
            mended = mended or (state if state.boot is BootOutlook.MENDS else None)
    return mended


def _with_apt(states: tuple[DriverState, ...], facts: Facts) -> tuple[DriverState, ...]:
    """The states, whose ways out say what of them apt lacks."""
    ways = check_commands(facts, *(one.way_out for one in states))
    pairs = zip(states, ways, strict=True)
    return tuple(one if way == one.way_out else replace(one, way_out=way) for one, way in pairs)


def _make_state(
    name: str,
    text: StateText,
    facts: Facts,
    params: Mapping[str, Any],
    found: Iterable[DriverState],
) -> DriverState:
    boot, dead = _BOOT.get(name, BootOutlook.NOTHING), DEAD[name]
    return DriverState(
        name,
        True,
        text[0],
        _led_to(text[1], facts, params, found),
        _ELSEWHERE.get(name, ""),
        dead(facts) if callable(dead) else dead,
        boot if isinstance(boot, BootOutlook) else boot(facts),
    )


def _led_to(
    way: str | ByPolicy, facts: Facts, params: Mapping[str, Any], found: Iterable[DriverState]
) -> str:
    """The way out with what a parameter of the policy would bring, or what is to be done before it
    brings anything. `found`: the states that lead this one.
    """
    if isinstance(way, str):
        return way
    try:
        # `_put_after` reports what a boot fixes
        then = decide(facts, {**params, **way.params}, lambda: None)
    except UnknownFact as missing:
        return f"{way} (what it would bring is not known: {missing})"
    if then.action in CHANGES:
        return (
            f"{way.how} makes it {then.name}: {way.after}" if then.action == "switch" else str(way)
        )
    if first := next(
        (one.name for one in found if then.way_out and then.way_out in one.way_out), ""
    ):
        return f"after `{first}` is solved: {way}"
    if then.way_out:
        return f"{then.way_out}\nuntil then {way.how} is refused: {then.obstacle}"
    why = "; ".join(then.clauses[1:] or then.clauses)  # the first clause is what the state says
    return f"sudo apt-get update, and look again: nothing else is offered now ({why})"


def _whole_first(found: list[DriverState], facts: Facts) -> list[DriverState]:
    """The states; what apt or DKMS would do about one comes after the repair of packages that are
    not whole.
    """
    stop = try_find_stop(facts)
    if stop is None:
        return found
    first = f"`{stop.state}`"
    waits = [
        ("apt-get" in one.way_out or "sudo dkms" in one.way_out) and first not in one.way_out
        for one in found
    ]
    ways = [
        f"a way out of {first} is one of this, too"
        if one.way_out in stop.repair
        else f"after {first} is solved: {one.way_out}"
        for one in found
    ]
    return [
        replace(one, way_out=way) if wait and one.name != stop.state else one
        for one, way, wait in zip(found, ways, waits, strict=True)
    ]


def _boots_last(found: list[DriverState]) -> tuple[DriverState, ...]:
    """The states; what a boot mends comes after what it leaves as it is, or would make worse, what
    else goes through a boot after what that would make worse, and an update after all of these.
    """
    ordered = [_put_after(one, found) for one in found]
    waits = [
        one.boot is BootOutlook.NOTHING and one is not before
        for one, before in zip(ordered, found, strict=True)
    ]
    return tuple(
        one for one, _ in sorted(zip(ordered, waits, strict=True), key=lambda pair: pair[1])
    )


def _put_after(state: DriverState, found: list[DriverState]) -> DriverState:
    before: tuple[BootOutlook, ...] = ()
    if state.name == _LAST:
        before = (BootOutlook.MENDS, BootOutlook.USELESS, BootOutlook.HARMS)
    elif state.boot is BootOutlook.MENDS:
        before = (BootOutlook.USELESS, BootOutlook.HARMS)
    elif state.boot is BootOutlook.NOTHING and "reboot" in state.way_out:
        before = (BootOutlook.HARMS,)
    if same := next(
        (one.name for one in found if one.boot in before and state.way_out in one.way_out), ""
    ):
        return replace(state, way_out=f"what solves `{same}` does this too")
    first = [one for one in found if one.boot in before or _is_before_update(state, one)]
    if state.way_out.startswith("after `"):
        return state
    if first:
        # The first one leads; a reboot comes after all that it would make worse.
        harms = [
            one
            for one in first[1:]
            if state.boot is BootOutlook.MENDS and one.boot is BootOutlook.HARMS
        ]
        names = " and ".join(f"`{one.name}`" for one in (first[0], *harms))
        return replace(
            state, way_out=f"after {names} {'are' if harms else 'is'} solved: {state.way_out}"
        )
    return replace(state, waits_for_reboot=True) if state.boot is BootOutlook.MENDS else state


def _is_before_update(state: DriverState, other: DriverState) -> bool:
    """Fabric Manager in the version of the driver that runs needs no reboot; unless the update
    brings that version.
    """
    return (
        state.name == _LAST
        and other.name == "fabric different"
        and "update: true" not in other.way_out
    )


def _make_elsewhere_state(facts: Facts) -> DriverState | None:
    """The state of a driver that is not this system's business."""
    if facts.host.is_container:
        if holds_state(modules.contained_mismatch, facts) and (
            text := modules.contained_mismatch(facts)
        ):
            return DriverState("mismatch", True, text[0], str(text[1]), is_dead=True)
        name, evidence = "container", "in a container the driver belongs to the host"
    elif facts.host.is_wsl:
        name, evidence = "WSL", "under WSL the driver is the one of Windows"
    elif facts.gpus.is_passed_through:
        name, evidence = "passed through", "every GPU is held by vfio-pci for virtual machines"
    elif facts.managers.gpu_operator and not _is_of_host(facts.driver):
        if not facts.driver.is_loaded and read_log_fact(facts, "rejected_key"):
            sentence = (
                "the kernel refused the nvidia module of the GPU Operator's container for its "
                "signature (kernel log)"
            )
            return _make_state("Secure Boot refuses", (sentence, _UNSIGNED), facts, DEFAULTS, ())
        if not facts.driver.is_loaded:
            sentence = (
                "the GPU Operator brings the driver in a container, and none is loaded: no GPU of "
                "this node computes"
            )
            way = _POD
            if found := holders.holder_before_pod(facts):
                sentence, way = f"{sentence}; {found[0]}", f"{found[1]}\n{way}"
            return DriverState(_CONTAINED, True, sentence, way, is_dead=True)
        running = f"{facts.driver.loaded_version} is loaded"
        name, evidence = (
            _CONTAINED,
            f"the GPU Operator brings the driver in a container ({running})",
        )
    else:
        return None
    return DriverState(name, is_fault=False, evidence=evidence, way_out="")


def _is_of_host(driver: Driver) -> bool:
    """It came by packages, by NVIDIA's installer or in a package of another name, as a vGPU
    manager's .deb does (NVIDIA/gpu-operator issue 1923); libraries that an earlier driver left do
    not fit the loaded one.
    """
    return (
        bool(driver.branch)
        or driver.runfile
        or (driver.is_foreign and driver.is_loaded and not driver.is_mismatched)
    )


def _own_states(facts: Facts) -> Mapping[str, Look]:
    """Without what is no fault where a hypervisor or a vendor's image brings the driver in a way of
    its own.
    """
    theirs: frozenset[str] = frozenset()
    if read_log_fact(facts, "is_vgpu"):
        theirs = _OF_THE_HYPERVISOR
    elif vendor_of(facts) or is_node(facts):
        theirs = _OF_THE_VENDOR
    return {name: look for name, look in STATES.items() if name not in theirs}


# Proxmox VE wiki, "PCI Passthrough" and "NVIDIA vGPU on Proxmox VE"; Debian's packages know no
# headers of its kernels.
_ON_PROXMOX = (
    "give the GPU to virtual machines (vfio-pci), which takes no driver here\n"
    "or, for containers: sudo apt-get install proxmox-default-headers, then NVIDIA's installer "
    "(nvidia.com/drivers) with --dkms\n"
    "or, for vGPUs: NVIDIA's vGPU manager (docs.nvidia.com/vgpu)"
)
_OTHER_MANAGER = (
    "bring a vGPU manager of a release that supports this kernel (docs.nvidia.com/vgpu), or boot "
    "an older one"
)


def _make_absent_state(facts: Facts, params: Mapping[str, Any]) -> DriverState:
    if params["bringer"] == "external":
        evidence = (
            f"no driver for {facts.gpus.summary}: the policy says that someone else brings it "
            "(bringer: external)"
        )
        return DriverState("absent", is_fault=False, evidence=evidence, way_out="")
    held = (
        f" ({names} holds it, which computes nothing)"
        if (names := holders.describe_holders(facts))
        else ""
    )
    way_out = "see: hosttune explain gpu-driver"
    if bringer := tell_of_guest(facts) or other_bringer(facts):
        held, way_out = f"{held}: {bringer.reason}", bringer.way_out
    elif not facts.os.is_ubuntu:
        way_out = _ON_PROXMOX if is_of_proxmox(facts.kernel.release) else _describe_debian(facts)
    evidence = f"no driver for {facts.gpus.summary}{held}"
    if failed := _failed_build(facts):
        evidence += (
            f"; DKMS could not build nvidia {failed.version} for {failed.kernel or 'a kernel'} "
            f"({say_why(failed)})"
        )
        branch = failed.version.partition(".")[0]
        newer = (
            f"install a newer release of branch {branch} from the source of this build, or boot an "
            "older kernel"
        )
        way_out = f"{newer}; for another driver, {way_out}"
    elif error := facts.driver.installer_error:
        build = facts.driver.installer_build
        why = f": {say_error(build)}" if build.words and error not in build.words else ""
        evidence += f"; NVIDIA's installer failed here: {error} ({INSTALLER_LOG}{why})"
        repair = repair_of_host(build, facts.kernel.release) or f"solve what {INSTALLER_LOG} says"
        again = f"{repair}\nrun that installer again\nor {way_out}"
        way_out = _OTHER_MANAGER if "vgpu" in error else again
    if other := archive_of_other_system(facts):
        evidence, way_out = f"{evidence}; {other.what}", f"{other.undo}\n{way_out}"
    return DriverState("absent", is_fault=True, evidence=evidence, way_out=way_out, is_dead=True)


def _describe_debian(facts: Facts) -> str:
    """Debian's driver is compiled here, and DKMS leaves out a kernel without headers
    (MichaIng/DietPi issue 6256), of which the archive keeps the newest only
    (GoogleCloudPlatform/compute-gpu-installation issue 28).
    """
    kernel = attempt(lambda: facts.kernel.release)
    words, before = ["nvidia-driver"], ""
    if isinstance(kernel, str) and not are_headers_here(facts, kernel):
        if has_headers(facts, kernel):
            words.append(headers_for(kernel))
        else:
            before = f"{say_no_headers(facts, kernel)}\n"
    if way := replace_unfit_offer(facts, words):
        return f"{before}{way}"
    return (
        f"{before}install the driver that your distribution offers (Debian: enable contrib, "
        f"non-free and non-free-firmware, then apt-get install {join(words)})"
    )


def _failed_build(facts: Facts) -> DkmsBuild | None:
    """What the installation of a driver left that ended at its build."""
    return read_or_default(
        lambda: next((one for one in facts.driver.dkms if one.failed), None), None
    )


def _make_current_state(facts: Facts) -> DriverState:
    driver = facts.driver
    words = driver.name or (
        "NVIDIA's vGPU manager" if driver.is_vgpu_manager else "a driver without packages"
    )
    version = driver.loaded_version or driver.userspace_version
    evidence = "; ".join((f"{words} {version} is installed and loaded", *tell_updates(facts)))
    return DriverState("current", is_fault=False, evidence=evidence, way_out="")


# In the order in which they must be solved: nothing is installed while dpkg is broken, no reboot
# before the next kernel has its module. What the next upgrade would bring comes before what can
# wait for a maintenance; an update is the last.
STATES: Mapping[str, Look] = {
    "broken packages": packages.tell_of_broken,
    "DKMS failed": modules.dkms_failed,
    "in part": packages.in_part,
    "other packages broken": packages.others_broken,
    "GPU lost": gpus.tell_of_lost,
    "GPU reset required": gpus.reset_required,
    "GSP firmware": gpus.tell_of_firmware,
    "GPU not set up": gpus.not_set_up,
    "vGPU guest": gpus.tell_of_guest,
    "runfile": packages.tell_of_runfile,
    "mixed versions": mixed.other_versions,
    UNMET: mixed.tell_of_unmet,
    "mixed sources": mixed.other_makers,
    "third-party archive": mixed.third_party,
    "Secure Boot refuses": modules.tell_of_rejected,
    "unsupported GPU": gpus.tell_of_unsupported,
    "wrong flavour": gpus.wrong_flavour,
    "GPU refused": refusals.tell_of_refused,
    "GPU without a driver": gpus.tell_of_undriven,
    "module missing": modules.missing_now,
    "libraries missing": modules.libraries_missing,
    "stale module": modules.stale_alone,
    "module missing for the next kernel": modules.missing_next,
    "mismatch": modules.tell_of_mismatch,
    "other module loaded": modules.tell_of_swapped,
    "nouveau": holders.tell_of_nouveau,
    "GPU held by another driver": holders.tell_of_other_holder,
    "not loaded": holders.not_loaded,
    "nvidia-smi refuses": gpus.tell_of_refusal,
    "nvidia-smi missing": gpus.smi_missing,
    "CUDA device missing": gpus.uvm_missing,
    "driver files gone": gpus.files_gone,
    "fabric different": gpus.tell_of_fabric,
    "fabric down": gpus.fabric_down,
    "reboot pending": modules.reboot_pending,
    "other branch offered": branch_moves.other_branch,
    "outdated branch": packages.tell_of_outdated,
    "held": packages.tell_of_held,
    "kept back": kept_back.kept_back,
    _LAST: packages.update,
}
# Whether not every GPU computes now, or will after the next boot: such a state is a fault of the
# machine, the others are advice.
DEAD: Mapping[str, bool | Callable[[Any], bool]] = {
    "broken packages": True, "in part": True, "other packages broken": False,
    "nvidia-smi missing": False, "CUDA device missing": True, "driver files gone": False,
    "GPU lost": True, "GPU reset required": True, "GSP firmware": True, "GPU not set up": True,
    "vGPU guest": True, "runfile": False, "mixed versions": mixed.splits_driver, UNMET: False,
    "mixed sources": False, "third-party archive": False, "DKMS failed": modules.leaves_none,
    "Secure Boot refuses": True, "unsupported GPU": True, "wrong flavour": gpus.is_mute,
    "GPU refused": True, "GPU without a driver": True, "module missing": True,
    "libraries missing": True, "stale module": True, "module missing for the next kernel": True,
    "mismatch": True, "other module loaded": gpus.is_undriven_until_boot, "nouveau": True,
    "GPU held by another driver": True, "not loaded": True, "nvidia-smi refuses": True,
    "fabric different": True, "fabric down": True, "reboot pending": False,
    "outdated branch": False, "other branch offered": False, "held": False, "kept back": False,
    "update offered": False,
}  # fmt: skip
# What the next boot does about it, where it does anything.
_BOOT: Mapping[str, BootOutlook | Callable[[Any], BootOutlook]] = {
    "broken packages": BootOutlook.HARMS, "in part": BootOutlook.HARMS,
    "mixed versions": mixed.boot_after_other_versions, "mixed sources": BootOutlook.USELESS,
    "DKMS failed": modules.boot_after_dkms, "Secure Boot refuses": BootOutlook.USELESS,
    "unsupported GPU": BootOutlook.USELESS, "wrong flavour": BootOutlook.USELESS,
    "GPU refused": BootOutlook.USELESS, "module missing": modules.boot_after_missing,
    "libraries missing": BootOutlook.USELESS, "stale module": modules.boot_after_stale,
    "module missing for the next kernel": BootOutlook.HARMS, "mismatch": BootOutlook.MENDS,
    "other module loaded": BootOutlook.MENDS, "nouveau": holders.boot_after_nouveau,
    "GPU held by another driver": holders.boot_after_held,
    "not loaded": holders.boot_after_not_loaded, "reboot pending": BootOutlook.MENDS,
}  # fmt: skip
# The licensed driver of a vGPU comes by NVIDIA's installer or from the cloud's archive, as the
# hypervisor's release.
_OF_THE_HYPERVISOR = frozenset({
    "runfile", "mixed sources", "third-party archive", "unsupported GPU", "wrong flavour",
    "outdated branch", "other branch offered", "held", "kept back", "update offered",
})  # fmt: skip
# DGX OS and Lambda Stack have archives, AWS's images and those of Kubernetes nodes (AKS) installers
# of their own: the way back to Ubuntu's packages would break the image.
_OF_THE_VENDOR = frozenset({"runfile", "mixed sources", "third-party archive"})
_POD = (
    "while the node starts, wait for its driver pod\n"
    f"if there is none, read why: {POD_LOG} nvidia-driver-daemonset-...\n"
    "if the operator is not to bring it (driver.enabled=false), write into the policy: "
    "params: {gpu-driver: {bringer: host}}"
)
_UNSIGNED = (
    "nodes without Secure Boot, or a driver container whose modules are signed with a key that "
    "these nodes know (sudo mokutil --list-enrolled)"
)
# What a driver tells wherever it comes from.
_CONTAINED_STATES = {
    name: STATES[name]
    for name in (
        "GPU lost",
        "GPU reset required",
        "GSP firmware",
        "GPU not set up",
        "GPU without a driver",
        "nvidia-smi refuses",
        "fabric down",
    )
}
# What no other way to a driver excuses: no matter what brings it, the GPU does not compute now.
_REFUSES = "nvidia-smi refuses"
_PROVEN_STATES = {name: STATES[name] for name in ("nouveau", _REFUSES)}
# States with no module of NVIDIA's loaded, those without nvidia-smi, and those of its libraries.
_OF_NO_MODULE = frozenset({"Secure Boot refuses", "GPU refused", "module missing", "not loaded"})
_OF_NO_SMI = frozenset({"nvidia-smi missing", "driver files gone"})
_OF_LIBRARIES = frozenset({"libraries missing", "mismatch"})
