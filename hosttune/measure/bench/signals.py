"""SIGTERM and SIGHUP end a bench as Ctrl-C does: it is answered at once, what is temporary is taken
away, and the exit status tells which it was.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from hosttune.host.apart import ENDING, handle_ending
from hosttune.host.console import write_to_stderr

_STOPPING = "hosttune: stopping: what is temporary is taken away first\n"


@contextmanager
def ended_alike() -> Iterator[None]:
    """Within, each of these signals raises KeyboardInterrupt with its number, once; more of them do
    not break the tidying up.
    """

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        for one in ENDING:
            # The second Ctrl-C of an impatient user must not cut off the removal of scratch files.
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    with _answered_at_once(), handle_ending(end):
        yield


@contextmanager
def _answered_at_once() -> Iterator[None]:
    """Within, a signal is answered by a thread of its own: Python's handlers wait for the end of a
    system call, and a sync of a busy disk takes as long as it takes.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def answer() -> None:
        # as signal.set_wakeup_fd writes it; nothing when the pipe is closed
        while number := os.read(reader, 1):
            if number[0] in ENDING:
                write_to_stderr(("\r\x1b[K" if sys.stderr.isatty() else "") + _STOPPING)
                return

    thread = threading.Thread(target=answer, daemon=True)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # No signal is delivered to the thread, so that `hold_back_signals` holds for the whole process.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        yield
    finally:
        # Before the pipe is closed: a signal in between would be written to a closed descriptor, or
        # to whatever got its number.
        signal.set_wakeup_fd(before)
        os.close(writer)
        thread.join()
        os.close(reader)


@contextmanager
def hold_back_signals() -> Iterator[None]:
    """Within, none of these signals is heard; one that came meanwhile is heard at the end."""
    heard: KeyboardInterrupt | None = None
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    except KeyboardInterrupt as one:  # it came just before; the mask is set all the same
        heard = one
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        if heard:
            raise heard
