"""States of the packages: dpkg, the archives they come from, the branch that they are of."""

from __future__ import annotations

import re
from shlex import join
from typing import TYPE_CHECKING

from hosttune.choices.dpkg_stop import Cause, find_stop
from hosttune.choices.driver_states.told import RUNFILE, UNHOLD, UNINSTALL, ByPolicy, Told, switch
from hosttune.choices.drivers.branch import stale_note, why_over
from hosttune.choices.drivers.components import fabric_packages, managers
from hosttune.choices.drivers.switches import has_switches
from hosttune.choices.next_kernel import commands

if TYPE_CHECKING:
    from hosttune.facts import Facts


def broken(facts: Facts) -> Told | None:
    """Packages that are not whole; where a build is the cause, `DKMS failed` says both."""
    stop = find_stop(facts)
    return (stop.evidence, stop.repair) if stop and stop.cause is not Cause.BUILD else None


def in_part(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.is_gone:
        return None
    left = ", ".join(package.name for package in driver.packages)
    again = commands(facts, facts.kernel.release) if driver.branch else "sudo hosttune apply --yes --only gpu-driver"
    return (
        f"the loaded module {driver.loaded_version} is on the disk no more; of its packages there are {left}",
        f"do not reboot before: {again}; what took the rest away stands in /var/log/apt/history.log",
    )


def runfile(facts: Facts) -> Told | None:
    if not facts.driver.runfile:
        return None
    return (
        f"{RUNFILE}, outside of dpkg: upgrades break it",
        f"at the next maintenance, {UNINSTALL}",
    )


def mixed(facts: Facts) -> Told | None:
    origins = _origins(facts)
    if len(origins) < 2:
        return None
    return (
        f"the packages of the driver come from several archives: {' and '.join(origins)}",
        "decide for one of them; purge the driver's packages by name and install it again from that one",
    )


def foreign(facts: Facts) -> Told | None:
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


def outdated(facts: Facts) -> Told | None:
    driver = facts.driver
    if not driver.branch:
        return None
    over = why_over(facts, int(driver.branch))
    steps = (
        f"{', '.join(driver.transitional)} is an empty step to branch {driver.branch}" if driver.transitional else ""
    )
    if not over and not steps:
        return None
    said = "; ".join(part for part in (over, steps, stale_note(facts)) if part)
    if not over:
        real = [re.sub(r"-\d{3}(?=-|$)", f"-{driver.branch}", one, count=1) for one in driver.transitional]
        return (
            said,
            f"name the branch: sudo apt-get install {join(real)} && sudo apt-get remove {join(driver.transitional)}",
        )
    return said, switch(facts, "a supported branch", when="at a maintenance")


def held(facts: Facts) -> Told | None:
    """Held packages matter where something newer is kept from them."""
    held = [name for name in facts.driver.held if name in {offer.name for offer in facts.archives.updates}]
    if not held:
        return None
    return (
        f"held by an administrator (apt-mark), with an update waiting: {', '.join(held)}",
        f"hosttune never unholds; {UNHOLD}",
    )


def update(facts: Facts) -> Told | None:
    own = managers(facts) if has_switches(facts) and fabric_packages(facts) else ()  # said by `fabric different`
    known = {*facts.driver.held, *own}
    updates = [offer for offer in facts.archives.updates if offer.name not in known]
    if not facts.driver.branch or not updates:
        return None
    shown = ", ".join(f"{offer.name} {offer.installed} -> {offer.candidate}" for offer in updates[:3])
    more = f" and {len(updates) - 3} more" if len(updates) > 3 else ""
    return (
        f"an update within branch {facts.driver.branch} is offered: {shown}{more}",
        ByPolicy(
            "",
            "update: true for gpu-driver in the policy",
            "at a maintenance: it needs a reboot",
            {"update": True},
        ),
    )
