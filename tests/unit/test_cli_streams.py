"""Where standard output or standard error cannot be written: trouble (2), or nothing at all; never
a fault of hosttune.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest

from hosttune.actions import run as run_of_actions
from hosttune.cli import app
from hosttune.host import pager
from hosttune.host.pager import pager_of
from tests.hosts.built import HOSTS

ROOT = Path(__file__).resolve().parents[2]
H100 = str(HOSTS / "h100-8x-2socket.json")
NEEDED = {
    "explain": ["memory-swappiness"], "record": ["-"], "diff": [H100, H100], "dataset": ["/etc"], "report": [H100],
    "bench": ["list"], "watch": ["--replay", "{tick}"], "fstab": ["/dev/null"], "facts": ["os"], "policy": ["{policy}"],
    "completion": ["bash"],
}  # fmt: skip
ON_RECORD = (
    "check",
    "plan",
    "apply",
    "undo",
    "history",
    "explain",
    "rules",
    "profiles",
    "facts",
    "disks",
    "driver",
    "reboot-required",
)


def words(name: str, folder: Path) -> list[str]:
    tick = next(iter(sorted((ROOT / "tests/unit/watch_ticks").glob("*"))))
    policy = folder / "policy.yaml"
    policy.write_text("profile: base\n")
    own = [word.format(tick=tick, policy=policy) for word in NEEDED.get(name, [])]
    place = ["--host", H100] if name in ON_RECORD and name != "rules" else []
    return [name, *own, *place] if name != "rules" else ["rules", "list", "--host", H100]


def run(argv: list[str], out: str, err: str = "") -> subprocess.CompletedProcess[str]:
    redirect = f'exec "$@" >{out}' + (f" 2>{err}" if err else "")
    command = ["sh", "-c", redirect, "sh", sys.executable, "-m", "hosttune", *argv]
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT, env=environment
    )  # fmt: skip


# `confirm` answers who is on trial, and `ready` acts on the machine that it is typed on.
@pytest.mark.parametrize(
    "name", [name for name in app.COMMANDS if name not in {"confirm", "ready"}]
)
def test_answer_that_cannot_be_written_is_trouble(name, tmp_path):
    done = run(words(name, tmp_path), "/dev/full")
    assert done.returncode == 2, done.stderr
    assert "cannot be written: No space left on device" in done.stderr
    assert "fault of hosttune" not in done.stderr


@pytest.mark.parametrize(
    "argv", [["--help"], ["--version"], ["check", "--help"], ["bench", "-h"]], ids=" ".join
)
def test_help_that_cannot_be_written_is_trouble(argv):
    done = run(argv, "/dev/full")
    assert (done.returncode, done.stderr) == (
        2,
        "hosttune: the output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize(
    "argv", [["check", "--nope"], ["check", "--host", "/nope"], ["chekc"]], ids=" ".join
)
def test_error_that_cannot_be_told_keeps_its_status(argv):
    assert run(argv, "/dev/null", "/dev/full").returncode == 2


def test_talk_that_cannot_be_told_ends_nothing():
    """Progress goes to standard error: an apply is not to end half-way because nobody can read
    it.
    """
    done = run(["check", "--timings", "--host", H100], "/dev/null", "/dev/full")
    assert done.returncode == 1


def test_reader_of_the_talk_that_has_gone_away_ends_nothing():
    command = '"$@" 2>&1 >/dev/null | true; exit "${PIPESTATUS[0]}"'
    argv = [
        "bash",
        "-c",
        command,
        "bash",
        sys.executable,
        "-m",
        "hosttune",
        "check",
        "--timings",
        "--host",
        H100,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (1, "")


def on_a_terminal(
    argv: list[str],
    columns: int,
    starter: Sequence[str] = ("-m", "hosttune"),
    *,
    rows: int = 24,
    **more: str,
) -> str:
    """What a command prints on a terminal of this size; `more` of the environment."""
    program, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = (
        {key: value for key, value in os.environ.items() if key != "COLUMNS"}
        | {"TERM": "dumb"}
        | more
    )
    subprocess.run(
        [sys.executable, *starter, *argv], stdin=terminal, stdout=terminal, stderr=terminal, timeout=120,
        check=False, cwd=ROOT, env=environment,
    )  # fmt: skip
    os.close(terminal)
    said = b""
    try:
        while more := os.read(program, 1 << 16):
            said += more
    except OSError:  # how a terminal says that its other end is closed
        pass
    os.close(program)
    return said.decode().replace("\r\n", "\n")


# Starts hosttune with the pagers of another folder than those of root.
WITH_PAGERS = """\
import sys
import hosttune.cli.app
import hosttune.host.pager
hosttune.host.pager.SECURE_PATH = (sys.argv.pop(1), "/usr/bin", "/bin")
hosttune.cli.app.main()
"""


@pytest.fixture
def less(tmp_path) -> tuple[str, ...]:
    """How hosttune is started with a `less` that says how it was started, before what it shows."""
    program = tmp_path / "less"
    program.write_text('#!/bin/sh\necho "paged: $LESS, secure $LESSSECURE, open $LESSOPEN."\ncat\n')
    program.chmod(0o755)
    return ("-c", WITH_PAGERS, str(tmp_path))


def test_report_longer_than_the_screen_is_shown_in_the_pager(less):
    lent = {
        "TERM": "xterm",
        "SUDO_UID": "1000",
        "PAGER": "sh -i",
        "LESS": "e",
        "LESSOPEN": "|sh %s",
    }
    shown = on_a_terminal(["check", "--host", H100], 80, less, **lent)
    assert shown.startswith("paged: FRX, secure 1, open .\n")
    assert "Exit status 1: " in shown
    for argv, more in (
        (["check", "--host", H100, "--no-pager"], {}),
        (["check", "--host", H100], {"TERM": "dumb"}),
        (["check", "--host", H100], {"PAGER": "cat"}),
        (
            [
                "check",
                "--host",
                H100,
                "--select",
                "memory-swappiness",
                "--only",
                "memory-swappiness",
            ],
            {},
        ),
        (["check", "--host", H100, "--host", str(HOSTS / "a100-cloud-vm.json")], {}),
    ):
        assert "paged" not in on_a_terminal(argv, 80, less, **(lent | more)), argv


def test_command_that_a_child_does_has_no_pager(less):
    """It is not in the foreground of the terminal: a program that reads keys there is stopped
    (tcsetpgrp(3)).
    """
    shown = on_a_terminal(["health", "--verbose"], 80, less, rows=3, TERM="xterm")
    assert "paged" not in shown
    assert len(shown.splitlines()) > 3


def test_under_the_lock_of_changes_no_key_is_waited_for(monkeypatch):
    monkeypatch.setitem(pager._state, "is_off", False)
    monkeypatch.setattr(run_of_actions, "outlive_terminal", lambda: None)
    monkeypatch.setattr(
        run_of_actions, "open_writer", lambda **_: (_ for _ in ()).throw(LookupError)
    )
    with pytest.raises(LookupError), run_of_actions.open_for_change({}, print):
        pass
    assert pager._state["is_off"]


def test_pager_of_lent_rights_is_less_without_commands():
    given = {
        "PAGER": "sh -c 'cat; id'",
        "LESS": "e",
        "LESSOPEN": "|id",
        "LESSKEYIN": "/x",
        "TERM": "xterm",
        "HOME": "/u",
    }
    words, environment = pager_of(given, is_lent=True)
    assert (words, environment["LESSSECURE"], environment["LESS"]) == (["less"], "1", "FRX")
    assert set(environment) == {
        "LESS",
        "LV",
        "TERM",
        "PATH",
        "LESSSECURE",
        "LESSSECURE_ALLOW",
        "LESSHISTFILE",
    }
    assert pager_of(given, is_lent=False) == (["sh", "-c", "cat; id"], {"LV": "-c", **given})
    assert [pager_of({"PAGER": word}, is_lent=True)[0] for word in ("", "cat", "'")] == [[], [], []]


LONG = ["check", "--host", H100, "--hardware", H100]
TOLD = "hosttune: --host cannot be combined with --root or --hardware\n  hint: a record has its own hardware\n"


def test_error_is_broken_on_a_terminal_and_whole_in_a_pipe():
    said = on_a_terminal(LONG, 40)
    assert max(map(len, said.splitlines())) <= 40
    assert said.split() == TOLD.split()
    assert run(LONG, "/dev/null").stderr == TOLD


def test_answer_is_broken_on_a_terminal_and_whole_in_a_pipe(tmp_path):
    argv = ["check", "--host", H100, "--select", "storage-scratch-variables"]
    file, other = tmp_path / "piped", tmp_path / "written"
    run(argv, str(file))
    run([*argv, "--output", str(other)], "/dev/null")
    assert max(map(len, file.read_text().splitlines())) > 120
    assert other.read_text() == file.read_text()
    assert max(map(len, on_a_terminal(["profiles"], 60).splitlines())) <= 60


def test_record_goes_to_standard_output_where_that_is_asked_for(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hosttune", "record", "-"], capture_output=True, text=True, timeout=120, check=False,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    assert json.loads(done.stdout)["kind"] == "hosttune record"
    assert done.stderr.startswith("hosttune: standard output: ")
    assert list(tmp_path.iterdir()) == []


def test_dash_is_standard_output_for_every_answer_and_no_plan_beside_one(tmp_path):
    assert run(["check", "--host", H100, "--output", "-"], str(tmp_path / "a")).returncode == 1
    assert "CHANGE" in (tmp_path / "a").read_text()
    assert run(["plan", "--host", H100, "--save", "-"], "/dev/null").returncode == 2
