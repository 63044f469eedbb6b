"""Make a plan true: journal first, act, read back; a rule's changes stand or fall together."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hosttune import __version__
from hosttune.actions.examine import faults_of
from hosttune.actions.gate.before_boot import keep_standing
from hosttune.actions.journal.journal import JournalWriter, boot_id, is_at, way_out
from hosttune.actions.journal.lines import NOT_MADE, Run, StepId
from hosttune.actions.journal.receipts import keep_receipt
from hosttune.actions.triggers import comes_after, in_order, must_wait, run_trigger
from hosttune.engine.decide.plan import (
    after_run,
    list_unannounced,
    standing_faults,
    waits_for_reboot,
)
from hosttune.engine.decide.reboot import boots_of
from hosttune.errors import Conflict, HosttuneError, Refused
from hosttune.facts import Facts
from hosttune.host.masking.cleaned import clean
from hosttune.host.writing import stopping
from hosttune.resources import by_kind, describe_place, kind_of, locate_address
from hosttune.values import Activation, Outcome, Phase, Plan, Receipt, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.actions.examine import Session
    from hosttune.actions.journal.journal import Journal
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change, Finding, Trigger


def check_expected(plan: Plan, digest: str, words: str = "plan") -> None:
    """Refuse unless the plan made now is the one that was shown. `digest` may be its first twelve
    digits or more; `words` show it again.
    """
    # Twelve digits are 48 bits. Fewer, or an empty word, would also match a plan that no one has
    # seen.
    if len(digest) >= 12 and plan.digest.startswith(digest):
        return
    message = (
        f"the plan has changed since it was shown: expected {digest[:12]}, now {plan.digest[:12]}"
    )
    raise Refused(message, hint=f"look at the new plan with: hosttune {words}")


def what_differs(shown: Plan, now: Plan) -> str:
    """One sentence that names what differs between a saved plan and the one made now."""
    before = {change.address: change for change in shown.changes}
    after = {change.address: change for change in now.changes}
    gone = [describe_place(address) for address in before if address not in after]
    new = [describe_place(address) for address in after if address not in before]
    other = [
        describe_place(address)
        for address in before
        if address in after and before[address] != after[address]
    ]
    parts = [f"no longer needed: {', '.join(gone)}"] * bool(gone)
    parts += [f"new: {', '.join(new)}"] * bool(new)
    parts += [f"different: {', '.join(other)}"] * bool(other)
    return "; ".join(parts) or "the order of the changes"


@dataclass
class Execution:
    """One run in progress: the journal, what became of each change, what waits."""

    writer: Writer
    recorder: JournalWriter
    on_progress: Callable[[str], None]
    outcomes: list[Outcome] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    # by rule, of all stages so far
    standing: dict[str, list[tuple[StepId, Change]]] = field(default_factory=dict)
    not_made: list[Change] = field(default_factory=list)  # a signal came before they were made
    has_left_triggers: bool = False  # because a signal asked to stop
    is_verified: bool = True

    def make(
        self, change: Change, undoes: StepId | None = None, *, superseded: bool = False
    ) -> StepId | None:
        """Journal the intent, act, read back, journal the result. None when it failed (the reason
        is in the outcome). What would break GPU work that was not shown with the change is not
        begun.
        """
        # The plan was shown minutes ago: a job that has started since is not covered by the yes.
        if not superseded and (running := list_unannounced(change, Facts(self.writer))):
            self.leave(
                change,
                f"{describe_place(change.address)} would disturb what runs now: "
                f"{'; '.join(running)}",
            )
            return None
        # Synced before the act. After a power cut the journal then names every place that may have
        # changed.
        step = self.recorder.intent(change, undoes, superseded=superseded)
        on_paper = f"{describe_place(change.address)} already has its old value: recorded as undone"
        self.on_progress(
            on_paper if superseded else f"{change.action.symbol} {describe_place(change.address)}"
        )
        try:
            if not superseded:
                kind = kind_of(change.address)
                kind.prepare(self.writer, change, self.on_progress, is_undo=undoes is not None)
                kind.write(self.writer, change)
                # The kernel can take a value and set less, without an error (vm.nr_hugepages when
                # memory is fragmented). So only what reads back counts as made.
                if not is_at(change.address, change.after, self.writer):
                    message = (
                        f"{describe_place(change.address)} reads differently after it was written"
                    )
                    raise Refused(message)
        except HosttuneError as error:
            # A program that the signal ended says nothing about the change, so its rule is not
            # rolled back for it.
            if stopping.get_signal() and is_at(change.address, change.before, self.writer):
                self.recorder.record_failure(step, NOT_MADE)
                self.not_made.append(change)
                return None
            # the program's words may hold a secret: the journal keeps it
            lines = error.message.splitlines()[:1]
            self.log(f"failed: {change.action} {change.address} ({change.rule}): {''.join(lines)}")
            self._book_failed(step, change, error, is_undo=undoes is not None)
            self.outcomes.append(
                Outcome(change, Phase.FAILED, error.message, way_out(error, step, undoes))
            )
            return None
        self.recorder.done(step)
        self.outcomes.append(Outcome(change, Phase.DONE))
        if undoes is None:
            self.standing.setdefault(change.rule, []).append((step, change))
        self.log(f"{change.action} {change.address} ({change.rule})")
        return step

    def log(self, sentence: str) -> None:
        """One line of the system log, complete by itself: the run, its digest, who acts."""
        run = self.recorder.run
        self.writer.log(
            clean(f"{run.command} {run.id}, digest {run.digest[:12]}, by {run.who}: {sentence}")
        )

    def finish(self, left: tuple[Change, ...] = ()) -> None:
        """The run has come to its end, or was stopped before it came to what is `left`."""
        self.recorder.finish(was_interrupted=bool(left))
        made = sum(one.phase is Phase.DONE for one in self.outcomes)
        failed = len(self.outcomes) - made
        stopped = f"{stopped_by()}, {len(left)} not begun" if left else ""
        self.log(
            ", ".join(
                filter(
                    None,
                    (f"ended: {made} made", f"{failed} failed or left" * bool(failed), stopped),
                )
            )
        )

    @property
    def left_standing(self) -> tuple[Outcome, ...]:
        """What was made and not taken back since."""
        standing = [change for steps in self.standing.values() for _, change in steps]
        return tuple(
            one for one in self.outcomes if one.phase is Phase.DONE and one.change in standing
        )

    def _book_failed(
        self, step: StepId, change: Change, error: HosttuneError, *, is_undo: bool
    ) -> None:
        """Journal what a change that raised has left. As before, it failed; at another value it is
        in force all the same, and can be taken back; where no one can tell, it stays open.
        """
        kind = kind_of(change.address)
        present = kind.read(self.writer, change.address.name)
        # A conflict means that someone else wrote there first. What is there now is theirs, and no
        # undo may touch it.
        if isinstance(error, Conflict) or kind.same(present, change.before):
            self.recorder.record_failure(step, error.message)
        # No result is written, so the intent stays open: it counts as in force until recovery can
        # read the place.
        elif isinstance(present, Unreadable):
            self.on_progress(
                f"{describe_place(change.address)} cannot be read after it failed: {present.reason}"
            )
        elif is_undo:
            self.recorder.record_failure(step, error.message, replace(change, after=present))
        else:
            # Booked with the value that is there. With the planned one, undo would take the place
            # for edited by someone else.
            made = replace(change, after=present)
            self.recorder.done(step, error.message, made)
            self.standing.setdefault(change.rule, []).append((step, made))

    def leave(self, change: Change, reason: str) -> None:
        """Note a change that is not tried any more."""
        self.outcomes.append(Outcome(change, Phase.FAILED, reason))

    def take_back(self, rule: str, reason: str) -> None:
        """Undo what this run did, in whatever stage, for a rule of which another change failed;
        from the last change to the first one that cannot be taken back, for what came before may
        rest on it.
        """
        steps = self.standing.pop(rule, [])
        goes_back = any(_goes_back(change) for _, change in steps)
        self.on_progress(f"rolling back {rule}: {reason}" if goes_back else reason)
        kept = []
        while steps:
            step, change = steps.pop()
            inverse = kind_of(change.address).invert(change) if _goes_back(change) else None
            if inverse is None:
                kept.append((step, change))
            elif self.make(inverse, step) is None:
                kept.append((step, change))
                break
        # What could not be undone stays listed, because the receipt still has to ask for its
        # reboot.
        self.standing[rule] = [*steps, *reversed(kept)]

    def fire(self, triggers: Iterable[Trigger]) -> None:
        """Run each trigger once, or note why it must wait; the next run finishes what waits."""
        stuck: list[Trigger] = []
        for trigger in in_order(triggers):
            # what runs now, not before a long installation
            reason = must_wait(trigger, Facts(self.writer)) or comes_after(trigger, stuck)
            # Between two triggers nothing is half done, and the journal hands those that are left
            # to the next run.
            if not reason and stopping.get_signal():
                reason, self.has_left_triggers = "the run was stopped", True
            if not reason:
                self.on_progress(f"running {trigger}")
                try:
                    run_trigger(trigger, self.writer)
                    self.recorder.trigger(trigger, "done")
                    continue
                except HosttuneError as error:
                    reason = "; ".join(filter(None, (error.message, error.hint)))
                    self.is_verified = False
            stuck.append(trigger)
            self.recorder.trigger(trigger, "waiting")
            self.waiting.append(_describe_wait(trigger, reason))


def _goes_back(change: Change) -> bool:
    """Whether it is taken back with a rule that failed."""
    return kind_of(change.address).goes_back and not change.reversible.startswith("no")


def _describe_wait(trigger: Trigger, reason: str) -> str:
    return f"{trigger} waits: {reason}"


def stopped_by() -> str:
    """What asked to stop, in a word."""
    return signal.Signals(stopping.get_signal()).name if stopping.get_signal() else ""


def require_whole(receipt: Receipt) -> None:
    """End this process as its signal does, where the run was stopped: what rests on all of it must
    not follow.
    """
    if receipt.stopped:
        raise KeyboardInterrupt(signal.Signals[receipt.stopped].value)


def run_of(writer: Writer, journal: Journal, plan: Plan, part_of: str = "") -> Run:
    """A run that makes this plan, with what its yes covers. `part_of`: the first run of what it is
    known to go on with; else the journal tells.
    """
    run = new_run(writer, journal, "apply", plan.digest)
    changes = [str(change.address) for change in plan.changes]
    waits = (
        change
        for finding in plan.findings
        if waits_for_reboot(finding)
        for change in finding.changes
    )
    planned = tuple(dict.fromkeys((*changes, *(str(change.address) for change in waits))))
    goes_on = journal.goes_on_with(run, changes, part_of)
    return replace(run, planned=planned, boots=boots_of(plan), part_of=goes_on)


def new_run(writer: Writer, journal: Journal, command: str, digest: str, who: str = "") -> Run:
    """A run that has not begun, with everything that its first journal line tells. `who` acts,
    where it is no person.

    Runs are ordered by their start, so one never starts before the last: a clock may be set back
    between two runs.
    """
    from datetime import datetime, timedelta, timezone
    from secrets import token_hex

    started = datetime.fromtimestamp(writer.now(), timezone.utc)
    if journal.runs:
        started = max(
            started, datetime.fromisoformat(journal.runs[-1].started_at) + timedelta(microseconds=1)
        )
    return Run(
        id=f"{started:%Y%m%d-%H%M%S}-{token_hex(2)}",
        command=command,
        started_at=started.isoformat(timespec="microseconds"),
        who=who or writer.operator(),
        boot_id=boot_id(writer),
        digest=digest,
        tool_version=__version__,
    )


def apply(
    session: Session,
    writer: Writer,
    plan: Plan,
    *,
    on_progress: Callable[[str], None] = lambda _: None,
    ready: Run | None = None,
    part_of: str = "",
) -> Receipt:
    """Do what the plan says, rule by rule and stage by stage, and verify it. The caller holds the
    lock. `ready` is a run that was prepared for it, which is booked even if it changes nothing.
    `part_of` as of `run_of`.

    A failed change takes its rule back; the other rules go on. A signal that asks to stop is heeded
    between two changes: what was not begun is `left` in the receipt, which is kept. Raises Refused
    where there is something to do and it is not known what is in force.
    """
    pending = session.journal.pending_triggers(boot_id(writer))
    if not plan.changes and ready is None:
        reasons = {trigger: must_wait(trigger, session.facts) for trigger in pending}
        if all(reasons.values()):  # a run that could do nothing leaves no trace
            waiting = tuple(_describe_wait(*item) for item in reasons.items())
            why = changed_reboots(session.resumed) + reboot_reasons(plan.findings)
            if why:
                keep_standing(session, writer, on_progress)
            run, outcomes, faults = (
                session.resumed_run,
                session.resumed,
                standing_faults(plan.findings),
            )
            obstacles = reboot_obstacles(faults)
            return Receipt(
                run, plan.digest, outcomes, waiting, why, reboot_obstacles=obstacles, faults=faults
            )
    # Only here: a run that changes nothing works as `check` does, without a journal that can be
    # read.
    session.journal.require_known()
    with stopping.between_changes():
        recorder = JournalWriter.start(
            writer, ready or run_of(writer, session.journal, plan, part_of)
        )
        execution = Execution(writer, recorder, on_progress)
        execution.log(f"begins: {len(plan.changes)} to make, hosttune {__version__}")
        receipt = _make_plan(session, execution, plan, pending)
    # After the last line of the journal: a crash in between loses a copy, and nothing that undo
    # needs.
    keep_receipt(writer, receipt)
    return receipt


def _make_plan(
    session: Session, execution: Execution, plan: Plan, pending: tuple[Trigger, ...]
) -> Receipt:
    """Make the plan until a signal asks to stop, and return what became of it."""
    writer, run = execution.writer, execution.recorder.run
    failed: set[str] = set()
    for number, stage in enumerate(plan.stages):
        triggers = _make_stage(execution, stage.changes, failed)
        # What earlier runs left goes with the first stage, where a trigger of both is run only
        # once.
        execution.fire([*(pending if number == 0 else ()), *triggers])
        if stopping.get_signal():
            break
    if not plan.stages:
        execution.fire(pending)
    done = (outcome.change for outcome in execution.outcomes if outcome.phase is Phase.DONE)
    # A later change, or a reload, can set an earlier value back. Each was read when it was made, so
    # all are read once more.
    verified = execution.is_verified and still_there(done, writer)
    tried = {outcome.change for outcome in execution.outcomes}
    is_stopped = bool(stopping.get_signal())
    left = tuple(
        one for one in plan.changes if is_stopped and one not in tried and one.rule not in failed
    )
    execution.finish(left)
    outcomes = (*session.resumed, *execution.outcomes)
    boots = changed_reboots((*session.resumed, *execution.left_standing))
    # Every fact is read anew for it, which takes seconds on a host with many GPUs. Without a boot
    # or a fault the answer changes nothing.
    faults = faults_of(session, writer) if boots or standing_faults(plan.findings) else ()
    if why := boots + reboot_reasons(after_run(plan.findings, faults)):
        keep_standing(session, writer, execution.on_progress)
    return Receipt(
        run.id,
        plan.digest,
        outcomes,
        (*execution.waiting, *waits_after(execution.outcomes, writer)),
        why,
        verified,
        reboot_obstacles(faults),
        left_by(outcomes, writer),
        faults,
        run.part_of and session.journal.first_of(run).id,
        stopped_by() if left or execution.has_left_triggers else "",
        left,
    )


def _make_stage(
    execution: Execution, changes: tuple[Change, ...], failed: set[str]
) -> list[Trigger]:
    """Make the changes of one stage; returns the triggers of all that was tried, what was taken
    back included.
    """
    first = len(execution.outcomes)
    for change in changes:
        if stopping.get_signal():
            break
        if (
            # The other rules go on: a package that cannot be installed must not keep a host from
            # its sysctls.
            change.rule not in failed
            and execution.make(change) is None
            and change not in execution.not_made
        ):
            failed.add(change.rule)
            execution.take_back(change.rule, f"{describe_place(change.address)} failed")
    # one that failed may have left something
    touched = (outcome.change for outcome in execution.outcomes[first:])
    return [trigger for change in touched for trigger in change.triggers]


def still_there(changes: Iterable[Change], reader: Reader) -> bool:
    """Read every place again at the end: what was written to it last must stand."""
    last: dict[tuple[str, str], Change] = {}
    for change in changes:
        # A key that is set again keeps its old place in a dictionary. Taken out first, the order is
        # that of the last writes.
        last.pop(locate_address(change.address), None)
        last[locate_address(change.address)] = change
    return all(kind.stand(some, reader) for kind, some in by_kind(last.values()))


def waits_after(outcomes: Iterable[Outcome], reader: Reader) -> tuple[str, ...]:
    """What these changes, those that failed included, leave to be done."""
    some = by_kind(outcome.change for outcome in outcomes)
    return tuple(sentence for kind, own in some for sentence in kind.waits_after(own, reader))


def left_by(outcomes: Iterable[Outcome], reader: Reader) -> tuple[str, ...]:
    """What they leave on the disk."""
    some = by_kind(outcome.change for outcome in outcomes)
    return tuple(sentence for kind, own in some for sentence in kind.left_by(own, reader))


def changed_reboots(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """What was made and takes effect at the next boot; what failed does not."""
    return tuple(
        f"{describe_place(outcome.change.address)} takes effect at the next boot"
        for outcome in outcomes
        if outcome.phase is Phase.DONE and outcome.change.activation is Activation.REBOOT
    )


def reboot_obstacles(findings: Iterable[Finding]) -> tuple[str, ...]:
    """What has to be solved before anybody boots this host again, of the state found."""
    return tuple(
        f"{one.rule}: {one.reason}" for one in findings if one.blocks_reboot and not one.changes
    )


def reboot_reasons(findings: Iterable[Finding]) -> tuple[str, ...]:
    """What is configured but not running until a reboot, from the state found, never from "this run
    changed something".
    """
    return tuple(
        f"{finding.rule}: {finding.subject or 'host'}"
        for finding in findings
        if waits_for_reboot(finding)
    )
