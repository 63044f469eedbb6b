"""What a child does that may be left behind keeps nobody waiting who reads the output to its end."""

from __future__ import annotations

import subprocess
import sys

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
print(in_time({"x": work}, 30.0)["x"].decode(), flush=True)
print("said", file=sys.stderr, flush=True)
os._exit(3)
"""


@pytest.mark.parametrize("program", [APART, IN_TIME])
def test_output_ends_with_the_command(program):
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=40)
    assert (done.stdout, done.stderr, done.returncode) == ("told\n", "said\n", 3)


def test_output_to_one_file_comes_in_its_order():
    program = APART.replace("60", "0")
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=40
    )
    assert done.stdout == b"told\nsaid\n"
