"""The address of a whole file, and a drop-in of ours against what a rule wants: whose it is, and
whose it became.
"""

from types import SimpleNamespace

import pytest

from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds
from hosttune.resources.base import Applied
from hosttune.resources.file import compare_dropin, dropin_text
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    Disturbs,
    FileValue,
    Hold,
    HoldKind,
    Risk,
    Unreadable,
    Verdict,
)
from tests.unit.fake_reader import FakeReader
from tests.unit.wish_host import RULE, One, host

PATH = "/etc/x.d/60-hosttune-some-rule.conf"
ADDRESS = Address("file", PATH)
WANTED = dropin_text("some-rule", ("a = 1",))


def test_file_is_read_with_its_owner_and_bits_and_comes_back_with_them():
    writer = Overlay(FakeReader())
    kind = address_kinds()["file"]
    old = FileValue(b"old\n", 0o640, 1000, 4)
    writer.replace(PATH, old, expected=ABSENT)
    assert kind.read(writer, PATH) == old
    change = Change(ADDRESS, Action.UPDATE, old, FileValue(b"new\n"), "some-rule")
    kind.write(writer, change)
    kind.write(writer, kind.invert(change))
    back = kind.read(writer, PATH)
    assert (back.content, back.mode, back.uid, back.gid) == (b"old\n", 0o640, 1000, 4)


def test_file_that_cannot_be_read_is_unreadable_and_a_folder_is_none():
    reader = FakeReader({PATH: "x"}, folders=("/etc/folder",))
    kind = address_kinds()["file"]
    assert kind.read(reader, "/etc/folder") == Unreadable("/etc/folder is a directory, not a file")
    reader.read = lambda path: Unreadable("needs root")
    assert kind.read(reader, PATH) == Unreadable("needs root")


def compared(present, *, after=None, problem=""):
    context = SimpleNamespace(
        state={ADDRESS: present},
        ledger={ADDRESS: Applied("run-7", "some-rule", after)} if after else {},
        journal_problem=problem,
        risk=Risk.LOW,
        disturbs=Disturbs.NOTHING,
    )
    return compare_dropin(PATH, WANTED, "some-rule", context, Activation.NOW)


BARE, OTHER = FileValue(b"a = 1\n"), FileValue(b"a = 2\n")


@pytest.mark.parametrize(
    ("present", "after"),
    [
        (FileValue(WANTED), None),
        (FileValue(WANTED), FileValue(WANTED)),
        (BARE, None),
        (BARE, BARE),  # an older version of hosttune wrote it with another header
    ],
)
def test_dropin_with_the_lines_that_are_wanted_is_in_place_whoever_wrote_it(present, after):
    found = compared(present, after=after)
    assert (found.change, found.hold, found.evidence) == (None, Hold(), (f"{PATH} is in place",))


@pytest.mark.parametrize(
    ("present", "after", "why"),
    [
        (OTHER, None, f"{PATH} is not in the journal: hosttune does not know who wrote it"),
        (OTHER, FileValue(WANTED), f"{PATH} was changed since run run-7 wrote it"),
        # ours once, and a person has taken our words out of it
        (BARE, FileValue(WANTED), f"{PATH} was changed since run run-7 wrote it"),
    ],
)
def test_dropin_that_somebody_edited_is_theirs(present, after, why):
    found = compared(present, after=after)
    assert (found.change, found.hold, found.evidence) == (None, Hold(HoldKind.EDITED, PATH), (why,))
    assert found.todo == f"keep it and ignore some-rule, or remove {PATH}"


def test_dropin_of_ours_follows_what_is_wanted_and_a_missing_one_is_made():
    before = compared(OTHER, after=OTHER).change
    assert (before.action, before.before, before.after.content, before.rule) == (
        Action.UPDATE,
        OTHER,
        WANTED,
        "some-rule",
    )
    made = compared(ABSENT).change
    assert (made.action, made.before, made.activation) == (Action.CREATE, ABSENT, Activation.NOW)


def test_rule_whose_dropin_cannot_be_read_is_unknown_and_says_why():
    path = f"/etc/nfs.conf.d/60-hosttune-{RULE}.conf"
    door = host(unreadable={path: "needs root"})
    finding = One(
        door, f"- dropin: {path}\n  template: nfs-read-ahead.conf.j2\n  vars: {{kib: 8}}"
    ).finding()
    assert (finding.verdict, finding.reason) == (Verdict.UNKNOWN, f"{path}: needs root")


def test_dropin_that_cannot_be_read_or_told_whose_it_is_is_unknown():
    assert compared(Unreadable("needs root")).unknown == f"{PATH}: needs root"
    found = compared(OTHER, problem="needs root")
    assert (found.change, found.hold) == (None, Hold())
    assert found.unknown == f"{PATH} differs; whether it was edited by hand: needs root"


def test_dropin_says_whose_it_is():
    first, second, line = WANTED.decode().splitlines()
    assert first == "# Written by hosttune for some-rule. Edits are kept."
    assert second == "# Undo: sudo hosttune undo --rule some-rule --yes"
    assert line == "a = 1"
    longest = dropin_text("r" * 26, ()).decode().splitlines()
    assert max(map(len, longest)) <= 80 - len(
        "      + "
    )  # a plan shows it on a terminal of 80 columns
