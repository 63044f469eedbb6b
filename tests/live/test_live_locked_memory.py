"""A user makes the memory of a process unreadable: no command waits for its command line."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import traceback
from itertools import islice
from pathlib import Path

from hosttune.measure.watch.target import find
from tests.live.locked_memory import lock_as
from tests.live.namespace import ROOT, passes

UID = 1001
COUNT = 5
LIMIT_S = 60  # of each look; without an end of its own it takes for ever
LOOK = "from hosttune.host.proc import processes\nfor one in processes(): print(one.pid, *one.command)"


@contextlib.contextmanager
def locked_processes(folder: Path):
    """The numbers of processes of an ordinary user whose memory cannot be read."""
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
            lock_as(UID, "mount", "fuse", COUNT, writing)
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as said:
        locked = [int(line) for line in islice(said, COUNT)]
    try:
        yield locked
    finally:
        os.killpg(attack, signal.SIGKILL)
        os.waitpid(attack, 0)


def test_processes_whose_memory_is_locked_are_listed_without_their_commands(tmp_path):
    passes(__file__, "locked", tmp_path)


def scenario_locked(folder: Path) -> None:
    with locked_processes(folder) as locked, subprocess.Popen(["sleep", "1000"]) as own:
        try:
            # A process by itself: its end is proved, too, with threads that the kernel holds.
            done = subprocess.run(
                [sys.executable, "-c", LOOK], check=True, capture_output=True, text=True, timeout=LIMIT_S, cwd=ROOT
            )
            target = find(locked[0])
        finally:
            own.kill()
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert len(locked) == COUNT
    assert [found[str(pid)] for pid in locked] == ["[cut]"] * COUNT
    assert found[str(own.pid)] == "sleep 1000"
    assert (target.command, target.visible) == ((), None)
