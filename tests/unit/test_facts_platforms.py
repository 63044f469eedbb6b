"""The table of boards: a row that lacks a daemon, a size, a machine or a board is found here."""

import pytest

from hosttune.facts.gpu.gpu_count import expected_of
from hosttune.facts.gpu.nvidia_tables import generation_of
from hosttune.facts.gpu.platforms import (
    FABRIC_MANAGER,
    IMEX,
    NVLSM,
    PLATFORMS,
    Switches,
    has_grace,
    is_bridged,
    is_of_rack,
    is_switched,
    platform_of,
)  # fmt: skip
from hosttune.textfiles import own_file

# A machine of each row by its instance type or product name. A new row needs one in gpu-counts.tsv.
MACHINES = {
    "HGX V100": "p3.16xlarge", "HGX-2": "DGX-2", "HGX A100": "p4d.24xlarge", "HGX A800": "", "HGX H100": "p5.48xlarge", "HGX H20": "",
    "GH200": "", "HGX B200": "p6-b200.48xlarge", "HGX B300": "p6-b300.48xlarge", "GB200 NVL72": "p6e-gb200.36xlarge",
    "GB300 NVL72": "Standard_ND128isr_GB300_v6",
}  # fmt: skip
SOLD_IN_NO_KNOWN_MACHINE = {"HGX A800", "HGX H20", "GH200"}
OF_SWITCHES = {
    Switches.NONE: (), Switches.PCI: (FABRIC_MANAGER,), Switches.BRIDGES: (FABRIC_MANAGER, NVLSM), Switches.RACK: (IMEX,),
}  # fmt: skip
# Chips of vendor 10de, class 03, of which NVIDIA's own list has a board for NVLinks: a name with
# one of these words.
ON_BOARDS = ("SXM", "GH200 480GB", "H100 80GB HBM3", "B200", "B300", "GB300")


@pytest.mark.parametrize("one", PLATFORMS, ids=[one.name for one in PLATFORMS])
def test_row_has_daemons_sizes_machine_and_board(one):
    assert one.daemons == OF_SWITCHES[one.switches]
    assert one.boards
    assert bool(one.chips) is (one.switches is Switches.PCI)
    if one.name in SOLD_IN_NO_KNOWN_MACHINE:
        assert MACHINES[one.name] == ""
    else:
        name = MACHINES[one.name]
        count = expected_of(name, "").count or expected_of("", name).count
        assert count in one.boards, name
    for device in one.devices:
        assert is_listed(device) or device in UNLISTED
        assert generation_of(int(device, 16)) in {"volta", "ampere", "hopper", "blackwell"}
        assert has_grace(device) is one.has_grace
        assert is_switched(device) is (one.switches in {Switches.BRIDGES, Switches.RACK})
        assert is_bridged(device) is (one.switches is Switches.BRIDGES)
        assert is_of_rack(device) is (one.switches is Switches.RACK)


def is_listed(device):
    return f"board\t{device[2:]}\t" in own_file("tables/gpu-boards.tsv").decode()


UNLISTED = {"0x1db1", "0x1db5", "0x1db8", "0x2337"}  # older than NVIDIA's list, or made to order


def test_every_board_with_nvlinks_of_nvidia_s_list_has_a_row():
    rows = (
        row.split("\t")
        for row in own_file("tables/gpu-boards.tsv").decode().splitlines()
        if row.startswith("board")
    )
    named = {
        f"0x{device}": name
        for _, device, _, name in rows
        if any(word in name for word in ON_BOARDS)
    }
    assert len(named) > 8
    assert [(device, name) for device, name in named.items() if platform_of(device) is None] == []


def test_no_gpu_is_in_two_rows():
    devices = [device for one in PLATFORMS for device in one.devices]
    assert len(devices) == len(set(devices))
    assert len({one.name for one in PLATFORMS}) == len(PLATFORMS)


def test_gpu_of_no_row_is_judged_by_its_chip():
    assert (is_switched("0x29ff"), is_of_rack("0x29ff"), is_bridged("0x29ff")) == (
        True,
        False,
        True,
    )
    assert (is_switched("0x31c3"), is_of_rack("0x31c3"), has_grace("0x31C3")) == (True, True, True)
    assert (is_switched("0x2684"), is_of_rack(""), platform_of("0x2684")) == (False, False, None)


@pytest.mark.parametrize("device", ["", "0x", "0xzz", "2901", "0x" + "9" * 5000])
def test_device_id_that_is_not_one_has_no_switches(device):
    assert not is_switched(device)
    assert not is_bridged(device)
    assert not is_of_rack(device)
