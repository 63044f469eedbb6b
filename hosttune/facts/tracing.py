"""What a look hung on: which paths and programs were asked, which facts were touched. So that a second look at the same
host, behind a plan that was tried, takes over what the plan cannot have changed.

Only for hosts that answer from what lies still (a record, a folder of files): on a running host another answer may come
with time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hosttune.host.door import BeforeReader, Completed, Process, Reader, ReaderKind, Space, Stat
from hosttune.values import Answer

if TYPE_CHECKING:
    from hosttune.facts import Facts

TRACED: frozenset[str] = frozenset({"record", "root"})  # kinds of readers


class Reach(Protocol):
    """What a tried plan can have changed."""

    def holds_path(self, path: str) -> bool:
        """Whether the answers about a path may be others now."""
        ...

    def holds_query(self, argv: tuple[str, ...]) -> bool:
        """Whether a program may answer otherwise now."""
        ...


class Trace:
    """The paths, programs and facts behind one value."""

    __slots__ = ("facts", "paths", "queries")

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.queries: set[tuple[str, ...]] = set()
        self.facts: dict[str, Any] = {}

    def stands(self, facts: Facts, reach: Reach) -> bool:
        """Whether the value is what it would be now: the same answers, and the same facts in `facts`."""
        return (
            not any(map(reach.holds_path, self.paths))
            and not any(map(reach.holds_query, self.queries))
            and all(getattr(facts, name) is fact for name, fact in self.facts.items())
        )


class Asking(BeforeReader):
    """A Reader that notes what it is asked. What no plan changes is not noted: processes, free space, the time."""

    def __init__(self, base: Reader, trace: Trace) -> None:
        super().__init__(base)
        self._note = trace.paths.add
        self._note_query = trace.queries.add

    @property
    def kind(self) -> ReaderKind:
        return self.base.kind

    def read(self, path: str) -> Answer[bytes]:
        self._note(path)
        return self.base.read(path)

    def list(self, path: str) -> Answer[tuple[str, ...]]:
        self._note(path)
        return self.base.list(path)

    def link(self, path: str) -> Answer[str]:
        self._note(path)
        return self.base.link(path)

    def stat(self, path: str, *, follow: bool = True) -> Answer[Stat]:
        self._note(path)
        return self.base.stat(path, follow=follow)

    def resolve(self, path: str) -> Answer[str]:
        self._note(path)
        return self.base.resolve(path)

    def query(self, argv: Sequence[str], *, timeout_s: float = 10.0) -> Answer[Completed]:
        self._note_query(tuple(argv))
        return self.base.query(argv, timeout_s=timeout_s)

    def space(self, path: str) -> Answer[Space]:
        return self.base.space(path)

    def processes(self) -> Answer[tuple[Process, ...]]:
        return self.base.processes()

    def os_release(self) -> Answer[Mapping[str, str]]:
        return self.base.os_release()

    def now(self) -> float:
        return self.base.now()


class Noting:
    """Facts that note which of them are touched."""

    def __init__(self, facts: Facts, trace: Trace) -> None:
        self.SUBJECTS = facts.SUBJECTS
        self.asked = facts.asked
        self.reader = Asking(facts.reader, trace)
        self._facts = facts
        self._touched = trace.facts

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._facts, name)
        self._touched[name] = value
        self.__dict__[name] = value
        return value
