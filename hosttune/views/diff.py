"""Two checks compared, for people and as JSON."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from hosttune.codec import to_json
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.quoting import quote
from hosttune.verdict_words import STATES
from hosttune.views.comparison import DifferenceKind, files_of, set_by
from hosttune.views.document import Document, Item, Items, Say, Section, Steps, render_documents
from hosttune.views.findings import BY_OUTCOME, explain_finding
from hosttune.views.masking import mask_data
from hosttune.views.summary import find_worst, name_standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.values import Finding
    from hosttune.views.comparison import CheckComparison, Difference, Side
    from hosttune.views.document import Block
    from hosttune.views.page import Page


def diff_report(comparison: CheckComparison, page: Page) -> str:
    """What tells two checks apart, the dearest first: `-` is the first of them, `+` the second."""
    blocks: list[Block] = []
    shown = [one for one in comparison.differences if page.is_whole or not one.is_quiet]
    for title, group in groupby(shown, key=_make_title):
        found = tuple(group)
        items = tuple(_make_item(one, comparison, page) for one in found)
        is_folded = found[0].is_quiet
        count = str(len({one.rule for one in found})) if is_folded else ""
        style = BY_OUTCOME[found[0].cost].style
        blocks.append(
            Section(title, (Items(items, is_aligned=True),), style, count, is_quiet=is_folded)
        )
    if quiet := _quiet_items(comparison, page):
        blocks.append(Section("On one side only, and nothing to change there", (Items(quiet),)))
    if comparison.unknown and page.is_whole:
        names = Items(tuple(Item(text=clean(rule)) for rule in comparison.unknown))
        blocks.append(
            Section("Could not be checked on either side", (names,), STATES["unknown"].style)
        )
    decision = Say(
        " ".join([_describe_decision(comparison), *map(clean, comparison.notes)]), "decision"
    )
    if named := next(
        (one for one in comparison.differences if one.risk and not one.is_quiet), None
    ):
        words = "says why it matters, and how to change it"
        blocks.append(
            Steps(
                "Next",
                ((f"{page.program} explain {quote(named.rule)}{_aim(named, comparison)}", words),),
            )
        )
    head = (
        Items((_make_side("-", comparison.a), _make_side("+", comparison.b)), is_aligned=True),
        decision,
    )
    name = f"{clean(comparison.a.host)} and {clean(comparison.b.host)}"
    document = Document(name, name, head, tuple(blocks), status=_why_status(comparison))
    return render_documents("hosttune diff", [document], page)


def diff_json(comparison: CheckComparison) -> dict[str, Any]:
    """The document of `diff --format json`; secrets are masked."""
    body: dict[str, Any] = mask_data({
        "format_version": 1,
        "a": _side_json(comparison.a),
        "b": _side_json(comparison.b),
        "is_same": not comparison.differences,
        "rules_alike": comparison.alike,
        "rules_unknown": list(comparison.unknown),
        "notes": list(comparison.notes),
        "differences": [
            {
                "rule": one.rule,
                "subject": one.subject,
                "kind": one.kind.value,
                "cost": one.cost,
                "risk": one.risk.value if one.risk else None,
                "gain": one.gain,
                "a": _finding_json(one.a, comparison.a),
                "b": _finding_json(one.b, comparison.b),
            }
            for one in comparison.differences
        ],
    })  # fmt: skip
    return body


def _aim(one: Difference, comparison: CheckComparison) -> str:
    """The options that name the side of which the rule says the worse; nothing for this host."""
    is_of_a = one.a is not None and find_worst([side for side in (one.a, one.b) if side]) is one.a
    record = (comparison.a if is_of_a else comparison.b).record
    return f" --host {quote(record)}" if record else ""


def _why_status(comparison: CheckComparison) -> str:
    """`Exit status 1: 10 rules are not equal.`, or nothing."""
    number = len({one.rule for one in comparison.differences})
    return (
        f"Exit status 1: {say_count(number, 'rule is', 'rules are')} not equal." if number else ""
    )


def _describe_decision(comparison: CheckComparison) -> str:
    """How many rules are listed as different, those included that find something on one host only;
    how many more apply to one host, and find nothing there.
    """
    loud = {one.rule for one in comparison.differences if not one.is_quiet}
    one_only = loud - {one.rule for one in comparison.differences if not one.is_one_sided}
    quiet = {one.rule for one in comparison.differences} - loud
    number = len(loud)
    parts = [
        (
            f"{say_count(number, 'rule') if number else 'No rule'} "
            f"{'differs' if number < 2 else 'differ'}"
        )
    ]
    parts[0] += f" ({len(one_only)} on one host only)" if one_only else ""
    parts += (
        [f"{len(quiet)} {'more apply' if number else 'apply'} to one host only"] if quiet else []
    )
    rest = [f"{comparison.alike} equal"] if comparison.alike else []
    rest += (
        [f"{len(comparison.unknown)} could not be checked on either side"]
        if comparison.unknown
        else []
    )
    if not comparison.differences:
        return f"No rule differs ({', '.join(rest) or 'none says anything'})."
    return f"{', '.join([*parts, *rest])}."


def _quiet_items(comparison: CheckComparison, page: Page) -> tuple[Item, ...]:
    """The rules that are quiet, and only of one side, by their names where they are not listed;
    each side once.
    """
    items = []
    hidden = [] if page.is_whole else [one for one in comparison.differences if one.is_quiet]
    for side in (comparison.a, comparison.b):
        rules = dict.fromkeys(
            clean(one.rule) for one in hidden if one.is_of_a is (side is comparison.a)
        )
        names = [*rules][: page.names]
        rest = len(rules) - len(names)
        more = f" and {rest} more{' (-v lists them)' if page.is_terse else ''}" if rest else ""
        items += (
            [Item(f"{clean(side.host)} ({len(rules)})", f"{', '.join(names)}{more}")]
            if rules
            else []
        )
    return tuple(items)


def _make_side(sign: str, side: Side) -> Item:
    when = side.created_at.replace("T", " ").removesuffix("+00:00")
    return Item(f"{sign} {clean(side.host)}", f"{clean(when)} UTC", look="code")


def _make_title(one: Difference) -> str:
    if one.is_one_sided:
        what = "Applies" if one.kind is DifferenceKind.APPLIES else "Selected"
        return f"{what} on one only{', nothing to change' if one.is_quiet else ''}"
    return f"{BY_OUTCOME[one.cost].title}{', by other values' if one.cost == 'ok' else ''}"


def _make_item(one: Difference, comparison: CheckComparison, page: Page) -> Item:
    """The verdicts, what each side says, who set it and when; if all is shown, what the rule
    brings.
    """
    words = [f"{clean(one.subject)}:"] if one.subject else []
    sides = [STATES[name_standing(side)].of_one if side else "absent" for side in (one.a, one.b)]
    words.append(sides[0] if sides[0] == sides[1] else f"{sides[0]} -> {sides[1]}")
    points = []
    a, b = _describe_written(one.a, comparison.a), _describe_written(one.b, comparison.b)
    for sign, finding, own, other in (("-", one.a, a, b), ("+", one.b, b, a)):
        if finding:
            texts = [
                *_side_texts(finding, page),
                *(f"written: {text}" for text in own if text not in other),
            ]
            points += [Item(sign, text, joint=" ", look="code") for text in texts]
    if one.gain and page.is_whole:
        points.append(Item("gain", clean(one.gain)))
    return Item(clean(one.rule), " ".join(words), tuple(points), look="strong")


def _side_texts(finding: Finding, page: Page) -> Iterator[str]:
    text = explain_finding(finding, page)
    sentence = Item(text=text.reason, evidence=text.evidence[: page.evidence]).sentence
    yield sentence or STATES[finding.verdict.value].of_one
    if text.why_not:
        yield f"why not: {text.why_not}"
    others = [clean(who) for who in set_by(finding)]
    seen = f"{sentence} {text.why_not}".replace(" line ", ":")
    if not all(who in seen for who in others):
        yield f"set by: {', '.join(others)}"


def _describe_written(finding: Finding | None, side: Side) -> tuple[str, ...]:
    """Of the files that set the value on one side, who writes them and when that was done last."""
    files = [
        (path, side.files[path])
        for path in (files_of(finding) if finding else ())
        if path in side.files
    ]
    return tuple(clean(f"{path} {written}") for path, written in files if str(written))


def _side_json(side: Side) -> dict[str, Any]:
    return {
        "host": side.host,
        "machine": side.machine,
        "created_at": side.created_at,
        "tool_version": side.tool_version,
        "policy_digest": side.policy_digest,
    }


def _finding_json(finding: Finding | None, side: Side) -> dict[str, Any] | None:
    if finding is None:
        return None
    return {
        "verdict": finding.verdict.value,
        "hold": to_json(finding.hold),
        "reason": finding.reason,
        "evidence": list(finding.evidence),
        "todo": finding.todo,
        "set_by": list(set_by(finding)),
        "files": [
            {"path": path, "by": side.files[path].by, "written_at": side.files[path].at}
            for path in files_of(finding)
            if path in side.files
        ],
    }
