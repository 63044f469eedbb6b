"""The processes of a name, as far as all users may see them: `processes["dockerd"].started_at`.

What they run with is asked of ps(1); when they were started stands in /proc (proc_pid_stat(5)). Names have at most 15
characters, as the kernel keeps them (proc_pid_comm(5)). In an image none runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy
from hosttune.facts.lookups import Lookup
from hosttune.facts.reading import ask, if_absent
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_NAME_LENGTH = 15


@frozen
class NamedProcesses(Fact):
    """All processes of one name."""

    commands: tuple[str, ...]  # their command lines; empty where none runs
    started_at: int  # when the first of them was started, in whole seconds since the epoch; 0 where none runs


@frozen
class Processes(Fact):
    """`processes["NAME"]`, for every name; only what was asked for is kept."""

    entries: Mapping[str, NamedProcesses]

    def __getitem__(self, name: str) -> NamedProcesses:
        return self.entries[name]


def collect(reader: Reader, facts: Facts) -> Processes:  # noqa: ARG001 - the interface of all subjects
    return Processes(Lookup(lambda name: NamedProcesses(lazy(_commands, reader, name), lazy(_started, reader, name))))


def _commands(reader: Reader, name: str) -> tuple[str, ...]:
    if reader.persistent_only:
        return ()
    answer = ask(reader, ("ps", "-C", name[:_NAME_LENGTH], "-o", "args="))
    if answer.errors.strip():
        raise UnknownFact(f"ps: {answer.errors.strip().splitlines()[0]}")
    return tuple(row.strip() for row in answer.text.splitlines() if row.strip())


def _started(reader: Reader, name: str) -> int:
    listed = () if reader.persistent_only else if_absent(reader.processes(), ())
    return min((int(one.started_at) for one in listed if one.name == name), default=0)
