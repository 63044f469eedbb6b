"""What every fact has in common: a fact that could not be read raises when it is touched."""

from __future__ import annotations

from typing import Any

from hosttune.frozen import stored
from hosttune.values import Unreadable, behind


class UnknownFact(Exception):
    """A rule touched a fact that could not be read; its finding is `unknown`, with this reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason

    @property
    def told(self) -> str:
        """The name and the reason, of the reason's own type (values.OnlyRunning)."""
        return behind(self.name, self.reason)


class Fact:
    """Base of all fact dataclasses (frozen, slots). A field holding `unread(reason)` raises UnknownFact on access.

    Such a value is kept aside and the field's own place stays empty. Only there does Python come to `__getattr__`: a
    field that was read costs nothing more than any other, and expressions touch thousands of them.
    """

    __slots__ = ("_unread",)

    ASIDE = Unreadable  # frozen.py keeps values of this type in `_unread`: name -> Unreadable

    def __getattr__(self, name: str) -> Any:
        value = stored(self, name)  # raises AttributeError where there is no such field
        if type(value) is Unreadable:
            raise UnknownFact(f"{type(self).__name__}.{name}", value.reason)
        return value


def unread(reason: str) -> Any:
    """The value of a fact field that could not be read (typed Any: it stands in for any field type)."""
    return Unreadable(reason)


def raw(fact: object, name: str) -> object:
    """A field as it is stored, `Unreadable` included; never raises UnknownFact."""
    return stored(fact, name)
