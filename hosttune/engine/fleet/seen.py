"""One host of a fleet, as far as a report on all of them needs it: small, and the same from a
result of `check` and from a record that was evaluated just now. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from hosttune.engine.decide.health import Fitness, judge
from hosttune.engine.decide.plan import waits_for_reboot
from hosttune.engine.decide.plan_class import digest_content, in_common
from hosttune.frozen import frozen
from hosttune.values import Finding, HoldKind, Verdict

if TYPE_CHECKING:
    from hosttune.engine.policy.policy import Drains
    from hosttune.facts.inventory import Inventory
    from hosttune.values import Plan

LONGEST = 200  # characters of a value: longer ones are no values, and the summary keeps many
LONGEST_SENTENCE = 500
FINE = "as it should be"
EXPIRED = (
    "the waiver"  # begins the evidence that engine/policy/waiver.py leaves of a waiver that is over
)

# What a rule can say of a host, the worst first.
OUTCOMES = (
    FAULT := "fault",
    DIFFERS := "differs",
    UNKNOWN := "unknown",
    WAITS := "waits",
    LEFT_ALONE := "left alone",
    ADVICE := "advice",
    DEFERRED := "deferred",
    ORPHANED := "orphaned",
    WAIVED := "waived",
    OK := "ok",
    NOT_APPLICABLE := "not applicable",
)
_HELD = {
    HoldKind.WAIVED: WAIVED,
    HoldKind.ORPHANED: ORPHANED,
    HoldKind.DEFERRED: DEFERRED,
    HoldKind.WAITING: WAITS,
    HoldKind.BUSY: WAITS,
}
_ASIDE = frozenset({DEFERRED, WAIVED, ORPHANED})


@frozen
class HostLook:
    """One look at one host. `at` is ISO 8601 in UTC, `source` the file; `says` holds a (rule,
    outcome, value) for each rule that was looked at. A host that gave no answer has `missing`, the
    reason, and nothing else.
    """

    host: str
    machine: str
    at: str
    source: str
    tool_version: str = ""
    profile: str = ""
    policy_digest: str = ""
    digest: str = ""
    # the digest of the changes in the file: the same, unless secrets are masked, or a host made
    # it up
    shown: str = ""
    # the digest of all that it shows of them and that equal hosts show alike (plan_class.py)
    content: str = ""
    own: str = ""  # the same with what each host has of its own
    changes: int = 0
    unfit: tuple[str, ...] = ()  # the rules for which it should not take work
    impaired: tuple[str, ...] = ()  # the rules for which it works slower, or not for long
    state: str = OK  # ok, fault, differs or unknown: what `check` would exit with
    says: tuple[tuple[str, str, str], ...] = ()
    reboot: tuple[str, ...] = ()  # what runs only after one, behind what must be solved before
    expired: tuple[str, ...] = ()  # waivers that are over
    orphaned: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # plans that fail their proof, runs that did not end
    hardware: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    gpu: str = ""
    missing: str = ""


@frozen
class Unread:
    """A file, or a part of it, that says nothing. `place` is `file:line: field` as far as it is
    known.
    """

    place: str
    reason: str


def outcome_of(finding: Finding) -> str:
    """One of OUTCOMES."""
    outcome = _HELD.get(finding.hold.kind, LEFT_ALONE) if finding.hold else finding.verdict.value
    # A fault that waits or is held back is a fault still. Only a waiver, an image and a leftover
    # set it aside.
    return FAULT if finding.is_fault and outcome not in _ASIDE else outcome


def is_counted(finding: Finding) -> bool:
    """Whether the exit status of `check` counts it."""
    return (
        finding.verdict in {Verdict.DIFFERS, Verdict.UNKNOWN} and outcome_of(finding) not in _ASIDE
    )


def faults_of(seen: HostLook) -> tuple[str, ...]:
    """The rules that find a fault, or for which the host should not take work; that it gave no
    answer.
    """
    found = [rule for rule, outcome, _ in seen.says if outcome == FAULT]
    return tuple(dict.fromkeys((*found, *seen.unfit, *(["no answer"] if seen.missing else []))))


def value_of(finding: Finding) -> str:
    """What a host says where a rule looks, in few words: the value of now (and, where that is not
    all that the rule asks for, what the next boot makes of it), else what is wrong, else that
    nothing is; and why a host is left alone.
    """
    value, hold = _format_value(finding), finding.hold
    if outcome_of(finding) != LEFT_ALONE or (hold.detail or str(hold)) in value:
        return value
    return _shorten(str(hold) if value == FINE else f"{_shorten(value, LONGEST // 2)} ({hold})")


def _format_value(finding: Finding) -> str:
    for text in finding.evidence:
        if text.startswith("now "):
            now = text.partition(",")[0]  # what follows are sizes of this host
            return _shorten(now if finding.verdict is Verdict.OK else now + _at_boot(finding, now))
    if finding.reason:
        return _shorten(finding.reason)
    current = [text for text in finding.evidence if not text.startswith(EXPIRED)]
    return _shorten(current[0]) if current else FINE


def _shorten(value: str, most: int = LONGEST) -> str:
    return value if len(value) <= most else f"{value[: most - 4].rstrip()} ..."


def shorten_words(one: HostLook | Unread) -> HostLook | Unread:
    """The same without what is longer than a sentence of hosttune's: one host, or file, would bury
    what the others say. What names a file stays as it is.
    """
    # The source stays whole, because changes are read from that file later.
    names = {field.name for field in fields(one)} - {"source", "place", "changes"}
    return replace(one, **{name: _shorten_all(getattr(one, name)) for name in names})


def _shorten_all(value: Any) -> Any:
    return (
        _shorten(value, LONGEST_SENTENCE)
        if isinstance(value, str)
        else tuple(map(_shorten_all, value))
    )


def _at_boot(finding: Finding, now: str) -> str:
    """What the next boot makes of a value, where it says so and it is another one; without the line
    that sets it.
    """
    for text in finding.evidence:
        if text == "no file sets it at boot":
            return ", set by no file"
        if text.startswith("next boot "):
            value = text.partition(" (")[0]
            return (
                "" if value.removeprefix("next boot ") == now.removeprefix("now ") else f", {value}"
            )
        if text.startswith("the line means "):
            return f", in fstab {text.removeprefix('the line means ').partition(',')[0]}"
    return ""


def seen_of_plan(
    plan: Plan,
    *,
    host: str,
    source: str,
    profile: str,
    inventory: Inventory,
    drains: Drains,
    problems: Iterable[str] = (),
) -> HostLook:
    """The look at a host whose plan was just made."""
    health = judge(plan.findings, drains)
    return seen_of(
        plan.findings,
        unfit=health.rules(Fitness.UNFIT),
        impaired=health.rules(Fitness.IMPAIRED),
        host=host,
        machine=plan.machine,
        at=plan.created_at,
        source=source,
        tool_version=plan.tool_version,
        profile=profile,
        policy_digest=plan.policy_digest,
        digest=plan.digest,
        shown=plan.digest,
        content=digest_content(map(in_common, plan.changes)),
        own=digest_content(plan.changes),
        changes=len(plan.changes),
        asks=inventory.reboot,
        problems=tuple(problems),
        hardware=tuple(inventory.hardware.items()),
        settings=tuple(inventory.settings.items()),
        gpu=inventory.gpu,
    )


def seen_of(findings: Iterable[Finding], *, asks: tuple[str, ...], **about: Any) -> HostLook:
    """The look with these findings; `asks` are the packages that ask for a reboot."""
    listed = tuple(findings)
    by_rule: dict[str, list[Finding]] = {}
    for finding in listed:
        by_rule.setdefault(finding.rule, []).append(finding)
    counted = {finding.verdict for finding in listed if is_counted(finding)}
    # By outcome and not by flag: a fault that is waived does not make the state of the host.
    faulty = any(outcome_of(finding) == FAULT for finding in listed)
    waiting = [finding.rule for finding in listed if waits_for_reboot(finding)]
    blocking = [
        f"no reboot before {finding.rule} is solved" for finding in listed if finding.blocks_reboot
    ]
    return HostLook(
        state=FAULT
        if faulty
        else DIFFERS
        if Verdict.DIFFERS in counted
        else UNKNOWN
        if counted
        else OK,
        says=tuple((rule, *_sum_up_findings(own)) for rule, own in by_rule.items()),
        reboot=tuple(dict.fromkeys([*blocking, *waiting, *asks])),
        expired=tuple(dict.fromkeys(_list_expired(listed))),
        orphaned=tuple(dict.fromkeys(f.rule for f in listed if f.hold.kind is HoldKind.ORPHANED)),
        **about,
    )


def _sum_up_findings(findings: list[Finding]) -> tuple[str, str]:
    """The worst outcome of a rule with several subjects, and the values behind it."""
    outcomes = [outcome_of(finding) for finding in findings]
    worst = min(outcomes, key=OUTCOMES.index)
    judged = [
        finding for finding, outcome in zip(findings, outcomes, strict=True) if outcome == worst
    ]
    subjects = {finding.subject for finding in judged}
    values = dict.fromkeys(
        _format_value_with_subject(finding, is_one=len(subjects) == 1) for finding in judged
    )
    return worst, _shorten("; ".join(values))


def _format_value_with_subject(finding: Finding, *, is_one: bool) -> str:
    """The value, with its subject where there are several."""
    value = value_of(finding)
    return value if is_one or not value.startswith("now ") else f"{finding.subject}: {value}"


def _list_expired(findings: Iterable[Finding]) -> Iterable[str]:
    for finding in findings:
        for text in finding.evidence:
            if text.startswith(EXPIRED) and " expired on " in text:
                # The reason is an administrator's, of any length, and the table keeps one text for
                # each host.
                yield f"{finding.rule}: {text}"[:LONGEST]


_FIELDS = tuple(one.name for one in fields(HostLook))


def seen_to_row(seen: HostLook) -> bytes:
    """The look as one line, for a scratch file of this run."""
    return json.dumps([getattr(seen, name) for name in _FIELDS], separators=(",", ":")).encode(
        "ascii"
    )


def seen_from_row(row: bytes) -> HostLook:
    return HostLook(*(_make_tuples(value) for value in json.loads(row)))


def _make_tuples(value: Any) -> Any:
    return tuple(map(_make_tuples, value)) if isinstance(value, list) else value


def list_pairs(data: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name[:LONGEST], value[:LONGEST]) for name, value in data.items())
