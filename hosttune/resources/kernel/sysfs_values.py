"""The value of one file below /sys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune import quoting
from hosttune.errors import Conflict
from hosttune.regex import regex
from hosttune.resources.base import AddressKind
from hosttune.resources.steps import CommandLine, list_steps, shorten_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change, Value

_PLAIN = regex(r"[^*?\[\]]+")  # of a pattern of glob(7), what is no wildcard


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
    """A step that writes a value to files. Of the pattern only the wildcards are the shell's."""
    shown = _PLAIN.sub(lambda found: quoting.quote(found[0]), pattern)
    return CommandLine(f"echo {quoting.quote(value)} | tee {shown}")
