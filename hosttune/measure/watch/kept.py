"""A file of /proc or /sys that is read again and again."""

from __future__ import annotations

import os
from contextlib import suppress

MOST_BYTES = 1 << 18


class Kept:
    """Read through one descriptor, from the start each time: half the cost of opening it anew.

    A descriptor of /proc/PID belongs to that very process: once it is gone reads fail, also when another process has
    got its number. `is_kept` False opens it anew each time, where there are more files than descriptors.
    """

    __slots__ = ("_descriptor", "error", "is_kept", "path")

    def __init__(self, path: str, *, is_kept: bool = True) -> None:
        self.path = path
        self.is_kept = is_kept
        self.error: OSError | None = None  # why the last read failed
        self._descriptor = -1

    def read(self) -> bytes | None:
        """The content, or None with `error`."""
        try:
            if self._descriptor < 0:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            content = os.pread(self._descriptor, MOST_BYTES, 0)
        except OSError as error:
            self.error = error
            self.close()
            return None
        self.error = None
        if not self.is_kept:
            self.close()
        return content

    def close(self) -> None:
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


def content_of(path: str) -> bytes | None:
    """A file that is read once; None where that fails."""
    return Kept(path, is_kept=False).read()
