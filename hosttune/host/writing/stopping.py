"""Signals while this host is changed: a terminal that goes away ends nothing, and Ctrl-C waits for
the change at hand.

SIGHUP comes when an ssh connection drops; apt and needrestart go on then, too. SIGINT and SIGTERM
are noted, and the code that makes changes asks `get_signal` between two of them. The same signal
once more ends the process at once.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from hosttune.host.progress import erasing_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_AGAIN_S = 1.0  # timeout(1) and sudo(8) may send the same signal twice for one
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_WORDS = b"  stopping after the change at hand; the same once more ends it at once\n"


class _Noted:
    """What came so far. A process has one set of handlers, so there is one of this."""

    has_hung_up = False
    signal = 0
    at = 0.0
    on_stop: Callable[[], None] | None = None


def outlive_terminal() -> None:
    """From here on the end of the session does not end this process. A SIGHUP that is ignored
    already stays ignored; programs that are started do not inherit this.
    """
    if _is_main() and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _hang_up)


def has_hung_up() -> bool:
    """Whether the terminal of this process went away."""
    return _Noted.has_hung_up


def get_signal() -> int:
    """The signal that asks to stop between two changes; 0 where none came."""
    return _Noted.signal


@contextmanager
def between_changes() -> Iterator[None]:
    """Within, SIGINT and SIGTERM are noted for `get_signal`. What is ignored stays so."""
    # Python lets only the main thread set handlers.
    before = {one: signal.getsignal(one) for one in _STOPPING} if _is_main() else {}
    _Noted.signal = 0
    try:
        for one, was in before.items():
            if was is not signal.SIG_IGN:
                signal.signal(one, _note)
        yield
    finally:
        for one, was in before.items():
            signal.signal(one, was or signal.SIG_DFL)
        _Noted.signal = 0


@contextmanager
def handed_on(on_stop: Callable[[], None]) -> Iterator[None]:
    """Within, the first signal that asks to stop calls this as well."""
    _Noted.on_stop = on_stop
    try:
        yield
    finally:
        _Noted.on_stop = None


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _hang_up(_number: int, _frame: FrameType | None) -> None:
    _Noted.has_hung_up = True


def _note(number: int, _frame: FrameType | None) -> None:
    now = time.monotonic()
    if _Noted.signal:
        if now - _Noted.at >= _AGAIN_S:
            raise KeyboardInterrupt(number)
        return
    _Noted.signal, _Noted.at = number, now
    with suppress(OSError):  # not through sys.stderr, in the middle of whose writing this may come
        os.write(2, erasing_bytes() + _WORDS)
    if _Noted.on_stop is not None:
        _Noted.on_stop()
