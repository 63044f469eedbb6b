"""Any attribute below /sys by its path: `sysfs["/sys/block/sda/queue/scheduler"].chosen`
(sysfs(5)).

Not those of other file systems that are mounted there, where a read can do something or take
something away: debugfs, tracefs, bpf, the firmware's variables.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.lookups import Attribute, Lookup, fits_parts, make_attribute, small_text
from hosttune.facts.reading import hint, is_there, names_in
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.reading.effort import EFFORT
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Reader
    from hosttune.values import Absent

# characters of the paths that a pattern means: a folder behind links may have long paths
_MOST_EXPANDED = 8 << 20
_SHOWN = 80
_WILD = regex(r"[*?\[]")
_MOST_BRACES, _MOST_PATTERNS = 20, 256
_BRACES = regex(r"\{([^{}]*)\}")
_BESIDE = {
    "scaling_governor": "scaling_available_governors",
    "energy_performance_preference": "energy_performance_available_preferences",
    "current_clocksource": "available_clocksource",
}
_SCHEDULER = regex(r"(bfq|kyber|mq-deadline)(?:-iosched)?\.ko")
_OTHERS = regex(
    r"/sys/(?:kernel/(?:debug|tracing|config)|fs/(?:bpf|pstore|selinux)|firmware/efi/efivars)(?:/"
    r"|$)"
)


def fits(path: str, pattern: str) -> bool:
    """Whether a pattern of glob(7), braces included, means this path: wildcards do not reach over a
    slash.
    """
    parts = _make_plain(path).split("/")
    every = _expand_braces(pattern)
    # A pattern with too many meanings counts as one that fits: "someone else sets it" is the
    # careful answer, and keeps a value as it is.
    return every is None or any(fits_parts(parts, _make_plain(one).split("/")) for one in every)


def _make_plain(path: str) -> str:
    return path.replace("/sys/class/block/", "/sys/block/", 1)


def _expand_braces(pattern: str) -> list[str] | None:
    """The patterns without braces that it means; None where these are too many: it may mean any
    path.
    """
    found = [pattern]
    for _ in range(_MOST_BRACES):
        match = _BRACES.search(found[0])
        if match is None:
            return found
        words = match[1].split(",")
        if len(found) * len(words) > _MOST_PATTERNS:
            return None
        found = [word.join(_BRACES.split(one, 1)[::2]) for one in found for word in words]
    return None


def expand(reader: Reader, pattern: str) -> tuple[str, ...]:
    """The files that a pattern means now, sorted; the folders of /sys are walked, links
    followed.
    """
    found = ["/"]
    for part in pattern.strip("/").split("/"):
        if not _WILD.search(part):
            found = [posixpath.join(folder, part) for folder in found]
            continue
        below: list[str] = []
        size = 0
        for folder in found:
            for name in names_in(reader, folder):
                if fits(path := posixpath.join(folder, name), f"{folder}/{part}"):
                    below.append(path)
                    size += len(path)
                    if size > _MOST_EXPANDED:
                        raise UnknownFact(
                            f"{pattern[:_SHOWN]} means more than {_MOST_EXPANDED >> 20} MiB of "
                            "paths"
                        )
        found = below
        EFFORT.spent += size
    return tuple(sorted(path for path in found if is_there(reader, path)))


@frozen
class Sysfs(Subject):
    """`sysfs["/sys/..."]`, for every attribute; only what was asked for is kept."""

    @fact
    def entries(self) -> Mapping[str, Attribute]:
        return Lookup(lambda path: make_attribute(path, _read_content, self.reader, path))

    @fact
    def files(self) -> Mapping[str, tuple[str, ...]]:
        """By pattern: `sysfs.files["/sys/block/*/queue/scheduler"]`, sorted."""
        return Lookup(lambda pattern: _list_files(self.reader, pattern))

    @fact
    def choices(self) -> Mapping[str, tuple[str, ...]]:
        """By path: the words that a file takes, where it or its neighbour lists them."""
        return Lookup(lambda path: _read_choices(self.reader, path))

    def __getitem__(self, path: str) -> Attribute:
        return self.entries[path]

    @staticmethod
    def name_fault(path: str) -> tuple[str, str] | None:
        """What is wrong with a path as a rule writes it, and the way out."""
        if (
            not path.startswith("/sys/")
            or posixpath.normpath(path) != path
            or re.search(r"[*?\[\0]", path)
        ):
            return (
                f"{path!r} is no path below /sys",
                'write all of it, without wildcards: sysfs["/sys/kernel/mm/..."]',
            )
        if _OTHERS.match(path):
            return (
                f"{path} is not asked: reading there can do something",
                "only attributes of sysfs itself are read",
            )
        return None


def _read_content(reader: Reader, path: str) -> str | Absent:
    fault = Sysfs.name_fault(path)
    if not fault and isinstance(real := reader.resolve(path), str):
        fault = Sysfs.name_fault(real)  # a link is no way out
    if fault:
        raise UnknownFact(fault[0])
    return small_text(reader, path)


def _list_files(reader: Reader, pattern: str) -> tuple[str, ...]:
    if not pattern.startswith("/sys/") or _OTHERS.match(pattern):
        raise UnknownFact(f"{pattern!r} is no path below /sys")
    return () if reader.persistent_only else expand(reader, pattern)


def _read_choices(reader: Reader, path: str) -> tuple[str, ...]:
    folder, base = posixpath.split(path)
    if base in _BESIDE:
        return tuple(hint(reader, f"{folder}/{_BESIDE[base]}").split())
    words = hint(reader, path).split()
    if not any(word.startswith("[") for word in words):
        return ()
    found = tuple(word.strip("[]") for word in words)
    return (*found, *scheduler_modules(reader)) if base == "scheduler" else found


def scheduler_modules(reader: Reader) -> tuple[str, ...]:
    """I/O schedulers that are modules of the running kernel: bfq, kyber, mq-deadline. A disk lists
    them once they are loaded, which writing the name does (kernel: block/elevator.c,
    elv_iosched_load_module); before that no disk gets one by itself.
    """
    release = hint(reader, "/proc/sys/kernel/osrelease").strip()
    names = names_in(reader, f"/lib/modules/{release}/kernel/block") if release else ()
    return tuple(match[1] for name in names if (match := _SCHEDULER.match(name)))
