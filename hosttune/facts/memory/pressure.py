"""How hard the machine has to look for memory: stalls, swapping and kills.

Sources: pressure stall information (kernel: Documentation/accounting/psi.rst; /proc/pressure/*), proc_vmstat(5),
/proc/uptime (proc(5)), memory.events (Documentation/admin-guide/cgroup-v2.rst). The averages over a minute are the
kernel's own, so nothing is looked at twice and nothing waits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, unread
from hosttune.facts.reading import integer, known, text
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT, Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_LINE = regex(r"(some|full) avg10=([\d.]+) avg60=([\d.]+) avg300=([\d.]+) total=(\d+)")
_GROUPS = "/sys/fs/cgroup"
HUGE_PAGE = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"
_OFF = Unreadable("the kernel does not measure stalls: no /proc/pressure (psi=1 on its command line switches it on)")


@frozen
class Stall(Fact):
    """The share of the time, in percent, in which work stood still for want of one thing."""

    some_60: float  # at least one task waited, in the last minute
    some_300: float
    full_60: float  # all tasks that had work waited at the same time
    full_300: float


@frozen
class Pressure(Fact):
    """Stalls now, and what the kernel has counted since it started."""

    is_measured: bool  # the kernel keeps pressure stall information
    memory: Stall
    io: Stall
    swapped_in_bytes: int
    oom_kills: int  # processes that the kernel killed for want of memory, those of control groups included
    oom_groups: tuple[str, ...]  # top-level control groups in which it did
    uptime_days: float


def parse_stall(content: str) -> Stall | None:
    """The two lines of a file of /proc/pressure."""
    found = {row[0]: row for row in _LINE.findall(content)}
    if not {"some", "full"} <= found.keys():
        return None
    some, full = found["some"], found["full"]
    return Stall(float(some[2]), float(some[3]), float(full[2]), float(full[3]))


def parse_counters(content: str) -> Mapping[str, int]:
    """`name number` lines, as in /proc/vmstat and memory.events."""
    rows = (row.split() for row in content.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def collect(reader: Reader, facts: Facts) -> Pressure:  # noqa: ARG001 - the interface of all subjects
    memory = text(reader, "/proc/pressure/memory")
    vmstat = text(reader, "/proc/vmstat")
    counters = parse_counters(vmstat) if isinstance(vmstat, str) else {}

    def count(name: str) -> Any:
        if not isinstance(vmstat, str):
            return known(vmstat, "/proc/vmstat")
        return counters.get(name, unread(f"/proc/vmstat has no {name}"))

    return Pressure(
        is_measured=not _is_off(memory) if isinstance(memory, str) or _is_off(memory) else known(memory, ""),
        memory=_stall(memory),
        io=_stall(text(reader, "/proc/pressure/io")),
        swapped_in_bytes=_swapped_in(reader, counters) if isinstance(vmstat, str) else count("pswpin"),
        oom_kills=count("oom_kill"),
        oom_groups=_killed_in(reader) if counters.get("oom_kill") else (),
        uptime_days=_uptime(reader),
    )


def _is_off(answer: Answer[str]) -> bool:
    """With psi=0 the files are not made; before Linux 5.13 they were there and refused to be read (EOPNOTSUPP)."""
    return answer is ABSENT or (isinstance(answer, Unreadable) and "not supported" in answer.reason)


def _stall(answer: Answer[str]) -> Any:
    if not isinstance(answer, str):
        return _OFF if _is_off(answer) else answer
    stall = parse_stall(answer)
    return unread(f"/proc/pressure says {answer[:60]!r}") if stall is None else stall


def _swapped_in(reader: Reader, counters: Mapping[str, int]) -> Any:
    """A kernel without swap has no pswpin."""
    pages = counters.get("pswpin", 0)
    size = _page_bytes(reader) if pages else 0
    return size if isinstance(size, Unreadable) else pages * size


def _page_bytes(reader: Reader) -> int | Unreadable:
    """The size of a page: a huge page of the middle level holds as many pages as pointers of 8 bytes fit into one
    (transhuge.rst, hpage_pmd_size): 2 MiB for 4 KiB, 512 MiB for the 64 KiB of some Arm kernels.
    """
    size = integer(reader, HUGE_PAGE)
    if isinstance(size, int):
        return math.isqrt(8 * size)
    return Unreadable(f"{HUGE_PAGE} does not tell the size of a page")


def _killed_in(reader: Reader) -> tuple[str, ...]:
    """memory.events counts what happened in a group and below it."""
    names = reader.list(_GROUPS)
    killed = []
    for name in names if isinstance(names, tuple) else ():
        if name.endswith((".slice", ".scope")) or name in {"docker", "kubepods"}:
            events = text(reader, f"{_GROUPS}/{name}/memory.events")
            if isinstance(events, str) and parse_counters(events).get("oom_kill"):
                killed.append(name)
    return tuple(killed)


def _uptime(reader: Reader) -> Any:
    content = text(reader, "/proc/uptime")
    if not isinstance(content, str):
        return known(content, "/proc/uptime")
    seconds = content.partition(" ")[0]
    return float(seconds) / 86400 if re.fullmatch(r"\d+(\.\d+)?", seconds) else unread("/proc/uptime holds no number")
