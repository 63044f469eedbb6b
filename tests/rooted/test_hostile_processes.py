"""An ordinary user makes the command line and the environment of a process as long as they like:
root reads a part.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
from contextlib import contextmanager

import pytest

from hosttune.host.processes import proc
from hosttune.host.processes.proc_fields import COMMAND
from hosttune.host.reading.bounded import CUT, PROCESS_FILE
from hosttune.host.reading.tree import FileTree
from hosttune.measure.watch.target import find
from hosttune.values import Unreadable

SIZE = 256 << 20  # bytes of the words; no page of them is ever written
UID = 1001
PR_SET_MM, PR_SET_MM_MAP = 35, 14  # prctl(2); needs no capability


def map_words(length):
    """Give this process a command line and an environment in memory that costs nothing (struct
    prctl_mm_map).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = libc.sbrk.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    start = libc.mmap(
        None, length, 1, 0x4022, -1, 0
    )  # PROT_READ; MAP_NORESERVE, MAP_PRIVATE, MAP_ANONYMOUS
    with open("/proc/self/stat") as file:
        stat = file.read().rpartition(")")[2].split()
    code, data = (int(one) for one in stat[23:26]), (int(one) for one in stat[42:45])
    (start_code, end_code, stack), (start_data, end_data, heap) = code, data
    fields = (
        start_code,
        end_code,
        start_data,
        end_data,
        heap,
        libc.sbrk(0),
        stack,
        *[start, start + length] * 2,
    )
    packed = struct.pack("<11QQIi", *fields, 0, 0, -1)
    return libc.prctl(PR_SET_MM, PR_SET_MM_MAP, packed, len(packed), 0)


@contextmanager
def process_of_a_user(prepare):
    """Its pid, after `prepare` was called in it as an ordinary user."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(UID, UID, UID)
            os.setresuid(UID, UID, UID)
            os.write(writing, b"%d" % prepare())
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 20) == b"0"
        yield pid
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.fixture
def endless():
    with process_of_a_user(lambda: map_words(SIZE)) as pid:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            file.seek(SIZE - 10)
            assert len(file.read()) == 10  # the attack works on this kernel
        yield pid


@pytest.mark.parametrize("has_psutil", [True, False])
def test_endless_command_line_of_a_user_is_read_to_a_limit(endless, monkeypatch, has_psutil):
    sizes = []
    read = os.read
    monkeypatch.setattr(
        os, "read", lambda fd, size: sizes.append(len(content := read(fd, size))) or content
    )
    if not has_psutil:
        monkeypatch.setitem(__import__("sys").modules, "psutil", None)
    found = {one.pid: one for one in proc.list_processes()}[endless]
    assert max(sizes) <= PROCESS_FILE + 1
    assert found.command[-1] == CUT
    assert sum(map(len, found.command)) <= COMMAND[0]
    assert proc._read_variables(f"/proc/{endless}") == (CUT,)


def test_watch_of_an_endless_command_line_is_bounded(endless):
    target = find(endless)
    assert sum(map(len, target.command)) <= COMMAND[0]
    assert target.visible is None


def test_reader_gives_no_part_of_an_endless_file(endless):
    """A rule that asks for the whole of it gets none, not a beginning that looks like all."""
    answer = FileTree("/").read(f"/proc/{endless}/cmdline")
    assert answer == Unreadable(f"/proc/{endless}/cmdline is larger than {PROCESS_FILE >> 10} KiB")


def test_file_of_a_user_is_read_to_a_smaller_limit(tmp_path):
    file = tmp_path / "crontab"
    file.write_bytes(b"x" * ((1 << 20) + 1))
    assert isinstance(FileTree("/").read(str(file)), bytes)
    os.chown(file, UID, UID)
    assert FileTree("/").read(str(file)) == Unreadable(f"{file} is larger than 1 MiB")
    os.chown(file, 0, 0)
    file.chmod(0o666)
    assert FileTree("/").read(str(file)) == Unreadable(f"{file} is larger than 1 MiB")


ENDS_FIRST = """
import ctypes, os, platform, threading, time
file = open("/dev/zero")
def stay():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    print("ended", flush=True)
    time.sleep(600)
threading.Thread(target=stay).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(platform.machine(), 93), 0)  # exit(2): of this thread only
"""


def test_process_whose_first_thread_has_ended_is_listed_with_its_devices():
    words = ("setpriv", f"--reuid={UID}", "--clear-groups", "/usr/bin/python3", "-c", ENDS_FIRST)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as job:
        try:
            assert job.stdout
            assert job.stdout.readline() == "ended\n"
            (found,) = (one for one in proc.list_processes() if one.pid == job.pid)
            assert (found.uid, found.devices) == (UID, ("/dev/zero",))
        finally:
            job.kill()
