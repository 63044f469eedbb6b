"""Another version of the driver where DKMS could not build the one that is installed: the same
build fails again, so what is offered besides goes before the repair of its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.choices.drivers.branch import describe_not_driven, why_over
from hosttune.choices.drivers.branch_offers import offers_within
from hosttune.choices.drivers.choice import DEFAULTS
from hosttune.choices.drivers.nvidia_archive import (
    FROM,
    is_of_nvidia,
    say_switch,
    switch_within_archive,
    wrong_archive,
)
from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.archives import branch_in
from hosttune.facts.gpu.package_roles import PackageRole, role_of
from hosttune.facts.versions import compare_versions, sorted_versions, upstream_of
from hosttune.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.facts.gpu.driver import DriverPackage

_APT = "sudo apt-get update && sudo apt-get install"
_OF_ANY_BRANCH = (PackageRole.BESIDE, PackageRole.FABRIC)


def other_build(facts: Facts) -> str:
    """The first of the ways of this module; empty where there is none."""
    looks = (newer_build, former_build, distribution_build, other_branch_build, earlier_build)
    return next((way for look in looks if (way := look(facts))), "")


def newer_build(facts: Facts) -> str:
    """What installs the newer version of the same branch that is offered with the package that
    compiles the module; empty where there is none.
    """
    try:
        held = facts.driver.held
        offers = [one for one in offers_within(facts) if one.name not in held]
        is_loaded = facts.driver.is_loaded
    except UnknownFact:
        return ""
    version = next(
        (upstream_of(one.candidate) for one in offers if role_of(one.name) is PackageRole.DKMS), ""
    )
    if not version:
        return ""
    when = ", at a maintenance, as it needs a reboot" if is_loaded else ""
    names = _join_listed(one.name for one in offers)
    return f"{version} of the same branch is offered, and may build{when}: {_APT} {names}"


def former_build(facts: Facts) -> str:
    """What installs the version of the loaded module again, which was built, where the archives
    still have it for every package; empty where they do not.
    """
    driver = facts.driver
    try:
        known = facts.archives.packages if driver.is_mismatched else {}
    except UnknownFact:
        return ""
    dkms = next((one for one in driver.packages if role_of(one.name) is PackageRole.DKMS), None)
    if (
        dkms is None
        or dkms.name not in known
        or upstream_of(dkms.version) != driver.userspace_version
    ):
        return ""
    wanted = next(
        (one for one in known[dkms.name].versions if upstream_of(one) == driver.loaded_version), ""
    )
    back = _go_back(facts, dkms, wanted)
    return f"back to {driver.loaded_version}, which was built here: {back}" if back else ""


def earlier_build(facts: Facts) -> str:
    """What installs the newest earlier version that the archives have for every package, where no
    kernel has a module of this one: a release can fail to build for a kernel for which the one
    before did (NVIDIA/open-gpu-kernel-modules issue 855). Empty where they have none, or it does
    not drive the GPUs.
    """
    try:
        known = (
            {}
            if facts.driver.is_loaded or facts.driver.kernels_with_module
            else facts.archives.packages
        )
    except UnknownFact:
        return ""
    dkms = next(
        (one for one in facts.driver.packages if role_of(one.name) is PackageRole.DKMS), None
    )
    if dkms is None or dkms.name not in known:
        return ""
    for version in sorted_versions(known[dkms.name].versions)[::-1]:
        if compare_versions(version, dkms.version) >= 0 or describe_not_driven(
            facts, branch_in(version)
        ):
            continue
        if back := _go_back(facts, dkms, version):
            return f"the earlier {upstream_of(version)} may build: {back}"
    return ""


def _go_back(facts: Facts, dkms: DriverPackage, wanted: str) -> str:
    """The command that installs this version of the package that compiles the module, and of all
    that came with it, and holds them, as the next upgrade would bring the later one back; empty
    where the archives do not have it for each. All of one source package: what is not called nvidia
    (libcuda1) depends on the same version, too.
    """
    known = facts.archives.packages
    names = [one for one in facts.packages.brought if facts.packages[one].version == dkms.version]
    # One package that stays at the later version is enough to make apt remove the rest of the
    # driver instead of going back.
    if not wanted or any(wanted not in known[one].versions for one in names if one in known):
        return ""
    pairs = _join_listed(f"{one}={wanted}" for one in names)
    held = _join_listed(names)
    return f"{_APT} --allow-downgrades {pairs} && sudo apt-mark hold {held}"


def other_branch_build(facts: Facts) -> str:
    """A supported branch, where the installed one gets no version any more that newer kernels need;
    empty where it is supported, its packages are not of NVIDIA's archive, neither that archive nor
    another of NVIDIA's has one, or the GPUs are not known, as in an image.
    """
    if (
        not facts.driver.branch
        or not why_over(facts, int(facts.driver.branch))
        or not is_of_nvidia(facts)
    ):
        return ""
    try:
        way = switch_within_archive(facts)
        if not way.startswith(FROM) and not wrong_archive(facts):
            return ""
    except UnknownFact:
        return ""
    return say_switch("a supported branch, at a maintenance", way)


def distribution_build(facts: Facts) -> str:
    """Ubuntu's prebuilt driver in the place of all packages of one whose branch is over, and whose
    archive has none that is supported; empty where that is not so, or Ubuntu has none for these
    GPUs and this kernel.
    """
    driver = facts.driver
    if not driver.branch or not facts.os.is_ubuntu or not why_over(facts, int(driver.branch)):
        return ""
    # which itself asks for commands of this module
    from hosttune.choices.drivers.install import choose_install

    try:
        if not is_of_nvidia(facts) or switch_within_archive(facts).startswith(FROM):
            return ""
        choice = choose_install(facts, DEFAULTS)
    except UnknownFact:
        return ""
    if choice.action != "install" or choice.needs_dkms:
        return ""
    stays = (
        *choice.packages,
        *(one.name for one in driver.packages if role_of(one.name) in _OF_ANY_BRANCH),
    )
    gone = (f"{one.name}-" for one in driver.packages if one.name not in stays)
    return (
        f"Ubuntu's {choice.name}, which is prebuilt: {_APT} "
        f"{_join_listed((*choice.packages, *gone))}"
    )


def _join_listed(names: Iterable[str]) -> str:
    return " ".join(map(quote, names))
