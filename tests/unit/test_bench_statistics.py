"""The statistics of `bench`: three answers, few false alarms, and power where the host is quiet."""

from __future__ import annotations

import random

import pytest

from hosttune.measure.bench.statistics import LOOKS, Answer, Interval, judge, median, median_interval

QUIET, NOISY = 0.03, 0.40  # spread of one chunk's time: as on an idle virtual machine, and beside many other jobs
RESAMPLES = 200


def simulated(draw: random.Random, effect: float, spread: float):
    """One chunk: A, B and A' share the chunk's own weight; each has noise of its own, with the tail that real times have."""
    weight = draw.lognormvariate(0, 0.2)

    def time(factor):
        late = draw.expovariate(1 / (5 * spread)) if draw.random() < 0.1 else 0.0
        return weight * factor * (draw.lognormvariate(0, spread) + late)

    first, second, third = time(1.0), time(effect), time(1.0)
    return second / first, third / first


def whole_run(seed: int, effect: float, spread: float):
    """As the runner does it: fixed looks, ended when precise."""
    draw = random.Random(seed)  # noqa: S311 - simulated
    effects, controls = [], []
    for look in LOOKS:
        while len(effects) < look:
            one, other = simulated(draw, effect, spread)
            effects.append(one)
            controls.append(other)
        judgement = judge(effects, controls, seed, resamples=RESAMPLES)
        if judgement.is_precise:
            break
    return judgement.answer


def share(answer: Answer, effect: float, spread: float, runs: int) -> float:
    return sum(whole_run(seed, effect, spread) is answer for seed in range(runs)) / runs


@pytest.mark.parametrize("spread", [QUIET, NOISY])
def test_identical_arms_raise_less_than_three_percent_false_alarms(spread):
    assert share(Answer.DIFFERS, 1.0, spread, 300) < 0.03


def test_five_percent_is_found_on_a_quiet_host():
    assert share(Answer.DIFFERS, 1.05, QUIET, 200) >= 0.90


def test_five_percent_is_mostly_inconclusive_on_a_noisy_host():
    assert share(Answer.INCONCLUSIVE, 1.05, NOISY, 100) > 0.5


def test_interval_is_that_of_plain_resampling():
    draw = random.Random(5)  # noqa: S311 - simulated
    for count in (20, 21, 80):
        values = [draw.lognormvariate(0.02, 0.05) for _ in range(count)]
        plain = sorted(median(sorted(draw.choices(values, k=count))) for _ in range(6000))
        fast = median_interval(values, 1, 6000)
        near = pytest.approx
        assert fast.low == near(plain[150], abs=0.004)
        assert fast.high == near(plain[5850], abs=0.004)
        assert fast.estimate == median(sorted(values))


def test_interval_is_the_same_for_the_same_seed():
    values = [1.0 + number / 100 for number in range(30)]
    assert median_interval(values, 3) == median_interval(values, 3)
    assert median_interval([2.0], 3) == Interval(2.0, 2.0, 2.0)


def even(value: float, count: int = 40, spread: float = 0.002) -> list[float]:
    return [value + spread * (number % 5 - 2) for number in range(count)]


@pytest.mark.parametrize(
    ("effects", "controls", "words", "answer", "reason"),
    [
        (even(1.05), even(1.0), {}, Answer.DIFFERS, ""),
        (even(0.5), even(1.0), {}, Answer.DIFFERS, ""),
        (even(1.0), even(1.0), {}, Answer.SAME, ""),
        (even(1.009), even(1.0), {}, Answer.SAME, ""),
        (even(1.05, 19), even(1.0, 19), {}, Answer.INCONCLUSIVE, "19 pairs are too few"),
        (even(1.05), even(1.02), {}, Answer.INCONCLUSIVE, "the same work done twice differs"),
        (even(1.05), even(1.0, spread=0.2), {}, Answer.INCONCLUSIVE, "vary too much"),
        (even(1.0, spread=0.2), even(1.0), {}, Answer.INCONCLUSIVE, "vary too much"),
        (even(1.05), even(1.0), {"spoiled": "the host was busy"}, Answer.INCONCLUSIVE, "the host was busy"),
    ],
)
def test_judge_gives_one_of_three_answers(effects, controls, words, answer, reason):
    judgement = judge(effects, controls, 1, **words)
    assert judgement.answer is answer
    assert reason in judgement.reason
    assert bool(judgement.reason) is (answer is Answer.INCONCLUSIVE)


def test_noise_floor_is_what_could_not_have_been_seen():
    assert judge(even(1.0), even(1.0), 1).noise_floor == 0.01
    assert judge(even(1.05), even(1.0, spread=0.2), 1).noise_floor > 0.1
    assert judge(even(1.0), even(1.3), 1).noise_floor == pytest.approx(0.3, abs=0.01)
