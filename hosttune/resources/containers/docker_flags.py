"""The options that docker.service gives dockerd: one that stands in daemon.json as well keeps dockerd from starting.

dockerd(8); the names of keys that differ from those of the flags are in moby's daemon/config. `runtimes` is the one key
that dockerd merges.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hosttune.facts.services.unit_files import UnitFiles
from hosttune.regex import regex
from hosttune.resources.read_only import ReadOnly
from hosttune.resources.services.unit_dropin import effective, settings_of
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.host.door import Reader
    from hosttune.values import Value

_SHORT = {
    "-D": "debug", "-G": "group", "-H": "hosts", "-b": "bridge", "-g": "data-root", "-l": "log-level", "-p": "pidfile",
    "-s": "storage-driver",
}  # fmt: skip
_KEYS = {
    "add-runtime": "runtimes", "authorization-plugin": "authorization-plugins", "cdi-spec-dir": "cdi-spec-dirs",
    "default-address-pool": "default-address-pools", "default-ulimit": "default-ulimits", "dns-opt": "dns-opts",
    "exec-opt": "exec-opts", "feature": "features", "graph": "data-root", "host": "hosts",
    "insecure-registry": "insecure-registries", "label": "labels", "log-opt": "log-opts",
    "registry-mirror": "registry-mirrors", "storage-opt": "storage-opts",
}  # fmt: skip
_VARIABLE = regex(r"\$(?:\{(\w+)\}|(\w+))")


def flags(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(key of daemon.json, value) of each flag on a command line of dockerd."""
    listed = list(words)
    for number, word in enumerate(listed):
        following = listed[number + 1] if number + 1 < len(listed) else ""
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            yield _KEYS.get(name[2:], name[2:]), value if equals else ("" if following.startswith("-") else following)
        elif word[:2] in _SHORT:
            yield _SHORT[word[:2]], word[2:].lstrip("=") or following


def expanded(words: Iterable[str], variables: Mapping[str, str]) -> Iterator[str]:
    """The words after systemd has put in its variables: `$X` alone is split, `${X}` is one word; unset is nothing."""
    for word in words:
        match = _VARIABLE.fullmatch(word)
        if match and match[2]:
            yield from variables.get(match[2], "").split()
        else:
            yield _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], ""), word)


class DockerFlagsAddress(ReadOnly):
    """`docker-flags:NAME.service`: "KEY<tab>VALUE<tab>FILE" of each option that its command line gives; ABSENT without
    unit file.
    """

    kind = "docker-flags"

    def read(self, reader: Reader, name: str) -> Value:
        units = UnitFiles(reader)
        real, fragment, _ = units.state(name)
        if not fragment:
            return units.problem or ABSENT
        places = (fragment, *units.drop_ins(real))
        rows = [
            f"{place}\t{line}" for place in places for line in settings_of(units.content(place), "Service", "ExecStart")
        ]
        variables: dict[str, str] = {}
        for place in places:
            for line in settings_of(units.content(place), "Service", "Environment"):
                variables.update(_assignments(_split(line)))
            for line in settings_of(units.content(place), "Service", "EnvironmentFile"):
                content = reader.read(line.removeprefix("-"))
                if isinstance(content, Unreadable):
                    return content
                text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
                variables.update(_assignments(word for row in text.splitlines() for word in _split(row)))
        found = (
            f"{key}\t{value}\t{place}"
            for place, command in effective(rows)
            for key, value in flags(expanded(_split(command)[1:], variables))
        )
        return units.problem or tuple(found)


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def _assignments(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, equals, value in (word.partition("=") for word in words) if equals)


WISHES = ()
ADDRESSES = (DockerFlagsAddress(),)
