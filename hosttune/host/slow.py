"""Who is told that a program is asked which takes its time. Without a command line, nobody is."""

from __future__ import annotations

from collections.abc import Callable


def _nobody(text: str) -> None:
    del text


announce: Callable[[str], None] = _nobody  # the command line puts its own here
