"""Which processes of a job compute, which of them load, and which only started them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hosttune.frozen import frozen

BUSY_CORES = 0.3  # a process that uses this much is no mere launcher
_WORKER_WORDS = (b"multiprocessing.spawn", b"multiprocessing.forkserver", b"--multiprocessing-fork")


@frozen
class Member:
    """One process of the job. `cores` is what it used in the last interval."""

    pid: int
    parent: int
    command: bytes  # its words, parted by NUL
    cores: float


@frozen
class Family:
    """`mains` feed the GPUs, `launchers` only started them; all others are children: loaders,
    helpers.
    """

    mains: frozenset[int]
    launchers: frozenset[int]


def sort_family(
    members: Iterable[Member], root: int, on_gpu: frozenset[int] = frozenset()
) -> Family:
    """Who is who. Processes that hold GPU memory are the mains. Without such, a process is one when
    it forks workers (they inherit its command line, or multiprocessing started them) or is busy
    itself; one that does neither, and has started other programs (a shell, torchrun, uv), is a
    launcher of those.
    """
    by_pid = {member.pid: member for member in members}
    holders = on_gpu & by_pid.keys()
    if holders:
        above = set()
        for pid in holders:
            above |= _find_ancestors(by_pid, pid)
        return Family(frozenset(holders), frozenset(above - holders))
    children: dict[int, list[Member]] = {}
    for member in by_pid.values():
        children.setdefault(member.parent, []).append(member)
    mains: set[int] = set()
    launchers: set[int] = set()
    waiting = (
        [root] if root in by_pid else [pid for pid in by_pid if by_pid[pid].parent not in by_pid]
    )
    while waiting:
        member = by_pid[waiting.pop()]
        below = children.get(member.pid, [])
        programs = [one for one in below if not is_worker(one, member)]
        # One worker among its children is enough: who has loaders computes itself, whatever else it
        # has started.
        if programs and len(programs) == len(below) and member.cores < BUSY_CORES:
            launchers.add(member.pid)
            waiting += [one.pid for one in programs]
        else:
            mains.add(member.pid)
    return Family(frozenset(mains), frozenset(launchers))


def is_worker(child: Member, parent: Member) -> bool:
    """Whether it was forked by its parent to work for it."""
    return child.command == parent.command or any(word in child.command for word in _WORKER_WORDS)


def _find_ancestors(by_pid: Mapping[int, Member], pid: int) -> set[int]:
    found: set[int] = set()
    while (
        (member := by_pid.get(pid)) is not None
        # Numbers are read one after the other, so a number that was reused can close a circle.
        and member.parent not in found
        and member.parent in by_pid
    ):
        pid = member.parent
        found.add(pid)
    return found
