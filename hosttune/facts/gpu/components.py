"""The components of Ubuntu's archive that apt has lists of.

Source: `apt-cache policy` without names, the `c=` of each Release line. NVIDIA's drivers are in
restricted; Fabric Manager, and branches that Ubuntu does not support for long, in multiverse.
"""

from __future__ import annotations

from typing import Final

from hosttune.facts.gpu.archives import POLICY, ask_apt, components_in
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.quoting import quote

ALL: Final = ("main", "restricted", "universe", "multiverse")


@frozen
class Components(Subject):
    """Those of Ubuntu's archive alone."""

    # sorted; empty where apt has no list of that archive at all
    enabled: tuple[str, ...] = read_with(lambda self: components_in(ask_apt(self.reader, POLICY)))

    @property
    def off(self) -> tuple[str, ...]:
        """Those that apt has no list of; none where it knows no archive of Ubuntu's."""
        return tuple(one for one in ALL if one not in self.enabled) if self.enabled else ()


def turn_on(names: tuple[str, ...]) -> str:
    """What a person does so that apt has lists of these components: a sentence with the
    commands.
    """
    each = " && ".join(f"sudo add-apt-repository {quote(name)}" for name in names)
    plural = "s" if len(names) > 1 else ""
    return (
        f"apt has no list of Ubuntu's component{plural} {' and '.join(names)}: {each} && sudo "
        "apt-get update"
    )
