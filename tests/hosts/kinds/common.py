"""What several kinds of host share: devices made of others, network cards, and a driver that
works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hosttune.facts.gpu.candidates import LIST
from tests.hosts.boot_files import boot_files
from tests.hosts.driver import loaded
from tests.hosts.machine import GIB, GpuSpec, MountSpec
from tests.hosts.make import PARAMS

KERNEL_MOUNTS = (
    MountSpec("/proc", "proc", "proc", "0:21", "rw,nosuid,nodev,noexec,relatime"),
    MountSpec("/sys", "sysfs", "sysfs", "0:22", "rw,nosuid,nodev,noexec,relatime"),
    MountSpec("/run", "tmpfs", "tmpfs", "0:24", "rw,nosuid,nodev", "rw,size=26373544k,mode=755"),
)


def shm(mem_gib: int) -> MountSpec:
    """/dev/shm as the kernel makes it."""
    return MountSpec("/dev/shm", "tmpfs", "tmpfs", "0:26", "rw,nosuid,nodev", gib=mem_gib // 2)


# Where the eight GPUs of an HGX H100 board stand, and what their slots are called in most servers.
EIGHT = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
FOUR_SWITCHES = ("07", "08", "09", "0a")


def eight(device: str) -> tuple[GpuSpec, ...]:
    """Eight GPUs, four on each node of memory."""
    return tuple(
        GpuSpec(f"0000:{bus}:00.0", device, node=number // 4) for number, bus in enumerate(EIGHT)
    )


def switches() -> tuple[GpuSpec, ...]:
    """The NVSwitches of such a board."""
    return tuple(
        GpuSpec(f"0000:{bus}:00.0", "0x22a3", "nvidia-nvswitch", pci_class="0x068000")
        for bus in FOUR_SWITCHES
    )


def layer(
    name: str, device: str, members: Sequence[str], gib: int, title: str = ""
) -> tuple[dict[str, str], dict[str, str]]:
    """Files and links of a device made of others: md0, or dm-0 with the name that the device mapper
    has for it.
    """
    base = f"/sys/devices/virtual/block/{name}"
    files = {
        f"{base}/dev": f"{device}\n", f"{base}/size": f"{gib * GIB // 512}\n", f"{base}/ro": "0\n",
        f"{base}/removable": "0\n", f"{base}/queue/rotational": "0\n", f"{base}/queue/discard_max_bytes": "2147450880\n",
        f"{base}/queue/scheduler": "none\n", f"{base}/queue/read_ahead_kb": "4096\n", f"{base}/uevent": "DEVTYPE=disk\n",
    }  # fmt: skip
    if title:
        files[f"{base}/dm/name"] = f"{title}\n"
    links = {
        f"/sys/block/{name}": f"../devices/virtual/block/{name}",
        f"/sys/class/block/{name}": f"../../devices/virtual/block/{name}",
        f"/sys/dev/block/{device}": f"../../devices/virtual/block/{name}",
    }
    links |= {f"{base}/slaves/{member}": f"../../../../../block/{member}" for member in members}
    return files, links


def cards(
    devices: Mapping[str, str], device: str = "0x1021", vendor: str = "0x15b3"
) -> tuple[dict[str, str], dict[str, str]]:
    """Files and links of RDMA devices: name -> PCI slot."""
    files, links = {}, {}
    for name, slot in devices.items():
        base = f"/sys/bus/pci/devices/{slot}"
        files |= {
            f"/sys/class/infiniband/{name}/node_type": "1: CA\n", f"{base}/vendor": f"{vendor}\n",
            f"{base}/device": f"{device}\n", f"{base}/class": "0x020700\n",
        }  # fmt: skip
        links[f"/sys/class/infiniband/{name}/device"] = f"../../../bus/pci/devices/{slot}"
    return files, links


def driver_files(version: str, kernel: str, arch: str = "x86_64") -> dict[str, str]:
    """What a loaded open driver of NVIDIA's shows, its libraries included."""
    return {
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX Open Kernel Module for {arch}  {version}  Release Build  (dvs)\n",
        "/sys/module/nvidia/version": f"{version}\n",
        f"/usr/lib/modules/{kernel}/modules.dep": "kernel/nvidia-580srv-open/nvidia.ko.zst:\n",
        f"/usr/lib/modules/{kernel}/kernel/nvidia-580srv-open/nvidia.ko.zst": "",
        f"/usr/lib/{arch}-linux-gnu/libnvidia-ml.so.{version}": "",
        "/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": "", "/dev/char/195:0": "",
        "/proc/driver/nvidia/params": PARAMS,
        "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm": "N\n",
    }  # fmt: skip


def driver_links(version: str, arch: str = "x86_64") -> dict[str, str]:
    return {f"/usr/lib/{arch}-linux-gnu/libnvidia-ml.so.1": f"libnvidia-ml.so.{version}"}


def offered(device: str, model: str) -> dict[tuple[str, ...], str | None]:
    """What ubuntu-drivers says of a GPU that the server branches drive."""
    names = (
        "nvidia-driver-580-server-open",
        "nvidia-driver-580-open",
        "nvidia-driver-595-server-open",
    )
    rows = "".join(
        f"driver   : {name} - distro non-free{' recommended' * (name == names[0])}\n"
        for name in names
    )
    return {
        ("ubuntu-drivers", "devices"): (
            "== /sys/devices/pci0000:15/0000:15:01.0/0000:17:00.0 ==\n"
            f"modalias : pci:v000010DEd0000{device[2:].upper()}sv000010DEsd000016C1bc03sc02i00\n"
            f"vendor   : NVIDIA Corporation\nmodel    : {model}\n{rows}"
            "driver   : xserver-xorg-video-nouveau - distro free builtin\n\n"
        ),
        LIST: "".join(
            f"{name}, (kernel modules provided by linux-modules-{name.replace('driver-', '')}-generic)\n"
            for name in names
        ),
    }


def working(
    gpus: Sequence[GpuSpec], version: str, kernel: str, model: str, arch: str = "x86_64"
) -> dict[tuple[str, ...], str | None]:
    """The answers of a host whose open driver works."""
    return {**offered(gpus[0].device, model), **loaded(gpus, version, kernel, arch)}


def server_driver(version: str, kernel: str, build: str) -> dict[str, str]:
    """The packages of Ubuntu's open server driver of branch 580."""
    return {
        f"linux-image-{kernel}": "1", "linux-modules-nvidia-580-server-open-generic": "1",
        "nvidia-headless-no-dkms-580-server-open": f"{version}-{build}", "nvidia-utils-580-server": f"{version}-{build}",
        "nvidia-kernel-common-580-server": f"{version}-{build}", "libnvidia-compute-580-server": f"{version}-{build}",
        "nvidia-compute-utils-580-server": f"{version}-{build}",
    }  # fmt: skip


# A daemon that keeps the driver loaded, as a vendor starts it.
PERSISTENCED = """\
[Unit]
Description=NVIDIA Persistence Daemon
[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --persistence-mode --verbose
[Install]
WantedBy=multi-user.target
"""
SERVICES = {
    "/usr/lib/systemd/system/nvidia-persistenced.service": PERSISTENCED,
    "/usr/lib/systemd/system/nvidia-fabricmanager.service": (
        "[Service]\nExecStart=/usr/bin/nv-fabricmanager\n[Install]\nWantedBy=multi-user.target\n"
    ),
}
PERSISTENCED_RUNS = {
    "nvidia-persistenced": "/usr/bin/nvidia-persistenced --user nvidia-persistenced --persistence-mode --verbose\n"
}


def booted_with(kernel: str, arguments: str) -> dict[str, str]:
    """The running kernel's command line, and GRUB's settings and menu that say the same for the
    next boot.
    """
    files = {
        path: text.replace("quiet", f"quiet {arguments}")
        for path, text in boot_files("Ubuntu", kernel).items()
    }
    return {
        **files,
        "/proc/cmdline": f"BOOT_IMAGE=/boot/vmlinuz-{kernel} root=UUID=0a ro quiet {arguments}\n",
    }
