"""GPUs and accelerators of AMD and Intel, as the PCI bus shows them. The rules for GPUs are about
NVIDIA's; of these only the driver that holds them and, of AMD's, the errors of memory are reported.

Kernel: Documentation/ABI/testing/sysfs-bus-pci; classes 0302 and 1200 (processing accelerator), of
which Intel's own are NPUs (drivers/accel/ivpu) and FPGAs; Gaudi is of Habana Labs. Graphics that a
processor brings are left out: of the display classes 0300 and 0380 the models below count, and what
has 8 GiB of its own (mem_info_vram_total of amdgpu). Errors: ras/umc_err_count
(Documentation/gpu/amdgpu/ras.rst), `ue: 0` and `ce: 0`. Memory in use: mem_info_vram_used
(driver-misc.rst). Names are those of the models below, else of pci.ids(5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, attempt, lazy, make_shared
from hosttune.facts.gpu.gpus import (
    DEVICES,
    NAME_LISTS,
    count_of_kinds,
    driver_of,
    name_in,
    read_pci,
)
from hosttune.facts.kernel.device_log import NOT_SET_UP
from hosttune.facts.reading import (
    if_absent,
    names_in,
    parse_or_unknown,
    read_integer,
    read_text,
    require_known,
)
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_INTEL = "0x8086"
_VENDORS = {"0x1002": "AMD", _INTEL: "Intel", "0x1da3": "Intel"}  # the last is Habana Labs (Gaudi)
_DISPLAY, _3D, _ACCELERATOR = ("0x0300", "0x0380"), "0x0302", "0x1200"
_OWN_MEMORY_BYTES = 8 << 30
_NODES = ("/dev/kfd", "/dev/dri/")  # what programs compute and draw through on AMD's GPUs
_MODELS = {
    "0x738c": "Instinct MI100", "0x738e": "Instinct MI100", "0x7408": "Instinct MI250X",
    "0x740c": "Instinct MI250X", "0x740f": "Instinct MI210", "0x74a0": "Instinct MI300A",
    "0x74a1": "Instinct MI300X", "0x74a2": "Instinct MI308X", "0x74a5": "Instinct MI325X",
    "0x74b5": "Instinct MI300X VF", "0x74b9": "Instinct MI325X VF", "0x75a0": "Instinct MI350X",
    "0x75a3": "Instinct MI355X", "0x0bd5": "Data Center GPU Max 1550",
    "0x0bda": "Data Center GPU Max 1100", "0x56c0": "Data Center GPU Flex 170",
    "0x56c1": "Data Center GPU Flex 140", "0x1020": "Gaudi 2", "0x1060": "Gaudi 3",
}  # fmt: skip
_ERRORS = regex(r"ue: (\d{1,20})\s+ce: (\d{1,20})\s+(?:de: \d+\s*)?")


@frozen
class OtherGpu(Fact):
    """One of them."""

    slot: str  # 0000:4e:00.0
    vendor: str  # AMD | Intel
    device_id: str  # 0x74a1
    title: str  # AMD Instinct MI300X; with its device id where no list names it
    driver: str  # amdgpu, i915, xe, habanalabs, vfio-pci ...; empty for none
    uncorrected: int  # errors of its memory since the driver was loaded; 0 where none are counted
    corrected: int  # the same of errors that were corrected
    memory_used_mib: int = 0  # of its own; 0 where the driver does not tell
    # what its driver wrote to the kernel log and did not take back: a reset that failed ...
    fault: str = ""


@frozen
class OtherGpus(Subject):
    """All of them, by slot."""

    devices: tuple[OtherGpu, ...] = read_with(lambda self: _read_devices(self.reader, self.facts))

    @fact
    def is_in_use(self) -> bool:
        """A process has one open, or may have: who is not root does not see it.

        Also what only watches them counts: that is no claim that memory was left behind.
        """
        if not self.reader.is_privileged:
            return True
        processes = require_known(self.reader.processes(), "the list of processes")
        return any(device.startswith(_NODES) for one in processes for device in one.devices)

    # of AMD's, of which the kernel log tells a fault, and that are on the bus no more
    gone: tuple[OtherGpu, ...] = read_with(lambda self: _find_gone(self.reader, self.facts))

    @property
    def judged(self) -> tuple[OtherGpu, ...]:
        """Those that are there, and those that are gone."""
        return (*self.devices, *self.gone)

    @property
    def count(self) -> int:
        """How many GPUs of other makers there are."""
        return len(self.devices)

    @property
    def summary(self) -> str:
        """8 x AMD Instinct MI300X; empty for none."""
        return count_of_kinds(gpu.title for gpu in self.devices)

    @property
    def vendors(self) -> str:
        """AMD, or AMD and Intel."""
        return " and ".join(sorted({gpu.vendor for gpu in self.devices}))


def errors_in(content: str) -> tuple[int, int]:
    """(uncorrected, corrected) of umc_err_count. Raises ValueError for anything else."""
    match = _ERRORS.fullmatch(content)
    if match is None:
        raise ValueError(f"umc_err_count holds {content[:40]!r}")
    return int(match[1]), int(match[2])


def _find_gone(reader: Reader, facts: Facts) -> tuple[OtherGpu, ...]:
    faults = attempt(lambda: facts.device_log.amd_faults)
    there = names_in(reader, DEVICES) if isinstance(faults, Mapping) and faults else ()
    return tuple(
        OtherGpu(
            slot,
            "AMD",
            "",
            "AMD GPU, which is on the PCI bus no more,",
            "amdgpu",
            0,
            0,
            fault=fault,
        )
        for slot, fault in (faults.items() if isinstance(faults, Mapping) else ())
        if slot not in there
    )


def _read_devices(reader: Reader, facts: Facts) -> tuple[OtherGpu, ...]:
    vendors = {slot: read_pci(reader, slot, "vendor") for slot in names_in(reader, DEVICES)}
    found = {slot: _VENDORS[vendor] for slot, vendor in vendors.items() if vendor in _VENDORS}
    return tuple(
        _read_gpu(reader, facts, slot, vendor, vendors[slot])
        for slot, vendor in found.items()
        if _is_gpu(reader, slot, vendors[slot])
    )


def _is_gpu(reader: Reader, slot: str, vendor_id: str) -> bool:
    kind = read_pci(reader, slot, "class")
    is_known = kind.startswith((*_DISPLAY, _3D, _ACCELERATOR))
    # A virtual function is a part of a GPU that this host lends; the whole one is listed already.
    if not is_known or isinstance(reader.link(f"{DEVICES}/{slot}/physfn"), str):
        return False
    if kind.startswith(_3D) or read_pci(reader, slot, "device") in _MODELS:
        return True
    if kind.startswith(_ACCELERATOR):
        return vendor_id != _INTEL
    memory = attempt(read_integer, reader, f"{DEVICES}/{slot}/mem_info_vram_total")
    return isinstance(memory, int) and memory >= _OWN_MEMORY_BYTES


def _read_gpu(reader: Reader, facts: Facts, slot: str, vendor: str, vendor_id: str) -> OtherGpu:
    device = read_pci(reader, slot, "device")
    errors = make_shared(_read_errors, reader, slot)
    return OtherGpu(
        slot=slot,
        vendor=vendor,
        device_id=device,
        title=lazy(_find_title, reader, vendor, vendor_id, device),
        driver=lazy(driver_of, reader, slot),
        uncorrected=lazy(lambda: errors()[0]),
        corrected=lazy(lambda: errors()[1]),
        memory_used_mib=lazy(
            lambda: if_absent(read_integer(reader, f"{DEVICES}/{slot}/mem_info_vram_used"), 0) >> 20
        ),
        fault=lazy(_find_fault, reader, facts, slot),
    )


def _find_fault(reader: Reader, facts: Facts, slot: str) -> str:
    """One that a virtual machine has now (vfio-pci) is that machine's. That the driver could not
    set it up counts where it has not got it since; and that it has none is proven without the log.
    """
    driver = driver_of(reader, slot)
    if driver == "amdgpu":
        return fault if (fault := facts.device_log.amd_faults.get(slot, "")) != NOT_SET_UP else ""
    fault_of = attempt(lambda: facts.device_log.amd_faults.get(slot)) if not driver else ""
    return NOT_SET_UP if fault_of == NOT_SET_UP else ""


def _read_errors(reader: Reader, slot: str) -> tuple[int, int]:
    content = read_text(reader, f"{DEVICES}/{slot}/ras/umc_err_count")
    return (0, 0) if content is ABSENT else parse_or_unknown(errors_in, str(content))


def _find_title(reader: Reader, vendor: str, vendor_id: str, device: str) -> str:
    name = _MODELS.get(device)
    if name is None:
        lists = (attempt(if_absent, reader.read(path), b"") for path in NAME_LISTS)
        known = next((content for content in lists if isinstance(content, bytes) and content), b"")
        name = name_in(known, device.removeprefix("0x"), vendor_id.removeprefix("0x"))
    return f"{vendor} {name}" if name else f"{vendor} GPU {device}".rstrip()
