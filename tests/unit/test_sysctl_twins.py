"""Settings in two spellings, of which one is in force: vm.dirty_bytes and vm.dirty_ratio."""

from hosttune.facts import Facts
from hosttune.facts.placed import Placed
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds
from hosttune.values import Action, Address, Change
from tests.unit.fake_reader import FakeReader

BYTES, RATIO = "/proc/sys/vm/dirty_bytes", "/proc/sys/vm/dirty_ratio"
LIVE = address_kinds()["sysctl"]


def change(before, after):
    return Change(
        Address("sysctl", "vm.dirty_bytes"), Action.UPDATE, before, after, "memory-dirty-limits"
    )


def test_sysctl_reads_the_spelling_that_is_in_force():
    ratio = FakeReader({BYTES: "0\n", RATIO: "20\n"})
    size = FakeReader({BYTES: "1048576\n", RATIO: "0\n"})
    assert LIVE.read(ratio, "vm.dirty_bytes") == "vm.dirty_ratio=20"
    assert LIVE.read(ratio, "vm.dirty_ratio") == "20"
    assert LIVE.read(size, "vm.dirty_bytes") == "1048576"
    assert LIVE.read(size, "vm.dirty_ratio") == "vm.dirty_bytes=1048576"


def test_sysctl_goes_to_the_other_spelling_and_back():
    door = Overlay(FakeReader({BYTES: "0\n", RATIO: "20\n"}))
    there = change("vm.dirty_ratio=20", "1048576")
    LIVE.write(door, there)
    assert (door.read(BYTES), door.read(RATIO)) == (b"1048576\n", b"0\n")
    LIVE.write(door, LIVE.invert(there))
    assert (door.read(BYTES), door.read(RATIO)) == (b"0\n", b"20\n")


def test_sysctl_same_value_again_leaves_the_other_spelling():
    door = Overlay(FakeReader({BYTES: "0\n", RATIO: "20\n"}))
    door.set_value(BYTES, "0\n")
    assert door.read(RATIO) == b"20\n"


def test_sysctl_files_name_who_sets_the_other_spelling():
    reader = FakeReader(
        {
            "/etc/sysctl.d/10-a.conf": "vm.dirty_bytes = 5000000\nvm.dirty_background_ratio = 3\n",
            "/etc/sysctl.d/20-b.conf": "# 1\nvm.dirty_ratio=40\n",
        }
    )
    assert Facts(reader).sysctl_at_boot["vm.dirty_bytes"].settings == (
        Placed("5000000", "/etc/sysctl.d/10-a.conf", 1),
        Placed("vm.dirty_ratio=40", "/etc/sysctl.d/20-b.conf", 2),
    )
