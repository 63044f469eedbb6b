"""A run on trial: it goes back by itself unless it is confirmed. It wraps a run, and is woven into
none of its steps.

`begin` before the first change: what is kept, the guard, the timer. `settle` after the last one:
from then on it can be confirmed, and where nothing of it is in force at once, the next boot is the
one that counts. It ends by `confirm`, by `come_back` (the undo of the run, a run of its own in the
journal), or by an undo that someone types (`taken_back`).

Each end begins with a mark, and takes away the entry for one boot before the guard: what is cut off
in between is brought to its end by the next command that looks (`finish`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hosttune.actions.apply import apply, new_run, reboot_obstacles, require_whole, run_of
from hosttune.actions.examine import faults_of
from hosttune.actions.journal.journal import JournalWriter, boot_id, is_at, read_journal
from hosttune.actions.journal.lines import CONFIRM, WHO_COMES_BACK
from hosttune.actions.trial import clock as trial_clock
from hosttune.actions.trial import guard as trial_guard
from hosttune.actions.trial import one_shot
from hosttune.actions.trial.connection import read_login, why_not_proof
from hosttune.actions.trial.login_notice import show_at_login
from hosttune.actions.trial.standing import (
    FIRST_SMI_S,
    SETTLE_S,
    read_planned,
    read_standing,
    standing_of,
    standing_text,
)
from hosttune.actions.trial.state import (
    BEFORE,
    RECORD,
    TrialRecord,
    TrialRun,
    TrialState,
    is_left_over,
    read_trial,
    record_text,
    require_none,
    uptime_s,
)
from hosttune.actions.undo import plan_undo, undo
from hosttune.engine.decide.plan import digest, stage
from hosttune.engine.decide.trial import TrialPart, TrialPlan, plan_trial
from hosttune.engine.rules.trusted import strange_program
from hosttune.engine.trial_terms import LAST_S
from hosttune.errors import HosttuneError, Refused
from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact, attempt, read_or_default
from hosttune.facts.kernel.boot_entry import one_shot as look_at_grub
from hosttune.facts.losses import Aspect, find_losses
from hosttune.facts.reading import require_known
from hosttune.frozen import frozen
from hosttune.host.console import find_archive, load_bytes, starting_words
from hosttune.host.door import Stat
from hosttune.host.masking.cleaned import Cleaned, clean
from hosttune.host.reading.tree import read_own
from hosttune.numbers import say_span
from hosttune.quoting import quote
from hosttune.resources import describe_place
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Confirmer,
    FileValue,
    Phase,
    Plan,
    Receipt,
    Unreadable,
)
from hosttune.verdict_words import run_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.actions.examine import Session
    from hosttune.actions.journal.lines import Run
    from hosttune.engine.trial_terms import TrialTerms
    from hosttune.facts.kernel.boot_entry import BootEntry
    from hosttune.facts.losses import Loss
    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change

CARRIED = f"{trial_guard.FOLDER}/hosttune.pyz"
SCHEDULED = "/run/systemd/shutdown/scheduled"
_BOOT_S, _GPU_S = 600, 10  # of a boot with all its GPUs, beyond what was asked for


@frozen
class TrialEnd:
    """How a trial ended, or what became of one part of it."""

    trial: TrialRun
    state: TrialState  # CONFIRMED, NEXT_BOOT, CAME_BACK, IN_PART or FAILED
    reason: str = ""
    receipt: Receipt | None = None  # of the undo, or of what a confirmation has made
    # what is in force only after a reboot that does not happen by itself, a sentence
    needs_reboot: str = ""


def foresee(session: Session, plan: Plan, terms: TrialTerms) -> TrialPlan:
    """How this plan would be tried on this host, before anybody says yes. Changes nothing."""
    reader, facts = session.reader, session.facts
    planned = plan_trial(plan, terms)
    one_boot: tuple[str, ...] = ()
    if planned.of(TrialPart.ONE_BOOT):
        one_boot = look_at_grub(reader, facts).refusals
        planned = plan_trial(plan, terms, one_boot=one_boot)
    obstacles = (
        [reason]
        if (reason := trial_clock.why_not_timer(reader))
        else list(_list_obstacles(session, planned, reboot_obstacles(plan.findings)))
    )
    planned = plan_trial(
        plan, terms, obstacles, tuple(_list_notes(reader, facts, planned)), one_boot
    )
    return replace(
        planned, boot_within_s=max(terms.within_s, _BOOT_S + _GPU_S * _count_gpus(facts))
    )


def _list_obstacles(
    session: Session, planned: TrialPlan, blockers: tuple[str, ...]
) -> Iterable[str]:
    reader = session.reader
    if why := strange_program(reader, CARRIED):
        yield why
    if planned.has_boot:
        yield from blockers
    if session.journal.interrupted:
        yield (
            f"run {session.journal.interrupted[-1].id} was interrupted: sudo hosttune apply --yes "
            "goes on with it"
        )
    files = attempt(lambda: _list_kept_files(reader, planned))
    if isinstance(files, Unreadable):
        yield files.reason
        return
    yield from trial_guard.check_armable(reader, session.facts, files)


def _list_kept_files(reader: Reader, planned: TrialPlan) -> tuple[trial_guard.KeptFile, ...]:
    try:
        guarded = planned.of(TrialPart.NOW, TrialPart.NEXT_BOOT)
        return trial_guard.kept_files(reader, (one.change for one in guarded))
    except HosttuneError as error:
        raise UnknownFact(error.message) from None


def _list_notes(reader: Reader, facts: Facts, planned: TrialPlan) -> Iterable[str]:
    if planned.of(
        TrialPart.ONE_BOOT
    ) and "systemd.watchdog_sec=180" not in one_shot.safety_arguments(reader):
        yield "A kernel that hangs needs one power cycle: no hardware watchdog is fed here."
    if planned.has_boot:
        yield "A second reboot before the confirmation counts as no."
    with suppress(UnknownFact):
        if planned.has_boot and facts.upgrades.reboots:
            yield f"unattended-upgrades may reboot by itself ({facts.upgrades.reboot_time})."
    if isinstance(reader.stat(SCHEDULED), Stat):
        yield "A shutdown is scheduled already (shutdown --show)."


def require_promise(planned: TrialPlan, *, without_return: bool) -> None:
    """Raise Refused where this host cannot promise to come back; then nothing was changed."""
    if planned.obstacles and planned.is_any:
        more = f" (and {len(planned.obstacles) - 1} more)" if len(planned.obstacles) > 1 else ""
        raise Refused(
            f"no trial is possible here: {planned.obstacles[0]}{more}; nothing was changed",
            hint="fix that, or apply without a trial: --confirm-within off",
        )
    stays = planned.of(TrialPart.NO_RETURN)
    if stays and not without_return:
        reasons = "; ".join(
            dict.fromkeys(
                f"{one.change.rule} ({describe_place(one.change.address)}): {one.reason}"
                for one in stays
            )
        )
        rules = " ".join(
            f"--ignore {rule}" for rule in dict.fromkeys(one.change.rule for one in stays)
        )
        raise Refused(
            f"this cannot be rolled back: {reasons}; nothing was changed",
            hint=f"leave it out ({rules}), or make it all the same: --without-return",
        )


def begin(session: Session, writer: Writer, planned: TrialPlan, run: Run) -> TrialRecord:
    """Set up all that takes this run back. Raises Refused; then nothing of it is there, and nothing
    was changed.
    """
    require_none(writer)
    files = known_files(writer, planned)
    terms = planned.terms
    rules = {
        part: tuple(dict.fromkeys(one.change.rule for one in planned.of(part)))
        for part in TrialPart
    }
    words = starting_words(CARRIED)
    # Before the guard is set up: this look can take minutes, and where it fails there is nothing to
    # remove.
    standing = read_standing(session)
    if blind := next((one.reason for one in standing.unseen if one.aspect is Aspect.SSHD), ""):
        raise Refused(
            f"no trial is possible here, since one that locks sshd out would look well: {blind}; "
            "nothing was changed",
            hint="fix that, or apply without a trial: --confirm-within off",
        )
    before = standing_text(standing).encode()
    trial_guard.arm(
        writer,
        run.id,
        files,
        within_s=planned.boot_within_s,
        has_one_shot=bool(planned.later),
        check=(*words, "come-back", "look", run.id),
        come_back=(*words, "come-back", "deadline", run.id),
    )
    record = TrialRecord(
        run=run.id,
        digest=run.digest,
        within_s=terms.within_s,
        boot_within_s=planned.boot_within_s,
        by=terms.by,
        boot_id=boot_id(writer),
        started_at=writer.now(),
        started_s=uptime_s(writer),
        live=rules[TrialPart.NOW],
        next_boot=rules[TrialPart.NEXT_BOOT],
        one_boot=rules[TrialPart.ONE_BOOT],
        arguments=planned.arguments,
        dropped=planned.dropped,
        postponed=planned.later,
        without_return=rules[TrialPart.NO_RETURN],
    )
    try:
        if carried := find_archive():
            writer.replace(CARRIED, FileValue(load_bytes(carried), 0o600), expected=ABSENT)
        writer.replace(BEFORE, FileValue(before, 0o600), expected=ABSENT)
        # After all else: a folder without trial.json is one that never began, and `finish` removes
        # it.
        writer.replace(RECORD, FileValue(record_text(record), 0o600), expected=ABSENT)
        if record.live:
            trial_clock.guard(
                writer, run.id, terms.within_s, (*words, "come-back", "cut-off", run.id)
            )
    except HosttuneError:
        _disarm(writer, record)
        raise
    return record


def known_files(reader: Reader, planned: TrialPlan) -> tuple[trial_guard.KeptFile, ...]:
    """The files of the plan that are put back where a boot stops. Raises Refused."""
    try:
        return _list_kept_files(reader, planned)
    except UnknownFact as unknown:
        raise Refused(unknown.reason) from None


def _count_gpus(facts: Facts) -> int:
    # Too many only make the trial longer. Too few would roll a healthy host back while its driver
    # still starts.
    return read_or_default(lambda: facts.gpus.count, 8)


def apply_on_trial(
    session: Session,
    writer: Writer,
    plan: Plan,
    planned: TrialPlan,
    on_progress: Callable[[str], None],
) -> tuple[Receipt, TrialRun | TrialEnd]:
    """Make the plan, on trial. The caller holds the lock, and the promise is
    (`require_promise`).
    """
    session.journal.require_known()
    run = run_of(writer, session.journal, plan)
    record = begin(session, writer, planned, run)
    receipt = apply(session, writer, planned.make_plan(plan), on_progress=on_progress, ready=run)
    has_begun = any(one.phase is Phase.DONE for one in receipt.outcomes)
    if receipt.stopped and has_begun:  # a part of it proves nothing
        reason = f"{receipt.stopped} stopped it before all was made"
        return receipt, come_back(
            _again_seen(session, writer), writer, _read_trial_again(writer), reason, on_progress
        )
    return receipt, settle(session, writer, record, receipt)


def require_confirmable(session: Session, reader: Reader, run_id: str | None) -> TrialRun | None:
    """The run on trial, that can be confirmed now and from here. None where the one that is named
    is not on trial (any more) and is. Raises Refused with what is in the way.
    """
    trial = read_trial(reader)
    if trial is None or (run_id and not trial.run.startswith(run_id)):
        _require_standing(session, run_id)
        return None
    if trial.state is TrialState.NEXT_BOOT:
        raise Refused(
            f"run {trial.run} is on trial at the next boot, which is not there yet",
            hint="reboot, then confirm",
        )
    if not trial.state.is_open:
        raise Refused(
            f"run {trial.run} {run_text(trial.state.value)}: it is too late to confirm it",
            hint="see: hosttune history",
        )
    if trial.record.made_s == 0:
        raise Refused(
            f"run {trial.run} has not come to its end: there is nothing to confirm",
            hint=f"wait for it; of one that was cut off: sudo hosttune undo {quote(trial.run)} "
            "--yes",
        )
    if trial.state is TrialState.LIVE and (
        reason := why_not_proof(read_login(reader), trial.record.made_s)
    ):
        way_out = (
            "log in again by ssh, beside this one, and type it there; a text console of this "
            "machine does as well"
        )
        raise Refused(reason, hint=way_out)
    return trial


def _require_standing(session: Session, run_id: str | None) -> None:
    """Raise Refused unless this run, which is not on trial, is in force."""
    if not run_id:
        raise Refused("nothing is on trial", hint="see: hosttune history")
    journal = session.journal
    run = journal.run(run_id)
    back = journal.return_of(run)
    # of arguments alone, which were made then
    is_made_by_it = not run.steps and journal.confirmation_of(run)
    if not back and (is_made_by_it or any(step.id.run == run.id for step in journal.in_force)):
        return
    undoing = (
        one
        for one in reversed(journal.runs)
        if any(s.undoes and s.undoes.run == run.id for s in one.steps)
    )
    back = back or next(undoing, None)
    at = f"{back.started_at[:16].replace('T', ' ')} UTC" if back else ""
    if back and back.is_return:
        what = f"{run_text(journal.status(run))} at {at}, because {back.who.partition(': ')[2]}"
    else:
        what = "is not in force any more" + (f": {back.who}, {at}" if back else "")
    raise Refused(f"run {run.id} {what}", hint="see: hosttune history")


def settle(
    session: Session, writer: Writer, record: TrialRecord, receipt: Receipt
) -> TrialRun | TrialEnd:
    """The run has come to its end: from now on its time counts, and it can be confirmed. Where
    nothing of it is, nothing is on trial.
    """
    is_begun = any(one.phase is Phase.DONE for one in receipt.outcomes)
    if not is_begun and (receipt.stopped or not record.postponed):
        _disarm(writer, record)
        trial = TrialRun(record, TrialState.CAME_BACK, None, "nothing was changed")
        return TrialEnd(trial, TrialState.CAME_BACK, "nothing was changed", receipt)
    session = _again_seen(session, writer)
    made = replace(record, made_s=uptime_s(writer))
    try:  # the timer first: where this ends here, it takes the run back
        if made.live:
            _start_time(writer, made)
        writer.replace(RECORD, FileValue(record_text(made), 0o600), expected=record_text(record))
        if not made.live:
            _ask_for_boot(session, writer, made)
    except HosttuneError as error:
        state, what = (TrialState.LIVE, "time cannot be kept") if made.live else (
            TrialState.NEXT_BOOT, "boot on trial cannot be asked for"
        )  # fmt: skip
        return come_back(session, writer, TrialRun(made, state), f"the {what}: {error.message}")
    trial = _read_trial_again(writer)
    trial_clock.announce(writer, on_trial_text(trial))
    show_at_login(writer, trial_clock.MOTD, on_trial_text(trial))
    return trial


def _start_time(writer: Writer, record: TrialRecord) -> None:
    words = starting_words(CARRIED)
    look = (*words, "come-back", "look", record.run) if record.by is Confirmer.HEALTH else ()
    trial_clock.start(
        writer, record.run, record.within_s, (*words, "come-back", "deadline", record.run), look
    )


def _ask_for_boot(session: Session, writer: Writer, record: TrialRecord) -> None:
    """The next boot is the one that counts."""
    entry = _find_boot_entry(session, writer, record)
    trial_guard.mark(writer, "settled")
    if entry is not None:
        one_shot.arm_entry(writer, entry, record.run, record.arguments, record.dropped)


def _find_boot_entry(session: Session, reader: Reader, record: TrialRecord) -> BootEntry | None:
    """What GRUB is asked for at the next boot; None where it is not asked. Raises Refused where it
    cannot be.
    """
    if not record.postponed:
        return None
    found = look_at_grub(reader, Facts(reader, session.facts.asked))
    if found.entry is None:
        raise Refused("; ".join(found.refusals))
    return found.entry


def _again_seen(session: Session, writer: Writer) -> Session:
    """The session after a run: what the journal and the host say now."""
    return replace(
        session,
        journal=read_journal(writer),
        facts=Facts(writer, session.facts.asked),
        reader=writer,
    )


def _read_trial_again(reader: Reader) -> TrialRun:
    trial = read_trial(reader)
    if trial is None:
        raise Refused("the trial is gone: its folder was removed", hint="look at: hosttune history")
    return trial


def on_trial_text(trial: TrialRun) -> Cleaned:
    """What users who are logged in read about a run on trial."""
    return clean(_on_trial_text(trial))


def _on_trial_text(trial: TrialRun) -> str:
    record, keep = trial.record, f"sudo hosttune confirm {quote(trial.run)}"
    if trial.state is TrialState.LIVE:
        within = say_span(record.within_s)
        return f"run {trial.run} is on trial for {within} and is rolled back then, unless: {keep}"
    if trial.state is TrialState.NEXT_BOOT:
        return f"run {trial.run} is on trial at the next boot: reboot, then: {keep}"
    if trial.state is TrialState.THIS_BOOT:
        return f"run {trial.run} is on trial in this boot and is rolled back, unless: {keep}"
    return f"run {trial.run} {run_text(trial.state.value)}" + (
        f": {trial.reason}" if trial.reason else ""
    )


def look_for_losses(
    session: Session, trial: TrialRun, *, smi_s: float = FIRST_SMI_S
) -> tuple[Loss, ...]:
    """What this host has lost since before the run, and what of the run is not in force. `smi_s`:
    how long nvidia-smi may take to answer. Raises Refused where it is not known what was before.
    """
    reader = session.reader
    content = read_own(reader, BEFORE)
    try:
        before = standing_of(require_known(content, BEFORE).decode("utf-8", "replace"), BEFORE)
    except UnknownFact as unknown:
        hint = "confirm it with --anyway, or undo it"
        raise Refused(f"what was before cannot be read: {unknown.reason}", hint=hint) from None
    record = trial.record
    is_boot = trial.state is TrialState.THIS_BOOT
    rules = {*record.live, *record.next_boot} if is_boot else {*record.live}
    steps = (one for one in session.journal.in_force if one.id.run == trial.run)
    made = [
        one.change
        for one in steps
        if one.change.rule in rules and _is_looked_at(one.change, is_boot=is_boot)
    ]
    after = read_standing(session, before, smi_s=smi_s)
    arguments = (record.arguments, record.dropped) if is_boot else ((), ())
    planned = read_planned(session, made, *arguments)
    return find_losses(before, replace(after, signs=(*after.signs, *planned)))


def still_coming_up(trial: TrialRun, reader: Reader) -> str:
    """A sentence where the boot on trial is so young that what it lacks may still come; else
    nothing.
    """
    age_s = uptime_s(reader)
    if trial.state is not TrialState.THIS_BOOT or age_s >= SETTLE_S:
        return ""
    return (
        f"this boot is {age_s:.0f} s old, and what comes late in one (links, services, the fabric, "
        f"the clock) has {say_span(int(SETTLE_S))}: ask again then"
    )


def _is_looked_at(change: Change, *, is_boot: bool) -> bool:
    """Whether it is to be in force: a boot takes away what is in /run, and brings what waited for
    it.
    """
    return (
        not change.address.name.startswith("/run/")
        if is_boot
        else change.activation is not Activation.REBOOT
    )


def confirm(
    session: Session,
    writer: Writer,
    trial: TrialRun,
    on_progress: Callable[[str], None],
    who: str = "",
) -> TrialEnd:
    """Keep what is on trial: after a live part the next boot is asked for, where the run has one.
    The caller holds the lock and has looked at what was lost. `who` confirms, where it is no
    person. Raises Refused, HosttuneError; then it is still on trial. Where the boot was asked for
    in part, it comes back.
    """
    record = trial.record
    if trial.state is TrialState.LIVE and record.has_boot:
        if blockers := _list_blockers(session, writer):
            raise Refused(
                f"no boot before this is solved: {'; '.join(blockers)}",
                hint="solve that and confirm again, or undo the run",
            )
        _find_boot_entry(session, writer, record)  # refused here, it is still on trial live
        try:
            _ask_for_boot(session, writer, record)
        except HosttuneError as error:
            return come_back(
                session, writer, trial, f"the boot on trial cannot be asked for: {error.message}"
            )
        trial_clock.stop(writer, record.run)
        trial = _read_trial_again(writer)
        trial_clock.announce(writer, on_trial_text(trial))
        show_at_login(writer, trial_clock.MOTD, on_trial_text(trial))
        return TrialEnd(trial, TrialState.NEXT_BOOT)
    trial_guard.mark(writer, "confirmed")
    trial_clock.announce(writer, clean(f"run {trial.run} is confirmed and stays"))
    return _keep(session, writer, trial, on_progress, who)


def _list_blockers(session: Session, reader: Reader) -> tuple[str, ...]:
    """What the next boot would fail by, as the host is now."""
    return reboot_obstacles(faults_of(session, reader))


def _keep(
    session: Session,
    writer: Writer,
    trial: TrialRun,
    on_progress: Callable[[str], None],
    who: str = "",
) -> TrialEnd:
    """What follows the mark `confirmed`, also where it was cut off there."""
    record = trial.record
    trial_guard.free_room(writer)
    one_shot.disarm_entry(writer)
    # Where this was cut off it is called once more, and the confirmation is booked only once.
    if session.journal.confirmation_of(session.journal.run(trial.run)) is None:
        JournalWriter.start(
            writer, new_run(writer, session.journal, CONFIRM, record.digest, who)
        ).finish()
        session = _again_seen(session, writer)
    receipt = None
    if record.postponed:
        changes = tuple(_from_now(one, writer) for one in record.postponed)
        intention = session.journal.run(trial.run).intention
        receipt = apply(
            session, writer, _plan_of(changes), on_progress=on_progress, part_of=intention
        )
        require_whole(receipt)
    _disarm(writer, record)
    return TrialEnd(trial, TrialState.CONFIRMED, receipt=receipt)


def _from_now(change: Change, reader: Reader) -> Change:
    """The change, where it was cut off when it had been made: once more over itself, because what
    it starts is due.
    """
    is_made = is_at(change.address, change.after, reader)
    return replace(change, action=Action.UPDATE, before=change.after) if is_made else change


def _plan_of(changes: tuple[Change, ...]) -> Plan:
    from hosttune import __version__

    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Plan(digest(changes), __version__, "", now, "", (stage(changes),), ())


def come_back(
    session: Session,
    writer: Writer,
    trial: TrialRun,
    reason: str,
    on_progress: Callable[[str], None] = lambda _: None,
    *,
    may_reboot: bool = False,
) -> TrialEnd:
    """Take the run back, in a run of its own, and end the trial; once, whatever becomes of it. The
    caller holds the lock. may_reboot: where something of it is in force up to the next boot,
    reboot; work on the GPUs has `LAST_S` for its end.

    What could not be rolled back is reported, and nothing is tried again by itself.
    """
    record = trial.record
    begin_to_take_back(writer, trial)
    who = f"{WHO_COMES_BACK}: {reason}"
    try:
        planned = plan_undo(session, record.run, is_return=True)
        # Booked as failed steps of this return: without them the next plan would set the same
        # arguments again.
        given_up = dict.fromkeys(record.postponed, f"rolled back: {reason}")
        receipt = undo(
            session, writer, planned, on_progress=on_progress, who=who, given_up=given_up
        )
        require_whole(receipt)
    except HosttuneError as error:
        return _fail_trial(writer, trial, f"{reason}; {error.message}", None)
    if receipt.failed or not receipt.verified:
        first = (
            f"{describe_place(receipt.failed[0].change.address)}: {receipt.failed[0].error}"
            if receipt.failed
            else "not verified"
        )
        return _fail_trial(writer, trial, f"{reason}; {first}", receipt)
    is_whole = (
        not planned.plan.findings and not receipt.waiting and trial.state is not TrialState.IN_PART
    )
    state = TrialState.CAME_BACK if is_whole else TrialState.IN_PART
    needs = _needs_reboot(writer, trial, receipt)
    # A reboot that a rule knows to fail is worse than a value that stays until someone comes.
    if needs and may_reboot and (blockers := _list_blockers(session, writer)):
        needs, may_reboot = (
            f"{needs}, and no reboot before this is solved: {'; '.join(blockers)}",
            False,
        )
    busy = _list_gpu_work(Facts(writer, session.facts.asked)) if needs and may_reboot else ()
    sentence = f"run {trial.run} {run_text(state.value)}: {reason}"
    if busy:
        # before the mark: what fails here is tried again
        trial_clock.reboot_when_idle(writer, trial.run)
        needs = f"{needs}, which waits for at most {say_span(LAST_S)}: {'; '.join(busy)}"
    trial_guard.mark(writer, "returned")
    if needs and may_reboot and not busy:
        # The guard stays until then: where this ends here, its script reboots. Who looks next
        # removes it (`finish`).
        trial_clock.announce(writer, clean(sentence))
        trial_clock.announce(writer, clean("this host reboots once, for the rollback"))
        trial_clock.reboot(writer)
        return TrialEnd(trial, state, reason, receipt)
    text = clean(f"{sentence}; {needs}" if needs else sentence)
    if busy:  # the script needs its folder: who looks next removes it
        show_at_login(writer, trial_clock.MOTD, text)
    else:
        _disarm(writer, record)
    trial_clock.announce(writer, text)
    return TrialEnd(trial, state, reason, receipt, needs)


def _list_gpu_work(facts: Facts) -> tuple[str, ...]:
    """What runs on the GPUs. What cannot be read is none here: a host that no one reaches has to
    come back.
    """
    return read_or_default(lambda: facts.work.evidence if facts.work.is_gpu_busy else (), ())


def _needs_reboot(reader: Reader, trial: TrialRun, receipt: Receipt) -> str:
    """Whether something of the run is in force up to the next boot: a phrase."""
    if trial.state in {TrialState.LIVE, TrialState.NEXT_BOOT}:
        return "" if not receipt.waiting else "not all of it is in force before a reboot"
    if trial_guard.boot_of(reader, "returned") not in {"", boot_id(reader)}:
        return ""  # put back before this boot
    words = reader.read("/proc/cmdline")
    is_entry = (
        isinstance(words, bytes) and f"{one_shot.ARGUMENT}={trial.run}".encode() in words.split()
    )
    return "it is in force after a reboot" if is_entry or receipt.reboot_reasons else ""


def _fail_trial(writer: Writer, trial: TrialRun, reason: str, receipt: Receipt | None) -> TrialEnd:
    """Nothing is tried again by itself: the marks say so, and stay."""
    with suppress(HosttuneError):
        writer.append(trial_guard.LOG, f"{clean(f'rollback failed: {reason}')}\n".encode())
    # `returned` ends all tries of the guard, also those of later boots. `failed` is what a person
    # is shown.
    for name in ("failed", "returned"):
        with suppress(HosttuneError):
            trial_guard.mark(writer, name)
    trial_clock.stop(writer, trial.run)
    text = clean(
        f"run {trial.run} could not be rolled back: {reason}; sudo hosttune undo "
        f"{quote(trial.run)} --yes tries again"
    )
    trial_clock.announce(writer, text)
    show_at_login(writer, trial_clock.MOTD, text)
    return TrialEnd(trial, TrialState.FAILED, reason, receipt)


def on_trial_to_undo(
    session: Session, reader: Reader, run_id: str | None, rule: str | None
) -> TrialRun | None:
    """The run on trial where it is what is to be taken back, whole. Raises Refused for any other,
    and for a part.
    """
    trial = read_trial(reader)
    if trial is None:
        return None
    its = session.journal.run(run_id).id if run_id else trial.run
    if rule or its != trial.run:
        what, run = f"a rule of run {trial.run}" if rule else f"run {its}", quote(trial.run)
        raise Refused(
            f"run {trial.run} {run_text(trial.state.value)}; {what} is not undone beside it",
            hint=f"sudo hosttune confirm {run}, or undo it as a whole: sudo hosttune undo {run} "
            "--yes",
        )
    return trial


def begin_to_take_back(writer: Writer, trial: TrialRun) -> None:
    """From here on it cannot be confirmed: what is cut off is finished by the next boot, or the
    next command.
    """
    trial_guard.free_room(writer)
    trial_guard.mark(writer, "ending")
    if trial.record.postponed:
        one_shot.disarm_entry(writer)


def taken_back(writer: Writer, trial: TrialRun) -> None:
    """Someone has undone the run: nothing is on trial any more."""
    trial_guard.mark(writer, "returned")
    _disarm(writer, trial.record)
    trial_clock.announce(writer, clean(f"run {trial.run} was undone, and is no longer on trial"))


def finish(
    session: Session,
    writer: Writer,
    on_progress: Callable[[str], None],
    *,
    may_reboot: bool = False,
) -> TrialEnd | None:
    """Bring to its end what is decided already, or was cut off: what the guard has taken back in a
    boot is booked, what was confirmed is made for good, what never began is removed. None where
    there is nothing of that. may_reboot: as of `come_back`, in a boot after that of the run.
    """
    trial = read_trial(writer)
    has_begun = trial is not None and any(run.id == trial.run for run in session.journal.runs)
    if trial is None or not has_begun:
        if is_left_over(writer):
            one_shot.disarm_entry(writer)
            trial_guard.disarm(writer)
        if trial is not None:
            trial_clock.stop(writer, trial.run)
        return None
    if trial.state is TrialState.CONFIRMED:
        return _keep(session, writer, trial, on_progress)
    if trial.state in {TrialState.CAME_BACK, TrialState.IN_PART}:
        # booked, before its reboot
        if back := session.journal.return_of(session.journal.run(trial.run)):
            _disarm(writer, trial.record)
            return TrialEnd(trial, trial.state, back.who.partition(": ")[2])
        return come_back(
            session, writer, trial, trial.reason or "it was rolled back at boot", on_progress
        )
    if trial.state is TrialState.OVERDUE:
        reason = trial.reason or "it was not confirmed in time"
        is_later = boot_id(writer) != trial.record.boot_id
        return come_back(
            session, writer, trial, reason, on_progress, may_reboot=may_reboot and is_later
        )
    return None


def _disarm(writer: Writer, record: TrialRecord) -> None:
    """Take away the entry, the guard, the timers and the notice, in this order."""
    if record.postponed:
        one_shot.disarm_entry(writer)
    trial_guard.disarm(writer)
    trial_clock.stop(writer, record.run)
    show_at_login(writer, trial_clock.MOTD, clean(""))
