"""What SATA and SAS disks of this machine say of their own health (SMART), as smartctl(8) of
smartmontools asks them.

Each is asked one question that only reads (`--health`), as root, and not while it sleeps
(`--nocheck=standby`): asking would spin it up. Of ATA a disk says that it fails; of SCSI it names
what is wrong by a code (SPC-4, additional sense codes): 5D is a failure to come, 0B a warning, of
heat for example. smartmontools, scsiprint.cpp and ataprint.cpp, have both as `smart_status`. A disk
with sectors that it cannot read passes for well, as these attributes have no threshold
(nixos_config#1259); of SSDs they mean something else (openstreetmap/operations#273). Volumes of a
RAID controller, of a cloud and of a hypervisor have no health of their own. What NVMe drives say is
read in nvme.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, lazy, make_shared
from hosttune.facts.reading import require_sure
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import Absent, Unreadable, is_unrecorded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

    _Answer = Callable[[], tuple[bool, str, int] | None]

_TRANSPORTS = frozenset({"sata", "sas"})
_TIMEOUT_S = 5.0
_FAILURE_TO_COME = 0x5D
_LONGEST = 100
# smartctl(8), EXIT STATUS: the device was not opened or does not say what it is; a command failed
_NO_ANSWER = 0b111
# one sector is mostly in both
_UNREADABLE = frozenset({"Current_Pending_Sector", "Offline_Uncorrectable"})
_MOST_SECTORS = 1 << 24  # more is no count of sectors
_NONE_TO_TELL = regex(
    r"lacks SMART|SMART (?:support is:? +)?(?:Unavailable|Disabled)|not supported|try (?:adding"
    r"|an additional) '-d"
)


@frozen
class AskedDisk(Fact):
    """A disk, and what it says; of one that sleeps, or that has no such health, that it is well."""

    name: str  # sda
    is_failing: bool  # it says that it fails, or soon will
    warning: str  # what else it warns of, in the words of smartctl; empty for none
    # sectors that a hard disk could not read, and that were not written since; 0 for other disks
    unreadable: int


@frozen
class Smart(Subject):
    """The disks that could be asked."""

    @fact
    def disks(self) -> tuple[AskedDisk, ...]:
        """Those of this machine that are reached by SATA or SAS; none that can be pulled out."""
        return tuple(_make_asked_disk(name, answer, self.facts) for name, answer in self._answers)

    @fact
    def is_installed(self) -> bool:
        """`smartctl` is, by which they are asked; of a host without such disks no one looks."""
        return _is_installed([answer for _, answer in self._answers])

    @fact
    def _answers(self) -> tuple[tuple[str, _Answer], ...]:
        """The disks that are asked, and what each answers, which is asked for at first need."""
        if self.reader.persistent_only:
            return ()
        # A stick or a card reader of a user may answer whatever it likes, and a disk of a
        # hypervisor has no health of its own.
        own = (
            disk
            for disk in self.facts.disks.physical
            if not disk.is_removable and not disk.is_virtual
        )
        return tuple(
            (disk.name, make_shared(_answer, self.reader, disk.name))
            for disk in own
            if disk.transport in _TRANSPORTS
        )


def make_question(name: str) -> tuple[str, ...]:
    """What asks a disk."""
    return ("smartctl", "--json", "--health", "--attributes", "--nocheck=standby,0", f"/dev/{name}")


def _is_installed(answers: Sequence[_Answer]) -> bool:
    """One that hangs does not keep the others from being asked."""
    for answer in answers:
        got = attempt(answer)
        if not isinstance(got, Unreadable):
            return got is not None
    return all(answer() is not None for answer in answers)


def _make_asked_disk(name: str, answer: _Answer, facts: Facts) -> AskedDisk:
    well = (False, "", 0)

    def count_unreadable() -> int:
        found = (answer() or well)[2]
        return (
            found
            if found and any(one.name == name and one.is_rotational for one in facts.disks.physical)
            else 0
        )

    return AskedDisk(
        name,
        lazy(lambda: (answer() or well)[0]),
        lazy(lambda: (answer() or well)[1]),
        lazy(count_unreadable),
    )


def _answer(reader: Reader, name: str) -> tuple[bool, str, int] | None:
    """Whether it fails, what it warns of, and how many sectors it cannot read; None where smartctl
    is not installed. Raises UnknownFact.
    """
    if not reader.is_privileged:
        raise UnknownFact(
            "needs root: the health that SATA and SAS disks tell of themselves (SMART)"
        )
    question = make_question(name)
    answer = reader.query(question, timeout_s=_TIMEOUT_S)
    if is_unrecorded(answer):  # as records of older releases hold it
        answer = reader.query(
            [word for word in question if word != "--attributes"], timeout_s=_TIMEOUT_S
        )
    answer = require_sure(answer)
    if isinstance(answer, Absent):
        return None
    try:
        health, problem = (
            (*health_in(answer.stdout), unreadable_in(answer.stdout)),
            no_answer_in(answer.stdout),
        )
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        health, problem = (
            None,
            (answer.errors.strip().splitlines() or ["it printed something else"])[0],
        )
    if problem:
        raise UnknownFact(f"smartctl does not tell the health of /dev/{name}: {problem[:_LONGEST]}")
    return health


def health_in(output: bytes) -> tuple[bool, str]:
    """Whether a disk fails and what it warns of, of what smartctl prints. Its exit status has bits
    for what was once, so it does not count. Raises what json raises, and AttributeError, for
    something else.
    """
    status = json.loads(output).get("smart_status", {})
    if status.get("passed", True) is not False:
        return False, ""
    scsi = status.get("scsi", {})
    if scsi.get("asc", _FAILURE_TO_COME) == _FAILURE_TO_COME:
        return True, ""
    return False, str(scsi.get("ie_string", "it gives no reason"))[:_LONGEST]


def unreadable_in(output: bytes) -> int:
    """How many sectors an ATA disk counts that it could not read, the larger of two counts. Raises
    as health_in.
    """
    rows = json.loads(output).get("ata_smart_attributes", {}).get("table", [])
    counts = [
        int(row.get("raw", {}).get("value", 0)) for row in rows if row.get("name") in _UNREADABLE
    ]
    return max((count for count in counts if 0 <= count < _MOST_SECTORS), default=0)


def no_answer_in(output: bytes) -> str:
    """Why a disk did not answer, in the words of smartctl; empty for one that did, that sleeps, or
    that has no such health: what lacks SMART, and a volume of a controller that wants a type
    (`-d`). Raises as health_in.
    """
    document = json.loads(output)
    answer = document.get("smartctl", {})
    if (
        "passed" in document.get("smart_status", {})
        or not int(answer.get("exit_status", 0)) & _NO_ANSWER
    ):
        return ""
    words = [str(one.get("string", "")) for one in answer.get("messages", ())]
    return (
        ""
        if any(map(_NONE_TO_TELL.search, words))
        else next(filter(None, words), "it does not answer")
    )
