"""How hard the machine has to look for memory: stalls, swapping and kills.

Sources: pressure stall information (kernel: Documentation/accounting/psi.rst; /proc/pressure/*),
proc_vmstat(5), /proc/uptime (proc(5)), memory.events (Documentation/admin-guide/cgroup-v2.rst). The
averages over a minute are the kernel's own, so nothing is looked at twice and nothing waits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.reading import (
    derive,
    if_absent,
    names_in,
    read_integer,
    read_text,
    require_sure,
)
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_LINE = regex(r"(some|full) avg10=([\d.]+) avg60=([\d.]+) avg300=([\d.]+) total=(\d+)")
_STALLS = "/proc/pressure"
_VMSTAT = "/proc/vmstat"
_UPTIME = "/proc/uptime"
_GROUPS = "/sys/fs/cgroup"
HUGE_PAGE = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"
_OFF = (
    "the kernel does not measure stalls: no /proc/pressure (psi=1 on its command line switches it "
    "on)"
)


@frozen
class Stall(Fact):
    """The share of the time, in percent, in which work stood still for want of one thing."""

    some_60: float  # at least one task waited, in the last minute
    some_300: float  # percent of the last 300 s in which some tasks waited
    full_60: float  # all tasks that had work waited at the same time
    full_300: float  # percent of the last 300 s in which all tasks waited


@frozen
class PressureStalls(Subject):
    """Stalls now, and what the kernel has counted since it started."""

    # the kernel keeps pressure stall information
    is_measured: bool = read_with(lambda self: not _is_off(self.reader, "memory"))
    memory: Stall = read_with(lambda self: _read_stall(self.reader, "memory"))  # for want of memory
    io: Stall = read_with(lambda self: _read_stall(self.reader, "io"))  # for want of a disk

    @fact
    def swapped_in_bytes(self) -> int:
        """Read back from swap since the start."""
        return _swapped_in(self.reader, self._counters)

    @fact
    def oom_kills(self) -> int:
        """Processes that the kernel killed for want of memory, those of control groups included."""
        return _count_kills(self._counters)

    @fact
    def oom_groups(self) -> tuple[str, ...]:
        """Control groups at the top level in which it did."""
        return _killed_in(self.reader) if self._counters.get("oom_kill") else ()

    # since the start
    uptime_days: float = read_with(
        lambda self: derive(read_text(self.reader, _UPTIME), _UPTIME, seconds_in) / 86400
    )

    @fact
    def _counters(self) -> Mapping[str, int]:
        return derive(read_text(self.reader, _VMSTAT), _VMSTAT, parse_counters)


def parse_stall(content: str) -> Stall:
    """The two lines of a file of /proc/pressure. Raises ValueError where they are not there."""
    found = {row[0]: row for row in _LINE.findall(content)}
    if not {"some", "full"} <= found.keys():
        message = f"says {content[:60]!r}"
        raise ValueError(message)
    some, full = found["some"], found["full"]
    return Stall(float(some[2]), float(some[3]), float(full[2]), float(full[3]))


def parse_counters(content: str) -> Mapping[str, int]:
    """`name number` lines, as in /proc/vmstat and memory.events."""
    rows = (row.split() for row in content.splitlines())
    return {
        row[0]: number
        for row in rows
        if len(row) == 2 and (number := parse_digits(row[1], -1)) >= 0
    }


def _is_off(reader: Reader, name: str) -> bool:
    """With psi=0 the files are not made; before Linux 5.13 they were there and refused to be read
    (EOPNOTSUPP).
    """
    answer = reader.read(f"{_STALLS}/{name}")
    is_refused = isinstance(answer, Unreadable) and "not supported" in answer.reason
    return is_refused or require_sure(answer) is ABSENT


def _read_stall(reader: Reader, name: str) -> Stall:
    if _is_off(reader, name):
        raise UnknownFact(_OFF)
    return derive(read_text(reader, f"{_STALLS}/{name}"), f"{_STALLS}/{name}", parse_stall)


def _count_kills(counters: Mapping[str, int]) -> int:
    if "oom_kill" not in counters:
        raise UnknownFact(f"{_VMSTAT} has no oom_kill")
    return counters["oom_kill"]


def _swapped_in(reader: Reader, counters: Mapping[str, int]) -> int:
    """A kernel without swap has no pswpin."""
    pages = counters.get("pswpin", 0)
    return pages * _page_bytes(reader) if pages else 0


def _page_bytes(reader: Reader) -> int:
    """The size of a page: a huge page of the middle level holds as many pages as pointers of 8
    bytes fit into one (transhuge.rst, hpage_pmd_size): 2 MiB for 4 KiB, 512 MiB for the 64 KiB of
    some Arm kernels.
    """
    size = read_integer(reader, HUGE_PAGE)
    if size is ABSENT or size <= 0:
        raise UnknownFact(f"{HUGE_PAGE} does not tell the size of a page")
    return math.isqrt(8 * size)


def _killed_in(reader: Reader) -> tuple[str, ...]:
    """memory.events counts what happened in a group and below it."""
    return tuple(
        name
        for name in names_in(reader, _GROUPS)
        if name.endswith((".slice", ".scope")) or name in {"docker", "kubepods"}
        if parse_counters(if_absent(read_text(reader, f"{_GROUPS}/{name}/memory.events"), "")).get(
            "oom_kill"
        )
    )


def seconds_in(uptime: str) -> float:
    """The first number of /proc/uptime. Raises ValueError for anything else."""
    seconds = uptime.partition(" ")[0]
    if not re.fullmatch(r"\d+(\.\d+)?", seconds):
        message = f"{uptime[:40]!r} is no number of seconds"
        raise ValueError(message)
    return float(seconds)
