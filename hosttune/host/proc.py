"""The running processes: what every kernel shows alike, and from /proc device nodes, swap and control group.

A user chooses the name and the title of a process; in a mount namespace of their own any file has any path; and the
name stands in /proc/PID/status before the user. So a device is known by its numbers, the user by the owner of /proc/PID
(proc(5)), and a program by its file.
"""

from __future__ import annotations

import os
import stat

from hosttune.host.door import Process
from hosttune.host.filestatus import FileStatus, status_of
from hosttune.host.proc_fields import process_fields, user_name
from hosttune.host.secrets import mask_command
from hosttune.regex import regex

# All that is ever taken from the environment of a process: names that say how it runs, and no secret.
VARIABLES = frozenset({
    "COMPUTE_PROFILE", "CUDA_DEVICE_WAITS_ON_EXCEPTION", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_INJECTION64_PATH",
    "CUDA_LAUNCH_BLOCKING", "NCCL_DEBUG", "NSIGHT_CUDA_DEBUGGER", "OMP_NUM_THREADS", "PYTORCH_USE_CUDA_DSA",
    "TORCH_DISTRIBUTED_DEBUG", "TORCH_SHOW_CPP_STACKTRACES",
})  # fmt: skip
_PLAIN = regex(r"[A-Za-z0-9_,.-]{0,24}")
_NVIDIA = 195  # major number of nvidia0 and the like (kernel: Documentation/admin-guide/devices.txt)
_NVIDIA_MINORS = {255: "/dev/nvidiactl", 254: "/dev/nvidia-modeset"}
_MAJORS = {"nvidia-uvm": ("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"), "kfd": ("/dev/kfd",)}  # drawn at the load
_OF_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/")


def processes() -> tuple[Process, ...]:
    """All processes with a program; kernel threads have none. Devices are empty for processes this user may not see."""
    found = []
    known = _known_devices(_read("/proc/devices"))
    for info in process_fields():
        if not info["cmdline"]:
            continue
        devices = _devices(info["pid"], known)
        is_gpu = any(device.startswith("/dev/nvidia") for device in devices)
        uid = _uid(info["pid"])
        found.append(
            Process(
                pid=info["pid"],
                name=info["name"] or "",
                user=user_name(uid) if uid >= 0 else "",
                command=mask_command(tuple(info["cmdline"])),
                rss_bytes=info["rss_bytes"],
                swap_bytes=_swap_bytes(info["pid"]),
                devices=devices,
                cgroup=_cgroup(info["pid"]),
                started_at=info["create_time"] or 0.0,
                parent=info["ppid"] or 0,
                cpus=_cpus(info["pid"]) if is_gpu else 0,
                variables=_variables(info["pid"]) if is_gpu else (),
                uid=uid,
                program=_program(info["pid"], uid),
            )
        )
    return tuple(sorted(found, key=lambda process: process.pid))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _swap_bytes(pid: int) -> int:
    for line in _read(f"/proc/{pid}/status").split("\n"):
        if line.startswith("VmSwap:"):
            return int(line.split()[1]) * 1024
    return 0


def _cpus(pid: int) -> int:
    """The length of its list of CPUs: 0-3,8 are five (proc_pid_status(5), cpuset(7))."""
    for line in _read(f"/proc/{pid}/status").split("\n"):
        if line.startswith("Cpus_allowed_list:"):
            ends = [part.split("-") for part in line.split(":")[1].strip().split(",") if part]
            return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)
    return 0


def _variables(pid: int) -> tuple[str, ...]:
    """Those of VARIABLES that it was started with; of a value that is no plain word only that there is one."""
    pairs = (entry.partition("=") for entry in _read(f"/proc/{pid}/environ").split("\0"))
    known = ((name, value) for name, _, value in pairs if name in VARIABLES)
    return tuple(sorted(f"{name}={value if _PLAIN.fullmatch(value) else '(set)'}" for name, value in known))


def _uid(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def _program(pid: int, uid: int) -> str:
    """The path of its executable. Of a process that has no rights of root's only where the file at that path on this
    host is root's, and the very one that it runs: in its own mount namespace any file may have this path.
    """
    path = f"/proc/{pid}/exe"
    try:
        target = os.readlink(path)
    except OSError:
        return ""
    if uid == 0:
        return target
    if uid < 0 or not target.startswith(_OF_SYSTEM):
        return ""
    runs, there = status_of(path), status_of(target)
    is_same = runs and there and (runs.device, runs.inode) == (there.device, there.inode)
    return target if is_same and runs and runs.uid == 0 and not runs.mode & 0o022 else ""


def _known_devices(content: str) -> dict[tuple[int, int], str]:
    """(major, minor) -> the path of device nodes whose major number the kernel draws, from /proc/devices (proc(5))."""
    characters = content.partition("Block devices:")[0]
    rows = (row.split() for row in characters.split("\n"))
    majors = {row[1]: int(row[0]) for row in rows if len(row) == 2 and row[1] in _MAJORS and row[0].isdecimal()}
    return {(major, minor): path for name, major in majors.items() for minor, path in enumerate(_MAJORS[name])}


def _devices(pid: int, known: dict[tuple[int, int], str]) -> tuple[str, ...]:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:
        return ()
    devices: set[str] = set()
    for number in numbers:
        try:
            target = os.readlink(f"{folder}/{number}")
        except OSError:
            continue
        # Sockets, pipes and the like have no path; what has one is looked at whatever it is called.
        if target.startswith("/") and (status := status_of(f"{folder}/{number}")):
            name = _device(target, status, known)
            if name and name not in devices and _is_open(pid, number):
                devices.add(name)
    return tuple(sorted(devices))


def _is_open(pid: int, number: str) -> bool:
    """Whether it was opened, for which its mode asks: with O_PATH anybody may point at it (open(2))."""
    rows = (row.split() for row in _read(f"/proc/{pid}/fdinfo/{number}").split("\n"))
    flags = next((row[1] for row in rows if len(row) == 2 and row[0] == "flags:"), "0")
    return not int(flags, 8) & os.O_PATH


def _device(target: str, status: FileStatus, known: dict[tuple[int, int], str]) -> str:
    """What a device node is called on this host; empty for what is none, or is of no interest."""
    if not (stat.S_ISCHR(status.mode) or stat.S_ISBLK(status.mode)):
        return ""
    major, minor = status.rdev
    if stat.S_ISCHR(status.mode) and major == _NVIDIA:
        return _NVIDIA_MINORS.get(minor, f"/dev/nvidia{minor}")
    if stat.S_ISCHR(status.mode) and (path := known.get(status.rdev)):
        return path
    if not target.startswith("/dev/") or target.startswith(("/dev/null", "/dev/pts/", "/dev/shm/")):
        return ""
    own = status_of(target)
    is_own = own and (own.rdev, stat.S_IFMT(own.mode)) == (status.rdev, stat.S_IFMT(status.mode))
    return target if is_own else ""


def _cgroup(pid: int) -> str:
    """The v2 path (hierarchy 0); on v1 the one that systemd names itself (cgroups(7))."""
    lines = [line.split(":", 2) for line in _read(f"/proc/{pid}/cgroup").split("\n")]
    paths = {(number, controllers): path for number, controllers, path in (line for line in lines if len(line) == 3)}
    unified = paths.get(("0", ""), "")
    named = next((path for (_, controllers), path in paths.items() if controllers == "name=systemd"), "")
    return named if unified in ("", "/") and named else unified
