"""The state in which apt's next upgrade would move this host to another driver branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.choices.apt_commands import has_all, lacks_package
from hosttune.choices.driver_states.state import REBOOT, StateText
from hosttune.choices.drivers.branch import describe_not_driven, end_words, is_over, not_driven
from hosttune.choices.drivers.branch_offers import offers_elsewhere
from hosttune.facts.gpu.package_roles import PackageRole, parse_package
from hosttune.facts.gpu.strangers import strangers_of
from hosttune.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.facts.gpu.archives import Offer

# What carries a driver. Where only a metapackage moves (cuda-drivers beside nvidia-driver-580), the
# old branch has to be removed for it, which `apt upgrade` does not do.
_CARRIES = (
    PackageRole.KERNEL_COMMON,
    PackageRole.PROGRAM,
    PackageRole.DKMS,
    PackageRole.HEADLESS_WITHOUT_MODULE,
)
_CARRIERS = ("libnvidia-compute", "nvidia-driver", "nvidia-headless")


def other_branch(facts: Facts) -> StateText | None:
    """A package that does not belong to the rest goes first: it is not to be held."""
    driver = facts.driver
    if not driver.branch or strangers_of(facts) or not (moving := offers_elsewhere(facts)):
        return None
    if not_driven(facts):  # nothing that works would be lost
        return None
    number = max(offer.branch for offer in moving)
    command = (
        "apt upgrade"
        if any(_carries_driver(offer.name) for offer in moving)
        else "apt full-upgrade"
    )
    words = f" ({words})" if (words := end_words(facts, number)) else ""
    evidence = (
        f"the next `{command}` moves this host from branch {driver.branch} to {number}{words}: "
        f"{list_offers(moving)}"
    )
    stay = stay_in_branch(facts, (offer.name for offer in moving))
    if undriven := describe_not_driven(facts, number):
        return f"{evidence}; {undriven}", stay
    # Staying is the right advice only in a branch that still gets fixes. From one that has ended
    # the move is what is wanted, at a time that a person chooses.
    if is_over(facts, int(driver.branch)) and not is_over(facts, number):
        return (
            evidence,
            (
                f"let it at a maintenance, as branch {driver.branch} has ended: sudo {command}\n"
                f"{REBOOT}\n"
                f"{stay}"
            ),
        )
    return evidence, stay


def _carries_driver(name: str) -> bool:
    package = parse_package(name)
    return package.role in _CARRIES or package.base in _CARRIERS


def stay_in_branch(facts: Facts, names: Iterable[str]) -> str:
    """The commands that keep the driver in its branch. NVIDIA's archive has a package that pins
    one; its fixes still come, while a hold keeps them back, too.
    """
    hold = f"sudo apt-mark hold {' '.join(map(quote, names))}"
    pinning = f"nvidia-driver-pinning-{facts.driver.branch}"
    stay = f"to stay in branch {facts.driver.branch}"
    if (
        "NVIDIA" not in facts.archives.origins
        or facts.packages[pinning].is_installed
        or lacks_package(facts, pinning)
    ):
        return f"{stay}: {hold}"
    if has_all(facts, pinning):
        return f"{stay}: sudo apt-get install {pinning}"
    return f"{stay}: sudo apt-get install {pinning}\nif apt does not know it: {hold}"


def list_offers(offers: Iterable[Offer]) -> str:
    """The first of these offers with their versions, and how many more there are."""
    shown = [f"{one.name} {one.installed} -> {one.candidate}" for one in offers]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return ", ".join(shown[:3]) + more
