"""SIGTERM and SIGHUP end a bench as Ctrl-C does: what is temporary is taken away, whichever it was."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_alike() -> Iterator[None]:
    """Within, each of these signals raises KeyboardInterrupt once; more of them do not break the tidying up."""

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        for one in _ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    # A signal that is ignored already stays so: nohup(1) relies on it.
    before = {one: signal.getsignal(one) for one in _ENDING}
    try:
        for one, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(one, end)
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler or signal.SIG_DFL)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within, none of these signals is heard; one that came meanwhile is heard at the end."""
    heard: KeyboardInterrupt | None = None
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    except KeyboardInterrupt as one:  # it came just before; the mask is set all the same
        heard = one
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        if heard:
            raise heard
