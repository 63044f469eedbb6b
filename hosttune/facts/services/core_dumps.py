"""What becomes of the memory of a program that crashes: who takes it, what bounds it, and how much
of it is kept.

core(5) (core_pattern, and that a program behind `|` gets a core whatever its limit),
proc_pid_limits(5), systemd-coredump(8). Ubuntu's apport and kdump-tools write to /var/crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.facts.limits.session_limits import parse_amount
from hosttune.facts.reading import is_there, make_unknown, read_line, require_known, require_sure
from hosttune.facts.storage.mounts import mount_of
from hosttune.facts.storage.ways import Ways
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_PATTERN = "/proc/sys/kernel/core_pattern"
_FOLDERS = ("/var/lib/systemd/coredump", "/var/crash")
_SMALL_BYTES = 1 << 30  # a bound that hurts no one


@frozen
class KeptDumps(Fact):
    """A folder in which dumps are kept."""

    path: str  # the folder
    size_bytes: int  # at least so much
    total_bytes: int  # of its file system

    @property
    def percent(self) -> float:
        """Of its file system."""
        return round(100 * self.size_bytes / self.total_bytes, 1) if self.total_bytes else 0.0


@frozen
class CoreDumps(Subject):
    """Where dumps go."""

    # of the kernel: core, /var/crash/core.%p, |/usr/lib/systemd/systemd-coredump ...
    pattern: str = read_with(lambda self: require_known(read_line(self.reader, _PATTERN), _PATTERN))
    # services that start jobs, and lines for logins, that let a dump have more than 1 GiB
    unbounded: tuple[str, ...] = read_with(lambda self: tuple(_find_unbounded(self.facts)))
    # the folders that are there
    kept: tuple[KeptDumps, ...] = read_with(lambda self: tuple(_find_kept(self.reader, self.facts)))

    @property
    def is_piped(self) -> bool:
        """A program takes them; else the kernel writes a file."""
        return self.pattern.startswith("|")

    @property
    def is_systemd(self) -> bool:
        """Whether systemd-coredump takes them."""
        return self.is_piped and "systemd-coredump" in self.pattern

    @property
    def is_off(self) -> bool:
        """No one gets one: an empty pattern, or one that leads to nothing."""
        return self.pattern in {"", "/dev/null", "|/bin/false", "|/bin/true"}


def _find_unbounded(facts: Facts) -> Iterator[str]:
    yield from (one.unit for one in facts.limits.job_services if one.core > _SMALL_BYTES)
    core = facts.session_limits["core"]  # in KiB
    default = ((parse_amount(core.soft), "the default of new sessions"),)
    # Of several lines for a domain pam_limits keeps the last that it understands.
    last = {
        one.domain: (size, one.given.place)
        for one in core.lines
        if one.kind == "soft" and (size := parse_amount(one.given.value)) is not None
    }
    yield from (
        place
        for size, place in (*last.values(), *default)
        if size is not None and size * 1024 > _SMALL_BYTES
    )


def _find_kept(reader: Reader, facts: Facts) -> Iterator[KeptDumps]:
    ways = Ways(reader, facts)
    for path in _FOLDERS:
        # A folder behind a link or mount that may lead to a share is not looked at: a dead server
        # would not answer.
        if ways.way(path)[1] or not is_there(reader, path):
            continue
        usage, mount = require_sure(reader.usage(path)), mount_of(facts.mounts.visible, path)
        if mount is None:
            raise make_unknown(reader, f"no file system holds {path}")
        if usage is not ABSENT and not mount.is_network:
            yield KeptDumps(path, usage.size_bytes, mount.total_bytes)
