"""A drop-in that takes one option out of a packaged command line, and follows that line."""

from types import SimpleNamespace

import pytest

from hosttune.facts.placed import Placed
from hosttune.facts.processes import NamedProcesses
from hosttune.facts.services.unit_settings import UnitSetting
from hosttune.resources import wish_kinds
from hosttune.resources.base import Applied, Context, Wish
from hosttune.resources.services.unit_dropin import remove_option
from hosttune.values import (
    ABSENT,
    Action,
    Address,
    Disturbs,
    FileValue,
    HoldKind,
    Risk,
    Trigger,
    Unreadable,
    Verdict,
)
from tests.unit.wish_host import typed

NAME = "nvidia-persistenced.service"
OPTION = "--no-persistence-mode"
PACKAGED = f"/usr/lib/systemd/system/{NAME}"
OURS = f"/etc/systemd/system/{NAME}.d/60-hosttune-gpu-persistence.conf"
LINE = f"/usr/bin/nvidia-persistenced --user nvpd {OPTION} --verbose"
FILE = Address("file", OURS)


def compare(rows, present=ABSENT, running=(), ledger=None, problem=""):
    """`rows`: the values of ExecStart=, None without a unit; either they or `running` may be
    Unreadable.
    """
    values = rows if isinstance(rows, Unreadable) else tuple(rows or ())
    facts = SimpleNamespace(
        unit_settings={
            f"{NAME}/Service/ExecStart": UnitSetting(
                rows is not None, is_masked=False, values=values
            )
        },
        processes={"nvidia-persistenced": NamedProcesses(running, started_at=0)},
    )
    wish = Wish("unit-dropin", NAME, "gpu-persistence", NAME, {"without": OPTION})
    context = Context(facts, {FILE: present}, ledger or {}, Risk.LOW, Disturbs.NOTHING, problem)
    (finding,) = typed(wish_kinds()["unit-dropin"].compare((wish,), context))
    return finding


def row(command, path=PACKAGED):
    return Placed(command, path, 2)


def written(line=LINE):
    """What the rule writes for this packaged line, and the ledger that remembers it."""
    (change,) = compare((row(line),)).changes
    return change.after, {FILE: Applied("run-1", "gpu-persistence", change.after)}


def test_packaged_line_with_the_option_is_derived_without_it():
    finding = compare((row(LINE),))
    (change,) = finding.changes
    assert (finding.verdict, change.action, change.address) == (
        Verdict.DIFFERS,
        Action.CREATE,
        FILE,
    )
    assert change.after.content.endswith(
        b"[Service]\nExecStart=\nExecStart=/usr/bin/nvidia-persistenced --user nvpd --verbose\n"
    )
    assert change.triggers == (Trigger("daemon-reload"), Trigger("restart", NAME))


def test_packaged_line_that_changed_is_derived_anew():
    present, ledger = written()
    longer = f"{LINE} --uvm"
    rows = (row(longer), row("", OURS), row(remove_option(LINE, OPTION), OURS))
    finding = compare(rows, present, ledger=ledger)
    (change,) = finding.changes
    assert change.action is Action.UPDATE
    assert "not derived from the present line" in finding.reason
    assert b"--verbose --uvm\n" in change.after.content


def test_packaged_line_that_lost_the_option_takes_the_drop_in_away():
    present, ledger = written()
    rows = (
        row("/usr/bin/nvidia-persistenced"),
        row("", OURS),
        row(remove_option(LINE, OPTION), OURS),
    )
    (change,) = compare(rows, present, ledger=ledger).changes
    assert (change.action, change.after) == (Action.DELETE, ABSENT)
    assert change.triggers[1] == Trigger("restart", NAME)


def test_needless_drop_in_that_somebody_edited_stays():
    _, ledger = written()
    finding = compare(
        (row("/usr/bin/nvidia-persistenced"),), FileValue(b"[Service]\n"), ledger=ledger
    )
    assert (finding.hold.kind, finding.changes) == (HoldKind.EDITED, ())


def test_edited_drop_in_is_theirs():
    _, ledger = written()
    finding = compare((row(LINE),), FileValue(b"[Service]\n"), ledger=ledger)
    assert (finding.hold.kind, finding.changes) == (HoldKind.EDITED, ())
    assert f"remove {OURS}" in finding.todo


def test_drop_in_without_a_readable_journal_is_unknown():
    assert (
        compare((row(LINE),), FileValue(b"[Service]\n"), problem="needs root").verdict
        is Verdict.UNKNOWN
    )


@pytest.mark.parametrize(
    ("running", "verdict", "hold"),
    [
        ((f"/usr/bin/nvidia-persistenced {OPTION}",), Verdict.DIFFERS, HoldKind.WAITING),
        (("/usr/bin/nvidia-persistenced --verbose",), Verdict.OK, HoldKind.NONE),
        ((), Verdict.OK, HoldKind.NONE),
        (Unreadable("not in this record"), Verdict.UNKNOWN, HoldKind.NONE),
    ],
)
def test_file_in_place_is_judged_by_what_runs(running, verdict, hold):
    present, ledger = written()
    finding = compare((row(LINE),), present, running, ledger)
    assert (finding.verdict, finding.hold.kind, finding.changes) == (verdict, hold, ())


@pytest.mark.parametrize(
    "path", ["/etc/systemd/system/nvidia-persistenced.service", "/run/systemd/system/x.conf"]
)
def test_command_line_of_an_administrator_is_left_alone(path):
    finding = compare((row(LINE), row("", path), row(LINE, path)))
    assert (finding.verdict, finding.hold.kind, finding.changes) == (
        Verdict.ADVICE,
        HoldKind.OWNED,
        (),
    )


@pytest.mark.parametrize("rows", [Unreadable("needs root"), (), (row("/bin/a"), row("/bin/b"))])
def test_unit_that_cannot_be_judged_is_unknown(rows):
    assert compare(rows).verdict is Verdict.UNKNOWN


def test_unit_that_is_not_there_is_not_applicable():
    assert compare(None).verdict is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("/bin/a --no-x --y", "/bin/a --y"),
        ("/bin/a --y --no-x", "/bin/a --y"),
        ("/bin/a --no-x-y --no-x", "/bin/a --no-x-y"),
        ("/bin/a --user --no-x=1", "/bin/a --user --no-x=1"),
    ],
)
def test_only_the_option_itself_is_taken_out(line, left):
    assert remove_option(line, "--no-x") == left
