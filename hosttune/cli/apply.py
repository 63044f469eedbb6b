"""`hosttune apply`: make the plan true."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from hosttune.cli.options import Look, Show, command


@command
def apply(
    look: Look,
    show: Show,
    saved: Annotated[str | None, Argument(metavar="[PLAN]", help="A plan saved by plan --out: apply only if it still fits.")] = None,
    yes: Annotated[bool, Option("--yes", help="Do it. Without this, the same as plan.")] = False,
    expect: Annotated[str | None, Option("--expect", metavar="DIGEST", help="Only if the plan is this one.")] = None,
) -> int:
    """Make the changes that plan shows, verify them, and print the receipt. Without --yes changes nothing.

    Exit status: 0 done and verified (what waits for a reboot is said), 1 something failed or stays different, 2 trouble.
    """
    from hosttune.actions.run import Expected, run_apply
    from hosttune.cli.common import load_plan, open_page, require_rights, say, session_options, tell, write_json
    from hosttune.codec import receipt_to_json
    from hosttune.views.receipt import receipt_text
    from hosttune.views.summary import applied_status

    if not yes:
        return _dry_run(look, show, saved, expect)
    expected = Expected(expect or "", load_plan(saved) if saved else None)
    require_rights(look, show, f"apply {saved + ' ' if saved else ''}--yes")
    session, made, receipt = run_apply(session_options(look), expected, lambda line: tell(f"  {line}"))
    if show.is_json:
        write_json(receipt_to_json(receipt))
    else:
        say(receipt_text(receipt, open_page(session.reader, look, show)))
    return applied_status(made, receipt)


def _dry_run(look: Look, show: Show, saved: str | None, expect: str | None) -> int:
    from hosttune.actions.run import Expected
    from hosttune.cli.common import load_plan, open_page, open_session, say, write_json
    from hosttune.codec import plan_to_json
    from hosttune.views.masking import masked
    from hosttune.views.plan import plan_text
    from hosttune.views.summary import exit_status

    session = open_session(look)
    made = session.plan()
    Expected(expect or "", load_plan(saved) if saved else None).check(made)
    if show.is_json:
        write_json(masked(plan_to_json(made)))
    else:
        say(plan_text(made, open_page(session.reader, look, show), interrupted=session.interrupted))
    return exit_status(made, strict=False)
