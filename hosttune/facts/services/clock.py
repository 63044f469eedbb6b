"""The clock: which daemons discipline it, and whether the one that runs holds it to be synchronised.

Each daemon is asked in its own way: chronyd by the leap status of `chronyc tracking` (chronyc(1)), systemd-timesyncd by
the file that it touches with every answer of a server (systemd-timesyncd.service(8)). timedatectl is not asked: systemd
would start a service for it. Daemons are told by the control groups that systemd makes for what it starts.
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

TRACKING = ("chronyc", "-c", "tracking")
SYNCHRONIZED = "/run/systemd/timesync/synchronized"
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


def leap_status(tracking: str) -> bool | None:
    """Whether chronyd is synchronised: the last field of `chronyc -c tracking`; None where it is none of its words."""
    word = tracking.strip().rpartition(",")[2]
    return {"Normal": True, "Insert second": True, "Delete second": True, "Not synchronised": False}.get(word)


def collect(reader: Reader, facts: Facts) -> Clock:  # noqa: ARG001 - the interface of all subjects
    daemons = _daemons(reader)
    return Clock(_is_synchronized(reader, daemons), daemons)


def _is_synchronized(reader: Reader, daemons: Any) -> Any:
    if not isinstance(daemons, tuple):
        return daemons
    if any(name.startswith("chrony") for name in daemons):
        return _chrony(reader)
    if "systemd-timesyncd" in daemons:
        stat = reader.stat(SYNCHRONIZED)
        return unread(stat.reason) if isinstance(stat, Unreadable) else stat is not ABSENT
    if daemons:
        return unread(f"{daemons[0]} sets the clock; ask it: ntpq -p, or the like")
    return False


def _chrony(reader: Reader) -> Any:
    answer = reader.query(TRACKING, timeout_s=_TIMEOUT_S)
    if not isinstance(answer, Completed):
        return unread(answer.reason if isinstance(answer, Unreadable) else "chronyc is not installed")
    said = leap_status(answer.text) if answer.status == 0 else None
    if said is None:
        return unread(f"chronyc: {((answer.errors or answer.text).strip().splitlines() or ['it did not say'])[0]}")
    return said


def _daemons(reader: Reader) -> Any:
    running: set[str] = set()
    for folder in _GROUPS:
        groups = reader.list(folder)
        if isinstance(groups, Unreadable):
            return unread(groups.reason)
        running.update(groups if groups is not ABSENT and isinstance(groups, tuple) else ())
    return tuple(name.removesuffix(".service") for name in DAEMONS if name in running)
