"""A server with eight AMD MI300X: no GPU of NVIDIA's, so NVIDIA's rules have nothing to say, and
the others do.

Source: AMD, "MI300X system optimization" (numa_balancing off, iommu=pt).
"""

from tests.hosts.kinds.common import EIGHT, KERNEL_MOUNTS, shm
from tests.hosts.machine import DiskSpec, GpuSpec, Machine, MountSpec

KERNEL = "6.8.0-79-generic"

MACHINE = Machine(
    name="mi300x", kernel=KERNEL, cpu_model="AMD EPYC 9654 96-Core Processor", sockets=2, cores_per_socket=96, nodes=2, mem_gib=2267, vendor="Supermicro", product="AS -8125GS-TNMR2",
    disks=(DiskSpec("nvme0n1", 894, partitions=(1, 2), model="Micron_7450_MTFDKBA960TFR"), DiskSpec("nvme1n1", 3576, model="Micron_7450_MTFDKCC3T8TFR")),
    mounts=(MountSpec("/", "/dev/nvme0n1p2", "ext4", "259:2", gib=880), *KERNEL_MOUNTS, shm(2267), MountSpec("/data", "/dev/nvme1n1", "xfs", "259:16", gib=3500)),
    fstab="UUID=0a11-22 / ext4 errors=remount-ro 0 1\nUUID=77020000-3a44-4b8e-9d10-6c2f7e0a9b1f /data xfs defaults,nofail 0 2\n",
    unmounted=(("/dev/nvme0n1p1", "vfat", "0A11-00FF"),),
    gpus=tuple(GpuSpec(f"0000:{bus}:00.0", "0x74a1", "amdgpu", number // 4, "0x120000", "0x1002") for number, bus in enumerate(EIGHT)),
    packages={f"linux-image-{KERNEL}": "6.8.0-79.79", "amdgpu-dkms": "1:6.12.12", "rocm-smi-lib": "7.5.0", "unattended-upgrades": "2.9.1+nmu4ubuntu1"},
    iommu="identity",
    files={f"/sys/bus/pci/devices/0000:{bus}:00.0/ras/umc_err_count": "ue: 0\nce: 0\n" for bus in EIGHT},
    queries={("ubuntu-drivers", "devices"): None},
)  # fmt: skip
