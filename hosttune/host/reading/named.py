"""Files that the command line names, or that are in a folder that it names. They may be other
people's.

A regular file or a pipe, of limited size. A device is not opened, because opening one can have an
effect. A file of the kernel is refused: a read of /proc/kmsg never ends and takes messages away
from the log. A file system whose server is dead (FUSE, NFS) is read by a child, because a process
that waits for it cannot be ended (host/in_time.py).
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from hosttune.host.in_time import Waiting, in_time
from hosttune.host.reading.bounded import own_mounts, read_head
from hosttune.host.reading.late_mounts import is_of_root
from hosttune.host.reading.mountinfo import decode, find_by_id
from hosttune.host.writing.attributes import mount_id

ANSWER_S: Final = 10.0  # a file system that serves no file within this time is taken for dead
SILENCE_S: Final = 60.0  # and a pipe into which nothing was written within this time
WHOLE_S: Final = 60.0  # in which a pipe of another user has given all of it
_CHUNK: Final = 1 << 18
_LOOK: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_AUTOMOUNT = b"/proc/sys/fs/binfmt_misc"  # of every systemd; the kernel answers for it
# Types for which the kernel itself answers. Each other one has a server, or a line to one, that can
# be dead.
_ANSWERING = frozenset({
    "bcachefs", "binfmt_misc", "bpf", "btrfs", "cgroup", "cgroup2", "configfs", "cramfs", "debugfs",
    "devpts", "devtmpfs", "efivarfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fusectl",
    "hugetlbfs", "iso9660", "jfs", "mqueue", "msdos", "nilfs2", "nsfs", "ntfs3", "overlay", "proc",
    "pstore", "ramfs", "reiserfs", "rootfs", "rpc_pipefs", "securityfs", "selinuxfs", "squashfs",
    "sysfs", "tmpfs", "tracefs", "udf", "vfat", "xfs", "zfs",
})  # fmt: skip
# Types whose regular files are no data.
_OF_THE_KERNEL = frozenset({
    "apparmorfs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "efivarfs",
    "fusectl", "nfsd", "proc", "pstore", "resctrl", "securityfs", "selinuxfs", "smackfs", "sysfs",
    "tracefs",
})  # fmt: skip
_NULL = os.makedev(1, 3)  # /dev/null, the empty file of every shell
_OF_PROC: Final = ("/proc/", "/dev/fd/", "/dev/std")
_CONTENT, _OWN_PIPE, _PIPE_OF_ANOTHER = b"f", b"p", b"o"  # how what a child says of a file begins


def read_named(path: str, limit: int) -> bytes:
    """The content of a file that the command line names; `-` is standard input. Raises OSError:
    `strerror` is the second half of a sentence about the file.
    """
    if path == "-":
        return _read_pipe(sys.stdin.fileno(), limit)
    if not can_hang(path):
        return _read(path, limit)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        answer = answer_of(path, partial(_read_file, path, limit, theirs))
        # what the path leads to by now may be on a dead server, so it is not opened again
        if answer == _OWN_PIPE:
            _, (pipe,), _, _ = socket.recv_fds(ours, 1, 1, socket.MSG_CMSG_CLOEXEC)
            try:
                return _read_pipe(pipe, limit)
            finally:
                os.close(pipe)
    if answer == _PIPE_OF_ANOTHER:  # by a child, too
        return answer_of(path, partial(_read, path, limit), WHOLE_S + ANSWER_S)
    return answer[len(_CONTENT) :]


def answer_of(path: str, work: Callable[[], bytes], seconds: float = ANSWER_S) -> bytes:
    """What `work` answers about a path, done by a child that is left behind where the file system
    of the path is dead. Raises the OSError of `work`; ETIMEDOUT where there is no answer.
    """

    def answer_or_error() -> bytes:
        try:
            return b"+" + work()
        except (OSError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else errno.EINVAL
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return f"-{number or errno.EIO} {reason}".encode("utf-8", "surrogateescape")

    answer = in_time({path: answer_or_error}, seconds)[path]
    if isinstance(answer, Waiting):
        raise OSError(
            errno.ETIMEDOUT,
            f"gives no answer: its file system did not serve it within {seconds:g} s",
            path,
        )
    if answer[:1] == b"-":
        number, _, reason = answer[1:].decode("utf-8", "surrogateescape").partition(" ")
        raise OSError(int(number), reason, path)
    return answer[1:]


def answer_in_time(path: str, work: Callable[[], bytes], seconds: float = ANSWER_S) -> bytes:
    """As `answer_of`; done at once where nothing can hold this process. Raises the OSError of
    `work`.
    """
    return answer_of(path, work, seconds) if can_hang(path) else work()


def can_hang(path: str) -> bool:
    """Whether a file system is mounted here that waits for a server, or a user can mount one
    meanwhile for root.
    """
    return bool(served_mounts()) or (os.geteuid() == 0 and not is_of_root(os.path.abspath(path)))


def served_mounts() -> tuple[str, ...]:
    """Where file systems are mounted that wait for a server."""
    # not splitlines(): a name can have a carriage return
    lines = filter(None, _list_mounts().split(b"\n"))
    found = (line.split(b" ", 5)[4] for line in lines if waits_for_server(_read_type(line)))
    return tuple(decode(os.fsdecode(one)) for one in found if one != _AUTOMOUNT)


def _list_mounts() -> bytes:
    """Our own mountinfo; empty where /proc is not mounted, as in a chroot: nothing says then that a
    server is waited for (late_mounts.py has it so, too).
    """
    try:
        return own_mounts()
    except FileNotFoundError:
        return b""


def waits_for_server(fstype: str) -> bool:
    """Whether a file system of this type can wait for a server. An unknown type can."""
    return fstype not in _ANSWERING


def require_answer(path: str, seconds: float) -> None:
    """Raises OSError, ETIMEDOUT, where the file system of a path does not open it within this time.
    What is wrong with the path besides is for the caller. No access time moves.
    """

    def look() -> bytes:
        with suppress(OSError):
            if os.path.isdir(path):
                os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        return b""

    answer_of(path, look, seconds)


def _read_type(line: bytes) -> str:
    """The type in a line of mountinfo, whose fields hold no blank."""
    return line.partition(b" - ")[2].split(b" ", 1)[0].decode("utf-8", "replace")


def check_named(path: str) -> None:
    """Raises the OSError of a path that the command line names where no file system answers, or no
    data is: a device, a file of the kernel. A folder, and a name that leads nowhere, are for the
    caller.
    """

    def look() -> bytes:
        if not os.path.isdir(path) and os.path.exists(path):
            os.close(open_named(path))
        return b""

    answer_in_time(path, look)


def reason_of(error: OSError) -> str:
    """The second half of a sentence about a file that could not be read."""
    reason = error.strerror or str(error)
    return reason if reason.startswith(("is ", "gives ")) else f"cannot be read: {reason}"


def open_named(path: str) -> int:
    """A descriptor of a regular file that holds data, of a pipe, or of /dev/null. Nothing else is
    opened: OSError.
    """
    found = open_named_place(path)
    try:
        info = os.fstat(found)
        mode = info.st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, "is a folder", path)
        is_empty = stat.S_ISCHR(mode) and info.st_rdev == _NULL
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or is_empty):
            raise OSError(errno.EINVAL, "is a device or a socket, not a file", path)
        if stat.S_ISREG(mode) and _is_of_the_kernel(found, info):
            raise OSError(errno.EINVAL, "is a file of the kernel, which is not read as data", path)
        # By the descriptor that was looked at: the path may lead to a device by now.
        try:
            return os.open(f"/proc/self/fd/{found}", _LOOK)
        except FileNotFoundError:  # /proc is not mounted
            return os.open(path, _LOOK | os.O_NOFOLLOW)
    finally:
        os.close(found)


def open_named_place(path: str) -> int:
    """An O_PATH descriptor of what a path leads to: for root, behind a link of a user, only what
    that user may read. The links of /proc lead to files without a path, as to a pipe of a shell.
    Raises OSError.
    """
    if "\0" in path:
        raise OSError(errno.EINVAL, "is not a path: it holds a NUL", path)
    if os.geteuid() or path.startswith(_OF_PROC):
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    from hosttune.host.reading.tree import open_live_place

    return open_live_place(path if path.startswith("/") else os.path.join(os.getcwd(), path))


def _read_file(path: str, limit: int, parent: socket.socket) -> bytes:
    """The content, behind _CONTENT; of a pipe only that it is one, because who writes to it may
    take its time. One's own is handed to the parent as it is open here.
    """
    fd = open_named(path)
    try:
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return _CONTENT + _read_open(fd, limit)
        if not _is_own(fd):
            return _PIPE_OF_ANOTHER
        socket.send_fds(parent, [_OWN_PIPE], [fd])
        return _OWN_PIPE
    finally:
        os.close(fd)


def _is_own(pipe: int) -> bool:
    """By the kernel's own word: a file system with a server can say of any pipe that it is
    root's.
    """
    info = os.fstat(pipe)
    # Who may open it for writing can keep it open without an end.
    if info.st_uid not in {0, os.geteuid()} or info.st_mode & stat.S_IWOTH:
        return False
    return _is_nameless(info) or not waits_for_server(_type_of_mount(pipe))


def _is_nameless(info: os.stat_result) -> bool:
    """Whether it is a pipe of a shell, `<(...)`: all of these are on one file system of the
    kernel's.
    """
    ends = os.pipe()
    try:
        return info.st_dev == os.fstat(ends[0]).st_dev
    finally:
        for end in ends:
            os.close(end)


def _read(path: str, limit: int) -> bytes:
    fd = open_named(path)
    try:
        return _read_open(fd, limit)
    finally:
        os.close(fd)


def _read_open(fd: int, limit: int) -> bytes:
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        return _read_pipe(fd, limit, None if _is_own(fd) else WHOLE_S)
    content, is_whole = read_head(fd, limit)
    if not is_whole:
        raise _too_large(limit)
    return content


def _read_pipe(fd: int, limit: int, whole_s: float | None = None) -> bytes:
    """All that is written to a pipe, or typed. Raises OSError if nothing comes for SILENCE_S, or
    not all of it within `whole_s`: who may write into it could go on for ever with a byte now and
    then.

    A pipe that no process has open for writing is empty.
    """
    chunks: list[bytes] = []
    total = 0
    end = None if whole_s is None else time.monotonic() + whole_s
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while total <= limit:
        left_s = SILENCE_S if end is None else min(SILENCE_S, end - time.monotonic())
        if left_s <= 0:
            raise OSError(
                errno.ETIMEDOUT, f"is a pipe of another user that did not end within {whole_s:g} s"
            )
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            # If less was left than that, the next round reports the end of the whole time.
            if not poll.poll(left_s * 1000) and left_s == SILENCE_S:
                message = f"is a pipe into which nothing was written for {SILENCE_S:g} s"
                raise OSError(errno.ETIMEDOUT, message) from None
            continue
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        total += len(chunk)
    raise _too_large(limit)


def _too_large(limit: int) -> OSError:
    return OSError(errno.EFBIG, f"is larger than {limit >> 20} MiB")


def _type_of_mount(fd: int) -> str:
    """Empty for a mount of another namespace, or above a chroot."""
    line = find_by_id(_list_mounts(), mount_id(fd))
    return "" if line is None else line.fstype


def _is_of_the_kernel(fd: int, info: os.stat_result) -> bool:
    """Whether a regular file is one that the kernel makes up. On a mount of another namespace
    (/proc/PID/root), or above a chroot, only its size tells: it has no blocks, and no size or that
    of a page.
    """
    if os.major(info.st_dev):
        return False  # on a block device
    fstype = _type_of_mount(fd)
    return fstype in _OF_THE_KERNEL or (
        not fstype and info.st_blocks == 0 and info.st_size in {0, 4096}
    )
