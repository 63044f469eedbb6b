"""Who holds the locks of dpkg and apt: fcntl(2) locks, which the kernel lists in /proc/locks (proc_locks(5))."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hosttune.facts.reading import hint
from hosttune.host.door import Stat
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Process, Reader

LOCKS: Final = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/cache/apt/archives/lock")
_HELD = regex(r"^\d+: POSIX +\S+ +WRITE (\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ", re.MULTILINE)
_UNIT = regex(r"/([^/]+\.(?:service|scope))(?:/|$)")
_LONGEST = 80  # characters of a command


def holder(reader: Reader) -> str:
    """`process 812 (unattended-upgrade, apt-daily-upgrade.service)`; empty where nobody that can be seen holds one."""
    locks = hint(reader, "/proc/locks")
    held = {(int(major, 16), int(minor, 16), int(inode)): int(pid) for pid, major, minor, inode in _HELD.findall(locks)}
    stats = (reader.stat(path) for path in LOCKS)
    pids = (held.get((*_numbers(stat.device), stat.inode), 0) for stat in stats if isinstance(stat, Stat))
    pid = next(filter(None, pids), 0)
    return _named(pid, reader) if pid else ""


def _numbers(device: int) -> tuple[int, int]:
    """Major and minor number of a st_dev, as glibc packs them (makedev(3))."""
    return (device >> 8) & 0xFFF | (device >> 32) & ~0xFFF, device & 0xFF | (device >> 12) & ~0xFF & 0xFFFFFFFF


def _named(pid: int, reader: Reader) -> str:
    processes = reader.processes()
    found = (one for one in processes if one.pid == pid) if isinstance(processes, tuple) else ()
    process = next(iter(found), None)
    return f"process {pid} ({_described(process)})" if process else f"process {pid}"


def _described(process: Process) -> str:
    command = " ".join(process.command)[:_LONGEST] or process.name
    unit = _UNIT.findall(process.cgroup)
    return ", ".join([command, *unit[-1:]])
