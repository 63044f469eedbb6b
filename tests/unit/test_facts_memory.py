"""Memory and swap facts."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.memory.memory import parse_swaps
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
    seen = memory(
        SWAPS + "/dev/zram0   partition\t4194300\t\t512\t\t100\n/swap.img  file\t\t8388604\t0\t-2\n"
    )
    assert [(swap.path, swap.type, swap.is_zram) for swap in seen.swaps] == [
        ("/dev/zram0", "partition", True),
        ("/swap.img", "file", False),
    ]
    assert seen.swaps[0].size_bytes == 4194300 * 1024
    assert seen.swaps[0].used_bytes == 512 * 1024
    assert seen.has_zram


def test_swap_path_with_a_blank_is_decoded():
    assert (
        parse_swaps(SWAPS + "/my\\040swap\\040(deleted) file 1024 0 -2\n")[0].path
        == "/my swap (deleted)"
    )


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


@pytest.mark.parametrize(
    ("gib", "sold"),
    [
        (31.3, 32), (30.8, 32), (62.6, 64), (62.0, 64), (125.5, 128), (188, 192), (252, 256), (251.4, 256), (503, 512),
        (1007, 1024), (1511, 1536), (2014, 2048), (32, 32), (256, 256), (15.4, 16), (23.4, 24), (0.9, 1), (7.6, 8),
        (110, 112), (59.9, 60), (240, 240), (480, 480),
    ],
)  # fmt: skip
def test_memory_counts_as_what_the_machine_was_sold_with(gib, sold):
    seen = Facts(
        FakeReader({"/proc/meminfo": f"MemTotal: {int(gib * (1 << 20))} kB\nMemAvailable: 1 kB\n"})
    ).memory
    assert seen.sold_bytes == sold << 30


NODE = "/sys/devices/system/node/node"
GPU = "/sys/bus/pci/devices/0009:01:00.0"


def superchip(architecture="aarch64", **options):
    nodes = {0: ("0-71\n", 480), 1: ("\n", 96), 2: ("\n", 0)}
    files = {"/proc/meminfo": f"MemTotal: {576 << 20} kB\nMemAvailable: {500 << 20} kB\n"}
    files["/proc/sys/kernel/arch"] = architecture + "\n"
    files |= {
        f"{GPU}/vendor": "0x10de\n",
        f"{GPU}/class": "0x030200\n",
        f"{GPU}/device": "0x2342\n",
    }
    for number, (cpus, gib) in nodes.items():
        files[f"{NODE}{number}/cpulist"] = cpus
        size = f"Node {number} MemTotal: {gib << 20} kB\nNode {number} MemFree: {gib << 19} kB\n"
        files[f"{NODE}{number}/meminfo"] = size
    return Facts(FakeReader(files, **options)).memory


def test_memory_of_gpus_that_the_kernel_uses_is_no_ram():
    seen = superchip()
    assert (seen.total_bytes >> 30, seen.gpu_bytes >> 30, seen.available_bytes >> 30) == (
        480,
        96,
        452,
    )
    assert seen.sold_bytes == 480 << 30


def test_memory_expander_is_ram():
    assert superchip("x86_64").total_bytes == 576 << 30


def test_memory_is_unknown_where_the_nodes_of_a_superchip_are():
    with pytest.raises(UnknownFact, match="no"):
        _ = superchip(unreadable={f"{NODE}1/meminfo": "no"}).total_bytes
