"""One rule explained: why, what it may cost, what it says here, how to do it by hand, how to switch
it off.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION, to_json
from hosttune.engine.decide.evaluate import evaluate, names_of
from hosttune.facts.own_tables import FOLDER, read_own_table
from hosttune.frozen import frozen
from hosttune.host.masking.cleaned import clean
from hosttune.resources.steps import CommandLine
from hosttune.textfiles import rule_page
from hosttune.values import Verdict
from hosttune.views.change import diff_of
from hosttune.views.document import Document, Heading, Item, Items, Say, Section, render_documents
from hosttune.views.findings import ALL, WORST_FIRST, make_sections, todo_items
from hosttune.views.masking import mask_data
from hosttune.views.record_gaps import shorten_missing
from hosttune.views.rule_words import (
    describe_wishes,
    figure_text,
    find_ways,
    format_plain,
    guard_texts,
    param_text,
    reads_texts,
    risk_text,
    standing_text,
    todo_texts,
    ways_of,
    wish_text,
    wish_words,
)
from hosttune.views.terminal import align_columns
from hosttune.views.wording import OF_HOST, Wording

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.engine.rules.rule import Rule
    from hosttune.facts import Facts
    from hosttune.resources.base import Wish
    from hosttune.values import Finding
    from hosttune.views.by_hand import Ways
    from hosttune.views.document import Block
    from hosttune.views.page import Page

SHORT = 24  # characters of a value that still is beside its name
WANTED = 8  # wishes that a screen lists
# a wish of which only advice is left makes nothing
_NOT_WANTED = frozenset({Verdict.NOT_APPLICABLE, Verdict.ADVICE})
_SETTLED = frozenset({Verdict.OK, Verdict.DIFFERS, Verdict.ADVICE})


@frozen
class Explained:
    """A rule, and what it says of a host: `wishes` are empty where it does not apply, `findings`
    where no host is.
    """

    rule: Rule
    wording: Wording
    profiles: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    wishes: tuple[Wish, ...] = ()
    chosen: str = ""  # which profile, policy file and sections are in force
    has_policy: bool = False  # a file decides that
    page: str = ""  # the URL of the page about it

    @property
    def described(self) -> tuple[Wish, ...]:
        return describe_wishes(self.rule, self.wording, self.wishes)

    @property
    def why_in_general(self) -> str:
        """Why nothing of this host is in the texts, as a sentence; empty where it does, or where no
        host is.
        """
        if self.wording.names is not None or not self.findings:
            return ""
        reasons = "; ".join(dict.fromkeys(one.reason for one in self.findings if one.reason))
        known = all(one.verdict in _NOT_WANTED for one in self.findings)
        return f"not on this host: {reasons}" if known else f"not known for this host: {reasons}"

    @property
    def ways(self) -> Ways:
        """How to do it by hand, and how to take it back."""
        does, undoes = ways_of(self.described, self.findings)
        return [*does, *todo_texts(self.rule, self.wording, self.findings)], undoes


def explain_rule(
    rule: Rule,
    facts: Facts,
    policy: Policy,
    catalog: Catalog,
    findings: tuple[Finding, ...],
    chosen: str = "",
) -> Explained:
    """The rule with what it says of the host of these facts; what that does not settle stays in
    words, and so does all of a rule that does not apply: no choice was made for it, and what its
    expressions give then (0, an empty text, the value of another machine) is no advice.
    """
    own = tuple(finding for finding in findings if finding.rule == rule.id)
    params = policy.params_of(rule, catalog)
    judged = evaluate(rule, facts, params, policy.declared)
    idle = {one.subject for one in own if one.verdict in _NOT_WANTED}
    idle -= {one.subject for one in own if one.verdict not in _NOT_WANTED}
    wishes = tuple(wish for wish in judged.wishes if wish.subject not in idle)
    settled = _SETTLED - _NOT_WANTED if rule.want else _SETTLED
    is_settled = bool(wishes) or any(one.verdict in settled for one in own)
    wording = Wording(
        params, names_of(rule, facts, params, policy.declared) if is_settled else None
    )
    page = rule_page(rule.id) if rule.is_builtin else ""
    return Explained(
        rule, wording, profiles_of(rule, catalog), own, wishes, chosen, bool(policy.source), page
    )


def profiles_of(rule: Rule, catalog: Catalog) -> tuple[str, ...]:
    """The profiles that the rule is part of."""
    return tuple(name for name, profile in catalog.profiles.items() if rule.id in profile.rules)


_KINDS_OF_HOST = ("not host.is_container", "not host.is_wsl", "not host.is_image")
_MORE = "More of why, ways out, undoing by hand, parameters and sources: --verbose."


def explain_report(one: Explained, page: Page) -> str:
    """Everything about the rule, in the medium of the page."""
    return render_documents("hosttune explain", [explain_outline(one, page)], page)


def explain_outline(one: Explained, page: Page) -> Document:
    """The rule, and what it says of the host if there is one; the conditions where there is room
    for them.
    """
    rule, wishes = one.rule, one.described
    does, undoes = ways_of(wishes, one.findings)
    loop = Say("For each:", code=clean(rule.for_each.source)) if rule.for_each else None
    is_terse = page.is_terse
    reasons = tuple(_split_paragraphs(rule.why))
    details = (
        loop,
        _list("Reads", _make_points(reads_texts(rule, wishes))),
        _list("Wants", _list_wants(wishes, page)),
        _list("Looks for", _list_finds(one)),
        _make_params(one),
    )
    blocks = (
        *(_describe_here(one, page) if one.findings else ()),
        _list_facts(one, is_terse=is_terse),
        Section("Why", reasons[:1] if is_terse else reasons, is_prose=True),
        None if is_terse else _list("Reasons not to apply", _list_guards(one)),
        *(() if is_terse else details),
        _list("By hand, as root", _make_points(does), one.why_in_general.partition(":")[0]),
        None if is_terse else _list("Undone by hand, as root", _make_points(undoes)),
        Section("Switch it off", tuple(_list_switches(rule, page))) if one.findings else None,
        Say(_MORE) if is_terse else _list("Sources", _make_points(map(_add_dates, rule.sources))),
        Say("Page of this rule:", code=one.page, link=one.page) if one.page else None,
    )
    name = clean(rule.id)
    head = Say(clean(rule.title), name=name, is_hanging=True)
    return Document(name, name, (head,), tuple(block for block in blocks if block))


def differing_text(findings: Iterable[Finding], titles: Mapping[str, str], page: Page) -> str:
    """The rules that say something of this host, by the groups of a check, with their titles."""
    every = tuple(findings)
    rows: list[tuple[str, ...]] = [
        (clean(rule), group.title, clean(titles.get(rule, "")))
        for group in WORST_FIRST
        for rule in dict.fromkeys(one.rule for one in every if group.holds(one))
    ]
    if not rows:
        return "No rule differs here.\n"
    lines = align_columns(rows, page.screen)
    return "\n".join([*lines, "", f"Explain one: {page.todo('hosttune explain')} RULE"]) + "\n"


def explain_json(one: Explained) -> dict[str, Any]:
    """The same as JSON; conditions are those of the rule file. Secrets are masked: the way by hand
    quotes values of the host, too.
    """
    rule, wishes = one.rule, one.described
    does, undoes = one.ways
    body: dict[str, Any] = mask_data(
        {
            "format_version": FORMAT_VERSION,
            "id": rule.id,
            "title": rule.title,
            "status": rule.status.value,
            "replaced_by": rule.replaced_by,
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
            "applies_when": [
                {"if": g.condition.source, "else": g.otherwise.source} for g in rule.applies_when
            ],
            "reads": reads_texts(rule, wishes),
            "wants": [wish_text(wish) for wish in wishes if wish.name],
            "expects": [expectation.condition.source for expectation in rule.expect],
            "by_hand": {"do": does, "undo": undoes, "in_general": one.why_in_general},
            "params": {name: to_json(value) for name, value in one.wording.params.items()},
            "findings": to_json(one.findings),
        }
    )
    return body


def _add_dates(source: str) -> str:
    """A source; with its dates if it is one of hosttune's own tables."""
    name = re.match(rf"hosttune/{FOLDER}/([\w-]+)\.tsv", source)
    table = read_own_table(name[1]) if name else None
    return f"{source} (as of {table.as_of}, good until {table.good_until})" if table else source


def _list_facts(one: Explained, *, is_terse: bool) -> Items:
    rule, profiles = one.rule, one.profiles
    guards = zip(guard_texts(rule, one.wording), rule.applies_when, strict=True) if is_terse else ()
    # where a host is of such a kind, or this is why the rule does not apply, the first line says so
    above = {OF_HOST, *(finding.reason for finding in one.findings)}
    not_if = "; ".join(
        clean(text)
        for text, guard in guards
        if text not in above and not guard.condition.source.startswith(_KINDS_OF_HOST)
    )
    origin = "" if rule.is_builtin else f", from {clean(rule.where.path)}"
    has_standing = bool(origin) or rule.status.value != "stable" or not is_terse
    items = (
        Item(
            "gain",
            clean(" ".join(rule.gain.split())),
            evidence=() if is_terse else (figure_text(rule),),
        ),
        Item("risk", risk_text(rule)),
        *((Item("not if", not_if),) if not_if else ()),
        *((Item("status", standing_text(rule) + origin),) if has_standing else ()),
        *(
            ()
            if is_terse
            else (
                Item("profiles", ", ".join(profiles) or "none; it runs where a policy selects it"),
            )
        ),
    )
    return Items(items, is_aligned=True)


def _split_paragraphs(text: str) -> Iterator[Block]:
    """The paragraphs of a text, and its lists: lines that begin with `- `."""
    for paragraph in text.strip().split("\n\n"):
        first, *points = (" ".join(piece.split()) for piece in f"\n{paragraph}".split("\n- "))
        yield from [Say(clean(first))] if first else []
        yield from [Items(tuple(_make_points(points)), has_bullets=True)] if points else []


def _make_points(texts: Iterable[str]) -> Iterator[Item]:
    """Points of a list; what can be copied is whole, as code."""
    for text in texts:
        yield (
            Item(clean(text), look="code")
            if isinstance(text, CommandLine)
            else Item(text=clean(text))
        )


def _list(title: str, items: Iterable[Item], lead: str = "") -> Section | None:
    points = tuple(items)
    first = (Say(f"{clean(lead)}; where it applies:", is_hanging=True),) if lead else ()
    return Section(title, (*first, Items(points, has_bullets=True))) if points else None


def _list_finds(one: Explained) -> Iterator[Item]:
    """Each finding of the rule with its own way out: in one list with the change, steps of one
    would be taken for more of the other.
    """
    for text, steps in find_ways(one.rule, one.wording, one.findings):
        yield Item(text=clean(text), items=todo_items(tuple(map(clean, steps))))


def _list_guards(one: Explained) -> Iterator[Item]:
    for text, guard in zip(guard_texts(one.rule, one.wording), one.rule.applies_when, strict=True):
        yield Item(text=clean(text), evidence=(f"unless `{clean(guard.condition.source)}`",))


def _list_wants(wishes: tuple[Wish, ...], page: Page) -> list[Item]:
    words = [wish_words(wish) for wish in wishes if wish.name]
    most = WANTED if page.is_terse else len(words)
    more = [Item(text=f"and {len(words) - most} more of this kind")] if len(words) > most else []
    return [*(Item(clean(name), clean(text), look="code") for name, text in words[:most]), *more]


def _make_params(one: Explained) -> Section | None:
    """The parameters; those of a host with the values in force there."""
    items, here = [], bool(one.findings)
    for name, param in one.rule.params.items():
        value = clean(format_plain(one.wording.params[name]))
        is_short = len(value) <= SHORT
        head = f"{name} = {value}" if here and is_short else name
        items.append(
            Item(
                head,
                ("" if is_short or not here else f"{value}: ") + clean(param_text(param)),
                look="code",
            )
        )
    how = (
        (Say("in the policy:", code=f"params: {{{clean(one.rule.id)}: {{NAME: VALUE}}}}"),)
        if here
        else ()
    )
    return Section("Parameters", (Items(tuple(items), is_aligned=True), *how)) if items else None


def _describe_here(one: Explained, page: Page) -> Iterator[Block]:
    """What the rule says here with all evidence: which file and line sets the value now, and which
    wins at boot.
    """
    yield Heading(f"On {clean(page.host)}")
    for group in ALL:
        held = [finding for finding in one.findings if group.holds(finding)]
        own = (
            held
            if page.is_whole
            else [replace(finding, reason=shorten_missing(finding.reason)) for finding in held]
        )
        changes = (
            [] if page.folds else [diff_of(change) for finding in own for change in finding.changes]
        )
        for section in make_sections((group,), own, replace(page, is_verbose=True)):
            yield replace(section, blocks=(*section.blocks, *changes))
    if one.chosen and (one.has_policy or not page.is_terse):
        yield Say(page.todo(one.chosen), is_hanging=True)


def _list_switches(rule: Rule, page: Page) -> Iterator[Say]:
    name = clean(rule.id)
    yield Say(f"in {clean(page.policy)}:", code=f"ignore: [{name}]")
    if not page.is_terse:
        yield Say(
            "for a time, with the reason:",
            code=f"ignore: [{{rule: {name}, reason: ..., until: YYYY-MM-DD}}]",
        )
    yield Say("this time only:", code=f"--ignore {name}")
    if rule.want and page.can_apply:
        yield Say("and undo what it did:", code=page.act(f"undo --rule {name} --yes"))
