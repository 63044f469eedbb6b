"""A job makes the mount table of its process unreadable: by many mounts, or by a first thread that
has ended.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time

from hosttune.host.reading.tree import FileTree
from hosttune.values import ABSENT, TooLong, Unreadable

NEW_MOUNTS, BIND, PRIVATE, ALL_BELOW = 0x20000, 4096, 1 << 18, 16384  # sched.h, linux/mount.h
ENDED = "import ctypes, signal, threading; threading.Thread(target=signal.pause).start(); ctypes.CDLL(None).pthread_exit(None)"


def crowd_mounts() -> None:
    """400 mounts in a namespace of its own, each with a path of some 3,000 characters."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(NEW_MOUNTS) == 0
    assert libc.mount(b"none", b"/", None, PRIVATE | ALL_BELOW, None) == 0
    assert libc.mount(b"t", b"/tmp", b"tmpfs", 0, None) == 0
    os.chdir("/tmp")
    for _ in range(15):
        os.mkdir("a" * 200)
        os.chdir("a" * 200)
    place = os.getcwd().encode()
    for _ in range(400):
        assert libc.mount(place, place, None, BIND, None) == 0


# A user moves a folder with a mount in it below so many folders that its line alone is longer than
# the whole limit.
LONG_WAY = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mount(b"t", b"/tmp", b"tmpfs", 0, b"nr_inodes=0,size=2g") == 0
os.mkdir("/tmp/eve")
os.chown("/tmp/eve", 54321, 54321)
pid = os.fork()
if pid == 0:
    os.setresuid(54321, 54321, 54321)
    os.makedirs("/tmp/eve/a/b")
    os._exit(0)
os.waitpid(pid, 0)
assert libc.mount(b"x", b"/tmp/eve/a/b", b"tmpfs", 0, b"size=1m") == 0
os.mkdir("/tmp/data")
assert libc.mount(b"data", b"/tmp/data", b"tmpfs", 0, b"size=1m") == 0
pid = os.fork()
if pid == 0:
    os.setresuid(54321, 54321, 54321)
    os.chdir("/tmp/eve")
    top = os.open(".", os.O_RDONLY)
    for _ in range(int(sys.argv[1])):
        os.mkdir(" " * 255)
        os.chdir(" " * 255)
    os.rename("a", "a", src_dir_fd=top)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
from hosttune.host.reading.bounded import OWN_MOUNTS, own_mounts
from hosttune.host.reading.mountinfo import parse
from hosttune.host.reading.named import served_mounts
from hosttune.host.reading.tree import FileTree
with open("/proc/self/mountinfo", "rb") as file:
    assert sum(map(len, iter(lambda: file.read(1 << 20), b""))) > OWN_MOUNTS
table = FileTree("/").read("/proc/self/mountinfo")
assert table == own_mounts() and len(table) < 1 << 20
found = {one.target: one.source for one in parse(table)}
assert (found["/tmp/data"], found["/[longer than a path]"]) == ("data", "x")
served_mounts()
with open("/proc/self/status") as file:  # not ru_maxrss, which exec(2) keeps from the process that started this one
    print(next(line.split()[1] for line in file if line.startswith("VmHWM")))
"""


def test_mount_that_a_user_moves_out_of_reach_hides_no_other():
    words = ("unshare", "-m", "--propagation", "private", sys.executable, "-c", LONG_WAY, "66000")
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 150_000  # KiB


def test_table_of_many_mounts_is_too_long():
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            crowd_mounts()
            os.write(writing, b"0")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 1) == b"0"
        answer = FileTree("/").read(f"/proc/{pid}/mountinfo")
        assert isinstance(answer, Unreadable)
        assert isinstance(answer.reason, TooLong)
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_process_whose_first_thread_has_ended_has_no_table():
    with subprocess.Popen((sys.executable, "-c", ENDED), stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(400):
                with open(f"/proc/{process.pid}/stat") as file:
                    if file.read().rpartition(")")[2].split()[0] == "Z":
                        break
                time.sleep(0.05)
            assert FileTree("/").read(f"/proc/{process.pid}/mountinfo") is ABSENT
        finally:
            process.kill()
