"""The proof of a plan, before anybody says yes: it is carried out on a copy-on-write overlay, and
looked at again.

What is left then is the next stage. A rule that fails there is held by name, with the one that it
contradicts, and the others go on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.actions.journal.journal import FOLDER
from hosttune.actions.triggers import require_possible
from hosttune.engine.decide.passes import explain_clash
from hosttune.engine.decide.plan import stage
from hosttune.errors import Conflict, HosttuneError, Refused
from hosttune.resources import describe_place, kind_of
from hosttune.resources.base import Applied

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.actions.examine import Session
    from hosttune.engine.decide.passes import Reason
    from hosttune.values import Address, Change, Finding, Stage

# A driver and then its settings take two stages. The bound ends rules that answer each other's
# changes without end.
MAX_STAGES = 4


def changes_in(findings: Iterable[Finding]) -> tuple[Change, ...]:
    """All changes of these findings, in their order."""
    return tuple(change for finding in findings for change in finding.changes)


class _Failed(Exception):
    """A change that could not be made on the overlay, or did not stay."""

    def __init__(self, rule: str, address: Address, error: HosttuneError) -> None:
        super().__init__(f"{rule}: {error}")
        self.rule = rule
        self.address = address
        self.error = error


def prove_changes(
    session: Session, findings: tuple[Finding, ...]
) -> tuple[tuple[Finding, ...], tuple[Stage, ...]]:
    """The findings with the rules held that fail, and the stages of the others."""
    from hosttune.host.overlay.overlay import Overlay

    held: dict[str, Reason] = {}
    changes = changes_in(findings)
    # no run without journal
    if changes and (refused := Overlay(session.reader).refused_write(f"{FOLDER}/new.jsonl")):
        held = {one.rule: (refused.message, refused.hint) for one in changes}
        return session.look(session.facts, held=held), ()
    # It ends: each turn holds at least one rule more, and a held rule has no changes.
    while changes := changes_in(findings):
        try:
            return findings, _try_changes(session, changes, held)
        except _Failed as failed:
            held |= _list_hold_reasons(session, failed, changes, held)
            findings = session.look(session.facts, held=held)
    return findings, ()


def _list_hold_reasons(
    session: Session, failed: _Failed, changes: tuple[Change, ...], held: Mapping[str, Reason]
) -> dict[str, Reason]:
    """Of the rule that failed, and of each that it fails beside but not without."""
    error, rule = failed.error, failed.rule
    own = {rule: (error.message, error.hint or f"correct the rule, or ignore it: ignore: [{rule}]")}
    # A refusal is about this host (a file that cannot be written), so no other rule has to be tried
    # beside it.
    if isinstance(error, Refused) and not isinstance(error, Conflict):
        return own
    rules = {change.rule for change in changes}

    def is_possible(*chosen: str) -> bool:
        without = {**held, **dict.fromkeys(rules.difference(chosen), ("", ""))}
        try:
            _try_changes(session, tuple(one for one in changes if one.rule in chosen), without)
        except _Failed:
            return False
        return True

    if not is_possible(rule):
        return own
    others = tuple(one for one in sorted(rules - {rule}) if not is_possible(rule, one))
    if not others:
        return own
    what = describe_place(failed.address)
    return {
        rule: explain_clash(rule, others, what),
        **{one: explain_clash(one, (rule,), what) for one in others},
    }


def _try_changes(
    session: Session, changes: tuple[Change, ...], held: Mapping[str, Reason]
) -> tuple[Stage, ...]:
    """The stages of these changes. Raises _Failed for one that cannot be made, or does not stay."""
    from hosttune.host.overlay.overlay import Overlay

    stages: tuple[Stage, ...] = (stage(changes),)
    overlay = Overlay(session.reader)
    ledger = dict(session.journal.ledger())
    # others change nothing
    wishing = replace(session, selected=tuple(rule for rule in session.selected if rule.want))
    while True:
        for change in stages[-1].changes:
            try:
                kind_of(change.address).write(overlay, change)
                for trigger in change.triggers:
                    require_possible(trigger, overlay)
            except HosttuneError as error:
                is_refused = isinstance(error, Refused) and not isinstance(error, Conflict)
                if is_refused and len(stages) > 1:
                    return stages[:-1]  # the plan after this one will say why not
                raise _Failed(change.rule, change.address, error) from None
            ledger[change.address] = Applied("(this plan)", change.rule, change.after)
        # The facts of the overlay share what no change can alter, so that hardware is not read once
        # more for each stage.
        left = changes_in(wishing.look(session.facts.through(overlay), ledger, held))
        made = {change.address: change.rule for one in stages for change in one.changes}
        growing = {change.rule for change in left if change.address not in made}
        if again := next(
            (
                one
                for one in left
                if one.address in made and not _adds_to_growing(one, made, growing)
            ),
            None,
        ):
            message = f"{describe_place(again.address)} still differs after it was set"
            raise _Failed(again.rule, again.address, HosttuneError(message))
        if not left or len(stages) == MAX_STAGES:
            return stages
        stages = (*stages, stage(left))


def _adds_to_growing(change: Change, made: Mapping[Address, str], growing: set[str]) -> bool:
    """Whether a rule adds to a file of its own what it wants of a thing that the stages before
    brought, and sets that thing too: a disk that is mounted now gets a line in the udev rules of
    the others.
    """
    return change.rule in growing and made[change.address] == change.rule
