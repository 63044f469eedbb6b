"""Which look counts where a host was looked at more than once: the newest. Pure.

A host is a name with a machine id. Machines of one name (`ubuntu`) are hosts of their own. A look
that does not know the machine id belongs to the one machine of that name that a file of the same
name tells of; else it is one of its own.

The person who gathers files chooses their names; their content comes from the hosts. So if a file
is named after a host, no file of another name counts for that host, unless its look is older; and a
file that tells of several hosts takes no place of one that tells of that host and no other. If
files of other names claim to be of one machine, any of them may be the work of another host: the
newest counts, and a fault of another one stays beside it. A look whose time is in the future counts
only if there is no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")
_SHOWN = 8  # digits of a machine id beside a name that several machines have


@frozen
class Chosen(Generic[T]):
    """The look that counts of one host: the name it is known by, and what was kept of it."""

    name: str
    kept: T


@frozen
class Choice(Generic[T]):
    """The looks that count, and the notes on the others."""

    chosen: list[Chosen[T]]
    older: list[str]  # a host for each look that does not count
    refused: list[tuple[str, str]]  # (source, host): another file is that of the host
    future: list[tuple[str, str]]  # (source, at): later than it was received
    # a host with the files of different names that claim to be of it
    disputed: list[tuple[str, tuple[str, ...]]]
    shared: list[tuple[str, list[str]]]  # the machine ids that several names have, with the names


@frozen
class _Machine:
    """What tells one machine of a name from another: its id; where that is not known, the name of
    the file.
    """

    id: str
    file: str = ""

    def __str__(self) -> str:
        return f"machine {self.id[:_SHOWN]}" if self.id else self.file or "machine unknown"


@frozen
class _HostLook(Generic[T]):
    """One look at a machine."""

    is_past: bool  # its time is not in the future
    is_alone: bool  # its file tells of no other host
    at: str
    source: str
    kept: T
    faults: frozenset[str] = frozenset()

    @property
    def rank(self) -> tuple[bool, bool, str, str]:
        # A look from the future ranks below all others, or a host whose clock is wrong would never
        # be seen anew.
        return self.is_past, self.is_alone, self.at, self.source


_Looks = dict[str, _HostLook[T]]  # by the name of the file


class LookCollector(Generic[T]):
    """Collects (host, machine id, at, source, what to keep). `at` compares as text: ISO 8601, UTC,
    to the second. `named` are the hosts that files are named after.
    """

    def __init__(self, named: frozenset[str] = frozenset()) -> None:
        self._named = named
        self._looks: dict[str, dict[_Machine, _Looks[T]]] = {}
        self._older: dict[tuple[str, _Machine], int] = {}
        self._claims: list[tuple[str, str, str]] = []  # host, at, source
        self._future: list[tuple[str, str]] = []  # source, at

    def add(
        self,
        host: str,
        machine: str,
        at: str,
        source: str,
        kept: T,
        *,
        of: str = "",
        is_alone: bool = True,
        is_past: bool = True,
        faults: Iterable[str] = (),
    ) -> None:
        """One more look; `of` is what its file is named after, `is_alone` whether it tells of no
        other host, `is_past` whether its time had come when it was received. Of two at the same
        time the later source by name counts: some rule has to.
        """
        if not is_past:
            self._future.append((source, at))
        if host in self._named and of != host:
            # Not refused yet: if it is only older than the look that counts, it is no claim worth a
            # remark.
            self._claims.append((host, at, source))
            return
        looks = self._looks.setdefault(host, {}).setdefault(
            _Machine(machine, "" if machine else of), {}
        )
        one = _HostLook(is_past, is_alone, at, source, kept, frozenset(faults))
        self._take(host, _Machine(machine, "" if machine else of), looks, of, one)

    def _take(
        self, host: str, machine: _Machine, looks: _Looks[T], of: str, look: _HostLook[T]
    ) -> None:
        """Of the files of one name the newest look counts."""
        known = looks.get(of)
        if known is None:
            looks[of] = look
            return
        other, looks[of] = sorted((known, look), key=lambda one: one.rank)
        self._leave_out(host, machine, other, looks[of])

    def _leave_out(
        self, host: str, machine: _Machine, look: _HostLook[T], chosen: _HostLook[T]
    ) -> None:
        if not look.is_past:
            return  # reported as such
        if look.at > chosen.at:
            self._claims.append((host, look.at, look.source))
        else:
            self._older[host, machine] = self._older.get((host, machine), 0) + 1

    def result(self) -> Choice[T]:
        """The looks that count, and the notes on the others. Ask once, after all were added."""
        self._join()
        chosen: list[Chosen[T]] = []
        disputed: list[tuple[str, tuple[str, ...]]] = []
        newest: dict[str, str] = {}
        for host, machines in self._looks.items():
            for machine, looks in machines.items():
                name = self._name(host, machine)
                first, *others = sorted(looks.items(), key=lambda item: item[1].rank, reverse=True)
                counted = [first, *self._hiding(host, machine, first[1], others)]
                chosen += [
                    Chosen(
                        name if len(counted) == 1 else f"{name} ({of or look.source})", look.kept
                    )
                    for of, look in counted
                ]
                if others:
                    disputed.append((name, tuple(sorted(look.source for look in looks.values()))))
                if first[1].is_past:
                    newest[host] = max(newest.get(host, ""), first[1].at)
        older = [self._name(*key) for key, count in self._older.items() for _ in range(count)]
        refused = []
        for host, at, source in self._claims:
            if at < newest.get(host, ""):
                older.append(host)
            else:
                refused.append((source, host))
        return Choice(chosen, older, refused, self._future, disputed, list(self._find_shared()))

    def _hiding(
        self,
        host: str,
        machine: _Machine,
        chosen: _HostLook[T],
        others: Iterable[tuple[str, _HostLook[T]]],
    ) -> Iterator[tuple[str, _HostLook[T]]]:
        """Those of files of other names with a fault that would be hidden. Any host can write the
        name of another.
        """
        known = set(chosen.faults)
        for of, look in others:
            # What shows nothing new is left out. A fault stays beside, since any host can write a
            # good look under the name of another.
            if look.faults <= known:
                self._leave_out(host, machine, look, chosen)
            else:
                known |= look.faults
                yield of, look

    def _find_shared(self) -> Iterator[tuple[str, list[str]]]:
        """The machine ids that several names have, with the names."""
        names: dict[str, list[str]] = {}
        for host, machines in self._looks.items():
            for machine in machines:
                if machine.id:
                    names.setdefault(machine.id, []).append(host)
        yield from ((machine, sorted(hosts)) for machine, hosts in names.items() if len(hosts) > 1)

    def _name(self, host: str, machine: _Machine) -> str:
        """The host, with its machine where the name is not enough."""
        return host if len(self._looks[host]) == 1 else f"{host} ({machine})"

    def _join(self) -> None:
        """Count the looks without a machine id to the only machine of that name, where a file of
        that name knows it.
        """
        for host, machines in self._looks.items():
            known = [one for one in machines if one.id]
            # With several machines of one name no one can decide which of them it was.
            if len(known) != 1:
                continue
            for machine in [one for one in machines if not one.id]:
                if machine.file in {host, *machines[known[0]]}:
                    older = self._older.pop((host, machine), 0)
                    for of, look in machines.pop(machine).items():
                        self._take(host, known[0], machines[known[0]], of, look)
                    self._older[host, known[0]] = self._older.get((host, known[0]), 0) + older
