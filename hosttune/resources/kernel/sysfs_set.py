"""One value for many files below /sys, as one change: the governor of 224 processors is one line of
a plan.

`sysfs-set:/sys/.../cpu*/...` holds the value of all files that the pattern means; where they
differ, a row for each value with what the star means there: `0-3,8: performance`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import Conflict
from hosttune.facts.base import attempt
from hosttune.facts.sysfs import expand
from hosttune.numbers import parse_digits
from hosttune.ranges import number_list, number_list_text
from hosttune.resources.base import AddressKind
from hosttune.resources.kernel.sysfs_values import SysfsAddress, make_tee
from hosttune.resources.steps import list_steps, shorten_list
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change, Value

MANY = 8  # up to so many files are changes of their own
_ONE = SysfsAddress()


def number_paths(pattern: str, paths: Iterable[str]) -> Mapping[int, str] | None:
    """Number -> path, where the pattern has one star, which means a whole number everywhere; else
    None.
    """
    before, star, after = pattern.partition("*")
    found = {}
    for path in paths:
        middle = path[len(before) : len(path) - len(after)]
        number = parse_digits(middle, -1)
        if not (path.startswith(before) and path.endswith(after) and number >= 0):
            return None
        found[number] = path
    return found if star and not set("*?[{") & set(after) | set("?[{") & set(before) else None


def spell_values(values: Mapping[int, str]) -> Value:
    """The value that all hold, or a row for each."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    holders: dict[str, list[int]] = {}
    for number in sorted(values):
        holders.setdefault(values[number], []).append(number)
    return tuple(f"{number_list_text(found)}: {value}" for value, found in holders.items())


def parse_values(value: Value, found: Iterable[int]) -> Mapping[int, str]:
    """Number -> value. Numbers of which a row speaks and that are gone stay in it."""
    if isinstance(value, str):
        return dict.fromkeys(found, value)
    rows = [row.partition(": ") for row in value] if isinstance(value, tuple) else []
    return {number: text for listed, _, text in rows for number in number_list(listed)}


class SysfsSetAddress(AddressKind):
    """`sysfs-set:PATTERN`: what all the files hold."""

    kind = "sysfs-set"
    is_live = True
    is_in_parts = True
    is_set = True

    def read(self, reader: Reader, name: str) -> Value:
        paths = attempt(expand, reader, name)
        found = paths if isinstance(paths, Unreadable) else number_paths(name, paths)
        if found is None or isinstance(found, Unreadable):
            return found or Unreadable(f"{name} does not mean numbered files")
        values = {number: _ONE.read(reader, path) for number, path in found.items()}
        # One unreadable file makes all of it unreadable: a set that shows only the others would be
        # undone without it.
        problem = next((value for value in values.values() if isinstance(value, Unreadable)), None)
        there = {number: str(value) for number, value in values.items() if value is not ABSENT}
        return problem or (spell_values(there) if there else ABSENT)

    def write(self, writer: Writer, change: Change) -> None:
        name = change.address.name
        present = self.read(writer, name)
        paths = attempt(expand, writer, name)
        found = None if isinstance(paths, Unreadable) else number_paths(name, paths)
        if not self.same(present, change.before) or found is None:
            message = f"{name} is no longer {change.before}"
            raise Conflict(message, hint="run the plan again")
        now, wanted = parse_values(present, found), parse_values(change.after, found)
        for number, value in sorted(wanted.items()):
            # A processor that went off line since the plan has no file any more, which must not
            # keep the others from their value.
            if number in found and now.get(number) != value:
                writer.set_value(found[number], f"{value}\n")

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        return shorten_list(list_steps(changes, _step))


def _step(change: Change) -> str:
    pattern = change.address.name
    if isinstance(change.after, str):
        return make_tee(pattern, change.after)
    rows = "; ".join(change.after) if isinstance(change.after, tuple) else str(change.after)
    return f"write into {pattern}, by what the star stands for: {rows}"


ADDRESS = SysfsSetAddress()
