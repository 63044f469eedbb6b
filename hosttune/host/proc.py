"""The running processes: what every kernel shows alike, and from /proc device nodes, swap and control group."""

from __future__ import annotations

import os

from hosttune.host.door import Process
from hosttune.host.proc_fields import process_fields
from hosttune.host.secrets import mask_command
from hosttune.regex import regex

# All that is ever taken from the environment of a process: names that say how it runs, and no secret.
VARIABLES = frozenset({
    "COMPUTE_PROFILE", "CUDA_DEVICE_WAITS_ON_EXCEPTION", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_INJECTION64_PATH",
    "CUDA_LAUNCH_BLOCKING", "NCCL_DEBUG", "NSIGHT_CUDA_DEBUGGER", "OMP_NUM_THREADS", "PYTORCH_USE_CUDA_DSA",
    "TORCH_DISTRIBUTED_DEBUG", "TORCH_SHOW_CPP_STACKTRACES",
})  # fmt: skip
_PLAIN = regex(r"[A-Za-z0-9_,.-]{0,24}")


def processes() -> tuple[Process, ...]:
    """All processes with a program; kernel threads have none. Devices are empty for processes this user may not see."""
    found = []
    for info in process_fields():
        if not info["cmdline"]:
            continue
        devices = _devices(info["pid"])
        is_gpu = any(device.startswith("/dev/nvidia") for device in devices)
        found.append(
            Process(
                pid=info["pid"],
                name=info["name"] or "",
                user=info["username"] or "",
                command=mask_command(tuple(info["cmdline"])),
                rss_bytes=info["rss_bytes"],
                swap_bytes=_swap_bytes(info["pid"]),
                devices=devices,
                cgroup=_cgroup(info["pid"]),
                started_at=info["create_time"] or 0.0,
                parent=info["ppid"] or 0,
                cpus=_cpus(info["pid"]) if is_gpu else 0,
                variables=_variables(info["pid"]) if is_gpu else (),
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
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmSwap:"):
            return int(line.split()[1]) * 1024
    return 0


def _cpus(pid: int) -> int:
    """The length of its list of CPUs: 0-3,8 are five (proc_pid_status(5), cpuset(7))."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            ends = [part.split("-") for part in line.split(":")[1].strip().split(",") if part]
            return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)
    return 0


def _variables(pid: int) -> tuple[str, ...]:
    """Those of VARIABLES that it was started with; of a value that is no plain word only that there is one."""
    pairs = (entry.partition("=") for entry in _read(f"/proc/{pid}/environ").split("\0"))
    known = ((name, value) for name, _, value in pairs if name in VARIABLES)
    return tuple(sorted(f"{name}={value if _PLAIN.fullmatch(value) else '(set)'}" for name, value in known))


def _devices(pid: int) -> tuple[str, ...]:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:
        return ()
    devices = set()
    for number in numbers:
        try:
            target = os.readlink(f"{folder}/{number}")
        except OSError:
            continue
        if target.startswith("/dev/") and not target.startswith(("/dev/null", "/dev/pts/", "/dev/shm/")):
            devices.add(target)
    return tuple(sorted(devices))


def _cgroup(pid: int) -> str:
    """The v2 path (hierarchy 0); on v1 the one that systemd names itself (cgroups(7))."""
    lines = [line.split(":", 2) for line in _read(f"/proc/{pid}/cgroup").splitlines()]
    paths = {(number, controllers): path for number, controllers, path in (line for line in lines if len(line) == 3)}
    unified = paths.get(("0", ""), "")
    named = next((path for (_, controllers), path in paths.items() if controllers == "name=systemd"), "")
    return named if unified in ("", "/") and named else unified
