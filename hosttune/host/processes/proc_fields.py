"""What every kernel tells alike of each process: psutil's counters, or the same by hand where it is
missing.

psutil is compiled for one machine. What must run on all of them (hosttune.pyz, the .deb) comes
without it, and reads proc_pid_stat(5) and proc_pid_statm(5) itself. What a user can make long
(proc_pid_cmdline(5), the name) is read here in both cases, with a limit.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from hosttune.errors import HosttuneError
from hosttune.host.processes.process_memory import MemoryLook, user_of
from hosttune.host.reading.bounded import CUT, MOST_PROCESSES, head_of, head_text, process_ids
from hosttune.numbers import parse_digits

# pid, ppid; name; uid: 0 only if the real, effective, saved and file system ids all are, because a
# setuid program was started by a user, who chose its arguments; username (or the number of a user
# that has no name); cmdline: its words (COMMAND bytes of them at most, the last one CUT if there
# are more; only CUT if the process does not let its memory be read); rss_bytes; create_time in
# seconds since 1970. None or empty if this user may not see it. is_kernel: a thread of the kernel,
# or a process that has ended and waits for its parent.
FIELDS = (
    "pid",
    "ppid",
    "name",
    "uid",
    "username",
    "cmdline",
    "rss_bytes",
    "create_time",
    "is_kernel",
)
TASK_COMM_LEN = 15  # what the kernel keeps of a name (linux/sched.h), less the NUL
COMMAND: Final = (4096, 256)  # bytes and words that are kept of a command line
SHORT: Final = (128, 8)  # and of each one after the first ALL_COMMANDS bytes
ALL_COMMANDS: Final = 8 << 20
_STAT = 16 << 20  # bytes of /proc/stat: its line of interrupts grows with the CPUs
_NAME_MAX = 255  # linux/limits.h
_MOST_ID = 1 << 32
_PF_KTHREAD = 0x00200000  # linux/sched.h; the flags are a field of proc_pid_stat(5)

# Parent, resident bytes and start of a process, from its number and the fields of its stat behind
# the name.
_Counters: TypeAlias = Callable[[int, list[str]], tuple[int, int, float]]


def process_fields(
    folder: str = "/proc", memory: MemoryLook | None = None
) -> Iterator[Mapping[str, Any]]:
    """FIELDS of every process. One that ends meanwhile is left out. Raises HosttuneError for more
    than MOST_PROCESSES.

    psutil is asked only about the /proc of this host.
    """
    if folder != "/proc":
        return fields_by_hand(folder, memory)
    try:
        import psutil  # noqa: F401 - whether there is one
    except ImportError:
        return fields_by_hand(folder, memory)
    return fields_by_psutil(memory)


def fields_by_psutil(memory: MemoryLook | None = None) -> Iterator[Mapping[str, Any]]:
    """With psutil's counters. Its name(), cmdline() and environ() read whole files, so it is not
    asked for those.
    """
    import psutil

    def counters(pid: int, stat: list[str]) -> tuple[int, int, float]:
        del stat
        try:
            one = psutil.Process(pid)
            return one.ppid(), one.memory_info().rss, one.create_time()
        except psutil.Error as error:
            raise ProcessLookupError(pid) from error

    return _read_fields("/proc", counters, memory)


def fields_by_hand(
    folder: str = "/proc", memory: MemoryLook | None = None
) -> Iterator[Mapping[str, Any]]:
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    booted = float(_find_line(head_text(f"{folder}/stat", _STAT), "btime ") or 0)

    def counters(pid: int, stat: list[str]) -> tuple[int, int, float]:
        resident = int(_read_text(f"{folder}/{pid}/statm").split()[1])
        return int(stat[1]), resident * page, booted + int(stat[19]) / tick

    return _read_fields(folder, counters, memory)


def _read_fields(
    folder: str, counters: _Counters, memory: MemoryLook | None
) -> Iterator[Mapping[str, Any]]:
    pids, are_all = process_ids(folder)
    if not are_all:
        raise HosttuneError(
            f"this host runs more than {MOST_PROCESSES} processes: they are not listed"
        )
    # All commands first: a process that does not let its memory be read must not keep the others
    # waiting. What decides whose the process is, is read last and together.
    commands = _read_commands(folder, pids, memory or MemoryLook(folder))
    for pid in pids:
        try:
            # The name is in parentheses, and may hold both kinds of them and spaces.
            short, _, rest = _read_text(f"{folder}/{pid}/stat").partition("(")[2].rpartition(")")
            stat = rest.split()
            user = user_of(_read_text(f"{folder}/{pid}/status"))
            # One that gives no answer goes on with its work, and must not be missing in the list.
            words = commands.get(pid, [CUT])
            if words is None:
                continue
            parent, resident, started = counters(pid, stat)
            # else only its first thread has ended, and others go on
            is_over = stat[0] in "ZX" and int(stat[17]) <= 1
            is_kernel = bool(int(stat[6]) & _PF_KTHREAD) or is_over
        except (OSError, IndexError, ValueError):
            continue
        yield {
            "pid": pid,
            "ppid": parent,
            "name": full_name(short, words),
            "uid": user,
            "username": user_name(user),
            "cmdline": words,
            "rss_bytes": resident,
            "create_time": started,
            "is_kernel": is_kernel,
        }


def _read_commands(
    folder: str, pids: Iterable[int], memory: MemoryLook
) -> dict[int, list[str] | None]:
    """The words of each process, None for one that has ended. One that does not answer is left
    out.
    """
    left = ALL_COMMANDS

    def read(pid: int) -> list[str]:
        nonlocal left
        words, size = command_of(f"{folder}/{pid}/cmdline", *(COMMAND if left > 0 else SHORT))
        left -= size
        return words

    return memory.ask(pids, read)


def command_of(
    path: str,
    most_bytes: int,
    most_words: int,
    head: Callable[[str, int], tuple[bytes, bool]] = head_of,
) -> tuple[list[str], int]:
    """The words of a /proc/PID/cmdline, and the bytes that they are made of. Of a longer one what
    fits, and CUT: a word that does not fit is left out, because half of a secret has no sign of
    one.
    """
    content, is_whole = head(path, most_bytes)
    text = content.decode("utf-8", "surrogateescape")
    if not is_whole:
        text = text[: text.rfind("\0") + 1] if "\0" in text else text.rpartition(" ")[0]
    # what is left of the words below a title that was written over them
    if text.endswith("\0\0\0"):
        text = text.rstrip("\0") + "\0"
    words = command_words(text)
    if len(words) > most_words:
        words, is_whole = words[:most_words], False
    return words if is_whole else [*words, CUT], len(content)


def command_words(content: str) -> list[str]:
    """The words of a /proc/PID/cmdline. Each ends in NUL; a program that writes a title over them
    may leave none, or one at the very end, and separate them by spaces.
    """
    words = (
        content.removesuffix("\0").split("\0") if "\0" in content else content.strip(" ").split(" ")
    )
    return (
        words[0].split(" ")
        if len(words) == 1 and words[0]
        else [*filter(None, words[:1]), *words[1:]]
    )


def full_name(short: str, words: list[str]) -> str:
    """The name of a process whose name the kernel cut off: from its first word, where that begins
    alike.
    """
    whole = words[0].rpartition("/")[2][:_NAME_MAX] if words else ""
    return whole if len(short) >= TASK_COMM_LEN and whole.startswith(short) else short


@cache
def user_of_subid(number: int) -> str:
    """Whose subordinate id this is (subuid(5)), as /etc/subuid has it; empty where it is of no one.
    A user can have a process with each of 65,536 ids: they are one user.
    """
    at = bisect_right(_list_subids(), (number, _MOST_ID, "")) - 1
    first, last, name = _list_subids()[at] if at >= 0 else (0, -1, "")
    return name if first <= number <= last else ""


@cache
def _list_subids() -> list[tuple[int, int, str]]:
    """(first, last, user), in their order."""
    rows = (line.split(":") for line in head_text("/etc/subuid", 1 << 20).split("\n"))
    numbers = (
        (row[0], parse_digits(row[1], -1), parse_digits(row[2], 0)) for row in rows if len(row) == 3
    )
    # A row that begins at 0 would make all processes of root those of a user.
    return sorted((first, first + count - 1, name) for name, first, count in numbers if first > 0)


def user_name(number: int) -> str:
    """The name of a user, or the number where there is none. A server of names is not asked for
    each subordinate id.
    """
    import pwd

    if user_of_subid(number):
        return str(number)
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _read_text(path: str) -> str:
    return head_of(path)[0].decode("utf-8", "surrogateescape")


def _find_line(text: str, start: str) -> str:
    """The rest of the first line that starts so; empty if none does."""
    return next((line[len(start) :] for line in text.split("\n") if line.startswith(start)), "")
