"""What a host is and how it is set up, in a few words each: what it is compared by with the others
of a fleet.

`hardware` says which hosts are siblings; `settings` is what siblings should have in common. Text
that differs on every host by nature (addresses, UUIDs) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.containers.kubernetes import is_of_pods
from hosttune.facts.memory.memory import as_sold
from hosttune.facts.reading import read_line, require_known
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.storage.mounts import Mount

NO_DRIVER = "none loaded"
# sysfs names it, and /proc/driver/nvidia is not there: a container
UNKNOWN_DRIVER = "in a version that is not known"
UNKNOWN = "unknown"
_BIOS = "/sys/class/dmi/id/bios_version"
_GIB = 1 << 30
_NETWORK = frozenset(
    {"nfs", "nfs4", "lustre", "beegfs", "ceph", "gpfs", "cifs", "smb3", "fuse.weka", "wekafs"}
)
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "vfat", "bcachefs"})
# of a mount: what names this client or its server, and what grows with the memory of the host
_OWN_OPTIONS = (
    "addr=",
    "clientaddr=",
    "mountaddr=",
    "mountport=",
    "port=",
    "size=",
    "nr_inodes=",
    "subvolid=",
)
# of the kernel command line: which kernel and which disk
_OWN_ARGUMENTS = (
    "BOOT_IMAGE=",
    "initrd=",
    "root=",
    "resume=",
    "rd.luks",
    "cryptdevice=",
    "ip=",
    "BOOTIF=",
)


@frozen
class Inventory:
    """The host in words. What could not be read has no entry. `gpu` is how the models are called,
    as far as the loaded driver tells; `reboot` are the packages that ask for one.
    """

    hardware: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    gpu: str = ""
    reboot: tuple[str, ...] = ()


def take_inventory(facts: Facts) -> Inventory:
    """The inventory of a host. Raises nothing: an unread fact has no entry."""
    settings = _fill_table(_SETTINGS, facts)
    with suppress(UnknownFact):
        settings.update(_describe_mounts(facts))
    gpu = ""
    with suppress(UnknownFact):
        gpu = " and ".join(sorted({gpu.name for gpu in facts.gpus.devices if gpu.name}))
    reboot: tuple[str, ...] = ()
    with suppress(UnknownFact):
        if facts.boot.reboot_required:
            reboot = facts.boot.reboot_packages or ("a package",)
    return Inventory(_fill_table(_HARDWARE, facts), settings, gpu, reboot)


def describe_machine(facts: Facts) -> dict[str, str]:
    """What this machine is: `product`, `GPUs`, `driver`, `kernel` and `system`, in words. What
    could not be read is `unknown`; what an image or a host without GPUs has not got is left out.
    """
    found = {}
    for name, tell in _MACHINE.items():
        try:
            found[name] = tell(facts)
        except UnknownFact:
            found[name] = "" if facts.reader.persistent_only else UNKNOWN
    return {name: words for name, words in found.items() if words}


def other_system(facts: Facts) -> str:
    """The name of a system that is neither Ubuntu nor Debian; empty for these, and where it is not
    known.
    """
    try:
        system = facts.os
        return "" if system.is_ubuntu or system.is_debian else system.name or system.id
    except UnknownFact:
        return ""


def _describe_product(facts: Facts) -> str:
    host = facts.host
    cloud = attempt(lambda: host.cloud)  # not known of files that people send, whose board is
    where = f" on {cloud}" if cloud and isinstance(cloud, str) else ""
    under = f" ({host.hypervisor})" if host.is_vm and host.hypervisor not in {"", "unknown"} else ""
    words = (
        f"{host.product or ('virtual machine' if host.is_vm else 'unknown board')}{under}{where}"
    )
    return (
        f"{host.container} container, whose host was not looked at ({words})"
        if host.is_container
        else words
    )


def _describe_room(facts: Facts) -> str:
    """Of a container or a job of Slurm; empty for a host, and where it is not known."""
    found = attempt(lambda: facts.confines.summary if facts.confines.by else "")
    return found if isinstance(found, str) else ""


def _describe_models(facts: Facts) -> str:
    found = ", ".join(filter(None, (facts.gpus.summary, facts.other_gpus.summary)))
    return found or ("" if facts.host.is_image else "no NVIDIA GPU")


def _describe_loaded(facts: Facts) -> str:
    return facts.driver.loaded_version or (_without_version(facts) if facts.gpus.has_gpu else "")


def _without_version(facts: Facts) -> str:
    others = ", ".join(filter(None, facts.gpus.drivers))  # nouveau, vfio-pci
    return UNKNOWN_DRIVER if "nvidia" in facts.gpus.drivers else others or NO_DRIVER


def _fill_table(table: Mapping[str, Callable[[Facts], str]], facts: Facts) -> dict[str, str]:
    found = {}
    for name, tell in table.items():
        with suppress(UnknownFact):
            found[name] = tell(facts)
    return found


def _describe_gpu(facts: Facts) -> str:
    """Models by PCI id: their names depend on the driver that happens to be loaded."""
    kinds = {(gpu.generation, gpu.device_id) for gpu in facts.gpus.devices}
    kinds |= {(gpu.vendor, gpu.device_id) for gpu in facts.other_gpus.devices}
    return (
        " and ".join(f"{generation} {device}" for generation, device in sorted(kinds)) or "no GPU"
    )


def _describe_cpu(facts: Facts) -> str:
    return f"{facts.cpu.sockets} x {facts.cpu.model or facts.kernel.architecture}"


def _describe_memory(facts: Facts) -> str:
    """What is built in, fine enough that one module of 32 that is missing shows."""
    return f"{as_sold(facts.memory.total_bytes, 16) // _GIB} GiB"


def _describe_driver(facts: Facts) -> str:
    driver = facts.driver
    if not driver.loaded_version:
        return _without_version(facts)
    return f"{driver.loaded_version} ({'open' if driver.is_open else 'closed'})"


def _describe_system(facts: Facts) -> str:
    name, version = facts.os.name, facts.os.version_id
    return name if version in name else f"{name} {version}"


def _kernel_arguments(facts: Facts) -> str:
    return (
        " ".join(word for word in facts.kernel.command_line if not word.startswith(_OWN_ARGUMENTS))
        or "none"
    )


def _describe_iommu(facts: Facts) -> str:
    domains = sorted(
        {device.domain for device in facts.iommu.devices if device.kind == "gpu" and device.domain}
    )
    return " ".join(["on", *domains]) if facts.iommu.is_on else "off"


def _describe_firmware(facts: Facts) -> str:
    return require_known(read_line(facts.reader, _BIOS), _BIOS)


def _describe_mitigations(facts: Facts) -> str:
    return " ".join(facts.vulnerabilities.switched_off) or "on"


def _describe_mounts(facts: Facts) -> dict[str, str]:
    return {
        f"mount {mount.target}": _mount(mount)
        for mount in facts.mounts.visible
        if not mount.is_bind
        and mount.fstype in _NETWORK | _LOCAL | {"tmpfs"}
        and not _is_passing(mount.target)
    }


def _mount(mount: Mount) -> str:
    options = dict.fromkeys((*mount.options, *mount.super_options))
    return (
        f"{mount.fstype} {','.join(sorted(o for o in options if not o.startswith(_OWN_OPTIONS)))}"
    )


def _is_passing(target: str) -> bool:
    """Whether sessions, containers or services come and go there."""
    trees = ("/run/", "/var/lib/docker/", "/var/lib/containerd/", "/snap/")
    return f"{target}/".startswith(trees) or is_of_pods(target)


_MACHINE: Mapping[str, Callable[[Facts], str]] = {
    "product": _describe_product,
    "GPUs": _describe_models,
    "driver": _describe_loaded,
    "kernel": lambda facts: facts.kernel.release,
    "system": _describe_system,
    "may use": _describe_room,
}
_HARDWARE: Mapping[str, Callable[[Facts], str]] = {
    "GPU": _describe_gpu,
    "CPU": _describe_cpu,
    "board": lambda facts: facts.host.product or facts.host.cloud or "unknown board",
}
_SETTINGS: Mapping[str, Callable[[Facts], str]] = {
    "GPUs": lambda facts: str(facts.gpus.count + facts.other_gpus.count),
    "memory": _describe_memory,
    "firmware": _describe_firmware,
    "driver": _describe_driver,
    "kernel": lambda facts: facts.kernel.release,
    "kernel arguments": _kernel_arguments,
    "system": _describe_system,
    "governor": lambda facts: (
        f"{facts.cpufreq.governor} ({facts.cpufreq.driver})" if facts.cpufreq.driver else "none"
    ),
    "NUMA nodes": lambda facts: str(len(facts.numa.nodes)),
    "IOMMU": _describe_iommu,
    "SMT": lambda facts: "on" if facts.vulnerabilities.is_smt_on else "off",
    "mitigations": _describe_mitigations,
    "fstab": lambda facts: ", ".join(sorted(facts.fstab.at)) or "none",
    "Secure Boot": lambda facts: "on" if facts.host.secure_boot else "off",
}
