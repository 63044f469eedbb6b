"""A look that may hang, taken by a thread of its own: a driver that does not answer must not stop
the clock.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class TimedCaller(Generic[T]):
    """Calls `look` in one thread, one call after the other, and waits for each only so long.

    A call into NVML that waits for the driver cannot be interrupted; the thread is a daemon, so a
    hung one does not hold the process up when it ends.
    """

    def __init__(self) -> None:
        self._asked: SimpleQueue[Callable[[], T] | None] = SimpleQueue()
        self._answers: SimpleQueue[T | BaseException] = SimpleQueue()
        self._is_waiting = False
        self._thread = threading.Thread(target=self._serve, name="gpu-looks", daemon=True)
        # A thread starts with the signals that its maker blocks, and so do those that the driver's
        # library starts: one that blocks none of them would take the signals that the watch waits
        # for.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def ask(self, look: Callable[[], T], seconds: float) -> T | None:
        """What `look` answers, or None where that takes longer.

        While an earlier look is under way, its answer is waited for in place of a new one: it is
        the newest there is. Raises what `look` raised.
        """
        # Two calls into the driver at once would pile up threads in it, and none of them could be
        # ended.
        if not self._is_waiting:
            self._asked.put(look)
            self._is_waiting = True
        try:
            answer = self._answers.get(timeout=seconds)
        except Empty:
            return None
        self._is_waiting = False
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def end(self, seconds: float) -> bool:
        """Let the thread end after the look it is in. False where it does not come back in time."""
        self._asked.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        while (look := self._asked.get()) is not None:
            try:
                self._answers.put(look())
            except BaseException as error:  # noqa: BLE001 - handed to the one who asked
                self._answers.put(error)
