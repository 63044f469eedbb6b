"""NVMe drives: whether their controllers live, and what they say of their own health (SMART).

/sys/class/nvme (drivers/nvme/host/sysfs.c) and hwmon (drivers/nvme/host/hwmon.c) tell all users
whether a controller works and whether it is too hot. The rest is the log page SMART / Health
Information (NVM Express Base Specification, page 02h), which root alone may ask for, and which
nvme(1) or smartctl(8) fetches. A controller that is not live is not asked: it does not answer.
Volumes of a cloud, and drives that a hypervisor makes up, have no health of their own.

A drive that did not answer when it was looked for is on the PCI bus, and has no driver
(drivers/nvme/host/pci.c).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import (
    Fact,
    UnknownFact,
    get_raw,
    keep_known,
    known_items,
    known_part,
    lacking_of,
    lazy,
    make_shared,
)
from hosttune.facts.gpu.gpus import read_pci
from hosttune.facts.reading import (
    if_absent,
    is_there,
    names_in,
    read_integer,
    read_line,
    require_known,
)
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_CLASS = "/sys/class/nvme"
_NAME = regex(r"nvme\d+")
_TIMEOUT_S = 5.0
_WITHOUT_DRIVER = "without driver"
_PCI_CLASS = "0x010802"  # NVM Express, an I/O controller (PCI Code and ID Assignment Specification)
_DRIVER = "/sys/bus/pci/drivers/nvme"
# Amazon's, Azure's, Google's, Oracle's and Alibaba's; those of qemu, VMware, VirtualBox, and Linux'
# own target.
_MADE_UP = regex(
    r"Amazon .*|MSFT NVMe .*|Microsoft NVMe .*|nvme_card.*|OCI .*|Oracle .*Block.*|QEMU .*"
    r"|VMware .*|ORCL-VBOX-.*|"
    r"Alibaba Cloud .*|.*Virtual.*|Linux",
    re.DOTALL,
)


@frozen
class DriveLog:
    """The health that a drive tells of itself."""

    warning: int  # the bits of Critical Warning
    spare_percent: int
    spare_least_percent: int
    used_percent: int
    media_errors: int


@frozen
class Drive(Fact):
    """A controller of NVMe drives. Of volumes of a cloud and of drives that are reached over a
    network the state counts alone, and the rest is as of a drive that is well.
    """

    # nvme0; of one without driver its place; of one for all that no one can ask: `8 NVMe drives`
    name: str
    address: str  # on the PCI bus, 0000:c1:00.0; empty where it has none
    state: str  # live, new, resetting, connecting, deleting, dead; without driver
    is_untold: bool  # no program is installed that could ask it for its health
    celsius: int  # -1 where it does not tell
    is_out_of_bounds: bool  # its temperature is, as it says itself
    has_lost_reliability: bool  # by errors of its medium, or inside
    is_read_only: bool  # it takes no writes any more
    has_lost_backup: bool  # what keeps its write cache over a power cut failed
    is_short_of_spare: bool  # fewer spare blocks are left than it calls enough
    spare_percent: int  # spare blocks that are left, in percent
    used_percent: int  # of its rated life; may be more than 100
    media_errors: int  # reads and writes in its life that it could not correct

    is_asked: bool = False  # it is a drive of this machine, and live

    @property
    def is_live(self) -> bool:
        """It takes commands."""
        return self.state == "live"

    @property
    def is_only_worn(self) -> bool:
        """Its warning about its reliability has no other cause than that it is past its rated life:
        bit 2 of Critical Warning also says so (Samsung, by Hetzner: smartmontools issue 537), and
        neither errors nor spare blocks do.
        """
        return (
            self.has_lost_reliability
            and self.used_percent >= 100
            and self.media_errors == 0
            and not (self.is_short_of_spare or self.is_read_only)
        )


@frozen
class Nvme(Subject):
    """All controllers."""

    @fact
    def drives(self) -> tuple[Drive, ...]:
        if self.reader.persistent_only:
            return ()

        def driven() -> tuple[Drive, ...]:
            names = (name for name in names_in(self.reader, _CLASS) if _NAME.fullmatch(name))
            return keep_known(lambda name: (_read_drive(self.reader, name),), names)

        def list_left() -> tuple[Drive, ...]:
            return keep_known(
                lambda slot: (_make_sound_drive(slot, slot, state=_WITHOUT_DRIVER),),
                _without_driver(self.reader, self.facts),
            )

        return keep_known(lambda look: look(), (driven, list_left))

    @property
    def judged(self) -> tuple[Drive, ...]:
        """The drives, but in the place of those that no program can ask, one for them all."""
        drives = known_items(self.drives)
        unasked = [one for one in drives if get_raw(one, "is_untold") is True]
        names = {one.name for one in unasked if get_raw(one, "is_out_of_bounds") is not True}
        rest = tuple(one for one in drives if one.name not in names)
        together = f"{len(unasked)} NVMe drives" if len(unasked) > 1 else "the NVMe drive"
        return known_part(
            (*rest, _make_sound_drive(together, is_untold=True)) if unasked else rest,
            lacking_of(self.drives),
        )


_WELL = DriveLog(0, 100, 0, 0, 0)


def _without_driver(reader: Reader, facts: Facts) -> tuple[str, ...]:
    """Where drives stand on the PCI bus that the driver, which is loaded, does not drive."""
    if not is_there(reader, _DRIVER):
        return ()
    return keep_known(
        lambda one: (
            (one.slot,)
            if one.kind == "nvme" and one.is_left and _is_drive(reader, one.slot)
            else ()
        ),
        facts.pcie.devices,
    )


def _is_drive(reader: Reader, slot: str) -> bool:
    return read_pci(reader, slot, "class") == _PCI_CLASS


def _read_drive(reader: Reader, name: str) -> Drive:
    folder = f"{_CLASS}/{name}"
    model = if_absent(read_line(reader, f"{folder}/model"), "")
    state = require_known(read_line(reader, f"{folder}/state"), f"{folder}/state")
    device = reader.link(f"{folder}/device")
    slot = device.rpartition("/")[2] if isinstance(device, str) else ""
    is_local = if_absent(
        read_line(reader, f"{folder}/transport"), "pcie"
    ) == "pcie" and not _MADE_UP.fullmatch(model)
    if state != "live" or not is_local:
        return _make_sound_drive(name, slot, state=state)
    asked = make_shared(_ask_drive, reader, name)

    def ask_log() -> DriveLog:
        return asked() or _WELL

    return Drive(
        name=name,
        address=slot,
        state=state,
        is_untold=lazy(lambda: asked() is None),
        celsius=lazy(_read_celsius, reader, folder),
        is_out_of_bounds=lazy(lambda: _read_alarm(reader, folder) or bool(ask_log().warning & 2)),
        has_lost_reliability=lazy(lambda: bool(ask_log().warning & 4)),
        is_read_only=lazy(lambda: bool(ask_log().warning & 8)),
        has_lost_backup=lazy(lambda: bool(ask_log().warning & 16)),
        is_short_of_spare=lazy(
            lambda: (
                bool(ask_log().warning & 1)
                or ask_log().spare_percent < ask_log().spare_least_percent <= 100
            )
        ),
        spare_percent=lazy(lambda: ask_log().spare_percent),
        used_percent=lazy(lambda: ask_log().used_percent),
        media_errors=lazy(lambda: ask_log().media_errors),
        is_asked=True,
    )


def _make_sound_drive(
    name: str, address: str = "", *, state: str = "live", is_untold: bool = False
) -> Drive:
    """One of which nothing else is known."""
    return Drive(
        name,
        address,
        state,
        is_untold,
        celsius=-1,
        is_out_of_bounds=False,
        has_lost_reliability=False,
        is_read_only=False,
        has_lost_backup=False,
        is_short_of_spare=False,
        spare_percent=100,
        used_percent=0,
        media_errors=0,
    )


def _list_monitors(reader: Reader, folder: str) -> tuple[str, ...]:
    return tuple(
        f"{folder}/{name}" for name in names_in(reader, folder) if name.startswith("hwmon")
    )


def _read_celsius(reader: Reader, folder: str) -> int:
    for monitor in _list_monitors(reader, folder):
        millidegrees = read_integer(reader, f"{monitor}/temp1_input")
        if isinstance(millidegrees, int):
            return round(millidegrees / 1000)
    return -1


def _read_alarm(reader: Reader, folder: str) -> bool:
    """Bit 1 of Critical Warning, which hwmon shows to everybody."""
    return any(
        if_absent(read_integer(reader, f"{one}/temp1_alarm"), 0) == 1
        for one in _list_monitors(reader, folder)
    )


def make_question(program: str, name: str) -> tuple[str, ...]:
    """What asks a controller for its health; both programs only read."""
    if program == "nvme":
        return ("nvme", "smart-log", "--output-format=json", f"/dev/{name}")
    return ("smartctl", "--json", "--health", "--attributes", f"/dev/{name}")


def _ask_drive(reader: Reader, name: str) -> DriveLog | None:
    """What a drive tells; None where no program is installed that could ask. Raises UnknownFact."""
    if not reader.is_privileged:
        raise UnknownFact("needs root: the health that NVMe drives tell of themselves (SMART)")
    problem = ""
    for program, read in (("nvme", _of_nvme), ("smartctl", _of_smartctl)):
        answer = reader.query(make_question(program, name), timeout_s=_TIMEOUT_S)
        if answer is ABSENT:
            continue
        try:
            return read(require_known(answer, program).stdout)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            lines = require_known(answer, program).errors.strip().splitlines() or [
                "it printed something else"
            ]
            problem = (
                problem or f"{program} does not tell the health of /dev/{name}: {lines[0][:160]}"
            )
        except UnknownFact as unknown:
            problem = problem or unknown.reason
    if problem:
        raise UnknownFact(problem)
    return None


def _of_nvme(output: bytes) -> DriveLog:
    """`nvme smart-log` of nvme-cli 1.x and 2.x. Raises what json and the lack of a key raise."""
    document = json.loads(output)
    warning = document["critical_warning"]
    return DriveLog(
        warning=_parse_number(warning["value"] if isinstance(warning, dict) else warning),
        spare_percent=_parse_number(document["avail_spare"]),
        spare_least_percent=_parse_number(document["spare_thresh"]),
        used_percent=_parse_number(document["percent_used"]),
        media_errors=_parse_number(document["media_errors"]),
    )


def _of_smartctl(output: bytes) -> DriveLog:
    """`smartctl` of smartmontools 7 and newer. Its exit status has bits for what was once, so it
    does not count.
    """
    document = json.loads(output)["nvme_smart_health_information_log"]
    return DriveLog(
        warning=_parse_number(document["critical_warning"]),
        spare_percent=_parse_number(document["available_spare"]),
        spare_least_percent=_parse_number(document["available_spare_threshold"]),
        used_percent=_parse_number(document["percentage_used"]),
        media_errors=_parse_number(document["media_errors"]),
    )


def _parse_number(value: Any) -> int:
    """Counters of 128 bits are text in some versions, with commas in few."""
    if isinstance(value, bool):
        message = "true is no count"
        raise TypeError(message)
    return int(value.replace(",", "")) if isinstance(value, str) else int(value)
