"""What this boot has lost of what was there before it: mounts, units, addresses, links and GPUs.

Before a boot that hosttune makes or asks for, it keeps how the host is
(`actions/gate/before_boot.py`). Here that is held against the host as it is now, as after a boot on
trial (losses.py), for a day. What comes late in a boot has its time.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from hosttune.codec import decode_as
from hosttune.errors import BadInput
from hosttune.facts import signs
from hosttune.facts.base import UnknownFact
from hosttune.facts.losses import Aspect, HostStanding, Loss, Sign, Unseen, find_losses
from hosttune.facts.reading import read_line, require_known, require_sure
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.host.reading.tree import read_own
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

PATH = "/var/lib/hosttune/before-boot.json"
FORMAT_VERSION = 1
SETTLE_S = 300.0  # what comes late in a boot has come: links, daemons, disks with nofail
SMI_S = 30.0
_DAY_S = 86400.0
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# One entry of a boot, with no field that a user writes.
_ENTRY = (
    "journalctl",
    "--lines=1",
    "--output=export",
    "--output-fields=_BOOT_ID",
    "--no-pager",
    "--quiet",
)
_IDENTITY = regex(r"^_BOOT_ID=([0-9a-f]{32})$", re.MULTILINE)
_UPTIME = regex(r"\d+\.?\d*")
_UNITS = frozenset({Aspect.FAILED_UNIT, Aspect.SERVICE})
_ASPECTS = _UNITS | {
    Aspect.MOUNT,
    Aspect.ROUTE,
    Aspect.ADDRESS,
    Aspect.LINK,
    Aspect.RDMA_PORT,
    Aspect.GPU,
    Aspect.DRIVER,
}


@frozen
class AfterBoot(Subject):
    """What is held against this host as it was before the boot."""

    @fact
    def is_compared(self) -> bool:
        """It is known how it was before this boot, and that was not long ago."""
        return self._kept is not None

    @fact
    def lost(self) -> tuple[str, ...]:
        """Mounts, addresses, routes, links, RDMA ports and GPUs, a sentence each."""
        return tuple(one.sentence for one in self._found if one.aspect not in _UNITS)

    @fact
    def failed(self) -> tuple[str, ...]:
        """Units that ran, or had not failed, a sentence each."""
        return tuple(one.sentence for one in self._found if one.aspect in _UNITS)

    @fact
    def _kept(self) -> KeptStanding | None:
        return kept_before(self.reader)

    @fact
    def _found(self) -> tuple[Loss, ...]:
        before = self._kept
        if before is None:
            return ()
        now = read_signs(self.reader, self.facts)
        # A new version of a driver is meant.
        held = {
            one.name: one.state for one in now.signs if one.aspect is Aspect.DRIVER and one.state
        }
        found = find_losses(before.standing, now, held)
        known = tuple(one for one in found if one.is_known)
        # Of all that may be lost nothing is certain, so the answer is unknown. If only a part is
        # uncertain, the certain losses are reported.
        if not known and found:
            raise UnknownFact("; ".join(one.sentence for one in found))
        if known and (age_s := _age_s(self.reader)) < SETTLE_S:
            losses = "; ".join(one.sentence for one in known)
            raise UnknownFact(
                f"this boot is {age_s:.0f} s old, and may still bring what it lacks: {losses}"
            )
        return known


@frozen
class KeptStanding:
    """The content of the file."""

    format_version: int
    boot_id: str  # of the boot that was to end
    at: int  # seconds since 1970
    standing: HostStanding


def kept_before(reader: Reader) -> KeptStanding | None:
    """How the host was before this boot; None if nothing was kept, or not recently, or not in the
    boot before this.
    """
    if reader.persistent_only:
        return None
    content = require_sure(read_own(reader, PATH))
    if content is ABSENT:
        return None
    try:
        kept = decode_as(KeptStanding, json.loads(content), PATH)
    # A file that hosttune cannot read back may come from a damaged disk: then how the host was is
    # unknown, and not "nothing was lost".
    except (ValueError, RecursionError, BadInput):
        raise UnknownFact(f"{PATH} is not what hosttune keeps there") from None
    if kept.format_version != FORMAT_VERSION:
        raise UnknownFact(f"{PATH} is of another version of hosttune")
    age_s = _age_s(reader)
    before_s = reader.now() - age_s - kept.at
    this = require_known(read_line(reader, _BOOT_ID), _BOOT_ID)
    if age_s >= _DAY_S or before_s >= 7 * _DAY_S or kept.boot_id == this:
        return None
    return kept if _is_followed_by(reader, kept, this, before_s) else None


def _is_followed_by(reader: Reader, kept: KeptStanding, this: str, before_s: float) -> bool:
    """Whether this boot is the next one after that of `kept`: before a later one the host may have
    been changed on purpose. If the journal lacks the boot before this one, what was kept within a
    day before this boot counts.
    """
    answer = reader.query((*_ENTRY, f"--boot={this.replace('-', '')}-1"))
    found = _IDENTITY.search(answer.text) if isinstance(answer, Completed) else None
    return found[1] == kept.boot_id.replace("-", "") if found else before_s < _DAY_S


def _age_s(reader: Reader) -> float:
    match = _UPTIME.match(require_known(read_line(reader, "/proc/uptime"), "/proc/uptime"))
    if match is None:
        raise UnknownFact("/proc/uptime has no number")
    return float(match[0])


def is_young(reader: Reader) -> bool:
    """Whether this boot may still bring what it lacks."""
    try:
        return _age_s(reader) < SETTLE_S
    except UnknownFact:
        return False


def with_lost(now: HostStanding, before: KeptStanding | None) -> HostStanding:
    """How the host is, and what it has already lost since the last boot: a second boot does not
    make that forgotten.
    """
    if before is None:
        return now
    there = {(one.aspect, one.name) for one in now.signs}
    lost = (one for one in before.standing.signs if one.aspect is not Aspect.FAILED_UNIT)
    return HostStanding(
        (*now.signs, *(one for one in lost if (one.aspect, one.name) not in there)), now.unseen
    )


def read_signs(reader: Reader, facts: Facts) -> HostStanding:
    """How the host is now. What cannot be read is one of the answers."""
    works: dict[Aspect, Callable[[], Iterator[Sign | Unseen]]] = {
        Aspect.FAILED_UNIT: lambda: signs.read_failed_units(reader),
        Aspect.SERVICE: lambda: signs.read_services(reader),
        Aspect.MOUNT: lambda: _list_mounts(facts),
        Aspect.ROUTE: lambda: signs.read_routes(reader),
        Aspect.ADDRESS: lambda: signs.read_addresses(reader, facts),
        Aspect.LINK: lambda: signs.read_links(facts),
        Aspect.RDMA_PORT: lambda: signs.read_rdma_ports(facts),
        Aspect.GPU: lambda: signs.read_gpus(reader, facts, SMI_S),
        Aspect.DRIVER: lambda: signs.read_drivers(facts),
    }
    answers: list[Sign | Unseen] = []
    for aspect, read in works.items():
        try:
            answers.extend(read())  # what comes before an error counts
        except UnknownFact as unknown:
            answers.append(Unseen(aspect, unknown.reason))
    found = [one for one in answers if one.aspect in _ASPECTS]
    return HostStanding(
        tuple(one for one in found if isinstance(one, Sign)),
        tuple(one for one in found if isinstance(one, Unseen)),
    )


def _list_mounts(facts: Facts) -> Iterator[Sign]:
    """What a boot mounts. An automount counts as mounted: a look could wait for a dead server."""
    for mount in signs.mounts_of_boot(facts):
        yield Sign(
            Aspect.MOUNT,
            mount.target,
            "ro" if mount.is_read_only and mount.fstype != "autofs" else "rw",
        )
