"""Runs the command that is watched: its input and output untouched, signals passed on, its end
reported.

It stays in our process group, so that what a terminal sends (Ctrl-C, Ctrl-Z, a hang-up) reaches it
as if we were not there. Signals are taken with sigtimedwait(2), because it tells where one came
from: what the kernel sent went to the whole group already, what a process sent us alone is passed
on.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from contextlib import suppress
from typing import Final

from hosttune.errors import HosttuneError

NOT_FOUND: Final = 127  # as env(1) and shells report it
NOT_RUN: Final = 126
_FROM_KERNEL: Final = 0x80  # SI_KERNEL, include/uapi/asm-generic/siginfo.h
PASSED_ON: Final = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGTSTP, signal.SIGCONT,
)  # fmt: skip
# Python ignores these; what is started should not (subprocess, restore_signals).
_RESTORED: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class NotStarted(HosttuneError):
    """The command could not be started; `status` is 126 or 127."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Signals:
    """Holds back the signals that are passed on, and waits for them. What was ignored when we were
    started stays so, for the child too: nohup(1) relies on it.
    """

    def __init__(self) -> None:
        # ignored, it would have the kernel throw the child's end away
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.held = frozenset(
            {number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN}
            | {signal.SIGCHLD}
        )
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, self.held)

    def wait(self, seconds: float) -> tuple[int, bool] | None:
        """The next signal and whether the kernel sent it; None when the time is over."""
        with suppress(InterruptedError):
            found = signal.sigtimedwait(self.held, max(0.0, seconds))
            if found is not None:
                return found.si_signo, found.si_code == _FROM_KERNEL
        return None

    def restore(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)


def stop() -> None:
    """Stop as we would have by SIGTSTP itself, and come back when we go on: not at all in a group
    without a shell that could wake it (setpgid(2), orphaned process groups).
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})


def start(argv: tuple[str, ...], signals: Signals) -> int:
    """The process number of the command. Raises NotStarted."""
    if not argv[0]:
        raise NotStarted("the command is an empty word", NOT_FOUND)
    try:
        return _spawn(argv, signals)
    except OSError as error:
        # a script without #!: execvp(3) hands it to the shell, where it found it
        if error.errno == errno.ENOEXEC:
            with suppress(OSError):
                return _spawn(("/bin/sh", shutil.which(argv[0]) or argv[0], *argv[1:]), signals)
        status = NOT_FOUND if error.errno in {errno.ENOENT, errno.ENOTDIR} else NOT_RUN
        raise NotStarted(f"{argv[0]}: {error.strerror}", status) from None


def _spawn(argv: tuple[str, ...], signals: Signals) -> int:
    return os.posix_spawnp(
        argv[0], argv, os.environ, setsigmask=signals.before, setsigdef=_RESTORED
    )


class Child:
    """The running command."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # as a shell reports it: 128 + number where a signal ended it
        self.status: int | None = None

    def take(self, number: int, *, is_from_kernel: bool) -> bool:
        """Do what a signal asks for; True where we were stopped and go on now."""
        if number == signal.SIGCHLD:
            self.reap()
        elif number == signal.SIGTSTP:
            if not is_from_kernel:
                self.send(signal.SIGTSTP)
            stop()
            return True
        # What the kernel sent reached the whole process group, the command too; a second one would
        # end what handles the first. SIGCONT does no harm twice.
        elif not is_from_kernel or number == signal.SIGCONT:
            self.send(number)
        return False

    def reap(self) -> bool:
        """Whether it has ended."""
        if self.status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.status = NOT_RUN  # someone else has waited for it
                return True
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.status = code if code >= 0 else 128 - code
        return self.status is not None

    def send(self, number: int) -> None:
        """A signal for it; nothing once it has ended."""
        if self.status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def wait(self) -> int:
        """Its status, once it ends."""
        while not self.reap():
            time.sleep(0.05)
        return self.status or 0
