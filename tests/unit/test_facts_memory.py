"""Memory and swap facts."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.memory import parse_swaps
from tests.unit.fake_reader import FakeReader

MEMINFO = """MemTotal:       2113408844 kB
MemFree:        1903341212 kB
MemAvailable:   2000000000 kB
SwapTotal:       8388604 kB
SwapFree:        8388092 kB
HugePages_Total:      16
Hugepagesize:       2048 kB
"""
SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def memory(swaps=SWAPS, **options):
    files = {"/proc/meminfo": MEMINFO} | ({} if swaps is None else {"/proc/swaps": swaps})
    return Facts(FakeReader(files, **options)).memory


def test_memory_units_are_bytes_and_pages():
    seen = memory()
    assert seen.total_bytes == 2113408844 * 1024
    assert seen.available_bytes == 2000000000 * 1024
    assert seen.swap_free_bytes == 8388092 * 1024
    assert seen.huge_pages_total == 16
    assert round(seen.total_gib) == 2016


def test_memory_without_an_area_has_no_swap():
    assert memory().has_swap is False


def test_memory_without_swap_in_the_kernel_has_no_swap():
    seen = memory(swaps=None)
    assert (seen.has_swap, seen.has_zram, seen.swaps) == (False, False, ())


def test_memory_swap_areas_are_told_apart():
    seen = memory(SWAPS + "/dev/zram0   partition\t4194300\t\t512\t\t100\n/swap.img  file\t\t8388604\t0\t-2\n")
    assert [(swap.path, swap.type, swap.is_zram) for swap in seen.swaps] == [
        ("/dev/zram0", "partition", True),
        ("/swap.img", "file", False),
    ]
    assert seen.swaps[0].size_bytes == 4194300 * 1024
    assert seen.swaps[0].used_bytes == 512 * 1024
    assert seen.has_zram


def test_swap_path_with_a_blank_is_decoded():
    assert parse_swaps(SWAPS + "/my\\040swap\\040(deleted) file 1024 0 -2\n")[0].path == "/my swap (deleted)"


def test_memory_unreadable_swaps_leave_the_rest_known():
    seen = memory(swaps=None, unreadable={"/proc/swaps": "not in this record"})
    assert seen.total_gib > 2000
    with pytest.raises(UnknownFact, match="not in this record"):
        _ = seen.has_swap


def test_memory_without_a_line_is_unknown_in_that_field_alone():
    seen = Facts(FakeReader({"/proc/meminfo": "MemTotal: 1024 kB\n"})).memory
    assert seen.total_bytes == 1 << 20
    with pytest.raises(UnknownFact, match="has no MemAvailable"):
        _ = seen.available_bytes


def test_memory_with_a_mangled_swap_line_is_unknown_in_that_field_alone():
    seen = memory(SWAPS + "/swap file many none -2\n")
    assert seen.total_bytes
    with pytest.raises(UnknownFact, match="/proc/swaps"):
        _ = seen.swaps
