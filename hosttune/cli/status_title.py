"""A line about the watch in the title of the terminal's window, while a command that we do not know
writes below it.

Nothing on the screen is touched, so a line that the command has not finished (a prompt) stays as it
is, and a terminal that we leave without a word (SIGKILL) is as it was but for a title, which the
next prompt or program sets anew. OSC 2 sets it; CSI 22 ; 2 t and CSI 23 ; 2 t keep and give back
the one before (xterm, ctlseqs).
"""

from __future__ import annotations

import sys

from hosttune.host.console import has_title
from hosttune.host.masking.cleaned import clean

_KEEP, _GIVE_BACK = "\x1b[22;2t", "\x1b]2;\x07\x1b[23;2t"
_MOST = 120  # characters


class StatusTitle:
    """Nothing is written where standard error is no terminal, one without titles, or another job
    has it.
    """

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._is_ours = False

    def tell(self, text: str) -> None:
        if not self._is_wanted or not has_title(sys.stderr):
            return
        keep, self._is_ours = "" if self._is_ours else _KEEP, True
        self._write(f"{keep}\x1b]2;{clean(text)[:_MOST]}\x07")

    def close(self) -> None:
        """Give the title back; the next line takes it again."""
        if self._is_ours:
            self._write(_GIVE_BACK)
            self._is_ours = False

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # the terminal has gone away
            self._is_wanted = self._is_ours = False
