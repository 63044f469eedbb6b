"""`hosttune plan`: the exact diff."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from hosttune.cli.options import Look, Show, command


@command
def plan(
    look: Look,
    show: Show,
    out: Annotated[
        str | None, Option("--out", metavar="FILE", help="Save the plan for `apply FILE --yes`, readable by you alone.")
    ] = None,
) -> int:
    """Show the exact diff that apply --yes would make. Changes nothing.

    Exit status: 0 nothing to change, 1 something differs, is unknown or waits, 2 trouble.
    """
    from hosttune.cli.common import open_page, open_session, say, tell, write_json
    from hosttune.codec import dumps, plan_to_json
    from hosttune.host.console import save
    from hosttune.views.masking import masked
    from hosttune.views.plan import plan_text
    from hosttune.views.summary import exit_status

    session = open_session(look)
    made = session.plan()
    if out is not None:
        save(out, dumps(plan_to_json(made)).encode("ascii"))
        tell(f"hosttune: the plan is saved in {out}")
    if show.is_json:
        write_json(masked(plan_to_json(made)))
    else:
        say(plan_text(made, open_page(session.reader, look, show), interrupted=session.interrupted))
    return exit_status(made, strict=False)
