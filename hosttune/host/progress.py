"""One line on a terminal about what takes its time: what is done, how long so far and of how much,
how to stop it.

It is drawn after a second on standard error, over itself, and is gone before anything else is
printed. In a pipe, in a file and of a job in the background nothing is drawn. A thread draws it:
the signals of a timer would cut calls short, and a FUSE file system may answer those with EINTR. A
child made by fork has no such thread, and begins a line anew.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_AFTER_S: Final = 1.0
_EVERY_S: Final = 0.5
_PATIENCE_S: Final = 1.0  # for the thread to let go; its terminal may have been stopped by Ctrl-S
CLEAR: Final = b"\r\x1b[K"
_STDERR: Final = 2
_GROUP: Final = os.getpgrp()  # of the command: a child that works for it has a group of its own
STOP: Final = "Ctrl-C stops it"


_USUAL: Final = {"ubuntu-drivers": ", minutes if apt's lists are compressed"}


class _ProgressLine:
    """What is drawn until it is over."""

    def __init__(self, what: str, limit: str, stop: str) -> None:
        self._what, self._limit, self._stop = what, limit, stop
        self.step = ""
        self._begun = time.monotonic()
        self._over = threading.Event()
        self.lock = threading.RLock()
        self.is_drawn = False
        self.begin()

    def begin(self) -> None:
        """Draw it from here on; after `end`, too."""
        # A new one: the thread of before may still have to see that it is over.
        self._over = threading.Event()
        threading.Thread(target=self._draw_until_over, args=(self._over,), daemon=True).start()

    def _draw_until_over(self, over: threading.Event) -> None:
        wait_s = _AFTER_S
        while not over.wait(wait_s):
            wait_s = _EVERY_S
            with self.lock, suppress(OSError, ValueError):
                if not over.is_set() and _can_draw():
                    columns = os.get_terminal_size(_STDERR).columns or 80
                    seconds = time.monotonic() - self._begun
                    text = format_line(
                        self._what, self.step, seconds, self._limit, self._stop, columns
                    )
                    os.write(_STDERR, CLEAR + text.encode("utf-8", "replace"))
                    self.is_drawn = True

    def erase(self) -> None:
        if self.is_drawn:
            self.is_drawn = False
            with suppress(OSError):
                os.write(_STDERR, CLEAR)

    def end(self) -> None:
        self._over.set()
        if self.lock.acquire(timeout=_PATIENCE_S):
            try:
                self.erase()
            finally:
                self.lock.release()


class _Now:
    """The line of this process; a terminal has one."""

    line: _ProgressLine | None = None
    pid = 0


def _get_line() -> _ProgressLine | None:
    return _Now.line if _Now.pid == os.getpid() else None


def _can_draw() -> bool:
    """Whether this command has the terminal, and the terminal takes text now."""
    return os.tcgetpgrp(_STDERR) == _GROUP and bool(select.select([], [_STDERR], [], 0)[1])


def _is_wanted() -> bool:
    return (
        os.environ.get("TERM", "dumb") != "dumb"
        and sys.stderr is sys.__stderr__
        and os.isatty(_STDERR)
    )


def format_line(what: str, step: str, seconds: float, limit: str, stop: str, columns: int) -> str:
    """`  looking at this host: rule 9 of 80, 0:12 of about 1:00 (Ctrl-C stops it)`; what is too
    long is cut in front of the time.
    """
    tail = f", {format_clock(seconds)}{f' of {limit}' if limit else ''} ({stop})"
    head = f"  {what}{f': {step}' if step else ''}"
    room = columns - 1 - len(tail)
    return (head if len(head) <= room else f"{head[: max(0, room - 3)]}...") + tail[
        : max(0, columns - 1)
    ]


def format_clock(seconds: float) -> str:
    """`0:12`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


@contextmanager
def show_progress(
    what: str, *, about_s: float = 0, most_s: float = 0, stop: str = STOP
) -> Iterator[None]:
    """Within, the terminal shows what is done; a line that is there already gives way to this one
    meanwhile.
    """
    before = _get_line()
    end_progress()
    limit = (
        f"at most {format_clock(most_s)}"
        if most_s
        else f"about {format_clock(about_s)}"
        if about_s
        else ""
    )
    if _is_wanted():
        _Now.line, _Now.pid = _ProgressLine(what, limit, stop), os.getpid()
    try:
        yield
    finally:
        end_progress()
        if before is not None and _Now.pid == os.getpid():
            _Now.line = before
            before.begin()


def note_step(text: str) -> None:
    """What is done now, as the line shows it next. Cheap to call often."""
    if line := _get_line():
        from hosttune.host.masking.cleaned import clean

        line.step = clean(text)


@contextmanager
def waiting_for(program: str) -> Iterator[None]:
    """Within, the step is that this program is waited for."""
    name = os.path.basename(program)
    step = f"waiting for {name}{_USUAL.get(name, '')}"
    note_step(step)
    try:
        yield
    finally:
        if (line := _get_line()) and line.step == step:
            line.step = ""


def end_progress() -> None:
    """Take the line away, for good: an answer follows."""
    if line := _get_line():
        _Now.line = None
        line.end()


@contextmanager
def beside_progress() -> Iterator[None]:
    """Within, other text is written: the line is away, and comes back below it."""
    line = _get_line()
    if line is None or not line.lock.acquire(timeout=_PATIENCE_S):
        yield
        return
    try:
        line.erase()
        yield
    finally:
        line.lock.release()


def erasing_bytes() -> bytes:
    """What takes the line away, for a handler of a signal, which cannot wait for a lock."""
    line = _get_line()
    return CLEAR if line is not None and line.is_drawn else b""
