"""Who sets the clocks of the processors, and how eagerly.

Source: kernel, Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst, amd-pstate.rst. The
first processor is for all; what differs between them is seen where the values are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.reading import if_absent, read_line
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_FOLDER = "/sys/devices/system/cpu/cpu0/cpufreq"


@frozen
class Cpufreq(Subject):
    """Texts are empty where the kernel sets no clocks (virtual machines, firmware that keeps them
    to itself).
    """

    # intel_pstate, intel_cpufreq, amd-pstate-epp, acpi-cpufreq, cppc_cpufreq ...
    driver: str = read_with(lambda self: _read_word(self.reader, "scaling_driver"))
    # performance, powersave, schedutil ...
    governor: str = read_with(lambda self: _read_word(self.reader, "scaling_governor"))

    @fact
    def governors(self) -> tuple[str, ...]:
        """That may be chosen."""
        return tuple(_read_word(self.reader, "scaling_available_governors").split())

    # energy_performance_preference: performance, balance_performance ...; empty without
    preference: str = read_with(
        lambda self: _read_word(self.reader, "energy_performance_preference")
    )

    @property
    def is_autonomous(self) -> bool:
        """The processor itself picks the clock by a preference; `powersave` then means: as
        needed.
        """
        return bool(self.preference)


def _read_word(reader: Reader, name: str) -> str:
    return if_absent(read_line(reader, f"{_FOLDER}/{name}"), "")
