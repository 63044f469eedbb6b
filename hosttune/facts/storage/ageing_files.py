"""Configuration files that name folders to age: tmpfiles.d, tmpreaper.conf, cachefilesd.conf, robinhood. Pure.

Sources: tmpfiles.d(5); tmpreaper(8) with Debian's /etc/tmpreaper.conf; cachefilesd.conf(5) and the kernel's
Documentation/filesystems/caching/cachefiles.rst (culling is by access time); robinhood's configuration (fs_path,
last_access).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.frozen import frozen
from hosttune.lines import LineNumbers
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIELD = regex(r'"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|(\S+)')
_AGEING = frozenset("dDevqQC")  # x and X have an age, too, but keep files
# Types of which only one line may decide about a path (src/tmpfiles/tmpfiles.c, takes_ownership); a, t, h, z, m and
# their likes add to it. Those that take patterns are kept apart from the others (needs_glob).
_DECIDING = frozenset("fFdDevqQpLcbCxXwrR")
_OF_PATTERNS = frozenset("exXwrR")
# Of the system's instance (tmpfiles.d(5), "Specifiers"); machine and boot are left open.
_SPECIFIERS = {
    "%t": "/run", "%S": "/var/lib", "%C": "/var/cache", "%L": "/var/log", "%T": "/tmp", "%V": "/var/tmp", "%h": "/root",
}  # fmt: skip
_SPECIFIER = regex(r"%.")
_OPEN = regex(r"[*?\[%{$`~]")
_ASSIGNMENT = regex(r"^[^\S\n]*(?:export[^\S\n]+)?(\w+)=(?:'([^']*)'|\"([^\"]*)\"|(\S*))", re.MULTILINE)
_CULLED = regex(r"^[^\S\n]*dir[^\S\n]+(\S+)", re.MULTILINE)
_POLICY = regex(r"^[^#\n]*\blast_access\b", re.MULTILINE)
_FS_PATH = regex(r"^[^#\n]*\bfs_path\s*=\s*[\"']?([^\s\"';]+)", re.MULTILINE)


@frozen
class AgeRule(Fact):
    """Files below `path` are removed when they reach `age`."""

    path: str  # the folder for certain: /data for /data/*/cache; / where it cannot be told
    age: str  # as written: 10d, 1w, -atime +30; empty where it is not told
    source: str  # file:line
    uses_atime: bool  # False where the rule looks at other times only


@frozen
class TmpfilesLine:
    """One line of a tmpfiles.d file."""

    type: str  # the letter, without modifiers
    path: str
    age: str  # "-" where there is none
    number: int
    text: str  # the whole line, single blanks in it
    adds: bool  # it adds to other lines (`+`)

    @property
    def decides_on(self) -> tuple[bool, str] | None:
        """What only one line decides about; None for a line that adds to others."""
        return (self.type in _OF_PATTERNS, self.path) if self.type in _DECIDING and not self.adds else None


def parse_tmpfiles(content: str) -> tuple[TmpfilesLine, ...]:
    """The lines that also count after boot (no `!`): `Type Path Mode User Group Age Argument`, quotes as in a shell."""
    lines = []
    for number, row in enumerate(content.splitlines(), start=1):
        if row.lstrip().startswith("#"):
            continue
        fields = words_of(row)
        if len(fields) >= 2 and "!" not in fields[0]:
            age = fields[5] if len(fields) > 5 else "-"
            lines.append(TmpfilesLine(fields[0][0], fields[1], age, number, " ".join(row.split()), "+" in fields[0]))
    return tuple(lines)


def words_of(row: str) -> list[str]:
    """Words parted by blanks, quotes removed."""
    return [next((part for part in match.groups() if part is not None), "") for match in _FIELD.finditer(row)]


def age_of(spelled: str) -> tuple[str, bool]:
    """(age, whether access times count) of the age field: `~` keeps the first level, `bmA:10d` names the times that
    count, a and A are access times; without names all count."""
    age = spelled.removeprefix("~")
    times, colon, rest = age.rpartition(":")
    return (rest, "a" in times.lower()) if colon else (age, True)


def tree_of(path: str) -> str:
    """The folder in which all that a pattern means is: up to the first wildcard, variable or unknown specifier; / for
    what is no absolute path."""
    parts = []
    for part in _SPECIFIER.sub(lambda match: _SPECIFIERS.get(match[0], match[0]), path).split("/"):
        if _OPEN.search(part):
            break
        parts.append(part)
    tree = "/".join(parts).rstrip("/")
    return tree if tree.startswith("/") else "/"


def select(files: Iterable[tuple[str, tuple[TmpfilesLine, ...]]]) -> tuple[AgeRule, ...]:
    """The rules of (file, lines) in the order of base names: of two lines that decide about a path the first wins."""
    rules: list[AgeRule] = []
    decided: set[tuple[bool, str]] = set()
    for name, lines in files:
        for line in lines:
            if line.decides_on is None or line.decides_on in decided:
                continue
            decided.add(line.decides_on)
            age, uses_atime = age_of(line.age)
            if line.type in _AGEING and age not in {"-", ""}:
                rules.append(AgeRule(tree_of(line.path), age, f"{name}:{line.number}", uses_atime))
    return tuple(rules)


def parse_tmpreaper(content: str, name: str) -> tuple[AgeRule, ...]:
    """/etc/tmpreaper.conf, shell assignments: the folders (/tmp alone where none are named), the age (7d), options."""
    values: dict[str, tuple[str, int]] = {}
    line = LineNumbers(content).at
    for match in _ASSIGNMENT.finditer(content):
        value = next((part for part in match.groups()[1:] if part is not None), "")
        values[match[1]] = (value, line(match.start(1)))
    folders, number = values.get("TMPREAPER_DIRS", ("/tmp", 1))
    age = values.get("TMPREAPER_TIME", ("7d", 1))[0] or "7d"
    options = values.get("TMPREAPER_ADDITIONALOPTIONS", ("", 1))[0].split()
    uses_atime = not {"--mtime", "-m"} & set(options)
    return tuple(
        AgeRule(tree_of(normalize_path(folder)), age, f"{name}:{number}", uses_atime) for folder in folders.split()
    )


def parse_cachefilesd(content: str, name: str) -> tuple[AgeRule, ...]:
    """The cache of network file systems that cachefilesd culls, the least recently read first."""
    if re.search(r"^[^\S\n]*nocull\b", content, re.MULTILINE):
        return ()
    found, line = _CULLED.finditer(content), LineNumbers(content).at
    return tuple(AgeRule(tree_of(one[1]), "", f"{name}:{line(one.start(1))}", uses_atime=True) for one in found)


def parse_robinhood(content: str, name: str) -> tuple[AgeRule, ...]:
    """A policy over last_access: below fs_path, or anywhere where the file does not say where."""
    policy = _POLICY.search(content)
    if policy is None:
        return ()
    place = _FS_PATH.search(content)
    source = f"{name}:{LineNumbers(content).at(policy.end())}"
    return (AgeRule(tree_of(place[1]) if place else "/", "last_access", source, uses_atime=True),)


def normalize_path(path: str) -> str:
    """`/tmp/.` is how tmpreaper is told to follow a link; the folder is /tmp."""
    return path.removesuffix("/.")
