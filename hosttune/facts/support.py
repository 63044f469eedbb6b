"""Whether the installed release and the running kernel still get security updates, by the package's
own table.

Only kernels of Ubuntu's archive are judged that follow its schedule of HWE kernels: those of
NVIDIA, OEM and others have ends of their own, which no public table has.

Sources: hosttune/tables/support-ends.tsv; pro(1): with Ubuntu Pro esm-infra is a source of apt of
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.apt_decisions import make_unhold_command
from hosttune.facts.own_tables import read_own_table
from hosttune.facts.reading import is_there
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts

TABLE = "support-ends"
_ESM = (
    "/etc/apt/sources.list.d/ubuntu-esm-infra.sources",
    "/etc/apt/sources.list.d/ubuntu-esm-infra.list",
)
_OF_LTS = frozenset({"generic", "lowlatency"})  # their packages of HWE kernels name the release
_OF_CLOUDS = frozenset({"aws", "azure", "gcp", "gke", "ibm", "oracle"})
_NOTHING = "-"


@frozen
class Support(Subject):
    """The ends of support. A date is empty if support has not ended, or no row of the table says
    when it does.
    """

    # the table has the release
    is_listed: bool = read_with(lambda self: bool(_release_row(self.facts)))

    @fact
    def release_ended(self) -> str:
        """2026-07-09."""
        for end, with_pro in _release_row(self.facts):
            has_pro = with_pro != _NOTHING and any(is_there(self.reader, path) for path in _ESM)
            last = with_pro if has_pro else end
            return last if last < self.facts.host.today else ""
        return ""

    @fact
    def release_ends_with_pro(self) -> str:
        """2030-04-23, if Ubuntu Pro would still cover it; else empty."""
        return next(
            (
                esm
                for _, esm in _release_row(self.facts)
                if esm != _NOTHING and esm >= self.facts.host.today
            ),
            "",
        )

    @fact
    def kernel_ended(self) -> str:
        """2025-08, the last month."""
        flavour = self.facts.kernel.flavour.partition("-")[0]
        if self.facts.os.id != "ubuntu" or flavour not in _OF_LTS | _OF_CLOUDS:
            return ""
        number = ".".join(map(str, self.facts.kernel.version))
        key = ["kernel", self.facts.os.id, self.facts.os.version_id, number]
        ends = (row[4] for row in read_own_table(TABLE).rows if list(row[:4]) == key)
        return next((end for end in ends if end < self.facts.host.today[:7]), "")

    # what brings the kernel that takes its place: linux-image-generic-hwe-24.04; empty for none
    kernel_package: str = read_with(lambda self: _kernel_package(self.facts))

    @fact
    def unhold(self) -> str:
        """How a person takes the holds off it and off the running kernel; empty for none."""
        names = filter(
            None, (_kernel_package(self.facts), f"linux-image-{self.facts.kernel.release}")
        )
        held = [name for name in names if self.facts.packages[name].is_held]
        return make_unhold_command(held) if held else ""


def _release_row(facts: Facts) -> tuple[tuple[str, str], ...]:
    """(the last day, the last day with Ubuntu Pro) of the installed release; none if the table has
    not got it.
    """
    key = ["release", facts.os.id, facts.os.version_id]
    return tuple((row[3], row[4]) for row in read_own_table(TABLE).rows if list(row[:3]) == key)


def _kernel_package(facts: Facts) -> str:
    """Clouds' packages follow the newest kernel of the release by themselves."""
    flavour = facts.kernel.flavour
    if flavour.partition("-")[0] in _OF_LTS:
        return f"linux-image-{flavour}-hwe-{facts.os.version_id}"
    return f"linux-image-{flavour}" if flavour.partition("-")[0] in _OF_CLOUDS else ""
