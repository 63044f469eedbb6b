"""PCIe Access Control Services on the bridges around GPUs, from their configuration space.

With P2P Request Redirect or Completion Redirect a switch sends what one GPU writes to another
device below it up to the root complex, in place of straight across. Source: PCI Express Base
Specification, 6.12 (ACS) and 7.7.8 (the extended capability), 7.5.3.2 (device/port type); the
kernel's include/uapi/linux/pci_regs.h has the same numbers. Beyond the first 64 bytes the file is
root's alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy, make_shared
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.reading import read_line, require_sure
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.host.reading.pci_config import STANDARD, extended_capabilities, standard_capabilities
from hosttune.quoting import quote
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_HEADER = 64
_EXPRESS = 0x10
_ACS = 0x000D
_PORT_TYPES = {
    4: "root port",
    5: "upstream port",
    6: "downstream port",
    7: "bridge to PCI",
    8: "bridge from PCI",
}
REQUEST_REDIRECT, COMPLETION_REDIRECT = 0x4, 0x8


@frozen
class AcsPort(Fact):
    """One bridge."""

    slot: str  # 0000:4c:00.0
    model: str  # 10b5:9749, vendor and device
    # root port | upstream port | downstream port | bridge to PCI | bridge from PCI; empty for
    # another
    port: str
    has_acs: bool  # Access Control Services
    control: int  # the ACS control register; 0 without ACS

    @property
    def redirects(self) -> bool:
        """It sends transfers between devices below its switch up to the root complex."""
        return self.port == "downstream port" and bool(
            self.control & (REQUEST_REDIRECT | COMPLETION_REDIRECT)
        )


@frozen
class Acs(Subject):
    """The bridges above GPUs, and above cards and disks behind the same switch; each once, by
    slot.
    """

    # by slot
    ports: tuple[AcsPort, ...] = read_with(lambda self: _read_ports(self.reader, self.facts))

    @property
    def redirecting(self) -> tuple[AcsPort, ...]:
        """The ports that send traffic between devices through the root complex."""
        return tuple(port for port in self.ports if port.redirects)

    @property
    def slots(self) -> tuple[str, ...]:
        """Those that redirect."""
        return tuple(port.slot for port in self.redirecting)

    @property
    def models(self) -> tuple[str, ...]:
        """Vendor and device of those that redirect, each once."""
        return tuple(dict.fromkeys(port.model for port in self.redirecting))

    @property
    def commands(self) -> str:
        """What clears the two bits until the next boot or reset of the bridge."""
        return "; ".join(f"setpci -s {quote(slot)} ECAP_ACS+0x6.w=0:c" for slot in self.slots)


def port_type(config: bytes) -> str:
    """The kind of port, from the PCI Express capability; empty for what is none."""
    place = standard_capabilities(config).get(_EXPRESS)
    return "" if place is None else _PORT_TYPES.get(config[place + 2] >> 4, "")


def acs_control(config: bytes) -> int | None:
    """The ACS control register; None where there is no such capability."""
    place = extended_capabilities(config).get(_ACS)
    return None if place is None else int.from_bytes(config[place + 6 : place + 8], "little")


def _read_ports(reader: Reader, facts: Facts) -> tuple[AcsPort, ...]:
    devices = facts.pcie.devices
    above = {port for device in devices if device.kind == "gpu" for port in device.ports}
    beside = {one.ports[-1] for one in devices if len(one.ports) > 1 and one.ports[-2] in above}
    return tuple(_read_port(reader, slot) for slot in sorted(above | beside))


def _read_port(reader: Reader, slot: str) -> AcsPort:
    config = make_shared(_read_config, reader, slot)
    kind = make_shared(lambda: port_type(config()))
    control = make_shared(lambda: _parse_control(config(), slot, is_express=bool(kind())))
    return AcsPort(
        slot=slot,
        model=lazy(_read_model, reader, slot),
        port=lazy(kind),
        has_acs=lazy(lambda: control() is not None),
        control=lazy(lambda: control() or 0),
    )


def _read_model(reader: Reader, slot: str) -> str:
    vendor, device = (
        read_line(reader, f"{DEVICES}/{slot}/{name}") for name in ("vendor", "device")
    )
    return "" if vendor is ABSENT or device is ABSENT else f"{vendor[2:]}:{device[2:]}"


def _read_config(reader: Reader, slot: str) -> bytes:
    """The configuration space, beyond its first 64 bytes."""
    config = require_sure(reader.read(f"{DEVICES}/{slot}/config"))
    if config is ABSENT:
        raise UnknownFact(f"the configuration space of {slot} is not there")
    # Without root the kernel cuts the file off at 64 bytes, and does not refuse the read. A short
    # answer must not read as "no ACS".
    if len(config) <= _HEADER:
        needs = "it is cut off" if reader.is_privileged else "needs root"
        raise UnknownFact(f"the configuration space of {slot} beyond 64 bytes: {needs}")
    return config


def _parse_control(config: bytes, slot: str, *, is_express: bool) -> int | None:
    # Some hypervisors and firmware show 256 bytes only. The extended capabilities are then out of
    # sight, which is not the same as absent.
    if is_express and len(config) <= STANDARD:
        raise UnknownFact(f"this machine does not show the extended configuration space of {slot}")
    return acs_control(config)
