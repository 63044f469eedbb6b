"""What was learned of a healthy host, as a side of `hosttune diff`: its parts and counters in place
of rules. Pure.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from hosttune.facts.baseline import find_growths, less_than
from hosttune.facts.counted import Part
from hosttune.frozen import frozen
from hosttune.values import Finding, Verdict
from hosttune.views.comparison import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.facts.baseline import Learned

RULE = "host-baseline"  # which says the same of the host alone


@frozen
class LearnedState:
    """A host as it was once. `unseen`: the kinds of parts of which nothing is known, each with the
    reason.
    """

    learned: Learned
    unseen: Mapping[str, str]


def make_sides(a: LearnedState, b: LearnedState, times: float) -> tuple[Side, Side]:
    """Two states as two checks of one rule. What the later has less of is advice, and so is a
    counter that grew more than `times` as fast as before.
    """
    # Less is judged forwards in time, in whichever order the two were named.
    then, now = (a, b) if a.learned.learned_at <= b.learned.learned_at else (b, a)
    pairs = (*_of_parts(then, now), *_of_counters(then.learned, now.learned, times))
    before = _make_side(then.learned, (one for one, _ in pairs))
    after = _make_side(now.learned, (other for _, other in pairs))
    return (before, after) if then is a else (after, before)


def _of_parts(
    then: LearnedState, now: LearnedState
) -> Iterator[tuple[Finding | None, Finding | None]]:
    had = {(part.kind, part.name): part for part in then.learned.parts}
    has = {(part.kind, part.name): part for part in now.learned.parts}
    for kind, name in dict.fromkeys([*had, *has]):
        part, today = (parts.get((kind, name), Part(kind, name, 0)) for parts in (had, has))
        before = _make_fine(name, _describe_amount(part, today)) if part.amount else None
        # What was not looked at today is not lost.
        if kind in now.unseen:
            yield before, Finding(RULE, name, Verdict.UNKNOWN, reason=now.unseen[kind])
        elif less := less_than(part, today):
            yield before, _make_advice(name, less)
        else:
            yield before, _make_fine(name, _describe_amount(today, part))


def _of_counters(then: Learned, now: Learned, times: float) -> Iterator[tuple[Finding, Finding]]:
    for one in find_growths(then, now):
        same = _make_fine(one.name, "as it was")
        if one.is_faster(times):
            yield same, _make_advice(one.name, one.sentence)
        else:
            yield (
                same,
                _make_fine(one.name, one.sentence.removeprefix(f"{one.name}: "))
                if one.grown
                else same,
            )


def _make_fine(name: str, text: str) -> Finding:
    return Finding(RULE, name, Verdict.OK, evidence=(text,))


def _make_advice(name: str, sentence: str) -> Finding:
    return Finding(RULE, name, Verdict.ADVICE, reason=sentence.removeprefix(f"{name}: "))


def _describe_amount(part: Part, other: Part) -> str:
    """How much it is, with the things that the other side does not have."""
    alone = [thing for thing in part.things if other.amount and thing not in other.things]
    return f"{part.amount:g}" + (f" (only here: {', '.join(alone)})" if alone else "")


def _make_side(learned: Learned, findings: Iterable[Finding | None]) -> Side:
    when = datetime.fromtimestamp(learned.learned_at, timezone.utc).isoformat(timespec="seconds")
    return Side(
        learned.name, learned.machine, when, learned.tool_version, "", tuple(filter(None, findings))
    )
