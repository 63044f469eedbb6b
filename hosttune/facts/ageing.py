"""What deletes files by their age: tmpfiles.d lines with an age, tmpreaper, tmpwatch. They need access times.

Sources: tmpfiles.d(5) (fields, precedence of folders, the age field), tmpreaper(8) and its tmpreaper.conf.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.facts.reading import text
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

# In the order of precedence: a file hides one of the same name further down (tmpfiles.d(5)).
FOLDERS = ("/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d")
# Types whose contents are cleaned when an age is given; v, q and Q act as d where there are no subvolumes.
_AGED = frozenset("dDevqQC")
_TMPREAPER = "/etc/tmpreaper.conf"
_DIRECTORIES = re.compile(r"^\s*TMPREAPER_DIRS=(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AgeRule(Fact):
    """A tree whose old files somebody deletes."""

    path: str  # without a wildcard at its end
    age: str  # as it is written: 10d, or empty where it is not said
    source: str  # file:line


@dataclass(frozen=True, slots=True)
class Ageing(Fact):
    """All trees that are cleaned by age."""

    rules: tuple[AgeRule, ...]


def parse_tmpfiles(content: str, path: str) -> tuple[AgeRule, ...]:
    """The lines of one tmpfiles.d file that age something."""
    found = []
    for number, row in enumerate(content.splitlines(), 1):
        try:
            fields = shlex.split(row, comments=True)
        except ValueError:
            continue
        if len(fields) >= 6 and fields[0][:1] in _AGED and fields[5] not in {"-", ""}:
            found.append(AgeRule(tree_of(fields[1]), fields[5], f"{path}:{number}"))
    return tuple(found)


def tree_of(path: str) -> str:
    """The folder that a path with wildcards or specifiers lies in for certain: `/data/*/cache` -> `/data`."""
    parts = []
    for part in path.split("/"):
        if re.search(r"[*?\[%]", part):
            break
        parts.append(part)
    return "/".join(parts).rstrip("/") or "/"


def parse_tmpreaper(content: str) -> tuple[AgeRule, ...]:
    """TMPREAPER_DIRS of /etc/tmpreaper.conf; without it Debian's cron job cleans /tmp."""
    found = _DIRECTORIES.findall(content)
    words = shlex.split(found[-1]) if found else ["/tmp"]
    return tuple(AgeRule(tree_of(path), "", _TMPREAPER) for word in words for path in word.split())


def collect(reader: Reader, facts: Facts) -> Ageing:  # noqa: ARG001 - the interface of all subjects
    chosen: dict[str, str] = {}
    for folder in FOLDERS:
        names = reader.list(folder)
        if isinstance(names, Unreadable):
            return Ageing(names)  # type: ignore[arg-type]
        for name in names if isinstance(names, tuple) else ():
            if name.endswith(".conf"):
                chosen.setdefault(name, f"{folder}/{name}")
    rules: list[AgeRule] = []
    for path in (chosen[name] for name in sorted(chosen)):
        content = text(reader, path)
        if isinstance(content, Unreadable):
            return Ageing(content)  # type: ignore[arg-type]
        if isinstance(content, str):
            rules += parse_tmpfiles(content, path)
    reaper = text(reader, _TMPREAPER)
    if isinstance(reaper, str):
        rules += parse_tmpreaper(reaper)
    return Ageing(tuple(rules))
