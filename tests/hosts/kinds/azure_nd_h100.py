"""Azure ND96isr_H100_v5 with the Ubuntu-HPC image: InfiniBand virtual functions, eight blank NVMe
disks, a topology for NCCL.

Sources: Azure/azhpc-images (limits, sysctls, ndv5-topo.xml, the resource disk at /mnt); Microsoft
Learn, "ND H100 v5 sizes series".
"""

from tests.hosts.kinds.common import (
    KERNEL_MOUNTS,
    PERSISTENCED_RUNS,
    SERVICES,
    cards,
    driver_files,
    driver_links,
    eight,
    server_driver,
    shm,
    switches,
    working,
)
from tests.hosts.machine import DiskSpec, Machine, MountSpec

KERNEL = "6.8.0-1036-azure"
VERSION = "580.126.20"
GPUS = eight("0x2330")
IB_FILES, IB_LINKS = cards({f"mlx5_ib{n}": f"010{n}:00:00.0" for n in range(8)}, "0x101e")

MACHINE = Machine(
    name="azure-nd-h100", kernel=KERNEL, cpu_model="Intel(R) Xeon(R) Platinum 8480C", cpu_vendor="GenuineIntel", sockets=2, cores_per_socket=48,
    threads_per_core=1, nodes=2, mem_gib=1858, vendor="Microsoft Corporation", product="Virtual Machine", is_vm=True,
    disks=(
        DiskSpec("sda", 128, 1, "sata", (1,), model="Virtual Disk"), DiskSpec("sdb", 1000, 1, "sata", (1,), model="Virtual Disk"),
        *(DiskSpec(f"nvme{number}n1", 3576, model="Microsoft NVMe Direct Disk v2") for number in range(8)),
    ),
    mounts=(
        MountSpec("/", "/dev/sda1", "ext4", "8:1", "rw,relatime", "rw,discard"), *KERNEL_MOUNTS, shm(1858),
        MountSpec("/mnt", "/dev/sdb1", "ext4", "8:17", gib=1000),
    ),
    fstab="UUID=5f-00 / ext4 discard,errors=remount-ro 0 1\n"
    "/dev/disk/cloud/azure_resource-part1\t/mnt\tauto\tdefaults,nofail,x-systemd.after=cloud-init.service,_netdev,comment=cloudconfig\t0\t2\n",
    gpus=GPUS + switches(),
    packages={
        **server_driver(VERSION, KERNEL, "0ubuntu0.24.04.1"), "nvidia-fabricmanager-580": f"{VERSION}-1", "cloud-init": "24.4", "walinuxagent": "2.11",
        "datacenter-gpu-manager-4-core": "1:4.2.3-2", "unattended-upgrades": "2.9.1+nmu4ubuntu1",
    },
    sysctls={"vm.zone_reclaim_mode": "1", "kernel.numa_balancing": "1"},
    folders=("/run/cloud-init",),
    services={"nvidia-persistenced.service": ("enabled", "active"), "nvidia-fabricmanager.service": ("enabled", "active")},
    files={
        "/sys/class/dmi/id/chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77\n", "/run/cloud-init/cloud-id": "azure\n",
        "/sys/fs/cgroup/system.slice/walinuxagent.service/cgroup.procs": "820\n",
        "/etc/nccl.conf": "NCCL_IB_PCI_RELAXED_ORDERING=1\nNCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml\nNCCL_IGNORE_CPU_AFFINITY=1\n", "/opt/microsoft/ndv5-topo.xml": "<system version='1'/>\n",
        "/etc/security/limits.conf": "* hard memlock unlimited\n* soft memlock unlimited\n* hard nofile 65535\n* soft nofile 65535\n",
        "/etc/sysctl.d/60-azure-hpc.conf": "vm.zone_reclaim_mode = 1\nnet.ipv4.neigh.default.gc_thresh1 = 4096\nnet.ipv4.neigh.default.gc_thresh2 = 8192\nnet.ipv4.neigh.default.gc_thresh3 = 16384\n",
        **{f"/proc/sys/net/ipv4/neigh/default/gc_thresh{number}": f"{2048 << number}\n" for number in (1, 2, 3)},
        **SERVICES,
        **driver_files(VERSION, KERNEL), **IB_FILES,
    },
    links={**driver_links(VERSION), **IB_LINKS},
    queries={
        **working(GPUS, VERSION, KERNEL, "GH100 [H100 SXM5 80GB]"),
    },
    daemons={**PERSISTENCED_RUNS},
    candidates={"nvidia-driver-580-server-open": f"{VERSION}-0ubuntu0.24.04.1"},
)  # fmt: skip
