"""`hosttune apply`: make the plan true."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

from hosttune.cli.options import Argument, LookAgain, Option, ShowChange
from hosttune.values import Confirmer

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.actions.examine import Session
    from hosttune.cli.on_trial import AskedTrial
    from hosttune.engine.policy.approval import Approvals
    from hosttune.values import Plan

# What a change does. Of a saved plan all of it was read, also the old values that the digest leaves
# out.
_DONE = attrgetter("address", "action", "before", "after", "rule", "activation", "triggers")


ON_STOP = "Ctrl-C stops it between two changes"
EXAMPLES = (
    "sudo hosttune apply --yes",
    "sudo hosttune apply --yes --only gpu-driver",
    "sudo hosttune apply --yes --confirm-within 15m",
)


def apply(
    look: LookAgain,
    show: ShowChange,
    file: Annotated[
        str | None, Argument(metavar="[PLAN]", help="Only if the plan is still this saved one.")
    ] = None,
    expect: Annotated[
        str | None,
        Option(
            "--expect",
            metavar="DIGEST",
            help="Only if the plan still has this digest, or is empty.",
        ),
    ] = None,
    approved: Annotated[
        str | None,
        Option("--approved", metavar="FILE", help="Only a plan that this file approves."),
    ] = None,
    yes: Annotated[
        bool, Option("--yes", help="Do it. Without it: show the plan, change nothing.")
    ] = False,
    reboot: Annotated[
        bool,
        Option("--reboot", help="Reboot if that is needed, and go on after it until all is done."),
    ] = False,
    confirm_within: Annotated[
        str | None,
        Option(
            "--confirm-within",
            metavar="TIME",
            help="On trial: rolled back unless confirmed in TIME (15m); or off.",
        ),
    ] = None,
    confirm_by: Annotated[
        Confirmer | None,
        Option(
            "--confirm-by", help="Who confirms: operator (hosttune confirm), or health as well."
        ),
    ] = None,
    without_return: Annotated[
        bool, Option("--without-return", help="On trial: also what cannot be rolled back.")
    ] = False,
) -> int:
    """Apply the plan, verify it and print a receipt. Without --yes the same as plan.

    With --confirm-within the changes are on trial: unless you run `hosttune confirm` in time, over
    a new connection, this host rolls them back. What takes effect at the next boot is on trial in
    that boot, even if that boot fails. The plan says what is tried when, and what cannot be rolled
    back.

    A dropped connection does not stop it: the next login and `hosttune history` show what it did.
    Ctrl-C stops it between two changes; the next apply --yes goes on.

    Exit status: 0 all done (what waits for a reboot or is on trial included), 1 something failed,
    could not be checked or is still to change, 2 trouble, or a trial is not possible here and
    nothing was changed, 130 stopped by Ctrl-C, 143 by SIGTERM. With --reboot it ends in a reboot
    (1: one is needed, but not possible now); `hosttune status` shows how it ended.
    """
    from hosttune.cli import common, going_on, on_trial
    from hosttune.cli.reports import profile_text
    from hosttune.codec import receipt_to_json
    from hosttune.facts.storage.lasting import volatile_root
    from hosttune.views.masking import mask_data
    from hosttune.views.receipt import receipt_report
    from hosttune.views.summary import applied_status, why_applied

    saved = common.load_plan(file) if file else None
    approvals = common.load_approvals(approved) if approved else None
    asked = on_trial.AskedTrial(confirm_within, confirm_by, without_return)
    if reboot:
        going_on.require(look, show)
    agreed = partial(_check_plan, expect=expect, saved=saved, approvals=approvals)
    if not yes:
        return _show_plan(look, show, agreed, asked, reboot=reboot)

    from hosttune.actions.apply import apply as carry_out
    from hosttune.actions.run import open_for_change

    words = ["apply", *([file] if file else []), "--yes", *common.spell_expectation(expect)]
    words += ["--reboot"] * reboot + asked.words
    common.require_rights(look, show, [*words, *(["--approved", approved] if approved else [])])
    options = common.session_options(look)
    with open_for_change(options, common.progress, resumes=True, agreed=agreed) as (
        session,
        writer,
    ):
        # `open_for_change` asks only before it goes on with an earlier run. This is the plan that
        # is carried out.
        plan = session.plan()
        common.tell_idle(session, plan, everything=show.verbose)
        agreed(session, plan)
        planned = on_trial.foresee_trial(session, plan, asked)
        going_on.before_apply(look, writer, plan, planned, reboot=reboot)
        if planned and on_trial.is_promised(planned, asked):
            receipt, tried = on_trial.carry_out(session, writer, plan, planned)
        else:
            receipt, tried = carry_out(session, writer, plan, on_progress=common.progress), None
        boots = reboot and not receipt.stopped
        boot = (
            going_on.arrange_boot(session, writer, plan, receipt, look, tried, approvals)
            if boots
            else going_on.do_not_boot
        )
    page = common.open_page(session.reader, look, show)
    trial_blocks = on_trial.receipt_blocks(tried, page, session.reader)
    if show.is_json:
        common.write_json(
            mask_data(receipt_to_json(receipt) | on_trial.receipt_json(tried, session.reader))
        )
    else:
        chosen = profile_text(session)
        left, volatile = plan.findings, volatile_root(session.facts)
        why = "" if trial_blocks or receipt.stopped or reboot else why_applied(plan, receipt)
        more: dict[str, Any] = {
            "left": left,
            "trial": trial_blocks,
            "volatile": volatile,
            "why_status": why,
        }
        common.say(receipt_report(receipt, page, chosen=chosen, **more))
    status = on_trial.status_of_trial(tried, applied_status(plan, receipt))
    status = common.conclude_run("apply", writer, receipt, status)
    return boot() or status


def _show_plan(
    look: LookAgain,
    show: ShowChange,
    agreed: Callable[[Session, Plan], None],
    asked: AskedTrial,
    *,
    reboot: bool,
) -> int:
    """The plan, what would be tried how, and what else the yes would mean; nothing is changed."""
    from hosttune.cli import common, going_on, on_trial
    from hosttune.cli.reports import of_session
    from hosttune.codec import plan_to_json
    from hosttune.views.masking import mask_data
    from hosttune.views.plan import plan_report
    from hosttune.views.summary import exit_status
    from hosttune.views.text import blocks_text

    session = common.open_session(look)
    plan = session.plan()
    common.tell_idle(session, plan, everything=show.verbose)
    agreed(session, plan)
    planned = on_trial.foresee_trial(session, plan, asked)
    intent = (going_on.describe_intent(plan, planned),) if reboot else ()
    if show.is_json:
        common.write_json(mask_data(plan_to_json(plan) | on_trial.planned_json(planned)))
        common.tell_lines(
            blocks_text(intent, common.open_screen(show)).strip("\n")
        ) if intent else None
    else:
        trial = on_trial.describe_trial(session, plan, planned, asked)
        common.say(plan_report(of_session(session, plan, look, show), intent, trial))
    return exit_status(plan, strict=False)


def _check_plan(
    session: Session,
    plan: Plan | None = None,
    *,
    expect: str | None,
    saved: Plan | None,
    approvals: Approvals | None,
) -> None:
    """Refuse a plan that is not the one that was shown, saved or approved; it is made here where
    that is not done.
    """
    if expect is None and saved is None and approvals is None:
        return
    made = plan or session.plan()
    check_shown(made, expect, saved)
    check_approved(made, approvals)


def check_approved(plan: Plan, approvals: Approvals | None) -> None:
    """Refuse a plan that the file does not approve, with the lines that would."""
    from hosttune.engine.policy.approval import approval_of
    from hosttune.errors import Refused

    if approvals is None or approvals.covers(plan):
        return
    message = f"this plan is not approved by {approvals.source}: its digest is {plan.digest}"
    hint = (
        "look at it with: hosttune plan; one of these lines in the file approves it:\n"
        f"{plan.digest[:12]}\n"
        f"{approval_of(plan)}"
    )
    raise Refused(message, hint=hint)


def check_shown(
    plan: Plan, digest: str | None, saved: Plan | None = None, *, words: str = "plan"
) -> None:
    """Refuse a plan that is not the one that was shown, in one sentence that names what differs;
    `words` show it.

    A plan with nothing left to do is no other plan: what was shown is done, as on the second boot.
    """
    from hosttune.actions.apply import check_expected, what_differs
    from hosttune.errors import Refused

    if not plan.changes:
        return
    if digest is not None:
        check_expected(plan, digest, words)
    if saved is not None and [*map(_DONE, saved.changes)] != [*map(_DONE, plan.changes)]:
        message = f"the plan has changed since it was saved: {what_differs(saved, plan)}"
        raise Refused(message, hint="save and look at the new one with: hosttune plan --save FILE")
