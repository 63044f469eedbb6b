"""What the lines of nvidia-smi mean."""

from __future__ import annotations

import pytest

from hosttune.measure.gpu.reasons import words_of
from hosttune.measure.gpu.sample import GpuSample
from hosttune.measure.gpu.smi_rows import SmiTable, instances_in, pids_in

# As drivers from 535 on answer, in words of their own for the clocks.
HEAD = (
    "index, uuid, pci.bus_id, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], "
    "enforced.power.limit [W], clocks.current.sm [MHz], clocks_event_reasons.active, mig.mode.current, name"
)
ROW = "0, GPU-aaaa, 00000000:1B:00.0, 97, 61440, 81559, 412.50, 700.00, 1755, 0x0000000000000004, Disabled, NVIDIA H100 80GB HBM3"


def fed(*lines: str) -> SmiTable:
    table = SmiTable()
    for line in lines:
        table.feed(line)
    return table


def only(*lines: str) -> GpuSample:
    (row,) = fed(*lines).rows.values()
    return row.sample


def test_row_of_a_busy_gpu_gives_every_value():
    assert only(HEAD, ROW) == GpuSample(
        0,
        "GPU-aaaa",
        "NVIDIA H100 80GB HBM3",
        97.0,
        61440 << 20,
        81559 << 20,
        412.5,
        700.0,
        1755,
        ("power limit",),
    )


@pytest.mark.parametrize(
    "spelled",
    [
        "N/A",
        "[N/A]",
        "[Not Supported]",
        "[Insufficient Permissions]",
        "[Unknown Error]",
        "ERR!",
        "",
    ],
)
def test_row_with_a_value_that_is_not_there_leaves_it_unknown(spelled):
    cells = ROW.split(", ")
    for place in (1, 3, 4, 5, 6, 7, 8, 9):
        cells[place] = spelled
    assert only(HEAD, ", ".join(cells)) == GpuSample(0, name="NVIDIA H100 80GB HBM3")


def test_row_is_read_by_the_names_of_the_head_and_not_by_their_order():
    head = "name, index, power.draw [W]".replace("name, ", "") + ", name"
    assert only(head, "3, 71.20, Tesla T4, the second") == GpuSample(
        3, name="Tesla T4, the second", power_w=71.2
    )


def test_row_before_the_head_is_passed_over():
    assert fed(ROW).rows == {}


def test_row_with_units_is_read_as_one_without():
    cells = ROW.split(", ")
    cells[3:9] = ["97 %", "61440 MiB", "81559 MiB", "412.50 W", "700.00 W", "1755 MHz"]
    assert only(HEAD, ", ".join(cells)) == only(HEAD, ROW)


def test_row_of_an_older_driver_has_reasons_and_limit_under_their_older_names():
    head = HEAD.replace("clocks_event", "clocks_throttle").replace("enforced.power", "power")
    assert only(head, ROW) == only(HEAD, ROW)


def test_row_of_a_lost_gpu_keeps_what_was_known_of_it():
    lost = ", ".join(["0", *["[GPU is lost]"] * 11])
    assert only(HEAD, ROW, lost) == GpuSample(0, "GPU-aaaa", "NVIDIA H100 80GB HBM3", lost=True)


def test_row_of_a_lost_gpu_without_a_number_is_told_by_its_place():
    table = fed(
        HEAD, ROW, ", ".join(["[GPU is lost]"] * 12), ROW.replace("0, GPU-aaaa", "2, GPU-cccc")
    )
    assert {index: row.sample.lost for index, row in table.rows.items()} == {
        0: False,
        1: True,
        2: False,
    }


@pytest.mark.parametrize(
    "line",
    [
        "Unable to determine the device handle for GPU0: 0000:1B:00.0: Unknown Error",  # as driver 610 printed it
        "Unable to determine the device handle for GPU 00000000:1B:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error",
        "Unable to determine the device handle for gpu 0000:1b:00.0: Not Found",
        "Unable to determine the device handle for GPU 00000000:1B:00.0:",
    ],
)
def test_sentence_about_a_fallen_gpu_marks_that_one_as_lost(line):
    assert only(HEAD, ROW, line).lost


@pytest.mark.parametrize(
    "line",
    [
        "Unable to determine the device handle for GPU0000:91:00.0: Unknown Error",  # of another one, and not of GPU 0
        "Unable to determine the device handle for GPU: Unknown Error",
        "Unable to determine the device handle for GPU 0000:1B:00.0: Insufficient Permissions",
    ],
)
def test_sentence_about_another_gpu_or_about_rights_leaves_this_one_as_it_is(line):
    assert not only(HEAD, ROW, line).lost


def test_row_with_mig_on_has_no_utilization():
    table = fed(HEAD, ROW.replace("Disabled", "Enabled"))
    assert table.rows[0].sample.util_percent is None
    assert table.rows[0].is_mig_on


def test_sentence_is_kept_and_a_refused_field_named():
    table = fed('Field "clocks_event_reasons.active" is not a valid field to query.', "")
    assert table.refused == "clocks_event_reasons.active"
    assert (
        fed(
            "Failed to initialize NVML: Driver/library version mismatch",
            "NVML library version: 580.173",
        ).message
        == "NVML library version: 580.173"
    )


def test_garbage_is_no_row():
    assert fed(HEAD, "x, " * 30, "\x00\xff", ",,,,,,,,,,,,,,,,", "-1" + ROW[1:]).rows == {}


def test_pids_are_sorted_by_the_gpu_and_names_that_are_hidden_do_not_matter():
    text = "GPU-aaaa, 31\nGPU-bbbb, 7\nGPU-aaaa, 9\nGPU-aaaa, [Not Found]\n"
    assert pids_in(text) == {"GPU-aaaa": (9, 31), "GPU-bbbb": (7,)}


def test_instances_are_listed_under_their_gpu():
    text = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)\n  MIG 3g.20gb     Device  0: (UUID: MIG-1111)\n"
        "  MIG 1g.5gb      Device  1: (UUID: MIG-2222)\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb)\n"
    )
    assert instances_in(text) == {
        0: (
            GpuSample(0, "MIG-1111", "MIG 3g.20gb", is_mig=True),
            GpuSample(0, "MIG-2222", "MIG 1g.5gb", is_mig=True),
        )
    }


def test_reasons_are_words_and_an_unknown_bit_its_number():
    assert words_of(0) == ()
    assert words_of(0x1 | 0x20 | 0x800) == ("idle", "software thermal slowdown", "reason 0x800")
