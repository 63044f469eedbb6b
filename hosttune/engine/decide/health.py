"""Whether a host may take work now, judged from what the rules found that tell it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.engine.policy.policy import NO_DRAINS
from hosttune.frozen import frozen
from hosttune.values import HoldKind, Level, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.engine.policy.policy import Drains
    from hosttune.values import Finding

# The owner accepted it, or it is of an image and not of a machine, or only a file stays. None of
# these keeps a host from work.
_ACCEPTED = frozenset({HoldKind.WAIVED, HoldKind.DEFERRED, HoldKind.ORPHANED})
_NOBODY = (
    "no rule can judge this host: it is a container or an image, or the policy switches off all "
    "that could"
)


class Fitness(Level):
    """Whether a host may take work, mildest first. What could not be seen is worse than fit, and
    better than a known weakness: that one is certain.
    """

    FIT = "fit"
    UNKNOWN = "unknown"  # something that would tell could not be seen
    IMPAIRED = "impaired"  # it works, but slower, or not for long
    UNFIT = "unfit"  # it does not do its work: drain it


@frozen
class HealthPoint:
    """One thing that keeps a host from being fit."""

    fitness: Fitness
    rule: str
    subject: str
    reason: str
    todo: str = ""

    @property
    def sentence(self) -> str:
        """What it is, with the thing that it is about."""
        return (
            f"{self.subject}: {self.reason}"
            if self.subject and self.subject not in self.reason
            else self.reason
        )


@frozen
class NodeHealth:
    """The worst of its points, which stand worst first; `asked` are the rules that had something to
    look at.
    """

    fitness: Fitness
    points: tuple[HealthPoint, ...]
    asked: tuple[str, ...]

    @property
    def fine(self) -> tuple[str, ...]:
        """The rules that were asked and have no point."""
        reported = {point.rule for point in self.points}
        return tuple(rule for rule in self.asked if rule not in reported)

    def rules(self, fitness: Fitness) -> tuple[str, ...]:
        """The rules whose points make this of the host, each once."""
        return tuple(dict.fromkeys(point.rule for point in self.points if point.fitness is fitness))


def judge(
    findings: Iterable[Finding], drains: Drains = NO_DRAINS, sole: Iterable[str] = ()
) -> NodeHealth:
    """The health that these findings amount to; `sole` are the rules of --only."""
    listed = [one for one in findings if one.hold.kind not in _ACCEPTED]
    points = [
        HealthPoint(fitness, one.rule, one.subject, one.reason, one.todo)
        for one in listed
        if (fitness := _judge_fitness(one, drains)) is not Fitness.FIT
    ]
    points.sort(key=lambda point: (-point.fitness.rank, point.rule, point.subject))
    asked = dict.fromkeys(one.rule for one in listed if one.verdict is not Verdict.NOT_APPLICABLE)
    # A host that no rule could judge is not a healthy one, so an empty list of points must not read
    # as fit.
    if not asked:
        points = [_make_unjudged_point(", ".join(sole))]
    return NodeHealth(points[0].fitness if points else Fitness.FIT, tuple(points), tuple(asked))


def _make_unjudged_point(sole: str) -> HealthPoint:
    if sole:
        why = f"--only {sole} leaves no rule that can judge this host"
        return HealthPoint(Fitness.UNKNOWN, "", "", why, "ask without --only")
    return HealthPoint(Fitness.UNKNOWN, "", "", _NOBODY, "run it on the host itself")


def _judge_fitness(finding: Finding, drains: Drains) -> Fitness:
    if finding.is_fault or finding.impairs:  # both: it does its work until the next boot
        is_dead = finding.is_fault and not finding.impairs
        is_unfit = (
            finding.rule not in drains.no_drain_for if is_dead else finding.rule in drains.drain_for
        )
        return Fitness.UNFIT if is_unfit else Fitness.IMPAIRED
    return Fitness.UNKNOWN if finding.verdict is Verdict.UNKNOWN else Fitness.FIT
