"""Looks at the job once an interval until it ends, or someone says so."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

from hosttune.measure.watch.account import Account
from hosttune.measure.watch.child import Child, Signals, stop
from hosttune.measure.watch.looks import Looks
from hosttune.measure.watch.tick import Tick

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})


class Loop:
    """`on_tick` sees each tick after it was added up; `on_stop` is called before we are stopped
    (Ctrl-Z).
    """

    def __init__(
        self,
        looks: Looks,
        account: Account,
        signals: Signals,
        *,
        on_tick: Callable[[Tick], None],
        on_stop: Callable[[], None],
    ) -> None:
        self._looks = looks
        self._account = account
        self._signals = signals
        self._on_tick = on_tick
        self._on_stop = on_stop
        self._was_stopped = False
        self._due = time.monotonic()

    def follow(self, child: Child) -> int:
        """Until the command ends; its status."""
        while not child.reap():
            for number, is_from_kernel in self._until_next():
                if number == signal.SIGTSTP:
                    self._on_stop()
                self._was_stopped |= child.take(number, is_from_kernel=is_from_kernel)
                if child.status is not None:
                    return child.status
            if not child.reap():
                self._tick()
        return child.status or 0

    def attend(self, seconds: float | None) -> str:
        """Until the process is gone, a signal asks to end, or `seconds` are over; says which."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            for number, _ in self._until_next():
                if number in ENDING:
                    return "interrupted"
                if number == signal.SIGTSTP:
                    self._on_stop()
                    stop()
                    self._was_stopped = True
            self._tick()
            if not self._looks.tree.has_root:
                return "the process has ended"
            # Half an interval, because looks are never quite on time and a last one just before the
            # end is enough.
            if end is not None and self._due >= end - self._account.watched.interval_s / 2:
                return "the time is over"

    def _until_next(self) -> Iterator[tuple[int, bool]]:
        """The signals that come until the next look is due; looks that were missed are not made up
        for.
        """
        # After a stop of an hour the missed looks would otherwise follow each other at once.
        self._due = max(self._due, time.monotonic() - self._account.watched.interval_s)
        self._due += self._account.watched.interval_s
        while (left := self._due - time.monotonic()) > 0:
            found = self._signals.wait(left)
            if found is not None:
                late_s = time.monotonic() - self._due
                if found[0] == signal.SIGCONT and late_s > self._account.watched.interval_s:
                    # by a signal that no one can wait for: SIGSTOP, SIGTTIN, SIGTTOU
                    self._was_stopped = True
                yield found

    def _tick(self) -> None:
        tick = self._looks.look(time.monotonic(), is_paused=self._was_stopped)
        self._was_stopped = False
        self._account.add(tick)
        self._on_tick(tick)
