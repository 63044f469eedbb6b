"""The places below /sys that hold a value: the value itself, the files that a pattern means, the words a file takes."""

from __future__ import annotations

import posixpath
import shlex
from typing import TYPE_CHECKING

from hosttune.errors import Conflict
from hosttune.regex import regex
from hosttune.resources.base import AddressKind
from hosttune.resources.kernel.sysfs_boot import fits
from hosttune.resources.read_only import ReadOnly
from hosttune.resources.steps import Command, each, few
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change, Value

_WILD = regex(r"[*?\[]")
_BESIDE = {
    "scaling_governor": "scaling_available_governors",
    "energy_performance_preference": "energy_performance_available_preferences",
    "current_clocksource": "available_clocksource",
}


def chosen(text: str) -> str:
    """What a kernel file says: the word in brackets, else all of it with blanks normalised."""
    words = text.split()
    return next((word[1:-1] for word in words if word.startswith("[") and word.endswith("]")), " ".join(words))


def expand(reader: Reader, pattern: str) -> tuple[str, ...] | Unreadable:
    """The files that a pattern means now, sorted; the folders of /sys are walked, links followed."""
    found = ["/"]
    for part in pattern.strip("/").split("/"):
        if not _WILD.search(part):
            found = [posixpath.join(folder, part) for folder in found]
            continue
        here = []
        for folder in found:
            names = reader.list(folder)
            if isinstance(names, Unreadable):
                return names
            listed = names if isinstance(names, tuple) else ()
            here += [path for name in listed if fits(path := posixpath.join(folder, name), f"{folder}/{part}")]
        found = here
    there = [(path, reader.stat(path)) for path in found]
    problem = next((stat for _, stat in there if isinstance(stat, Unreadable)), None)
    return problem or tuple(sorted(path for path, stat in there if stat is not ABSENT))


def _line(text: object) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else ""


class SysfsAddress(AddressKind):
    """`sysfs:/sys/...`: the live value; of a list of choices the chosen word."""

    kind = "sysfs"
    is_live = True

    def read(self, reader: Reader, name: str) -> Value:
        data = reader.read(name)
        return chosen(_line(data)) if isinstance(data, bytes) else data

    def write(self, writer: Writer, change: Change) -> None:
        name = change.address.name
        if not self.same(self.read(writer, name), change.before):
            message = f"{name} is no longer {change.before}"
            raise Conflict(message, hint="run the plan again")
        writer.set_value(name, f"{change.after}\n")

    def same(self, one: Value, other: Value) -> bool:
        return one == other or (isinstance(one, str) and isinstance(other, str) and one.split() == other.split())

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        return few(each(changes, lambda change: tee(change.address.name, str(change.after))))


def tee(pattern: str, value: str) -> Command:
    """A step that writes a value to files. The pattern stands as it is: the shell expands it."""
    return Command(f"echo {shlex.quote(value)} | tee {pattern}")


class SysfsNamesAddress(ReadOnly):
    """`sysfs-names:PATTERN`: the files that a pattern means now."""

    kind = "sysfs-names"

    def read(self, reader: Reader, name: str) -> Value:
        return () if reader.persistent_only else expand(reader, name)


class SysfsChoicesAddress(ReadOnly):
    """`sysfs-choices:/sys/...`: the words that a file takes, where it or its neighbour lists them; else empty."""

    kind = "sysfs-choices"

    def read(self, reader: Reader, name: str) -> Value:
        folder, base = posixpath.split(name)
        if base in _BESIDE:
            return tuple(_line(reader.read(f"{folder}/{_BESIDE[base]}")).split())
        words = _line(reader.read(name)).split()
        return tuple(word.strip("[]") for word in words) if any(word.startswith("[") for word in words) else ()


ADDRESSES = (SysfsNamesAddress(), SysfsChoicesAddress())
