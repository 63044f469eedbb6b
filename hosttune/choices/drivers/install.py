"""The driver for a host without one: of what Ubuntu offers, what fits every GPU and the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.choices.drivers.branch import (
    WORDS,
    describe_support_end,
    drives_gpu,
    is_given,
    is_over,
    kind_of,
    stale_note,
    why_over,
)
from hosttune.choices.drivers.choice import DriverChoice, module_kind, refuse
from hosttune.choices.drivers.components import unknown_to_apt, where_off
from hosttune.choices.drivers.switches import has_switches
from hosttune.choices.secure_boot import switch_off
from hosttune.facts.apt_decisions import decisions_about_offer, hold_on_absent, join_decisions
from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.facts.gpu.branches import GIVEN
from hosttune.facts.gpu.package_roles import PackageRole, role_of
from hosttune.facts.kernel.kernel import HEADERS, select_metapackages
from hosttune.quoting import quote
from hosttune.values import prefix_reason

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.candidates import Candidate

_THIRD_PARTY = "only third-party archives offer one"
_DKMS = "modules are offered only by DKMS, compiled on this host"
_CLOSED = "they need the closed kernel module, and none is offered"
_NEWER = (
    "sudo apt-get update, and look again\n"
    "if the GPU is newer than these branches, use NVIDIA's archive"
)
_ASKS = {_THIRD_PARTY: "allow_third_party", _DKMS: "allow_dkms"}
_DESKTOPS = (
    "xserver-xorg-core",
    "gdm3",
    "lightdm",
    "sddm",
    "ubuntu-desktop",
    "ubuntu-desktop-minimal",
)

_ENROL = (
    "at the console: sudo update-secureboot-policy --new-key; sudo mokutil --import "
    "/var/lib/shim-signed/mok/MOK.der, reboot, and confirm it on the blue screen"
)
_IN_FIRMWARE = "or switch Secure Boot off in the firmware"


def choose_install(facts: Facts, params: Mapping[str, Any]) -> DriverChoice:
    """Where a parameter would let it go on and something else would not, the way out says both."""
    choice = _choose_install(facts, params)
    if not choice.asks:
        return choice
    try:
        then = choose_install(facts, {**params, choice.asks: True})
    except UnknownFact:
        return choice
    if then.action != "refuse":
        return choice
    return replace(
        choice, way_out=f"{choice.way_out}; and then, as {then.obstacle}: {then.way_out}"
    )


def _choose_install(facts: Facts, params: Mapping[str, Any]) -> DriverChoice:
    kind = module_kind(facts)
    if isinstance(kind, DriverChoice):
        return kind
    offered = facts.candidates.packages
    if problem := facts.candidates.problem:
        if old := _too_old((), facts):
            return refuse(f"no driver fits {facts.gpus.summary}: {problem}", way_out=old)
        raise UnknownFact(prefix_reason("the drivers that Ubuntu offers", problem))
    usable, why_not, way_out, asks = _find_usable(offered, facts, kind, params)
    if not usable:
        return refuse(f"no driver fits {facts.gpus.summary}: {why_not}", way_out=way_out, asks=asks)
    best, because = _choose_best(usable, facts, params)
    return _set_of(best, because, facts, params)


def _find_usable(
    offered: Iterable[Candidate],
    facts: Facts,
    kind: str,
    params: Mapping[str, Any],
) -> tuple[tuple[Candidate, ...], str, str, str]:
    """What fits every GPU and the policy; or nothing, the reason of the step that left nothing, the
    way out, and the parameter that would let it go on.
    """
    left = tuple(offered)
    pin = str(params["branch"])
    driving = _find_driving(left, facts)
    old = _too_old(left, facts)
    steps: tuple[tuple[str, str, Callable[[Candidate], bool]], ...] = (
        (
            f"branch {pin} is not offered",
            "name an offered branch in the policy, or none",
            lambda c: not pin or c.branch == int(pin),
        ),
        (
            "no branch drives all of them",
            old or _NEWER,
            lambda c: c in driving,
        ),
        (
            "they need the open kernel module, and none is offered",
            "sudo apt-get update, and look again (a newer release of Ubuntu has it)",
            lambda c: kind != "open" or c.is_open,
        ),
        (
            _CLOSED,
            "sudo apt-get update, and look again (branch 580 and older ones have it)",
            lambda c: kind != "closed" or not c.is_open,
        ),
        (
            _THIRD_PARTY,
            "params: {gpu-driver: {allow_third_party: true}} in the policy takes it",
            lambda c: params["allow_third_party"] or not c.is_third_party,
        ),
        (
            _DKMS,
            _compile(facts),
            lambda c: params["allow_dkms"] or not c.needs_dkms,
        ),
        (
            "NVSwitch needs the server driver, and none is offered",
            (
                "sudo apt-get update, and look again (server drivers are in restricted, some in "
                "multiverse)"
            ),
            lambda c: not has_switches(facts) or c.is_server,
        ),
    )
    for why_not, way_out, test in steps:
        remaining = tuple(candidate for candidate in left if test(candidate))
        if not remaining:
            names = ", ".join(candidate.name for candidate in left)
            # multiverse has none
            narrow = ("restricted",) if why_not in (_DKMS, _CLOSED) or way_out == old else ()
            asks = _ASKS.get(why_not, "")
            lists = where_off(facts, *narrow) if why_not != _THIRD_PARTY else ""
            decided = (
                join_decisions(decisions_about_offer(facts)) if why_not != _THIRD_PARTY else None
            )
            ways = "\nor ".join(
                part for part in (decided.undo if decided else lists, way_out) if part
            )
            sentence = f"{why_not} (offered: {names})"
            return (), f"{sentence}; {decided.what}" if decided else sentence, ways, asks
        left = remaining
    return left, "", "", ""


def _too_old(offered: Iterable[Candidate], facts: Facts) -> str:
    """What to do where a GPU here is older than all that is offered, or than all that is supported
    where nothing is; empty where none is, as far as the tables know.
    """
    oldest = min((one.branch for one in offered), default=0)
    for generation in facts.gpus.generations:
        known = [number for number, row in facts.branches.rows.items() if row.drives(generation)]
        if known and (
            max(known) < oldest or (not oldest and all(is_over(facts, one) for one in known))
        ):
            last = max(known)
            over = f"; {over}" if (over := why_over(facts, last)) else ""
            return (
                f"branch {last} was the last that drives {generation}{over}: take it from NVIDIA, "
                "compiled here (nvidia.com/drivers; params: {gpu-driver: {bringer: external}} in "
                "the policy), or take the card out"
            )
    return ""


def _find_driving(offered: tuple[Candidate, ...], facts: Facts) -> tuple[Candidate, ...]:
    """Those that drive every GPU. Of one that no one tells of, `ubuntu-drivers` does where there is
    one kind of GPU: it lists what names one of them. Raises UnknownFact where nothing is left but
    what is not known.
    """
    gpus = facts.gpus.ours
    is_one_kind = len({(gpu.device_id, gpu.subsystem) for gpu in gpus}) == 1
    verdicts = [[drives_gpu(facts, one.branch, gpu, one.name) for gpu in gpus] for one in offered]
    sure = tuple(
        one
        for one, answers in zip(offered, verdicts, strict=True)
        if None not in answers and all(answers)
    )
    maybe = tuple(
        one
        for one, answers in zip(offered, verdicts, strict=True)
        if None in answers and False not in answers
    )
    if is_one_kind:
        return (*sure, *maybe)
    if maybe and not sure:
        names = ", ".join(one.name for one in maybe)
        why = facts.packaging.problem or "Ubuntu's packages do not name their GPUs"
        raise UnknownFact(
            f"which branch drives all GPUs: of {names} that is not known ({why}): sudo apt-get "
            "update"
        )
    return sure


def _compile(facts: Facts) -> str:
    """The way to modules that are offered by DKMS alone: a kernel of Ubuntu's has no others."""
    allow = "params: {gpu-driver: {allow_dkms: true}} in the policy"
    return (
        f"{allow} compiles them here"
        if facts.kernel.flavour
        else f"{_prebuilt_kernel(facts)}; or {allow}"
    )


def _prebuilt_kernel(facts: Facts) -> str:
    """The kernel for which Ubuntu has prebuilt, signed modules."""
    flavour = facts.kernel.flavour or "generic"
    install = f"sudo apt-get install linux-{quote(flavour)}"
    return (
        f"Ubuntu's kernel has prebuilt modules: {install}, and boot it (GRUB boots the newest: "
        "choose it in its menu)"
    )


def _choose_best(
    usable: tuple[Candidate, ...], facts: Facts, params: Mapping[str, Any]
) -> tuple[Candidate, tuple[str, ...]]:
    """The branch by the policy's track, then the flavour; with the reason for the branch, in
    clauses.
    """
    number, because = _choose_branch(
        [one.branch for one in usable], str(params["track"]), str(params["branch"]), facts
    )
    given = (
        f"{GIVEN} gives it to this GPU"
        if any(is_given(facts, number, gpu) for gpu in facts.gpus.ours)
        else ""
    )
    because = (*because, *filter(None, (given, stale_note(facts))))
    of_branch = [candidate for candidate in usable if candidate.branch == number]
    server = not _is_desktop(facts, params)
    best = max(
        of_branch, key=lambda c: (c.is_open, not c.needs_dkms, c.is_server == server, c.name)
    )
    return best, because


def _choose_branch(
    numbers: list[int], track: str, pin: str, facts: Facts
) -> tuple[int, tuple[str, ...]]:
    if pin:
        return int(pin), ("pinned by the policy",)
    if track == "newest":
        return max(numbers), ("the newest that Ubuntu offers for these GPUs",)
    supported = [number for number in numbers if not is_over(facts, number)]
    for wanted in (track, "production" if track == "lts" else "lts"):
        of_track = [number for number in supported if kind_of(facts, number) == wanted]
        if of_track:
            number = max(of_track)
            missed = "" if wanted == track else f"no {WORDS[track]} branch is offered: "
            return number, (
                f"{missed}the newest {WORDS[wanted]} branch offered",
                describe_support_end(facts, number),
            )
    if supported:
        return max(supported), ("no long-term or production branch is offered: the newest",)
    ended = (
        "NVIDIA's support of every branch offered for these GPUs has ended (as of "
        f"{facts.branches.as_of})"
    )
    return max(numbers), (f"{ended}: the newest",)


def _is_desktop(facts: Facts, params: Mapping[str, Any]) -> bool:
    """Whether someone looks at a screen here, so that the X libraries belong to the set. Never with
    NVSwitch.
    """
    if has_switches(facts) or params["use"] == "compute":
        return False
    return params["use"] == "desktop" or any(
        facts.packages[name].is_installed for name in _DESKTOPS
    )


def _set_of(
    best: Candidate, because: tuple[str, ...], facts: Facts, params: Mapping[str, Any]
) -> DriverChoice:
    """The package set: `ubuntu-drivers install --gpgpu` would leave out nvidia-smi
    (nvidia-utils).
    """
    flavour = "-".join(
        word
        for word in ("server" if best.is_server else "", "open" if best.is_open else "")
        if word
    )
    base = f"{best.branch}{'-server' if best.is_server else ''}"
    full = f"{base}{'-open' if best.is_open else ''}"
    kernel = _kernel_flavour(facts)
    modules = best.modules or _find_prebuilt(
        f"linux-modules-nvidia-{full}-{kernel}" if kernel else "", facts
    )
    if not modules and params["allow_dkms"]:
        modules = f"nvidia-dkms-{full}"
    if not modules:
        return refuse(
            f"nvidia-driver-{full} fits, but no prebuilt modules are known for this kernel: "
            f"{_why_none(facts, full)}",
            way_out=f"{_prebuilt_kernel(facts)}; or params: {{gpu-driver: {{allow_dkms: true}}}} "
            f"in the policy compiles them here, with the headers of {facts.kernel.release}",
            asks="allow_dkms",
        )
    needs_dkms = role_of(modules) is PackageRole.DKMS
    if needs_dkms and not facts.boot.takes_own_modules:
        return refuse(
            f"nvidia-driver-{full} fits, and its module would be compiled here (DKMS): Secure Boot "
            "is on, and refuses it until the key that signs it is enrolled",
            way_out=f"{_ENROL}\n{switch_off(facts) or _IN_FIRMWARE}\nrun it again",
        )
    headers = _list_headers(kernel, facts) if needs_dkms else ()
    main = (
        (f"nvidia-driver-{full}",)
        if _is_desktop(facts, params)
        else (f"nvidia-headless-no-dkms-{full}", f"nvidia-utils-{base}")
    )
    fabric = (
        (f"nvidia-fabricmanager-{best.branch}", f"libnvidia-nscq-{best.branch}")
        if has_switches(facts)
        else ()
    )
    if fabric and (way_out := unknown_to_apt(facts, fabric[0])):
        return refuse(
            f"driver {full} fits, but apt knows no {fabric[0]}, which NVSwitches need",
            way_out=way_out,
        )
    prefix = HEADERS if needs_dkms else f"linux-modules-nvidia-{full}"
    for_kernels = () if needs_dkms else _for_kernels(modules, prefix, facts)
    kind = "open" if best.is_open else "closed"
    origin = "compiled here by DKMS" if needs_dkms else "prebuilt and signed"
    clauses = [
        f"driver {full} for {facts.gpus.summary}: {because[0]}",
        *because[1:],
        f"{kind} kernel module, {origin}",
    ]
    if fabric:
        clauses.append(f"with Fabric Manager for {facts.gpus.nvswitches or 'its'} NVSwitches")
    one_version = (f"nvidia-utils-{base}", *fabric) if fabric else ()
    packages = (*main, modules, *for_kernels, *headers, *fabric)
    if decided := hold_on_absent(facts, packages):
        return refuse(
            f"driver {full} fits {facts.gpus.summary}", decided.what, way_out=decided.undo
        )
    return DriverChoice(
        "install",
        packages,
        tuple(clauses),
        str(best.branch),
        flavour,
        needs_dkms,
        one_version,
        modules=prefix,
    )


def _for_kernels(metapackage: str, prefix: str, facts: Facts) -> tuple[str, ...]:
    """The packages with the modules of the running kernel and of the one that boots next, where the
    metapackage brings those of another one and apt has them: so that the driver can be loaded
    before the reboot, and after it.
    """
    try:
        versions = facts.offers.versions
    except UnknownFact:
        return ()
    brought = versions.get(metapackage, "")
    kernels = dict.fromkeys((facts.kernel.release, _next_kernel(facts)))
    others = [
        one
        for one in kernels
        if not brought.startswith(f"{one.removesuffix(f'-{facts.kernel.flavour}')}.")
    ]
    known = {*versions, *_at_next_boot(facts)}
    return tuple(name for one in others if brought and (name := f"{prefix}-{one}") in known)


def _list_headers(kernel: str, facts: Facts) -> tuple[str, ...]:
    """Those of the running kernel's flavour, or of it, and those of the kernel that boots next
    where apt has them.
    """
    following = f"{HEADERS}-{_next_kernel(facts)}"
    own = f"{HEADERS}-{kernel or facts.kernel.release}"
    return (own, *((following,) if following in _at_next_boot(facts) else ()))


def _next_kernel(facts: Facts) -> str:
    return read_or_default(lambda: facts.boot.next_kernel, "")


def _at_next_boot(facts: Facts) -> set[str]:
    """What apt has for the kernel that boots next; nothing where that runs now, or it is not
    known.
    """
    return read_or_default(lambda: {*facts.offers.at_next_boot}, set())


def _find_prebuilt(metapackage: str, facts: Facts) -> str:
    """The metapackage of prebuilt modules, which no list names; empty where apt does not know
    it.
    """
    try:
        offer = facts.offers.untold.get(metapackage)
    except UnknownFact:
        return metapackage
    return metapackage if offer and offer.candidate else ""


def _why_none(facts: Facts, full: str) -> str:
    if not facts.kernel.flavour:
        return f"{facts.kernel.release} is not a kernel of Ubuntu's"
    if kernel := _kernel_flavour(facts):
        return f"apt has no linux-modules-nvidia-{full}-{kernel}"
    image = f"linux-image-{facts.kernel.flavour}"
    return (
        f"no kernel metapackage is installed ({image} or the like), and `ubuntu-drivers` names none"
    )


def _kernel_flavour(facts: Facts) -> str:
    """The name of the kernel metapackage that is installed and brings kernels of the flavour that
    runs; empty for a kernel that is not Ubuntu's.
    """
    return max(
        select_metapackages(facts.packages.brought, facts.kernel.flavour), key=len, default=""
    )
