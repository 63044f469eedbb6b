"""The line that a terminal shows of what takes its time."""

import os
import pty
import subprocess
import sys

import pytest

from hosttune.host.progress import format_clock, format_line

PROGRAM = """\
import os, sys, time
from hosttune.host import progress
from hosttune.host.console import write_to_stderr
progress._AFTER_S = progress._EVERY_S = 0.05
progress._GROUP = os.tcgetpgrp(2) if os.isatty(2) else 0
with progress.show_progress("looking", most_s=20):
    progress.note_step("rule 1 of 2")
    time.sleep(0.5)
    write_to_stderr("a line that stays\\n")
    with progress.show_progress("waiting for apt-get", stop="Ctrl-C stops it at a safe point"):
        time.sleep(0.5)
    progress.note_step("rule 2 of 2")
    time.sleep(0.5)
    if os.fork() == 0:
        progress.note_step("of a child")
        progress.end_progress()
        os._exit(0)
    os.wait()
progress.note_step("over")
time.sleep(0.3)
print("the answer")
"""


def run(term="xterm", *, is_terminal=True):
    """What is written to standard error, and to standard output."""
    pid, ours = pty.fork() if is_terminal else (0, 0)
    if is_terminal and pid == 0:
        os.environ["TERM"] = term
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM])
    if not is_terminal:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True,
            env={**os.environ, "TERM": term}, timeout=60,
        )  # fmt: skip
        return done.stderr + done.stdout
    said = b""
    try:
        while more := os.read(ours, 1 << 16):
            said += more
    except OSError:  # the other end is closed
        pass
    os.waitpid(pid, 0)
    os.close(ours)
    return said.decode()


def test_terminal_shows_what_for_how_long_and_how_to_stop_it_and_nothing_stays():
    said = run()
    assert "\r\x1b[K  looking: rule 1 of 2, 0:00 of at most 0:20 (Ctrl-C stops it)" in said
    assert "\r\x1b[Ka line that stays\r\n" in said
    assert "  waiting for apt-get, 0:00 (Ctrl-C stops it at a safe point)" in said
    assert "  looking: rule 2 of 2, 0:0" in said.partition("apt-get")[2]
    assert "of a child" not in said
    assert "over" not in said
    assert said.endswith("\r\x1b[Kthe answer\r\n")


@pytest.mark.parametrize("where", [{"term": "dumb"}, {"is_terminal": False}], ids=str)
def test_nothing_of_it_is_in_a_pipe_or_on_a_dumb_terminal(where):
    assert run(**where).replace("\r", "").splitlines() == ["a line that stays", "the answer"]


def test_what_is_too_long_is_cut_before_the_time_of_it():
    line = format_line(
        "looking at the image in /a/very/long/folder/of/images", "rule 3", 72, "about 2:00", "x", 60
    )

    assert line.endswith("..., 1:12 of about 2:00 (x)")


def test_clock():
    assert (format_clock(5), format_clock(72.9), format_clock(3723)) == ("0:05", "1:12", "1:02:03")
