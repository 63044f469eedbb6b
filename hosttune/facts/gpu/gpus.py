"""NVIDIA GPUs and NVSwitches as the PCI bus shows them in sysfs: no driver is needed, and none is
asked.

Kernel: Documentation/ABI/testing/sysfs-bus-pci; classes from the PCI Code and ID Assignment
Specification: 0300 VGA, 0302 3D controller, 0680 other bridge (an NVSwitch).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from hosttune.facts.base import (
    Fact,
    UnknownFact,
    any_known,
    attempt,
    get_raw,
    keep_known,
    known_items,
    lazy,
    make_shared,
)
from hosttune.facts.gpu.gpu_boards import board_of
from hosttune.facts.gpu.nvidia_tables import FIRST_NVSWITCH, generation_of
from hosttune.facts.gpu.platforms import has_grace
from hosttune.facts.reading import all_sure, hint, if_absent, read_line, require_sure
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.host.door import Reader

DEVICES = "/sys/bus/pci/devices"
_NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")
_SWITCH_CLASS = "0x0680"
_OPTIONAL_ECC = regex(r"GeForce|RTX|Quadro|TITAN|NVS|\bCMP\b|\bDRIVE\b", re.IGNORECASE)
NAME_LISTS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")


@frozen
class Gpu(Fact):
    """One GPU, as a PCI function. Unknown texts are empty, unknown numbers 0."""

    slot: str  # 0000:4e:00.0
    device_id: str  # 0x2330
    subsystem: str  # 10de:16c1, vendor and device of the board
    class_id: str  # 0x030200
    generation: str  # fermi kepler maxwell pascal volta turing ampere ada hopper blackwell unknown
    # NVIDIA H100 80GB HBM3 from a loaded driver or our table, GH100 [H100 SXM5 80GB] from pci.ids
    name: str
    driver: str  # the kernel driver that has it: nvidia, nouveau, vfio-pci ...; empty for none
    numa_node: int  # -1 where the firmware does not say
    link_width: int  # lanes in use now; a GPU at rest may use fewer
    max_link_width: int  # lanes that the GPU can use
    link_speed: str  # 32.0 GT/s PCIe; a GPU at rest runs slower
    max_link_speed: str  # the highest that the GPU can do: 32.0 GT/s PCIe
    # a part of a card, lent by a hypervisor: its subsystem id is one of NVIDIA's vGPU profiles
    is_vgpu: bool
    # False for a board of NVIDIA's own that is of a known GPU and in no list: new, or a new profile
    is_listed: bool

    @property
    def ships_with_ecc(self) -> bool:
        """Its model comes with ECC switched on: cards with HBM, and those for servers, by their
        names. Cards for workstations have it off, where they have it (RTX A6000, RTX PRO 6000, RTX
        4090); so had the Tesla M60, and those for mining (CMP) and cars (DRIVE) have none.
        """
        return (
            bool(self.name) and self.generation != "maxwell" and not _OPTIONAL_ECC.search(self.name)
        )

    @property
    def named_bytes(self) -> int:
        """The memory that its name has (80GB HBM3), else 0. The name of a GH200 counts the memory
        of its CPU.
        """
        match = None if "GH200" in self.name else re.search(r"(?<!\d)(\d{1,6}) ?GB\b", self.name)
        return int(match[1]) << 30 if match else 0

    @property
    def modalias(self) -> str:
        """What the kernel calls it, and packages name it by:
        pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00.
        """
        vendor, _, board = self.subsystem.partition(":")
        device, one, other = (
            f"{max(_parse_number(f'0x{part}'), 0):08X}"
            for part in (self.device_id[2:], vendor, board)
        )
        kind = self.class_id.removeprefix("0x").upper().rjust(6, "0")
        return f"pci:v000010DEd{device}sv{one}sd{other}bc{kind[:2]}sc{kind[2:4]}i{kind[4:]}"

    @property
    def title(self) -> str:
        """What to call it: its name, else its device id."""
        title = self.name or f"NVIDIA device {self.device_id} ({self.generation} generation)"
        # a GPU that fell off the bus does not say what it is a part of
        is_vgpu = attempt(lambda: self.is_vgpu) is True
        return f"vGPU of {title}" if is_vgpu and not re.search(r"-\d+[A-Z]", title) else title


@frozen
class Gpus(Subject):
    """All NVIDIA GPUs, by slot."""

    @fact
    def devices(self) -> tuple[Gpu, ...]:
        return _read_gpus(self.reader, self._functions)

    @fact
    def nvswitches(self) -> int:
        """NVSwitch functions on the PCI bus; the switches of HGX B200 and newer do not show
        there.
        """
        return sum(
            _is_switch(self.reader, one.slot) for one in _of_class(self._functions, _SWITCH_CLASS)
        )

    @fact
    def most(self) -> int:
        """The GPUs and the PCI functions that may be one, of which vendor or class could not be
        read.
        """
        return sum(map(_may_be_gpu, self._functions))

    @fact
    def _functions(self) -> tuple[_Function, ...]:
        """None on a machine without PCI."""
        slots = require_sure(self.reader.list(DEVICES))
        if slots is ABSENT:
            if self.reader.stat("/sys/bus") is ABSENT:
                raise UnknownFact("/sys is not mounted")
            return ()
        vendors = ((slot, attempt(read_pci, self.reader, slot, "vendor")) for slot in slots)
        return tuple(
            _Function(slot, vendor, attempt(read_pci, self.reader, slot, "class"))
            for slot, vendor in vendors
            # A function whose vendor cannot be read stays in the list: it may be a GPU.
            if vendor == _NVIDIA or isinstance(vendor, Unreadable)
        )

    @property
    def count(self) -> int:
        """How many NVIDIA GPUs the PCI bus shows."""
        return len(self.devices)

    @property
    def has_gpu(self) -> bool:
        """Whether the PCI bus shows an NVIDIA GPU."""
        return bool(self.devices)

    @property
    def is_on_grace(self) -> bool:
        """A GPU here shares its module with a Grace processor of NVIDIA."""
        return any(has_grace(gpu.device_id) for gpu in self.devices)

    @property
    def open_alone(self) -> tuple[str, ...]:
        """What here has no closed kernel module (NVIDIA's driver installation guide, "Kernel
        Modules").
        """
        grace = "hopper" in self.generations and self.is_on_grace
        blackwell = ("Blackwell",) if "blackwell" in self.generations else ()
        return (*(("Grace Hopper",) if grace else ()), *blackwell)

    @property
    def ours(self) -> tuple[Gpu, ...]:
        """Those that a driver of this host has to drive, by slot: without the ones that are held
        for virtual machines, unless all are.
        """
        ours = keep_known(
            lambda gpu: () if is_vfio(str(get_raw(gpu, "driver"))) else (gpu,), self.devices
        )
        return ours or self.devices

    @property
    def generations(self) -> tuple[str, ...]:
        """The generations that a driver of this host has to drive, each once, by slot."""
        return tuple(dict.fromkeys(gpu.generation for gpu in self.ours))

    @property
    def drivers(self) -> tuple[str, ...]:
        """The kernel drivers that hold GPUs, each once; empty text for a GPU that none holds."""
        return tuple(dict.fromkeys(gpu.driver for gpu in self.devices))

    @property
    def undriven(self) -> tuple[str, ...]:
        """The slots of GPUs that no kernel driver holds."""
        return tuple(gpu.slot for gpu in self.devices if get_raw(gpu, "driver") == "")

    @property
    def is_passed_through(self) -> bool:
        """Every GPU is held for virtual machines."""
        return self.has_gpu and not any_known(lambda gpu: not is_vfio(gpu.driver), self.devices)

    @property
    def is_vgpu(self) -> bool:
        """One of them is a part of a card that a hypervisor lends, as its PCI ids say."""
        return any_known(lambda gpu: gpu.is_vgpu, self.devices)

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Those of a known GPU whose board is in no list, with their PCI ids."""
        return tuple(
            f"{gpu.title} ({gpu.device_id}, {gpu.subsystem})"
            for gpu in self.devices
            if not gpu.is_listed
        )

    @property
    def summary(self) -> str:
        """8 x GH100 [H100 SXM5 80GB]; a GPU without a name is called by its device id."""
        return count_of_kinds(gpu.title for gpu in self.devices)


def count_of_kinds(titles: Iterable[str]) -> str:
    """8 x GH100, 1 x A2."""
    return ", ".join(f"{count} x {title}" for title, count in Counter(titles).items())


def name_in(pci_ids: bytes, device: str, vendor: str = "10de") -> str:
    """The name of a device ("2330") in the text of pci.ids(5); empty when it is not listed."""
    start = pci_ids.find(f"\n{vendor} ".encode())
    if start < 0:
        return ""
    # The search ends where the next vendor, or the list of classes, begins: device numbers repeat
    # below other vendors.
    end = re.compile(rb"\n[0-9a-fC]").search(pci_ids, start + 1)
    found = pci_ids.find(
        b"\n\t" + device.encode() + b"  ", start, end.start() if end else len(pci_ids)
    )
    if found < 0:
        return ""
    stop = pci_ids.find(b"\n", found + 1)
    return pci_ids[found + 8 : stop if stop >= 0 else None].decode("utf-8", "replace").strip()


def model_in(information: str) -> str:
    """The model in /proc/driver/nvidia/gpus/SLOT/information, which is "Unknown" until a program
    opens the GPU.
    """
    match = re.search(r"^Model:[ \t]*(\S(?:.*\S)?)[ \t]*$", information, re.MULTILINE)
    return match[1] if match and match[1] != "Unknown" else ""


@frozen
class _Function:
    """A PCI function of NVIDIA's, or one whose vendor could not be read."""

    slot: str
    vendor: str | Unreadable
    kind: str | Unreadable  # its class


def _may_be_gpu(one: _Function) -> bool:
    return isinstance(one.kind, Unreadable) or one.kind.startswith(_GPU_CLASSES)


def _of_class(functions: Iterable[_Function], *classes: str) -> tuple[_Function, ...]:
    """Those of these classes. Of one that is of another class its vendor does not matter."""

    def take(one: _Function) -> tuple[_Function, ...]:
        if isinstance(one.kind, str) and not one.kind.startswith(classes):
            return ()
        all_sure((one.vendor, one.kind))
        return (one,)

    return keep_known(take, functions)


def _is_switch(reader: Reader, slot: str) -> bool:
    return _parse_number(read_pci(reader, slot, "device")) >= FIRST_NVSWITCH


def _read_gpus(reader: Reader, functions: Iterable[_Function]) -> tuple[Gpu, ...]:
    """Without virtual functions: each is a part of a GPU that this host lends (vGPU); nvidia-smi
    does not list it.
    """
    found = keep_known(
        lambda one: () if isinstance(reader.link(f"{DEVICES}/{one.slot}/physfn"), str) else (one,),
        _of_class(functions, *_GPU_CLASSES),
    )
    names = make_shared(_read_names, reader, found)
    return keep_known(lambda one: (_read_gpu(reader, one.slot, str(one.kind), names),), found)


def _read_gpu(reader: Reader, slot: str, class_id: str, names: Callable[[], dict[str, str]]) -> Gpu:
    device, subsystem = (
        make_shared(read_pci, reader, slot, "device"),
        make_shared(_read_subsystem, reader, slot),
    )
    board = make_shared(lambda: board_of(device(), subsystem()))
    return Gpu(
        slot=slot,
        device_id=lazy(device),
        subsystem=lazy(subsystem),
        class_id=class_id,
        generation=lazy(lambda: generation_of(_parse_number(device()))),
        name=lazy(lambda: names()[slot] or board().name),
        driver=lazy(driver_of, reader, slot),
        numa_node=lazy(_read_node, reader, slot),
        link_width=lazy(lambda: width_of(read_pci(reader, slot, "current_link_width"))),
        max_link_width=lazy(lambda: width_of(read_pci(reader, slot, "max_link_width"))),
        link_speed=lazy(lambda: _parse_speed(read_pci(reader, slot, "current_link_speed"))),
        max_link_speed=lazy(lambda: _parse_speed(read_pci(reader, slot, "max_link_speed"))),
        is_vgpu=lazy(lambda: board().is_vgpu),
        is_listed=lazy(lambda: board().is_listed),
    )


def _read_subsystem(reader: Reader, slot: str) -> str:
    vendor, board = (
        read_pci(reader, slot, f"subsystem_{part}").removeprefix("0x")
        for part in ("vendor", "device")
    )
    return f"{vendor}:{board}" if vendor and board else ""


def is_vfio(driver: str) -> bool:
    """It holds a device for a virtual machine: vfio-pci, or one of its kin
    (nvgrace-gpu-vfio-pci).
    """
    return "vfio" in driver


def driver_of(reader: Reader, slot: str) -> str:
    """The kernel driver that has a PCI function; empty for none."""
    return if_absent(reader.link(f"{DEVICES}/{slot}/driver"), "").rsplit("/", 1)[-1]


def _read_node(reader: Reader, slot: str) -> int:
    node = read_pci(reader, slot, "numa_node")
    return int(node) if re.fullmatch(r"-?[0-9]{1,9}", node) else -1


def _read_names(reader: Reader, functions: Iterable[_Function]) -> dict[str, str]:
    """Names by slot: from the loaded driver, else from the PCI ID list that is installed (our table
    knows more).
    """
    slots = known_items(one.slot for one in functions)
    names = {
        slot: model_in(hint(reader, f"/proc/driver/nvidia/gpus/{slot}/information"))
        for slot in slots
    }
    if all(names.values()):
        return names
    # pci.ids has more than a megabyte, and is read only if the driver leaves a name open.
    lists = (reader.read(path) for path in NAME_LISTS)
    known = next((content for content in lists if isinstance(content, bytes)), b"")
    for slot in slots:
        names[slot] = names[slot] or name_in(
            known, read_pci(reader, slot, "device").removeprefix("0x")
        )
    return names


def read_pci(reader: Reader, slot: str, name: str) -> str:
    """What sysfs has of a PCI function; empty where it has no such file, and of no function. Raises
    UnknownFact for one that cannot be read: what is judged by it must not be judged by its absence.
    """
    return if_absent(read_line(reader, f"{DEVICES}/{slot}/{name}"), "") if slot else ""


def _parse_number(spelled: str) -> int:
    return int(spelled, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", spelled) else -1


def width_of(spelled: str) -> int:
    """Lanes; the kernel writes 0, or 63 and 255 read from a dead link, where it does not know."""
    return width if (width := parse_digits(spelled, 0)) <= 32 else 0


def _parse_speed(spelled: str) -> str:
    return spelled if spelled.startswith(tuple("0123456789")) else ""
