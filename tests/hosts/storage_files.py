"""What a described machine's kernel shows about the queues of its disks and its NFS mounts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hosttune.facts.storage.nvme import make_question
from hosttune.facts.storage.spare import make_comparison, make_wipefs

if TYPE_CHECKING:
    from tests.hosts.machine import DiskSpec, Machine

HARDWARE_QUEUES = {"nvme": 8, "virtio": 4, "sata": 1}  # of the kind of disk
NFS_RULE = 'SUBSYSTEM=="bdi", ACTION=="add", PROGRAM="/usr/libexec/nfsrahead %k", ATTR{read_ahead_kb}="%c"\n'


# As nvme-cli prints it; the temperature in kelvin.
SMART = {
    "critical_warning": 0, "temperature": 311, "avail_spare": 100, "spare_thresh": 10, "percent_used": 2,
    "endurance_grp_critical_warning_summary": 0, "data_units_read": 91043226, "data_units_written": 70120434,
    "host_read_commands": 1001928812, "host_write_commands": 801120034, "controller_busy_time": 1021,
    "power_cycles": 41, "power_on_hours": 9120, "unsafe_shutdowns": 17, "media_errors": 0, "num_err_log_entries": 310,
    "warning_temp_time": 0, "critical_comp_time": 0, "temperature_sensor_1": 311,
}  # fmt: skip


def controllers(machine: Machine) -> dict[str, DiskSpec]:
    return {
        disk.name.rpartition("n")[0]: disk for disk in machine.disks if disk.transport == "nvme"
    }


def controller_files(machine: Machine) -> dict[str, str]:
    """What the kernel shows of NVMe controllers, each of which works."""
    files = {}
    for name, disk in controllers(machine).items():
        base = f"/sys/class/nvme/{name}"
        files |= {
            f"{base}/model": f"{disk.model:40}\n",
            f"{base}/state": "live\n",
            f"{base}/transport": "pcie\n",
        }
        files |= {f"{base}/hwmon1/temp1_input": "37850\n", f"{base}/hwmon1/temp1_alarm": "0\n"}
    return files


def controller_links(machine: Machine) -> dict[str, str]:
    slots = enumerate(controllers(machine), 0xC1)
    return {
        f"/sys/class/nvme/{name}/device": f"../../../0000:{number:02x}:00.0"
        for number, name in slots
    }


def storage_answers(machine: Machine) -> dict[tuple[str, ...], str]:
    """Drives that are well, and a kernel log that has nothing to say of storage."""
    healthy = f"{json.dumps(SMART, indent=2)}\n"
    return {make_question("nvme", name): healthy for name in controllers(machine)}


def queue_files(disk: DiskSpec, base: str) -> dict[str, str]:
    """The files of a disk's queue, as the kernel sets it up by itself."""
    count = HARDWARE_QUEUES[disk.transport]
    return {
        f"{base}/queue/scheduler": "[none] mq-deadline\n" if count > 1 else "none [mq-deadline]\n",
        f"{base}/queue/read_ahead_kb": "128\n",
        **{f"{base}/mq/{number}/nr_tags": "256\n" for number in range(count)},
        f"{base}/bdi/max_ratio": "100\n",
        f"{base}/bdi/strict_limit": "0\n",
    }


def nfs_files(machine: Machine) -> dict[str, str]:
    devices = {mount.device for mount in machine.mounts if mount.fstype.startswith("nfs")}
    values = {"read_ahead_kb": 128, "max_ratio": 100, "strict_limit": 0}
    files = {
        f"/sys/class/bdi/{device}/{name}": f"{value}\n"
        for device in devices
        for name, value in values.items()
    }
    if devices:
        rows = (
            f"v4 0a000001  801 {device:7} {number:x}:0               no\n"
            for number, device in enumerate(sorted(devices), 1)
        )
        files["/proc/fs/nfsfs/volumes"] = (
            "NV SERVER   PORT DEV     FSID              FSC\n" + "".join(rows)
        )
        files["/usr/lib/udev/rules.d/99-nfs.rules"] = NFS_RULE
        files["/etc/nfs.conf"] = (
            "[general]\npipefs-directory=/run/rpc_pipefs\n[nfsrahead]\n# nfs4=16000\n"
        )
    return files


def blank_answers(machine: Machine) -> dict[tuple[str, ...], str]:
    """What is found on the NVMe disks that hold nothing: no signature, and zeros."""
    held = {mount.source for mount in machine.mounts} | {path for path, _, _ in machine.unmounted}
    blank = [disk for disk in machine.disks if disk.transport == "nvme" and not disk.partitions]
    paths = [f"/dev/{disk.name}" for disk in blank if f"/dev/{disk.name}" not in held]
    return {make_wipefs(path): '{\n   "signatures": [\n\n   ]\n}\n' for path in paths} | {
        make_comparison(path): "" for path in paths
    }
