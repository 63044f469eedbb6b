"""What benches found: kept and read back, distrusted where others could have written it; and as text."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from hosttune.cli import app
from hosttune.engine.catalog import builtin_catalog
from hosttune.measure.bench import results, scratch, state
from hosttune.measure.bench.gates import GateClosed
from hosttune.measure.bench.results import BenchFinding, BenchResult, latest, save, stored
from hosttune.measure.bench.scratch import Leftover
from hosttune.measure.bench.statistics import Answer, Interval
from hosttune.views.measure import bench as view
from hosttune.views.page import Page
from hosttune.views.terminal import Screen
from tests.unit.schemas import faults

ONE = Interval(1.001, 0.995, 1.005)
READ = BenchFinding(
    "read", Answer.DIFFERS, Interval(1.046, 1.042, 1.049), ONE, 160, 0.01, "", (1.05, 1.04), (1.0, 1.01)
)
ATIME = BenchResult(
    kind="atime", measured_at="2026-11-19T10:00:00+00:00", kernel="6.8.0-45-generic", uuid="0b9c4e2e", fstype="ext4",
    target="/data", path="/data/set", seed=7, findings=(READ,),
    figures={
        "copies": 4000.0, "copied_bytes": 200e6, "files_seen": 9e6, "files_looked_at": 20000.0, "files_stale": 0.0,
        "written_bytes_base": 0.0, "written_bytes_other": 2060000.0, "rewritten_bytes_other": 0.0, "measured_s": 21.0,
        "skipped_chunks": 2.0, "device_read_bytes_base": 1e9, "device_read_bytes_other": 1e9, "cpu_s_base": 1.0,
        "cpu_s_other": 1.25,
    },
    words={"base": "noatime", "other": "relatime", "mounted": "relatime", "how": "private mounts of one folder"},
)  # fmt: skip
UNPACK = BenchFinding("unpack", Answer.DIFFERS, Interval(0.5, 0.4878, 0.5128), ONE, 25, 0.01, "")
COMPILE = BenchFinding("compile", Answer.SAME, Interval(0.998, 0.994, 1.004), ONE, 25, 0.01, "")
DELETE = BenchFinding("delete", Answer.INCONCLUSIVE, Interval(0.9, 0.5, 1.1), ONE, 25, 0.33, "the times vary too much")
TMP = replace(
    ATIME, kind="tmp", path="/tmp", target="/", findings=(UNPACK, COMPILE, DELETE),
    figures={
        "files": 2000.0, "bytes": 15e6, "written_bytes_disk": 16e6, "memory_available_bytes": 61.0 * (1 << 30),
        "memory_total_bytes": 128.0 * (1 << 30), "tmp_used_bytes": 4.0 * (1 << 30), "measured_s": 60.0,
        "rule_size_bytes": 13.0 * (1 << 30), "skipped_chunks": 0.0,
    },
    words={"base": "/tmp (ext4)", "other": "memory (tmpfs)", "how": "a private tmpfs"},
)  # fmt: skip


@pytest.fixture
def where(tmp_path):
    (tmp_path / "state").mkdir(mode=0o700)
    return str(tmp_path / "state")


def test_result_is_kept_and_read_back(where):
    save(ATIME, where)
    save(TMP, where)
    assert latest("atime", "0b9c4e2e", where=where) == ATIME
    assert latest("atime", "0b9c4e2e", "6.8.0-45-generic", where) == ATIME
    assert latest("tmp", "0b9c4e2e", where=where) == TMP
    assert latest("atime", "0b9c4e2e", "6.9", where) is None
    assert latest("atime", "other", where=where) is None
    assert latest("read", "0b9c4e2e", where=where) is None
    assert ATIME.finding("read") == READ
    assert (ATIME.finding("nothing"), ATIME.figure("nothing")) == (None, None)


def test_result_that_says_nothing_does_not_take_the_place_of_an_answer(where):
    silent = replace(READ, answer=Answer.INCONCLUSIVE)
    later = replace(ATIME, measured_at="2026-11-21T10:00:00+00:00", findings=(silent,))
    save(later, where)
    assert latest("atime", "0b9c4e2e", where=where) == later
    save(ATIME, where)
    save(later, where)
    assert latest("atime", "0b9c4e2e", where=where) == ATIME
    assert latest("atime", "0b9c4e2e", ATIME.kernel, where) == ATIME
    assert stored(where) == (later, ATIME)
    again = replace(ATIME, measured_at="2026-11-22T10:00:00+00:00")
    save(again, where)
    assert stored(where) == (again,)


def test_read_that_says_nothing_does_not_take_the_place_of_an_answer(where):
    found = [replace(ATIME, kind="read", findings=(), seed=seed, words={"limit": limit})
             for seed, limit in enumerate(("disk", "inconclusive"))]  # fmt: skip
    for one in found:
        save(one, where)
    assert latest("read", "0b9c4e2e", ATIME.kernel, where) == found[0]


def test_each_folder_that_was_read_keeps_its_answer_with_decoding_and_without(where):
    def read(path, day, **words):
        words = {"limit": "disk", **words}
        return replace(
            ATIME, kind="read", findings=(), path=path, words=words, measured_at=f"2026-11-{day:02}T10:00:00+00:00"
        )

    one, other, plain = read("/a", 1, python="/p"), read("/b", 2, python="/p"), read("/a", 3)
    silent = read("/a", 4, python="/p", limit="inconclusive")
    for found in (one, other, plain, silent):
        save(found, where)
    assert stored(where) == (silent, plain, other, one)
    assert latest("read", "0b9c4e2e", where=where) == plain
    assert latest("read", "0b9c4e2e", ATIME.kernel, where, lambda it: it.path == "/a" and "python" in it.words) == one
    save(read("/a", 5, python="/p"), where)
    assert len(stored(where)) == 3


def test_only_so_many_folders_that_were_read_are_kept(where, monkeypatch):
    monkeypatch.setattr(results, "MOST_FOLDERS", 3)
    save(ATIME, where)
    for day in range(1, 6):
        one = replace(ATIME, kind="read", findings=(), path=f"/{day}", measured_at=f"2026-11-{day:02}T10:00:00+00:00")
        save(one, where)
    assert [one.path for one in stored(where) if one.kind == "read"] == ["/5", "/4", "/3"]
    assert ATIME in stored(where)


def test_same_text_tells_the_noise():
    for finding, said in (
        (replace(READ, answer=Answer.SAME, effect=ONE), "the same work done twice: no difference larger than 0.5 %"),
        (READ, "a false alarm: the same work done twice differs by 1.046 [1.042, 1.049]"),
        (
            replace(READ, answer=Answer.INCONCLUSIVE, noise_floor=0.064),
            "a difference below 6.4 % cannot be told from noise",
        ),
    ):
        text = " ".join(view.same_text(replace(ATIME, findings=(finding,)), page(200)).split())
        assert said in text, text


def test_newest_result_counts_and_a_new_one_replaces_that_of_its_kernel(where):
    newer = replace(ATIME, kernel="6.11.0-9-generic", measured_at="2026-11-20T10:00:00+00:00")
    again = replace(newer, seed=8)
    for one in (newer, ATIME, again):
        save(one, where)
    assert latest("atime", "0b9c4e2e", where=where) == again
    assert stored(where) == (again, ATIME)
    assert len(os.listdir(where)) == 2


def test_name_of_a_result_leads_nowhere_else(where):
    save(replace(ATIME, uuid="../../etc", kernel="a/b"), where)
    assert os.listdir(where) == ["atime-.._.._etc-a_b.json"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"format_version": 2}', b'{"format_version": 1, "findings": 3}']
)
def test_what_is_no_result_counts_as_not_there(where, content):
    state.save("atime-0b9c4e2e-6.8.json", content, where)
    state.save("scratch-0.json", b"{}", where)
    assert stored(where) == ()
    assert latest("atime", "0b9c4e2e", where=where) is None


def test_result_that_others_could_have_written_does_not_count(where):
    save(ATIME, where)
    (name,) = os.listdir(where)
    os.chmod(f"{where}/{name}", 0o620)
    assert stored(where) == ()
    os.chmod(f"{where}/{name}", 0o600)
    assert stored(where) == (ATIME,)
    if os.geteuid() == 0:
        os.chown(f"{where}/{name}", 4711, 4711)
        assert stored(where) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"low": 1.042', '"low": 0'),
        ('"high": 1.049', '"high": Infinity'),
        ('"estimate": 1.046', '"estimate": NaN'),
        ('"seed": 7', '"seed": Infinity'),
        ("{", "[" * 100_000),
    ],
)
def test_result_that_no_bench_can_have_found_counts_as_not_there(old, new):
    text = json.dumps(results.to_json(ATIME))
    assert results.from_json(text.encode())
    assert old in text
    assert results.from_json(text.replace(old, new, 1).encode()) is None


def test_comparison_without_a_finding_counts_as_not_there():
    document = {**results.to_json(ATIME), "findings": []}
    assert results.from_json(json.dumps(document).encode()) is None
    assert results.from_json(json.dumps({**document, "kind": "read"}).encode())


def test_state_folder_is_that_of_the_user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state.folder() == "/var/lib/hosttune/bench"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/nonexistent/alice")
    for value, folder in (("/srv/state", "/srv/state"), ("", "/nonexistent/alice/.local/state"), ("x", None)):
        monkeypatch.setenv("XDG_STATE_HOME", value)
        assert state.folder() == f"{folder or '/nonexistent/alice/.local/state'}/hosttune/bench"


def page(width: int = 80) -> Page:
    return Page(screen=Screen(width))


def test_atime_text_tells_answer_counters_and_what_follows():
    text = view.atime_text(ATIME, page(120))
    assert text.splitlines()[0] == "bench atime /data/set (ext4, relatime)"
    for said in (
        "control 1.001 [0.995, 1.005], 160 pairs, 2 done again, 21 s, seed 7",
        "noatime reads 4.4 % faster [4.0, 4.7] than relatime when every access",
        "the first read of a day writes 2.0 MiB (515 bytes a file), with noatime nothing; a second read right after",
        "your files: 0 of 20,000 looked at are stale now (their next read writes)",
        "today's gain is about nil",
        "-> storage-noatime: worth it where this set is read about once a day or less often",
    ):
        assert said in " ".join(text.split()), text
    assert max(map(len, view.atime_text(ATIME, page()).splitlines())) <= 80


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"answer": Answer.SAME, "effect": Interval(1.002, 0.9985, 1.0054)}, "no difference larger than 0.6 %"),
        ({"answer": Answer.SAME}, "saves the writes, not the time"),
        (
            {"answer": Answer.INCONCLUSIVE, "reason": "the times vary too much", "noise_floor": 0.123},
            "inconclusive: the times vary too much (times 1.046 [1.042, 1.049], noise floor 12 %)",
        ),
        ({"effect": Interval(0.95, 0.94, 0.96)}, "noatime reads 5.3 % slower [4.2, 6.4]"),
    ],
)
def test_atime_text_of_the_other_answers(changes, said):
    assert said in view.atime_text(replace(ATIME, findings=(replace(READ, **changes),)), page()).replace("\n    ", " ")


def test_atime_text_says_when_others_write_on_the_disk():
    text = view.atime_text(replace(ATIME, figures={**ATIME.figures, "written_bytes_base": 1030000.0}), page(100))
    assert "others write on this disk, so that the bytes counted say little (2.0 MiB, with noatime 1.0 MiB)" in text
    assert "the first read of a day" not in text


@pytest.mark.parametrize(
    ("mounted", "said"),
    [
        ("noatime", "writes no access time (noatime)"),
        ("strictatime", "the access time of each, at every read (strictatime)"),
    ],
)
def test_atime_text_calls_no_file_stale_where_that_makes_no_difference(mounted, said):
    words = {**ATIME.words, "mounted": mounted, "other": "strictatime"}
    text = " ".join(view.atime_text(replace(ATIME, words=words), page()).split())
    assert said in text
    assert "stale now" not in text
    assert "nil" not in text
    assert "once a day" not in text


def test_atime_text_of_a_mount_that_has_it_already():
    text = view.atime_text(replace(ATIME, words={**ATIME.words, "mounted": "noatime"}), page())
    assert "it is set here already; this is what it saves" in text


def test_text_from_outside_does_not_steer_the_terminal():
    text = view.atime_text(replace(ATIME, path="/data/\x1b[2J"), page()) + view.list_text(
        [replace(ATIME, path="/data/\x1b[2J", kernel="\x9b")], page()
    )
    assert "\x1b" not in text
    assert "\\x1b[2J" in text


def test_tmp_text_tells_what_gains_and_what_does_not():
    text = view.tmp_text(TMP, page(120))
    for said in (
        "unpack: 2.00x as fast in memory [1.95, 2.05]",
        "compile: no difference larger than 0.6 %",
        "delete: inconclusive: the times vary too much",
        "61 of 128 GiB available; /tmp holds 4.0 GiB now",
        "-> storage-tmp-tmpfs: helps unpack, not compile; the rule would give it 13 GiB",
    ):
        assert said in text, text


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"rule_size_bytes": 0.0}, "but the rule leaves the /tmp of this host as it is"),
    ],
)
def test_tmp_text_says_where_the_rule_does_not_apply(figures, said):
    text = view.tmp_text(replace(TMP, figures={**TMP.figures, **figures}), page(100)).replace("\n     ", " ")
    assert said in text


def test_list_quotes_the_answer_of_another_bench():
    read = replace(ATIME, kind="read", findings=(), words={"answer": "4 workers feed it"})
    assert "read /data/set  4 workers feed it (kernel" in view.list_text([read], page())


def test_tmp_text_says_a_shared_reason_once():
    found = [replace(DELETE, name=name, reason="the host was busy") for name in ("unpack", "delete")]
    text = view.tmp_text(replace(TMP, findings=tuple(found)), page())
    assert text.count("the host was busy") == 1
    assert "delete: inconclusive (times 0.90 [0.50, 1.10], noise floor 33 %)" in text


def test_tmp_text_without_a_gain():
    assert "no gain to expect" in view.tmp_text(replace(TMP, findings=(COMPILE,)), page())
    assert "nothing can be told here" in view.tmp_text(replace(TMP, findings=(DELETE,)), page())


def test_status_is_1_where_nothing_can_be_told():
    assert [view.status_of(one) for one in (ATIME, TMP, replace(TMP, findings=(DELETE,)))] == [0, 0, 1]


def test_rules_that_texts_lead_to_exist():
    assert set(view.RULES) <= builtin_catalog().rules.keys()


def test_leftovers_are_named_with_the_way_out():
    assert view.leftover_text([], page()) == ""
    left = Leftover("scratch-1.json", "/data/.hosttune-bench-1")
    assert "/data/.hosttune-bench-1; to remove it: hosttune bench clean" in view.leftover_text([left], page())
    assert view.cleaned_text([left], []) == "removed /data/.hosttune-bench-1\n"
    assert view.cleaned_text([left], [left]).startswith("left /data/.hosttune-bench-1 alone")
    assert view.cleaned_text([], []) == "nothing was left behind\n"


@pytest.fixture
def bench(monkeypatch, capsys, where):
    """The command line on results and folders of this test's own."""
    monkeypatch.setattr(state, "folder", lambda: where)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*argv):
        status = app.run(["bench", *argv])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_command_prints_and_keeps_what_was_found(bench, monkeypatch, where):
    seen = []

    def measured(path, seed, options, tell):
        tell("at work")
        seen.append((path, seed, options.files, options.budget_s))
        return ATIME

    monkeypatch.setattr("hosttune.measure.bench.atime.bench_atime", measured)
    status, out, err = bench("atime", "/data/set", "--seed", "5", "--files", "50", "--budget", "9")
    assert (status, err) == (0, "")
    assert out.startswith("bench atime /data/set (ext4, relatime)\n")
    assert seen == [("/data/set", 5, 50, 9.0)]
    assert stored(where) == (ATIME,)
    status, out, _ = bench("atime", "/data/set", "--format", "json")
    assert (status, faults(json.loads(out), "bench")) == (0, [])
    assert json.loads(out)["findings"][0]["ratios"] == [1.05, 1.04]
    status, out, _ = bench("list")
    assert out.startswith("2026-11-19 10:00  atime /data/set  noatime reads 4.4 % faster [4.0, 4.7]")
    status, out, _ = bench("list", "--format", "json")
    assert [one["kind"] for one in json.loads(out)["results"]] == ["atime"]


def test_command_on_the_same_twice_keeps_nothing(bench, monkeypatch, where):
    def measured(path, seed, options, tell):
        assert options.same
        return replace(ATIME, findings=(replace(READ, answer=Answer.SAME, effect=ONE),))

    monkeypatch.setattr("hosttune.measure.bench.atime.bench_atime", measured)
    status, out, _ = bench("atime", "/data/set", "--same")
    assert status == 0
    assert "the same work done twice: no difference larger than 0.5 %" in out
    assert stored(where) == ()


def test_command_says_why_it_did_not_measure(bench, monkeypatch):
    def refused(*_):
        raise GateClosed("this host is busy: \x1b[2J", hint="wait")

    monkeypatch.setattr("hosttune.measure.bench.tmp.bench_tmp", refused)
    assert bench("tmp") == (1, "", "hosttune: not measured: this host is busy: \\x1b[2J\n  hint: wait\n")


def test_command_names_leftovers(bench, monkeypatch):
    monkeypatch.setattr("hosttune.measure.bench.tmp.bench_tmp", lambda *_: TMP)
    monkeypatch.setattr("hosttune.measure.bench.scratch.leftovers", lambda: (Leftover("n", "/data/.hosttune-bench-1"),))
    status, _, err = bench("tmp")
    assert (status, "a bench that was killed left /data/.hosttune-bench-1" in err) == (0, True)


def test_command_without_results_or_leftovers(bench):
    status, out, _ = bench("list")
    assert (status, "no bench has been run here" in out) == (0, True)
    assert bench("clean")[:2] == (0, "nothing was left behind\n")


def test_command_of_a_folder_that_is_not_there_is_trouble(bench):
    status, out, err = bench("atime", "/nonexistent/set")
    assert (status, out) == (2, "")
    assert "/nonexistent/set: cannot be opened: No such file or directory" in err


def test_documents_of_benches_fit_their_schema():
    for result in (ATIME, TMP):
        assert faults(results.to_json(result), "bench") == []
    assert faults({**results.to_json(ATIME), "surprise": 1}, "bench")


def test_atime_text_with_verbose_tells_every_figure():
    assert "copied_bytes = " not in view.atime_text(ATIME, page(120))
    text = view.atime_text(ATIME, replace(page(120), is_verbose=True))
    assert all(f"  {name} = " in text for name in ATIME.figures)


def test_documents_of_list_and_clean_hold_to_their_schemas(tmp_path, monkeypatch, capsys):
    where = tmp_path / "bench"
    where.mkdir(mode=0o700)
    monkeypatch.setattr(state, "folder", lambda: str(where))
    save(ATIME)
    save(TMP)
    assert app.run(["bench", "list", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (faults(listed, "bench-list"), len(listed["results"])) == ([], 2)
    assert faults({**listed, "results": [{}]}, "bench-list") != []
    left = Leftover("scratch-1.json", "/data/.hosttune-bench-1")
    monkeypatch.setattr(scratch, "leftovers", lambda: (left, replace(left, path="/data/.hosttune-bench-2")))
    monkeypatch.setattr(scratch, "clean", lambda one: one is left)
    assert app.run(["bench", "clean", "--format", "json"]) == 1
    cleaned = json.loads(capsys.readouterr().out)
    assert (faults(cleaned, "bench-clean"), cleaned["removed"]) == ([], [left.path])


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("16 pairs are too few, 20 are needed", "again with a larger --budget"),
        ("the host was busy", "on a quiet host, again"),
        ("the times vary too much", "on a quiet host, again"),
    ],
)
def test_way_out_of_too_few_pairs_is_more_time(reason, advice):
    few = replace(READ, answer=Answer.INCONCLUSIVE, pairs=16, reason=reason)
    for told in (
        view.atime_text(replace(ATIME, findings=(few,)), Page()),
        view.tmp_text(replace(TMP, findings=(few,)), Page()),
    ):
        assert f"; {advice} (" in " ".join(told.split())
