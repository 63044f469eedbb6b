"""Another driver in the place of the one that is there: an update within its branch, or a switch to
another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.choices.driver_states.packages import tell_of_held, unhold_driver
from hosttune.choices.driver_states.state import BootOutlook, DriverState
from hosttune.choices.drivers.branch import why_over
from hosttune.choices.drivers.branch_offers import keep_archive_away, offers_within
from hosttune.choices.drivers.choice import DriverChoice, keep_driver, refuse
from hosttune.choices.drivers.install import choose_install
from hosttune.choices.drivers.nvidia_archive import switch_within_archive
from hosttune.facts.apt_decisions import make_unhold_command
from hosttune.facts.base import read_or_default
from hosttune.facts.gpu.archives import BESIDE
from hosttune.facts.gpu.package_roles import (
    BRINGS_MODULES,
    METAPACKAGES,
    PackageRole,
    is_driver_package,
    parse_package,
    role_of,
)
from hosttune.facts.gpu.strangers import home_of, maker_of, mixture_of
from hosttune.facts.versions import upstream_of
from hosttune.quoting import quote
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.archives import Offer
    from hosttune.facts.gpu.driver import DriverPackage

# What has to be solved before another change of the driver; None where nothing has.
First = Callable[[], "DriverState | None"]
NEWEST = "the policy follows the newest branch"
# What works only beside a driver of its own version, and carries the branch in its name.
_COMPANIONS = ("nvidia-fabricmanager", "libnvidia-nscq", "nvidia-imex")
_DIFFERS_BY_KIND = (*METAPACKAGES, *BRINGS_MODULES)
# What has the driver's own version, and what works beside it in that version only.
_ONE_VERSION = regex(
    r"nvidia-(?:utils|fabricmanager)(?:-.*)?|libnvidia-nscq(?:-.*)?|libnvidia-compute"
)


def choose_switch(facts: Facts, params: Mapping[str, Any], why: str, before: First) -> DriverChoice:
    """The choice for a host without a driver, and what of the old one goes; or the old one, where
    that is it.
    """
    driver = facts.driver
    new = choose_install(facts, params)
    if new.action != "install":
        return replace(new, clauses=(why, *new.clauses))
    if new.name == driver.name:
        return keep_driver(facts, f"driver {driver.name} is installed, and is the choice")
    if why == NEWEST and int(new.branch) <= int(driver.branch):
        return keep_driver(
            facts, f"driver {driver.name} is installed, and no newer branch is offered"
        )
    if why == why_over(facts, int(driver.branch)) and (over := why_over(facts, int(new.branch))):
        return keep_driver(facts, why, f"the best that is offered is {new.name}, and {over}")
    if home_of(facts) == "NVIDIA":
        return refuse(
            why,
            "the driver is of NVIDIA's archive, whose packages do not mix with Ubuntu's",
            way_out=switch_within_archive(facts),
            driver=driver,
        )
    new = _with_companions(new, driver.packages)
    kept_back = [name for name in driver.held if name in _list_others(driver.packages, new)]
    if kept_back:
        return refuse(
            why,
            f"an administrator holds {', '.join(kept_back)}",
            way_out=make_unhold_command(kept_back),
            driver=driver,
        )
    first = before()
    # an earlier change of the driver, that the next boot completes
    if first and first.boot is BootOutlook.MENDS:
        return _put_off(why, f"the switch to {new.name}", first, facts)
    switch = f"switch from {driver.name} to {new.clauses[0].removeprefix('driver ')}"
    return replace(
        new,
        action="switch",
        clauses=(why, switch, *new.clauses[1:]),
        remove=_list_others(driver.packages, new),
    )


def _put_off(why: str, what: str, first: DriverState, facts: Facts) -> DriverChoice:
    """No change is stacked on another one that is not complete."""
    sentence = f"{what} comes after what is not complete yet: {first.name}"
    return refuse(
        why, sentence, first.evidence, way_out=f"first: {first.way_out}", driver=facts.driver
    )


def _with_companions(new: DriverChoice, packages: Iterable[DriverPackage]) -> DriverChoice:
    """The set with the new branch's form of what is beside the old driver and works with its own
    version alone.
    """
    names = (parse_package(package.name) for package in packages)
    found = [one.base for one in names if one.base in _COMPANIONS and one.branch]
    more = tuple(name for one in found if (name := f"{one}-{new.branch}") not in new.packages)
    coupled = tuple(name for name in more if not name.startswith("nvidia-imex"))
    if coupled and not new.one_version:
        coupled = (*(name for name in new.packages if name.startswith("nvidia-utils-")), *coupled)
    return replace(new, packages=(*new.packages, *more), one_version=(*new.one_version, *coupled))


def _list_others(packages: Iterable[DriverPackage], new: DriverChoice) -> tuple[str, ...]:
    """The installed packages of another branch, or of the other kind of module."""
    found = []
    for package in packages:
        one = parse_package(package.name)
        if not one.branch:
            continue
        is_same = one.branch == new.branch and one.is_server == ("server" in new.flavour)
        if one.role in _DIFFERS_BY_KIND:
            is_same = is_same and one.is_open == ("open" in new.flavour)
        if one.base in _COMPANIONS:  # one for server and plain
            is_same = one.branch == new.branch
        if not is_same:
            found.append(package.name)
    return tuple(sorted(found))


def _keep_other_away(foreign: Sequence[Offer]) -> str:
    one = foreign[0]
    if command := keep_archive_away(foreign):
        return f"keep {one.candidate_from}'s archive away from this driver: {command}"
    look = f"decide for one archive: apt-cache policy {quote(one.name)} shows both"
    return f"{look}, and a pin (apt_preferences(5)) keeps the other away"


def choose_update(facts: Facts, params: Mapping[str, Any], before: First) -> DriverChoice | None:
    """The newer versions that apt offers of the packages that are there; None where there are
    none.
    """
    driver = facts.driver
    offers = offers_within(facts)
    if not offers:
        return None
    if kept_back := tell_of_held(facts):
        return replace(keep_driver(facts, kept_back[0]), way_out=unhold_driver(facts))
    offered = f"a newer driver of branch {driver.branch} is available"
    foreign = [
        offer
        for offer in offers
        if offer.candidate_from != (offer.installed_from or _name_home(offer, facts))
    ]
    if foreign:
        one = foreign[0]
        return refuse(
            f"the update of {one.name} comes from {one.candidate_from}, and what is installed from "
            f"{one.installed_from or 'no archive that is known'}: a driver of mixed sources breaks",
            way_out=_keep_other_away(foreign),
            driver=driver,
        )
    if first := before():
        return _put_off(offered, "the update", first, facts)
    if behind := _left_behind(facts):
        return refuse(
            offered,
            "the archive has no modules of it yet for the kernel that boots next: "
            f"{behind} would stay as it is, and after a reboot no GPU would work",
            way_out="wait for the modules, or boot a kernel for which they are there\nrun it again",
            driver=driver,
        )
    versions = tuple(f"{offer.name}={offer.candidate}" for offer in offers)
    if lost := _lost_by(facts, versions):
        return refuse(
            offered,
            f"apt would remove {', '.join(lost)} for it",
            way_out=_explain_companions(lost, versions),
            driver=driver,
        )
    clause = f"{offered}: {offers[0].name} {offers[0].installed} -> {offers[0].candidate}"
    coupled = [one for one in driver.packages if _ONE_VERSION.fullmatch(one.name)]
    has_manager = any(one.name.startswith("nvidia-fabricmanager") for one in coupled)
    one_version = tuple(one.name for one in coupled) if has_manager else ()
    needs_dkms = bool(params["allow_dkms"]) and any(
        role_of(one.name) is PackageRole.DKMS for one in driver.packages
    )
    names = tuple(
        dict.fromkeys((*keep_driver(facts, "").packages, *(offer.name for offer in offers)))
    )
    prebuilt = f"linux-modules-nvidia-{driver.name}"
    modules = (
        prebuilt if any(one.name.startswith(f"{prebuilt}-") for one in driver.packages) else ""
    )
    return DriverChoice(
        "update", names, (clause,), driver.branch, driver.flavour, needs_dkms,
        one_version=one_version, versions=versions, modules=modules,
    )  # fmt: skip


def _lost_by(facts: Facts, versions: tuple[str, ...]) -> tuple[str, ...]:
    """What apt would remove for this update, which only adds to a driver as a rule; empty where
    that is not known.
    """
    return read_or_default(
        lambda: tuple(step.name for step in facts.apt.would[" ".join(versions)].removed), ()
    )


def _explain_companions(lost: tuple[str, ...], versions: tuple[str, ...]) -> str:
    """Fabric Manager and what else goes with one version of the driver comes later in its new
    version; another package has to give way, if nothing here needs it.
    """
    ours = [name for name in lost if is_driver_package(name) or BESIDE.fullmatch(name)]
    if ours:
        return (
            f"wait until the archive has {', '.join(ours)} for that version: sudo apt-get update, "
            "and look again"
        )
    operands = " ".join(map(quote, (*versions, *(f"{name}-" for name in lost))))
    return (
        f"if nothing here needs {' and '.join(lost)}, at a maintenance, sudo apt-get update && "
        f"sudo apt-get install {operands}\n"
        "drain the host and reboot"
    )


def _left_behind(facts: Facts) -> str:
    """The package with the prebuilt modules of the kernel that boots next, where the libraries
    would get a newer upstream version and it would not; empty where there is none, or it comes
    along.
    """
    driver, kernel = facts.driver, facts.boot.next_kernel or facts.kernel.release
    updates = offers_within(facts)
    is_newer = any(
        upstream_of(offer.candidate) != upstream_of(offer.installed)
        for offer in updates
        if offer.name.startswith(("libnvidia-compute-", "nvidia-utils-", "nvidia-kernel-common-"))
    )
    name = f"linux-modules-nvidia-{driver.name}-{kernel}"
    is_there = any(one.name == name for one in driver.packages)
    return name if is_newer and is_there and all(offer.name != name for offer in updates) else ""


def _name_home(offer: Offer, facts: Facts) -> str:
    """Whose a version is that no archive has any more, as soon as a newer one took its place there:
    as it looks, or that of the rest of the driver, or the distribution's, whose archives keep the
    newest versions only.
    """
    mix = mixture_of(facts)
    if mix.strangers:
        return ""
    distribution = offer.candidate_from if offer.candidate_from in {"Ubuntu", "Debian"} else ""
    return maker_of(offer.name, offer.installed, "") or mix.maker or distribution
