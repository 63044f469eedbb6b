"""A laptop with an Intel GPU for the screen and an NVIDIA GPU that sleeps until it is asked (PRIME
on demand), 32 GB.

Sources: prime-select(1); NVIDIA driver README, "PCI-Express Runtime D3 (RTD3) Power Management";
SMBIOS 3.7, chassis types (10: notebook).
"""

from hosttune.facts.gpu.health_smi import FIELDS, REMAPPED_FIELDS
from tests.hosts.driver import QUERIES, REMAPPED, smi_row
from tests.hosts.kinds.common import KERNEL_MOUNTS, driver_files, driver_links, shm, working
from tests.hosts.kinds.workstation_btrfs import PLAIN
from tests.hosts.machine import DiskSpec, GpuSpec, Machine, MountSpec

KERNEL = "6.14.0-36-generic"
VERSION = "580.126.20"
BUILD = "0ubuntu0.24.04.1"
GPU = GpuSpec("0000:01:00.0", "0x2860", pci_class="0x030000")

MACHINE = Machine(
    name="laptop-hybrid", kernel=KERNEL, cpu_model="13th Gen Intel(R) Core(TM) i9-13900H", cpu_vendor="GenuineIntel", cores_per_socket=14, mem_gib=31, swap_gib=8, vendor="LENOVO", product="21FV001CUS",
    disks=(DiskSpec("nvme0n1", 953, partitions=(1, 2), model="SAMSUNG MZVL21T0HCLR"),),
    mounts=(MountSpec("/", "/dev/nvme0n1p2", "ext4", "259:2", gib=930), *KERNEL_MOUNTS, shm(31)),
    fstab="UUID=0a11-22 / ext4 errors=remount-ro 0 1\n/swap.img none swap sw 0 0\n",
    unmounted=(("/dev/nvme0n1p1", "vfat", "0A11-00FF"),),
    gpus=(GpuSpec("0000:00:02.0", "0xa7a0", "i915", pci_class="0x030000", vendor="0x8086"), GPU),
    packages={
        f"linux-image-{KERNEL}": "6.14.0-36.36~24.04.1", "nvidia-driver-580-open": f"{VERSION}-{BUILD}", "nvidia-utils-580": f"{VERSION}-{BUILD}", "libnvidia-compute-580": f"{VERSION}-{BUILD}",
        "nvidia-kernel-common-580": f"{VERSION}-{BUILD}", "nvidia-compute-utils-580": f"{VERSION}-{BUILD}", "nvidia-prime": "0.8.17.2", "ubuntu-desktop": "1.539", "gdm3": "46.2-1ubuntu1", "unattended-upgrades": "2.9.1+nmu4ubuntu1",
    },
    services={"nvidia-persistenced.service": ("static", "inactive")},
    files={
        "/proc/meminfo": "MemTotal:       32541840 kB\nMemFree:        16270920 kB\nMemAvailable:   29287656 kB\nSwapTotal:      8388604 kB\nSwapFree:       8388604 kB\nHugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n",
        "/sys/class/dmi/id/chassis_type": "10\n", "/sys/class/power_supply/BAT0/type": "Battery\n", "/sys/class/power_supply/BAT0/status": "Discharging\n",
        "/etc/prime-discrete": "on-demand\n", "/sys/fs/cgroup/system.slice/gdm.service/cgroup.procs": "1102\n", "/sys/fs/cgroup/system.slice/power-profiles-daemon.service/cgroup.procs": "1103\n", "/sys/fs/cgroup/system.slice/thermald.service/cgroup.procs": "1104\n",
        "/usr/lib/systemd/system/nvidia-persistenced.service": "[Unit]\nStopWhenUnneeded=true\n[Service]\nType=forking\nExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose\n",
        **driver_files(VERSION, KERNEL),
    },
    links={**driver_links(VERSION), "/etc/systemd/system/display-manager.service": "/usr/lib/systemd/system/gdm3.service"},
    queries={
        **working((GPU,), VERSION, KERNEL, "AD106M [GeForce RTX 4070 Max-Q / Mobile]"),
        QUERIES[0]: smi_row(FIELDS[0], f"0000{GPU.slot.upper()}", **PLAIN),
        REMAPPED: smi_row(REMAPPED_FIELDS, f"0000{GPU.slot.upper()}", remapped_rows_pending="[N/A]", remapped_rows_failure="[N/A]", remapped_rows_uncorrectable="[N/A]"),
    },
    candidates={"nvidia-driver-580-open": f"{VERSION}-{BUILD}"},
)  # fmt: skip
