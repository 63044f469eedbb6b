"""PCI Express as sysfs shows it: the links of GPUs, network cards and NVMe disks, and of the ports
above them, errors, and which devices hang where.

Kernel: Documentation/ABI/testing/sysfs-bus-pci (current_link_width ...),
sysfs-bus-pci-devices-aer_stats, the names of errors in drivers/pci/pcie/aer.c; a device's place
below /sys/devices is its path through the bridges. How many replays of a link are sound:
NVIDIA/DCGM (DcgmGPUHardwareLimits.h, a bit error rate of 1e-12).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import (
    Fact,
    UnknownFact,
    attempt,
    get_raw,
    keep_known,
    known_items,
    known_part,
    lacking_of,
    lazy,
    make_shared,
)
from hosttune.facts.gpu.gpus import DEVICES, driver_of, is_vfio, read_pci, width_of
from hosttune.facts.network.portless import CONNECTX, MELLANOX
from hosttune.facts.reading import if_absent, is_there, names_in, read_texts
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_SLOT = regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# PCI class codes of what moves data to and from GPUs: Ethernet and InfiniBand controllers, NVMe.
_KINDS = {"0x0200": "network", "0x0207": "network", "0x0108": "nvme"}
# as vfio, kernel drivers that hand a device to a program (DPDK, Linux drivers guide)
_USER_SPACE = ("uio_", "igb_uio")
_MLX5 = "/sys/bus/pci/drivers/mlx5_core"
_ALL_ONES = ("63", "255")  # six bits of the link status register; older kernels show eight
_ERRORS = regex(r"^(\w+) (\d{1,20})$", re.MULTILINE)
# What a link corrects; the others tell of what devices did (NonFatalErr: a read of a function that
# is not there).
_REPLAYED = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout")
_BROKEN = ("SDES", "DLP")  # fatal: the link went down by surprise, or its protocol broke
# not fatal: what looking for functions that are not there leaves behind
_PROBES = ("UnsupReq", "CmpltTO")
_LOAD_PERCENT = 50  # of the time a kernel runs
# by GT/s, of one lane
_REPLAYS_A_MINUTE = {2.5: 0.15, 5.0: 0.3, 8.0: 0.48, 16.0: 0.96, 32.0: 1.92, 64.0: 3.84}


@frozen
class PcieDevice(Fact):
    """A GPU, a network card or an NVMe disk."""

    slot: str  # its PCI address
    kind: str  # gpu | network | nvme
    driver: str  # the kernel driver that has it; empty for none
    # the bridges above it, the root port first; empty where sysfs shows none
    ports: tuple[str, ...]
    virtual_functions: int  # SR-IOV functions that are switched on
    # no driver has it, though no one keeps it from one (driver_override), and it is no virtual
    # function
    is_left: bool


@frozen
class PcieLink(Fact):
    """The link of a device, and of the port that it is plugged into. Unknown widths are 0, unknown
    speeds 0.0.
    """

    slot: str  # of its first function
    kind: str  # gpu | network | nvme
    model: str  # 10de:2330, vendor and device
    port: str  # the port above it; empty where sysfs shows none
    width: int  # lanes in use
    device_width: int  # what the device can do
    port_width: int  # what the port can do
    speed: float  # GT/s a lane; a GPU at rest runs slower
    device_speed: float  # the highest that the device can do, in GT/s
    port_speed: float  # the highest that the port above it can do, in GT/s
    sibling_width: int  # the widest link of a device of the same model here
    # there are others of its model here, and all of them have the same width and speed
    is_like_siblings: bool
    # it is powered down while no one uses it (runtime power management), and tells nothing of its
    # link
    is_asleep: bool
    # nvidia-smi says that this GPU is under load, so that its link runs at full speed
    is_working: bool
    # what device or port had to send again since boot; -1 where the kernel does not count
    corrected: int
    # since boot, without what looking for functions that are not there leaves behind
    uncorrected: int
    broken: int  # of them those with which the link itself went down
    # no driver has it, though its driver is loaded: it could not make this one work
    is_undriven: bool = False
    is_gone: bool = False  # its registers read as all ones: nothing answers on the bus
    # what has the other lanes of its slot, where that is split (bifurcation)
    split_with: tuple[str, ...] = ()
    # the slot of the other half of a network card with two connectors (Socket Direct)
    other_half: str = ""

    @property
    def wanted_width(self) -> int:
        """What both ends can do; 0 where neither says."""
        return int(_take_lower(self.device_width, self.port_width))

    @property
    def wanted_speed(self) -> float:
        """The highest that both ends can do, in GT/s."""
        return _take_lower(self.device_speed, self.port_speed)

    @property
    def replays_a_minute(self) -> float:
        """How often a sound link of this kind may have to send something again."""
        return _REPLAYS_A_MINUTE.get(self.wanted_speed, 0.0) * self.wanted_width


@frozen
class Pcie(Subject):
    """The devices that exchange data with GPUs, by slot."""

    devices: tuple[PcieDevice, ...] = read_with(lambda self: _read_devices(self.reader, self.facts))

    @fact
    def links(self) -> tuple[PcieLink, ...]:
        """Of GPUs, network cards and NVMe disks; functions of one device share one."""
        devices = self.devices
        firsts: dict[str, PcieDevice] = {}  # by the device that they are functions of
        for device in known_items(devices):
            # A virtual function has no link of its own: its registers read as zeros (SR-IOV), which
            # is no narrow link.
            if device.kind == "gpu" or not isinstance(
                self.reader.link(f"{DEVICES}/{device.slot}/physfn"), str
            ):
                firsts.setdefault(device.slot.rpartition(".")[0], device)
        look = _LinkContext(self.reader, self.facts, devices, tuple(firsts.values()))
        return known_part((_link(device, look) for device in firsts.values()), lacking_of(devices))

    @property
    def has_virtual_functions(self) -> bool:
        """A card is shared out to virtual machines or containers by SR-IOV."""
        return any(device.virtual_functions > 0 for device in self.devices)

    @property
    def has_user_space_driver(self) -> bool:
        """A program drives one of these devices itself (DPDK, SPDK), or a virtual machine does."""
        return self.has_passthrough or any(
            device.driver.startswith(_USER_SPACE) for device in self.devices
        )

    @property
    def has_passthrough(self) -> bool:
        """vfio-pci holds one of these devices for a virtual machine."""
        return any(is_vfio(device.driver) for device in self.devices)


def ports_of(path: str) -> tuple[str, ...]:
    """The bridges above a device, the root port first, from its place:
    /sys/devices/pci0000:15/0000:15:01.0/...
    """
    return tuple(part for part in path.split("/")[:-1] if _SLOT.fullmatch(part))


def errors_in(counters: str) -> Mapping[str, int]:
    """The counters of an aer_dev_* file by name, without their total."""
    return {
        name: int(count)
        for name, count in _ERRORS.findall(counters)
        if not name.startswith("TOTAL_")
    }


def speed_of(spelled: str) -> float:
    """32.0 GT/s PCIe is 32.0; Unknown is 0."""
    match = re.match(r"(\d+(?:\.\d+)?) GT/s", spelled)
    return float(match[1]) if match else 0.0


def _read_devices(reader: Reader, facts: Facts) -> tuple[PcieDevice, ...]:
    ours = {gpu.slot for gpu in known_items(facts.gpus.devices)}

    def of(slot: str) -> tuple[PcieDevice, ...]:
        kind = "gpu" if slot in ours else _KINDS.get(read_pci(reader, slot, "class")[:6], "")
        return (_read_device(reader, slot, kind),) if kind else ()

    found = keep_known(of, names_in(reader, DEVICES))
    return found if lacking_of(found) else known_part(found, lacking_of(facts.gpus.devices))


def _read_device(reader: Reader, slot: str, kind: str) -> PcieDevice:
    return PcieDevice(
        slot=slot,
        kind=kind,
        driver=lazy(driver_of, reader, slot),
        ports=lazy(_find_ports, reader, slot),
        virtual_functions=lazy(_virtual_functions, reader, slot),
        is_left=lazy(_is_left, reader, slot),
    )


def _is_left(reader: Reader, slot: str) -> bool:
    is_free = read_pci(reader, slot, "driver_override") in {"", "(null)"}
    return (
        is_free
        and driver_of(reader, slot) == ""
        and not is_there(reader, f"{DEVICES}/{slot}/physfn")
    )


def _find_ports(reader: Reader, slot: str) -> tuple[str, ...]:
    return ports_of(if_absent(reader.resolve(f"{DEVICES}/{slot}"), ""))


def _virtual_functions(reader: Reader, slot: str) -> int:
    functions = read_pci(reader, slot, "sriov_numvfs")
    return parse_digits(functions, 0)


def _find_beside(reader: Reader, one: PcieDevice, devices: Sequence[PcieDevice]) -> tuple[str, ...]:
    """The devices below other functions of the same root port, where the lanes of all of them
    together are no more than one slot's: the firmware has split it, x8/x8 or x8/x4/x4, and each
    port may still call itself as wide as the slot.
    """
    port = one.ports[-1] if one.ports else ""
    whole = width_of(read_pci(reader, port, "max_link_width"))
    family = port.rpartition(".")[0]
    others = [
        device
        for device in devices
        if device.ports
        and device.ports[-1] != port
        and device.ports[-1].rpartition(".")[0] == family
    ]
    # functions of one card share one link
    links = {device.ports[-1]: device.slot for device in others} | {port: one.slot}
    widths = [width_of(read_pci(reader, slot, "current_link_width")) for slot in links.values()]
    return (
        tuple(device.slot for device in others)
        # 0 is an unknown width, with which no sum proves a split.
        if others and all(widths) and sum(widths) <= whole
        else ()
    )


class _LinkContext:
    """What the links of all devices are judged by; nothing is read before it is asked."""

    def __init__(
        self,
        reader: Reader,
        facts: Facts,
        devices: Sequence[PcieDevice],
        firsts: Sequence[PcieDevice],
    ) -> None:
        self.reader = reader
        self.devices = devices
        self.working = make_shared(_find_working, facts)
        self.models = make_shared(self._models, firsts)
        self.cards = make_shared(self._cards, firsts)

    def _models(
        self, firsts: Sequence[PcieDevice]
    ) -> Mapping[str, Mapping[str, tuple[int, float]]]:
        """Width and speed of the devices of each model, by slot."""
        found: dict[str, dict[str, tuple[int, float]]] = {}
        for one in firsts:
            found.setdefault(_read_model(self.reader, one.slot), {})[one.slot] = (
                width_of(read_pci(self.reader, one.slot, "current_link_width")),
                speed_of(read_pci(self.reader, one.slot, "current_link_speed")),
            )
        return found

    def _cards(self, firsts: Sequence[PcieDevice]) -> Mapping[str, tuple[str, ...]]:
        """The slots of each RDMA card by the GUID that all of it shares (sysfs-class-infiniband:
        sys_image_guid).
        """
        found: dict[str, tuple[str, ...]] = {}
        for one in firsts:
            guid = self.guid(one.slot) if one.kind == "network" else ""
            if guid:
                found[guid] = (*found.get(guid, ()), one.slot)
        return found

    def guid(self, slot: str) -> str:
        folder = f"{DEVICES}/{slot}/infiniband"
        names = attempt(names_in, self.reader, folder)
        return (
            read_pci(self.reader, slot, f"infiniband/{names[0]}/sys_image_guid")
            if isinstance(names, tuple) and names
            else ""
        )

    def other_half(self, slot: str) -> str:
        return next((other for other in self.cards().get(self.guid(slot), ()) if other != slot), "")

    def has_driver(self, model: str) -> bool:
        return any(
            one.driver and _read_model(self.reader, one.slot) == model for one in self.devices
        )

    def is_refused(self, slot: str) -> bool:
        """The driver of ConnectX cards is loaded, and could not make this one work (kernel:
        mlx5/core/main.c).
        """
        ids = (read_pci(self.reader, slot, name) for name in ("vendor", "device"))
        return next(ids) == MELLANOX and next(ids) in CONNECTX and is_there(self.reader, _MLX5)

    def is_like_siblings(self, model: str) -> bool:
        all_of_them = list(self.models().get(model, {}).values())
        return len(all_of_them) > 1 and len(set(all_of_them)) == 1


def _link(device: PcieDevice, look: _LinkContext) -> PcieLink:
    reader, slot = look.reader, device.slot
    port = make_shared(lambda: device.ports[-1] if device.ports else "")
    model = make_shared(_read_model, reader, slot)

    def width(of: str, end: str) -> int:
        return width_of(read_pci(reader, of, f"{end}_link_width"))

    def read_speed(of: str, end: str) -> float:
        return speed_of(read_pci(reader, of, f"{end}_link_speed"))

    def count_errors(wanted: Mapping[str, Callable[[str], bool]]) -> int:
        return _count_errors(reader, (slot, port()), wanted)

    return PcieLink(
        slot=slot,
        kind=device.kind,
        model=lazy(model),
        port=lazy(port),
        width=lazy(width, slot, "current"),
        device_width=lazy(width, slot, "max"),
        port_width=lazy(lambda: width(port(), "max")),
        speed=lazy(read_speed, slot, "current"),
        device_speed=lazy(read_speed, slot, "max"),
        port_speed=lazy(lambda: read_speed(port(), "max")),
        sibling_width=lazy(
            lambda: max((width for width, _ in look.models()[model()].values()), default=0)
        ),
        is_like_siblings=lazy(lambda: look.is_like_siblings(model())),
        is_asleep=lazy(lambda: read_pci(reader, slot, "power/runtime_status") == "suspended"),
        is_working=lazy(lambda: slot in look.working()),
        corrected=lazy(count_errors, {"correctable": _REPLAYED.__contains__}),
        uncorrected=lazy(
            count_errors, {"fatal": lambda _: True, "nonfatal": lambda name: name not in _PROBES}
        ),
        broken=lazy(count_errors, {"fatal": _BROKEN.__contains__}),
        is_undriven=lazy(
            lambda: device.is_left and (look.has_driver(model()) or look.is_refused(slot))
        ),
        is_gone=lazy(lambda: read_pci(reader, slot, "current_link_width") in _ALL_ONES),
        split_with=lazy(_find_beside, reader, device, look.devices),
        other_half=lazy(look.other_half, slot),
    )


def _count_errors(
    reader: Reader, slots: Sequence[str], wanted: Mapping[str, Callable[[str], bool]]
) -> int:
    """The errors of these kinds whose names are wanted, of all of these slots; -1 where the kernel
    counts none.
    """
    found = [
        [count for name, count in errors_in(content).items() if is_wanted(name)]
        for kind, is_wanted in wanted.items()
        for _, content in read_texts(
            reader, (f"{DEVICES}/{slot}/aer_dev_{kind}" for slot in slots if slot)
        )
    ]
    return sum(map(sum, found)) if found else -1


def _find_working(facts: Facts) -> set[str]:
    """The slots of the GPUs under load now, as far as nvidia-smi tells: others let their links slow
    down. Raises UnknownFact where nvidia-smi works, and this answer of it could not be had.
    """
    if not facts.gpus.has_gpu:
        return set()
    if facts.nvidia.smi == "answers" and facts.health.problem:
        raise UnknownFact(facts.health.problem)
    busy = (
        (gpu.slot, get_raw(gpu, "utilization_percent")) for gpu in known_items(facts.health.gpus)
    )
    return {slot for slot, percent in busy if isinstance(percent, int) and percent >= _LOAD_PERCENT}


def _take_lower(one: float, other: float) -> float:
    return min(one, other) if one and other else one or other


def _read_model(reader: Reader, slot: str) -> str:
    return ":".join(
        read_pci(reader, slot, name).removeprefix("0x") for name in ("vendor", "device")
    )
