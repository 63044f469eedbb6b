"""Errors of memory modules, as the memory controllers' drivers count them since they were loaded
(EDAC).

What they name in the log tells when: a storm of today is lost in the mean of a hundred days.

Kernel: Documentation/ABI/testing/sysfs-devices-edac, Documentation/admin-guide/ras.rst. Machines
whose firmware takes the errors first have no such driver, and virtual machines have none: then
nothing is counted, which is not 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy
from hosttune.facts.reading import if_absent, names_in, read_integer, read_line, require_known
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_CONTROLLERS = "/sys/devices/system/edac/mc"
_DAY_S = 86400


@frozen
class Dimm(Fact):
    """One memory module, or what a controller cannot give to one."""

    name: str  # its label on the board, else its place: `mc0 channel 1 slot 0`
    corrected: int  # errors since the driver was loaded
    uncorrected: int  # errors that could not be corrected, since the driver was loaded
    days: float  # since the driver was loaded, 1 at least
    # in the last 24 hours, of those that the kernel log names; it leaves out many of a storm
    corrected_today: int = 0

    @property
    def corrected_a_day(self) -> float:
        """Corrected errors on an average day; of the first day all."""
        return round(self.corrected / self.days, 1)


@frozen
class Edac(Subject):
    """The memory modules whose errors are counted; none where no driver counts."""

    @fact
    def dimms(self) -> tuple[Dimm, ...]:
        controllers = [
            name
            for name in names_in(self.reader, _CONTROLLERS)
            if name[:2] == "mc" and name[2:].isdigit()
        ]
        return tuple(
            dimm for name in controllers for dimm in _read_controller(self.reader, self.facts, name)
        )


def _read_controller(reader: Reader, facts: Facts, controller: str) -> tuple[Dimm, ...]:
    place = f"{_CONTROLLERS}/{controller}"
    days = max(1.0, _count(reader, f"{place}/seconds_since_reset") / _DAY_S)
    dimms = tuple(
        _read_dimm(reader, facts, controller, f"{place}/{name}", days)
        for name in names_in(reader, place)
        if name.startswith(("dimm", "rank")) and name[4:].isdigit()
    )
    # Errors that the controller could not give to a module are in its total only. Without this
    # difference they would be in no count at all.
    left = [
        max(0, _count(reader, f"{place}/{total}") - sum(one))
        for total, one in (
            ("ce_count", [dimm.corrected for dimm in dimms]),
            ("ue_count", [dimm.uncorrected for dimm in dimms]),
        )
    ]
    rest = (
        (Dimm(f"{controller} (which module is not known)", left[0], left[1], days),)
        if any(left)
        else ()
    )
    return (*dimms, *rest)


def _read_dimm(reader: Reader, facts: Facts, controller: str, place: str, days: float) -> Dimm:
    corrected = _count(reader, f"{place}/dimm_ce_count")
    label = if_absent(read_line(reader, f"{place}/dimm_label"), "")
    where = if_absent(read_line(reader, f"{place}/dimm_location"), "")
    return Dimm(
        name=label or f"{controller} {where or place.rsplit('/', 1)[-1]}",
        corrected=corrected,
        uncorrected=_count(reader, f"{place}/dimm_ue_count"),
        days=days,
        corrected_today=lazy(lambda: facts.host_log.corrected_of.get(label, 0))
        if corrected and label
        else 0,
    )


def _count(reader: Reader, path: str) -> int:
    number = require_known(read_integer(reader, path), path)
    if number < 0:
        raise UnknownFact(f"{path} holds {number}, which is no count")
    return number
