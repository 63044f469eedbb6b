"""`hosttune diff A B`: a host against last week, against its twin, or against what was learned of
it; `diff --since DAY`: what has changed on it.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any

from hosttune.cli.options import Argument, Choose, HostOptions, Option, ShowReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.views.checked import About
    from hosttune.views.comparison import CheckComparison, Side
    from hosttune.views.learned import LearnedState

_WHAT = (
    "a record, a file of `check --format json`, live (this host), a day of which the daily check "
    "kept a report, or learned (what `health --learn` keeps)"
)
_TWO = (
    "hosttune diff yesterday live, hosttune diff learned live, hosttune diff A.json B.json, "
    "hosttune diff --since 2026-11-01"
)


EXAMPLES = ("hosttune diff yesterday live", "hosttune diff A.json B.json")


def diff(
    choose: Choose,
    show: ShowReport,
    a: Annotated[str | None, Argument(metavar="A", help=f"The one side: {_WHAT}.")] = None,
    b: Annotated[str | None, Argument(metavar="B", help="The other side.")] = None,
    since: Annotated[
        str | None,
        Option("--since", metavar="DAY", help="As `diff DAY live`: a date, or yesterday."),
    ] = None,
) -> int:
    """Compare two checks of this or other hosts. Differences are ranked by what they cost. Changes
    nothing.

    A day is a date (2026-11-01, UTC), today or yesterday: the report that `check --keep` kept then,
    or the last one before. A file of such a name is written ./yesterday.

    With `learned`, or a copy of its file, parts and counters are compared in place of rules: what
    is less, and which errors grew. The other side is then a record, live, or another such file.

    Exit status: 0 no difference, 1 differences, 2 trouble.
    """
    from hosttune.cli.common import medium_of, open_screen
    from hosttune.cli.reports import deliver
    from hosttune.codec import dump_json
    from hosttune.host.console import spell_program
    from hosttune.views.comparison import compare
    from hosttune.views.diff import diff_json, diff_report
    from hosttune.views.page import Page

    first, second = _split_words(a, b, since)
    comparison = _of_learned(first, second, choose)
    if comparison is None:
        (one, known), (other, known_too) = _open_side(first, choose), _open_side(second, choose)
        comparison = compare(one, other, {**known, **known_too})
    if show.is_json:
        deliver(dump_json(diff_json(comparison)), show.output)
    else:
        page = Page(
            screen=open_screen(show),
            program=spell_program(),
            is_verbose=show.verbose,
            medium=medium_of(show),
        )
        deliver(diff_report(comparison, page), show.output)
    return int(bool(comparison.differences))


def _open_side(word: str, choose: Choose) -> tuple[Side, Mapping[str, About]]:
    """One side and the rules behind it: a saved check as it was written, a record or this host as
    it is found now.
    """
    from hosttune.actions.writers import writer_of, written_at
    from hosttune.cli.common import open_session
    from hosttune.engine.rules.catalog import builtin_catalog
    from hosttune.views.checked import about_rules
    from hosttune.views.comparison import Side, Written, files_of

    if day := _parse_day(word):
        return _read_kept_report(day), about_rules(builtin_catalog().rules.values())
    data = None if word == "live" else _read_document(word)
    if data is not None:
        return _read_saved_side(data, word), about_rules(builtin_catalog().rules.values())
    session = open_session(HostOptions(host=None if word == "live" else [word], **asdict(choose)))
    plan, reader = session.plan(), session.reader
    paths = dict.fromkeys(path for finding in plan.findings for path in files_of(finding))
    files = {path: Written(writer_of(reader, path), written_at(reader, path)) for path in paths}
    side = Side(
        reader.name,
        plan.machine,
        plan.created_at,
        plan.tool_version,
        plan.policy_digest,
        plan.findings,
        files,
        "" if word == "live" else word,
    )
    return side, about_rules(session.catalog.rules.values())


def _of_learned(first: str, second: str, choose: Choose) -> CheckComparison | None:
    """The comparison with what was learned of a healthy host; None where neither side is that."""
    from hosttune.actions.health import BASELINE
    from hosttune.engine.rules.catalog import builtin_catalog
    from hosttune.views.checked import about_rules
    from hosttune.views.comparison import compare
    from hosttune.views.learned import make_sides

    files = (_file_of_learned(first), _file_of_learned(second))
    if files == (None, None):
        return None
    rule = builtin_catalog().rules[BASELINE]
    times = rule.defaults["times"]
    states = []
    for word, state in zip((first, second), files, strict=True):
        if state is None:
            state, times = _seen_now(word, choose)  # noqa: PLW2901 - one of the two at most
        states.append(state)
    one, other = make_sides(states[0], states[1], times)
    return compare(one, other, about_rules([rule]))


def _file_of_learned(word: str) -> LearnedState | None:
    """What was learned, where this side is that. Raises HosttuneError."""
    from hosttune.codec import parse_json
    from hosttune.errors import HosttuneError
    from hosttune.facts.baseline import FOLDER, NAME, PATH, parse
    from hosttune.facts.counted import KINDS
    from hosttune.host.console import load_bytes
    from hosttune.host.writing import state
    from hosttune.views.learned import LearnedState

    if _parse_day(word) or word == "live":
        return None
    if word == "learned":
        kept = state.load(NAME, state.name_folder(FOLDER))
        if kept is None:
            hint = "sudo hosttune health --learn keeps it; only root can read it"
            raise HosttuneError(f"{PATH}: nothing was learned, or you may not read it", hint=hint)
        content = kept.decode("utf-8", "replace")
    else:
        try:
            content = load_bytes(word).decode("utf-8", "replace")
            data = parse_json(content)
        except (HosttuneError, ValueError, RecursionError):
            return None
        if not (isinstance(data, dict) and {"parts", "counters"} <= data.keys()):
            return None
    try:
        learned = parse(content)
    except ValueError as error:
        raise HosttuneError(f"{PATH if word == 'learned' else word}: {error}") from None
    missing = {*KINDS} - {part.kind for part in learned.parts}
    return LearnedState(learned, dict.fromkeys(missing, "nothing of it was learned"))


def _seen_now(word: str, choose: Choose) -> tuple[LearnedState, float]:
    """What there would be to learn of a record or this host, why of some parts nothing, and how
    many times as fast a counter may grow. Raises HosttuneError.
    """
    from hosttune import __version__
    from hosttune.actions.health import BASELINE
    from hosttune.cli.common import open_session
    from hosttune.errors import HosttuneError
    from hosttune.facts.base import UnknownFact
    from hosttune.facts.baseline import learn_baseline
    from hosttune.facts.counted import list_parts
    from hosttune.views.learned import LearnedState

    if _parse_day(word) or (word != "live" and _read_document(word) is not None):
        hint = "compare what was learned with a record, or with live"
        raise HosttuneError(f"{word}: a report of a check holds no parts and counters", hint=hint)
    session = open_session(HostOptions(host=None if word == "live" else [word], **asdict(choose)))
    try:
        learned = learn_baseline(session.facts, __version__)
    except UnknownFact as unknown:
        raise HosttuneError(
            f"{word}: {unknown.reason}", hint="look at the host itself, as root"
        ) from None
    unseen = {kind: unknown.reason for kind, unknown in list_parts(session.facts)[1].items()}
    times = session.policy.params_of(session.catalog.rules[BASELINE], session.catalog)["times"]
    return LearnedState(learned, unseen), times


def _split_words(a: str | None, b: str | None, since: str | None) -> tuple[str, str]:
    """The two sides, as words. Raises HosttuneError where they are not two."""
    from hosttune.errors import HosttuneError

    if since is not None:
        if a is not None:
            raise HosttuneError("--since compares only with this host", hint=f"one of: {_TWO}")
        if _parse_day(since) is None:
            raise HosttuneError(
                f"--since: {since!r} is not a day", hint="write 2026-11-01, or yesterday (UTC)"
            )
        return since, "live"
    if a is None or b is None:
        raise HosttuneError("diff compares two sides", hint=f"one of: {_TWO}")
    # A side is read to see what it is, and then once more as that.
    if "-" in (a, b):
        raise HosttuneError("diff does not read standard input", hint="name a file")
    return a, b


def _parse_day(word: str) -> str | None:
    import time

    from hosttune.actions.kept_reports import day_of

    return day_of(word, time.time())


def _format_today() -> str:
    return _parse_day("today") or ""


def _read_kept_report(day: str) -> Side:
    """The report that was kept on this day, or on the last one before. Raises HosttuneError where
    there is none, and for a day that is still to come.
    """
    from hosttune.actions.kept_reports import report_of
    from hosttune.errors import HosttuneError

    if day > (today := _format_today()):
        message = f"{day} is still to come (today is {today}, UTC): no report is of that day"
        raise HosttuneError(message, hint="for the last one that is kept: today")
    path, content = report_of(day)
    data = _parse_document(content)
    if data is None:
        raise HosttuneError(
            f"{path}: is not a report of hosttune check", hint="remove it, and name another day"
        )
    return _read_saved_side(data, path)


def _read_document(path: str) -> dict[str, Any] | None:
    """The JSON of a saved check; None where the file is something else, which the reader of records
    will tell.
    """
    from hosttune.errors import HosttuneError
    from hosttune.host.console import load_bytes

    try:
        return _parse_document(load_bytes(path))
    except HosttuneError:
        return None


def _parse_document(content: bytes) -> dict[str, Any] | None:
    from hosttune.codec import parse_json

    try:
        data = parse_json(content)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and isinstance(data.get("hosts"), list) else None


def _read_saved_side(data: dict[str, Any], path: str) -> Side:
    """The one host of a saved check. Raises HosttuneError, and BadInput with every fault."""
    from hosttune.codec import decode_as, other_format
    from hosttune.errors import HosttuneError
    from hosttune.views.comparison import Side

    hosts = data["hosts"]
    # each host says which hosttune it was
    own = next((one for one in hosts if isinstance(one, dict)), {})
    if wrong := other_format(
        {"tool_version": own.get("tool_version"), "format_version": data.get("format_version")}
    ):
        raise HosttuneError(f"{path}: format_version: {wrong[0]}", hint=wrong[1])
    if len(hosts) != 1 or not isinstance(hosts[0], dict):
        raise HosttuneError(
            f"{path}: holds {len(hosts)} hosts",
            hint="diff takes one on each side: check them singly",
        )
    body = {field.name: hosts[0][field.name] for field in fields(Side) if field.name in hosts[0]}
    return decode_as(Side, body, f"{path}: hosts[0]")
