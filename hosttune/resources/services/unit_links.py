"""What `systemctl enable` and `disable` do in the files of an image, by hosttune's own walk:
systemctl(1), and systemd.unit(5) ("[INSTALL] SECTION OPTIONS").

`systemctl --root=IMAGE` follows the links of the image on this machine (systemd 252):
/etc/systemd/system can be one that leads out of it. And a name in [Install] is a file name that the
image chooses, so it has to look like a unit's.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from hosttune.errors import Refused
from hosttune.facts.base import UnknownFact
from hosttune.facts.services.unit_files import (
    LINK_FOLDERS,
    UnitFiles,
    parse_assignments,
    template_of,
)
from hosttune.host.known.unit_folders import ADMIN
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hosttune.host.door import Reader, Writer

_FOLDERS = {"WantedBy": ".wants", "RequiredBy": ".requires", "UpheldBy": ".upholds"}
# systemd.unit(5): "[a-zA-Z0-9:_.\\-]+", "@" and one of the eleven types; no slash, and none that
# begins with a dot.
_NAME = regex(
    r"[a-zA-Z0-9:_\\@-][a-zA-Z0-9:_.\\@-]{0,254}\."
    r"(?:service|socket|device|mount|automount|swap|target|path|timer|slice|scope)"
)
_SPECIFIER = regex(r"%(.)")
_MOST_UNITS = 32  # that Also= may name, one by the other


def enable_in_files(writer: Writer, name: str) -> None:
    """Make the links that [Install] of this unit asks for, and of those that it names by Also=.
    What is there already stays. Raises Refused, with nothing made, for what systemd would not make,
    and where something else is there.
    """
    links = _links_of(writer, name)
    if not links:
        raise Refused(f"{name} cannot be enabled: its [Install] section asks for no link")
    missing = {}
    for path, target in links.items():
        found = writer.link(path)
        if not isinstance(found, str) and writer.stat(path, follow=False) is ABSENT:
            missing[path] = target
        elif not isinstance(found, str) or _unit_of(found) != _unit_of(target):
            raise Refused(
                f"{name} cannot be enabled: {path} is there already, and does not lead to {target}"
            )
    # After all of them were looked at, so that a refusal leaves no half of the links behind.
    for path, target in missing.items():
        writer.make_link(path, target)


def disable_in_files(writer: Writer, name: str) -> None:
    """Remove all links to this unit, and to those that it names by Also=, from
    /etc/systemd/system.
    """
    for path, target in tuple(_links_to(writer, _units_of(writer, name))):
        writer.remove_link(path, expected=target)


def _links_to(reader: Reader, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """(path, target) of the links, below /etc/systemd/system, whose name or whose target is one of
    these units.
    """
    entries = reader.list(ADMIN)
    for entry in entries if isinstance(entries, tuple) else ():
        place = f"{ADMIN}/{entry}"
        inner = reader.list(place) if entry.endswith(LINK_FOLDERS) else ()
        for path in (
            place,
            *(f"{place}/{one}" for one in (inner if isinstance(inner, tuple) else ())),
        ):
            target = reader.link(path)
            # A link to /dev/null masks a unit. It is an administrator's decision, and `systemctl
            # disable` leaves it, too.
            if not isinstance(target, str) or target == "/dev/null":
                continue
            own = posixpath.basename(path)
            if {own, template_of(own), _unit_of(target)} & names:
                yield path, target


def _unit_of(target: str) -> str:
    return posixpath.basename(target)


def _links_of(reader: Reader, name: str) -> Mapping[str, str]:
    """Path to target of all links that enabling a unit makes."""
    links: dict[str, str] = {}
    for one in _units_of(reader, name):
        files, keys = _install(reader, one)
        path = files.path(one)
        default = next(
            (_expand_specifiers(word, one) for word in keys.get("DefaultInstance", [])[-1:]), ""
        )
        prefix, at, rest = one.partition("@")
        is_template = bool(at) and rest.startswith(".")
        enabled = f"{prefix}@{default}{rest}" if is_template and default else one
        for key, ending in _FOLDERS.items():
            for target in keys.get(key, []):
                if is_template and not default:
                    raise Refused(
                        f"{one} cannot be enabled without an instance: it has no DefaultInstance="
                    )
                wanting = _require_unit_name(_expand_specifiers(target, enabled), key, one)
                links[f"{ADMIN}/{wanting}{ending}/{_require_unit_name(enabled, key, one)}"] = path
        for alias in keys.get("Alias", []):
            other = _require_unit_name(_expand_specifiers(alias, enabled), "Alias", one)
            if other.rpartition(".")[2] != one.rpartition(".")[2]:
                raise Refused(
                    f"{one} cannot be enabled: its alias {other} is a unit of another type"
                )
            if other != one:
                links[f"{ADMIN}/{other}"] = path
    return links


def _units_of(reader: Reader, name: str) -> frozenset[str]:
    """The unit behind a name, and all that Also= names, one by the other."""
    found: set[str] = set()
    todo = [name]
    while todo:
        files, keys = _install(reader, todo[-1])
        real = files.state(todo.pop())[0]
        if real in found:
            continue
        found.add(real)
        if len(found) > _MOST_UNITS:
            raise Refused(f"{name} cannot be enabled: Also= names more than {_MOST_UNITS} units")
        todo += [
            _require_unit_name(_expand_specifiers(word, real), "Also", real)
            for word in keys.get("Also", [])
        ]
    return frozenset(found)


def _install(reader: Reader, name: str) -> tuple[UnitFiles, Mapping[str, list[str]]]:
    """The words of each key of [Install], in the file of a unit and its drop-ins; an empty value
    resets a key.
    """
    files = UnitFiles(reader)
    keys: dict[str, list[str]] = {}
    try:
        real, path, _ = files.state(name)
        if not path:
            raise Refused(f"{name} cannot be enabled: unit not found")
        for place in (path, *files.drop_ins(real)):
            for _, section, key, value in parse_assignments(files.content(place)):
                if section == "Install":
                    words = keys.setdefault(key, [])
                    words += value.split()
                    if not value:
                        words.clear()
    except UnknownFact as unknown:
        raise Refused(f"{name} cannot be enabled: {unknown.reason}") from None
    return files, keys


def _require_unit_name(word: str, key: str, unit: str) -> str:
    if not _NAME.fullmatch(word):
        raise Refused(
            f"{unit} cannot be enabled: {key}= holds {word!r}, which is no name of a unit"
        )
    return word


def _expand_specifiers(word: str, name: str) -> str:
    """A word of [Install] with its specifiers, of which only those of the name are known in an
    image.
    """
    stem, _, _ = name.rpartition(".")
    prefix, _, instance = stem.partition("@")
    known = {
        "n": name,
        "N": stem,
        "p": prefix,
        "i": instance,
        "j": prefix.rpartition("-")[2],
        "%": "%",
    }

    def text(letter: str) -> str:
        if letter not in known:
            raise Refused(
                f"{name} cannot be enabled: %{letter} in [Install] is known only on a running host"
            )
        return known[letter]

    return _SPECIFIER.sub(lambda found: text(found[1]), word)
