"""What unit files of systemd mount and swap on, beside fstab: systemd.mount(5), systemd.swap(5),
systemd.automount(5).

A file in /etc or /run comes before the unit that systemd makes of a line of fstab, which comes
before a package's file (systemd.unit(5), "unit file load path"). A boot starts what a target of the
boot leads to: links in its .wants and .requires folders, what the administrator's unit files name,
and what is mounted further down.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, keep_last
from hosttune.facts.services.systemd_config import read_settings
from hosttune.facts.services.unit_files import UnitFiles, is_mask, parse_assignments
from hosttune.facts.storage.fstab import FstabEntry
from hosttune.facts.storage.fstab_lines import PATH as FSTAB
from hosttune.facts.storage.fstab_lines import clean_path
from hosttune.facts.storage.fstab_options import is_automount, mask_options
from hosttune.facts.storage.fstab_types import is_remote_to_systemd
from hosttune.facts.storage.mounts import is_network, target_of, unit_name
from hosttune.facts.storage.sources import plain_source
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.host.known.unit_folders import ADMIN
from hosttune.host.reading.mountinfo import folders_above
from hosttune.host.reading.paths import PATH_MAX
from hosttune.quoting import quote
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_SUFFIXES = (".mount", ".swap")
# Of the kernel, of snapd, and /tmp, which has facts of its own.
_OTHERS = ("sys-", "proc-", "run-", "dev-", "snap-", "var-lib-snapd-", "tmp.")
_VENDOR = ("/usr/", "/lib/")
LOCAL = "local-fs.target"
# What each boot reaches (bootup(7)), and what a boot fails by: only local-fs.target has
# OnFailure=emergency.target.
_REACHED = frozenset({
    "default.target", "multi-user.target", "graphical.target", "basic.target", "sysinit.target",
    LOCAL, "remote-fs.target", "swap.target", "sockets.target", "timers.target", "paths.target",
})  # fmt: skip
_AFTER_DISKS = frozenset({
    LOCAL, "sysinit.target", "basic.target", "multi-user.target", "graphical.target",
    "default.target",
})  # fmt: skip
_NO = frozenset({"no", "n", "false", "f", "0", "off"})  # parse_boolean() of systemd, in any case
_REQUIRING = frozenset({"Requires", "BindsTo", "RequiresMountsFor"})
_WANTING = _REQUIRING | {"Wants", "Upholds", "WantsMountsFor"}
_LINKS = {".requires": "Requires", ".wants": "Wants", ".upholds": "Upholds"}
_MOST_NEEDING = 256  # units that do not start without one
_SPECIFIER = regex(r"%[^%]")
_ENCODED = regex(r"[^\w#+.:=@\x80-\U0010ffff-]")  # in the name of a link below /dev/disk


@frozen
class MountUnit(Fact):
    """One unit file of a mount or of swap that counts: none of a package where fstab has a line of
    its target.
    """

    name: str  # data.mount
    entry: FstabEntry  # what a line of fstab would say; `file` and `line` are where What= is
    is_masked: bool = False  # a link to /dev/null: systemd never mounts it
    refusal: str = ""  # why systemd does not load it, as the end of a sentence
    # the name that systemd takes for what a refused file says; empty if its name is not the cause
    meant_name: str = ""
    is_started: bool = False  # by a boot
    # by local-fs.target, so that a boot without it ends in the emergency shell
    is_required: bool = False
    # a boot does not go on before its device is there, or the time for that is over
    is_awaited: bool = False
    needed_by: tuple[str, ...] = ()  # other units of a boot that do not start without it
    can_be_enabled: bool = False  # it has an [Install] section
    is_automounted: bool = False  # a unit file of an automount has its name
    is_conditional: bool = False  # it has a Condition, so a boot may leave it out
    ordered_after: tuple[str, ...] = ()  # the units of its After=


@frozen
class MountUnits(Subject):
    """All of them, by name."""

    all: tuple[MountUnit, ...] = read_with(lambda self: _read_all(self.reader, self.facts))

    @property
    @keep_last
    def by_path(self) -> Mapping[str, MountUnit]:
        """Those of mounts by their paths: there, lines of fstab do not count."""
        return MappingProxyType({one.entry.path: one for one in self.all if not one.entry.is_swap})

    @property
    @keep_last
    def by_place(self) -> Mapping[tuple[str, int], MountUnit]:
        """They by file and line of What=."""
        return MappingProxyType({(one.entry.file, one.entry.line): one for one in self.all})

    def find(self, entry: FstabEntry) -> MountUnit | None:
        """The one that an entry is of; None of a line of fstab."""
        return self.by_place.get((entry.file, entry.line))


def _read_all(reader: Reader, facts: Facts) -> tuple[MountUnit, ...]:
    files = UnitFiles(reader)
    names = {
        name for folder in files.folders for name in files.names(folder) if name.endswith(_SUFFIXES)
    }
    names = {name for name in names if name.endswith(".swap") or not name.startswith(_OTHERS)}
    if not names:
        return ()
    of_fstab = _names_in_fstab(facts)
    found = {}
    for name in sorted(names):
        path = files.path(name)
        if path and not (name in of_fstab and path.startswith(_VENDOR)):
            found[name] = _Unit(reader, files, name, path)
    pulls = _Pulls(files, [*found.values()], facts)
    return tuple(one.describe(pulls) for one in found.values())


def _names_in_fstab(facts: Facts) -> dict[str, FstabEntry]:
    """The units that systemd makes of fstab, by name, each with the line that it takes for it: the
    first.
    """
    found: dict[str, FstabEntry] = {}
    for entry in facts.fstab.entries:
        if not entry.is_swap and entry.target.startswith("/"):
            found.setdefault(unit_name(entry.path), entry)
    return found


def mount_command(entry: FstabEntry) -> str:
    """How to mount it by hand."""
    if entry.file == FSTAB:
        return f"sudo mount {quote(entry.target)}"
    return f"sudo systemctl start {quote(unit_name(entry.target))}"


def device_path(source: str) -> str:
    r"""`LABEL=my data` -> /dev/disk/by-label/my\x20data, as udev names the link and systemd makes
    the names of units of it (encode_devnode_name() of both); a path as it is.
    """
    tag, equals, value = plain_source(source).partition("=")
    if not equals or tag.startswith("/"):
        return source
    encoded = _ENCODED.sub(lambda match: f"\\x{ord(match[0]):02x}", value)
    return f"/dev/disk/by-{tag.lower()}/{encoded}"


def device_wait(facts: Facts, source: str) -> str:
    """How long a boot waits for a device, as it is set here, or 90 s (systemd.unit(5),
    JobRunningTimeoutSec=; systemd-system.conf(5), DefaultDeviceTimeoutSec=).
    """
    files, default = _read_device_wait(facts)
    found = ""
    for place in files.drop_ins(unit_name(device_path(source), "device")):
        for _, _, key, given in parse_assignments(files.content(place)):
            found = given if key == "JobRunningTimeoutSec" else found
    return found or default


@lru_cache(maxsize=1)  # each line of a device that is missing asks
def _read_device_wait(facts: Facts) -> tuple[UnitFiles, str]:
    default = read_settings(facts.reader, "system.conf", "Manager").get(
        "DefaultDeviceTimeoutSec", ("",)
    )[0]
    return UnitFiles(facts.reader), default or "90 s"


def find_late(facts: Facts, names: Iterable[str], *, are_started: bool) -> str:
    """The first of these units that no boot reaches before local-fs.target, empty for none: a mount
    that comes after it and before that target is a circle. A service is late unless it has
    DefaultDependencies=no (bootup(7), systemd.service(5)), and only counts if a boot starts it: for
    its own sake, or for that of the mount.
    """
    files, _ = _read_device_wait(facts)
    for name in dict.fromkeys(names):
        if name in _AFTER_DISKS:
            return name
        if not name.endswith((".service", ".socket", ".path", ".timer")):
            continue
        real, path, state = files.state(name)
        if not path or state.startswith("masked") or not (are_started or state == "enabled"):
            continue
        rows = (
            row
            for place in (path, *files.drop_ins(real))
            for row in parse_assignments(files.content(place))
        )
        values = [
            value
            for _, section, key, value in rows
            if (section, key) == ("Unit", "DefaultDependencies")
        ]
        # By default a service comes after basic.target, and so after local-fs.target: that closes
        # the circle.
        if values[-1:] == [] or values[-1].lower() not in _NO:
            return name
    return ""


class _Unit:
    """One unit file with its drop-ins, as systemd reads them."""

    def __init__(self, reader: Reader, files: UnitFiles, name: str, path: str) -> None:
        self.reader, self.files, self.name, self.path = reader, files, name, path
        self.is_masked = is_mask(reader, path)
        self.values: dict[tuple[str, str], tuple[str, str, int]] = {}  # value, file, line
        self.listed: dict[str, list[str]] = {}  # key of [Unit] -> its words
        for place in () if self.is_masked else (path, *files.drop_ins(name)):
            for line, section, key, value in parse_assignments(files.content(place)):
                self.values[section, key] = (value, place, line)
                if section in {"Unit", "Install"}:
                    words = self.listed.setdefault(key, [])
                    words += value.split()
                    # An empty value takes back what a list has, but not an order (systemd.unit(5)).
                    if not value and key != "After":
                        words.clear()

    def value(self, key: str) -> str:
        section = "Swap" if self.name.endswith(".swap") else "Mount"
        value = self.values.get((section, key), ("", "", 0))[0]
        return "" if _SPECIFIER.search(value) else value.replace("%%", "%")

    @cached_property
    def target(self) -> str:
        """The folder that its name means."""
        return target_of(self.name)

    def describe(self, pulls: _Pulls) -> MountUnit:
        is_swap = self.name.endswith(".swap")
        section = "Swap" if is_swap else "Mount"
        _, file, line = self.values.get((section, "What"), ("", self.path, 0))
        source, fstype, options = (
            self.value("What"),
            self.value("Type"),
            tuple(self.value("Options").split(",")),
        )
        is_far = is_network(fstype, source) or is_remote_to_systemd(fstype, frozenset(options))
        path = self.target
        if not is_swap and not is_far and isinstance(found := self.reader.resolve(path), str):
            path = found
        entry = FstabEntry(
            line=line,
            source=mask_options(source),
            target="none" if is_swap else self.target,
            fstype="swap" if is_swap else fstype or "auto",
            options=tuple(map(mask_options, filter(None, options))),
            freq=0,
            passno=0,
            is_swap=is_swap,
            path="none" if is_swap else path,
            file=file,
        )
        refusal, meant = ("", "") if self.is_masked else self._refusal(section)
        is_started = not self.is_masked and pulls.starts(self.name)
        is_ordered = (
            self.values.get(("Unit", "DefaultDependencies"), ("yes",))[0].lower() not in _NO
        )
        # With nofail in Options= systemd does not put the mount before local-fs.target
        # (src/core/mount.c, mount_add_default_ordering_dependencies).
        is_awaited = is_started and is_ordered and not is_far and "nofail" not in options
        needing = pulls.needing(self.name) if is_started else ()
        return MountUnit(
            self.name,
            entry,
            is_masked=self.is_masked,
            refusal=refusal,
            meant_name=meant,
            is_started=is_started,
            is_required=is_awaited and pulls.is_local(self.name),
            is_awaited=is_awaited,
            needed_by=tuple(one for one in needing if one != LOCAL),
            can_be_enabled=any(
                self.listed.get(key) for key in ("WantedBy", "RequiredBy", "UpheldBy")
            ),
            is_automounted=bool(self.files.path(self.name.removesuffix(".mount") + ".automount")),
            is_conditional=any(
                key.startswith("Condition") and words for key, words in self.listed.items()
            ),
            ordered_after=tuple(self.listed.get("After", ())),
        )

    def _refusal(self, section: str) -> tuple[str, str]:
        """As mount_verify() and swap_verify() of systemd, with the name that the file should
        have.
        """
        what = self.values.get((section, "What"), ("",))[0]
        if not what:
            return "has no What=", ""
        key, suffix = ("Where", "mount") if section == "Mount" else ("What", "swap")
        written = self.values.get((section, key), ("",))[0]
        path = clean_path(written.replace("%%", "%")) if section == "Mount" else clean_path(written)
        is_named = bool(written) and (section == "Mount" or written.startswith("/"))
        if not is_named or _SPECIFIER.search(written) or path == self.target:
            return "", ""
        meant = unit_name(path, suffix) if path.startswith("/") else ""
        return f"says {key}={written}, and its name means {self.target}", meant


class _Pulls:
    """Which units a boot starts, as far as links in all folders and the administrator's own files
    say.
    """

    def __init__(self, files: UnitFiles, units: list[_Unit], facts: Facts) -> None:
        self._files = files
        self._lines = {unit_name(one.path): one for one in facts.fstab.at_boot}
        # A mount above this one may be a unit file or a line of fstab: both are in one tree of
        # folders.
        names = {one.name for one in units if one.name.endswith(".mount")} | {*self._lines}
        self._mounts = {target_of(one): one for one in sorted(names)}

    def starts(self, name: str) -> bool:
        """Whether a boot starts this unit."""
        return name in self._started

    def needing(self, name: str) -> tuple[str, ...]:
        """The units of a boot that do not start without it, the nearest of many; mounts further
        down are passed.
        """
        done, waiting = {name}, [name]
        while waiting and len(done) < _MOST_NEEDING:
            unit = waiting.pop()
            # What needs a target of each boot is half of the system, and would hide the few units
            # that need this mount.
            if unit in _REACHED and unit != name:
                continue
            new = {*self._requiring.get(unit, ())} - done
            done |= new
            waiting += new
        found = (one for one in done - {name} if not one.endswith(".mount"))
        return tuple(sorted(one for one in found if one in _REACHED or self.starts(one)))

    def is_local(self, name: str) -> bool:
        """Whether local-fs.target needs it, itself or through what is no target of each boot."""
        return name in self._local

    @cached_property
    def _requiring(self) -> dict[str, list[str]]:
        """Name -> the units that do not start without it, the first of many."""
        found: dict[str, list[str]] = {}
        for name, pullers in self._pullers.items():
            found[name] = [*dict.fromkeys(unit for unit, key in pullers if key in _REQUIRING)][
                :_MOST_NEEDING
            ]
        return found

    @cached_property
    def _local(self) -> frozenset[str]:
        required: dict[str, list[str]] = {}
        for name, pullers in self._pullers.items():
            for unit, key in pullers:
                if key in _REQUIRING:
                    required.setdefault(unit, []).append(name)
        done, waiting = {LOCAL}, [LOCAL]
        while waiting:
            unit = waiting.pop()
            new = set(() if unit in _REACHED and unit != LOCAL else required.get(unit, ())) - done
            done |= new
            waiting += new
        return frozenset(done)

    @cached_property
    def _started(self) -> frozenset[str]:
        """All units to which the targets of a boot lead."""
        pulled: dict[str, list[str]] = {}
        for name, pullers in self._pullers.items():
            for unit, _ in pullers:
                pulled.setdefault(unit, []).append(name)
        done: set[str] = set()
        waiting = [*_REACHED]
        while waiting:
            new = set(pulled.get(waiting.pop(), ())) - done
            done |= new
            waiting += new
        return frozenset(done)

    @cached_property
    def _pullers(self) -> dict[str, list[tuple[str, str]]]:
        """Name -> (unit, key) of each unit that names it. A mount, or a unit that needs a folder,
        names only the mount next above, which names the one above that.
        """
        found: dict[str, list[tuple[str, str]]] = {}
        for unit, key, name in (
            *self._links(),
            *self._list_stated(),
            *self._of_lines(),
            *self._above(),
        ):
            found.setdefault(name, []).append((unit, key))
        return found

    def _of_lines(self) -> Iterator[tuple[str, str, str]]:
        """What systemd makes of the lines of fstab: systemd-fstab-generator(8)."""
        for name, line in self._lines.items():
            words = [one for one in line.options if one in {"nofail", "fail"}]
            is_far = is_network(line.fstype, line.source) or is_remote_to_systemd(
                line.fstype, frozenset(line.options)
            )
            # An automount makes the mount wait for its first use, so no boot requires it.
            is_wanted = words[-1:] == ["nofail"] or is_automount(line.options)
            yield (
                "remote-fs.target" if is_far else LOCAL,
                "Wants" if is_wanted else "Requires",
                name,
            )

    def _above(self) -> Iterator[tuple[str, str, str]]:
        for target, name in self._mounts.items():
            if above := self._mount_above(target):
                yield name, "RequiresMountsFor", above
        for unit, key, value in self._written:
            for path in map(clean_path, value.split()) if key.endswith("MountsFor") else ():
                if here := self._mounts.get(path) or self._mount_above(path):
                    yield unit, key, here

    def _mount_above(self, path: str) -> str:
        """The mount next above a folder; empty for none, as of a path longer than the kernel
        takes.
        """
        folders = reversed(folders_above(path)) if len(path) < PATH_MAX else ()
        return next((self._mounts[one] for one in folders if one in self._mounts), "")

    def _links(self) -> Iterator[tuple[str, str, str]]:
        """Units with a link in the .wants or .requires folder of another one; the first folder with
        it counts.
        """
        seen = set()
        for folder in self._files.folders:
            for entry in self._files.names(folder):
                unit, dot, suffix = entry.rpartition(".")
                if f"{dot}{suffix}" not in _LINKS:
                    continue
                for name in self._files.names(f"{folder}/{entry}"):
                    # An administrator takes the link of a package away by a link of the same name
                    # to /dev/null in an earlier folder.
                    if (entry, name) not in seen and self._files.reader.link(
                        f"{folder}/{entry}/{name}"
                    ) != "/dev/null":
                        yield unit, _LINKS[f"{dot}{suffix}"], name
                    seen.add((entry, name))

    @cached_property
    def _written(self) -> list[tuple[str, str, str]]:
        """(unit, key, value) of what the administrator's unit files and drop-ins say of other
        units.
        """
        found = []
        for entry in self._files.names(ADMIN):
            stem, dot, suffix = entry.rpartition(".")
            if suffix == "d":
                places = [
                    f"{ADMIN}/{entry}/{base}" for base in self._files.names(f"{ADMIN}/{entry}")
                ]
                link = self._files.reader.link
                places = [
                    one for one in places if one.endswith(".conf") and link(one) != "/dev/null"
                ]
            else:
                is_file = dot and f"{dot}{suffix}" not in _LINKS
                is_file = is_file and not isinstance(
                    self._files.reader.link(f"{ADMIN}/{entry}"), str
                )
                places, stem = ([f"{ADMIN}/{entry}"] if is_file else []), entry
            for place in places:
                rows = parse_assignments(self._files.content(place))
                found += [
                    (stem, key, value)
                    for _, section, key, value in rows
                    if section == "Unit" and key in _WANTING
                ]
        return found

    def _list_stated(self) -> Iterator[tuple[str, str, str]]:
        for unit, key, value in self._written:
            for name in value.split() if not key.endswith("MountsFor") else ():
                yield unit, key, name
