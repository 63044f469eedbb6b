"""The processes of a program of this host: `processes["dockerd"].started_at`.

Every process chooses its name and its command line. So a process counts if its executable has this
name, and it runs outside of containers with root's rights or as a user of the system (uid below
1000, adduser.conf(5)). Names have at most 15 characters (proc_pid_comm(5)); the start is in
proc_pid_stat(5). In an image none runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy, make_shared
from hosttune.facts.lookups import Lookup
from hosttune.facts.reading import if_absent
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import CONTAINED, FIRST_PERSON
from hosttune.host.reading.bounded import CUT
from hosttune.host.reading.effort import EFFORT
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Process

NAME_LENGTH = 15
CONTAINER = regex(
    r"(docker|cri-containerd|crio|libpod|nerdctl)[-/]([0-9a-f]{12,64})"
    r"|/(lxc)(?:\.payload)?[./]([\w.-]+)"
    r"|/(kubepods)(?:(?!/kubepods)[^ ])*/([0-9a-f]{64})$"
    r"|machine\.slice/(systemd-nspawn)@([^/]+)\.service"
)


@frozen
class NamedProcesses(Fact):
    """All processes of one program."""

    commands: tuple[str, ...]  # their command lines; empty where none runs
    # when the first of them was started, in whole seconds since the epoch; 0 where none runs
    started_at: int


@frozen
class Processes(Subject):
    """`processes["NAME"]`, for every name; only what was asked for is kept."""

    @fact
    def entries(self) -> Mapping[str, NamedProcesses]:
        return Lookup(self._select_named)

    @fact
    def _listed(self) -> tuple[Process, ...]:
        return () if self.reader.persistent_only else if_absent(self.reader.processes(), ())

    def _select_named(self, name: str) -> NamedProcesses:
        def look() -> tuple[Process, ...]:
            EFFORT.spent += len(self._listed)
            return _select_by_name(self._listed, name)

        found = make_shared(look)
        return NamedProcesses(
            commands=lazy(lambda: _list_commands(found())),
            started_at=lazy(lambda: min((int(one.started_at) for one in found()), default=0)),
        )

    def __getitem__(self, name: str) -> NamedProcesses:
        return self.entries[name]


def program_of(process: Process) -> str:
    """The name of the executable, as long as the kernel keeps names; empty where it is not
    known.
    """
    return process.program.removesuffix(" (deleted)").rpartition("/")[2][:NAME_LENGTH]


def container_of(cgroup: str) -> str:
    """`docker 0123456789ab` for the control group of a container's process; empty for all
    others.
    """
    found = tuple(CONTAINER.finditer(cgroup))
    if not found:
        return ""
    # the innermost one: docker in docker, kind
    kind, name = (group for group in found[-1].groups() if group)
    short = {"cri-containerd": "containerd", "libpod": "podman", "kubepods": "containerd"}.get(
        kind, kind
    )
    return f"{short} {name[:12] if re.fullmatch('[0-9a-f]{12,64}', name) else name}"


def is_of_system(process: Process) -> bool:
    """Whether it runs with root's rights, or as a user of the system, of this host or of a
    container.
    """
    return 0 <= process.uid < FIRST_PERSON


def is_of_host(process: Process) -> bool:
    """Whether it runs for this machine: root of a container calls its programs what it likes."""
    is_contained = container_of(process.cgroup) or process.program.startswith(CONTAINED)
    return is_of_system(process) and not is_contained


def is_daemon(process: Process, names: Collection[str]) -> bool:
    """Whether it runs one of these programs for the machine."""
    return is_of_host(process) and program_of(process) in names


def is_nameless(process: Process) -> bool:
    """Whether nothing tells whose process this is, or what it runs: in a record of before, or
    without root's rights.
    """
    return process.uid < 0 or (is_of_host(process) and not process.program)


def _select_by_name(listed: tuple[Process, ...], name: str) -> tuple[Process, ...]:
    short = name[:NAME_LENGTH]
    for one in listed:
        # The name is chosen by the process, and the program is not visible. It may be the daemon,
        # so that "it does not run" is not known either.
        if one.name[:NAME_LENGTH] == short and is_nameless(one):
            raise UnknownFact(
                f"whether process {one.pid} is {name} is not known: that needs root, and no older "
                "record"
            )
    return tuple(one for one in listed if is_daemon(one, (short,)))


def _list_commands(found: Iterable[Process]) -> tuple[str, ...]:
    if silent := next((one for one in found if one.command == (CUT,)), None):
        raise UnknownFact(
            f"the command line of process {silent.pid} ({silent.name}) could not be read"
        )
    return tuple(" ".join(one.command) for one in found)
