"""A program that goes on printing lines while we look at something else."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from hosttune.host.process import SEARCH

_GRACE_S: Final = 0.3  # after SIGTERM, and again after SIGKILL
_MOST: Final = 1 << 20  # bytes of a line that does not end


class Program:
    """Runs `command`, its program by an absolute path, and hands out what it printed so far; never
    waits for it.

    It dies with us: at the end of `stop`, and where we are killed by the next line that it prints
    (SIGPIPE). Raises OSError where it cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        # C.UTF-8, so that no translation or decimal comma changes what is parsed.
        environment = {"PATH": ":".join(SEARCH), "LC_ALL": "C.UTF-8"}
        self._child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )
        assert self._child.stdout  # noqa: S101 - a pipe
        self._pipe = self._child.stdout
        self._begun = b""
        self._has_ended = False
        os.set_blocking(self._pipe.fileno(), False)

    @property
    def is_over(self) -> bool:
        """It has ended, and everything that it printed was handed out."""
        return self._has_ended and self._child.poll() is not None

    @property
    def status(self) -> int | None:
        """Its exit status, once it has ended."""
        return self._child.poll()

    def lines(self) -> list[str]:
        """The lines that it finished since the last call; an unfinished last one at its end."""
        while not self._has_ended and len(self._begun) <= _MOST:
            try:
                chunk = os.read(self._pipe.fileno(), 1 << 16)
            except BlockingIOError:
                break
            self._begun += chunk
            # The end of the pipe, not of the process: a child of it may hold the pipe and print on.
            self._has_ended = not chunk
        *whole, self._begun = self._begun.split(b"\n")
        if self._has_ended or len(self._begun) > _MOST:
            # A line without an end is handed out in pieces rather than kept: the parser takes none
            # of them for a row.
            whole, self._begun = [*whole, self._begun], b""
        return [line.decode("utf-8", "replace").rstrip("\r") for line in whole if line]

    def wait(self, seconds: float) -> bool:
        """Until there is something to read, or it has ended; False where that takes longer."""
        if self._has_ended:
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(max(seconds, 0))
            return self.is_over
        with suppress(ValueError, OSError):
            return bool(select.select([self._pipe], [], [], max(seconds, 0))[0])
        return True

    def stop(self) -> bool:
        """End it and whatever it started; False where it hangs in the driver, so that even SIGKILL
        does not end it.
        """
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._child.poll() is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._child.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    self._child.wait(_GRACE_S)
        self._pipe.close()
        self._has_ended = True
        return self._child.returncode is not None


def answer(command: Sequence[str], seconds: float) -> str | None:
    """All that a program prints, or None where it fails, cannot be started or takes longer."""
    try:
        program = Program(command)
    except OSError:
        return None
    printed: list[str] = []
    until = time.monotonic() + seconds
    try:
        while not program.is_over:
            left = until - time.monotonic()
            if left <= 0:
                return None
            program.wait(min(left, 0.1))
            printed += program.lines()
        return "\n".join(printed) if program.status == 0 else None
    finally:
        program.stop()
