"""Work at the lowest CPU and disk priority, beside what the host has to do."""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # ioprio_set(2)
_IDLE = 3 << 13  # IOPRIO_CLASS_IDLE
_THREAD = 1  # IOPRIO_WHO_PROCESS: 0 then means the calling thread

T = TypeVar("T")


def run_quietly(work: Callable[[Callable[[], bool]], T]) -> T:
    """Do `work` in a thread of the lowest CPU and disk priority; it asks what it is given whether
    it is to end.

    Priorities belong to a thread on Linux (setpriority(2), ioprio_set(2)), and end with it: a user
    could not raise them again.
    """
    over = threading.Event()
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, 19)
            if number := _IOPRIO_SET.get(platform.machine()):
                _load_libc().syscall(ctypes.c_long(number), _THREAD, 0, _IDLE)
            outcome.append(work(over.is_set))
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it again
            failure.append(error)

    worker = threading.Thread(target=run, name="low priority")
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


@cache
def _load_libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
