"""The median of some figures and its interval. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from hosttune.frozen import frozen

RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95


@frozen
class Interval:
    """An estimate and the ends of its 95 % interval."""

    estimate: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval, as a share of the estimate."""
        return (self.high - self.low) / 2 / self.estimate


def compute_median(ordered: Sequence[float]) -> float:
    """The median of numbers that are in order."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def median_interval(values: Sequence[float], seed: int, resamples: int = RESAMPLES) -> Interval:
    """The median and its percentile bootstrap interval. `values` holds at least one positive
    number.

    To resample n values is to draw n uniform numbers and take the values at those places of the
    sorted sample. The median then needs only the one or two middle order statistics of the uniform
    numbers, and these are drawn straight from their own distribution (Beta; David and Nagaraja,
    Order Statistics, section 2.3): the same bootstrap in a hundredth of the time.
    """
    ordered = sorted(values)
    count = len(ordered)
    draw = random.Random(seed)  # noqa: S311 - resampling, to be repeated from its seed
    half = count // 2
    medians = []
    for _ in range(resamples):
        if count % 2:
            # An odd count has one middle order statistic, Beta(half + 1, half + 1).
            medians.append(_interpolate_at(ordered, draw.betavariate(half + 1, half + 1)))
            continue
        # An even count has two that depend on each other: the upper one is drawn given the lower.
        lower = draw.betavariate(half, half + 1)
        # of the `half` numbers above the lower middle one, the smallest
        upper = lower + (1.0 - lower) * (1.0 - draw.random() ** (1.0 / half))
        medians.append((_interpolate_at(ordered, lower) + _interpolate_at(ordered, upper)) / 2)
    medians.sort()
    tail = (1.0 - CONFIDENCE) / 2
    return Interval(
        compute_median(ordered),
        _interpolate_at(medians, tail),
        _interpolate_at(medians, 1.0 - tail),
    )


def _interpolate_at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
