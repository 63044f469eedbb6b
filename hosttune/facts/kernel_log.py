"""The kernel log of this boot: journalctl(1), and dmesg(1) where the journal holds none of it.

Who asks names the lines that he wants: the whole log is long, and nobody else's business.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.reading import all_sure, hint
from hosttune.host.door import Completed
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.host.door import Reader

KERNEL = ("journalctl", "-k", "-b", "--no-pager")
DMESG = ("dmesg",)
_TIMEOUT_S = 20.0
_MAY_NOT = regex(r"not seeing messages|insufficient permissions|Permission denied|Operation not permitted")
_SINCE_BOOT = regex(r"^\[ *(\d+\.\d+)\] ?(?:\[ *[TC]\d+\] )?", re.MULTILINE)  # some kernels name thread or CPU


def question(pattern: str) -> tuple[str, ...]:
    """What asks the journal for the lines that fit a pattern (PCRE2), each as `SECONDS-SINCE-1970 kernel: TEXT`."""
    return (*KERNEL, "--no-hostname", "-o", "short-unix", "--case-sensitive=true", f"--grep={pattern}")


def dated(log: str, booted: float) -> str:
    """A log of dmesg(1), whose lines begin with seconds since the boot, with the time of each instead."""
    return _SINCE_BOOT.sub(lambda match: f"{booted + float(match[1]):.6f} ", log)


def lines_of(
    reader: Reader, asked: tuple[str, ...], chosen: Callable[[str], tuple[str, ...]], older: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """What `chosen` takes of the lines that answer `asked`; `older` is what records of before answer. Raises
    UnknownFact with why the log may not, or cannot, be read.

    A journal without such lines and one that has no kernel log look the same (exit status 1, nothing printed), so the
    kernel's own buffer has the last word on "nothing".
    """
    answer = reader.query(asked, timeout_s=_TIMEOUT_S)
    if older and isinstance(answer, Unreadable) and answer.reason.startswith("not in this record"):
        old = reader.query(older, timeout_s=_TIMEOUT_S)
        answer = old if isinstance(old, Completed) else answer
    if isinstance(answer, Completed) and not _MAY_NOT.search(answer.errors) and (found := chosen(answer.text)):
        return found
    journal = answer
    answer = reader.query(DMESG, timeout_s=_TIMEOUT_S)
    if isinstance(answer, Completed) and answer.status == 0:
        seconds = re.match(r"\d+(?:\.\d+)?", hint(reader, "/proc/uptime"))
        return chosen(dated(answer.text, reader.now() - float(seconds[0])) if seconds else answer.text)
    errors = " ".join(one.errors for one in (journal, answer) if isinstance(one, Completed))
    if _MAY_NOT.search(errors):
        raise UnknownFact("needs root, or the group adm: the kernel log of this boot")
    all_sure((journal, answer))
    raise UnknownFact("neither journalctl nor dmesg shows the kernel log of this boot")
