"""The IOMMU: whether it translates what GPUs, network cards and NVMe disks read and write.

Kernel: Documentation/ABI/testing/sysfs-kernel-iommu_groups (type: identity is passthrough, DMA is
strict, DMA-FQ is lazy translation), Documentation/admin-guide/kernel-parameters.txt (iommu=,
iommu.passthrough=, iommu.strict=).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, keep_known, lazy, make_shared
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.kernel.kernel import of_kernel
from hosttune.facts.reading import if_absent, names_in, read_line
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_ARGUMENTS = (
    "iommu",
    "intel_iommu",
    "amd_iommu",
    "iommu.passthrough",
    "iommu.strict",
    "arm-smmu.disable_bypass",
)


@frozen
class IommuDevice(Fact):
    """One device and how its memory accesses are treated."""

    slot: str  # its PCI address
    kind: str  # gpu | network | nvme
    group: str  # the number of its group; empty where no IOMMU serves it
    # identity | DMA | DMA-FQ | blocked | auto, or as the kernel says; empty without a group
    domain: str

    @property
    def is_translated(self) -> bool:
        """Whether its addresses are translated; a passthrough domain is not."""
        return self.domain.startswith("DMA")

    @property
    def is_strict(self) -> bool:
        """Each unmapping waits until the IOMMU has forgotten the address."""
        return self.domain == "DMA"


@frozen
class Iommu(Subject):
    """The IOMMU as it treats the devices that exchange data with GPUs."""

    # it serves at least one group
    is_on: bool = read_with(lambda self: bool(names_in(self.reader, "/sys/kernel/iommu_groups")))

    @fact
    def devices(self) -> tuple[IommuDevice, ...]:
        """GPUs, network cards and NVMe disks."""
        return keep_known(
            lambda one: (_read_device(self.reader, one.slot, one.kind),), self.facts.pcie.devices
        )

    # what the kernel command line says of it
    arguments: tuple[str, ...] = read_with(
        lambda self: arguments_of(of_kernel(self.facts.kernel.command_line))
    )

    @property
    def translated(self) -> tuple[str, ...]:
        """Slots whose accesses are translated, at once or lazily."""
        return tuple(device.slot for device in self.devices if device.is_translated)

    @property
    def strict(self) -> tuple[str, ...]:
        """PCI addresses of the devices whose mappings are flushed at once."""
        return tuple(device.slot for device in self.devices if device.is_strict)

    @property
    def summary(self) -> str:
        """How many devices of each kind are treated how: 8 gpu DMA-FQ, 4 network identity."""
        counts: dict[str, int] = {}
        for device in self.devices:
            key = f"{device.kind} {device.domain or 'without IOMMU'}"
            counts[key] = counts.get(key, 0) + 1
        return ", ".join(f"{count} {key}" for key, count in counts.items())


def arguments_of(command_line: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments that set up the IOMMU, as they stand."""
    return tuple(word for word in command_line if word.partition("=")[0] in _ARGUMENTS)


def _read_device(reader: Reader, slot: str, kind: str) -> IommuDevice:
    group = make_shared(
        lambda: if_absent(reader.link(f"{DEVICES}/{slot}/iommu_group"), "").rsplit("/", 1)[-1]
    )
    return IommuDevice(
        slot, kind, lazy(group), lazy(lambda: _read_domain(reader, slot) if group() else "")
    )


def _read_domain(reader: Reader, slot: str) -> str:
    domain = read_line(reader, f"{DEVICES}/{slot}/iommu_group/type")
    if not isinstance(domain, str):  # before Linux 5.11
        raise UnknownFact("the kernel does not tell the type of the IOMMU group")
    return domain
