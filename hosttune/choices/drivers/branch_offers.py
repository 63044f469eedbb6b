"""What apt offers for the installed driver: newer versions of its own branch, and versions of another branch.

The branch is that of the upstream versions: NVIDIA's archive has left it out of the names from 590 on, so that the same
package goes from 595 to 610 (driver installation guide, "Version locking"), and Ubuntu's empty steps carry the old
branch in the name and the new one in the version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.gpu.archives import branch_in

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.archives import Offer


def offers_within(facts: Facts) -> tuple[Offer, ...]:
    """The newer versions of the driver's own branch, by name; what names no branch is one of them. A tool that fits
    every driver and comes with another branch is none: nothing here needs it."""
    own = _find_branch(facts)
    return tuple(
        offer
        for offer in facts.archives.updates
        if offer.branch in (0, own) and branch_in(offer.candidate) <= max(own, branch_in(offer.installed))
    )


def offers_elsewhere(facts: Facts) -> tuple[Offer, ...]:
    """The newer versions of another branch that the next upgrade would install, by name: held packages stay."""
    held = facts.driver.held
    offers = (offer for offer in facts.archives.updates if offer.name not in held)
    return tuple(offer for offer in offers if offer.branch not in (0, _find_branch(facts)))


def _find_branch(facts: Facts) -> int:
    return int(facts.driver.branch or 0)
