"""Which kernel drivers other than NVIDIA's hold GPUs of this host, and whether they come back at
the next boot.

Sources: sysfs (kernel: Documentation/ABI/testing/sysfs-bus-pci; the link `module` of a driver,
sysfs-module), modprobe.d(5), drivers/gpu/nova-core and drivers/gpu/drm/nova of Linux 7.0 (LP bug
2150845: Ubuntu's first 7.0 kernels have them), kernel-open/nvidia/nv-pci.c of
github.com/NVIDIA/open-gpu-kernel-modules for the sentence of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, attempt, get_raw
from hosttune.facts.gpu.gpu_errors import is_load, slot_of, split_stamp
from hosttune.facts.gpu.gpus import is_vfio
from hosttune.facts.kernel.initramfs import REBUILD
from hosttune.facts.kernel.module_options import normalize_module
from hosttune.facts.kernel.modules_at_boot import ON_COMMAND_LINE, kept_out_at_boot
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.quoting import quote
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_DRIVERS = "/sys/bus/pci/drivers"
# By the name of the driver: the modules that load it for a GPU, or make use of it.
_MODULES: Mapping[str, tuple[str, ...]] = {
    "nouveau": ("nouveau",), "novacore": ("nova_core", "nova_drm", "nova"),
    "nvidiafb": ("nvidiafb",), "rivafb": ("rivafb",),
}  # fmt: skip
# They drive nothing: a person sets a device aside with them, for a virtual machine or a program.
_RESERVING = frozenset({"pci_stub", "pciback", "xen_pciback", "uio_pci_generic", "igb_uio"})
_BOUND = regex(
    r"NVRM: GPU ([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7]) is already bound to "
    r"([\w-]{1,40})\.?\s*"
)


@frozen
class GpuHolder(Fact):
    """A kernel driver that holds GPUs, and is neither NVIDIA's nor one for virtual machines
    (vfio).
    """

    name: str  # as sysfs calls it: nouveau, NovaCore, pci-stub
    # that have to stay out for the GPU to be free; none of a driver that sets devices aside
    modules: tuple[str, ...]
    slots: tuple[str, ...]  # PCI addresses of the GPUs that it holds
    is_reserving: bool  # it sets devices aside, and drives none
    # the file of modprobe.d that keeps these modules out from the next boot on; empty for none
    kept_out_by: str
    is_of_log: bool  # the kernel log names it, and sysfs shows no driver of these GPUs
    # the initial RAM disk of the next kernel was made after that file was written
    is_image_newer: bool = False

    @property
    def is_packaged(self) -> bool:
        """A package brings that file, and builds the initial RAM disk anew when it is installed."""
        return self.kept_out_by.startswith(("/usr/lib/", "/lib/"))

    @property
    def is_out_at_boot(self) -> bool:
        """The next boot keeps it out: what loads modules before the root is mounted has that file,
        too.
        """
        return bool(self.kept_out_by) and (
            self.is_packaged or self.is_image_newer or self.kept_out_by.endswith(ON_COMMAND_LINE)
        )


def make_blacklist(modules: tuple[str, ...]) -> str:
    """The commands that keep these modules from GPUs from the next boot on (modprobe.d(5))."""
    lines = "".join(rf"blacklist {module}\n" for module in modules)  # for printf(1)
    path = quote(f"/etc/modprobe.d/blacklist-{modules[0]}.conf")
    return f"printf {quote(lines)} | sudo tee {path}\n{REBUILD}"


def bound_in(messages: Iterable[str]) -> Mapping[str, str]:
    """By slot the driver that had a GPU when NVIDIA's was loaded last, as that says."""
    found: dict[str, str] = {}
    for message in messages:
        if is_load(message):
            found.clear()
        elif bound := _BOUND.fullmatch(split_stamp(message)[1]):
            found[slot_of(*bound.group(1, 2, 3, 4))] = bound[5]
    return found


def find_holders(reader: Reader, facts: Facts) -> tuple[GpuHolder, ...]:
    """Those that hold GPUs now. The log counts for a GPU of which sysfs shows no driver, while
    NVIDIA's is not loaded: what had it is there again after the next boot.
    """
    slots: dict[str, list[str]] = {}
    free = []
    for gpu in facts.gpus.devices:
        name = get_raw(gpu, "driver")
        if isinstance(name, str) and name not in ("", "nvidia") and not is_vfio(name):
            slots.setdefault(name, []).append(gpu.slot)
        elif not isinstance(name, str) or not name:
            free.append(gpu.slot)
    of_log: dict[str, list[str]] = {}
    if free and get_raw(facts.driver, "loaded_version") == "":
        messages = attempt(lambda: facts.nvidia.messages)
        bound = bound_in(messages) if isinstance(messages, tuple) else {}
        for slot in free:
            if name := bound.get(slot, ""):
                of_log.setdefault(name, []).append(slot)
    seen = [_make_holder(reader, facts, name, own, is_of_log=False) for name, own in slots.items()]
    return (
        *seen,
        *(_make_holder(reader, facts, name, own, is_of_log=True) for name, own in of_log.items()),
    )


def _make_holder(
    reader: Reader, facts: Facts, name: str, slots: list[str], *, is_of_log: bool
) -> GpuHolder:
    key = normalize_module(name).lower()
    is_reserving = key in _RESERVING
    modules = _MODULES.get(key.replace("_", "")) or (
        () if is_reserving else (_module_of(reader, name),)
    )
    kept_out = attempt(kept_out_at_boot, facts)
    files = (
        # The first module is the one that binds the GPU; the others build on it and do not load
        # without it.
        [kept_out.get(module, "") for module in modules[:1]]
        if isinstance(kept_out, Mapping)
        else []
    )
    file = next(iter(files), "")
    return GpuHolder(
        name,
        modules,
        tuple(slots),
        is_reserving,
        file,
        is_of_log,
        _is_image_newer(reader, facts, file),
    )


def _is_image_newer(reader: Reader, facts: Facts, file: str) -> bool:
    """False where it is not known, as on a host without /boot."""
    kernel = attempt(lambda: facts.boot.next_kernel)
    # An image that is older than the file still loads the driver, before the root with
    # /etc/modprobe.d is mounted.
    image = (
        reader.stat(f"/boot/initrd.img-{kernel}") if isinstance(kernel, str) and kernel else None
    )
    written = reader.stat(file) if file.startswith("/") else None
    return (
        isinstance(image, Stat) and isinstance(written, Stat) and image.mtime_ns >= written.mtime_ns
    )


def _module_of(reader: Reader, name: str) -> str:
    """The module that a driver is of; its own name where sysfs does not tell."""
    link = reader.link(f"{_DRIVERS}/{name}/module")
    return normalize_module(link.rpartition("/")[2] if isinstance(link, str) else name)
