"""Counters of the host and of one disk.

/sys/dev/block/M:N/stat (kernel: Documentation/block/stat.rst, sectors of 512 bytes), /proc/stat
(proc_stat(5)), /proc/pressure (Documentation/accounting/psi.rst, `total=` in microseconds),
/proc/self/io (proc_pid_io(5)).
"""

from __future__ import annotations

import os
import re
import time

from hosttune.frozen import frozen
from hosttune.host.reading.bounded import head_text
from hosttune.regex import regex

_MOST_BYTES = 16 << 20  # of one file: /proc/stat has a number for each interrupt of each CPU

SECTOR = 512
# The pattern must not step over a second `some`: on hostile text a plain `.*?` would try each pair
# of marks.
_TOTAL = regex(r"some (?:(?!some ).)*?total=(\d+)")


@frozen
class DiskReading:
    """What a block device has done since it was there."""

    read_bytes: int
    busy_s: float  # with at least one request in flight

    def since(self, before: DiskReading) -> DiskReading:
        return DiskReading(
            self.read_bytes - before.read_bytes,
            self.busy_s - before.busy_s,
        )


@frozen
class Moment:
    """The host at one moment; differences of two moments say who worked in between. Stalls are None
    without PSI.
    """

    at_s: float  # monotonic
    host_cpu_s: float  # spent by all programs of the host
    own_cpu_s: float  # of it, by this process and its ended children
    cpu_stall_s: float | None  # some task waited for a processor
    io_stall_s: float | None
    disk: DiskReading | None
    own_read_bytes: int
    stolen_s: float = 0.0  # a processor was wanted, and the hypervisor did not give it


def parse_disk(content: str) -> DiskReading | None:
    """The one line of .../stat."""
    fields = content.split()
    # Linux 4.18 and 5.5 added fields behind these eleven, so more are no error
    # (Documentation/block/stat.rst).
    if len(fields) < 11 or not all(field.isdecimal() for field in fields[:11]):
        return None
    return DiskReading(int(fields[2]) * SECTOR, int(fields[9]) / 1000)


def parse_host_cpu(content: str, ticks_per_s: int) -> tuple[float, float]:
    """Seconds that programs had of all processors (user and nice of the first line of /proc/stat),
    and seconds stolen.

    Not system: the kernel's own threads write back and decrypt for this very bench. Stolen time is
    no program's either: a hypervisor that serves the requests of a virtual disk takes it from who
    made them (proc_stat(5)).
    """
    fields = content.split("\n", 1)[0].split()
    user, nice, steal = (int(fields[place]) if len(fields) > place else 0 for place in (1, 2, 8))
    return (user + nice) / ticks_per_s, steal / ticks_per_s


def parse_stall(content: str) -> float | None:
    """Seconds in which some task waited."""
    found = _TOTAL.search(content)
    return int(found[1]) / 1e6 if found else None


def read_disk(device: str) -> DiskReading | None:
    """The counters of the block device "major:minor"; None where there is none."""
    return parse_disk(_read_text(f"/sys/dev/block/{device}/stat")) if device else None


def read_moment(device: str) -> Moment:
    """The host at this moment, with the disk "major:minor"."""
    used = os.times()
    # `read_bytes` is what came from a device; `rchar`, which counts the page cache too, would make
    # a warm pass look like disk traffic.
    own_io = re.search(r"^read_bytes: (\d+)", _read_text("/proc/self/io"), re.MULTILINE)
    programs, stolen = parse_host_cpu(_read_text("/proc/stat") or "cpu", os.sysconf("SC_CLK_TCK"))
    return Moment(
        at_s=time.monotonic(),
        host_cpu_s=programs,
        own_cpu_s=used.user + used.children_user,
        cpu_stall_s=parse_stall(_read_text("/proc/pressure/cpu")),
        io_stall_s=parse_stall(_read_text("/proc/pressure/io")),
        disk=read_disk(device),
        own_read_bytes=int(own_io[1]) if own_io else 0,
        stolen_s=stolen,
    )


def _read_text(path: str) -> str:
    # empty without PSI, and where it was compiled in but switched off
    return head_text(path, _MOST_BYTES)
