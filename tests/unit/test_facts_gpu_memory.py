"""The memory of a GPU, and the window through which the bus reaches it."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.gpu_memory import QUERY, MemorySizes, sizes_in, window_in
from hosttune.facts.gpu.nvidia_smi import QUERY as LIST
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

SLOT = "/sys/bus/pci/devices/0000:1b:00.0"
NONE = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
REGISTERS = "0x00000000c6000000 0x00000000c6ffffff 0x0000000000040200\n"
WHOLE = "0x0000380000000000 0x0000381fffffffff 0x000000000014220c\n"
ANSWER = """
==============NVSMI LOG==============

Timestamp                                 : Fri Nov 27 20:00:00 2026
Driver Version                            : 580.126.20
CUDA Version                              : 13.0

Attached GPUs                             : 1
GPU 00000000:1B:00.0
    MIG Mode
        Current                           : Enabled
    MIG Device
        FB Memory Usage
            Total                         : 9856 MiB
        BAR1 Memory Usage
            Total                         : 16383 MiB
    FB Memory Usage
        Total                             : {memory}
        Reserved                          : 551 MiB
        Used                              : 0 MiB
        Free                              : 81007 MiB
    BAR1 Memory Usage
        Total                             : {window}
        Used                              : 1 MiB
        Free                              : 131071 MiB
    Conf Compute Protected Memory Usage
        Total                             : 0 MiB
"""


def answer_of(memory="81559 MiB", window="131072 MiB"):
    return ANSWER.format(memory=memory, window=window)


def memory_of(device, board="16c1", name="NVIDIA H100 80GB HBM3", answer=None, **more):
    files = {
        "vendor": "0x10de",
        "device": device,
        "class": "0x030200",
        "subsystem_vendor": "0x10de",
        "subsystem_device": f"0x{board}",
    }
    paths = {f"{SLOT}/{key}": text for key, text in files.items()} | {
        f"{SLOT}/resource": REGISTERS + WHOLE + NONE
    }
    paths |= {
        "/proc/driver/nvidia/gpus/0000:1b:00.0/information": f"Model: \t\t {name}\n",
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  Release Build\n",
        "/proc/modules": "nvidia 1 0 - Live 0x0\n",
        "/sys/module/nvidia/version": "580.126.20\n",
    }
    links = {f"{SLOT}/driver": "../../bus/pci/drivers/nvidia"}
    queries = {LIST: f"00000000:1B:00.0, 580.126.20, Enabled, {name}\n"}
    if answer is not None:
        queries[QUERY] = answer
    return Facts(FakeReader(paths, links=links, queries=queries, **more)).gpu_memory


def test_largest_of_six_windows():
    assert window_in(REGISTERS + WHOLE + NONE) == 128 << 30
    assert window_in(NONE * 6 + WHOLE) == 0  # the seventh is the ROM
    assert window_in("") == window_in("nothing\n") == 0


def test_sizes_are_those_of_the_gpu_and_not_of_its_mig_devices():
    assert sizes_in(answer_of()) == {"0000:1b:00.0": MemorySizes(81559 << 20, 131072 << 20)}


@pytest.mark.parametrize("word", ["N/A", "[Unknown Error]", "", "-1 MiB"])
def test_word_in_the_place_of_a_size_is_none(word):
    assert sizes_in(answer_of(word, word)) == {"0000:1b:00.0": MemorySizes(0, 0)}
    assert sizes_in(f"No devices were found\n{word}") == {}


@pytest.mark.parametrize(
    ("device", "board", "name", "mib"),
    [
        ("0x2330", "16c1", "NVIDIA H100 80GB HBM3", 81559),
        ("0x2901", "1999", "NVIDIA B200", 183359),
        ("0x2237", "152f", "NVIDIA A10G", 23028),
        ("0x27b8", "16ca", "NVIDIA L4", 23034),
    ],
)
def test_window_has_to_reach_what_nvidia_smi_says(device, board, name, mib):
    (window,) = memory_of(device, board, name, answer_of(f"{mib} MiB", "256 MiB")).windows
    assert (window.window_bytes, window.bytes) == (256 << 20, mib << 20)


@pytest.mark.parametrize(
    "answer", [None, Unreadable("did not end within 30 s"), "", "No devices were found\n"]
)
def test_without_an_answer_the_name_and_sysfs_say_it(answer):
    (window,) = memory_of("0x2330", answer=answer).windows
    assert (window.window_bytes, window.bytes) == (128 << 30, 80 << 30)
    unnamed = memory_of("0x2335", "18be", "NVIDIA H200", answer)
    assert (unnamed.windows, unnamed.total_bytes) == ((), 0)


@pytest.mark.parametrize(
    ("device", "board", "name"),
    [
        ("0x1eb8", "12a2", "Tesla T4"),
        ("0x2684", "167c", "NVIDIA GeForce RTX 4090"),
        ("0x2342", "1809", "NVIDIA GH200 480GB"),
        ("0x20c2", "1585", "NVIDIA CMP 170HX"),
        ("0x2bb1", "204b", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"),
    ],
)
def test_cards_with_a_small_window_on_purpose_have_their_memory_counted(device, board, name):
    found = memory_of(device, board, name, answer_of("15360 MiB", "256 MiB"))
    assert (found.windows, found.total_bytes) == ((), 15360 << 20)


def test_memory_of_a_part_of_a_card_is_not_counted():
    found = memory_of("0x2236", "14bb", "NVIDIA A10-24Q", answer_of("24512 MiB", "256 MiB"))
    assert (found.windows, found.total_bytes) == ((), 0)


def test_window_that_cannot_be_read_is_unknown():
    (window,) = memory_of("0x2330", unreadable={f"{SLOT}/resource": "may not"}).windows
    with pytest.raises(UnknownFact, match="may not"):
        _ = window.window_bytes
    (window,) = memory_of(
        "0x2330", answer=answer_of(), unreadable={f"{SLOT}/resource": "may not"}
    ).windows
    assert window.window_bytes == 128 << 30
