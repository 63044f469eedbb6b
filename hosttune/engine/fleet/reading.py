"""Documents that hosts left behind, read for a report on all of them: results of `hosttune check
--format json`, plans, and the notes of a playbook about hosts that gave no answer. Pure.

A document is someone else's text: what is not as it should be is reported with its place, and the
rest is still read. A missing field takes the value that hosts of an older version mean by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hosttune.codec import other_format, parse_json
from hosttune.engine.decide.health import Fitness, judge
from hosttune.engine.decide.plan import digest
from hosttune.engine.decide.plan_class import digest_content, in_common
from hosttune.engine.fleet.seen import HostLook, Unread, list_pairs, seen_of
from hosttune.errors import BadInput, Where
from hosttune.regex import regex
from hosttune.values import Finding, Hold, HoldKind, Verdict

if TYPE_CHECKING:
    from hosttune.values import Change

RECORD = "hosttune record"
# {"format_version": 1, "kind": "hosttune missing", "host", "at", "reason"}
MISSING = "hosttune missing"
_VERDICTS = {one.value: one for one in Verdict}
_HOLDS = {one.value: one for one in HoldKind}
_NO_HOLD = Hold()
_MOST_HOSTS = 65_536  # of one document
_MOST_FINDINGS = 16_384  # of one host
_DIGEST = regex(r"(?:[0-9a-f]{64})?")


class _Wrong(Exception):
    """What is wrong with a document, and in which field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def parse_document(content: bytes, source: str) -> dict[str, Any] | Unread:
    """The document in a file, whatever it is."""
    if not content.strip():
        return Unread(source, "is empty: the host was not reached, or the command there failed")
    try:
        data = parse_json(content)
    except json.JSONDecodeError as error:
        # In characters, which `pos` counts. A text that is not closed is reported at its beginning,
        # and only the end of the file leaves one open: a line break in it is another error.
        is_cut = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")
        why = "ends in the middle" if is_cut else error.msg
        return Unread(str(Where(source, error.lineno)), f"is not JSON: {why}")
    except (ValueError, RecursionError) as error:
        return Unread(source, f"is not JSON: {str(error)[:200]}")
    return (
        data
        if isinstance(data, dict)
        else Unread(source, "is not a document of hosttune: the top level is not an object")
    )


def is_record(data: Mapping[str, Any]) -> bool:
    return data.get("kind") == RECORD


def read_document(data: Mapping[str, Any], source: str, stem: str) -> Iterator[HostLook | Unread]:
    """The hosts of a document that is no record. `stem` names the host of a plan, which does not
    say whose it is.
    """
    try:
        _check_version(data)
        if data.get("kind") == MISSING:
            yield _make_missing_host(data, source)
            return
        hosts = data.get("hosts")
        if not isinstance(hosts, list):
            if not (
                isinstance(data.get("stages"), list) and isinstance(data.get("findings"), list)
            ):
                raise _Wrong("", "is neither a record nor a plan nor a result of check")
            yield _decode_host({"host": stem, **data}, source, "")
            return
        if not hosts:
            raise _Wrong("hosts", "names no host")
        if len(hosts) > _MOST_HOSTS:
            raise _Wrong("hosts", f"has more than {_MOST_HOSTS} hosts")
    except _Wrong as error:
        yield _make_unread(error, source)
        return
    for number, entry in enumerate(hosts):
        where = f"hosts[{number}]"
        try:
            if not isinstance(entry, dict):
                raise _Wrong(where, "is no object")
            yield _decode_host(entry, source, f"{where}.")
        except _Wrong as error:
            yield _make_unread(error, source)


def changes_in(data: Mapping[str, Any], content: str) -> tuple[Change, ...]:
    """The changes in a document that show `content`, whichever of its hosts has them; none where no
    host has.
    """
    for number, entry in enumerate(
        data["hosts"] if isinstance(data.get("hosts"), list) else [data]
    ):
        try:
            for finding in entry["findings"]:
                _decode_finding(finding, f"hosts[{number}]")
            changes = _decode_changes(entry["findings"], "findings")
        except (_Wrong, BadInput, KeyError, TypeError):  # the report shows what is wrong with it
            continue
        if digest_content(map(in_common, changes)) == content:
            return changes
    return ()


def _decode_changes(findings: list[Any], where: str) -> tuple[Change, ...]:
    from hosttune.codec import change_from_json

    return tuple(
        change_from_json(one, f"{where}[{number}].changes")
        for number, finding in enumerate(findings)
        for one in finding.get("changes", ())
    )


def _decode_shown(findings: list[Any], where: str) -> dict[str, str]:
    try:
        changes = _decode_changes(findings, where)
    except BadInput as error:
        raise _Wrong(where, str(error.faults[0])) from None
    return {
        "shown": digest(changes), "content": digest_content(map(in_common, changes)),
        "own": digest_content(changes),
    }  # fmt: skip


def parse_moment(text: str) -> float:
    """Seconds since the epoch of an ISO 8601 time; UTC where it does not say. Raises ValueError."""
    # Python before 3.11 does not read the Z.
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()


def _make_unread(error: _Wrong, source: str) -> Unread:
    return Unread(str(Where(source, field=error.field)), str(error))


def _check_version(data: Mapping[str, Any]) -> None:
    if data.get("format_version") is None:
        # Many tools write JSON with a key `hosts`. Without the version it is not known what a field
        # means.
        raise _Wrong("format_version", "is missing: not written by hosttune")
    if wrong := other_format(data):
        raise _Wrong("format_version", "; ".join(wrong))


def _make_missing_host(data: Mapping[str, Any], source: str) -> HostLook:
    host, at = _decode_text(data, "host", ""), _decode_time(data, "at", "")
    return HostLook(
        host, "", at, source, missing=_decode_text(data, "reason", "") or "no reason was given"
    )


def _decode_host(entry: Mapping[str, Any], source: str, where: str) -> HostLook:
    findings = entry.get("findings")
    if not isinstance(findings, list):
        raise _Wrong(f"{where}findings", "is not a list" if "findings" in entry else "is missing")
    # Checked before one is decoded. A real host has some hundreds, and a file is someone else's.
    if len(findings) > _MOST_FINDINGS:
        raise _Wrong(f"{where}findings", f"has more than {_MOST_FINDINGS} findings")
    made = [
        _decode_finding(one, f"{where}findings[{number}]") for number, one in enumerate(findings)
    ]
    changes = sum(len(one.get("changes", ())) for one in findings)
    named = _digest(entry, "digest", where)
    unfit, impaired = _decode_health(entry, made, where)
    about = entry.get("inventory")
    inventory: dict[str, Any] = about if isinstance(about, dict) else {}
    return seen_of(
        made,
        host=_decode_text(entry, "host", where),
        machine=_decode_text(entry, "machine", where, ""),
        at=_decode_time(entry, "created_at", where),
        source=source,
        tool_version=_decode_text(entry, "tool_version", where, ""),
        profile=_decode_text(entry, "profile", where, ""),
        policy_digest=_digest(entry, "policy_digest", where),
        digest=named,
        **(_decode_shown(findings, f"{where}findings") if named and changes else {}),
        changes=changes,
        unfit=unfit,
        impaired=impaired,
        asks=tuple(_decode_texts(inventory, "reboot", f"{where}inventory.")),
        # An earlier version had that in a plan; now it is a finding's hold.
        problems=(
            *_decode_texts(entry, "problems", where),
            *_decode_texts(entry, "interrupted", where),
        ),
        hardware=list_pairs(_decode_table(inventory, "hardware", f"{where}inventory.")),
        settings=list_pairs(_decode_table(inventory, "settings", f"{where}inventory.")),
        gpu=_decode_text(inventory, "gpu", f"{where}inventory.", ""),
    )


def _decode_health(
    entry: Mapping[str, Any], findings: list[Finding], where: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rules for which the host is unfit and impaired, as its own policy has it; an earlier
    version did not say.
    """
    judged = entry.get("health")
    if isinstance(judged, dict):
        return tuple(_decode_texts(judged, "unfit", f"{where}health.")), tuple(
            _decode_texts(judged, "impaired", f"{where}health.")
        )
    # Without its policy, which may drain for other rules: the nearest that can be known of an older
    # version.
    health = judge(findings)
    return health.rules(Fitness.UNFIT), health.rules(Fitness.IMPAIRED)


def _decode_finding(data: Any, where: str) -> Finding:
    """A finding without its changes."""
    if not isinstance(data, dict):
        raise _Wrong(where, "is no object")
    verdict = (
        _VERDICTS.get(data.get("verdict", "")) if isinstance(data.get("verdict"), str) else None
    )
    if verdict is None:
        raise _Wrong(f"{where}.verdict", f"is none of {', '.join(_VERDICTS)}")
    if not isinstance(data.get("changes", []), list):
        raise _Wrong(f"{where}.changes", "is not a list")
    rule, subject, reason = data.get("rule"), data.get("subject", ""), data.get("reason", "")
    evidence = data.get("evidence", [])
    if not (
        isinstance(rule, str) and rule and isinstance(subject, str) and isinstance(reason, str)
    ):
        raise _Wrong(where, "rule, subject and reason must be text")
    if not (isinstance(evidence, list) and all(isinstance(line, str) for line in evidence)):
        raise _Wrong(f"{where}.evidence", "is not a list of text")
    flags = {name: data.get(name, False) for name in ("is_fault", "blocks_reboot", "impairs")}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise _Wrong(where, f"{' and '.join(flags)} must be true or false")
    return Finding(
        rule, subject, verdict, _hold(data.get("hold"), where), reason, tuple(evidence), **flags
    )


def _hold(data: Any, where: str) -> Hold:
    if data is None:
        return _NO_HOLD
    kind = data.get("kind") if isinstance(data, dict) else None
    if (
        not isinstance(kind, str)
        or kind not in _HOLDS
        or not isinstance(data.get("detail", ""), str)
    ):
        raise _Wrong(f"{where}.hold", "is no reason that this hosttune knows")
    # An unknown kind was refused above. Taken for no hold, it would count a finding that the host
    # holds back.
    return Hold(_HOLDS[kind], data.get("detail", "")) if kind != HoldKind.NONE.value else _NO_HOLD


def _decode_text(data: Mapping[str, Any], name: str, where: str, default: str | None = None) -> str:
    value = data.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise _Wrong(f"{where}{name}", "is missing" if value in (None, "") else "is no text")
    return value


def _digest(data: Mapping[str, Any], name: str, where: str) -> str:
    text = _decode_text(data, name, where, "")
    if not _DIGEST.fullmatch(text):
        raise _Wrong(f"{where}{name}", "is not a digest: expected 64 digits of 0-9 and a-f")
    return text


def _decode_texts(data: Mapping[str, Any], name: str, where: str) -> list[str]:
    value = data.get(name, [])
    if not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        raise _Wrong(f"{where}{name}", "is not a list of text")
    return value


def _decode_table(data: Mapping[str, Any], name: str, where: str) -> dict[str, str]:
    value = data.get(name, {})
    if not (isinstance(value, dict) and all(isinstance(one, str) for one in value.values())):
        raise _Wrong(f"{where}{name}", "is no table of text")
    return value


def _decode_time(data: Mapping[str, Any], name: str, where: str) -> str:
    """A time in UTC, to the second, so that times compare as text."""
    text = _decode_text(data, name, where)
    try:
        return datetime.fromtimestamp(parse_moment(text), timezone.utc).isoformat(
            timespec="seconds"
        )
    except (ValueError, OverflowError, OSError):
        raise _Wrong(f"{where}{name}", "is no time such as 2026-05-28T20:26:40+00:00") from None
