"""Debian packages, from dpkg's own database (dpkg(1), deb-control(5)): no program is started."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hosttune.facts.base import Fact, UnknownFact, lazy, make_shared, read_at_once
from hosttune.facts.lookups import Lookup
from hosttune.facts.reading import day_of, if_absent, require_known, require_sure
from hosttune.facts.relations import depends_of, is_never_configured, provided_in, starts_in
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.host.known.dpkg_status import NO_RELATIONS
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

DATABASE = "/var/lib/dpkg/status"
_LISTS = "/var/lib/dpkg/info"
UPDATES = "/var/lib/dpkg/updates"
# With `&&` the second would not run where a script fails again, and it is what takes such a package
# away.
REPAIR: Final = "sudo dpkg --configure -a; sudo apt-get -f install"
INTERRUPTED: Final = "dpkg is at work, or was interrupted: apt does nothing before that is over"
_HALF = frozenset({"half-installed", "unpacked", "half-configured"})
# Triggers that are still to run do not make a package less installed (dpkg(1), "Package states").
_INSTALLED = frozenset({"installed", "triggers-awaited", "triggers-pending"})
_SETTLED = frozenset({"installed", "config-files", "not-installed"})
_PACKAGE_NAME = regex(r"[A-Za-z0-9][\w.+-]*(?::[\w-]+)?", re.ASCII)
_HELD_ABSENT = regex(rb"^Package: (\S+)\nStatus: hold ok not-installed$", re.MULTILINE)
_REINSTALL = ", reinst-required"  # behind the state: dpkg(1), "Package flags"


@frozen
class Package(Fact):
    """One package. `status` is dpkg's package state; one that is only half there, that dpkg wants
    installed again (reinst-required), or that is removed and not purged (config-files), is not
    installed.
    """

    name: str  # without the architecture
    version: str  # empty unless dpkg knows one
    is_installed: bool  # dpkg has it installed and configured
    is_held: bool  # apt-mark hold
    # installed, config-files, half-configured ...; not-installed where dpkg does not know the name
    status: str

    @property
    def is_brought(self) -> bool:
        """Whether it has files here: it is installed, or dpkg stopped half-way with it."""
        return self.is_installed or self.is_half

    @property
    def is_half(self) -> bool:
        """Whether dpkg stopped half-way with it."""
        return self.status in _HALF or self.status.endswith(_REINSTALL)

    @property
    def is_unfinished(self) -> bool:
        """Whether dpkg has more to do with it, if only to run triggers (ldconfig,
        update-initramfs).
        """
        return is_unfinished(self.status)


@frozen
class Packages(Fact):
    """`packages["tuned"]`: every name has an answer. Packages of a foreign architecture are called
    NAME:ARCH.
    """

    entries: Mapping[str, tuple[str, str]]  # name -> (version, the three words of the Status field)
    # dpkg is at work, or was stopped before it had written its own journal off
    is_interrupted: bool = False
    unpacked_on: Mapping[str, str] = field(
        default_factory=dict
    )  # by name: the date of what is installed, ISO 8601, UTC
    depends: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: Lookup(lambda _: ())
    )  # by name: the clauses of Depends and Pre-Depends, as they are written
    provided: Mapping[str, tuple[tuple[str, str], ...]] = field(
        default_factory=dict
    )  # by what is provided: (package, version) pairs
    held_absent: tuple[str, ...] = ()  # held by an administrator, and not installed, sorted
    is_new: Mapping[str, bool] = field(
        default_factory=lambda: Lookup(lambda _: False)
    )  # by name: dpkg never configured it, so that nothing works with it yet

    @classmethod
    def look(cls, reader: Reader, facts: Facts) -> Packages:  # noqa: ARG003 - as of all subjects
        return read_at_once(cls, _read_packages, reader)

    def __getitem__(self, name: str) -> Package:
        version, status = self.entries.get(name, ("", "unknown ok not-installed"))
        want, flag, state = status.split(" ", 2)
        must = "reinst" in flag
        shown = f"{state}{_REINSTALL}" if must else state
        # A package that dpkg wants installed again has files of which it does not know whether they
        # are whole. To call it installed would be a false ok.
        return Package(name, version, state in _INSTALLED and not must, want == "hold", shown)

    @property
    def broken(self) -> tuple[Package, ...]:
        """Those that dpkg left half-way, sorted: apt would go on with them before anything else."""
        return tuple(one for one in self.unfinished if one.is_half)

    @property
    def unfinished(self) -> tuple[Package, ...]:
        """Those with which dpkg has more to do, sorted."""
        settled = (" ok installed", " ok config-files")
        left = (name for name, (_, status) in self.entries.items() if not status.endswith(settled))
        return tuple(self[name] for name in sorted(left))

    @property
    def to_reinstall(self) -> tuple[Package, ...]:
        """Those whose files dpkg does not vouch for any more (reinst-required), sorted."""
        return tuple(one for one in self.unfinished if one.status.endswith(_REINSTALL))

    @property
    def repair(self) -> str:
        """What a person types to make all of them whole. For one that is to be reinstalled `-f`
        alone can fail over and over: it configures what depends on it first.
        """
        again = [one.name for one in self.to_reinstall]
        return "\n".join(
            [
                REPAIR,
                *(
                    [f"sudo apt-get install --reinstall {' '.join(map(quote, again))}"]
                    if again
                    else []
                ),
            ]
        )

    @property
    def held(self) -> tuple[str, ...]:
        """What an administrator holds (apt-mark(8)), installed or not, sorted."""
        there = (name for name, (_, status) in self.entries.items() if status.startswith("hold "))
        return tuple(sorted({*there, *self.held_absent}))

    @property
    def names(self) -> tuple[str, ...]:
        """The installed packages, sorted. Those that dpkg left half-way are not among them:
        `brought` has them.
        """
        return tuple(
            sorted(
                name
                for name, (_, status) in self.entries.items()
                if status.split(" ")[2] in _INSTALLED
            )
        )

    @property
    def brought(self) -> tuple[str, ...]:
        """The packages that have files here, sorted: the installed ones, and those that dpkg left
        half-way.
        """
        return tuple(sorted({*self.names, *(one.name for one in self.broken)}))


def is_unfinished(status: str) -> bool:
    """Whether dpkg has more to do with a package of this status (`Package.status`)."""
    return status not in _SETTLED


def parse_status(database: bytes) -> Mapping[str, tuple[str, str]]:
    """The table in dpkg's status file: name -> (version, Status field), without what is
    not-installed; a later paragraph wins.

    The file has megabytes and three of its fields matter, so they are looked for one behind the
    other, in the order in which dpkg writes them (lib/dpkg/parse.c, fieldinfos); a paragraph in
    another order is read field by field.
    """
    find = database.find
    found: list[tuple[str, str, str, str]] = []
    start, size = 0, len(database)
    while start < size:
        end = find(b"\n\n", start)
        end = end if end >= 0 else size
        status = find(b"\nStatus: ", start, end)
        arch = find(b"\nArchitecture: ", status, end) if status >= 0 else -1
        version = find(b"\nVersion: ", arch, end) if arch >= 0 else -1
        if version >= 0 and database.startswith(b"Package: ", start):
            found.append((
                database[start + 9 : find(b"\n", start)].decode("utf-8", "replace"),
                database[arch + 15 : find(b"\n", arch + 1)].decode("utf-8", "replace"),
                _read_rest(database, version + 10, end),
                database[status + 9 : find(b"\n", status + 1)].decode("utf-8", "replace"),
            ))  # fmt: skip
        elif fields := _parse_paragraph(database[start:end]):
            found.append(fields)
        start = end + 2 if end < size else size
    return _make_table(found)


def is_package_name(name: str) -> bool:
    """Whether dpkg takes it for the name of a package, maybe with an architecture: in a command it
    is no option.
    """
    return _PACKAGE_NAME.fullmatch(name) is not None


def parse_held_absent(database: bytes) -> tuple[str, ...]:
    """The packages that are held and not installed: `apt-mark hold` of a name or a pattern enters
    them so.
    """
    if b"\nStatus: hold ok not-installed" not in database:
        return ()
    found = {match[1].decode("utf-8", "replace") for match in _HELD_ABSENT.finditer(database)}
    return tuple(sorted(filter(is_package_name, found)))


def _read_rest(database: bytes, start: int, end: int) -> str:
    stop = database.find(b"\n", start, end)
    return database[start : stop if stop >= 0 else end].decode("utf-8", "replace").strip()


def _parse_paragraph(paragraph: bytes) -> tuple[str, str, str, str] | None:
    """(name, architecture, version, status), in whatever order; None for what is no package."""
    lines = paragraph.decode("utf-8", "replace").splitlines()
    pairs = {
        key: value.strip()
        for key, _, value in (line.partition(":") for line in lines if line[:1].strip())
    }
    if "Package" not in pairs or "Status" not in pairs:
        return None
    return (
        pairs["Package"],
        pairs.get("Architecture", ""),
        pairs.get("Version", ""),
        pairs["Status"],
    )


def _make_table(entries: Iterable[tuple[str, str, str, str]]) -> Mapping[str, tuple[str, str]]:
    entries = tuple(entries)
    native = next((arch for name, arch, _, _ in entries if name == "dpkg"), "")
    table: dict[str, tuple[str, str]] = {}
    for name, arch, version, status in entries:
        # Names go into commands that people copy. One that begins with a dash would be an option
        # there.
        if not is_package_name(name):
            continue
        key = name if arch in {native, "all", ""} or not native else f"{name}:{arch}"
        # A later paragraph comes from dpkg's journal, and takes away what the status file still
        # has.
        if status.endswith(" not-installed"):
            table.pop(key, None)
        elif status.count(" ") == 2:  # want, flag, state
            table[key] = (version, status)
    return MappingProxyType(table)


def _read_packages(reader: Reader) -> Packages:
    database = require_known(reader.read(DATABASE), DATABASE)
    journal = _read_journal(reader)
    again = make_shared(_read_relations, reader)
    starts = make_shared(lambda: starts_in(again()))
    return Packages(
        parse_status(database + journal if journal else database),
        bool(journal),
        Lookup(lambda name: _unpacked_on(reader, name)),
        Lookup(lambda name: depends_of(again(), starts()[name]) if name in starts() else ()),
        lazy(lambda: provided_in(again())),
        parse_held_absent(database),
        Lookup(lambda name: name in starts() and is_never_configured(again(), starts()[name])),
    )


def _read_relations(reader: Reader) -> bytes:
    database = require_known(reader.read(DATABASE), DATABASE)
    if database.startswith(NO_RELATIONS.encode()):
        raise UnknownFact("what packages depend on is not in this file")
    return database


def _unpacked_on(reader: Reader, name: str) -> str:
    """Dpkg writes the list of a package's files when it unpacks it (dpkg-query(1), --listfiles)."""
    places = (f"{_LISTS}/{name}{suffix}.list" for suffix in ("", ":amd64", ":arm64"))
    answers = [reader.stat(place) for place in places]
    found = require_sure(next((one for one in answers if isinstance(one, Stat)), answers[0]))
    if found is ABSENT:
        raise UnknownFact(f"dpkg has no list of its files below {_LISTS}: {name}")
    return day_of(found.mtime_ns / 1e9)


def _read_journal(reader: Reader) -> bytes:
    """What dpkg has written since the status file: one numbered paragraph per state, later ones
    win.

    It is there while dpkg runs, and after it was interrupted (dpkg source: lib/dpkg/dbmodify.c).
    """
    names = reader.list(UPDATES)  # not in every record
    numbers = [name for name in names if name.isdecimal()] if isinstance(names, tuple) else []
    paragraphs = (if_absent(reader.read(f"{UPDATES}/{name}"), b"") for name in numbers)
    return b"\n\n".join((b"", *paragraphs))
