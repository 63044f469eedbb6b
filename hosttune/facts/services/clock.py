"""The clock: which daemons discipline it, and whether the one that runs holds it to be synchronised.

Each daemon is asked in its own way: chronyd by the leap status of `chronyc tracking` (chronyc(1)), systemd-timesyncd by
the file that it touches with every answer of a server (systemd-timesyncd.service(8)). timedatectl is not asked: systemd
would start a service for it. Daemons are told by the control groups that systemd makes for what it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy, shared
from hosttune.facts.reading import ask, is_there, names_in
from hosttune.frozen import frozen

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

    is_synchronized: bool  # by the daemon that runs
    daemons: tuple[str, ...]  # the services that run and set it: chrony, systemd-timesyncd


def leap_status(tracking: str) -> bool | None:
    """Whether chronyd is synchronised: the last field of `chronyc -c tracking`; None where it is none of its words."""
    word = tracking.strip().rpartition(",")[2]
    return {"Normal": True, "Insert second": True, "Delete second": True, "Not synchronised": False}.get(word)


def collect(reader: Reader, facts: Facts) -> Clock:  # noqa: ARG001 - the interface of all subjects
    daemons = shared(_daemons, reader)
    return Clock(is_synchronized=lazy(lambda: _is_synchronized(reader, daemons())), daemons=lazy(daemons))


def _is_synchronized(reader: Reader, daemons: tuple[str, ...]) -> bool:
    if any(name.startswith("chrony") for name in daemons):
        return _chrony(reader)
    if "systemd-timesyncd" in daemons:
        return is_there(reader, SYNCHRONIZED)
    if daemons:
        raise UnknownFact(f"{daemons[0]} sets the clock; ask it: ntpq -p, or the like")
    return False


def _chrony(reader: Reader) -> bool:
    answer = ask(reader, TRACKING, timeout_s=_TIMEOUT_S)
    said = leap_status(answer.text) if answer.status == 0 else None
    if said is None:
        lines = (answer.errors or answer.text).strip().splitlines() or ["it did not say"]
        raise UnknownFact(f"chronyc: {lines[0]}")
    return said


def _daemons(reader: Reader) -> tuple[str, ...]:
    running = {name for folder in _GROUPS for name in names_in(reader, folder)}
    return tuple(name.removesuffix(".service") for name in DAEMONS if name in running)
