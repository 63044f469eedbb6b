"""Ordinary users call their processes, files and folders what they like: none of it is evidence."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.facts import Facts
from hosttune.facts.network import reached
from hosttune.facts.work import _given_devices, is_work, jobs_of
from hosttune.host.door import Process
from hosttune.host.processes import proc
from hosttune.host.reading.filestatus import FileStatus
from hosttune.host.reading.live import LiveReader
from tests.unit.fake_reader import FakeReader

EVE = 1001
AS_EVE = ("setpriv", f"--reuid={EVE}", f"--regid={EVE}", "--clear-groups")
IN_OWN_NAMESPACES = (*AS_EVE, "unshare", "--user", "--map-root-user", "--mount")
# A folder of devices of his own: a file that is called as a GPU, a link, another device over one,
# and a device that is only pointed at.
DEVICES = """
mount -t tmpfs none /dev/shm && cd /dev/shm && mkdir dev && : > dev/nvidia0 && : > dev/nvidia-uvm && : > dev/zero && : > dev/full
mount --bind /dev/null dev/zero && mount --bind /dev/full dev/full && mount --rbind dev /dev
exec 7< /dev/nvidia0 8< /dev/nvidia-uvm 9< /dev/zero 6< /dev/full && exec cat
"""
PROGRAM = """
mount --bind "$(command -v cat)" "$(command -v tail)" && exec tail
"""


@contextmanager
def running(*words):
    """The process, once it says that it is ready."""
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdin.write(b"ready\n")  # for cat(1), which says it again
        child.stdin.flush()
        assert child.stdout.readline() == b"ready\n", child.stderr.read()
        try:
            yield next(one for one in proc.list_processes() if one.pid == child.pid)
        finally:
            child.stdin.close()
            child.kill()


@contextmanager
def acting(act):
    """A process of Eve's that has done this."""
    (told, tell), (waits, go_on) = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(go_on)
            os.setgroups([])
            os.setgid(EVE)
            os.setuid(EVE)
            act()
            os.write(tell, b"x")
            os.read(waits, 1)
        finally:
            os._exit(0)
    os.close(tell)
    try:
        assert os.read(told, 1) == b"x"
        yield next(one for one in proc.list_processes() if one.pid == pid)
    finally:
        for fd in (go_on, waits, told):
            os.close(fd)
        os.waitpid(pid, 0)


@pytest.fixture
def folder_of_eve():
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, EVE, EVE)
        yield Path(folder)


def test_setuid_program_that_a_user_started_as_sshd_is_no_sshd(folder_of_eve):
    """Its effective user is root, and so is the owner of its /proc/PID."""
    called = folder_of_eve / "sshd"
    called.symlink_to(shutil.which("su"))
    with subprocess.Popen(
        [called, "root"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, user=EVE, group=EVE, extra_groups=[],
    ) as child:  # fmt: skip
        try:
            process = Path("/proc") / str(child.pid)
            comm, status = (
                (process / name).read_text(encoding="ascii") for name in ("comm", "status")
            )
            assert (comm, process.stat().st_uid) == ("sshd\n", 0)
            row = "LISTEN 0 5 127.0.0.1:22222 0.0.0.0:* ino:30 sk:1 <->\n"
            listed = tuple(one for one in proc.list_processes() if one.pid == child.pid)
            assert [one.uid for one in listed] == [EVE]
            reader = FakeReader(
                links={f"{process}/fd/3": "socket:[30]"},
                queries={reached.LISTENERS: row},
                processes=listed,
            )
            assert not reached.sshd_sockets(reader)
            files = {"/sys/fs/cgroup/system.slice/ssh.service/cgroup.procs": str(child.pid)}
            files |= {f"{process}/comm": comm, f"{process}/limits": "Max open files  1  1  files\n"}
            assert Facts(FakeReader(files | {f"{process}/status": status})).limits.services == ()
        finally:
            child.kill()


LISTEN = "import socket; one = socket.create_server(('127.0.0.1', 0)); print(one.getsockname()[1], flush=True); input()"


def test_sshd_is_found_by_the_sockets_that_it_has_open(monkeypatch):
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        port = int(child.stdout.readline())
        one = Process(
            child.pid, "sshd", "root", ("sshd",), 0, 0, (), "", 0.0, uid=0, program="/usr/sbin/sshd"
        )
        monkeypatch.setattr(LiveReader, "processes", lambda _: (one,))
        assert reached.sshd_sockets(LiveReader()) == {f"127.0.0.1:{port}": ("127.0.0.1", port)}
        child.stdin.close()


def test_title_of_a_user_s_process_is_no_batch_job():
    script = "echo ready; read line"
    with subprocess.Popen(
        ["slurmstepd: [4711.0]", "-c", script],
        executable="/bin/bash", stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=EVE, group=EVE, extra_groups=[],
    ) as child:  # fmt: skip
        assert child.stdout.readline() == b"ready\n"
        found = [one for one in proc.list_processes() if one.pid == child.pid]
        child.stdin.close()
    assert " ".join(found[0].command).startswith("slurmstepd: [4711.0]")
    assert (found[0].uid, jobs_of(found)) == (EVE, ())


@pytest.mark.parametrize(
    "name", ["nvidia-smi", "Uid:\t0\t0\t0", "x\nUid:\t0\t0\t0", "x\x0bUid:\t0\t0\t0"]
)
@pytest.mark.parametrize("has_psutil", [True, False])
def test_name_of_a_user_s_process_makes_it_nobody_else_s(name, has_psutil, monkeypatch):
    if not has_psutil:
        monkeypatch.setitem(sys.modules, "psutil", None)
    with acting(lambda: ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)) as seen:  # PR_SET_NAME
        assert (seen.uid, seen.user) == (EVE, str(EVE))
        assert seen.name[:15] == name[:15]
        assert is_work(replace(seen, devices=("/dev/nvidia0",)))


def test_files_in_a_namespace_of_a_user_s_own_are_no_devices():
    with running(*IN_OWN_NAMESPACES, "sh", "-c", DEVICES) as seen:
        assert os.readlink(f"/proc/{seen.pid}/fd/7") == "/dev/nvidia0"
        assert os.readlink(f"/proc/{seen.pid}/fd/9") == "/dev/zero"
        assert seen.devices == ("/dev/full",)
        assert "nvidia0" in os.listdir(f"/proc/{seen.pid}/root/dev")
        given = _given_devices(LiveReader(), f"/system.slice/docker-{'a' * 64}", [seen])
        assert "nvidia0" not in given


def test_program_at_a_path_in_a_namespace_of_a_user_s_own_is_not_that_program():
    with running(*IN_OWN_NAMESPACES, "sh", "-c", PROGRAM) as seen:
        assert os.readlink(f"/proc/{seen.pid}/exe").endswith("/tail")
        assert (seen.uid, seen.program) == (EVE, "")
    with running(*AS_EVE, "cat") as seen:
        assert seen.program == os.path.realpath(shutil.which("cat"))


def test_device_that_is_only_pointed_at_is_not_held():
    with acting(
        lambda: (os.open("/dev/full", os.O_PATH), os.open("/dev/zero", os.O_RDONLY))
    ) as seen:
        assert {"/dev/full", "/dev/zero"} & set(seen.devices) == {"/dev/zero"}


@pytest.mark.parametrize(
    ("target", "kind", "rdev", "name"),
    [
        ("/dev/nvidia0", stat.S_IFCHR, (195, 0), "/dev/nvidia0"),
        ("/tmp/x", stat.S_IFCHR, (195, 3), "/dev/nvidia3"),
        ("/dev/null", stat.S_IFCHR, (195, 3), "/dev/nvidia3"),
        ("/dev/nvidia0", stat.S_IFCHR, (195, 3), "/dev/nvidia3"),  # as a container has it
        ("/dev/nvidia0", stat.S_IFCHR, (195, 255), "/dev/nvidiactl"),
        ("/dev/y", stat.S_IFCHR, (510, 0), "/dev/nvidia-uvm"),
        ("/dev/y", stat.S_IFCHR, (510, 1), "/dev/nvidia-uvm-tools"),
        ("/dev/dri/card0", stat.S_IFCHR, (511, 0), "/dev/kfd"),
        ("/dev/nvidia0", stat.S_IFCHR, (1, 3), ""),
        ("/dev/nvidia0", stat.S_IFREG, (195, 0), ""),
        ("/dev/nvidia0", stat.S_IFBLK, (195, 0), ""),
        ("/dev/zero", stat.S_IFCHR, (1, 5), "/dev/zero"),
        ("/tmp/zero", stat.S_IFCHR, (1, 5), ""),
        ("/fuse (deleted)", stat.S_IFCHR, (10, 229), "/dev/fuse"),
    ],
)
def test_devices_are_told_by_their_numbers(target, kind, rdev, name):
    known = proc._known_devices(
        "Character devices:\n195 nvidia\n510 nvidia-uvm\n511 kfd\n\nBlock devices:\n  7 loop\n"
    )
    assert proc._name_device(target, FileStatus(kind | 0o666, 0, 1, rdev, (0, 5)), known) == name


@pytest.mark.parametrize("end", ["\u2028", "\x0b", "\x85", "\r", "\x1e"])
def test_name_of_a_control_group_is_no_line_of_its_own(end, tmp_path):
    content = f"1:name=systemd:/user.slice/user@{EVE}.service/x{end}0::/slurm/uid_0/job_7\n0::/user.slice\n"
    (tmp_path / "cgroup").write_bytes(content.encode())
    assert proc._read_cgroup(str(tmp_path)) == "/user.slice"
