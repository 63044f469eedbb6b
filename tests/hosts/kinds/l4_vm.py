"""A small virtual machine for inference: Google Cloud g2-standard-8 with one L4 and 32 GB, one
persistent disk, no driver yet.

Source: Google Cloud, "GPU machine types" (g2-standard-8: 8 vCPUs, 32 GB, 1 L4).
"""

from hosttune.facts.apt_get import make_download_list, make_simulation
from hosttune.facts.gpu.candidates import LIST
from tests.hosts.driver import not_loaded
from tests.hosts.kinds.common import KERNEL_MOUNTS, offered, shm
from tests.hosts.machine import DiskSpec, GpuSpec, Machine, MountSpec

KERNEL = "6.14.0-1021-gcp"
VERSION = "580.126.20-0ubuntu0.24.04.1"
DRIVER = (
    "nvidia-headless-no-dkms-580-server-open", "nvidia-utils-580-server", "linux-modules-nvidia-580-server-open-gcp", f"linux-modules-nvidia-580-server-open-{KERNEL}",
)  # fmt: skip
COMES_ALONG = (
    "libnvidia-compute-580-server",
    "nvidia-compute-utils-580-server",
    "nvidia-kernel-common-580-server",
)
SIMULATED = "".join(
    f"{verb} {name} ({VERSION} Ubuntu:24.04/noble-updates [amd64])\n"
    for verb in ("Inst", "Conf")
    for name in (*COMES_ALONG, *DRIVER)
)

MACHINE = Machine(
    name="l4-vm", kernel=KERNEL, cpu_model="Intel(R) Xeon(R) CPU @ 2.20GHz", cpu_vendor="GenuineIntel", cores_per_socket=4, mem_gib=31, vendor="Google", product="Google Compute Engine", is_vm=True,
    disks=(DiskSpec("sda", 50, 1, "sata", (1,), model="PersistentDisk"),),
    mounts=(MountSpec("/", "/dev/sda1", "ext4", "8:1", "rw,relatime", "rw,discard", gib=50), *KERNEL_MOUNTS, shm(31)),
    fstab="LABEL=cloudimg-rootfs / ext4 discard,commit=30,errors=remount-ro 0 1\n",
    gpus=(GpuSpec("0000:00:03.0", "0x27b8", "", pci_class="0x030200"),),
    packages={f"linux-image-{KERNEL}": "6.14.0-1021.22~24.04.1", "linux-image-gcp": "6.14.0-1021.22~24.04.1", "cloud-init": "24.4", "google-guest-agent": "20250901.00", "unattended-upgrades": "2.9.1+nmu4ubuntu1"},
    folders=("/run/cloud-init",),
    files={
        "/run/cloud-init/cloud-id": "gce\n", "/sys/fs/cgroup/system.slice/google-guest-agent.service/cgroup.procs": "820\n",
        "/proc/meminfo": "MemTotal:       32863000 kB\nMemFree:        30000000 kB\nMemAvailable:   31000000 kB\nSwapTotal:      0 kB\nSwapFree:       0 kB\nHugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n",
    },
    queries={
        **offered("0x27b8", "AD104GL [L4]"), **not_loaded(),
        LIST: "nvidia-driver-580-server-open, (kernel modules provided by linux-modules-nvidia-580-server-open-gcp)\n",
        make_simulation(DRIVER): f"NOTE: This is only a simulation!\n{SIMULATED}",
        make_download_list(DRIVER): "'http://archive.example/nvidia.deb' nvidia.deb 61000000 SHA512:00\n",
    },
    candidates={**dict.fromkeys((*DRIVER, *COMES_ALONG, "nvidia-driver-580-server-open", "nvidia-driver-580-open"), VERSION)},
)  # fmt: skip
