"""`hosttune diff A B`: a host against last week, or against its twin; `diff --since DAY`: what has changed on it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

from hosttune.cli.options import Argument, Choose, Look, Option, ShowReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.views.checked import About
    from hosttune.views.comparison import Side

_WHAT = "a record, a file of `check --format json`, live (this host), or a day of which the daily check kept a report"
_TWO = "hosttune diff yesterday live, hosttune diff A.json B.json, hosttune diff --since 2026-11-01"


def diff(
    choose: Choose,
    show: ShowReport,
    a: Annotated[str | None, Argument(metavar="A", help=f"The one side: {_WHAT}.")] = None,
    b: Annotated[str | None, Argument(metavar="B", help="The other side.")] = None,
    since: Annotated[
        str | None, Option("--since", metavar="DAY", help="As `diff DAY live`: a date, or yesterday.")
    ] = None,
) -> int:
    """Compare two checks: only what a rule knows, ranked by what it costs. Changes nothing.

    A day is a date (2026-11-01, UTC), today or yesterday: the report that `check --keep` kept then, or the last one
    before. A file of such a name is written ./yesterday.

    Exit status: 0 no difference, 1 differences, 2 trouble.
    """
    from hosttune.cli.common import medium_of, open_screen
    from hosttune.cli.reports import deliver
    from hosttune.codec import dumps
    from hosttune.views.comparison import compare
    from hosttune.views.diff import diff_json, diff_report
    from hosttune.views.page import Page

    first, second = _words(a, b, since)
    (one, known), (other, known_too) = _side(first, choose), _side(second, choose)
    comparison = compare(one, other, {**known, **known_too})
    if show.is_json:
        deliver(dumps(diff_json(comparison)), show.output)
    else:
        page = Page(screen=open_screen(show), is_verbose=show.verbose, medium=medium_of(show))
        deliver(diff_report(comparison, page), show.output)
    return int(bool(comparison.differences))


def _side(word: str, choose: Choose) -> tuple[Side, Mapping[str, About]]:
    """One side and the rules behind it: a saved check as it was written, a record or this host as it is found now."""
    from hosttune.actions.writers import writer_of, written_at
    from hosttune.cli.common import open_session
    from hosttune.engine.catalog import builtin_catalog
    from hosttune.views.checked import about_rules
    from hosttune.views.comparison import Side, Written, files_of

    if day := _day(word):
        return _kept(day), about_rules(builtin_catalog().rules.values())
    data = None if word == "live" else _document(word)
    if data is not None:
        return _saved(data, word), about_rules(builtin_catalog().rules.values())
    session = open_session(Look(host=None if word == "live" else [word], **vars(choose)))
    plan, reader = session.plan(), session.reader
    paths = dict.fromkeys(path for finding in plan.findings for path in files_of(finding))
    files = {path: Written(writer_of(reader, path), written_at(reader, path)) for path in paths}
    side = Side(
        reader.name, plan.machine, plan.created_at, plan.tool_version, plan.policy_digest, plan.findings, files
    )  # fmt: skip
    return side, about_rules(session.catalog.rules.values())


def _words(a: str | None, b: str | None, since: str | None) -> tuple[str, str]:
    """The two sides, as words. Raises HosttuneError where they are not two."""
    from hosttune.errors import HosttuneError

    if since is not None:
        if a is not None:
            raise HosttuneError("--since compares with this host alone", hint=f"one of: {_TWO}")
        if _day(since) is None:
            raise HosttuneError(f"--since: {since!r} is no day", hint="write 2026-11-01, or yesterday (UTC)")
        return since, "live"
    if a is None or b is None:
        raise HosttuneError("diff compares two sides", hint=f"one of: {_TWO}")
    return a, b


def _day(word: str) -> str | None:
    import time

    from hosttune.actions.kept_reports import day_of

    return day_of(word, time.time())


def _kept(day: str) -> Side:
    """The report that was kept on this day, or on the last one before. Raises HosttuneError where there is none."""
    from hosttune.actions.kept_reports import report_of
    from hosttune.errors import HosttuneError

    path, content = report_of(day)
    data = _parsed(content)
    if data is None:
        raise HosttuneError(f"{path}: is no report of hosttune check", hint="remove it, and name another day")
    return _saved(data, path)


def _document(path: str) -> dict[str, Any] | None:
    """The JSON of a saved check; None where the file is something else, which the reader of records will tell."""
    from hosttune.errors import HosttuneError
    from hosttune.host.console import load_bytes

    try:
        return _parsed(load_bytes(path))
    except HosttuneError:
        return None


def _parsed(content: bytes) -> dict[str, Any] | None:
    import json

    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and isinstance(data.get("hosts"), list) else None


def _saved(data: dict[str, Any], path: str) -> Side:
    """The one host of a saved check. Raises HosttuneError, and BadInput with every fault."""
    from hosttune.codec import decoded, other_format
    from hosttune.errors import HosttuneError
    from hosttune.views.comparison import Side

    hosts = data["hosts"]
    told = next((one for one in hosts if isinstance(one, dict)), {})  # each host says which hosttune it was
    if wrong := other_format({"tool_version": told.get("tool_version"), "format_version": data.get("format_version")}):
        raise HosttuneError(f"{path}: format_version: {wrong[0]}", hint=wrong[1])
    if len(hosts) != 1 or not isinstance(hosts[0], dict):
        raise HosttuneError(f"{path}: holds {len(hosts)} hosts", hint="diff takes one on each side: check them singly")
    body = {field.name: hosts[0][field.name] for field in fields(Side) if field.name in hosts[0]}
    return decoded(Side, body, f"{path}: hosts[0]")
