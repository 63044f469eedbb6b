"""Frozen dataclasses that are quick to make.

A start makes some ninety of them, and every method that `dataclass` writes for one is compiled from text: 0.5 ms a
class with Python 3.11, which was the larger part of what a check cost beyond typer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda decorator: decorator


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """As `dataclass(frozen=True, slots=True)`, with comparison, hash and text that are not compiled for each class.

    They look at the fields as they are stored, so that a fact that could not be read can be compared and printed too.
    """
    made: Any = dataclass(frozen=True, slots=True, eq=False, repr=False)(cls)
    compared = tuple(getattr(made, one.name).__get__ for one in fields(made) if one.compare)
    shown = tuple((one.name, getattr(made, one.name).__get__) for one in fields(made) if one.repr)

    def values(self: object) -> tuple[Any, ...]:
        return tuple(get(self) for get in compared)

    def equal(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def text(self: object) -> str:
        return f"{made.__qualname__}({', '.join(f'{name}={get(self)!r}' for name, get in shown)})"

    methods = {"__eq__": equal, "__hash__": lambda self: hash(values(self)), "__repr__": text}
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]
