"""A node of a Slurm cluster: slurmd with TmpFS=/tmp and TmpDisk, homes on NFS, four A100, an epilog
that cleans scratch by access time.

Sources: slurm.conf(5) (TmpFS, TmpDisk, Prolog, Epilog), gres.conf(5).
"""

from tests.hosts.kinds.common import (
    KERNEL_MOUNTS,
    PERSISTENCED_RUNS,
    SERVICES,
    cards,
    driver_files,
    driver_links,
    server_driver,
    shm,
    working,
)
from tests.hosts.machine import DiskSpec, GpuSpec, Machine, MountSpec

KERNEL = "6.8.0-79-generic"
VERSION = "580.126.20"
GPUS = tuple(
    GpuSpec(f"0000:{bus}:00.0", "0x20b2", node=number // 2)
    for number, bus in enumerate(("31", "4b", "ca", "e3"))
)
IB_FILES, IB_LINKS = cards({"mlx5_0": "0000:98:00.0"}, "0x101b")

MACHINE = Machine(
    name="slurm-node", os_version="22.04", codename="jammy", kernel=KERNEL, cpu_model="AMD EPYC 7543 32-Core Processor", sockets=2, cores_per_socket=32, nodes=2,
    mem_gib=503, swap_gib=8, vendor="GIGABYTE", product="G262-ZR0-00",
    disks=(DiskSpec("nvme0n1", 894, partitions=(1, 2, 3), model="SAMSUNG MZ1L2960HCJR"), DiskSpec("nvme1n1", 3576, model="SAMSUNG MZWLO3T8HCLS")),
    mounts=(
        MountSpec("/", "/dev/nvme0n1p2", "ext4", "259:2", gib=100), *KERNEL_MOUNTS, shm(503),
        MountSpec("/tmp", "/dev/nvme0n1p3", "xfs", "259:3", "rw,nosuid,nodev,relatime", gib=780),
        MountSpec("/scratch", "/dev/nvme1n1", "xfs", "259:16", gib=3500),
        MountSpec("/home", "nfs01:/export/home", "nfs4", "0:50", super_options="rw,vers=4.2,rsize=1048576,wsize=1048576,hard"),
    ),
    fstab="UUID=0a11-22 / ext4 errors=remount-ro 0 1\nUUID=77010000-3a44-4b8e-9d10-6c2f7e0a9b1f /tmp xfs nosuid,nodev 0 2\nUUID=77020000-3a44-4b8e-9d10-6c2f7e0a9b1f /scratch xfs defaults,nofail 0 2\nnfs01:/export/home /home nfs4 _netdev,hard 0 0\n/swap.img none swap sw 0 0\n",
    unmounted=(("/dev/nvme0n1p1", "vfat", "0A11-00FF"),),
    gpus=GPUS,
    packages={**server_driver(VERSION, KERNEL, "0ubuntu0.22.04.1"), "slurmd": "25.05.3-1", "slurm-smd-slurmd": "25.05.3-1", "unattended-upgrades": "2.8ubuntu1"},
    services={"nvidia-persistenced.service": ("enabled", "active")},
    files={
        "/etc/slurm/slurm.conf": "ClusterName=deep\nSlurmctldHost=ctl01\nTmpFS=/tmp\nProlog=/etc/slurm/prolog.sh\nEpilog=/etc/slurm/epilog.sh\nGresTypes=gpu\nTaskPlugin=task/cgroup,task/affinity\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n"
        "PropagateResourceLimitsExcept=MEMLOCK,NOFILE\nHealthCheckProgram=/etc/slurm/health.sh\nHealthCheckInterval=300\n"
        "NodeName=slurm-node CPUs=128 RealMemory=500000 TmpDisk=700000 Gres=gpu:a100:4 State=UNKNOWN\nPartitionName=gpu Nodes=ALL Default=YES State=UP\n",
        "/etc/slurm/gres.conf": "AutoDetect=nvml\n", "/etc/slurm/health.sh": "#!/bin/sh\nhosttune health --format slurm --within 40s\n",
        "/etc/slurm/cgroup.conf": "ConstrainCores=yes\nConstrainDevices=yes\nConstrainRAMSpace=yes\n",
        "/etc/slurm/epilog.sh": "#!/bin/sh\nfind /scratch -xdev -type f -atime +14 -delete\n", "/etc/slurm/prolog.sh": "#!/bin/sh\nexit 0\n",
        "/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs": "2201\n", "/proc/2201/comm": "slurmd\n",
        "/proc/2201/limits": "Limit                     Soft Limit           Hard Limit           Units\nMax open files            131072               131072               files\nMax locked memory         unlimited            unlimited            bytes\n",
        "/usr/lib/systemd/system/slurmd.service": "[Service]\nExecStart=/usr/sbin/slurmd --systemd\nLimitNOFILE=131072\nLimitMEMLOCK=infinity\n[Install]\nWantedBy=multi-user.target\n",
        "/etc/systemd/logind.conf": "[Login]\nRemoveIPC=no\n",
        **SERVICES,
        **driver_files(VERSION, KERNEL), **IB_FILES,
    },
    links={**driver_links(VERSION), **IB_LINKS, "/etc/systemd/system/multi-user.target.wants/slurmd.service": "/usr/lib/systemd/system/slurmd.service"},
    queries={
        **working(GPUS, VERSION, KERNEL, "GA100 [A100 SXM4 80GB]"),
    },
    daemons={**PERSISTENCED_RUNS, "slurmd": "/usr/sbin/slurmd --systemd\n"},
    candidates={"nvidia-driver-580-server-open": f"{VERSION}-0ubuntu0.22.04.1"},
)  # fmt: skip
