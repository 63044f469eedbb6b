"""The pins in apt's preferences: which packages, which versions, which priority, and in which line.

Source: apt_preferences(5): stanzas of Package, Pin and Pin-Priority. In preferences.d count names
of letters, digits, `-`, `_` and `.` with no extension or `.pref`. A priority below 0 keeps a
version from being installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.globs import fits_glob, glob_fault
from hosttune.facts.reading import names_in, read_texts
from hosttune.frozen import frozen
from hosttune.numbers import parse_whole
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Reader

FILE: Final = "/etc/apt/preferences"
FOLDER: Final = "/etc/apt/preferences.d"
_NAME = regex(r"[\w-]+|[\w.-]*[\w-]\.pref")
_PLAIN_REGEX = regex(r"/(\^?)([\w.+-]*)(\$?)/")  # a regular expression that is one word
_MOST_PATTERNS = 5000  # each is held against each package of a driver
_MOST_CHARACTERS = 400_000  # so that all stay compiled (facts/globs.py)
_SHOWN = 3  # packages of a pin that a sentence names


@frozen
class Pin(Fact):
    """One stanza."""

    # as it names them: nvidia-*, /regex/, src:NAME; `*` for every package
    packages: tuple[str, ...]
    pin: str  # release o=NVIDIA; version 580.*; origin developer.download.nvidia.com
    # Pin-Priority, as apt_preferences(5) explains it: below 0 never, above 1000 even a downgrade
    priority: int
    path: str  # the file of preferences
    line: int  # of its Package field, from 1

    @property
    def place(self) -> str:
        """Its file and line: /etc/apt/preferences.d/x:3."""
        return f"{self.path}:{self.line}"

    @property
    def is_general(self) -> bool:
        """It is about archives, not about packages by name."""
        return self.packages == ("*",)

    @property
    def words(self) -> str:
        """The stanza as a phrase: Package: nvidia-*, Pin: release *, Pin-Priority: -1."""
        more = " ..." if len(self.packages) > _SHOWN else ""
        return (
            f"Package: {' '.join(self.packages[:_SHOWN])}{more}, Pin: {self.pin}, Pin-Priority: "
            f"{self.priority}"
        )

    def names(self, package: str) -> bool:
        """It names this package. A source package is matched as if it had the package's name, and a
        regular expression only where it is one word.
        """
        return any(_names_package(one, package) for one in self.packages)

    def wants(self, version: str) -> bool:
        """It prefers versions like this one: what keeps such a version away is something else."""
        kind, _, pattern = self.pin.partition(" ")
        return kind == "version" and self.priority > 0 and _fits(version, pattern)

    def fits_archive(self, release: Mapping[str, str]) -> bool:
        """It is about this archive: `release` has the fields of its Release file by letter (o, a,
        n), and `site`.
        """
        kind, _, rest = self.pin.partition(" ")
        if kind == "origin":
            return _fits(release.get("site", ""), rest.strip().strip('"'))
        if kind != "release":
            return False
        wanted = [one.strip().partition("=") for one in rest.split(",")]
        return all(
            _fits(release.get(key, ""), value) if mark else key == "*"
            for key, mark, value in wanted
        )


def _names_package(pattern: str, package: str) -> bool:
    plain = pattern.removeprefix("src:").partition(":")[0]
    if match := _PLAIN_REGEX.fullmatch(plain):
        start, word, end = match.groups()
        if start and end:
            return package == word
        if start:
            return package.startswith(word)
        return package.endswith(word) if end else word in package
    return _fits(package, plain)


def _fits(value: str, pattern: str) -> bool:
    return not glob_fault(pattern) and fits_glob(value, pattern)


def read_pins(reader: Reader) -> tuple[Pin, ...]:
    """All of them, in the order of reading."""
    listed = (f"{FOLDER}/{name}" for name in names_in(reader, FOLDER) if _NAME.fullmatch(name))
    files = read_texts(reader, (FILE, *listed))
    found = tuple(pin for path, content in files for pin in parse_preferences(content, path))
    size = sum(len(pin.pin) + sum(map(len, pin.packages)) for pin in found)
    if sum(len(pin.packages) for pin in found) > _MOST_PATTERNS or size > _MOST_CHARACTERS:
        raise UnknownFact(
            f"the preferences of apt name more than {_MOST_PATTERNS:,} packages, or in more than "
            f"{_MOST_CHARACTERS:,} characters, which is more than is matched"
        )
    return found


def parse_preferences(content: str, path: str) -> Iterator[Pin]:
    """The pins of one file; what is no whole stanza is passed over."""
    fields: dict[str, list[str]] = {}
    start, last = 0, ""
    for number, row in enumerate((*content.splitlines(), ""), 1):
        if row.startswith("#"):
            continue
        if not row.strip():
            yield from _pin({name: " ".join(parts) for name, parts in fields.items()}, path, start)
            fields, last = {}, ""
        elif row[0] in " \t":
            fields.setdefault(last, []).append(row.strip())
        else:
            name, _, value = row.partition(":")
            last = name.strip().lower()
            fields[last] = [value.strip()]
            start = number if last == "package" else start


def _pin(fields: Mapping[str, str], path: str, line: int) -> Iterator[Pin]:
    if not all(fields.get(name) for name in ("package", "pin", "pin-priority")):
        return
    try:
        priority = parse_whole(fields["pin-priority"])
    except ValueError:
        return
    yield Pin(
        tuple(fields["package"].split()), " ".join(fields["pin"].split()), priority, path, line
    )
