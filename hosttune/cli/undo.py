"""`hosttune undo`: the way back, shown first."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from hosttune.cli.options import Look, Show, command


@command
def undo(
    look: Look,
    show: Show,
    run: Annotated[str | None, Argument(metavar="[RUN]", help="A run of `history`; the last one unless given.")] = None,
    rule: Annotated[str | None, Option("--rule", metavar="RULE", help="All that this rule changed.")] = None,
    yes: Annotated[bool, Option("--yes", help="Do it. Without this, show it.")] = False,
    expect: Annotated[str | None, Option("--expect", metavar="DIGEST", help="Only if the plan is this one.")] = None,
) -> int:
    """Take back a run or a rule, never over a later edit of somebody else. Without --yes changes nothing.

    Exit status: 0 taken back (or nothing to show that is refused), 1 something failed or is left as it is, 2 trouble.
    """
    from hosttune.actions.run import Expected, run_undo
    from hosttune.actions.undo import plan_undo
    from hosttune.cli.common import open_page, open_session, require_rights, say, session_options, tell, write_json
    from hosttune.codec import plan_to_json, receipt_to_json
    from hosttune.views.masking import masked
    from hosttune.views.plan import undo_text
    from hosttune.views.receipt import receipt_text

    words = "undo" + (f" {run}" if run else "") + (f" --rule {rule}" if rule else "")
    if not yes:
        session = open_session(look)
        planned = plan_undo(session, run, rule)
        Expected(expect or "").check(planned.plan)
        if show.is_json:
            write_json(masked(plan_to_json(planned.plan)))
        else:
            say(undo_text(planned.plan, open_page(session.reader, look, show), words=words, ignore=planned.rules))
        return int(any(finding.hold for finding in planned.plan.findings))
    require_rights(look, show, f"{words} --yes")
    session, done, receipt = run_undo(
        session_options(look), run, rule, Expected(expect or ""), lambda line: tell(f"  {line}")
    )  # fmt: skip
    if show.is_json:
        write_json(receipt_to_json(receipt))
    else:
        say(receipt_text(receipt, open_page(session.reader, look, show), is_undo=True, ignore=done.rules))
    return int(bool(receipt.failed) or not receipt.verified or any(f.hold for f in done.plan.findings))
