"""What kind of machine this is: bare metal, virtual machine or container, and how it boots.

Sources: sysfs (kernel: Documentation/ABI/testing/sysfs-firmware-*, sysfs-class-dmi-id),
namespaces(7), machine-id(5), the Boot Loader Interface (systemd.io/BOOT_LOADER_INTERFACE). The two
long decisions stand in `containment` and `virtualization`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt, get_raw
from hosttune.facts.containment import FIRST_MOUNTS, ContainmentDecision, decide, look
from hosttune.facts.reading import (
    all_sure,
    day_of,
    derive,
    if_absent,
    is_there,
    names_in,
    read_line,
    require_known,
    require_sure,
)
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.facts.virtualization import Dmi, cloud_of, hypervisor_of, read_dmi
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.host.reading.machine_id import machine_id_hash
from hosttune.values import ABSENT, Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

VARIABLES = "/sys/firmware/efi/efivars"
_GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"  # EFI_GLOBAL_VARIABLE
_SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
_LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


OSRELEASE = "/proc/sys/kernel/osrelease"
_MOUNTERS = ("/etc/init.d/mountall.sh", "/etc/init.d/localmount")  # Debian's initscripts, OpenRC


@frozen
class Host(Subject):
    """The machine and how it boots. Under an alternate root only what files tell is known."""

    # the name of the host
    hostname: str = read_with(lambda self: require_known(host_name(self.reader), "/etc/hostname"))

    @fact
    def machine_id_hash(self) -> str:
        """16 hex digits of SHA-256; empty where the machine has no id yet."""
        content = read_line(self.reader, "/etc/machine-id")
        return "" if content is ABSENT else machine_id_hash(content)

    @fact
    def boot_id(self) -> str:
        """Changes at each boot."""
        return require_known(
            read_line(self.reader, "/proc/sys/kernel/random/boot_id"), "the boot id"
        )

    @fact
    def is_container(self) -> bool:
        """This system runs in a container."""
        return self._found.is_container

    @fact
    def container(self) -> str:
        """Empty, or docker, podman, lxc, systemd-nspawn, kubernetes, wsl ...; other where nothing
        names it.
        """
        return self._found.name

    @fact
    def container_evidence(self) -> tuple[str, ...]:
        """Sentences: what says container, what says host, which wins."""
        return self._found.evidence

    @fact
    def is_vm(self) -> bool:
        """It is a virtual machine."""
        return bool(self.hypervisor)

    @fact
    def hypervisor(self) -> str:
        """Empty on bare metal, or kvm, qemu, vmware, microsoft, xen, amazon, firecracker ...;
        unknown.
        """
        return hypervisor_of(self.reader, self.facts, self._dmi)

    # it runs in the Windows Subsystem for Linux
    is_wsl: bool = read_with(lambda self: _is_wsl(self.reader, self.facts))

    @fact
    def has_systemd(self) -> bool:
        """It runs now (sd_booted(3)); under an alternate root: /sbin/init is systemd."""
        if not self.reader.persistent_only:
            return _is_folder(self.reader, "/run/systemd/system")
        return if_absent(self.reader.resolve("/sbin/init"), "").endswith("/systemd")

    @fact
    def mounts_fstab(self) -> bool:
        """Something is known that mounts at boot what fstab says: systemd, sysvinit, OpenRC."""
        return self.has_systemd or any(is_there(self.reader, path) for path in _MOUNTERS)

    # the name of process 1
    init: str = read_with(
        lambda self: require_known(read_line(self.reader, "/proc/1/comm"), "/proc/1/comm")
    )
    # grub | systemd-boot | none | unknown
    boot_loader: str = read_with(lambda self: _boot_loader(self.reader, self.facts))
    # it was started by UEFI
    is_uefi: bool = read_with(lambda self: _is_folder(self.reader, "/sys/firmware/efi"))

    @fact
    def secure_boot(self) -> bool | None:
        """None where the firmware has no Secure Boot."""
        return _secure_boot(self.reader) if self.is_uefi else None

    @fact
    def cloud(self) -> str:
        """Empty, or aws, azure, gcp, oracle ..."""
        return cloud_of(self.reader, self._dmi)

    @fact
    def product(self) -> str:
        """The model, as the firmware calls it."""
        return _describe_product(self.reader, self._dmi)

    # this process sees the mounts that process 1 sees
    shares_init_mounts: bool = read_with(lambda self: _shares_init_mounts(self.reader))

    @fact
    def is_image(self) -> bool:
        """Files below a root, with no kernel and no record of hardware: nothing runs."""
        return self.reader.persistent_only and isinstance(self.reader.read(OSRELEASE), Unreadable)

    # the date, ISO 8601, UTC; of a record the one on which it was made
    today: str = read_with(lambda self: day_of(self.reader.now()))

    @fact
    def _found(self) -> ContainmentDecision:
        try:
            return decide(look(self.reader))
        except UnknownFact:
            if not self.reader.persistent_only:
                raise
            return ContainmentDecision(
                False, "", ("files below a root, with no kernel: taken for the image of a host",)
            )

    @fact
    def _dmi(self) -> Dmi:
        return read_dmi(self.reader)


def efi_text(variable: bytes) -> str:
    """An efivarfs file that holds text: four bytes of attributes, then UTF-16 with a NUL (kernel:
    efivarfs.rst).
    """
    return variable[4:].decode("utf-16-le", "replace").rstrip("\0")


def secure_boot_of(secure_boot: Answer[bytes], shim_state: Answer[bytes]) -> bool | None:
    """Whether the kernel sees Secure Boot: on in the firmware, and validation not switched off in
    shim (mokutil(1)).

    As the kernel's efi_get_secureboot decides (drivers/firmware/efi/libstub/secureboot.c).
    """
    # four bytes of attributes, one of value
    if not isinstance(secure_boot, bytes) or len(secure_boot) != 5:
        return None
    is_relaxed = isinstance(shim_state, bytes) and shim_state[4:5] == b"\1"
    return secure_boot[4] == 1 and not is_relaxed


def host_name(reader: Reader) -> Answer[str]:
    """The name of the host: the kernel's, else the configured one."""
    for path in ("/proc/sys/kernel/hostname", "/etc/hostname"):
        if isinstance(name := attempt(read_line, reader, path), str):
            return name
    return name


def _is_wsl(reader: Reader, facts: Facts) -> bool:
    """Of files below a root the configuration file of WSL says that they are for it (Microsoft:
    wsl.conf).
    """
    if facts.host.is_image:
        return isinstance(reader.stat("/etc/wsl.conf"), Stat)
    return derive(read_line(reader, OSRELEASE), OSRELEASE, is_of_wsl)


def is_of_wsl(release: str) -> bool:
    """WSL kernels say so in their release (5.15.153.1-microsoft-standard-WSL2); Azure's
    (6.8.0-1015-azure) do not.
    """
    return "microsoft" in release.lower() or "WSL" in release


def _is_folder(reader: Reader, path: str) -> bool:
    stat = require_sure(reader.stat(path))
    return stat is not ABSENT and stat.type == "directory"


def _boot_loader(reader: Reader, facts: Facts) -> str:
    """What booted says so itself where the firmware is UEFI; else the files that the boot loaders
    read.
    """
    loader_info = reader.read(f"{VARIABLES}/LoaderInfo-{_LOADER}")
    if isinstance(loader_info, bytes):
        name = efi_text(loader_info).lower()
        return next(
            (loader for loader in ("systemd-boot", "grub") if name.startswith(loader)), "unknown"
        )
    # After the loader's own word: a host can have the files of both loaders, and only the variable
    # tells which of them started this boot.
    names = frozenset(names_in(reader, "/boot"))
    if any(
        isinstance(reader.stat(f"/boot/{folder}/grub.cfg"), Stat)
        for folder in names & {"grub", "grub2"}
    ):
        return "grub"
    places = ("/boot/loader/entries", "/boot/efi/loader/loader.conf", "/efi/loader/loader.conf")
    stats = [reader.stat(path) for path in places]
    if any(isinstance(stat, Stat) for stat in stats):
        return "systemd-boot"
    all_sure(stats)
    # No kernel of its own either: it comes from outside (container, microVM, direct kernel boot).
    has_kernel = any(name.startswith(("vmlinu", "Image")) for name in names)
    return "unknown" if has_kernel or get_raw(facts.host, "is_uefi") is True else "none"


def _secure_boot(reader: Reader) -> bool | None:
    secure = require_sure(reader.read(f"{VARIABLES}/SecureBoot-{_GLOBAL}"))
    # Without efivarfs every variable is missing. "No such variable" would then read as a firmware
    # without Secure Boot, under which any module loads.
    if secure is ABSENT and reader.list(VARIABLES) in {ABSENT, ()}:
        raise UnknownFact(f"{VARIABLES} is not mounted")
    return secure_boot_of(secure, reader.read(f"{VARIABLES}/MokSBStateRT-{_SHIM}"))


def _describe_product(reader: Reader, dmi: Dmi) -> str:
    name = get_raw(dmi, "product_name")
    if isinstance(name, str) and name:
        return name
    model = attempt(read_line, reader, "/proc/device-tree/model")
    if isinstance(model, str):
        return model
    all_sure((name, model))
    return ""


def _shares_init_mounts(reader: Reader) -> bool:
    mine, init = reader.link("/proc/self/ns/mnt"), reader.link("/proc/1/ns/mnt")
    # A plain user may not read the link of process 1. The number of the first namespace is enough
    # without it.
    if mine == FIRST_MOUNTS:
        return True
    return require_known(mine, "/proc/self/ns/mnt") == require_known(init, "/proc/1/ns/mnt")
