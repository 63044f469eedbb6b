"""Which hypervisor and which cloud this machine runs on, from what firmware and kernel say.

Sources: /sys/class/dmi/id (SMBIOS), the `hypervisor` flag of /proc/cpuinfo (CPUID leaf 1, ECX bit
31, which no bare metal sets), ACPI table headers (ACPI specification 5.2.6), the device tree, the
kernel's clock sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, get_raw, lazy
from hosttune.facts.reading import all_sure, hint, if_absent, read_line
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader
    from hosttune.values import Absent

_DMI = "/sys/class/dmi/id"
# Text in vendor or product -> hypervisor; the first that is found counts.
_VENDORS = (
    ("Amazon EC2", "amazon"),
    ("Google", "google"),
    ("Firecracker", "firecracker"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Apple Virtualization", "apple"),
    ("Cloud Hypervisor", "cloud-hypervisor"),
    ("HVM domU", "xen"),
    ("Xen", "xen"),
    ("KubeVirt", "kvm"),
    ("OpenStack", "kvm"),
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("Bochs", "qemu"),
)
_CLOUD_VENDORS = (
    ("Amazon EC2", "aws"),
    ("Google", "gcp"),
    ("OracleCloud.com", "oracle"),
    ("Alibaba Cloud", "alibaba"),
    ("Tencent Cloud", "tencent"),
    ("DigitalOcean", "digitalocean"),
    ("Hetzner", "hetzner"),
    ("Scaleway", "scaleway"),
    ("Vultr", "vultr"),
    ("Linode", "akamai"),
    ("Akamai", "akamai"),
    ("OpenStack", "openstack"),
)
# cloud-init's names for what we call otherwise; what says nothing about a cloud is empty.
_NO_CLOUD = ("nocloud", "none", "configdrive", "lxd", "maas", "ovf")
_CLOUD_IDS = {"gce": "gcp", "aliyun": "alibaba"} | dict.fromkeys(_NO_CLOUD, "")
# of every Azure machine (cloud-init: DataSourceAzure)
_AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
_CLOCKS = (("kvm-clock", "kvm"), ("hyperv_clocksource", "microsoft"), ("xen", "xen"))


@frozen
class Dmi(Fact):
    """What the firmware calls the machine; ABSENT where there is no SMBIOS."""

    sys_vendor: str | Absent
    product_name: str | Absent
    chassis_asset_tag: str | Absent

    @property
    def words(self) -> str:
        """All that is known, in one line; empty where nothing is."""
        return " ".join(
            word
            for name in ("sys_vendor", "product_name")
            if isinstance(word := get_raw(self, name), str)
        )


def read_dmi(reader: Reader) -> Dmi:
    return Dmi(
        *(
            lazy(read_line, reader, f"{_DMI}/{name}")
            for name in ("sys_vendor", "product_name", "chassis_asset_tag")
        )
    )


def hypervisor_of(reader: Reader, facts: Facts, dmi: Dmi) -> str:
    """The hypervisor, empty on bare metal, `unknown` where there is one that does not say which."""
    if xen := if_absent(read_line(reader, "/sys/hypervisor/type"), ""):
        # The control domain (dom0) drives the hardware: it is the host.
        return "" if "control_d" in hint(reader, "/proc/xen/capabilities") else xen
    if facts.kernel.architecture in {"x86_64", "i686"}:
        return _name_of(reader, dmi) or "unknown" if "hypervisor" in facts.cpu.flags else ""
    return _without_flag(reader, dmi)


def vendor_of(dmi: Dmi) -> str:
    """The hypervisor that SMBIOS names, or empty."""
    if "Microsoft Corporation" in dmi.words:  # makes real machines, too
        return "microsoft" if "Virtual Machine" in dmi.words else ""
    return next((name for word, name in _VENDORS if word in dmi.words), "")


def _name_of(reader: Reader, dmi: Dmi) -> str:
    named = vendor_of(dmi)
    # "qemu" is the board only: with KVM behind it the clock source tells the hypervisor, and
    # Firecracker shows itself in ACPI.
    if named not in {"", "qemu"}:
        return named
    table = reader.read("/sys/firmware/acpi/tables/FACP")
    if isinstance(table, bytes) and table[10:16] == b"FIRECK":  # the OEM id that Firecracker sets
        return "firecracker"
    offered = hint(
        reader, "/sys/devices/system/clocksource/clocksource0/available_clocksource"
    ).split()
    return next((name for clock, name in _CLOCKS if clock in offered), named)


def _without_flag(reader: Reader, dmi: Dmi) -> str:
    """Arm and others have no CPU flag: the device tree names a hypervisor, SMBIOS the maker of a
    virtual machine.
    """
    compatible = attempt(read_line, reader, "/proc/device-tree/hypervisor/compatible")
    if isinstance(compatible, str):
        return next((name for name in ("kvm", "xen", "vmware") if name in compatible), "unknown")
    board = attempt(read_line, reader, "/proc/device-tree/compatible")
    if isinstance(board, str) and board.startswith(("linux,dummy-virt", "qemu,")):
        return "qemu"
    if dmi.words:
        # The machines that a cloud sells as metal carry its name, too: their type ends in .metal or
        # -metal.
        return "" if "metal" in dmi.words else vendor_of(dmi)
    if isinstance(board, str):
        return ""
    all_sure((get_raw(dmi, "sys_vendor"), board))
    raise UnknownFact("there is neither SMBIOS nor a device tree")


def is_tag_of_cloud(tag: str) -> bool:
    """All machines of a cloud have this asset tag, so it is no serial number."""
    return tag == _AZURE_ASSET_TAG or tag in dict(_CLOUD_VENDORS)


def cloud_of(reader: Reader, dmi: Dmi) -> str:
    """The cloud: SMBIOS first, which no one configures, then cloud-init's finding
    (/run/cloud-init/cloud-id).
    """
    tag = get_raw(dmi, "chassis_asset_tag")
    if tag == _AZURE_ASSET_TAG:
        return "azure"
    words = dmi.words + (f" {tag}" if isinstance(tag, str) else "")
    if named := next((name for word, name in _CLOUD_VENDORS if word in words), ""):
        return named
    cloud_id = attempt(read_line, reader, "/run/cloud-init/cloud-id")
    if isinstance(cloud_id, str) and cloud_id:
        return _CLOUD_IDS.get(cloud_id, cloud_id)
    all_sure((get_raw(dmi, "sys_vendor"), tag, cloud_id))
    return ""
