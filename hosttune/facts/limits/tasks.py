"""How many tasks (processes and threads) may be started, and how near to that the host is.

Kernel: Documentation/admin-guide/cgroup-v2.rst (pids.current, pids.max, pids.events),
sysctl/kernel.rst (pid_max, threads-max), proc_loadavg(5). systemd sets pids.max: TasksMax=, 15 % of
what the kernel allows for a service, 33 % for all of a user (systemd.resource-control(5),
systemd-system.conf(5)).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy
from hosttune.facts.containers.kubernetes import DAEMONS
from hosttune.facts.reading import hint, names_in, read_integer, read_line, read_text, require_known
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.host.door import Reader

_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/pids")  # version 2; the controller of version 1
_SERVICES = (
    "slurmd.service",
    "slurmstepd.scope",
    "docker.service",
    "containerd.service",
    *DAEMONS,
    "ssh.service",
)
_MOST_USERS = 1000
_MOST_SERVICES = 400
_USER = regex(r"user-\d+\.slice")
_REFUSED = regex(r"max (\d+)")
_TASKS = regex(r"\S+ \S+ \S+ \d+/(\d+) \d+\s*")


@frozen
class TaskGroup(Fact):
    """A service or slice with a bound of its own."""

    name: str  # slurmd.service, user-1000.slice
    tasks: int  # now
    most: int  # tasks that it may have
    # how often a task was not started because of the bound, since the service or session was
    # started
    refused: int

    @property
    def percent(self) -> float:
        """How much of that is in use."""
        return _compute_percent(self.tasks, self.most)

    @property
    def way_out(self) -> str:
        """What takes the bound away at once and from then on, where that many tasks are meant
        (systemctl(1)).
        """
        return f"sudo systemctl set-property {quote(self.name)} TasksMax=infinity"

    @property
    def starts_jobs(self) -> bool:
        """Whether it is a service that starts jobs, containers or logins, so that all of them are
        concerned.
        """
        return self.name in _SERVICES

    @property
    def is_full(self) -> bool:
        """Whether being near the bound harms only its own work: logins, and another service that
        was refused a task.
        """
        return self.name.endswith(".slice") or (not self.starts_jobs and self.refused > 0)


@frozen
class Tasks(Subject):
    """The whole host, and the groups in which services, jobs and people start tasks."""

    @fact
    def total(self) -> int:
        """Tasks on the host."""
        match = _TASKS.fullmatch(
            str(require_known(read_text(self.reader, "/proc/loadavg"), "/proc/loadavg"))
        )
        if match is None:
            raise UnknownFact("/proc/loadavg does not say how many tasks there are")
        return int(match[1])

    # what the kernel allows: the lower of pid_max and threads-max
    most: int = read_with(
        lambda self: min(_bound(self.reader, name) for name in ("pid_max", "threads-max"))
    )
    # those with a bound: logins, and services of the system
    groups: tuple[TaskGroup, ...] = read_with(lambda self: tuple(_read_groups(self.reader)))

    @property
    def percent(self) -> float:
        """How much of what the host may have is in use."""
        return _compute_percent(self.total, self.most)


def _compute_percent(tasks: int, most: int) -> float:
    return round(100 * tasks / most, 1) if most else 0.0


def _bound(reader: Reader, name: str) -> int:
    path = f"/proc/sys/kernel/{name}"
    return require_known(read_integer(reader, path), path)


def _read_groups(reader: Reader) -> Iterator[TaskGroup]:
    for root in _ROOTS:
        services = names_in(reader, f"{root}/system.slice")
        users = [name for name in names_in(reader, f"{root}/user.slice") if _USER.fullmatch(name)]
        # Any of them may be the one that is full, so a part of them proves nothing.
        if len(users) > _MOST_USERS:
            raise UnknownFact(f"more than {_MOST_USERS:,} users are logged in")
        inner = [f"{root}/user.slice/{name}" for name in users]
        paths = [f"{root}/user.slice", *inner] if users else []
        named = [name for name in _SERVICES if name in services]
        for path in (*paths, *(f"{root}/system.slice/{name}" for name in named)):
            bound = read_line(reader, f"{path}/pids.max")
            # Without the controller there is no such file, and `max` bounds nothing.
            if bound is not ABSENT and bound != "max":
                yield _read_group(reader, path)
        # A scope is what a program asks for: docker-ID.scope has the bound of --pids-limit.
        others = (name for name in services if name.endswith(".service") and name not in _SERVICES)
        for name in islice(others, _MOST_SERVICES):
            if found := _read_other(reader, f"{root}/system.slice/{name}"):
                yield found


def _read_other(reader: Reader, path: str) -> TaskGroup | None:
    """A service that starts no jobs; None where it has no bound, or ended meanwhile."""
    tasks, most = (
        parse_digits(hint(reader, f"{path}/pids.{name}").strip(), -1) for name in ("current", "max")
    )
    if min(tasks, most) < 0:
        return None
    return TaskGroup(
        path.rpartition("/")[2], tasks, most, lazy(_count_refused, reader, f"{path}/pids.events")
    )


def _read_group(reader: Reader, path: str) -> TaskGroup:
    def count(name: str) -> int:
        return require_known(read_integer(reader, f"{path}/{name}"), f"{path}/{name}")

    return TaskGroup(
        name=path.rpartition("/")[2],
        tasks=lazy(count, "pids.current"),
        most=lazy(count, "pids.max"),
        refused=lazy(_count_refused, reader, f"{path}/pids.events"),
    )


def _count_refused(reader: Reader, path: str) -> int:
    content = attempt(read_text, reader, path)
    match = _REFUSED.match(content) if isinstance(content, str) else None
    return int(match[1]) if match else 0  # kernels before 4.5 do not count
