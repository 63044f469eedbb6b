"""What the kernel writes into the files of /proc that a watch reads every second, parsed from
bytes. Pure.

Sources: proc_pid_stat(5), proc_pid_io(5), proc_stat(5), proc_vmstat(5), kernel:
Documentation/accounting/psi.rst, Documentation/admin-guide/iostats.rst,
Documentation/scheduler/sched-stats.rst. Each returns None for what it cannot read: counters are
never guessed.
"""

from __future__ import annotations

from typing import NamedTuple

SECTOR = 512
_DIGITS = 20  # of 64 bits
_IO_NAMES = [b"rchar:", b"wchar:", b"syscr:", b"syscw:", b"read_bytes:", b"write_bytes:"]


class ProcessStat(NamedTuple):
    """proc_pid_stat(5); times in clock ticks. `ended` is what children took that the process has
    waited for.
    """

    name: str
    state: str
    parent: int
    group: int
    session: int
    own: int
    ended: int
    threads: int
    started: int
    faults: int = 0  # page faults that had to wait for storage
    # where its stack begins, another one for each program; 0 if this user may not know
    stack: int = 0


class ProcessIo(NamedTuple):
    """proc_pid_io(5), bytes."""

    read: int
    device: int
    written: int


class CpuTimes(NamedTuple):
    """Of one CPU or of all, in clock ticks; `busy` counts stolen time, which others of the machine
    below had.
    """

    busy: int
    idle: int
    iowait: int
    stolen: int = 0

    @property
    def total(self) -> int:
        return self.busy + self.idle + self.iowait


class DiskCounters(NamedTuple):
    """iostats.rst; bytes and milliseconds."""

    reads: int
    read_bytes: int
    read_ms: int
    writes: int
    written_bytes: int
    write_ms: int
    weighted_ms: int


def process_stat(content: bytes) -> ProcessStat | None:
    head, _, rest = content.rpartition(b")")  # the name may hold blanks and parentheses
    fields = rest.split()
    try:
        return ProcessStat(
            head.partition(b"(")[2].decode("utf-8", "replace"),
            fields[0].decode("ascii", "replace"),
            int(fields[1]),
            int(fields[2]),
            int(fields[3]),
            int(fields[11]) + int(fields[12]),
            int(fields[13]) + int(fields[14]),
            int(fields[17]),
            int(fields[19]),
            int(fields[9]),
            int(fields[25]) if len(fields) > 25 else 0,
        )
    except (ValueError, IndexError):
        return None


def process_io(content: bytes) -> ProcessIo | None:
    words = content.split()
    if words[0:12:2] != _IO_NAMES:
        return None
    try:
        return ProcessIo(int(words[1]), int(words[9]), int(words[11]))
    except (IndexError, ValueError):
        return None


def _parse_number(word: bytes) -> int | None:
    return int(word) if word.isdigit() and len(word) <= _DIGITS else None


def run_delay(content: bytes) -> int | None:
    """Nanoseconds that a task was ready to run and waited for a CPU: the second field of
    /proc/PID/schedstat.
    """
    fields = content.split()
    return _parse_number(fields[1]) if len(fields) >= 2 else None


def count_turns(content: bytes) -> int | None:
    """How often a task was put on a CPU: the third field of /proc/PID/schedstat."""
    fields = content.split()
    return _parse_number(fields[2]) if len(fields) >= 3 else None


def pressure_totals(content: bytes) -> tuple[int | None, int | None]:
    """(some, full) in microseconds since the start. The whole host had no `full` for processors
    before Linux 5.13.
    """
    found: dict[bytes, int] = {}
    for line in content.splitlines():
        word, _, rest = line.partition(b" ")
        total = _parse_number(rest.rpartition(b"total=")[2])
        if total is not None:
            found[word] = total
    return found.get(b"some"), found.get(b"full")


def cpu_times(line: bytes) -> CpuTimes | None:
    """A line `cpu...` of /proc/stat. guest and guest_nice are in user and nice already."""
    try:
        fields = [int(field) for field in line.split()[1:]]
        user, nice, system, idle, iowait, irq, softirq, *rest = fields
    except ValueError:
        return None
    stolen = rest[0] if rest else 0
    return CpuTimes(user + nice + system + irq + softirq + stolen, idle, iowait, stolen)


def host_times(content: bytes, cpus: frozenset[int] | None) -> CpuTimes | None:
    """The CPUs with these numbers together, or all of them."""
    if cpus is None:
        return cpu_times(content.split(b"\n", 1)[0]) if content.startswith(b"cpu ") else None
    found = []
    for line in content.split(b"\n"):
        if not line.startswith(b"cpu"):
            break
        number = line[3:].split(b" ", 1)[0]
        if _parse_number(number) in cpus:
            times = cpu_times(line)
            if times is not None:
                found.append(times)
    if not found:
        return None
    return CpuTimes(*map(sum, zip(*found, strict=True)))


def parse_counter(content: bytes, name: bytes) -> int | None:
    """The number behind a name at the start of a line: /proc/vmstat, the line `processes` of
    /proc/stat.
    """
    at = 0 if content.startswith(name + b" ") else content.find(b"\n" + name + b" ") + 1
    if not at and not content.startswith(name + b" "):
        return None
    word = content[at : at + 80].split(b"\n", 1)[0].split()[-1]
    return _parse_number(word)


def disk_counters(content: bytes, wanted: frozenset[bytes]) -> dict[str, DiskCounters]:
    """/proc/diskstats of these devices."""
    found = {}
    for line in content.splitlines():
        fields = line.split()
        if len(fields) >= 14 and fields[2] in wanted:
            try:
                reads, _, sectors, read_ms, writes, _, written, write_ms, _, _, weighted = map(
                    int, fields[3:14]
                )
            except ValueError:
                continue
            found[fields[2].decode("utf-8", "replace")] = DiskCounters(
                reads, sectors * SECTOR, read_ms, writes, written * SECTOR, write_ms, weighted
            )
    return found
