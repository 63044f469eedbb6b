"""Waivers: findings that an administrator accepts, with the reason, for a time or for good."""

from __future__ import annotations

from dataclasses import replace

from hosttune.facts.globs import fits_glob
from hosttune.frozen import frozen
from hosttune.values import Finding, Hold, HoldKind, Verdict

MOST = 1000  # of a policy: each is held against each finding of its rule
MOST_PATTERNS = 256
_WILD = frozenset("*?[")


@frozen
class Waiver:
    """A rule, or of a rule the subjects of a pattern, that is looked at and not acted on.

    It holds up to and including the day `until` (ISO date), for good where that is empty.
    """

    rule: str
    reason: str
    subject: str = ""
    owner: str = ""
    until: str = ""

    def covers(self, rule: str, subject: str) -> bool:
        """Whether it speaks of this subject; one that names a subject says nothing about the rule
        as a whole.
        """
        if self.rule != rule or not self.subject:
            return self.rule == rule
        return fits_glob(subject, self.subject) if self.is_pattern else subject == self.subject

    @property
    def is_pattern(self) -> bool:
        return not _WILD.isdisjoint(self.subject)

    def is_over(self, today: str) -> bool:
        # ISO dates compare as text, and the last day still counts.
        return bool(self.until) and self.until < today

    @property
    def detail(self) -> str:
        """`until 2030-01-31 by the storage team: moves with the next rack`."""
        words = [f"until {self.until}"] if self.until else []
        words += [f"by {self.owner}"] if self.owner else []
        return f"{' '.join(words)}: {self.reason}" if words else f"because {self.reason}"


def waive(finding: Finding, waivers: tuple[Waiver, ...], today: str) -> Finding:
    """The finding held where a waiver in force covers it; where that has expired, the finding says
    so and counts.
    """
    # An unknown cannot be accepted, because no one has seen what would be waived.
    if finding.verdict not in {Verdict.DIFFERS, Verdict.ADVICE}:
        return finding
    own = [waiver for waiver in waivers if waiver.covers(finding.rule, finding.subject)]
    for waiver in own:
        if not waiver.is_over(today):
            return replace(finding, hold=Hold(HoldKind.WAIVED, waiver.detail), changes=(), todo="")
    if own:
        last = max(own, key=lambda waiver: waiver.until)
        who = f" of {last.owner}" if last.owner else ""
        note = f"the waiver{who} expired on {last.until}: {last.reason}"
        return replace(finding, evidence=(note, *finding.evidence), is_waiver_over=True)
    return finding
