"""Resources: what a rule can want, and the places that hold the values. One module per kind.

A module exports `WISHES` and `ADDRESSES`. The two tables say which module brings which kind, so that a check
imports only those that its rules use; a test compares the tables with what the modules export.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hosttune.resources.base import AddressKind, WishKind
    from hosttune.values import Address, Change

WISHES = {
    "apt-blacklist": "packages.apt_blacklist",
    "data-mount": "storage.data_mount",
    "docker-daemon": "containers.docker_daemon",
    "dropin": "dropin",
    "kernel-argument": "kernel.kernel_argument",
    "limit": "limits.limit",
    "modprobe-option": "kernel.modprobe_option",
    "mount": "storage.mount",
    "needrestart": "services.needrestart",
    "package": "packages.package",
    "packages": "packages.package",
    "sysctl": "kernel.sysctl",
    "sysfs": "kernel.sysfs",
    "systemd-setting": "services.systemd_setting",
    "tmpfs": "storage.tmpfs",
    "unit": "services.unit",
    "unit-dropin": "services.unit_dropin",
}
ADDRESSES = {
    "apt-config": "packages.apt_blacklist",
    "apt-files": "packages.apt_files",
    "apt-simulation": "packages.package",
    "clock": "packages.apt_blacklist",
    "data-mount": "storage.data_mount",
    "docker-config": "containers.docker_file",
    "docker-daemon": "containers.docker_file",
    "file": "file",
    "folder": "storage.data_mount",
    "fstab": "storage.fstab",
    "fstab-line": "storage.fstab",
    "installed-since": "packages.apt_blacklist",
    "mount": "storage.mount",
    "mounted": "storage.tmpfs",
    "needrestart": "services.needrestart",
    "package-set": "packages.package",
    "sysctl": "kernel.sysctl",
    "sysfs": "kernel.sysfs_values",
    "sysfs-boot": "kernel.sysfs_boot",
    "sysfs-choices": "kernel.sysfs_values",
    "sysfs-names": "kernel.sysfs_values",
    "sysfs-set": "kernel.sysfs_set",
    "unit": "services.unit",
    "written": "packages.apt_blacklist",
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


def kind_of(address: Address) -> AddressKind:
    """The kind of this address; of one that only another version of hosttune knows, one that can nothing."""
    kind = address_kinds().get(address.kind)
    if kind is None:
        from hosttune.resources.read_only import Unknown

        return Unknown(address.kind)
    return kind


def by_kind(changes: Iterable[Change]) -> list[tuple[AddressKind, list[Change]]]:
    """The changes of each kind together, in the order in which the first of each comes."""
    own: dict[str, list[Change]] = {}
    for change in changes:
        own.setdefault(change.address.kind, []).append(change)
    return [(kind_of(some[0].address), some) for some in own.values()]


def place(address: Address) -> tuple[str, str]:
    """What an address looks at: two kinds that see the same thing have one place."""
    return kind_of(address).shares or address.kind, address.name
