"""Whose a configuration file is: a package's, an administrator's, or that of a tool that leaves its
mark in the file: `file_owners["/etc/sysctl.d/99-site.conf"].name`.

Who writes a line decides what a person does about it: a line that Ansible or cloud-init writes
comes back, and an edit of a package's file is lost, or asked about, at the next upgrade. A file of
/etc that no package has is an administrator's, or that of a tool that leaves no mark.

Sources: ansible.builtin.template (`ansible_managed`) and blockinfile; the files that cloud-init,
curtin and the build of Ubuntu's cloud images leave; dpkg-query(1), deb-conffiles(5).
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from hosttune.facts.base import Fact, UnknownFact
from hosttune.facts.lookups import Lookup
from hosttune.facts.packages import DATABASE
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Completed, Stat
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Hashable

    from hosttune.host.door import Reader

# of a file where packages put theirs: an installer's, or put there by hand
NO_PACKAGE: Final = "no package"
OWN: Final = "/60-hosttune-"
_LARGEST = 1 << 16  # bytes of a file that are looked through for a mark
_COMMENT = rb"(?im)^[ \t]*(?:[#;]|//).*\b"
_MADE = rb"(?:generated|written|created|added|managed) by "
_MARKS = tuple(
    (regex(_COMMENT + rb"(?:" + words + rb")"), name)
    for words, name in (
        (rb"ansible[_ -]managed", "Ansible"),
        (_MADE + rb"cloud-init\b|information provided by the datasource", "cloud-init"),
        (rb"created/modified by the Cloud Image build process", "the cloud image"),
        (_MADE + rb"curtin\b", "the installer (curtin)"),
        (_MADE + rb"tuned\b", "TuneD"),
        (rb"managed by (puppet|chef|salt|cfengine|terraform|juju|landscape)\b", ""),
    )
)
_NAMES = (
    ("cloud-init", "cloud-init"),
    ("curtin", "the installer (curtin)"),
    ("cloudimg", "the cloud image"),
)
_MOST = 2048  # files: each is read, and of those in /usr dpkg is asked
_OF_PACKAGES = ("/usr/lib/", "/lib/")
_PACKAGE: Final = "the package "
_CHANGED: Final = " (changed here)"
# tools that decide nothing for one host
_DEFAULTS = frozenset({"the cloud image", "the installer (curtin)"})


@frozen
class FileOwner(Fact):
    """Whose one file is."""

    path: str  # the file
    name: str  # in words: the package procps, Ansible, the distribution, the administrator
    # package, configuration (of a package, in /etc), unpackaged (in /usr/lib), tool, runtime (in
    # /run),
    kind: str
    # hosttune, administrator

    @property
    def decides(self) -> bool:
        """Whether its text is a decision for this host: an administrator's, that of their tool, or
        hosttune's.
        """
        if self.kind == "configuration":
            return self.name.endswith(_CHANGED)
        return self.kind in {"administrator", "hosttune"} or (
            self.kind == "tool" and self.name not in _DEFAULTS
        )


@frozen
class FileOwners(Subject):
    """`file_owners["/etc/sysctl.d/99-site.conf"]`, for every file; only what was asked for is
    kept.
    """

    @fact
    def entries(self) -> Mapping[str, FileOwner]:
        return Lookup(self._look_up)

    def _look_up(self, path: str) -> FileOwner:
        if fault := self.name_fault(path):
            raise UnknownFact(fault[0])
        if len(self.entries) >= _MOST:
            raise UnknownFact(f"the rules ask whose more than {_MOST} files are")
        return _find_owner(self.reader, path)

    def __getitem__(self, path: str) -> FileOwner:
        return self.entries[path]

    @staticmethod
    def name_fault(path: str) -> tuple[str, str] | None:
        """What is wrong with a path as a rule writes it, and the way out."""
        return (
            None if path.startswith("/") else (f"{path!r} is no path of a file", "write all of it")
        )


def _find_owner(reader: Reader, path: str) -> FileOwner:
    if OWN in path:
        return FileOwner(path, "hosttune", "hosttune")
    if path.startswith("/run/"):
        return FileOwner(path, "a program that made it since the boot", "runtime")
    real = reader.resolve(path)
    name = writer_of(reader, real if isinstance(real, str) else path, ask=True)
    if name == "the distribution" or (name.startswith(_PACKAGE) and path.startswith(_OF_PACKAGES)):
        return FileOwner(path, name, "package")
    if name.startswith(_PACKAGE):
        return FileOwner(path, name, "configuration")
    if name == NO_PACKAGE:
        return FileOwner(path, name, "unpackaged")
    if not name:
        return FileOwner(path, "the administrator", "administrator")
    return FileOwner(path, name, "tool")


def writer_of(reader: Reader, path: str, *, ask: bool = False) -> str:
    """`Ansible`, `the package procps`, `the distribution` ...; empty where nothing tells."""
    stat = reader.stat(path)
    if OWN in path or not isinstance(stat, Stat) or stat.type != "file":
        return ""
    content = reader.read(path) if stat.size <= _LARGEST else None
    text = content if isinstance(content, bytes) else None
    for mark, name in _MARKS:
        if found := mark.search(text or b""):
            return name or found[1].decode().capitalize()
    for word, name in _NAMES:
        if word in posixpath.basename(path):
            return name
    if path.startswith("/usr/local/"):
        return ""
    if path.startswith(("/usr/", "/lib/")):
        package = _find_shipping_package(reader, path) if ask else None
        if package is None:
            return "the distribution"
        return f"the package {package}" if package else NO_PACKAGE
    return _find_configuring_package(reader, path, text)


def _find_shipping_package(reader: Reader, path: str) -> str | None:
    """The package that ships a file, empty for none, None where dpkg cannot be asked. Packages of
    before the merge of /lib into /usr name the other path.
    """
    is_known = False
    for name in dict.fromkeys((path, path.removeprefix("/usr"))):
        answer = reader.query(("dpkg-query", "--search", name))
        if not isinstance(answer, Completed) or answer.status not in {0, 1}:  # 1: no package has it
            continue
        is_known = True
        rows = (row for row in answer.text.splitlines() if not row.startswith("diversion by "))
        if row := next(rows, ""):
            return re.split("[:,]", row, maxsplit=1)[0].strip()
    return "" if is_known else None


def _find_configuring_package(reader: Reader, path: str, text: bytes | None) -> str:
    """The package that brings a file of /etc as configuration, and whether it is still what the
    package brings: of a text that was not read (None) that stays open.
    """
    found = _read_conffiles(cast("Hashable", reader)).get(path)
    if found is None:
        return ""
    package, digest = found
    # dpkg's own digest of what it brought
    is_changed = (
        text is not None and hashlib.md5(text, usedforsecurity=False).hexdigest().encode() != digest
    )
    return f"the package {package}{' (changed here)' if is_changed else ''}"


@lru_cache(maxsize=1)  # it is asked for each of many files
def _read_conffiles(reader: Reader) -> Mapping[str, tuple[str, bytes]]:
    """Path -> (package, MD5) of the configuration files of all packages (deb-conffiles(5)); none if
    it is unread.
    """
    database = reader.read(DATABASE)
    if not isinstance(database, bytes):
        return {}
    found: dict[str, tuple[str, bytes]] = {}
    package = ""
    for row in database.split(b"\n"):
        if row.startswith(b"Package: "):
            package = row[9:].decode("ascii", "replace")
        elif row.startswith(b" /") and len(words := row.split(maxsplit=2)) > 1:
            found.setdefault(words[0].decode("utf-8", "surrogateescape"), (package, words[1]))
    return found
