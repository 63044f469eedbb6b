"""What apt would install of the driver packages that `ubuntu-drivers` lists: their versions, and
whose they are.

A subject of its own, because it waits for `ubuntu-drivers`, and most hosts have no need of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.gpu.archives import Offer, policy_of
from hosttune.facts.kernel.kernel import HEADERS, select_metapackages
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.candidates import Candidate
    from hosttune.host.door import Reader


@frozen
class Offers(Subject):
    """The candidates (candidates.packages), the packages with their modules, and those with the
    modules of the running kernel, by name, as apt knows them.
    """

    @fact
    def packages(self) -> Mapping[str, Offer]:
        return policy_of(self.reader, _list_names(self.facts.candidates.packages, self.facts))

    @fact
    def untold(self) -> Mapping[str, Offer]:
        """The metapackages of prebuilt modules that no list names, and that apt knows."""
        return policy_of(self.reader, _find_unlisted(self.facts.candidates.packages, self.facts))

    @fact
    def at_next_boot(self) -> Mapping[str, Offer]:
        """By name, for the kernel that boots next.

        What brings it modules, or its headers, where it does not run now; of what apt has.
        """
        return _at_next_boot(self.reader, self.facts)

    @property
    def versions(self) -> Mapping[str, str]:
        """The version that apt would install, by package; what apt does not know or cannot install
        is not in it.
        """
        return MappingProxyType(
            {name: offer.candidate for name, offer in self.packages.items() if offer.candidate}
        )


def _name_modules(candidate: str, release: str) -> str:
    """The package with the prebuilt modules for one kernel, or the metapackage of a flavour of
    kernels: linux-modules-nvidia-580-server-open-6.8.0-60-generic.
    """
    return f"linux-modules-nvidia-{candidate.removeprefix('nvidia-driver-')}-{release}"


def _list_names(candidates: Iterable[Candidate], facts: Facts) -> list[str]:
    """Their packages, and those with their modules."""
    names = [
        name for candidate in candidates for name in (candidate.name, candidate.modules) if name
    ]
    with suppress(UnknownFact):  # of an image no kernel runs
        names += [_name_modules(candidate.name, facts.kernel.release) for candidate in candidates]
    return names


def _at_next_boot(reader: Reader, facts: Facts) -> Mapping[str, Offer]:
    kernel = facts.boot.next_kernel
    if not kernel or kernel == facts.kernel.release:
        return {}
    names = [_name_modules(candidate.name, kernel) for candidate in facts.candidates.packages]
    found = policy_of(reader, [*names, f"{HEADERS}-{kernel}"])
    return MappingProxyType({name: offer for name, offer in found.items() if offer.candidate})


def _find_unlisted(candidates: Iterable[Candidate], facts: Facts) -> list[str]:
    """The metapackages of prebuilt modules that candidates would have of which `ubuntu-drivers`
    tells no modules.
    """
    try:
        kernels = select_metapackages(facts.packages.brought, facts.kernel.flavour)
    except UnknownFact:
        return []
    return [
        _name_modules(one.name, kernel)
        for one in candidates
        if not one.modules
        for kernel in kernels
    ]
