"""Memory modules as the firmware describes them (SMBIOS type 17), read where udev has put it.

systemd's udev (248 and newer: Ubuntu 22.04, Debian 12) decodes the table at boot and keeps it with
the device /sys/class/dmi/id in a file that everybody may read, which /sys/firmware/dmi is not
(systemd: src/udev/dmi_memory_id; rules.d/70-memory.rules). What is no RAM (persistent memory, HBM
in a processor, flash of the firmware) is left out.
"""

from __future__ import annotations

from hosttune.facts.base import Fact
from hosttune.facts.reading import if_absent, read_text
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex

UDEV = "/run/udev/data/+dmi:id"
_FIELD = regex(
    r"E:MEMORY_DEVICE_(\d{1,9})_(SIZE|SPEED_MTS|CONFIGURED_SPEED_MTS|LOCATOR|TYPE)=(.{1,80})"
)


@frozen
class MemoryModule(Fact):
    """A module of RAM in its slot. A speed that the firmware does not tell is 0."""

    name: str  # of its slot, as the board calls it: DIMM_A1
    size_bytes: int  # of the module
    speed_mts: int  # what it is made for, in millions of transfers a second
    configured_mts: int  # what it runs at


@frozen
class MemoryModules(Subject):
    """All of them, by slot; none where no one tells."""

    all: tuple[MemoryModule, ...] = read_with(
        lambda self: modules_in(if_absent(read_text(self.reader, UDEV), ""))
    )

    @property
    def installed_bytes(self) -> int:
        """What they hold together."""
        return sum(module.size_bytes for module in self.all)

    @property
    def speeds_mts(self) -> tuple[int, ...]:
        """What they are made for, each speed once, the lowest first."""
        return tuple(sorted({module.speed_mts for module in self.all if module.speed_mts}))

    @property
    def configured_mts(self) -> tuple[int, ...]:
        """What they run at, likewise."""
        return tuple(
            sorted({module.configured_mts for module in self.all if module.configured_mts})
        )


def keep_fields(content: str) -> str:
    """The lines of udev's file that are read here: others have serial numbers."""
    return "".join(f"{line}\n" for line in content.splitlines() if _FIELD.fullmatch(line))


def modules_in(content: str) -> tuple[MemoryModule, ...]:
    """The modules that udev's file names. A slot without one has no size."""
    slots: dict[int, dict[str, str]] = {}
    for line in content.splitlines():
        if match := _FIELD.fullmatch(line):
            slots.setdefault(int(match[1]), {})[match[2]] = match[3]
    return tuple(
        MemoryModule(
            name=slot.get("LOCATOR", f"slot {number}"),
            size_bytes=size,
            speed_mts=_parse_number(slot.get("SPEED_MTS", "")),
            configured_mts=_parse_number(slot.get("CONFIGURED_SPEED_MTS", "")),
        )
        for number, slot in sorted(slots.items())
        if (size := _parse_number(slot.get("SIZE", "")))
        and slot.get("TYPE", "").startswith(("DDR", "LPDDR"))
    )


def _parse_number(spelled: str) -> int:
    return parse_digits(spelled, 0)
