"""Google Cloud a3-highgpu-8g: GPUDirect-TCPX over four gVNICs, sixteen local SSDs that nobody
formatted.

Sources: Google Cloud, "Maximize GPU network bandwidth with GPUDirect-TCPX" (NCCL_* settings, which
the plug-in needs as they are); "About Local SSD disks" (nvme_card, data lost at a stop).
"""

from tests.hosts.kinds.common import (
    KERNEL_MOUNTS,
    PERSISTENCED_RUNS,
    SERVICES,
    driver_files,
    driver_links,
    eight,
    server_driver,
    shm,
    switches,
    working,
)
from tests.hosts.machine import DiskSpec, Machine, MountSpec

KERNEL = "6.8.0-1032-gcp"
VERSION = "580.126.20"
GPUS = eight("0x2330")
TCPX = {
    "NCCL_SOCKET_IFNAME": "eth0", "NCCL_GPUDIRECTTCPX_CTRL_DEV": "eth0", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "eth1,eth2,eth3,eth4",
    "NCCL_CROSS_NIC": "0", "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_NSOCKS_PERTHREAD": "4", "NCCL_SOCKET_NTHREADS": "1",
    "NCCL_NET_GDR_LEVEL": "PIX", "NCCL_P2P_PXN_LEVEL": "0", "NCCL_DYNAMIC_CHUNK_SIZE": "524288", "NCCL_BUFFSIZE": "4194304",
}  # fmt: skip

MACHINE = Machine(
    name="gcp-a3", os_version="22.04", codename="jammy", kernel=KERNEL, cpu_model="Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
    cpu_vendor="GenuineIntel", sockets=2, cores_per_socket=52, nodes=2, mem_gib=1842, vendor="Google", product="Google Compute Engine", is_vm=True,
    disks=(
        DiskSpec("sda", 200, partitions=(1,), transport="sata", model="PersistentDisk", discard=True),
        *(DiskSpec(f"nvme{number}n1", 375, model="nvme_card") for number in range(16)),
    ),
    mounts=(MountSpec("/", "/dev/sda1", "ext4", "8:1", "rw,relatime", "rw,discard"), *KERNEL_MOUNTS, shm(1842)),
    fstab="LABEL=cloudimg-rootfs / ext4 discard,errors=remount-ro 0 1\n",
    gpus=GPUS + switches(),
    packages={
        **server_driver(VERSION, KERNEL, "0ubuntu0.22.04.1"), "nvidia-fabricmanager-580": f"{VERSION}-1", "cloud-init": "24.4", "google-guest-agent": "20250901.00",
        "docker-ce": "5:28.3.3-1", "containerd.io": "2.1.4-1", "nvidia-container-toolkit": "1.18.2-1", "unattended-upgrades": "2.8ubuntu1",
    },
    folders=("/run/cloud-init", "/var/lib/tcpx/lib64"),
    services={"nvidia-persistenced.service": ("enabled", "active"), "nvidia-fabricmanager.service": ("enabled", "active")},
    files={
        "/run/cloud-init/cloud-id": "gce\n",
        "/sys/fs/cgroup/system.slice/google-guest-agent.service/cgroup.procs": "820\n",
        "/etc/nccl.conf": "".join(f"{key}={value}\n" for key, value in TCPX.items()),
        **{f"/sys/class/net/eth{number}/{name}": value for number in range(1, 5) for name, value in (("operstate", "up\n"), ("speed", "200000\n"), ("device/uevent", "DRIVER=gve\n"))},
        **SERVICES,
        **driver_files(VERSION, KERNEL),
    },
    links=driver_links(VERSION),
    queries={
        **working(GPUS, VERSION, KERNEL, "GH100 [H100 SXM5 80GB]"),
    },
    daemons={**PERSISTENCED_RUNS},
    candidates={"nvidia-driver-580-server-open": f"{VERSION}-0ubuntu0.22.04.1"},
)  # fmt: skip
