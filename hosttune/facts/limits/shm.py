"""/dev/shm: the shared memory of programs on this host, what dead ones left there, and how small
that of containers is.

Sources: shm_overview(7), tmpfs(5); PyTorch's MapAllocator (torch_PID_...), NCCL's shmutils
(nccl-XXXXXX).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt
from hosttune.facts.reading import if_absent, make_unknown, names_in, read_text
from hosttune.facts.storage.fstab_options import tmpfs_bytes
from hosttune.facts.storage.ways import ways_of
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.host.reading.mountinfo import parse, topmost_at
from hosttune.regex import regex
from hosttune.values import TooLong, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount
    from hosttune.facts.work import GpuProcess
    from hosttune.host.door import Reader

SHM = "/dev/shm"
_LEFT = regex(r"nccl-[A-Za-z0-9]{6,}|torch_\d+_.*")
# segments, and mount namespaces of GPU processes; more are not read
_MOST_FILES, _MOST_VIEWS = 2000, 64


@frozen
class ShmFile(Fact):
    """A segment of NCCL or PyTorch that still has a name; its content is never looked at."""

    name: str  # of the file
    owner: int  # user id
    size_bytes: int  # of the file; of all together no more than is used there
    age_hours: float  # since it was last written


@frozen
class SmallShm(Fact):
    """The /dev/shm that a GPU process in a container sees."""

    pid: int  # a process of that container
    process: str  # its name: python3
    size_bytes: int  # of its /dev/shm


@frozen
class Shm(Subject):
    """Shared memory now."""

    @fact
    def size_bytes(self) -> int:
        """Of /dev/shm; 0 is unlimited."""
        return self._mount.total_bytes

    @fact
    def boot_bytes(self) -> int:
        """The size that fstab gives it at the next boot; 0 if it has no line with one, or a share
        of memory.
        """
        line = self.facts.fstab.by_path.get(SHM)
        return (size_of(line.options) or 0) if line and line.fstype == "tmpfs" else 0

    @fact
    def available_bytes(self) -> int:
        """To an ordinary user."""
        return self._mount.available_bytes

    # of NCCL and PyTorch
    files: tuple[ShmFile, ...] = read_with(lambda self: _read_files(self.reader, self.facts))

    @fact
    def containers(self) -> tuple[SmallShm, ...]:
        """Of GPU processes whose /dev/shm is a mount of their own with a size."""
        views: dict[str | int, GpuProcess] = {}  # those of one container see the same
        for process in self.facts.work.gpu_processes:
            view = self.reader.link(f"/proc/{process.pid}/ns/mnt")
            # Where the namespace is hidden each process counts by itself: one too many is read, and
            # none is missed.
            views.setdefault(view if isinstance(view, str) else process.pid, process)
        if len(views) > _MOST_VIEWS:
            raise UnknownFact(f"GPU processes see more than {_MOST_VIEWS} different trees of files")
        host = (
            _parse_mounted(if_absent(read_text(self.reader, "/proc/1/mountinfo"), ""))
            if views
            else None
        )
        return tuple(
            one for process in views.values() if (one := _find_small(self.reader, process, host))
        )

    @fact
    def _mount(self) -> Mount:
        return _mount(self.reader, self.facts)

    @property
    def smallest_bytes(self) -> int:
        """The smallest /dev/shm of a GPU process in a container; 0 where there is none of its
        own.
        """
        return min((one.size_bytes for one in self.containers), default=0)

    @property
    def smallest_in(self) -> str:
        """The process that has it: python3 (4711)."""
        one = min(self.containers, key=lambda one: one.size_bytes, default=None)
        return f"{one.process} ({one.pid})" if one else ""


def size_of(options: tuple[str, ...]) -> int | None:
    """The size that the options of a tmpfs say, in bytes; None without one (tmpfs(5): half of RAM),
    for a share of memory, and for what the kernel rejects.
    """
    sizes = [option.removeprefix("size=") for option in options if option.startswith("size=")]
    # Of several the last counts. A share of memory is not a size that can be compared.
    return None if not sizes or sizes[-1].endswith("%") else tmpfs_bytes(sizes[-1])


def _mount(reader: Reader, facts: Facts) -> Mount:
    mount = facts.mounts.at.get(SHM)
    if mount is None:
        raise make_unknown(reader, f"nothing is mounted at {SHM}")
    return mount


def _read_files(reader: Reader, facts: Facts) -> tuple[ShmFile, ...]:
    """Without what a user mounted there under such a name: that may give no answer. None where
    nothing is used: the names are then not asked for.
    """
    if not (left := _held_bytes(facts)):
        return ()
    ways = ways_of(facts)
    names = [
        name
        for name in names_in(reader, SHM)
        if _LEFT.fullmatch(name) and not ways.way(f"{SHM}/{name}")[1]
    ]
    if len(names) > _MOST_FILES:
        raise UnknownFact(
            f"{SHM} holds more than {_MOST_FILES} files that are called as those of NCCL and "
            "PyTorch"
        )
    found = []
    for name in names:
        # A user may put a link there: what it leads to would be counted as left in memory.
        stat = reader.stat(f"{SHM}/{name}", follow=False)
        if isinstance(stat, Stat) and stat.type == "file":
            age = max(0.0, reader.now() - stat.mtime_ns / 1e9) / 3600
            size = min(stat.size, left)
            left -= size
            found.append(ShmFile(name, stat.uid, size, round(age, 1)))
    return tuple(found)


def _held_bytes(facts: Facts) -> int:
    """What all files there can hold: a file of any size may have holes. No bound where that is not
    known.
    """

    def look() -> int:
        mount = facts.mounts.at.get(SHM)
        return (
            mount.total_bytes - mount.available_bytes
            if mount and mount.total_bytes
            else sys.maxsize
        )

    held = attempt(look)
    return held if isinstance(held, int) else sys.maxsize


def _parse_mounted(content: str) -> tuple[str, int | None] | None:
    """Device and size of what is mounted at /dev/shm."""
    mount = topmost_at(parse(content.encode()), SHM)
    return (
        (mount.device, size_of(mount.super_options)) if mount and mount.fstype == "tmpfs" else None
    )


def _find_small(
    reader: Reader, process: GpuProcess, host: tuple[str, int | None] | None
) -> SmallShm | None:
    """None for one that ended meanwhile, too, and for one that made its table too long: it hides
    those of no others.
    """
    table = reader.read(f"/proc/{process.pid}/mountinfo")
    is_long = isinstance(table, Unreadable) and isinstance(table.reason, TooLong)
    seen = (
        None
        if is_long
        else _parse_mounted(if_absent(read_text(reader, f"/proc/{process.pid}/mountinfo"), ""))
    )
    # A container with the host's /dev/shm (--ipc=host) has the same device number, and no small one
    # of its own.
    if seen is None or seen[1] is None or (host and seen[0] == host[0]):
        return None
    return SmallShm(process.pid, process.name, seen[1])
