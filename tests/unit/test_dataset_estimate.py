"""From sizes of a sample to the whole: the margin holds, rare formats count, exact is exact."""

from __future__ import annotations

from random import Random

import pytest

from hosttune.measure.dataset.estimate import Stratum, estimate
from hosttune.measure.dataset.exact import Exact

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
        found = estimate((Stratum("JPEG", len(population), tuple(random.sample(population, 1000))),), PAGE)
        held += abs(found.total_bytes - true) <= found.margin_bytes
    assert 0.91 * 400 <= held <= 400


def test_estimate_of_few_large_shards_is_not_lost_between_small_files():
    sizes = estimate((Stratum("JPEG", 1_000_000, (1000,) * 500), Stratum("tar", 10, (10 << 30,) * 10)), PAGE)
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
    exact = Exact()
    for key, size in (("JPEG", 10), ("JPEG", 5000), ("tar", 1 << 20)):
        exact.take(key, [size])
    found = exact.corrected(estimate((Stratum("JPEG", 2, (10,)), Stratum("tar", 1, ())), PAGE))
    assert (found.total_bytes, found.margin_bytes, found.is_exact, found.looked_at) == (5010 + (1 << 20), 0, True, 3)
    assert (found.page_bytes, found.largest_bytes, found.median_bytes) == (4096 * 3 + (1 << 20), 1 << 20, 10)
    assert found.small_share == pytest.approx(2 / 3)
    assert exact.bytes == {"JPEG": 5010, "tar": 1 << 20}
