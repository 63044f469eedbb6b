"""One rule explained: why, what it may cost, what it says here, how to do it by hand, how to switch it off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION, to_json
from hosttune.views.change import change_lines
from hosttune.views.findings import ALL, sections_lines
from hosttune.views.masking import masked
from hosttune.views.page import shown
from hosttune.views.rule_words import (
    do_texts,
    figure_text,
    guard_texts,
    param_text,
    pieces,
    plain,
    reads_texts,
    risk_text,
    standing_text,
    undo_texts,
    wish_text,
)
from hosttune.views.terminal import columned, wrapped

if TYPE_CHECKING:
    from hosttune.engine.rule import Rule
    from hosttune.values import Finding
    from hosttune.views.page import Page


def explain_text(
    rule: Rule, params: dict[str, Any], findings: tuple[Finding, ...] | None, profiles: tuple[str, ...], page: Page
) -> str:
    """`params` are the values in force, `findings` what the rule says of this host (None: it was not asked)."""
    lines = [page.screen.paint(shown(rule.id), "bold") + f": {shown(rule.title)}", ""]
    lines += columned(_facts(rule, profiles), page.screen)
    lines += _paragraphs("Why", rule.why, page)
    lines += _block("Applies when", guard_texts(rule), page)
    lines += _block("Reads", reads_texts(rule), page)
    lines += _block("Wants", [wish_text(spec) for spec in rule.want], page)
    lines += _block("Expects", [one.condition.source for one in rule.expect], page)
    lines += _params(rule, params, page)
    if findings is not None:
        lines += _here(findings, page)
    lines += _block("By hand", do_texts(rule), page)
    lines += _block("Taken back by hand", undo_texts(rule), page)
    lines += _switches(rule, page)
    lines += _block("Sources", list(rule.sources), page)
    return "\n".join(lines) + "\n"


def explain_json(
    rule: Rule, params: dict[str, Any], findings: tuple[Finding, ...] | None, profiles: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "id": rule.id,
        "title": rule.title,
        "status": rule.status.value,
        "replaced_by": rule.replaced_by,
        "edition": rule.edition,
        "risk": rule.risk.value,
        "exposes": rule.exposes,
        "disturbs": rule.disturbs.value,
        "since": rule.since,
        "verified": rule.verified,
        "profiles": list(profiles),
        "gain": rule.gain,
        "figure": figure_text(rule),
        "why": rule.why,
        "sources": list(rule.sources),
        "applies_when": [{"if": g.condition.source, "else": g.otherwise.source} for g in rule.applies_when],
        "reads": reads_texts(rule),
        "wants": [wish_text(spec) for spec in rule.want],
        "expects": [expectation.condition.source for expectation in rule.expect],
        "by_hand": {"do": do_texts(rule), "undo": undo_texts(rule)},
        "params": {name: to_json(value) for name, value in params.items()},
        "findings": None if findings is None else masked(to_json(findings)),
    }


def _facts(rule: Rule, profiles: tuple[str, ...]) -> list[tuple[str, ...]]:
    origin = "" if rule.is_builtin else f", from {shown(rule.where.path)}"
    return [
        ("gain", shown(" ".join(rule.gain.split()))),
        ("", f"({figure_text(rule)})"),
        ("risk", risk_text(rule)),
        ("status", standing_text(rule) + origin),
        ("profiles", ", ".join(profiles) or "none: it runs where a policy selects it"),
    ]


def _params(rule: Rule, params: dict[str, Any], page: Page) -> list[str]:
    if not rule.params:
        return []
    rows: list[tuple[str, ...]] = [
        (f"{name} = {plain(params[name])}", param_text(param)) for name, param in rule.params.items()
    ]
    title = page.screen.paint("Parameters", "bold") + f" (policy: params: {{{rule.id}: {{NAME: VALUE}}}})"
    return ["", title, *columned(rows, page.screen, indent=2)]


def _here(findings: tuple[Finding, ...], page: Page) -> list[str]:
    """What the rule says here with all evidence: which file and line sets the value now, and which wins at boot."""
    lines = sections_lines(ALL, findings, replace(page, is_verbose=True))
    for finding in findings:
        for change in finding.changes:
            lines += change_lines(change, page.screen)
    return ["", page.screen.paint(f"On {shown(page.host)}", "bold"), *lines[1:]]


def _switches(rule: Rule, page: Page) -> list[str]:
    rows = [
        ("in /etc/hosttune/policy.yaml:", f"ignore: [{rule.id}]"),
        ("for a time, with the reason:", f"ignore: [{{rule: {rule.id}, reason: ..., until: YYYY-MM-DD}}]"),
        ("this time only:", f"--ignore {rule.id}"),
    ]
    if rule.want and page.can_apply:
        rows.append(("and take back what it did:", page.act(f"undo --rule {rule.id}")))
    return ["", page.screen.paint("Switch it off", "bold"), *(f"  {label:30} {text}" for label, text in rows)]


def _paragraphs(title: str, text: str, page: Page) -> list[str]:
    lines = ["", page.screen.paint(title, "bold")]
    for number, (mark, piece) in enumerate(pieces(text)):
        lines += [""] if number and not mark else []
        lines += wrapped(shown(piece), page.screen.columns, first=f"  {mark}", rest="  " + " " * len(mark))
    return lines


def _block(title: str, texts: list[str], page: Page) -> list[str]:
    if not texts:
        return []
    body = [line for t in texts for line in wrapped(shown(t), page.screen.columns, first="  - ", rest="    ")]
    return ["", page.screen.paint(title, "bold"), *body]
