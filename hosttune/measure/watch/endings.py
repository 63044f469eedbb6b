"""How a job ended, or why it stopped: what the kernel counted and the status say. Pure."""

from __future__ import annotations

import signal
from enum import Enum

from hosttune.frozen import frozen
from hosttune.measure.watch.account import Account

SMALL_SHM = 1 << 30  # bytes: Docker's is 64 MiB; half of the memory elsewhere (tmpfs(5))
_FULL, _FILLING = 0.1, 0.5  # of /dev/shm that is free; it may fill up between two looks
_SIGNALLED = 128  # a shell's status of a command that a signal ended is 128 and its number
_STOPPED_SHARE = 0.5


class EndKind(str, Enum):
    """What ended the job, or keeps it from going on."""

    GROUP_OOM = "out of memory in its control group"
    HOST_OOM = "out of memory on the host"
    SHM = "full /dev/shm"
    SIGNAL = "signal"
    STOPPED = "stopped by a signal"
    FROZEN = "frozen"


@frozen
class Ending:
    """`what` is the signal's name, the folder of the control group that is frozen or short of
    memory, or `near` where kills of the host fell together with processes of the job that ended.
    `has_ended` is False for a job that goes on although the kernel has killed some of its
    processes, or that is stopped.
    """

    kind: EndKind
    what: str = ""
    has_ended: bool = True


def ending_of(account: Account) -> Ending | None:
    """None for a job that goes on, or ended by itself."""
    status, last, kills = account.status, account.last, account.kills
    name = _signal_name(status)
    path = account.memory.path if account.memory is not None else ""
    # The count of the group comes first: it is proof that the limit was met, where SIGKILL may come
    # from anyone.
    if kills.group and path:
        return Ending(EndKind.GROUP_OOM, path, has_ended=bool(status))
    if (kills.group or kills.host) and name == "SIGKILL":
        return Ending(EndKind.HOST_OOM)
    # Before the signal: SIGBUS is then what it looks like from outside, and not the cause.
    if status and _is_shm_full(account, name):
        return Ending(EndKind.SHM)
    if name:
        return Ending(EndKind.SIGNAL, name)
    if kills.near:
        return Ending(EndKind.HOST_OOM, "near", has_ended=bool(status))
    if status is None and last is not None and account.paused_s >= _STOPPED_SHARE * account.seconds:
        if last.frozen_by:
            return Ending(EndKind.FROZEN, last.frozen_by, has_ended=False)
        if last.tree is not None and last.tree.is_stopped:
            return Ending(EndKind.STOPPED, has_ended=False)
    return None


def was_out_of_memory(account: Account) -> bool:
    """Whether the kernel killed the job, or processes of it, for memory."""
    ending = ending_of(account)
    return ending is not None and ending.kind in {EndKind.GROUP_OOM, EndKind.HOST_OOM}


def _signal_name(status: int | None) -> str:
    try:
        return signal.Signals((status or 0) - _SIGNALLED).name
    except ValueError:
        return ""


def _is_shm_full(account: Account, name: str) -> bool:
    """SIGBUS is what a write to a mapped file gets that has no room. A loader that dies so ends its
    main process with an ordinary status.
    """
    shm = account.least_shm
    if shm is None or shm.size_bytes <= 0:
        return False
    share = shm.free_bytes / shm.size_bytes
    # A tenth of half the memory of a large host is room enough for any batch.
    is_full = share < _FULL and shm.free_bytes < SMALL_SHM
    return is_full or (name == "SIGBUS" and shm.size_bytes <= SMALL_SHM and share < _FILLING)
