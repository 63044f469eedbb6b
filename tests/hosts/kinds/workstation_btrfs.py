"""A desk-side workstation with two RTX 4090 on x8/x8 lanes, btrfs with subvolumes, GNOME, 64 GB."""

from hosttune.facts.gpu.health_smi import FIELDS, REMAPPED_FIELDS
from tests.hosts.driver import QUERIES, REMAPPED, smi_row
from tests.hosts.kinds.common import KERNEL_MOUNTS, driver_files, driver_links, shm, working
from tests.hosts.machine import DiskSpec, GpuSpec, Machine, MountSpec

KERNEL = "6.14.0-36-generic"
VERSION = "580.126.20"
BUILD = "0ubuntu0.24.04.1"
GPUS = tuple(GpuSpec(f"0000:{bus}:00.0", "0x2684", pci_class="0x030000") for bus in ("04", "0b"))
# What a GeForce card says of what it does not have.
PLAIN = dict.fromkeys(
    (
        "ecc_mode_current",
        "ecc_mode_pending",
        "ecc_errors_uncorrected_volatile_total",
        "ecc_errors_uncorrected_aggregate_total",
        "mig_mode_current",
        "mig_mode_pending",
    ),
    "[N/A]",
)
BRIDGES = tuple(
    f"/sys/devices/pci0000:{int(bus, 16) - 3:02x}/0000:{int(bus, 16) - 3:02x}:01.0"
    for bus in ("04", "0b")
)

MACHINE = Machine(
    name="workstation-btrfs", kernel=KERNEL, cpu_model="AMD Ryzen 9 7950X 16-Core Processor", cores_per_socket=16, mem_gib=64, swap_gib=8, vendor="ASUS", product="ProArt X670E-CREATOR WIFI",
    disks=(DiskSpec("nvme0n1", 1863, partitions=(1, 2), model="Samsung SSD 990 PRO 2TB"), DiskSpec("nvme1n1", 3726, partitions=(1,), model="Samsung SSD 990 PRO 4TB")),
    mounts=(
        MountSpec("/", "/dev/nvme0n1p2", "btrfs", "0:31", "rw,relatime", "rw,ssd,discard=async,space_cache=v2,subvolid=256,subvol=/@", root="/@", gib=1800),
        MountSpec("/home", "/dev/nvme0n1p2", "btrfs", "0:31", "rw,relatime", "rw,ssd,discard=async,space_cache=v2,subvolid=257,subvol=/@home", root="/@home", gib=1800), *KERNEL_MOUNTS, shm(64),
        MountSpec("/data", "/dev/nvme1n1p1", "btrfs", "0:45", "rw,relatime", "rw,ssd,discard=async,space_cache=v2,subvolid=5,subvol=/", gib=3700),
    ),
    fstab="UUID=b1005d3c-52e1-4c57-8d0b-4f7c1b8a0e11 / btrfs defaults,subvol=@ 0 1\nUUID=b1005d3c-52e1-4c57-8d0b-4f7c1b8a0e11 /home btrfs defaults,subvol=@home 0 2\nUUID=b2005d3c-52e1-4c57-8d0b-4f7c1b8a0e12 /data btrfs defaults 0 2\n/swap.img none swap sw 0 0\n",
    unmounted=(("/dev/nvme0n1p1", "vfat", "0A11-00FF"),),
    gpus=GPUS,
    packages={
        f"linux-image-{KERNEL}": "6.14.0-36.36~24.04.1", "nvidia-driver-580-open": f"{VERSION}-{BUILD}", "nvidia-utils-580": f"{VERSION}-{BUILD}", "libnvidia-compute-580": f"{VERSION}-{BUILD}",
        "nvidia-kernel-common-580": f"{VERSION}-{BUILD}", "nvidia-compute-utils-580": f"{VERSION}-{BUILD}", "ubuntu-desktop": "1.539", "gdm3": "46.2-1ubuntu1", "unattended-upgrades": "2.9.1+nmu4ubuntu1",
    },
    services={"nvidia-persistenced.service": ("static", "active")},
    files={
        "/proc/meminfo": "MemTotal:       65640448 kB\nMemFree:        32820224 kB\nMemAvailable:   59076403 kB\nSwapTotal:      8388604 kB\nSwapFree:       8388604 kB\nHugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n",
        "/sys/class/dmi/id/chassis_type": "3\n",
        "/sys/fs/cgroup/system.slice/gdm.service/cgroup.procs": "1102\n", "/sys/fs/cgroup/system.slice/power-profiles-daemon.service/cgroup.procs": "1103\n",
        "/usr/lib/systemd/system/nvidia-persistenced.service": "[Unit]\nStopWhenUnneeded=true\n[Service]\nType=forking\nExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose\n",
        # The board gives each slot half of the lanes, and idle links run slowly.
        **{f"{base}{rest}/{end}_link_width": "8\n" for base in BRIDGES for rest in ("",) for end in ("current", "max")},
        **driver_files(VERSION, KERNEL),
    },
    links={**driver_links(VERSION), "/etc/systemd/system/display-manager.service": "/usr/lib/systemd/system/gdm3.service"},
    queries={
        **working(GPUS, VERSION, KERNEL, "AD102 [GeForce RTX 4090]"),
        QUERIES[0]: "".join(smi_row(FIELDS[0], f"0000{gpu.slot.upper()}", power_limit="450.00", power_default_limit="450.00", power_max_limit="600.00", **PLAIN) for gpu in GPUS),
        REMAPPED: "".join(smi_row(REMAPPED_FIELDS, f"0000{gpu.slot.upper()}", remapped_rows_pending="[N/A]", remapped_rows_failure="[N/A]", remapped_rows_uncorrectable="[N/A]") for gpu in GPUS),
    },
    candidates={"nvidia-driver-580-open": f"{VERSION}-{BUILD}"},
)  # fmt: skip
