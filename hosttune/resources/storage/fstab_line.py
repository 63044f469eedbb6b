"""A whole line of ours in /etc/fstab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.errors import Conflict, Refused
from hosttune.facts.storage.fstab_options import decode
from hosttune.resources.steps import CommandLine, list_steps, shorten_list
from hosttune.resources.storage.fstab import VERIFY, FstabAddress, InFstab, document_of
from hosttune.resources.storage.fstab_document import (
    PATH,
    FstabText,
    insert_line,
    line_problem,
    remove_line,
)
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.host.door import Reader
    from hosttune.values import Change, Value


class FstabLineAddress(InFstab):
    """`fstab-line:TARGET`: the whole text of the target's line (str, without line end), or
    ABSENT.
    """

    kind = "fstab-line"
    shares = FstabAddress.kind  # a line, and the options in it

    def read(self, reader: Reader, name: str) -> Value:
        document = document_of(reader)
        return _line_of(document, name) if isinstance(document, FstabText) else document

    def _edit(self, document: FstabText, change: Change) -> bytes:
        target = change.address.name
        present = _line_of(document, target)
        if present != change.before:
            raise Conflict(
                f"{PATH}: the line of {target} is no longer the one in the plan",
                hint="run the plan again",
            )
        if isinstance(present, str) and change.after is ABSENT:
            return remove_line(document, present)
        if present is ABSENT and isinstance(change.after, str):
            return insert_line(document, change.after)
        raise Refused(
            f"{PATH}: a whole line is added or removed, never replaced",
            hint="change its options instead",
        )

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        return [*shorten_list(list_steps(changes, _line_step)), VERIFY]


def _line_step(change: Change) -> CommandLine:
    if change.after is ABSENT:
        return CommandLine(f"take the line `{_replace_tabs(change.before)}` out of {PATH}")
    return CommandLine(f"add the line `{_replace_tabs(change.after)}` to {PATH}")


def _replace_tabs(value: object) -> str:
    """Tabs, which no terminal copies, as blanks: both readers of fstab take either."""
    return str(value).replace("\t", " ")


def _line_of(document: FstabText, target: str) -> Value:
    lines = document.at(target)
    if len(lines) > 1:
        return Unreadable(str(line_problem(document, lines[0])))
    return decode(lines[0].text) if lines else ABSENT


ADDRESS = FstabLineAddress()
