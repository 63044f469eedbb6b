"""One run at a time: flock(2) on /run/hosttune.lock, which the kernel lets go however the holder
ends.
"""

from __future__ import annotations

import fcntl
import os
import stat as stat_module
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hosttune.errors import Refused
from hosttune.quoting import quote

PATH = "/run/hosttune.lock"
_ASK_AGAIN_S = 1.0
HELD: set[int] = set()  # descriptors; a child that may be left behind closes them


def _take(fd: int, wait_s: float) -> None:
    """Raises BlockingIOError where it is not let go in time."""
    end = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
            time.sleep(_ASK_AGAIN_S)
        else:
            return


@contextmanager
def hold_lock(path: str = PATH, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock. Raises Refused, naming the holder, when another run holds it, and goes on for
    `wait_s` seconds.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused(f"{path} cannot be opened: {error.strerror}") from error
    try:
        info = os.fstat(fd)
        if not stat_module.S_ISREG(info.st_mode) or info.st_uid != os.geteuid():
            raise Refused(
                f"{path} is not hosttune's own file",
                hint=f"look at it, then remove it: sudo rm {quote(path)}",
            )
        try:
            _take(fd, wait_s)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise Refused(
                f"another run of hosttune is at work (process {holder})", hint="wait for it to end"
            ) from None
        HELD.add(fd)
        os.ftruncate(fd, 0)
        # a full /run: who holds it is then not known, and it is held all the same
        with suppress(OSError):
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        # The file stays: if it were removed, one run could hold the old file and another one a new
        # file of this name.
        yield
        os.ftruncate(fd, 0)
    finally:
        HELD.discard(fd)
        os.close(fd)
