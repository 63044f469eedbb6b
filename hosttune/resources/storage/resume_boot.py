"""What the kernel command line names and no device has: / itself, its subvolume, and a swap to
resume from, for which a boot waits.

Sources: initramfs-tools (scripts/local-premount/resume waits as long as for /, 30 s; resume= counts
over RESUME= of /etc/initramfs-tools; hooks/resume), https://github.com/systemd/systemd/issues/35180
(systemd in an initial RAM disk of dracut waits for ever), initramfs.conf(5).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.facts.base import attempt
from hosttune.facts.kernel.grub_arguments import MENU
from hosttune.facts.kernel.initramfs import DRACUT, REBUILD, TOOLS, find_generator
from hosttune.facts.placed import Placed
from hosttune.facts.reading import hint, names_in
from hosttune.facts.storage.fstab import FstabEntry
from hosttune.facts.storage.fstab_lines import PATH, clean_path
from hosttune.facts.storage.fstab_types import ON_DISK
from hosttune.facts.storage.kernel_types import is_older_than_boot
from hosttune.facts.storage.sources import SourceKind, find_fault, names_device, sources_of
from hosttune.facts.storage.ways import ways_of
from hosttune.host.reading.paths import PATH_MAX
from hosttune.regex import regex
from hosttune.resources.storage.fstab_boot import BootLine
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts

_FOLDER = "/etc/initramfs-tools"
_SETTING = regex(r"""[ \t]*(?:export[ \t]+)?RESUME=(["']?)([^\s"'#;]*)\1""")
_NOT_A_DEVICE = frozenset({"", "auto", "none"})
_MOST = 64  # files


def look_at_resume(facts: Facts) -> Iterator[BootLine]:
    """What a boot waits for before it mounts /."""
    given = _find_resume(facts)
    if given is None or given.value in _NOT_A_DEVICE or not names_device(given.value):
        return
    entry = FstabEntry(
        given.line, given.value, "swap", "swap", (), 0, 0, is_swap=True, file=given.path
    )
    found = find_fault(sources_of(facts), entry, ())
    if found is None or found.kind is not SourceKind.MISSING:
        return
    wait = "some 30 s for it"
    if attempt(find_generator, facts.reader) == DRACUT:
        wait = "for it, with a systemd in the initial RAM disk for ever"
    where = f"line {given.line} of {given.path}" if given.line else given.path
    note = f"{where} names {given.value} to resume from, which no device has: a boot waits {wait}"
    sources = sources_of(facts)
    swap = next((name for name in sorted(sources.swapped or ()) if sources.holds(name)), "")
    meant = f", or {sources.name_like('UUID=', swap)}, if it is to resume from that" if swap else ""
    if given.path.startswith(_FOLDER):
        todo = f"write RESUME=none there{meant}\nbuild the initial RAM disk anew: {REBUILD}"
    else:
        kept = meant.replace(", or", ", or write")
        todo = f"take resume={given.value} out{kept}\nwrite it into the boot menu: sudo update-grub"
    yield BootLine(
        f"resume {given.value}",
        given.line,
        note=note,
        way_out=todo,
        is_of_device=True,
        file=given.path,
    )


def look_at_root(facts: Facts) -> Iterator[BootLine]:
    """The root= of the next boot, where it is another one than that of this boot and no device has
    it. The same one has shown that it is found, whatever the devices say.
    """
    menu = attempt(lambda: facts.grub_arguments.entries)
    now = attempt(lambda: facts.kernel.command_line)
    if not isinstance(menu, tuple) or not menu or not isinstance(now, tuple):
        return
    given = [word.removeprefix("root=") for word in menu[0].arguments if word.startswith("root=")]
    if not given or f"root={given[-1]}" in now or not names_device(given[-1]):
        return
    entry = FstabEntry(
        menu[0].number, given[-1], "/", "auto", (), 0, 0, is_swap=False, path="/", file=MENU
    )
    found = find_fault(sources_of(facts), entry, ())
    if found and found.kind is SourceKind.MISSING:
        end = "the next boot does not find /, and ends in the shell of the initial RAM disk"
        fault = f"root={given[-1]} in line {menu[0].number} of {MENU} is what no device has: {end}"
        todo = (
            "sudo update-grub writes it anew; look at GRUB_CMDLINE_LINUX, and at what else sets "
            "root="
        )
        yield BootLine("/", menu[0].number, fault=fault, way_out=todo, is_of_device=True, file=MENU)


def look_at_root_line(facts: Facts) -> Iterator[BootLine]:
    """A fstab without a line of /, where the kernel mounts / read-only (ro) and nothing mounts it
    anew. systemd does that only for a / that it found by its GPT type
    (systemd-remount-fs.service(8)). A file that this boot had is right.
    """
    menu = attempt(lambda: facts.grub_arguments.entries)
    root = None if facts.reader.persistent_only else attempt(lambda: facts.mounts.at.get("/"))
    if (
        root is None
        or isinstance(root, Unreadable)
        or root.fstype not in ON_DISK
        or not isinstance(menu, tuple)
        or not menu
    ):
        return
    given = [word for word in menu[0].arguments if word in {"ro", "rw"}]
    has_line = (
        any(entry.path == "/" for entry in facts.fstab.entries) or "/" in facts.mount_units.by_path
    )
    has_booted = "rw" in root.options and is_older_than_boot(facts, PATH)
    if (
        given[-1:] != ["ro"]
        or has_line
        or has_booted
        or not any(w.startswith("root=") for w in menu[0].arguments)
    ):
        return
    fault = (
        f"{PATH} has no line of /, and the kernel mounts / read-only (ro): the next boot leaves it "
        "so"
    )
    todo = f"add a line of / (UUID=... / {root.fstype} defaults 0 1)\nits UUID: findmnt -no UUID /"
    yield BootLine("/", 0, fault=fault, way_out=todo, is_of_device=True, is_mounted=True)


def look_at_subvolume(facts: Facts) -> Iterator[BootLine]:
    """The subvolume of btrfs that the next boot is to mount at /, where it is another one than now
    (btrfs(5)).
    """
    menu = attempt(lambda: facts.grub_arguments.entries)
    now = attempt(lambda: facts.kernel.command_line)
    if (
        facts.reader.persistent_only
        or not isinstance(menu, tuple)
        or not menu
        or not isinstance(now, tuple)
    ):
        return
    given = _subvolume_of(menu[0].arguments)
    root = facts.mounts.at.get("/")
    if (
        not given
        or given == _subvolume_of(now)
        or root is None
        or root.fstype != "btrfs"
        or given == root.root
    ):
        return
    where = f"rootflags= in line {menu[0].number} of {MENU}"
    place = BootLine("/", menu[0].number, is_of_device=True, file=MENU, is_mounted=True)
    todo = (
        "sudo update-grub writes it anew; look at rootflags= in /etc/default/grub and "
        "/etc/default/grub.d"
    )
    tops = (
        one
        for one in facts.mounts.all
        if one.root == "/" and one.device == root.device and one.is_topmost
    )
    top = next((one.target.rstrip("/") for one in tops if not one.is_of_user), None)
    path = f"{top}{given}"
    if top is not None and not ways_of(facts).way(path)[1] and facts.reader.stat(path) is ABSENT:
        fault = (
            f"{where} names the subvolume {given}, which the btrfs of / does not have: the next "
            "boot does not mount /"
        )
        yield replace(place, fault=fault, way_out=todo)
        return
    note = (
        f"{where} has the next boot mount the subvolume {given} at /, where {root.root} is mounted "
        "now"
    )
    yield replace(place, note=note, way_out=f"if that is not a rollback on purpose: {todo}")


def _subvolume_of(words: tuple[str, ...]) -> str:
    """The absolute path of the last subvol= of rootflags=; empty for none."""
    flags = [word.removeprefix("rootflags=") for word in words if word.startswith("rootflags=")]
    found = [
        one.removeprefix("subvol=")
        for one in ",".join(flags).split(",")
        if one.startswith("subvol=")
    ]
    return clean_path(f"/{found[-1]}") if found and len(found[-1]) < PATH_MAX else ""


def _find_resume(facts: Facts) -> Placed | None:
    """What the next boot is given, with the place; None for nothing."""
    settings = attempt(lambda: facts.grub_arguments.settings.all)
    placed = settings if isinstance(settings, tuple) else ()
    menu = attempt(lambda: facts.grub_arguments.entries)
    now = attempt(lambda: facts.kernel.command_line)
    # The menu is what GRUB reads; settings count only where there is none, as they need update-grub
    # first.
    if isinstance(menu, tuple) and menu:
        words = menu[0].arguments
    else:
        words = (*(now if isinstance(now, tuple) else ()), *(one.value for one in placed))
    if "noresume" in words:
        return None
    if given := [word for word in words if word.startswith("resume=")]:
        value = given[-1].partition("=")[2]
        place = next(
            (one for one in placed if one.value == given[-1]), Placed("", "the kernel command line")
        )
        return Placed(value, place.path, place.line)
    return _find_setting(facts) if attempt(find_generator, facts.reader) == TOOLS else None


def _find_setting(facts: Facts) -> Placed | None:
    """RESUME= of initramfs-tools: a shell reads initramfs.conf, then conf.d by name."""
    found = None
    names = attempt(names_in, facts.reader, f"{_FOLDER}/conf.d")
    listed = sorted(names)[:_MOST] if isinstance(names, tuple) else ()
    # The last assignment that the shell reads counts.
    for path in (f"{_FOLDER}/initramfs.conf", *(f"{_FOLDER}/conf.d/{name}" for name in listed)):
        for number, row in enumerate(hint(facts.reader, path).split("\n"), 1):
            if match := _SETTING.match(row):
                found = Placed(match[2], path, number)
    return found


__all__ = ["look_at_resume", "look_at_root", "look_at_subvolume"]
