"""`hosttune apply`: make the plan true."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from hosttune.cli.options import Look, Show, command


@command
def apply(
    look: Look,
    show: Show,
    file: Annotated[str | None, Argument(metavar="[PLAN]", help="Only if the plan is still this saved one.")] = None,
    expect: Annotated[
        str | None, Option("--expect", metavar="DIGEST", help="Only if the plan still has this digest.")
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Do it. Without it: show the plan, change nothing.")] = False,
) -> int:
    """Make exactly the changes of the plan, verify them, print the receipt. Without --yes the same as plan.

    Exit status: 0 all done (what waits for a reboot included), 1 something failed or still differs, 2 trouble.
    """
    from hosttune.actions.run import Expected, run_apply
    from hosttune.cli.common import (
        load_plan, open_page, open_session, progress, require_rights, say, session_options, write_json,
    )  # fmt: skip
    from hosttune.codec import plan_to_json, receipt_to_json
    from hosttune.views.masking import masked
    from hosttune.views.plan import plan_text
    from hosttune.views.receipt import receipt_text
    from hosttune.views.summary import applied_status, exit_status

    saved = load_plan(file) if file else None
    expected = Expected(expect or "", saved)
    if not yes:
        session = open_session(look)
        plan = session.plan()
        expected.check(plan)
        if show.is_json:
            write_json(masked(plan_to_json(plan)))
        else:
            say(plan_text(plan, open_page(session.reader, look, show), interrupted=session.interrupted))
        return exit_status(plan, strict=False)

    words = ["apply", *([file] if file else []), "--yes", *(["--expect", expect] if expect else [])]
    require_rights(look, show, words)
    session, plan, receipt = run_apply(session_options(look), expected, progress)
    if show.is_json:
        write_json(masked(receipt_to_json(receipt)))
    else:
        say(receipt_text(receipt, open_page(session.reader, look, show), left=plan.findings))
    return applied_status(plan, receipt)
