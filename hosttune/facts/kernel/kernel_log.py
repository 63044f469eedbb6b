"""The kernel log of this boot: journalctl(1), and dmesg(1) for those who find nothing in the journal.

Each program is asked once for all that facts want of it: every question reads the whole journal. Only the lines that
one of them names are kept: the log is long, and the rest of it nobody's business.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy
from hosttune.facts.reading import hint, if_absent
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

# Patterns that mean the same to PCRE2 (journalctl) and to Python.
OF_GPUS = (  # lines of the driver, of nouveau, and about refused modules
    r"NVRM|Xid|nouveau|nvidia-nvswitch.*Probing"
    r"|odule.*reject|PKCS#7|ey was rejected|module loading is restricted"
)
OF_HOST = (
    r"soft lockup|hard LOCKUP|detected (expedited )?stalls?"
    r"|oom-kill:constraint=CONSTRAINT_NONE|Hardware Error\].*(event severity:|Machine Check)"
    r"|Link (is )?[Dd]own|nsufficient power on the PCIe slot|Port module event\[error\]|nvidia-peermem .*ERROR"
)
_OF_BLOCKS = "(I/O|timeout|medium|protection) error, dev "
OF_STORAGE = (
    r"EXT4-fs \(.*(emounting filesystem read-only|shut down requested|: mounted filesystem)"
    rf"|nfs: server .* (not responding|OK)|INFO: task .* blocked |{_OF_BLOCKS}"
)
_WANTED = f"{OF_GPUS}|{OF_HOST}|{OF_STORAGE}"
_KERNEL = ("journalctl", "-k", "-b", "--no-pager")
# Each line as `SECONDS-SINCE-1970 kernel: TEXT`.
JOURNAL = (*_KERNEL, "--no-hostname", "-o", "short-unix", "--case-sensitive=true", f"--grep={_WANTED}")
DMESG = ("dmesg",)
_TIMEOUT_S = 20.0
# With a letter at the head of each alternative Python skips what begins with no such letter: less than half the time.
_IS_WANTED = regex(
    _WANTED.replace(_OF_BLOCKS, "I/O error, dev |timeout error, dev |medium error, dev |protection error, dev ")
)
_MAY_NOT = regex(r"not seeing messages|insufficient permissions|Permission denied|Operation not permitted")
_SINCE_BOOT = regex(r"^\[ *(\d+\.\d+)\] ?(?:\[ *[TC]\d+\] )?", re.MULTILINE)  # some kernels name thread or CPU


_NEITHER = "neither journalctl nor dmesg shows the kernel log of this boot"
_NOT_ALLOWED = "needs root, or the group adm: the kernel log of this boot"


@frozen
class KernelLog(Fact):
    """The lines of this boot that somebody wants, as the two programs tell them."""

    journal: str  # of the journal; empty also where it holds no kernel log, which looks the same
    buffer: str  # of the kernel's own buffer, which forgets the oldest

    def lines(self, chosen: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
        """What `chosen` takes of the journal's lines; the kernel's own buffer has the last word on "nothing". Raises
        UnknownFact with why the log may not, or cannot, be read.
        """
        journal = attempt(lambda: self.journal)
        if isinstance(journal, str) and (found := chosen(journal)):
            return found
        buffer = attempt(lambda: self.buffer)
        if isinstance(buffer, str) and (found := chosen(buffer)):
            return found
        if isinstance(journal, Unreadable) and (isinstance(buffer, Unreadable) or journal.reason != _NOT_ALLOWED):
            raise UnknownFact(journal.reason)  # a journal that is too long, say: the buffer has not all of it
        if isinstance(buffer, Unreadable):
            raise UnknownFact(buffer.reason)
        return ()


def collect(reader: Reader, facts: Facts) -> KernelLog:
    del facts
    return KernelLog(journal=lazy(_journal, reader), buffer=lazy(_buffer, reader))


def dated(log: str, booted: float) -> str:
    """A log of dmesg(1), whose lines begin with seconds since the boot, with the time of each instead."""
    return _SINCE_BOOT.sub(lambda match: f"{booted + float(match[1]):.6f} ", log)


def _journal(reader: Reader) -> str:
    answer = if_absent(reader.query(JOURNAL, timeout_s=_TIMEOUT_S), None)
    if answer is not None and _MAY_NOT.search(answer.errors):
        raise UnknownFact(_NOT_ALLOWED)
    return answer.text if answer else ""


def _buffer(reader: Reader) -> str:
    answer = if_absent(reader.query(DMESG, timeout_s=_TIMEOUT_S), None)
    if answer is None or answer.status != 0:
        is_refused = answer is not None and _MAY_NOT.search(answer.errors)
        raise UnknownFact(
            _NOT_ALLOWED if is_refused else "neither journalctl nor dmesg shows the kernel log of this boot"
        )
    log = "".join(f"{line}\n" for line in answer.text.splitlines() if _IS_WANTED.search(line))
    seconds = re.match(r"\d+(?:\.\d+)?", hint(reader, "/proc/uptime"))
    return dated(log, reader.now() - float(seconds[0])) if seconds else log
