"""Which look counts where a host was looked at more than once: the newest. Pure.

A host is a name with a machine id. Machines of one name (`ubuntu`) are hosts of their own, and a look that does not
know the machine id belongs to the one machine of that name, where there is one only.

The person who gathers files chooses their names; their content comes from the hosts. So if a file is named after a
host, no file of another name counts for that host, unless its look is older.
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


class LookCollector(Generic[T]):
    """Collects (host, machine, at, source, what to keep). `at` compares as text: ISO 8601, UTC, to the second. `named`
    are the hosts that files are named after.
    """

    def __init__(self, named: frozenset[str] = frozenset()) -> None:
        self._named = named
        self._newest: dict[str, dict[str, tuple[str, str, T]]] = {}
        self._older: dict[tuple[str, str], int] = {}
        self._claims: list[tuple[str, str, str]] = []  # host, at, source

    def add(self, host: str, machine: str, at: str, source: str, kept: T, *, of: str = "") -> None:
        """One more look; `of` is what its file is named after. Of two at the same time the later source by name counts:
        some rule has to.
        """
        if host in self._named and of != host:
            self._claims.append((host, at, source))
            return
        machines = self._newest.setdefault(host, {})
        known = machines.get(machine)
        if known is not None:
            self._older[host, machine] = self._older.get((host, machine), 0) + 1
        if known is None or (at, source) > known[:2]:
            machines[machine] = (at, source, kept)

    def chosen(self) -> Iterator[Chosen[T]]:
        """The looks that count."""
        for host, machines in self._newest.items():
            for machine, (_, _, kept) in _joined(machines).items():
                yield Chosen(self._name(host, machine), kept)

    def older(self) -> Iterator[str]:
        """A host for each look that does not count."""
        for host, machines in self._newest.items():
            joined = _joined(machines)
            for machine in machines:
                kept = machine if machine in joined else next(iter(joined))
                idle = self._older.get((host, machine), 0) + (machine not in joined)
                yield from [self._name(host, kept)] * idle
        yield from (host for host, at, _ in self._claims if self._is_over(host, at))

    def refused(self) -> Iterator[tuple[str, str]]:
        """The looks that do not count, as another file is named after their host: (source, host)."""
        yield from ((source, host) for host, at, source in self._claims if not self._is_over(host, at))

    def _is_over(self, host: str, at: str) -> bool:
        return any(newest > at for newest, _, _ in self._newest.get(host, {}).values())

    def shared(self) -> Iterator[tuple[str, list[str]]]:
        """The machine ids that several names have, with the names."""
        names: dict[str, list[str]] = {}
        for host, machines in self._newest.items():
            for machine in machines:
                if machine:
                    names.setdefault(machine, []).append(host)
        yield from ((machine, sorted(hosts)) for machine, hosts in names.items() if len(hosts) > 1)

    def _name(self, host: str, machine: str) -> str:
        """The host, with its machine where the name is not enough."""
        if len(_joined(self._newest[host])) == 1:
            return host
        return f"{host} (machine {machine[:_SHOWN] or 'unknown'})"


def _joined(machines: dict[str, tuple[str, str, T]]) -> dict[str, tuple[str, str, T]]:
    """Machines of one name, a look of unknown machine counted to the only other one."""
    if len(machines) != 2 or "" not in machines:
        return machines
    (machine,) = (one for one in machines if one)
    return {machine: max(machines.values(), key=lambda entry: entry[:2])}
