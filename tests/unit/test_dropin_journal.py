"""A drop-in of ours where the journal, which knows who wrote it, cannot be read."""

import pytest

from hosttune.facts import Facts
from hosttune.resources.base import Applied, Context
from hosttune.resources.file import compare_dropin, hand_edit
from hosttune.values import ABSENT, Activation, Address, Disturbs, FileValue, HoldKind, Risk
from tests.unit.fake_reader import FakeReader

PATH = "/etc/sysctl.d/60-hosttune-memory-example.conf"
ADDRESS = Address("file", PATH)
OURS, OTHER = FileValue(b"vm.a = 1\n"), FileValue(b"vm.a = 2\n")


def context(present, applied=None, problem=""):
    ledger = {ADDRESS: Applied("run-1", "memory-example", applied)} if applied else {}
    return Context(
        Facts(FakeReader()), {ADDRESS: present}, ledger, Risk.LOW, Disturbs.NOTHING, problem
    )


def compare(*state):
    return compare_dropin(PATH, b"vm.a = 3\n", "memory-example", context(*state), Activation.NOW)


def test_dropin_that_differs_is_unknown_where_the_journal_cannot_be_read():
    found = compare(OTHER, None, "needs root")
    assert found.unknown == f"{PATH} differs; whether it was edited by hand: needs root"
    assert (found.change, bool(found.hold)) == (None, False)


def test_missing_dropin_is_written_whether_or_not_the_journal_can_be_read():
    assert compare(ABSENT, None, "needs root").change is not None


@pytest.mark.parametrize(
    ("present", "applied", "says"),
    [
        (OTHER, None, "not in the journal"),
        (OTHER, OURS, "was changed since run run-1 wrote it"),
        (OURS, OURS, ""),
    ],
)
def test_journal_that_can_be_read_tells_an_edit_by_hand(present, applied, says):
    found = compare(present, applied)
    assert (found.hold.kind is HoldKind.EDITED) is bool(says)
    assert says in "".join(found.evidence)
    assert (found.change is None) is bool(says)


def test_nobody_is_accused_of_an_edit_on_a_journal_that_cannot_be_read():
    assert hand_edit(ADDRESS, context(OTHER, None, "needs root")) == ""
    assert "not in the journal" in hand_edit(ADDRESS, context(OTHER))
