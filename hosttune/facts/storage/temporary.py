"""Folders for temporary files and compiled code: where no program may be loaded, what one user may
fill, and where else there is room.

Sources: mount(8) (noexec, and `user` and `users`, which imply it), tmpfs(5) (usrquota,
usrquota_block_hardlimit), systemd 258 (units/tmp.mount; src/login/user-runtime-dir.c,
do_tmpfs_quota(): at login each user but root gets a limit of 80 % on /tmp, /var/tmp and /dev/shm,
where they are a tmpfs with quotas), tmpfiles.d(5) (removal is in `ageing`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, make_shared
from hosttune.facts.environment import COMPILED
from hosttune.facts.storage.fstab_options import tmpfs_bytes
from hosttune.facts.storage.fstab_words import USER_WORDS, is_noexec
from hosttune.facts.storage.mounts import mount_below
from hosttune.facts.storage.ways import Ways
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.host.known.file_systems import IN_RAM
from hosttune.quoting import quote
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hosttune.facts import Facts
    from hosttune.facts.storage.ageing_text import AgeRule
    from hosttune.facts.storage.mounts import Mount
    from hosttune.host.door import Reader

TMP, VAR_TMP = "/tmp", "/var/tmp"
_LIMITED = frozenset({TMP, VAR_TMP, "/dev/shm"})
USER_SHARE = 0.8  # of such a tmpfs, for one user (user_record_tmp_limit_scale() of systemd)
_HOME = "/home"
_ENOUGH = 10 << 30  # bytes that a folder for temporary files should have
_QUOTAS = frozenset({"quota", "usrquota"})


@frozen
class NoExec(Fact):
    """A mount from which no program and no shared object can be loaded."""

    target: str  # the mount with noexec
    use: str  # temporary | home | data | cache: what is put there
    why: str  # `line 6 of /etc/fstab`, or what of it implies noexec
    word: str  # noexec, user or users in that line; empty where it is not known
    names: tuple[
        str, ...
        # variables that send compiled code there: TRITON_CACHE_DIR=/scratch (/etc/environment:2)
    ] = ()
    line: int = 0  # of /etc/fstab; 0 where it is not by a line

    @property
    def way_out(self) -> str:
        """What makes it executable, where a person wants that."""
        where = f"in line {self.line} of /etc/fstab" if self.line else "in what mounts it"
        if self.word in USER_WORDS:
            return f"write `{self.word},exec` for `{self.word}` {where}"
        return f"take noexec out of the options {where}"


@frozen
class Temporary(Subject):
    """What has to be known of /tmp, and of other places for temporary files, by those who write
    there.
    """

    noexec: tuple[NoExec, ...] = read_with(lambda self: _find_noexec(self.reader, self.facts))
    # where large temporary files may go: `/var/tmp, or a folder on /data (1750 GiB free)`; empty:
    # nowhere
    elsewhere: str = read_with(lambda self: _find_elsewhere(self.reader, self.facts))


def user_limit(mount: Mount) -> int:
    """What one user may fill of a mount, in bytes; 0 where nothing is known to limit it."""
    if mount.fstype != "tmpfs" or _QUOTAS.isdisjoint(mount.super_options):
        return 0
    for option in mount.super_options:
        name, _, value = option.partition("=")
        if name == "usrquota_block_hardlimit":
            return tmpfs_bytes(value) or 0
    return int(mount.total_bytes * USER_SHARE) if mount.target in _LIMITED else 0


def age_of(path: str, facts: Facts) -> str:
    """What removes files in a folder by age: `30d (/usr/lib/tmpfiles.d/tmp.conf:3)`; empty for
    nothing known.
    """
    rules, above = _make_ages(facts)(), path.rstrip("/")
    while above:
        if nearest := rules.get(above):
            return f"{nearest.age} ({nearest.source})"
        above = above.rpartition("/")[0]
    return ""


@lru_cache(maxsize=1)  # a record may have thousands of rules, and of variables that name a folder
def _make_ages(facts: Facts) -> Callable[[], Mapping[str, AgeRule]]:
    """By folder, the first rule that has an age."""

    def make() -> dict[str, AgeRule]:
        rules = attempt(lambda: facts.ageing.rules)
        found: dict[str, AgeRule] = {}
        for one in () if isinstance(rules, Unreadable) else rules:
            # A rule for / is one whose folder is not known, so it says nothing of this folder.
            if one.age and one.path != "/":
                found.setdefault(one.path.rstrip("/"), one)
        return found

    return make_shared(make)


def _find_noexec(reader: Reader, facts: Facts) -> tuple[NoExec, ...]:
    """Of each mount once, by the first use that is found: temporary files, what variables name,
    homes, data. Without a GPU only /tmp, and what `user` or `users` makes so.
    """
    ways = Ways(reader, facts)
    named = [
        one for one in facts.environment.all if one.name in COMPILED and one.scope == "session"
    ]

    def find_mount(path: str) -> Mount | None:
        way, is_remote = ways.way(path)
        real = way if is_remote else reader.resolve(way)
        return mount_below(facts, real if isinstance(real, str) else way)

    uses: list[tuple[Mount | None, str]] = []
    if not any(one.name == "TMPDIR" for one in named):  # else nothing goes to /tmp by itself
        uses.append((find_mount(TMP), "temporary"))
    caches = [
        (one, find_mount(one.value))
        for one in named
        if one.value.startswith("/") and "$" not in one.value
    ]
    uses += [(mount, "cache") for _, mount in caches]
    shown: dict[str, list[str]] = {}
    for one, mount in caches:
        if mount is not None:
            shown.setdefault(mount.target, []).append(one.shown)
    uses.append((find_mount(_HOME), "home"))
    uses += [(mount, "data") for mount in facts.mounts.local_data]
    found: dict[str, NoExec] = {}
    for mount, use in uses:
        if mount is not None and "noexec" in mount.options and mount.target not in found:
            why, word, line = _find_reason(mount, facts)
            found[mount.target] = NoExec(
                mount.target, use, why, word, tuple(shown.get(mount.target, ())), line
            )
    return tuple(
        one
        for one in found.values()
        if one.use == "temporary" or one.word in USER_WORDS or _compiles(facts)
    )


def _compiles(facts: Facts) -> bool:
    """Whether jobs may compile code for a GPU here. Without, a noexec that someone wrote harms no
    data.
    """
    # Where it is not known, the remark stays.
    return attempt(lambda: facts.gpus.has_gpu or facts.other_gpus.count > 0) is not False


def _find_reason(mount: Mount, facts: Facts) -> tuple[str, str, int]:
    """(what makes it noexec, the word in its line, the line)."""
    entry = attempt(lambda: facts.fstab.by_path.get(mount.target))
    if (
        entry is not None
        and not isinstance(entry, Unreadable)
        and (word := is_noexec(entry.options))
    ):
        where = f"line {entry.line} of /etc/fstab"
        return where if word == "noexec" else f"`{word}` in {where} implies it", word, entry.line
    if mount.target == TMP and "noexec" in facts.tmp.unit_options.split(","):
        return facts.tmp.home_evidence, "", 0
    return mount.unit or "not by a line of /etc/fstab", "", 0


def _find_elsewhere(reader: Reader, facts: Facts) -> str:
    """/var/tmp where it is on a disk with room, and the data disk with most of it."""
    way, is_remote = Ways(reader, facts).way(VAR_TMP)
    below = None if is_remote else mount_below(facts, way)
    places = []
    if (
        below is not None
        and below.fstype not in IN_RAM
        and "noexec" not in below.options
        and _has_room(below)
    ):
        age = age_of(VAR_TMP, facts)
        places.append(VAR_TMP + (f", where files are removed after {age}" if age else ""))
    data = [
        one for one in facts.mounts.local_data if "noexec" not in one.options and _has_room(one)
    ]
    if data:
        best = max(data, key=lambda one: one.available_bytes)
        places.append(f"a folder on {quote(best.target)} ({best.available_bytes >> 30} GiB free)")
    return ", or ".join(places)


def _has_room(mount: Mount) -> bool:
    try:
        return not mount.is_read_only and mount.available_bytes >= _ENOUGH
    except UnknownFact:
        return False
