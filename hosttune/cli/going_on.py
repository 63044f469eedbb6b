"""What `apply --reboot` does besides: it boots this host, and leaves what goes on after that."""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError, Refused
from hosttune.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.actions.examine import Session
    from hosttune.actions.trial.state import TrialRun
    from hosttune.actions.trial.trial import TrialEnd
    from hosttune.cli.options import Display, HostOptions
    from hosttune.engine.decide.trial import TrialPlan
    from hosttune.engine.policy.approval import Approvals
    from hosttune.host.door import Writer
    from hosttune.values import Plan, Receipt
    from hosttune.views.document import Lines


_EVERY_S = 2.0


def require(look: HostOptions, show: Display) -> None:
    """Refuse --reboot where no boot of this host would follow."""
    from hosttune.actions.gate.going_on import require_own, require_systemd
    from hosttune.host import open_reader

    if look.root or look.host:
        raise HosttuneError(
            "--reboot boots the running host, and another one is looked at",
            hint="leave out --reboot",
        )
    if show.is_json:
        raise HosttuneError(
            "--reboot has no answer in JSON, for the boot comes first",
            hint="after it: hosttune status",
        )
    reader = open_reader()
    require_systemd(reader)
    require_own(reader)


def before_apply(
    look: HostOptions, writer: Writer, plan: Plan, planned: TrialPlan | None, *, reboot: bool
) -> None:
    """What an earlier --reboot would still do ends with an apply that changes something, or has a
    --reboot itself. Raises HosttuneError where --reboot cannot be promised: nothing is changed
    then.
    """
    if reboot:
        from hosttune.actions.gate.ready import read_state

        read_state(writer)  # what is kept has to be understood to be written anew
        if planned:
            require_one_boot(plan, planned)
    if plan.changes or reboot:
        give_up(look, writer, "another apply came after it")


def require_one_boot(plan: Plan, planned: TrialPlan) -> None:
    """Refuse a plan that needs more boots than the one that is tried: nothing goes on before that
    one is confirmed.
    """
    from hosttune.engine.decide.reboot import boots_of

    if planned.is_any and boots_of(plan) > 1:
        raise Refused(
            f"this plan needs {boots_of(plan)} boots, and a run on trial has one; nothing was "
            "changed",
            hint="leave out what needs the second one (--ignore), leave out --reboot, or type "
            "--confirm-within off",
        )


def describe_intent(plan: Plan, planned: TrialPlan | None = None) -> Lines:
    """What --reboot will do, before the yes."""
    from hosttune.engine.decide.reboot import boots_of
    from hosttune.numbers import say_count
    from hosttune.views.document import Lines, Say

    if planned is not None and planned.is_any:
        when = " as soon as what takes effect at once is confirmed" if planned.has_live else ""
        tried = (
            f"hosttune will boot this host once{when}; that boot is on trial, and nothing else is "
            "done by itself."
        )
        none = (
            "No boot is on trial: hosttune will not boot this host, for that would take the run "
            "back."
        )
        return Lines("Reboot", (Say(tried if planned.has_boot else none),))
    boots = boots_of(plan)
    if not boots:
        return Lines(
            "Reboot", (Say("Nothing of this waits for a boot: hosttune will not boot this host."),)
        )
    text = (
        f"hosttune will boot this host at most {say_count(boots, 'time')}, and go on after it by "
        "itself, with what this policy wants and risks no more than this plan. Its state: sudo "
        "hosttune status"
    )
    return Lines("Reboot", (Say(text),))


def do_not_boot() -> int:
    """No boot, and none is needed."""
    return 0


def refuse_boot() -> int:
    """No boot, though one is needed: what was asked for is not at its end."""
    return 1


def give_up(look: HostOptions, writer: Writer, why: str) -> None:
    """What someone does by hand now is their last word: nothing goes on after the next boot."""
    if look.root:
        return
    from hosttune.actions.gate.going_on import give_up as leave
    from hosttune.cli.common import tell

    if leave(writer, why):
        tell(
            "hosttune: the apply --yes --reboot of before does not go on after the next boot: "
            f"{why}"
        )


def arrange_boot(
    session: Session,
    writer: Writer,
    plan: Plan,
    receipt: Receipt,
    look: HostOptions,
    tried: TrialRun | TrialEnd | None = None,
    approvals: Approvals | None = None,
) -> Callable[[], int]:
    """Leave what goes on after the boot, unless that boot is `tried`. What boots the host in the
    end. `approvals`: the file that was named; the yes covers no more than it does.
    """
    from pathlib import Path

    from hosttune.actions.gate.going_on import arrange_going_on as leave
    from hosttune.actions.trial.trial import TrialEnd
    from hosttune.cli.common import repeated_words, tell
    from hosttune.engine.decide.reboot import boots_of
    from hosttune.engine.policy.approval import approval_of

    if isinstance(tried, TrialEnd) or not (tried or receipt.reboot_reasons):
        return do_not_boot
    if not _may_boot(session, writer, receipt):
        return refuse_boot
    if tried is not None:
        return partial(_boot_on_trial, session, writer, tried)
    files = {
        name: str(Path(path).absolute())
        for name in ("policy", "rules")
        if (path := getattr(look, name))
    }
    chosen = asdict(look) | files | {"again": None}  # what came back once was made by this run
    words = ("ready", "--go-on", *repeated_words(chosen))
    covered = approvals.lines if approvals else (str(approval_of(plan)),)
    covered = covered or ("# nothing but a plan with nothing to change",)
    try:
        first = receipt.part_of or receipt.run_id
        leave(
            writer, words, "\n".join(covered), receipt.reboot_reasons, max(1, boots_of(plan)), first
        )
    except HosttuneError as error:  # what was made is reported all the same
        tell(f"hosttune: this host is not booted: {error.message}")
        return refuse_boot
    return partial(_boot, session, writer)


def _may_boot(session: Session, writer: Writer, receipt: Receipt) -> bool:
    """Whether a boot makes nothing worse; if it does, that is reported."""
    from hosttune.actions.gate.ready import at_work, list_jobs
    from hosttune.cli.common import tell
    from hosttune.facts.storage.lasting import why_nothing_lasts
    from hosttune.resources import describe_place

    in_memory = why_nothing_lasts(session.facts)
    obstacles = [
        *(f"{describe_place(one.change.address)} failed" for one in receipt.failed),
        *([] if receipt.verified else ["what was made did not verify"]),
        *receipt.reboot_obstacles,
        *([f"what was made would be lost: {in_memory}"] if in_memory else []),
        *list_jobs(writer, session.policy),
        *at_work(writer),
    ]
    if obstacles:
        tell(f"hosttune: this host is not booted: {'; '.join(obstacles)}")
    return not obstacles


def _boot_on_trial(session: Session, writer: Writer, trial: TrialRun) -> int:
    """Boot for what is on trial, once what is in force at once is confirmed. Does not come back
    then; 1 where the run goes back before.
    """
    from hosttune.actions.journal.interrupted import trial_of
    from hosttune.actions.trial.state import TrialState
    from hosttune.cli.common import tell

    run = trial.run
    if not trial.record.has_boot:
        tell(
            "hosttune: this host is not booted: no boot is on trial, and one would take the run "
            "back"
        )
        return 0
    now: TrialRun | None = trial
    if trial.state is TrialState.LIVE:
        tell(
            "hosttune: this host boots when that is confirmed, over a new connection: "
            f"sudo hosttune confirm {quote(run)}"
        )
    while now is not None and now.run == run and now.state is TrialState.LIVE:
        time.sleep(_EVERY_S)
        now = trial_of(writer)
    if now is None or now.run != run or now.state is not TrialState.NEXT_BOOT:
        tell(
            f"hosttune: this host is not booted: run {run} is on trial no more; see: sudo hosttune "
            "history"
        )
        return 1
    return _boot(session, writer, run)


def _boot(session: Session, writer: Writer, run: str = "") -> int:
    """Boot, for the `run` on trial or for what goes on. Does not come back then; 1 where something
    came between, Refused where the boot does not come. The lock is held until the end: nothing
    begins that it would cut off.
    """
    from hosttune.actions.apply import reboot_obstacles
    from hosttune.actions.examine import faults_of
    from hosttune.actions.gate.ready import LOCK_S, at_work, list_jobs, read_state, reboot
    from hosttune.actions.journal.interrupted import trial_of
    from hosttune.cli.common import tell
    from hosttune.cli.ready import COMES_S, await_end
    from hosttune.host.writing.lock import hold_lock

    with hold_lock(wait_s=LOCK_S):  # who confirms holds it for a moment
        state, trial = read_state(writer), trial_of(writer)
        is_current = (
            (trial is not None and trial.run == run)
            if run
            else (state is not None and state.goes_on)
        )
        if not is_current:
            tell(
                "hosttune: this host is not booted: another run came between; see: sudo hosttune "
                "history"
            )
            return 1
        # the wait for a confirmation may have been long
        blockers = reboot_obstacles(faults_of(session, writer))
        if busy := "; ".join((*blockers, *list_jobs(writer, session.policy), *at_work(writer))):
            after = "the next boot is on trial" if run else "it goes on after the next boot"
            tell(f"hosttune: this host is not booted: {busy}; {after}")
            return 1
        then = f"confirm {run}" if run else "status"
        tell(f"hosttune: this host boots now; after that: sudo hosttune {then}")
        reboot(writer)
        await_end()
    raise Refused(
        f"the boot did not come within {COMES_S:.0f} s",
        hint="see what holds it: systemctl list-jobs",
    )
