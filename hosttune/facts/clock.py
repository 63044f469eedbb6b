"""The clock: whether the kernel holds it to be synchronised, and which daemons discipline it.

The kernel's own word (adjtimex(2): an estimated error below 16 s, and STA_UNSYNC not set) is what timedatectl shows as
NTPSynchronized (org.freedesktop.timedate1(5)), whichever daemon does it. Daemons are told by the control groups that
systemd makes for what it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, unread
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

ASK = ("timedatectl", "show", "--property=NTPSynchronized")
DAEMONS = (
    "chrony.service", "chronyd.service", "ntp.service", "ntpd.service", "ntpd-rs.service", "ntpsec.service",
    "openntpd.service", "systemd-timesyncd.service",
)  # fmt: skip
_GROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")
_TIMEOUT_S = 10.0


@frozen
class Clock(Fact):
    """The clock of the machine."""

    is_synchronized: bool
    daemons: tuple[str, ...]  # the services that run and set it: chrony, systemd-timesyncd


def parse(output: str) -> bool | None:
    """`NTPSynchronized=yes`; None where it says neither."""
    said = dict(row.partition("=")[::2] for row in output.splitlines()).get("NTPSynchronized")
    return {"yes": True, "no": False}.get(said or "")


def collect(reader: Reader, facts: Facts) -> Clock:  # noqa: ARG001 - the interface of all subjects
    return Clock(_is_synchronized(reader), _daemons(reader))


def _is_synchronized(reader: Reader) -> Any:
    answer = reader.query(ASK, timeout_s=_TIMEOUT_S)
    if not isinstance(answer, Completed):
        return unread(answer.reason if isinstance(answer, Unreadable) else "timedatectl is not installed")
    said = parse(answer.text)
    if said is None:
        return unread(f"timedatectl: {(answer.errors.strip().splitlines() or ['it did not say'])[0]}")
    return said


def _daemons(reader: Reader) -> Any:
    running: set[str] = set()
    for folder in _GROUPS:
        groups = reader.list(folder)
        if isinstance(groups, Unreadable):
            return unread(groups.reason)
        running.update(groups if groups is not ABSENT and isinstance(groups, tuple) else ())
    return tuple(name.removesuffix(".service") for name in DAEMONS if name in running)
