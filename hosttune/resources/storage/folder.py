"""A folder that something is mounted on: made, and taken away while it is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune import quoting
from hosttune.errors import Conflict
from hosttune.host.door import Stat
from hosttune.resources.base import AddressKind
from hosttune.resources.steps import CommandLine, list_steps, shorten_list
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change, Value

FOLDER = "folder"  # the value of an address that is there


class FolderAddress(AddressKind):
    """`folder:/path`: `folder`, or ABSENT. Made as root, 0755; removed only while it is empty."""

    kind = "folder"

    def describe(self, name: str) -> str:
        return f"folder {name}"

    def read(self, reader: Reader, name: str) -> Value:
        stat = reader.stat(name)
        if isinstance(stat, Stat):
            return (
                FOLDER
                if stat.type == "directory"
                else Unreadable(f"{name} is a {stat.type}, not a folder")
            )
        return stat

    def write(self, writer: Writer, change: Change) -> None:
        # Someone may have made the folder since the plan, with other rights: then nothing is
        # mounted on it.
        if self.read(writer, change.address.name) != change.before:
            raise Conflict(
                f"{change.address.name} is no longer as in the plan", hint="run the plan again"
            )
        if change.after == FOLDER:
            writer.make_folder(change.address.name)
        else:
            writer.remove_folder(change.address.name)

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        return shorten_list(list_steps(changes, _folder_step))


def _folder_step(change: Change) -> CommandLine:
    path = quoting.quote(change.address.name)
    return CommandLine(f"rmdir {path}" if change.after is ABSENT else f"install -d -m 755 {path}")


ADDRESS = FolderAddress()
