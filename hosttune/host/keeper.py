"""A command with root's rights ends, whatever it comes upon: a child does it, and this process
stays outside.

What waits for a server that does not answer cannot be ended (host/in_time.py), and nor does a
shell, cron or Ansible go on that waits for it. So this process touches no path that a user can
mount at. It hands on what is printed and the signals, and ends with the child's exit status. A
child that is held is left behind with signal 9 pending (signal(7)): once it is let go it does
nothing more. One that takes more memory or CPU time than any host needs is ended, too.

The child is in the same process group, so the terminal is its as well: prompts, pagers, Ctrl-C and
Ctrl-Z work.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from hosttune.frozen import frozen
from hosttune.host.apart import ENDING, is_read_to_its_end, status_of
from hosttune.host.known.wait_channels import waits_for_lock, waits_for_server
from hosttune.host.progress import CLEAR
from hosttune.host.reading.bounded import head_text, names_in

# a child that waits for a server and has not run once in this time is left behind
HELD_S: Final = 60.0
HELD_AFTER_SIGNAL_S: Final = 10.0
MOST_CPU_S: Final = 1800.0  # a host with 100,000 processes takes a minute
# bytes that a command may take on any host, or half of a smaller one; else a 32nd
_LEAST_MEMORY: Final = 4 << 30
_TO_DIE_S: Final = 1.0
_TWICE_S: Final = 0.1  # a signal to the whole group comes to both within this time
_EVERY_S: Final = (1.0, 5.0)  # how often the child is looked at in the first minute, and later
_DEEPEST: Final = 3
_MOST_THREADS: Final = 256
_MOST_FILES: Final = 4096
_PIDFD_GETFD: Final = 438  # the same number on every architecture
_CHUNK: Final = 1 << 16
_BLOCK: Final = 4096  # bytes that a pipe which takes any takes at once (pipe(7), PIPE_BUF)
# struct signalfd_siginfo: ssi_signo, ssi_code (signalfd(2))
_INFO: Final = struct.Struct("=Ii120x")
_OF_KERNEL: Final = 0x80  # SI_KERNEL: of the terminal, which sent it to the child, too
# of a pipe, of a socket, of a closed descriptor
_GONE: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@frozen
class Cut:
    """Why a command was ended, or left behind, and what to look at."""

    message: str
    hint: str


def stay_outside_as_root(*, most_cpu_s: float = MOST_CPU_S) -> int | Cut | None:
    """As `stay_outside` with root's rights; with those of a user the command itself does it all."""
    return stay_outside(most_cpu_s=most_cpu_s) if os.geteuid() == 0 else None


def stay_outside(*, most_cpu_s: float = MOST_CPU_S) -> int | Cut | None:
    """Go on in a child, which gets None. This process gets the exit status of that, or why it was
    cut off. Where no process can be started, this one gets None as well.
    """
    relays = [_Relay(*pipe, outputs) for outputs in _list_piped() if (pipe := os.pipe())]
    got, getting = os.pipe()
    parent = os.getpid()
    # ignored, the end of the child would be lost (sigaction(2))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    heard = {
        signal.SIGCHLD,
        *(one for one in ENDING if signal.getsignal(one) is not signal.SIG_IGN),
    }
    # Before the fork: a signal between that and signalfd(2) would end this process, and leave the
    # child without one that hands signals on.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    try:
        child = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for fd in (got, getting, *(fd for one in relays for fd in (one.reading, one.writing))):
            os.close(fd)
        return None
    if child == 0:
        _begin_child(parent, relays)
        os.close(got)
        # set_wakeup_fd() refuses a descriptor that blocks: a handler would hang in it.
        os.set_blocking(getting, False)
        # it says here which signals it has got
        signal.set_wakeup_fd(getting, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return None
    os.close(getting)
    for one in relays:
        os.close(one.writing)
    return _Keeper(child, relays, got, _open_signals(heard), most_cpu_s).wait()


class _Relay:
    """One pipe of the child's output, and where it goes."""

    def __init__(self, reading: int, writing: int, outputs: tuple[int, ...]) -> None:
        self.reading, self.writing, self.outputs = reading, writing, outputs
        self.is_over = False
        self._left = b""

    def masks(self) -> dict[int, int]:
        """What poll(2) is asked for: the next output, or room for the last; and always whether its
        reader is gone.
        """
        if self.is_over:
            return {}
        return (
            {self.outputs[0]: select.POLLOUT}
            if self._left
            else {self.reading: select.POLLIN, self.outputs[0]: 0}
        )

    def move(self, ready: dict[int, int]) -> None:
        to = self.outputs[0]
        try:
            if ready.get(to, 0) & _GONE:
                raise BrokenPipeError
            if self._left and ready.get(to):
                self._left = self._left[os.write(to, self._left[:_BLOCK]) :]
            elif ready.get(self.reading):
                self._left = os.read(self.reading, _CHUNK)
                self.is_over = not self._left
        # who reads us is gone, or the disk is full: the child learns it by a broken pipe
        except OSError:
            self.is_over = True
        if self.is_over:
            os.close(self.reading)

    def has_more(self) -> bool:
        """Whether something is left that was printed."""
        return not self.is_over and bool(self._left or select.select([self.reading], [], [], 0)[0])


def _list_piped() -> list[tuple[int, ...]]:
    """Which of standard output and standard error a reader may read to its end, as that of a pipe
    does: such a reader would wait for a child that is left behind. Those that are one file are
    relayed together, in their order.
    """
    piped = [number for number in (1, 2) if is_read_to_its_end(number)]
    return (
        [(1, 2)]
        if piped == [1, 2] and os.path.sameopenfile(1, 2)
        else [(number,) for number in piped]
    )


def _begin_child(parent: int, relays: list[_Relay]) -> None:
    from hosttune.host.processes.confined_child import die_with_parent

    die_with_parent()
    # The parent may have ended before the kernel was asked for a signal at its end (prctl(2),
    # PR_SET_PDEATHSIG).
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)
    for one in relays:
        for number in one.outputs:
            os.dup2(one.writing, number)
        os.close(one.writing)
        os.close(one.reading)


class _Keeper:
    def __init__(
        self, child: int, relays: list[_Relay], got: int, signals: int, most_cpu_s: float
    ) -> None:
        self._child, self._relays, self._got, self._signals = child, relays, got, signals
        self._most_cpu_s = most_cpu_s
        self._most_memory = most_memory()
        self._status: int | None = None
        self._begun = self._moved = time.monotonic()
        self._look_at = self._begun + _EVERY_S[0]
        self._progress = ""
        self._asked_at = -HELD_S  # when the last signal that asks it to end came
        # signals to hand on, unless the child has got them itself by then
        self._due: dict[int, float] = {}
        self._heard: dict[int, float] = {}

    def wait(self) -> int | Cut:
        while self._status is None:
            due = min((self._look_at, *self._due.values()))
            self._move_once(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            for number in [number for number, at in self._due.items() if at <= now]:
                del self._due[number]
                if self._status is None:  # else the number may be another process's by now
                    os.kill(self._child, number)
            if now >= self._look_at and self._status is None:
                self._look_at = now + _EVERY_S[now > self._begun + 60]
                cut = None
                with suppress(OSError, ValueError):  # the child goes on if it cannot be looked at
                    cut = self._find_cut(now)
                if cut:
                    self._end()
                    self._relay_rest()
                    return cut
        self._relay_rest()
        return self._status

    def _relay_rest(self) -> None:
        """What the child has printed before it ended. Its reader may take its time, as where no one
        stays outside; but not after a signal that has ended the child, or comes now.
        """
        end = time.monotonic()
        while any(one.has_more() for one in self._relays):
            is_asked = self._asked_at > end - HELD_AFTER_SIGNAL_S
            if is_asked and time.monotonic() > max(end, self._asked_at) + _TO_DIE_S:
                return
            self._move_once(_TO_DIE_S)

    def _move_once(self, seconds: float) -> None:
        """Wait for the next thing to do, and do it."""
        poll = select.poll()
        masks = {
            self._signals: select.POLLIN,
            **({self._got: select.POLLIN} if self._got >= 0 else {}),
        }
        for one in self._relays:
            masks |= one.masks()
        for fd, mask in masks.items():
            poll.register(fd, mask)
        ready = dict(poll.poll(seconds * 1000))
        if self._got in ready:
            self._note_got()
        if self._signals in ready:
            self._take_signal()
        for one in self._relays:
            if not one.is_over:
                one.move(ready)

    def _note_got(self) -> None:
        numbers = os.read(self._got, 1 << 12)
        now = time.monotonic()
        for number in numbers:
            self._heard[number] = now
            self._due.pop(number, None)
        if not numbers:  # the child has closed it
            os.close(self._got)
            self._got = -1

    def _take_signal(self) -> None:
        number, code = _INFO.unpack(os.read(self._signals, _INFO.size))
        if number == signal.SIGCHLD:
            self._status = status_of(self._child) if self._status is None else self._status
            return
        now = time.monotonic()
        self._asked_at = now
        if code != _OF_KERNEL and now - self._heard.get(number, 0.0) > _TWICE_S:
            self._due[number] = now + _TWICE_S

    def _find_cut(self, now: float) -> Cut | None:
        """Look at the child; what it was cut off for."""
        from hosttune.host.reading.named import served_mounts

        child = f"/proc/{self._child}"
        lines = head_text(f"{child}/status").splitlines()
        progress = "".join(line for line in lines if "ctxt_switches" in line)
        if progress != self._progress or not progress:
            self._progress, self._moved = progress, now
        patience = HELD_AFTER_SIGNAL_S if self._asked_at > 0 else HELD_S
        # After a signal the time counts anew, so that the child can tidy up.
        held_s = now - max(self._moved, self._asked_at)
        if held_s >= patience and (function := _find_wait(child)):
            mounts = served_mounts()
            suspects = ", ".join(mounts[:4]) + (
                f" and {len(mounts) - 4} more" if len(mounts) > 4 else ""
            )
            hint = (
                f"one of these has a server that could be dead: {suspects}"
                if mounts
                else "see what it waits for: "
            )
            hint += "" if mounts else "ps -eo pid,user,stat,wchan:25,args"
            return Cut(
                f"a file system has not answered for {held_s:.0f} s (the kernel waits in "
                f"{function})",
                hint,
            )
        if (memory := sum(map(_memory_of, _list_forks(self._child)))) > self._most_memory:
            most = f"{self._most_memory / (1 << 30):.1f} GiB"
            return Cut(
                f"more than {most} of memory would be needed ({memory / (1 << 30):.1f} GiB were "
                "taken)",
                "",
            )
        if (spent := _cpu_of(child)) > self._most_cpu_s:
            return Cut(f"{spent / 60:.0f} minutes of a CPU have not sufficed", "")
        return None

    def _end(self) -> None:
        """Signal 9 for the child and what it has forked; it is left behind where the kernel holds
        it.
        """
        if os.isatty(2):
            os.write(2, CLEAR)
        # The innermost first: a parent that goes on for a moment could fork another one.
        for pid in reversed(_list_forks(self._child)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + _TO_DIE_S
        while status_of(self._child) is None:
            if time.monotonic() > until:
                # Signal 9 waits there until the kernel lets the child go, and until then its
                # descriptors stay open.
                _let_locks_go(self._child)
                return
            time.sleep(0.01)


def most_memory() -> int:
    """Bytes that a command may take on this host: more than the largest needs, and less than it
    misses.
    """
    total = os.sysconf("SC_PHYS_PAGES") * _PAGE
    return min(total // 2, max(_LEAST_MEMORY, total // 32))


def _open_signals(numbers: Iterable[int]) -> int:
    """A descriptor that tells the blocked signals (signalfd(2)), each with who sent it."""
    import ctypes

    mask = struct.pack("=Q120x", sum(1 << (number - 1) for number in numbers))  # sigset_t of glibc
    fd = ctypes.CDLL(None, use_errno=True).signalfd(-1, mask, os.O_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return int(fd)


def _let_locks_go(pid: int) -> None:
    """Let go what a process that is left behind holds by flock(2), so that the next run need not
    wait for it. It takes one of its descriptors for that (pidfd_getfd(2), Linux 5.6).
    """
    import ctypes

    with suppress(OSError):
        process = os.pidfd_open(pid)
        for name in names_in(f"/proc/{pid}/fdinfo", _MOST_FILES)[0]:
            if "FLOCK" in head_text(f"/proc/{pid}/fdinfo/{name}"):
                held = ctypes.CDLL(None).syscall(_PIDFD_GETFD, process, int(name), 0)
                if held >= 0:
                    fcntl.flock(held, fcntl.LOCK_UN)


def _find_wait(process: str) -> str:
    """The function of the kernel in which one of its threads waits for a server; empty where none
    does. In functions that take a lock it also waits for data, which a pipe may bring late, but no
    signal ends only the former.
    """
    with suppress(OSError):
        for thread in names_in(f"{process}/task", _MOST_THREADS)[0]:
            function = head_text(f"{process}/task/{thread}/wchan")
            state = _stat_of(f"{process}/task/{thread}")[:1]
            if waits_for_server(function) and (state == ["D"] or not waits_for_lock(function)):
                return function
    return ""


def _list_forks(pid: int, depth: int = _DEEPEST) -> list[int]:
    """This process and those that it has forked, and not what it starts: a user's program may be
    below that.
    """
    found = [pid]
    if depth:
        place = _place_of_words(pid)
        for child in head_text(f"/proc/{pid}/task/{pid}/children").split():
            if _place_of_words(int(child)) == place:
                found += _list_forks(int(child), depth - 1)
    return found


def _place_of_words(pid: int) -> list[str]:
    """Where in memory its words and its environment are (proc_pid_stat(5), arg_start to env_end).
    What is forked has them in the same place until it starts a program. Reading this waits for no
    lock of that memory; reading the words does.
    """
    return _stat_of(f"/proc/{pid}")[45:49]


def _stat_of(process: str) -> list[str]:
    """The fields of proc_pid_stat(5) from the third on, the state."""
    return head_text(f"{process}/stat").rpartition(")")[2].split()


def _memory_of(pid: int) -> int:
    """Bytes in memory and in swap that are its own (proc_pid_status(5): RssAnon, VmSwap)."""
    found = 0
    for line in head_text(f"/proc/{pid}/status").splitlines():
        if line.startswith(("RssAnon:", "VmSwap:")):
            found += int(line.split()[1]) << 10
    return found


def _cpu_of(process: str) -> float:
    """Seconds of a CPU that its threads have taken (proc_pid_stat(5): utime, stime)."""
    words = _stat_of(process)
    return (int(words[11]) + int(words[12])) / _TICKS if len(words) > 12 else 0.0
