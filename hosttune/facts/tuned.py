"""What the active TuneD profile sets (tuned-main.conf(5), tuned.conf(5)), from its files: no program is started."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.reading import line, text
from hosttune.frozen import frozen
from hosttune.values import Answer, Unreadable

if TYPE_CHECKING:
    from hosttune.host.door import Reader

# 2.23 moved the profiles into folders of their own; an administrator's come first.
_FOLDERS = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
_SEPARATORS = re.compile(r"[\s,;]+")


@frozen
class Profile:
    """One tuned.conf: what it includes, and the sysctls it sets."""

    includes: tuple[str, ...]
    sysctls: tuple[str, ...]


def parse_profile(content: str) -> Profile:
    """Sections are named by plugin; `type=` lets a section have a name of its own."""
    sections: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    for row in map(str.strip, content.splitlines()):
        if row.startswith("[") and row.endswith("]"):
            section = sections.setdefault(row[1:-1].strip(), {})
        elif row and not row.startswith(("#", ";")):
            key, equals, value = row.partition("=")
            if equals:
                section[key.strip()] = value.strip()
    sysctls: list[str] = []
    for name, values in sections.items():
        plugin = values.get("type", name)
        if plugin == "sysctl":
            sysctls.extend(dotted(key) for key in values if key not in {"type", "replace", "priority", "enabled"})
        elif plugin == "vm":  # the vm plugin sets the dirty_ family under /proc/sys/vm
            sysctls.extend(f"vm.{key}" for key in values if key.startswith("dirty_"))
    includes = sections.get("main", {}).get("include", "")
    return Profile(tuple(name.lstrip("-") for name in _SEPARATORS.split(includes) if name), tuple(sysctls))


def dotted(key: str) -> str:
    """A sysctl key as sysctl(8) prints it: where the first separator is a slash, dots and slashes change places."""
    slash, dot = key.find("/"), key.find(".")
    if slash < 0 or 0 <= dot < slash:
        return key
    return key.translate(str.maketrans("/.", "./"))


def active_profile(reader: Reader) -> Answer[str]:
    """The name of the active profile; several names, parted by a blank, are merged profiles."""
    return line(reader, "/etc/tuned/active_profile")


def sysctls_of(reader: Reader, names: str) -> tuple[str, ...] | Unreadable:
    """The keys that these profiles and all that they include set, sorted; Unreadable when one cannot be found."""
    keys: set[str] = set()
    seen: set[str] = set()
    waiting = names.split()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        content = _content(reader, name)
        if isinstance(content, Unreadable):
            return content
        profile = parse_profile(content)
        keys.update(profile.sysctls)
        waiting.extend(profile.includes)
    return tuple(sorted(keys))


def _content(reader: Reader, name: str) -> str | Unreadable:
    for folder in _FOLDERS:
        content = text(reader, f"{folder}/{name}/tuned.conf")
        if isinstance(content, (str, Unreadable)):
            return content
    return Unreadable(f"the TuneD profile {name} has no tuned.conf")
