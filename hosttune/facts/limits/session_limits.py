"""The limits of a new login session, as pam_limits makes them: `session_limits["memlock"].soft`.

pam_limits reads limits.conf, then limits.d/*.conf in the order of the C locale; the last line for a
domain counts, a user's before a group's before `*`, and `*` is not for root (limits.conf(5)). What
no line sets it takes from process 1 in Debian and Ubuntu (/proc/1/limits), open files at most up to
FD_SETSIZE of the soft limit. Services read none of it. The limits of the shell that started
hosttune say nothing: they may be older than the files, or set by hand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy, make_shared
from hosttune.facts.lookups import Lookup
from hosttune.facts.placed import Placed
from hosttune.facts.reading import names_in, read_text, read_texts, require_known
from hosttune.facts.subject import Subject, fact
from hosttune.facts.versions import compare_versions
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

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
# Items of limits.conf(5) besides, Debian's chroot among them.
_OTHER_ITEMS = frozenset({
    "chroot", "cpu", "maxlogins", "maxsyslogins", "nice", "nonewprivs", "priority", "rss", "rtprio",
})  # fmt: skip
_UNLIMITED = frozenset({"unlimited", "infinity", "-1"})
_INIT = "/proc/1/limits"
_FD_SETSIZE = 1024  # select(2)
KERNEL_NR_OPEN = 1048576  # fs/file_table.c: the value of sysctl_nr_open that the kernel starts with
_LEAST_NR_OPEN = 64  # fs/file_table.c: sysctl_nr_open_min, 32 or 64
_TAKES_UNLIMITED = "1.5.2"


def parse_amount(value: str) -> float | None:
    """A limit as a number, infinite for none; None for what pam_limits would not take."""
    if value in _UNLIMITED:
        return math.inf
    return parse_digits(value, None)


def parse_lines(content: str) -> Iterator[tuple[int, str, str, str, str]]:
    """(line, domain, soft|hard, item, value) of one file; `-` is both."""
    for number, row in enumerate(content.splitlines(), 1):
        words = row.partition("#")[0].split()
        if len(words) == 4 and words[1] in {"soft", "hard", "-"}:
            for kind in ("soft", "hard") if words[1] == "-" else (words[1],):
                yield number, words[0], kind, words[2], words[3]


def find_skipped(content: str) -> Iterator[tuple[int, str]]:
    """(line, why) of each line that pam_limits skips with a word in the log of logins
    (parse_config_file(), process_limit()): it takes four words, or two of which the second is `-`,
    in capitals as well.
    """
    for number, row in enumerate(content.splitlines(), 1):
        words = row.partition("#")[0].lower().split()
        if not words or (len(words) == 2 and words[1] == "-"):
            continue
        if len(words) < 4:
            yield number, "is not `domain soft|hard|- item value`"
        elif words[1] not in {"soft", "hard", "-"}:
            yield number, f"has `{words[1]}` in the place of soft, hard or -"
        elif words[2] not in ITEMS and words[2] not in _OTHER_ITEMS:
            near = get_close_matches(words[2], ITEMS, 1, 0.75)
            yield (
                number,
                (
                    "has no item of limits.conf: "
                    f"`{words[2]}`{f' (is {near[0]} meant?)' if near else ''}"
                ),
            )


@frozen
class LimitLine(Fact):
    """One limit of one domain, as a file gives it."""

    domain: str  # a user, @group, *
    kind: str  # soft | hard
    given: Placed


@frozen
class SessionLimit(Fact):
    """One item of limits.conf(5), in its unit there."""

    lines: tuple[LimitLine, ...]  # of all files, in the order in which they are read
    soft: str  # of a new session where no line sets it: a number, or unlimited; empty for an image
    hard: str  # the same of the hard limit


@frozen
class SessionLimits(Subject):
    """`session_limits["ITEM"]`, for every item; only what was asked for is kept."""

    @fact
    def entries(self) -> Mapping[str, SessionLimit]:
        return Lookup(self._look)

    @fact
    def refused(self) -> tuple[LimitLine, ...]:
        """Hard limits of open files with which pam_limits refuses a login."""
        return tuple(_find_refused(self.facts, self._look("nofile")))

    @fact
    def refused_later(self) -> tuple[LimitLine, ...]:
        """More of them from the next boot on, as a file sets fs.nr_open lower then."""
        return tuple(_find_refused_later(self.facts, self._look("nofile"), self.refused))

    @fact
    def _files(self) -> tuple[tuple[str, str], ...]:
        return read_files(self.reader)

    def _look(self, item: str) -> SessionLimit:
        default = make_shared(_read_default, self.reader, item)
        return SessionLimit(
            lines=lazy(lambda: tuple(_find_lines(_normalize_item(item), self._files))),
            soft=lazy(lambda: default()[0]),
            hard=lazy(lambda: default()[1]),
        )

    @property
    def refused_text(self) -> str:
        """`* hard nofile unlimited (/etc/security/limits.conf:2)`, the first of many."""
        return _describe(self.refused)

    @property
    def refused_later_text(self) -> str:
        """The same of the next boot."""
        return _describe(self.refused_later)

    def __getitem__(self, item: str) -> SessionLimit:
        return self.entries[item]

    @staticmethod
    def name_fault(item: str) -> tuple[str, str] | None:
        """What is wrong with an item as a rule writes it, and the way out."""
        return (
            None
            if item in ITEMS
            else (f"{item!r} is no item of limits.conf", f"those are {', '.join(ITEMS)}")
        )


def _find_refused(facts: Facts, nofile: SessionLimit) -> Iterator[LimitLine]:
    """The kernel refuses a hard limit above fs.nr_open (kernel/sys.c, do_prlimit), and pam_limits
    the login with it. Of `unlimited` Linux-PAM makes fs.nr_open from 1.5.2 on
    (https://github.com/linux-pam/linux-pam/pull/353).
    """
    hard = {one.domain: one for one in nofile.lines if one.kind == "hard"}
    amounts = {domain: parse_amount(one.given.value) for domain, one in hard.items()}
    # fs.nr_open is never below this, so that smaller limits need no look at it.
    if not any((value or 0) > _LEAST_NR_OPEN for value in amounts.values()):
        return
    live = None if facts.reader.persistent_only else attempt(lambda: facts.limits.nr_open)
    # Of an image the live value is not known, so the one that the kernel starts with stands for it.
    most = live if isinstance(live, int) else KERNEL_NR_OPEN
    version = facts.packages["libpam-modules"].version if math.inf in amounts.values() else ""
    is_old = bool(version) and compare_versions(version, _TAKES_UNLIMITED) < 0
    for domain, one in hard.items():
        value = amounts[domain] or 0
        if most < value < math.inf or (value == math.inf and is_old):
            yield one


def _find_refused_later(
    facts: Facts, nofile: SessionLimit, now: tuple[LimitLine, ...]
) -> Iterator[LimitLine]:
    """Of the next boot: systemd raises fs.nr_open when it starts, and systemd-sysctl sets it after
    that.
    """
    setting = facts.sysctl_at_boot["fs.nr_open"]
    most = setting.number if setting.is_set else math.inf
    for one in {line.domain: line for line in nofile.lines if line.kind == "hard"}.values():
        if most < (parse_amount(one.given.value) or 0) < math.inf and one not in now:
            yield one


def _describe(lines: tuple[LimitLine, ...]) -> str:
    return ", ".join(
        f"{one.domain} {one.kind} nofile {one.given.value} ({one.given.place})" for one in lines[:3]
    )


def _normalize_item(item: str) -> str:
    if fault := SessionLimits.name_fault(item):
        raise UnknownFact(fault[0])
    return item


def read_files(reader: Reader) -> tuple[tuple[str, str], ...]:
    """(path, text) in the order in which pam_limits reads them."""
    listed = sorted(name for name in names_in(reader, FOLDER) if name.endswith(".conf"))
    return tuple(read_texts(reader, (FILE, *(f"{FOLDER}/{name}" for name in listed))))


def _find_lines(item: str, files: Iterable[tuple[str, str]]) -> Iterator[LimitLine]:
    for path, content in files:
        for number, domain, kind, its, value in parse_lines(content):
            if its == item:
                yield LimitLine(domain, kind, Placed(value, path, number))


def _read_default(reader: Reader, item: str) -> tuple[str, str]:
    """(soft, hard) that pam_limits takes from process 1."""
    title, unit = ITEMS[_normalize_item(item)]
    if reader.persistent_only:
        return "", ""
    match = re.search(
        rf"^{title} +(\d+|unlimited) +(\d+|unlimited)",
        require_known(read_text(reader, _INIT), _INIT),
        re.MULTILINE,
    )
    if match is None:
        raise UnknownFact(f"{_INIT} has no {title!r}")
    soft, hard = (
        word if word == "unlimited" else str(int(word) // unit) for word in match.groups()
    )
    if item == "nofile" and (soft == "unlimited" or int(soft) > _FD_SETSIZE):
        soft = str(_FD_SETSIZE)
    return soft, hard
