"""The kernel log of this boot: journalctl(1), and dmesg(1) for those who find nothing in the journal.

Each program is asked once for all that facts want of it: every question reads the whole journal. Only the lines that
one of them names are kept: the log is long, and the rest of it nobody's business.

Both forget. A journal is shortened (journald.conf(5), SystemMaxUse=), or ends where nothing can be written any more: on
a full disk, or one that has just failed. The buffer is a ring of some hundred KiB (kernel: log_buf_len=). What either
has counts, and nothing is "none" but where the last day was seen: from the head of the boot on, or from a day ago.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy, shared
from hosttune.facts.reading import hint, if_absent
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

T = TypeVar("T")

# Patterns that mean the same to PCRE2 (journalctl) and to Python.
OF_GPUS = (  # lines of the driver, of nouveau, and about refused modules
    r"NVRM|Xid|nouveau|nvidia-nvswitch.*Probing"
    r"|odule.*reject|PKCS#7|ey was rejected|module loading is restricted"
)
OF_HOST = (
    r"soft lockup|hard LOCKUP|detected (expedited )?stalls?"
    r"|oom-kill:constraint=CONSTRAINT_NONE|Hardware Error\].*(event severity:|Machine Check|MC\d+_STATUS\[)"
    r"|CMCI storm detected|EDAC MC\d+: \d+ CE |Run /\S+ as init process"
    r"|Link (is )?[Dd]own|nsufficient power on the PCIe slot|Port module event\[error\]|nvidia-peermem .*ERROR"
)
_BLOCKS = ("I/O", "timeout", "medium", "protection", "offline")
_OF_BLOCKS = f"({'|'.join(_BLOCKS)}) error, dev "
OF_STORAGE = (
    r"EXT4-fs \(.*(emounting filesystem read-only|shut down requested|: mounted filesystem)"
    rf"|nfs: server .* (not responding|OK)|INFO: task .* blocked |{_OF_BLOCKS}"
)
_HEAD = (
    r"Linux version \d|Run /\S+ as init process"  # what every kernel says, first and when it has booted (init/main.c)
)
_WANTED = f"{OF_GPUS}|{OF_HOST}|{OF_STORAGE}|{_HEAD}"
_KERNEL = ("journalctl", "-k", "-b", "--no-pager")
# Each line as `SECONDS-SINCE-1970 kernel: TEXT`, the newest first: at a damaged page journalctl ends without a word.
JOURNAL = (*_KERNEL, "--no-hostname", "-o", "short-unix", "--case-sensitive=true", "-r", f"--grep={_WANTED}")
_ANY = ("journalctl", "-b", "--no-pager", "--no-hostname", "-o", "short-unix")
# Any line that is older than a day: one is enough to know that a journal without the head reaches back so far. Without
# -r some releases find none, others one that is younger (systemd issues 26657, 38121). It seeks that
# line, and so does not notice a page that was damaged since.
DAY_OLD = (*_ANY, "-r", "--until=-24h", "-n", "1")
NEWEST = (*_ANY, "-n", "1")  # its last line: where the journal ended, it is older than what the buffer has
DMESG = ("dmesg",)
_TIMEOUT_S = 20.0
# With a letter at the head of each alternative Python skips what begins with no such letter: less than half the time.
_IS_WANTED = regex(_WANTED.replace(_OF_BLOCKS, "|".join(f"{kind} error, dev " for kind in _BLOCKS)))
_MAY_NOT = regex(r"not seeing messages|insufficient permissions|Permission denied|Operation not permitted")
_NO_JOURNAL = "No journal files were found"
_FAILED = regex(r"^.*(?:Failed to|Compiled without).*", re.MULTILINE)
_ENTRY = regex(r"^(?=\d{9,}\.\d)", re.MULTILINE)
_SINCE_BOOT = regex(r"^\[ *(\d+\.\d+)\] ?(?:\[ *[TC]\d+\] )?", re.MULTILINE)  # some kernels name thread or CPU


_OF_HEAD = regex(rf"{_HEAD}|Run /\S+ as init process")
_STAMP = regex(r"\[ *\d+\.\d+\]|\d{9,}\.\d+")
_LINE = regex(r"(?:(\d{9,}(?:\.\d+)?) )?(?:kernel: )?(.*)")
_NOT_ALLOWED = "needs root, or the group adm: the kernel log of this boot"
_DAY_S = 86400
_SETTLED_S = 600  # a server may say more while it boots than its buffer holds
_DRIFT = 0.001  # of the uptime: the clock of the buffer is not set by anybody


@frozen
class KernelLog(Fact):
    """The lines of this boot that somebody wants, as the two programs tell them."""

    journal: str  # of the journal; empty also where it holds no kernel log, which looks the same
    buffer: str  # of the kernel's own buffer, which forgets the oldest
    both: str  # what either of them has, each line once; raises where neither can be read
    is_whole: bool  # it reaches back to the boot
    unseen: str  # why lines of the last day may be missing; empty where they are not, or no journal would keep them

    def lines(self, chosen: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
        """What `chosen` takes of the lines that there are. Raises UnknownFact with why the log may not, or cannot, be
        read. Where it takes nothing, `certain` says whether that is none.
        """
        return chosen(self.both)

    def certain(self, told: T) -> T:
        """What was made of lines; raises UnknownFact where it is none, and lines of the last day may be missing."""
        if not told and self.unseen:
            raise UnknownFact(self.unseen)
        return told


def collect(reader: Reader, facts: Facts) -> KernelLog:
    del facts
    dmesg, asked = shared(_dmesg, reader), shared(_journal, reader)
    log: KernelLog = KernelLog(
        journal=lazy(lambda: asked()[0]),
        buffer=lazy(lambda: dmesg()[1]),
        both=lazy(lambda: _both(log, reader)),
        is_whole=lazy(lambda: _is_whole(log, asked, dmesg)),
        unseen=lazy(lambda: _unseen(log, asked, dmesg, reader)),
    )
    return log


def dated(log: str, booted: float) -> str:
    """A log of dmesg(1), whose lines begin with seconds since the boot, with the time of each instead."""
    return _SINCE_BOOT.sub(lambda match: f"{booted + float(match[1]):.6f} ", log)


def reach_of(log: str) -> tuple[str, ...]:
    """What tells how far a log reaches back: of its first line the time alone, and its head."""
    first = _STAMP.match(log)
    return (*([first[0]] if first else []), *(line for line in log.splitlines() if _OF_HEAD.search(line)))


def turned(log: str) -> str:
    """A log that begins with its newest entry from the oldest on, and the other way round."""
    head, *entries = _ENTRY.split(log)
    return "".join((head, *reversed(entries)))


def _journal(reader: Reader) -> tuple[str, str, bool]:
    """The lines that the journal shows, why others may be missing (empty where nothing tells), and whether there is a
    journal at all.
    """
    answer = if_absent(reader.query(JOURNAL, timeout_s=_TIMEOUT_S), None)
    if answer is None:
        return "", "", False
    if _MAY_NOT.search(answer.errors):
        raise UnknownFact(_NOT_ALLOWED)
    found = "" if answer.text.startswith("-- No entries --") else turned(answer.text)
    failed = _FAILED.search(answer.errors)
    if failed or answer.status not in {0, 1} or (answer.status and found):  # 1 alone: nothing was found
        why = f"the journal cannot be read to its end: {failed[0] if failed else f'status {answer.status}'}"
        return found, why, True
    return found, "", bool(found) or _NO_JOURNAL not in answer.errors


def _dmesg(reader: Reader) -> tuple[float | None, str]:
    """How long after the boot the oldest line was said, None where nothing tells, and the lines that are wanted."""
    answer = if_absent(reader.query(DMESG, timeout_s=_TIMEOUT_S), None)
    if answer is None or answer.status != 0:
        is_refused = answer is not None and _MAY_NOT.search(answer.errors)
        raise UnknownFact(
            _NOT_ALLOWED if is_refused else "neither journalctl nor dmesg shows the kernel log of this boot"
        )
    first = _SINCE_BOOT.search(answer.text)
    log = "".join(f"{line}\n" for line in answer.text.splitlines() if _IS_WANTED.search(line))
    uptime = _uptime_s(reader)
    return float(first[1]) if first else None, dated(log, reader.now() - uptime) if uptime else log


def _uptime_s(reader: Reader) -> float:
    seconds = re.match(r"\d+(?:\.\d+)?", hint(reader, "/proc/uptime"))
    return float(seconds[0]) if seconds else 0.0


def _both(log: KernelLog, reader: Reader) -> str:
    journal, buffer = attempt(lambda: log.journal), attempt(lambda: log.buffer)
    if isinstance(buffer, Unreadable):
        if isinstance(journal, Unreadable):
            raise UnknownFact(journal.reason)
        if not journal:
            raise UnknownFact(buffer.reason)
        return journal
    return merged("" if isinstance(journal, Unreadable) else journal, buffer, _apart_s(reader))


def merged(journal: str, buffer: str, apart_s: float) -> str:
    """The lines of both in the order of their times. A line of the buffer that the journal has, too, is left out: the
    clocks differ, by `apart_s` at most, so lines with the same words are taken for one where they are that near.
    """
    own = [_parts(line) for line in journal.splitlines()]
    rest = dict(enumerate(map(_parts, buffer.splitlines())))
    places: dict[str, deque[int]] = {}
    for place, (_, words, _) in rest.items():
        places.setdefault(words, deque()).append(place)
    for at, words, _ in own:
        same = places.get(words)
        while same and rest[same[0]][0] < at - apart_s < inf:
            same.popleft()
        if same and (rest[same[0]][0] <= at + apart_s or rest[same[0]][0] == inf):
            del rest[same.popleft()]
    both = heapq.merge(own, rest.values(), key=itemgetter(0))  # keeps the order of each: clocks are set while they run
    return "".join(f"{line}\n" for _, _, line in both)


def _parts(line: str) -> tuple[float, str, str]:
    """When a line was said, in seconds since the epoch (endless where it does not tell), its words, and the line."""
    match = _LINE.fullmatch(line)
    return (float(match[1]) if match and match[1] else inf), (match[2] if match else line).strip(), line


def _missing(asked: Callable[[], tuple[str, str, bool]]) -> str:
    """Why the journal may have lines that it did not show; empty where it showed all."""
    journal = attempt(asked)
    return journal.reason if isinstance(journal, Unreadable) else journal[1]


def _is_whole(
    log: KernelLog, asked: Callable[[], tuple[str, str, bool]], dmesg: Callable[[], tuple[float | None, str]]
) -> bool:
    if _OF_HEAD.search(log.both):
        return True
    oldest = attempt(dmesg)
    return isinstance(oldest, tuple) and oldest[0] is not None and oldest[0] <= _SETTLED_S and not _missing(asked)


def _unseen(
    log: KernelLog,
    asked: Callable[[], tuple[str, str, bool]],
    dmesg: Callable[[], tuple[float | None, str]],
    reader: Reader,
) -> str:
    missing, told = _missing(asked), attempt(dmesg)
    lines = log.both  # raises where neither can be read
    since_s, buffer = (None, "") if isinstance(told, Unreadable) else told
    age_s = 0.0 if since_s is None else _uptime_s(reader) - since_s
    if _OF_HEAD.search(buffer) or (since_s is not None and age_s >= _DAY_S):
        return ""
    if missing:  # a journal that is too long, say
        return missing
    keeps = attempt(lambda: asked()[2])
    if since_s is not None and (since_s <= _SETTLED_S or keeps is False):
        return ""  # without a journal nobody keeps more than the buffer: what that has forgotten is unknown for ever
    has = (
        f"the buffer of the kernel has the last {age_s / 3600:.1f} hours"
        if age_s > 0
        else "the buffer of the kernel has nothing"
    )
    if not _OF_HEAD.search(lines) and (_time_of(reader, DAY_OLD) or inf) > reader.now() - _DAY_S:
        return f"the kernel log of the last day cannot be seen: {has}, and the journal does not reach back further"
    newest = _time_of(reader, NEWEST)
    if newest is None:
        return f"the kernel log of the last day cannot be seen: {has}, and where the journal ends cannot be read"
    if age_s < reader.now() - newest - _apart_s(reader):
        return f"the kernel log of the last day cannot be seen: {has}, and the journal ended before"
    return ""


def _time_of(reader: Reader, argv: tuple[str, ...]) -> float | None:
    """When the one line was written that journalctl shows, in seconds since the epoch; None for no line."""
    answer = attempt(lambda: if_absent(reader.query(argv, timeout_s=_TIMEOUT_S), None))
    match = re.match(r"\d{9,}(?:\.\d+)?", answer.text) if isinstance(answer, Completed) else None
    return float(match[0]) if match else None


def _apart_s(reader: Reader) -> float:
    """How far the clocks of journal and buffer may be apart."""
    return _SETTLED_S + _DRIFT * _uptime_s(reader)
