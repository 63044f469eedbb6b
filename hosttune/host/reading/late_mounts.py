"""Looks at places in which a user may mount a file system at the very moment, and then never
answer.

A FUSE file system comes to be in any folder that a user can write (fusermount3(1)), and inotify(7)
says when root opens that folder. What was known of mounts before is then old. A server that takes a
request and does not answer it holds who asked, and no signal ends that wait (fs/fuse/dev.c,
request_wait_answer). Nor does a process end while one of its threads waits so. So such a look is
done by a child, which is left behind where no answer comes.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import stat
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from threading import current_thread, main_thread
from typing import Any, Final, NoReturn

from hosttune.host.in_time import forget_imports, forget_streams
from hosttune.host.reading.bounded import MOST_NAMES, names_in, own_mounts
from hosttune.host.reading.effort import EFFORT
from hosttune.host.reading.mountinfo import find_by_id
from hosttune.host.writing.attributes import mount_id
from hosttune.values import Unreadable

ANSWER_S: Final = 10.0  # without an answer in this time, a file system is taken for dead
# looks that are waited for so long; the others, one in a folder of each user, a twentieth of it
_FEW: Final = 2
# Where users write no folder, but for service accounts, whose homes are there, too: who owns the
# folders decides.
_OF_ROOT: Final = (
    "/bin/", "/boot/", "/dev/", "/etc/", "/lib/", "/lib64/", "/proc/", "/root/", "/run/systemd/",
    "/run/udev/", "/sbin/", "/sys/", "/usr/", "/var/cache/", "/var/lib/", "/var/log/",
)  # fmt: skip
_MOST_LINKS: Final = 8
_DEEPEST: Final = 128  # folders of root; below more of them a child looks
# links in /proc/PID whose ends a process chose
_CHOSEN: Final = frozenset({"root", "cwd", "fd", "map_files"})
_HEAD = struct.Struct("=Q")
# folders of one user; behind a fifth nothing is looked at, nor in any other of that user
_MOST_SILENT: Final = 4
_SLOW_S: Final = 1.0  # a look that takes longer is slow
# of all slow looks at what one user owns, or mounted; then no more is looked at
_MOST_SLOW_S: Final = 30.0
_slow: dict[str, float] = {}  # by whose it is, what slow looks have taken
_silent: dict[str, str] = {}  # folders behind which something gave no answer: whose they are


class Looker:
    """Looks at files in a child, which does one look after the other. Another thread than the first
    looks itself: what started it waits for it no longer than it may take (host/in_time.py). So does
    one with the rights of a user, which the child does not have (host/processes/thread_ids.py).
    """

    def __init__(self, *, is_by_path: bool = False) -> None:
        """`is_by_path`: what gives no answer hides nothing beside it, up to _MOST_SILENT of one
        user.
        """
        self._is_by_path = is_by_path
        self._owner = 0  # the process that started the child
        self._child = self._to = self._from = -1
        self._is_child = False

    def __del__(self) -> None:
        if self._owner == os.getpid():
            self._close()

    def ask(self, look: Callable[..., Any], path: str, *words: Any) -> Any:
        """What `look(*words)` answers about a path of this host; Unreadable where no file system
        does. It is the same `look` in every call.
        """
        if (
            self._is_child
            or os.geteuid() != 0
            or current_thread() is not main_thread()
            or is_of_root(path)
        ):
            return look(*words)
        # deeper than /var/tmp and /run/user, which all users share
        top = path if self._is_by_path else "/".join(path.split("/", 4)[:4])
        owner = _find_owner(path)
        silence = Unreadable(f"{path}: its file system gives no answer")
        is_silent = top in _silent or list(_silent.values()).count(owner) >= _MOST_SILENT
        if is_silent or _slow.get(owner, 0.0) > _MOST_SLOW_S:
            return silence
        if (self._owner != os.getpid() or self._child < 0) and not self._has_started(look):
            # this process would wait itself, and a user can take every place for another one
            return Unreadable(f"{path}: no process could be started to look at it")
        begun = time.monotonic()
        try:
            reply = self._read_answer(words, ANSWER_S if len(_silent) < _FEW else ANSWER_S / 20)
        except BaseException:  # its answer would be taken for that of the next question
            self._leave_behind()
            raise
        if (took := time.monotonic() - begun) > _SLOW_S:
            _slow[owner] = _slow.get(owner, 0.0) + took
        if reply is None:
            self._leave_behind()
            _silent[top] = owner
            return silence
        answer, spent = reply
        EFFORT.spent += spent
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _has_started(self, look: Callable[..., Any]) -> bool:
        """Start the child; False where there are no more processes or descriptors."""
        opened: list[int] = []
        owner = os.getpid()
        try:
            for _ in range(2):
                opened += os.pipe()
            child = os.fork()
        except OSError:
            for fd in opened:
                os.close(fd)
            return False
        theirs, self._to, self._from, ours = opened
        self._owner, self._child = owner, child
        if child == 0:
            self._is_child = True
            self._serve(look, theirs, ours)
        os.close(theirs)
        os.close(ours)
        return True

    def _serve(self, look: Callable[..., Any], reading: int, writing: int) -> NoReturn:
        """Holds nothing of ours while it waits: no lock, and no output that is read to its end."""
        try:
            forget_imports()
            # A signal is for the command, which may have to look once more before it ends.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            forget_streams()
            # this child ends when no end of its parent's is left, without /proc too
            for fd in (self._to, self._from):
                os.close(fd)
            _close_all_but({0, 1, 2, reading, writing})
            while request := _receive(reading):
                before = EFFORT.spent
                answer: Any
                try:
                    answer = look(*pickle.loads(request))  # noqa: S301 - of the process that started this one
                except Exception as error:  # noqa: BLE001 - for who asks
                    answer = error
                _send(writing, pickle.dumps((answer, EFFORT.spent - before)))
        finally:
            os._exit(0)

    def _read_answer(self, words: tuple[Any, ...], seconds: float) -> tuple[Any, int] | None:
        with suppress(OSError):
            _send(self._to, pickle.dumps(words))
            if select.select([self._from], [], [], seconds)[0] and (
                content := _receive(self._from)
            ):
                reply: tuple[Any, int] = pickle.loads(content)  # noqa: S301 - of a child that is this very program
                return reply
        return None

    def _leave_behind(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        self._close()

    def _close(self) -> None:
        for fd in (self._to, self._from):
            with suppress(OSError):
                os.close(fd)
        with suppress(ChildProcessError):
            os.waitpid(self._child, os.WNOHANG)
        self._child = self._to = self._from = -1


def _close_all_but(kept: set[int]) -> None:
    with suppress(OSError):  # a chroot may have no /proc
        for fd in {*map(int, names_in("/proc/self/fd", MOST_NAMES)[0])} - kept:
            with suppress(OSError):
                os.close(fd)


def _send(fd: int, content: bytes) -> None:
    view = memoryview(_HEAD.pack(len(content)) + content)
    while view:
        view = view[os.write(fd, view) :]


def _receive(fd: int) -> bytes:
    """Empty at the end of the pipe."""
    head = _take(fd, _HEAD.size)
    return _take(fd, _HEAD.unpack(head)[0]) if head else b""


def _take(fd: int, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        chunk = os.read(fd, min(size - len(content), 1 << 20))
        if not chunk:
            return b""
        content += chunk
    return bytes(content)


def is_of_root(path: str) -> bool:
    """Whether no user can mount something on the way to this path: its place is one of the system,
    and only root can write the folders on the way and what it leads to, which fusermount3(1) asks
    for.
    """
    if not path.startswith("/"):
        return True
    parts = path.split("/")
    if len(parts) == 2:  # the top of a disk, /data, may be a user's
        return is_way_of_root(path)
    if path.startswith("/proc/"):
        return _CHOSEN.isdisjoint(parts)
    if not path.startswith(_OF_ROOT) or ".." in parts or path.startswith("/dev/shm/"):
        return False
    return path.startswith(("/dev/", "/sys/")) or is_way_of_root(path)


def is_way_of_root(path: str) -> bool:
    """Whether only root can write a place and the folders above it."""
    return not _find_stranger(path)


def _find_owner(path: str) -> str:
    """Whose a place is that is not of root: `uid 1000`, or where it begins. Of /tmp the next folder
    tells it.
    """
    found = _find_stranger(path)
    if found.startswith("/") and path.startswith(f"{found}/"):
        found = (
            _find_stranger(f"{found}/{path[len(found) + 1 :].partition('/')[0]}", is_shared=True)
            or found
        )
    return found


@lru_cache(maxsize=65_536)
def _find_stranger(path: str, links: int = 0, *, is_shared: bool = False) -> str:
    """What comes first on the way to a place that others than root can write: whose it is, the path
    of a folder on which no user can mount (sticky, fusermount3(1)), or `at` and another path; empty
    if there is none. No file system is asked that a server answers for: to open a place without its
    content (O_PATH) is a look of the folder above, and shows the mount. With `is_shared`, what is
    above counts as root's.
    """
    above = os.path.dirname(path)
    found = f"at {path}" if links > _MOST_LINKS or path.count("/") > _DEEPEST else ""
    if not found and above != path and not is_shared:
        found = _find_stranger(above, links)
    if found:
        return found
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    # Nothing can be mounted where nothing is, and who could make a folder there was found above.
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError):
        return f"at {path}"
    try:
        if not _is_served_by_kernel(fd):
            return f"at {path}"
        info = os.fstat(fd)
        if info.st_uid:
            return f"uid {info.st_uid}"
        if stat.S_ISLNK(info.st_mode):
            leads_to = os.path.join(above, os.readlink("", dir_fd=fd))
            return _find_stranger(os.path.normpath(leads_to), links + 1)
        if not info.st_mode & 0o022:
            return ""
        return path if stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX else f"at {path}"
    finally:
        os.close(fd)


def _is_served_by_kernel(fd: int) -> bool:
    """Whether the kernel itself answers for what is open here; True where no mounts are known, as
    without /proc. The number of a mount that is gone is given to the next one. So only that of `/`
    is known for good: it stays as long as this process does. Another one is looked up while what is
    open keeps it.
    """
    number = mount_id(fd)
    return _is_answering(number) if number != _number_of_top() else _is_top_answering()


@lru_cache(maxsize=1)
def _number_of_top() -> str:
    fd = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        return mount_id(fd)
    finally:
        os.close(fd)


@lru_cache(maxsize=1)
def _is_top_answering() -> bool:
    return _is_answering(_number_of_top())


def _is_answering(number: str) -> bool:
    from hosttune.host.reading.named import waits_for_server

    try:
        line = find_by_id(own_mounts(), number)
    except FileNotFoundError:
        return not number
    except OSError:
        return False
    return line is not None and not waits_for_server(line.fstype)
