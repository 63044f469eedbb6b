"""What every fact has in common: a field is read when it is touched, and one that could not be read
raises then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial, wraps
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from hosttune.frozen import Lazy, get_set_aside, get_stored
from hosttune.values import PartlyRead, Unreadable

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
F = TypeVar("F", bound="Fact")


class UnknownFact(Exception):
    """A rule touched a fact that could not be read; its finding is `unknown`, with this reason.

    The reason is for people: it names the file, the program or the right that is missing, never the
    field.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason  # of its own type (values.OnlyRunning)


class Fact:
    """Base of all fact dataclasses (frozen, slots). A field holding `make_unread(reason)` raises
    UnknownFact on access; one holding `lazy(...)` is made by it.

    Such a value is kept aside and the field's own place stays empty. Only there does Python come to
    `__getattr__`: a field that was read costs nothing more than any other, and expressions touch
    thousands of them.
    """

    __slots__ = ("_unread",)

    # frozen.py keeps values of these types in `_unread`: name -> value
    ASIDE = frozenset({Unreadable, Lazy})

    def __getattr__(self, name: str) -> Any:
        value = get_set_aside(self, name)  # raises AttributeError where there is no such field
        if type(value) is Unreadable:
            raise UnknownFact(value.reason)
        return value


class KnownPart(PartlyRead):
    """A list of which a part could not be read: `known` is what could, never empty, `reason` why
    there may be more.

    An iteration gives what is known and then raises UnknownFact. So `any` is true as soon as a
    known item decides, and `all` is false; all that needs the whole list (its length, an item by
    its place, a copy) raises. A proven fault is kept so without a word in the code that looks for
    it, and "no fault" still needs every answer.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        yield from self.known
        raise UnknownFact(self.reason)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, item: object) -> bool:
        return item in self.known or self._refuse()

    def __eq__(self, other: object) -> bool:
        """Another one is compared as it is, which tests of facts need; whether it equals a list is
        not known.
        """
        if isinstance(other, KnownPart):
            return (self.known, self.reason) == (other.known, other.reason)
        return self._refuse()

    def __hash__(self) -> int:
        return hash((self.known, self.reason))

    def __repr__(self) -> str:
        return f"KnownPart({self.known!r}, {self.reason!r})"

    def _refuse(self, *_: object) -> NoReturn:
        raise UnknownFact(self.reason)

    # All that would answer for the whole list raises. An inherited len() or slice would give the
    # known part for all of it, and a rule would say ok.
    __len__ = __getitem__ = __add__ = __radd__ = __lt__ = __le__ = __gt__ = __ge__ = (
        __reversed__
    ) = _refuse


def lacking_of(items: object) -> UnknownFact | None:
    """Why there may be more in a list; None for one that is known as a whole."""
    return UnknownFact(items.reason) if isinstance(items, KnownPart) else None


def known_part(known: Iterable[T], unknown: UnknownFact | None) -> tuple[T, ...]:
    """The list of these items; with `unknown`, of which they are a part. Raises it where nothing is
    known.
    """
    found = tuple(known)
    if unknown is None:
        return found
    if not found:
        raise unknown
    part: Any = KnownPart(found, unknown.reason)
    return cast("tuple[T, ...]", part)


def keep_known(make: Callable[[S], Iterable[T]], items: Iterable[S]) -> tuple[T, ...]:
    """What `make` gives for each item, in one list; a KnownPart where it raises UnknownFact for
    some of them, or where not all items are known. Raises UnknownFact where nothing is known.
    """
    found: list[T] = []
    unknown: UnknownFact | None = None
    rest = iter(items)
    while True:
        try:
            item = next(rest)
        except StopIteration:
            break
        except UnknownFact as end:
            unknown = unknown or end
            break
        try:
            found += make(item)
        except UnknownFact as lacking:
            unknown = unknown or lacking
    return known_part(found, unknown)


def known_items(items: Iterable[T]) -> list[T]:
    """The items that are known, for what may be made of a part: names, or words for people."""
    found: list[T] = []
    with suppress(UnknownFact):
        for item in items:
            found.append(item)  # noqa: PERF402 - what came before the UnknownFact stays
    return found


def any_known(test: Callable[[S], bool], items: Iterable[S]) -> bool:
    """Whether one of the items passes, also where others could not be read. Raises UnknownFact
    where none is known to pass, and one is not known to fail.
    """
    passed = keep_known(lambda item: (item,) if test(item) else (), items)
    return bool(passed)


def keep_last(make: Callable[[F], T]) -> Callable[[F], T]:
    """For a property of a fact: what it makes is kept for the fact that was asked last. A rule can
    ask for each of many thousand mounts, and would make a table of all of them each time.
    """
    last: list[tuple[F, T]] = []

    @wraps(make)
    def ask(fact: F) -> T:
        found = last[0] if last else None
        if found is None or found[0] is not fact:
            found = (fact, make(fact))
            last[:] = [found]
        return found[1]

    return ask


def make_unread(reason: str) -> Any:
    """The value of a fact field that could not be read (typed Any: it is in for any field type)."""
    return Unreadable(reason)


def attempt(make: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | Unreadable:
    """What `make` returns; Unreadable for the reason of the UnknownFact that it raises."""
    try:
        return make(*arguments, **named)
    except UnknownFact as unknown:
        return Unreadable(unknown.reason)


def read_or_default(look: Callable[[], T], otherwise: T) -> T:
    """What `look` gives, or `otherwise` where it touches a fact that could not be read."""
    try:
        return look()
    except UnknownFact:
        return otherwise


def lazy(make: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """The value of a fact field that is made when the field is first touched: what `make` returns,
    or unread for the reason of the UnknownFact that it raises.
    """
    made: Any = Lazy(partial(attempt, make, *arguments, **named))
    return cast("T", made)


def make_shared(make: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Callable[[], T]:
    """What several lazy fields are made of: it is made once, by the first that asks. Asking raises
    UnknownFact where it could not be read.
    """
    kept = Lazy(partial(attempt, make, *arguments, **named))

    def ask() -> T:
        value = kept.value()
        if isinstance(value, Unreadable):
            raise UnknownFact(value.reason)
        return cast("T", value)

    return ask


def read_at_once(kind: type[T], make: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """A fact that is read at once: what `make` returns; one that raises in every field what `make`
    raised.
    """
    made = attempt(make, *arguments, **named)
    if not isinstance(made, Unreadable):
        return made
    unknown: Any = kind
    return cast("T", unknown(**{field.name: made for field in fields(unknown)}))


def complete(value: object) -> None:
    """Read what no one has asked for yet of a fact, and of the facts in it."""
    if isinstance(value, Fact):
        for field in fields(value):  # type: ignore[arg-type]
            complete(get_stored(value, field.name))
    elif isinstance(value, (tuple, list, KnownPart)):
        for item in value.known if isinstance(value, KnownPart) else value:
            complete(item)
    elif isinstance(value, Mapping):
        for item in tuple(value.values()):  # another thread may ask by one more name meanwhile
            complete(item)


def get_raw(fact: object, name: str) -> object:
    """A field as it is stored, `Unreadable` included; never raises UnknownFact."""
    return get_stored(fact, name)
