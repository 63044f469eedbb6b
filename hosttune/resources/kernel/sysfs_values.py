"""The value of one file below /sys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune import quoting
from hosttune.errors import Conflict
from hosttune.resources.base import AddressKind
from hosttune.resources.steps import CommandLine, list_steps, shorten_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change, Value


def choose_word(text: str) -> str:
    """What a kernel file says: the word in brackets, else all of it with blanks normalised."""
    words = text.split()
    return next(
        (word[1:-1] for word in words if word.startswith("[") and word.endswith("]")),
        " ".join(words),
    )


def _make_line(text: object) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else ""


class SysfsAddress(AddressKind):
    """`sysfs:/sys/...`: the live value; of a list of choices the chosen word."""

    kind = "sysfs"
    is_live = True

    def read(self, reader: Reader, name: str) -> Value:
        data = reader.read(name)
        return choose_word(_make_line(data)) if isinstance(data, bytes) else data

    def write(self, writer: Writer, change: Change) -> None:
        name = change.address.name
        if not self.same(self.read(writer, name), change.before):
            message = f"{name} is no longer {change.before}"
            raise Conflict(message, hint="run the plan again")
        writer.set_value(name, f"{change.after}\n")

    def same(self, one: Value, other: Value) -> bool:
        return one == other or (
            isinstance(one, str) and isinstance(other, str) and one.split() == other.split()
        )

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        return shorten_list(
            list_steps(changes, lambda change: make_tee(change.address.name, str(change.after)))
        )


def make_tee(pattern: str, value: str) -> CommandLine:
    """A step that writes a value to files. The pattern is as it is: the shell expands it."""
    return CommandLine(f"echo {quoting.quote(value)} | tee {pattern}")
