"""`hosttune undo`: the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import Argument, Look, Option, ShowChange

if TYPE_CHECKING:
    from hosttune.actions.examine import Session
    from hosttune.actions.undo import UndoPlan


def undo(
    look: Look,
    show: ShowChange,
    run: Annotated[str | None, Argument(metavar="[RUN]", help="The run to take back; the last one by default.")] = None,
    rule: Annotated[str | None, Option("--rule", metavar="RULE", help="All that this rule did.")] = None,
    expect: Annotated[
        str | None, Option("--expect", metavar="DIGEST", help="Only if the way back still has this digest.")
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Do it. Without it: show it, change nothing.")] = False,
) -> int:
    """Take back a run or a rule. Without --yes it only shows how.

    Exit status: 0 nothing stands in the way (or all was taken back), 1 something did, 2 trouble.
    """
    from hosttune.actions.undo import plan_undo
    from hosttune.cli import common
    from hosttune.cli.apply import check_shown
    from hosttune.codec import plan_to_json, receipt_to_json
    from hosttune.views.masking import masked
    from hosttune.views.plan import undo_report
    from hosttune.views.receipt import receipt_report

    words = ["undo", *([run] if run else []), *(["--rule", rule] if rule else [])]
    if not yes:
        session = common.open_session(look)
        planned = plan_undo(session, run, rule)
        check_shown(planned.plan, expect)
        if show.is_json:
            common.write_json(masked(plan_to_json(planned.plan)))
        else:
            page = common.open_page(session.reader, look, show)
            gone = sum(one.on_paper for one in planned.returns)
            redone = _redone(planned, session)
            common.say(undo_report(planned.plan, page, words=common.shell(words), ignore=redone, on_paper=gone))
        return int(bool(planned.plan.findings))

    from hosttune.actions.run import changing
    from hosttune.actions.undo import undo as carry_out

    common.require_rights(look, show, [*words, "--yes", *common.expecting(expect)])
    with changing(common.session_options(look), common.progress) as (session, writer):
        planned = plan_undo(session, run, rule)
        check_shown(planned.plan, expect)
        receipt = carry_out(session, writer, planned, on_progress=common.progress)
    if show.is_json:
        common.write_json(masked(receipt_to_json(receipt)))
    else:
        page = common.open_page(session.reader, look, show)
        redone, left = _redone(planned, session), planned.plan.findings
        common.say(receipt_report(receipt, page, is_undo=True, ignore=redone, left=left))
    return int(bool(receipt.failed or planned.plan.findings or not receipt.verified))


def _redone(planned: UndoPlan, session: Session) -> tuple[str, ...]:
    """The rules of which the next apply would do again what is taken back."""
    selected = {rule.id for rule in session.selected}
    return tuple(rule for rule in planned.rules if rule in selected)
