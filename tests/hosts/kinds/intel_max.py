"""A server with eight Intel Data Center GPU Max 1550: no GPU of NVIDIA's, and the BMC's graphics
beside them.

Source: Intel, "Data Center GPU Max Series" (PCI id 0bd5, driver i915 or xe).
"""

from tests.hosts.kinds.common import EIGHT, KERNEL_MOUNTS, shm
from tests.hosts.machine import DiskSpec, GpuSpec, Machine, MountSpec

KERNEL = "6.8.0-79-generic"

MACHINE = Machine(
    name="intel-max", kernel=KERNEL, cpu_model="Intel(R) Xeon(R) CPU Max 9470", cpu_vendor="GenuineIntel", sockets=2, cores_per_socket=52, nodes=2, mem_gib=1007, vendor="Supermicro", product="SYS-821PV-TNR",
    disks=(DiskSpec("nvme0n1", 894, partitions=(1, 2), model="Micron_7450_MTFDKBA960TFR"),),
    mounts=(MountSpec("/", "/dev/nvme0n1p2", "ext4", "259:2", gib=880), *KERNEL_MOUNTS, shm(1007)),
    fstab="UUID=0a11-22 / ext4 errors=remount-ro 0 1\n",
    unmounted=(("/dev/nvme0n1p1", "vfat", "0A11-00FF"),),
    gpus=(
        *(GpuSpec(f"0000:{bus}:00.0", "0x0bd5", "i915", number // 4, "0x038000", "0x8086") for number, bus in enumerate(EIGHT)),
        GpuSpec("0000:02:00.0", "0x2000", "ast", 0, "0x030000", "0x1a03"),
    ),
    packages={f"linux-image-{KERNEL}": "6.8.0-79.79", "intel-i915-dkms": "1.24.2.17", "unattended-upgrades": "2.9.1+nmu4ubuntu1"},
    iommu="identity",
    queries={("ubuntu-drivers", "devices"): None},
)  # fmt: skip
