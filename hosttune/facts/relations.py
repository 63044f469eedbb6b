"""Dependencies of installed packages, as dpkg's status file has them, and which of them nothing installed meets.

Sources: deb-control(5), Depends, Pre-Depends and Provides; Debian's policy, chapter 7. What apt would do about them is
apt's own answer (`apt-get check` takes its lock, so it is not asked for a look).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.versions import compare_versions
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_FIELD = regex(rb"^(?:Pre-)?Depends: (.*)$")
_RELATION = regex(r"([^\s(:]+)(?::\S+)?\s*(?:\((<<|<=|=|>=|>>)\s*([^\s)]+)\))?")
_PROVIDES = regex(rb"^Provides: (.*)$", re.MULTILINE)
_ORDERS: Mapping[str, Callable[[int], bool]] = {
    "<<": lambda order: order < 0, "<=": lambda order: order <= 0, "=": lambda order: order == 0,
    ">=": lambda order: order >= 0, ">>": lambda order: order > 0,
}  # fmt: skip
# An unpacked package counts for apt, which goes on with it.
_THERE = (" installed", " triggers-awaited", " triggers-pending", " unpacked", " half-configured")


def unmet_of(database: bytes, entries: Mapping[str, tuple[str, str]], name: str) -> tuple[str, ...]:
    """The dependencies of this package that no installed one meets, each as it is written: libnvidia-cfg1 (= 590.44).
    `entries`: as `Packages.entries`."""
    found = [
        text
        for line in _paragraph(database, name).splitlines()
        if (match := _FIELD.match(line))
        for one in match[1].decode("utf-8", "replace").split(",")
        if (text := one.strip()) and not _is_met(text, lambda word: _installed(word, entries))
    ]
    if found:  # few packages provide others, and the search for them is the slow part
        provided = _provided(database, entries)
        found = [one for one in found if not _is_met(one, lambda word: provided.get(word, ()))]
    return tuple(found)


def _paragraph(database: bytes, name: str) -> bytes:
    head = f"Package: {name}\n".encode()
    start = 0 if database.startswith(head) else database.find(b"\n" + head) + 1
    if not start and not database.startswith(head):
        return b""
    end = database.find(b"\n\n", start)
    return database[start : end if end >= 0 else len(database)]


def _installed(name: str, entries: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    version, status = entries.get(name, ("", ""))
    return (version,) if status.endswith(_THERE) else ()


def _is_met(clause: str, versions: Callable[[str], Iterable[str]]) -> bool:
    """`versions`: those in which a name is there; an empty one for what is provided without a version."""
    return any(_holds(one.strip(), versions) for one in clause.split("|"))


def _holds(relation: str, versions: Callable[[str], Iterable[str]]) -> bool:
    match = _RELATION.match(relation)
    if match is None:
        return True  # of a form that is not known: nothing is claimed
    there = tuple(versions(match[1]))
    if not match[2]:
        return bool(there)
    orders = [compare_versions(version, match[3]) for version in there if version]
    return any(_ORDERS[match[2]](order) for order in orders)


def _provided(database: bytes, entries: Mapping[str, tuple[str, str]]) -> Mapping[str, list[str]]:
    """What installed packages provide, and in which versions."""
    found: dict[str, list[str]] = {}
    for match in _PROVIDES.finditer(database):
        head = database.rfind(b"\n\n", 0, match.start())
        first = database[head + 2 if head >= 0 else 0 : database.index(b"\n", max(head + 2, 0))]
        if _installed(first.removeprefix(b"Package: ").decode("utf-8", "replace"), entries):
            for one in match[1].decode("utf-8", "replace").split(","):
                if relation := _RELATION.match(one.strip()):
                    found.setdefault(relation[1], []).append(relation[3] or "")
    return found
