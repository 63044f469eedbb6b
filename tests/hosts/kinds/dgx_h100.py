"""DGX H100 with DGX OS 7: NVIDIA's configuration packages, /raid as RAID 0 of eight disks,
cachefilesd on it.

Sources: DGX OS 7 user guide, appendix C (packages); NVIDIA's "DGX configuration package decoder"
(what each sets).
"""

from tests.hosts.kinds.common import (
    KERNEL_MOUNTS,
    PERSISTENCED_RUNS,
    SERVICES,
    booted_with,
    cards,
    driver_files,
    driver_links,
    eight,
    layer,
    server_driver,
    shm,
    switches,
    working,
)
from tests.hosts.machine import DiskSpec, Machine, MountSpec

KERNEL = "6.8.0-1028-nvidia"
VERSION = "580.126.20"
GPUS = eight("0x2330")
DATA = tuple(f"nvme{number}n1" for number in range(2, 10))
RAID_FILES, RAID_LINKS = layer("md1", "9:1", DATA, 8 * 3576)
CARD_FILES, CARD_LINKS = cards(
    {
        f"mlx5_{n}": f"0000:{bus}:00.0"
        for n, bus in enumerate(("18", "40", "4f", "5e", "9a", "c0", "ce", "dc"))
    }
)

MACHINE = Machine(
    name="dgx-h100", kernel=KERNEL, cpu_model="Intel(R) Xeon(R) Platinum 8480C", cpu_vendor="GenuineIntel", sockets=2,
    cores_per_socket=56, nodes=2, mem_gib=2015, vendor="NVIDIA", product="DGXH100", iommu="identity",
    disks=(
        DiskSpec("nvme0n1", 1788, partitions=(1, 2), model="SAMSUNG MZ1L21T9HCLS-00A07"),
        DiskSpec("nvme1n1", 1788, partitions=(1, 2), model="SAMSUNG MZ1L21T9HCLS-00A07"),
        *(DiskSpec(name, 3576, model="KIOXIA KCM6DRUL3T84") for name in DATA),
    ),
    mounts=(
        MountSpec("/", "/dev/nvme0n1p2", "ext4", "259:2"), *KERNEL_MOUNTS, shm(2015),
        MountSpec("/raid", "/dev/md1", "ext4", "9:1", gib=28000),
    ),
    fstab="UUID=0a11-22 / ext4 errors=remount-ro 0 1\nUUID=c75d0000-3a44-4b8e-9d10-6c2f7e0a9b1f /raid ext4 defaults,nofail 0 2\n",
    unmounted=(*tuple((f"/dev/{name}", "linux_raid_member", "99-aa") for name in DATA), ("/dev/nvme0n1p1", "vfat", "0A11-00FF")),
    gpus=GPUS + switches(),
    packages={
        **server_driver(VERSION, KERNEL, "0ubuntu0.24.04.1"), "nvidia-fabricmanager-580": f"{VERSION}-1", "libnvidia-nscq-580": f"{VERSION}-1",
        "dgx-release": "7.2.1", "nvidia-system-core": "25.03-1", "nvidia-system-utils": "25.03-1", "dgx-h100-system-configurations": "25.03-1",
        "nv-cpu-governor": "24.10-1", "nv-iommu-pt": "24.10-1", "nv-limits": "24.10-1", "nv-persistence-mode": "24.10-1",
        "nvidia-disable-init-on-alloc": "24.10-1", "nvidia-disable-numa-balancing": "24.10-1", "nvidia-acs-disable": "24.10-1",
        "nvidia-conf-cachefilesd": "24.10-1", "cachefilesd": "0.10.10-0.2", "mdadm": "4.3-1ubuntu2", "datacenter-gpu-manager-4-core": "1:4.2.3-2",
        "unattended-upgrades": "2.9.1+nmu4ubuntu1",
    },
    sysctls={"kernel.numa_balancing": "0"},
    services={"nvidia-persistenced.service": ("enabled", "active"), "nvidia-fabricmanager.service": ("enabled", "active")},
    files={
        "/etc/dgx-release": 'DGX_NAME="DGX Server"\nDGX_PRETTY_NAME="NVIDIA DGX Server"\nDGX_SWBUILD_VERSION="7.2.1"\n'
        'DGX_PLATFORM="DGX Server for H100"\nDGX_SERIAL_NUMBER="1660000000000"\n',
        **booted_with(KERNEL, "iommu=pt init_on_alloc=0 numa_balancing=disable pci=realloc=off"),
        "/etc/sysctl.d/90-nvidia-numa-balancing.conf": "kernel.numa_balancing = 0\n",
        "/etc/security/limits.d/nv-limits.conf": "* soft nofile 500000\n* hard nofile 500000\nroot soft nofile 500000\nroot hard nofile 500000\n",
        "/etc/cachefilesd.conf": "dir /raid\ntag mycache\nbrun 25%\nbcull 15%\nbstop 5%\nfrun 10%\nfcull 7%\nfstop 3%\n",
        "/sys/fs/cgroup/system.slice/cachefilesd.service/cgroup.procs": "1212\n",
        "/proc/mdstat": f"Personalities : [raid0]\nmd1 : active raid0 {' '.join(f'{name}[{n}]' for n, name in enumerate(DATA))}\n      29997998080 blocks super 1.2 512k chunks\n\nunused devices: <none>\n",
        **SERVICES,
        **driver_files(VERSION, KERNEL), **RAID_FILES, **CARD_FILES,
    },
    links={**driver_links(VERSION), **RAID_LINKS, **CARD_LINKS},
    queries={
        **working(GPUS, VERSION, KERNEL, "GH100 [H100 SXM5 80GB]"),
    },
    daemons={**PERSISTENCED_RUNS},
    candidates={"nvidia-driver-580-server-open": f"{VERSION}-0ubuntu0.24.04.1"},
)  # fmt: skip
