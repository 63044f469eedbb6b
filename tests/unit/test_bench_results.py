"""What benches found: kept and read back, distrusted where others could have written it; and as
text.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from hashlib import sha256

import pytest

from hosttune.cli import app
from hosttune.measure.bench import results, scratch, state
from hosttune.measure.bench.gates import GateClosed
from hosttune.measure.bench.results import BenchResult, find_latest, list_stored, save
from hosttune.measure.bench.scratch import Leftover
from hosttune.measure.views import bench as view
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.unit.schemas import faults

READ = BenchResult(
    kind="read", measured_at="2026-11-19T10:00:00+00:00", kernel="6.8.0-45-generic", uuid="0b9c4e2e", fstype="ext4",
    target="/data", path="/data/set", seed=7, figures={"workers": 4.0, "measured_s": 21.0},
    words={"limit": "disk", "answer": "limit: the disk; cold 900 files/s"},
)  # fmt: skip
SILENT = {"limit": "inconclusive", "answer": "limit: inconclusive"}
FILE = f"read-0b9c4e2e-6.8.0-45-generic-read-{sha256(b'/data/set').hexdigest()[:16]}.json"


@pytest.fixture
def where(tmp_path):
    (tmp_path / "state").mkdir(mode=0o700)
    return str(tmp_path / "state")


def test_result_is_kept_and_read_back(where):
    save(READ, where)
    assert find_latest("0b9c4e2e", where=where) == READ
    assert find_latest("0b9c4e2e", "6.8.0-45-generic", where) == READ
    assert find_latest("0b9c4e2e", "6.9", where) is None
    assert find_latest("other", where=where) is None


def test_result_of_a_bench_that_is_gone_is_passed_over(where):
    """Of an earlier hosttune: `bench atime` and `bench tmp`, with findings."""
    save(READ, where)
    document = results.to_json(READ)
    for kind in ("atime", "tmp"):
        old = {**document, "kind": kind, "findings": [{"name": "read"}]}
        state.save(f"{kind}-0b9c4e2e-6.8.0-45-generic.json", json.dumps(old).encode(), where)
    assert list_stored(where) == (READ,)
    assert (
        results.from_json(json.dumps({**document, "findings": []}).encode()) == READ
    )  # as it kept them


def test_result_that_says_nothing_does_not_take_the_place_of_an_answer(where):
    later = replace(READ, measured_at="2026-11-21T10:00:00+00:00", words=SILENT)
    save(later, where)
    assert find_latest("0b9c4e2e", where=where) == later
    save(READ, where)
    save(later, where)
    assert find_latest("0b9c4e2e", where=where) == READ
    assert find_latest("0b9c4e2e", READ.kernel, where) == READ
    assert list_stored(where) == (later, READ)
    again = replace(READ, measured_at="2026-11-22T10:00:00+00:00")
    save(again, where)
    assert list_stored(where) == (again,)


def test_each_folder_that_was_read_keeps_its_answer_with_decoding_and_without(where):
    def read(path, day, **words):
        words = {"limit": "disk", **words}
        return replace(READ, path=path, words=words, measured_at=f"2026-11-{day:02}T10:00:00+00:00")

    one, other, plain = read("/a", 1, python="/p"), read("/b", 2, python="/p"), read("/a", 3)
    silent = read("/a", 4, python="/p", limit="inconclusive")
    for found in (one, other, plain, silent):
        save(found, where)
    assert list_stored(where) == (silent, plain, other, one)
    assert find_latest("0b9c4e2e", where=where) == plain
    assert (
        find_latest(
            "0b9c4e2e", READ.kernel, where, lambda it: it.path == "/a" and "python" in it.words
        )
        == one
    )
    save(read("/a", 5, python="/p"), where)
    assert len(list_stored(where)) == 3


def test_only_so_many_folders_that_were_read_are_kept(where, monkeypatch):
    monkeypatch.setattr(results, "MOST_FOLDERS", 3)
    for day in range(1, 6):
        one = replace(READ, path=f"/{day}", measured_at=f"2026-11-{day:02}T10:00:00+00:00")
        save(one, where)
    assert [one.path for one in list_stored(where) if one.kind == "read"] == ["/5", "/4", "/3"]


def test_newest_result_counts_and_a_new_one_replaces_that_of_its_kernel(where):
    newer = replace(READ, kernel="6.11.0-9-generic", measured_at="2026-11-20T10:00:00+00:00")
    again = replace(newer, seed=8)
    for one in (newer, READ, again):
        save(one, where)
    assert find_latest("0b9c4e2e", where=where) == again
    assert list_stored(where) == (again, READ)
    assert len(os.listdir(where)) == 2


def test_name_of_a_result_leads_nowhere_else(where):
    save(replace(READ, uuid="../../etc", kernel="a/b"), where)
    assert os.listdir(where) == [FILE.replace("0b9c4e2e-6.8.0-45-generic", ".._.._etc-a_b")]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"format_version": 2}', b'{"format_version": 1, "findings": 3}'],
)
def test_what_is_no_result_counts_as_not_there(where, content):
    state.save("read-0b9c4e2e-6.8.json", content, where)
    state.save("scratch-0.json", b"{}", where)
    assert list_stored(where) == ()
    assert find_latest("0b9c4e2e", where=where) is None


def test_result_that_others_could_have_written_does_not_count(where):
    save(READ, where)
    (name,) = os.listdir(where)
    os.chmod(f"{where}/{name}", 0o620)
    assert list_stored(where) == ()
    os.chmod(f"{where}/{name}", 0o600)
    assert list_stored(where) == (READ,)
    if os.geteuid() == 0:
        os.chown(f"{where}/{name}", 4711, 4711)
        assert list_stored(where) == ()


def test_state_folder_is_that_of_the_user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state.name_folder() == "/var/lib/hosttune/bench"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/nonexistent/alice")
    for value, folder in (
        ("/srv/state", "/srv/state"),
        ("", "/nonexistent/alice/.local/state"),
        ("x", None),
    ):
        monkeypatch.setenv("XDG_STATE_HOME", value)
        assert (
            state.name_folder() == f"{folder or '/nonexistent/alice/.local/state'}/hosttune/bench"
        )


def page(width: int = 80) -> Page:
    return Page(screen=Screen(width))


def test_leftovers_are_named_with_the_way_out():
    assert view.leftover_text([], page()) == ""
    left = Leftover("scratch-1.json", "/data/.hosttune-bench-1")
    assert "/data/.hosttune-bench-1; to remove it: hosttune bench clean" in view.leftover_text(
        [left], page()
    )
    assert view.cleaned_text([left], []) == "removed /data/.hosttune-bench-1\n"
    assert view.cleaned_text([left], [left]).startswith("left /data/.hosttune-bench-1 as it is")
    assert view.cleaned_text([], []) == "nothing was left behind\n"


@pytest.fixture
def bench(monkeypatch, capsys, where, in_one_process):
    """The command line on results and folders of this test's own."""
    monkeypatch.setattr(state, "name_folder", lambda: where)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*argv):
        status = app.run(["bench", *argv])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_command_without_results_or_leftovers(bench):
    status, out, _ = bench("list")
    assert (status, "no bench has been run here" in out) == (0, True)
    assert bench("clean")[:2] == (0, "nothing was left behind\n")


def test_documents_of_list_and_clean_hold_to_their_schemas(tmp_path, monkeypatch, capsys):
    where = tmp_path / "bench"
    where.mkdir(mode=0o700)
    monkeypatch.setattr(state, "name_folder", lambda: str(where))
    save(READ)
    assert app.run(["bench", "list", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (faults(listed, "bench-list"), len(listed["results"])) == ([], 1)
    assert faults({**listed, "results": [{}]}, "bench-list") != []
    left = Leftover("scratch-1.json", "/data/.hosttune-bench-1")
    monkeypatch.setattr(
        scratch, "find_leftovers", lambda: (left, replace(left, path="/data/.hosttune-bench-2"))
    )
    monkeypatch.setattr(scratch, "clean", lambda one: one is left)
    assert app.run(["bench", "clean", "--format", "json"]) == 1
    cleaned = json.loads(capsys.readouterr().out)
    assert (faults(cleaned, "bench-clean"), cleaned["removed"]) == ([], [left.path])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"workers": 4.0', '"workers": Infinity'),
        ('"seed": 7', '"seed": Infinity'),
        ("{", "[" * 100_000),
    ],
)
def test_result_that_no_bench_can_have_found_counts_as_not_there(old, new):
    text = json.dumps(results.to_json(READ))
    assert results.from_json(text.encode())
    assert old in text
    assert results.from_json(text.replace(old, new, 1).encode()) is None


def test_list_tells_the_answer_and_does_not_steer_the_terminal():
    text = view.list_text([replace(READ, path="/data/\x1b[2J", kernel="\x9b")], page(200))
    assert text.startswith(
        "2026-11-19 10:00  read /data/\\x1b[2J  limit: the disk; cold 900 files/s (kernel "
    )
    assert "\x1b" not in text
    assert "\x9b" not in text


def test_document_of_what_is_kept_fits_its_schema():
    assert faults(results.to_json(READ), "bench") == []
    assert faults({**results.to_json(READ), "surprise": 1}, "bench")


def refused(*_):
    raise GateClosed("this host is busy: \x1b[2J", hint="wait")


def test_command_says_why_it_did_not_measure(bench, monkeypatch):
    monkeypatch.setattr("hosttune.measure.bench.read.bench_read", refused)
    monkeypatch.setattr(
        "hosttune.measure.bench.scratch.find_leftovers",
        lambda: (Leftover("n", "/data/.hosttune-bench-1"),),
    )
    status, out, err = bench("read", "/")
    assert (status, out) == (1, "")
    assert "a bench that was killed left /data/.hosttune-bench-1" in err
    assert "hosttune: not measured: this host is busy: \\x1b[2J\n  hint: wait\n" in err


@pytest.mark.usefixtures("in_one_process")
def test_command_of_a_folder_that_is_not_there_is_trouble(bench):
    status, out, err = bench("read", "/nonexistent/set")
    assert (status, out) == (2, "")
    assert "/nonexistent/set: cannot be opened: No such file or directory" in err


@pytest.mark.parametrize("gone", ["atime", "tmp"])
def test_bench_that_is_gone_is_no_command(bench, gone):
    status, out, err = bench(gone, "/")
    assert (status, out) == (2, "")
    assert f"No such command '{gone}'" in err
