"""What pairs of times say: the median of their ratios, its interval, and one of three answers. Pure.

A chunk of work is timed under A, B and A' (A once more) in random order, so that a burst of foreign load hits all
arms alike. B/A is the effect; A'/A is the control and shows what this host makes of no difference at all. Looks are
fixed (20, 40, 80, 160 pairs) and a run ends early only when it is precise, never because an answer pleases.

A true difference is asserted only beyond a margin of 1 %: without it, tests on identical arms raised 1-9 % false
alarms, with it 0-2.3 % (resampled from real times of identical arms).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum
from typing import Final

from hosttune.frozen import frozen

MARGIN: Final = 0.01
PRECISE: Final = 0.01  # the half-width, relative to the estimate, at which a run may end early
LOOKS: Final = (20, 40, 80, 160)
RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95


class Answer(Enum):
    """The only three things that a comparison can say."""

    DIFFERS = "differs"
    SAME = "no larger difference"
    INCONCLUSIVE = "inconclusive"


@frozen
class Interval:
    """An estimated ratio (1.0 is no difference) and the ends of its 95 % interval."""

    estimate: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval, as a share of the estimate."""
        return (self.high - self.low) / 2 / self.estimate

    @property
    def has_one(self) -> bool:
        return self.low <= 1.0 <= self.high

    @property
    def reach(self) -> float:
        """The largest difference from 1 that the interval holds."""
        return max(abs(self.low - 1.0), abs(self.high - 1.0))


@frozen
class Judgement:
    """An answer with all that it rests on."""

    answer: Answer
    effect: Interval  # B/A
    control: Interval  # A'/A
    pairs: int
    noise_floor: float  # the smallest difference, as a share, that this run could have told from none
    reason: str  # why it is inconclusive; "" otherwise

    @property
    def is_precise(self) -> bool:
        """Nothing is to be gained by more pairs: both intervals are narrow, and the control sees no difference."""
        return max(self.effect.half_width, self.control.half_width) <= PRECISE and self.control.has_one


def median(ordered: Sequence[float]) -> float:
    """The median of numbers that are in order."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def median_interval(values: Sequence[float], seed: int, resamples: int = RESAMPLES) -> Interval:
    """The median and its percentile bootstrap interval. `values` holds at least one positive number.

    To resample n values is to draw n uniform numbers and take the values at those places of the sorted sample. The
    median then needs only the one or two middle order statistics of the uniform numbers, and these are drawn straight
    from their own distribution (Beta; David and Nagaraja, Order Statistics, section 2.3): the same bootstrap in a
    hundredth of the time.
    """
    ordered = sorted(values)
    count = len(ordered)
    draw = random.Random(seed)  # noqa: S311 - resampling, to be repeated from its seed
    half = count // 2
    medians = []
    for _ in range(resamples):
        if count % 2:
            medians.append(_at(ordered, draw.betavariate(half + 1, half + 1)))
            continue
        lower = draw.betavariate(half, half + 1)
        # of the `half` numbers above the lower middle one, the smallest
        upper = lower + (1.0 - lower) * (1.0 - draw.random() ** (1.0 / half))
        medians.append((_at(ordered, lower) + _at(ordered, upper)) / 2)
    medians.sort()
    tail = (1.0 - CONFIDENCE) / 2
    return Interval(median(ordered), _at(medians, tail), _at(medians, 1.0 - tail))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def too_few(pairs: int) -> str:
    """Why so many pairs say nothing."""
    return f"{pairs} pairs are too few, {LOOKS[0]} are needed"


def judge(
    effects: Sequence[float], controls: Sequence[float], seed: int, *, spoiled: str = "", resamples: int = RESAMPLES
) -> Judgement:
    """What the ratios B/A and A'/A of the same chunks say. Both hold at least one number.

    `spoiled` is a reason why nothing better than inconclusive may come out, such as a busy host that was measured
    nevertheless.
    """
    effect = median_interval(effects, seed, resamples)
    control = median_interval(controls, seed + 1, resamples)
    floor = max(MARGIN, effect.half_width, control.half_width, 0.0 if control.has_one else control.reach)
    is_beyond = effect.low > 1.0 + MARGIN or effect.high < 1.0 - MARGIN
    if spoiled:
        answer, reason = Answer.INCONCLUSIVE, spoiled
    elif len(effects) < LOOKS[0]:
        answer, reason = Answer.INCONCLUSIVE, too_few(len(effects))
    elif not control.has_one:
        answer, reason = Answer.INCONCLUSIVE, "the same work done twice differs: something else moves the times"
    elif is_beyond and control.reach < abs(effect.estimate - 1.0):
        answer, reason = Answer.DIFFERS, ""
    elif not is_beyond and effect.half_width <= PRECISE:
        answer, reason = Answer.SAME, ""
    else:
        answer, reason = Answer.INCONCLUSIVE, "the times vary too much"
    return Judgement(answer, effect, control, len(effects), floor, reason)
