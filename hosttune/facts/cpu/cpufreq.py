"""Who sets the clocks of the processors, and how eagerly.

Source: kernel, Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst, amd-pstate.rst. The first processor is
for all; what differs between them is seen where the values are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.reading import if_absent, read_line
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_FOLDER = "/sys/devices/system/cpu/cpu0/cpufreq"


@frozen
class Cpufreq(Fact):
    """Texts are empty where the kernel sets no clocks (virtual machines, firmware that keeps them to itself)."""

    driver: str  # intel_pstate, intel_cpufreq, amd-pstate-epp, acpi-cpufreq, cppc_cpufreq ...
    governor: str  # performance, powersave, schedutil ...
    governors: tuple[str, ...]  # that may be chosen
    preference: str  # energy_performance_preference: performance, balance_performance ...; empty without

    @property
    def is_autonomous(self) -> bool:
        """The processor itself picks the clock by a preference; `powersave` then means: as needed."""
        return bool(self.preference)


def collect(reader: Reader, facts: Facts) -> Cpufreq:  # noqa: ARG001 - the interface of all subjects
    return Cpufreq(
        driver=lazy(_read_word, reader, "scaling_driver"),
        governor=lazy(_read_word, reader, "scaling_governor"),
        governors=lazy(lambda: tuple(_read_word(reader, "scaling_available_governors").split())),
        preference=lazy(_read_word, reader, "energy_performance_preference"),
    )


def _read_word(reader: Reader, name: str) -> str:
    return if_absent(read_line(reader, f"{_FOLDER}/{name}"), "")
