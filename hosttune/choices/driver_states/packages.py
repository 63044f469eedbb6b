"""States of the packages: dpkg, the archives they come from, the branch that they are of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.choices.dkms_orphans import HOLDS_DATA
from hosttune.choices.dpkg_stop import Cause, failed_others_for, find_stop, say_half, say_why
from hosttune.choices.driver_states.branch_moves import list_offers
from hosttune.choices.driver_states.modules import leaves_none
from hosttune.choices.driver_states.state import (
    RUNFILE,
    ByPolicy,
    StateText,
    is_node,
    read_log_fact,
    switch,
    uninstall,
    vendor_of,
)
from hosttune.choices.drivers.branch import (
    describe_last,
    left_behind,
    not_driven,
    stale_note,
    supported_branches,
    why_over,
)
from hosttune.choices.drivers.branch_offers import offers_of_other_makers, offers_within
from hosttune.choices.drivers.components import fabric_packages, list_managers
from hosttune.choices.drivers.switches import has_switches
from hosttune.choices.next_kernel import make_module_commands
from hosttune.choices.other_build import newer_build
from hosttune.choices.own_kernel import OF_KERNEL
from hosttune.facts.apt_decisions import make_unhold_command
from hosttune.facts.dpkg_said import TERM_LOG
from hosttune.facts.gpu.archives import branch_in
from hosttune.facts.gpu.package_roles import compiles_modules
from hosttune.facts.kernel.kernel import is_of_proxmox
from hosttune.facts.relations import unmet_of
from hosttune.facts.versions import upstream_of
from hosttune.quoting import join, quote
from hosttune.values import join_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hosttune.facts import Facts
    from hosttune.facts.gpu.archives import Offer
    from hosttune.facts.packages import Package

_HEADERS_OF_PROXMOX = "sudo apt-get install dkms proxmox-default-headers"


def tell_of_broken(facts: Facts) -> StateText | None:
    """Packages that are not whole; where a build is the cause, `DKMS failed` says both."""
    stop = find_stop(facts)
    return (stop.evidence, stop.repair) if stop and stop.cause is not Cause.BUILD else None


def in_part(facts: Facts) -> StateText | None:
    driver = facts.driver
    if not driver.is_gone:
        return None
    left = ", ".join(package.name for package in driver.packages)
    again = (
        make_module_commands(facts, facts.kernel.release)
        if driver.branch
        else "sudo hosttune apply --yes --only gpu-driver"
    )
    return (
        (
            f"the loaded module {driver.loaded_version} is on the disk no more; of its packages "
            f"there are {left}"
        ),
        f"do not reboot before: {again}\nsee what took the rest away: /var/log/apt/history.log",
    )


def others_broken(facts: Facts) -> StateText | None:
    """Packages that are no part of the driver: they do not keep it from working, and apt from every
    other change.
    """
    broken = facts.packages.broken
    if not broken or find_stop(facts):
        return None
    text = ", ".join(f"{one.name} ({one.status})" for one in broken)
    text = (
        f"dpkg stopped half-way with {text}: none is of the driver, and apt ends every other "
        "change with their error"
    )
    failed = failed_others_for(
        facts, [match[1] for one in broken if (match := OF_KERNEL.fullmatch(one.name))]
    )
    if failed:
        text += "; " + " and ".join(
            f"DKMS could not build {one.name} {one.version} ({say_why(one)})" for one in failed
        )
    compiling = {f"{one.name}-dkms": one.log for one in failed}
    for one in broken:
        if compiles_modules(one.name) and one.name not in compiling:
            place = f"/var/lib/dkms/{one.name.removesuffix('-dkms')}/{upstream_of(one.version)}"
            compiling[one.name] = f"{place}/build/make.log"
    if not compiling:
        text, repair = say_half(facts, text, broken)
        rest = _without_new(facts, broken, is_said=TERM_LOG in repair)
        return text, join_steps((repair, rest))
    logs = " and ".join(map(quote, compiling.values()))
    see = f"see {logs}: `dpkg --configure -a` repeats a build that failed there"
    known = [name for name in compiling if name in facts.packages.brought]
    if not known:  # a person gave it to DKMS, and no package goes
        mend = (
            f"bring a newer version of {', '.join(one.name for one in failed)} in the way it came"
        )
        return text, f"{see}\n{mend}\nsudo dpkg --configure -a"
    names = join(known)
    steps = [see, f"take a newer version: sudo apt-get update && sudo apt-get install {names}"]
    if by_hand := [one.name for one in failed if f"{one.name}-dkms" not in known]:
        steps.append(f"bring a newer version of {', '.join(by_hand)} in the way it came")
    needed = [name for name in known if name.removesuffix("-dkms").startswith(HOLDS_DATA)]
    # the package goes for the running kernel, too: with it pools, a root on them, or the network
    if needed:
        steps.append(
            f"keep {join(needed)}, and boot the kernels that have its module, until a newer "
            "version builds"
        )
    if spare := [name for name in known if name not in needed]:
        steps.append(f"or do without it, on all kernels: sudo apt-get remove {join(spare)}")
    return text, "\n".join((*steps, "sudo dpkg --configure -a"))


def _without_new(facts: Facts, broken: Iterable[Package], *, is_said: bool) -> str:
    """The steps for packages that miss one that dpkg did not unpack, as another has the same file:
    `-f install` unpacks it again, and ends the same way. What dpkg never configured can go without
    loss.
    """
    packages = facts.packages
    missing = [
        one.name for one in broken if one.status == "unpacked" and unmet_of(packages, one.name)
    ]
    missing += [one.name for one in broken if one.status.startswith("half-installed")]
    if not missing:
        return ""
    again = "" if is_said else f"if dpkg ends with the same error, see why: {TERM_LOG}"
    new = [name for name in missing if packages.is_new[name]]
    without = f"to do without what is new: sudo apt-get remove {join(new)}" if new else ""
    return join_steps((again, without))


def tell_of_runfile(facts: Facts) -> StateText | None:
    """A vGPU manager comes in no other way, and the plain driver in its place would take the vGPUs
    of all guests. On Proxmox VE it is the way, as Debian's packages know no headers of its kernels.
    """
    if not facts.driver.runfile or facts.driver.is_vgpu_manager:
        return None
    if is_of_proxmox(facts.kernel.release):
        if facts.driver.dkms:
            return None
        return (
            f"{RUNFILE} without DKMS: the next kernel of Proxmox VE has no module of it",
            f"{_HEADERS_OF_PROXMOX}\nat the next maintenance, run that installer again with --dkms",
        )
    return (
        f"{RUNFILE}, outside of dpkg: upgrades break it",
        f"at the next maintenance, {uninstall(facts)}",
    )


def tell_of_outdated(facts: Facts) -> StateText | None:
    driver = facts.driver
    if not driver.branch:
        return _outdated_without_packages(facts)
    over = why_over(facts, int(driver.branch))
    steps = (
        f"{', '.join(driver.transitional)} is an empty step to branch {driver.branch}"
        if driver.transitional
        else ""
    )
    if not over and not steps:
        return None
    last = describe_last(facts) if over else ""
    evidence = "; ".join(part for part in (over, last, steps, stale_note(facts)) if part)
    if not over:
        real = [
            re.sub(r"-\d{3}(?=-|$)", f"-{driver.branch}", one, count=1)
            for one in driver.transitional
        ]
        return (
            evidence,
            (
                f"name the branch: sudo apt-get install {join(real)} && sudo apt-get remove "
                f"{join(driver.transitional)}"
            ),
        )
    return evidence, _keep_until_replaced(facts) or switch(
        facts, "a supported branch", when="at a maintenance"
    )


def _keep_until_replaced(facts: Facts) -> str:
    if not (left := left_behind(facts)):
        return ""
    if read_log_fact(facts, "legacy_branch") or (facts.driver.branch and not_driven(facts)):
        which = "the branch that `unsupported GPU` names"  # this one drives nothing
    else:
        which = "this one"
    keep = f"keep {which}, and a kernel that it builds for, until the cards are replaced"
    return f"no supported branch drives {', '.join(left)}: {keep}"


def _outdated_without_packages(facts: Facts) -> StateText | None:
    """Of NVIDIA's installer, of an image or a cloud. A vGPU manager follows vGPU releases, which
    end at other times.
    """
    driver = facts.driver
    number = branch_in(driver.loaded_version or driver.userspace_version)
    if not number or driver.is_vgpu_manager or not (over := why_over(facts, number)):
        return None
    evidence = "; ".join(part for part in (over, stale_note(facts)) if part)
    if vendor_of(facts) or is_node(facts):
        return evidence, switch(facts, "a supported branch", when="at a maintenance")
    if keep := _keep_until_replaced(facts):
        return evidence, keep
    if not driver.runfile:
        return (
            evidence,
            "a supported branch, at a maintenance, in the way that this driver came\nreboot",
        )
    fit = _join_branches(supported_branches(facts))
    newer = f"NVIDIA's installer of a supported branch{f' ({fit})' if fit else ''}"
    return evidence, f"at a maintenance, {newer}\nreboot\nor {uninstall(facts)}"


def _join_branches(numbers: Sequence[int]) -> str:
    """580 or 595."""
    return " or ".join(map(str, numbers))


def tell_of_held(facts: Facts) -> StateText | None:
    """Held packages matter where something newer of their branch is kept from them."""
    offered = {offer.name for offer in offers_within(facts)}
    held = [name for name in facts.driver.held if name in offered]
    if not held:
        return None
    return (
        (
            "an update is available for packages that an administrator holds back (apt-mark): "
            f"{', '.join(held)}"
        ),
        f"{unhold_driver(facts)} (hosttune never unholds)",
    )


def unhold_driver(facts: Facts) -> str:
    """All of them together: a driver of which a part is held is of two versions after the next
    upgrade.
    """
    return make_unhold_command(facts.driver.held)


def update(facts: Facts) -> StateText | None:
    # in `fabric different`
    own = list_managers(facts) if has_switches(facts) and fabric_packages(facts) else ()
    known = {*facts.driver.held, *own}
    updates = [offer for offer in offers_within(facts) if offer.name not in known]
    # in `DKMS failed`
    if not facts.driver.branch or not updates or (leaves_none(facts) and newer_build(facts)):
        return None
    evidence = (
        f"a newer driver of branch {facts.driver.branch} is available: {list_offers(updates)}"
    )
    if foreign := offers_of_other_makers(updates):
        whose = f"{foreign[0].candidate_from} in the place of {foreign[0].installed_from}'s"
        evidence = f"the next `apt upgrade` takes the driver from {whose}: {list_offers(foreign)}"
    return (
        evidence + _describe_phasing(updates),
        ByPolicy(
            "",
            "params: {gpu-driver: {update: true}} in the policy",
            "at a maintenance: it needs a reboot",
            {"update": True},
        ),
    )


def _describe_phasing(updates: list[Offer]) -> str:
    """Ubuntu hands updates out step by step (apt_preferences(5)); a package that is named is
    installed all the same.
    """
    percent = min(offer.phased for offer in updates)
    return (
        f"; phased, to {percent}% of hosts by now: `apt upgrade` may still leave it out"
        if percent < 100
        else ""
    )
