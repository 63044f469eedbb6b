"""Ctrl-C in a bench is answered at once, even while the kernel is at work on something that takes
its time.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time

import pytest

PROGRAM = """\
import hashlib, signal, sys
from hosttune.cli.ending import run_command
from hosttune.measure.bench.signals import ended_alike

def raising(error):
    def act():
        raise error
    return act

try:
    with ended_alike():
        print("ready", flush=True)
        if sys.argv[1] == "pause":
            signal.pause()
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 8_000_000)  # as sync(2) of a busy disk: no signal ends it
except KeyboardInterrupt as error:
    print("ended", run_command(raising(error)), flush=True)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.set_wakeup_fd(-1))
"""
TOLD = "hosttune: stopping: what is temporary is taken away first\n"


@pytest.mark.parametrize("number", [2, 15, 1])
def test_signal_is_answered_at_once_and_what_is_temporary_goes(number):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "pause"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:  # fmt: skip
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        out, err = child.communicate(timeout=20)
    assert out == f"ended {128 + number}\nTrue -1\n"
    word = {2: "interrupted", 15: "ended by SIGTERM", 1: "ended by SIGHUP"}[number]
    assert err == f"{TOLD}hosttune: {word}\n"


def test_answer_does_not_wait_for_the_kernel():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "work"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:  # fmt: skip
        assert child.stdout
        assert child.stderr
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.2)
        child.send_signal(2)
        assert child.stderr.readline() == TOLD
        assert select.select([child.stdout], [], [], 0)[0] == []  # it is still at work
        assert child.communicate(timeout=60)[0] == "ended 130\nTrue -1\n"
