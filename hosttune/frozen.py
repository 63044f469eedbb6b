"""Frozen dataclasses that are quick to make.

A start makes over a hundred of them, and every method that `dataclass` writes for one is compiled from text: 0.5 ms
a class with Python 3.11, which was the larger part of what a check cost beyond typer. So all but `__init__` are shared,
and that is written when the first value of a class is made; of most classes a run makes none.
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


class Lazy:
    """The value of a field that is made when somebody asks for it: once, whoever asks, and from whichever thread."""

    __slots__ = ("_arguments", "_lock", "_make", "_value")

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self._make: Callable[..., Any] | None = make
        self._arguments = arguments
        self._lock = RLock()

    def value(self) -> Any:
        """What `make` returns; what it raises is raised, and the next who asks tries again."""
        with self._lock:
            if self._make is not None:
                self._value = self._make(*self._arguments)
                self._make, self._arguments = None, ()
            return self._value


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """As `dataclass(frozen=True, slots=True)`, with methods that are not compiled for each class.

    They look at the fields as they are stored, so that a fact that could not be read can be compared and printed too:
    a class may have values of some types kept aside (ASIDE), see hosttune/facts/base.py.
    """
    made: Any = dataclass(slots=True, init=False, eq=False, repr=False)(_documented(cls))
    compared = tuple(_getter(made, one.name) for one in fields(made) if one.compare)
    shown = tuple((one.name, _getter(made, one.name)) for one in fields(made) if one.repr)
    stored = tuple((_getter(made, one.name), _setter(made, one.name)) for one in fields(made))

    def values(self: object) -> tuple[Any, ...]:
        return tuple(get(self) for get in compared)

    def equal(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def text(self: object) -> str:
        return f"{made.__qualname__}({', '.join(f'{name}={get(self)!r}' for name, get in shown)})"

    def init(self: object, *given: Any, **named: Any) -> None:
        made.__init__ = _initializer(made)
        made.__init__(self, *given, **named)

    def restore(self: object, state: list[Any]) -> None:
        for (_, put), value in zip(stored, state, strict=True):
            put(self, value)

    methods = {
        "__init__": init, "__eq__": equal, "__hash__": lambda self: hash(values(self)), "__repr__": text,
        "__setattr__": _refuse, "__delattr__": _refuse, "__setstate__": restore,
        "__getstate__": lambda self: [get(self) for get, _ in stored],
    }  # fmt: skip
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _documented(cls: type[T]) -> type[T]:
    """`dataclass` writes the signature of a class without a text of its own into it, which takes it long to find."""
    cls.__doc__ = cls.__doc__ or cls.__name__
    return cls


def _refuse(self: object, name: str, *value: object) -> None:
    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r} of {type(self).__name__}")


def stored(value: object, name: str) -> object:
    """A field as it is stored, also one that is kept aside; a lazy one is made now. Raises AttributeError if there is
    none.
    """
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        kept = _kept_aside(value, name)
        if kept is None:
            raise
    if type(kept) is Lazy:
        kept = kept.value()
        _setter(type(value), name)(value, kept)
    return kept


def _kept_aside(value: object, name: str) -> object:
    """None where nothing is."""
    try:
        aside: dict[str, object] = _aside(type(value)).__get__(value)
    except AttributeError:
        return None
    return aside.get(name)


def _getter(cls: type, name: str) -> Any:
    """How a field is read as it is stored."""
    get = getattr(cls, name).__get__
    if not hasattr(cls, "ASIDE"):
        return get
    return lambda self: stored(self, name)


def _setter(cls: type, name: str) -> Any:
    """How a field is stored, past `__setattr__`."""
    put = getattr(cls, name).__set__
    if not hasattr(cls, "ASIDE"):
        return put
    kinds = cls.ASIDE
    return lambda self, value: _put_aside(self, name, value) if type(value) in kinds else put(self, value)


def _put_aside(self: object, name: str, value: object) -> None:
    place = _aside(type(self))
    try:
        place.__get__(self)[name] = value
    except AttributeError:
        place.__set__(self, {name: value})


def _aside(cls: type) -> Any:
    return getattr(cls, "_unread")  # noqa: B009 - the place of it, not a value


def _initializer(cls: type) -> Any:
    """`__init__` of the fields: positional or by name, with their defaults, storing past `__setattr__`."""
    kinds = getattr(cls, "ASIDE", None)
    known: dict[str, Any] = {"_MISSING": MISSING, "_ASIDE": kinds, "_TYPE": type, "_SET_ASIDE": _put_aside}
    arguments: list[str] = ["self"]
    body: list[str] = []
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
        aside = f"if _TYPE({one.name}) in _ASIDE: _SET_ASIDE(self, {one.name!r}, {one.name})\n    else: "
        body.append(f"    {aside if kinds else ''}_put_{one.name}(self, {one.name})")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()")
    exec(f"def __init__({', '.join(arguments)}):\n" + "\n".join(body or ["    pass"]), known)  # noqa: S102 - our own names
    made = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made
