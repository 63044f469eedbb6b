"""What removes files by age: where it goes by access time, access times are read, and noatime is not free.

Looked at: tmpfiles.d, tmpreaper.conf, cachefilesd.conf, robinhood's configuration; and, for commands that ask for
access times, the crontabs of the system and of users, the scripts of cron, units of systemd, what Slurm starts around
jobs, and the scripts that those start (one level). Of scripts, files of the site of at most 1 MiB are read, none on a
network file system, where a dead server would hold the check.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hosttune.facts.ageing_files import (
    AgeRule,
    parse_cachefilesd,
    parse_robinhood,
    parse_tmpfiles,
    parse_tmpreaper,
    select,
)
from hosttune.facts.ageing_jobs import rows_of, rules_in, scripts_in, slurm_programs
from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.places import mount_of
from hosttune.facts.reading import drop_ins, text
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_TMPFILES = ("/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d")
_TABLES = ("/etc/crontab", "/etc/anacrontab")
_CRON = ("/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly")
SPOOL = "/var/spool/cron/crontabs"  # of users; only root may look
_UNITS = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/etc/systemd/user")
_VENDOR_UNITS = ("/usr/lib/systemd/system", "/lib/systemd/system")
_SLURM_FILES = (
    "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf", "/opt/slurm/etc/slurm.conf",
    "/usr/local/etc/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf",
)  # fmt: skip
_SLURM_FOLDERS = ("/etc/slurm/prolog.d", "/etc/slurm/epilog.d")
_MIB = 1 << 20


@frozen
class Ageing(Fact):
    """All rules that remove by age, in the order of the files, and what could not be looked at."""

    rules: tuple[AgeRule, ...]
    hidden: tuple[str, ...]  # each a sentence


def collect(reader: Reader, facts: Facts) -> Ageing:
    look = _Look(reader, facts)
    for part in (look.tmpfiles, look.named, look.cron, look.units, look.slurm):
        part()
    return Ageing(tuple(dict.fromkeys(look.rules)), tuple(dict.fromkeys(look.hidden)))


class _Look:
    """Reads all the files; a refusal is kept, and the look goes on."""

    def __init__(self, reader: Reader, facts: Facts) -> None:
        self.reader = reader
        self.facts = facts
        self.rules: list[AgeRule] = []
        self.hidden: list[str] = []
        self._seen: set[str] = set()

    def _is_nobodys(self, path: str) -> bool:
        """Of an image /run is made anew when it boots."""
        return self.reader.persistent_only and path.startswith("/run/")

    def _content(self, path: str) -> str:
        answer = text(self.reader, path) if not self._is_nobodys(path) else ""
        if isinstance(answer, Unreadable):
            self.hidden.append(answer.reason)
        return answer if isinstance(answer, str) else ""

    def _names(self, folder: str) -> tuple[str, ...]:
        answer = self.reader.list(folder) if not self._is_nobodys(f"{folder}/") else ()
        if isinstance(answer, Unreadable):
            self.hidden.append(answer.reason)
        return answer if isinstance(answer, tuple) else ()

    def _add(self, rules: Iterable[AgeRule]) -> None:
        """With the place that a link leads to."""
        for rule in rules:
            real = self.reader.resolve(rule.path)
            path = real if isinstance(real, str) else rule.path
            self.rules.append(AgeRule(path, rule.age, rule.source, rule.uses_atime))

    def tmpfiles(self) -> None:
        # Before /usr was merged, /lib was a folder of its own; now it is a link.
        split = () if isinstance(self.reader.link("/lib"), str) else ("/lib/tmpfiles.d",)
        files = drop_ins(self.reader, (*_TMPFILES, *split))
        if isinstance(files, Unreadable):
            self.hidden.append(files.reason)
            return
        self._add(select((path, parse_tmpfiles(self._content(path))) for path in files))

    def named(self) -> None:
        """Debian's tmpreaper cleans daily as its file says, while its cron script is there."""
        if isinstance(self.reader.stat("/etc/cron.daily/tmpreaper"), Stat):
            self._add(parse_tmpreaper(self._content("/etc/tmpreaper.conf"), "/etc/tmpreaper.conf"))
        self._parsed("/etc/cachefilesd.conf", parse_cachefilesd)
        for name in self._names("/etc/robinhood.d"):
            self._parsed(f"/etc/robinhood.d/{name}", parse_robinhood)

    def _parsed(self, path: str, parse: Callable[[str, str], tuple[AgeRule, ...]]) -> None:
        self._add(parse(self._content(path), path))

    def cron(self) -> None:
        paths = [*_TABLES, *(f"{SPOOL}/{name}" for name in self._names(SPOOL))]
        for folder in _CRON:
            names = (name for name in self._names(folder) if name not in {".placeholder", "tmpreaper"})
            paths.extend(f"{folder}/{name}" for name in names)
        for path in paths:
            is_table = path.startswith(("/etc/crontab", "/etc/cron.d/"))
            self._job(path, "table" if is_table else "script")

    def units(self) -> None:
        for folder in _UNITS:
            for name in self._names(folder):
                path = f"{folder}/{name}"
                if name.endswith(".service.d"):
                    drop_in = (one for one in self._names(path) if one.endswith(".conf"))
                    self._units(f"{path}/{one}" for one in drop_in)
                elif name.endswith(".service"):
                    self._units((path,))
        vendor = _VENDOR_UNITS[0] if isinstance(self.reader.link("/lib"), str) else _VENDOR_UNITS[1]
        for folder in {_VENDOR_UNITS[0], vendor}:
            names = self._names(folder)
            started = {name.removesuffix(".timer") for name in names if name.endswith(".timer")}
            self._units(f"{folder}/{one}.service" for one in sorted(started) if f"{one}.service" in names)

    def _units(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self.reader.link(path) != "/dev/null":
                self._job(path, "unit")

    def slurm(self) -> None:
        paths = [f"{folder}/{name}" for folder in _SLURM_FOLDERS for name in self._names(folder)]
        for file in _SLURM_FILES:
            for program in slurm_programs(self._content(file)):
                path = program if program.startswith("/") else f"{file.rpartition('/')[0]}/{program}"
                folder, _, pattern = path.rpartition("/")
                named = "*" in pattern
                paths += (
                    [f"{folder}/{one}" for one in self._names(folder) if fnmatchcase(one, pattern)] if named else [path]
                )
        for path in paths:
            self._job(path, is_unsure=True)

    def _job(self, path: str, kind: str = "script", *, is_unsure: bool = False) -> None:
        """The commands of a file, and of the scripts that it starts."""
        content = self._script(path, path) if is_unsure else self._content(path)
        rows = rows_of(content, kind)
        self._add(rules_in(rows, path))
        for script, number in scripts_in(rows).items():
            for one in self._files(script):
                self._add(rules_in(rows_of(self._script(one, f"{path}:{number}")), one))

    def _files(self, path: str) -> tuple[str, ...]:
        """What run-parts starts in a folder; else the path itself."""
        stat = ABSENT if self._is_remote(path) else self.reader.stat(path)
        is_folder = isinstance(stat, Stat) and stat.type == "directory"
        return tuple(f"{path}/{name}" for name in self._names(path)) if is_folder else (path,)

    def _script(self, path: str, source: str) -> str:
        """The text of a script; empty for what is none, and for one that was read already."""
        if path in self._seen or self._is_nobodys(path):
            return ""
        self._seen.add(path)
        if self._is_remote(path):
            self.hidden.append(f"{path} ({source}) lies on a network file system and is not read")
            return ""
        stat = self.reader.stat(path)
        if isinstance(stat, Unreadable):
            self.hidden.append(stat.reason)
        if not isinstance(stat, Stat) or stat.type != "file" or stat.size > _MIB:
            return ""
        content = self._content(path)
        return "" if "\0" in content[:4096] else content

    def _is_remote(self, path: str) -> bool:
        try:
            mount = mount_of(self.facts.mounts.visible, path)
        except UnknownFact:
            return False
        return mount is not None and (mount.is_network or mount.fstype == "autofs")
