"""Xid and SXid errors: what each asks for, after which reset it is over, and that the table is
whole.
"""

from __future__ import annotations

import re

import pytest

from hosttune.facts.gpu.gpu_errors import describe_ago, read_table, sxids_in, xids_in
from hosttune.facts.gpu.nvidia_smi import MAX_MESSAGES, messages_in
from hosttune.facts.gpu.ways_out import WAYS, RecoveryPlace, way_of
from hosttune.facts.own_tables import read_own_table

SLOT = "0000:1b:00.0"
HERE = RecoveryPlace()
NOW = 1_790_000_000.0
VERSION = "580.126.20"
LOADING = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.126.20"
TEXT = read_own_table("gpu-errors").text
ROWS = [line.split("\t") for line in TEXT.splitlines() if not line.startswith("#")]


def xid(number, words="pid=1, name=python3, x", device="PCI:0000:1b:00"):
    return f"NVRM: Xid ({device}): {number}, {words}"


def errors(*lines, version=VERSION, recovery=None):
    log = "".join(f"{line}\n" for line in lines)
    recoveries = {} if recovery is None else {SLOT: recovery}
    return xids_in(messages_in(log), version, NOW, recoveries).get(SLOT, ())


def reported(*lines, **how):
    return [one.number for one in errors(*lines, **how) if one.is_reported]


def test_table_has_every_number_once_and_every_action_a_way_out():
    numbers = [int(row[1]) for row in ROWS if row[0] == "xid"]
    assert numbers == list(range(1, 177))
    assert {row[0] for row in ROWS} == {"xid", "nvlink5", "sxid", "alias"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", read_table().as_of)
    assert TEXT.count("# source: https://") == 3
    for row in ROWS:
        if row[0] == "xid":
            assert row[2] in {"fault", "later", "watch", "quiet", "decode", "recovery"}
        if row[0] == "xid" and row[2] in {"fault", "later"}:
            assert way_of((row[3],), SLOT, HERE) in {
                "\n".join(way(HERE, SLOT)) for way in WAYS.values()
            }
        if row[0] == "nvlink5":
            assert all(re.fullmatch(r"[-01]{32}", bits) for bits in row[5:7])


# NVIDIA's own words: Xid-Catalog.xlsx of 2025-09-30, column "Resolution Bucket (Immediate Action)".
OF_NVIDIA = {
    "RESTART_BM": [79],
    "RESTART_VM": [151],
    "RESET_GPU": [46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158],
    "CHECK_MECHANICALS": [54],
    "UPDATE_SWFW": [78],
}


@pytest.mark.parametrize(("action", "numbers"), OF_NVIDIA.items())
def test_what_nvidia_asks_for_is_reported_with_it(action, numbers):
    for number in numbers:
        (error,) = errors(xid(number))
        assert (error.action, error.is_reported) == (action, True), number
        assert way_of((error.action,), SLOT, HERE) == "\n".join(WAYS[action](HERE, SLOT))


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 68, 92, 121, 137, 160])
def test_what_is_the_programs_own_or_to_be_ignored_is_not_reported(number):
    assert reported(xid(number)) == []


def test_contained_error_is_told_and_no_board_is_replaced_for_it():
    (error,) = errors(xid(94, "pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No"))
    assert (error.weight, error.is_reported) == ("later", True)
    assert "not to be replaced" in way_of((error.action,), SLOT, HERE)


def test_number_that_the_table_does_not_have_is_told():
    (error,) = errors(xid(999))
    assert error.is_reported
    assert "not in NVIDIA's catalogue of 2025-09-30" in error.sentence
    assert "support" in way_of((error.action,), SLOT, HERE)


@pytest.mark.parametrize(
    "device",
    [
        "PCI:0000:1b:00 GPU-I:05",
        "PCI:0000:1B:00 GPU-I:05 GPU-CI:00",
        "0000:1b:00",
        "PCI:0000:1b:00 NEW:1",
    ],
)
def test_lines_of_a_mig_instance_and_of_old_drivers_count(device):
    assert reported(xid(95, device=device)) == [95]


def test_line_that_a_program_could_have_made_up_is_no_error():
    assert errors(xid(31, "pid=1, name=NVRM: Xid (PCI:0000:1b:00): 79, x"))[0].number == 31
    assert errors("nouveau 0000:1b:00.0: NVRM: Xid (PCI:0000:1b:00): 79, x") == ()


WISH = "GPU recovery action changed from 0x{} ({}) to 0x{} ({})"
RESET_WANTED = xid(154, WISH.format(0, "None", 1, "GPU Reset Required"))
ALL_WELL = xid(154, WISH.format(1, "GPU Reset Required", 0, "None"))


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([xid(95), RESET_WANTED], [95, 154]),
        ([xid(95), RESET_WANTED, ALL_WELL], []),  # 154 that says that all is well
        ([xid(95), RESET_WANTED, ALL_WELL, xid(119)], [119]),
        ([xid(119), LOADING], []),
        ([LOADING, xid(119)], [119]),
        (
            [
                RESET_WANTED,
                xid(154, WISH.format(1, "GPU Reset Required", 2, "Node Reboot Required")),
            ],
            [154],
        ),
    ],
)
def test_what_came_before_a_reset_is_over(lines, kept):
    assert reported(*lines) == kept


def test_recovery_names_what_the_driver_asks_for():
    found = errors(
        RESET_WANTED, xid(154, WISH.format(1, "GPU Reset Required", 2, "Node Reboot Required"))
    )
    assert [(one.action, one.words) for one in found] == [
        ("RESTART_BM", "the driver asks for a recovery action: Node Reboot Required")
    ]


def test_what_the_driver_says_now_counts_more_than_its_line_of_then():
    assert reported(xid(95), RESET_WANTED, recovery="None") == []
    assert reported(xid(95), RESET_WANTED, recovery="Reset") == [95]
    assert reported(xid(119), recovery="None") == [119]  # of which no 154 follows
    assert reported(xid(95), recovery="None", version="550.54.15") == [
        95
    ]  # a driver that writes no 154
    assert reported(xid(79), recovery="None") == [
        79
    ]  # a GPU that was gone is told of, even when it is back


def test_error_that_comes_again_after_a_reset_is_said_to():
    (error,) = errors(xid(119), LOADING, xid(119))
    assert (error.count, error.is_back) == (1, True)
    assert error.sentence.endswith("again after a reset or a reload of the driver")
    (error,) = errors(xid(119), LOADING, xid(119), xid(119))
    assert error.sentence.endswith(
        ", 2 times since a reset or a reload of the driver, and before it"
    )


def test_when_and_how_often():
    lines = [f"{NOW - age:.6f} kernel: {xid(119)}" for age in (9000, 8000, 7300)]
    assert (
        errors(*lines)[0].sentence
        == "Xid 119 (the GPU's firmware (GSP) did not answer), 3 times, the last 2 hours ago"
    )
    assert errors(lines[0])[0].sentence.endswith("did not answer), 2 hours ago")
    assert errors(xid(119))[0].age_s == -1  # dmesg's clock is no time of day
    assert errors(f"{NOW + 60:.6f} kernel: {xid(119)}")[0].age_s == 0  # the clock was set back


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "just now"), (60, "1 minute ago"), (7200, "2 hours ago"), (90000, "1 day ago")],
)
def test_ago(seconds, words):
    assert describe_ago(seconds) == words


# Words of the log as in NVIDIA's catalogue, sheet "Xid 144-150 Decode".
NVLINK = [
    ("149", "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x004505c6 0x00000000 0x00000000)", "570.1", "RESET_GPU", "fault"),
    ("145", "pid=1, name=ray::W, RLW_SRC_TRACK Nonfatal XC0 i0 Link 13 (0x040988e2 0x00000008 0x0)", "570.1", "XID_154_EVAL", "quiet"),
    ("145", "RLW_SRC_TRACK Fatal XC0 i0 Link 13 (0x040988e2 0x00000008 0x0)", "570.1", "RESET_GPU", "fault"),
    ("149", "NETIR_BER_EVENT Nonfatal XC0 i0 Link 01 (0x00082226 0x00000001 0x0)", "570.1", "IGNORE", "quiet"),
    ("145", "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x00000086 0x00000001 0x0)", "580.1", "RESET_GPU", "fault"),
    ("145", "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x00000006 0x00000001 0x0)", "580.1", "IGNORE", "quiet"),
    ("146", "TLW_CTRL Fatal XC0 i0 Link 13 (0xffffffff 0x00000001 0x0)", "580.1", "RESET_GPU", "fault"),
    ("146", "TLW_CTRL Nonfatal XC0 i0 Link 13 (0xffffffff 0x00000001 0x0)", "580.1", "-", "quiet"),
    ("149", "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x004505c6 0x0 0x0)", "", "RESET_GPU", "fault"),
    ("150", "something new", "600.1", "WORKFLOW_NVLINK5_ERR", "fault"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "words", "version", "action", "weight"), NVLINK)
def test_nvlink_errors_of_blackwell_are_decoded(number, words, version, action, weight):
    (error,) = errors(xid(number, words), version=version)
    assert (error.action, error.weight) == (action, weight)


def test_numbers_that_a_branch_writes_for_another():
    assert (
        errors(xid(144), version="550.90.07")[0].action == "RESTART_VM"
    )  # key rotation, 151 later
    assert reported(xid(139), version="535.216.01") == []


def test_storm_of_one_error_does_not_push_another_out():
    lines = [f"{NOW - 50000 + i:.6f} kernel: {xid(31)}" for i in range(5000)]
    found = errors(
        f"{NOW - 60000:.6f} kernel: {xid(79)}", *lines, f"{NOW - 10:.6f} kernel: {xid(31)}"
    )
    assert [(one.number, one.count) for one in found] == [(79, 1), (31, 5001)]
    assert found[1].age_s == 10


def test_other_lines_do_not_push_an_error_out():
    noise = [f"NVRM: line {number}" for number in range(MAX_MESSAGES * 2)]
    assert reported(xid(79), *noise) == [79]


def test_kept_lines_are_read_again_as_they_are():
    """A record holds what `messages_in` made of the log."""
    lines = [f"{NOW - age:.6f} kernel: {xid(31)}" for age in (900, 800)] + [
        f"[  12.5] {xid(13)}",
        f"[  13.5] {xid(13)}",
    ]
    once = messages_in("\n".join(lines))
    assert once == messages_in("\n".join(once))
    assert len(once) == 2


SWITCH = "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): {}, {}, Link 48 x"


@pytest.mark.parametrize(
    ("number", "word", "weight"),
    [
        (20034, "Fatal", "fault"), (20034, "Non-fatal", "quiet"), (22003, "Non-fatal", "fault"), (12028, "Non-fatal", "later"),
        (11012, "Non-fatal", "quiet"), (22013, "Fatal", "quiet"), (99999, "Fatal", "fault"),
    ],
)  # fmt: skip
def test_switch_errors_by_number_and_by_word(number, word, weight):
    found = sxids_in(messages_in(SWITCH.format(number, word)), NOW)
    assert [one.weight for one in found["0000:06:00.0"]] == [weight]


def test_switch_errors_from_before_it_was_set_up_again_are_over():
    probed = "nvidia-nvswitch1: Probing device 0000:06:00.0, Vendor Id = 0x10de, Device Id = 0x22a3"
    other = probed.replace(":06:", ":05:")
    line = SWITCH.format(20034, "Fatal")
    data = "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Data {0x10000000, 0x10000000}"
    assert sxids_in(messages_in(f"{line}\n{probed}")) == {}
    assert len(sxids_in(messages_in(f"{line}\n{data}\n{other}"))["0000:06:00.0"]) == 1
