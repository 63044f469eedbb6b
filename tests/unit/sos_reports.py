"""Writes archives as sos does, of a made-up host with two GPUs."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from tests.unit.bug_reports import LOG, LOST, NOT_REACHED, SLOTS, device, gpu, long_text

__all__ = ("LOG", "LOST", "NOT_REACHED", "SLOTS", "device", "gpu", "long_text")

TOP = "sosreport-gpu7-2026-11-20-abcdefg"
HOSTNAMECTL = (
    " Static hostname: gpu7\n       Icon name: computer-server\n         Chassis: server\n"
)
CPU = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: fpu vme\n"
# What the commands of each plugin printed.
ANSWERS: Mapping[tuple[str, str], str | None] = {
    (
        "kernel",
        "uname -a",
    ): "Linux gpu7 6.8.0-60-generic #63-Ubuntu SMP x86_64 x86_64 x86_64 GNU/Linux\n",
    ("kernel", "dmesg"): LOG,
    ("pci", "lspci -nnvv"): "".join(device(slot).removeprefix("0000:") for slot in SLOTS),
    ("nvidia", "nvidia-smi -q"): long_text(*(gpu(slot) for slot in SLOTS)),
    ("host", "hostnamectl status"): HOSTNAMECTL,
    ("date", "date --utc"): "Fri Nov 20 10:00:00 UTC 2026\n",
}
FILES: Mapping[str, str | None] = {
    "proc/cpuinfo": CPU,
    "proc/meminfo": "MemTotal:       131072000 kB\nMemAvailable:   120000000 kB\n",
    "proc/modules": "nvidia_uvm 1 0 - Live 0x0\nnvidia 56 5 nvidia_uvm, Live 0x0\n",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue Jan 14 2025\n",
    "proc/sys/kernel/hostname": "gpu7\n",
    "proc/sys/kernel/osrelease": "6.8.0-60-generic\n",
    "proc/sys/vm/max_map_count": "65530\n",
    "etc/sysctl.d/10-local.conf": "vm.max_map_count = 65530\n",
    "usr/lib/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n',
}
LINKS: Mapping[str, str] = {"lib": "usr/lib", "etc/os-release": "../usr/lib/os-release"}
# Folders that plugins took whole.
SPECIFICATIONS: Mapping[str, tuple[str, ...]] = {
    "kernel": ("/etc/sysctl.d", "/etc/modprobe.d", "/lib/modules/*/x")
}
FOLDERS = ("etc/sysctl.d", "etc/modprobe.d")


def manifest(answers: Mapping[tuple[str, str], str], **changed: Any) -> dict[str, Any]:
    plugins: dict[str, dict[str, Any]] = {}
    for (plugin, command), row in ((one, answer_row(*one)) for one in answers):
        own = plugins.setdefault(plugin, {"timeout_hit": False, "commands": [], "files": []})
        own["commands"].append(row | changed.get(command, {}))
    for plugin, specifications in SPECIFICATIONS.items():
        own = plugins.setdefault(plugin, {"timeout_hit": False, "commands": [], "files": []})
        own["files"] = [{"specification": one, "files_copied": []} for one in specifications]
        own.update(changed.get(plugin, {}))
    head = {"version": "4.9.1", "cmdline": "report --batch", **changed.get("head", {})}
    return {**head, "components": {"report": {"sysroot": "/", "plugins": plugins}}}


def answer_row(plugin: str, command: str) -> dict[str, Any]:
    place = f"sos_commands/{plugin}/{command.replace(' ', '_').replace('/', '.')}"
    return {"exec": command, "filepath": place, "return_code": 0, "truncated": False}


def sos_members(
    answers: Mapping[tuple[str, str], str | None] | None = None, files: Mapping[str, str | None] | None = None,
    links: Mapping[str, str] | None = None, **changed: Any,
) -> list[tuple[tarfile.TarInfo, bytes]]:  # fmt: skip
    """The members of such an archive; None leaves one out. `changed`: rows of the manifest, by
    command or plugin.
    """
    said = {one: text for one, text in (ANSWERS | (answers or {})).items() if text is not None}
    found = [member(TOP, tarfile.DIRTYPE)]
    found += [member(f"{TOP}/{folder}", tarfile.DIRTYPE) for folder in FOLDERS]
    for (plugin, command), text in said.items():
        found.append(member(f"{TOP}/{answer_row(plugin, command)['filepath']}", content=text))
    for path, text in (FILES | (files or {})).items():
        if text is not None:
            found.append(member(f"{TOP}/{path}", content=text))
    for path, target in (LINKS | (links or {})).items():
        found.append(member(f"{TOP}/{path}", tarfile.SYMTYPE, target=target))
    text = json.dumps(manifest(said, **changed))
    return [*found, member(f"{TOP}/sos_reports/manifest.json", content=text)]


def member(
    name: str, kind: bytes = tarfile.REGTYPE, *, content: str = "", target: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    data = content.encode("utf-8", "surrogateescape")
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(data), target
    return info, data


def pack(
    members: list[tuple[tarfile.TarInfo, bytes]],
    mode: str = "w:xz",
    *,
    form: int = tarfile.PAX_FORMAT,
) -> bytes:
    out = BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=form) as tar:  # type: ignore[call-overload]
        for info, data in members:
            tar.addfile(info, BytesIO(data))
    return out.getvalue()


def sosreport(mode: str = "w:xz", **changed: Any) -> bytes:
    return pack(sos_members(**changed), mode)
