"""Findings in sections, worst first: the rule, what is wrong, the evidence, what a person should do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.values import HoldKind, Verdict
from hosttune.views.page import shown
from hosttune.views.summary import OWNED, WAITS, is_fault, rules_in
from hosttune.views.terminal import columned, listed, width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hosttune.values import Finding, Hold
    from hosttune.views.page import Page

LATER = "only the machine that runs these files can tell (--hardware RECORD answers for its hardware)"
SHOWN_EVIDENCE = 2  # lines of a finding's evidence without --verbose


@frozen
class Section:
    """One group of findings under one heading."""

    title: str
    style: str
    holds: Callable[[Finding], bool]

    @property
    def key(self) -> str:
        """The title as a word of a program: `left-alone`."""
        return self.title.lower().replace(" ", "-")


@frozen
class Told:
    """One finding in words, the same in every format: escaped, masked, with commands as they have to be typed."""

    rule: str
    subject: str
    reason: str  # with the subject, where it does not name it
    evidence: tuple[str, ...]
    why_not: str
    todo: str

    def sentence(self, most: int | None = None) -> str:
        """The reason and at most so many lines of the evidence."""
        proof = ", ".join(self.evidence[:most])
        return f"{self.reason} ({proof})" if self.reason and proof else self.reason or proof


def _is(verdict: Verdict) -> Callable[[Finding], bool]:
    return lambda finding: not finding.hold and finding.verdict is verdict and not is_fault(finding)


def _held(*kinds: HoldKind) -> Callable[[Finding], bool]:
    return lambda finding: finding.hold.kind in kinds and not is_fault(finding)


FAULTS = Section("Faults", "red", is_fault)
DIFFERS = Section("Differs", "yellow", _is(Verdict.DIFFERS))
UNKNOWN = Section("Unknown", "red", _is(Verdict.UNKNOWN))
WAITING = Section("Waits", "yellow", _held(*WAITS))
LEFT_ALONE = Section(
    "Left alone", "cyan", _held(*OWNED, HoldKind.REFUSED, HoldKind.ABOVE_MAX_RISK, HoldKind.DISTURBS)
)  # fmt: skip
ORPHANED = Section("Left from earlier runs", "cyan", _held(HoldKind.ORPHANED))
DEFERRED = Section("Deferred", "dim", _held(HoldKind.DEFERRED))
ADVICE = Section("Advice", "cyan", _is(Verdict.ADVICE))
WAIVED = Section("Waived by the policy", "dim", _held(HoldKind.WAIVED))
OK = Section("As it should be", "green", _is(Verdict.OK))
NOT_APPLICABLE = Section("Does not apply", "dim", _is(Verdict.NOT_APPLICABLE))

HELD = (WAITING, LEFT_ALONE, ORPHANED, DEFERRED)
WORST_FIRST = (FAULTS, DIFFERS, UNKNOWN, *HELD, ADVICE)
LISTED = (*WORST_FIRST, WAIVED)  # without --verbose; the others are only counted
QUIET = (WAIVED, OK, NOT_APPLICABLE)
ALL = (*WORST_FIRST, *QUIET)


def grouped(sections: Iterable[Section], findings: Iterable[Finding]) -> list[tuple[Section, list[Finding]]]:
    """The sections to which a finding belongs, with their findings."""
    listed = tuple(findings)
    found = [(section, [finding for finding in listed if section.holds(finding)]) for section in sections]
    return [(section, own) for section, own in found if own]


def told(finding: Finding, page: Page) -> Told:
    """What is wrong with the evidence, why it is not acted on, what a person should do."""
    reason = shown(finding.reason)
    if finding.subject and not _names(reason, finding.subject):
        reason = f"{shown(finding.subject)}: {reason}" if reason else shown(finding.subject)
    has_reason_why_not = finding.hold and finding.hold.kind not in {HoldKind.ORPHANED, HoldKind.DEFERRED}
    return Told(
        shown(finding.rule),
        shown(finding.subject),
        reason,
        tuple(shown(line) for line in finding.evidence),
        _hold(finding.hold) if has_reason_why_not else "",
        page.todo(finding.todo) if finding.todo else "",
    )


def sections_lines(sections: Iterable[Section], findings: Iterable[Finding], page: Page) -> list[str]:
    """The sections to which a finding belongs, each with its heading, all aligned alike."""
    found = grouped(sections, findings)
    label = max((width_of(shown(f.rule)) for _, own in found for f in own), default=0)
    return [line for section, own in found for line in _section_lines(section, own, label, page)]


def _section_lines(section: Section, findings: list[Finding], label: int, page: Page) -> list[str]:
    heading = [f"{page.screen.paint(section.title, 'bold', section.style)} ({rules_in(findings)})"]
    if section is DEFERRED and not page.is_verbose:  # the reason is the same for all
        names = listed([shown(rule) for rule in dict.fromkeys(finding.rule for finding in findings)])
        return ["", *heading, *wrapped(f"{names}: {LATER}", page.screen.columns, first="  ", rest="  ")]
    rows: list[tuple[str, ...]] = []
    last = ""
    for finding in findings:
        first, *rest = _texts(finding, page)
        rows += [(shown(finding.rule) if finding.rule != last else "", first), *(("", text) for text in rest)]
        last = finding.rule
    return ["", *heading, *columned(rows, page.screen, indent=2, first=label)]


def _texts(finding: Finding, page: Page) -> Iterator[str]:
    """The finding line by line, of a waived one who accepts it and why; all of the evidence with --verbose."""
    one = told(finding, page)
    if finding.hold.kind is HoldKind.WAIVED and not page.is_verbose:
        yield f"{one.subject}: {shown(finding.hold.detail)}" if one.subject else shown(finding.hold.detail)
        return
    sentence = one.sentence(None if page.is_verbose else SHOWN_EVIDENCE)
    if sentence or not finding.hold:
        yield sentence or str(finding.verdict)
    if one.why_not:
        yield f"why not: {one.why_not}"
    if one.todo:
        yield f"do: {one.todo}"


def _hold(hold: Hold) -> str:
    """The hold as half a sentence; a detail that is a sentence itself stands behind a colon."""
    colon = ":" if hold.detail and hold.kind in {HoldKind.BUSY, HoldKind.REFUSED, HoldKind.EDITED} else ""
    return shown(f"{hold.kind}{colon} {hold.detail}".strip())


def _names(sentence: str, subject: str) -> bool:
    return shown(subject) in sentence.replace(",", " ").replace(":", " ").split()
