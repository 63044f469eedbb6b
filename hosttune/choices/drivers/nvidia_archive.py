"""A driver of NVIDIA's own archive: a way that is supported, and whose packages are updated and
switched there.

Source: NVIDIA's driver installation guide, "Kernel Modules", "Version locking" and "Ubuntu 590 and
later packages": from 590 on the names have no branch, an upgrade takes the newest one, and
nvidia-driver-pinning-N keeps a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.choices.apt_commands import has_all, lacks_package
from hosttune.choices.drivers.branch import describe_not_driven, not_driven, supported_branches
from hosttune.facts.apt_decisions import (
    nvidia_local_copy,
    nvidia_of_other_release,
    nvidia_without_list,
)
from hosttune.facts.base import UnknownFact, read_or_default
from hosttune.facts.gpu.archives import branch_in, fits_every_driver
from hosttune.facts.gpu.nvidia_tables import is_older
from hosttune.facts.gpu.package_roles import METAPACKAGES, PackageRole, parse_package
from hosttune.facts.gpu.strangers import home_of, strangers_of
from hosttune.facts.versions import sorted_versions
from hosttune.numbers import parse_digits
from hosttune.quoting import join, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.facts.apt_decisions import AptDecision
    from hosttune.facts.apt_pins import Pin
    from hosttune.facts.gpu.archives import Offer

FROM = "from NVIDIA's archive"
_SWITCH_OFF = (
    "switch NVIDIA's archive off (grep -rl developer.download.nvidia /etc/apt/sources.list.d shows "
    "its file)"
)


def is_of_nvidia(facts: Facts) -> bool:
    return bool(facts.driver.branch) and home_of(facts) == "NVIDIA"


def tell_updates(facts: Facts) -> tuple[str, ...]:
    """Who updates a driver of NVIDIA's archive, and what keeps its branch, as clauses; none for
    another driver.
    """
    if not is_of_nvidia(facts) or strangers_of(facts):
        return ()
    if not_driven(facts):
        # a branch that does not drive the GPUs is not to be kept
        return ("it is of NVIDIA's archive",)
    pinning = f"nvidia-driver-pinning-{facts.driver.branch}"
    who = (
        "it is of NVIDIA's archive: apt upgrade updates it, hosttune with update: true and "
        "allow_dkms: true"
    )
    if facts.packages[pinning].is_installed:
        return who, f"{pinning} keeps the branch"
    if pin := _pin_of_branch(facts):
        return who, f"{pin.place} keeps the branch"
    # cuda-drivers and nvidia-open without a branch bring the newest one, whatever the other names
    # say.
    names = [parse_package(one.name) for one in facts.driver.packages]
    named = [
        one
        for one in names
        if one.role in (*METAPACKAGES, PackageRole.KERNEL_COMMON, PackageRole.DKMS)
    ]
    if all(one.branch for one in named):
        return who, "the names of its packages keep the branch"
    newer = "apt upgrade takes newer branches, too"
    if lacks_package(facts, pinning):
        free = (one.name for one in facts.driver.packages if not parse_package(one.name).branch)
        moving = (name for name in free if not fits_every_driver(name))
        return who, f"{newer}: sudo apt-mark hold {' '.join(map(quote, moving))} keeps this one"
    known = "" if has_all(facts, pinning) else ", if apt has it"
    return who, f"{newer}: sudo apt-get install {quote(pinning)} keeps this one{known}"


def _pin_of_branch(facts: Facts) -> Pin | None:
    """An administrator's pin that prefers the installed version of a package whose name keeps no
    branch.
    """
    try:
        pins = [pin for pin in facts.apt.pins if not pin.is_general]
    except UnknownFact:
        return None
    names = [(one, parse_package(one.name)) for one in facts.driver.packages]
    free = [one for one, name in names if name.role in METAPACKAGES and not name.branch]
    return next(
        (pin for pin in pins for one in free if pin.names(one.name) and pin.wants(one.version)),
        None,
    )


def switch_within_archive(facts: Facts, *, branch: str = "") -> str:
    """A clause with the commands for another branch of NVIDIA's archive; `branch`: the newest that
    drives the GPUs, where the driver itself says so.
    """
    numbers = [found] if (found := parse_digits(branch, 0)) else _branches_by_choice(facts)
    return _find_branch(facts, numbers) or _leave_archive(facts, numbers)


def switch_kind(facts: Facts, *, is_open: bool) -> str:
    """A clause with the commands for the other kind of module: in the installed branch where that
    may stay, else in a better one. Where the archive has none of those, the installed branch is
    better than a module that drives nothing.
    """
    installed, numbers = int(facts.driver.branch), _branches_by_choice(facts)
    own = swap_kind(facts, is_open=is_open)
    if own and numbers[:1] == [installed]:
        return own
    if way := _find_branch(facts, numbers) or own or _find_branch(facts, [installed]):
        return way
    if missing := nvidia_without_list(facts):
        return f"{missing.what}: {missing.undo}, then look again"
    words = " or ".join(dict.fromkeys(map(str, (*numbers, installed))))
    return (
        f"apt has none of branch {words} from NVIDIA's archive: sudo apt-get update, and look again"
    )


def _find_branch(facts: Facts, numbers: list[int]) -> str:
    """The commands for the first of these branches that the archive has; empty for none. Which
    branches and pinning packages an archive has differs between the releases of a distribution:
    what apt lacks is not named.
    """
    old = any(is_older(one, "turing") for one in facts.gpus.generations)
    meta = "cuda-drivers" if old else "nvidia-open"
    ways = [packages for number in numbers or [0] for packages in _packages_of(number, meta)]
    try:
        offers = facts.archives.offers_of({name for packages in ways for name in packages})
    except UnknownFact:
        return _install_from_archive(ways[0])
    for packages in ways:
        if all(name in offers and offers[name].candidate for name in packages):
            pinned = packages[0] != meta or not numbers
            # A name without a branch installs whatever is newest. It is right only if the newest is
            # one of the branches that were wanted.
            if pinned or offers[meta].branch in numbers:
                return _install_from_archive(packages)
    return ""


def say_switch(wanted: str, way: str) -> str:
    """What is wanted with the way that `switch_within_archive` or `switch_kind` gives."""
    return f"{wanted}{',' if way.startswith(FROM) else ':'} {way}"


def _packages_of(number: int, meta: str) -> list[tuple[str, ...]]:
    """The sets of packages that bring a branch, the best first; 0: any branch."""
    if not number:
        return [(meta,)]
    return [(f"nvidia-driver-pinning-{number}", meta), (f"{meta}-{number}",), (meta,)]


def _install_from_archive(packages: tuple[str, ...]) -> str:
    steps = ["sudo apt-get update", *(f"sudo apt-get install {quote(one)}" for one in packages)]
    return f"{FROM}: {' && '.join(steps)}\ndrain the host and reboot"


def _leave_archive(facts: Facts, numbers: list[int]) -> str:
    """Where NVIDIA's archive for this release has none of these branches: the distribution's own
    driver, or NVIDIA's installer; for a driver that works that is no advice. An archive of which
    apt has no list may have all of them.
    """
    if wrong := wrong_archive(facts):
        return f"{wrong.what}: {wrong.undo}, then look again"
    words = f" {' or '.join(map(str, numbers))}" if numbers else ""
    sentence = f"NVIDIA's archive for this release has no branch{words}"
    # The last way removes the driver first. For one that works this would trade a branch without
    # support for a host without a driver.
    if not not_driven(facts):
        return f"{sentence}: keep this one until it has one (sudo apt-get update, and look again)"
    purge = f"sudo apt-get purge {' '.join(map(quote, _packages_of_driver(facts)))}"
    if own := _own_of_debian(facts):
        return (
            f"{sentence}, and {own}: {purge}\n"
            f"{_SWITCH_OFF}, as the next upgrade would bring its driver again\n"
            "sudo apt-get update && sudo apt-get install nvidia-driver\n"
            "drain the host and reboot"
        )
    number = numbers[0] if numbers else "that these GPUs need"
    return (
        f"{sentence}: {purge}\n"
        f"run NVIDIA's installer (runfile) of branch {number}, with --dkms\n"
        "reboot"
    )


def _packages_of_driver(facts: Facts) -> list[str]:
    """All that the driver brought: also libraries whose names say nothing of it (libcuda1,
    libgl1-nvidia-glvnd-glx), which have its version, and keep the driver of another archive from
    being installed.
    """
    ours, packages = facts.driver.packages, facts.packages
    # one such as 1.2.2 is of other packages, too
    versions = {one.version for one in ours if branch_in(one.version)}
    same = [name for name in packages.brought if packages.entries[name][0] in versions]
    return sorted({*(one.name for one in ours), *same})


def wrong_archive(facts: Facts) -> AptDecision | None:
    """Why apt does not see all that NVIDIA's archive for this release has; None where it does."""
    return nvidia_without_list(facts) or nvidia_of_other_release(facts) or nvidia_local_copy(facts)


def replace_unfit_offer(facts: Facts, packages: Iterable[str]) -> str:
    """The way to a driver on Debian, where apt would take a nvidia-driver that does not drive the
    GPUs, as that of NVIDIA's archive (NVIDIA/cuda-repo-management issue 38); else empty.
    `packages`: those that are to be installed.
    """
    offer = _offer_of_debian(facts)
    if (
        not offer
        or not offer.candidate
        or not describe_not_driven(facts, branch_in(offer.candidate))
    ):
        return ""
    why = f"apt would install nvidia-driver {offer.candidate}, which does not drive these GPUs"
    if own := _own_of_debian(facts):
        return (
            f"{why}, and {own}: {_SWITCH_OFF}\n"
            f"sudo apt-get update && sudo apt-get install {join(packages)}"
        )
    return f"{why}: run NVIDIA's installer (runfile) of a branch that drives them, with --dkms"


def _own_of_debian(facts: Facts) -> str:
    """That Debian's own nvidia-driver drives the GPUs, as a clause with its version; else empty."""
    offer = _offer_of_debian(facts)
    versions = (
        sorted_versions(one for one, whose in offer.versions.items() if whose == "Debian")
        if offer
        else []
    )
    found = next(
        (one for one in versions[::-1] if not describe_not_driven(facts, branch_in(one))), ""
    )
    return f"Debian's own nvidia-driver {found} drives these GPUs" if found else ""


def _offer_of_debian(facts: Facts) -> Offer | None:
    return read_or_default(
        lambda: facts.archives.offers_of(["nvidia-driver"]).get("nvidia-driver"), None
    )


def swap_kind(facts: Facts, *, is_open: bool) -> str:
    """The commands for the other kind of module in the installed version: the packages of one kind
    give way to those of the same names of the other; empty where no package of such a name is here,
    or apt is known to lack one.
    """
    install, remove = [], []
    for one in facts.driver.packages:
        found = parse_package(one.name)
        # Debian's nvidia-driver fits both kinds.
        if found.role is PackageRole.DKMS or (found.base == "nvidia-driver" and found.branch):
            twin = _name_twin(one.name, is_open=is_open)
            if found.is_open != is_open and twin:
                install.append(f"{twin}={one.version}")
                remove += [f"{one.name}-"] if found.role is PackageRole.DKMS else []
    # Without a DKMS package to remove both kinds would be built for one kernel, and which one loads
    # would be chance.
    if not remove or lacks_package(facts, *install):
        return ""
    names = " ".join(map(quote, (*install, *remove)))
    return f"{FROM}: sudo apt-get update && sudo apt-get install {names}\ndrain the host and reboot"


def _name_twin(name: str, *, is_open: bool) -> str:
    """The name of the same package for the other kind: nvidia-kernel-open-dkms,
    nvidia-dkms-580-open.
    """
    if "kernel" in name:
        pair = ("nvidia-kernel-dkms", "nvidia-kernel-open-dkms")
        return pair[is_open] if name in pair else ""
    if not parse_package(name).branch:
        return ""  # from 590 on: the metapackage would go with it
    return f"{name}-open" if is_open else name.removesuffix("-open")


def _branches_by_choice(facts: Facts) -> list[int]:
    """The branch that is there, where it may stay, and the long-term and production ones that drive
    all GPUs: the next newer ones first, then the older ones, the newest of them first.
    """
    installed = int(facts.driver.branch)
    fit = supported_branches(facts, installed)
    return [
        *(one for one in fit if one >= installed),
        *(one for one in reversed(fit) if one < installed),
    ]
