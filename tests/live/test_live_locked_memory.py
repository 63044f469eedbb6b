"""A user makes the memory of a process unreadable: no command waits for its command line."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from hosttune.actions.health import _find_late_rule
from hosttune.facts import Facts
from hosttune.facts.kernel.kernel_log import DMESG, JOURNAL, reverse_log
from hosttune.host.door import Completed
from hosttune.host.in_time import Waiting, in_time
from hosttune.host.reading.live import LiveReader
from hosttune.measure.watch.target import find
from hosttune.values import Verdict
from tests.live.locked_memory import hold_file, hold_folder, lock_as, start_all
from tests.live.namespace import ROOT, passes

UID = 1001
COUNT = 5
LIMIT_S = 60  # of each look; without an end of its own it takes for ever
LOOK = "from hosttune.host.processes.proc import list_processes\nfor one in list_processes(): print(one.pid, *one.command)"


def locked_processes(folder: Path):
    """The numbers of processes of an ordinary user whose memory cannot be read."""
    return attacking(folder, lambda path, tell: start_all(path, COUNT, tell), COUNT)


@contextlib.contextmanager
def attacking(folder: Path, attack_with: Callable[[str, int], None], count: int = 1):
    """An ordinary user does this with the path of a file that is never served; the numbers that it
    told.
    """
    place = folder / "place"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", place], check=True)
    (place / "mount").mkdir()
    os.mknod(place / "fuse", 0o600 | stat.S_IFCHR, os.makedev(10, 229))
    os.chown(place / "fuse", UID, UID)
    reading, writing = os.pipe()
    attack = os.fork()
    if attack == 0:
        try:
            os.setpgid(0, 0)
            os.chdir(place)  # the way there is closed for the user
            lock_as(UID, "mount", "fuse", lambda path: attack_with(path, writing))
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as said:
        locked = [int(line) for line in islice(said, count)]
    try:
        yield locked
    finally:
        os.killpg(attack, signal.SIGKILL)
        os.waitpid(attack, 0)


def has_slept(pid: int) -> bool:
    """Whether it waits where no signal comes, as one of which the kernel log says so after two
    minutes. One that has just begun to wait stays on its run queue for a moment, and has no wchan
    then (Linux 6.12: DELAY_DEQUEUE, get_wchan).
    """
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "D" and Path(f"/proc/{pid}/wchan").read_text() != "0"


@contextlib.contextmanager
def waiting_in_the_kernel(act: Callable[[], None], uid: int = UID):
    """A process of that user that does this, and waits for a lock."""
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(uid, uid, uid)
            act()
        finally:
            os._exit(0)
    until = time.monotonic() + LIMIT_S
    while not has_slept(child):
        assert time.monotonic() < until
        time.sleep(0.02)
    yield child


def test_task_that_waits_for_a_file_that_a_user_holds_may_be_staged(tmp_path):
    passes(__file__, "held_file", tmp_path)


def scenario_held_file(folder: Path) -> None:
    file = os.open(folder, os.O_TMPFILE | os.O_RDWR)
    with (
        attacking(folder, lambda path, tell: hold_file(path, file, tell)),
        waiting_in_the_kernel(lambda: os.pwrite(file, b"a", 0)) as child,
    ):
        assert_may_be_staged(child)
    os.waitpid(child, 0)


def assert_may_be_staged(child: int) -> None:
    """Of a task that the kernel log calls blocked, and that waits for a lock."""
    name = Path(f"/proc/{child}/comm").read_text().strip()
    line = f"1794990000.100000 kernel: INFO: task {name}:{child} blocked for more than 122 seconds."

    class Reader(LiveReader):
        def query(self, argv, *, timeout_s=10.0):
            told = {JOURNAL: reverse_log(f"{line}\n"), DMESG: "[    1.0] Linux version 6.12\n"}
            return Completed(0, told[argv].encode(), b"") if argv in told else super().query(argv)

    (found,) = Facts(Reader()).storage_log.hung
    assert (found.name, found.may_be_staged) == (f"{name} ({child})", True)


# A write(2) holds the lock of its file to its end. With SCHED_IDLE, beside what computes on its
# CPU, that takes long.
HOLD_FILE = """
import os, sys, threading, time
file, cpu = int(sys.argv[1]), min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cpu})
for _ in range(2):
    if not os.fork():
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass
        os._exit(0)
def rest_in_the_midst():
    while os.fstat(file).st_size == 0:  # as one that hardly runs it might not come to begin
        time.sleep(0.001)
    os.sched_setscheduler(os.getpid(), os.SCHED_IDLE, os.sched_param(0))
    print("ready", flush=True)
threading.Thread(target=rest_in_the_midst).start()
while True:
    os.pwritev(file, [bytes(32 << 20)] * 16, 0)
"""


def test_task_that_waits_for_a_file_to_which_an_idle_program_of_a_user_writes_may_be_staged(
    tmp_path,
):
    """Without a FUSE file system, and without any right."""
    file = os.open(tmp_path, os.O_TMPFILE | os.O_RDWR)
    command = ["/usr/bin/python3", "-I", "-S", "-c", HOLD_FILE, str(file)]
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        user=UID,
        group=UID,
        pass_fds=[file],
        start_new_session=True,
    )
    try:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        with waiting_in_the_kernel(lambda: os.pwrite(file, b"a", 0)) as waiting:
            assert_may_be_staged(waiting)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        os.close(file)
    os.waitpid(waiting, 0)


def test_task_of_root_that_waits_for_a_folder_that_a_user_holds_may_be_staged(tmp_path):
    passes(__file__, "tasks_of_root", tmp_path)


def scenario_tasks_of_root(folder: Path) -> None:
    """A folder that all may read, as /tmp: whatever root changes in it waits."""
    held = folder / "held"
    held.mkdir()
    (held / "old").touch()
    fd = os.open(held, os.O_RDONLY | os.O_DIRECTORY)
    acts = (
        lambda: os.mkdir("new", dir_fd=fd),
        lambda: os.close(os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=fd)),
        lambda: os.unlink("old", dir_fd=fd),
        lambda: os.rename("old", "new", src_dir_fd=fd, dst_dir_fd=fd),
        lambda: os.rename("old", folder / "new", src_dir_fd=fd),
        lambda: os.chmod(fd, 0o700),
        lambda: os.chown(fd, 0, 0),
        lambda: os.utime(fd),
    )
    children = []
    with (
        attacking(folder, lambda file, tell: hold_folder(file, fd, tell)),
        contextlib.ExitStack() as stack,
    ):
        for act in acts:
            children.append(stack.enter_context(waiting_in_the_kernel(act, 0)))
            assert_may_be_staged(children[-1])
    for child in children:
        os.waitpid(child, 0)


def test_look_into_a_folder_that_a_user_holds_is_unknown_and_no_fault(tmp_path):
    passes(__file__, "held_folder", tmp_path)


def scenario_held_folder(folder: Path) -> None:
    held = folder / "held"
    held.mkdir()
    fd = os.open(held, os.O_RDONLY | os.O_DIRECTORY)
    path = f"{held}/none"
    with (
        attacking(folder, lambda file, tell: hold_folder(file, fd, tell)),
        waiting_in_the_kernel(lambda: os.mkdir("eve", dir_fd=fd)) as child,
    ):
        reader = LiveReader()
        waiting = in_time({"look": lambda: str(reader.stat(path)).encode()}, 1.0)["look"]
        assert waiting == Waiting(path, stuck=True, is_of_user=True)
        found = _find_late_rule("storage-x", waiting, [waiting], 1.0)
        assert (found.verdict, found.is_fault) == (Verdict.UNKNOWN, False)
    os.waitpid(child, 0)


def test_processes_whose_memory_is_locked_are_listed_without_their_commands(tmp_path):
    passes(__file__, "locked", tmp_path)


def scenario_locked(folder: Path) -> None:
    with locked_processes(folder) as locked, subprocess.Popen(["sleep", "1000"]) as own:
        try:
            # A process by itself: its end is proved, too, with threads that the kernel holds.
            done = subprocess.run(
                [sys.executable, "-c", LOOK],
                check=True,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                cwd=ROOT,
            )
            target = find(locked[0])
        finally:
            own.kill()
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert len(locked) == COUNT
    assert [found[str(pid)] for pid in locked] == ["[cut]"] * COUNT
    assert found[str(own.pid)] == "sleep 1000"
    assert (target.command, target.visible) == ((), None)
