"""One rule explained: why, what it may cost, what it says here, how to do it by hand, how to switch it off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION, to_json
from hosttune.engine.evaluate import evaluate, names_of
from hosttune.frozen import frozen
from hosttune.resources.steps import Command, few
from hosttune.views.change import change_lines
from hosttune.views.findings import ALL, sections
from hosttune.views.masking import masked
from hosttune.views.page import shown
from hosttune.views.rule_words import (
    figure_text,
    finds_texts,
    guard_texts,
    param_text,
    pieces,
    plain,
    reads_texts,
    risk_text,
    standing_text,
    todo_texts,
    told_wishes,
    ways_of,
    wish_text,
)
from hosttune.views.terminal import columned, wrapped
from hosttune.views.text import block_lines
from hosttune.views.wording import Wording

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.engine.catalog import Catalog
    from hosttune.engine.policy import Policy
    from hosttune.engine.rule import Rule
    from hosttune.facts import Facts
    from hosttune.resources.base import Wish
    from hosttune.values import Finding
    from hosttune.views.by_hand import Ways
    from hosttune.views.page import Page

SHORT = 24  # characters of a value that still stands beside its name


@frozen
class Explained:
    """A rule, and what it says of one host: `wishes` are empty where it does not apply."""

    rule: Rule
    wording: Wording
    profiles: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    wishes: tuple[Wish, ...] = ()
    measured: tuple[str, ...] = ()  # what benches found here
    chosen: str = ""  # which profile, policy file and sections are in force

    @property
    def told(self) -> tuple[Wish, ...]:
        return told_wishes(self.rule, self.wording, self.wishes)

    @property
    def ways(self) -> Ways:
        """How to do it by hand, and how to take it back."""
        does, undoes = ways_of(self.told, self.findings)
        return [*does, *todo_texts(self.rule, self.wording)], undoes


def explained(
    rule: Rule,
    facts: Facts,
    policy: Policy,
    catalog: Catalog,
    findings: tuple[Finding, ...],
    measured: tuple[str, ...] = (),
    chosen: str = "",
) -> Explained:
    """The rule with what it says of the host of these facts; what that does not settle stays in words."""
    own = tuple(finding for finding in findings if finding.rule == rule.id)
    params = policy.params_of(rule, catalog)
    profiles = tuple(name for name, profile in catalog.profiles.items() if rule.id in profile.rules)
    wording = Wording(params, names_of(rule, facts, params, policy.declared))
    wishes = evaluate(rule, facts, params, policy.declared).wishes
    return Explained(rule, wording, profiles, own, wishes, measured, chosen)


def explain_text(one: Explained, page: Page) -> str:
    """Everything about the rule, for people."""
    rule, told = one.rule, one.told
    does, undoes = one.ways
    head, *rest = wrapped(f"{shown(rule.id)}: {shown(rule.title)}", page.screen.columns, rest="  ")
    name, colon, title = head.partition(":")
    lines = [page.screen.paint(name, "bold") + colon + title, *rest, ""]
    lines += columned(_facts(rule, one.profiles), page.screen)
    lines += _paragraphs("Why", rule.why, page)
    lines += _block("Reasons not to apply", guard_texts(rule, one.wording), page)
    lines += _block("Reads", reads_texts(rule, told), page)
    lines += _block("Wants", few([wish_text(wish) for wish in told if wish.name], many=8), page)
    lines += _block("Looks for", finds_texts(rule, one.wording), page)
    lines += _params(rule, one.wording.params, page)
    lines += _here(one.findings, page)
    lines += ["", *wrapped(shown(one.chosen), page.screen.columns, first="  ", rest="  ")] if one.chosen else []
    lines += _block("Measured", list(one.measured), page)
    lines += _steps("By hand", does, page)
    lines += _steps("Taken back by hand", undoes, page)
    lines += _switches(rule, page)
    lines += _block("Sources", list(rule.sources), page)
    return "\n".join(lines) + "\n"


def explain_json(one: Explained) -> dict[str, Any]:
    """The same as JSON; conditions are those of the rule file."""
    rule, told = one.rule, one.told
    does, undoes = one.ways
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
        "profiles": list(one.profiles),
        "gain": rule.gain,
        "figure": figure_text(rule),
        "why": rule.why,
        "sources": list(rule.sources),
        "applies_when": [{"if": g.condition.source, "else": g.otherwise.source} for g in rule.applies_when],
        "reads": reads_texts(rule, told),
        "wants": [wish_text(wish) for wish in told if wish.name],
        "expects": [expectation.condition.source for expectation in rule.expect],
        "by_hand": {"do": does, "undo": undoes},
        "params": {name: to_json(value) for name, value in one.wording.params.items()},
        "findings": masked(to_json(one.findings)),
        "measured": list(one.measured),
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


def _params(rule: Rule, params: Mapping[str, Any], page: Page) -> list[str]:
    if not rule.params:
        return []
    rows: list[tuple[str, ...]] = []
    for name, param in rule.params.items():
        value = shown(plain(params[name]))
        is_short = len(value) <= SHORT
        rows.append((f"{name} = {value}" if is_short else name, ("" if is_short else f"{value}: ") + param_text(param)))
    title = page.screen.paint("Parameters", "bold") + f" (policy: params: {{{rule.id}: {{NAME: VALUE}}}})"
    return ["", title, *columned(rows, page.screen, indent=2)]


def _here(findings: tuple[Finding, ...], page: Page) -> list[str]:
    """What the rule says here with all evidence: which file and line sets the value now, and which wins at boot."""
    found = sections(ALL, findings, replace(page, is_verbose=True))
    lines = [line for block in found for line in ["", *block_lines(block, page.screen)]]
    for finding in findings:
        for change in finding.changes:
            lines += change_lines(change, page.screen)
    return ["", page.screen.paint(f"On {shown(page.host)}", "bold"), *lines[1:]]


def _switches(rule: Rule, page: Page) -> list[str]:
    rows = [
        (f"in {shown(page.policy)}:", f"ignore: [{rule.id}]"),
        ("for a time, with the reason:", f"ignore: [{{rule: {rule.id}, reason: ..., until: YYYY-MM-DD}}]"),
        ("this time only:", f"--ignore {rule.id}"),
    ]
    if rule.want and page.can_apply:
        rows.append(("and take back what it did:", page.act(f"undo --rule {rule.id} --yes")))
    # Not wrapped: what is copied must be whole.
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


def _steps(title: str, texts: list[str], page: Page) -> list[str]:
    """As a block; what can be copied stands whole on one line, sentences are wrapped."""
    lines = ["", page.screen.paint(title, "bold")] if texts else []
    for text in texts:
        told = shown(text)
        sentence = wrapped(told, page.screen.columns, first="  - ", rest="    ")
        lines += [f"  - {told}"] if isinstance(text, Command) else sentence
    return lines
