"""`hosttune apply`: make the plan true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from hosttune.cli.options import Look, Show, command

if TYPE_CHECKING:
    from hosttune.values import Plan


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
    from hosttune.cli.common import open_page, open_session, say, write_json
    from hosttune.codec import plan_to_json, receipt_to_json
    from hosttune.views.masking import masked
    from hosttune.views.plan import plan_text
    from hosttune.views.receipt import receipt_text
    from hosttune.views.summary import applied_status, exit_status

    saved = _load(file) if file else None
    if not yes:
        session = open_session(look)
        plan = session.plan()
        _check(plan, saved, expect)
        if show.is_json:
            write_json(masked(plan_to_json(plan)))
        else:
            say(plan_text(plan, open_page(session.reader, look, show), interrupted=session.interrupted))
        return exit_status(plan, strict=False)

    from hosttune.actions.apply import apply as carry_out
    from hosttune.cli.change import changing, progress

    words = " ".join(["apply", *([file] if file else []), "--yes", *(["--expect", expect] if expect else [])])
    with changing(look, show, words) as (session, writer):
        plan = session.plan()
        _check(plan, saved, expect)
        receipt = carry_out(session, writer, plan, on_progress=progress)
    if show.is_json:
        write_json(masked(receipt_to_json(receipt)))
    else:
        say(receipt_text(receipt, open_page(session.reader, look, show), left=plan.findings))
    return applied_status(plan, receipt)


def _check(plan: Plan, saved: Plan | None, expect: str | None) -> None:
    """Refuse unless the plan is the one that was shown, in one sentence that names what differs."""
    from hosttune.actions.apply import check_expected, what_differs
    from hosttune.errors import Refused

    if expect is not None:
        check_expected(plan, expect)
    if saved is not None and saved.digest != plan.digest:
        message = f"the plan has changed since it was saved: {what_differs(saved, plan)}"
        raise Refused(message, hint="save and look at the new one with: hosttune plan --out FILE")


def _load(path: str) -> Plan:
    """A saved plan. It is only compared with: nothing in it is ever done."""
    import json

    from hosttune.codec import plan_from_json
    from hosttune.engine.plan import digest
    from hosttune.errors import HosttuneError
    from hosttune.host.console import load

    way_out = "save it again with: hosttune plan --out FILE"
    try:
        plan = plan_from_json(json.loads(load(path)), path)
    except ValueError as error:
        raise HosttuneError(f"{path}: not a saved plan: {error}", hint=way_out) from error
    if digest(plan.changes) != plan.digest:
        raise HosttuneError(f"{path}: its changes are not those of its digest: it was edited or masked", hint=way_out)
    return plan
