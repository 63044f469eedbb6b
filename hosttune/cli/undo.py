"""`hosttune undo`: the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from hosttune.cli.options import Look, Show, command

if TYPE_CHECKING:
    from hosttune.actions.examine import Session
    from hosttune.actions.undo import UndoPlan


@command
def undo(
    look: Look,
    show: Show,
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
    from hosttune.actions.run import Expected, run_undo
    from hosttune.actions.undo import plan_undo
    from hosttune.cli.common import (
        open_page, open_session, progress, require_rights, say, session_options, shell, write_json,
    )  # fmt: skip
    from hosttune.codec import plan_to_json, receipt_to_json
    from hosttune.views.masking import masked
    from hosttune.views.plan import undo_text
    from hosttune.views.receipt import receipt_text

    words = ["undo", *([run] if run else []), *(["--rule", rule] if rule else [])]
    expected = Expected(expect or "")
    if not yes:
        session = open_session(look)
        planned = plan_undo(session, run, rule)
        expected.check(planned.plan)
        if show.is_json:
            write_json(masked(plan_to_json(planned.plan)))
        else:
            page = open_page(session.reader, look, show)
            on_paper = sum(one.on_paper for one in planned.returns)
            text = undo_text(
                planned.plan, page, words=shell(words), ignore=_redone(planned, session), on_paper=on_paper
            )
            say(text)
        return int(bool(planned.plan.findings))

    require_rights(look, show, [*words, "--yes", *(["--expect", expect] if expect else [])])
    session, planned, receipt = run_undo(session_options(look), run, rule, expected, progress)
    if show.is_json:
        write_json(masked(receipt_to_json(receipt)))
    else:
        page = open_page(session.reader, look, show)
        say(receipt_text(receipt, page, is_undo=True, ignore=_redone(planned, session), left=planned.plan.findings))
    return int(bool(receipt.failed or planned.plan.findings or not receipt.verified))


def _redone(planned: UndoPlan, session: Session) -> tuple[str, ...]:
    """The rules of which the next apply would do again what is taken back."""
    selected = {rule.id for rule in session.selected}
    return tuple(rule for rule in planned.rules if rule in selected)
