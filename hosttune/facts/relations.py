"""Dependencies between installed packages, as dpkg's status file has them, and which of them
nothing installed meets.

Sources: deb-control(5), Depends, Pre-Depends and Provides; Debian's policy, chapter 7. What apt
would do about them is apt's own answer (`apt-get check` takes its lock, so it is not asked for a
look).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from hosttune.facts.versions import compare_versions
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Container

    from hosttune.facts.packages import Packages

_DEPENDS = regex(rb"^(?:Pre-)?Depends: (.*)$", re.MULTILINE)
_HEAD = regex(rb"(?:\A|(?<=\n\n))Package: (.*)")
_PROVIDES = regex(rb"^Provides: (.*)$", re.MULTILINE)
# packages that provide one name: each clause with that name asks for all of them
_MOST_OWNERS = 256
# A name begins with a letter or digit (deb-control(5)), so none in a command that is shown is an
# option.
_RELATION = regex(r"([A-Za-z0-9][^\s(:]*)(?::\S+)?\s*(?:\((<<|<=|=|>=|>>)\s*([^\s)]+)\))?")
_ORDERS: Mapping[str, Callable[[int], bool]] = {
    "<<": lambda order: order < 0, "<=": lambda order: order <= 0, "=": lambda order: order == 0,
    ">=": lambda order: order >= 0, ">>": lambda order: order > 0,
}  # fmt: skip
# For apt an unpacked package is there.
_THERE = (" installed", " triggers-awaited", " triggers-pending", " unpacked", " half-configured")


def starts_in(database: bytes) -> Mapping[str, int]:
    """Where the paragraph of each package begins, which is looked for once for all of them."""
    found: dict[str, int] = {}
    for match in _HEAD.finditer(database):
        found.setdefault(match[1].decode("utf-8", "replace"), match.start())
    return found


def depends_of(database: bytes, start: int) -> tuple[str, ...]:
    """What the package of this paragraph needs, each clause as it is written: libnvidia-cfg1 (=
    590.44.01-1ubuntu1).
    """
    fields = (
        match[1].decode("utf-8", "replace")
        for match in _DEPENDS.finditer(_read_paragraph(database, start))
    )
    return tuple(text for one in fields for clause in one.split(",") if (text := clause.strip()))


def is_never_configured(database: bytes, start: int) -> bool:
    """Whether dpkg stopped with the package of this paragraph before it configured any version of
    it. Config-Version is the version that it configured last (dpkg: lib/dpkg/dump.c,
    w_configversion: not for installed ones).
    """
    paragraph = _read_paragraph(database, start)
    is_stopped = b" unpacked\n" in paragraph or b" half-installed\n" in paragraph
    return is_stopped and b"\nConfig-Version: " not in paragraph


def _read_paragraph(database: bytes, start: int) -> bytes:
    end = database.find(b"\n\n", start)
    return database[start : end if end >= 0 else len(database)]


def provided_in(database: bytes) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """What packages provide: name -> (package, version) pairs, the version empty if none is
    named.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    head = last = 0
    for match in _PROVIDES.finditer(database):
        before = database.rfind(b"\n\n", last, match.start())
        head = before + 2 if before >= 0 else head
        last = match.start()
        line = database[head : database.index(b"\n", head)]
        owner = line.removeprefix(b"Package: ").decode("utf-8", "replace")
        for one in match[1].decode("utf-8", "replace").split(","):
            if relation := _RELATION.match(one.strip()):
                owners = found.setdefault(relation[1], [])
                if len(owners) < _MOST_OWNERS:
                    owners.append((owner, relation[3] or ""))
    return {name: tuple(pairs) for name, pairs in found.items()}


def unmet_of(packages: Packages, name: str, gone: Container[str] = ()) -> tuple[str, ...]:
    """The dependencies of this package that no installed one meets, were those that are `gone` not
    there.
    """

    def versions_by_name(word: str) -> list[str]:
        return [packages.entries[word][0]] if _is_there(packages, word, gone) else []

    def versions_provided(word: str) -> list[str]:
        return [
            version
            for owner, version in packages.provided.get(word, ())
            if _is_there(packages, owner, gone)
        ]

    left = [one for one in packages.depends[name] if not _is_met(one, versions_by_name)]
    return tuple(one for one in left if not _is_met(one, versions_provided))


def first_of(clause: str) -> tuple[str, str]:
    """What a clause asks for first, as an operand of apt-get: (libnvidia-cfg1, 590.44.01-1ubuntu1),
    the version empty where any would do, or one of several.
    """
    match = _RELATION.match(clause.partition("|")[0].strip())
    return (match[1], match[3] if match[2] == "=" else "") if match else ("", "")


def _is_there(packages: Packages, name: str, gone: Container[str]) -> bool:
    return name not in gone and packages.entries.get(name, ("", ""))[1].endswith(_THERE)


def _is_met(clause: str, versions: Callable[[str], Iterable[str]]) -> bool:
    """`versions`: those in which a name is there; an empty one for what is provided without a
    version.
    """
    return any(_holds_relation(one.strip(), versions) for one in clause.split("|"))


def _holds_relation(relation: str, versions: Callable[[str], Iterable[str]]) -> bool:
    match = _RELATION.match(relation)
    if match is None:
        return True  # of a form that is not known: nothing is claimed
    there = tuple(versions(match[1]))
    if not match[2]:
        return bool(there)
    return any(
        _ORDERS[match[2]](compare_versions(version, match[3])) for version in there if version
    )
