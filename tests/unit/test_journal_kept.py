"""Which runs the journal keeps: the newest, and all that still counts."""

from dataclasses import replace

from hosttune.actions.journal.journal import FOLDER, KEEP, JournalWriter, read_journal
from hosttune.actions.journal.lines import Run, StepId
from hosttune.actions.journal.recover import prune
from hosttune.actions.undo import find_original
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import Action, Address, Change
from tests.unit.fake_reader import FakeReader


def record(writer, number, *, after="10", undoes=None, is_done=True):
    run = Run(
        f"run-{number:03d}",
        "undo" if undoes else "apply",
        f"2026-01-01T00:00:{number:02d}+00:00",
        "me",
        "b",
        "d",
        "0",
    )
    recorder = JournalWriter.start(writer, run)
    if after:
        step = recorder.intent(
            Change(Address("sysctl", f"vm.x{number}"), Action.UPDATE, "60", after, "rule"), undoes
        )
        (recorder.done if is_done else lambda step: recorder.record_failure(step, "no"))(step)
    recorder.finish()
    return StepId(run.id, 1)


def kept(writer):
    prune(writer, read_journal(writer))
    return [run.id for run in read_journal(writer).runs]


def empty_runs(writer, first, count):
    for number in range(first, first + count):
        record(writer, number, after="")


def test_prune_keeps_the_newest_runs():
    writer = Overlay(FakeReader())
    empty_runs(writer, 0, KEEP + 5)
    assert kept(writer) == [f"run-{number:03d}" for number in range(5, KEEP + 5)]


def test_prune_keeps_an_old_run_that_is_still_in_force():
    writer = Overlay(FakeReader())
    record(writer, 0)
    record(writer, 1, is_done=False)
    empty_runs(writer, 2, KEEP)
    assert kept(writer)[0] == "run-000"
    assert "run-001" not in kept(writer)
    assert len(read_journal(writer).in_force) == 1


def test_prune_drops_what_was_undone_together_with_its_undo():
    writer = Overlay(FakeReader())
    step = record(writer, 0)
    record(writer, 1, after="60", undoes=step)
    empty_runs(writer, 2, KEEP)
    assert kept(writer)[0] == "run-002"


def test_prune_keeps_the_undo_of_a_step_whose_run_is_kept():
    writer = Overlay(FakeReader())
    run = Run("run-000", "apply", "2026-01-01T00:00:00+00:00", "me", "b", "d", "0")
    recorder = JournalWriter.start(writer, run)
    for number in (1, 2):
        change = Change(Address("sysctl", f"vm.y{number}"), Action.UPDATE, "60", "10", "rule")
        recorder.done(recorder.intent(change))
    recorder.finish()
    record(writer, 1, after="60", undoes=StepId("run-000", 1))
    empty_runs(writer, 2, KEEP)
    assert kept(writer)[:2] == ["run-000", "run-001"]
    assert [step.id for step in read_journal(writer).in_force] == [StepId("run-000", 2)]


def test_prune_keeps_the_undo_that_stopped_half_way_of_a_step_in_force():
    writer = Overlay(FakeReader())
    step = record(writer, 0)
    run = Run("run-001", "undo", "2026-01-01T00:00:01+00:00", "me", "b", "d", "0")
    recorder = JournalWriter.start(writer, run)
    back = Change(Address("sysctl", "vm.x0"), Action.UPDATE, "10", "60", "rule")
    recorder.record_failure(recorder.intent(back, step), "stopped", replace(back, after="33"))
    recorder.finish()
    empty_runs(writer, 2, KEEP)
    assert kept(writer)[:2] == ["run-000", "run-001"]
    assert [step.change.after for step in read_journal(writer).in_force] == ["33"]


def test_run_files_lie_where_the_journal_looks():
    writer = Overlay(FakeReader())
    record(writer, 0)
    assert writer.list(FOLDER) == ("run-000.jsonl",)


def test_prune_keeps_what_was_undone_on_paper_while_a_later_value_is_in_force():
    """The first run alone knows the value to which the second returns."""
    writer = Overlay(FakeReader({"/proc/sys/vm/x": "5\n"}))
    address = Address("sysctl", "vm.x")
    first = step_of(writer, 0, Change(address, Action.UPDATE, "60", "10", "rule"))
    second = step_of(writer, 1, Change(address, Action.UPDATE, "10", "5", "rule"))
    step_of(writer, 2, Change(address, Action.UPDATE, "10", "60", "rule"), first, superseded=True)
    empty_runs(writer, 3, KEEP)
    assert kept(writer)[:3] == ["run-000", "run-001", "run-002"]
    journal = read_journal(writer)
    (step,) = journal.in_force
    assert step.id == second
    assert find_original(step, journal) == "60"


def step_of(writer, number, change, undoes=None, *, superseded=False):
    run = Run(
        f"run-{number:03d}",
        "undo" if undoes else "apply",
        f"2026-01-01T00:00:{number:02d}+00:00",
        "me",
        "b",
        "d",
        "0",
    )
    recorder = JournalWriter.start(writer, run)
    step = recorder.intent(change, undoes, superseded=superseded)
    recorder.done(step)
    recorder.finish()
    return step


def test_prune_lets_what_was_undone_on_paper_go_where_nothing_is_in_force_there():
    writer = Overlay(FakeReader({"/proc/sys/vm/x": "60\n"}))
    address = Address("sysctl", "vm.x")
    first = step_of(writer, 0, Change(address, Action.UPDATE, "60", "10", "rule"))
    step_of(writer, 1, Change(address, Action.UPDATE, "60", "60", "rule"), first, superseded=True)
    empty_runs(writer, 2, KEEP)
    assert kept(writer)[0] == "run-002"
