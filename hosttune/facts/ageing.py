"""What removes files by age: where it goes by access time, access times are read, and noatime is not free.

Looked at: tmpfiles.d, tmpreaper.conf, cachefilesd.conf, robinhood's configuration; and, for commands that ask for
access times, the crontabs of the system and of users, the scripts of cron, units of systemd, what Slurm starts around
jobs, and the scripts that those start (one level). Of scripts, files of the site of at most 1 MiB are read. Nothing is
read or resolved on a network file system, where a dead server would hold the check. What is not read is said.
"""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from hosttune.facts.ageing_files import (
    AgeRule,
    parse_cachefilesd,
    parse_robinhood,
    parse_tmpfiles,
    parse_tmpreaper,
    select,
)
from hosttune.facts.ageing_jobs import may_be_script, rules_in, scripts_in, slurm_programs
from hosttune.facts.ageing_rows import LONGEST, rows_of
from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.mounts import LOCAL_TYPES
from hosttune.facts.places import mount_of
from hosttune.facts.reading import drop_ins, text
from hosttune.facts.slurm_conf import SLURM_CONF, slurm_files
from hosttune.frozen import frozen
from hosttune.host.door import Completed, Stat
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hosttune.facts import Facts
    from hosttune.facts.ageing_rows import Row
    from hosttune.facts.mounts import Mount
    from hosttune.host.door import Reader

_TMPFILES = ("/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d")
_TABLES = ("/etc/crontab", "/etc/anacrontab")
_CRON = (
    "/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly", "/etc/cron.yearly",
)  # fmt: skip
SPOOL = "/var/spool/cron/crontabs"  # of users; only root may look
_UNITS = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/etc/systemd/user")
_VENDOR_UNITS = ("/usr/lib/systemd/system", "/lib/systemd/system")
_SLURM_FOLDERS = ("/etc/slurm/prolog.d", "/etc/slurm/epilog.d")
_MIB = 1 << 20
_ELF = b"\x7fELF"
_DISKS = LOCAL_TYPES | {"zfs", "overlay", "tmpfs", "rootfs", "reiserfs", "vfat", "exfat", "ntfs3", "squashfs", "erofs"}
_MOST_LINKS = 40
_MOST_SCRIPTS = 64  # of one file: anybody's crontab is looked through
_UNIT = re.compile(r"^\s*Unit\s*=\s*(\S+)", re.MULTILINE)


@frozen
class Hidden(Fact):
    """A file or folder that could not be looked at."""

    path: str
    reason: str  # a sentence that names it


@frozen
class Ageing(Fact):
    """All rules that remove by age, in the order of the files, and what could not be looked at."""

    rules: tuple[AgeRule, ...]
    hidden: tuple[Hidden, ...]


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
        self.hidden: list[Hidden] = []
        self._seen: set[str] = set()
        self._left = _MIB  # bytes of scripts that one file may start

    def _is_nobodys(self, path: str) -> bool:
        """Of an image /run is made anew when it boots."""
        return self.reader.persistent_only and path.startswith("/run/")

    def _hide(self, path: str, reason: str) -> None:
        self.hidden.append(Hidden(path, reason))

    def _content(self, path: str) -> str:
        if self._is_nobodys(path) or self._is_remote(path):
            return ""
        answer = text(self.reader, path)
        if isinstance(answer, Unreadable):
            self._hide(path, answer.reason)
        return answer if isinstance(answer, str) else ""

    def _names(self, folder: str) -> tuple[str, ...]:
        if self._is_nobodys(f"{folder}/") or self._is_remote(folder):
            return ()
        answer = self.reader.list(folder)
        if isinstance(answer, Unreadable):
            self._hide(folder, answer.reason)
        return answer if isinstance(answer, tuple) else ()

    def _add(self, rules: Iterable[AgeRule]) -> None:
        """With the place that a link leads to."""
        for rule in rules:
            path, is_remote = self._way(rule.path)
            real = path if is_remote else self.reader.resolve(rule.path)
            real = real if isinstance(real, str) else "/" if ".." in rule.path.split("/") else rule.path
            self.rules.append(AgeRule(real, rule.age, rule.source, rule.uses_atime))

    def tmpfiles(self) -> None:
        # Before /usr was merged, /lib was a folder of its own; now it is a link.
        split = () if isinstance(self.reader.link("/lib"), str) else ("/lib/tmpfiles.d",)
        files = drop_ins(self.reader, (*_TMPFILES, *split))
        if isinstance(files, Unreadable):
            self._hide(_TMPFILES[0], files.reason)
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
            kind = "crontab" if path.startswith(SPOOL) else "anacrontab" if path == _TABLES[1] else "script"
            self._job(path, "table" if is_table else kind)

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
        folders = tuple(dict.fromkeys((_VENDOR_UNITS[0], vendor)))
        started = {unit for folder in (*_UNITS, *folders) for unit in self._timed(folder)}
        for folder in folders:
            names = self._names(folder)
            self._units(f"{folder}/{name}" for name in names if any(fnmatchcase(name, unit) for unit in started))

    def _timed(self, folder: str) -> Iterator[str]:
        """The services that timers start, as patterns: of an instance its template, too; a specifier is anything."""
        for name in self._names(folder):
            unit, _, kind = name.removesuffix(".d").rpartition(".")
            if kind != "timer":
                continue
            path = f"{folder}/{name}"
            files = [f"{path}/{one}" for one in self._names(path)] if name.endswith(".d") else [path]
            named = [match[1] for one in files if self._is_there(one) for match in _UNIT.finditer(self._content(one))]
            for service in named or [f"{unit}.service"]:
                yield re.sub(r"%.", "*", service)
                yield re.sub(r"@.*\.", "@.", service)

    def _is_there(self, path: str) -> bool:
        """Not masked."""
        return self.reader.link(path) != "/dev/null"

    def _units(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self._is_there(path):
                self._job(path, "unit")

    def slurm(self) -> None:
        paths = [f"{folder}/{name}" for folder in _SLURM_FOLDERS for name in self._names(folder)]
        for file, content in (one for main in SLURM_CONF for one in slurm_files(main, self._content)):
            if "%" in file.rpartition("/")[2]:
                self._hide(file, f"{file}, which slurm.conf includes, is not known by this name")
            for program in slurm_programs(content):
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
        self._left = _MIB
        rows = self._rows(self._script(path, path) if is_unsure else self._content(path), path, kind)
        self._add(rules_in(rows, path, kind))
        self._left = _MIB
        scripts = scripts_in(rows, kind)
        named = [script for script in scripts if not script.startswith("/usr/local/")]
        if len(named) > _MOST_SCRIPTS and kind == "crontab":
            self._hide(path, f"{path} starts more than {_MOST_SCRIPTS} scripts, which are not all read")
            return
        for script, number in scripts.items():
            for one in self._files(script):
                content = self._script(one, f"{path}:{number}")
                if kind == "crontab":
                    self._left -= len(content)
                self._add(rules_in(self._rows(content, one, "script"), one))

    def _rows(self, content: str, path: str, kind: str) -> tuple[Row, ...]:
        rows = rows_of(content, kind)
        for row in rows:
            if len(row.text) > LONGEST:
                self._hide(path, f"line {row.number} of {path} is longer than 16 KiB and is not read")
        return rows

    def _files(self, path: str) -> tuple[str, ...]:
        """What run-parts starts in a folder; else the path itself."""
        stat = None if self._way(path)[1] else self.reader.stat(path)
        is_folder = isinstance(stat, Stat) and stat.type == "directory"
        return tuple(f"{path}/{name}" for name in self._names(path)) if is_folder else (path,)

    def _script(self, path: str, source: str) -> str:
        """The text of a script; empty for what is none, and for one that was read already."""
        if path in self._seen or self._is_nobodys(path):
            return ""
        self._seen.add(path)
        if self._is_remote(path, source):
            return ""
        real = self.reader.resolve(path)
        if isinstance(real, str) and real != path and not may_be_script(real):
            return ""
        stat = self.reader.stat(path)
        if isinstance(stat, Unreadable):
            self._hide(path, stat.reason)
        if not isinstance(stat, Stat) or stat.type != "file":
            return ""
        mount = self._mount(real if isinstance(real, str) else path)
        if mount is not None and mount.fstype not in _DISKS:
            self._hide(path, f"{path} ({source}) lies on {mount.fstype}, which is no disk, and is not read")
            return ""
        if stat.size > self._left:
            if self._is_program(path):
                return ""
            size = "1 MiB" if stat.size > _MIB else "what is read of the scripts of one crontab"
            self._hide(path, f"{path} ({source}) is larger than {size} and is not read")
            return ""
        content = self._content(path)
        return "" if "\0" in content[:4096] else content

    def _is_program(self, path: str) -> bool:
        """Whether a large file begins as compiled programs do (elf(5)), so it is no script; no more of it is read."""
        start = self.reader.query(("head", "--bytes=4", path))
        return isinstance(start, Completed) and start.stdout == _ELF

    def _is_remote(self, path: str, source: str = "") -> bool:
        """Whether the way to a path leads to another machine; that is then said."""
        is_remote = self._way(path)[1]
        if is_remote:
            where = f" ({source})" if source else ""
            self._hide(path, f"{path}{where} lies on a network file system and is not read")
        return is_remote

    def _way(self, path: str) -> tuple[str, bool]:
        """(path, False), or where a path leads once a link or folder on its way lies on another machine, with True.
        Only links on this machine are asked: a dead server holds whoever looks at what lies there.
        """
        if not self._has_remote:
            return path, False
        waiting = [part for part in path.split("/") if part]
        here, hops = "/", 0
        while waiting:
            part = waiting.pop(0)
            here = posixpath.normpath(posixpath.join(here, part))
            mount = self._mount(here)
            if mount is not None and _is_far(mount):
                return posixpath.normpath(posixpath.join(here, *waiting)), True
            target = self.reader.link(here)
            if isinstance(target, str) and hops < _MOST_LINKS:
                hops += 1
                here = posixpath.dirname(here)
                here = "/" if target.startswith("/") else here
                waiting = [part for part in target.split("/") if part] + waiting
        return path, False

    @cached_property
    def _has_remote(self) -> bool:
        try:
            return any(map(_is_far, self.facts.mounts.visible))
        except UnknownFact:
            return False

    def _mount(self, path: str) -> Mount | None:
        try:
            return mount_of(self.facts.mounts.visible, path)
        except UnknownFact:
            return None


def _is_far(mount: Mount) -> bool:
    """A host that boots from the network has its / there, or nothing runs; an automount in /proc is the kernel's."""
    is_network = mount.is_network or mount.fstype == "autofs"
    return is_network and mount.target != "/" and not mount.target.startswith("/proc/")
