"""What removes files by age: where it does, access times are read, and noatime is not free.

Sources: tmpfiles.d(5); tmpreaper(8) with Debian's /etc/tmpreaper.conf; tmpwatch(8), which cron starts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact
from hosttune.facts.reading import drop_ins, text
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_FOLDERS = ("/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d")
_FIELD = re.compile(r'"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|(\S+)')
_AGEING = frozenset("dDevqQC")  # x and X have an age, too, but keep files
# Types of which only one line may decide about a path; r, R, a, t, h, z, m and their likes add to it.
_DECIDING = frozenset("fFdDevqQpLcbCxXw")
_CRON = ("/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly")
_CLEANER = re.compile(r"(?:^|[\s;&|/(])(tmpreaper|tmpwatch|stmpclean)[ \t]((?:\\\n|[^;&|#\n])*)")
_PERIOD = re.compile(r"\d+[smhdw]?$")
# Of the system's instance (tmpfiles.d(5), "Specifiers"); machine, user and boot are left open.
_SPECIFIERS = {"%t": "/run", "%S": "/var/lib", "%C": "/var/cache", "%L": "/var/log", "%T": "/tmp", "%V": "/var/tmp"}
_SPECIFIER = re.compile(r"%.")
_OPEN = re.compile(r"[*?\[%{$]")
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?(\w+)=(?:'([^']*)'|\"([^\"]*)\"|(\S*))", re.MULTILINE)


@frozen
class AgeRule(Fact):
    """Files below `path` are removed when they reach `age`."""

    path: str  # the folder for certain: /data for /data/*/cache
    age: str  # as written: 10d, 1w
    source: str  # file:line
    uses_atime: bool  # False where the rule looks at other times only


@frozen
class Ageing(Fact):
    """All rules that remove by age, in the order of the files."""

    rules: tuple[AgeRule, ...]


@frozen
class Line:
    """One line of a tmpfiles.d file."""

    type: str  # the letter, without modifiers
    path: str
    age: str  # "-" where there is none
    number: int


def parse_tmpfiles(content: str) -> tuple[Line, ...]:
    """The lines that also count after boot (no `!`): `Type Path Mode User Group Age Argument`, quotes as in a shell."""
    lines = []
    for number, row in enumerate(content.splitlines(), start=1):
        if row.lstrip().startswith("#"):
            continue
        fields = _words(row)
        if len(fields) >= 2 and "!" not in fields[0]:
            lines.append(Line(fields[0][0], fields[1], fields[5] if len(fields) > 5 else "-", number))
    return tuple(lines)


def _words(row: str) -> list[str]:
    """Words parted by blanks, quotes removed."""
    return [next((part for part in match.groups() if part is not None), "") for match in _FIELD.finditer(row)]


def age_of(spelled: str) -> tuple[str, bool]:
    """(age, whether access times count) of the age field: `~` keeps the first level, `bmA:10d` names the times that
    count, a and A are access times; without names all count."""
    age = spelled.removeprefix("~")
    times, colon, rest = age.rpartition(":")
    return (rest, "a" in times.lower()) if colon else (age, True)


def tree_of(path: str) -> str:
    """The folder in which all that a pattern means lies: up to the first wildcard or unknown specifier."""
    parts = []
    for part in _SPECIFIER.sub(lambda match: _SPECIFIERS.get(match[0], match[0]), path).split("/"):
        if _OPEN.search(part):
            break
        parts.append(part)
    return "/".join(parts).rstrip("/") or "/"


def select(files: Iterable[tuple[str, tuple[Line, ...]]]) -> tuple[AgeRule, ...]:
    """The rules of (file, lines) in the order of base names: of two lines that decide about a path the first wins."""
    rules: list[AgeRule] = []
    decided: set[str] = set()
    for name, lines in files:
        for line in lines:
            if line.type not in _DECIDING or line.path in decided:
                continue
            decided.add(line.path)
            age, uses_atime = age_of(line.age)
            if line.type in _AGEING and age not in {"-", ""}:
                rules.append(AgeRule(tree_of(line.path), age, f"{name}:{line.number}", uses_atime))
    return tuple(rules)


def parse_tmpreaper(content: str, name: str) -> tuple[AgeRule, ...]:
    """/etc/tmpreaper.conf, shell assignments: the folders (/tmp alone where none are named), the age (7d), options."""
    values: dict[str, tuple[str, int]] = {}
    for match in _ASSIGNMENT.finditer(content):
        value = next((part for part in match.groups()[1:] if part is not None), "")
        values[match[1]] = (value, content.count("\n", 0, match.start(1)) + 1)
    folders, number = values.get("TMPREAPER_DIRS", ("/tmp", 1))
    age = values.get("TMPREAPER_TIME", ("7d", 1))[0] or "7d"
    uses_atime = "--mtime" not in values.get("TMPREAPER_ADDITIONALOPTIONS", ("", 1))[0].split()
    return tuple(AgeRule(tree_of(_plain(folder)), age, f"{name}:{number}", uses_atime) for folder in folders.split())


def parse_cron(content: str, name: str) -> tuple[AgeRule, ...]:
    """Commands of a crontab or a script that start a cleaner: `tmpreaper [options] AGE FOLDER...`.

    The age stands before the folders; tmpwatch looks at access times unless -m (modification) or -c (change) says else.
    """
    rules: list[AgeRule] = []
    for match in _CLEANER.finditer(content):
        if content[: match.start(1)].rpartition("\n")[2].lstrip().startswith("#"):
            continue
        words = _words(match[2].replace("\\\n", " "))
        start = next((index for index, word in enumerate(words) if _PERIOD.match(word)), None)
        if start is None:
            continue
        uses_atime = not any(re.fullmatch(r"--[mc]time|-[a-zA-Z]*[mc][a-zA-Z]*", word) for word in words[:start])
        source = f"{name}:{content.count(chr(10), 0, match.start(1)) + 1}"
        paths = (word for word in words[start + 1 :] if word.startswith("/"))
        age = words[start] if words[start][-1].isalpha() else f"{words[start]}h"  # a bare number counts hours
        rules.extend(AgeRule(tree_of(_plain(path)), age, source, uses_atime) for path in paths)
    return tuple(rules)


def _plain(path: str) -> str:
    """`/tmp/.` is how tmpreaper is told to follow a link; the folder is /tmp."""
    return path.removesuffix("/.")


def collect(reader: Reader, facts: Facts) -> Ageing:  # noqa: ARG001 - the interface of all subjects
    gatherer = _Gatherer(reader)
    rules = (*gatherer.tmpfiles(), *gatherer.tmpreaper(), *gatherer.cron())
    return Ageing(gatherer.problem or rules)


class _Gatherer:
    """Reads all the files, and keeps the first answer that was a refusal."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.problem: Any = None

    def _content(self, path: str) -> str:
        answer = text(self.reader, path)
        if isinstance(answer, Unreadable):
            self.problem = self.problem or answer
        return answer if isinstance(answer, str) else ""

    def _names(self, folder: str) -> tuple[str, ...]:
        answer = self.reader.list(folder)
        # Of an image /run is nobody's: it is made anew when the image boots.
        if isinstance(answer, Unreadable) and not (self.reader.persistent_only and folder.startswith("/run/")):
            self.problem = self.problem or answer
        return answer if isinstance(answer, tuple) else ()

    def tmpfiles(self) -> tuple[AgeRule, ...]:
        # Before /usr was merged, /lib was a folder of its own; now it is a link.
        split = () if isinstance(self.reader.link("/lib"), str) else ("/lib/tmpfiles.d",)
        files = drop_ins(self.reader, (*_FOLDERS, *split))
        if isinstance(files, Unreadable):
            self.problem = self.problem or files
            return ()
        return select((path, parse_tmpfiles(self._content(path))) for path in files)

    def tmpreaper(self) -> tuple[AgeRule, ...]:
        """Debian's package cleans daily as /etc/tmpreaper.conf says, while its cron script is there."""
        script = self.reader.stat("/etc/cron.daily/tmpreaper")
        if script is ABSENT or not isinstance(script, Stat):
            return ()
        return parse_tmpreaper(self._content("/etc/tmpreaper.conf"), "/etc/tmpreaper.conf")

    def cron(self) -> tuple[AgeRule, ...]:
        paths = ["/etc/crontab"]
        for folder in _CRON:
            names = (name for name in self._names(folder) if name not in {".placeholder", "tmpreaper"})
            paths.extend(f"{folder}/{name}" for name in names)
        return tuple(rule for path in paths for rule in parse_cron(self._content(path), path))
