"""The clock: which daemons discipline it, and whether the one that runs holds it to be
synchronised.

Each daemon is asked in its own way: chronyd by the leap status of `chronyc tracking` (chronyc(1)),
systemd-timesyncd by the file that it touches with every answer of a server
(systemd-timesyncd.service(8)). Both go on calling the clock synchronised when no server answers any
more, so it is looked at when the last one did, too. timedatectl is not asked: systemd would start a
service for it. Daemons are found by the control groups that systemd makes for what it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.reading import ask, is_there, names_in, parse_or_unknown, require_sure
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Stat

if TYPE_CHECKING:
    from hosttune.host.door import Reader

TRACKING = ("chronyc", "-c", "tracking")
SYNCHRONIZED = "/run/systemd/timesync/synchronized"
DAEMONS = (
    "chrony.service", "chronyd.service", "ntp.service", "ntpd.service", "ntpd-rs.service",
    "ntpsec.service", "openntpd.service", "systemd-timesyncd.service",
)  # fmt: skip
_GROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")
_TIMEOUT_S = 10.0
_HOUR_S = 3600


@frozen
class Clock(Subject):
    """The clock of the machine."""

    @fact
    def is_synchronized(self) -> bool:
        """By the daemon that runs."""
        if self._runs_chrony():
            return bool(leap_status(self._tracking))
        if "systemd-timesyncd" in self.daemons:
            return is_there(self.reader, SYNCHRONIZED)
        if self.daemons:
            raise UnknownFact(f"{self.daemons[0]} sets the clock; ask it: ntpq -p, or the like")
        return False

    @fact
    def silent_hours(self) -> float:
        """Since the daemon that runs heard of a server last; 0 where it never did."""
        heard = (
            parse_or_unknown(heard_at, self._tracking)
            if self._runs_chrony()
            else _touched_at(self.reader)
        )
        return round(max(0.0, self.reader.now() - heard) / _HOUR_S, 1) if heard else 0.0

    @fact
    def offset_s(self) -> float:
        """How far the clock is from the time that chronyd has measured, in seconds: it takes a
        large one back slowly. 0 where that is not known.
        """
        found = attempt(lambda: offset_of(self._tracking) if self._runs_chrony() else 0.0)
        return found if isinstance(found, float) else 0.0

    @fact
    def daemons(self) -> tuple[str, ...]:
        """The services that run and set it: chrony, systemd-timesyncd."""
        running = {name for folder in _GROUPS for name in names_in(self.reader, folder)}
        return tuple(name.removesuffix(".service") for name in DAEMONS if name in running)

    @fact
    def _tracking(self) -> str:
        """What `chronyc -c tracking` prints, of which the last word is known."""
        answer = ask(self.reader, TRACKING, timeout_s=_TIMEOUT_S)
        leap = leap_status(answer.text) if answer.status == 0 else None
        if leap is None:
            lines = (answer.errors or answer.text).strip().splitlines() or ["it did not say"]
            raise UnknownFact(f"chronyc: {lines[0]}")
        return answer.text

    def _runs_chrony(self) -> bool:
        return any(name.startswith("chrony") for name in self.daemons)


def leap_status(tracking: str) -> bool | None:
    """Whether chronyd is synchronised: the last field of `chronyc -c tracking`; None where it is
    none of its words.
    """
    word = tracking.strip().rpartition(",")[2]
    return {
        "Normal": True,
        "Insert second": True,
        "Delete second": True,
        "Not synchronised": False,
    }.get(word)


def heard_at(tracking: str) -> float:
    """When chronyd heard of a server last, in seconds since the epoch: the fourth field of `chronyc
    -c tracking`; 0 for never. Raises ValueError where it is no number.
    """
    fields = tracking.strip().split(",")
    return float(fields[3]) if len(fields) > 3 else 0.0


def offset_of(tracking: str) -> float:
    """The size of the correction that chronyd still has to make, in seconds: the fifth field of
    `chronyc -c tracking` (System time). Raises ValueError where it is no number.
    """
    fields = tracking.strip().split(",")
    return abs(float(fields[4])) if len(fields) > 4 else 0.0


def _touched_at(reader: Reader) -> float:
    found = require_sure(reader.stat(SYNCHRONIZED))
    return found.mtime_ns / 1e9 if isinstance(found, Stat) else 0.0
