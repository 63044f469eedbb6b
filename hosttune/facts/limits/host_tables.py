"""Tables of the whole kernel that fill up: tracked connections, open files; and how many processes
a session, or a service that starts jobs, may have.

Kernel: networking/nf_conntrack-sysctl.rst (nf_conntrack_count, nf_conntrack_max; absent while the
module is not loaded), sysctl/fs.rst (file-nr: allocated, unused, most),
net/netfilter/nf_conntrack_core.c (nf_conntrack_in: the column `drop` of /proc/net/stat/nf_conntrack
counts also what a full table of that network namespace drops). Services get their limit from
LimitNPROC=, else from DefaultLimitNPROC= (systemd.exec(5), systemd-system.conf(5)), and jobs and
containers get it from the service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.limits.session_limits import parse_amount
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_CONNTRACK = "/proc/sys/net/netfilter/nf_conntrack"
_STATISTICS = "/proc/1/net/stat/nf_conntrack"  # of the host's own network namespace; numbers in hex
_FILES = "/proc/sys/fs/file-nr"
_STARTS_JOBS = ("slurmd.service", "docker.service", "containerd.service")
_OF_ALL_SERVICES = "system.conf/Manager/DefaultLimitNPROC"


@frozen
class HostTables(Subject):
    """How full they are. A counter that is not there counts nothing."""

    @fact
    def connections(self) -> int:
        """That conntrack knows now."""
        return parse_digits(_read_counter(self.reader, f"{_CONNTRACK}_count").strip(), 0)

    @fact
    def most_connections(self) -> int:
        """0 if connections are not tracked."""
        return parse_digits(_read_counter(self.reader, f"{_CONNTRACK}_max").strip(), 0)

    @fact
    def files(self) -> int:
        """Open in all of the host."""
        return self._files[0]

    @fact
    def most_files(self) -> int:
        """fs.file-max."""
        return self._files[1]

    @fact
    def has_dropped(self) -> bool:
        """The kernel logged in the last day that a table was full, and that may be the host's
        own.
        """
        return self.facts.device_log.conntrack_full > 0 and may_be_own(
            _read_counter(self.reader, _STATISTICS)
        )

    @fact
    def has_refused_files(self) -> bool:
        """The kernel logged in the last day that no program could open another file."""
        return self.facts.device_log.files_exhausted

    @fact
    def session_processes(self) -> str:
        """What a file sets as the most processes of any user; empty if no file does."""
        return self._processes[0]

    @fact
    def session_processes_place(self) -> str:
        """FILE:LINE."""
        return self._processes[1]

    @fact
    def session_locked(self) -> str:
        """KiB of memory that a session of any user may lock, as a file sets it; empty if no file
        does.
        """
        return self._locked[0]

    @fact
    def session_locked_place(self) -> str:
        """FILE:LINE."""
        return self._locked[1]

    @fact
    def job_processes(self) -> str:
        """The same, hard, of the service with the least that starts jobs or containers; empty if
        unset.
        """
        return self._jobs[0]

    @fact
    def job_processes_place(self) -> str:
        """FILE:LINE."""
        return self._jobs[1]

    @fact
    def _files(self) -> tuple[int, int]:
        return files_in(_read_counter(self.reader, _FILES))

    @fact
    def _processes(self) -> tuple[str, str]:
        return _limit_of_sessions(self.facts, "nproc")

    @fact
    def _locked(self) -> tuple[str, str]:
        return _limit_of_sessions(self.facts, "memlock")

    @fact
    def _jobs(self) -> tuple[str, str]:
        """The least hard limit that a file sets for an installed service of these, and the place.
        Slurm replaces the soft one by that of the submitting session (PropagateResourceLimits), so
        the soft one is not judged.
        """
        kept: list[tuple[float, str, str]] = []
        for unit in _STARTS_JOBS:
            setting = self.facts.unit_settings[f"{unit}/Service/LimitNPROC"]
            if setting.exists and not setting.is_masked:
                # A service without the key has the default of all services, so that a low default
                # counts as well.
                given = (setting.standing or self.facts.unit_settings[_OF_ALL_SERVICES].standing)[
                    -1:
                ]
                words = ((one, one.value.rpartition(":")[2]) for one in given)
                numbers = (
                    (parse_amount(word), word, f"{one.path}:{one.line}") for one, word in words
                )
                kept += [
                    (number, word, place) for number, word, place in numbers if number is not None
                ]
        _, value, place = min(kept, default=(0.0, "", ""))
        return value, place

    @property
    def connections_percent(self) -> float:
        """How full the table of connections is."""
        return 100 * self.connections / self.most_connections if self.most_connections else 0.0

    @property
    def files_percent(self) -> float:
        """How much of fs.file-max is in use."""
        return 100 * self.files / self.most_files if self.most_files else 0.0


def _read_counter(reader: Reader, path: str) -> str:
    answer = reader.read(path)
    if isinstance(answer, Unreadable):
        raise UnknownFact(answer.reason)
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else ""


def files_in(content: str) -> tuple[int, int]:
    """(allocated, most) of file-nr; zeros for anything else."""
    numbers = [parse_digits(word, 0) for word in content.split()[:3]]
    return (numbers[0], numbers[2]) if len(numbers) == 3 else (0, 0)


def may_be_own(statistics: str) -> bool:
    """Whether the host's own table dropped a packet: a user may fill one in a network namespace of
    the own. True if the statistics do not tell.
    """
    head, *rows = [row.split() for row in statistics.splitlines()] or [[]]
    if "drop" not in head or not rows:
        return True
    # Kernels have moved the columns of this file, so the head names the one that counts.
    column = head.index("drop")
    return any(row[column].strip("0") for row in rows if len(row) > column)


def _limit_of_sessions(facts: Facts, item: str) -> tuple[str, str]:
    """The soft limit for all users that counts, of a session that starts now. A hard one below it
    lowers it.
    """
    kept: dict[str, tuple[float, str, str]] = {}
    for one in facts.session_limits[item].lines:
        number = parse_amount(one.given.value)
        # A line that pam_limits would not take leaves the limit of the line before it.
        if one.domain == "*" and number is not None:
            kept[one.kind] = (number, one.given.value, f"{one.given.path}:{one.given.line}")
    _, value, place = min(kept.values(), default=(0.0, "", ""))
    return value, place
