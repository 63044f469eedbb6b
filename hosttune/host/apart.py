"""Work on a path whose file system can be dead: done by a child, which is left behind when the time
is up.

A process that waits for a dead server cannot be ended, and a shell waits for a process that does
not end (in_time.py). This is for a whole command: the child prints, answers signals, and gives the
exit status.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from hosttune.errors import HosttuneError
from hosttune.host.pager import switch_pager_off
from hosttune.host.progress import end_progress
from hosttune.host.reading.bounded import head_text

if TYPE_CHECKING:
    from types import FrameType

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AFTER_SIGNAL_S: Final = 10.0  # what a signal has not ended in this time waits for a file system
_TO_TIDY_S: Final = 3.0
_TO_DIE_S: Final = 1.0
_EVERY_S: Final = 0.02
# without a limit: a child that the kernel has not run once in this time waits for a server
SILENT_S: Final = 60.0
_PRINTING: Final = ("0x1", "0x2")  # the descriptors of standard output and standard error


def run_apart(act: Callable[[], int], seconds: float | None) -> int | None:
    """The exit status of `act`, done by a child; None where it does not end within `seconds`, or
    after a signal. With None for `seconds` it has to come to its end as long as it does anything.
    Raises HosttuneError where no process can be started.
    """
    end_progress()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    piped = [number for number in (1, 2) if is_read_to_its_end(number)]
    if piped == [1, 2] and _is_one_file():
        relays = dict.fromkeys(piped, os.pipe())  # `2>&1`: in the order in which it is printed
    else:
        relays = {number: os.pipe() for number in piped}
    child = _fork_with(relays)
    if child == 0:
        code = 1
        try:
            from hosttune.host.processes.confined_child import die_with_parent

            # The signals of ENDING are handed on, SIGKILL cannot be: then the kernel ends the
            # child.
            die_with_parent()
            os.setpgid(0, 0)  # a signal of the terminal comes once, from its parent
            switch_pager_off()  # a pager reads keys, which only the group in the foreground gets
            for number, (_, writing) in relays.items():
                os.dup2(writing, number)
            for fd in {fd for pair in relays.values() for fd in pair}:
                os.close(fd)
            code = act()
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
        finally:
            # Not sys.exit(): the functions of atexit and the buffers of the parent are in this
            # process, too, and would have their effect twice.
            os._exit(code)
    # The child has to be the only one with the writing ends, or its end would never be seen here.
    for writing in {pair[1] for pair in relays.values()}:
        os.close(writing)
    sources = {reading: number for number, (reading, _) in relays.items()}
    try:
        return _await(child, sources, seconds)
    finally:
        for reading in sources:
            os.close(reading)


def _fork_with(relays: dict[int, tuple[int, int]]) -> int:
    """As fork(2). Where that fails the pipes are closed, and HosttuneError is raised."""
    try:
        return os.fork()
    except OSError as error:
        for fd in {fd for pair in relays.values() for fd in pair}:
            os.close(fd)
        raise HosttuneError(f"no process could be started: {error.strerror}") from error


def _await(child: int, sources: dict[int, int], seconds: float | None) -> int | None:
    """`sources`: what the child prints, and where to. A reader of that would wait for a child that
    is left behind, so it has none of our streams.
    """
    until = [time.monotonic() + (SILENT_S if seconds is None else seconds)]
    last = ""
    is_ending = False

    def hand_on(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        del frame
        is_ending = True
        until[0] = min(until[0], time.monotonic() + AFTER_SIGNAL_S)
        with suppress(ProcessLookupError):
            os.kill(child, number)

    def stop(number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: the child is in a group of its own, so it is stopped first, and goes on with this
        process.
        """
        del frame
        begin = time.monotonic()
        _signal_group(child, signal.SIGSTOP)
        # Only the default action stops this process, so that the shell sees a job that is stopped.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, stop)
        # The time for which a person stopped it does not count as silence.
        until[0] += time.monotonic() - begin
        _signal_group(child, signal.SIGCONT)

    with handle_ending(hand_on), _handle_stop(stop):
        status = None
        while time.monotonic() < until[0]:
            status = status_of(child) if status is None else status
            if seconds is None and not is_ending and (now := _progress_of(child)) != last:
                last, until[0] = now, time.monotonic() + SILENT_S
            if not _relay_output(sources, _EVERY_S if status is None else 0) and status is not None:
                return status
        # This process may have been stopped meanwhile, and the child have come to its end.
        if not is_ending and (status := status_of(child) if status is None else status) is not None:
            while _relay_output(sources, 0):
                pass
            return status
        for number, wait_s in ((signal.SIGTERM, _TO_TIDY_S), (signal.SIGKILL, _TO_DIE_S)):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child, number)
            end = time.monotonic() + wait_s
            while time.monotonic() < end and status_of(child) is None:
                _relay_output(sources, _EVERY_S)
    return None


def _signal_group(child: int, number: int) -> None:
    """The child may not lead its group yet, and may have ended."""
    try:
        os.killpg(child, number)
    except ProcessLookupError:
        with suppress(ProcessLookupError):
            os.kill(child, number)


@contextmanager
def _handle_stop(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Within, the signal of Ctrl-Z goes to `handler`, unless it is ignored."""
    before = signal.getsignal(signal.SIGTSTP)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before or signal.SIG_DFL)


def _progress_of(child: int) -> str:
    """What changes whenever its first thread has run (proc_pid_status(5), voluntary_ctxt_switches),
    and always while it prints (proc_pid_syscall(5)): a terminal may be stopped. Changes always
    where that cannot be read.
    """
    is_printing = not {*_PRINTING}.isdisjoint(head_text(f"/proc/{child}/syscall").split()[1:2])
    lines = head_text(f"/proc/{child}/status").splitlines()
    switches = "".join(line for line in lines if "ctxt_switches" in line)
    return str(time.monotonic()) if is_printing or not switches else switches


def is_read_to_its_end(number: int) -> bool:
    """Whether a reader may wait for the end of this stream, as that of a pipe does."""
    with suppress(OSError):
        mode = os.fstat(number).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return False


def _is_one_file() -> bool:
    """Whether standard output and standard error are the same file."""
    with suppress(OSError):
        return os.path.sameopenfile(1, 2)
    return False


def _relay_output(sources: dict[int, int], seconds: float) -> bool:
    """Print what has come within this time; False where nothing has."""
    has_output = False
    for reading in select.select(list(sources), [], [], seconds)[0]:
        try:
            view = memoryview(os.read(reading, 1 << 16))
            is_over = not view
            while view:
                view = view[os.write(sources[reading], view) :]
        except OSError:  # who reads us is gone: the child learns it the same way
            is_over = True
        if is_over:
            del sources[reading]
            os.close(reading)
        has_output = has_output or not is_over
    return has_output


def status_of(child: int) -> int | None:
    """128 and the number of the signal that ended it, as a shell has it; None while it runs."""
    try:
        pid, status = os.waitpid(child, os.WNOHANG)
    except ChildProcessError:  # it was waited for
        return 1
    code = os.waitstatus_to_exitcode(status) if pid else 0
    return (code if code >= 0 else 128 - code) if pid else None


@contextmanager
def handle_ending(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Within, the signals of ENDING go to `handler`. One that is ignored already stays so: nohup(1)
    relies on it.
    """
    before = {one: signal.getsignal(one) for one in ENDING}
    try:
        for one, was in before.items():
            if was is not signal.SIG_IGN:
                signal.signal(one, handler)
        yield
    finally:
        for one, was in before.items():
            signal.signal(one, was or signal.SIG_DFL)
