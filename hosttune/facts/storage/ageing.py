"""What removes files by age: where it goes by access time, access times are read, and noatime is
not free.

Searched: tmpfiles.d, tmpreaper.conf, cachefilesd.conf, robinhood's configuration; and, for commands
that ask for access times, the crontabs of the system and of users, the scripts of cron, units of
systemd, of the system and of users below /home and /root, what Slurm starts around jobs, the
scripts that those start (one level), and what each of these reads in: EnvironmentFile=, `. FILE`
(one level). Of scripts, files of the site of at most 1 MiB are read, and of what each user wrote a
share. Nothing is read or resolved on a network file system, where a dead server would hold the
check. What is not read is reported; but of a home on a network file system only where its user
lingers, so that units run there.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.globs import fits_glob
from hosttune.facts.reading import drop_ins, names_in, require_sure
from hosttune.facts.slurm_conf import SLURM_CONF, slurm_rows
from hosttune.facts.storage.ageing_text import (
    HOME,
    LOCAL_PROGRAMS,
    OWN_FOLDER,
    AgeRule,
    files_in,
    may_be_script,
    parse_cachefilesd,
    parse_robinhood,
    parse_tmpfiles,
    parse_tmpreaper,
    rules_in,
    select,
)
from hosttune.facts.storage.mounts import LOCAL_TYPES, mount_of
from hosttune.facts.storage.ways import Ways
from hosttune.frozen import frozen
from hosttune.host.door import Completed, Stat
from hosttune.host.known.unit_folders import ADMIN, LOCAL, PACKAGES, RUNTIME, SPLIT
from hosttune.host.masking.secrets import is_secret_file
from hosttune.host.reading.paths import PATH_MAX
from hosttune.regex import regex
from hosttune.values import ABSENT, Absent, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader
    from hosttune.values import Answer

T = TypeVar("T")
_TMPFILES = (
    "/etc/tmpfiles.d",
    "/run/tmpfiles.d",
    "/usr/local/lib/tmpfiles.d",
    "/usr/lib/tmpfiles.d",
)
_CRON = (
    "/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly",
    "/etc/cron.yearly",
)  # fmt: skip
SPOOL = "/var/spool/cron/crontabs"  # of users; only root may look
_UNITS = (ADMIN, RUNTIME, LOCAL, "/etc/systemd/user")
_SLURM_FOLDERS = ("/etc/slurm/prolog.d", "/etc/slurm/epilog.d")
_SLURM = regex(r"(?:task|srun)?(?:prolog|epilog)(?:slurmctld)?|healthcheckprogram")
# a file for each user whose units run without a session (loginctl(1))
_LINGER = "/var/lib/systemd/linger"
_USER_UNITS = (".config/systemd/user", ".local/share/systemd/user")
_UNIT = regex(r"^[^\S\n]*Unit[^\S\n]*=[^\S\n]*([^\s@%]*)(%?)", re.MULTILINE)
# A wildcard before the last part would make root list every folder that fits it, so only the last
# part of a path is expanded.
_OPEN = regex(r"[$`<~(]|[*?\[][^*?\[/]*/")
_WILD = regex(r"[*?\[]")
_MOST_NAMES = 2048  # of a folder whose files are looked at
LARGEST = 1 << 20  # bytes of a script
# What is read of the jobs of a user, in characters of their files and of the paths and names that
# they lead to; of the system's own, which an image's author may have written, as much as no host
# has.
OF_ONE_USER, OF_ALL_USERS, OF_SYSTEM = 512 << 10, 2 << 20, 8 << 20
# What each path costs of a share. Without it a crontab of one-letter names could have root look up
# half a million files.
_PER_FILE = 64
_ELF = b"\x7fELF"
# A script on another type is reported and not read: its size and its answers may be whatever the
# program behind that type likes.
_DISKS = LOCAL_TYPES | {
    "zfs",
    "overlay",
    "tmpfs",
    "rootfs",
    "reiserfs",
    "vfat",
    "exfat",
    "ntfs3",
    "squashfs",
    "erofs",
}


@frozen
class Hidden(Fact):
    """A file or folder that could not be looked at."""

    path: str  # the file or folder that could not be looked at
    reason: str  # a sentence that names it
    # it is below /home, or only a job of a user leads there: any user may have it so
    is_of_user: bool = False


@frozen
class Ageing(Fact):
    """All rules that remove by age, in the order of the files, and what could not be looked at."""

    rules: tuple[AgeRule, ...]
    hidden: tuple[Hidden, ...]

    @classmethod
    def look(cls, reader: Reader, facts: Facts) -> Ageing:
        search = _AgeingSearch(reader, facts)
        for part in (
            search.read_settings,
            search.read_cron,
            search.read_units,
            search.read_slurm,
            search.read_homes,
        ):
            part()
        return cls(tuple(dict.fromkeys(search.rules)), tuple(search.hidden.values()))


def list_places_of_users(reader: Reader) -> Iterator[str]:
    """The files and folders with which users say what runs for them: crontabs, and units in
    homes.
    """
    yield _LINGER
    names = reader.list(SPOOL)
    yield from (
        f"{SPOOL}/{name}" for name in (names if isinstance(names, tuple) else ()) if name != "root"
    )
    homes = reader.list("/home")
    yield from (
        f"/home/{name}/{one}"
        for name in (homes if isinstance(homes, tuple) else ())
        for one in _USER_UNITS
    )


class _AgeingSearch:
    """Reads all the files. A refusal is kept, and the search goes on."""

    def __init__(self, reader: Reader, facts: Facts) -> None:
        self.reader = reader
        self.ways = Ways(reader, facts)
        self.rules: list[AgeRule] = []
        # the first reason of each path, a job of the system's before one of a user
        self.hidden: dict[str, Hidden] = {}
        self._whose = ""  # the user whose jobs are searched now; empty: the system's own
        # a file leads to more where it is read in, and at root's cost
        self._seen: set[tuple[str, str, int]] = set()
        self._spent: dict[str, int] = {}  # of each user; empty: the system's own
        self._of_users = 0
        self._listed: dict[str, tuple[str, ...]] = {}
        self._programs: dict[str, frozenset[str] | None] = {}  # in LOCAL_PROGRAMS; None: not known
        self._real: dict[str, str] = {}

    # What is searched

    def read_settings(self) -> None:
        # Before /usr was merged, /lib was a folder of its own; now it is a link.
        split = () if isinstance(self.reader.link("/lib"), str) else ("/lib/tmpfiles.d",)
        files = self._ask(_TMPFILES[0], lambda _: drop_ins(self.reader, (*_TMPFILES, *split)))
        self._add(
            select(
                (path, parse_tmpfiles(self._content(path)))
                for path in (() if files is ABSENT else files)
            )
        )
        # Debian's tmpreaper cleans daily as its file says, while its cron script is there.
        if isinstance(self.reader.stat("/etc/cron.daily/tmpreaper"), Stat):
            self._add(parse_tmpreaper(self._content("/etc/tmpreaper.conf"), "/etc/tmpreaper.conf"))
        self._add(
            parse_cachefilesd(self._content("/etc/cachefilesd.conf"), "/etc/cachefilesd.conf")
        )
        for path in self._paths_in("/etc/robinhood.d"):
            self._add(parse_robinhood(self._content(path), path))

    def read_cron(self) -> None:
        paths = [path for folder in _CRON for path in self._paths_in(folder)]
        for path in ("/etc/crontab", "/etc/anacrontab", *paths):
            is_table = path.startswith(("/etc/crontab", "/etc/cron.d/"))
            # The script of tmpreaper has its folders in variables, and would count as a purge of /.
            # Its settings are read in `read_settings`.
            if not path.endswith(("/.placeholder", "/tmpreaper")):
                kind = (
                    "table" if is_table else "anacrontab" if path == "/etc/anacrontab" else "script"
                )
                self._search(path, self._content(path), kind)
        # The smallest first, so that a large one of one user does not keep those of others from
        # being read.
        for size, path in sorted((self._size_of(path), path) for path in self._paths_in(SPOOL)):
            self._whose = user = path.rpartition("/")[2]
            if self._may_read(user, size, path):
                self._search(path, self._content(path), "crontab", user)
        self._whose = ""

    def _size_of(self, path: str) -> int:
        """0 where it is not known; reading has a limit of its own."""
        stat = (
            None
            if self._is_not_of_image(path) or self.ways.way(path)[1]
            else self.reader.stat(path)
        )
        return stat.size if isinstance(stat, Stat) else 0

    def read_units(self) -> None:
        folders = (PACKAGES,) if isinstance(self.reader.link("/lib"), str) else (PACKAGES, SPLIT)
        paths = [
            path for folder in _UNITS for path in self._unit_paths(folder, self._names(folder))
        ]
        started, beginnings = self._find_timed((*_UNITS, *folders))
        for folder in folders:
            for name in self._names(folder):
                stem, dot, kind = name.rpartition(".")
                # Packages bring many services that nothing starts. Each that asks for access times
                # would keep all data disks from noatime.
                is_started = stem.partition("@")[0] in started or stem.startswith(beginnings)
                paths += [f"{folder}/{name}"] * (dot + kind == ".service" and is_started)
        for path in paths:
            if self._is_unmasked(path):
                self._search(path, self._content(path), "unit")

    def _find_timed(self, folders: Iterable[str]) -> tuple[set[str], tuple[str, ...]]:
        """What timers start: the names of services up to `@` or `.service`, and beginnings of
        names, where a specifier follows.
        """
        started: set[str] = set()
        beginnings: list[str] = []
        for folder in folders:
            for name in self._names(folder):
                stem, _, kind = name.removesuffix(".d").rpartition(".")
                if kind != "timer":
                    continue
                path = f"{folder}/{name}"
                files = self._paths_in(path) if name.endswith(".d") else [path]
                named = [
                    one
                    for file in files
                    if self._is_unmasked(file)
                    for one in _UNIT.findall(self._content(file))
                ]
                started |= {unit.removesuffix(".service") for unit, _ in named} | {
                    stem.partition("@")[0]
                }
                beginnings += [unit for unit, specifier in named if specifier]
        return started, tuple(beginnings)

    def _is_unmasked(self, path: str) -> bool:
        # systemctl(1) masks a unit by such a link, and then nothing starts it.
        return self.reader.link(path) != "/dev/null"

    def read_slurm(self) -> None:
        paths = [path for folder in _SLURM_FOLDERS for path in self._paths_in(folder)]

        def read_part(path: str) -> str:
            if "%" in path.rpartition("/")[2]:
                self._hide(path, f"{path}, which slurm.conf includes, is not known by this name")
            return self._content(path)

        for row in (row for main in SLURM_CONF for row in slurm_rows(main, read_part)):
            for value in (value for key, value in row.values.items() if _SLURM.fullmatch(key)):
                for program in value.split(","):
                    path = (
                        program
                        if program.startswith("/")
                        else f"{posixpath.dirname(row.path)}/{program}"
                    )
                    paths += self._find_matching(path, row.place, "")
        for path in dict.fromkeys(paths):
            self._search(path, self._script(path, path, "", 0))

    def read_homes(self) -> None:
        """Units that users wrote in their home folders."""
        lingering = set(self._names(_LINGER))
        homes = (
            {}
            if self.ways.way("/home")[1]
            else {name: f"/home/{name}" for name in self._names("/home")}
        )
        homes["root"] = "/root"
        for name in sorted(lingering - {*homes}):
            self._whose = name
            reason = f"units of {name}, whose home is not a local folder of /home, are not read"
            self._hide(f"{_LINGER}/{name}", reason)
        for name, home in homes.items():
            self._whose = name
            for folder in (f"{home}/{one}" for one in _USER_UNITS):
                if (self.ways.way(folder)[1] and name not in lingering) or self._is_remote(folder):
                    continue
                try:
                    names = names_in(self.reader, folder)
                except UnknownFact as unknown:
                    self._hide("/home", f"units of users: {unknown.reason}")
                    continue
                for path in self._unit_paths(folder, names, name):
                    if not self._may_read(name, _PER_FILE + len(path), folder):
                        break
                    self._search(path, self._script(path, path, name, 0), "unit", name)

    def _unit_paths(self, folder: str, names: Iterable[str], user: str = "") -> Iterator[str]:
        for name in names:
            if name.endswith(".service.d"):
                yield from (
                    path
                    for path in self._paths_in(f"{folder}/{name}", user)
                    if path.endswith(".conf")
                )
            elif name.endswith(".service"):
                yield f"{folder}/{name}"

    def _search(
        self, path: str, content: str, kind: str = "script", user: str = "", level: int = 0
    ) -> None:
        """A job (level 0), what it reads in (1), a script that one of these starts (2), or what
        that reads in (3).
        """
        rules = tuple(rules_in(content, path, kind))
        if self._may_read(
            user, sum(len(f"{one.path}{one.age}{one.source}") for one in rules) if user else 0, path
        ):
            self._add(rules)
        home = "/root" if user == "root" else f"/home/{user}" if user else ""
        for number, how, name in files_in(content, kind) if content else ():
            # Levels only grow, so the search also ends where two files read in each other.
            follows = level | 1 if how == "read" else 2
            if follows <= level:
                continue
            source, target = (
                f"{path}:{number}",
                name if how == "name" else _locate(name, path, home),
            )
            if not self._may_read(user, _PER_FILE + len(target), path):
                return
            if not target and how == "read":
                self._hide(path, f"line {number} of {path} reads in a file whose name is not known")
            for one in self._find_started(target, how, source, user):
                if one != target and not self._may_read(user, _PER_FILE + len(one), path):
                    return
                self._search(one, self._script(one, source, user, follows), "script", user, follows)

    def _add(self, rules: Iterable[AgeRule]) -> None:
        """With the place that a link leads to."""
        for rule in rules:
            if rule.path not in self._real:
                path, is_remote = self.ways.way(rule.path)
                real = path if is_remote else self.reader.resolve(rule.path)
                self._real[rule.path] = real if isinstance(real, str) else rule.path
            self.rules.append(
                AgeRule(self._real[rule.path], rule.age, rule.source, rule.uses_atime)
            )

    def _find_started(self, path: str, how: str, source: str, user: str) -> list[str]:
        """The files that a path of `files_in` means now."""
        if how == "name":
            return [f"{folder}/{path}" for folder in LOCAL_PROGRAMS if self._may_hold(folder, path)]
        if not path or not may_be_script(path):
            return []
        if how == "folder":
            return self._paths_in(path, user)
        if how == "word":
            stat = None if self.ways.way(path)[1] else self.reader.stat(path)
            return (
                [path]
                if isinstance(stat, Stat) and stat.type == "file" and stat.mode & 0o111
                else []
            )
        return self._find_matching(path, source, user)

    def _may_hold(self, folder: str, name: str) -> bool:
        """Whether a program may be there. What is none is not looked for: a record would keep each
        word that a line begins with, those of a key or a list of passwords too.
        """
        if folder not in self._programs:
            names = () if self._is_remote(folder) else self.reader.list(folder)
            self._programs[folder] = (
                None
                if isinstance(names, Unreadable)
                else frozenset(() if names is ABSENT else names)
            )
        programs = self._programs[folder]
        return programs is None or name in programs

    def _find_matching(self, path: str, source: str, user: str) -> list[str]:
        """The files that a pattern means now; wildcards in its last part only."""
        folder, _, pattern = path.rpartition("/")
        if not _WILD.search(pattern):
            return [path]
        names = self._names(folder or "/", user)
        if len(names) > _MOST_NAMES:
            self._hide(
                folder,
                f"{folder} ({source}) holds more than {_MOST_NAMES} files, which are not read",
            )
            return []
        try:
            return [f"{folder}/{name}" for name in names if fits_glob(name, pattern)]
        except UnknownFact as unknown:
            self._hide(source.rpartition(":")[0], f"{source}: {unknown.reason}")
            return []

    # How it is read

    def _hide(self, path: str, reason: str) -> None:
        found = Hidden(path, reason, self._whose not in {"", "root"} or path.startswith("/home/"))
        if path not in self.hidden or (self.hidden[path].is_of_user and not found.is_of_user):
            self.hidden[path] = found

    def _ask(self, path: str, look: Callable[[str], Answer[T]]) -> T | Absent:
        """What is found at a path; a refusal is kept."""
        try:
            return require_sure(look(path))
        except UnknownFact as unknown:
            self._hide(path, unknown.reason)
            return ABSENT

    def _is_not_of_image(self, path: str) -> bool:
        """Of an image /run is made anew when it boots."""
        return self.reader.persistent_only and path.startswith("/run/")

    def _is_remote(self, path: str, source: str = "") -> bool:
        """Whether the way to a path leads to another machine; that is then reported."""
        is_remote = self.ways.way(path)[1]
        if is_remote:
            where = f" ({source})" if source else ""
            self._hide(path, f"{path}{where} is on a network or FUSE file system and is not read")
        return is_remote

    def _content(self, path: str) -> str:
        if self._is_not_of_image(path) or self._is_remote(path):
            return ""
        content = self._ask(path, self.reader.read)
        return content.decode("utf-8", "replace") if isinstance(content, bytes) else ""

    def _names(self, folder: str, user: str = "") -> tuple[str, ...]:
        """What is in a folder. It counts each time, because links give one folder any number of
        paths.
        """
        cost = 0
        if folder not in self._listed:
            if not self._may_list(folder, user):
                return ()  # the system, or another user, may still list it
            names = self._ask(folder, self.reader.list)
            # It may hold more names than are listed, which took its time.
            cost = OF_ONE_USER // 8 if names is ABSENT and folder in self.hidden else 0
            self._listed[folder] = () if names is ABSENT else names
        names = self._listed[folder]
        if self._may_read(user, cost + sum(map(len, names)) + len(names), folder):
            return names
        self._spent[user] = OF_ONE_USER if user else OF_SYSTEM  # it was listed
        return ()

    def _may_list(self, folder: str, user: str) -> bool:
        is_local = not self._is_not_of_image(f"{folder}/") and not self._is_remote(folder)
        return is_local and self._may_read(user, _PER_FILE + len(folder), folder)

    def _paths_in(self, folder: str, user: str = "") -> list[str]:
        return [f"{folder}/{name}" for name in self._names(folder, user)]

    def _may_read(self, user: str, cost: int, path: str) -> bool:
        """Whether so much more is read of a user's jobs, or of the system's own; else the file is
        hidden.
        """
        left = (OF_ONE_USER if user else OF_SYSTEM) - self._spent.get(user, 0)
        whose = f"the jobs of {user}" if user and cost > left else "all jobs"
        if cost <= left and (not user or self._of_users + cost <= OF_ALL_USERS):
            self._spent[user] = self._spent.get(user, 0) + cost
            self._of_users += cost if user else 0
            return True
        self._hide(path, f"{path} is more than is read of {whose}, and is not read")
        return False

    def _script(self, path: str, source: str, user: str, level: int) -> str:
        """The text of a script; empty for what is none, and for one that was read already for this
        user and level: what a user names first is still to be read for the system, and where it is
        read in it leads to more.
        """
        key = (path, user, level)
        if key in self._seen or self._is_not_of_image(path):
            return ""
        self._seen.add(key)
        if self._is_remote(path, source):
            return ""
        real = self.reader.resolve(path)
        # A link in /usr/local/bin may lead to a program of the distribution: that one is judged by
        # its true name.
        place = real if isinstance(real, str) else path
        stat = (
            self._ask(path, self.reader.stat) if place == path or may_be_script(place) else ABSENT
        )
        if stat is ABSENT or stat.type != "file":
            return ""
        mount, is_large, reason = mount_of(self.ways.mounts, place), stat.size > LARGEST, ""
        if is_secret_file(path) or is_secret_file(place):
            reason = "is called as secrets are"
        elif mount is not None and mount.fstype not in _DISKS:
            reason = f"is on {mount.fstype}, which is no disk"
        elif (is_large or user) and self._is_compiled(path):
            return ""
        elif is_large:
            reason = "is larger than 1 MiB"
        if reason:
            self._hide(path, f"{path} ({source}) {reason}, and is not read")
        content = (
            self._content(path) if not reason and self._may_read(user, stat.size, path) else ""
        )
        # In a binary the patterns would match by chance.
        return "" if "\0" in content[:4096] else content

    def _is_compiled(self, path: str) -> bool:
        """Whether a file begins as compiled programs do (elf(5)), so it is no script; no more of it
        is read.
        """
        start = self.reader.query(("head", "--bytes=4", path))
        return isinstance(start, Completed) and start.stdout == _ELF


def _locate(name: str, path: str, home: str) -> str:
    """Where a path of `files_in` leads for the file at `path`; empty where that is not known."""
    if name.startswith(HOME) and not home:
        return ""
    whole = (
        name.replace(OWN_FOLDER, posixpath.dirname(path), 1)
        if name.startswith(OWN_FOLDER)
        else name
    )
    whole = whole.replace(HOME, home, 1)
    is_known = (
        whole.startswith("/") and whole != "/" and not _OPEN.search(whole) and len(whole) < PATH_MAX
    )
    return posixpath.normpath(whole) if is_known else ""
