"""The options that docker.service gives dockerd: one that is in daemon.json as well keeps dockerd
from starting.

dockerd(8); the names of keys that differ from those of the flags are in moby's daemon/config.
`runtimes` is the one key that dockerd merges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.reading import if_absent, read_text
from hosttune.facts.shell_words import shell_words
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

UNIT = "docker.service"
_SHORT = {
    "-D": "debug", "-G": "group", "-H": "hosts", "-b": "bridge", "-g": "data-root",
    "-l": "log-level", "-p": "pidfile", "-s": "storage-driver",
}  # fmt: skip
_KEYS = {
    "add-runtime": "runtimes", "authorization-plugin": "authorization-plugins",
    "cdi-spec-dir": "cdi-spec-dirs", "default-address-pool": "default-address-pools",
    "default-ulimit": "default-ulimits", "dns-opt": "dns-opts", "exec-opt": "exec-opts",
    "feature": "features", "graph": "data-root", "host": "hosts",
    "insecure-registry": "insecure-registries", "label": "labels", "log-opt": "log-opts",
    "registry-mirror": "registry-mirrors", "storage-opt": "storage-opts",
}  # fmt: skip
_TABLES = frozenset({"log-opts", "default-ulimits", "features", "runtimes"})
_VARIABLE = regex(r"\$(?:\{(\w+)\}|(\w+))")


def parse_flags(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(key of daemon.json, value) of each flag on a command line of dockerd."""
    listed = list(words)
    for number, word in enumerate(listed):
        following = listed[number + 1] if number + 1 < len(listed) else ""
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            yield (
                _KEYS.get(name[2:], name[2:]),
                # Whether a flag takes a value is not known here. What begins with a dash behind it
                # is the next flag, so that this one is a switch.
                value if equals else ("" if following.startswith("-") else following),
            )
        elif word[:2] in _SHORT:
            yield (
                _SHORT[word[:2]],
                word[2:].lstrip("=") or ("" if following.startswith("-") else following),
            )


def expand_words(words: Iterable[str], variables: Mapping[str, str]) -> Iterator[str]:
    """The words after systemd has put in its variables: `$X` alone is split, `${X}` is one word;
    unset is nothing.
    """
    for word in words:
        match = _VARIABLE.fullmatch(word)
        if match and match[2]:
            yield from variables.get(match[2], "").split()
        else:
            yield _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], ""), word)


def given_by_unit(reader: Reader, facts: Facts) -> tuple[tuple[str, str, str], ...]:
    """(key with dots, value, path) of each option on the command line of docker.service, as it is
    started; empty without such a unit. Raises UnknownFact where its files cannot be read.
    """
    return tuple(
        (*parse_member(key, value), path)
        for words, path in started_commands(reader, facts, UNIT)
        for key, value in parse_flags(words[1:])
    )


def started_commands(
    reader: Reader, facts: Facts, unit: str, key: str = "ExecStart"
) -> tuple[tuple[tuple[str, ...], str], ...]:
    """(words, path of the file that gives it) of each command of a unit, with its variables put in.
    Raises UnknownFact where its files cannot be read.
    """
    standing = facts.unit_settings[f"{unit}/Service/{key}"].standing
    variables = (
        _read_variables(reader, facts, unit) if any("$" in one.value for one in standing) else {}
    )
    return tuple(
        (tuple(expand_words(shell_words(one.value), variables)), one.path) for one in standing
    )


def _read_variables(reader: Reader, facts: Facts, unit: str) -> dict[str, str]:
    """What the unit sets; a file overrides Environment= (systemd.exec(5))."""
    found: dict[str, str] = {}
    for setting in facts.unit_settings[f"{unit}/Service/Environment"].standing:
        found.update(_parse_assignments(shell_words(setting.value)))
    # Files come second, as systemd reads them when the process starts (systemd.exec(5)).
    for setting in facts.unit_settings[f"{unit}/Service/EnvironmentFile"].standing:
        rows = if_absent(read_text(reader, setting.value.removeprefix("-")), "").splitlines()
        found.update(_parse_assignments(word for row in rows for word in shell_words(row)))
    return found


def parse_member(key: str, value: str) -> tuple[str, str]:
    """(key with a dot between levels, value) of an option: log-opts, `max-size=1m` is
    log-opts.max-size, 1m.
    """
    if key not in _TABLES:
        return key, value or "true"
    name, _, rest = value.partition("=")
    # `--feature containerd-snapshotter` switches it on (moby, opts.NewNamedSetOpts).
    return f"{key}.{name}", rest or ("true" if key == "features" else "")


def _parse_assignments(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    return (
        (name, value) for name, equals, value in (word.partition("=") for word in words) if equals
    )
