"""Pools that file systems and volumes are cut from: those of ZFS, and thin pools of LVM. What they
lost, and how full.

OpenZFS: /proc/spl/kstat/zfs/POOL/state, readable by all (module/os/linux/zfs/spa_stats.c),
zpool-list(8), zpool-status(8), zfs-list(8). A pool that is suspended holds who asks zpool about it,
so it is not asked. Thin pools: the line of `dmsetup status` (kernel:
Documentation/admin-guide/device-mapper/thin-provisioning.rst), for root only; drivers/md/dm-snap.c
(a snapshot that overflowed: Invalid, Overflow); --noflush, because without it the kernel commits
the pool's metadata first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy, make_shared, make_unread
from hosttune.facts.reading import (
    if_absent,
    names_in,
    parse_or_unknown,
    read_line,
    require_known,
    require_sure,
)
from hosttune.facts.storage.disks import find_health_commands
from hosttune.facts.storage.kernel_types import find_lacking_kernel
from hosttune.facts.storage.raid import name_volume
from hosttune.facts.storage.ways import ways_of
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

ZFS = "/proc/spl/kstat/zfs"
DATASETS = (
    "zfs",
    "list",
    "-H",
    "-r",
    "-t",
    "filesystem",
    "-o",
    "name,mountpoint,canmount,mounted,keystatus",
)
THIN = ("dmsetup", "status", "--noflush", "--target", "thin-pool")
SNAPSHOTS = ("dmsetup", "status", "--noflush", "--target", "snapshot")
_BLOCK = "/sys/block"
_THIN_POOL = regex(r"LVM-.*-tpool")
_NAME = regex(r"[A-Za-z][\w.: -]{0,254}")  # zpoolconcepts(7); never an option
_TIMEOUT_S = 10.0
_MOST = 6  # file systems that a sentence names
_DEAD = frozenset({"FAULTED", "SUSPENDED", "UNAVAIL", "REMOVED", "OFFLINE"})
_ERRORS = regex(
    r"^errors: (?:(No known data errors)|(\d+) data errors|(Permanent errors))", re.MULTILINE
)
_COUNT = r" +(\d[\d.]*[A-Z]?)"  # 0, 12, 1.2K
DEVICE = regex(  # indent, name, state and counts of a row of `zpool status`
    rf"\t( *)(\S+) +(ONLINE|DEGRADED|FAULTED|UNAVAIL|REMOVED"
    rf"|OFFLINE)(?:{_COUNT}{_COUNT}{_COUNT})?(?: .*)?"
)
_FAILED = frozenset({"FAULTED", "UNAVAIL", "REMOVED"})
# `resilver (mirror-0) in progress` of zpool replace -s (print_rebuild_status() of OpenZFS)
_REBUILT = regex(r"^ *scan: resilver (?:\(\S+\) )?in progress", re.MULTILINE)
_THIN_LINE = regex(
    r"(.+): \d+ \d+ thin-pool (?:(Fail|Error)|\d+ (\d+)/(\d+) (\d+)/(\d+) \S+ (.*))", re.DOTALL
)
_COW = regex(r"LVM-.*-cow")  # what a snapshot keeps of its volume
_LOST = regex(r"([\w.+-]{1,128}): \d{1,20} \d{1,20} snapshot (Invalid|Overflow)")
_STOPS = ("ro", "out_of_data_space", "needs_check")


@frozen
class Pool(Fact):
    """One pool."""

    name: str  # tank; vg0-pool-tpool, as dmsetup calls it
    kind: str  # ZFS | thin pool | snapshot
    # the word that tells that it takes no writes, or answers nothing: SUSPENDED, ro, needs_check
    # ...
    stopped: str
    is_degraded: bool  # a disk of it does not work
    is_rebuilt: bool  # its data are being copied to a new disk
    data_errors: int  # files and blocks that are lost, as far as it knows
    used_percent: float  # of its space
    metadata_percent: float  # of the space for the metadata of a thin pool; 0 of ZFS
    erring: tuple[
        str, ...
        # disks of ZFS with errors since the last zpool clear, and of a whole pool those that failed
    ] = ()
    health_commands: str = ""  # of ZFS: the commands that show how the disks with errors are
    failed: tuple[str, ...] = ()  # disks of ZFS that do not work, as zpool names them
    # `tank/home (/home, which is not empty)`: what a boot should have mounted of ZFS
    unmounted: tuple[str, ...] = ()
    # of ZFS: the kernel of the next boot, where it has no module zfs; else empty
    lacking_kernel: str = ""

    @property
    def volume(self) -> str:
        """`vg0/pool` of LVM, as lvm(8) calls it; of ZFS its name."""
        return self.name if self.kind == "ZFS" else name_volume(self.name.removesuffix("-tpool"))


@frozen
class Pools(Subject):
    """All of them."""

    @fact
    def all(self) -> tuple[Pool, ...]:
        return () if self.reader.persistent_only else _list_all(self.reader, self.facts)


def _list_all(reader: Reader, facts: Facts) -> tuple[Pool, ...]:
    return (*_of_zfs(reader, facts), *_of_thin(reader, facts), *_of_snapshots(reader, facts))


def _of_zfs(reader: Reader, facts: Facts) -> tuple[Pool, ...]:
    folders = (name for name in names_in(reader, ZFS) if _is_folder(reader, f"{ZFS}/{name}"))
    return tuple(_read_zfs(reader, facts, name) for name in folders)


def _is_folder(reader: Reader, path: str) -> bool:
    stat = require_sure(reader.stat(path))
    return isinstance(stat, Stat) and stat.type == "directory"


def _read_zfs(reader: Reader, facts: Facts, name: str) -> Pool:
    state = require_known(read_line(reader, f"{ZFS}/{name}/state"), f"{ZFS}/{name}/state")
    if state in _DEAD:
        return Pool(name, "ZFS", state, False, False, 0, 0.0, 0.0)
    status = make_shared(_ask_zpool, reader, ("zpool", "status", name))
    return Pool(
        name=name,
        kind="ZFS",
        stopped="",
        is_degraded=state == "DEGRADED",
        is_rebuilt=lazy(lambda: bool(_REBUILT.search(status()))),
        data_errors=lazy(lambda: parse_or_unknown(data_errors_in, status())),
        used_percent=lazy(
            lambda: parse_or_unknown(
                percent_of, _ask_zpool(reader, ("zpool", "list", "-H", "-o", "capacity", name))
            )
        ),
        metadata_percent=0.0,
        erring=lazy(lambda: erring_in(status(), is_whole=state == "ONLINE")),
        health_commands=lazy(
            lambda: find_health_commands(
                facts, (row.split(" ")[0] for row in erring_in(status(), is_whole=True))
            )
        ),
        failed=lazy(lambda: failed_in(status())),
        unmounted=lazy(_find_unmounted, reader, facts, name),
        lacking_kernel=lazy(find_lacking_kernel, facts, "zfs"),
    )


def _find_unmounted(reader: Reader, facts: Facts, name: str) -> tuple[str, ...]:
    """Nothing where zfs is not asked, as in records of before. What has no folder, asks for no
    mount, or is locked by its key is meant so.
    """
    printed = attempt(_ask_zpool, reader, (*DATASETS, name))
    rows = (row.split("\t") for row in printed.splitlines()) if isinstance(printed, str) else ()
    found: list[str] = []
    for dataset, target, *rest in (row for row in rows if len(row) == len(DATASETS[-1].split(","))):
        if rest[:2] == ["on", "no"] and rest[2] != "unavailable" and target.startswith("/"):
            if len(found) == _MOST:
                return (*found, "and more")
            at = attempt(lambda: facts.mounts.at)
            if not isinstance(at, Unreadable) and target in at:
                found.append(f"{dataset} ({target}, where {at[target].source} is mounted)")
                continue
            names = () if ways_of(facts).way(target)[1] else attempt(names_in, reader, target)
            found.append(
                f"{dataset} "
                f"({target}{', which is not empty' if isinstance(names, tuple) and names else ''})"
            )
    return tuple(found)


def erring_in(status: str, *, is_whole: bool) -> tuple[str, ...]:
    """The disks of which `zpool status` counts errors: `sda (0 read, 0 write, 12 checksum)`; of a
    pool that is whole also those that failed, a cache, log or spare: `sdb UNAVAIL`. A group is
    named where none of its disks is.
    """
    rows = [match for line in status.splitlines() if (match := DEVICE.fullmatch(line))]
    found: dict[str, str] = {}
    groups: list[tuple[int, str]] = []  # indent and name of what the row is in
    for row in rows:
        indent, name = len(row[1]), row[2]
        while groups and groups[-1][0] >= indent:
            groups.pop()
        # A spare or a cache that cannot be opened has no counts in its row.
        errors = [number for number in row.groups()[3:] if number]
        if any(number != "0" for number in errors):
            found[name] = "{} ({} read, {} write, {} checksum)".format(name, *errors)
        elif is_whole and row[3] in _FAILED:
            found[name] = f"{name} {row[3]}"
        if name in found:
            for _, above in groups:
                found.pop(above, None)
        groups.append((indent, name))
    return tuple(found.values())


def failed_in(status: str) -> tuple[str, ...]:
    """The devices that do not work, as `zpool status` names them."""
    rows = (match for line in status.splitlines() if (match := DEVICE.fullmatch(line)))
    return tuple(row[2] for row in rows if row[3] in _FAILED)


def _ask_zpool(reader: Reader, argv: tuple[str, ...]) -> str:
    if not _NAME.fullmatch(argv[-1]):
        raise UnknownFact(f"the pool {argv[-1]!r} has no name that zpool takes")
    return _ask_program(reader, argv)


def _ask_program(reader: Reader, argv: tuple[str, ...]) -> str:
    done = require_sure(reader.query(argv, timeout_s=_TIMEOUT_S))
    if done is ABSENT:
        raise UnknownFact(f"{argv[0]} is not installed")
    if done.status != 0:
        raise UnknownFact(f"{argv[0]} ended with status {done.status}: {done.errors.strip()[:200]}")
    return done.text


def data_errors_in(status: str) -> int:
    """How many data errors `zpool status` tells. Raises ValueError where it tells nothing of
    them.
    """
    found = _ERRORS.search(status)
    if not found:
        message = "zpool status tells nothing of data errors"
        raise ValueError(message)
    # `Permanent errors` comes with names of files in place of a count.
    return 0 if found[1] else int(found[2] or 1)


def percent_of(printed: str) -> float:
    """`62%` or 62. Raises ValueError for anything else."""
    percent = float(printed.strip().rstrip("%"))
    # float() also takes `nan`, which no bound of a rule would catch.
    if not 0 <= percent <= 100:
        raise ValueError(f"zpool printed {printed.strip()[:40]!r}, which is not a percentage")
    return percent


def _of_thin(reader: Reader, facts: Facts) -> tuple[Pool, ...]:
    """Those that LVM made: everybody sees that they are there, and root what is in them."""
    pools = make_shared(_ask_dmsetup, reader)
    return tuple(
        _make_thin(name, pools) for name in sorted(_list_mapped(reader, facts, _THIN_POOL))
    )


def _of_snapshots(reader: Reader, facts: Facts) -> tuple[Pool, ...]:
    """Those that are lost, where root asks; the others are no pools."""
    own = (
        {name.removesuffix("-cow") for name in _list_mapped(reader, facts, _COW)}
        if reader.is_privileged
        else ()
    )
    printed = attempt(_ask_program, reader, SNAPSHOTS) if own else ""
    rows = map(_LOST.fullmatch, printed.splitlines() if isinstance(printed, str) else ())
    return tuple(
        Pool(row[1], "snapshot", row[2], False, False, 0, 0.0, 0.0)
        for row in rows
        if row and row[1] in own
    )


def _list_mapped(reader: Reader, facts: Facts, kind: re.Pattern[str]) -> list[str]:
    """The names of mapped devices of one kind. None of a user's files."""
    devices = [
        device
        for device in names_in(reader, _BLOCK)
        if device.startswith("dm-")
        and kind.fullmatch(if_absent(read_line(reader, f"{_BLOCK}/{device}/dm/uuid"), ""))
    ]
    attached = attempt(lambda: facts.disks.attached) if devices else frozenset()
    of_users = frozenset() if isinstance(attached, Unreadable) else attached
    own = (device for device in devices if device not in of_users)
    return [if_absent(read_line(reader, f"{_BLOCK}/{device}/dm/name"), device) for device in own]


def _make_thin(name: str, pools: Callable[[], Mapping[str, Pool]]) -> Pool:
    try:
        return pools()[name]
    except UnknownFact as unknown:
        reason = unknown.reason
    except KeyError:
        reason = f"dmsetup tells nothing of {name}"
    hidden = make_unread(reason)
    return Pool(name, "thin pool", hidden, False, False, 0, hidden, hidden)


def _ask_dmsetup(reader: Reader) -> Mapping[str, Pool]:
    if not reader.is_privileged:
        raise UnknownFact("needs root: how full the thin pools of LVM are")
    return parse_or_unknown(parse_thin, _ask_program(reader, THIN))


def parse_thin(output: str) -> Mapping[str, Pool]:
    """Name -> pool, of `dmsetup status`. Raises ValueError for a line that is none."""
    found = {}
    for row in filter(None, output.splitlines()):
        match = _THIN_LINE.fullmatch(row.strip())
        if not match:
            message = f"dmsetup printed {row[:80]!r}, which is no thin pool"
            raise ValueError(message)
        words = (match[7] or "").split()
        found[match[1]] = Pool(
            name=match[1],
            kind="thin pool",
            stopped=match[2] or next((word for word in _STOPS if word in words), ""),
            is_degraded=False,
            is_rebuilt=False,
            data_errors=0,
            used_percent=_compute_percent(match[5], match[6]),
            metadata_percent=_compute_percent(match[3], match[4]),
        )
    return found


def _compute_percent(used: str | None, whole: str | None) -> float:
    return round(100 * int(used or 0) / max(1, int(whole or 1)), 1)
