"""NUMA facts."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.ranges import number_list
from tests.unit.fake_reader import FakeReader

NODE = "/sys/devices/system/node/node"


def nodes(*values):
    files = {}
    for number, cpus, kib in values:
        files[f"{NODE}{number}/cpulist"] = f"{cpus}\n"
        files[f"{NODE}{number}/meminfo"] = (
            f"\nNode {number} MemTotal:       {kib} kB\nNode {number} MemFree: 1 kB\n"
        )
    return Facts(FakeReader(files)).numa


@pytest.mark.parametrize(
    ("spelled", "numbers"),
    [("", ()), ("0", (0,)), ("0-3,8\n", (0, 1, 2, 3, 8)), ("1,5-6", (1, 5, 6))],
)
def test_number_list(spelled, numbers):
    assert number_list(spelled) == numbers


def test_numa_two_sockets_have_two_nodes_in_order_of_number():
    seen = nodes((0, "0-1", 1024), (10, "4-5", 1024), (2, "2-3", 2048))
    assert [node.id for node in seen.nodes] == [0, 2, 10]
    assert seen.nodes[1].memory_bytes == 2048 * 1024
    assert len(seen.with_cpus) == 3


def test_numa_memory_of_a_gpu_and_an_empty_slot_are_nodes_of_their_own():
    seen = nodes((0, "0-71", 480 << 20), (1, "", 96 << 20), (2, "72", 0))
    assert [node.id for node in seen.with_cpus] == [0, 2]
    assert seen.nodes[1].cpus == ()
    assert seen.nodes[2].memory_bytes == 0


def test_numa_kernel_without_numa_has_no_nodes():
    assert Facts(FakeReader(folders=("/sys/devices/system",))).numa.nodes == ()


def test_numa_unreadable_folder_is_unknown():
    with pytest.raises(UnknownFact, match="no kernel"):
        _ = Facts(FakeReader(unreadable={"/sys": "no kernel"})).numa.with_cpus


def test_numa_mangled_list_is_unknown_in_that_field_alone():
    seen = nodes((0, "0-x", 1024))
    assert seen.nodes[0].memory_bytes == 1 << 20
    with pytest.raises(UnknownFact, match="cpulist"):
        _ = seen.nodes[0].cpus
