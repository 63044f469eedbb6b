"""A file of /proc or /sys that is read again and again."""

from __future__ import annotations

import os
from contextlib import suppress

from hosttune.host.processes.process_memory import head_in_time
from hosttune.host.reading.bounded import PROCESS_FILE, head_of, read_head, read_mounts

MOST_BYTES = 1 << 22
# A list in /proc comes a page at a time, in whole records (seq_read_iter, fs/seq_file.c), however
# much is asked for. The records of what is kept are short, so what fills less than half a page is
# all there is.
_WHOLE = 2048
_PAGE = 1 << 12


class Kept:
    """Read through one descriptor, from the start each time: half the cost of opening it anew.

    A descriptor of /proc/PID belongs to that very process: once it is gone reads fail, also when
    another process has got its number. `is_kept` False opens it anew each time, where there are
    more files than descriptors.
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
            if len(content) >= _WHOLE or not self.is_kept:
                content += self._rest(len(content))
        except OSError as error:
            self.error = error
            self.close()
            return None
        self.error = None
        if not self.is_kept:
            self.close()
        return content

    def _rest(self, begin: int) -> bytes:
        parts = []
        while begin < MOST_BYTES and (
            part := os.pread(self._descriptor, MOST_BYTES - begin, begin)
        ):
            parts.append(part)
            begin += len(part)
        return b"".join(parts)

    def close(self) -> None:
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


def content_of(path: str, limit: int = PROCESS_FILE) -> bytes | None:
    """The first `limit` bytes of a file that is read once; None where that fails."""
    try:
        # Not blocking: below /proc/PID a path may lead to a pipe or a terminal of the job.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        content = os.read(descriptor, min(limit, _PAGE))
        return (
            content
            if len(content) < min(limit, _WHOLE)
            else (content + read_head(descriptor, limit)[0])[:limit]
        )
    except OSError:
        return None
    finally:
        os.close(descriptor)


def own_mounts(proc: str) -> bytes:
    """The mount table of this process, or the beginning of it; empty where it cannot be read."""
    try:
        return head_of(f"{proc}/self/mountinfo", MOST_BYTES, read=read_mounts)[0]
    except OSError:
        return b""


def content_in_time(path: str, limit: int = PROCESS_FILE) -> bytes | None:
    """The same of a file that the owner of the process can lock
    (host/processes/process_memory.py).
    """
    try:
        return head_in_time(path, limit)[0]
    except OSError:
        return None
