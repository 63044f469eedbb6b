"""The running processes: what every kernel shows alike, and from /proc device nodes, swap and control group."""

from __future__ import annotations

import os

from hosttune.host.door import Process
from hosttune.host.proc_fields import process_fields
from hosttune.host.secrets import mask_command


def processes() -> tuple[Process, ...]:
    """All processes with a program; kernel threads have none. Devices are empty for processes this user may not see."""
    found = []
    for info in process_fields():
        if not info["cmdline"]:
            continue
        found.append(
            Process(
                pid=info["pid"],
                name=info["name"] or "",
                user=info["username"] or "",
                command=mask_command(tuple(info["cmdline"])),
                rss_bytes=info["rss_bytes"],
                swap_bytes=_swap_bytes(info["pid"]),
                devices=_devices(info["pid"]),
                cgroup=_cgroup(info["pid"]),
                started_at=info["create_time"] or 0.0,
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
