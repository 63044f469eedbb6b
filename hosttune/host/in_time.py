"""Work that has to answer in time, whatever it touches hangs: done by a process of its own that can be left behind.

A thread, or a process, that waits in the kernel for a disk or a driver cannot be ended, not even by signal 9
(signal(7), proc_pid_stat(5): state D), and whoever waits for it hangs as well. So the work goes on in a child; this
process reads what it says, and goes when the time is up.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock, Thread

from hosttune.frozen import frozen

_HEAD = struct.Struct("=I")
_SAID_AFTER_S = 0.5  # how long the child may take to say what it waits for
_BETWEEN_S = 0.2  # two looks at a thread: one that is in state D at both is stuck, not just reading


@frozen
class Waiting:
    """What a piece of work waits for when its time is up. `stuck`: in the kernel, where nothing ends it."""

    what: str  # a program's name, or a path; empty where it cannot be told
    stuck: bool


def in_time(work: Mapping[str, Callable[[], bytes]], seconds: float) -> dict[str, bytes | Waiting]:
    """What each piece of work answers, done side by side; of those that do not answer in time, what they wait for. An
    exception in one ends it without an answer, as a Waiting for nothing.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            _work(work, seconds, writing)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        answers = dict(_frames(reading, time.monotonic() + seconds + _SAID_AFTER_S))
    finally:
        os.close(reading)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        _leave(child)
    missing = {name: Waiting("", stuck=False) for name in work if name not in answers}
    return {**answers, **missing}


def _leave(child: int) -> None:
    """Take the child's status if it has ended; one that the kernel holds is left to process 1."""
    until = time.monotonic() + _BETWEEN_S
    while time.monotonic() < until:
        with suppress(ChildProcessError):
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                time.sleep(0.005)
                continue
        return


def _frames(reading: int, until: float) -> list[tuple[str, bytes | Waiting]]:
    """What the child says: frames of a length and `name NUL kind NUL answer`."""
    got = bytearray()
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([reading], [], [], left)
        chunk = os.read(reading, 1 << 16) if ready else b""
        if not chunk:
            break
        got += chunk
    found = []
    while len(got) >= _HEAD.size and len(got) >= (end := _HEAD.size + _HEAD.unpack_from(got)[0]):
        name, kind, answer = bytes(got[_HEAD.size : end]).split(b"\0", 2)
        told = answer if kind == b"" else Waiting(answer.decode(), stuck=kind == b"stuck")
        found.append((name.decode(), told))
        del got[:end]
    return found


def _work(work: Mapping[str, Callable[[], bytes]], seconds: float, writing: int) -> None:
    until = time.monotonic() + seconds
    lock = Lock()

    def say(name: str, kind: str, answer: bytes) -> None:
        frame = b"\0".join((name.encode(), kind.encode(), answer))
        view = memoryview(_HEAD.pack(len(frame)) + frame)
        with lock:
            while view:
                view = view[os.write(writing, view) :]

    threads = {
        name: Thread(target=lambda name=name, do=do: say(name, "", do()), daemon=True) for name, do in work.items()
    }
    for thread in threads.values():
        thread.start()
    for thread in threads.values():
        thread.join(max(0.0, until - time.monotonic()))
    pending = {name: thread for name, thread in threads.items() if thread.is_alive()}
    if not pending:
        return
    before = {name: _is_stuck(thread.native_id) for name, thread in pending.items()}
    time.sleep(_BETWEEN_S)
    for name, thread in pending.items():
        stuck = before[name] and _is_stuck(thread.native_id)
        say(name, "stuck" if stuck else "waits", _waits_for(thread.ident).encode())


def _is_stuck(thread: int | None) -> bool:
    """Whether a thread of this process, or a program that it started, waits in the kernel where no signal comes."""
    own = f"/proc/self/task/{thread}"
    programs = (f"/proc/{pid}" for pid in _text(f"{own}/children").split())
    return any(_text(f"{place}/stat").rpartition(")")[2].split()[:1] == ["D"] for place in (own, *programs))


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _waits_for(thread: int | None) -> str:
    """The program or the path that a thread has asked the host for; empty where it waits for another thread."""
    frame = sys._current_frames().get(thread or 0)  # noqa: SLF001 - the documented way to another thread's frame
    found = ""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("hosttune.host."):
            names = frame.f_locals
            asked = names.get("argv") or names.get("path")
            found = str(asked[0] if isinstance(asked, (tuple, list)) else asked) if asked else found
        frame = frame.f_back
    return found
