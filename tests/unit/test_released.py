"""What other versions wrote is read: all that older ones kept, as files, and of a newer one
whatever can be told.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from hosttune.actions.journal.journal import FOLDER, JournalWriter, read_journal
from hosttune.actions.journal.lines import parse_run
from hosttune.actions.journal.recover import prune
from hosttune.cli import app
from hosttune.codec import change_from_json, change_to_json, plan_from_json
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import RecordReader, parse_record
from hosttune.measure.bench import results
from hosttune.values import ABSENT, FileValue
from tests.unit.fake_reader import FakeReader
from tests.unit.schemas import faults

RELEASED = Path(__file__).parent / "released"
VERSIONS = sorted(
    path.name for path in RELEASED.iterdir() if path.is_dir() and path.name != "__pycache__"
)
NEWER = {"tool_version": "9.1.0"}


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/opt/hosttune/bin/hosttune"])

    def run(*argv):
        status = app.run([str(word) for word in argv])
        return status, *capsys.readouterr()

    return run


def kept(name: str) -> list[Path]:
    """This file of every version that has it."""
    return sorted(RELEASED.glob(f"*/{name}"))


def of_version(version: str) -> dict[str, bytes]:
    return {
        path.stem: path.read_bytes() for path in sorted((RELEASED / version / "runs").iterdir())
    }


def with_runs(writer, runs: dict[str, bytes]):
    for name, data in runs.items():
        writer.replace(f"{FOLDER}/{name}.jsonl", FileValue(data, 0o600), expected=ABSENT)
    return writer


@pytest.mark.parametrize("version", VERSIONS)
def test_journal_of_every_version_tells_what_is_in_force(version):
    journal = read_journal(with_runs(Overlay(FakeReader()), of_version(version)))
    assert (journal.problem, [one.command for one in journal.runs]) == (
        "",
        ["apply", "undo", "apply", "apply"],
    )
    in_force = [
        "file:/etc/sysctl.d/60-hosttune-memory-swappiness.conf",
        "package-set:a,b",
        "sysctl:vm.max_map_count",
    ]
    if version == "0.1.0-first":
        in_force.remove("package-set:a,b")
    assert [str(step.change.address) for step in journal.in_force] == in_force
    assert [one.id for one in journal.interrupted] == ["20261124-080000-0004"]
    states = [
        "partly undone",
        "finished",
        "half-way" if len(in_force) == 3 else "nothing taken",
        "interrupted",
    ]
    assert [journal.status(one) for one in journal.runs] == states
    assert [step.planned.after for step in journal.in_force if step.planned] == [("a=2", "b=2")] * (
        len(in_force) - 2
    )
    assert [str(one) for one in journal.pending_triggers("boot-1")] == []


@pytest.mark.parametrize("path", kept("record.json"), ids=lambda path: path.parent.name)
def test_record_of_every_version_is_read(run, path):
    record = RecordReader(parse_record(path.read_bytes(), str(path)), str(path))
    assert record.read("/proc/sys/vm/swappiness") == b"60\n"
    assert [one.name for one in record.processes()] == ["python"]
    status, out, err = run("check", "--host", path, "--format", "json")
    assert (status, err) == (1, "")
    assert faults(json.loads(out), "check") == []


@pytest.mark.parametrize("path", kept("check.json"), ids=lambda path: path.parent.name)
def test_check_and_plan_of_every_version_are_read(run, path, tmp_path):
    assert plan_from_json(json.loads(path.with_name("plan.json").read_bytes())).machine
    status, out, err = run("report", path, "--format", "json")
    assert (status, err, json.loads(out)["unread"]) == (1, "", {"count": 0, "files": []})
    assert run("diff", path, path, "--format", "json")[::2] == (0, "")


@pytest.mark.parametrize("path", kept("bench.json"), ids=lambda path: path.parent.name)
def test_bench_of_every_version_is_read_or_passed_over(path):
    """Those of 0.1 and 0.2 are of `bench atime`, which is gone."""
    kind = json.loads(path.read_bytes())["kind"]
    found = results.from_json(path.read_bytes())
    assert (found is None) is (kind == "atime")


def changed_lines(data: bytes, change) -> bytes:
    """A run's file with each line changed: `change` gets its number and its object."""
    entries = [json.loads(line) for line in data.splitlines()]
    return b"".join(
        json.dumps(change(number, entry)).encode() + b"\n"
        for number, entry in enumerate(entries, 1)
    )


def newer_format(number, entry):
    return (
        entry | {"format_version": 2, "tool_version": "9.1.0", "who": {"user": "root"}}
        if number == 1
        else entry
    )


def newer_field(number, entry):
    return (
        entry | NEWER
        if number == 1
        else entry | {"change": entry["change"] | {"x": 1}}
        if number == 2
        else entry
    )


def newer_field_of_a_line(number, entry):
    return entry | (NEWER if number == 1 else {"x": 1})


def newer_kind(number, entry):
    return entry | NEWER if number == 1 else {"note": "of a kind to come"} if number == 3 else entry


def newer_word(number, entry):
    return entry | NEWER if number == 1 else entry | {"phase": "half"} if number == 3 else entry


def newer_value(number, entry):
    if number != 2:
        return entry | NEWER if number == 1 else entry
    return entry | {"change": entry["change"] | {"after": {"type": "acl", "entries": []}}}


@pytest.fixture
def tuned(run, changed):
    """A host with one run of apply, one drop-in of which is not as that run left it, and the run's
    file.
    """
    assert run("apply", "--yes", "--only", "memory-swappiness")[0] == 0
    (name,) = changed.list(FOLDER)
    return changed, f"{FOLDER}/{name}"


def rewritten(host, path, change):
    data = host.read(path)
    host.replace(path, FileValue(changed_lines(data, change), 0o600), expected=data)


@pytest.mark.parametrize(
    "change",
    [newer_format, newer_field, newer_field_of_a_line, newer_kind, newer_word, newer_value],
)
def test_journal_of_a_newer_version_never_stops_a_look_and_is_never_built_upon(run, tuned, change):
    host, path = tuned
    rewritten(host, path, change)
    data = host.read(path)
    needs = "undo, and apply where something is to change, need hosttune 9.1.0"
    for words in (
        ["check"],
        ["plan"],
        ["apply"],
        ["history"],
        ["history", "-v"],
        ["check", "--format", "markdown"],
    ):
        status, out, err = run(*words)
        assert (status < 2, err) == (True, ""), words
        assert needs in " ".join(out.split()), words
        assert "move" not in out.lower().replace("remove", "")
    (check,) = json.loads(run("check", "--format", "json")[1])["hosts"]
    assert any(needs in text for text in check["interrupted"])
    told = json.loads(run("history", "--format", "json")[1])
    assert faults(told, "history") == []
    assert needs in told["runs"][0]["unread"]
    for words in (
        ["undo"],
        ["undo", "--yes"],
        ["undo", "--rule", "memory-swappiness", "--yes"],
        ["apply", "--yes"],
    ):
        status, out, err = run(*words)
        assert (status, out) == (2, "")
        assert needs in err
        assert "move" not in err
    assert run("apply", "--yes", "--only", "memory-swappiness")[::2] == (
        0,
        "",
    )  # it has nothing to change
    prune(host, read_journal(host))
    assert (host.list(FOLDER), host.read(path)) == ((path.rpartition("/")[2],), data)


def test_what_a_newer_run_may_have_changed_is_unknown(run, tuned):
    host, path = tuned
    rewritten(host, path, newer_format)
    dropin = "/etc/sysctl.d/60-hosttune-memory-swappiness.conf"
    data = host.read(dropin)
    host.replace(dropin, FileValue(b"vm.swappiness = 30\n"), expected=data)
    status, out, _ = run("check", "--only", "memory-swappiness", "--format", "json")
    (finding,) = json.loads(out)["hosts"][0]["findings"]
    assert (status, finding["verdict"]) == (1, "unknown")
    assert "hosttune 9.1.0 wrote the journal" in finding["reason"]


def test_unknown_field_of_this_version_is_carried_along_and_undo_goes_on(run, tuned):
    host, path = tuned
    rewritten(host, path, lambda number, entry: entry | {"x": number, **with_field(entry)})
    data = host.read(path)
    assert "need" not in run("check")[1].partition("Attention")[2]
    assert run("undo", "--yes")[0] == 0
    assert host.read(path) == data
    assert json.loads(run("history", "--format", "json")[1])["runs"][1]["status"] == "undone"


def with_field(entry):
    return (
        {"change": entry["change"] | {"note": {"of": ["a later", 1]}}} if "change" in entry else {}
    )


def test_unknown_field_of_a_change_is_written_again_with_what_it_left():
    (data,) = [one for name, one in of_version("0.1.0").items() if name.endswith("3")]
    read = parse_run(
        changed_lines(data, lambda _, entry: entry | with_field(entry)),
        "/x/20261123-080000-0003.jsonl",
    )
    (step,) = read.steps
    writer = Overlay(FakeReader())
    JournalWriter(writer, read).done(step.id, "", step.planned)
    assert json.loads(writer.read(f"{FOLDER}/{read.id}.jsonl"))["left"]["note"] == {
        "of": ["a later", 1]
    }
    assert change_from_json(change_to_json(step.planned)) == step.planned


def test_damaged_journal_stops_no_look_and_names_file_and_line(run, tuned):
    host, path = tuned
    data = host.read(path)
    lines = data.splitlines(keepends=True)
    for broken in (
        b"\0\0\0\n" + b"".join(lines[1:]),
        b"".join([*lines[:2], b'{"seq":\n', *lines[2:]]),
    ):
        host.replace(path, FileValue(broken, 0o600), expected=host.read(path))
        line = 1 if broken.startswith(b"\0") else 3
        status, out, err = run("check")
        assert (status < 2, err) == (True, "")
        assert f"{path} is damaged (line {line})" in " ".join(out.split())
        assert run("history")[0] == 0
        assert f"{path} is damaged" in run("undo", "--yes")[2]


def test_other_files_of_a_newer_version_are_named_and_their_new_fields_passed_over(run, tmp_path):
    (record, check) = (
        json.loads((RELEASED / "0.1.0" / name).read_bytes())
        for name in ("record.json", "check.json")
    )
    newer = tmp_path / "newer.json"
    newer.write_text(json.dumps(record | NEWER | {"format_version": 2}))
    status, _, err = run("check", "--host", newer)
    assert (status, "is 2: hosttune 9.1.0 wrote it" in err) == (2, True)
    shutil.copy(RELEASED / "0.1.0" / "record.json", tmp_path / "older.json")
    for words in (
        ("--host", newer, "--host", tmp_path / "older.json"),
        ("--host", tmp_path / "older.json", "--host", newer),
    ):
        status, out, err = run("check", *words)
        assert (status, out) == (2, run("check", "--host", tmp_path / "older.json")[1])
        assert err.count("hosttune 9.1.0 wrote it") == 1
    status, out, _ = run("report", newer, tmp_path / "older.json", "--format", "json")
    assert (status, json.loads(out)["unread"]["count"]) == (1, 1)
    assert "hosttune 9.1.0 wrote it" in json.loads(out)["unread"]["files"][0]["reason"]
    record["processes"][0]["threads"] = 7
    record["files"]["/etc/later"] = {"base64": "eA==", "x": 1}
    record["files"]["/etc/fstab"] = {"unreadable": "somebody says no", "number": 13}
    read = RecordReader(record | {"xattrs": {"/": {}}})
    assert (read.processes()[0].pid, read.read("/etc/later")) == (7, b"x")
    check["hosts"][0]["findings"][0] |= {"x": 1}
    check["hosts"][0]["findings"][0]["hold"] |= {"x": 1}
    newer.write_text(json.dumps(check))
    assert run("diff", newer, RELEASED / "0.1.0" / "check.json")[::2] == (0, "")
    check["hosts"][0] |= NEWER
    newer.write_text(json.dumps(check | {"format_version": 2}))
    status, _, err = run("diff", newer, RELEASED / "0.1.0" / "check.json")
    assert (status, "hosttune 9.1.0 wrote it" in err) == (2, True)
    bench = json.loads((RELEASED / "0.1.0" / "bench.json").read_bytes())
    assert results.from_json(json.dumps(bench | {"kind": "read", "x": 1}).encode()).path == "/d"
