"""What kind of machine this is: bare metal, virtual machine or container, and how it boots.

Sources: sysfs (kernel: Documentation/ABI/testing/sysfs-firmware-*, sysfs-class-dmi-id), namespaces(7), machine-id(5),
the Boot Loader Interface (systemd.io/BOOT_LOADER_INTERFACE). The two long decisions stand in `containment` and
`virtualization`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, get_raw, lazy, make_shared
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
class Host(Fact):
    """The machine and how it boots. Under an alternate root only what files tell is known."""

    hostname: str  # the name of the host
    machine_id_hash: str  # 16 hex digits of SHA-256; empty where the machine has no id yet
    boot_id: str  # changes at each boot
    is_container: bool  # this system runs in a container
    container: str  # empty, or docker, podman, lxc, systemd-nspawn, kubernetes, wsl ...; other where nothing names it
    container_evidence: tuple[str, ...]  # sentences: what says container, what says host, which wins
    is_vm: bool  # it is a virtual machine
    hypervisor: str  # empty on bare metal, or kvm, qemu, vmware, microsoft, xen, amazon, firecracker ...; unknown
    is_wsl: bool  # it runs in the Windows Subsystem for Linux
    has_systemd: bool  # it runs now (sd_booted(3)); under an alternate root: /sbin/init is systemd
    mounts_fstab: bool  # something is known that mounts at boot what fstab says: systemd, sysvinit, OpenRC
    init: str  # the name of process 1
    boot_loader: str  # grub | systemd-boot | none | unknown
    is_uefi: bool  # it was started by UEFI
    secure_boot: bool | None  # None where the firmware has no Secure Boot
    cloud: str  # empty, or aws, azure, gcp, oracle ...
    product: str  # the model, as the firmware calls it
    shares_init_mounts: bool  # this process sees the mounts that process 1 sees
    is_image: bool  # files below a root, with no kernel and no record of hardware: nothing runs
    today: str  # the date, ISO 8601, UTC; of a record the one on which it was made


def efi_text(variable: bytes) -> str:
    """An efivarfs file that holds text: four bytes of attributes, then UTF-16 with a NUL (kernel: efivarfs.rst)."""
    return variable[4:].decode("utf-16-le", "replace").rstrip("\0")


def secure_boot_of(secure_boot: Answer[bytes], shim_state: Answer[bytes]) -> bool | None:
    """Whether the kernel sees Secure Boot: on in the firmware, and validation not switched off in shim (mokutil(1)).

    As the kernel's efi_get_secureboot decides (drivers/firmware/efi/libstub/secureboot.c).
    """
    if not isinstance(secure_boot, bytes) or len(secure_boot) != 5:  # four bytes of attributes, one of value
        return None
    is_relaxed = isinstance(shim_state, bytes) and shim_state[4:5] == b"\1"
    return secure_boot[4] == 1 and not is_relaxed


def collect(reader: Reader, facts: Facts) -> Host:
    found, dmi = make_shared(_decide_containment, reader), read_dmi(reader)
    return Host(
        hostname=lazy(lambda: require_known(host_name(reader), "/etc/hostname")),
        machine_id_hash=lazy(_machine_id, reader),
        boot_id=lazy(lambda: require_known(read_line(reader, "/proc/sys/kernel/random/boot_id"), "the boot id")),
        is_container=lazy(lambda: found().is_container),
        container=lazy(lambda: found().name),
        container_evidence=lazy(lambda: found().evidence),
        is_vm=lazy(lambda: bool(facts.host.hypervisor)),
        hypervisor=lazy(hypervisor_of, reader, facts, dmi),
        is_wsl=lazy(_is_wsl, reader, facts),
        has_systemd=lazy(_has_systemd, reader),
        mounts_fstab=lazy(lambda: facts.host.has_systemd or any(is_there(reader, path) for path in _MOUNTERS)),
        init=lazy(lambda: require_known(read_line(reader, "/proc/1/comm"), "/proc/1/comm")),
        boot_loader=lazy(_boot_loader, reader, facts),
        is_uefi=lazy(_is_folder, reader, "/sys/firmware/efi"),
        secure_boot=lazy(lambda: _secure_boot(reader) if facts.host.is_uefi else None),
        cloud=lazy(cloud_of, reader, dmi),
        product=lazy(_describe_product, reader, dmi),
        shares_init_mounts=lazy(_shares_init_mounts, reader),
        is_image=lazy(lambda: reader.persistent_only and isinstance(reader.read(OSRELEASE), Unreadable)),
        today=lazy(lambda: day_of(reader.now())),
    )


def _decide_containment(reader: Reader) -> ContainmentDecision:
    try:
        return decide(look(reader))
    except UnknownFact:
        if not reader.persistent_only:
            raise
        return ContainmentDecision(False, "", ("files below a root, with no kernel: taken for the image of a host",))


def host_name(reader: Reader) -> Answer[str]:
    """The name of the host: the kernel's, else the configured one."""
    for path in ("/proc/sys/kernel/hostname", "/etc/hostname"):
        if isinstance(name := attempt(read_line, reader, path), str):
            return name
    return name


def _machine_id(reader: Reader) -> str:
    content = read_line(reader, "/etc/machine-id")
    return "" if content is ABSENT else machine_id_hash(content)


def _is_wsl(reader: Reader, facts: Facts) -> bool:
    """Of files below a root the configuration file of WSL says that they are for it (Microsoft: wsl.conf)."""
    if facts.host.is_image:
        return isinstance(reader.stat("/etc/wsl.conf"), Stat)
    return derive(read_line(reader, OSRELEASE), OSRELEASE, is_of_wsl)


def is_of_wsl(release: str) -> bool:
    """WSL kernels say so in their release (5.15.153.1-microsoft-standard-WSL2); Azure's (6.8.0-1015-azure) do not."""
    return "microsoft" in release.lower() or "WSL" in release


def _is_folder(reader: Reader, path: str) -> bool:
    stat = require_sure(reader.stat(path))
    return stat is not ABSENT and stat.type == "directory"


def _has_systemd(reader: Reader) -> bool:
    if not reader.persistent_only:
        return _is_folder(reader, "/run/systemd/system")
    return if_absent(reader.resolve("/sbin/init"), "").endswith("/systemd")


def _boot_loader(reader: Reader, facts: Facts) -> str:
    """What booted says so itself where the firmware is UEFI; else the files that the boot loaders read."""
    loader_info = reader.read(f"{VARIABLES}/LoaderInfo-{_LOADER}")
    if isinstance(loader_info, bytes):
        name = efi_text(loader_info).lower()
        return next((loader for loader in ("systemd-boot", "grub") if name.startswith(loader)), "unknown")
    names = frozenset(names_in(reader, "/boot"))
    if any(isinstance(reader.stat(f"/boot/{folder}/grub.cfg"), Stat) for folder in names & {"grub", "grub2"}):
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
    if mine == FIRST_MOUNTS:
        return True
    return require_known(mine, "/proc/self/ns/mnt") == require_known(init, "/proc/1/ns/mnt")
