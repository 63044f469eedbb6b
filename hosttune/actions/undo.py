"""The way back: a run or a rule is undone by a plan of its own, shown first, never over someone
else's later edit.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hosttune import __version__
from hosttune.actions.apply import (
    Execution,
    changed_reboots,
    left_by,
    new_run,
    reboot_obstacles,
    reboot_reasons,
    still_there,
    stopped_by,
    waits_after,
)
from hosttune.actions.examine import faults_of
from hosttune.actions.gate.before_boot import keep_standing
from hosttune.actions.journal.journal import JournalWriter
from hosttune.actions.journal.lines import JournalStep, Run, StepId
from hosttune.actions.journal.receipts import keep_receipt
from hosttune.engine.decide.plan import digest, guard_changes
from hosttune.engine.policy.policy import suggest_nearest
from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.writing import stopping
from hosttune.resources import describe_place, kind_of, locate_address
from hosttune.resources.base import invert_change
from hosttune.values import (
    ABSENT,
    Disturbs,
    Finding,
    Hold,
    HoldKind,
    Phase,
    Plan,
    Receipt,
    Stage,
    Unreadable,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hosttune.actions.examine import Session
    from hosttune.actions.journal.journal import Journal
    from hosttune.host.door import Writer
    from hosttune.values import Change, Value

_THAT_FIRST = "solve that first, then undo again"
_WHEN_IDLE = "when that work has ended, undo again"


@frozen
class Return:
    """One step to take back: the change that does it; on paper only where a later run holds the
    address now, or where the old value is back already.
    """

    step: StepId
    change: Change
    on_paper: bool = False


@frozen
class StillInForce:
    """What earlier runs did and this way back does not touch: the run that began it, and how many
    changes.
    """

    run: Run
    changes: int


@frozen
class UndoPlan:
    """A plan that takes runs or a rule back; `returns` ties its changes to the steps that they
    undo.
    """

    plan: Plan
    returns: tuple[Return, ...]
    rules: tuple[str, ...]
    runs: tuple[str, ...] = ()  # of which it takes something back, the oldest first
    stays: tuple[StillInForce, ...] = ()  # the newest first; not reported for a rule


def plan_undo(
    session: Session, run_id: str | None = None, rule: str | None = None, *, is_return: bool = False
) -> UndoPlan:
    """The plan that takes back what one intention began (by default the last that left something;
    of a run that is named, with the runs that went on with it), or all that a rule did.

    It is empty where nothing of them is in force any more. is_return: the host goes back by itself,
    and no one can be asked: what the kernel holds is taken back also where someone has edited a
    file that came after it.

    Raises HosttuneError for a run or a rule that no one knows, and where it is not known what is in
    force.
    """
    journal = session.journal
    journal.require_known()
    steps = _choose_steps(journal, run_id, _list_names_of_rule(rule, session) if rule else set())
    # each step is looked at, and tried, as the ones after it leave the host
    overlay = Overlay(session.reader)
    stuck = _built_upon(steps, journal)  # rule -> why it is left
    edited: dict[str, Hold] = {}  # the same, of what the kernel holds not
    returns, findings = [], []
    # The newest first, because a later step may rest on an earlier one (a mount on its line of
    # fstab).
    for step in reversed(steps):
        held = stuck.get(step.change.rule)
        if not kind_of(step.change.address).is_live:
            held = held or edited.get(step.change.rule)
        answer = (
            _make_refused_finding(step, held, _THAT_FIRST)
            if held
            else _return(step, steps, journal, overlay)
        )
        if isinstance(answer, Return) and not answer.on_paper:
            answer = _beside_work(answer, step, session)
        if isinstance(answer, Return):
            returns.append(answer)
        else:
            findings.append(answer)
            why = f"{describe_place(step.change.address)}, which came after it, is left"
            # On a return no one can be asked. A file that someone edited must not keep the kernel
            # at a value that locks people out.
            holds = edited if is_return and answer.hold.kind is HoldKind.EDITED else stuck
            holds.setdefault(step.change.rule, Hold(HoldKind.REFUSED, why))
    changes = tuple(one.change for one in returns if not one.on_paper)
    triggers = tuple(dict.fromkeys(trigger for change in changes for trigger in change.triggers))
    plan = Plan(
        digest=digest(changes),
        tool_version=__version__,
        machine="",
        created_at=datetime.fromtimestamp(session.reader.now(), timezone.utc).isoformat(
            timespec="seconds"
        ),
        policy_digest="",
        stages=(Stage(changes, triggers),) if changes else (),
        findings=tuple(findings),
    )
    rules = tuple(sorted({step.change.rule for step in steps}))
    runs = tuple(dict.fromkeys(step.id.run for step in steps))
    stays = (
        ()
        if rule
        else _list_still_in_force(
            journal, {step.id for step in steps}, journal.run(run_id) if run_id else None
        )
    )
    return UndoPlan(plan, tuple(returns), rules, runs, stays)


def _list_still_in_force(
    journal: Journal, chosen: set[StepId], named: Run | None
) -> tuple[StillInForce, ...]:
    """What is not chosen, by the intention that it is part of. Of a run that was named only its own
    matters: the others were not meant.
    """
    runs = {run.id: run for run in journal.runs}
    found: dict[str, list[Run]] = {}
    for step in journal.in_force:
        run = runs[step.id.run]
        if step.id not in chosen and (named is None or run.intention == named.intention):
            found.setdefault(run.intention, []).append(run)
    return tuple(StillInForce(some[0], len(some)) for some in reversed(found.values()))


def _list_names_of_rule(rule: str, session: Session) -> set[str]:
    """The names under which the journal may hold this rule. One that is gone from the rules is
    known by its steps.
    """
    catalog = session.catalog
    current = catalog.find_id(rule)
    names = {rule, current, *catalog.former(current)}
    booked = {step.change.rule for run in session.journal.runs for step in run.steps}
    if current not in catalog.rules and not names & booked:
        hint = (
            suggest_nearest(rule, {*catalog.rules, *booked})
            or "list what was done, with its rules: hosttune history -v"
        )
        raise HosttuneError(
            f"no rule is called {rule}, and none of this name did anything here", hint=hint
        )
    return names


def _choose_steps(journal: Journal, run_id: str | None, rules: set[str]) -> tuple[JournalStep, ...]:
    steps = journal.in_force
    if run_id:
        wanted = {run.id for run in journal.parts_from(journal.run(run_id))}
        steps = tuple(step for step in steps if step.id.run in wanted)
    if rules:
        steps = tuple(step for step in steps if step.change.rule in rules)
    if not run_id and not rules and steps:
        last = journal.run(steps[-1].id.run)
        wanted = {run.id for run in journal.runs if run.intention == last.intention}
        steps = tuple(step for step in steps if step.id.run in wanted)
    return steps


def _built_upon(steps: tuple[JournalStep, ...], journal: Journal) -> dict[str, Hold]:
    """The rules, each with the reason, that changed what a later run has changed in part: a line of
    fstab, whose options are now others. The later run goes first.
    """
    chosen = {step.id for step in steps}
    found = {}
    for step in steps:
        address = step.change.address
        for later in journal.after(step):
            other = later.change.address
            if (
                later.id not in chosen
                and other != address
                and locate_address(other) == locate_address(address)
            ):
                detail = f"run {later.id.run} has changed {other} since; undo that one first"
                found[step.change.rule] = Hold(HoldKind.REFUSED, detail)
    return found


def _beside_work(answer: Return, step: JournalStep, session: Session) -> Return | Finding:
    """The way back waits as the way there does while something runs that it would disturb."""
    back = kind_of(answer.change.address).as_of_now(answer.change, session.facts)
    if back.disturbs is not Disturbs.GPU_WORK:
        return answer
    (change,), busy = guard_changes((back,), session.facts, may_break=session.policy.break_work)
    return _make_refused_finding(step, busy, _WHEN_IDLE) if busy else replace(answer, change=change)


def _return(
    step: JournalStep, together: tuple[JournalStep, ...], journal: Journal, overlay: Overlay
) -> Return | Finding:
    change = step.change
    chosen = {one.id for one in together}
    value = find_original(step, journal)
    # A later run has set the value since. To write the old one now would take that back too.
    if any(
        one.id not in chosen and one.change.address == change.address for one in journal.after(step)
    ):
        return Return(step.id, _make_return_change(change, change.after, value), on_paper=True)
    kind = kind_of(change.address)
    present = kind.read(overlay, change.address.name)
    if isinstance(present, Unreadable):
        return _make_refused_finding(step, Hold(HoldKind.REFUSED, present.reason))
    # A live setting goes with its module or its device, and then nothing of ours is left to take
    # back.
    is_gone = present is ABSENT and kind.is_live
    if is_gone or kind.same(present, value):
        return Return(step.id, _make_return_change(change, present, value), on_paper=True)
    if change.reversible.startswith("no") or kind.invert(change) is None:
        return _make_refused_finding(
            step, Hold(HoldKind.REFUSED, f"it cannot be undone: {change.reversible}")
        )
    if not kind.same(present, change.after) and not _is_between(step, present, value, journal):
        return _make_refused_finding(
            step, Hold(HoldKind.EDITED, f"{describe_place(change.address)} since run {step.id.run}")
        )
    try:
        # Tried on the overlay, so that the plan refuses what the undo could not write, and the next
        # step sees what this one leaves.
        back = kind.way_back(overlay, _make_return_change(change, present, value))
        kind.write(overlay, back)
    except HosttuneError as error:
        return _make_refused_finding(step, Hold(HoldKind.REFUSED, error.message))
    return Return(step.id, back)


def _is_between(step: JournalStep, present: Value, value: Value, journal: Journal) -> bool:
    """Whether what a run left half-way, and a repair by hand has moved, is still between what was
    before that run and what was to be after it.
    """
    steps = tuple(one for run in journal.runs for one in run.steps)
    raw = next(one for one in steps if one.id == step.id)
    was_half = step.id in journal.unended or raw.planned is not None
    made = replace(step.change, before=value, after=(raw.planned or raw.change).after)
    return was_half and kind_of(made.address).is_between(present, made)


def find_original(step: JournalStep, journal: Journal) -> Value:
    """The value to return to. Where it was left by an earlier step that has been undone on paper
    meanwhile, it is that step's own.
    """
    value = step.change.before
    kind = kind_of(step.change.address)
    for one in journal.before(step):
        if (
            one.undoes is not None
            or one.change.address != step.change.address
            or one.phase is not Phase.DONE
        ):
            continue
        undone = journal.undone.get(one.id)
        if undone is not None and not undone.superseded:
            continue
        if undone is None or not kind.same(one.change.after, value):
            break  # someone else had set the value since
        value = one.change.before
    return value


def _make_return_change(change: Change, present: Value, value: Value) -> Change:
    """The change from what is there now to the value to return to."""
    made = replace(change, before=value, after=present)
    return kind_of(change.address).invert(made) or invert_change(made)


def _make_refused_finding(step: JournalStep, hold: Hold, todo: str = "") -> Finding:
    address = step.change.address
    todo = todo or f"look at {address.name}; remove it or put it back by hand, then undo again"
    return Finding(
        step.change.rule, str(address), Verdict.DIFFERS, hold, "is left as it is", todo=todo
    )


def undo(
    session: Session,
    writer: Writer,
    undo_plan: UndoPlan,
    *,
    on_progress: Callable[[str], None] = lambda _: None,
    who: str = "",
    given_up: Mapping[Change, str] | None = None,
) -> Receipt:
    """Do what the undo plan says. The caller holds the lock. `who` acts, where it is no person, and
    is booked also where nothing could be taken back; `given_up` are changes that were to be made
    and will not be, each with the reason, which the journal keeps.

    A step that fails raises nothing: the receipt tells, and what its rule did before that step
    stays, because the later steps rest on it (a disk that is still mounted keeps its line in
    fstab). A signal that asks to stop is heeded between two steps; what was not begun is `left` in
    the receipt, which is kept.
    """
    if not undo_plan.returns and not given_up and not who:
        return Receipt("", undo_plan.plan.digest, ())
    run = new_run(writer, session.journal, "undo", undo_plan.plan.digest, who)
    planned = tuple(dict.fromkeys(str(one.change.address) for one in undo_plan.returns))
    run = replace(run, planned=planned, part_of=session.journal.goes_on_with(run, planned))
    with stopping.between_changes():
        recorder = JournalWriter.start(writer, run)
        receipt = _take_plan_back(
            session, Execution(writer, recorder, on_progress), undo_plan, given_up or {}
        )
    keep_receipt(writer, receipt)
    return receipt


def _take_plan_back(
    session: Session, execution: Execution, undo_plan: UndoPlan, given_up: Mapping[Change, str]
) -> Receipt:
    """Take back what the plan says until a signal asks to stop, and return what became of it."""
    writer, recorder = execution.writer, execution.recorder
    runs = ", ".join(dict.fromkeys(one.step.run for one in reversed(undo_plan.returns)))
    execution.log(f"begins: {len(undo_plan.returns)} of {runs} to undo, hosttune {__version__}")
    made: list[Change] = []
    stuck: set[str] = set()
    for change, reason in given_up.items():
        # Failed steps of a return tell the next plan which values not to set again
        # (`Journal.came_back`).
        recorder.record_failure(recorder.intent(change), reason)
    left: tuple[Change, ...] = ()
    for number, one in enumerate(undo_plan.returns):
        if stopping.get_signal():
            left = tuple(other.change for other in undo_plan.returns[number:])
            break
        if one.change.rule in stuck:
            execution.leave(
                one.change, f"left: another step of {one.change.rule} could not be undone"
            )
        elif execution.make(one.change, one.step, superseded=one.on_paper) is None:
            if one.change in execution.not_made:
                left = tuple(other.change for other in undo_plan.returns[number:])
                break
            stuck.add(one.change.rule)
        elif not one.on_paper:
            made.append(one.change)
    execution.fire([trigger for change in made for trigger in change.triggers])
    verified = execution.is_verified and still_there(made, writer)
    execution.finish(left)
    shown = tuple(o for o in execution.outcomes if o.change in made or o.error)
    waiting = (*execution.waiting, *waits_after(shown, writer))
    stays = left_by(shown, writer)
    boots = changed_reboots(shown)
    faults = faults_of(session, writer) if boots else ()
    why, obstacles = boots + reboot_reasons(faults), reboot_obstacles(faults)
    if why:
        keep_standing(session, writer, execution.on_progress)
    stopped = stopped_by() if left or execution.has_left_triggers else ""
    return Receipt(
        recorder.run.id,
        undo_plan.plan.digest,
        shown,
        waiting,
        why,
        verified,
        obstacles,
        stays,
        faults,
        stopped=stopped,
        left=left,
    )
