"""What apt offers for the installed driver: newer versions of its own branch, and versions of
another branch.

The branch is that of the upstream versions: NVIDIA's archive has left it out of the names from 590
on, so that the same package goes from 595 to 610 (driver installation guide, "Version locking"),
and Ubuntu's empty steps carry the old branch in the name and the new one in the version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.gpu.archives import NVIDIA_SITES, branch_in
from hosttune.facts.gpu.package_roles import parse_package
from hosttune.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.facts.gpu.archives import Offer


def offers_within(facts: Facts) -> tuple[Offer, ...]:
    """The newer versions of the driver's own branch, by name; what names no branch is one of them.
    A tool that fits every driver and comes with another branch is none: nothing here needs it.
    """
    own = _find_branch(facts)
    return tuple(
        offer
        for offer in facts.archives.updates
        if offer.branch in (0, own)
        and branch_in(offer.candidate) <= max(own, branch_in(offer.installed))
    )


def offers_elsewhere(facts: Facts) -> tuple[Offer, ...]:
    """The newer versions of another branch that the next upgrade would install, by name: held
    packages stay.
    """
    held = facts.driver.held
    offers = (offer for offer in facts.archives.updates if offer.name not in held)
    return tuple(offer for offer in offers if offer.branch not in (0, _find_branch(facts)))


def offers_of_other_makers(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """Of these those that another archive has than what is installed, where apt names both: its
    priority is higher, as by NVIDIA's own cuda-repository-pin-600, or it has the newer version.
    """
    return tuple(
        one
        for one in offers
        if one.installed_from and one.candidate_from not in ("", one.installed_from)
    )


def keep_archive_away(offers: Iterable[Offer]) -> str:
    """The command that keeps apt from NVIDIA's archive for these packages only: CUDA comes from
    there all the same (apt_preferences(5), the specific form, which goes before `Package: *`). It
    adds to the file: that may have the pins of packages that are offered no more. Empty for another
    archive, or a copy on this disk.
    """
    wanted = [one for one in offers if one.candidate_from == "NVIDIA"]
    lines = [line for one in wanted for version, line in one.sources if version == one.candidate]
    site = next((site for site in NVIDIA_SITES for line in lines if site in line), "")
    if not site:
        return ""
    names = sorted({f"{parse_package(one.name).base or one.name}*" for one in wanted})
    text = rf"\nPackage: {' '.join(names)}\nPin: origin {site}\nPin-Priority: -1\n"  # for printf(1)
    return f"printf {quote(text)} | sudo tee -a /etc/apt/preferences.d/nvidia-driver"


def _find_branch(facts: Facts) -> int:
    return int(facts.driver.branch or 0)
