"""NVLinks: what nvidia-smi prints of them, which of them have to be up, and which errors count."""

from __future__ import annotations

import json

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.base import attempt
from hosttune.facts.gpu.health_smi import FIELDS, QUERIES, fabric_of
from hosttune.facts.gpu.nvidia_smi import QUERY
from hosttune.facts.gpu.nvlink import STATUS, Links, status_in
from hosttune.facts.gpu.nvlink_errors import QUESTION, counts_in
from hosttune.facts.kernel.kernel_log import DMESG, JOURNAL
from hosttune.values import Unreadable
from tests.hosts.driver import smi_row
from tests.unit.fake_reader import FakeReader

PCI = "/sys/bus/pci/devices"
H100, H100_PCIE, A100_PCIE, GH200, V100, A100 = (
    "0x2330",
    "0x2331",
    "0x20b5",
    "0x2342",
    "0x1db5",
    "0x20b2",
)
UP = "\t Link {}: 26.562 GB/s\n"
DOWN = "NVML: Unable to retrieve NVLink information as all links are inActive\n"


def said(*gpus):
    """`nvidia-smi nvlink -s` of GPUs: (links that are up, links that are down), or what it says
    instead.
    """
    text = ""
    for number, one in enumerate(gpus):
        text += f"GPU {number}: NVIDIA H100 (UUID: GPU-{number})\n"
        text += (
            one
            if isinstance(one, str)
            else "".join(map(UP.format, range(one[0]))) + "Link 9: <inactive>\n" * one[1]
        )
    return text


def nvlink_of(models, answer, *, is_vm=False, rows=None, lent=(), **queries):
    slots = [f"0000:{0x10 + number:02x}:00.0" for number in range(len(models))]
    files = {
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  x\n",
        "/sys/module/nvidia/version": "580.126.20\n", "/sys/class/dmi/id/sys_vendor": "QEMU\n" if is_vm else "Dell Inc.\n",
        "/proc/cpuinfo": f"processor\t: 0\nflags\t\t: fpu{' hypervisor' * is_vm}\n\n", "/proc/sys/kernel/arch": "x86_64\n",
        "/proc/sys/kernel/osrelease": "6.8.0-60-generic\n",
    }  # fmt: skip
    links = {}
    for slot, model in zip(slots, models, strict=True):
        base = f"{PCI}/{slot}"
        files |= {f"{base}/vendor": "0x10de", f"{base}/device": model, f"{base}/class": "0x030200"}
        links[f"{base}/driver"] = (
            f"../../../bus/pci/drivers/{'vfio-pci' if slot in lent else 'nvidia'}"
        )
    named = [f"0000{slot.upper()}" for slot in slots if slot not in lent]
    answers = {
        QUERY: "".join(f"{slot}, 580.126.20, Enabled, NVIDIA H100\n" for slot in named[: rows or len(named)]),
        QUERIES[0]: "".join(smi_row(FIELDS[0], slot) for slot in named), JOURNAL: "", DMESG: "x\n", STATUS: answer,
    }  # fmt: skip
    return Facts(
        FakeReader(
            files | queries.get("files", {}),
            links=links,
            queries=answers | queries.get("queries", {}),
        )
    )


def missing_of(models, answer, **more):
    return [(gpu.up, gpu.missing) for gpu in nvlink_of(models, answer, **more).nvlink.gpus]


def test_every_way_in_which_links_are_told():
    told = status_in(
        said(
            (2, 1),
            DOWN,
            DOWN.replace("NVLink", "Nvlink"),
            "Device does not have or support Nvlink\n",
        )
        + "GPU 4: NVIDIA A10 (UUID: GPU-4)\n"
        + "GPU 5: NVIDIA H100 (UUID: GPU-5)\nNvlink queries are not supported for Devices in MIG mode\n"
    )
    assert told == {
        0: Links((26.562, 26.562), 1), 1: Links((), -1), 2: Links((), -1), 3: Links((), 0), 4: Links((), 0), 5: None,
    }  # fmt: skip
    with pytest.raises(ValueError, match="Unknown Error"):
        status_in("Unable to determine the device handle for GPU0000:91:00.0: Unknown Error\n")


def test_links_of_a_board_have_to_be_up():
    assert missing_of([H100] * 2, said((18, 0), (17, 1))) == [(18, 0), (17, 1)]
    assert missing_of([H100] * 2, said((18, 0), DOWN)) == [(18, 0), (0, 18)]
    assert missing_of([H100] * 2, said(DOWN, DOWN)) == [(0, 18), (0, 18)]
    assert missing_of([H100] * 2, said((12, 0), (18, 0))) == [(12, 6), (18, 0)]  # fewer are told


def untold_of(models, answer, **more):
    """By slot why it is not known how many links are up; a number where it is."""
    return {
        gpu.slot[5:7]: attempt(lambda gpu=gpu: gpu.missing)
        for gpu in nvlink_of(models, answer, **more).nvlink.gpus
    }


WORDS = "\t Link 3: Active, 26.562 GB/s\n"


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (WORDS * 18, "Link 3: Active, 26.562 GB/s"),
        ("", "it prints none"),
        ("Device does not have or support Nvlink\n", "it prints none"),
        ("".join(map(UP.format, range(16))) + WORDS * 2, "Active"),
        ("NVML: Unable to retrieve NVLink information: Unknown Error\n", "Unknown Error"),
        ("GPU requires reset\n", "GPU requires reset"),
    ],
)
def test_links_that_are_told_in_other_words_are_unknown_and_not_well(broken, why):
    found = untold_of([H100] * 2, said((18, 0), broken))
    assert found["10"] == 0
    assert why in found["11"].reason
    assert all(why in one.reason for one in untold_of([H100] * 2, said(broken, broken)).values())


def test_other_words_change_nothing_where_all_links_are_up_or_some_are_down_for_certain():
    assert untold_of([H100] * 2, said((18, 0), "".join(map(UP.format, range(18))) + WORDS)) == {
        "10": 0,
        "11": 0,
    }
    half = "".join(map(UP.format, range(16))) + WORDS + "\t Link 17: <inactive>\n"
    assert untold_of([H100] * 2, said((18, 0), half)) == {"10": 0, "11": 2}
    assert missing_of([H100] * 2, said((18, 0), (17, 0)) + "\t Link 17: 0 GB/s\n") == [
        (18, 0),
        (17, 1),
    ]


def test_warning_about_the_inforom_says_nothing_of_links():
    answer = said((18, 0), (18, 0)) + "WARNING: infoROM is corrupted at gpu 0000:11:00.0\n"
    assert missing_of([H100] * 2, answer) == [(18, 0), (18, 0)]
    assert missing_of(["0x20bd"] * 2, answer) == [(18, 0), (18, 0)]


def test_gpu_beside_one_in_mig_mode_is_judged():
    answer = said((16, 2), "Nvlink queries are not supported for Devices in MIG mode\n")
    assert missing_of([H100] * 2, answer) == [(16, 2)]


def test_gpu_that_is_left_out_is_unknown_and_not_well():
    found = untold_of([H100] * 3, said((18, 0), (17, 1)))
    assert (found["10"], found["11"]) == (0, 1)
    assert "it is left out" in found["12"].reason
    shifted = said((18, 0), (18, 0)).replace("GPU 1:", "GPU 7:")
    with pytest.raises(UnknownFact, match="tells of the NVLinks of 2 GPUs, and lists 3"):
        _ = nvlink_of([H100] * 3, shifted).nvlink.gpus


def test_gpu_without_a_model_is_unknown_and_not_well():
    """nvidia-smi numbers other GPUs than it lists, and there are two models."""
    gpus = nvlink_of([H100, H100, "0x27b8"], said((18, 0), (17, 0), ""), rows=2).nvlink.gpus
    assert all(
        "which of the GPUs here it means" in attempt(lambda one=one: one.up).reason
        for one in gpus[:2]
    )
    assert "it prints none" in attempt(lambda: gpus[2].up).reason


def test_cards_with_bridges_that_are_told_in_other_words_are_unknown():
    for gpu in nvlink_of([H100_PCIE] * 2, said(WORDS * 12, WORDS * 12)).nvlink.gpus:
        with pytest.raises(UnknownFact, match="Active"):
            _ = gpu.up
    one, other = nvlink_of([H100_PCIE] * 2, said((12, 6), "")).nvlink.gpus
    assert (one.up, one.sibling_up) == (12, 12)
    with pytest.raises(UnknownFact, match="it prints none"):
        _ = other.up
    assert nvlink_of([H100_PCIE] * 2, said("", "")).nvlink.gpus == ()
    assert nvlink_of([H100, H100, "0x27b8"], said((18, 0), (18, 0), WORDS)).nvlink.gpus[2:] == ()


def test_four_gh200_on_a_board_are_joined():
    """The others leave out the links to the one that is dead."""
    assert missing_of([GH200] * 4, said(*[(18, 0)] * 4)) == [(18, 0)] * 4
    assert missing_of([GH200] * 4, said((12, 0), (12, 0), (12, 0), "\t Unable to retrieve NVLink information as all links are inActive\n")) == [
        (12, 0), (12, 0), (12, 0), (0, 12),
    ]  # fmt: skip
    assert missing_of([GH200] * 2, said(DOWN, DOWN)) == [(0, 0), (0, 0)]


def test_part_of_a_board_without_switches_has_links_that_lead_elsewhere():
    mesh = said((4, 2), (4, 2), (5, 1), (5, 1))  # half of a DGX-1
    assert {missing for _, missing in missing_of([V100] * 4, mesh, is_vm=True)} == {0}
    assert {missing for _, missing in missing_of([V100] * 4, mesh)} == {1, 2}
    whole = said((6, 0), (6, 0), (5, 1), (5, 1))  # a board of four, on which one link is broken
    assert [missing for _, missing in missing_of([V100] * 4, whole, is_vm=True)] == [0, 0, 1, 1]
    assert [
        missing for _, missing in missing_of([V100] * 8, said(*[(6, 0)] * 7, (4, 2)), is_vm=True)
    ] == [0] * 7 + [2]
    assert {missing for _, missing in missing_of([A100] * 2, said((4, 8), (4, 8)), is_vm=True)} == {
        0
    }
    assert [missing for _, missing in missing_of([A100] * 2, said((4, 8), (3, 9)), is_vm=True)] == [
        8,
        9,
    ]
    assert {missing for _, missing in missing_of([H100] * 3, said(*[(12, 6)] * 3), is_vm=True)} == {
        0
    }


def test_host_that_gave_away_a_part_of_such_a_board():
    lent = [f"0000:{0x14 + number:02x}:00.0" for number in range(4)]
    mesh = said((4, 2), (4, 2), (5, 1), (5, 1))
    assert {missing for _, missing in missing_of([V100] * 8, mesh, lent=lent)} == {0}
    switched = said(*[(18, 0)] * 3, (16, 2))
    assert [missing for _, missing in missing_of([H100] * 8, switched, lent=lent)] == [0, 0, 0, 2]


def test_board_whose_links_no_table_has_is_compared_with_itself():
    assert missing_of(["0x20bd"] * 2, said((8, 0), (7, 1))) == [(8, 0), (7, 1)]
    assert missing_of(["0x20bd"] * 2, said((8, 0), DOWN)) == [(8, 0), (0, 8)]


def test_virtual_machine_may_be_given_gpus_without_their_links_and_not_with_a_part():
    assert missing_of([H100] * 2, said(DOWN, DOWN), is_vm=True) == [(0, 0), (0, 0)]
    assert missing_of([H100] * 2, said((18, 0), DOWN), is_vm=True) == [(18, 0), (0, 18)]


def test_gpu_by_itself_has_nobody_to_be_joined_to():
    assert missing_of([H100], said(DOWN)) == [(0, 0)]
    facts = nvlink_of([GH200], said(DOWN))
    assert not facts.nvlink.is_possible
    assert facts.nvlink.gpus == ()


def test_cards_with_bridges_use_a_part_of_their_links():
    one, other, third = nvlink_of([H100_PCIE] * 3, said((12, 6), (8, 10), DOWN)).nvlink.gpus
    assert [(gpu.is_sxm, gpu.missing, gpu.up, gpu.sibling_up) for gpu in (one, other, third)] == [
        (False, 0, 12, 12), (False, 0, 8, 12), (False, 0, 0, 12),
    ]  # fmt: skip
    assert all(
        gpu.sibling_up == 0 for gpu in nvlink_of([A100_PCIE] * 2, said(DOWN, DOWN)).nvlink.gpus
    )


@pytest.mark.parametrize(
    ("size", "bridged"),
    [("Standard_NC80adis_H100_v5", True), ("Standard_NC48ads_A100_v4", False), ("", False)],
)
def test_size_of_a_virtual_machine_that_comes_with_bridges_is_known(size, bridged):
    """Azure/azhpc-images issue 443: half of these machines come up with all links down, and a
    reboot brings them.
    """
    files = {
        "/sys/class/dmi/id/sys_vendor": "Microsoft Corporation\n",
        "/sys/class/dmi/id/chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77\n",
        "/run/cloud-init/instance-data.json": json.dumps(
            {"ds": {"meta_data": {"imds": {"compute": {"vmSize": size}}}}}
        ),
    }
    gpus = nvlink_of(["0x2321"] * 2, said(DOWN, DOWN), is_vm=True, files=files).nvlink.gpus
    assert [(gpu.up, gpu.bridged_by) for gpu in gpus] == [(0, size if bridged else "")] * 2


def test_two_cards_of_different_models_take_no_bridge():
    assert not nvlink_of([H100_PCIE, A100_PCIE], "").nvlink.is_possible


def test_numbers_that_nvidia_smi_does_not_list_are_no_slots():
    gpus = nvlink_of([H100] * 3, said((18, 0), (17, 1), (18, 0)), rows=2).nvlink.gpus
    assert [(gpu.slot, gpu.missing) for gpu in gpus] == [("GPU 0", 0), ("GPU 1", 1), ("GPU 2", 0)]


def test_question_that_hangs_is_unknown():
    facts = nvlink_of([H100] * 2, Unreadable("nvidia-smi did not end within 30 s"))
    with pytest.raises(UnknownFact, match="did not end"):
        _ = facts.nvlink.gpus


def test_errors_of_both_vocabularies():
    old = "GPU 0: A\n\t Link 0: Replay Errors: 2\n\t Link 0: Recovery Errors: 1  Link 1: CRC Errors: 4\nGPU 1: A\n\t Link 0: CRC Flit Errors: 0\n"
    new = (
        "GPU 0: B\n Link 0: Malformed packet Errors: 1\n Link 0: Link recovery failed events: 3\n Link 0: Symbol Errors: 5\n"
        " Link 0: Link recovery successful events: 70\n Link 0: Total link recovery events: 73\n Link 0: Tx discards: 9\n"
        " Link 0: FEC Errors - 0: 36140749276\n Link 0: Effective BER: 15e-255\n Link 0: Raw BER Lane 0: 2061\n Link 0: Raw Errors Lane 0: 82\n"
    )
    assert counts_in(old) == {0: (7, 0), 1: (0, 0)}
    assert counts_in(new) == {0: (6, 3)}
    assert counts_in("no GPU\n") == {}


def test_errors_are_told_by_slot():
    facts = nvlink_of(
        [H100] * 2,
        "",
        queries={
            QUESTION: "GPU 0: A\n Link 0: Replay Errors: 2\nGPU 1: A\n Link 0: CRC Errors: 3\n"
        },
    )
    assert [(one.slot, one.errors, one.failed_recoveries) for one in facts.nvlink_errors.gpus] == [
        ("0000:10:00.0", 2, 0), ("0000:11:00.0", 3, 0),
    ]  # fmt: skip
    assert nvlink_of([GH200], "").nvlink_errors.gpus == ()


def test_fabric_that_is_not_told_is_none():
    assert fabric_of({}) == ((), ())
    assert fabric_of({"fabric.state": "Not Supported", "fabric.status": "N/A"}) == ((), ())
    assert fabric_of({"fabric.state": "Not Started"}) == ((), ())
    busy = {
        "fabric.state": "Completed",
        "fabric.status": "Success",
        "fabric.health.access_timeout_recovery": "True",
    }
    assert fabric_of(busy) == ((), ("it is being recovered",))


@pytest.mark.parametrize(
    "said",
    [
        {"fabric.state": "Strange"}, {"fabric.health.summary": "Strange"}, {"fabric.health.bandwidth": "Half"},
        {"fabric.health.route_unhealthy": "[Unknown Error]"}, {"fabric.health.access_timeout_recovery": ""},
    ],
)  # fmt: skip
def test_fabric_in_words_that_are_not_known_is_unknown_and_not_well(said):
    with pytest.raises(ValueError, match=r"nvidia-smi says '.*' of fabric\."):
        fabric_of({"fabric.state": "Completed", "fabric.status": "Success", **said})
    assert fabric_of(
        {"fabric.health.route_unhealthy": "True", "fabric.health.summary": "Strange"}
    ) == (
        ("a route is not healthy",),
        (),
    )
    every = {
        f"fabric.health.{name}": "Not Supported"
        for name in ("summary", "bandwidth", "route_unhealthy")
    }
    assert fabric_of({"fabric.state": "In Progress", "fabric.status": "Undefined", **every}) == (
        (),
        (),
    )
