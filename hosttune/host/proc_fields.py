"""What every kernel tells alike of each process: psutil, or the same fields by hand where it is missing.

psutil is compiled for one machine. What must run on all of them (hosttune.pyz, the .deb) comes without it, and reads
proc_pid_stat(5), proc_pid_statm(5) and proc_pid_cmdline(5) itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

# pid, ppid; name, username (or the number of a user that has no name); cmdline: its words; rss_bytes; create_time in
# seconds since 1970. None or empty where this user may not see it.
FIELDS = ("pid", "ppid", "name", "username", "cmdline", "rss_bytes", "create_time")
TASK_COMM_LEN = 15  # what the kernel keeps of a name (linux/sched.h), less the NUL


def process_fields() -> Iterator[Mapping[str, Any]]:
    """FIELDS of every process. One that ends meanwhile is left out."""
    try:
        import psutil  # noqa: F401 - whether there is one
    except ImportError:
        return fields_by_hand()
    return fields_by_psutil()


def fields_by_psutil() -> Iterator[Mapping[str, Any]]:
    import psutil

    for process in psutil.process_iter([name if name != "rss_bytes" else "memory_info" for name in FIELDS]):
        memory = process.info.pop("memory_info")
        yield {**process.info, "rss_bytes": memory.rss if memory else 0}


def fields_by_hand(folder: str = "/proc") -> Iterator[Mapping[str, Any]]:
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    booted = float(_line(f"{folder}/stat", "btime ") or 0)
    for pid in [int(name) for name in os.listdir(folder) if name.isdigit()]:
        try:
            stat = _text(f"{folder}/{pid}/stat")
            # The name stands in parentheses, and may hold both kinds of them and spaces.
            short, _, rest = stat.partition("(")[2].rpartition(")")
            numbers = rest.split()
            user = int(_line(f"{folder}/{pid}/status", "Uid:").split()[0])
            resident = int(_text(f"{folder}/{pid}/statm").split()[1])
            words = command_words(_text(f"{folder}/{pid}/cmdline"))
            parent, started = int(numbers[1]), int(numbers[19])
        except (OSError, IndexError, ValueError):
            continue
        yield {
            "pid": pid,
            "ppid": parent,
            "name": full_name(short, words),
            "username": user_name(user),
            "cmdline": words,
            "rss_bytes": resident * page,
            "create_time": booted + started / tick,
        }


def command_words(content: str) -> list[str]:
    """The words of a /proc/PID/cmdline. Each ends in NUL; a program that writes a title over them may leave none, or
    one at the very end, and separate them by spaces.
    """
    words = content.removesuffix("\0").split("\0") if content.endswith("\0") else content.strip(" ").split(" ")
    return words[0].split(" ") if len(words) == 1 and words[0] else [*filter(None, words[:1]), *words[1:]]


def full_name(short: str, words: list[str]) -> str:
    """The name of a process whose name the kernel cut off: from its first word, where that begins alike."""
    whole = words[0].rpartition("/")[2] if words else ""
    return whole if len(short) >= TASK_COMM_LEN and whole.startswith(short) else short


@cache
def user_name(number: int) -> str:
    """The name of a user, or the number where there is none."""
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _line(path: str, start: str) -> str:
    """The rest of the first line that starts so; empty if none does."""
    return next((line[len(start) :] for line in _text(path).split("\n") if line.startswith(start)), "")
