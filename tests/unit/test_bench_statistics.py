"""The median of figures and its interval."""

from __future__ import annotations

import random

import pytest

from hosttune.measure.bench.statistics import Interval, compute_median, median_interval


def test_interval_is_that_of_plain_resampling():
    draw = random.Random(5)  # noqa: S311 - simulated
    for count in (20, 21, 80):
        values = [draw.lognormvariate(0.02, 0.05) for _ in range(count)]
        plain = sorted(compute_median(sorted(draw.choices(values, k=count))) for _ in range(6000))
        fast = median_interval(values, 1, 6000)
        near = pytest.approx
        assert fast.low == near(plain[150], abs=0.004)
        assert fast.high == near(plain[5850], abs=0.004)
        assert fast.estimate == compute_median(sorted(values))


def test_interval_is_the_same_for_the_same_seed():
    values = [1.0 + number / 100 for number in range(30)]
    assert median_interval(values, 3) == median_interval(values, 3)
    assert median_interval([2.0], 3) == Interval(2.0, 2.0, 2.0)
