"""Services of this host that have nearly all the files open that they may.

A service has its limit from LimitNOFILE= of its unit, else from DefaultLimitNOFILE=, 1024:524288
(systemd.exec(5), systemd-system.conf(5)): neither limits.conf nor fs.file-max reaches it. From
Linux 6.2 on the size of /proc/PID/fd is the number of its open files (proc_pid_fd(5)); before, its
names are counted.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, attempt
from hosttune.facts.limits.limits import UNLIMITED, parse_limits
from hosttune.facts.limits.session_limits import KERNEL_NR_OPEN
from hosttune.facts.processes import is_of_host
from hosttune.facts.reading import hint, if_absent, parse_or_unknown
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.host.door import Reader

_SERVICE = regex(r"/system\.slice/(?:[^/]*\.slice/)*([^/]*\.service)(?:/|$)")
_MOST = 1000  # processes of services
_FEW = 900  # open files below which no limit is looked at: the least one in use is 1024
_NEAR = 0.9  # of the limit
_RAISED, _HARD = 65536, 524288


@frozen
class FullService(Fact):
    """A service with a process that is near its limit."""

    unit: str  # nix-daemon.service
    pid: int  # of that process
    files: int  # that it has open
    most: int  # that it may have open, the soft limit

    @property
    def text(self) -> str:
        """`nix-daemon.service (process 1500: 1019 of 1024)`."""
        return f"{self.unit} (process {self.pid}: {self.files} of {self.most})"

    @property
    def way_out(self) -> str:
        """How to give it more."""
        # What is full may be far above the default already, and fs.nr_open is the most that a
        # process may have.
        soft = max(_RAISED, min(4 * self.most, KERNEL_NR_OPEN))
        if soft <= self.most:
            return (
                f"see why {self.unit} has so many open: fs.nr_open ({KERNEL_NR_OPEN:,} unless set) "
                "allows no more"
            )
        edit = f"sudo systemctl edit {quote(self.unit)}"
        return (
            f"{edit}: LimitNOFILE={soft}:{max(soft, _HARD)} (in [Service]), and restart it in a "
            "quiet moment"
        )


@frozen
class ServiceFiles(Subject):
    """Those that are near their limit."""

    @fact
    def full(self) -> tuple[FullService, ...]:
        """Of each service the process that is nearest."""
        return () if self.reader.persistent_only else tuple(_find_full(self.reader))


def _find_full(reader: Reader) -> Iterator[FullService]:
    found: dict[str, FullService] = {}
    processes = if_absent(reader.processes(), ())
    named = ((one, _SERVICE.match(one.cgroup)) for one in processes)
    # Jobs of users may run below the service that starts them.
    of_services = (
        (one, service) for one, service in named if service is not None and is_of_host(one)
    )
    for process, service in islice(of_services, _MOST):
        files = _count_files(reader, f"/proc/{process.pid}/fd")
        # Few processes have that many files open, so the limits of all others are never read.
        most = _read_limit(reader, process.pid) if files >= _FEW else UNLIMITED
        other = found.get(service[1])
        # A process with more open than the limit has lowered it itself, as daemons do that give up
        # a right: no limit of the unit stops it.
        if _NEAR * most <= files <= most and (
            other is None or files / most > other.files / other.most
        ):
            found[service[1]] = FullService(service[1], process.pid, files, most)
    return iter(found.values())


def _read_limit(reader: Reader, pid: int) -> int:
    """UNLIMITED where it cannot be read, as of a process that ended."""
    rows = attempt(parse_or_unknown, parse_limits, hint(reader, f"/proc/{pid}/limits"))
    return (
        UNLIMITED
        if isinstance(rows, Unreadable)
        else rows.get("Max open files", (UNLIMITED, UNLIMITED))[0]
    )


def _count_files(reader: Reader, folder: str) -> int:
    """0 where that cannot be seen: of a process that ended, or of another user."""
    stat = reader.stat(folder)
    if isinstance(stat, Stat) and stat.size:
        return stat.size
    names = reader.list(folder) if isinstance(stat, Stat) else ()
    return len(names) if isinstance(names, tuple) else 0
