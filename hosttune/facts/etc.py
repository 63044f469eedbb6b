"""Any file of configuration below /etc by its path, line by line: `etc["/etc/login.defs"].lines`.

At most 1 MiB and 20,000 lines; keys, passwords and the like are not read, and no link leads out of
the folders that hold configuration (/etc, /usr, /run).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy, make_shared
from hosttune.facts.lookups import Lookup, small_text
from hosttune.facts.reading import day_of, if_absent, require_sure
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.host.masking.secrets import is_secret_file
from hosttune.values import ABSENT, Absent

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_MOST_BYTES = 1 << 20
_MOST_LINES = 20_000
_MOST_IN_ALL = 16 << 20  # characters of all files that rules ask for: each is kept
_ROOTS = ("/etc/", "/usr/", "/run/", "/lib/")


@frozen
class ConfigFile(Fact):
    """One file. Of one that does not exist there are no lines."""

    path: str  # the file
    exists: bool  # whether the file is there
    # that say something: not empty, no `#` comment, without the blanks around them
    lines: tuple[str, ...]


@frozen
class Etc(Subject):
    """`etc["/etc/..."]`, for every file; only what was asked for is kept."""

    @fact
    def entries(self) -> Mapping[str, ConfigFile]:
        return Lookup(lambda path: _read_file(self._kept, path))

    # by path: the date on which a file was written or touched last, ISO 8601, UTC
    written_on: Mapping[str, str] = read_with(
        lambda self: Lookup(lambda path: _written_on(self.reader, path))
    )

    @fact
    def _kept(self) -> _Kept:
        return _Kept(self.reader)

    def __getitem__(self, path: str) -> ConfigFile:
        return self.entries[path]

    @staticmethod
    def name_fault(path: str) -> tuple[str, str] | None:
        """What is wrong with a path as a rule writes it, and the way out."""
        if not path.startswith("/etc/") or posixpath.normpath(path) != path or "\0" in path:
            return f"{path!r} is no path below /etc", 'write all of it: etc["/etc/login.defs"]'
        if is_secret_file(path):
            return (
                f"{path} keeps secrets and is not read",
                "ask for something that says the same without them",
            )
        return None


def _written_on(reader: Reader, path: str) -> str:
    found = require_sure(reader.stat(path))
    if found is ABSENT:
        raise UnknownFact(f"{path} is not there")
    return day_of(found.mtime_ns / 1e9)


class _Kept:
    """What was read so far. Rules of a record or an image may name one file by thousands of
    links.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._left = _MOST_IN_ALL

    def content(self, path: str) -> str | Absent:
        found = _read_content(self._reader, path) if self._left > 0 else ""
        self._left -= len(if_absent(found, ""))
        if self._left <= 0:
            raise UnknownFact(
                f"the rules ask for more than {_MOST_IN_ALL >> 20} MiB of files below /etc"
            )
        return found


def _read_file(kept: _Kept, path: str) -> ConfigFile:
    content = make_shared(kept.content, path)

    def lines() -> tuple[str, ...]:
        rows = (row.strip() for row in if_absent(content(), "").splitlines())
        found = tuple(row for row in rows if row and not row.startswith("#"))
        if len(found) > _MOST_LINES:
            raise UnknownFact(f"{path} has more than {_MOST_LINES} lines")
        return found

    return ConfigFile(path, exists=lazy(lambda: content() is not ABSENT), lines=lazy(lines))


def _read_content(reader: Reader, path: str) -> str | Absent:
    if fault := Etc.name_fault(path):
        raise UnknownFact(fault[0])
    real = require_sure(reader.resolve(path))
    # A record of another host, or an image, can have any link in /etc. Root would read the target,
    # and the report would show it.
    if real is not ABSENT and (not real.startswith(_ROOTS) or is_secret_file(real)):
        raise UnknownFact(f"{path} leads to {real}, which is no configuration")
    return small_text(reader, path, _MOST_BYTES)
