"""Resources: what a rule can want, and the places that hold the values. One module per kind.

A module exports `WISHES` and `ADDRESSES`. The two tables say which module brings which kind, so that a check
imports only those that its rules use; a test compares the tables with what the modules export.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hosttune.resources.base import AddressKind, WishKind

WISHES = {
    "apt-blacklist": "apt_blacklist",
    "data-mount": "data_mount",
    "docker-daemon": "docker_daemon",
    "dropin": "dropin",
    "kernel-argument": "kernel_argument",
    "limit": "limit",
    "modprobe-option": "modprobe_option",
    "mount": "mount",
    "needrestart": "needrestart",
    "package": "package",
    "packages": "package",
    "sysctl": "sysctl",
    "sysfs": "sysfs",
    "systemd-setting": "systemd_setting",
    "tmpfs": "tmpfs",
    "unit": "unit",
    "unit-dropin": "unit_dropin",
}
ADDRESSES = {
    "apt-config": "apt_blacklist",
    "apt-files": "apt_files",
    "apt-simulation": "package",
    "clock": "apt_blacklist",
    "data-mount": "data_mount",
    "docker-config": "docker_file",
    "docker-daemon": "docker_file",
    "docker-flags": "docker_flags",
    "file": "file",
    "folder": "data_mount",
    "fstab": "fstab",
    "fstab-line": "fstab",
    "initramfs": "initramfs",
    "installed-since": "apt_blacklist",
    "kernel-arguments": "kernel_argument",
    "limits-files": "limits_files",
    "modprobe-options": "modprobe_option",
    "module-parameter": "module_parameter",
    "mount": "mount",
    "mounted": "tmpfs",
    "needrestart": "needrestart",
    "package-set": "package",
    "process": "unit_dropin",
    "session-limits": "limits_files",
    "started": "since",
    "sysctl": "sysctl",
    "sysctl-files": "sysctl",
    "sysfs": "sysfs_values",
    "sysfs-boot": "sysfs_boot",
    "sysfs-choices": "sysfs_values",
    "sysfs-names": "sysfs_values",
    "sysfs-set": "sysfs_set",
    "systemd-setting": "systemd_setting",
    "unit": "unit",
    "unit-exec": "unit_dropin",
    "written": "apt_blacklist",
}


class _Kinds(Mapping[str, Any]):
    """Kinds by name; a module is imported when one of its kinds is asked for."""

    def __init__(self, modules: Mapping[str, str], export: str) -> None:
        self._modules = modules
        self._export = export
        self._found: dict[str, Any] = {}

    def __getitem__(self, kind: str) -> Any:
        if kind not in self._found:
            module = import_module(f"{__name__}.{self._modules[kind]}")
            self._found |= {one.kind: one for one in getattr(module, self._export)}
        return self._found[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


@cache
def wish_kinds() -> Mapping[str, WishKind]:
    """Every wish kind by the key that a rule writes."""
    return _Kinds(WISHES, "WISHES")


@cache
def address_kinds() -> Mapping[str, AddressKind]:
    """Every address kind by the part of an address before the colon."""
    return _Kinds(ADDRESSES, "ADDRESSES")
