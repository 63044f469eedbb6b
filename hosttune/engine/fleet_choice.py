"""Which look counts where a host was looked at more than once: the newest. Pure.

A host is a name with a machine id. Machines of one name (`ubuntu`) are hosts of their own. A look that does not know
the machine id belongs to the one machine of that name that a file of the same name tells of; else it is one of its own.

The person who gathers files chooses their names; their content comes from the hosts. So if a file is named after a
host, no file of another name counts for that host, unless its look is older; and a file that tells of several hosts
takes no place of one that tells of that host and no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")
_SHOWN = 8  # digits of a machine id beside a name that several machines have


@frozen
class Chosen(Generic[T]):
    """The look that counts of one host: the name it is told by, and what was kept of it."""

    name: str
    kept: T


@frozen
class _Machine:
    """What tells one machine of a name from another: its id; where that is not known, the name of the file."""

    id: str
    file: str = ""

    def __str__(self) -> str:
        return f"machine {self.id[:_SHOWN]}" if self.id else self.file or "machine unknown"


# Whether its file tells of no other host, at, source, what to keep.
_Newest = dict[_Machine, tuple[bool, str, str, T]]


class LookCollector(Generic[T]):
    """Collects (host, machine id, at, source, what to keep). `at` compares as text: ISO 8601, UTC, to the second.
    `named` are the hosts that files are named after.
    """

    def __init__(self, named: frozenset[str] = frozenset()) -> None:
        self._named = named
        self._newest: dict[str, _Newest[T]] = {}
        self._files: dict[tuple[str, str], set[str]] = {}  # by host and machine id: the names of the files
        self._older: dict[tuple[str, _Machine], int] = {}
        self._claims: list[tuple[str, str, str]] = []  # host, at, source

    def add(
        self, host: str, machine: str, at: str, source: str, kept: T, *, of: str = "", is_alone: bool = True
    ) -> None:
        """One more look; `of` is what its file is named after, `is_alone` whether it tells of no other host. Of two at
        the same time the later source by name counts: some rule has to.
        """
        if host in self._named and of != host:
            self._claims.append((host, at, source))
            return
        machines = self._newest.setdefault(host, {})
        if machine:
            self._files.setdefault((host, machine), set()).add(of)
        self._take(host, machines, _Machine(machine, "" if machine else of), (is_alone, at, source, kept))

    def _take(self, host: str, machines: _Newest[T], machine: _Machine, look: tuple[bool, str, str, T]) -> None:
        known = machines.get(machine)
        if known is None:
            machines[machine] = look
            return
        older, machines[machine] = sorted((known, look), key=lambda one: one[:3])
        if older[1] > machines[machine][1]:
            self._claims.append((host, older[1], older[2]))
        else:
            self._older[host, machine] = self._older.get((host, machine), 0) + 1

    def chosen(self) -> Iterator[Chosen[T]]:
        """The looks that count."""
        self._join()
        for host, machines in self._newest.items():
            for machine, (*_, kept) in machines.items():
                yield Chosen(self._name(host, machine), kept)

    def older(self) -> Iterator[str]:
        """A host for each look that does not count."""
        self._join()
        for (host, machine), count in self._older.items():
            yield from [self._name(host, machine)] * count
        yield from (host for host, at, _ in self._claims if self._is_over(host, at))

    def refused(self) -> Iterator[tuple[str, str]]:
        """The looks that do not count, as another file is that of their host: (source, host)."""
        self._join()
        yield from ((source, host) for host, at, source in self._claims if not self._is_over(host, at))

    def _is_over(self, host: str, at: str) -> bool:
        return any(newest > at for _, newest, _, _ in self._newest.get(host, {}).values())

    def shared(self) -> Iterator[tuple[str, list[str]]]:
        """The machine ids that several names have, with the names."""
        names: dict[str, list[str]] = {}
        for host, machines in self._newest.items():
            for machine in machines:
                if machine.id:
                    names.setdefault(machine.id, []).append(host)
        yield from ((machine, sorted(hosts)) for machine, hosts in names.items() if len(hosts) > 1)

    def _name(self, host: str, machine: _Machine) -> str:
        """The host, with its machine where the name is not enough."""
        return host if len(self._newest[host]) == 1 else f"{host} ({machine})"

    def _join(self) -> None:
        """Count the looks without a machine id to the only machine of that name, where a file of that name knows it."""
        for host, machines in self._newest.items():
            known = [one for one in machines if one.id]
            if len(known) != 1:
                continue
            for machine in [one for one in machines if not one.id]:
                if machine.file in {host, *self._files[host, known[0].id]}:
                    older = self._older.pop((host, machine), 0)
                    self._take(host, machines, known[0], machines.pop(machine))
                    self._older[host, known[0]] = self._older.get((host, known[0]), 0) + older
