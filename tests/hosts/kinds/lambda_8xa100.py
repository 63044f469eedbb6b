"""A server of Lambda's with 8 A100 and Lambda Stack: the vendor's driver packages, a pool of ZFS
for the data.

Sources: lambda.ai, "Lambda Stack" (lambda-server, lambda-stack-cuda; upgrades by apt as a whole);
zfs(7), zpool(8).
"""

from tests.hosts.kinds.common import (
    KERNEL_MOUNTS,
    PERSISTENCED_RUNS,
    SERVICES,
    driver_files,
    driver_links,
    eight,
    shm,
    working,
)
from tests.hosts.machine import DiskSpec, Machine, MountSpec

KERNEL = "6.8.0-79-generic"
VERSION = "570.195.03"
GPUS = eight("0x20b2")
BUILD = "0lambda0.22.04.1"

MACHINE = Machine(
    name="lambda-8xa100", os_version="22.04", codename="jammy", kernel=KERNEL, cpu_model="AMD EPYC 7763 64-Core Processor", sockets=2, cores_per_socket=64,
    nodes=2, mem_gib=1007, swap_gib=2, vendor="Supermicro", product="AS -4124GO-NART",
    disks=(
        DiskSpec("nvme0n1", 1788, partitions=(1, 2), model="SAMSUNG MZQL21T9HCJR"),
        *(DiskSpec(f"nvme{number}n1", 7153, partitions=(1, 9), model="SAMSUNG MZQL27T6HBLA") for number in range(1, 5)),
    ),
    mounts=(
        MountSpec("/", "/dev/nvme0n1p2", "ext4", "259:2", gib=1700), *KERNEL_MOUNTS, shm(1007),
        MountSpec("/data", "data", "zfs", "0:60", "rw,relatime,xattr,noacl", gib=20000),
    ),
    fstab="UUID=0a11-22 / ext4 defaults 0 1\n/swap.img none swap sw 0 0\n",
    unmounted=(*tuple((f"/dev/nvme{number}n1p1", "zfs_member", "1234567890") for number in range(1, 5)), ("/dev/nvme0n1p1", "vfat", "0A11-00FF")),
    gpus=GPUS,
    packages={
        f"linux-image-{KERNEL}": "6.8.0-79.79~22.04.1", "lambda-server": "0.1.12", "lambda-stack-cuda": "0.1.13~22.04.2", "lambda-stack": "0.1.13~22.04.2",
        "nvidia-driver-570-open": f"{VERSION}-{BUILD}", "nvidia-dkms-570-open": f"{VERSION}-{BUILD}", "nvidia-utils-570": f"{VERSION}-{BUILD}",
        "nvidia-kernel-common-570": f"{VERSION}-{BUILD}", "libnvidia-compute-570": f"{VERSION}-{BUILD}", "nvidia-compute-utils-570": f"{VERSION}-{BUILD}",
        "nvidia-fabricmanager-570": f"{VERSION}-{BUILD}", "zfsutils-linux": "2.1.5-1ubuntu6~22.04.5", "unattended-upgrades": "2.8ubuntu1",
    },
    services={"nvidia-persistenced.service": ("enabled", "active")},
    files={
        "/etc/apt/sources.list.d/lambda-repository.list": "deb http://archive.lambdalabs.com/ubuntu jammy main\n",
        "/proc/spl/kstat/zfs/arcstats": "13 1 0x01 147 39984 1 1\nname                            type data\nhits                            4    1\nmisses                          4    1\nsize                            4    400000000000\nc                               4    500000000000\nc_min                           4    33000000000\nc_max                           4    540000000000\n",
        "/sys/module/zfs/parameters/zfs_arc_max": "0\n", "/proc/spl/kstat/zfs/data/state": "ONLINE\n",
        **SERVICES,
        **driver_files(VERSION, KERNEL),
    },
    links=driver_links(VERSION),
    queries={
        ("zpool", "status", "data"): "  pool: data\n state: ONLINE\nconfig:\n\n\tNAME        STATE     READ WRITE CKSUM\n\tdata        ONLINE       0     0     0\n\nerrors: No known data errors\n",
        ("zpool", "list", "-H", "-o", "capacity", "data"): "41%\n",
        **working(GPUS, VERSION, KERNEL, "GA100 [A100 SXM4 80GB]"),
    },
    daemons={**PERSISTENCED_RUNS},
    candidates={"nvidia-driver-570-open": f"{VERSION}-{BUILD}", "nvidia-driver-580-server-open": "580.126.20-0ubuntu0.22.04.1"},
)  # fmt: skip
