"""Frozen dataclasses that are quick to make.

A start makes over a hundred of them, and every method that `dataclass` writes for one is compiled
from text: 0.5 ms a class with Python 3.11, which was the larger part of what a check cost beyond
typer. So all but `__init__` are shared, and that is written when a class has more than a few
values; of most classes a run makes none.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda decorator: decorator


T = TypeVar("T")
_FEW = 4  # values of a class that cost less than its `__init__`, written and compiled


class Lazy:
    """The value of a field that is made when someone asks for it: once, for all who ask, and from
    any thread.
    """

    __slots__ = ("_arguments", "_lock", "_make", "_value")
    _value: Any

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self._make: Callable[..., Any] | None = make
        self._arguments = arguments
        # One that its own thread may take again: a value that asks for itself fails by recursion,
        # and does not wait for ever.
        self._lock = RLock()

    def value(self) -> Any:
        """What `make` returns; what it raises is raised, and the next who asks tries again."""
        if self._make is None:
            return self._value
        with self._lock:
            # Again: another thread may have made it while this one waited.
            if self._make is not None:
                self._value = self._make(*self._arguments)
                self._make, self._arguments = None, ()
            return self._value


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """As `dataclass(frozen=True, slots=True)`, with methods that are not compiled for each class.

    They look at the fields as they are stored, so that a fact that could not be read can be
    compared and printed too: a class may have values of some types kept aside (ASIDE), see
    hosttune/facts/base.py.
    """
    made: Any = dataclass(slots=True, init=False, eq=False, repr=False)(_set_signature(cls))
    compared = _call_once(
        lambda: tuple(_make_getter(made, one.name) for one in fields(made) if one.compare)
    )
    stored = _call_once(
        lambda: tuple(
            (_make_getter(made, one.name), _make_setter(made, one.name)) for one in fields(made)
        )
    )

    def values(self: object) -> tuple[Any, ...]:
        return tuple(get(self) for get in compared())

    def equal(self: object, other: object) -> Any:
        return (
            values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented
        )

    def text(self: object) -> str:
        shown = (
            f"{one.name}={_make_getter(made, one.name)(self)!r}" for one in fields(made) if one.repr
        )
        return f"{made.__qualname__}({', '.join(shown)})"

    few: list[None] = []  # an entry for each value

    def init(self: object, *given: Any, **named: Any) -> None:
        few.append(None)
        if len(few) > _FEW or not _fill_fields(self, given, named):
            made.__init__ = _make_initializer(made)
            made.__init__(self, *given, **named)

    def restore(self: object, state: list[Any]) -> None:
        for (_, put), value in zip(stored(), state, strict=True):
            put(self, value)

    methods = {
        "__init__": init, "__eq__": equal, "__hash__": lambda self: hash(values(self)),
        "__repr__": text, "__setattr__": _refuse, "__delattr__": _refuse, "__setstate__": restore,
        "__getstate__": lambda self: [get(self) for get, _ in stored()],
    }  # fmt: skip
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _call_once(make: Callable[[], T]) -> Callable[[], T]:
    """`make`, at its first use, and then what it gave: of most classes nothing is asked, and
    functools.cache takes longer to wrap it than it takes.
    """
    made: list[T] = []

    def get() -> T:
        if not made:
            made.append(make())
        return made[0]

    return get


def _set_signature(cls: type[T]) -> type[T]:
    """`dataclass` writes the signature of a class without a text of its own into it, which takes it
    long to find.
    """
    cls.__doc__ = cls.__doc__ or cls.__name__
    return cls


def _refuse(self: object, name: str, *value: object) -> None:
    raise FrozenInstanceError(
        f"cannot {'assign to' if value else 'delete'} field {name!r} of {type(self).__name__}"
    )


def get_stored(value: object, name: str) -> object:
    """A field as it is stored, also one that is kept aside; a lazy one is made now. Raises
    AttributeError if there is none.
    """
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        kept = _kept_aside(value, name)
        if kept is None:
            raise
    return _make_kept(value, name, kept)


def get_set_aside(value: object, name: str) -> object:
    """As `get_stored`, of a field whose own place is known to be empty."""
    kept = _kept_aside(value, name)
    return get_stored(value, name) if kept is None else _make_kept(value, name, kept)


def _make_kept(value: object, name: str, kept: object) -> object:
    """What was kept aside; a lazy one is made, and takes its place."""
    if type(kept) is Lazy:
        kept = kept.value()
        _make_setter(type(value), name)(value, kept)
    return kept


def _kept_aside(value: object, name: str) -> object:
    """None where nothing is."""
    try:
        kept: dict[str, object] = _find_aside(type(value)).__get__(value)
    except AttributeError:
        return None
    return kept.get(name)


def _make_getter(cls: type, name: str) -> Any:
    """How a field is read as it is stored."""
    get = getattr(cls, name).__get__
    if not hasattr(cls, "ASIDE"):
        return get
    return lambda self: get_stored(self, name)


def _make_setter(cls: type, name: str) -> Any:
    """How a field is stored, past `__setattr__`."""
    put = getattr(cls, name).__set__
    if not hasattr(cls, "ASIDE"):
        return put
    kinds = cls.ASIDE
    return lambda self, value: (
        _put_aside(self, name, value) if type(value) in kinds else put(self, value)
    )


def _put_aside(self: object, name: str, value: object) -> None:
    place = _find_aside(type(self))
    try:
        place.__get__(self)[name] = value
    except AttributeError:
        place.__set__(self, {name: value})


def lay_aside(value: object, kept: dict[str, Any]) -> None:
    """Give a new value of a class with ASIDE its fields, each of a type that is kept aside."""
    _find_aside(type(value)).__set__(value, kept)


def _find_aside(cls: type) -> Any:
    return getattr(cls, "_unread")  # noqa: B009 - the place of it, not a value


def _fill_fields(self: object, given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Store the fields as the written `__init__` would. False, and nothing is stored, for what it
    would refuse.
    """
    cls = type(self)
    known = fields(cls)  # type: ignore[arg-type]
    values = dict(zip([one.name for one in known if not one.kw_only], given, strict=False))
    if len(values) < len(given) or not values.keys().isdisjoint(named):
        return False
    values |= named
    for one in known:
        if one.name not in values:
            if one.default is MISSING and one.default_factory is MISSING:
                return False
            values[one.name] = (
                one.default if one.default_factory is MISSING else one.default_factory()
            )
    if len(values) > len(known):
        return False
    for one in known:
        _make_setter(cls, one.name)(self, values[one.name])
    if hasattr(cls, "__post_init__"):
        self.__post_init__()  # type: ignore[attr-defined]
    return True


def _make_initializer(cls: type) -> Any:
    """`__init__` of the fields: positional or by name, with their defaults, storing past
    `__setattr__`.
    """
    kinds = getattr(cls, "ASIDE", None)
    known: dict[str, Any] = {"_MISSING": MISSING, "_ASIDE": kinds, "_TYPE": type}
    arguments: list[str] = ["self"]
    body: list[str] = ["    _LAID = {}"] if kinds else []
    for one in sorted(fields(cls), key=lambda one: bool(one.kw_only)):
        known[f"_put_{one.name}"] = getattr(cls, one.name).__set__
        value = one.name
        if one.default is not MISSING:
            known[f"_default_{one.name}"] = one.default
            value = f"{one.name}=_default_{one.name}"
        elif one.default_factory is not MISSING:
            known[f"_make_{one.name}"] = one.default_factory
            value = f"{one.name}=_MISSING"
            body.append(f"    if {one.name} is _MISSING: {one.name} = _make_{one.name}()")
        if one.kw_only and "*" not in arguments:
            arguments.append("*")
        arguments.append(value)
        is_aside = f"if _TYPE({one.name}) in _ASIDE: _LAID[{one.name!r}] = {one.name}\n    else: "
        body.append(f"    {is_aside if kinds else ''}_put_{one.name}(self, {one.name})")
    if kinds:
        known["_LAY_ASIDE"] = _find_aside(cls).__set__
        body.append("    if _LAID: _LAY_ASIDE(self, _LAID)")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()")
    exec(f"def __init__({', '.join(arguments)}):\n" + "\n".join(body or ["    pass"]), known)  # noqa: S102 - our own names
    made = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made
