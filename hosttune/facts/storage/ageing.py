"""What removes files by age: where it goes by access time, access times are read, and noatime is not free.

Looked at: tmpfiles.d, tmpreaper.conf, cachefilesd.conf, robinhood's configuration; and, for commands that ask for
access times, the crontabs of the system and of users, the scripts of cron, units of systemd, of the system and of users
below /home and /root, what Slurm starts around jobs, the scripts that those start (one level), and what each of these
reads in: EnvironmentFile=, `. FILE` (one level). Of scripts, files of the site of at most 1 MiB are read, and of what
each user wrote a share. Nothing is read or resolved on a network file system, where a dead server would hold the check.
What is not read is said; but of a home on a network file system only where its user lingers, so that units run there.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.globs import fits_glob
from hosttune.facts.reading import drop_ins, names_in
from hosttune.facts.slurm_conf import SLURM_CONF, slurm_files
from hosttune.facts.storage.ageing_files import (
    AgeRule,
    parse_cachefilesd,
    parse_robinhood,
    parse_tmpfiles,
    parse_tmpreaper,
    select,
)
from hosttune.facts.storage.ageing_jobs import rules_in, scripts_in, slurm_programs
from hosttune.facts.storage.ageing_reading import Files, Hidden
from hosttune.facts.storage.ageing_rows import LONGEST, rows_of
from hosttune.facts.storage.ageing_sourced import (
    Script,
    environment_files,
    environment_of,
    environment_programs,
    sourced_in,
)
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.host.known.unit_folders import ADMIN, LOCAL, PACKAGES, RUNTIME, SPLIT
from hosttune.host.reading.paths import PATH_MAX
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from hosttune.facts import Facts
    from hosttune.facts.storage.ageing_rows import CommandRow
    from hosttune.host.door import Reader

_TMPFILES = ("/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d")
_TABLES = ("/etc/crontab", "/etc/anacrontab")
_CRON = (
    "/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly", "/etc/cron.yearly",
)  # fmt: skip
SPOOL = "/var/spool/cron/crontabs"  # of users; only root may look
_UNITS = (ADMIN, RUNTIME, LOCAL, "/etc/systemd/user")
_SLURM_FOLDERS = ("/etc/slurm/prolog.d", "/etc/slurm/epilog.d")
_HOMES = "/home"
_LINGER = "/var/lib/systemd/linger"  # a file for each user whose units run without a session (loginctl(1))
_USER_UNITS = (".config/systemd/user", ".local/share/systemd/user")
_MOST_UNITS = 512  # of one folder of a user
_MOST_SCRIPTS = 64  # of one file that a user wrote; of names that may lie in /usr/local as many again, eight times
_PER_FILE = 16  # what a look at a file costs of what is read of a user, in characters
_FEW = 8  # so many characters of what is only kept cost as much as one of what is followed
_WILD = regex(r"[*?\[]")
_MOST_NAMES = 20_000  # in all folders with programs that slurm.conf names by patterns
_MOST_PATTERNS = 100  # of the units that timers start; where there are more, each unit counts as one
_UNIT = regex(r"^[^\S\n]*Unit[^\S\n]*=[^\S\n]*(\S+)", re.MULTILINE)


@frozen
class Ageing(Fact):
    """All rules that remove by age, in the order of the files, and what could not be looked at."""

    rules: tuple[AgeRule, ...]
    hidden: tuple[Hidden, ...]


def collect(reader: Reader, facts: Facts) -> Ageing:
    look = _AgeingReader(reader, facts)
    for part in (look.tmpfiles, look.read_named, look.cron, look.units, look.slurm, look.users):
        part()
    return Ageing(tuple(dict.fromkeys(look.rules)), tuple(dict.fromkeys(look.hidden)))


class _AgeingReader(Files):
    """Reads all the files; a refusal is kept, and the look goes on."""

    def __init__(self, reader: Reader, facts: Facts) -> None:
        super().__init__(reader, facts)
        self.rules: list[AgeRule] = []
        self._real: dict[str, str] = {}

    def _add(self, rules: Iterable[AgeRule], path: str = "", user: str = "") -> None:
        """With the place that a link leads to. What a user's file names counts as read of it, in the file at `path`."""
        rules = tuple(rules)
        told = sum(len(rule.age) + len(rule.source) for rule in rules)
        if not self.may_follow(user, sum(len(rule.path) for rule in rules) + told // _FEW, path):
            return
        for rule in rules:
            if rule.path not in self._real:
                path, is_remote = self.ways.way(rule.path)
                real = path if is_remote else self.reader.resolve(rule.path)
                outside = "/" if ".." in rule.path.split("/") else rule.path
                self._real[rule.path] = real if isinstance(real, str) else outside
            self.rules.append(AgeRule(self._real[rule.path], rule.age, rule.source, rule.uses_atime))

    def tmpfiles(self) -> None:
        # Before /usr was merged, /lib was a folder of its own; now it is a link.
        split = () if isinstance(self.reader.link("/lib"), str) else ("/lib/tmpfiles.d",)
        files = self.ask_path(_TMPFILES[0], drop_ins, self.reader, (*_TMPFILES, *split))
        self._add(select((path, parse_tmpfiles(self.content(path))) for path in (() if files is ABSENT else files)))

    def read_named(self) -> None:
        """Debian's tmpreaper cleans daily as its file says, while its cron script is there."""
        if isinstance(self.reader.stat("/etc/cron.daily/tmpreaper"), Stat):
            self._add(parse_tmpreaper(self.content("/etc/tmpreaper.conf"), "/etc/tmpreaper.conf"))
        self._parse_file("/etc/cachefilesd.conf", parse_cachefilesd)
        for name in self.names("/etc/robinhood.d"):
            self._parse_file(f"/etc/robinhood.d/{name}", parse_robinhood)

    def _parse_file(self, path: str, parse: Callable[[str, str], tuple[AgeRule, ...]]) -> None:
        self._add(parse(self.content(path), path))

    def cron(self) -> None:
        paths = [*_TABLES]
        for folder in _CRON:
            names = (name for name in self.names(folder) if name not in {".placeholder", "tmpreaper"})
            paths.extend(f"{folder}/{name}" for name in names)
        for path in paths:
            is_table = path.startswith(("/etc/crontab", "/etc/cron.d/"))
            kind = "table" if is_table else "anacrontab" if path == _TABLES[1] else "script"
            self._job(path, self.content(path), kind)
        # The smallest first, so that no one's large one keeps those of others from being read.
        for size, name in sorted((self._size(f"{SPOOL}/{name}"), name) for name in self.names(SPOOL)):
            if self.has_left(name, size, f"{SPOOL}/{name}"):
                self._job(f"{SPOOL}/{name}", self.content(f"{SPOOL}/{name}"), "crontab", name)

    def _size(self, path: str) -> int:
        """0 where it is not known; reading has a limit of its own."""
        stat = None if self.is_nobodys(path) or self.ways.way(path)[1] else self.reader.stat(path)
        return stat.size if isinstance(stat, Stat) else 0

    def units(self) -> None:
        for folder in _UNITS:
            self._units(self._unit_paths(folder, self.names(folder)))
        folders = (PACKAGES,) if isinstance(self.reader.link("/lib"), str) else (PACKAGES, SPLIT)
        started = {unit for folder in (*_UNITS, *folders) for unit in self._list_timed(folder)}
        patterns = [unit for unit in started if _WILD.search(unit)]
        for folder in folders:
            names = self.names(folder)
            self._units(f"{folder}/{name}" for name in names if _is_started(name, started, patterns))

    def _list_timed(self, folder: str) -> Iterator[str]:
        """The services that timers start, as patterns: of an instance its template, too; a specifier is anything."""
        for name in self.names(folder):
            unit, _, kind = name.removesuffix(".d").rpartition(".")
            if kind != "timer":
                continue
            path = f"{folder}/{name}"
            files = [f"{path}/{one}" for one in self.names(path)] if name.endswith(".d") else [path]
            named = [match[1] for one in files if self._is_there(one) for match in _UNIT.finditer(self.content(one))]
            for service in named or [f"{unit}.service"]:
                yield re.sub(r"%.", "*", service)
                template, at, instance = service.partition("@")
                yield f"{template}@.{instance.rpartition('.')[2]}" if at and "." in instance else service

    def _is_there(self, path: str) -> bool:
        """Not masked."""
        return self.reader.link(path) != "/dev/null"

    def _units(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self._is_there(path):
                self._job(path, self.content(path), "unit")

    def slurm(self) -> None:
        paths = [f"{folder}/{name}" for folder in _SLURM_FOLDERS for name in self.names(folder)]
        patterns: dict[str, list[str]] = {}  # by folder
        for file, content in (one for main in SLURM_CONF for one in slurm_files(main, self.content)):
            if "%" in file.rpartition("/")[2]:
                self.hide(file, f"{file}, which slurm.conf includes, is not known by this name")
            for program in slurm_programs(content):
                path = program if program.startswith("/") else f"{file.rpartition('/')[0]}/{program}"
                folder, _, pattern = path.rpartition("/")
                if "*" in pattern:
                    patterns.setdefault(folder, []).append(pattern)
                else:
                    paths.append(path)
        paths += self._named_by(patterns)
        for path in dict.fromkeys(paths):
            self._job(path, self.script(path, path))

    def _named_by(self, patterns: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """The programs that patterns of slurm.conf mean. Of a folder with many patterns each file counts."""
        left = _MOST_NAMES
        for folder, own in patterns.items():
            names = self.names(folder)
            left -= len(names)
            if left < 0:
                self.hide(folder, f"slurm.conf starts programs by patterns in folders of more than {_MOST_NAMES} files")
                return
            for name in names:
                if len(own) > _MOST_PATTERNS or any(fits_glob(name, one) for one in own):
                    yield f"{folder}/{name}"

    def users(self) -> None:
        """Units that users wrote in their home folders."""
        lingering = set(self.names(_LINGER))
        far = self.ways.way(_HOMES)[1]
        homes = {} if far else {name: f"{_HOMES}/{name}" for name in self.names(_HOMES)}
        homes["root"] = "/root"
        refused: list[str] = []
        for name in sorted(lingering - {*homes}):
            self.hide(
                f"{_LINGER}/{name}", f"units of {name}, whose home is not a local folder of {_HOMES}, are not read"
            )
        for name, home in homes.items():
            for folder in (f"{home}/{one}" for one in _USER_UNITS):
                if self.ways.way(folder)[1] and name not in lingering:
                    continue
                if self.is_remote(folder):
                    continue
                try:
                    found = names_in(self.reader, folder)
                except UnknownFact as unknown:
                    refused.append(unknown.reason)
                    continue
                paths = [*islice(self._unit_paths(folder, found[:_MOST_UNITS], name), _MOST_UNITS + 1)]
                if len(found) > _MOST_UNITS or len(paths) > _MOST_UNITS:
                    self.hide(folder, f"{folder} holds more than {_MOST_UNITS} units, which are not all read")
                for path in paths[:_MOST_UNITS]:
                    self._job(path, self.script(path, path, name), "unit", name)
        if refused:
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            self.hide(_HOMES, f"units of users: {refused[0]}{more}")

    def _unit_paths(self, folder: str, names: Iterable[str], user: str = "") -> Iterator[str]:
        for name in names:
            if name.endswith(".service.d"):
                parts = self.names(f"{folder}/{name}", user)
                yield from (f"{folder}/{name}/{one}" for one in parts if one.endswith(".conf"))
            elif name.endswith(".service"):
                yield f"{folder}/{name}"

    def _job(self, path: str, content: str, kind: str = "script", user: str = "") -> None:
        """The commands of a file, of the scripts that it starts, and of what these read in."""
        home = "" if not user else "/root" if user == "root" else f"{_HOMES}/{user}"
        has_home = kind == "unit" and bool(home)
        longer = content.count("%h") * len(home) if has_home else 0
        if not content or not self.may_follow(user, len(content) + longer, path):
            return
        content = content.replace("%h", home) if has_home else content
        rows = self._rows(content, path, kind)
        self._add(rules_in(rows, path), path, user)
        scripts = scripts_in(rows, kind)
        if number := scripts.pop("", 0):
            self.hide(path, f"line {number} of {path} starts a script whose name is not known, or too many")
        local = sum(script.startswith("/usr/local/") for script in scripts)
        if user and (len(scripts) - local > _MOST_SCRIPTS or local > 8 * _MOST_SCRIPTS):
            self.hide(path, f"{path} starts more than {_MOST_SCRIPTS} scripts, which are not all read")
            return
        self._read_in(Script(path, rows, kind, home), user)
        if kind == "unit":
            scripts |= self._environment(path, content, user)
        for script, number in scripts.items():
            for one in self._files(script, user):
                text = self.script(one, f"{path}:{number}", user)
                if text and self.may_follow(user, self.cost_of(text), one):
                    rows = self._rows(text, one, "script")
                    self._add(rules_in(rows, one), one, user)
                    self._read_in(Script(one, rows, "script", home), user)

    def _read_in(self, script: Script, user: str) -> None:
        """What a script reads in with `.`: it runs as a part of it."""
        if self.ways.way(script.path)[1]:
            return
        found = tuple(sourced_in(script))
        if unknown := [number for number, path in found if not path]:
            more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
            self.hide(script.path, f"line {unknown[0]} of {script.path} reads in a file whose name is not known{more}")
        longer = sum(len(path) for _, path in found) - sum(len(row.text) for row in script.rows)
        if self.may_follow(user, max(0, longer), script.path):
            for number, path in found:
                for one in self._matching(path, f"{script.path}:{number}", user):
                    self._part(one, f"{script.path}:{number}", user)

    def _environment(self, unit: str, content: str, user: str) -> dict[str, int]:
        """Files with variables of a unit, which may hold a command's options; (program, line) of those they name."""
        parts = [(1, environment_of(content))]
        for number, path in environment_files(content):
            source = f"{unit}:{number}"
            parts += ((number, self._part(one, source, user)) for one in self._matching(path, source, user))
        named = {program: number for number, text in reversed(parts) for program in environment_programs(text)}
        if user and len(named) > _MOST_SCRIPTS:
            self.hide(unit, f"variables of {unit} name more than {_MOST_SCRIPTS} files, which are not all read")
            return {}
        return {program: number for program, number in named.items() if self._is_program(program)}

    def _is_program(self, path: str) -> bool:
        stat = None if self.ways.way(path)[1] else self.reader.stat(path)
        return isinstance(stat, Stat) and stat.type == "file" and bool(stat.mode & 0o111)

    def _part(self, path: str, source: str, user: str) -> str:
        text = self.script(path, source, user)
        if not text or not self.may_follow(user, self.cost_of(text), path):
            return ""
        self._add(rules_in(self._rows(text, path, "script"), path), path, user)
        return text

    def _matching(self, path: str, source: str, user: str) -> tuple[str, ...]:
        """The files that a pattern means now; wildcards in its last part alone. What is too long names nothing."""
        folder, _, pattern = path.rpartition("/")
        if not set("*?[") & set(pattern):
            return (path,) if 0 < len(path) < PATH_MAX else ()
        names = self.names(folder, user) if len(folder) < PATH_MAX else ()
        try:
            fitting = [name for name in names if fits_glob(name, pattern)]
        except UnknownFact as unknown:
            self.hide(source.rpartition(":")[0], f"{source}: {unknown.reason}")
            return ()
        return self._at_most(folder, fitting, path, user)

    def _at_most(self, folder: str, names: Sequence[str], path: str, user: str) -> tuple[str, ...]:
        """The files, unless they are more, or their names longer, than may be looked at for a user."""
        cost = len(names) * (_PER_FILE + len(folder))
        return tuple(f"{folder}/{name}" for name in names) if self.may_follow(user, cost, path) else ()

    def _rows(self, content: str, path: str, kind: str) -> tuple[CommandRow, ...]:
        rows = rows_of(content, kind)
        for row in rows:
            if len(row.text) > LONGEST:
                self.hide(path, f"line {row.number} of {path} is longer than 16 KiB and is not read")
        return rows

    def _files(self, path: str, user: str) -> tuple[str, ...]:
        """What run-parts starts in a folder; else the path itself."""
        stat = None if self.ways.way(path)[1] else self.reader.stat(path)
        is_folder = isinstance(stat, Stat) and stat.type == "directory"
        names = self.names(path, user) if is_folder else ()
        return self._at_most(path, names, path, user) if is_folder else (path,)


def _is_started(name: str, started: Collection[str], patterns: Sequence[str]) -> bool:
    """Whether timers start this unit."""
    return name in started or len(patterns) > _MOST_PATTERNS or any(fits_glob(name, one) for one in patterns)
