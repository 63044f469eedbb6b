"""The way back: a run or a rule is undone by a plan of its own, shown first, never over somebody else's later edit."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hosttune import __version__
from hosttune.actions.apply import Execution, new_run
from hosttune.actions.journal import Recorder, Step, StepId, is_at
from hosttune.engine.plan import digest
from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.resources import address_kinds
from hosttune.resources.base import action_between
from hosttune.values import Activation, Finding, Hold, HoldKind, Plan, Receipt, Stage, Unreadable, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.actions.examine import Session
    from hosttune.actions.journal import Journal
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change, Value


@frozen
class Return:
    """One step to take back: the change that does it; on paper only where a later run holds the address now, or where
    the old value is back already.
    """

    step: StepId
    change: Change
    on_paper: bool = False


@frozen
class UndoPlan:
    """A plan that takes runs or a rule back; `returns` ties its changes to the steps that they undo."""

    plan: Plan
    returns: tuple[Return, ...]
    rules: tuple[str, ...]


def plan_undo(session: Session, run_id: str | None = None, rule: str | None = None) -> UndoPlan:
    """The plan that takes back one run (by default the last that left something), or all that a rule did.

    It is empty where nothing of them is in force any more. Raises HosttuneError for a run that nobody knows.
    """
    journal = session.journal
    if journal.unreadable:
        message = f"the journal cannot be read: {journal.unreadable}"
        raise HosttuneError(message, hint="run it as root")
    steps = _chosen(journal, run_id, rule)
    returns, findings = [], []
    stuck: dict[str, Step] = {}  # rule -> its step that is left: the earlier ones rest on it
    for step in reversed(steps):
        held = stuck.get(step.change.rule)
        answer = _resting(step, held) if held else _return(step, steps, journal, session.reader)
        if isinstance(answer, Return):
            returns.append(answer)
        else:
            findings.append(answer)
            stuck.setdefault(step.change.rule, step)
    changes = tuple(one.change for one in returns if not one.on_paper)
    triggers = tuple(dict.fromkeys(trigger for change in changes for trigger in change.triggers))
    plan = Plan(
        digest=digest(changes),
        tool_version=__version__,
        machine="",
        created_at=datetime.fromtimestamp(session.reader.now(), timezone.utc).isoformat(timespec="seconds"),
        policy_digest="",
        stages=(Stage(changes, triggers),) if changes else (),
        findings=tuple(findings),
    )
    return UndoPlan(plan, tuple(returns), tuple(sorted({step.change.rule for step in steps})))


def _chosen(journal: Journal, run_id: str | None, rule: str | None) -> tuple[Step, ...]:
    steps = journal.in_force
    if run_id:
        wanted = journal.run(run_id).id
        steps = tuple(step for step in steps if step.id.run == wanted)
    if rule:
        steps = tuple(step for step in steps if step.change.rule == rule)
    if not run_id and not rule and steps:
        steps = tuple(step for step in steps if step.id.run == steps_last_run(steps))
    return steps


def steps_last_run(steps: tuple[Step, ...]) -> str:
    return steps[-1].id.run


def _return(step: Step, together: tuple[Step, ...], journal: Journal, reader: Reader) -> Return | Finding:
    change = step.change
    chosen = {one.id for one in together}
    later = [one for one in journal.after(step) if one.change.address == change.address]
    value = original(step, journal)
    if [one for one in later if one.id not in chosen]:
        return Return(step.id, _back(change, change.after, value), on_paper=True)
    top = later[-1].change if later else change
    kind = address_kinds()[change.address.kind]
    present = kind.read(reader, change.address.name)
    if isinstance(present, Unreadable):
        return _refused(step, Hold(HoldKind.REFUSED, present.reason))
    if later and kind.same(present, top.after):
        # a step of the same undo comes first and leads to this one's own value
        present = change.after
    if kind.same(present, value):
        return Return(step.id, _back(change, present, value), on_paper=True)
    if change.reversible.startswith("no") or kind.invert(change) is None:
        return _refused(step, Hold(HoldKind.REFUSED, f"it cannot be undone: {change.reversible}"))
    if not kind.same(present, change.after):
        return _refused(step, Hold(HoldKind.EDITED, f"{change.address} since run {step.id.run}"))
    return Return(step.id, _back(change, present, value))


def original(step: Step, journal: Journal) -> Value:
    """The value to return to. Where it was left by an earlier step that has been undone on paper meanwhile, it is
    that step's own.
    """
    value = step.change.before
    kind = address_kinds()[step.change.address.kind]
    for one in journal.before(step):
        undone = journal.undone.get(one.id)
        same_place = one.change.address == step.change.address
        if same_place and undone is not None and undone.superseded and kind.same(one.change.after, value):
            value = one.change.before
    return value


def _back(change: Change, present: Value, value: Value) -> Change:
    inverse = address_kinds()[change.address.kind].invert(change) or change
    return replace(inverse, action=action_between(present, value), before=present, after=value)


def _refused(step: Step, hold: Hold) -> Finding:
    address = step.change.address
    todo = f"look at {address.name}; remove it or put it back by hand, then undo again"
    return Finding(step.change.rule, str(address), Verdict.DIFFERS, hold, "is left as it is", todo=todo)


def _resting(step: Step, on: Step) -> Finding:
    detail = f"{on.change.address}, which came after it, is left"
    return _refused(step, Hold(HoldKind.REFUSED, detail))


def undo(
    session: Session, writer: Writer, undo_plan: UndoPlan, *, on_progress: Callable[[str], None] = lambda _: None
) -> Receipt:
    """Do what the undo plan says. The caller holds the lock.

    A step that fails raises nothing: the receipt tells, and what its rule did before that step stays, because the later
    steps rest on it (a disk that is still mounted keeps its line in fstab).
    """
    if not undo_plan.returns:
        return Receipt("", undo_plan.plan.digest, ())
    recorder = Recorder.start(writer, new_run(writer, session.journal, "undo", undo_plan.plan.digest))
    execution = Execution(writer, recorder, on_progress)
    made: list[Change] = []
    stuck: set[str] = set()
    for one in undo_plan.returns:
        if one.change.rule in stuck:
            execution.leave(one.change, f"left: another step of {one.change.rule} could not be undone")
        elif execution.make(one.change, one.step, superseded=one.on_paper) is None:
            stuck.add(one.change.rule)
        elif not one.on_paper:
            made.append(one.change)
    execution.fire([trigger for change in made for trigger in change.triggers], session.facts)
    verified = execution.is_verified and all(
        is_at(change.address, change.after, writer) for change in {c.address: c for c in made}.values()
    )
    recorder.finish()
    reboots = tuple(
        f"{change.address} takes effect at the next boot" for change in made if change.activation is Activation.REBOOT
    )
    shown = tuple(o for o in execution.outcomes if o.change in made or o.error)
    return Receipt(recorder.run.id, undo_plan.plan.digest, shown, tuple(execution.waiting), reboots, verified)
