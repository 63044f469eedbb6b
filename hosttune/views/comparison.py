"""Two checks compared: only what a rule knows, ranked by what it costs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import Finding, HoldKind, Risk, Verdict
from hosttune.views.summary import find_worst, name_standing

if TYPE_CHECKING:
    from hosttune.views.checked import About

# What a difference costs, the dearest first: an unknown may turn out to be nothing.
_COSTS = (
    "fault",
    "differs",
    "advice",
    "unknown",
    "deferred",
    "orphaned",
    "waived",
    "ok",
    "not applicable",
)
_LOUD = frozenset({"fault", "differs", "advice", "unknown"})
_SETS = (HoldKind.OWNED, HoldKind.EDITED, HoldKind.REVERTED)
_PLACE = regex(
    r"(/(?:boot|etc|lib|run|usr|var/lib)/[^\s,;:()'\"]+)(?::([0-9]+)\b| line ([0-9]+)\b)?"
)


class DifferenceKind(str, Enum):
    """How a rule tells two checks apart."""

    VERDICT = "verdict"
    VALUE = "value"  # the same verdict, but another reason, evidence or owner
    APPLIES = "applies on one only"
    SELECTED = "selected on one only"


@frozen
class Written:
    """A file that sets a value: who writes it, and when that was done last (`2026-11-21 15:04`,
    UTC); each empty where it is not known.
    """

    by: str = ""
    at: str = ""

    def __str__(self) -> str:
        return ", ".join(
            [*([f"{self.at} UTC"] if self.at else []), *([f"by {self.by}"] if self.by else [])]
        )


@frozen
class Side:
    """One check: of a record, of a saved document, or of this host. `files` are those that its
    findings name; a saved document tells nothing of them.
    """

    host: str
    machine: str
    created_at: str
    tool_version: str
    policy_digest: str
    findings: tuple[Finding, ...]
    files: Mapping[str, Written] = field(default_factory=dict)
    record: str = ""  # the file that --host takes, where it is one


@frozen
class Difference:
    """What one rule says of one subject on both sides; None where it says nothing."""

    rule: str
    subject: str
    kind: DifferenceKind
    a: Finding | None
    b: Finding | None
    risk: Risk | None = None  # None: this version has no such rule
    gain: str = ""

    @property
    def cost(self) -> str:
        """The worse standing of the two sides."""
        return min((name_standing(one) for one in (self.a, self.b) if one), key=_COSTS.index)

    @property
    def is_one_sided(self) -> bool:
        """Whether the other side has nothing to compare it with."""
        return self.kind in {DifferenceKind.APPLIES, DifferenceKind.SELECTED}

    @property
    def is_quiet(self) -> bool:
        """Whether it is only of one side, and nothing to act on there."""
        return self.is_one_sided and self.cost not in _LOUD

    @property
    def is_of_a(self) -> bool:
        """Of a one-sided difference: whether the rule applies to the first side."""
        return self.a is not None and self.a.verdict is not Verdict.NOT_APPLICABLE


@frozen
class CheckComparison:
    """Two checks, and in what they differ, the dearest difference first."""

    a: Side
    b: Side
    differences: tuple[Difference, ...]
    alike: int  # rules that say the same of both
    # rules that tell nothing apart, and of which something is unknown on both
    unknown: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before a difference is blamed on a host."""
        a, b = self.a, self.b
        notes = []
        if a.machine and b.machine:
            notes.append("The same machine." if a.machine == b.machine else "Two machines.")
        if a.policy_digest != b.policy_digest:
            notes.append("Their policies differ.")
        if a.tool_version != b.tool_version:
            notes.append(
                f"Made by hosttune {a.tool_version} and {b.tool_version}: rules may have changed "
                "in between."
            )
        return tuple(notes)


def compare(a: Side, b: Side, about: Mapping[str, About]) -> CheckComparison:
    """Compare two checks; `about` are the rules that this version knows."""
    of_a, of_b = _by_rule(a), _by_rule(b)
    differences: list[Difference] = []
    alike, unknown = 0, []
    for rule in sorted({*of_a, *of_b}):
        found = _of_rule(rule, of_a.get(rule, ()), of_b.get(rule, ()))
        every = (*of_a.get(rule, ()), *of_b.get(rule, ()))
        if not found and any(one.verdict is Verdict.UNKNOWN for one in every):
            unknown.append(rule)  # two hosts of which no one knows it are not alike in it
        else:
            alike += not found
        known = about.get(rule)
        differences += [
            Difference(
                rule,
                subject,
                kind,
                one,
                other,
                known.risk if known else None,
                known.gain if known else "",
            )
            for subject, kind, one, other in found
        ]
    return CheckComparison(
        a, b, tuple(sorted(differences, key=_rank_difference)), alike, tuple(unknown)
    )


def set_by(finding: Finding) -> tuple[str, ...]:
    """Who set the value, where the finding tells: its owner, the files (with the line) that its
    evidence names.
    """
    owners = [finding.hold.detail] if finding.hold.kind in _SETS and finding.hold.detail else []
    places = [
        f"{path}:{line}" if line else path
        for text in finding.evidence
        for path, line in _find_places(text)
    ]
    return tuple(dict.fromkeys([*owners, *places]))


def files_of(finding: Finding) -> tuple[str, ...]:
    """The files that the finding names, as what sets the value or owns it."""
    texts = (*finding.evidence, *([finding.hold.detail] if finding.hold.kind in _SETS else []))
    return tuple(dict.fromkeys(path for text in texts for path, _ in _find_places(text)))


def _find_places(text: str) -> list[tuple[str, str]]:
    """The paths in a text, each with its line or nothing."""
    return [(match[1].rstrip("."), match[2] or match[3] or "") for match in _PLACE.finditer(text)]


def _by_rule(side: Side) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in side.findings:
        found.setdefault(finding.rule, []).append(finding)
    return found


def _of_rule(
    rule: str, a: Sequence[Finding], b: Sequence[Finding]
) -> list[tuple[str, DifferenceKind, Finding | None, Finding | None]]:
    """The differences of one rule: as a whole where one side lacks it, else subject by subject."""
    del rule
    if not a or not b:
        return [
            (
                "",
                DifferenceKind.SELECTED,
                find_worst(a) if a else None,
                find_worst(b) if b else None,
            )
        ]
    applies = [
        any(finding.verdict is not Verdict.NOT_APPLICABLE for finding in side) for side in (a, b)
    ]
    if not any(applies):
        return []
    if not all(applies):
        return [("", DifferenceKind.APPLIES, find_worst(a), find_worst(b))]
    one, other = ({finding.subject: finding for finding in side} for side in (a, b))
    found: list[tuple[str, DifferenceKind, Finding | None, Finding | None]] = []
    for subject in dict.fromkeys([*one, *other]):
        left, right = one.get(subject), other.get(subject)
        if left is None or right is None:
            found.append((subject, DifferenceKind.APPLIES, left, right))
        elif name_standing(left) != name_standing(right):
            found.append((subject, DifferenceKind.VERDICT, left, right))
        elif _make_key(left) != _make_key(right):
            found.append((subject, DifferenceKind.VALUE, left, right))
    return found


def _make_key(finding: Finding) -> tuple[object, ...]:
    """What a rule says of a subject, without what passes by itself (who computes there just
    now).
    """
    owner = finding.hold if finding.hold.kind in _SETS else None
    return finding.reason, finding.evidence, owner


def _rank_difference(difference: Difference) -> tuple[object, ...]:
    """Differences between the hosts first, then what only one of them has; the dearest, then the
    riskiest first.
    """
    risk = difference.risk.rank if difference.risk else -1
    return (
        difference.is_one_sided,
        _COSTS.index(difference.cost),
        -risk,
        difference.rule,
        difference.subject,
    )
