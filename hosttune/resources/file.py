"""Whole files of our own: drop-ins, one per rule, that come and go without touching another's
bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune import quoting
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.resources.base import AddressKind
from hosttune.resources.services.restart import unit_of_dropin
from hosttune.resources.steps import CommandLine, list_steps
from hosttune.values import (
    ABSENT,
    Action,
    Address,
    Change,
    FileValue,
    Hold,
    HoldKind,
    Unreadable,
    prefix_reason,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hosttune.host.door import Reader, Writer
    from hosttune.resources.base import Context
    from hosttune.values import Activation, Trigger, Value

MANY_LINES: Final = 16  # of a file that is still shown as one command


class FileAddress(AddressKind):
    """`file:/path`: the whole content of a file (FileValue), or ABSENT. Permission bits count only
    when it is new.
    """

    kind = "file"

    def read(self, reader: Reader, name: str) -> Value:
        stat = reader.stat(name)
        if not isinstance(stat, Stat):
            return stat
        if stat.type != "file":
            return Unreadable(f"{name} is a {stat.type}, not a file")
        content = reader.read(name)
        return (
            FileValue(content, stat.mode, stat.uid, stat.gid)
            if isinstance(content, bytes)
            else content
        )

    def write(self, writer: Writer, change: Change) -> None:
        before = change.before.content if isinstance(change.before, FileValue) else ABSENT
        if isinstance(change.after, FileValue):
            writer.replace(change.address.name, change.after, expected=before)
        elif isinstance(before, bytes):
            writer.remove(change.address.name, expected=before)

    def same(self, one: Value, other: Value) -> bool:
        if isinstance(one, FileValue) and isinstance(other, FileValue):
            return one.content == other.content
        return one == other

    def by_hand(self, changes: Sequence[Change]) -> Sequence[str]:
        return list_steps(changes, _step)

    def file_of(self, name: str) -> str:
        return name

    def unit_of(self, name: str) -> str:
        return unit_of_dropin(name)


def _step(change: Change) -> str:
    path, value = quoting.quote(change.address.name), change.after
    if not isinstance(value, FileValue):
        return CommandLine(f"rm {path}")
    lines = lines_that_count(value.content)
    if len(lines) > MANY_LINES:
        return f"write {path} as `hosttune plan --select {change.rule}` shows it"
    note = f"  # {change.reason}" if change.reason else ""
    command = (
        f"printf '%s\\n' {quoting.join(lines)} | install -D -m {value.mode:o} /dev/stdin "
        f"{path}{note}"
    )
    return CommandLine(command)


@frozen
class Dropin:
    """How a drop-in of ours is against what a rule wants: at most one of `change` and `hold` is
    set.
    """

    change: Change | None = None
    hold: Hold = Hold()
    evidence: tuple[str, ...] = ()
    todo: str = ""
    unknown: str = ""


def dropin_path(folder: str, rule: str, suffix: str = ".conf") -> str:
    """Where the drop-in of a rule is: one file per rule, so that a rule comes and goes alone."""
    return f"{folder}/60-hosttune-{rule}{suffix}"


def dropin_text(rule: str, lines: Iterable[str]) -> bytes:
    """The lines of a drop-in below the words that say whose it is. Not a template: every check that
    finds something to change would wait for Jinja2 to be imported.
    """
    head = (
        f"# Written by hosttune for {rule}. Edits are kept.",
        f"# Undo: sudo hosttune undo --rule {rule} --yes",
    )
    return "".join(f"{line}\n" for line in (*head, *lines)).encode()


def lines_that_count(content: bytes) -> tuple[str, ...]:
    """The lines of a drop-in of ours without comments: what a person writes by hand is as good
    without them.
    """
    lines = content.decode("utf-8", "replace").splitlines()
    return tuple(
        line for line in lines if line.strip() and not line.lstrip().startswith(("# ", "// "))
    )


def compare_dropin(
    path: str,
    wanted: bytes,
    rule: str,
    context: Context,
    activation: Activation,
    triggers: tuple[Trigger, ...] = (),
) -> Dropin:
    """Compare a drop-in of ours with the text a rule wants; one that someone edited is theirs
    now.
    """
    address = Address("file", path)
    present = context.state[address]
    if isinstance(present, Unreadable):
        return Dropin(unknown=prefix_reason(path, present.reason))
    if isinstance(present, FileValue):
        is_ours = address not in context.ledger or not hand_edit(address, context)
        if present.content == wanted or (
            # older comments of ours
            is_ours and lines_that_count(present.content) == lines_that_count(wanted)
        ):
            return Dropin(evidence=(f"{path} is in place",))
        # Without the journal our own older text looks like an edit by hand. Neither may be claimed:
        # one would overwrite a person's work, the other would keep an old value for ever.
        if context.journal_problem and address not in context.ledger:
            return Dropin(
                unknown=f"{path} differs; whether it was edited by hand: {context.journal_problem}"
            )
        edited = hand_edit(address, context)
        if edited:
            return Dropin(
                hold=Hold(HoldKind.EDITED, path),
                evidence=(edited,),
                todo=f"keep it and ignore {rule}, or remove {path}",
            )
    before = present if isinstance(present, FileValue) else ABSENT
    action = Action.CREATE if before is ABSENT else Action.UPDATE
    change = Change(
        address,
        action,
        before,
        FileValue(wanted),
        rule,
        context.risk,
        context.disturbs,
        activation,
        triggers=triggers,
    )
    return Dropin(change=change)


def hand_edit(address: Address, context: Context) -> str:
    """A sentence when the file at `address` is not as hosttune last left it; empty when it is."""
    present = context.state[address]
    applied = context.ledger.get(address)
    if not isinstance(present, FileValue):
        return ""
    if applied is None and context.journal_problem:
        return ""
    if applied is None:
        return f"{address.name} is not in the journal: hosttune does not know who wrote it"
    if isinstance(applied.after, FileValue) and applied.after.content == present.content:
        return ""
    return f"{address.name} was changed since run {applied.run_id} wrote it"


ADDRESS = FileAddress()
