"""How large /tmp in memory should be: a table of cases."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hosttune.choices.tmp_size import choose

GIB = 1 << 30
PARAMS = {"ram_share": 0.1, "max_ram_share": 0.5, "min_bytes": 8 * GIB}


@pytest.mark.parametrize(
    ("ram_gib", "used_gib", "home", "is_tmpfs", "gib", "fits", "words"),
    [
        (2048, 1, "none", False, 205, True, "10% of"),
        (64, 1, "none", False, 8, True, "least size"),
        (64, 5, "none", False, 10, True, "twice"),
        (64, 20, "none", False, 32, True, "at most 50%"),
        (64, 33, "none", False, 32, False, "at most 50%"),
        (64, 20, "fstab", False, 8, True, "least size"),
        (64, 20, "usr-unit", True, 8, True, "least size"),
        (64, 20, "none", True, 8, True, "least size"),
        (12, 0, "none", False, 6, True, "at most 50%"),
        (95, 0, "none", False, 10, True, "10% of"),
    ],
)
def test_size_of_tmp_is_the_largest_need_within_the_limit(ram_gib, used_gib, home, is_tmpfs, gib, fits, words):
    facts = SimpleNamespace(
        memory=SimpleNamespace(total_bytes=ram_gib * GIB - 12345),
        tmp=SimpleNamespace(home=home, is_tmpfs=is_tmpfs, used_bytes=used_gib * GIB),
    )

    found = choose(facts, PARAMS)

    expected = gib if words != "at most 50%" else (ram_gib * GIB - 12345) // 2 // GIB
    assert (found.size_bytes, found.fits) == (expected * GIB, fits)
    assert words in found.reason
