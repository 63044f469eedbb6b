"""The components of Ubuntu's archive that apt has lists of.

Source: `apt-cache policy` without names, the `c=` of each Release line. NVIDIA's drivers are in restricted; Fabric
Manager, and branches that Ubuntu does not support for long, in multiverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune.facts.base import Fact, lazy
from hosttune.facts.gpu.archives import POLICY, ask_apt, components_in
from hosttune.frozen import frozen
from hosttune.quoting import quote

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

ALL: Final = ("main", "restricted", "universe", "multiverse")


@frozen
class Components(Fact):
    """Those of Ubuntu's archive alone."""

    enabled: tuple[str, ...]  # sorted; empty where apt has no list of that archive at all

    @property
    def off(self) -> tuple[str, ...]:
        """Those that apt has no list of; none where it knows no archive of Ubuntu's."""
        return tuple(one for one in ALL if one not in self.enabled) if self.enabled else ()


def turn_on(names: tuple[str, ...]) -> str:
    """What a person does so that apt has lists of these components: a sentence with the commands."""
    each = " && ".join(f"sudo add-apt-repository {quote(name)}" for name in names)
    plural = "s" if len(names) > 1 else ""
    return f"apt has no list of Ubuntu's component{plural} {' and '.join(names)}: {each} && sudo apt-get update"


def collect(reader: Reader, facts: Facts) -> Components:  # noqa: ARG001 - the interface of all subjects
    return Components(lazy(lambda: components_in(ask_apt(reader, POLICY))))
