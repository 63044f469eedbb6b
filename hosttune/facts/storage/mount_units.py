"""What unit files of systemd mount and swap on, beside fstab: systemd.mount(5), systemd.swap(5), systemd.automount(5).

A file in /etc or /run comes before the unit that systemd makes of a line of fstab, which comes before a package's file
(systemd.unit(5), "unit file load path"). A boot starts what a target of the boot leads to: links in its .wants and
.requires folders, what the administrator's unit files name, and what is mounted further down.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, keep_last, lazy
from hosttune.facts.services.systemd_config import settings
from hosttune.facts.services.unit_files import ADMIN, UnitFiles, assignments
from hosttune.facts.storage.fstab import FstabEntry
from hosttune.facts.storage.fstab_lines import PATH as FSTAB
from hosttune.facts.storage.fstab_lines import clean_path
from hosttune.facts.storage.fstab_options import is_automount, masked
from hosttune.facts.storage.fstab_types import is_remote_to_systemd
from hosttune.facts.storage.mounts import is_network, target_of, unit_name
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_SUFFIXES = (".mount", ".swap")
# Of the kernel, of snapd, and /tmp, which has facts of its own.
_OTHERS = ("sys-", "proc-", "run-", "dev-", "snap-", "var-lib-snapd-", "tmp.")
_VENDOR = ("/usr/", "/lib/")
_LOCAL = "local-fs.target"
# What each boot reaches (bootup(7)), and what a boot fails by: only local-fs.target has OnFailure=emergency.target.
_REACHED = frozenset({
    "default.target", "multi-user.target", "graphical.target", "basic.target", "sysinit.target", _LOCAL,
    "remote-fs.target", "swap.target", "sockets.target", "timers.target", "paths.target",
})  # fmt: skip
_REQUIRING = frozenset({"Requires", "BindsTo", "RequiresMountsFor"})
_WANTING = _REQUIRING | {"Wants", "Upholds", "WantsMountsFor"}
_LINKS = {".requires": "Requires", ".wants": "Wants", ".upholds": "Upholds"}
_SPECIFIER = regex(r"%[^%]")


@frozen
class MountUnit(Fact):
    """One unit file of a mount or of swap that counts: none of a package where fstab has a line of its target."""

    name: str  # data.mount
    entry: FstabEntry  # what a line of fstab would say; `file` and `line` are where What= is
    is_masked: bool = False
    refusal: str = ""  # why systemd does not load it, as the end of a sentence
    is_started: bool = False  # by a boot
    is_required: bool = False  # by local-fs.target, so that a boot without it ends in the emergency shell
    is_awaited: bool = False  # a boot does not go on before its device is there, or the time for that is over
    needed_by: tuple[str, ...] = ()  # other units of a boot that do not start without it
    can_be_enabled: bool = False  # it has an [Install] section
    is_automounted: bool = False  # a unit file of an automount has its name
    is_conditional: bool = False  # it has a Condition, so a boot may leave it out


@frozen
class MountUnits(Fact):
    """All of them, by name."""

    all: tuple[MountUnit, ...]

    @property
    @keep_last
    def by_path(self) -> Mapping[str, MountUnit]:
        """Those of mounts by their paths: there, lines of fstab do not count."""
        return MappingProxyType({one.entry.path: one for one in self.all if not one.entry.is_swap})

    def find(self, entry: FstabEntry) -> MountUnit | None:
        """The one that an entry is of; None of a line of fstab."""
        return next((one for one in self.all if one.entry == entry), None) if entry.file != FSTAB else None


def collect(reader: Reader, facts: Facts) -> MountUnits:
    return MountUnits(lazy(_all, reader, facts))


def _all(reader: Reader, facts: Facts) -> tuple[MountUnit, ...]:
    files = UnitFiles(reader)
    names = {name for folder in files.folders for name in files.names(folder) if name.endswith(_SUFFIXES)}
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
    """The units that systemd makes of fstab, by name, each with the line that it takes for it: the first."""
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


def device_wait(reader: Reader, source: str) -> str:
    """How long a boot waits for a device, as somebody has set it, or 90 s (systemd.unit(5), JobRunningTimeoutSec=;
    systemd-system.conf(5), DefaultDeviceTimeoutSec=).
    """
    tag, equals, value = source.partition("=")
    path = f"/dev/disk/by-{tag.lower()}/{value}" if equals and not tag.startswith("/") else source
    files = UnitFiles(reader)
    found = ""
    for place in files.drop_ins(unit_name(path, "device")):
        for _, _, key, given in assignments(files.content(place)):
            found = given if key == "JobRunningTimeoutSec" else found
    return found or settings(reader, "system.conf", "Manager").get("DefaultDeviceTimeoutSec", ("",))[0] or "90 s"


class _Unit:
    """One unit file with its drop-ins, as systemd reads them."""

    def __init__(self, reader: Reader, files: UnitFiles, name: str, path: str) -> None:
        self.reader, self.files, self.name, self.path = reader, files, name, path
        self.is_masked = files.is_masked(name)
        self.values: dict[tuple[str, str], tuple[str, str, int]] = {}  # value, file, line
        self.listed: dict[str, list[str]] = {}  # key of [Unit] -> its words
        for place in () if self.is_masked else (path, *files.drop_ins(name)):
            for line, section, key, value in assignments(files.content(place)):
                self.values[section, key] = (value, place, line)
                if section in {"Unit", "Install"}:
                    words = self.listed.setdefault(key, [])
                    words += value.split()
                    if not value:
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
        source, fstype, options = self.value("What"), self.value("Type"), tuple(self.value("Options").split(","))
        is_far = is_network(fstype, source) or is_remote_to_systemd(fstype, frozenset(options))
        path = self.target
        if not is_swap and not is_far and isinstance(found := self.reader.resolve(path), str):
            path = found
        entry = FstabEntry(
            line=line, source=masked(source), target="none" if is_swap else self.target,
            fstype="swap" if is_swap else fstype or "auto", options=tuple(map(masked, filter(None, options))),
            freq=0, passno=0, is_swap=is_swap, path="none" if is_swap else path, file=file,
        )  # fmt: skip
        refusal = "" if self.is_masked else self._refusal(section)
        is_started = not self.is_masked and pulls.starts(self.name)
        is_ordered = self.values.get(("Unit", "DefaultDependencies"), ("yes",))[0] not in {"no", "false", "0", "off"}
        is_awaited = is_started and is_ordered and not is_far and "nofail" not in options
        needing = pulls.needing(self.name) if is_started else ()
        return MountUnit(
            self.name, entry, is_masked=self.is_masked, refusal=refusal, is_started=is_started,
            is_required=is_awaited and _LOCAL in needing, is_awaited=is_awaited,
            needed_by=tuple(one for one in needing if one != _LOCAL),
            can_be_enabled=any(self.listed.get(key) for key in ("WantedBy", "RequiredBy", "UpheldBy")),
            is_automounted=bool(self.files.path(self.name.removesuffix(".mount") + ".automount")),
            is_conditional=any(key.startswith("Condition") and words for key, words in self.listed.items()),
        )  # fmt: skip

    def _refusal(self, section: str) -> str:
        """As mount_verify() and swap_verify() of systemd."""
        written = self.values.get((section, "What"), ("",))[0]
        if not written:
            return "has no What="
        if section == "Mount":
            where = self.values.get((section, "Where"), ("",))[0]
            if where and not _SPECIFIER.search(where) and clean_path(where.replace("%%", "%")) != self.target:
                return f"says Where={where}, and its name means {self.target}"
        elif written.startswith("/") and not _SPECIFIER.search(written) and clean_path(written) != self.target:
            return f"says What={written}, and its name means {self.target}"
        return ""


class _Pulls:
    """Which units a boot starts, as far as links in all folders and the administrator's own files say."""

    def __init__(self, files: UnitFiles, units: list[_Unit], facts: Facts) -> None:
        self._files = files
        self._lines = {unit_name(one.path): one for one in facts.fstab.at_boot}
        mounts = {one.name for one in units if one.name.endswith(".mount")} | {*self._lines}
        self._places = [(one, f"{target_of(one).rstrip('/')}/") for one in sorted(mounts)]

    def starts(self, name: str) -> bool:
        """Whether a boot starts this unit."""
        return not _REACHED.isdisjoint(self._follow(name, _WANTING))

    def needing(self, name: str) -> tuple[str, ...]:
        """The units of a boot that do not start without this one; mounts further down are passed."""
        found = (one for one in self._follow(name, _REQUIRING) if not one.endswith(".mount"))
        return tuple(sorted(one for one in found if one in _REACHED or self.starts(one)))

    def _follow(self, name: str, keys: frozenset[str]) -> set[str]:
        """All units that lead to one by these keys, up to the targets of the boot."""
        done, waiting = {name}, [name]
        while waiting:
            unit = waiting.pop()
            if unit in _REACHED and unit != name:
                continue
            new = {one for one, key in self._pullers(unit) if key in keys} - done
            done |= new
            waiting += new
        return done - {name}

    def _pullers(self, name: str) -> Iterator[tuple[str, str]]:
        """(unit, key) of what names a unit."""
        yield from self._links.get(name, ())
        yield from self._stated.get(name, ())
        if not name.endswith(".mount"):
            return
        target = f"{target_of(name).rstrip('/')}/"
        if line := self._lines.get(name):
            words = [one for one in line.options if one in {"nofail", "fail"}]
            is_far = is_network(line.fstype, line.source) or is_remote_to_systemd(line.fstype, frozenset(line.options))
            is_wanted = words[-1:] == ["nofail"] or is_automount(line.options)
            yield "remote-fs.target" if is_far else _LOCAL, "Wants" if is_wanted else "Requires"
        yield from (
            (one, "RequiresMountsFor") for one, place in self._places if place.startswith(target) and one != name
        )
        yield from ((unit, key) for unit, key, path in self._paths if f"{path.rstrip('/')}/".startswith(target))

    @cached_property
    def _links(self) -> dict[str, list[tuple[str, str]]]:
        """Name -> (unit in whose .wants or .requires folder it is, key); the first folder with such a link counts."""
        found: dict[str, list[tuple[str, str]]] = {}
        seen = set()
        for folder in self._files.folders:
            for entry in self._files.names(folder):
                unit, dot, suffix = entry.rpartition(".")
                if f"{dot}{suffix}" not in _LINKS:
                    continue
                for name in self._files.names(f"{folder}/{entry}"):
                    if (entry, name) not in seen and self._files.reader.link(f"{folder}/{entry}/{name}") != "/dev/null":
                        found.setdefault(name, []).append((unit, _LINKS[f"{dot}{suffix}"]))
                    seen.add((entry, name))
        return found

    @cached_property
    def _written(self) -> list[tuple[str, str, str]]:
        """(unit, key, value) of what the administrator's unit files and drop-ins say of other units."""
        found = []
        for entry in self._files.names(ADMIN):
            stem, dot, suffix = entry.rpartition(".")
            if suffix == "d":
                places = [f"{ADMIN}/{entry}/{base}" for base in self._files.names(f"{ADMIN}/{entry}")]
                link = self._files.reader.link
                places = [one for one in places if one.endswith(".conf") and link(one) != "/dev/null"]
            else:
                is_file = dot and f"{dot}{suffix}" not in _LINKS
                is_file = is_file and not isinstance(self._files.reader.link(f"{ADMIN}/{entry}"), str)
                places, stem = ([f"{ADMIN}/{entry}"] if is_file else []), entry
            for place in places:
                rows = assignments(self._files.content(place))
                found += [
                    (stem, key, value) for _, section, key, value in rows if section == "Unit" and key in _WANTING
                ]
        return found

    @cached_property
    def _stated(self) -> dict[str, list[tuple[str, str]]]:
        found: dict[str, list[tuple[str, str]]] = {}
        for unit, key, value in self._written:
            for name in value.split() if not key.endswith("MountsFor") else ():
                found.setdefault(name, []).append((unit, key))
        return found

    @cached_property
    def _paths(self) -> list[tuple[str, str, str]]:
        return [
            (unit, key, path)
            for unit, key, value in self._written
            if key.endswith("MountsFor")
            for path in value.split()
        ]
