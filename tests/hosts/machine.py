"""Builds the files that a described machine would show under /proc, /sys and /etc, and dumps them
as a record.

The records are made from the descriptions in `make.py` and `kinds/`; they are data of the project,
written from documented formats (proc(5), sysfs ABI, systemd, NVIDIA's driver), not copies of
anybody's machine.
"""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hosttune.facts.services.clock import SYNCHRONIZED, TRACKING
from hosttune.facts.services.units import show_command
from hosttune.facts.storage.filesystems import BLKID, LSBLK
from hosttune.host.door import Space
from hosttune.host.record.record import encode_bytes
from tests.hosts.boot_files import boot_files
from tests.hosts.container_files import kernel_limits
from tests.hosts.driver import apt_answers, not_loaded
from tests.hosts.kernel_files import gpu_files, memory_files, processor_files
from tests.hosts.network_files import network_files
from tests.hosts.service_files import service_files, service_links
from tests.hosts.storage_files import (
    blank_answers,
    controller_files,
    controller_links,
    nfs_files,
    queue_files,
    storage_answers,
)
from tests.hosts.told import daemons_of

GIB = 1 << 30
NAMESPACES = {
    "pid": 4026531836,
    "user": 4026531837,
    "uts": 4026531838,
    "ipc": 4026531839,
    "cgroup": 4026531835,
    "net": 4026531840,
}
TMPFILES = "q /tmp 1777 root root 10d\nq /var/tmp 1777 root root 30d\n"
MADE_AT = 1_780_000_000.0
# What the kernel has where nothing sets it, on every built host; `sysctls` of a machine goes before
# it.
SYSCTLS = {
    "vm.swappiness": "60",
    "vm.max_map_count": "65530",
    "vm.overcommit_memory": "0",
    "kernel.pid_max": "4194304",
    "kernel.threads-max": "2061458",
}
SERVICES = (
    "nvidia-fabricmanager.service",
    "nvidia-persistenced.service",
)  # those that rules ask about


# GiB of memory that the bus reaches, by model; and a BAR that a device has not.
WINDOWS = {"0x2330": 128, "0x20b2": 128}
NO_BAR = f"0x{0:016x} 0x{0:016x} 0x{0:016x}\n"

# Ubuntu's apport, and the kernel's own default.
_SYSTEMD = {
    "12": "252.39-1~deb12u2", "22.04": "249.11-0ubuntu3", "24.04": "255.4-1ubuntu8", "26.04": "259.5-0ubuntu2",
}  # fmt: skip
_CORE_PATTERNS = {
    "ubuntu": "|/usr/share/apport/apport -p%p -s%s -c%c -d%d -P%P -u%u -g%g -F%F -- %E\n",
    "debian": "core\n",
}


@dataclass(frozen=True)
class DiskSpec:
    name: str
    gib: int
    rotational: int = 0
    transport: str = "nvme"  # nvme | virtio | sata
    partitions: tuple[int, ...] = ()
    discard: bool = True
    model: str = "Test Disk"


@dataclass(frozen=True)
class MountSpec:
    target: str
    source: str
    fstype: str
    device: str
    options: str = "rw,relatime"
    super_options: str = "rw"
    root: str = "/"
    gib: int = 100


@dataclass(frozen=True)
class GpuSpec:
    slot: str
    device: str  # PCI device id, "0x2330"
    driver: str = "nvidia"
    node: int = 0
    pci_class: str = "0x030200"
    vendor: str = "0x10de"
    subsystem: str = "0x0000"
    speed: str = "32.0 GT/s PCIe"


def express_port(kind: int, acs: int) -> bytes:
    """The configuration space of a bridge: its PCI Express capability with the kind of port, and an
    ACS register.
    """
    config = bytearray(4096)
    config[0x34], config[0x40], config[0x42] = 0x40, 0x10, kind << 4 | 2
    config[0x100:0x104] = (0x0001_000D).to_bytes(4, "little")
    config[0x106:0x108] = acs.to_bytes(2, "little")
    return bytes(config)


@dataclass(frozen=True)
class Machine:
    """What a record is made from; the defaults are those of a bare-metal Ubuntu server."""

    name: str
    os_id: str = "ubuntu"
    os_version: str = "24.04"
    codename: str = "noble"
    kernel: str = "6.8.0-60-generic"
    arch: str = "x86_64"
    cpu_model: str = "AMD EPYC 9654 96-Core Processor"
    cpu_vendor: str = "AuthenticAMD"
    sockets: int = 1
    cores_per_socket: int = 8
    threads_per_core: int = 2
    nodes: int = 1
    mem_gib: int = 256
    swap_gib: int = 0
    vendor: str = "Supermicro"
    product: str = "SYS-420GP"
    chassis: str = ""  # SMBIOS' number of its type: 3 desktop, 7 tower, 10 notebook, 17 and 23 server; empty: not said
    is_vm: bool = False
    disks: tuple[DiskSpec, ...] = ()
    mounts: tuple[MountSpec, ...] = ()
    fstab: str = ""
    gpus: tuple[GpuSpec, ...] = ()
    packages: dict[str, str] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    namespaces: dict[str, int] = field(default_factory=dict)
    has_systemd: bool = True
    fstrim: str = "enabled"
    services: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # unit -> (enabled state, active state)
    queries: dict[tuple[str, ...], str | None] = field(default_factory=dict)
    daemons: dict[str, str] = field(
        default_factory=dict
    )  # names of root's processes to their command lines
    candidates: dict[str, str] = field(
        default_factory=dict
    )  # package -> what apt would install, if not what is there
    tmp_used: int = 1 << 20
    iommu: str = "DMA-FQ"  # how the groups of GPUs are treated; empty without IOMMU
    gpu_memory_gib: int = 0  # of Grace: memory of the GPU that is a NUMA node of its own, with seven empty ones for MIG
    unmounted: tuple[
        tuple[str, str, str], ...
    ] = ()  # (device path, type, UUID) of file systems that nobody mounts

    @property
    def cpus(self) -> int:
        return self.sockets * self.cores_per_socket * self.threads_per_core

    def tree(self) -> tuple[dict[str, str], dict[str, str], set[str]]:
        files: dict[str, str] = {}
        links: dict[str, str] = {}
        folders = {
            "/tmp",
            "/dev",
            "/boot",
            "/etc/sysctl.d",
            "/proc/driver",
            "/sys/module",
            "/etc/hosttune",
            *self.folders,
        }
        self._identity(files, links, folders)
        self._processor(files)
        self._memory(files)
        self._disks(files, links)
        self._pci(files, links)
        for more in (
            processor_files,
            memory_files,
            gpu_files,
            kernel_limits,
            nfs_files,
            controller_files,
            network_files,
            service_files,
        ):
            files.update(more(self))
        self._configuration(files, folders)
        files.update(self.files)
        links.update(service_links(self) | controller_links(self) | self.links)
        return files, links, folders

    def _identity(self, files: dict[str, str], links: dict[str, str], folders: set[str]) -> None:
        name = {"ubuntu": "Ubuntu", "debian": "Debian GNU/Linux"}[self.os_id]
        files["/etc/os-release"] = (
            f'NAME="{name}"\nID={self.os_id}\nVERSION_ID="{self.os_version}"\nVERSION_CODENAME={self.codename}\n'
        )
        if self.os_id == "ubuntu":
            files["/etc/os-release"] += "ID_LIKE=debian\n"
        files["/etc/hostname"] = files["/proc/sys/kernel/hostname"] = f"{self.name}\n"
        files["/etc/machine-id"] = f"{abs(hash_of(self.name)):032x}\n"
        files["/proc/sys/kernel/random/boot_id"] = "11111111-2222-3333-4444-555555555555\n"
        files["/proc/sys/kernel/core_pattern"] = _CORE_PATTERNS[self.os_id]
        files["/proc/sys/kernel/osrelease"] = f"{self.kernel}\n"
        files["/proc/sys/kernel/arch"] = f"{self.arch}\n"
        files["/proc/cmdline"] = f"BOOT_IMAGE=/boot/vmlinuz-{self.kernel} root=UUID=0a ro quiet\n"
        files["/proc/1/comm"] = "systemd\n" if self.has_systemd else "sh\n"
        files["/proc/1/cgroup"] = files["/proc/self/cgroup"] = "0::/\n"
        files["/boot/grub/grub.cfg"] = "# generated\n"
        if self.has_systemd:
            files.update(boot_files(name, self.kernel))
        files["/sys/class/dmi/id/sys_vendor"] = f"{self.vendor}\n"
        files["/sys/class/dmi/id/product_name"] = f"{self.product}\n"
        files["/sys/class/dmi/id/chassis_asset_tag"] = "\n"
        files |= {"/sys/class/dmi/id/chassis_type": f"{self.chassis}\n"} if self.chassis else {}
        for kind, number in {**NAMESPACES, **self.namespaces}.items():
            links[f"/proc/self/ns/{kind}"] = f"{kind}:[{number}]"
        links["/proc/self/ns/mnt"] = links["/proc/1/ns/mnt"] = "mnt:[4026531841]"
        links["/sbin"], links["/lib"], links["/bin"] = "usr/sbin", "usr/lib", "usr/bin"
        if self.has_systemd:
            files[f"/boot/vmlinuz-{self.kernel}"] = ""
            zeroes = "CONFIG_INIT_ON_ALLOC_DEFAULT_ON"
            files[f"/boot/config-{self.kernel}"] = (
                f"{zeroes}=y\n" if self.os_id == "ubuntu" else f"# {zeroes} is not set\n"
            )
            files[f"/usr/lib/modules/{self.kernel}/modules.dep"] = "kernel/fs/xfs/xfs.ko.zst:\n"
            folders.add("/run/systemd/system")
            files["/run/udev/control"] = ""
            links["/usr/sbin/init"] = "../lib/systemd/systemd"
            files["/usr/lib/systemd/systemd"] = ""

    def _processor(self, files: dict[str, str]) -> None:
        flags = "fpu sse2" + (" hypervisor" if self.is_vm else "")
        entry = f"vendor_id\t: {self.cpu_vendor}\nmodel name\t: {self.cpu_model}\nflags\t\t: {flags}\n\n"
        if self.arch == "aarch64":
            entry = "BogoMIPS\t: 2000.00\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\n"
        files["/proc/cpuinfo"] = "".join(
            f"processor\t: {number}\n{entry}" for number in range(self.cpus)
        )
        files["/sys/devices/system/cpu/online"] = files["/sys/devices/system/cpu/present"] = (
            f"0-{self.cpus - 1}\n"
        )
        files["/sys/devices/system/cpu/smt/active"] = f"{int(self.threads_per_core > 1)}\n"
        per_socket = self.cores_per_socket * self.threads_per_core
        cores = self.sockets * self.cores_per_socket
        for cpu in range(self.cpus):
            core = cpu % cores
            base = f"/sys/devices/system/cpu/cpu{cpu}/topology"
            files[f"{base}/core_cpus_list"] = (
                ",".join(str(core + t * cores) for t in range(self.threads_per_core)) + "\n"
            )
            socket = core // self.cores_per_socket
            files[f"{base}/package_cpus_list"] = ",".join(
                f"{socket * self.cores_per_socket + t * cores}-{(socket + 1) * self.cores_per_socket - 1 + t * cores}"
                for t in range(self.threads_per_core)
            ) + "\n"  # fmt: skip
        files["/proc/1/status"] = f"Name:\tsystemd\nCpus_allowed_list:\t0-{self.cpus - 1}\n"
        share = per_socket * self.sockets // self.nodes
        for node in range(self.nodes):
            base = f"/sys/devices/system/node/node{node}"
            files[f"{base}/cpulist"] = f"{node * share}-{(node + 1) * share - 1}\n"
            files[f"{base}/meminfo"] = (
                f"Node {node} MemTotal:       {self.mem_gib * GIB // 1024 // self.nodes} kB\n"
            )
        nodes = self.nodes + (8 if self.gpu_memory_gib else 0)
        for node in range(self.nodes, nodes):
            base, gib = (
                f"/sys/devices/system/node/node{node}",
                self.gpu_memory_gib if node == self.nodes else 0,
            )
            files[f"{base}/cpulist"] = "\n"
            files[f"{base}/meminfo"] = (
                f"Node {node} MemTotal:       {gib << 20} kB\nNode {node} MemFree:        {gib << 20} kB\n"
            )
        files["/sys/devices/system/node/online"] = f"0-{nodes - 1}\n" if nodes > 1 else "0\n"

    def _memory(self, files: dict[str, str]) -> None:
        own, swap = self.mem_gib * GIB // 1024, self.swap_gib * GIB // 1024
        total = own + (self.gpu_memory_gib << 20)
        files["/proc/meminfo"] = (
            f"MemTotal:       {total} kB\nMemFree:        {own // 2} kB\nMemAvailable:   {own * 9 // 10 + total - own} kB\n"
            f"SwapTotal:      {swap} kB\nSwapFree:       {swap} kB\nCommitLimit:    {own // 2 + swap} kB\nCommitted_AS:   {own // 16} kB\n"
            "HardwareCorrupted:     0 kB\nHugePages_Total:       0\nHugePages_Free:        0\n"
            "Hugepagesize:       2048 kB\n"
        )
        files["/proc/swaps"] = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
        if swap:
            files["/proc/swaps"] += (
                f"/swap.img                               file\t\t{swap}\t\t0\t\t-2\n"
            )

    def _disks(self, files: dict[str, str], links: dict[str, str]) -> None:
        for number, disk in enumerate(self.disks):
            major = {"nvme": 259, "virtio": 252, "sata": 8}[disk.transport]
            parent = {
                "nvme": f"/sys/devices/pci0000:00/0000:00:0{number + 1}.0/nvme/nvme{number}",
                "virtio": f"/sys/devices/pci0000:00/0000:00:0{number + 1}.0/virtio{number}/block",
                "sata": f"/sys/devices/pci0000:00/0000:00:1{number}.0/ata{number + 1}/host{number}/target{number}:0:0/{number}:0:0:0/block",
            }[disk.transport]
            base = f"{parent}/{disk.name}"
            links[f"/sys/block/{disk.name}"] = posixpath.relpath(base, "/sys/block")
            links[f"/sys/class/block/{disk.name}"] = posixpath.relpath(base, "/sys/class/block")
            device = f"{major}:{number * 16}"
            links[f"/sys/dev/block/{device}"] = posixpath.relpath(base, "/sys/dev/block")
            files |= {
                f"{base}/dev": f"{device}\n", f"{base}/size": f"{disk.gib * GIB // 512}\n", f"{base}/ro": "0\n",
                f"{base}/removable": "0\n", f"{base}/queue/rotational": f"{disk.rotational}\n",
                f"{base}/queue/discard_max_bytes": f"{2147450880 if disk.discard else 0}\n",
                f"{base}/device/model": f"{disk.model}\n", f"{base}/uevent": "DEVTYPE=disk\n",
                **queue_files(disk, base),
            }  # fmt: skip
            if disk.transport == "nvme":
                files[f"{base}/device/transport"] = "pcie\n"
            if disk.transport == "virtio":
                links[f"{base}/device/driver"] = "/sys/bus/virtio/drivers/virtio_blk"
            for part in disk.partitions:
                name = f"{disk.name}p{part}" if disk.transport == "nvme" else f"{disk.name}{part}"
                files |= {
                    f"{base}/{name}/partition": f"{part}\n", f"{base}/{name}/dev": f"{major}:{number * 16 + part}\n",
                    f"{base}/{name}/size": f"{disk.gib * GIB // 512 - 2048}\n", f"{base}/{name}/ro": "0\n",
                }  # fmt: skip
                links[f"/sys/class/block/{name}"] = posixpath.relpath(
                    f"{base}/{name}", "/sys/class/block"
                )
                links[f"/sys/dev/block/{major}:{number * 16 + part}"] = posixpath.relpath(
                    f"{base}/{name}", "/sys/dev/block"
                )

    def _pci(self, files: dict[str, str], links: dict[str, str]) -> None:
        files["/sys/bus/pci/devices/0000:00:00.0/vendor"] = "0x1022\n"
        files["/sys/bus/pci/devices/0000:00:00.0/device"] = "0x14a4\n"
        files["/sys/bus/pci/devices/0000:00:00.0/class"] = "0x060000\n"
        for gpu in self.gpus:
            base = self.place(gpu)
            links[f"/sys/bus/pci/devices/{gpu.slot}"] = f"../../..{base[4:]}"
            files |= {
                f"{base}/vendor": f"{gpu.vendor}\n", f"{base}/device": f"{gpu.device}\n", f"{base}/class": f"{gpu.pci_class}\n",
                f"{base}/subsystem_vendor": "0x10de\n", f"{base}/subsystem_device": f"{gpu.subsystem}\n",
                f"{base}/numa_node": f"{gpu.node}\n",
                f"{base}/modalias": f"pci:v000010DEd0000{gpu.device[2:].upper()}sv000010DEsd00000000bc03sc02i00\n",
            }  # fmt: skip
            if gpu.driver:
                links[f"{base}/driver"] = f"/sys/bus/pci/drivers/{gpu.driver}"
            if gpu.pci_class.startswith("0x03"):
                self._link(gpu, files, links)

    def _link(self, gpu: GpuSpec, files: dict[str, str], links: dict[str, str]) -> None:
        """Of a GPU: its link, the bridges above it, its IOMMU group."""
        place = self.place(gpu)
        parts = place.split("/")
        bases = ["/".join(parts[: number + 1]) for number in range(4, len(parts))]
        for base in bases:
            files |= {f"{base}/{end}_link_width": "16\n" for end in ("current", "max")}
            files |= {f"{base}/{end}_link_speed": f"{gpu.speed}\n" for end in ("current", "max")}
        for base in bases[:-1]:
            links[f"/sys/bus/pci/devices/{posixpath.basename(base)}"] = f"../../..{base[4:]}"
            files |= {
                f"{base}/vendor": "0x1000\n",
                f"{base}/device": "0xc030\n",
                f"{base}/class": "0x060400\n",
            }
        if gpu.device in WINDOWS:
            last = (1 << 43) + (WINDOWS[gpu.device] << 30) - 1
            files[f"{place}/resource"] = (
                f"{NO_BAR}0x{1 << 43:016x} 0x{last:016x} 0x000000000014220c\n{NO_BAR}"
            )
        if self.iommu and not self.is_vm:
            group = f"/sys/kernel/iommu_groups/{int(gpu.slot[5:7], 16)}"
            files[f"{group}/type"] = f"{self.iommu}\n"
            links[f"{place}/iommu_group"] = group

    def place(self, gpu: GpuSpec) -> str:
        """Where the kernel has it: below the bridges."""
        ports = self.ports(gpu)
        return "/".join((f"/sys/devices/pci{(ports or (gpu.slot,))[0][:7]}", *ports, gpu.slot))

    def ports(self, gpu: GpuSpec) -> tuple[str, ...]:
        """The bridges above a GPU, the root port first; with several GPUs there is a switch."""
        if self.is_vm or not gpu.pci_class.startswith("0x03"):
            return ()
        domain, bus = gpu.slot[:5], int(gpu.slot[5:7], 16)
        if len(self.gpus) == 1:
            return (f"{domain}{bus - 1:02x}:01.0",)
        return (
            f"{domain}{bus - 3:02x}:01.0",
            f"{domain}{bus - 2:02x}:00.0",
            f"{domain}{bus - 1:02x}:00.0",
        )

    def _configuration(self, files: dict[str, str], folders: set[str]) -> None:
        lines = []
        for number, mount in enumerate(self.mounts):
            lines.append(
                f"{22 + number} 1 {mount.device} {mount.root} {mount.target} {mount.options} shared:{number} - "
                f"{mount.fstype} {mount.source} {mount.super_options}"
            )
            folders.add(mount.target)
        files["/proc/self/mountinfo"] = "\n".join(lines) + "\n"
        files["/etc/fstab"] = self.fstab
        files["/usr/lib/tmpfiles.d/tmp.conf"] = TMPFILES
        folders.update({"/usr/lib/sysctl.d", *(["/var/log/journal"] if self.has_systemd else [])})
        own = {"vm.max_map_count": "1048576"} if self.os_version in {"24.04", "26.04"} else {}
        for key, value in {**SYSCTLS, **own, **self.sysctls}.items():
            files["/proc/sys/" + key.replace(".", "/")] = f"{value}\n"
        if self.os_version in {"24.04", "26.04"}:
            files["/usr/lib/sysctl.d/10-map-count.conf"] = "vm.max_map_count=1048576\n"
        files["/usr/lib/sysctl.d/50-pid-max.conf"] = "kernel.pid_max = 4194304\n"
        files["/proc/loadavg"] = "0.42 0.36 0.30 3/2412 51234\n"
        stanzas = [
            f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
            for name, version in sorted((self._own_packages() | self.packages).items())
        ]
        files["/var/lib/dpkg/status"] = "\n".join(stanzas)
        files["/usr/lib/systemd/system/fstrim.timer"] = (
            "[Timer]\nOnCalendar=weekly\n[Install]\nWantedBy=timers.target\n"
        )

    def _own_packages(self) -> dict[str, str]:
        version = _SYSTEMD.get(self.os_version)
        return {"systemd": version} if version and self.has_systemd else {}

    def record(self) -> dict[str, Any]:
        """The record: every file, link and folder of the tree, so that what is not named is proven
        absent.
        """
        files, links, folders = self.tree()
        listings = _listings([*files, *links, *folders], folders)
        stats: dict[str, Any] = {}
        for path, content in files.items():
            touched = int(MADE_AT * 1e9) if path == SYNCHRONIZED else 0
            stats[path] = [
                "file",
                0o644,
                0,
                0,
                len(content),
                touched,
                1,
                hash_of(path) % 10**9,
                1,
                0,
            ]
        for path in listings:
            mode = 0o1777 if path == "/tmp" else 0o755
            stats[path] = ["directory", mode, 0, 0, 4096, 0, 1, hash_of(path) % 10**9, 2, 0]
        queries = (
            []
            if not self.has_systemd
            else [_answer(show_command(("fstrim.timer",)), self._fstrim())]
        )
        if self.has_systemd:
            queries += [_answer(show_command((name,)), self._service(name)) for name in SERVICES]
        tracked = "A9FEA97B,169.254.169.123,4,1779999983.9,-0.0000012,0.0,0.0,-1.2,0.0,0.0,0.0,0.0,16.1,Normal\n"
        queries += [_answer(TRACKING, tracked)] if self.has_systemd else []
        queries.append(
            _answer(LSBLK, self._lsblk()) if self.has_systemd else _answer(BLKID, "")
        )  # without udev
        told = {
            ("uname", "-m"): f"{self.arch}\n", **not_loaded(), **blank_answers(self), **storage_answers(self),
            **self.queries,
        }  # fmt: skip
        queries += [_answer(argv, text) for argv, text in told.items()]
        spaces = {
            mount.target: Space(mount.gib * GIB, mount.gib * GIB // 2, 10**8, 9 * 10**7, 0)
            for mount in self.mounts
        }
        record: dict[str, Any] = {
            "format_version": 1, "kind": "hosttune record", "tool_version": "0.1.0", "made_at": MADE_AT, "name": self.name,
            "machine": "", "privileged": True, "persistent_only": False, "shared": False,
            "files": {path: encode_bytes(content.encode()) for path, content in sorted(files.items())},
            "links": dict(sorted(links.items())), "listings": listings, "stats": dict(sorted(stats.items())), "lstats": {path: ["link", 0o777, 0, 0, len(target), 0, 1, hash_of(path) % 10**9, 1, 0] for path, target in sorted(links.items())}, "paths": {},
            "spaces": {
                path: [s.total_bytes, s.available_bytes, s.total_inodes, s.available_inodes, s.reserved_bytes] for path, s in sorted(spaces.items())
            },
            "queries": queries, "processes": daemons_of(self.daemons),
            "os_release": {
                key.lower(): value.strip('"')
                for key, _, value in (line.partition("=") for line in files["/etc/os-release"].splitlines())
            },
        }  # fmt: skip
        for gpu in self.gpus:
            folder = self.place(gpu)
            for kind in reversed((4, 5, 6)[: len(self.ports(gpu))]):
                folder = posixpath.dirname(folder)
                path = f"{folder}/config"
                record["files"][path] = encode_bytes(express_port(kind, 0))
                record["stats"][path] = [
                    "file",
                    0o644,
                    0,
                    0,
                    4096,
                    0,
                    1,
                    hash_of(path) % 10**9,
                    1,
                    0,
                ]
                record["listings"][folder].append("config")
        if self.gpus and self.has_systemd:
            installed = {name: (version, version) for name, version in self.packages.items()}
            offered = {
                name: (self.packages.get(name, ""), version)
                for name, version in self.candidates.items()
            }
            answers = apt_answers(record, {**installed, **offered})
            record["queries"] += [_answer(argv, text) for argv, text in sorted(answers.items())]
        return record

    def _lsblk(self) -> str:
        """What udev knows: the tag of a mounted device is the one of its line in fstab."""
        tags = {
            line.split()[1]: line.split()[0]
            for line in self.fstab.splitlines()
            if len(line.split()) > 3
        }
        rows = []
        for mount in self.mounts:
            if mount.source.startswith("/dev/") and mount.root == "/":
                key, _, value = tags.get(mount.target, "").partition("=")
                uuid = value if key == "UUID" else f"{hash_of(mount.source):08x}"
                rows.append((mount.source, mount.fstype, uuid, value if key == "LABEL" else None))
        rows += [(path, fstype, uuid, None) for path, fstype, uuid in self.unmounted]
        devices = [
            {
                "name": path.rpartition("/")[2], "path": path, "fstype": fstype, "label": label, "uuid": uuid,
                "partlabel": None, "partuuid": None,
            }
            for path, fstype, uuid, label in rows
        ]  # fmt: skip
        return json.dumps({"blockdevices": devices})

    def _service(self, name: str) -> str:
        if name not in self.services:
            return f"Id={name}\nNames={name}\nLoadState=not-found\nActiveState=inactive\n"
        enabled, active = self.services[name]
        return (
            f"Id={name}\nNames={name}\nLoadState=loaded\nActiveState={active}\n"
            f"FragmentPath=/usr/lib/systemd/system/{name}\nDropInPaths=\nUnitFileState={enabled}\n"
            "UnitFilePreset=enabled\nNeedDaemonReload=no\n"
        )

    def _fstrim(self) -> str:
        path = "/usr/lib/systemd/system/fstrim.timer"
        active = "active" if self.fstrim == "enabled" else "inactive"
        return (
            f"Id=fstrim.timer\nNames=fstrim.timer\nLoadState=loaded\nActiveState={active}\nFragmentPath={path}\nDropInPaths=\n"
            f"UnitFileState={self.fstrim}\nUnitFilePreset=enabled\nNeedDaemonReload=no\n"
        )


def hash_of(text: str) -> int:
    import zlib

    return zlib.crc32(text.encode())


def _answer(argv: tuple[str, ...], text: str | None) -> dict[str, Any]:
    if text is None:
        return {"argv": list(argv), "absent": True}
    return {"argv": list(argv), "status": 0, "stdout": text, "stderr": ""}


def _listings(paths: list[str], empty: set[str]) -> dict[str, list[str]]:
    tree: dict[str, set[str]] = {"/": set()}
    for path in paths:
        child = path
        while child != "/":
            parent = posixpath.dirname(child)
            tree.setdefault(parent, set()).add(posixpath.basename(child))
            child = parent
    for folder in empty:
        tree.setdefault(folder, set())
    return {path: sorted(names) for path, names in sorted(tree.items())}


def write(machine: Machine, folder: Path) -> None:
    text = json.dumps(machine.record(), indent=1, sort_keys=False) + "\n"
    (folder / f"{machine.name}.json").write_text(text, encoding="utf-8")
