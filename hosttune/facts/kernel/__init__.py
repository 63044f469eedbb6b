"""The kernel: what runs, how it was started, what the next boot starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.facts.kernel.acs import Acs
    from hosttune.facts.kernel.after_boot import AfterBoot
    from hosttune.facts.kernel.boot import Boot
    from hosttune.facts.kernel.boot_room import BootRoom
    from hosttune.facts.kernel.cmdline import Cmdline
    from hosttune.facts.kernel.device_log import DeviceLog
    from hosttune.facts.kernel.grub_arguments import GrubArguments
    from hosttune.facts.kernel.host_log import HostLog
    from hosttune.facts.kernel.initramfs import Initramfs
    from hosttune.facts.kernel.iommu import Iommu
    from hosttune.facts.kernel.kernel import Kernel
    from hosttune.facts.kernel.kernel_log import KernelLog
    from hosttune.facts.kernel.module_options import ModuleOptions
    from hosttune.facts.kernel.peer_paths import PeerPaths
    from hosttune.facts.kernel.sysctl import Sysctl
    from hosttune.facts.kernel.sysctl_at_boot import SysctlAtBoot
    from hosttune.facts.kernel.sysfs_at_boot import SysfsAtBoot


class KernelFacts:
    """The subjects in this folder."""

    acs: Acs
    after_boot: AfterBoot
    boot: Boot
    boot_room: BootRoom
    cmdline: Cmdline
    device_log: DeviceLog
    grub_arguments: GrubArguments
    host_log: HostLog
    initramfs: Initramfs
    iommu: Iommu
    kernel: Kernel
    kernel_log: KernelLog
    module_options: ModuleOptions
    peer_paths: PeerPaths
    sysctl: Sysctl
    sysctl_at_boot: SysctlAtBoot
    sysfs_at_boot: SysfsAtBoot
