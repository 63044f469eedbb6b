"""The IOMMU: whether it translates what GPUs, network cards and NVMe disks read and write.

Kernel: Documentation/ABI/testing/sysfs-kernel-iommu_groups (type: identity is passthrough, DMA is strict, DMA-FQ is
lazy translation), Documentation/admin-guide/kernel-parameters.txt (iommu=, iommu.passthrough=, iommu.strict=).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, raw, unread
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.reading import line
from hosttune.frozen import frozen
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_ARGUMENTS = ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "iommu.strict", "arm-smmu.disable_bypass")


@frozen
class IommuDevice(Fact):
    """One device and how its memory accesses are treated."""

    slot: str
    kind: str  # gpu | network | nvme
    group: str  # the number of its group; empty where no IOMMU serves it
    domain: str  # identity | DMA | DMA-FQ | blocked | auto, or as the kernel says; empty without a group

    @property
    def is_translated(self) -> bool:
        return self.domain.startswith("DMA")

    @property
    def is_strict(self) -> bool:
        """Each unmapping waits until the IOMMU has forgotten the address."""
        return self.domain == "DMA"


@frozen
class Iommu(Fact):
    """The IOMMU as it treats the devices that exchange data with GPUs."""

    is_on: bool  # it serves at least one group
    devices: tuple[IommuDevice, ...]
    arguments: tuple[str, ...]  # what the kernel command line says of it

    @property
    def translated(self) -> tuple[str, ...]:
        """Slots whose accesses are translated, at once or lazily."""
        return tuple(device.slot for device in self.devices if device.is_translated)

    @property
    def strict(self) -> tuple[str, ...]:
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


def collect(reader: Reader, facts: Facts) -> Iommu:
    groups: Any = reader.list("/sys/kernel/iommu_groups")
    words: Any = raw(facts.kernel, "command_line")
    devices: Any = raw(facts.pcie, "devices")
    if isinstance(devices, tuple):
        devices = tuple(_device(reader, device.slot, device.kind) for device in devices)
    if not isinstance(groups, Unreadable):
        groups = groups is not ABSENT and len(groups) > 0
    return Iommu(
        is_on=groups,
        devices=devices,
        arguments=arguments_of(words) if isinstance(words, tuple) else words,
    )


def _device(reader: Reader, slot: str, kind: str) -> IommuDevice:
    link = reader.link(f"{DEVICES}/{slot}/iommu_group")
    if isinstance(link, Unreadable):
        return IommuDevice(slot, kind, unread(link.reason), unread(link.reason))
    if link is ABSENT:
        return IommuDevice(slot, kind, "", "")
    domain = line(reader, f"{DEVICES}/{slot}/iommu_group/type")
    known = domain if isinstance(domain, str) else unread("the kernel does not tell the type of the IOMMU group")
    return IommuDevice(slot, kind, str(link).rsplit("/", 1)[-1], known)
