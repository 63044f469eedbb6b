"""A command that is done by a child, while this process stays outside (host/keeper.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
START = """
import os, signal, sys, time
import hosttune.host.keeper as keeper
keeper._EVERY_S = (0.1, 0.1)
keeper.most_memory = lambda: {memory}
end = keeper.stay_outside(most_cpu_s={cpu})
if end is not None:
    if not isinstance(end, int):
        os.write(2, end.message.encode())
    os._exit(end if isinstance(end, int) else 2)
"""


def start(
    work: str, *, memory: int = 1 << 40, cpu: float = 60, **streams: object
) -> subprocess.Popen[bytes]:
    program = START.format(memory=memory, cpu=cpu) + textwrap.dedent(work)
    words = [sys.executable, "-c", program]
    return subprocess.Popen(
        words, **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "cwd": ROOT, **streams}
    )  # type: ignore[call-overload,no-any-return]


def read_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout
    return process.stdout.readline().decode().strip()


def is_there(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_output_comes_whole_and_in_its_order_and_the_exit_status_is_the_childs():
    process = start("""
        for number in range(2000):
            print(number, "x" * 2000, flush=True)
            print("error", number, file=sys.stderr, flush=True)
        os._exit(7)
    """)
    lines = process.communicate(timeout=60)[0].decode().splitlines()
    assert process.returncode == 7
    assert lines == [
        line for number in range(2000) for line in (f"{number} {'x' * 2000}", f"error {number}")
    ]


def test_child_that_a_signal_ended_gives_its_number():
    process = start("os.kill(os.getpid(), 9)")
    assert process.communicate(timeout=30) == (b"", None)
    assert process.returncode == 128 + signal.SIGKILL


def test_reader_that_goes_away_breaks_the_pipe_of_the_child():
    process = start("""
        while True:
            print("line")
    """, stderr=subprocess.DEVNULL)  # fmt: skip
    assert read_line(process) == "line"
    assert process.stdout
    process.stdout.close()
    assert process.wait(30) == 1  # BrokenPipeError


def test_reader_that_goes_away_is_heard_of_without_output():
    process = start("""
        import select
        print("begun", flush=True)
        poll = select.poll()
        poll.register(1, 0)
        poll.poll(30_000)
        os._exit(9)
    """)
    assert read_line(process) == "begun"
    assert process.stdout
    process.stdout.close()
    assert process.wait(10) == 9


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_signal_that_is_ignored_cuts_no_output_off(number):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        process = start("""
            print("begun", flush=True)
            time.sleep(0.5)
            os.write(1, b"x" * 60_000)
            os.write(1, b"x" * 60_000)
        """)  # fmt: skip
    finally:
        signal.signal(number, before)
    assert read_line(process) == "begun"
    process.send_signal(number)
    time.sleep(3)  # nothing is read meanwhile
    said = process.communicate(timeout=30)[0]
    assert (process.returncode, len(said)) == (0, 120_000)


def test_end_of_the_child_is_known_where_that_signal_is_ignored():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        process = start("os._exit(5)")
    finally:
        signal.signal(signal.SIGCHLD, before)
    process.communicate(timeout=30)
    assert process.returncode == 5


def test_socket_whose_reader_is_gone_is_waited_for_once():
    import socket

    ours, theirs = socket.socketpair()
    process = start("""
        import select
        os.write(1, b"begun")
        poll = select.poll()
        poll.register(1, 0)
        poll.poll(30_000)
        os._exit(9)
    """, stdout=theirs, stderr=subprocess.DEVNULL)  # fmt: skip
    theirs.close()
    assert ours.recv(5) == b"begun"
    ours.close()
    assert process.wait(10) == 9


COUNTS = """
    got = []
    signal.signal({number}, lambda *_: got.append(1))
    print(os.getpid(), flush=True)
    until = time.monotonic() + 1
    while time.monotonic() < until:
        time.sleep(0.05)
    print(len(got))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("is_group", [False, True])
def test_signal_comes_to_the_child_once(number, is_group):
    process = start(COUNTS.format(number=int(number)), start_new_session=True)
    read_line(process)
    os.killpg(process.pid, number) if is_group else os.kill(process.pid, number)
    assert process.communicate(timeout=30)[0].decode().split() == ["1"]
    assert process.returncode == 0


def test_signal_of_the_terminal_comes_to_the_child_once():
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        program = START.format(memory=1 << 40, cpu=60) + textwrap.dedent(
            COUNTS.format(number=int(signal.SIGINT))
        )
        os.execv(sys.executable, [sys.executable, "-c", program])
    said = b""
    while b"\n" not in said:
        said += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    while (b"^C" not in said) or said.count(b"\n") < 2:
        said += os.read(terminal, 1000)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert said.decode().split()[-1].removeprefix("^C") == "1"
    os.close(terminal)


def test_child_does_not_outlive_this_process():
    process = start("""
        print(os.getpid(), flush=True)
        time.sleep(60)
    """)
    child = int(read_line(process))
    process.kill()
    process.communicate(timeout=10)
    until = time.monotonic() + 10
    while is_there(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_there(child)


def test_signal_ends_a_command_whose_output_is_not_read():
    process = start("""
        signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
        print("begun", flush=True)
        while True:
            os.write(1, b"x" * 1000)
    """)
    assert read_line(process) == "begun"
    time.sleep(0.5)  # until every pipe is full
    process.terminate()
    assert process.wait(10) == 3
    assert process.stdout
    process.stdout.close()


def test_child_that_takes_too_much_memory_is_ended():
    process = start("""
        kept = []
        while True:
            kept.append(bytes([1]) * (1 << 20))
            time.sleep(0.001)
    """, memory=200 << 20)  # fmt: skip
    said = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 2
    assert "more than 0.2 GiB of memory would be needed" in said


def test_memory_of_what_it_forks_counts():
    process = start("""
        if os.fork() == 0:
            kept = bytes([1]) * (300 << 20)
            time.sleep(60)
        time.sleep(60)
    """, memory=200 << 20)  # fmt: skip
    said = process.communicate(timeout=60)[0].decode()
    assert (process.returncode, "of memory would be needed" in said) == (2, True)


def test_child_that_takes_too_much_time_of_a_cpu_is_ended():
    process = start("""
        while True:
            pass
    """, cpu=0.5)  # fmt: skip
    said = process.communicate(timeout=60)[0].decode()
    assert (process.returncode, "of a CPU have not sufficed" in said) == (2, True)
