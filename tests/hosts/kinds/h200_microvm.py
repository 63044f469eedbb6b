"""A microVM made from a container image, with one H200 passed through: the hypervisor starts it
with a kernel of its own, which brought the driver along. No /boot, no /lib/modules, no systemd, and
no NVLinks: the driver was told to leave them off.

What it shows was seen on such a machine (Firecracker, Linux 6.18, driver 580.159.04 and its
nvidia-smi, 16 CPUs, 128 GiB).
"""

from tests.hosts.driver import NVLINK, loaded
from tests.hosts.kinds.common import shm
from tests.hosts.machine import DiskSpec, GpuSpec, Machine, MountSpec
from tests.hosts.make import PARAMS

KERNEL = "6.18.44-microvm"
VERSION = "580.159.04"
GPUS = (GpuSpec("0000:00:06.0", "0x2335", node=-1, subsystem="0x18bf"),)

MACHINE = Machine(
    name="h200-microvm", kernel=KERNEL, cpu_model="Intel(R) Xeon(R) Processor", cpu_vendor="GenuineIntel", cores_per_socket=16,
    threads_per_core=1, mem_gib=126, vendor="", product="", is_vm=True, has_systemd=False,
    disks=(DiskSpec("vda", 252, transport="virtio"),),
    mounts=(
        MountSpec("/", "/dev/vda", "ext4", "252:0", "rw,relatime", "rw,discard", gib=252),
        MountSpec("/proc", "proc", "proc", "0:21"), MountSpec("/sys", "sysfs", "sysfs", "0:22"), shm(126),
        MountSpec("/sys/fs/cgroup", "cgroup2", "cgroup2", "0:25", "rw,nosuid,nodev,noexec,relatime"),
    ),
    fstab="# UNCONFIGURED FSTAB FOR BASE SYSTEM\n",
    gpus=GPUS,
    files={
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build  (builder)\n",
        "/proc/driver/nvidia/params": PARAMS.replace("RmProfilingAdminOnly: 1", "RmProfilingAdminOnly: 0\nNvLinkDisable: 1"),
        "/proc/modules": "nvidia_uvm 1830912 - - Live 0xffffffffc080c000 (O)\nnvidia 14299136 - - Live 0xffffffffc0400000 (O)\n",
        "/usr/bin/nvidia-smi": "", "/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": "",
    },
    queries={**loaded(GPUS, VERSION, KERNEL), NVLINK: ""},
)  # fmt: skip
