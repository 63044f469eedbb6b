"""From sizes of a sample to the whole: the margin holds, rare formats count, exact is exact."""

from __future__ import annotations

from random import Random

import pytest

from hosttune.measure.dataset.census import Census
from hosttune.measure.dataset.estimate import (
    Pair,
    Stratum,
    combined_ratio,
    estimate,
    half_interval,
    split_in_runs,
)
from hosttune.measure.dataset.sample import Sample, Sized, plan
from hosttune.measure.dataset.tally import Named

PAGE = 4096


def test_estimate_of_nothing_is_none():
    assert estimate((), PAGE) is None
    assert estimate((Stratum("JPEG", 10, ()),), PAGE) is None


def test_estimate_of_all_files_is_exact():
    sizes = estimate((Stratum("JPEG", 3, (1, 5000, 100_000)), Stratum("tar", 1, (1 << 30,))), PAGE)
    assert (sizes.is_exact, sizes.margin_bytes) == (True, 0)
    assert sizes.total_bytes == 105_001 + (1 << 30)
    assert sizes.page_bytes == 4096 + 8192 + 102_400 + (1 << 30)
    assert (sizes.median_bytes, sizes.largest_bytes, sizes.small_share) == (5000, 1 << 30, 0.5)


def test_estimate_margin_holds_in_nineteen_of_twenty_samples():
    random = Random(5)  # noqa: S311 - a test that comes out the same each time
    population = [int(random.lognormvariate(10, 1)) for _ in range(20_000)]
    true = sum(population)
    held = 0
    for _ in range(400):
        found = estimate(
            (Stratum("JPEG", len(population), tuple(random.sample(population, 1000))),), PAGE
        )
        held += abs(found.total_bytes - true) <= found.margin_bytes
    assert 0.91 * 400 <= held <= 400


def test_estimate_of_few_large_shards_is_not_lost_between_small_files():
    sizes = estimate(
        (Stratum("JPEG", 1_000_000, (1000,) * 500), Stratum("tar", 10, (10 << 30,) * 10)), PAGE
    )
    assert sizes.total_bytes == 1_000_000_000 + (100 << 30)
    assert sizes.margin_bytes == 0
    assert sizes.median_bytes == 1000


def test_estimate_weighs_files_by_what_they_stand_for():
    sizes = estimate((Stratum("JPEG", 900, (10,) * 9), Stratum("npy", 100, (1 << 20,) * 100)), PAGE)
    assert sizes.small_share == pytest.approx(0.9)
    assert sizes.median_bytes == 10


def test_estimate_from_one_file_of_many_has_no_margin():
    assert estimate((Stratum("JPEG", 10, (1000,)),), PAGE).margin_bytes is None


def test_estimate_counts_a_format_nobody_looked_at_with_the_mean():
    sizes = estimate((Stratum("JPEG", 10, (100,) * 10), Stratum("PNG", 10, ())), PAGE)
    assert (sizes.total_bytes, sizes.margin_bytes, sizes.is_exact) == (2000, None, False)


def test_exact_replaces_the_estimate_but_the_median():
    exact = Census()
    for key, size in (("JPEG", 10), ("JPEG", 5000), ("tar", 1 << 20)):
        exact.take(key, [size])
    found = exact.correct_sizes(estimate((Stratum("JPEG", 2, (10,)), Stratum("tar", 1, ())), PAGE))
    assert (found.total_bytes, found.margin_bytes, found.is_exact, found.looked_at) == (
        5010 + (1 << 20),
        0,
        True,
        3,
    )
    assert (found.page_bytes, found.largest_bytes, found.median_bytes) == (
        4096 * 3 + (1 << 20),
        1 << 20,
        10,
    )
    assert found.small_share == pytest.approx(2 / 3)
    assert exact.bytes == {"JPEG": 5010, "tar": 1 << 20}


def test_estimate_counts_a_file_with_two_names_by_halves():
    sizes = estimate((Stratum("JPEG", 4, (5000, 5000, 100, 100), (0.5, 0.5, 0.5, 0.5)),), PAGE)
    assert (sizes.total_bytes, sizes.page_bytes, sizes.linked_bytes) == (5100, 8192 + 4096, 0)
    sizes = estimate((Stratum("JPEG", 8, (5000, 5000, 100, 100), (0.5, 0.5, 0.5, 0.5)),), PAGE)
    assert (sizes.total_bytes, sizes.linked_bytes) == (10_200, 10_200)


def test_runs_are_cut_by_folder_and_size_with_about_as_many_bytes_and_files():
    items = [("b", 10)] * 40 + [("a", 1)] * 40 + [("a", 1000)] * 2
    found = split_in_runs(items, 8, lambda one: one)
    assert sum(map(len, found)) == 82
    assert len(found) <= 8
    assert [one for run in found for one in run] == sorted(items)
    assert not any(("a", 1) in run and ("a", 1000) in run and len(run) > 22 for run in found)
    assert split_in_runs([("a", 0)] * 5, 3, lambda one: one) != []
    folders = [(f"{number:02}", 1) for number in range(20) for _ in range(30)]
    found = split_in_runs(folders, 30, lambda one: one)
    assert len(found) <= 30
    assert all(len({folder for folder, _ in run}) == 1 for run in found)


def test_combined_ratio_by_hand():
    """Cochran's formula for two strata, worked out on paper: R = (10 x 30 + 4 x 8) / (10 x 3 + 4 x
    4).
    """
    groups = [(10, [Pair(2, 20), Pair(4, 40)]), (4, [Pair(4, 6), Pair(4, 10)])]
    found = combined_ratio(groups, 14, 46)
    ratio = (10 * 30 + 4 * 8) / (10 * 3 + 4 * 4)
    assert found.ratio == pytest.approx(ratio)
    first = ((20 - ratio * 2) - (40 - ratio * 4)) ** 2 / 2
    second = (6 - 10) ** 2 / 2
    assert found.variance == pytest.approx(100 * 0.8 / 2 * first + 16 * 0.5 / 2 * second)


def test_combined_ratio_of_all_files_has_no_variance_but_their_own_errors():
    assert combined_ratio([(2, [Pair(2, 20), Pair(4, 8)])], 2, 6).variance == 0
    assert combined_ratio([(2, [Pair(2, 20, 3), Pair(4, 8, 4)])], 2, 6).variance == pytest.approx(
        25
    )
    assert combined_ratio([(0, [])], 0, 0).ratio == 0


def test_combined_ratio_margin_holds_in_nineteen_of_twenty_samples():
    """Kinds in folders, the sizes of all taken, and headers of eight in each stratum."""
    random = Random(9)  # noqa: S311 - a test that comes out the same each time
    population = []
    for number in range(3_000):
        size = int(random.lognormvariate(9, 0.7))
        population.append(
            (
                f"{number // 300}",
                size,
                size * (4 if number % 300 < 200 else 40) * random.uniform(0.5, 2),
            )
        )
    true = sum(one[2] for one in population)
    total = sum(one[1] for one in population)
    strata = split_in_runs(population, 40, lambda one: (one[0], one[1]))
    held = 0
    for _ in range(300):
        groups = [
            (len(run), [Pair(*one[1:]) for one in random.sample(run, min(8, len(run)))])
            for run in strata
        ]
        found = combined_ratio(groups, 3_000, total)
        looks = sum(len(pairs) for _, pairs in groups)
        held += abs(found.ratio * total - true) <= half_interval(found.variance, looks)
    assert 0.91 * 300 <= held <= 300


def test_half_interval_with_few_looks_is_students():
    assert half_interval(1.0, 1000) == pytest.approx(1.962, abs=0.002)
    assert half_interval(1.0, 11) == pytest.approx(2.228, abs=0.01)
    assert half_interval(1.0, 5) == pytest.approx(2.776, abs=0.06)


def test_large_file_of_a_format_that_no_sample_met_is_a_stratum_of_its_own():
    """The time for sizes may end before, and that for headers too."""
    large = Sized(Named("PNG", "/x/a.png", 1), 10, None, 1)
    sample = Sample(large={"PNG": [large]})
    plan(sample, {"PNG": 10})
    sample.settle()
    assert sample.runs == {"PNG": [[large]]}
    assert sample.drawn({"PNG": 1})["PNG"].runs == (1,)
