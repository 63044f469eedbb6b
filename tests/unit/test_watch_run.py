"""A command that is watched is left alone: its input, output, signals, and its exit status, however
it ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hosttune.cli import app

ROOT = Path(__file__).resolve().parents[2]
HOSTTUNE = [sys.executable, "-m", "hosttune", "watch", "--no-live"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
# Says which signals came, and ends with 7 at the second.
LISTENER = """
import os, signal, sys
seen = []
def take(number, frame):
    seen.append(number)
    print(signal.Signals(number).name, flush=True)
for name in sys.argv[1:]: signal.signal(getattr(signal, name), take)
print("ready", os.getppid(), flush=True)
while len(seen) < 2: signal.pause()
sys.exit(7)
"""


def watch(*words, **options):
    return subprocess.run(
        [*HOSTTUNE, *words],
        **{"text": True, "capture_output": True, "env": ENVIRONMENT, "timeout": 120, **options},
        check=False,
    )


def test_output_input_and_status_are_the_commands_own():
    done = watch("--", "sh", "-c", "cat; echo talk >&2; exit 3", input="hello\n")
    assert (done.returncode, done.stdout) == (3, "hello\n")
    assert done.stderr.startswith(
        "talk\nhosttune watch: sh -c 'cat; echo talk >&2; exit 3'\nverdict: undecided:"
    )


def test_command_that_ends_at_once_is_told_with_its_status_and_no_advice_to_watch_longer():
    said = watch("--", "sh", "-c", "exit 7").stderr
    assert (
        "verdict: undecided: the command ended at once, with status 7, before enough could be seen"
        in said
    )
    assert "find out why it ended so soon" in said
    assert "watch longer" not in said


def test_options_behind_the_command_are_its_own_without_dashes_too():
    done = watch("sh", "-c", 'echo "$0 $1"', "--help", "--pid")
    assert (done.returncode, done.stdout) == (0, "--help --pid\n")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["no-such-program-here"], 127, "no-such-program-here: No such file or directory"),
        (["/etc/passwd"], 126, "/etc/passwd: Permission denied"),
        (["/"], 126, "/: Permission denied"),
        ([""], 127, "the command is an empty word"),
        (["sh", "-c", "kill -9 $$"], 137, "kill -9"),
        (["sh", "-c", "kill -TERM $$"], 143, "kill -TERM"),
    ],
)
def test_status_is_that_of_a_shell_where_a_command_is_killed_or_cannot_start(words, status, said):
    done = watch("--", *words)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_script_without_a_first_line_is_run_by_the_shell(tmp_path):
    script = tmp_path / "train"
    script.write_text("echo from $1\nexit 5\n")
    script.chmod(0o755)
    done = watch("--", str(script), "here")
    assert (done.returncode, done.stdout) == (5, "from here\n")
    done = watch(
        "--",
        "train",
        "there",
        env={**ENVIRONMENT, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd="/",
    )
    assert (done.returncode, done.stdout) == (5, "from there\n")


@pytest.mark.parametrize("closing", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_status_is_that_of_the_command_where_nobody_can_be_told(closing, tmp_path):
    words = [*HOSTTUNE, "--", "sh", "-c", f"touch {tmp_path}/ran; exit 3"]
    shell = ["sh", "-c", f'"$@" {closing}', "sh", *words]
    done = subprocess.run(shell, env=ENVIRONMENT, timeout=120, check=False, capture_output=True)
    assert (done.returncode, (tmp_path / "ran").exists()) == (3, True)


def test_status_is_that_of_the_command_where_the_reader_of_the_report_has_gone():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*HOSTTUNE, "--", "sh", "-c", "exit 3"], env=ENVIRONMENT, stderr=writer, check=False
    )
    os.close(writer)
    assert done.returncode == 3


@pytest.fixture
def started():
    """A watch of LISTENER that has said that it is ready, in a session of its own."""
    running = []

    def start(*signals, before=(), **options):
        words = [*before, *HOSTTUNE, "--", sys.executable, "-c", LISTENER, *signals]
        one = subprocess.Popen(
            words,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            **{"start_new_session": True, **options},
        )
        running.append(one)
        assert one.stdout.readline().split()[0] == "ready"
        return one

    yield start
    for one in running:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()
        one.stdout.close()
        one.stderr.close()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGQUIT"])
def test_signal_that_is_sent_to_the_watch_reaches_the_command(started, name):
    one = started(name)
    for _ in range(2):
        one.send_signal(getattr(signal, name))
        assert one.stdout.readline() == f"{name}\n"
    assert one.wait(60) == 7
    assert "verdict: undecided" in one.stderr.read()


def test_command_that_dies_of_a_signal_that_was_passed_on_tells_so(started):
    one = started()
    one.send_signal(signal.SIGTERM)
    assert one.wait(60) == 128 + signal.SIGTERM


def test_hang_up_is_ignored_under_nohup(started, tmp_path):
    one = started("SIGTERM", before=("nohup",), cwd=tmp_path, stdin=subprocess.DEVNULL)
    one.send_signal(signal.SIGHUP)
    for _ in range(2):
        one.send_signal(signal.SIGTERM)
        assert one.stdout.readline() == "SIGTERM\n"
    assert one.wait(60) == 7


def test_stop_of_the_watch_stops_the_command_and_both_go_on(started):
    one = started(
        "SIGTERM", start_new_session=False, preexec_fn=os.setpgrp
    )  # a group that a shell could wake
    child = int(Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()[0])
    one.send_signal(signal.SIGTSTP)
    assert os.waitpid(one.pid, os.WUNTRACED)[1] == (signal.SIGTSTP << 8) | 0x7F
    while Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        os.sched_yield()
    one.send_signal(signal.SIGCONT)
    for _ in range(2):
        one.send_signal(signal.SIGTERM)
        assert one.stdout.readline() == "SIGTERM\n"
    assert one.wait(60) == 7


def test_command_gets_the_signals_as_we_got_them():
    status = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL)"
    assert watch("--", sys.executable, "-c", status).stdout == "[] True\n"
    check = "sed -n 's/^SigIgn:.//p' /proc/self/status"
    direct = subprocess.run(["sh", "-c", check], text=True, capture_output=True, check=True)
    # posix_spawn(3) of glibc ignores 32 and 33, which are its own: bits 31 and 32
    assert int(watch("--", "sh", "-c", check).stdout, 16) & ~(3 << 31) == int(
        direct.stdout, 16
    ) & ~(3 << 31)


def test_fault_of_ours_does_not_cost_the_command_its_end(monkeypatch, capfd):
    from hosttune.measure.watch import session

    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(session, "Looks", broken)
    assert app.run(["watch", "--", "sh", "-c", "echo done; exit 4"]) == 4
    out, err = capfd.readouterr()
    assert out == "done\n"
    assert "watching failed, the command went on: ZeroDivisionError" in err


def test_json_of_a_command_goes_to_a_file_because_standard_output_is_its_own(tmp_path):
    refused = watch("--format", "json", "--", "sh", "-c", "echo started")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--format json --output FILE" in refused.stderr
    path = tmp_path / "run.json"
    done = watch("--format", "json", "--output", str(path), "--", "sh", "-c", "exit 6")
    document = json.loads(path.read_text())
    assert (done.returncode, document["status"], next(iter(document))) == (6, 6, "format_version")
    assert document["verdict"]["outcome"] == "undecided"


def test_process_is_watched_until_it_ends_and_the_report_goes_to_standard_output(tmp_path):
    job = subprocess.Popen(["sleep", "60"])
    try:
        record = tmp_path / "ticks.jsonl"
        done = watch("--pid", str(job.pid), "--seconds", "1", "--hz", "5", "--record", str(record))
    finally:
        job.kill()
        job.wait()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"hosttune watch: process {job.pid}: sleep 60\nverdict: ")
    assert len(record.read_text().splitlines()) in {6, 7}
    assert record.stat().st_mode & 0o777 == 0o600
    again = watch("--replay", str(record))
    assert (again.returncode, again.stdout.splitlines()[:2]) == (0, done.stdout.splitlines()[:2])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give a command (-- CMD), --pid or --replay"),
        (["--pid", "1", "--", "true"], "give only one of -- CMD, --pid"),
        (["--seconds", "5", "--", "true"], "--seconds works only with --pid"),
        (["--scope", "--pid", "1"], "--scope works only with a command"),
        (
            ["--replay", "x", "--gpus", "0"],
            "--gpus works only with what runs: a record holds what was seen",
        ),
        (["--replay", "x", "--gpu-trace", "y"], "--gpu-trace works only with what runs"),
        (["--replay", "x", "--hz", "5"], "--hz works only with what runs"),
        (["--plot", "x.png", "--", "true"], "a picture is .html or .svg"),
        (["--output", "/proc/nowhere/x", "--", "true"], "/proc/nowhere/x: cannot be written"),
        (["--record", "/proc/nowhere/x", "--", "true"], "/proc/nowhere/x: cannot be written"),
        (["--pid", "4194305"], "no process 4194305"),
    ],
)
def test_wish_that_cannot_be_granted_is_refused_before_anything_starts(words, said, capfd):
    assert app.run(["watch", *words]) == 2
    assert said in capfd.readouterr().err


def test_time_in_which_job_and_watch_were_both_stopped_is_not_judged(monkeypatch):
    """By SIGSTOP or SIGTTIN, which nobody can wait for: only SIGCONT tells of it, and the clock."""
    from hosttune.measure.watch import loop as looping
    from hosttune.measure.watch.account import Account, Watched
    from hosttune.measure.watch.tick import Tick

    now = [100.0]
    came = [(signal.SIGCONT, 3600.0), None, (signal.SIGCONT, 0.1), None, (signal.SIGTERM, 0.0)]

    class Signals:
        def wait(self, seconds):
            found = came.pop(0)
            now[0] += seconds if found is None else found[1]
            return found and (found[0], False)

    class Looks:
        class tree:  # noqa: N801 - an attribute of Looks
            has_root = True

        def look(self, _, *, is_paused):
            paused.append(is_paused)
            return Tick(1.0, 1.0, is_paused=is_paused)

    paused: list[bool] = []
    monkeypatch.setattr(looping.time, "monotonic", lambda: now[0])
    loop = looping.Loop(
        Looks(), Account(Watched(1)), Signals(), on_tick=lambda _: None, on_stop=lambda: None
    )
    assert loop.attend(None) == "interrupted"
    assert paused[0]
    assert not any(paused[1:])
