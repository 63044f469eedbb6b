"""Taking a record: what the facts ask for, and a survey beyond it, so that tomorrow's rules can be
tried on today's record. What leaves the host goes through `actions/record/encode.py`, which keeps
secrets out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hosttune.actions.record.encode import DPKG_STATUS, encode_record
from hosttune.facts.containers.kubernetes import DAEMONS
from hosttune.facts.services.units import show_command
from hosttune.host.door import Reader, Stat
from hosttune.host.masking.secrets import is_secret_file
from hosttune.host.record.record import RecordingReader
from hosttune.regex import regex

# Whole trees of small files: kernel values and configuration.
TREES = (
    "/proc/sys/vm", "/proc/sys/kernel", "/proc/sys/net", "/proc/sys/fs", "/proc/sys/abi",
    "/proc/sys/crypto", "/proc/sys/dev", "/proc/sys/sunrpc", "/proc/sys/user", "/sys/kernel/mm",
    "/sys/module/nvidia/parameters", "/sys/devices/system/cpu/smt",
    "/sys/devices/system/cpu/vulnerabilities", "/proc/pressure", "/etc/sysctl.d", "/run/sysctl.d",
    "/usr/lib/sysctl.d", "/etc/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d",
    "/etc/modules-load.d", "/etc/security/limits.d", "/etc/tmpfiles.d", "/usr/lib/tmpfiles.d",
    "/run/tmpfiles.d", "/etc/udev/rules.d", "/etc/default/grub.d", "/etc/apt/apt.conf.d",
    "/etc/apt/preferences.d", "/etc/initramfs-tools", "/etc/systemd/system",
    "/etc/systemd/system.conf.d", "/etc/systemd/logind.conf.d", "/etc/systemd/journald.conf.d",
    "/run/systemd/system", "/etc/needrestart", "/etc/docker", "/etc/nvidia-container-runtime",
    "/etc/cdi", "/etc/tuned", "/etc/hosttune",
)  # fmt: skip
FILES = (
    "/etc/fstab", "/etc/os-release", "/etc/machine-id", "/etc/hostname", "/etc/default/grub",
    "/etc/sysctl.conf", "/etc/security/limits.conf", "/etc/systemd/system.conf",
    "/etc/containerd/config.toml", "/proc/cmdline", "/proc/cpuinfo", "/proc/meminfo", "/proc/swaps",
    "/proc/self/mountinfo", "/proc/modules", "/proc/filesystems", "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/params",
)  # fmt: skip
# (folder, entries, files of each): what devices say of themselves. Serial numbers are asked for to
# be masked elsewhere.
DEVICES = (
    (
        "/sys/block",
        regex(r"(?!loop|ram|zram)"),
        (
            "size",
            "removable",
            "queue/rotational",
            "queue/scheduler",
            "queue/nr_requests",
            "queue/read_ahead_kb",
            "queue/optimal_io_size",
            "queue/rq_affinity",
            "queue/write_cache",
            "queue/discard_max_bytes",
            "queue/max_sectors_kb",
            "device/model",
            "device/serial",
            "device/wwid",
            "serial",
            "wwid",
            "uuid",
            "nguid",
            "eui",
        ),
    ),
    ("/sys/bus/pci/devices", regex(""), ("class", "vendor", "device")),
    (
        "/sys/class/net",
        regex(r"(?!lo$|veth|cali|br-)"),
        ("mtu", "speed", "operstate", "device/numa_node"),
    ),
    ("/sys/devices/system/node", regex(r"node\d+$"), ("cpulist", "meminfo", "distance")),
    (
        "/sys/class/dmi",
        regex(r"id$"),
        (
            "sys_vendor",
            "product_name",
            "board_name",
            "bios_version",
            "bios_date",
            "product_serial",
            "product_uuid",
            "board_serial",
            "chassis_serial",
            "chassis_asset_tag",
            "chassis_type",
        ),
    ),
)
# Display, network and bridge (NVSwitch) functions are of interest in full; a server has hundreds of
# others.
_PCI_CLASSES = (b"0x02", b"0x03", b"0x0680", b"0x12")
_PCI_FILES = (
    "subsystem_vendor", "subsystem_device", "numa_node", "local_cpulist", "current_link_speed",
    "current_link_width", "max_link_speed", "max_link_width", "power/control", "d3cold_allowed",
    "sriov_numvfs",
)  # fmt: skip
UNITS = (
    "fstrim.timer", "tmp.mount", "nvidia-persistenced.service", "nvidia-fabricmanager.service",
    "tuned.service", "docker.service", "containerd.service", "slurmd.service",
    "unattended-upgrades.service", "power-profiles-daemon.service", "apt-daily-upgrade.timer",
    "thermald.service", "systemd-oomd.service", "cloud-init.service", "multipathd.service",
    "snapd.service", "nvidia-dcgm.service",
)  # fmt: skip
_OF_KERNEL = ("/proc/", "/sys/", DPKG_STATUS, "/etc/machine-id", "/etc/os-release", "/etc/hostname")
NAMESPACES = ("cgroup", "ipc", "mnt", "pid", "time", "user", "uts")  # namespaces(7)
_MAX_DEPTH = 6
_MAX_ENTRIES = 4000  # a folder larger than this is not configuration
_SKIPPED = regex(
    # A read of stat_refresh makes every CPU add up its counters
    # (Documentation/admin-guide/sysctl/vm.rst), and uuid is another one each time.
    r"^/proc/sys/(?:net/ipv[46]/route/flush|vm/(?:compact_memory|drop_caches|stat_refresh)"
    r"|kernel/random/uuid)$|"
    # a bit for every page of memory, 32 MiB of them for each TiB
    r"^/sys/kernel/mm/page_idle/|"
    # one folder for every interface: a host of containers has thousands
    r"^/proc/sys/net/(?:ipv[46]/(?:conf|neigh)|mpls/conf)/(?!(?:all|default)(?:/|$))"
    r"|^/proc/sys/fs/binfmt_misc/register$"
)


def take_record(
    reader: Reader, collect: Callable[[Reader], None], *, share: bool, tool_version: str
) -> dict[str, Any]:
    """The record of a host: what `collect` asks of it (the facts), and the survey. No secrets."""
    recorder = RecordingReader(reader)
    collect(recorder)
    _record_survey(recorder, share=share)
    return encode_record(recorder, share=share, tool_version=tool_version)


def _record_survey(recorder: RecordingReader, *, share: bool) -> None:
    """In a record that is shared, of files only the values of the kernel."""
    for path in (*FILES, DPKG_STATUS):
        if not share or path.startswith(_OF_KERNEL):
            recorder.read(path)
        recorder.stat(path)
    for tree in TREES:
        if not share or tree.startswith(_OF_KERNEL):
            _walk(recorder, tree)
    recorder.stat("/etc/hosttune")  # that there is no policy, of a report that has no list of /etc
    for folder in (
        "/",
        "/etc",
        "/etc/systemd",
        "/boot",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/systemd",
    ):
        recorder.list(folder)
    for name in NAMESPACES:
        recorder.link(f"/proc/self/ns/{name}")
    for folder, wanted, files in DEVICES:
        _record_devices(recorder, folder, wanted, files)
    recorder.os_release()
    recorder.processes()
    if isinstance(recorder.stat("/run/systemd/system"), Stat):
        recorder.query(show_command((*UNITS, *DAEMONS)))


def _record_devices(
    recorder: RecordingReader, folder: str, wanted: re.Pattern[str], files: tuple[str, ...]
) -> None:
    names = recorder.list(folder)
    for name in names if isinstance(names, tuple) else ():
        if not wanted.match(name):
            continue
        place = f"{folder}/{name}"
        recorder.link(place)
        recorder.resolve(place)
        kind = recorder.read(f"{place}/class") if "class" in files else b""
        more = _PCI_FILES if isinstance(kind, bytes) and kind.startswith(_PCI_CLASSES) else ()
        if more:
            recorder.link(f"{place}/driver")
        for file in (*files, *more):
            recorder.read(f"{place}/{file}")


def _walk(recorder: RecordingReader, folder: str, depth: int = 0) -> None:
    names = recorder.list(folder)
    recorder.stat(folder)
    if not isinstance(names, tuple) or depth == _MAX_DEPTH or len(names) > _MAX_ENTRIES:
        return
    for name in names:
        path = f"{folder}/{name}"
        if _SKIPPED.search(path) or is_secret_file(path):
            continue
        own = recorder.stat(path, follow=False)
        if not isinstance(own, Stat):
            continue
        if own.type == "link":
            recorder.link(path)
            resolved = recorder.resolve(path)
            # A harmless name in /etc/systemd can lead to a key.
            if isinstance(resolved, str) and is_secret_file(resolved):
                continue
        kind = recorder.stat(path)
        # Without a read bit it is a trigger of the kernel, such as drop_caches, which root could
        # open all the same.
        if isinstance(kind, Stat) and kind.type == "file" and kind.mode & 0o444:
            recorder.read(path)
        # Only real folders: a link to one above would make the walk endless.
        elif own.type == "directory":
            _walk(recorder, path, depth + 1)
