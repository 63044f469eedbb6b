"""How fast the processors may run and do run, and for how long heat has held them down.

Sources: kernel, Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst (scaling_max_freq,
cpuinfo_max_freq, base_frequency, boost, no_turbo; kHz), arch/x86/kernel/cpu/proc.c ("cpu MHz", the
mean clock of the last tick of each processor), arch/x86/kernel/cpu/mce/therm_throt.c
(thermal_throttle: Intel's processors count it, AMD's do not), proc_loadavg(5). The first processor
of a socket is read for all of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy, make_shared
from hosttune.facts.reading import (
    derive,
    if_absent,
    read_integer,
    read_line,
    read_text,
    require_known,
)
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_CPUS = "/sys/devices/system/cpu"
_CPUINFO = "/proc/cpuinfo"
_LOADAVG = "/proc/loadavg"
_MHZ = regex(r"^cpu MHz\s*:\s*(\d+(?:\.\d+)?)$", re.MULTILINE)
_RUNNING = regex(r"[\d.]+ [\d.]+ [\d.]+ (\d+)/\d+ \d+")


@frozen
class Socket(Fact):
    """One processor as it is bought. Clocks are 0 where the kernel does not tell."""

    name: str  # socket 0
    max_mhz: float  # what it can do, boost included
    limit_mhz: float  # what it may do now: a setting, or a cooling device of the kernel
    base_mhz: float  # what it keeps under load; Intel's drivers tell it
    throttled_s: float  # for how long heat held it down since boot; 0 where it does not count
    throttled_percent: float  # likewise, of the time since boot


@frozen
class CpuClocks(Subject):
    """The clocks of all sockets."""

    @fact
    def sockets(self) -> tuple[Socket, ...]:
        return tuple(
            _read_socket(self.reader, self.facts, number, cpu)
            for number, cpu in enumerate(self.facts.cpu.first_of_sockets)
        )

    @fact
    def counts_throttling(self) -> bool:
        """The processors count what heat takes away."""
        return any(
            _throttled_ms(self.reader, cpu) is not None
            for cpu in self.facts.cpu.first_of_sockets[:1]
        )

    @fact
    def boost(self) -> str:
        """`on` | `off`; empty where there is no switch.

        intel_pstate has a switch that says the opposite; others one of cpufreq's own.
        """
        if (off := read_integer(self.reader, f"{_CPUS}/intel_pstate/no_turbo")) in (0, 1):
            return "off" if off else "on"
        return {0: "off", 1: "on"}.get(
            if_absent(read_integer(self.reader, f"{_CPUS}/cpufreq/boost"), -1), ""
        )

    # the clock of the fastest processor at this moment; 0 where the kernel does not tell
    fastest_mhz: float = read_with(
        lambda self: fastest_of(require_known(read_text(self.reader, _CPUINFO), _CPUINFO))
    )
    # tasks that run, or wait for a processor, at this moment
    running: int = read_with(
        lambda self: derive(read_line(self.reader, _LOADAVG), _LOADAVG, running_of)
    )

    @property
    def base_mhz(self) -> float:
        """The lowest clock that all sockets keep under load; 0 where the kernel does not tell."""
        return min((socket.base_mhz for socket in self.sockets), default=0.0)

    @property
    def max_mhz(self) -> float:
        """The highest clock that all sockets can do; 0 where the kernel does not tell."""
        return min((socket.max_mhz for socket in self.sockets), default=0.0)


def fastest_of(cpuinfo: str) -> float:
    """MHz of the fastest processor in /proc/cpuinfo; 0 where it names no clock (Arm)."""
    return max(map(float, _MHZ.findall(cpuinfo)), default=0.0)


def running_of(loadavg: str) -> int:
    """The number before the slash of /proc/loadavg: the averages count those that wait for a disk,
    too. Raises ValueError for anything else.
    """
    match = _RUNNING.fullmatch(loadavg)
    if match is None:
        message = f"{loadavg[:40]!r} is no load"
        raise ValueError(message)
    return int(match[1])


def _read_socket(reader: Reader, facts: Facts, number: int, cpu: int) -> Socket:
    throttled: Callable[[], float] = make_shared(lambda: (_throttled_ms(reader, cpu) or 0) / 1000)
    return Socket(
        name=f"socket {number}",
        max_mhz=lazy(_read_mhz, reader, cpu, "cpuinfo_max_freq"),
        limit_mhz=lazy(_read_mhz, reader, cpu, "scaling_max_freq"),
        base_mhz=lazy(_read_mhz, reader, cpu, "base_frequency"),
        throttled_s=lazy(throttled),
        throttled_percent=lazy(
            # 864 seconds are one percent of a day. The lower bound keeps a host that has just
            # booted from a share of next to nothing.
            lambda: round(throttled() / max(facts.pressure.uptime_days * 864, 1), 1)
        ),
    )


def _read_mhz(reader: Reader, cpu: int, name: str) -> float:
    return if_absent(read_integer(reader, f"{_CPUS}/cpu{cpu}/cpufreq/{name}"), 0) / 1000


def _throttled_ms(reader: Reader, cpu: int) -> int | None:
    return if_absent(
        read_integer(reader, f"{_CPUS}/cpu{cpu}/thermal_throttle/package_throttle_total_time_ms"),
        None,
    )
