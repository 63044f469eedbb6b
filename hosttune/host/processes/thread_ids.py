"""The rights of a user for this thread only.

glibc changes the ids of all threads together and waits until each has done it (nptl/nptl_setxid.c).
One that the kernel holds (host/processes/process_memory.py) never does. The kernel's own calls
change one thread (credentials(7)).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_GENERIC = (159, 149, 147)  # setgroups, setresgid, setresuid (asm-generic/unistd.h)
_NUMBERS = {"x86_64": (116, 119, 117), "aarch64": _GENERIC, "riscv64": _GENERIC}  # asm/unistd_64.h
_SAME = 0xFFFFFFFF  # -1: the id stays


@contextmanager
def rights_of(uid: int, gid: int, groups: Sequence[int]) -> Iterator[None]:
    """Act as a user, for every access check of the kernel. A process of that user can neither trace
    nor signal this one meanwhile: its real and saved ids stay root's (ptrace(2), kill(2)).
    """
    group, others = os.getegid(), os.getgroups()
    try:
        # The user last here, and first on the way back: the groups are only root's to change.
        _set_groups(groups)
        _set_group(gid)
        _set_user(uid)
        yield
    finally:
        _set_user(0)
        _set_group(group)
        _set_groups(others)


def _set_groups(groups: Sequence[int]) -> None:
    if numbers := _find_numbers():
        import ctypes

        _call(numbers[0], len(groups), (ctypes.c_uint32 * len(groups))(*groups))
    else:
        os.setgroups(groups)


def _set_group(gid: int) -> None:
    if numbers := _find_numbers():
        _call(numbers[1], _SAME, gid, _SAME)
    else:
        os.setegid(gid)


def _set_user(uid: int) -> None:
    if numbers := _find_numbers():
        _call(numbers[2], _SAME, uid, _SAME)
    else:
        os.seteuid(uid)


def _find_numbers() -> tuple[int, int, int] | None:
    """Those of this machine; None for another one, where glibc's functions have to do."""
    return _NUMBERS.get(os.uname().machine) if sys.maxsize > 1 << 32 else None


def _call(number: int, *arguments: object) -> None:
    import ctypes

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    if syscall(ctypes.c_long(number), *words) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
