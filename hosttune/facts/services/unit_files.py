"""What unit files say where no systemd runs: systemd.unit(5), systemd.preset(5), and `systemctl
is-enabled` in systemctl(1) for the words. Generators are programs of a booting system and are left
out.
"""

from __future__ import annotations

import posixpath
from functools import cached_property
from typing import TYPE_CHECKING

from hosttune.facts.globs import fits_glob
from hosttune.facts.reading import if_absent, names_in, read_text
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.host.known.unit_folders import ADMIN, CONTROL, RUNTIME, SPLIT, VENDOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.host.door import Reader

_INSTALL = ("WantedBy", "RequiredBy", "UpheldBy", "Alias")
LINK_FOLDERS = (".wants", ".requires", ".upholds")


def is_mask(reader: Reader, path: str) -> bool:
    """Whether a unit file is a mask: a link to /dev/null, or empty (systemd.unit(5)). One in /etc
    is a decision of an administrator, who reads of it and is never asked to undo it.
    """
    # The link is read and not followed: of an image /dev has no null.
    if reader.link(path) == "/dev/null":
        return True
    stat = reader.stat(path)
    return isinstance(stat, Stat) and (stat.size == 0 or stat.type == "character")


def mask_of(reader: Reader, name: str) -> str:
    """The file that masks a unit, behind aliases; empty where none does. Raises UnknownFact."""
    _, path, state = UnitFiles(reader).state(name)
    return path if state.startswith("masked") else ""


class UnitFiles:
    """The unit files of one host; folders are listed once. Raises UnknownFact where a folder or a
    file cannot be read: what counts could stand there.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._lists: dict[str, tuple[str, ...]] = {}
        self._sets: dict[str, frozenset[str]] = {}
        self._presets: tuple[Preset, ...] | None = None

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """Where units lie, the first that counts first."""
        runtime = () if self.reader.persistent_only else (RUNTIME,)
        # Before /usr was merged, /lib was a folder of its own; now it is a link.
        split = () if isinstance(self.reader.link("/lib"), str) else (SPLIT,)
        return (ADMIN, *runtime, *VENDOR, *split)

    def names(self, folder: str) -> tuple[str, ...]:
        if folder not in self._lists:
            self._lists[folder] = names_in(self.reader, folder)
        return self._lists[folder]

    def _has(self, folder: str, name: str) -> bool:
        """Whether a folder has a name: asked of every unit, of which there may be thousands."""
        if folder not in self._sets:
            self._sets[folder] = frozenset(self.names(folder))
        return name in self._sets[folder]

    def find(self, name: str) -> tuple[str, str]:
        """(name behind aliases, path of the unit file; empty for none). `state` looks through all
        links for more.
        """
        real, path, _ = self._find(name)
        return (real if path else name), path

    def content(self, path: str) -> str:
        return if_absent(read_text(self.reader, path), "")

    def state(self, name: str) -> tuple[str, str, str]:
        """(name behind aliases, path of the unit file, state as `systemctl is-enabled` prints
        it).
        """
        real, path, is_linked = self._find(name)
        if not path:
            return name, "", "not-found"
        if is_mask(self.reader, path):
            return real, path, "masked-runtime" if path.startswith("/run/") else "masked"
        for folder, word in ((ADMIN, "enabled"), (RUNTIME, "enabled-runtime")):
            if folder in self.folders and self._is_linked_in(folder, real):
                return real, path, word
        if is_linked:
            return real, path, "linked"
        keys = self._install_keys(real, path)
        if keys.intersection(_INSTALL):
            return real, path, "disabled"
        return real, path, "indirect" if "Also" in keys else "static"

    def path(self, name: str) -> str:
        """The file of a unit, behind aliases; empty where there is none."""
        return self._find(name)[1]

    def _find(self, name: str) -> tuple[str, str, bool]:
        """(real name, path, whether the file is outside of the search path and is only linked into
        it).
        """
        for _ in range(10):  # aliases of aliases; a loop ends as not found
            path = next(
                (f"{folder}/{name}" for folder in self.folders if self._has(folder, name)), ""
            )
            if not path:
                template = template_of(name)
                holders = (
                    folder for folder in self.folders if template and self._has(folder, template)
                )
                return name, next((f"{folder}/{template}" for folder in holders), ""), False
            target = self.reader.link(path)
            if not isinstance(target, str) or target in {"/dev/null", ""}:
                return name, path, False
            full = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            if posixpath.dirname(full) not in {*self.folders, SPLIT}:
                return name, full, True
            base = posixpath.basename(full)
            if base in {name, template_of(name)}:  # the same unit from another folder
                return name, full, False
            name = base
        return name, "", False

    def _is_linked_in(self, folder: str, name: str) -> bool:
        """A link in *.wants, *.requires or *.upholds, or an alias that `systemctl enable` made."""
        for entry in self.names(folder):
            if entry.endswith(LINK_FOLDERS):
                if self._has(f"{folder}/{entry}", name):
                    return True
            elif entry != name and not entry.endswith(".d"):
                target = self.reader.link(f"{folder}/{entry}")
                if isinstance(target, str) and posixpath.basename(target) == name:
                    return True
        return False

    def _install_keys(self, name: str, path: str) -> frozenset[str]:
        """The keys of [Install] that have a value, in the unit file and its drop-ins."""
        keys: set[str] = set()
        for place in (path, *self.drop_ins(name)):
            keys.update(install_keys(self.content(place)))
        return frozenset(keys)

    def drop_ins(self, name: str) -> tuple[str, ...]:
        """The *.conf files that change a unit, in the order in which systemd reads them (by base
        name).
        """
        chosen: dict[str, str] = {}
        for part in drop_in_folders(name):
            # `systemctl set-property` writes to system.control, which goes before
            # /etc/systemd/system.
            for folder in (CONTROL, *self.folders):
                if self._has(folder, part):
                    for base in self.names(f"{folder}/{part}"):
                        if base.endswith(".conf"):
                            chosen.setdefault(base, f"{folder}/{part}/{base}")
        return tuple(
            chosen[base] for base in sorted(chosen) if self.reader.link(chosen[base]) != "/dev/null"
        )

    def preset(self, name: str) -> str:
        """Enabled or disabled: the first line of all preset files that fits; enabled where none
        does.
        """
        if self._presets is None:
            self._presets = self._read_presets()
        # Without any line systemd enables a unit (systemd.preset(5)).
        word = next((rule.word for rule in self._presets if rule.fits(name)), "enable")
        return {"enable": "enabled", "disable": "disabled"}.get(word, "unknown")

    def _read_presets(self) -> tuple[Preset, ...]:
        chosen: dict[str, str] = {}
        for folder in self.folders:
            place = f"{folder}-preset"
            for base in self.names(place):
                if base.endswith(".preset"):
                    chosen.setdefault(base, f"{place}/{base}")
        live = (
            chosen[base] for base in sorted(chosen) if self.reader.link(chosen[base]) != "/dev/null"
        )
        return tuple(rule for path in live for rule in parse_preset(self.content(path)))


def template_of(name: str) -> str:
    """`getty@.service` for `getty@tty1.service`; empty for what is no instance."""
    prefix, at, rest = name.partition("@")
    instance, dot, suffix = rest.rpartition(".")
    return f"{prefix}@{dot}{suffix}" if at and instance else ""


def parse_assignments(content: str) -> Iterator[tuple[int, str, str, str]]:
    """(line from 1, section, key, value) of every assignment in a file of systemd, be it a unit or
    a configuration, an empty value for a reset (systemd.syntax(7)): a backslash at the end of a
    line continues it, and comments stand on lines of their own.
    """
    section = ""
    rows = enumerate(content.splitlines(), 1)
    for number, row in rows:
        if row.lstrip().startswith(("#", ";")):
            continue
        parts = [row]
        while parts[-1].endswith("\\"):
            # systemd passes over comments between the parts of a continued line
            # (systemd.syntax(7)).
            following = next(
                (one for _, one in rows if not one.lstrip().startswith(("#", ";"))), ""
            )
            parts[-1] = parts[-1][:-1].rstrip()
            parts.append(following.strip())
        stripped = " ".join(parts).strip()
        key, equals, value = stripped.partition("=")
        if stripped.startswith("["):
            section = stripped.strip("[]")
        elif equals:
            yield number, section, key.strip(), value.strip()


def install_keys(content: str) -> tuple[str, ...]:
    """The keys of the [Install] section that have a value."""
    return tuple(
        key
        for _, section, key, value in parse_assignments(content)
        if section == "Install" and value
    )


def drop_in_folders(name: str) -> tuple[str, ...]:
    """`a-b-c.service`: its own folder first, then a-b-.service.d, a-.service.d and service.d
    (systemd.unit(5)).
    """
    stem, _, suffix = name.rpartition(".")
    folders = [f"{name}.d"]
    if template := template_of(name):
        folders.append(f"{template}.d")
        stem = stem.partition("@")[0]
    while "-" in stem.rstrip("-"):
        stem = stem.rstrip("-").rpartition("-")[0] + "-"
        folders.append(f"{stem}.{suffix}.d")
    return (*folders, f"{suffix}.d")


@frozen
class Preset:
    """One line of a preset file."""

    word: str  # enable | disable | ignore
    pattern: str
    instances: tuple[str, ...] = ()  # of a template, such as enable getty@.service tty1

    def fits(self, name: str) -> bool:
        if fits_glob(name, self.pattern):
            return True
        template = template_of(name)
        instance = name.partition("@")[2].rpartition(".")[0]
        return bool(template) and instance in self.instances and fits_glob(template, self.pattern)


def parse_preset(content: str) -> tuple[Preset, ...]:
    """The lines of one preset file."""
    rows = (row.split() for row in content.splitlines() if not row.lstrip().startswith(("#", ";")))
    return tuple(
        Preset(fields[0], fields[1], tuple(fields[2:])) for fields in rows if len(fields) >= 2
    )


def enabled_names(reader: Reader) -> frozenset[str]:
    """The units that an administrator or a package enabled for good, from the links below
    /etc/systemd/system.
    """
    folders = (
        f"{ADMIN}/{entry}" for entry in names_in(reader, ADMIN) if entry.endswith(LINK_FOLDERS)
    )
    return frozenset(name for folder in folders for name in names_in(reader, folder))
