"""One value for many numbered files below /sys."""

import pytest

from hosttune.errors import Conflict
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds
from hosttune.resources.kernel.sysfs_set import number_paths, parse_values, spell_values
from hosttune.resources.kernel.sysfs_values import make_tee
from hosttune.values import ABSENT, Action, Address, Change, Unreadable
from tests.unit.fake_reader import FakeReader

PATTERN = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
KIND = address_kinds()["sysfs-set"]


def cpu(number):
    return PATTERN.replace("*", str(number))


def door(values, **options):
    files = {
        cpu(number): value if isinstance(value, Unreadable) else f"{value}\n"
        for number, value in values.items()
    }
    return Overlay(FakeReader(files, folders=("/sys/devices/system/cpu/cpufreq",), **options))


def change(before, after):
    return Change(Address("sysfs-set", PATTERN), Action.UPDATE, before, after, "cpu-governor")


MIXED = {0: "a", 1: "a", 2: "b", 3: "a", 10: "b", 11: "b"}


def test_set_that_holds_one_value_is_that_value():
    assert KIND.read(door(dict.fromkeys(range(12), "powersave")), PATTERN) == "powersave"


def test_set_that_differs_has_a_row_for_each_value():
    assert KIND.read(door(MIXED), PATTERN) == ("0-1,3: a", "2,10-11: b")


def test_set_of_no_file_is_absent_and_an_unreadable_one_unknown():
    assert KIND.read(door({}), PATTERN) is ABSENT
    assert KIND.read(door({0: "a", 1: Unreadable("denied")}), PATTERN) == Unreadable("denied")


def test_set_whose_files_cannot_be_listed_is_not_written():
    blind = Overlay(FakeReader({}, unreadable={"/sys/devices/system/cpu": "denied"}))
    assert KIND.read(blind, PATTERN) == Unreadable("denied")
    with pytest.raises(Conflict, match="is no longer a"):
        KIND.write(blind, change("a", "b"))


@pytest.mark.parametrize(
    "values", [MIXED, {0: "x"}, {5: "n/a", 6: "0"}, dict.fromkeys(range(99), "a b")]
)
def test_spelled_set_reads_back(values):
    assert dict(parse_values(spell_values(values), values)) == values


@pytest.mark.parametrize(
    ("pattern", "paths", "found"),
    [
        ("/a/cpu*/x", ("/a/cpu1/x", "/a/cpu12/x"), {1: "/a/cpu1/x", 12: "/a/cpu12/x"}),
        ("/a/cpu*/x", ("/a/cpu1/x", "/a/cpufreq/x"), None),
        ("/a/sd*/x", ("/a/sda/x",), None),
        ("/a/cpu1/x", ("/a/cpu1/x",), None),
        ("/a/*/b*/x", ("/a/1/b2/x",), None),
        ("/a/cpu*/state[12]", ("/a/cpu1/state1",), None),
    ],
)
def test_numbers_of_what_one_star_stands_for(pattern, paths, found):
    assert number_paths(pattern, paths) == found


def test_set_is_written_and_taken_back_to_each_value():
    host = door(MIXED)
    there = change(KIND.read(host, PATTERN), "b")
    KIND.write(host, there)
    assert {host.read(cpu(number)) for number in MIXED} == {b"b\n"}
    KIND.write(host, KIND.invert(there))
    assert {number: host.read(cpu(number)).decode().strip() for number in MIXED} == MIXED


def test_set_writes_only_what_differs():
    class Counting(Overlay):
        written = ()

        def set_value(self, path, text):
            self.written += (path,)
            super().set_value(path, text)

    host = Counting(door(MIXED))
    KIND.write(host, change(KIND.read(host, PATTERN), "a"))
    assert host.written == (cpu(2), cpu(10), cpu(11))


def test_set_that_changed_meanwhile_is_left():
    host = door(MIXED)
    with pytest.raises(Conflict):
        KIND.write(host, change("a", "b"))
    assert KIND.read(host, PATTERN) == ("0-1,3: a", "2,10-11: b")


def test_step_by_hand_leaves_only_wildcards_to_the_shell():
    """A rule of a site can name any path below /sys."""
    assert (
        make_tee("/sys/block/sd[a-c]*/queue/x", "8") == "echo 8 | tee /sys/block/sd[a-c]*/queue/x"
    )
    shown = make_tee("/sys/class/net/$(id)*/x", "8")
    assert shown == "echo 8 | tee '/sys/class/net/$(id)'*/x"
