"""One line of progress that writes over itself, on a terminal alone; gone before the answer."""

from __future__ import annotations

import sys
import time
from typing import Final

from hosttune.host.cleaned import clean
from hosttune.host.console import make_console, write_to_stderr

_EVERY_S: Final = 0.2
_CLEAR: Final = "\r\x1b[K"


class LiveLine:
    """`tell` is cheap to call often: it writes at most five times a second, nothing in the first 0.2 s."""

    def __init__(self) -> None:
        surface = make_console(sys.stderr)
        self._columns = surface.columns
        self._next = time.monotonic() + _EVERY_S if surface.is_terminal else float("inf")
        self._is_there = False

    def close(self) -> None:
        """Take the line away; for contextlib.closing."""
        if self._is_there:
            write_to_stderr(_CLEAR)

    def tell(self, text: str) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY_S
            self._is_there = True
            write_to_stderr(f"{_CLEAR}{clean(text)[: self._columns - 1]}")
