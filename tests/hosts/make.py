"""The built hosts: descriptions of machines, from which `built.py` makes records whenever tests
start.

`./run hosts` lists them, `./run hosts FOLDER` writes them there.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from hosttune.facts.apt_get import make_download_list, make_simulation
from hosttune.facts.gpu.candidates import LIST
from tests.hosts.container_files import RUNTIME_PACKAGES, SITE_LIMITS, limits_text, runtime_files
from tests.hosts.driver import loaded, not_loaded
from tests.hosts.machine import DiskSpec, GpuSpec, Machine, MountSpec, write

NVME = DiskSpec("nvme0n1", 1788, partitions=(1, 2), model="SAMSUNG MZ1L21T9HCLS")
ROOT = MountSpec("/", "/dev/nvme0n1p2", "ext4", "259:2")
KERNEL_MOUNTS = (
    MountSpec("/proc", "proc", "proc", "0:21", "rw,nosuid,nodev,noexec,relatime"),
    MountSpec("/sys", "sysfs", "sysfs", "0:22", "rw,nosuid,nodev,noexec,relatime"),
    MountSpec("/run", "tmpfs", "tmpfs", "0:24", "rw,nosuid,nodev", "rw,size=26373544k,mode=755"),
)
SHM = MountSpec("/dev/shm", "tmpfs", "tmpfs", "0:26", "rw,nosuid,nodev")
ROOT_LINE = "UUID=0a11-22 / ext4 errors=remount-ro 0 1\n"
CANDIDATES = """\
== /sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:17:00.0 ==
modalias : pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00
vendor   : NVIDIA Corporation
model    : GH100 [H100 SXM5 80GB]
driver   : nvidia-driver-580-server-open - distro non-free
driver   : nvidia-driver-580-open - distro non-free
driver   : nvidia-driver-595-server-open - distro non-free recommended
driver   : xserver-xorg-video-nouveau - distro free builtin

"""

# As nvidia-compute-utils of Ubuntu brings it.
PERSISTENCED = """\
[Unit]
Description=NVIDIA Persistence Daemon
Wants=syslog.target
StopWhenUnneeded=true
Before=systemd-backlight@backlight:nvidia_0.service

[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose
ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced
"""
PERSISTENCED_RUNS = (
    "/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose\n"
)
BLACKLIST = "Unattended-Upgrade::Package-Blacklist"
ORIGINS = """Unattended-Upgrade::Allowed-Origins {
    "${distro_id}:${distro_codename}-security";
    "${distro_id}:${distro_codename}-updates";
};
"""

# As the driver shows its parameters when none is set.
PARAMS = """\
ResmanDebugLevel: 4294967295
ModifyDeviceFiles: 1
DeviceFileUID: 0
DeviceFileGID: 0
DeviceFileMode: 438
EnableMSI: 1
EnablePCIERelaxedOrderingMode: 0
EnableResizableBar: 0
EnableGpuFirmware: 18
RmProfilingAdminOnly: 1
CoherentGPUMemoryMode: ""
RegistryDwords: ""
"""


def express(slot: str, lanes: int) -> dict[str, str]:
    """The link of a card or disk that has all its lanes."""
    base = f"/sys/bus/pci/devices/{slot}"
    files = {f"{base}/{end}_link_width": f"{lanes}\n" for end in ("current", "max")}
    return files | {f"{base}/{end}_link_speed": "32.0 GT/s PCIe\n" for end in ("current", "max")}


H100_GPUS = tuple(
    GpuSpec(f"0000:{bus}:00.0", "0x2330", node=n // 4)
    for n, bus in enumerate(("1b", "43", "52", "61", "9d", "c3", "d1", "df"))
)
GH200_GPUS = (GpuSpec("0009:01:00.0", "0x2342"),)

H100 = Machine(
    name="h100-8x-2socket",
    cpu_model="Intel(R) Xeon(R) Platinum 8480C", cpu_vendor="GenuineIntel",
    sockets=2, cores_per_socket=56, nodes=2, mem_gib=2048, swap_gib=8, vendor="NVIDIA", product="DGXH100",
    disks=(
        NVME,
        DiskSpec("nvme1n1", 3576, model="SAMSUNG MZWLO3T8HCLS"),
        DiskSpec("nvme2n1", 3576, model="SAMSUNG MZWLO3T8HCLS"),
    ),
    mounts=(
        ROOT, *KERNEL_MOUNTS,
        MountSpec("/data", "/dev/nvme1n1", "ext4", "259:16", gib=3500),
        MountSpec("/home/shared", "nfs01:/export/home", "nfs4", "0:50", super_options="rw,vers=4.2,rsize=1048576,proto=tcp,nconnect=8"),
        replace(SHM, gib=1008),
    ),
    fstab=ROOT_LINE
    + "# scratch of the training jobs\nUUID=b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f\t/data\text4\tdefaults\t0\t2\nnfs01:/export/home /home/shared nfs4 _netdev 0 0\n"
    + "/swap.img none swap sw 0 0\n",
    unmounted=(("/dev/nvme2n1", "xfs", "d2-7e"), ("/dev/nvme0n1p1", "vfat", "0A11-00FF")),
    gpus=H100_GPUS
    + tuple(GpuSpec(f"0000:{bus}:00.0", "0x22a3", "nvidia-nvswitch", pci_class="0x068000") for bus in ("07", "08", "09", "0a")),
    packages={
        "linux-image-6.8.0-60-generic": "6.8.0-60.63", "linux-modules-nvidia-580-server-open-generic": "6.8.0-60.63+1",
        "nvidia-headless-no-dkms-580-server-open": "580.126.20-0ubuntu0.24.04.1", "nvidia-utils-580-server": "580.126.20-0ubuntu0.24.04.1",
        "nvidia-kernel-common-580-server": "580.126.20-0ubuntu0.24.04.1", "libnvidia-compute-580-server": "580.126.20-0ubuntu0.24.04.1",
        "nvidia-fabricmanager-580": "580.126.20-0ubuntu0.24.04.1", "libnvidia-nscq-580": "580.126.20-0ubuntu0.24.04.1",
        "nvidia-compute-utils-580-server": "580.126.20-0ubuntu0.24.04.1", "unattended-upgrades": "2.9.1+nmu4ubuntu1",
        "needrestart": "3.6-7ubuntu4.3", **RUNTIME_PACKAGES,
    },
    services={"nvidia-persistenced.service": ("static", "active"), "nvidia-fabricmanager.service": ("enabled", "active")},
    files={
        "/usr/lib/systemd/system/nvidia-persistenced.service": PERSISTENCED,
        "/usr/lib/systemd/system/nvidia-fabricmanager.service": "[Service]\nExecStart=/usr/bin/nv-fabricmanager\n[Install]\nWantedBy=multi-user.target\n",
        "/etc/apt/apt.conf.d/20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "1";\n',
        "/etc/apt/apt.conf.d/50unattended-upgrades": f'{ORIGINS}{BLACKLIST} {{\n    "^slurm";\n}};\n',
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  Release Build  (dvs)\n",
        "/sys/module/nvidia/version": "580.126.20\n",
        "/usr/lib/modules/6.8.0-60-generic/modules.dep": "kernel/nvidia-580srv-open/nvidia.ko.zst:\n", "/usr/lib/modules/6.8.0-60-generic/kernel/nvidia-580srv-open/nvidia.ko": "",
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.126.20": "",
        "/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": "", "/proc/driver/nvidia/params": PARAMS,
        "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm": "N\n",
        "/sys/class/infiniband/mlx5_0/node_type": "1: CA\n", **runtime_files("580.126.20"), **SITE_LIMITS, "/dev/char/195:0": "",
        "/sys/bus/pci/devices/0000:17:00.0/vendor": "0x15b3\n", "/sys/bus/pci/devices/0000:17:00.0/device": "0x1021\n",
        "/sys/bus/pci/devices/0000:17:00.0/class": "0x020700\n", "/sys/kernel/iommu_groups/24/type": "identity\n",
        **express("0000:17:00.0", 16), **express("0000:02:00.0", 4),
        "/sys/bus/pci/devices/0000:02:00.0/vendor": "0x144d\n", "/sys/bus/pci/devices/0000:02:00.0/device": "0xa826\n",
        "/sys/bus/pci/devices/0000:02:00.0/class": "0x010802\n", "/sys/kernel/iommu_groups/25/type": "identity\n",
    },
    iommu="identity",
    links={
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": "libnvidia-ml.so.580.126.20",
        "/sys/class/infiniband/mlx5_0/device": "../../../bus/pci/devices/0000:17:00.0",
        "/sys/bus/pci/devices/0000:17:00.0/driver": "../../drivers/mlx5_core",
        "/sys/bus/pci/devices/0000:17:00.0/iommu_group": "../../../../kernel/iommu_groups/24",
        "/sys/bus/pci/devices/0000:02:00.0/driver": "../../drivers/nvme",
        "/sys/bus/pci/devices/0000:02:00.0/iommu_group": "../../../../kernel/iommu_groups/25",
    },
    queries={
        ("ubuntu-drivers", "devices"): CANDIDATES,
        LIST: "nvidia-driver-580-server-open, (kernel modules provided by linux-modules-nvidia-580-server-open-generic)\n"
        "nvidia-driver-580-open, (kernel modules provided by linux-modules-nvidia-580-open-generic)\n"
        "nvidia-driver-595-server-open, (kernel modules provided by linux-modules-nvidia-595-server-open-generic)\n",
        **loaded(H100_GPUS, "580.126.20", "6.8.0-60-generic"),
        ("apt-config", "dump", BLACKLIST): f'{BLACKLIST} "";\n{BLACKLIST}:: "^slurm";\n',
    },
    daemons={"nvidia-persistenced": PERSISTENCED_RUNS},
    candidates={
        "nvidia-driver-580-server-open": "580.126.20-0ubuntu0.24.04.1", "nvidia-driver-580-open": "580.142-0ubuntu0.24.04.1",
        "nvidia-driver-595-server-open": "595.71.05-0ubuntu0.24.04.1",
        **{
            f"linux-modules-nvidia-{name}-{kernel}": "6.8.0-60.63+1"
            for name in ("580-server-open", "580-open", "595-server-open")
            for kernel in ("generic", "6.8.0-60-generic")
        },
    },
)  # fmt: skip

DRIVER = (
    "nvidia-headless-no-dkms-580-server-open",
    "nvidia-utils-580-server",
    "linux-modules-nvidia-580-server-open-azure",
    "linux-modules-nvidia-580-server-open-5.15.0-1089-azure",
)
DRIVER_VERSION = "580.126.20-0ubuntu0.22.04.1"
COMES_ALONG = (
    "libnvidia-compute-580-server",
    "nvidia-compute-utils-580-server",
    "nvidia-kernel-common-580-server",
)
SIMULATED = "".join(
    f"{verb} {name} ({DRIVER_VERSION} Ubuntu:22.04/jammy-updates [amd64])\n"
    for verb in ("Inst", "Conf")
    for name in (*COMES_ALONG, *DRIVER)
)

A100_VM = Machine(
    name="a100-cloud-vm", os_version="22.04", codename="jammy", kernel="5.15.0-1089-azure",
    cpu_model="AMD EPYC 7V12 64-Core Processor", cores_per_socket=12, threads_per_core=1, mem_gib=220, vendor="Microsoft Corporation",
    product="Virtual Machine", is_vm=True,
    disks=(
        DiskSpec("sda", 30, 1, "sata", (1,), discard=True, model="Virtual Disk"),
        DiskSpec("sdb", 64, 1, "sata", (1,), model="Virtual Disk"),
        DiskSpec("nvme0n1", 894, model="Microsoft NVMe Direct Disk"),
    ),
    mounts=(
        MountSpec("/", "/dev/sda1", "ext4", "8:1"), *KERNEL_MOUNTS,
        MountSpec("/mnt", "/dev/sdb1", "ext4", "8:17", gib=64), replace(SHM, gib=110),
    ),
    fstab="UUID=5f-00 / ext4 discard,errors=remount-ro 0 1\n"
    "/dev/disk/cloud/azure_resource-part1\t/mnt\tauto\tdefaults,nofail,x-systemd.after=cloud-init.service,_netdev,comment=cloudconfig\t0\t2\n",
    gpus=(GpuSpec("0001:00:00.0", "0x20b5", "", subsystem="0x1533"),),
    packages={"linux-image-azure": "5.15.0.1089.87", "linux-image-5.15.0-1089-azure": "5.15.0-1089.98", "cloud-init": "24.4", "walinuxagent": "2.2.46"},
    folders=("/run/cloud-init",),
    queries={
        ("ubuntu-drivers", "devices"): CANDIDATES.replace("2330", "20B5").replace("GH100 [H100 SXM5 80GB]", "GA100 [A100 PCIe 80GB]"),
        LIST: "nvidia-driver-580-server-open, (kernel modules provided by linux-modules-nvidia-580-server-open-azure)\n"
        "nvidia-driver-595-server-open, (kernel modules provided by linux-modules-nvidia-595-server-open-azure)\n",
        **not_loaded(),
        make_simulation(DRIVER): f"NOTE: This is only a simulation!\n{SIMULATED}",
        make_download_list(DRIVER): "'http://archive.example/nvidia.deb' nvidia.deb 61000000 SHA512:00\n",
    },
    candidates={
        **dict.fromkeys((*DRIVER, *COMES_ALONG, "nvidia-driver-580-server-open", "nvidia-driver-580-open"), DRIVER_VERSION),
        "nvidia-driver-595-server-open": "595.71.05-0ubuntu0.22.04.1",
        "linux-modules-nvidia-595-server-open-azure": "5.15.0-1089.98",
        "linux-modules-nvidia-595-server-open-5.15.0-1089-azure": "5.15.0-1089.98",
    },
)  # fmt: skip

WORKSTATION = Machine(
    name="workstation-rtx4090", cpu_model="AMD Ryzen 9 7950X 16-Core Processor", cores_per_socket=16, mem_gib=64, swap_gib=2, vendor="ASUS",
    product="ProArt X670E", kernel="6.11.0-26-generic",
    disks=(NVME, DiskSpec("sda", 7452, 1, "sata", (1,), discard=False, model="ST8000VN004")),
    mounts=(ROOT, *KERNEL_MOUNTS, MountSpec("/data", "/dev/sda1", "xfs", "8:17", "rw,nosuid,relatime", gib=7452), replace(SHM, gib=32)),
    fstab=ROOT_LINE + "LABEL=data /data xfs nosuid,nofail 0 2\n/swap.img none swap sw 0 0\n",
    gpus=(GpuSpec("0000:01:00.0", "0x2684", "nouveau", pci_class="0x030000"),),
    packages={"linux-image-6.11.0-26-generic": "6.11.0-26.26~24.04.1", "tuned": "2.21.0-1"},
    links={"/etc/systemd/system/display-manager.service": "/usr/lib/systemd/system/gdm3.service"},
    sysctls={"vm.swappiness": "10"},
    files={
        "/etc/tuned/active_profile": "throughput-performance\n",
        "/usr/lib/tuned/throughput-performance/tuned.conf": "[main]\nsummary=x\n[sysctl]\nvm.swappiness=10\nvm.dirty_ratio=40\n",
        "/sys/fs/cgroup/system.slice/tuned.service/cgroup.procs": "812\n",
        "/etc/sysctl.d/99-local.conf": "vm.max_map_count = 262144\n",
        "/proc/sys/vm/max_map_count": "262144\n",
    },
    candidates={
        "nvidia-driver-580-server-open": "580.126.20-0ubuntu0.24.04.1", "nvidia-driver-580-open": "580.142-0ubuntu0.24.04.1",
        "nvidia-driver-595-server-open": "595.71.05-0ubuntu0.24.04.1",
    },
    queries={LIST: "", **not_loaded("nouveau 0000:01:00.0: NVIDIA AD102 (192000a1)\n"), ("ubuntu-drivers", "devices"): CANDIDATES.replace("2330", "2684").replace("GH100 [H100 SXM5 80GB]", "AD102 [GeForce RTX 4090]")},
)  # fmt: skip

GH200 = Machine(
    name="gh200-arm64", os_version="26.04", codename="resolute", kernel="7.0.0-1004-nvidia-64k", arch="aarch64", cores_per_socket=72,
    threads_per_core=1, mem_gib=480, gpu_memory_gib=96, sysctls={"kernel.numa_balancing": "1"}, vendor="NVIDIA", product="Grace Hopper", disks=(NVME,),
    mounts=(
        ROOT, *KERNEL_MOUNTS,
        MountSpec("/tmp", "tmpfs", "tmpfs", "0:40", "rw,nosuid,nodev", "rw,size=301989888k,nr_inodes=1048576", gib=288),
        MountSpec("/scratch", "/dev/nvme0n1p1", "xfs", "259:1", "rw,noatime"), replace(SHM, gib=240),
    ),
    fstab=ROOT_LINE + "UUID=77aa0000-3a44-4b8e-9d10-6c2f7e0a9b1f /scratch xfs noatime,nofail 0 0\n",
    gpus=GH200_GPUS,
    packages={
        "nvidia-headless-no-dkms-580-server-open": "580.126.20-0ubuntu0.26.04.1", "nvidia-utils-580-server": "580.126.20-0ubuntu0.26.04.1",
        "nvidia-kernel-common-580-server": "580.126.20-0ubuntu0.26.04.1",
    },
    files={
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.126.20  Release Build  (dvs)\n",
        "/sys/module/nvidia/version": "580.126.20\n",
        "/usr/lib/modules/7.0.0-1004-nvidia-64k/modules.dep": "kernel/nvidia-580srv-open/nvidia.ko.zst:\n",
        "/usr/lib/modules/7.0.0-1004-nvidia-64k/kernel/nvidia.ko.zst": "",
        "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.580.126.20": "",
        "/usr/lib/systemd/system/tmp.mount": "[Mount]\nWhat=tmpfs\nWhere=/tmp\nType=tmpfs\nOptions=mode=1777,strictatime,nosuid,nodev,size=50%%,nr_inodes=1m\n",
        "/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": "", "/proc/driver/nvidia/params": PARAMS,
        "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm": "N\n",
    },
    links={
        "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1": "libnvidia-ml.so.580.126.20",
        "/usr/lib/systemd/system/local-fs.target.wants/tmp.mount": "../tmp.mount",
    },
    queries={
        ("ubuntu-drivers", "devices"): CANDIDATES.replace("2330", "2342"),
        **loaded(GH200_GPUS, "580.126.20", "7.0.0-1004-nvidia-64k", "aarch64"),
    },
)  # fmt: skip

NO_GPU = Machine(
    name="no-gpu-debian12", os_id="debian", os_version="12", codename="bookworm", kernel="6.1.0-35-amd64",
    cpu_model="Intel(R) Xeon(R) Gold 6248", cpu_vendor="GenuineIntel", mem_gib=128, swap_gib=4, disks=(NVME,),
    mounts=(ROOT, *KERNEL_MOUNTS, MountSpec("/srv", "/dev/nvme0n1p1", "ext4", "259:1"), replace(SHM, gib=64)),
    fstab=ROOT_LINE + "UUID=9c400000-3a44-4b8e-9d10-6c2f7e0a9b1f /srv ext4 defaults,strictatime 0 2\n/swap.img none swap sw 0 0\n", fstrim="disabled",
    queries={("ubuntu-drivers", "devices"): None},
)  # fmt: skip

CONTAINER = Machine(
    name="container-docker", os_version="22.04", codename="jammy", kernel="6.8.0-60-generic", mem_gib=256, swap_gib=8, has_systemd=False,
    namespaces={"pid": 4026532841, "uts": 4026532839, "ipc": 4026532840, "cgroup": 4026532842},
    mounts=(
        MountSpec("/", "overlay", "overlay", "0:61", super_options="rw,lowerdir=/a,upperdir=/b,workdir=/c"), *KERNEL_MOUNTS,
        MountSpec("/data", "/dev/nvme1n1", "ext4", "259:16", root="/sets"), replace(SHM, gib=64),
    ),
    disks=(NVME, DiskSpec("nvme1n1", 3576)),
    files={
        "/.dockerenv": "", "/proc/1/cgroup": "0::/\n", "/proc/self/cgroup": "0::/\n",
        "/proc/self/status": "Name:\thosttune\nCpus_allowed_list:\t0-15\n", "/proc/self/limits": limits_text(1048576, 1048576, "unlimited"),
    },
    fstab="# UNCONFIGURED FSTAB FOR BASE SYSTEM\n",
    gpus=(GpuSpec("0000:1b:00.0", "0x2330"),), queries={("ubuntu-drivers", "devices"): None},
)  # fmt: skip

MICROVM = Machine(
    name="microvm-debian12", os_id="debian", os_version="12", codename="bookworm", kernel="6.18.44", mem_gib=24,
    cores_per_socket=2, threads_per_core=1, has_systemd=False, is_vm=True, vendor="", product="", disks=(DiskSpec("vda", 252, 1, "virtio"),),
    mounts=(MountSpec("/", "/dev/vda", "ext4", "252:0", super_options="rw,discard"), *KERNEL_MOUNTS),
    fstab="", files={"/.dockerenv": ""}, queries={("ubuntu-drivers", "devices"): None},
)  # fmt: skip

MACHINES = (H100, A100_VM, WORKSTATION, GH200, NO_GPU, CONTAINER, MICROVM)


def main(folders: list[str]) -> None:
    """List them, or write them into a folder."""
    if folders and folders[0].startswith("-"):
        sys.exit(
            "usage: ./run hosts [FOLDER]   lists the built hosts of the tests, or writes their records into FOLDER"
        )
    for machine in MACHINES:
        gpus = sum(gpu.pci_class.startswith("0x03") for gpu in machine.gpus)
        print(
            f"{machine.name:20} {machine.os_id} {machine.os_version}, kernel {machine.kernel}, {machine.cpus} CPUs, "
            f"{machine.mem_gib} GiB, {len(machine.disks)} disks, {gpus} GPUs"
        )
    for folder in folders[:1]:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for machine in MACHINES:
            write(machine, Path(folder))
        print(
            f"written: {folder}/NAME.json (try: ./run check --host {folder}/{MACHINES[0].name}.json)"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
