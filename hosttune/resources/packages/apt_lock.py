"""Who holds the locks of dpkg and apt: fcntl(2) locks. The kernel is asked for each file:
/proc/locks lists those of all users, of which each may have any number, in time that grows with the
square of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune.host.door import LOCK_HOLDER, Completed
from hosttune.numbers import parse_whole
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Process, Reader

LOCKS: Final = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/cache/apt/archives/lock")
_UNIT = regex(r"/([^/]+\.(?:service|scope))(?:/|$)")
_LONGEST = 80  # characters of a command


def find_holder(reader: Reader) -> str:
    """`process 812 (unattended-upgrade, apt-daily-upgrade.service)`; empty where no one that can be
    seen holds one.
    """
    answers = (reader.query((LOCK_HOLDER, path)) for path in LOCKS)
    held = next((one.text for one in answers if isinstance(one, Completed) and one.stdout), "")
    return _describe_pid(parse_whole(held), reader) if held else ""


def _describe_pid(pid: int, reader: Reader) -> str:
    # The kernel gives 0 for a process of another pid namespace, which no list of processes here
    # has.
    if pid <= 0:
        return "a process outside of this container"
    processes = reader.processes()
    found = (one for one in processes if one.pid == pid) if isinstance(processes, tuple) else ()
    process = next(iter(found), None)
    return f"process {pid} ({_describe_process(process)})" if process else f"process {pid}"


def _describe_process(process: Process) -> str:
    command = " ".join(process.command)[:_LONGEST] or process.name
    unit = _UNIT.findall(process.cgroup)
    return ", ".join([command, *unit[-1:]])
