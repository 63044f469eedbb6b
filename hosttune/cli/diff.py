"""`hosttune diff A B`: a host against last week, or against its twin."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from hosttune.cli.options import Choose, Look, ShowDiff, command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.views.checked import About
    from hosttune.views.comparison import Side

_WHAT = "a record, a file of `check --format json`, or live (this host)"


@command
def diff(
    choose: Choose,
    show: ShowDiff,
    a: Annotated[str, Argument(metavar="A", help=f"The one side: {_WHAT}.")],
    b: Annotated[str, Argument(metavar="B", help="The other side.")],
) -> int:
    """Compare two checks: only what a rule knows, ranked by what it costs. Changes nothing.

    Exit status: 0 no difference, 1 differences, 2 trouble.
    """
    from hosttune.cli.common import open_screen
    from hosttune.cli.reports import deliver
    from hosttune.codec import dumps
    from hosttune.views.comparison import compare
    from hosttune.views.diff import diff_json, diff_text
    from hosttune.views.page import Page
    from hosttune.views.terminal import Screen

    (one, known), (other, known_too) = _side(a, choose), _side(b, choose)
    comparison = compare(one, other, {**known, **known_too})
    if show.is_json:
        deliver(dumps(diff_json(comparison)), show.output)
    else:
        screen = open_screen(show) if show.output is None else Screen()
        deliver(diff_text(comparison, Page(screen=screen, is_verbose=show.verbose)), show.output)
    return int(bool(comparison.differences))


def _side(word: str, choose: Choose) -> tuple[Side, Mapping[str, About]]:
    """One side and the rules behind it: a saved check as it was written, a record or this host as it is found now."""
    from hosttune.actions.writers import writer_of, written_at
    from hosttune.cli.common import open_session
    from hosttune.engine.catalog import builtin_catalog
    from hosttune.views.checked import about_rules
    from hosttune.views.comparison import Side, Written, files_of

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


def _document(path: str) -> dict[str, Any] | None:
    """The JSON of a saved check; None where the file is something else, which the reader of records will tell."""
    import json

    from hosttune.errors import HosttuneError
    from hosttune.host.console import load_bytes

    try:
        data = json.loads(load_bytes(path))
    except (HosttuneError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and isinstance(data.get("hosts"), list) else None


def _saved(data: dict[str, Any], path: str) -> Side:
    """The one host of a saved check. Raises HosttuneError, and BadInput with every fault."""
    from hosttune.codec import FORMAT_VERSION, decoded
    from hosttune.errors import HosttuneError
    from hosttune.views.comparison import Side

    hosts = data["hosts"]
    if data.get("format_version") != FORMAT_VERSION:
        raise HosttuneError(f"{path}: written by another version of hosttune", hint="check again with this one")
    if len(hosts) != 1 or not isinstance(hosts[0], dict):
        raise HosttuneError(f"{path}: holds {len(hosts)} hosts", hint="diff takes one on each side: check them singly")
    body = {field.name: hosts[0][field.name] for field in fields(Side) if field.name in hosts[0]}
    return decoded(Side, body, f"{path}: hosts[0]")
