"""The whole host between two looks: processors, memory, disks and pressure."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hosttune.host.reading.bounded import MOST_NAMES, names_in
from hosttune.measure.watch.kept import Kept, content_of
from hosttune.measure.watch.meter import Meter
from hosttune.measure.watch.parse import (
    CpuTimes,
    DiskCounters,
    cpu_times,
    disk_counters,
    host_times,
    parse_counter,
)
from hosttune.measure.watch.tick import DiskTick, HostTick, Pressure

# made of others, or none: they would count twice
_NO_DISK = ("loop", "ram", "dm-", "md", "sr", "zram", "fd", "nbd")
MOST_DISKS = 16


def read_governor(sys: str = "/sys") -> str:
    """What sets the clock of the first CPU (kernel: admin-guide/pm/cpufreq.rst); "" where nothing
    does.
    """
    content = content_of(f"{sys}/devices/system/cpu/cpu0/cpufreq/scaling_governor") or b""
    return content.decode("ascii", "replace").strip()


def has_smt(sys: str = "/sys") -> bool:
    """Whether cores have two threads each, and these count as CPUs (kernel:
    ABI/testing/sysfs-devices-system-cpu).
    """
    return (content_of(f"{sys}/devices/system/cpu/smt/active") or b"").strip() == b"1"


class HostCounters:
    """`proc` and `sys` are where they are, for tests."""

    def __init__(self, *, proc: str = "/proc", sys: str = "/sys") -> None:
        self._stat = Kept(f"{proc}/stat")
        self._vmstat = Kept(f"{proc}/vmstat")
        self._diskstats = Kept(f"{proc}/diskstats")
        self._pressure = {kind: Kept(f"{proc}/pressure/{kind}") for kind in ("cpu", "io", "memory")}
        self._disks = _list_disks(f"{sys}/block")
        self._times: tuple[CpuTimes | None, CpuTimes | None] = (None, None)
        self._pages: dict[bytes, int | None] = {}
        self._counters: dict[str, DiskCounters] | None = None
        self._meter = Meter(self._pressure)
        self._started: int | None = None
        self.kills: int | None = None  # for memory, as counted at the last look
        self.has_pressure = self._pressure["io"].read() is not None

    def look(self, seconds: float, cpus: frozenset[int] | None) -> tuple[HostTick, bool]:
        """What went on since the last look on the CPUs with these numbers (None: all), and whether
        any process was started meanwhile.
        """
        content = self._stat.read() or b""
        now = (host_times(content, cpus), cpu_times(content.split(b"\n", 1)[0]))
        (own, own_was), (whole, whole_was) = zip(now, self._times, strict=True)
        self._times = now
        started, self._started = self._started, parse_counter(content, b"processes")
        idle = iowait = busy = stolen = None
        if own is not None and own_was is not None and (passed := own.total - own_was.total) > 0:
            stolen = max(0.0, min(100.0, 100 * (own.stolen - own_was.stolen) / passed))
            iowait = max(0.0, min(100.0, 100 * (own.iowait - own_was.iowait) / passed))
            idle = max(0.0, min(100.0, 100 * (1 - (own.busy - own_was.busy) / passed)))
        if whole is not None and whole_was is not None:
            busy = max(0.0, (whole.busy - whole_was.busy) / os.sysconf("SC_CLK_TCK") / seconds)
        pages = self._page_rates(seconds)
        swapped = pages[b"pswpin"], pages[b"pswpout"]
        tick = HostTick(idle, iowait, busy, *swapped, pages[b"workingset_refault_file"], stolen)
        return tick, started is None or started != self._started

    def pressure(self, seconds: float) -> Pressure | None:
        """Of all processes; None without PSI."""
        return self._meter.look(seconds)

    def disks(self, seconds: float) -> tuple[DiskTick, ...] | None:
        """Those that had work."""
        content = self._diskstats.read()
        if content is None:
            return None
        was, self._counters = self._counters, disk_counters(content, self._disks)
        if was is None:
            return None
        ticks = [
            disk_tick(name, was[name], now, seconds)
            for name, now in self._counters.items()
            if name in was
        ]
        busy = [tick for tick in ticks if tick.read_bytes or tick.written_bytes or tick.in_flight]
        return tuple(
            sorted(busy, key=lambda tick: -tick.read_bytes - tick.written_bytes)[:MOST_DISKS]
        )

    def close(self) -> None:
        for file in (self._stat, self._vmstat, self._diskstats, *self._pressure.values()):
            file.close()

    def _page_rates(self, seconds: float) -> Mapping[bytes, float | None]:
        content = self._vmstat.read() or b""
        self.kills = parse_counter(content, b"oom_kill")
        rates: dict[bytes, float | None] = {}
        for name in (b"pswpin", b"pswpout", b"workingset_refault_file"):
            now, was = parse_counter(content, name), self._pages.get(name)
            if now is None and name.endswith(b"_file"):
                # before Linux 5.9 one counter for all pages
                now = parse_counter(content, b"workingset_refault")
            rates[name] = None if now is None or was is None else max(0.0, (now - was) / seconds)
            self._pages[name] = now
        return rates


def disk_tick(name: str, was: DiskCounters, now: DiskCounters, seconds: float) -> DiskTick:
    """Rates of one disk. Pure."""
    reads = now.reads - was.reads
    return DiskTick(
        name,
        max(0.0, (now.read_bytes - was.read_bytes) / seconds),
        max(0.0, (now.written_bytes - was.written_bytes) / seconds),
        (now.read_ms - was.read_ms) / reads if reads > 0 else None,
        max(0.0, (now.weighted_ms - was.weighted_ms) / 1000 / seconds),
    )


def _list_disks(folder: str) -> frozenset[bytes]:
    try:
        return frozenset(
            name.encode()
            for name in names_in(folder, MOST_NAMES)[0]
            if not name.startswith(_NO_DISK)
        )
    except OSError:
        return frozenset()
