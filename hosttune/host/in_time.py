"""Work that has to answer in time, whatever it touches hangs: done by a process of its own that can
be left behind.

A thread, or a process, that waits in the kernel for a disk or a driver cannot be ended, not even by
signal 9 (signal(7), proc_pid_stat(5): state D), and who waits for it hangs as well. So the work
goes on in a child; this process reads what it says, and goes when the time is up.
"""

from __future__ import annotations

import importlib
import os
import select
import signal
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Lock, Thread, current_thread

from hosttune.frozen import frozen
from hosttune.host.known.wait_channels import waits_for_user
from hosttune.host.reading.bounded import head_text
from hosttune.host.writing import lock

_HEAD = struct.Struct("=I")
_TO_DIE_S = 1.0  # what signal 9 does not end in this time is held by the kernel
_TO_SAY_S = 1.0  # and so long the child may take to tell
_PATIENCE_S = 0.02  # what takes longer waits for something: a rule takes 1 ms


@frozen
class Waiting:
    """What a piece of work waits for when its time is up. `stuck`: in the kernel, where not even
    signal 9 ends it.
    """

    what: str  # a program's name, or a path; empty if that is not known
    stuck: bool
    is_of_user: bool = False  # for a lock or a server that a user can hold for as long as they like


def in_time(work: Mapping[str, Callable[[], bytes]], seconds: float) -> dict[str, bytes | Waiting]:
    """What each piece of work answers, done side by side; of those that do not answer in time, what
    they wait for. An exception in one ends it without an answer, as a Waiting for nothing. The
    programs that they started are ended. Raises OSError where no process can be started.
    """
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if child == 0:
        try:
            os.close(reading)
            # A group of its own: the killpg(2) below must not reach this process, and Ctrl-C must
            # not end the work before the parent knows.
            os.setsid()
            forget_imports()
            forget_streams()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            _work_off(work, seconds, writing)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        # The child works for all of its time, then ends what is left, and only then reports. To
        # stop reading earlier would lose what it was stuck at.
        frames = _read_frames(reading, time.monotonic() + seconds + _TO_DIE_S + _TO_SAY_S)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        is_gone = _is_gone(child)
    answers: dict[str, bytes | Waiting] = {name: Waiting("", stuck=False) for name in work}
    for name, kind, content in frames:
        # A thread in state D may wait for a disk that is only slow. If signal 9 ended the child,
        # nothing was stuck.
        is_stuck = kind == "stuck" or (kind == "held" and not is_gone)
        if kind == "answer":
            answers[name] = content
        else:
            what, _, where = os.fsdecode(content).partition("\0")
            answers[name] = Waiting(what, is_stuck, is_stuck and waits_for_user(where))
    return answers


def forget_imports() -> None:
    """None of the parent's other threads goes on in the child. What one of them was importing would
    be waited for without end, under a lock that no one gives back: it is imported anew
    (importlib/_bootstrap.py, `_ModuleLock`).
    """
    getattr(importlib._bootstrap, "_module_locks", {}).clear()  # noqa: SLF001 - there is no other way to them
    for name, module in tuple(sys.modules.items()):
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            del sys.modules[name]


def forget_streams() -> None:
    """Let go of what others read to its end: a child that the kernel holds would keep them waiting.
    What a person sees on a terminal stays, and standard input, which may be a file that is to be
    read, if it is not the output, too, as the socket of a service is.
    """
    with suppress(OSError):  # a chroot may have none
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        outputs = {identity for number in (1, 2) if (identity := _identify(number))}
        for number in (1, 2, *([0] if _identify(0) in outputs else [])):
            if not os.isatty(number):
                os.dup2(null, number)
        os.close(null)
    while lock.HELD:
        os.close(lock.HELD.pop())


def _identify(number: int) -> tuple[int, int] | None:
    """What tells an open file from all others; None for one that is closed."""
    try:
        info = os.fstat(number)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _is_gone(child: int) -> bool:
    """Whether the killed child has ended; one that the kernel holds is left to process 1."""
    until = time.monotonic() + _TO_DIE_S
    while time.monotonic() < until:
        with suppress(ChildProcessError):
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                time.sleep(0.005)
                continue
        return True
    return False


def _read_frames(reading: int, until: float) -> list[tuple[str, str, bytes]]:
    """What the child says: (name, kind, answer), each a frame of its length and `name NUL kind NUL
    answer`.
    """
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
        found.append((os.fsdecode(name), kind.decode(), answer))
        del got[:end]
    return found


def _work_off(work: Mapping[str, Callable[[], bytes]], seconds: float, writing: int) -> None:
    until = time.monotonic() + seconds
    lock = Lock()
    is_over = Event()

    def say(name: str, kind: str, answer: bytes) -> None:
        frame = b"\0".join((os.fsencode(name), kind.encode(), answer))
        view = memoryview(_HEAD.pack(len(frame)) + frame)
        while view:
            view = view[os.write(writing, view) :]

    todo = deque(work.items())
    at: dict[Thread, str] = {}  # who is at which piece of work

    def run() -> None:
        while not is_over.is_set():
            try:
                name, do = todo.popleft()
            except IndexError:
                return
            at[current_thread()] = name
            answer = do()
            with lock:
                # an answer that a program gave because it was ended here is none
                if not is_over.is_set():
                    say(name, "answer", answer)
                del at[current_thread()]

    # One thread does what answers at once; where one piece takes longer, another thread goes on
    # with the next.
    patience = min(_PATIENCE_S, seconds / (4 * len(work))) if work else 0.0
    threads: list[Thread] = []
    while todo and time.monotonic() < until:
        threads.append(Thread(target=run, daemon=True))
        threads[-1].start()
        left_over = 0
        while todo and left_over != len(todo) and time.monotonic() < until:
            left_over = len(todo)
            threads[-1].join(patience)
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    # Under the lock, so that no thread writes an answer that is half before this moment.
    with lock:
        is_over.set()
    pending = {name: thread for thread, name in tuple(at.items()) if thread.is_alive()}
    # Before the programs are ended: a thread whose program has ended goes on, and its frames are
    # others.
    waits = {name: os.fsencode(_waits_for(thread.ident)) for name, thread in pending.items()}
    held = {
        name
        for name, thread in pending.items()
        if _read_state(f"task/{thread.native_id}", "self") == "D"
    }
    left = _end({name: _list_programs(thread) for name, thread in pending.items()})
    for name, thread in pending.items():
        # State D is looked at twice, a second apart: once it may be any read of a disk.
        still = name in held and _read_state(f"task/{thread.native_id}", "self") == "D"
        where = _read_text(
            f"/proc/{left[name]}/wchan"
            if name in left
            else f"/proc/self/task/{thread.native_id}/wchan"
        )
        kind = "stuck" if name in left else "held" if still else "waits"
        say(name, kind, waits[name] + b"\0" + os.fsencode(where))


def _list_programs(thread: Thread) -> tuple[int, ...]:
    """The programs that a thread has started and that have not ended (proc_tid_children(5))."""
    return tuple(
        int(pid) for pid in _read_text(f"/proc/self/task/{thread.native_id}/children").split()
    )


def _end(programs: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """End these programs, each with the group that it leads; whose do not end, because the kernel
    holds this one.
    """
    for pid in {pid for own in programs.values() for pid in own}:
        with suppress(ProcessLookupError, PermissionError):
            # One that does not lead a group is in that of this process, which has still to report.
            os.killpg(pid, signal.SIGKILL) if os.getpgid(pid) == pid else os.kill(
                pid, signal.SIGKILL
            )
    until = time.monotonic() + _TO_DIE_S
    while True:
        left = {
            name: pid
            for name, own in programs.items()
            for pid in own
            if _read_state("", str(pid)) not in "ZX"
        }
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.01)


def _read_state(task: str, process: str) -> str:
    """The letter of proc_pid_stat(5): D waits where no signal comes; Z has ended; X for one that is
    not there.
    """
    words = _read_text(f"/proc/{process}/{task}/stat").rpartition(")")[2].split()
    return words[0] if words else "X"


def _read_text(path: str) -> str:
    return head_text(path)


def _waits_for(thread: int | None) -> str:
    """The program or the path that a thread has asked the host for; empty where it waits for
    another thread.
    """
    frame = sys._current_frames().get(thread or 0)  # noqa: SLF001 - the documented way to another thread's frame
    found = ""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("hosttune.host."):
            names = frame.f_locals
            asked = names.get("argv") or names.get("path")
            found = str(asked[0] if isinstance(asked, (tuple, list)) else asked) if asked else found
        frame = frame.f_back
    return found
