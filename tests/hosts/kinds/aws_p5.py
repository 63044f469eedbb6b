"""AWS p5.48xlarge with a Deep Learning AMI: 32 EFA devices, huge pages of the EFA installer,
instance store under LVM.

Sources: AWS, "Deep Learning Base GPU AMI (Ubuntu 22.04)" (instance store at /opt/dlami/nvme, driver
by NVIDIA's installer); "Get started with EFA" (vm.nr_hugepages=5128).
"""

from tests.hosts.kinds.common import (
    KERNEL_MOUNTS,
    PERSISTENCED_RUNS,
    SERVICES,
    cards,
    driver_files,
    driver_links,
    eight,
    layer,
    shm,
    switches,
    working,
)
from tests.hosts.machine import DiskSpec, Machine, MountSpec

KERNEL = "6.8.0-1029-aws"
VERSION = "580.126.20"
GPUS = eight("0x2330")
STORES = tuple(f"nvme{number}n1" for number in range(1, 9))
LVM_FILES, LVM_LINKS = layer("dm-0", "253:0", STORES, 8 * 3539, "vg.01-lv_ephemeral")
EFA_FILES, EFA_LINKS = cards(
    {f"rdmap{n}s0": f"0000:{0x20 + n:02x}:1b.0" for n in range(32)}, "0xefa2", "0x1d0f"
)

MACHINE = Machine(
    name="aws-p5", os_version="22.04", codename="jammy", kernel=KERNEL, cpu_model="AMD EPYC 7R13 Processor", sockets=2, cores_per_socket=48,
    nodes=2, mem_gib=1999, vendor="Amazon EC2", product="p5.48xlarge", is_vm=True,
    disks=(
        DiskSpec("nvme0n1", 500, partitions=(1,), model="Amazon Elastic Block Store", discard=False),
        *(DiskSpec(name, 3539, model="Amazon EC2 NVMe Instance Storage") for name in STORES),
    ),
    mounts=(
        MountSpec("/", "/dev/nvme0n1p1", "ext4", "259:1", "rw,relatime", "rw,discard", gib=500), *KERNEL_MOUNTS, shm(1999),
        MountSpec("/opt/dlami/nvme", "/dev/mapper/vg.01-lv_ephemeral", "xfs", "253:0", "rw,noatime", gib=28000),
    ),
    fstab="LABEL=cloudimg-rootfs / ext4 discard,errors=remount-ro 0 1\n",
    unmounted=tuple((f"/dev/{name}", "LVM2_member", f"a{number}-bb") for number, name in enumerate(STORES)),
    gpus=GPUS + switches(),
    packages={
        f"linux-image-{KERNEL}": "6.8.0-1029.31", "cloud-init": "24.4", "nvidia-fabricmanager-580": f"{VERSION}-1", "docker-ce": "5:28.3.3-1",
        "containerd.io": "2.1.4-1", "nvidia-container-toolkit": "1.18.2-1", "efa": "2.13.0-1.amzn1", "libnccl-ofi": "1.14.0-1", "amazon-ssm-agent": "3.3",
        "unattended-upgrades": "2.8ubuntu1",
    },
    sysctls={"vm.nr_hugepages": "5128"},
    folders=("/run/cloud-init", "/opt/amazon/efa", "/opt/aws/dlami", "/opt/amazon/ofi-nccl"),
    services={"nvidia-persistenced.service": ("enabled", "active"), "nvidia-fabricmanager.service": ("enabled", "active")},
    files={
        "/run/cloud-init/cloud-id": "aws\n",
        "/etc/dlami-release": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04)\n",
        "/opt/amazon/efa_installed_packages": "# EFA installer version: 1.43.2\n",
        "/etc/sysctl.d/99-efa-hugepages.conf": "vm.nr_hugepages = 5128\n",
        "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "5128\n", "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "5128\n",
        "/proc/meminfo": "MemTotal:       2096103424 kB\nMemFree:        1048051712 kB\nMemAvailable:   1886493081 kB\nSwapTotal:      0 kB\nSwapFree:       0 kB\n"
        "HugePages_Total:    5128\nHugePages_Free:     5128\nHugepagesize:       2048 kB\n",
        **SERVICES,
        "/etc/security/limits.conf": "* soft nofile 65535\n* hard nofile 65535\n* soft memlock unlimited\n* hard memlock unlimited\n",
        "/usr/bin/nvidia-smi": "", "/usr/bin/nvidia-uninstall": "", "/var/log/nvidia-installer.log": "nvidia-installer log file\n",
        **driver_files(VERSION, KERNEL), **LVM_FILES, **EFA_FILES,
    },
    links={**driver_links(VERSION), **LVM_LINKS, **EFA_LINKS, "/dev/mapper/vg.01-lv_ephemeral": "../dm-0"},
    queries={
        **working(GPUS, VERSION, KERNEL, "GH100 [H100 SXM5 80GB]"),
    },
    daemons={**PERSISTENCED_RUNS},
)  # fmt: skip
