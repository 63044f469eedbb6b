"""What the kernel reads from the memory of another process: its command line and its environment.

The owner of a process can make such a read wait for ever. A thread that reads its own memory from a
FUSE file without an answer holds the lock of that memory, a second one that maps more of it waits
for the lock, and every later reader waits behind the second one. So these files are read by threads
that the end of the command ends: the wait is one that signal 9 ends. No change of user ids may wait
for such a thread (host/processes/thread_ids.py).

Read from the kernel's source. The lock of the memory (mmap_lock) is taken for cmdline and environ
(fs/proc/base.c, get_mm_cmdline and environ_read; mm/memory.c, access_remote_vm, with FOLL_ANON: a
page of a file is refused), maps, smaps, smaps_rollup, numa_maps, pagemap, clear_refs
(fs/proc/task_mmu.c), map_files and mem (fs/proc/base.c). A program that is about to start another
one in the same memory can hold exec_update_lock as long (fs/exec.c, exec_mmap): io, syscall, stack
and personality wait for it, and so does the opening of environ, auxv, maps and mem (kernel/fork.c,
mm_access). Neither is taken for stat, statm and status (counters: fs/proc/array.c; task_mmu.c,
task_mem), comm, cgroup, limits, mountinfo, schedstat, wchan, children, exe (get_task_exe_file, by
RCU), cwd, root, fd, fdinfo and ns.
"""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from threading import Thread
from typing import Final, Generic, TypeVar

from hosttune.host.reading.bounded import PROCESS_FILE, head_of, head_text

T = TypeVar("T")
# after this time without an answer another thread goes on with the next process
_PATIENCE_S: Final = 0.01
_LAST_S: Final = 0.5  # and so long after all others the last answers are waited for
# of waiting in one look for processes of users, and as much for those of root
_TOTAL_S: Final = 2.0
_MOST_OF_OWNER: Final = 2  # processes of one owner that are waited for at the same time
_FEW: Final = 4  # single files that are waited for with patience
_MOST: Final = 64  # and those that are waited for at all
_waiting: list[Thread] = []


class _Reader(Thread, Generic[T]):
    """Reads for one process after the other. `at` is the process that it is at."""

    def __init__(
        self, todo: deque[int], read: Callable[[int], T], is_refused: Callable[[int], bool]
    ) -> None:
        super().__init__(daemon=True)
        self.found: dict[int, T | None] = {}
        self.refused: list[int] = []
        self.at = 0
        self.stuck_at = 0
        self.owner: int | str = -1
        self.is_given_up = False
        self.error: Exception | None = None
        self._todo, self._read, self._is_refused = todo, read, is_refused

    def run(self) -> None:
        while self._todo:
            try:
                self.at = self._todo.popleft()
            except IndexError:  # another reader took it
                return
            if self._is_refused(self.at):
                self.refused.append(self.at)
                continue
            try:
                self.found[self.at] = self._read(self.at)
            except OSError:
                self.found[self.at] = None
            except Exception as error:  # noqa: BLE001 - for the thread that asks
                self.error = error
                self._todo.clear()

    @property
    def is_stuck(self) -> bool:
        return self.is_alive() and self.at == self.stuck_at

    def is_held(self) -> bool:
        """Whether the kernel holds it now (proc_pid_stat(5), D). One that waits for a CPU is not
        held.
        """
        stat = head_text(f"/proc/self/task/{self.native_id}/stat")
        return stat.rpartition(")")[2].split()[:1] in ([], ["D"])

    def await_progress(self, seconds: float) -> bool:
        """Whether it ended; False when the kernel has held it at one process for this time."""
        self.stuck_at = -1
        while self.is_alive() and not (self.is_stuck and self.is_held()):
            self.stuck_at = self.at
            self.join(seconds)
        return not self.is_alive()


class MemoryLook:
    """One look at the memory of many processes. Its time is bounded whatever their owners do: a
    user, or the control group of root's (root of a container is root here), has two processes that
    are waited for. Of the time that is spent with waiting, users and root have a part each, so that
    users cannot hide the processes of root.
    """

    def __init__(self, folder: str = "/proc") -> None:
        self._folder = folder
        self._stuck: list[_Reader[object]] = []
        self._left = {True: _TOTAL_S, False: _TOTAL_S}  # by whether root is the owner

    def ask(self, pids: Iterable[int], read: Callable[[int], T]) -> dict[int, T | None]:
        """What `read` returns for each process; None when it raises OSError. One that does not
        answer is left out.
        """
        found: dict[int, T | None] = {}
        todo = deque(pids)
        readers: list[_Reader[T]] = []
        while todo:
            self._read_all(todo, read, readers)
            # What is left when the time is spent has no answer, and is not asked in the next round.
            todo.clear()
            self._await_last()
            refused = [pid for one in readers for pid in one.refused]
            for one in readers:
                if one.error:
                    raise one.error
                found.update(dict(one.found))
                one.refused = []
            readers = [one for one in readers if one.is_alive()]
            todo.extend(pid for pid in refused if not self._is_refused(pid))
        return found

    def _read_all(
        self, todo: deque[int], read: Callable[[int], T], readers: list[_Reader[T]]
    ) -> None:
        while todo and min(self._left.values()) > -_TOTAL_S:
            reader = _Reader(todo, read, self._is_refused)
            readers.append(reader)
            try:
                reader.start()
            except RuntimeError:  # no more threads
                return
            if not reader.await_progress(_PATIENCE_S):
                reader.owner = owner_of(f"{self._folder}/{reader.stuck_at}")
                # An owner that is text is a control group of root's (`owner_of`).
                self._left[isinstance(reader.owner, str)] -= _PATIENCE_S
                self._stuck.append(reader)  # type: ignore[arg-type]

    def _await_last(self) -> None:
        """Wait for those that still have no answer; once for each."""
        last = [one for one in self._stuck if one.is_stuck and not one.is_given_up]
        start = time.monotonic()
        for one in last:
            one.join(max(0.0, start + _LAST_S - time.monotonic()))
            one.is_given_up = one.is_stuck
        for is_root in {isinstance(one.owner, str) for one in last}:
            self._left[is_root] -= time.monotonic() - start
        self._stuck = [one for one in self._stuck if one.is_stuck]

    def _is_refused(self, pid: int) -> bool:
        if not self._stuck and min(self._left.values()) > 0:
            return False
        owner = owner_of(f"{self._folder}/{pid}")
        waits = sum(one.owner == owner and one.is_stuck for one in self._stuck)
        return waits >= _MOST_OF_OWNER or self._left[isinstance(owner, str)] <= 0


def owner_of(process: str) -> int | str:
    """The user of a process; of root's the text of its control groups, because root of a container
    is root here.
    """
    return user_of(head_text(f"{process}/status")) or head_text(f"{process}/cgroup")


def user_of(status: str) -> int:
    """The user in a proc_pid_status(5): 0 only if all its ids are. -1 for a process that is
    gone.
    """
    ids = next((line.split()[1:] for line in status.split("\n") if line.startswith("Uid:")), ["-1"])
    return next(filter(None, map(int, ids)), 0)


def head_in_time(
    path: str, limit: int = PROCESS_FILE, *, dir_fd: int | None = None
) -> tuple[bytes, bool]:
    """As `head_of`, of one file that the owner of a process can lock. Raises OSError, ETIMEDOUT if
    it has no answer.
    """
    return _in_time(path, lambda: head_of(path, limit, dir_fd=dir_fd))


def statvfs_in_time(path: str) -> os.statvfs_result:
    """As statvfs(3), of a folder below /proc/PID/root, where a file system of the owner's may be.
    Raises OSError.
    """
    return _in_time(path, lambda: os.statvfs(path))


def _in_time(path: str, ask: Callable[[], T]) -> T:
    _waiting[:] = [one for one in _waiting if one.is_alive()]
    silent = OSError(errno.ETIMEDOUT, "the process does not let its memory be read", path)
    if len(_waiting) >= _MOST:
        raise silent
    reader = _Reader(deque([1]), lambda _: _answer_or_error(ask), lambda _: False)
    try:
        reader.start()
    except RuntimeError:  # no more threads
        raise silent from None
    if not reader.await_progress(_LAST_S if len(_waiting) < _FEW else _PATIENCE_S):
        _waiting.append(reader)
        raise silent
    answer = reader.found.get(1)
    if answer is None or isinstance(answer, OSError):
        raise answer or silent
    return answer


def _answer_or_error(ask: Callable[[], T]) -> T | OSError:
    try:
        return ask()
    except OSError as error:
        return error
