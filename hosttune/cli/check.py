"""`hosttune check`: the audit report."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from hosttune.cli.options import CheckFormat, LookOnly, Option, ShowCheck

if TYPE_CHECKING:
    from hosttune.views.checked import Checked


EXAMPLES = (
    "hosttune check",
    "hosttune check -v --only storage-fstab",
    "hosttune check --host RECORD --format html --output check.html",
)


def check(
    look: LookOnly,
    show: ShowCheck,
    strict: Annotated[bool, Option("--strict", help="Advice counts as a difference, too.")] = False,
    timings: Annotated[
        bool, Option("--timings", help="Print on standard error where the time went.")
    ] = False,
    keep: Annotated[
        bool,
        Option(
            "--keep",
            help="Keep the JSON report as that of today, as the daily check does (see: diff).",
        ),
    ] = False,
) -> int:
    """Report what holds this host back, worst first. Changes nothing.

    Exit status: 0 ok, 1 a fault, or something is to change (skipped and blocked, too), waits or
    could not be checked, 2 it could not run, also for one of several hosts.
    """
    from hosttune.actions.kept_reports import keep as keep_report
    from hosttune.cli.common import tell_lines
    from hosttune.cli.ending import report_error
    from hosttune.cli.reports import check_host, deliver
    from hosttune.errors import HosttuneError
    from hosttune.host.pager import switch_pager_off
    from hosttune.views.report import check_report, timings_text
    from hosttune.views.summary import exit_status

    if keep and (show.format is not CheckFormat.JSON or look.host or look.root):
        raise HosttuneError(
            "--keep keeps what --format json says of this host", hint="check --format json --keep"
        )
    if keep and (
        chosen := [f"--{name.replace('_', '-')}" for name, value in asdict(look).items() if value]
    ):
        message = (
            f"--keep keeps the whole report of the day, which {', '.join(chosen)} would replace by "
            "another one"
        )
        hint = (
            "check --format json --keep, with the host's own policy; to look with other options, "
            "leave out --keep"
        )
        raise HosttuneError(message, hint=hint)
    # Text comes host by host, so the first is there while the last is still looked at. Other
    # formats are one document.
    is_streamed = show.format is CheckFormat.TEXT and show.output is None
    names: list[str | None] = [*dict.fromkeys(look.host)] if look.host else [None]
    switch_pager_off(when=len(names) > 1)
    hosts: list[Checked] = []
    failed: list[HosttuneError] = []
    status = 0
    for number, host in enumerate(names):
        try:
            one = check_host(look, show, host)
            text = check_report((one,), strict=strict) if is_streamed else ""
        # a record of another version, say: the others are looked at all the same
        except HosttuneError as error:
            failed.append(error)
            continue
        except Exception as error:
            if len(names) == 1:
                raise
            message = (
                f"{host}: a fault of hosttune itself, please report it: {type(error).__name__}: "
                f"{error}"
            )
            failed.append(
                HosttuneError(
                    message, hint="all about it: hosttune check --debug --host FILE, this one only"
                )
            )
            continue
        status = max(status, exit_status(one.plan, strict=strict))
        if is_streamed:
            deliver(("\n\n" if number > len(failed) else "") + text, None)
        else:
            hosts.append(one)
        if timings and not show.is_json:
            tell_lines(timings_text(one.timings))
    if len(failed) == len(names):
        raise failed[0]
    if not is_streamed:
        text = _render_check(show.format, tuple(hosts), strict=strict, timings=timings)
        deliver(text, show.output)
        if keep:
            keep_report(text, hosts[0].plan.created_at, hosts[0].keep_reports)
    return max(status, *map(report_error, failed)) if failed else status


def _render_check(
    form: CheckFormat, hosts: tuple[Checked, ...], *, strict: bool, timings: bool
) -> str:
    """The hosts in one document. A format is imported when it is asked for."""
    if form is CheckFormat.JSON:
        from hosttune.codec import dump_json
        from hosttune.views.report import check_json

        return dump_json(
            {"format_version": 1, "hosts": [check_json(one, timings=timings) for one in hosts]}
        )
    if form is CheckFormat.JUNIT:
        from hosttune.views.junit import check_junit

        return check_junit(hosts, strict=strict)
    if form is CheckFormat.PROMETHEUS:
        from hosttune.views.prometheus import check_prometheus

        return check_prometheus(hosts)
    from hosttune.views.report import check_report

    return check_report(hosts, strict=strict)
