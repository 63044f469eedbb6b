"""The window through which the bus reaches the memory of a GPU."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.gpu.bar1 import window_in
from tests.unit.fake_reader import FakeReader

SLOT = "/sys/bus/pci/devices/0000:1b:00.0"
NONE = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
REGISTERS = "0x00000000c6000000 0x00000000c6ffffff 0x0000000000040200\n"
WHOLE = "0x0000380000000000 0x0000381fffffffff 0x000000000014220c\n"


def windows_of(device, board="16c1", **more):
    files = {
        "vendor": "0x10de",
        "device": device,
        "class": "0x030200",
        "subsystem_vendor": "0x10de",
        "subsystem_device": f"0x{board}",
    }
    paths = {f"{SLOT}/{name}": text for name, text in files.items()} | {f"{SLOT}/resource": REGISTERS + WHOLE + NONE}
    return Facts(FakeReader(paths, **more)).bar1.windows


def test_largest_of_six_windows():
    assert window_in(REGISTERS + WHOLE + NONE) == 128 << 30
    assert window_in(NONE * 6 + WHOLE) == 0  # the seventh is the ROM
    assert window_in("") == window_in("nothing\n") == 0


@pytest.mark.parametrize(
    ("device", "board", "gib"),
    [("0x2330", "16c1", 80), ("0x2335", "18be", 141), ("0x20b2", "1463", 80), ("0x26b9", "1851", 48)],
)
def test_memory_that_the_bus_reaches_by_design(device, board, gib):
    (window,) = windows_of(device, board)
    assert (window.bytes, window.memory_bytes) == (128 << 30, gib << 30)


@pytest.mark.parametrize(
    ("device", "board"), [("0x1eb8", "12a2"), ("0x2684", "167c"), ("0x2342", "1809"), ("0x2236", "14bb")]
)
def test_cards_with_a_small_window_on_purpose_and_parts_of_cards(device, board):
    assert windows_of(device, board) == ()


def test_window_that_cannot_be_read_is_unknown():
    (window,) = windows_of("0x2330", unreadable={f"{SLOT}/resource": "may not"})
    with pytest.raises(UnknownFact, match="may not"):
        _ = window.bytes
