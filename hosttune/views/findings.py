"""Findings in sections, worst first: the rule, what is wrong, the evidence, what a person should
do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.regex import regex
from hosttune.values import HoldKind, Verdict
from hosttune.verdict_words import STATES, hold_text
from hosttune.views.change import diff_of
from hosttune.views.checked import group_of, link_of
from hosttune.views.document import Fold, Item, Items, Say, Section
from hosttune.views.record_gaps import gaps_text, missing_answer
from hosttune.views.summary import ASIDE, NEEDS_LEAVE, NOT_SAFE, OWNED, WAITS, is_fault, rules_in
from hosttune.views.terminal import join_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.values import Finding, Plan
    from hosttune.views.checked import About
    from hosttune.views.document import Block
    from hosttune.views.page import Page

LATER = "only the machine that runs these files can show it"
BY_RECORD = " (--hardware RECORD answers for its hardware)"
NOTHING: Mapping[str, About] = {}
LEAST_OF_A_CLAUSE, MOST_OF_A_CLAUSE = 25, 70  # characters of a gain on a line
_GOES_ON = regex(
    r": | \(|, (?:after|also|and|as|before|because|but|in|or|since|so|where|which|while|with)\b"
)
_OPEN = frozenset({Verdict.DIFFERS, Verdict.ADVICE})
FEW = 5  # findings of a report that lists them also if none asks for anything
SHOWN_SUBJECTS = 2  # things of which a finding says the same, on one screen


@frozen
class FindingGroup:
    """The findings under one heading; `state` is a key of STATES."""

    state: str
    holds: Callable[[Finding], bool]

    @property
    def title(self) -> str:
        return STATES[self.state].heading

    @property
    def style(self) -> str:
        return STATES[self.state].style

    @property
    def key(self) -> str:
        """The state as a word of a program: `left-alone`."""
        return self.state.replace(" ", "-")

    def section(self, items: Iterable[Item], count: int, *, is_aligned: bool = False) -> Section:
        """The findings as points of a list; `count` is not shown if it is 0."""
        explain_finding = Items(refer_back(items), is_aligned=is_aligned)
        return Section(
            self.title,
            (explain_finding,),
            self.style,
            str(count) if count else "",
            self.key,
            is_quiet=self in QUIET,
            label=STATES[self.state].label if is_aligned else "",
        )


@frozen
class FindingText:
    """One finding in words, the same in every format: escaped, masked, with commands as they have
    to be typed.
    """

    rule: str
    subject: str
    reason: str  # with the subject, where it does not name it
    evidence: tuple[str, ...]
    why_not: str
    steps: tuple[str, ...]  # what to do


def _is(verdict: Verdict) -> Callable[[Finding], bool]:
    return lambda finding: not finding.hold and finding.verdict is verdict and not is_fault(finding)


def _make_hold_test(*kinds: HoldKind) -> Callable[[Finding], bool]:
    return lambda finding: finding.hold.kind in kinds and not is_fault(finding)


FAULTS = FindingGroup("fault", is_fault)
DIFFERS = FindingGroup("differs", _is(Verdict.DIFFERS))
UNKNOWN = FindingGroup("unknown", _is(Verdict.UNKNOWN))
WAITING = FindingGroup("waits", _make_hold_test(*WAITS))
BLOCKED = FindingGroup("refused", _make_hold_test(*NOT_SAFE))
SKIPPED = FindingGroup("left alone", _make_hold_test(*OWNED, *NEEDS_LEAVE))
ORPHANED = FindingGroup("orphaned", _make_hold_test(HoldKind.ORPHANED))
DEFERRED = FindingGroup("deferred", _make_hold_test(HoldKind.DEFERRED))
ADVICE = FindingGroup("advice", _is(Verdict.ADVICE))
WAIVED = FindingGroup("waived", _make_hold_test(HoldKind.WAIVED))
OK = FindingGroup("ok", _is(Verdict.OK))
NOT_APPLICABLE = FindingGroup("not applicable", _is(Verdict.NOT_APPLICABLE))

HELD = (WAITING, BLOCKED, SKIPPED, ORPHANED, DEFERRED)
WORST_FIRST = (FAULTS, DIFFERS, UNKNOWN, *HELD, ADVICE)
LISTED = (*WORST_FIRST, WAIVED)  # without --verbose; the others are only counted
QUIET = (WAIVED, OK, NOT_APPLICABLE)
ALL = (*WORST_FIRST, *QUIET)
BY_OUTCOME = {group.state: group for group in ALL}  # by what a fleet and a comparison call them


def quiet_groups(plan: Plan) -> tuple[FindingGroup, ...]:
    """What is listed where a few findings are all (--only), and none asks for anything: that has a
    reason.
    """
    groups = (OK, NOT_APPLICABLE)
    is_quiet = all(any(group.holds(finding) for group in groups) for finding in plan.findings)
    return groups if is_quiet and len(plan.findings) <= FEW else ()


def gather_findings(findings: Iterable[Finding], *, most: int = 0) -> list[Finding]:
    """Findings of a rule that say the same of several things as one, whose subject names the
    things: all of them, or so many and the number of the others.
    """
    alike: dict[object, list[Finding]] = {}
    for finding in findings:
        names_it = _names_subject(clean(finding.reason), finding.subject)
        # A reason that names its subject differs from thing to thing, and stays a line of its own.
        alike.setdefault(finding if names_it else replace(finding, subject=""), []).append(finding)
    return [
        replace(own[0], subject=_join_subjects([one.subject for one in own], most))
        for own in alike.values()
    ]


def _join_subjects(subjects: list[str], most: int) -> str:
    # "and 1 more" takes as much room as the name itself.
    named = subjects[:most] if most and len(subjects) > most + 1 else subjects
    return join_words(
        [*named, f"{len(subjects) - len(named)} more"] if len(named) < len(subjects) else named
    )


def explain_finding(finding: Finding, page: Page) -> FindingText:
    """What is wrong with the evidence, why it is not acted on, what a person should do."""
    reason: str = clean(finding.reason)
    if finding.subject and not _names_subject(reason, finding.subject):
        reason = f"{clean(finding.subject)}: {reason}" if reason else clean(finding.subject)
    has_reason_why_not = finding.hold and finding.hold.kind not in {
        HoldKind.ORPHANED,
        HoldKind.DEFERRED,
    }
    return FindingText(
        clean(finding.rule),
        clean(finding.subject),
        reason,
        tuple(clean(line) for line in finding.evidence),
        _why_not(finding) if has_reason_why_not else "",
        page.steps(finding.todo),
    )


def _why_not(finding: Finding) -> str:
    """A reason that the first line gives already is not repeated."""
    hold = finding.hold
    return clean(hold_text(hold.kind.value, "" if hold.detail == finding.reason else hold.detail))


def make_sections(
    groups: Iterable[FindingGroup],
    findings: Iterable[Finding],
    page: Page,
    about: Mapping[str, About] = NOTHING,
) -> list[Section]:
    """A section for each group to which a finding belongs; `about` are the rules, for pages."""
    every = tuple(findings)
    found = [(group, [finding for finding in every if group.holds(finding)]) for group in groups]
    return [_make_section(group, own, page, about) for group, own in found if own]


def _make_section(
    group: FindingGroup, findings: list[Finding], page: Page, about: Mapping[str, About]
) -> Section:
    missing = [one for one in findings if group is UNKNOWN and missing_answer(one.reason, page)]
    if missing:
        return _unknown_section(findings, missing, page, about)
    groups = gather_findings(findings, most=_most_subjects(page))
    section = group.section(_make_items(groups, page, about), rules_in(findings), is_aligned=True)
    if group is DEFERRED and page.is_terse:  # the reason is the same for all
        names = join_words(
            [clean(rule) for rule in dict.fromkeys(finding.rule for finding in findings)]
        )
        more = "" if " --hardware " in page.options else BY_RECORD
        return replace(section, blocks=(Say(f"{names}: {LATER}{more}"),))
    return section


def _unknown_section(
    findings: list[Finding], missing: list[Finding], page: Page, about: Mapping[str, About]
) -> Section:
    """Of a record that lacks answers: one sentence for all `missing` findings, which are listed
    where all is.
    """
    listed = [one for one in findings if page.is_whole or not missing_answer(one.reason, page)]
    items = _make_items(gather_findings(listed, most=_most_subjects(page)), page, about)
    section = UNKNOWN.section(items, rules_in(findings), is_aligned=True)
    rules = () if page.is_whole else [one.rule for one in missing]
    sentence = Say(gaps_text([one.reason for one in missing], rules, page), is_hanging=True)
    return replace(section, blocks=(*(section.blocks if items else ()), sentence))


def _make_items(findings: Iterable[Finding], page: Page, about: Mapping[str, About]) -> list[Item]:
    """The findings as points; what a rule brings is shown at its first one."""
    items, named = [], set()
    for one in findings:
        items.append(_make_item(one, page, about.get(one.rule), has_gain=one.rule not in named))
        named.add(one.rule)
    return items


def _most_subjects(page: Page) -> int:
    return SHOWN_SUBJECTS if page.is_terse else 0


def _make_item(finding: Finding, page: Page, about: About | None, *, has_gain: bool) -> Item:
    """The finding: what is wrong, the evidence, what its rule brings, why it is not acted on, what
    to do. Of a waived one who accepts it and why is enough for one screen.
    """
    one = explain_finding(finding, page)
    if finding.hold.kind is HoldKind.WAIVED and page.is_terse:
        detail = clean(finding.hold.detail)
        return Item(one.rule, f"{one.subject}: {detail}" if one.subject else detail)
    is_open = is_fault(finding) or (finding.verdict in _OPEN and finding.hold.kind not in ASIDE)
    is_instead = (
        about is not None
        and about.is_setting
        and finding.verdict is Verdict.ADVICE
        and not is_fault(finding)
    )
    # The gain is that of the change; beside advice it would promise what the advice does not bring.
    has_gain = has_gain and is_open and not is_instead
    points = (
        [Item("why", first_clause(about.gain), look="label")]
        if about and about.gain and has_gain
        else []
    )
    points += [Item("why not", one.why_not, look="label")] if one.why_not else []
    points += todo_items(one.steps)
    has_more = one.reason or one.evidence or finding.hold
    return Item(
        one.rule,
        one.reason if has_more else STATES[finding.verdict.value].of_one,
        tuple(points),
        look="strong",
        group=clean(group_of(finding.rule)),
        about=clean(about.title) if about else "",
        link=link_of(finding.rule, about) if page.folds else "",
        evidence=one.evidence[: page.evidence],
        folded=_make_folded(finding, about) if page.folds else (),
    )


def first_clause(gain: str) -> str:
    """The first clause of a gain that names one. What is longer than a line ends where a further
    clause begins.
    """
    clauses = clean(" ".join(gain.split())).replace(". ", "; ").split("; ")
    clause: str = next(
        (one for one in clauses if not one.startswith(("none", "nothing"))), clauses[0]
    )
    if len(clause) <= MOST_OF_A_CLAUSE:
        return clause
    heads = (clause[: at.start()] for at in _GOES_ON.finditer(clause, LEAST_OF_A_CLAUSE))
    # Not inside of parentheses: half a pair reads like a text that was cut off.
    return next((head for head in heads if head.count("(") == head.count(")")), clause)


def refer_back(items: Iterable[Item]) -> tuple[Item, ...]:
    """The points with the steps of a way out shown once: a later point that has the same names the
    first one.
    """
    first: dict[tuple[Item, ...], str] = {}
    shown = []
    for item in items:
        steps = tuple(one for one in item.items if one.look == "label" and one.head in {"do", ""})
        # A single step is shorter than the reference to it.
        if len(steps) > 1 and first.setdefault(steps, item.head) != item.head:
            others = tuple(one for one in item.items if one not in steps)
            shown.append(
                replace(item, items=(*others, Item("do", f"as for {first[steps]}", look="label")))
            )
        else:
            shown.append(item)
    return tuple(shown)


def todo_items(steps: tuple[str, ...]) -> tuple[Item, ...]:
    """What to do as points of a list, numbered where there are several steps."""
    if len(steps) < 2:
        return tuple(Item("do", step, look="label") for step in steps)
    return tuple(
        Item("" if at else "do", f"{at + 1}. {step}", look="label") for at, step in enumerate(steps)
    )


def _make_folded(finding: Finding, about: About | None) -> tuple[Block, ...]:
    """What a finding would change, at which risk."""
    risk = f", risk {about.risk}" if about else ""
    title = f"{say_count(len(finding.changes), 'change')}{risk}"
    return (Fold(title, tuple(map(diff_of, finding.changes))),) if finding.changes else ()


def _names_subject(sentence: str, subject: str) -> bool:
    # As a word, not as a part of one: `sda` is not named by `sda1`.
    return clean(subject) in sentence.replace(",", " ").replace(":", " ").split()
