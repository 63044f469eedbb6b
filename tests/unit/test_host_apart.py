"""What a child does that may be left behind keeps nobody waiting who reads the output to its
end.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

APART = """
import os, sys, time
from hosttune.host.apart import run_apart
def act():
    print("told", flush=True)
    print("said", file=sys.stderr, flush=True)
    if os.fork() == 0:  # stands in for a child that the kernel holds: no signal ends it
        os.setsid()
        time.sleep(60)
    return 3
sys.exit(run_apart(act, 30.0))
"""
IN_TIME = """
import os, sys, time
from hosttune.host.in_time import in_time
def work():
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
    return b"told"
print(in_time({"x": work}, 8.0)["x"].decode(), flush=True)
print("said", file=sys.stderr, flush=True)
os._exit(3)
"""


@pytest.mark.parametrize("program", [APART, IN_TIME])
def test_output_ends_with_the_command(program):
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=40
    )
    assert (done.stdout, done.stderr, done.returncode) == ("told\n", "said\n", 3)


def test_one_socket_for_all_streams_ends_with_the_command():
    """As sshd(8) without pipes and inetd make them: a child that is left behind keeps no end of
    it.
    """
    ours, theirs = socket.socketpair()
    with (
        ours,
        subprocess.Popen(
            [sys.executable, "-c", IN_TIME], stdin=theirs, stdout=theirs, stderr=theirs
        ),
    ):
        theirs.close()
        ours.settimeout(30)
        said = b"".join(iter(lambda: ours.recv(4096), b""))
    assert said == b"told\nsaid\n"


def test_output_to_one_file_comes_in_its_order():
    program = APART.replace("60", "0")
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=40,
    )
    assert done.stdout == b"told\nsaid\n"


WORKS = """
import os, sys, time
from hosttune.host.apart import run_apart
def act():
    print(os.getpid(), flush=True)
    time.sleep({seconds})
    return 3
sys.exit(run_apart(act, {limit}))
"""


def state_of(pid):
    """The letter of proc_pid_stat(5); empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def wait_for(states, pid):
    end = time.monotonic() + 30
    while state_of(pid) not in states and time.monotonic() < end:
        time.sleep(0.02)
    assert state_of(pid) in states


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT], ids=["SIGKILL", "SIGQUIT"])
def test_child_ends_with_its_parent(number):
    parent = subprocess.Popen(
        [sys.executable, "-c", WORKS.format(seconds=600, limit=600)],
        stdout=subprocess.PIPE,
        text=True,
    )
    child = int(parent.stdout.readline())
    parent.send_signal(number)
    assert parent.wait(timeout=30) == -number
    wait_for({"", "Z"}, child)
    parent.stdout.close()


def test_answer_that_came_while_the_parent_was_stopped_counts():
    parent = subprocess.Popen(
        [sys.executable, "-c", WORKS.format(seconds=1, limit=2)], stdout=subprocess.PIPE, text=True
    )
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGSTOP)
    wait_for({"Z"}, child)
    time.sleep(2)  # the time is over when it goes on
    parent.send_signal(signal.SIGCONT)
    assert parent.wait(timeout=30) == 3
    parent.stdout.close()


BUSY = """
import os, time
from hosttune.host.apart import run_apart
def act():
    print(os.getpid(), flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass
    return 3
os.setpgid(0, 0)
run_apart(act, 90.0)
"""


def test_child_stops_and_goes_on_with_its_parent():
    """Ctrl-Z comes to the group of the parent alone."""
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            child = int(parent.stdout.readline())
            parent.send_signal(signal.SIGTSTP)
            wait_for({"T"}, parent.pid)
            wait_for({"T"}, child)
            parent.send_signal(signal.SIGCONT)
            wait_for({"R", "S"}, child)
        finally:
            parent.kill()
