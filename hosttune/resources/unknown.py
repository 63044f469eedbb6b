"""A kind of address that only another version of hosttune knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import Refused
from hosttune.resources.base import AddressKind
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change, Value


class Unknown(AddressKind):
    """Takes its place where it comes in that version's journal, or in a plan that it saved."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def describe(self, name: str) -> str:
        return f"{self.kind}:{name}"

    def read(self, reader: Reader, name: str) -> Value:  # noqa: ARG002 - the interface of all kinds
        return Unreadable(f"this version of hosttune does not know what {self.kind}:{name} is")

    def write(self, writer: Writer, change: Change) -> None:  # noqa: ARG002 - the interface of all kinds
        raise Refused(f"{change.address} can only be read")

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:  # noqa: ARG002 - the interface of all kinds
        return ()

    def invert(self, change: Change) -> Change | None:  # noqa: ARG002 - the interface of all kinds
        return None
