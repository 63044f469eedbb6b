"""What one yes began is one intention, in however many runs: an undo takes back all of it, or names
what stays.
"""

import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.actions.apply import apply, run_of
from hosttune.actions.journal.journal import JournalWriter, read_journal
from hosttune.actions.journal.receipts import FOLDER, drop_receipts, kept_receipts
from hosttune.actions.journal.recover import recover
from hosttune.actions.undo import plan_undo, undo
from hosttune.errors import Refused
from hosttune.facts import Facts
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds
from hosttune.values import (
    Action,
    Activation,
    Address,
    Change,
    Finding,
    Hold,
    HoldKind,
    Phase,
    Plan,
    Stage,
    Trigger,
    Verdict,
)
from hosttune.views.history import history_report
from hosttune.views.page import Page
from hosttune.views.plan import undo_report
from hosttune.views.receipt import receipt_report
from tests.unit.fake_reader import FakeReader

NAMES = ("a", "b", "c", "d")
BOOT = "/proc/sys/kernel/random/boot_id"


class Died(BaseException):
    """The process ends here."""


def host():
    files = {f"/proc/sys/vm/{name}": "1\n" for name in (*NAMES, "e")}
    return Overlay(FakeReader({**files, BOOT: "boot\n"}))


def change(name, **more):
    return Change(Address("sysctl", f"vm.{name}"), Action.UPDATE, "1", "2", f"rule-{name}", **more)


ALL = tuple(map(change, NAMES))


def session_on(writer):
    return SimpleNamespace(
        reader=writer,
        journal=read_journal(writer),
        facts=Facts(writer),
        selected=(),
        resumed=(),
        policy=SimpleNamespace(break_work=False),
        catalog=SimpleNamespace(
            find_id=lambda rule: rule, current=lambda rule: rule, former=lambda _: (), rules={}
        ),
    )


def plan_of(*changes, findings=()):
    return Plan("d" * 64, "0", "", "", "", (Stage(changes, ()),) if changes else (), findings)


def made(writer, *changes, findings=(), at=None, act=None, **more):
    """Apply; at the address `at`, `act` is called before the change is made."""

    def on_progress(text):
        if at and text.endswith(at):
            act()

    return apply(
        session_on(writer),
        writer,
        plan_of(*changes, findings=findings),
        on_progress=on_progress,
        **more,
    )


def stop(number=signal.SIGINT):
    return lambda: signal.raise_signal(number)


def die():
    raise Died


def interrupted(writer, how):
    """An apply of all four that ends in the middle; what it left for the next one."""
    if how == "killed":
        with pytest.raises(Died):
            made(writer, *ALL, at="vm.c", act=die)
        recover(writer)
        return ALL[2:]
    receipt = made(writer, *ALL, at="vm.b", act=stop(how))
    assert (receipt.stopped, receipt.left, receipt.failed) == (
        signal.Signals(how).name,
        ALL[2:],
        (),
    )
    return receipt.left


def taken(writer, run=None):
    return {change.address.name for change in plan_undo(session_on(writer), run).plan.changes}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, "killed"])
def test_one_undo_takes_back_an_apply_that_was_interrupted_and_what_went_on_with_it(how):
    writer = host()
    left = interrupted(writer, how)
    first = read_journal(writer).runs[0]
    receipt = made(writer, *left)
    assert receipt.part_of == first.id
    assert taken(writer) == taken(writer, first.id) == {"vm.a", "vm.b", "vm.c", "vm.d"}
    session = session_on(writer)
    planned = plan_undo(session)
    assert (planned.runs, planned.stays) == ((first.id, receipt.run_id), ())
    assert undo(session, writer, planned).failed == ()
    assert {writer.read(f"/proc/sys/vm/{name}") for name in NAMES} == {b"1\n"}
    assert read_journal(writer).in_force == ()


def test_part_that_is_named_is_taken_back_by_itself_and_what_stays_is_named():
    writer = host()
    left = interrupted(writer, "killed")
    first = read_journal(writer).runs[0].id
    receipt = made(writer, *left)
    planned = plan_undo(session_on(writer), receipt.run_id)
    assert {change.address.name for change in planned.plan.changes} == {"vm.c", "vm.d"}
    assert [(one.run.id, one.changes) for one in planned.stays] == [(first, 2)]


def test_history_calls_an_interruption_no_failure_and_says_what_belongs_together():
    writer = host()
    interrupted(writer, "killed")
    told = history_report(read_journal(writer), Page())
    assert "failed" not in told
    assert "interrupted" in told
    assert "2 of 4" in told
    first = read_journal(writer).runs[0].id
    made(writer, *ALL[2:])
    told = " ".join(history_report(read_journal(writer), Page()).split())
    assert "interrupted, finished later" in told
    assert f"finished, part of {first}" in told
    assert f"undo {first}" in told
    assert read_journal(writer).status(read_journal(writer).runs[0]) == "finished"


def test_other_plan_is_another_intention_and_an_undo_without_words_names_what_stays():
    writer = host()
    interrupted(writer, "killed")
    first = read_journal(writer).runs[0].id
    assert made(writer, change("e")).part_of == ""
    planned = plan_undo(session_on(writer))
    assert {change.address.name for change in planned.plan.changes} == {"vm.e"}
    assert [(one.run.id, one.changes) for one in planned.stays] == [(first, 2)]


def test_change_that_failed_was_tried_so_trying_it_again_is_another_intention(monkeypatch):
    writer = host()
    plain = writer.set_value

    def full(path, text):
        if path.endswith("/d"):
            raise Refused("no room")
        plain(path, text)

    monkeypatch.setattr(writer, "set_value", full)
    assert made(writer, *ALL).failed
    monkeypatch.setattr(writer, "set_value", plain)
    assert made(writer, ALL[3]).part_of == ""


def test_undo_ends_an_intention():
    writer = host()
    interrupted(writer, "killed")
    session = session_on(writer)
    undo(session, writer, plan_undo(session))
    assert made(writer, *ALL).part_of == ""


def test_undo_that_is_stopped_is_gone_on_with_and_counts_as_no_failure():
    writer = host()
    made(writer, *ALL)
    session = session_on(writer)
    receipt = undo(
        session,
        writer,
        plan_undo(session),
        on_progress=lambda text: text.endswith("vm.c") and stop()(),
    )
    assert (receipt.stopped, len(receipt.left), receipt.failed) == ("SIGINT", 2, ())
    journal = read_journal(writer)
    assert [journal.status(run) for run in journal.runs] == ["partly undone", "interrupted"]
    session = session_on(writer)
    undo(session, writer, plan_undo(session))
    journal = read_journal(writer)
    assert (journal.in_force, journal.runs[2].part_of) == ((), journal.runs[1].id)
    assert [journal.status(run) for run in journal.runs] == ["undone", "finished", "finished"]


def test_receipt_of_an_undo_that_is_stopped_names_the_same_command():
    writer = host()
    first = made(writer, ALL[0], ALL[1]).run_id
    made(writer, ALL[2])
    session = session_on(writer)
    planned = plan_undo(session, first)
    receipt = undo(
        session, writer, planned, on_progress=lambda text: text.endswith("vm.b") and stop()()
    )
    told = receipt_report(receipt, Page(), is_undo=True, of=planned, words=f"undo {first}")
    assert "stopped by SIGINT: 1 change undone, 1 not begun." in told
    assert f"hosttune undo {first} --yes" in told


def test_undo_says_which_runs_it_was_of_and_what_other_runs_left_in_force():
    writer = host()
    other = made(writer, change("e")).run_id
    left = interrupted(writer, "killed")
    made(writer, *left)
    planned = plan_undo(session_on(writer))
    told = " ".join(undo_report(planned.plan, Page(), words="undo", of=planned).split())
    assert f"Of runs {planned.runs[0]} and {planned.runs[1]}, one intention." in told
    assert f"1 change of run {other}" in told
    assert f"hosttune undo {other} --yes" in told


def booted(writer, name):
    writer.set_value(BOOT, f"{name}\n")


def test_what_waited_for_a_boot_is_part_of_the_run_before_it_also_where_somebody_booted():
    writer = host()
    waits = Finding(
        "rule-d", "", Verdict.DIFFERS, Hold(HoldKind.WAITING, "reboot"), changes=(ALL[3],)
    )
    first = made(writer, ALL[0], findings=(waits,)).run_id
    booted(writer, "next")
    assert made(writer, ALL[3]).part_of == first
    assert taken(writer) == {"vm.a", "vm.d"}


def test_stage_that_only_a_boot_brings_is_part_of_the_run_that_needed_it_once():
    writer = host()
    driver = replace(
        change("a", activation=Activation.REBOOT), address=Address("package-set", "driver")
    )
    journal = read_journal(writer)
    run = run_of(writer, journal, plan_of(driver))
    assert run.boots == 2
    recorder = JournalWriter.start(writer, run)
    recorder.done(recorder.intent(driver))
    recorder.finish()
    assert (
        run_of(writer, read_journal(writer), plan_of(ALL[1])).part_of == ""
    )  # the boot is not there yet
    booted(writer, "next")
    assert made(writer, ALL[1]).part_of == run.id
    booted(writer, "later")
    assert made(writer, ALL[2]).part_of == ""


def test_run_that_is_known_to_go_on_with_another_one_is_part_of_it():
    writer = host()
    first = made(writer, ALL[0]).run_id
    assert made(writer, ALL[1], part_of=first).part_of == first
    assert taken(writer) == {"vm.a", "vm.b"}


def test_triggers_that_wait_for_nobody_are_left_where_a_run_is_stopped(monkeypatch):
    writer = host()
    monkeypatch.setattr(
        "hosttune.actions.apply.run_trigger", lambda *_: pytest.fail("it was stopped")
    )
    monkeypatch.setattr("hosttune.actions.apply.must_wait", lambda *_: "")
    receipt = made(writer, change("a", triggers=(Trigger("daemon-reload"),)), at="vm.a", act=stop())
    assert (receipt.stopped, receipt.left, receipt.waiting) == (
        "SIGINT",
        (),
        ("daemon-reload waits: the run was stopped",),
    )
    assert read_journal(writer).pending_triggers("boot") == (Trigger("daemon-reload"),)


def test_what_is_stopped_before_its_act_was_not_made_and_did_not_fail(monkeypatch):
    from hosttune.errors import Refused

    writer = host()

    def heeds(*_, **__):
        signal.raise_signal(signal.SIGINT)
        raise Refused("stopped while apt was at work")

    monkeypatch.setattr(address_kinds()["sysctl"], "prepare", heeds)
    receipt = made(writer, *ALL)
    assert (receipt.outcomes, receipt.left) == ((), ALL)
    (step,) = read_journal(writer).runs[0].steps
    assert (step.phase, step.is_interrupted) == (Phase.FAILED, True)


def test_receipt_of_each_run_is_kept_as_long_as_the_run_and_holds_no_secret():
    writer = host()
    receipt = made(writer, change("a", details=("token=ghp_" + "a" * 36,)))
    session = session_on(writer)
    back = undo(session, writer, plan_undo(session))
    assert kept_receipts(writer) == {receipt.run_id, back.run_id}
    assert b"ghp_" not in writer.read(f"{FOLDER}/{receipt.run_id}.json")
    drop_receipts(writer, {back.run_id})
    assert kept_receipts(writer) == {back.run_id}
