"""The memory of a job's control group: its limit, what is in use, who was killed for it; and the
room in /dev/shm.

Sources: memory.max, memory.current, memory.events (kernel:
Documentation/admin-guide/cgroup-v2.rst), memory.oom_control of version 1 (cgroup-v1/memory.rst; its
line oom_kill since Linux 4.13), oom_kill of /proc/vmstat, tmpfs(5).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from hosttune.facts.cpu.cpu import GROUPS, parse_groups, walk_upwards
from hosttune.host.processes.process_memory import statvfs_in_time
from hosttune.measure.dataset.room import memory_limits
from hosttune.measure.watch.kept import content_of
from hosttune.measure.watch.limits import name_setter
from hosttune.measure.watch.parse import parse_counter
from hosttune.measure.watch.tick import Kills, MemoryTick, ShmRoom

# looks in which the group is looked for anew, and between two such looks later
_EARLY, _EVERY = 5, 5


class _MemoryGroup(NamedTuple):
    """`folders` go from the group of the job upwards. A v1 group has files of its own names."""

    folders: tuple[str, ...]
    is_v1: bool

    def word(self, folder: str, v1: str, v2: str) -> int | None:
        word = (content_of(f"{folder}/{v1 if self.is_v1 else v2}") or b"").strip()
        return int(word) if word.isdigit() and len(word) < 20 else None

    def kills(self) -> dict[str, int]:
        """By folder, of the group and the one above it, which counts them too once a scope is gone
        (version 2).
        """
        name = "memory.oom_control" if self.is_v1 else "memory.events"
        found = {}
        for folder in self.folders[:2]:
            count = parse_counter(content_of(f"{folder}/{name}") or b"", b"oom_kill")
            if count is not None:
                found[folder] = count
        return found


class JobMemory:
    """The control group of the process `root`; `look` once a tick, `kills` at the end."""

    def __init__(self, root: int, *, proc: str = "/proc", groups: str = GROUPS) -> None:
        self._root, self._proc, self._mount = root, proc, groups
        self._looks = 0
        self._is_ours = False  # its mount namespace is that of this process
        self._line: bytes | None = None
        self._group = _MemoryGroup((), is_v1=False)
        self._began: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._limit: tuple[str, int] | None = None
        self._host_began = self._count_host_kills()
        self._host_kills = (self._host_began,) * 2  # at the last two looks
        self._near = 0
        self._counted = self._host_began  # how many kills of the host were looked at for that
        self._find()

    def look(self, host_kills: int | None = None, *, has_lost: bool = False) -> MemoryTick | None:
        """None if no memory limit is known. `host_kills`: the counter of /proc/vmstat, where it has
        just been read; `has_lost`: a process of the job has ended since the last look. The kernel
        counts a kill before it is done.
        """
        if self._looks < _EARLY or self._looks % _EVERY == 0:
            self._find()
            self._last |= self._group.kills()
        self._looks += 1
        # From the look before the last one: the kernel counts a kill first, and the process may be
        # missed a look later.
        since = max(self._counted, self._host_kills[0])
        self._host_kills = (
            self._host_kills[1],
            self._count_host_kills() if host_kills is None else host_kills,
        )
        if has_lost:
            self._near += max(0, self._host_kills[1] - since)
            self._counted = self._host_kills[1]
        if self._limit is None:
            return None
        path, limit = self._limit
        used = self._group.word(path.rpartition("/")[0], "memory.usage_in_bytes", "memory.current")
        return MemoryTick(limit, path, name_setter(path, "memory"), used)

    def shm(self) -> ShmRoom | None:
        """That of the job's own mount namespace: a container has one of its own."""
        with suppress(OSError):
            # The root folder of another mount namespace may lead to a server that does not answer.
            if not self._is_ours:
                found = statvfs_in_time(f"{self._proc}/{self._root}/root/dev/shm")
            else:
                found = os.statvfs("/dev/shm")
            return ShmRoom(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
        return None

    def kills(self) -> Kills:
        self._last |= self._group.kills()
        own, *above = [*self._group.folders[:2], ""]
        grown = {
            folder: count - self._began.get(folder, count) for folder, count in self._last.items()
        }
        # A scope is removed with its last process (cgroup-v2.rst), so its own counter cannot be
        # read at the end.
        is_gone = not self._group.is_v1 and not os.path.isdir(own)
        group = grown.get(above[0], 0) if is_gone and above else grown.get(own, 0)
        return Kills(
            max(0, group), max(0, self._count_host_kills() - self._host_kills[0]), self._near
        )

    def _count_host_kills(self) -> int:
        return parse_counter(content_of(f"{self._proc}/vmstat", 1 << 20) or b"", b"oom_kill") or 0

    def _find(self) -> None:
        """A wrapper moves into its group before it becomes the job."""
        line = content_of(f"{self._proc}/{self._root}/cgroup")
        if line is None or line.endswith(b" (deleted)\n"):
            return  # it ended, and its group of version 2 is gone (cgroup-v2.rst, "Processes")
        with suppress(OSError):
            own, its = (os.readlink(f"{self._proc}/{one}/ns/mnt") for one in ("self", self._root))
            self._is_ours = own == its
        # Anew at each look: systemd-run sets the limits of a scope while its command starts
        # already.
        limits = memory_limits(self._root)
        self._limit = min(limits.items(), key=lambda one: one[1], default=None)
        if line == self._line:
            return
        self._line = line
        paths = parse_groups(line.decode("utf-8", "surrogateescape"))
        is_v1 = "memory" in paths
        mount = f"{self._mount}/memory" if is_v1 else self._mount
        self._group = _MemoryGroup(
            tuple(walk_upwards(mount, paths.get("memory", paths.get("", "/")))), is_v1
        )
        self._last = self._group.kills()
        # A wrapper's group may have lost processes before this look found it: those that the host
        # counted meanwhile.
        lately = self._count_host_kills() - self._host_began if self._looks <= _EARLY else 0
        self._began = {
            folder: count - min(count, max(0, lately)) for folder, count in self._last.items()
        }


class Freezer:
    """Whether the control group of the process `root` is frozen (docker pause, systemctl
    freeze).
    """

    def __init__(self, root: int, *, proc: str = "/proc", groups: str = GROUPS) -> None:
        self._root, self._proc, self._mount = root, proc, groups

    def look(self) -> str:
        """The folder of the group that is frozen; "" if none is. A group is frozen with each one
        above it.
        """
        line = content_of(f"{self._proc}/{self._root}/cgroup") or b""
        paths = parse_groups(line.decode("utf-8", "surrogateescape"))
        if "freezer" in paths:
            for folder in walk_upwards(f"{self._mount}/freezer", paths["freezer"]):
                # The state file says FROZEN also below a group that is frozen; `self_freezing`
                # names the one to thaw (freezer-subsystem.rst).
                if (content_of(f"{folder}/freezer.self_freezing") or b"").strip() == b"1":
                    return folder
        unified = (
            # The hybrid layout of systemd has version 2 there.
            f"{self._mount}/unified" if os.path.isdir(f"{self._mount}/unified") else self._mount
        )
        for folder in walk_upwards(unified, paths.get("", "/")):
            if (content_of(f"{folder}/cgroup.freeze") or b"").strip() == b"1":
                return folder
        return ""
