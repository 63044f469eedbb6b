"""A drop-in for a packaged service that starts it without one option of its command line, derived
from the packaged line: it changes when that line does, and goes when the line no longer has the
option (systemd.service(5)).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.precedence import owned_place, unit_order, way_over
from hosttune.frozen import frozen
from hosttune.quoting import quote
from hosttune.rendering import render
from hosttune.resources.base import FieldSpec, WishKind, in_general
from hosttune.resources.comparison import Comparison, or_unknown
from hosttune.resources.file import compare_dropin, dropin_path, hand_edit
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    FileValue,
    Finding,
    Hold,
    HoldKind,
    Trigger,
    Verdict,
    prefix_reason,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.resources.base import Context, Operator, Wish


def remove_option(line: str, option: str) -> str:
    """A command line without one option."""
    return re.sub(rf"(?<!\s)\s+{re.escape(option)}(?=\s|$)", "", line)


class UnitDropinWish(WishKind):
    """`- unit-dropin: NAME.service` with `without: --option`, and the daemon's `process` where its
    name is another.
    """

    kind = "unit-dropin"
    fields: Mapping[str, FieldSpec] = {
        "without": FieldSpec(
            str, required=True, help="The option of its command line to leave out"
        ),
        "process": FieldSpec(str, help="The name of its process; that of the unit unless given"),
        "needed": FieldSpec(bool, help="It should run now: where it does not, that differs"),
    }
    operators: tuple[Operator, ...] = ()
    activations = (Activation.RESTART,)

    def addresses(self, wish: Wish, facts: Facts) -> tuple[Address, ...]:  # noqa: ARG002 - the interface of all kinds
        return (_address_file(wish),)

    def compare(self, wishes: tuple[Wish, ...], context: Context) -> tuple[Finding, ...]:
        return tuple(_DropinComparison(wish, context).finding() for wish in wishes)

    def writes(self, wishes: tuple[Wish, ...]) -> tuple[Change, ...]:
        return tuple(
            in_general(
                wish,
                _address_file(wish),
                _render_text(wish, "its unit file", "COMMAND"),
                activation=Activation.RESTART,
                triggers=_list_triggers(wish),
                reason=f"COMMAND: that of `systemctl cat {wish.name}`, without "
                f"{wish.fields['without']}",
            )
            for wish in wishes
        )


def _address_file(wish: Wish) -> Address:
    return Address("file", dropin_path(f"/etc/systemd/system/{wish.name}.d", wish.rule))


def _name_process(wish: Wish) -> str:
    return str(wish.fields.get("process") or wish.name.rpartition(".")[0])


def _render_text(wish: Wish, origin: str, command: str) -> bytes:
    option = str(wish.fields["without"])
    text = render(
        "unit-exec.conf.j2", rule=wish.rule, unit=wish.name, origin=origin, option=option,
        command=remove_option(command, option),
    )  # fmt: skip
    return text.encode()


def _list_triggers(wish: Wish) -> tuple[Trigger, ...]:
    return (Trigger("daemon-reload"), Trigger("restart", wish.name))


@frozen
class _DropinComparison(Comparison):
    wish: Wish
    context: Context

    @property
    def option(self) -> str:
        return str(self.wish.fields["without"])

    @property
    def path(self) -> str:
        return _address_file(self.wish).name

    @or_unknown
    def finding(self) -> Finding:
        name = self.wish.name
        started_by = self.context.facts.unit_settings[f"{name}/Service/ExecStart"]
        if not started_by.exists:
            return self._says(Verdict.NOT_APPLICABLE, f"{name} is not installed")
        standing = started_by.standing_without(self.path)
        # A drop-in has to reset ExecStart= and repeat the line. Of several commands the others
        # would be lost.
        if len(standing) != 1:
            return self._says(
                Verdict.UNKNOWN,
                f"{name} has {len(standing)} commands in ExecStart=, where one is known",
            )
        origin, command = standing[0].path, standing[0].value
        if self.option not in command.split():
            return self._needless(origin)
        reason = f"it is started with {self.option} ({origin})"
        if not standing[0].is_of_distribution:
            todo = (
                f"if that was not meant, take the option out of {origin}, then: sudo systemctl "
                "daemon-reload"
            )
            return self._says(
                Verdict.ADVICE, reason, Hold(HoldKind.OWNED, f"the author of {origin}"), todo=todo
            )
        if standing[0].is_read_after(self.path):
            line = "the same line without that option, below an empty ExecStart="
            order, owners = unit_order(f"system/{name}"), self.context.facts.file_owners
            todo = f"{way_over(standing[0], order, owners, line)}, or ignore {self.wish.rule}"
            return self._says(
                Verdict.DIFFERS,
                reason,
                Hold(HoldKind.OWNED, owned_place(standing[0], owners)),
                todo=todo,
            )
        return self._make_wanted(origin, command)

    def _needless(self, origin: str) -> Finding:
        """Nothing of ours is needed; what we left for an older line goes."""
        here = f"it is started without {self.option} ({origin})"
        present = self.context.state[_address_file(self.wish)]
        if not isinstance(present, FileValue):
            return self._running((here,))
        if edited := hand_edit(_address_file(self.wish), self.context):
            hold = Hold(HoldKind.EDITED, self.path)
            return self._says(
                Verdict.DIFFERS,
                here,
                hold,
                (edited,),
                f"remove {self.path}; it overrides the package",
            )
        change = Change(
            _address_file(self.wish),
            Action.DELETE,
            present,
            ABSENT,
            self.wish.rule,
            self.context.risk,
            self.context.disturbs,
            Activation.RESTART,
            triggers=_list_triggers(self.wish),
        )
        return self._says(
            Verdict.DIFFERS,
            f"{here}, so that {self.path} is not needed any more",
            changes=(change,),
        )

    def _make_wanted(self, origin: str, command: str) -> Finding:
        wish, context = self.wish, self.context
        text = _render_text(wish, origin, command)
        dropin = compare_dropin(
            self.path, text, wish.rule, context, Activation.RESTART, _list_triggers(wish)
        )
        if dropin.unknown:
            return self._says(Verdict.UNKNOWN, dropin.unknown)
        reason = f"it is started with {self.option} ({origin})"
        if dropin.hold:
            return self._says(Verdict.DIFFERS, reason, dropin.hold, dropin.evidence, dropin.todo)
        if dropin.change is None:
            return self._running(dropin.evidence)
        if dropin.change.action is Action.UPDATE:
            reason = f"{self.path} is not derived from the present line of {origin}"
        return self._says(Verdict.DIFFERS, reason, changes=(dropin.change,))

    def _running(self, evidence: tuple[str, ...]) -> Finding:
        """The files are right; whether the daemon runs with them is another matter."""
        name = self.wish.name
        try:
            commands = self.context.facts.processes[_name_process(self.wish)].commands
        except UnknownFact as unknown:
            reason = prefix_reason(f"how {name} was started is not known", unknown.reason)
            return self._says(Verdict.UNKNOWN, reason, evidence=evidence)
        if any(self.option in command.split() for command in commands):
            reason = f"{name} still runs with {self.option}"
            todo = (
                "when no GPU work runs: sudo systemctl daemon-reload && sudo systemctl restart "
                f"{quote(name)}"
            )
            return self._says(Verdict.DIFFERS, reason, self._waits_for("a restart"), evidence, todo)
        if not commands and self.wish.fields.get("needed"):
            todo = (
                f"sudo systemctl start {quote(name)}\n"
                f"if it ends again, see why: sudo journalctl -b -u {quote(name)}"
            )
            return self._says(
                Verdict.DIFFERS, f"{name} does not run", self._waits_for("a start"), evidence, todo
            )
        now = f"it runs as: {commands[0]}" if commands else "it does not run now"
        return self._says(Verdict.OK, "", evidence=(*evidence, now))

    def _waits_for(self, what: str) -> Hold:
        return Hold(HoldKind.WAITING, f"{what} of {self.wish.name}")


WISH = UnitDropinWish()
