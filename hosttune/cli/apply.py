"""`hosttune apply`: make the plan true."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, LookOnly, Option, ReportFormat, ShowChange

if TYPE_CHECKING:
    from hosttune.actions.examine import Session
    from hosttune.values import Plan


def apply(
    look: LookOnly,
    show: ShowChange,
    file: Annotated[str | None, Argument(metavar="[PLAN]", help="Only if the plan is still this saved one.")] = None,
    expect: Annotated[
        str | None, Option("--expect", metavar="DIGEST", help="Only if the plan still has this digest, or is done.")
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Do it. Without it: show the plan, change nothing.")] = False,
    prove: Annotated[
        bool, Option("--prove", help="Run the bench of a rule before and after it is applied, where it has one.")
    ] = False,
) -> int:
    """Make exactly the changes of the plan, verify them, print the receipt. Without --yes the same as plan.

    Exit status: 0 all done (what waits for a reboot included), 1 something failed, is unknown or still differs,
    2 trouble.
    """
    from hosttune.cli import common, proving
    from hosttune.cli.measured import measured
    from hosttune.cli.reports import of_session, profile_text
    from hosttune.codec import plan_to_json, receipt_to_json
    from hosttune.views.masking import masked
    from hosttune.views.plan import plan_report
    from hosttune.views.receipt import receipt_report
    from hosttune.views.summary import applied_status, exit_status
    from hosttune.views.text import blocks_text

    saved = common.load_plan(file) if file else None
    if not yes:
        session = common.open_session(look)
        plan = session.plan()
        common.tell_idle(session, plan, everything=show.verbose)
        check_shown(plan, expect, saved)
        intent = (proving.intent(plan, session.reader),) if prove else ()
        if show.is_json:
            common.write_json(masked(plan_to_json(plan)))
            common.tell(blocks_text(intent, common.open_screen(show)).strip("\n")) if prove else None
        else:
            common.say(plan_report(of_session(session, plan, look, show), measured(look), intent))
        return exit_status(plan, strict=False)

    from hosttune.actions.apply import apply as carry_out
    from hosttune.actions.run import changing

    words = ["apply", *([file] if file else []), "--yes", *common.expecting(expect), *(["--prove"] if prove else [])]
    common.require_rights(look, show, words)
    agreed = partial(_check_plan, expect=expect, saved=saved)
    with changing(common.session_options(look), common.progress, resumes=True, agreed=agreed) as (session, writer):
        plan = session.plan()
        common.tell_idle(session, plan, everything=show.verbose)
        check_shown(plan, expect, saved)
        prover = proving.before(plan, writer) if prove else None
        receipt = carry_out(session, writer, plan, on_progress=common.progress)
    page = common.open_page(session.reader, look, show)
    report = partial(receipt_report, receipt, page, chosen=profile_text(session), left=plan.findings)
    is_text = show.format is ReportFormat.TEXT
    if is_text:  # before the benches that come after it
        common.say(report())
    proven = prover.after(receipt) if prover else None
    told = proving.sections(proven, page)
    if show.is_json:
        common.write_json(masked(receipt_to_json(receipt)) | proving.as_json(proven))
    elif not is_text:
        common.say(report(more=told))
    elif told:
        common.say("\n" + blocks_text(told, page.screen))
    return applied_status(plan, receipt)


def _check_plan(session: Session, expect: str | None, saved: Plan | None) -> None:
    if expect is not None or saved is not None:
        check_shown(session.plan(), expect, saved)


def check_shown(plan: Plan, digest: str | None, saved: Plan | None = None) -> None:
    """Refuse a plan that is not the one that was shown, in one sentence that names what differs.

    A plan with nothing left to do is no other plan: what was shown is done, as on the second boot.
    """
    from hosttune.actions.apply import check_expected, what_differs
    from hosttune.errors import Refused

    if not plan.changes:
        return
    if digest is not None:
        check_expected(plan, digest)
    if saved is not None and saved.digest != plan.digest:
        message = f"the plan has changed since it was saved: {what_differs(saved, plan)}"
        raise Refused(message, hint="save and look at the new one with: hosttune plan --out FILE")
