"""The history of the daily check: one report a day, bounded, whole after a power cut, found again
by `diff`.
"""

import json
import os
import stat
from pathlib import Path

import pytest

from hosttune import host
from hosttune.actions import kept_reports
from hosttune.actions.kept_reports import day_of, keep, kept_days, report_of
from hosttune.cli import app
from hosttune.engine.policy import file as policy_file
from hosttune.errors import HosttuneError
from hosttune.host.record.record import read_record
from hosttune.host.writing import state
from tests.hosts.built import HOSTS

NOON = 1_795_348_800.0  # 2026-11-22 12:00 UTC
H100 = HOSTS / "h100-8x-2socket.json"


@pytest.fixture
def where(tmp_path, monkeypatch):
    folder = str(tmp_path / "state" / "reports")
    monkeypatch.setattr(state, "name_folder", lambda part: str(tmp_path / "state" / part))
    monkeypatch.setattr("hosttune.cli.diff._format_today", lambda: "2998-12-31")
    return folder


def keep_days(days, where, most):
    for day in days:
        keep(f'"{day}"', f"{day}T00:30:00+00:00", most, where)


def test_report_is_kept_for_its_owner_alone(where):
    keep("x", "2026-11-22T00:30:00+00:00", 3, where)
    assert stat.S_IMODE(os.stat(where).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(f"{where}/2026-11-22.json").st_mode) == 0o600


def test_newest_report_of_a_day_is_that_of_the_day(where):
    keep("morning", "2026-11-22T00:30:00+00:00", 3, where)
    keep("noon", "2026-11-22T12:00:00+00:00", 3, where)
    assert os.listdir(where) == ["2026-11-22.json"]
    assert report_of("2026-11-22", where)[1] == b"noon"


@pytest.mark.parametrize(
    ("most", "left"),
    [(3, ("2026-11-20", "2026-11-21", "2026-11-22")), (1, ("2026-11-22",)), (0, ())],
)
def test_oldest_days_go_first(where, most, left):
    keep_days(("2026-11-18", "2026-11-19", "2026-11-20", "2026-11-21"), where, 9)
    keep_days(("2026-11-22",), where, most)
    assert kept_days(where) == left


def test_all_together_have_a_bound_too(where, monkeypatch):
    monkeypatch.setattr(kept_reports, "MOST_BYTES", 30)
    keep_days(("2026-11-20", "2026-11-21", "2026-11-22"), where, 9)  # twelve bytes each
    assert kept_days(where) == ("2026-11-21", "2026-11-22")


def test_clock_that_is_set_wrong_for_a_day_throws_no_history_away(where):
    keep_days(("2026-11-20", "2026-11-21", "2038-01-19", "2026-11-22"), where, 90)
    assert len(kept_days(where)) == 4
    assert report_of("2026-11-22", where)[1] == b'"2026-11-22"'


def test_report_too_large_to_be_read_again_is_not_kept_and_this_is_told(where, monkeypatch):
    monkeypatch.setattr(state, "LIMIT", 3)
    with pytest.raises(HosttuneError, match="is not kept: it is larger"):
        keep("long", "2026-11-22T00:30:00+00:00", 3, where)
    assert kept_days(where) == ()


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_report_of_the_morning_stays_where_that_of_noon_cannot_be_written(where, monkeypatch, call):
    keep("morning", "2026-11-22T00:30:00+00:00", 3, where)

    def fail(*_args, **_more):
        raise OSError(28, "No space left on device")

    if call == "write":
        monkeypatch.setattr(state.os, "fdopen", fail)
    else:
        monkeypatch.setattr(state.os, call, fail)
    with pytest.raises(HosttuneError, match="No space left"):
        keep("noon", "2026-11-22T12:00:00+00:00", 3, where)
    monkeypatch.undo()
    assert os.listdir(where) == ["2026-11-22.json"]
    assert report_of("2026-11-22", where)[1] == b"morning"


def test_draft_that_a_power_cut_left_is_swept_and_that_of_a_writer_at_work_is_not(where):
    keep("x", "2026-11-21T00:30:00+00:00", 3, where)
    old, new = (f"{where}/.2026-11-2{n}.json.{'0' * 16}" for n in (1, 2))
    for path in (old, new, f"{where}/notes.txt"):
        Path(path).write_text("half")
    os.utime(old, (1, 1))
    os.utime(f"{where}/notes.txt", (1, 1))
    keep("x", "2026-11-22T00:30:00+00:00", 3, where)
    assert (os.path.exists(old), os.path.exists(new), os.path.exists(f"{where}/notes.txt")) == (
        False,
        True,
        True,
    )
    assert kept_days(where) == ("2026-11-21", "2026-11-22")


@pytest.mark.parametrize(
    ("word", "day"),
    [
        ("today", "2026-11-22"),
        ("yesterday", "2026-11-21"),
        ("2026-11-01", "2026-11-01"),
        ("2026-02-30", None),
        ("20261101", None),
        ("live", None),
        ("./yesterday", None),
    ],
)
def test_word_that_names_a_day(word, day):
    assert day_of(word, NOON) == day


def test_day_without_a_report_takes_the_last_one_before_and_never_a_later_one(where):
    keep_days(("2026-11-18", "2026-11-20"), where, 9)
    assert report_of("2026-11-19", where)[0] == f"{where}/2026-11-18.json"
    assert report_of("2026-11-20", where)[0] == f"{where}/2026-11-20.json"
    with pytest.raises(
        HosttuneError, match="no report of 2026-11-17 or of a day before it"
    ) as caught:
        report_of("2026-11-17", where)
    assert caught.value.hint == "the first one is of 2026-11-18"


def test_report_that_somebody_else_could_have_written_is_not_believed(where):
    keep("x", "2026-11-22T00:30:00+00:00", 3, where)
    Path(f"{where}/2026-11-22.json").chmod(0o620)
    with pytest.raises(HosttuneError, match="not this user's own"):
        report_of("2026-11-22", where)


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words):
        status = app.run([str(word) for word in words])
        return status, *capsys.readouterr()

    return call


def saved(run, day, where, **more):
    """The report of a built host, kept as that of a day."""
    data = json.loads(run("check", "--host", H100, "--format", "json")[1])
    data["hosts"][0] |= {"created_at": f"{day}T00:30:00+00:00", **more}
    keep(json.dumps(data), f"{day}T00:30:00+00:00", 9, where)


def test_diff_finds_the_two_reports_by_their_days(run, where):
    saved(run, "2026-11-01", where, host="then")
    saved(run, "2026-11-03", where, host="now")
    status, out, err = run("diff", "2026-11-01", "2026-11-04")
    assert (status, err) == (0, "")
    assert "- then  2026-11-01 00:30:00 UTC" in out
    assert "+ now   2026-11-03 00:30:00 UTC" in out


def test_diff_since_compares_the_report_of_that_day_with_this_host(run, where, monkeypatch):
    saved(run, "2026-11-01", where, host="then")
    live = read_record(str(H100))
    monkeypatch.setattr(host, "open_reader", lambda **_: live)
    status, out, err = run("diff", "--since", "2026-11-01")
    assert (status, err) == (0, "")
    assert out.split()[:4] == ["-", "then", "2026-11-01", "00:30:00"]
    assert f"+ {live.name}" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("yesterday", "live"), "no report of"),
        (("--since", "2026-11-01"), "no report of 2026-11-01 or of a day before it is kept"),
        (("--since", "2999-01-01"), "2999-01-01 is still to come (today is 2998-12-31, UTC)"),
        (("2999-01-01", "live"), "2999-01-01 is still to come"),
        (("--since", "last week"), "'last week' is not a day"),
        (("--since", ""), "--since: the value is empty"),
        (("--since", "yesterday", "live"), "--since compares only with this host"),
        (("live",), "diff compares two sides"),
        ((), "diff compares two sides"),
        (("-", "live"), "diff does not read standard input"),
    ],
)
def test_diff_without_two_sides_says_how_to_name_them(run, where, words, says):
    status, out, err = run("diff", *words)
    assert (status, out) == (2, "")
    assert says in err
    assert "hint:" in err


def test_kept_file_that_is_no_report_is_told(run, where):
    keep("[]", "2026-11-01T00:30:00+00:00", 9, where)
    status, _, err = run("diff", "2026-11-01", "live")
    assert (status, "2026-11-01.json: is not a report of hosttune check" in err) == (2, True)


@pytest.mark.parametrize(
    "words", [(), ("--format", "prometheus"), ("--format", "json", "--host", H100)]
)
def test_keep_is_of_this_host_and_of_json_alone(run, where, words):
    status, out, err = run("check", "--keep", *words)
    assert (status, out) == (2, "")
    assert "--keep keeps what --format json says of this host" in err
    assert not os.path.exists(where)


@pytest.mark.parametrize(
    "words",
    [
        ("--only", "memory-swappiness"), ("--select", "gpu-profiling"), ("--ignore", "memory-swappiness"),
        ("--policy", "/etc/other.yaml"), ("--profile", "base"), ("--rules", "/srv/rules"), ("--max-risk", "low"),
        ("--disturb", "nothing"),
    ],
)  # fmt: skip
def test_keep_never_replaces_the_report_of_the_day_by_another_one(run, where, words):
    keep("the whole day", "2026-11-22T00:30:00+00:00", 9, where)
    status, out, err = run("check", "--format", "json", "--keep", *words)
    assert (status, out) == (2, "")
    assert f"--keep keeps the whole report of the day, which {words[0]} would replace" in err
    assert "leave out --keep" in err
    assert report_of("2026-11-22", where)[1] == b"the whole day"


def test_check_keeps_the_very_document_that_it_shows_as_many_days_as_the_policy_says(
    run, where, monkeypatch, tmp_path
):
    real = host.open_reader  # reads the policy
    monkeypatch.setattr(
        host, "open_reader", lambda **words: read_record(str(H100)) if words else real()
    )
    policy = tmp_path / "policy.yaml"
    load = policy_file.load_policy  # the host's own policy, which no option names
    monkeypatch.setattr(
        policy_file, "load_policy", lambda _, catalog, __=None: load(real(), catalog, str(policy))
    )
    policy.write_text("keep_reports: 2\n")
    keep_days(("2020-01-01", "2020-01-02", "2020-01-03"), where, 9)
    _, out, err = run("check", "--format", "json", "--keep")
    assert err == ""
    kept = kept_days(where)
    assert kept[0] == "2020-01-03"
    assert len(kept) == 2
    assert report_of(kept[1], where)[1].decode() == out
    policy.write_text("keep_reports: 0\n")
    run("check", "--format", "json", "--keep")
    assert kept_days(where) == ()


@pytest.mark.parametrize("value", ["-1", "1001", "many", "1.5"])
def test_days_to_keep_have_a_bound(run, tmp_path, value):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"keep_reports: {value}\n")
    status, _, err = run("check", "--host", H100, "--policy", policy)
    assert (status, "policy.yaml:1: keep_reports" in err) == (2, True)
