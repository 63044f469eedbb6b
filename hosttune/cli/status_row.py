"""The last row of a terminal, kept for one line while a command that we do not know writes above it.

The scroll region ends one row earlier, as apt has it for its progress bar, so nothing that the command prints is
touched; a command that takes the whole screen (an editor) takes this row too, and the next line draws it anew.
"""

from __future__ import annotations

import sys

from hosttune.host.console import console, terminal_rows
from hosttune.views.page import shown

_SAVE, _RESTORE = "\x1b7", "\x1b8"
LEAST_ROWS = 5


class StatusRow:
    """Nothing is written where standard error is no terminal, or a dumb one, or another job has it."""

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted and console(sys.stderr).is_terminal
        self._rows = 0  # 0: the row is not ours now

    def tell(self, text: str) -> None:
        rows = terminal_rows(sys.stderr) if self._is_wanted else 0
        if rows < LEAST_ROWS:
            return
        if rows != self._rows:
            # the line feed makes room where the cursor stands on the last row
            self._write(f"\n{_SAVE}\x1b[1;{rows - 1}r{_RESTORE}\x1b[1A")
            self._rows = rows
        line = shown(text)[: console(sys.stderr).columns - 1]
        self._write(f"{_SAVE}\x1b[{rows};1H\x1b[2K{line}{_RESTORE}")

    def close(self) -> None:
        """Give the row back; the next line takes it again."""
        if self._rows:
            self._write(f"{_SAVE}\x1b[1;{self._rows}r\x1b[{self._rows};1H\x1b[2K{_RESTORE}")
            self._rows = 0

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # the terminal has gone away
            self._is_wanted, self._rows = False, 0
