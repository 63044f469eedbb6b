"""Work on a path whose file system can be dead: done by a child, which is left behind when the time is up.

A process that waits for a dead server cannot be ended, and a shell waits for a process that does not end (in_time.py).
This is for a whole command: the child prints, answers signals, and gives the exit status.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AFTER_SIGNAL_S: Final = 10.0  # what a signal has not ended in this time waits for a file system
_TO_TIDY_S: Final = 3.0
_TO_DIE_S: Final = 1.0
_EVERY_S: Final = 0.02


def run_apart(act: Callable[[], int], seconds: float | None) -> int | None:
    """The exit status of `act`, done by a child; None where it does not end within `seconds`, or after a signal."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgid(0, 0)  # a signal of the terminal comes once, from its parent
            code = act()
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
        finally:
            os._exit(code)
    until = [time.monotonic() + seconds if seconds is not None else float("inf")]

    def hand_on(number: int, frame: FrameType | None) -> None:
        del frame
        until[0] = min(until[0], time.monotonic() + AFTER_SIGNAL_S)
        with suppress(ProcessLookupError):
            os.kill(child, number)

    with handle_ending(hand_on):
        while time.monotonic() < until[0]:
            status = _status_of(child)
            if status is not None:
                return status
            time.sleep(_EVERY_S)
        for number, wait_s in ((signal.SIGTERM, _TO_TIDY_S), (signal.SIGKILL, _TO_DIE_S)):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child, number)
            end = time.monotonic() + wait_s
            while time.monotonic() < end and _status_of(child) is None:
                time.sleep(_EVERY_S)
    return None


def _status_of(child: int) -> int | None:
    """128 and the number of the signal that ended it, as a shell has it; None while it runs."""
    try:
        pid, status = os.waitpid(child, os.WNOHANG)
    except ChildProcessError:  # it was waited for
        return 1
    code = os.waitstatus_to_exitcode(status) if pid else 0
    return (code if code >= 0 else 128 - code) if pid else None


@contextmanager
def handle_ending(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Within, the signals of ENDING go to `handler`. One that is ignored already stays so: nohup(1) relies on it."""
    before = {one: signal.getsignal(one) for one in ENDING}
    try:
        for one, was in before.items():
            if was is not signal.SIG_IGN:
                signal.signal(one, handler)
        yield
    finally:
        for one, was in before.items():
            signal.signal(one, was or signal.SIG_DFL)
