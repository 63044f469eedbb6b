"""Programs: found on a fixed path, run without shell, ended in time, told apart when they are
missing, fail or hang.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hosttune.errors import Refused
from hosttune.host import process
from hosttune.host.process import Ended, act, last_lines, look
from hosttune.host.reading.live import LiveReader, LiveWriter
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


def test_reboot_is_one_of_the_machine():
    """systemctl(1): systemd 257 (252 does not) boots a loaded kernel by kexec, or /run/nextroot,
    unless told not to.
    """
    told = act(("env",), timeout_s=10).text.splitlines()
    assert {"SYSTEMCTL_SKIP_AUTO_KEXEC=1", "SYSTEMCTL_SKIP_AUTO_SOFT_REBOOT=1"} <= set(told)


def test_standard_input_is_closed():
    assert look(("cat",), timeout_s=10).stdout == b""


def test_program_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    mark = tmp_path / "pid"
    answer = look(("sh", "-c", f"sleep 60 & echo $! > {mark}; wait"), timeout_s=0.5)
    assert isinstance(answer, Ended)
    child = int(mark.read_text())
    deadline = time.monotonic() + 30  # a signal is sent, not yet dealt with, when kill(2) returns
    while lives(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not lives(child)


def lives(pid):
    """A process that has ended and that nobody has waited for yet is a zombie (`Z`,
    proc_pid_stat(5)).
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


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


def test_too_much_output_is_told_of_a_program_that_has_ended_too(monkeypatch):
    monkeypatch.setattr(process, "OUTPUT_LIMIT", 1000)
    command = ("head", "-c", "5000", "/dev/zero")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.wait(10)
        answer = process._attend_child(child, "head", 10)
    assert isinstance(answer, Ended)
    assert answer.why == "output"


def test_program_that_ignores_the_kind_signal_is_killed(monkeypatch):
    monkeypatch.setattr(process, "_GRACE_S", 0.5)
    answer = look(("env", "--ignore-signal=TERM", "sleep", "60"), timeout_s=0.5)
    assert str(answer) == "env did not end within 0.5 s"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_process_that_survives_its_end_is_named_and_left(monkeypatch):
    monkeypatch.setattr(
        process, "_signal", lambda child, number: None
    )  # as one in state D takes it
    monkeypatch.setattr(process, "_GRACE_S", 0)
    answer = look(("sleep", "60"), timeout_s=0)
    assert isinstance(answer, Ended)
    found = re.fullmatch(
        r"sleep did not end within 0 s, and process (\d+) does not end when it is killed",
        answer.detail,
    )
    os.kill(int(found[1]), 9)


def test_daemon_that_a_program_leaves_behind_is_not_waited_for(tmp_path):
    mark = tmp_path / "pid"
    answer = look(("sh", "-c", f"sleep 60 & echo $! > {mark}; echo done"), timeout_s=30)
    os.kill(int(mark.read_text()), 9)
    assert answer.text == "done\n"


def test_end_by_a_signal_is_told_from_a_status():
    assert look(("sh", "-c", "kill -9 $$"), timeout_s=10).status == -9
    with pytest.raises(Refused, match="ended by signal 9"):
        LiveWriter().run(("sh", "-c", "kill -9 $$"), timeout_s=10)
    with pytest.raises(Refused, match=r"status 3\n  why"):
        LiveWriter().run(("sh", "-c", "echo why >&2; exit 3"), timeout_s=10)
    with pytest.raises(Refused, match="not installed"):
        LiveWriter().run(("no-such-program-here",), timeout_s=10)


def test_without_pidfd_the_end_is_seen_too(monkeypatch):
    def missing(_pid):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    assert look(("echo", "x"), timeout_s=10).text == "x\n"


def test_only_what_changes_the_host_gets_the_sites_proxy(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    assert "https_proxy=http://proxy:3128" in act(("env",), timeout_s=10).text
    assert "proxy" not in look(("env",), timeout_s=10).text


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone distrusts what others can write")
def test_root_does_not_run_what_others_can_rewrite(tmp_path):
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\necho owned\n")
    program.chmod(0o755)
    assert look((str(program),), timeout_s=10).text == "owned\n"
    program.chmod(0o757)
    assert look((str(program),), timeout_s=10) is ABSENT
    program.chmod(0o755)
    os.chown(program, 1234, 1234)
    assert look((str(program),), timeout_s=10) is ABSENT
    os.chown(program, 0, 1234)
    program.chmod(0o775)
    assert look((str(program),), timeout_s=10) is ABSENT
    os.chown(program, 0, 0)
    assert look((str(program),), timeout_s=10).text == "owned\n"


def test_relative_program_is_never_run(tmp_path, monkeypatch):
    (tmp_path / "tool").write_text("#!/bin/sh\necho owned\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert look(("./tool",), timeout_s=10) is ABSENT
    assert look(("../sh",), timeout_s=10) is ABSENT


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/proc/sys/vm/no-such-value", "no such value"),
        ("/etc/hostname", "not a kernel value"),
        ("/sys/../etc/passwd", "not a kernel"),
    ],
)
def test_only_kernel_values_are_set_in_one_write(path, words):
    with pytest.raises(Refused, match=words):
        LiveWriter().set_value(path, "1")


PACKAGE_MANAGER = """\
#!{python}
import os, signal, sys
told, go = open("{told}", "w"), "{go}"
signal.signal(signal.SIGINT, lambda *_: (told.write("interrupted\\n"), told.flush(), sys.exit(0)))
told.write("begun\\n")
told.flush()
open(go).read()
print("noise", flush=True)
print("noise", file=sys.stderr, flush=True)
told.write("ended\\n")
told.flush()
"""
ACTS = "from hosttune.host.process import act; act(({program!r},), timeout_s=60)"


@pytest.fixture
def package_manager(tmp_path):
    """A program called apt-get that tells where it is and waits at a fifo, and a process of ours
    that runs it.
    """
    program, told, go = tmp_path / "apt-get", tmp_path / "told", tmp_path / "go"
    for fifo in (told, go):
        os.mkfifo(fifo)
    program.write_text(PACKAGE_MANAGER.format(python=sys.executable, told=told, go=go))
    program.chmod(0o755)
    child = subprocess.Popen(
        (sys.executable, "-c", ACTS.format(program=str(program))), stderr=subprocess.PIPE, text=True
    )
    with told.open() as lines:
        assert lines.readline() == "begun\n"
        yield child, lines, go
    child.kill()
    child.communicate()


def test_package_manager_comes_to_its_end_although_we_are_killed(package_manager):
    child, lines, go = package_manager
    child.kill()
    child.wait()
    go.write_text("go")
    assert lines.readline() == "ended\n"


def test_package_manager_gets_an_interrupt_itself_and_is_waited_for(package_manager):
    child, lines, _ = package_manager
    child.send_signal(signal.SIGINT)
    assert lines.readline() == "interrupted\n"
    _, said = child.communicate(timeout=60)
    assert "waiting until apt-get has come to a safe end" in said
    assert "KeyboardInterrupt" in said


def test_package_manager_is_told_apart_and_ended_like_others(tmp_path):
    program = tmp_path / "dpkg"
    program.write_text('#!/bin/sh\necho out; echo err >&2; test -z "$1" || exec sleep 60; exit 3\n')
    program.chmod(0o755)
    done = act((str(program),), timeout_s=30)
    assert (done.status, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    ended = act((str(program), "hang"), timeout_s=0.5)
    assert isinstance(ended, Ended)
    assert "dpkg did not end within 0.5 s" in ended.detail


DPKG_SAYS = """\
Error! Bad return status for module build on kernel: 6.8.0-45-generic (x86_64)
Consult /var/lib/dkms/nvidia/580.95.05/build/make.log for more information.
dpkg: error processing package nvidia-dkms-580 (--configure):
 installed nvidia-dkms-580 package post-installation script subprocess returned error exit status 10
dpkg: dependency problems prevent configuration of nvidia-driver-580:
 nvidia-driver-580 depends on nvidia-dkms-580 (= 580.95.05-0ubuntu1); however:
  Package nvidia-dkms-580 is not configured yet.

dpkg: error processing package nvidia-driver-580 (--configure):
 dependency problems - leaving unconfigured
Errors were encountered while processing:
 nvidia-dkms-580
 nvidia-driver-580
E: Sub-process /usr/bin/dpkg returned an error code (1)
"""


def test_last_lines_tell_the_first_failure_and_not_who_waits_for_it():
    lines = last_lines(DPKG_SAYS)
    assert lines[0].startswith("Error! Bad return status")
    assert "make.log" in lines[1]
    assert lines[-1] == "E: Sub-process /usr/bin/dpkg returned an error code (1)"
    assert not any("nvidia-driver-580" in line for line in lines)
    assert len(last_lines("x" * 1000 + "\n" + "line\n" * 100)) == 15
    assert last_lines("x" * 1000) == ("x" * 300,)
