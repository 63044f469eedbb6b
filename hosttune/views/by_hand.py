"""How changes are made, and taken back, without hosttune: commands and lines that work as they
stand.

Nothing is written here a second time: each step is made of the change itself, of the very value
that would be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from hosttune.quoting import quote
from hosttune.resources import by_kind, kind_of
from hosttune.resources.base import invert_change
from hosttune.resources.steps import CommandLine
from hosttune.values import Activation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.values import Change, Trigger

_TRIGGERS = {
    "daemon-reload": CommandLine("systemctl daemon-reload"),
    "rebuild-initramfs": "update-initramfs -u -k all (with dracut: dracut -f --regenerate-all)",
    "update-grub": CommandLine("update-grub"),
}
Ways: TypeAlias = tuple[list[str], list[str]]  # how to do it, how to take it back


def describe_by_hand(changes: Iterable[Change]) -> Ways:
    """How to make these changes of one rule, and how to take them back."""
    listed = list(changes)
    return _list_steps(listed), _list_steps([invert_change(change) for change in reversed(listed)])


def _list_steps(changes: list[Change]) -> list[str]:
    """Kind by kind in the order of the changes, then what makes them effective."""
    steps = [step for kind, some in by_kind(changes) for step in kind.by_hand(some)]
    return [*steps, *_list_afterwards(changes)]


def _list_afterwards(changes: list[Change]) -> list[str]:
    triggers = list(dict.fromkeys(trigger for change in changes for trigger in change.triggers))
    steps = [_trigger(trigger) for trigger in triggers]
    restarted = {trigger.name for trigger in triggers if trigger.kind == "restart"}
    own = [change.address for change in changes if change.activation is Activation.RESTART]
    units = {kind_of(address).unit_of(address.name) for address in own}
    steps += [_restart(unit) for unit in sorted(units - restarted - {""})]
    # Only the last of them is said: a reboot ends the sessions too.
    last = max((change.activation for change in changes), default=Activation.NOW)
    ends = {Activation.REBOOT: "reboot when nothing runs", Activation.SESSION: "log in again"}
    return [*steps, ends[last]] if last in ends else steps


def _trigger(trigger: Trigger) -> str:
    return (
        _restart(trigger.name)
        if trigger.kind == "restart"
        else _TRIGGERS.get(trigger.kind, str(trigger))
    )


def _restart(unit: str) -> str:
    return f"when it is not in use: systemctl restart {quote(unit)}"
