"""Who sets the clocks of the processors, and how eagerly.

Source: kernel, Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst, amd-pstate.rst. The first processor stands
for all; what differs between them is seen where the values are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact
from hosttune.facts.reading import line
from hosttune.frozen import frozen
from hosttune.values import ABSENT, Answer

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
    governors = line(reader, f"{_FOLDER}/scaling_available_governors")
    return Cpufreq(
        driver=_or_empty(line(reader, f"{_FOLDER}/scaling_driver")),
        governor=_or_empty(line(reader, f"{_FOLDER}/scaling_governor")),
        governors=_words(governors),
        preference=_or_empty(line(reader, f"{_FOLDER}/energy_performance_preference")),
    )


def _words(answer: Answer[str]) -> Any:
    return tuple(answer.split()) if isinstance(answer, str) else () if answer is ABSENT else answer


def _or_empty(answer: Answer[str]) -> Any:
    return "" if answer is ABSENT else answer
