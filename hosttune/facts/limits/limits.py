"""Limits of resources as the services have them that start jobs, and the kernel's bounds for open
files and inotify.

Sources: proc_pid_limits(5) and getrlimit(2), sysctl/fs.rst of the kernel (nr_open), inotify(7).
Files below /etc/security say nothing of services: systemd sets theirs (systemd.exec(5),
LimitNOFILE= and its like).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, attempt, lazy, make_shared
from hosttune.facts.containers.kubernetes import DAEMONS
from hosttune.facts.reading import derive, hint, if_absent, read_text
from hosttune.facts.subject import Subject, fact, number
from hosttune.frozen import frozen
from hosttune.host.processes.process_memory import user_of
from hosttune.numbers import parse_digits
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hosttune.host.door import Reader

UNLIMITED = 1 << 62  # means `unlimited`: more than any limit that means something
_GROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")
# unit -> the name of its daemon, as the kernel keeps it (proc_pid_comm(5))
_SERVICES = (
    ("slurmd.service", "slurmd"),
    ("docker.service", "dockerd"),
    ("containerd.service", "containerd"),
    *DAEMONS.items(),
    ("ssh.service", "sshd"),
)
_ROW = regex(r"^(Max [a-z]+(?: [a-z]+)*) {2,}(\S+) +(\S+)", re.MULTILINE)
_INOTIFY = "/proc/sys/fs/inotify"


@frozen
class ServiceLimits(Fact):
    """The limits of a running service (soft, hard); what it starts inherits them. UNLIMITED is
    above 10^18.
    """

    unit: str  # slurmd.service
    pid: int  # of its daemon
    memlock: int  # bytes of locked memory, the soft limit
    memlock_hard: int  # bytes
    nofile: int  # open files, the soft limit
    nofile_hard: int  # open files
    core: int  # bytes of a core file, the soft limit; 0: none is written

    @property
    def memlock_text(self) -> str:
        """How much memory it may lock, for people."""
        return "unlimited" if self.memlock >= UNLIMITED else f"{self.memlock // 1024} KiB"

    @property
    def starts_jobs(self) -> bool:
        """Whether jobs inherit from it; a login goes through PAM, which sets limits anew."""
        return self.unit != "ssh.service"


@frozen
class JobLimits(Subject):
    """What bounds jobs on this host."""

    @fact
    def services(self) -> tuple[ServiceLimits, ...]:
        """Those that run: slurmd, docker, containerd, those of Kubernetes, ssh."""
        return () if self.reader.persistent_only else tuple(_read_services(self.reader))

    nr_open: int = number("/proc/sys/fs/nr_open")  # the most open files that any limit may say
    inotify_instances: int = number(f"{_INOTIFY}/max_user_instances")  # of one user
    inotify_watches: int = number(f"{_INOTIFY}/max_user_watches")  # of one user

    @property
    def job_services(self) -> tuple[ServiceLimits, ...]:
        """Those whose limits jobs inherit."""
        return tuple(service for service in self.services if service.starts_jobs)


def parse_limits(content: str) -> Mapping[str, tuple[int, int]]:
    """`Max open files  1024  524288  files` -> {"Max open files": (1024, 524288)}. Raises
    ValueError without any.
    """
    rows = {
        name: (_parse_number(soft), _parse_number(hard))
        for name, soft, hard in _ROW.findall(content)
    }
    if not rows:
        message = "no limits in it"
        raise ValueError(message)
    return rows


def _parse_number(word: str) -> int:
    return UNLIMITED if word == "unlimited" else int(word)


def _read_services(reader: Reader) -> Iterator[ServiceLimits]:
    for unit, name in _SERVICES:
        pid = _find_daemon(reader, unit, name)
        path = f"/proc/{pid}/limits"
        content = attempt(read_text, reader, path) if pid else ABSENT
        if content is not ABSENT:  # it may have ended meanwhile
            yield _make_service(unit, pid, make_shared(derive, content, path, parse_limits))


def _find_daemon(reader: Reader, unit: str, name: str) -> int:
    """The process of a service that its control group names and that is called so; 0 where it does
    not run. What a user started there, a job of a slurmd without control groups, may be called so,
    too.
    """
    for folder in _GROUPS:
        names = reader.list(folder)  # asked once for all; an old record may not have it
        if isinstance(names, tuple) and unit not in names:
            continue
        pids = if_absent(read_text(reader, f"{folder}/{unit}/cgroup.procs"), "").split()
        for pid in sorted(pid for word in pids if (pid := parse_digits(word, 0))):
            status = attempt(read_text, reader, f"/proc/{pid}/status")  # not kept in records
            is_of_user = isinstance(status, str) and user_of(status) > 0
            # A user's program may carry the daemon's name and limits of its own: only root's
            # process is the daemon.
            if not is_of_user and hint(reader, f"/proc/{pid}/comm").strip() == name:
                return pid
    return 0


def _make_service(
    unit: str, pid: int, rows: Callable[[], Mapping[str, tuple[int, int]]]
) -> ServiceLimits:
    def limit(row: str, which: int) -> int:
        return rows().get(row, (UNLIMITED, UNLIMITED))[which]

    return ServiceLimits(
        unit=unit,
        pid=pid,
        memlock=lazy(limit, "Max locked memory", 0),
        memlock_hard=lazy(limit, "Max locked memory", 1),
        nofile=lazy(limit, "Max open files", 0),
        nofile_hard=lazy(limit, "Max open files", 1),
        core=lazy(limit, "Max core file size", 0),
    )
