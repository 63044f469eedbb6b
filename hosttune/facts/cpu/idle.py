"""How deep the processors may sleep, and how long they take to wake.

Sources: kernel, Documentation/admin-guide/pm/cpuidle.rst (states, and pm_qos_resume_latency_us of each processor) and
Documentation/ABI/testing/sysfs-devices-power. The first processor stands for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact
from hosttune.facts.reading import integer, known, line
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_CPU = "/sys/devices/system/cpu"
_STATE = regex(r"state\d+")
LIMIT = "power/pm_qos_resume_latency_us"


@frozen
class IdleState(Fact):
    """One depth of sleep."""

    name: str  # POLL, C1, C1E, C6, LPI-0 ...
    latency_us: int  # to wake from it, as the driver or the firmware says
    is_disabled: bool


@frozen
class Idle(Fact):
    """The states of idle processors, the shallowest first; none where the hypervisor decides."""

    driver: str  # intel_idle, acpi_idle, haltpoll ...; none
    states: tuple[IdleState, ...]
    limit: str  # microseconds that waking may take: 0 for no limit, n/a for no time at all; empty where there is none

    @property
    def slowest_us(self) -> int:
        """The longest that waking takes from a state that is not switched off; 0 without states."""
        return max((state.latency_us for state in self.states if not state.is_disabled), default=0)

    @property
    def slowest(self) -> str:
        """The name of that state."""
        deepest = max((one for one in self.states if not one.is_disabled), key=lambda one: one.latency_us, default=None)
        return deepest.name if deepest else ""


def collect(reader: Reader, facts: Facts) -> Idle:  # noqa: ARG001 - the interface of all subjects
    driver = line(reader, f"{_CPU}/cpuidle/current_driver")
    limit = line(reader, f"{_CPU}/cpu0/{LIMIT}")
    return Idle(
        driver="none" if driver is ABSENT else known(driver, "current_driver"),
        states=_states(reader),
        limit="" if limit is ABSENT else known(limit, LIMIT),
    )


def _states(reader: Reader) -> Any:
    folder = f"{_CPU}/cpu0/cpuidle"
    names = reader.list(folder)
    if not isinstance(names, tuple):
        return () if names is ABSENT else names
    states = []
    for name in sorted(filter(_STATE.fullmatch, names), key=lambda name: int(name[5:])):
        title = line(reader, f"{folder}/{name}/name")
        latency = integer(reader, f"{folder}/{name}/latency")
        disable = integer(reader, f"{folder}/{name}/disable")
        problem = next((one for one in (title, latency, disable) if isinstance(one, Unreadable)), None)
        if problem:
            return problem
        states.append(IdleState(known(title, name), known(latency, name), disable == 1))
    return tuple(states)
