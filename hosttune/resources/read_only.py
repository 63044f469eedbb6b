"""What the addresses have in common that can only be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import Refused

if TYPE_CHECKING:
    from hosttune.host.door import Writer
    from hosttune.values import Change, Value


class ReadOnly:
    """Base of an address kind that holds a value which nobody writes there; it adds `kind` and `read`."""

    def write(self, writer: Writer, change: Change) -> None:  # noqa: ARG002 - the interface of all kinds
        raise Refused(f"{change.address} can only be read")

    def same(self, one: Value, other: Value) -> bool:
        return one == other

    def invert(self, change: Change) -> Change | None:  # noqa: ARG002 - the interface of all kinds
        return None
