"""`hosttune check`: the audit report."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from hosttune.cli.options import Look, Show, command


@command
def check(
    look: Look,
    show: Show,
    strict: Annotated[bool, Option("--strict", help="Advice counts as a difference, too.")] = False,
    timings: Annotated[bool, Option("--timings", help="Tell on standard error where the time went.")] = False,
) -> int:
    """Say what holds this host back, worst first. Changes nothing.

    Exit status: 0 as it should be, 1 something differs, is unknown or waits, 2 trouble.
    """
    from hosttune.cli.common import open_page, open_session, say, tell, write_json
    from hosttune.views.report import check_json, check_report, timings_text
    from hosttune.views.summary import exit_status

    entries, status = [], 0
    for number, host in enumerate(look.host or [None]):
        session = open_session(look, host)
        plan = session.plan()
        status = max(status, exit_status(plan, strict=strict))
        if show.is_json:
            entries.append(
                check_json(plan, session.reader.name, session.interrupted, session.timings if timings else ())
            )
        else:
            page = open_page(session.reader, look, show)
            say(("\n\n" if number else "") + check_report(plan, page, interrupted=session.interrupted))
        if timings and not show.is_json:
            tell(timings_text(session.timings))
    if show.is_json:
        write_json({"format_version": 1, "hosts": entries})
    return status
