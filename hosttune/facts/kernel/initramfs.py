"""Which program builds the initial RAM disk of this host, and whether it may hold a module:
`initramfs["nvidia"].why`.

Looking into an image takes seconds (lsinitramfs), so the configuration decides, and what it does
not rule out may be in there: initramfs-tools with MODULES=most takes most drivers and all of
modprobe.d (initramfs.conf(5)), dracut those that this host uses (dracut.conf(5)). Ubuntu 26.04
builds with dracut, where initramfs-tools may still be installed.

dracut takes /etc/modprobe.d into an image for this host alone (hostonly="yes", as Ubuntu has it);
without that, as in Debian, a module that the image holds is loaded without its options (dracut 106,
90kernel-modules/module-setup.sh).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy, make_shared
from hosttune.facts.lookups import Lookup
from hosttune.facts.reading import hint, names_in
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.host.door import Reader
    from hosttune.values import Absent

REBUILD = "sudo update-initramfs -u -k all"
DRACUT = "dracut"
TOOLS = "initramfs-tools"
_HOOKS = ("/etc/kernel/postinst.d", "/usr/share/kernel/postinst.d")
_PROGRAMS = {
    DRACUT: ("/usr/bin/dracut", "/usr/sbin/dracut"),
    TOOLS: ("/usr/sbin/update-initramfs",),
}
_IMAGE = "initrd.img-"
_HOST_ONLY = regex(r"\s*hostonly\s*=\s*[\"']?(\w*)")
_DRIVERS = regex(r"\s*(add|force|omit)_drivers\s*\+?=\s*[\"']?([^\"'#]*)")


def list_images(reader: Reader) -> tuple[str, ...]:
    """The kernel releases that have an initial RAM disk."""
    releases = (
        name.removeprefix(_IMAGE) for name in names_in(reader, "/boot") if name.startswith(_IMAGE)
    )
    return tuple(name for name in releases if not name.endswith((".old", ".bak", ".new", "-bak")))


def find_generator(reader: Reader) -> str | Absent:
    """The program whose hook builds the image of a new kernel; ABSENT where none is installed."""
    installed = [
        name for name, paths in _PROGRAMS.items() if any(_exists(reader, path) for path in paths)
    ]
    hooked = [
        name for name in installed if any(_exists(reader, f"{folder}/{name}") for folder in _HOOKS)
    ]
    # Both can be installed, and the hook of the kernel packages decides. Without a hook
    # initramfs-tools comes first, as dracut may be there for other images.
    return next(iter((*hooked, *reversed(installed))), ABSENT)


def _exists(reader: Reader, path: str) -> bool:
    return isinstance(reader.stat(path), Stat)


class NamedModules:
    """(file:line, add|force|omit) of the last line of the configuration that names a module, read
    once for each program that builds: rules may ask for thousands of modules.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.host_only = make_shared(_host_only, reader)
        self._by_builder = Lookup(lambda builder: make_shared(_list_modules, reader, builder))

    def of(self, builder: str, module: str) -> tuple[str, str]:
        return self._by_builder[builder]().get(module.replace("-", "_"), ("", ""))


def why_in(named: NamedModules, module: str) -> str:
    """Why the initial RAM disk may hold this module, as a sentence; empty where it does not."""
    if not list_images(named.reader):
        return ""
    builder = find_generator(named.reader)
    if builder is ABSENT:
        raise UnknownFact(
            "neither dracut nor update-initramfs is installed, and /boot has initial RAM disks"
        )
    place, word = named.of(builder, module)
    if word == "omit":
        return ""
    return f"{place} puts {module} into it" if place else f"it may hold {module}"


def _list_modules(reader: Reader, builder: str) -> Mapping[str, tuple[str, str]]:
    """By module, with `_` for `-`."""
    found: dict[str, tuple[str, str]] = {}
    for path in _list_configuration(reader, builder):
        for number, row in enumerate(hint(reader, path).splitlines(), 1):
            match = _DRIVERS.match(row) if builder == DRACUT else None
            names = (
                match[2].split()
                if match
                else row.partition("#")[0].split()[:1]
                if builder == TOOLS
                else []
            )
            place = (f"{path}:{number}", match[1] if match else "add")
            found |= {name.replace("-", "_"): place for name in names}
    return found


def why_without_options(named: NamedModules, module: str) -> str:
    """Why an image that holds this module lacks /etc/modprobe.d, as a sentence; empty where it has
    it, or may do without: only where a line of the configuration puts the module into it.
    """
    reader = named.reader
    if find_generator(reader) != DRACUT:
        return ""
    place, word = named.of(DRACUT, module)
    # An empty value counts as no: Debian's dracut has none, and leaves modprobe.d out.
    if word not in {"add", "force"} or named.host_only() == "yes":
        return ""
    return (
        f'{place} puts {module} into the initial RAM disk, and dracut without hostonly="yes" '
        f"leaves its options out"
    )


def _host_only(reader: Reader) -> str:
    value = ""
    for path in _list_configuration(reader, DRACUT):
        rows = hint(reader, path).splitlines()
        value = next(
            (match[1] for row in reversed(rows) if (match := _HOST_ONLY.match(row))), value
        )
    return value


def _list_configuration(reader: Reader, builder: str) -> tuple[str, ...]:
    if builder == TOOLS:
        return ("/etc/initramfs-tools/modules",)
    chosen: dict[str, str] = {}
    for folder in ("/etc/dracut.conf.d", "/usr/lib/dracut/dracut.conf.d"):
        names = reader.list(folder)
        for name in names if isinstance(names, tuple) else ():
            chosen.setdefault(name, f"{folder}/{name}")
    return (
        "/etc/dracut.conf",
        *(chosen[name] for name in sorted(chosen) if name.endswith(".conf")),
    )


@frozen
class InRamDisk(Fact):
    """What the initial RAM disk makes of one module."""

    why: str  # why it may hold the module, as a sentence; empty where it does not
    builder: str  # dracut | initramfs-tools: who builds it; empty where it does not hold the module
    # why it would hold it without its options, as a sentence; empty where that is not known
    lacks_options: str


@frozen
class Initramfs(Subject):
    """`initramfs["MODULE"]`, for every module; only what was asked for is kept."""

    @fact
    def entries(self) -> Mapping[str, InRamDisk]:
        return Lookup(lambda module: _in_ram_disk(self._named, module))

    @fact
    def _named(self) -> NamedModules:
        return NamedModules(self.reader)

    def __getitem__(self, module: str) -> InRamDisk:
        return self.entries[module]


def _in_ram_disk(named: NamedModules, module: str) -> InRamDisk:
    why = make_shared(why_in, named, module)
    return InRamDisk(
        why=lazy(why),
        builder=lazy(lambda: str(find_generator(named.reader)) if why() else ""),
        lacks_options=lazy(lambda: why_without_options(named, module) if why() else ""),
    )
