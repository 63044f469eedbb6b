"""Whether unattended-upgrades may upgrade the driver, or Fabric Manager beside it, under a module
in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hosttune.facts import Facts
from hosttune.facts.apt_conf import FOLDER
from hosttune.facts.base import Fact
from hosttune.facts.gpu.archives import POLICY, ask_apt, fits_every_driver, releases_in
from hosttune.facts.gpu.package_roles import PREBUILT, PackageRole, role_of
from hosttune.facts.unattended import find_upgradable, known_releases, why_not_at_all
from hosttune.frozen import frozen

OWN = f"{FOLDER}/60-hosttune-gpu-update-hold.conf"  # of gpu-update-hold
_SHOWN = 3


@frozen
class NightUpgrade(Fact):
    """What can happen, or why it cannot."""

    packages: tuple[str, ...]  # those of the driver that unattended-upgrades may upgrade, sorted
    allowed_by: str  # FILE:LINE that allows it; empty where it cannot happen
    why_not: str  # a sentence; empty where it can happen

    @property
    def shown(self) -> str:
        """The first of the packages, and how many more there are."""
        more = f" and {len(self.packages) - _SHOWN} more" if len(self.packages) > _SHOWN else ""
        return ", ".join(self.packages[:_SHOWN]) + more

    @property
    def effect(self) -> str:
        """What fails after it. Beside a driver of NVIDIA's installer only Fabric Manager is a
        package.
        """
        if all(role_of(name) is PackageRole.FABRIC for name in self.packages):
            return (
                "no CUDA program starts after the next start of Fabric Manager, as its version is "
                "not the driver's"
            )
        return "new CUDA programs fail then until a reboot"


def choose(facts: Facts, params: Mapping[str, Any]) -> NightUpgrade:  # noqa: ARG001 - the interface of all choices
    return look_at_night(facts)


def look_at_night(facts: Facts, *, without: str = "") -> NightUpgrade:
    """`without`: as if the Package-Blacklist of this file was not there. Raises UnknownFact where
    apt does not tell.
    """
    # First what needs no list of apt: a timer that is off decides, whatever the archives offer.
    if idle := why_not_at_all(facts):
        return NightUpgrade((), "", f"unattended-upgrades upgrades nothing by itself: {idle}")
    offers = [
        offer
        for name, offer in sorted(facts.archives.packages.items())
        # Modules of other versions take effect with a boot, as the kernel's.
        if offer.installed and role_of(name) not in PREBUILT and not fits_every_driver(name)
    ]
    if not offers:
        return NightUpgrade((), "", "no package of the driver is installed that could be upgraded")
    releases = known_releases(releases_in(ask_apt(facts.reader, POLICY)))
    found, why_not = find_upgradable(facts, offers, releases, without=without)
    if found:
        return NightUpgrade(tuple(one.name for one in found), found[0].allowed_by.place, "")
    return NightUpgrade((), "", f"unattended-upgrades leaves the driver alone: {why_not}")
