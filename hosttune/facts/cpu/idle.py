"""How deep the processors may sleep, and how long they take to wake.

Sources: kernel, Documentation/admin-guide/pm/cpuidle.rst (states, and pm_qos_resume_latency_us of
each processor) and Documentation/ABI/testing/sysfs-devices-power. The first processor is read for
all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.facts.reading import if_absent, names_in, read_integer, read_line, require_known
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_CPU = "/sys/devices/system/cpu"
_STATE = regex(r"state\d+")
LIMIT = "power/pm_qos_resume_latency_us"


@frozen
class IdleState(Fact):
    """One depth of sleep."""

    name: str  # POLL, C1, C1E, C6, LPI-0 ...
    latency_us: int  # to wake from it, as the driver or the firmware says
    is_disabled: bool  # someone switched it off


@frozen
class Idle(Subject):
    """The states of idle processors, the shallowest first; none where the hypervisor decides."""

    # intel_idle, acpi_idle, haltpoll ...; none
    driver: str = read_with(
        lambda self: if_absent(read_line(self.reader, f"{_CPU}/cpuidle/current_driver"), "none")
    )
    # of the first processor
    states: tuple[IdleState, ...] = read_with(lambda self: _read_states(self.reader))
    # microseconds that waking may take: 0 for no limit, n/a for no time at all; empty where there
    # is none
    limit: str = read_with(
        lambda self: if_absent(read_line(self.reader, f"{_CPU}/cpu0/{LIMIT}"), "")
    )

    @property
    def slowest_us(self) -> int:
        """The longest that waking takes from a state that is not switched off; 0 without states."""
        return max((state.latency_us for state in self.states if not state.is_disabled), default=0)

    @property
    def slowest(self) -> str:
        """The name of that state."""
        deepest = max(
            (one for one in self.states if not one.is_disabled),
            key=lambda one: one.latency_us,
            default=None,
        )
        return deepest.name if deepest else ""


def _read_states(reader: Reader) -> tuple[IdleState, ...]:
    folder = f"{_CPU}/cpu0/cpuidle"
    names = sorted(
        filter(_STATE.fullmatch, names_in(reader, folder)), key=lambda name: int(name[5:])
    )
    return tuple(
        IdleState(
            name=require_known(read_line(reader, f"{folder}/{name}/name"), name),
            latency_us=require_known(read_integer(reader, f"{folder}/{name}/latency"), name),
            is_disabled=read_integer(reader, f"{folder}/{name}/disable") == 1,
        )
        for name in names
    )
