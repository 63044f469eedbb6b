"""The driver for a host without one: of what Ubuntu offers, what fits every GPU and the policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hosttune.choices.drivers.choice import DriverChoice, module_kind, refuse
from hosttune.choices.fabric import has_switches
from hosttune.facts.base import UnknownFact
from hosttune.facts.nvidia_tables import AS_OF, branch_of, month_of, stale_note

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.candidates import Candidate

_DESKTOPS = ("xserver-xorg-core", "gdm3", "lightdm", "sddm", "ubuntu-desktop", "ubuntu-desktop-minimal")


def installed(facts: Facts, params: Mapping[str, Any]) -> DriverChoice:
    kind = module_kind(facts)
    if isinstance(kind, DriverChoice):
        return kind
    offered = facts.candidates.packages
    if facts.candidates.problem:
        raise UnknownFact("the drivers that Ubuntu offers", facts.candidates.problem)
    usable, why_not, way_out = _usable(offered, facts, kind, params)
    if not usable:
        return refuse(f"no driver fits {facts.gpus.summary}: {why_not}", way_out)
    best, because = _best(usable, facts, params)
    return _set_of(best, because, facts, params)


def _usable(
    offered: Iterable[Candidate],
    facts: Facts,
    kind: str,
    params: Mapping[str, Any],
) -> tuple[tuple[Candidate, ...], str, str]:
    """What fits every GPU and the policy; or nothing, the reason of the step that left nothing, and the way out."""
    left = tuple(offered)
    pin = str(params["branch"])
    steps: tuple[tuple[str, str, Callable[[Candidate], bool]], ...] = (
        (
            f"branch {pin} is not offered",
            "name an offered branch in the policy, or none",
            lambda c: not pin or c.branch == int(pin),
        ),
        (
            "no branch drives all of them",
            "sudo apt-get update, and look again; a GPU that is newer than these branches needs NVIDIA's archive",
            lambda c: all(branch_of(c.branch).drives(one) for one in facts.gpus.generations),
        ),
        (
            "they need the open kernel module, and none is offered",
            "sudo apt-get update, and look again; a newer release of Ubuntu has it",
            lambda c: kind != "open" or c.is_open,
        ),
        (
            "they need the closed kernel module, and none is offered",
            "sudo apt-get update, and look again; a branch of before 590 has it",
            lambda c: kind != "closed" or not c.is_open,
        ),
        (
            "only third-party archives offer one",
            "allow_third_party: true for gpu-driver in the policy takes it",
            lambda c: params["allow_third_party"] or not c.is_third_party,
        ),
        (
            "modules are offered only by DKMS, compiled on this host",
            f"{_prebuilt_kernel(facts)}; or allow_dkms: true for gpu-driver in the policy",
            lambda c: params["allow_dkms"] or not c.needs_dkms,
        ),
        (
            "NVSwitch needs the server driver, and none is offered",
            "sudo apt-get update, and look again; server drivers are in the component restricted",
            lambda c: not has_switches(facts) or c.is_server,
        ),
    )
    for why_not, way_out, test in steps:
        remaining = tuple(candidate for candidate in left if test(candidate))
        if not remaining:
            names = ", ".join(candidate.name for candidate in left)
            return (), f"{why_not} (offered: {names})", way_out
        left = remaining
    return left, "", ""


def _prebuilt_kernel(facts: Facts) -> str:
    """The kernel for which Ubuntu has prebuilt, signed modules."""
    flavour = facts.kernel.flavour or "generic"
    return f"Ubuntu's kernel has prebuilt modules: sudo apt-get install linux-{flavour}, and boot it"


def _best(usable: tuple[Candidate, ...], facts: Facts, params: Mapping[str, Any]) -> tuple[Candidate, str]:
    """The branch by the policy's track, then the flavour; with the reason for the branch."""
    month = month_of(facts.reader.now())
    number, because = _branch([one.branch for one in usable], str(params["track"]), str(params["branch"]), month)
    because = "; ".join(part for part in (because, stale_note(month)) if part)
    of_branch = [candidate for candidate in usable if candidate.branch == number]
    server = not _is_desktop(facts, params)
    best = max(of_branch, key=lambda c: (c.is_open, not c.needs_dkms, c.is_server == server, c.name))
    return best, because


def _branch(numbers: list[int], track: str, pin: str, month: str) -> tuple[int, str]:
    if pin:
        return int(pin), "pinned by the policy"
    if track == "newest":
        return max(numbers), "the newest that Ubuntu offers for these GPUs"
    supported = [number for number in numbers if not branch_of(number).is_over(month)]
    words = {"lts": "long-term", "production": "production"}
    for wanted in (track, "production" if track == "lts" else "lts"):
        of_track = [number for number in supported if branch_of(number).track == wanted]
        if of_track:
            number = max(of_track)
            missed = "" if wanted == track else f"no {words[track]} branch is offered: "
            return (
                number,
                f"{missed}the newest {words[wanted]} branch offered, supported until {branch_of(number).ends}",
            )
    if supported:
        return max(supported), "no long-term or production branch is offered: the newest"
    return max(
        numbers
    ), f"NVIDIA's support of every branch offered for these GPUs has ended (as of {AS_OF}): the newest"


def _is_desktop(facts: Facts, params: Mapping[str, Any]) -> bool:
    """Whether somebody looks at a screen here, so that the X libraries belong to the set. Never with NVSwitch."""
    if has_switches(facts) or params["use"] == "compute":
        return False
    return params["use"] == "desktop" or any(facts.packages[name].is_installed for name in _DESKTOPS)


def _set_of(best: Candidate, because: str, facts: Facts, params: Mapping[str, Any]) -> DriverChoice:
    """The package set: `ubuntu-drivers install --gpgpu` would leave out nvidia-smi (nvidia-utils)."""
    flavour = "-".join(word for word in ("server" if best.is_server else "", "open" if best.is_open else "") if word)
    base = f"{best.branch}{'-server' if best.is_server else ''}"
    full = f"{base}{'-open' if best.is_open else ''}"
    kernel = _kernel_flavour(facts)
    modules = best.modules or (f"linux-modules-nvidia-{full}-{kernel}" if kernel else "")
    if not modules and params["allow_dkms"]:
        modules = f"nvidia-dkms-{full}"
    if not modules:
        return refuse(
            f"nvidia-driver-{full} fits, but no prebuilt modules are known for this kernel: {_why_none(facts)}",
            f"{_prebuilt_kernel(facts)}; or allow_dkms: true for gpu-driver in the policy compiles them here, with the "
            f"headers of {facts.kernel.release}",
        )
    needs_dkms = modules.startswith("nvidia-dkms")
    headers = (f"linux-headers-{kernel or facts.kernel.release}",) if needs_dkms else ()
    main = (
        (f"nvidia-driver-{full}",)
        if _is_desktop(facts, params)
        else (f"nvidia-headless-no-dkms-{full}", f"nvidia-utils-{base}")
    )
    fabric = (f"nvidia-fabricmanager-{best.branch}", f"libnvidia-nscq-{best.branch}") if has_switches(facts) else ()
    running = () if needs_dkms else _for_running_kernel(modules, f"linux-modules-nvidia-{full}", facts)
    kind = "open" if best.is_open else "closed"
    origin = "compiled here by DKMS" if needs_dkms else "prebuilt and signed"
    reason = f"driver {full} for {facts.gpus.summary}: {because}; {kind} kernel module, {origin}"
    if fabric:
        reason += f"; with Fabric Manager for {facts.gpus.nvswitches or 'its'} NVSwitches"
    one_version = (f"nvidia-utils-{base}", *fabric) if fabric else ()
    packages = (*main, modules, *running, *headers, *fabric)
    return DriverChoice("install", packages, reason, str(best.branch), flavour, needs_dkms, one_version)


def _for_running_kernel(metapackage: str, prefix: str, facts: Facts) -> tuple[str, ...]:
    """The package with the modules of the running kernel, where the metapackage brings those of another one and apt has
    it: so that the driver can be loaded before the reboot, too.
    """
    release = facts.kernel.release
    abi = release.removesuffix(f"-{facts.kernel.flavour}")
    try:
        versions = facts.offers.versions
    except UnknownFact:
        return ()
    brought = versions.get(metapackage, "")
    name = f"{prefix}-{release}"
    return (name,) if brought and not brought.startswith(f"{abi}.") and name in versions else ()


def _why_none(facts: Facts) -> str:
    if not facts.kernel.flavour:
        return f"{facts.kernel.release} is no kernel of Ubuntu's"
    image = f"linux-image-{facts.kernel.flavour}"
    return f"no kernel metapackage is installed ({image} or the like), and `ubuntu-drivers` names none"


def _kernel_flavour(facts: Facts) -> str:
    """The name of the kernel metapackage that is installed and brings kernels of the flavour that runs (generic,
    generic-hwe-24.04, aws-lts-22.04 ...); empty for a kernel that is not Ubuntu's."""
    if not facts.kernel.flavour:
        return ""
    fitting = re.compile(rf"linux-image-({re.escape(facts.kernel.flavour)}(?:-(?:hwe|lts|edge|\d[\d.]*)(?:-.*)?)?)")
    found = [match[1] for name in facts.packages.names if (match := fitting.fullmatch(name))]
    return max(found, key=len) if found else ""
