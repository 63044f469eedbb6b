"""Sets of packages at which a run stopped half-way: a transaction of apt is many acts, and one that
was cut off has left a driver that is there in part.

The journal knows where each was to lead. `check` and `plan` say so as long as it is so; `apply`
goes on with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.actions.journal.journal import JournalWriter, goes_on_with, way_out
from hosttune.engine.decide.plan import list_unannounced
from hosttune.errors import HosttuneError, Refused
from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.frozen import frozen
from hosttune.host.masking.cleaned import clean
from hosttune.resources import describe_place
from hosttune.resources.packages.apt_wait import wait_for_apt
from hosttune.resources.packages.package_repair import mend
from hosttune.resources.packages.package_set import (
    PackageSetAddress,
    describe_changes,
    describe_repair,
    half_of,
    names_of,
    parse_versions,
    was_interrupted,
)
from hosttune.values import Action, Finding, Hold, HoldKind, Outcome, Phase, Unreadable, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.actions.journal.journal import Journal
    from hosttune.actions.journal.lines import JournalStep
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.engine.rules.rule import Rule
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change

_SET = PackageSetAddress()


@frozen
class Half:
    """A step that stopped half-way, and where it was to lead."""

    step: JournalStep
    planned: Change

    @property
    def is_undo(self) -> bool:
        return self.step.undoes is not None


def find_half_done(journal: Journal, reader: Reader) -> tuple[Half, ...]:
    """The sets that stand between what they were and what a run was to make of them, oldest first.
    Where someone has installed another version since, the set is theirs. None where it is not known
    what is in force.
    """
    if journal.problem:
        return ()
    found = []
    for step in journal.unended.values():
        planned = step.planned or step.change
        name = planned.address.name
        if planned.address.kind != _SET.kind:
            continue
        present = _SET.read(reader, name)
        if isinstance(present, Unreadable) or _SET.same(present, planned.after):
            continue
        # An intent was written, and apt may not have been started by then.
        is_begun = bool(half_of(present)) or not _SET.same(present, planned.before)
        if is_begun and _SET.is_between(present, planned):
            found.append(Half(step, planned))
    return tuple(found)


def is_half(change: Change, reader: Reader) -> bool:
    """Whether dpkg has more to do with a package of this set."""
    names = set(names_of(change.address.name))
    return any(one.name in names for one in Facts(reader).packages.unfinished)


def find_unended(
    journal: Journal, reader: Reader, catalog: Catalog, selected: Iterable[Rule]
) -> tuple[Finding, ...]:
    """A finding for each of them, under its rule."""
    rules = {rule.id for rule in selected}
    found = []
    for half in find_half_done(journal, reader):
        if (rule := catalog.current(half.step.change.rule)) not in rules:
            continue
        present = _SET.read(reader, half.planned.address.name)
        there, unfinished = parse_versions(present), half_of(present)
        wanted = parse_versions(half.planned.after)
        names = {*wanted, *parse_versions(half.planned.before)}
        done = sum(there.get(name) == wanted.get(name) and name not in unfinished for name in names)
        run, what = half.step.id.run, "the way back" if half.is_undo else "the transaction"
        reason = (
            f"{what} of run {run} stopped half-way: {done} of {len(names)} packages are as planned"
        )
        hold = (
            Hold(HoldKind.REFUSED, "apply does not go on with a way back")
            if half.is_undo
            else Hold()
        )
        todo = goes_on_with(half.step.id, half.step.undoes)
        found.append(Finding(rule, "packages", Verdict.DIFFERS, hold, reason, todo=todo))
    return tuple(found)


def resume(
    writer: Writer, journal: Journal, rules: frozenset[str], on_progress: Callable[[str], None]
) -> tuple[tuple[Outcome, ...], str]:
    """Go on with every set that an apply left half-way, to where it was to lead; what an undo left
    is only made whole, for the plan that follows decides. Returns what became of them, and the last
    run that was gone on with.
    """
    outcomes: list[Outcome] = []
    last = ""
    for half in find_half_done(journal, writer):
        run = half.step.id.run
        # A rule that is off or waived by now does not want the rest. Its set is made whole and goes
        # no further.
        goes_on = not half.is_undo and half.planned.rule in rules
        if not goes_on and not is_half(half.planned, writer) and not was_interrupted(writer):
            continue
        doing = f"configuring what run {run} left half-way"
        if goes_on:
            doing = (
                f"going on with run {run}, which stopped half-way: "
                f"{describe_place(half.planned.address)}"
            )
        try:
            _wait_for_work(half.planned, writer, on_progress)
            on_progress(doing)
            outcomes.append((_complete_half if goes_on else _repair_half)(half, writer, journal))
        except (HosttuneError, UnknownFact) as error:  # nothing was begun
            message, hint = (
                (error.message, error.hint)
                if isinstance(error, HosttuneError)
                else (str(error), "")
            )
            outcomes.append(Outcome(half.planned, Phase.FAILED, message, hint))
        last = run
    return tuple(outcomes), last


def _wait_for_work(planned: Change, writer: Writer, on_progress: Callable[[str], None]) -> None:
    """Raises Refused where another package manager does not end, or GPU work would be disturbed
    that no one named.
    """
    wait_for_apt(writer, on_progress)
    facts = Facts(writer)
    if running := list_unannounced(_SET.as_of_now(planned, facts), facts):
        raise Refused(
            f"it would disturb what runs now: {'; '.join(running)}",
            hint="drain the host, then apply again",
        )


def _repair_half(half: Half, writer: Writer, journal: Journal) -> Outcome:
    """Make whole what is not gone on with, and book where it is then."""
    step, name = half.step, half.planned.address.name
    # Kept for the outcome: a repair shows what it has moved, which is less than the change that was
    # planned.
    found = _SET.read(writer, name)
    error = mend(writer, names_of(name))
    present = _SET.read(writer, name)
    recorder = JournalWriter.again(writer, journal.run(step.id.run))
    if _SET.same(present, half.planned.after):
        recorder.done(step.id, "", None if half.is_undo else half.planned)
    elif not isinstance(present, Unreadable):
        book = recorder.record_failure if half.is_undo else recorder.done
        book(step.id, step.error or "stopped half-way", replace(half.planned, after=present))
    if is_half(half.planned, writer) or was_interrupted(writer):
        way_out = f"{goes_on_with(step.id, step.undoes)}; by hand: {describe_repair(writer)}"
        return Outcome(
            half.planned, Phase.FAILED, error or "dpkg has left it half-way again", way_out
        )
    made = replace(
        half.planned,
        action=Action.UPDATE,
        before=found,
        after=present,
        details=describe_changes(found, present),
    )
    return Outcome(made, Phase.DONE)


def _complete_half(half: Half, writer: Writer, journal: Journal) -> Outcome:
    step, planned = half.step, half.planned
    recorder = JournalWriter.again(writer, journal.run(step.id.run))
    try:
        _SET.complete(writer, planned)
    except HosttuneError as error:
        present = _SET.read(writer, planned.address.name)
        if not isinstance(present, Unreadable):
            recorder.done(step.id, error.message, replace(planned, after=present))
        return Outcome(planned, Phase.FAILED, error.message, way_out(error, step.id, None))
    recorder.done(step.id, "", planned)
    writer.log(
        clean(
            f"run {step.id.run}, which had stopped half-way, was gone on with to the end: "
            f"{planned.address}"
        )
    )
    return Outcome(planned, Phase.DONE)
