"""Taking a record: what the facts ask for, and a survey beyond it, so that tomorrow's rules can be tried on today's
record.

What leaves a host is masked first (`host/secrets.py`); with `share` also host names, user names and addresses are
replaced, each by the same word wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hosttune.host.door import Completed, Process, Reader, Space, Stat
from hosttune.host.machine_id import hashed_machine_id, machine_id_hash
from hosttune.host.record import FORMAT_VERSION, KIND, Recorder, encode_answer, encode_bytes
from hosttune.host.secrets import MASK, is_secret_file, is_serial_file, mask_command, mask_text
from hosttune.values import Answer

# Whole trees of small files: kernel values and configuration.
TREES = (
    "/proc/sys/vm", "/proc/sys/kernel", "/proc/sys/net/core", "/proc/sys/net/ipv4", "/proc/sys/fs",
    "/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d", "/etc/modprobe.d", "/usr/lib/modprobe.d",
    "/etc/modules-load.d", "/etc/security/limits.d", "/etc/tmpfiles.d", "/usr/lib/tmpfiles.d",
    "/etc/udev/rules.d", "/etc/default/grub.d", "/etc/apt/apt.conf.d", "/etc/systemd/system",
    "/etc/systemd/system.conf.d", "/etc/systemd/logind.conf.d", "/etc/needrestart", "/etc/docker",
    "/etc/hosttune",
)  # fmt: skip
FILES = (
    "/etc/fstab", "/etc/os-release", "/etc/machine-id", "/etc/hostname", "/etc/default/grub", "/etc/sysctl.conf",
    "/proc/cmdline", "/proc/cpuinfo", "/proc/meminfo", "/proc/swaps", "/proc/self/mountinfo", "/proc/modules",
    "/proc/pressure/memory", "/proc/pressure/io", "/proc/pressure/cpu",
    "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/defrag",
)  # fmt: skip
UNITS = (
    "fstrim.timer", "tmp.mount", "nvidia-persistenced.service", "nvidia-fabricmanager.service", "tuned.service",
    "irqbalance.service", "docker.service", "containerd.service", "slurmd.service", "kubelet.service",
    "unattended-upgrades.service", "power-profiles-daemon.service",
)  # fmt: skip
_MAX_DEPTH = 6
_MAX_ENTRIES = 4000  # a tree larger than this is not configuration
_SKIPPED = re.compile(
    r"^/proc/sys/(?:net/ipv4/route/flush|vm/(?:compact_memory|drop_caches)|kernel/random/uuid)$|/stat_refresh$"
)
_ADDRESS = re.compile(
    r"\b(?:\d{1,3}\.){3}\d{1,3}\b|\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b|\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b",
    re.IGNORECASE,
)
_KEPT_ADDRESSES = re.compile(r"^(?:0\.0\.0\.0|127\.\d+\.\d+\.\d+|255\.255\.255\.\d+)$")
DPKG_STATUS = "/var/lib/dpkg/status"
_DPKG_FIELDS = ("Package:", "Status:", "Architecture:", "Version:", "Source:", "Provides:")


def take_record(reader: Reader, collect: Callable[[Reader], None], *, share: bool, tool_version: str) -> dict[str, Any]:
    """The record of a host: what `collect` asks of it (the facts), and the survey. No secrets."""
    recorder = Recorder(reader)
    collect(recorder)
    _survey(recorder)
    return _Masked(recorder, share=share).record(tool_version)


def _survey(recorder: Recorder) -> None:
    for path in FILES:
        recorder.read(path)
        recorder.stat(path)
    for tree in TREES:
        _walk(recorder, tree)
    for folder in ("/sys/block", "/sys/bus/pci/devices", "/etc", "/boot"):
        recorder.list(folder)
    recorder.read(DPKG_STATUS)
    recorder.os_release()
    recorder.processes()
    if isinstance(recorder.stat("/run/systemd/system"), Stat):
        from hosttune.facts.units import show_command

        recorder.query(show_command(UNITS))


def _walk(recorder: Recorder, folder: str, depth: int = 0) -> None:
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
            recorder.resolve(path)
        kind = recorder.stat(path) if own.type == "link" else own
        if isinstance(kind, Stat) and kind.type == "file":
            recorder.stat(path)
            if kind.mode & 0o444:
                recorder.read(path)
        elif own.type == "directory":
            _walk(recorder, path, depth + 1)


class _Masked:
    """Encodes what a Recorder kept, without secrets."""

    def __init__(self, recorder: Recorder, *, share: bool) -> None:
        self.kept = recorder.answers
        self.base = recorder.base
        self.share = share
        self._replaced: dict[str, str] = {}
        self._serials = self._find_serials()
        self._names = self._find_names() if share else {}

    def record(self, tool_version: str) -> dict[str, Any]:
        kept = self.kept
        machine = kept["files"].get("/etc/machine-id")
        machine_id = machine.decode("ascii", "replace") if isinstance(machine, bytes) else ""
        others = kept["others"]
        record: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "kind": KIND,
            "tool_version": tool_version,
            "made_at": self.base.now(),
            "name": self.text(self.base.name),
            "machine": machine_id_hash(machine_id),
            "privileged": self.base.is_privileged,
            "persistent_only": self.base.persistent_only,
            "shared": self.share,
            "files": {path: encode_answer(value, self.file_at(path)) for path, value in _sorted(kept["files"])},
            "links": {path: encode_answer(value, self.text) for path, value in _sorted(kept["links"])},
            "listings": {path: encode_answer(value, self.names) for path, value in _sorted(kept["listings"])},
            "stats": {path: encode_answer(value, _stat) for path, value in _sorted(kept["stats"])},
            "lstats": {path: encode_answer(value, _stat) for path, value in _sorted(kept["lstats"])},
            "paths": {path: encode_answer(value, self.text) for path, value in _sorted(kept["paths"])},
            "spaces": {path: encode_answer(value, _space) for path, value in _sorted(kept["spaces"])},
            "queries": [self.query(argv, answer) for argv, answer in sorted(kept["queries"].items())],
        }
        if "processes" in others:
            record["processes"] = encode_answer(others["processes"], lambda found: [self.process(one) for one in found])
        if "os_release" in others:
            record["os_release"] = encode_answer(others["os_release"], dict)
        return record

    def file_at(self, path: str) -> Callable[[bytes], Any]:
        return lambda content: self.file(path, content)

    def file(self, path: str, content: bytes) -> Any:
        if path == "/etc/machine-id":
            return hashed_machine_id(content.decode("ascii", "replace"))
        if is_secret_file(path) or is_serial_file(path):
            return f"{MASK}\n"
        if path == DPKG_STATUS:
            content = _short_status(content)
        encoded = encode_bytes(content)
        if isinstance(encoded, str):
            return self.text(encoded)
        # bytes that are not text cannot be looked through: only firmware tables and device trees are kept
        return (
            encoded
            if path.startswith(("/sys/firmware/", "/proc/device-tree/"))
            else self.text(content.decode("latin-1"))
        )

    def text(self, text: str) -> str:
        text = mask_text(text)
        for serial in self._serials:
            text = text.replace(serial, MASK)
        if self.share:
            for name, word in self._names.items():
                text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", word, text)
            text = _ADDRESS.sub(self._address, text)
        return text

    def names(self, names: tuple[str, ...]) -> list[str]:
        return [self.text(name) if self.share else name for name in names]

    def query(self, argv: tuple[str, ...], answer: Answer[Completed]) -> dict[str, Any]:
        encoded = encode_answer(answer, self._completed)
        return {"argv": list(argv), **encoded}

    def _completed(self, answer: Completed) -> dict[str, Any]:
        return {"status": answer.status, "stdout": self.text(answer.text), "stderr": self.text(answer.errors)}

    def process(self, one: Process) -> dict[str, Any]:
        return {
            "pid": one.pid, "name": self.text(one.name), "user": self._user(one.user),
            "command": [self.text(word) for word in mask_command(one.command)] if one.command else [],
            "rss_bytes": one.rss_bytes, "swap_bytes": one.swap_bytes, "devices": list(one.devices),
            "cgroup": self.text(one.cgroup), "started_at": one.started_at,
        }  # fmt: skip

    def _user(self, user: str) -> str:
        return self._word("user", user) if self.share and user != "root" else user

    def _address(self, found: re.Match[str]) -> str:
        return found[0] if _KEPT_ADDRESSES.match(found[0]) else self._word("address", found[0])

    def _word(self, kind: str, text: str) -> str:
        """The same word for the same thing, in the order in which they come."""
        if text not in self._replaced:
            self._replaced[text] = f"{kind}{sum(word.startswith(kind) for word in self._replaced.values()) + 1}"
        return self._replaced[text]

    def _find_serials(self) -> tuple[str, ...]:
        found = set()
        for path, value in self.kept["files"].items():
            if is_serial_file(path) and isinstance(value, bytes):
                text = value.decode("utf-8", "replace").strip()
                if len(text) >= 6 and not re.fullmatch(r"[0. -]*|None|Default string|To be filled.*", text):
                    found.add(text)
        return tuple(sorted(found, key=len, reverse=True))

    def _find_names(self) -> dict[str, str]:
        names: dict[str, str] = {}
        for path in ("/proc/sys/kernel/hostname", "/etc/hostname"):
            value = self.kept["files"].get(path)
            if isinstance(value, bytes) and (name := value.decode("utf-8", "replace").strip()):
                names[name] = "host"
                names.setdefault(name.partition(".")[0], "host")
        names.setdefault(self.base.name, "host")
        processes = self.kept["others"].get("processes")
        for one in processes if isinstance(processes, tuple) else ():
            if one.user not in {"root", ""} and len(one.user) > 2:
                names.setdefault(one.user, self._word("user", one.user))
        return {name: word for name, word in names.items() if name not in {"localhost", ""}}


def _sorted(table: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(table.items())


def _stat(stat: Stat) -> list[Any]:
    return [
        stat.type,
        stat.mode,
        stat.uid,
        stat.gid,
        stat.size,
        stat.mtime_ns,
        stat.device,
        stat.inode,
        stat.links,
        stat.rdev,
    ]


def _space(space: Space) -> list[int]:
    return [space.total_bytes, space.available_bytes, space.total_inodes, space.available_inodes]


def _short_status(content: bytes) -> bytes:
    """The fields of dpkg's status file that facts read: the rest is long, and says nothing about a host."""
    rows = [
        row for row in content.split(b"\n") if not row or row.startswith(tuple(name.encode() for name in _DPKG_FIELDS))
    ]
    return b"\n".join(rows)
