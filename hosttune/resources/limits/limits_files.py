"""The limits of login sessions: what pam_limits reads, and what this session has.

pam_limits reads limits.conf, then limits.d/*.conf in the order of the C locale; the last line for a domain counts, a
user's before a group's before `*`, and `*` is not for root (limits.conf(5)). Services read none of it.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from hosttune.resources.read_only import ReadOnly
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.host.door import Reader
    from hosttune.values import Value

FILE = "/etc/security/limits.conf"
FOLDER = "/etc/security/limits.d"
# item -> its name in /proc/PID/limits, and what the file's unit is there
ITEMS = {
    "as": ("Max address space", 1024),
    "core": ("Max core file size", 1024),
    "data": ("Max data size", 1024),
    "fsize": ("Max file size", 1024),
    "locks": ("Max file locks", 1),
    "memlock": ("Max locked memory", 1024),
    "msgqueue": ("Max msgqueue size", 1),
    "nofile": ("Max open files", 1),
    "nproc": ("Max processes", 1),
    "sigpending": ("Max pending signals", 1),
    "stack": ("Max stack size", 1024),
}
_UNLIMITED = frozenset({"unlimited", "infinity", "-1"})


def amount(value: str) -> float | None:
    """A limit as a number, infinite for none; None for what pam_limits would not take."""
    if value in _UNLIMITED:
        return math.inf
    return int(value) if value.isdecimal() else None


def lines(text: str) -> Iterator[tuple[int, str, str, str, str]]:
    """(line, domain, soft|hard, item, value) of one file; `-` is both."""
    for number, row in enumerate(text.splitlines(), 1):
        words = row.partition("#")[0].split()
        if len(words) == 4 and words[1] in {"soft", "hard", "-"}:
            for kind in ("soft", "hard") if words[1] == "-" else (words[1],):
                yield number, words[0], kind, words[2], words[3]


class LimitsFilesAddress(ReadOnly):
    """`limits-files:ITEM`: every line for an item, in the order of reading, as "DOMAIN<tab>soft|hard<tab>VALUE<tab>
    FILE:LINE".
    """

    kind = "limits-files"

    def read(self, reader: Reader, name: str) -> Value:
        names = reader.list(FOLDER)
        if isinstance(names, Unreadable):
            return names
        listed = names if isinstance(names, tuple) else ()
        rows: list[str] = []
        for path in (FILE, *(f"{FOLDER}/{file}" for file in sorted(listed) if file.endswith(".conf"))):
            content = reader.read(path)
            if isinstance(content, Unreadable):
                return content
            text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
            found = (row for row in lines(text) if row[3] == name)
            rows += (f"{domain}\t{kind}\t{value}\t{path}:{number}" for number, domain, kind, _, value in found)
        return tuple(rows)


class SessionLimitsAddress(ReadOnly):
    """`session-limits:ITEM`: (soft, hard) of this session in the unit of limits.conf(5); ABSENT of an image."""

    kind = "session-limits"

    def read(self, reader: Reader, name: str) -> Value:
        if reader.persistent_only or name not in ITEMS:
            return ABSENT
        text = reader.read("/proc/self/limits")
        if not isinstance(text, bytes):
            return text
        title, unit = ITEMS[name]
        match = re.search(rf"^{title} +(\d+|unlimited) +(\d+|unlimited)", text.decode("utf-8", "replace"), re.MULTILINE)
        if match is None:
            return ABSENT
        return tuple(word if word == "unlimited" else str(int(word) // unit) for word in match.groups())


WISHES = ()
ADDRESSES = (LimitsFilesAddress(), SessionLimitsAddress())
