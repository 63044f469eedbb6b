"""Which NVIDIA driver this host should have: keep the one that is there, install one, leave it alone, or refuse.

A driver that is there keeps its branch: nobody's branch is switched because a newer one exists, unless the policy says
so. Where there is none, the choice is made from what Ubuntu offers for the GPUs on the PCI bus. `ubuntu-drivers` is
asked only then: it is slow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.choices.fabric import has_switches
from hosttune.facts import Facts
from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.nvidia_tables import AS_OF, branch_of, is_older, month_of, stale_note
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts.archives import Offer
    from hosttune.facts.candidates import Candidate
    from hosttune.facts.driver import DriverPackage

# Not `candidates`: it is touched only where a driver is missing, so that no other host waits for it.

# A package of one branch; some also differ between the open and the closed module.
_NUMBERED = re.compile(
    r"(?:(?P<has_kind>nvidia-(?:driver|headless|headless-no-dkms|dkms|kernel-source)-|linux-[a-z]+-nvidia-)|"
    r"(?:lib)?nvidia-[a-z0-9-]+?-|xserver-xorg-video-nvidia-)"
    r"(?P<number>\d{3})(?P<server>-server)?(?P<open>-open)?(?=-|$)"
)
# What works beside a driver of its own version alone, and carries the branch in its name.
_COMPANION = re.compile(r"(nvidia-fabricmanager|libnvidia-nscq|nvidia-imex)-\d{3}")
_NEWEST = "the policy follows the newest branch"
_DESKTOPS = ("xserver-xorg-core", "gdm3", "lightdm", "sddm", "ubuntu-desktop", "ubuntu-desktop-minimal")


@frozen
class DriverChoice(Fact):
    """What to do about the driver, and why in words."""

    action: str  # keep | install | update | switch | none (not ours to do) | refuse (not possible as things are)
    packages: tuple[str, ...]  # to have installed: the set to install, or the main packages of the driver that is kept
    reason: str  # a sentence
    branch: str = ""  # 580
    flavour: str = ""  # open, server, server-open, or empty for the plain closed driver
    needs_dkms: bool = False  # its modules are compiled here
    one_version: tuple[str, ...] = ()  # packages that must have the same version (the driver and its fabric manager)
    versions: tuple[str, ...] = ()  # of an update: "name=version", what apt offers within the branch
    remove: tuple[str, ...] = ()  # of a switch: the packages of the old branch or flavour

    @property
    def name(self) -> str:
        """580-server-open."""
        return "-".join(part for part in (self.branch, self.flavour) if part)


def choose(facts: Facts, params: Mapping[str, Any]) -> DriverChoice:
    """`params`: track (lts | production | newest), branch (a pin, or empty), bringer (auto | host | external),
    use (auto | compute | desktop), update, switch_branch, allow_third_party, allow_dkms.

    Raises UnknownFact where what Ubuntu offers is not known, and the choice hangs on it.
    """
    why_not = _not_ours(facts, params)
    if why_not:
        return DriverChoice("none", (), why_not)
    pin = str(params["branch"])
    if pin and not re.fullmatch(r"\d{3}", pin):
        return _refuse(f'branch: "{pin}" of the policy is no branch: it is a number such as "580"')
    if facts.driver.is_present:
        return _keep(facts, params)
    bringer = _other_bringer(facts) if params["bringer"] == "auto" else ""
    if bringer:
        return _refuse(f"no driver is installed, but {bringer}; if this host is to have its own, set bringer: host")
    if not facts.os.is_ubuntu:
        system = facts.os.name or facts.os.id
        return DriverChoice("none", (), f"the package names of this rule are Ubuntu's, and this is {system}")
    return _install(facts, params)


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
        return "the policy says that somebody else brings the driver (bringer: external)"
    if facts.managers.gpu_operator and not facts.driver.is_installed:
        return "the GPU Operator brings the driver in a container"
    return ""


def _other_bringer(facts: Facts) -> str:
    if facts.managers.kubelet:
        return "a kubelet runs here, so the GPU Operator may bring it"
    if facts.managers.dgx:
        return "this is DGX OS, whose own packages bring it"
    return ""


def _keep(facts: Facts, params: Mapping[str, Any]) -> DriverChoice:
    driver = facts.driver
    present = driver.name or driver.loaded_version or "from NVIDIA's own installer"
    if not driver.branch:
        origin = "NVIDIA's own installer (runfile)" if driver.runfile else "something other than packages"
        return DriverChoice("keep", (), f"a driver is here by {origin} ({present}); it is left alone")
    if _is_guest(facts):
        return DriverChoice("none", (), "a vGPU guest takes the licensed driver that its hypervisor names")
    if driver.runfile:
        return _kept(facts, f"NVIDIA's own installer (runfile) was here beside the packages of {present}: left alone")
    why = _why_switch(facts, params)
    if why and params["switch_branch"]:
        return _switched(facts, params, why)
    pin = str(params["branch"])
    if pin and pin != driver.branch:
        return _refuse(
            f"the policy pins branch {pin}, and {driver.branch} is installed: a branch is switched only with "
            "switch_branch: true",
            driver.branch,
            driver.flavour,
        )
    if params["update"] and (updated := _updated(facts, params)):
        return updated
    return _kept(facts, f"driver {present} is installed, and keeps its branch" + (f"; {why}" if why else ""))


def _is_guest(facts: Facts) -> bool:
    try:
        return bool(facts.nvidia.is_vgpu)
    except UnknownFact:  # its log and nvidia-smi may not be readable; then nothing speaks for it
        return False


def _kept(facts: Facts, reason: str) -> DriverChoice:
    driver = facts.driver
    main = tuple(one.name for one in driver.packages if _is_main(one.name) and one.status == "installed")
    return DriverChoice("keep", main, reason, driver.branch, driver.flavour)


def _why_switch(facts: Facts, params: Mapping[str, Any]) -> str:
    """Why the installed branch or flavour is not the one to have; empty where it may stay."""
    driver = facts.driver
    branch = branch_of(int(driver.branch))
    pin = str(params["branch"])
    if pin and pin != driver.branch:
        return f"the policy pins branch {pin}"
    undriven = [one for one in facts.gpus.generations if not branch.drives(one)]
    if undriven:
        return f"branch {driver.branch} does not drive {', '.join(undriven)}"
    kind = _module_kind(facts)
    if kind in ("open", "closed") and (kind == "open") != ("open" in driver.flavour):
        return f"{facts.gpus.summary} needs the {kind} kernel module"
    month = month_of(facts.reader.now())
    if branch.is_over(month) and not pin:
        note = stale_note(month)
        return f"NVIDIA's support of branch {driver.branch} has ended (as of {AS_OF})" + (f"; {note}" if note else "")
    if params["track"] == "newest" and not pin and params["switch_branch"]:
        return _NEWEST
    return ""


def _switched(facts: Facts, params: Mapping[str, Any], why: str) -> DriverChoice:
    """The choice for a host without a driver, and what of the old one goes; or the old one, where that is it."""
    driver = facts.driver
    new = _install(facts, params)
    if new.action != "install":
        return replace(new, reason=f"{why}; {new.reason}")
    if new.name == driver.name:
        return _kept(facts, f"driver {driver.name} is installed, and is the choice")
    if why == _NEWEST and int(new.branch) <= int(driver.branch):
        return _kept(facts, f"driver {driver.name} is installed, and no newer branch is offered")
    if "NVIDIA" in facts.archives.origins:
        return _refuse(
            f"{why}, but the driver is from NVIDIA's CUDA archive, which does not mix with Ubuntu's packages: switch "
            "within that archive, or purge it by name first",
            driver.branch,
            driver.flavour,
        )
    new = _with_companions(new, driver.packages)
    held = [name for name in driver.held if name in _others(driver.packages, new)]
    if held:
        return _refuse(f"{why}, but an administrator holds {', '.join(held)}", driver.branch, driver.flavour)
    reason = f"{why}: from {driver.name} to {new.reason.removeprefix('driver ')}"
    return replace(new, action="switch", reason=reason, remove=_others(driver.packages, new))


def _with_companions(new: DriverChoice, packages: Iterable[DriverPackage]) -> DriverChoice:
    """The set with the new branch's form of what stands beside the old driver and works with its own version alone."""
    found = [match[1] for package in packages if (match := _COMPANION.fullmatch(package.name))]
    more = tuple(name for one in found if (name := f"{one}-{new.branch}") not in new.packages)
    coupled = tuple(name for name in more if not name.startswith("nvidia-imex"))
    if coupled and not new.one_version:
        coupled = (*(name for name in new.packages if name.startswith("nvidia-utils-")), *coupled)
    return replace(new, packages=(*new.packages, *more), one_version=(*new.one_version, *coupled))


def _others(packages: Iterable[DriverPackage], new: DriverChoice) -> tuple[str, ...]:
    """The installed packages of another branch, or of the other kind of module."""
    found = []
    for package in packages:
        match = _NUMBERED.match(package.name)
        if match is None:
            continue
        is_same = match["number"] == new.branch and bool(match["server"]) == ("server" in new.flavour)
        if match["has_kind"]:
            is_same = is_same and bool(match["open"]) == ("open" in new.flavour)
        if _COMPANION.fullmatch(package.name):  # one for server and plain
            is_same = match["number"] == new.branch
        if not is_same:
            found.append(package.name)
    return tuple(sorted(found))


def _updated(facts: Facts, params: Mapping[str, Any]) -> DriverChoice | None:
    """The newer versions that apt offers of the packages that are there; None where there are none."""
    driver = facts.driver
    offers = facts.archives.updates
    if not offers:
        return None
    held = [offer.name for offer in offers if offer.name in driver.held]
    if held:
        return _kept(facts, f"an update of {driver.name} is offered, and an administrator holds {', '.join(held)}")
    foreign = [offer for offer in offers if offer.candidate_from != (offer.installed_from or _home(offer, facts))]
    if foreign:
        one = foreign[0]
        return _refuse(
            f"the update of {one.name} comes from {one.candidate_from}, and what is installed from "
            f"{one.installed_from or 'no archive that is known'}: a driver of mixed sources breaks",
            driver.branch,
            driver.flavour,
        )
    versions = tuple(f"{offer.name}={offer.candidate}" for offer in offers)
    reason = f"an update within branch {driver.branch}: {offers[0].name} {offers[0].installed} -> {offers[0].candidate}"
    coupled = [one for one in driver.packages if re.match(r"nvidia-(?:utils|fabricmanager)-|libnvidia-nscq-", one.name)]
    has_manager = any(one.name.startswith("nvidia-fabricmanager-") for one in coupled)
    one_version = tuple(one.name for one in coupled) if has_manager else ()
    needs_dkms = bool(params["allow_dkms"]) and any(re.search(r"-dkms(?:-|$)", one.name) for one in driver.packages)
    names = tuple(dict.fromkeys((*_kept(facts, "").packages, *(offer.name for offer in offers))))
    return DriverChoice(
        "update", names, reason, driver.branch, driver.flavour, needs_dkms, one_version=one_version, versions=versions
    )


def _home(offer: Offer, facts: Facts) -> str:
    """Whose a version is that no archive has any more, as soon as a newer one took its place there: that of the rest of
    the driver, or the distribution's, whose archives keep the newest versions only."""
    origins = facts.archives.origins
    if origins:
        return origins[0] if len(origins) == 1 else ""
    return offer.candidate_from if offer.candidate_from in {"Ubuntu", "Debian"} else ""


def _is_main(name: str) -> bool:
    """Packages that somebody names to get a driver, not what comes with them or belongs to one kernel."""
    return re.fullmatch(r"nvidia-(?:driver|headless|headless-no-dkms|utils|fabricmanager)(?:-.*)?", name) is not None


def _install(facts: Facts, params: Mapping[str, Any]) -> DriverChoice:
    kind = _module_kind(facts)
    if isinstance(kind, DriverChoice):
        return kind
    offered = facts.candidates.packages
    if facts.candidates.problem:
        raise UnknownFact("the drivers that Ubuntu offers", facts.candidates.problem)
    usable, why_not = _usable(offered, facts, kind, params)
    if not usable:
        return _refuse(f"no driver fits {facts.gpus.summary}: {why_not}")
    best, because = _best(usable, facts, params)
    return _set_of(best, because, facts, params)


def _module_kind(facts: Facts) -> str | DriverChoice:
    """`open` or `closed` where the GPUs can use only that kernel module, else `either`; or the refusal. A GPU of an
    unknown generation is newer than our table, so it is `either`: open is preferred where it is offered.

    Open modules need the GPU System Processor, which Turing brought; Blackwell and Grace Hopper have no closed ones
    (NVIDIA's open-gpu-kernel-modules, and the driver installation guide, "Kernel Modules").
    """
    generations = facts.gpus.generations
    if "fermi" in generations:
        return _refuse(f"Fermi and older GPUs have had no driver for years ({facts.gpus.summary})")
    old = [one for one in generations if is_older(one, "turing")]
    grace = facts.kernel.architecture == "aarch64"
    only_open = [one for one in generations if one == "blackwell" or (grace and one == "hopper")]
    if old and only_open:
        return _refuse(
            f"no driver drives all GPUs: {', '.join(only_open)} needs the open kernel module, and {', '.join(old)} "
            f"cannot use it ({facts.gpus.summary})"
        )
    if old and "unknown" in generations:
        return _refuse(
            f"{', '.join(old)} cannot use the open kernel module, and it is not known whether the GPU of unknown "
            f"generation needs it ({facts.gpus.summary}): install the driver by hand"
        )
    return "closed" if old else "open" if only_open else "either"


def _usable(
    offered: Iterable[Candidate],
    facts: Facts,
    kind: str,
    params: Mapping[str, Any],
) -> tuple[tuple[Candidate, ...], str]:
    """What fits every GPU and the policy, and the reason for the last step that left nothing."""
    left = tuple(offered)
    pin = str(params["branch"])
    steps: tuple[tuple[str, Callable[[Candidate], bool]], ...] = (
        (f"branch {pin} is not offered", lambda c: not pin or c.branch == int(pin)),
        (
            "no branch drives all of them",
            lambda c: all(branch_of(c.branch).drives(one) for one in facts.gpus.generations),
        ),
        ("they need the open kernel module, and none is offered", lambda c: kind != "open" or c.is_open),
        ("they need the closed kernel module, and none is offered", lambda c: kind != "closed" or not c.is_open),
        (
            "only third-party archives offer one; allow_third_party: true takes it",
            lambda c: params["allow_third_party"] or not c.is_third_party,
        ),
        (
            "modules are offered only by DKMS, compiled on this host; allow_dkms: true takes it",
            lambda c: params["allow_dkms"] or not c.needs_dkms,
        ),
        (
            "NVSwitch needs the server driver, and none is offered",
            lambda c: not has_switches(facts) or c.is_server,
        ),
    )
    for why_not, test in steps:
        remaining = tuple(candidate for candidate in left if test(candidate))
        if not remaining:
            names = ", ".join(candidate.name for candidate in left)
            return (), f"{why_not} (offered: {names})"
        left = remaining
    return left, ""


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
    headers = (f"linux-headers-{kernel}",) if kernel and best.needs_dkms else ()
    if not modules:
        return _refuse(
            f"nvidia-driver-{full} fits, but no prebuilt modules are known for this kernel: {_why_none(facts)}"
        )
    main = (
        (f"nvidia-driver-{full}",)
        if _is_desktop(facts, params)
        else (f"nvidia-headless-no-dkms-{full}", f"nvidia-utils-{base}")
    )
    fabric = (f"nvidia-fabricmanager-{best.branch}", f"libnvidia-nscq-{best.branch}") if has_switches(facts) else ()
    running = () if best.needs_dkms else _for_running_kernel(modules, f"linux-modules-nvidia-{full}", facts)
    kind = "open" if best.is_open else "closed"
    origin = "compiled here by DKMS" if best.needs_dkms else "prebuilt and signed"
    reason = f"driver {full} for {facts.gpus.summary}: {because}; {kind} kernel module, {origin}"
    if fabric:
        reason += f"; with Fabric Manager for {facts.gpus.nvswitches or 'its'} NVSwitches"
    one_version = (f"nvidia-utils-{base}", *fabric) if fabric else ()
    packages = (*main, modules, *running, *headers, *fabric)
    return DriverChoice("install", packages, reason, str(best.branch), flavour, best.needs_dkms, one_version)


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


def _refuse(reason: str, branch: str = "", flavour: str = "") -> DriverChoice:
    return DriverChoice("refuse", (), reason, branch, flavour)
