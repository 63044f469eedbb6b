"""Reading what the kernel shows of processes, and other input that users of this host write. Each
call has a limit.

A user of this host chooses how long the command line of a process is (PR_SET_MM_MAP of prctl(2)
makes one of any length from memory that costs nothing), how many threads and open files it has, and
what is in a folder. So nothing of theirs is read whole: memory and time of a look must not follow
what one user chose. The list of all readers of such input is in docs/project/foreign-input.md;
tests/unit/test_bounded_readers.py holds it.
"""

from __future__ import annotations

import errno
import os
from itertools import islice
from typing import TYPE_CHECKING, Final

from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable
    from re import Match

OWN_MOUNTS: Final = 64 << 20  # bytes of our own mountinfo; fusermount3(1) lets users add to it
PROCESS_FILE: Final = 64 << 10  # bytes of one file below /proc/PID
# of one look; more than this are not listed, and the list is unknown
MOST_PROCESSES: Final = 1 << 17
MOST_OPEN_FILES: Final = 1 << 18  # of all processes of one user together, in one look
MOST_NAMES: Final = 1 << 19  # of one folder
CUT: Final = "[cut]"  # the last of the words that are kept of a longer list
_CHUNK: Final = 1 << 18
_PATH_MAX: Final = 4096
_MOST_ESCAPED: Final = 4 * _PATH_MAX
_LONG: Final = regex(rb"(?<![^ \n])/[^ \n]{%d,}" % (_PATH_MAX - 1))
NO_PATH: Final = rb"/[longer\040than\040a\040path]"
# A FIFO without a writer would be waited for, and a terminal could become that of this process
# (open(2)).
_LOOK: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_head(fd: int, limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of an open file, and whether that is all of it. Raises OSError."""
    chunks: list[bytes] = []
    # One byte more shows whether there is more: a file of the kernel has the size 0.
    left = limit + 1
    while left > 0 and (chunk := os.read(fd, min(_CHUNK, left))):
        chunks.append(chunk)
        left -= len(chunk)
    content = b"".join(chunks)
    return content[:limit], len(content) <= limit


def head_of(
    path: str,
    limit: int = PROCESS_FILE,
    *,
    dir_fd: int | None = None,
    read: Callable[[int, int], tuple[bytes, bool]] = read_head,
) -> tuple[bytes, bool]:
    """The first `limit` bytes of a file of the kernel, and whether that is all of it. Raises
    OSError.
    """
    fd = os.open(path, _LOOK, dir_fd=dir_fd)
    try:
        return read(fd, limit)
    finally:
        os.close(fd)


def head_text(path: str, limit: int = PROCESS_FILE) -> str:
    """The beginning of a file of the kernel; empty where it cannot be read. Bytes that are not
    UTF-8 become U+FFFD.
    """
    try:
        return head_of(path, limit)[0].decode("utf-8", "replace")
    except OSError:
        return ""


def read_mounts(fd: int, limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of an open mountinfo, and whether that is all of it. In place of a
    path that is too long to be one stands NO_PATH: a user who moves a folder with a mount in it
    below thousands of folders makes a line of any length, which would hide all others. Raises
    OSError.
    """
    kept: list[bytes] = []
    size, word = 0, b""
    while size <= limit:
        chunk = os.read(fd, _CHUNK)
        text = word + chunk
        end = max(text.rfind(b" "), text.rfind(b"\n")) + 1 if chunk else len(text)
        kept.append(_LONG.sub(_shorten, text[:end]))
        size += len(kept[-1])
        # all of a field that is no path is kept, and of a path no more than shows that it is too
        # long
        word = text[end:] if not text.startswith(b"/", end) else text[end : end + _MOST_ESCAPED + 1]
        if not chunk:
            break
    content = b"".join(kept)
    return content[:limit], size <= limit


def _shorten(path: Match[bytes]) -> bytes:
    """The kernel writes four characters for some of a name."""
    return NO_PATH if len(path[0]) - 3 * path[0].count(b"\\") >= _PATH_MAX else path[0]


def own_mounts() -> bytes:
    """The mountinfo of this process (proc_pid_mountinfo(5)). Raises OSError for one that is longer
    than OWN_MOUNTS.
    """
    content, is_whole = head_of("/proc/self/mountinfo", OWN_MOUNTS, read=read_mounts)
    if not is_whole:
        raise OSError(errno.EFBIG, f"larger than {OWN_MOUNTS >> 20} MiB", "/proc/self/mountinfo")
    return content


def names_in(path: str | int, most: int) -> tuple[list[str], bool]:
    """The first `most` names in a folder, in its own order, and whether these are all. Raises
    OSError.
    """
    with os.scandir(path) as entries:
        found = [entry.name for entry in islice(entries, most + 1)]
    return found[:most], len(found) <= most


def process_ids(folder: str = "/proc", most: int = MOST_PROCESSES) -> tuple[list[int], bool]:
    """The numbers of the processes, and whether these are all. Raises OSError."""
    with os.scandir(folder) as entries:
        found = list(
            islice((int(entry.name) for entry in entries if entry.name.isdecimal()), most + 1)
        )
    return found[:most], len(found) <= most
