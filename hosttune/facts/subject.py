"""A subject of facts, declared: each field says in one place what it means, what type it has and
where it is read.

    @frozen
    class Writing(Subject):
        # where programs that write are made to wait
        dirty_ratio: int = number("/proc/sys/vm/dirty_ratio")
        # snapd is set up
        has_snap: bool = read_with(lambda self: is_there(self.reader, "/var/snap"))

        @fact
        def waiting_bytes(self) -> int:
            '''Written by programs and not yet on a disk.'''
            return derive(read_text(self.reader, MEMINFO), MEMINFO, waiting_in)

A field is made when it is first touched, then kept; so is the reason why it could not be read. A
fact whose name begins with an underscore is a part that several fields are made of: rules and
documents do not see it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from hosttune.facts.base import Fact, UnknownFact, lazy
from hosttune.facts.reading import read_integer, require_known
from hosttune.frozen import Lazy, lay_aside
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

T = TypeVar("T")
NOT_GIVEN = Unreadable("this fact was not given")  # the value of a field that a test leaves out
NO_MAKERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType({})


class FactMaker(Generic[T]):
    """How a field of a subject is made; of one with an underscore also the way to it."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, subject: None, kind: type) -> Self: ...
    @overload
    def __get__(self, subject: object, kind: type) -> T: ...
    def __get__(self, subject: Any, kind: type) -> Any:
        if subject is None:
            return self
        made: Any = subject.parts.get(self.name)
        if made is None:
            # one step: all threads meet at one
            made = subject.parts.setdefault(self.name, lazy(self.make, subject))
        value = made.value()
        if type(value) is Unreadable:
            raise UnknownFact(value.reason)
        return value


def fact(make: Callable[[Any], T]) -> FactMaker[T]:
    """Of a method: its value is a field of the subject, and its docstring what that means."""
    return FactMaker(make)


class SubjectType(type):
    """Makes the facts of a class fields, in the order in which they are written. Raises TypeError
    for one that is written as a field of a dataclass, which nothing would read.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
        # `frozen` makes a second class of the first, which has fields and makers already
        if "MAKERS" not in members:
            types: dict[str, Any] = members.get("__annotations__", {})
            facts = {
                field: member for field, member in members.items() if isinstance(member, FactMaker)
            }
            if unread := types.keys() - facts.keys():
                raise TypeError(f"{name} does not say how {', '.join(sorted(unread))} is read")
            makers = {field: one.make for field, one in facts.items() if not field.startswith("_")}
            given = {
                field: types.get(field) or make.__annotations__["return"]
                for field, make in makers.items()
            }
            members |= dict.fromkeys(makers, NOT_GIVEN) | {
                "__annotations__": given,
                "MAKERS": MappingProxyType(makers),
            }
        return super().__new__(cls, name, bases, members)


class Subject(Fact, metaclass=SubjectType):
    """What a host is in one respect: base of the classes that `Facts` has, each decorated with
    `frozen`.
    """

    __slots__ = ("facts", "parts", "reader")
    MAKERS = NO_MAKERS  # field -> how it is made
    if TYPE_CHECKING:
        reader: Reader
        facts: Facts
        parts: dict[str, Lazy]

    @classmethod
    def look(cls, reader: Reader, facts: Facts) -> Self:
        """The subject of one host, of which nothing is read yet."""
        made = cls.__new__(cls)
        for name, value in (("reader", reader), ("facts", facts), ("parts", {})):
            object.__setattr__(made, name, value)
        lay_aside(made, {name: lazy(make, made) for name, make in cls.MAKERS.items()})
        return made


def read_with(make: Callable[[Subject], T]) -> T:
    """A field that one expression makes."""
    return cast("T", fact(make))


def number(path: str, *, absent: int | None = None, times: int = 1) -> int:
    """A field: the number in a file of the kernel, `times` this; `absent` where there is no such
    file. Without `absent` a missing file is an unknown fact.
    """

    def make(subject: Subject) -> int:
        found = read_integer(subject.reader, path)
        return (
            absent if found is ABSENT and absent is not None else require_known(found, path) * times
        )

    return cast("int", fact(make))
