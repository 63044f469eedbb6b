"""Scratch copies: files of given sizes, of bytes that no file system can compress, written at the lowest priority."""

from __future__ import annotations

import ctypes
import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen

MOST_SECONDS = 120.0
_BLOCK = 1 << 20
_PER_FOLDER = 1000
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # ioprio_set(2)
_IDLE = 3 << 13  # IOPRIO_CLASS_IDLE
_THREAD = 1  # IOPRIO_WHO_PROCESS: 0 then means the calling thread

T = TypeVar("T")


@frozen
class Copies:
    """Files below a scratch folder: their paths in it, and their sizes in bytes."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


def make_copies(folder: int, sizes: Sequence[int]) -> Copies:
    """Write one file of each size below the open folder, and on to the disk. Ends early after two minutes, with what
    there is. Raises HosttuneError when the disk refuses.
    """
    try:
        return quietly(lambda is_over: _written(folder, sizes, is_over))
    except OSError as error:
        raise HosttuneError(f"the scratch copies cannot be written: {error.strerror}") from error


def quietly(work: Callable[[Callable[[], bool]], T]) -> T:
    """Do `work` in a thread of the lowest CPU and disk priority; it asks what it is given whether it is to end.

    Priorities belong to a thread on Linux (setpriority(2), ioprio_set(2)), and end with it: a user could not raise
    them again.
    """
    over = threading.Event()
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, 19)
            if number := _IOPRIO_SET.get(platform.machine()):
                _libc().syscall(ctypes.c_long(number), _THREAD, 0, _IDLE)
            outcome.append(work(over.is_set))
        except BaseException as error:  # noqa: BLE001 - it is raised again by whoever waits
            failure.append(error)

    worker = threading.Thread(target=run, name="scratch copies")
    worker.start()
    try:
        while worker.is_alive():
            worker.join(0.2)
    finally:
        over.set()
        worker.join()
    if failure:
        raise failure[0]
    return outcome[0]


def sync(folder: int) -> None:
    """Bring all that is to be written on the file system of an open folder on to the disk (syncfs(2))."""
    if _libc().syncfs(folder) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _written(folder: int, sizes: Sequence[int], is_over: Callable[[], bool]) -> Copies:
    block = os.urandom(_BLOCK)
    until = time.monotonic() + MOST_SECONDS
    names: list[str] = []
    for number, size in enumerate(sizes):
        if is_over() or time.monotonic() > until:
            break
        inner = f"{number // _PER_FOLDER:03d}"
        if number % _PER_FOLDER == 0:
            os.mkdir(inner, 0o700, dir_fd=folder)
        name = f"{inner}/{number:06d}"
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            _fill(fd, size, number, block)
        finally:
            os.close(fd)
        names.append(name)
    sync(folder)
    return Copies(tuple(names), tuple(sizes[: len(names)]))


def _fill(fd: int, size: int, number: int, block: bytes) -> None:
    """Each file begins with its number, so that no two are the same to a file system that joins equal blocks."""
    left = size
    start = number.to_bytes(8, "little")
    while left > 0:
        piece = (start + block)[: min(left, _BLOCK)]
        left -= os.write(fd, piece)
        start = (number + left).to_bytes(8, "big")
