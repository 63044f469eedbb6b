"""Findings in sections, worst first: the rule, what is wrong, the evidence, what a person should do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.values import HoldKind, Verdict
from hosttune.views.page import shown
from hosttune.views.summary import OWNED, WAITS
from hosttune.views.terminal import columned, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hosttune.values import Finding, Hold
    from hosttune.views.page import Page


@frozen
class Section:
    """One group of findings under one heading."""

    title: str
    style: str
    holds: Callable[[Finding], bool]


def _is(verdict: Verdict) -> Callable[[Finding], bool]:
    return lambda finding: not finding.hold and finding.verdict is verdict


def _held(*kinds: HoldKind) -> Callable[[Finding], bool]:
    return lambda finding: finding.hold.kind in kinds


DIFFERS = Section("Differs", "yellow", _is(Verdict.DIFFERS))
UNKNOWN = Section("Unknown", "red", _is(Verdict.UNKNOWN))
WAITING = Section("Waits", "yellow", _held(*WAITS))
LEFT_ALONE = Section(
    "Left alone", "cyan", _held(*OWNED, HoldKind.REFUSED, HoldKind.ABOVE_MAX_RISK, HoldKind.DISTURBS)
)  # fmt: skip
ORPHANED = Section("Left from earlier runs", "cyan", _held(HoldKind.ORPHANED))
ADVICE = Section("Advice", "cyan", _is(Verdict.ADVICE))
WAIVED = Section("Waived by the policy", "dim", _held(HoldKind.WAIVED))
OK = Section("As it should be", "green", _is(Verdict.OK))
NOT_APPLICABLE = Section("Does not apply", "dim", _is(Verdict.NOT_APPLICABLE))

HELD = (WAITING, LEFT_ALONE, ORPHANED)
WORST_FIRST = (DIFFERS, UNKNOWN, *HELD, ADVICE)
QUIET = (WAIVED, OK, NOT_APPLICABLE)
ALL = (*WORST_FIRST, *QUIET)


def sections_lines(sections: Iterable[Section], findings: Iterable[Finding], page: Page) -> list[str]:
    """The sections to which a finding belongs, each with its heading, all aligned alike."""
    found = [(section, [f for f in findings if section.holds(f)]) for section in sections]
    label = max((width_of(shown(f.rule)) for _, own in found for f in own), default=0)
    return [line for section, own in found for line in _section_lines(section, own, label, page)]


def _section_lines(section: Section, findings: list[Finding], label: int, page: Page) -> list[str]:
    if not findings:
        return []
    rows: list[tuple[str, ...]] = []
    last = ""
    for finding in findings:
        first, *rest = _texts(finding, page)
        rows += [(shown(finding.rule) if finding.rule != last else "", first), *(("", text) for text in rest)]
        last = finding.rule
    heading = page.screen.paint(section.title, "bold", section.style)
    number = len({finding.rule for finding in findings})
    return ["", f"{heading} ({number})", *columned(rows, page.screen, indent=2, first=label)]


def _texts(finding: Finding, page: Page) -> Iterator[str]:
    """What is wrong with the evidence (all of it with --verbose), why it is not acted on, what a person should do."""
    reason = shown(finding.reason)
    if finding.subject and not _names(reason, finding.subject):
        reason = f"{shown(finding.subject)}: {reason}" if reason else shown(finding.subject)
    evidence = finding.evidence if page.is_verbose else finding.evidence[:2]
    proof = ", ".join(shown(line) for line in evidence)
    sentence = f"{reason} ({proof})" if reason and proof else reason or proof
    if sentence or not finding.hold:
        yield sentence or str(finding.verdict)
    if finding.hold and finding.hold.kind is not HoldKind.ORPHANED:
        yield f"why not: {_hold(finding.hold)}"
    if finding.todo:
        yield f"do: {page.todo(finding.todo)}"


def _hold(hold: Hold) -> str:
    """The hold as half a sentence; a detail that is a sentence itself stands behind a colon."""
    colon = ":" if hold.detail and hold.kind in {HoldKind.BUSY, HoldKind.REFUSED, HoldKind.EDITED} else ""
    return shown(f"{hold.kind}{colon} {hold.detail}".strip())


def _names(sentence: str, subject: str) -> bool:
    return shown(subject) in sentence.replace(",", " ").replace(":", " ").split()
