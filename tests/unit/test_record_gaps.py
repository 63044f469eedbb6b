"""A record of an older version: one sentence says what it lacks; each rule keeps its verdict and
the exit status.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hosttune import __version__
from hosttune.cli import app
from hosttune.host.record.record import RecordReader
from hosttune.values import NotRecorded, is_unrecorded
from hosttune.views.page import Page
from hosttune.views.record_gaps import gaps_text, missing_answer
from tests.hosts.built import HOSTS

OLD = sorted((Path(__file__).parent / "old_records").glob("*.json"))
SENTENCE = "This record (hosttune 0.1.0) lacks at least "
PAGE = Page(record="0.1.0")


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/opt/hosttune/bin/hosttune"])

    def run(*argv):
        status = app.run([str(word) for word in argv])
        return status, " ".join(capsys.readouterr().out.split())

    return run


def lacking(path, tmp_path, program):
    """The record as of an older version, without the answers of a program."""
    data = json.loads(path.read_text(encoding="utf-8")) | {"tool_version": "0.1.0"}
    data["queries"] = [one for one in data["queries"] if one["argv"][0] != program]
    made = tmp_path / "record.json"
    made.write_text(json.dumps(data), encoding="utf-8")
    return made


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
@pytest.mark.parametrize("command", ["check", "health", "plan"])
def test_old_record_says_once_what_it_lacks(run, path, command):
    status, text = run(command, "--host", path)
    assert (status, text.count(SENTENCE), text.count("not in this record")) == (1, 1, 0)
    assert text.count("sudo hosttune record FILE") == 1
    assert text.count("journalctl -k -b --no-pager --no-hostname -o short-unix --ca...") == 1
    unknown = text.partition("Unknown for that: ")[2].partition(" Advice")[0]
    assert {"kernel-stalls", "storage-io-errors"} <= {rule.strip(",") for rule in unknown.split()}


@pytest.mark.parametrize("command", ["check", "health"])
def test_verbose_and_json_keep_each_reason(run, command):
    status, text = run(command, "--verbose", "--host", OLD[0])
    assert (status, text.count(SENTENCE)) == (1, 1)
    assert text.count("not in this record: ") > 5
    status, text = run(command, "--format", "json", "--host", OLD[0])
    assert (status, SENTENCE in text) == (1, False)
    assert text.count("not in this record: ") > 5


def test_driver_says_once_what_the_record_lacks(run, tmp_path):
    status, text = run(
        "driver", "--host", lacking(HOSTS / "gh200-arm64.json", tmp_path, "nvidia-smi")
    )
    assert (status, text.count(SENTENCE), text.count("not in this record")) == (1, 1, 0)
    assert "nvidia-smi --query-gpu=" in text


def test_missing_answer_is_typed_so_that_a_command_may_hold_anything():
    reader = RecordReader(json.loads(OLD[0].read_text(encoding="utf-8")))
    reason = reader.query(("journalctl", "--grep=a; b: not in this record: c")).reason
    assert isinstance(reason, NotRecorded)
    assert missing_answer(reason, PAGE) == "journalctl --grep=a; b: not in this record: c"


@pytest.mark.parametrize(
    ("version", "is_lenient"),
    [("0.1.0", True), ("0.1.9", True), (__version__, False), ("99.0", False), ("", False)],
)
def test_answer_that_is_not_there_is_one_that_an_older_version_did_not_ask_for(version, is_lenient):
    """What was taken out of a record of this version is unknown, as where the host did not
    answer.
    """
    record = json.loads(OLD[0].read_text(encoding="utf-8")) | {"tool_version": version}
    answer = RecordReader(record).query(("nvidia-smi", "-x"))
    assert is_unrecorded(answer) is is_lenient
    assert answer.reason == "not in this record: the answer of nvidia-smi -x"


@pytest.mark.parametrize(
    ("reason", "answer"),
    [
        ("not in this record: /proc/1/limits", "/proc/1/limits"),
        ("nofile: not in this record: /proc/1/limits", "/proc/1/limits"),
        ("not known (/etc/x: not in this record: /etc/y)", "/etc/y"),
        ("only root may read /etc/x; not in this record: /etc/y", ""),
        ("not in this record: /etc/y; only root may read /etc/x", ""),
        ("/sys is not mounted", ""),
    ],
)
def test_reason_is_folded_only_where_it_says_nothing_else(reason, answer):
    assert missing_answer(reason, PAGE) == answer
    assert missing_answer(reason, Page()) == ""  # not of a record: the words are those of a file


def test_answers_are_counted_once_and_bounded():
    reasons = [f"not in this record: /sys/{'x' * 300}/{number % 5}" for number in range(50)]
    text = gaps_text(reasons, ["a", "a", "b"], PAGE)
    assert "at least 5 answers" in text
    assert "and 2 more" in text
    assert text.endswith("Unknown for that: a and b")
    assert len(text) < 500
    assert gaps_text(["/sys is not mounted"], ["a"], PAGE) == ""
