"""What follows from the runs of the journal: how often in a row a value was set, what a run is
called, where a line is broken.
"""

import json

import pytest

from hosttune.actions.apply import new_run
from hosttune.actions.journal.journal import FOLDER, Journal, JournalWriter, boot_id, read_journal
from hosttune.actions.journal.lines import parse_run
from hosttune.codec import change_to_json
from hosttune.errors import HosttuneError
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import ABSENT, Action, Address, Change, FileValue, Phase, Trigger, Unreadable
from tests.unit.fake_reader import FakeReader

A, B = Address("sysctl", "vm.a"), Address("sysctl", "vm.b")


def host(**more):
    return Overlay(FakeReader({"/proc/sys/kernel/random/boot_id": "boot\n"}, **more))


def change(address=A, before="60", after="10", **more):
    return Change(address, Action.UPDATE, before, after, "some-rule", **more)


def ran(writer, *changes, undoes=(), is_done=True, is_finished=True):
    recorder = JournalWriter.start(
        writer, new_run(writer, read_journal(writer), "undo" if undoes else "apply", "d")
    )
    steps = []
    for number, one in enumerate(changes):
        step = recorder.intent(one, undoes[number] if undoes else None)
        (recorder.done(step) if is_done else recorder.record_failure(step, "no"))
        steps.append(step)
    if is_finished:
        recorder.finish()
    return recorder.run, steps


def test_ledger_counts_how_often_in_a_row_one_value_was_set():
    writer = host()
    counts = []
    for after in ("10", "10", "10", "20", "10"):
        run, _ = ran(writer, change(after=after), change(B))
        applied = read_journal(writer).ledger()[A]
        counts.append(applied.times)
        assert (applied.run_id, applied.rule, applied.after) == (run.id, "some-rule", after)
    assert counts == [1, 2, 3, 1, 1]
    assert read_journal(writer).ledger()[B].times == 5


def test_run_is_called_by_what_is_left_of_it():
    writer = host()
    both, steps = ran(writer, change(), change(B))
    failed, _ = ran(writer, change(), is_done=False)
    names = lambda: {run.id: read_journal(writer).status(run) for run in read_journal(writer).runs}  # noqa: E731
    assert names() == {both.id: "finished", failed.id: "nothing taken"}
    first, _ = ran(writer, change(B, "10", "60"), undoes=steps[1:])
    assert names() == {both.id: "partly undone", failed.id: "nothing taken", first.id: "finished"}
    second, _ = ran(writer, change(A, "10", "60"), undoes=steps[:1])
    stopped, _ = ran(writer, change(), is_finished=False)
    assert names()[both.id] == "undone"
    assert names()[second.id] == "finished"
    assert names()[stopped.id] == "interrupted"


def test_run_goes_by_the_beginning_of_its_id_where_that_is_one_alone():
    writer = host()
    first, _ = ran(writer, change())
    journal = read_journal(writer)
    assert journal.run(first.id[:8]).id == first.id
    with pytest.raises(HosttuneError, match="no run is called of-none"):
        journal.run("of-none")
    ran(writer, change(B))
    with pytest.raises(HosttuneError, match=f"several runs begin with {first.id[:8]}"):
        read_journal(writer).run(first.id[:8])


def test_what_a_run_is_and_what_became_of_it_is_read_as_it_was_written():
    writer = host()
    recorder = JournalWriter.start(writer, new_run(writer, Journal(()), "apply", "d" * 64))
    recorder.record_failure(
        recorder.intent(change(triggers=(Trigger("restart", "x.service"),))), "the kernel says no"
    )
    made = recorder.intent(change(B))
    recorder.done(made, "it complained", change(B, after="11"))
    recorder.trigger(Trigger("restart", "x.service"), "waiting")
    recorder.trigger(Trigger("daemon-reload"), "done")
    recorder.finish()
    (run,) = read_journal(writer).runs
    assert [(step.phase, step.error, step.change.after) for step in run.steps] == [
        (Phase.FAILED, "the kernel says no", "10"),
        (Phase.DONE, "it complained", "11"),
    ]
    assert (run.waiting, run.ran) == (
        (Trigger("restart", "x.service"),),
        (Trigger("daemon-reload"),),
    )
    same = ("id", "command", "started_at", "who", "boot_id", "digest", "tool_version")
    assert [getattr(run, name) for name in same] == [getattr(recorder.run, name) for name in same]
    assert (run.is_finished, run.boot_id) == (True, "boot")


def test_line_of_the_journal_is_ascii_and_says_when_it_was_written():
    writer = host()
    run, _ = ran(writer, change(after="für"))
    lines = writer.read(f"{FOLDER}/{run.id}.jsonl").decode("ascii").splitlines()
    assert all('"at":' in line for line in lines[1:])
    assert lines[0].startswith('{"format_version":1,"id":')


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'{"format_version":1}\n', "line 1"),
        (b'{"format_version":0}\n', "line 1"),
        (b"[]\n", "line 1"),
        (b"\xff\n", "line 1"),
        (b"\0\0\n\n", "line 1; line 2"),
    ],
)
def test_broken_line_is_named_with_file_and_number(data, line):
    run = parse_run(data, "/x/run.jsonl")
    assert (run.id, run.unread) == ("run", f"/x/run.jsonl is damaged ({line})")


HEAD = {
    "format_version": 1, "id": "run", "command": "apply", "who": "root", "boot_id": "boot",
    "started_at": "2026-01-01T00:00:00.000000+00:00", "digest": "d", "tool_version": "0.1.0",
}  # fmt: skip


@pytest.mark.parametrize("text", ["yesterday", "", "2026-01-01T00:00:00"])
def test_start_of_a_run_that_no_later_one_can_be_put_behind_is_damaged(text):
    run = parse_run(json.dumps({**HEAD, "started_at": text}).encode() + b"\n", "/x/run.jsonl")
    assert run.unread == "/x/run.jsonl is damaged (line 1)"


@pytest.mark.parametrize(
    "entry",
    [
        {"trigger": ["a"], "phase": "waiting"},
        {"trigger": "restart", "name": ["a"], "phase": "done"},
        {"seq": 2, "phase": "intent", "undoes": [["a"], 1]},
        {"seq": 1, "phase": "failed", "error": ["a"]},
    ],
)
def test_list_in_place_of_a_word_stops_no_look(entry):
    intent = {"seq": 1, "phase": "intent", "change": change_to_json(change())}
    entry = {"change": intent["change"], **entry}
    lines = (json.dumps(one).encode() + b"\n" for one in (HEAD, intent, entry))
    run = parse_run(b"".join(lines), "/x/run.jsonl")
    assert "line 3" in run.unread
    assert Journal((run,)).pending_triggers("boot") == ()


def test_journal_that_may_not_be_read_is_empty_and_says_why():
    reader = FakeReader()
    reader.list = lambda path: Unreadable("needs root")
    journal = read_journal(reader)
    assert (journal.runs, journal.unreadable) == ((), "needs root")


def test_file_that_ended_before_its_first_line_is_no_run():
    writer = host()
    writer.replace(f"{FOLDER}/x.jsonl", FileValue(b'{"format', 0o600), expected=ABSENT)
    assert read_journal(writer).runs == ()


def test_host_that_runs_nothing_has_no_boot_id():
    assert boot_id(FakeReader()) == ""
