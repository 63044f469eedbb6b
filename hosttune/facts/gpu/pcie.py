"""PCI Express as sysfs shows it: the links of GPUs and of the ports above them, errors, and which devices hang where.

Kernel: Documentation/ABI/testing/sysfs-bus-pci (current_link_width ...), sysfs-bus-pci-devices-aer_stats; a device's
place below /sys/devices is its path through the bridges.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy, raw, shared
from hosttune.facts.gpu.gpus import DEVICES, driver_of, read_pci, width_of
from hosttune.facts.reading import names_in, texts
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_SLOT = regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# PCI class codes of what moves data to and from GPUs: Ethernet and InfiniBand controllers, NVMe.
_KINDS = {"0x0200": "network", "0x0207": "network", "0x0108": "nvme"}
_USER_SPACE = ("vfio", "uio_", "igb_uio")  # kernel drivers that hand a device to a program (DPDK, Linux drivers guide)
_ALL_ONES = ("63", "255")  # six bits of the link status register; older kernels show eight
_TOTAL = regex(r"^TOTAL_ERR_(?:COR|FATAL|NONFATAL) (\d+)$", re.MULTILINE)


@frozen
class PcieDevice(Fact):
    """A GPU, a network card or an NVMe disk."""

    slot: str
    kind: str  # gpu | network | nvme
    driver: str  # the kernel driver that has it; empty for none
    ports: tuple[str, ...]  # the bridges above it, the root port first; empty where sysfs shows none
    virtual_functions: int  # SR-IOV functions that are switched on


@frozen
class PcieLink(Fact):
    """The link of a GPU, and of the port that it is plugged into. Unknown widths are 0, unknown speeds 0.0."""

    slot: str
    port: str  # the port above it; empty where sysfs shows none
    width: int  # lanes in use
    device_width: int  # what the GPU can do
    port_width: int  # what the port can do
    sibling_width: int  # the widest link of a GPU of the same model here
    speed: float  # GT/s a lane; a GPU at rest runs slower
    device_speed: float
    port_speed: float
    is_working: bool  # nvidia-smi says that it computes at this moment
    corrected: int  # errors that the GPU or its port has corrected since boot; -1 where the kernel does not count
    uncorrected: int
    is_gone: bool = False  # its registers read as all ones: nothing answers on the bus
    split_with: tuple[str, ...] = ()  # what has the other lanes of its slot, where that is split (bifurcation)

    @property
    def wanted_width(self) -> int:
        """What both ends can do; 0 where neither says."""
        return int(_lower(self.device_width, self.port_width))

    @property
    def wanted_speed(self) -> float:
        return _lower(self.device_speed, self.port_speed)


@frozen
class Pcie(Fact):
    """The devices that exchange data with GPUs, by slot."""

    devices: tuple[PcieDevice, ...]
    links: tuple[PcieLink, ...]  # of the GPUs

    @property
    def has_virtual_functions(self) -> bool:
        """A card is shared out to virtual machines or containers by SR-IOV."""
        return any(device.virtual_functions > 0 for device in self.devices)

    @property
    def has_user_space_driver(self) -> bool:
        """A program drives one of these devices itself (DPDK, SPDK), or a virtual machine does."""
        return any(device.driver.startswith(_USER_SPACE) for device in self.devices)

    @property
    def has_passthrough(self) -> bool:
        """vfio-pci holds one of these devices for a virtual machine."""
        return any(device.driver.startswith("vfio") for device in self.devices)


def ports_of(path: str) -> tuple[str, ...]:
    """The bridges above a device, the root port first, from its place: /sys/devices/pci0000:15/0000:15:01.0/..."""
    return tuple(part for part in path.split("/")[:-1] if _SLOT.fullmatch(part))


def total_of(counters: str) -> int:
    """The total of an aer_dev_* file; -1 where there is none."""
    match = _TOTAL.search(counters)
    return int(match[1]) if match else -1


def speed_of(spelled: str) -> float:
    """32.0 GT/s PCIe is 32.0; Unknown is 0."""
    match = re.match(r"(\d+(?:\.\d+)?) GT/s", spelled)
    return float(match[1]) if match else 0.0


def collect(reader: Reader, facts: Facts) -> Pcie:
    return Pcie(devices=lazy(_devices, reader, facts), links=lazy(_links, reader, facts))


def _devices(reader: Reader, facts: Facts) -> tuple[PcieDevice, ...]:
    ours = {gpu.slot for gpu in facts.gpus.devices}
    found = [(slot, _kind(reader, slot, ours)) for slot in names_in(reader, DEVICES)]
    return tuple(_device(reader, slot, kind) for slot, kind in found if kind)


def _links(reader: Reader, facts: Facts) -> tuple[PcieLink, ...]:
    devices, gpus = facts.pcie.devices, facts.gpus.devices
    ports = {device.slot: device.ports[-1] if device.ports else "" for device in devices}
    working = shared(_working, facts)
    widest: dict[str, int] = {}
    for gpu in gpus:
        width = width_of(read_pci(reader, gpu.slot, "current_link_width"))
        widest[gpu.device_id] = max(width, widest.get(gpu.device_id, 0))
    beside = {one.slot: partial(_beside, reader, one, devices) for one in devices if one.kind == "gpu"}
    return tuple(
        _link(reader, gpu.slot, ports[gpu.slot], widest[gpu.device_id], working, beside[gpu.slot]) for gpu in gpus
    )


def _kind(reader: Reader, slot: str, gpus: set[str]) -> str:
    return "gpu" if slot in gpus else _KINDS.get(read_pci(reader, slot, "class")[:6], "")


def _device(reader: Reader, slot: str, kind: str) -> PcieDevice:
    return PcieDevice(
        slot=slot,
        kind=kind,
        driver=lazy(driver_of, reader, slot),
        ports=lazy(_ports, reader, slot),
        virtual_functions=lazy(_virtual_functions, reader, slot),
    )


def _ports(reader: Reader, slot: str) -> tuple[str, ...]:
    place = reader.resolve(f"{DEVICES}/{slot}")
    return ports_of(place) if isinstance(place, str) else ()


def _virtual_functions(reader: Reader, slot: str) -> int:
    functions = read_pci(reader, slot, "sriov_numvfs")
    return int(functions) if functions.isdecimal() else 0


def _beside(reader: Reader, one: PcieDevice, devices: Sequence[PcieDevice]) -> tuple[str, ...]:
    """The devices below other functions of the same root port, where the lanes of all of them together are no more than
    one slot's: the firmware has split it, x8/x8 or x8/x4/x4, and each port may still call itself as wide as the slot.
    """
    port = one.ports[-1] if one.ports else ""
    whole = width_of(read_pci(reader, port, "max_link_width"))
    family = port.rpartition(".")[0]
    others = [
        device
        for device in devices
        if device.ports and device.ports[-1] != port and device.ports[-1].rpartition(".")[0] == family
    ]
    # functions of one card share one link
    links = {device.ports[-1]: device.slot for device in others} | {port: one.slot}
    widths = [width_of(read_pci(reader, slot, "current_link_width")) for slot in links.values()]
    return tuple(device.slot for device in others) if others and all(widths) and sum(widths) <= whole else ()


def _link(
    reader: Reader,
    slot: str,
    port: str,
    sibling_width: int,
    working: Callable[[], set[str]],
    split_with: Callable[[], tuple[str, ...]],
) -> PcieLink:
    return PcieLink(
        slot=slot,
        port=port,
        width=lazy(lambda: width_of(read_pci(reader, slot, "current_link_width"))),
        device_width=lazy(lambda: width_of(read_pci(reader, slot, "max_link_width"))),
        port_width=lazy(lambda: width_of(read_pci(reader, port, "max_link_width"))),
        sibling_width=sibling_width,
        speed=lazy(lambda: speed_of(read_pci(reader, slot, "current_link_speed"))),
        device_speed=lazy(lambda: speed_of(read_pci(reader, slot, "max_link_speed"))),
        port_speed=lazy(lambda: speed_of(read_pci(reader, port, "max_link_speed"))),
        is_working=lazy(lambda: slot in working()),
        corrected=lazy(_errors, reader, (slot, port), ("aer_dev_correctable",)),
        uncorrected=lazy(_errors, reader, (slot, port), ("aer_dev_fatal", "aer_dev_nonfatal")),
        is_gone=lazy(lambda: read_pci(reader, slot, "current_link_width") in _ALL_ONES),
        split_with=lazy(split_with),
    )


def _errors(reader: Reader, slots: Sequence[str], names: Sequence[str]) -> int:
    files = (f"{DEVICES}/{slot}/{name}" for slot in slots if slot for name in names)
    counts = [count for _, content in texts(reader, files) if (count := total_of(content)) >= 0]
    return sum(counts) if counts else -1


def _working(facts: Facts) -> set[str]:
    """The slots of the GPUs that are busy now, as far as nvidia-smi tells."""
    gpus = raw(facts.health, "gpus")
    busy = ((gpu.slot, raw(gpu, "utilization_percent")) for gpu in (gpus if isinstance(gpus, tuple) else ()))
    return {slot for slot, percent in busy if isinstance(percent, int) and percent > 0}


def _lower(one: float, other: float) -> float:
    return min(one, other) if one and other else one or other
