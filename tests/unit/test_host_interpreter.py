"""The Python of a job is asked as its user, with an environment of ours; root's rights never reach
it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from hosttune.host.processes import code_owner, interpreter
from hosttune.host.processes.code_owner import owner_of_code
from hosttune.host.processes.interpreter import Interpreter, at_path, command_of, environment_of
from hosttune.host.reading.live import LiveReader
from hosttune.values import Unreadable

IS_ROOT = os.geteuid() == 0
NOBODY = 65534


def test_search_for_the_standard_library_ends_at_the_root_of_two_slashes(monkeypatch):
    """A `home` of pyvenv.cfg that begins with two keeps both (POSIX, path resolution): `//` has no
    folder above.
    """
    monkeypatch.setattr(code_owner, "_MOST_STEPS", 500)
    code_owner._take_above(code_owner._Places(), "//no-such-folder/bin")


@pytest.mark.parametrize(("uid", "gid"), [(0, 0), (0, 1000), (1000, 0)])
@pytest.mark.parametrize("euid", [0, 1000])
def test_interpreter_of_root_is_never_run(uid, gid, euid):
    refused = command_of(Interpreter("/opt/python", uid, gid), euid)
    assert isinstance(refused, Unreadable)
    assert "not run with root's rights" in refused.reason


def test_root_becomes_the_user_before_the_interpreter_is_started():
    command = command_of(Interpreter("/home/a/bin/python", 54321, 54322), 0)
    assert isinstance(command, list)
    before, after = command[: command.index("--")], command[command.index("--") + 1 :]
    assert command[0] == os.path.realpath(sys.executable)  # host/processes/confined_child.py
    assert {
        "--reuid=54321",
        "--regid=54322",
        "--clear-groups",
        "--no-new-privs",
        "--inh-caps=-all",
    } < set(before)
    assert after == ["/home/a/bin/python"]


def test_another_users_interpreter_needs_root():
    assert isinstance(command_of(Interpreter("/home/a/bin/python", 1001, 1001), 1000), Unreadable)


def test_environment_is_small_and_neither_the_callers_nor_the_jobs(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("LD_PRELOAD", "/tmp/evil.so")
    assert set(environment_of(54321)) == {"PATH", "HOME", "LC_ALL", "OMP_NUM_THREADS"}
    assert environment_of(54321)["HOME"] == "/nonexistent"


@pytest.mark.parametrize("path", ["python", "./python", "/no/such/python", "/etc/passwd", "/etc"])
def test_path_that_is_no_program_is_refused(path):
    assert isinstance(at_path(path), Unreadable)


def test_program_of_root_is_run_as_nobody_by_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert at_path("/bin/sh") == Interpreter("/bin/sh", NOBODY, NOBODY, is_roots=True)


def test_interpreter_that_hangs_is_ended_and_one_that_talks_is_cut_off(tmp_path, monkeypatch):
    uid = os.geteuid() or NOBODY
    for text, says in (
        ("exec sleep 60", "did not end within"),
        ("exec yes", "wrote more than 64 KiB"),
    ):
        monkeypatch.setattr(interpreter, "TIMEOUT_S", 0.3 if "sleep" in text else 20.0)
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        if IS_ROOT:
            for folder in (tmp_path, *tmp_path.parents[:2]):
                folder.chmod(0o755)
        monkeypatch.setattr(
            interpreter,
            "at_path",
            lambda path: Interpreter(path, uid, os.getegid() or NOBODY, is_roots=True),
        )
        answer = LiveReader().query(("python-at", str(path), "torch"))
        assert answer.status == interpreter.TIMED_OUT
        assert str(path) in answer.errors
        assert says in answer.errors


def test_question_is_answered_by_a_python_without_torch():
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    done = LiveReader().query(("python-at", python, "torch"))
    said = json.loads(done.text.splitlines()[-1])
    assert said["python"].startswith("3.")
    assert "missing" in said or "torch" in said


@pytest.fixture
def running():
    """A process of another user where that can be had, with an interpreter by its bare name."""
    become = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if IS_ROOT else {}
    environment = {"PATH": "/nowhere:/usr/bin:/bin"}
    child = subprocess.Popen(["sleep", "60"], executable="/bin/sleep", env=environment, **become)
    while os.readlink(f"/proc/{child.pid}/exe").rpartition("/")[2] not in {
        "sleep",
        "coreutils",
        "busybox",
    }:
        time.sleep(0.01)
    yield child
    child.send_signal(signal.SIGKILL)
    child.wait()


def of_process(pid):
    with interpreter._opened_process(pid) as folder:
        return interpreter._interpreter_of(folder, pid)


def test_interpreter_of_a_process_is_found_by_its_name_and_belongs_to_its_user(running):
    found = of_process(running.pid)
    assert isinstance(found, Interpreter), found
    assert (os.path.samefile(found.path, "/bin/sleep"), found.uid) == (True, os.geteuid() or NOBODY)


@pytest.mark.parametrize("called", ["{0}/bin/python", "bin/python", "./bin/python", "python"])
def test_interpreter_of_a_virtual_environment_keeps_the_name_of_its_link(tmp_path, called):
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "python"
    link.symlink_to("/bin/sleep")
    child = subprocess.Popen(
        [called.format(tmp_path), "60"],
        executable="/bin/sleep",
        cwd=tmp_path,
        env={"VIRTUAL_ENV": str(tmp_path)},
    )
    try:
        # execve(2) closes the pipe that Popen waits for before it shows the new arguments
        while (
            Path(f"/proc/{child.pid}/cmdline").read_bytes()
            != f"{called.format(tmp_path)}\0".encode() + b"60\0"
        ):
            time.sleep(0.01)
        found = of_process(child.pid)
        assert isinstance(found, Interpreter), found
        assert os.path.normpath(found.path) == str(link)
    finally:
        child.kill()
        child.wait()


def test_process_that_is_gone_is_not_asked():
    assert isinstance(LiveReader().query(("python-of", str(2**22 + 7), "torch")), Unreadable)


@pytest.mark.parametrize("name", ["mnt", "user", "pid", "net", "ipc", "uts", "cgroup", "time"])
def test_process_in_other_namespaces_is_not_asked(running, monkeypatch, name):
    real = os.readlink
    own = f"/proc/self/ns/{name}"
    monkeypatch.setattr(
        os, "readlink", lambda path, **more: "x:[1]" if path == own else real(path, **more)
    )
    refused = of_process(running.pid)
    assert isinstance(refused, Unreadable)
    assert f"has its own {name} namespace: it runs in a container" in refused.reason


@pytest.mark.skipif(not IS_ROOT, reason="only root runs as root")
def test_process_of_root_is_not_asked():
    answer = LiveReader().query(("python-of", str(os.getpid()), "torch"))
    assert isinstance(answer, Unreadable)
    assert "not run with root's rights" in answer.reason


def modules(folder, name, number):
    place = folder / "lib" / name
    place.mkdir(parents=True)
    for one in range(number):
        (place / f"m{one}.py").touch()


def test_names_in_all_folders_of_modules_together_are_bounded(tmp_path, monkeypatch):
    """Links to one folder, and the same folder on several ways, count once."""
    monkeypatch.setattr(code_owner, "_MOST_OF_ALL", 60)
    program = tmp_path / "bin" / "python3"
    program.parent.mkdir()
    shutil.copy("/bin/true", program)
    modules(tmp_path, "python3.0", 28)
    (
        tmp_path / "lib/python3.0/os.py"
    ).touch()  # its standard library, so that none is looked for above
    (tmp_path / "lib/python3.0/lib-dynload").mkdir()
    for number in range(1, 20):
        (tmp_path / "lib" / f"python3.{number}").symlink_to("python3.0")
    assert owner_of_code(str(program)) == os.geteuid()
    modules(tmp_path, "python3.20", 30)
    refused = owner_of_code(str(program))
    assert isinstance(refused, Unreadable)
    assert "more than 60 entries together" in refused.reason


def test_look_through_what_a_user_made_is_one_of_a_process_that_can_be_left(monkeypatch):
    monkeypatch.setattr(interpreter, "_at_path", lambda *_: Unreadable(str(os.getpid())))
    told = at_path("/bin/sh")
    assert isinstance(told, Unreadable)
    assert told.reason != str(os.getpid())


@contextmanager
def called(name, path):
    """A process whose PATH is this."""
    words = [name, "-c", "print('ready', flush=True); input()"]
    python = os.path.realpath(sys.executable)
    with subprocess.Popen(
        words, executable=python, env={"PATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()


def test_of_a_long_path_of_a_job_the_first_entries_are_looked_at():
    with (
        called("pythonx", ":".join(["/nowhere"] * 2000)) as pid,
        interpreter._opened_process(pid) as folder,
    ):
        assert len(interpreter._list_candidates(folder)) <= 66


def test_link_that_leads_through_very_many_folders_leads_to_no_interpreter(tmp_path, monkeypatch):
    """The kernel follows it, and 40 of them in a row."""
    for name in ("a", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "pythonx").symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "long").symlink_to("a/../" * 300 + "bin")
    (tmp_path / "short").symlink_to("bin")
    monkeypatch.setattr(interpreter, "_of_one_user", lambda path, *_: Unreadable(path))
    for name, is_found in (("short", True), ("long", False)):
        with (
            called("pythonx", f"{tmp_path}/{name}") as pid,
            interpreter._opened_process(pid) as folder,
        ):
            found = interpreter._look_for(folder, pid)
            assert (found.reason == f"{tmp_path}/{name}/pythonx") is is_found
