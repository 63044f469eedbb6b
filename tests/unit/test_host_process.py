"""Programs: found on a fixed path, run without shell, ended in time, told apart when they are missing, fail or hang."""

from __future__ import annotations

import os
from pathlib import Path

from hosttune.host.live import LiveReader
from hosttune.host.process import Ended, act, look
from hosttune.values import ABSENT, Unreadable


def test_missing_program_is_an_answer():
    assert look(("no-such-program-here",), timeout_s=5) is ABSENT
    assert LiveReader().query(("no-such-program-here",)) is ABSENT


def test_output_status_and_errors_are_kept_apart():
    done = look(("sh", "-c", "echo out; echo err >&2; exit 3"), timeout_s=10)
    assert (done.status, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


def test_locale_is_plain_and_the_callers_environment_stays_out(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD_FAKE", "x")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    text = look(("env",), timeout_s=10).text
    assert "LC_ALL=C" in text
    assert "LD_PRELOAD_FAKE" not in text


def test_standard_input_is_closed():
    assert look(("cat",), timeout_s=10).stdout == b""


def test_program_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    mark = tmp_path / "pid"
    answer = look(("sh", "-c", f"sleep 60 & echo $! > {mark}; wait"), timeout_s=0.5)
    assert isinstance(answer, Ended)
    child = int(mark.read_text())
    status = Path(f"/proc/{child}/stat")
    assert not status.exists() or status.read_text().split()[2] == "Z"


def test_query_that_hangs_is_unreadable_and_says_so():
    answer = LiveReader().query(("sleep", "60"), timeout_s=0.2)
    assert isinstance(answer, Unreadable)
    assert "sleep" in answer.reason


def test_program_is_not_taken_from_the_current_folder(tmp_path, monkeypatch):
    program = tmp_path / "hosttune-fake-tool"
    program.write_text("#!/bin/sh\necho owned\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert act(("hosttune-fake-tool",), timeout_s=5) is ABSENT


def test_endless_output_is_ended():
    answer = look(("yes",), timeout_s=30)
    assert isinstance(answer, Ended)
