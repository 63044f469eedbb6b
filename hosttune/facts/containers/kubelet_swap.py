"""Whether the kubelet of this host refuses to start while swap is on.

Sources: kubelet(8) of kubernetes.io (`--fail-swap-on`, `--config`, `--config-dir`), kubernetes,
pkg/kubelet/cm/container_manager_linux.go (validateSwapConfiguration: any row of /proc/swaps) and
staging/.../kubelet/config/v1beta1/types.go (failSwapOn: true unless set).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.commands import boot_commands
from hosttune.facts.containers.docker_flags import started_commands
from hosttune.facts.containers.kubernetes import CONFIG
from hosttune.facts.managers import running_services
from hosttune.facts.reading import if_absent, names_in, read_text
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.facts import Facts

UNIT = "kubelet.service"  # k3s, rke2, k0s and the snaps start theirs with --fail-swap-on=false
# YAML or JSON
_KEY = regex(r"(?:^failSwapOn|[{,\s]\"failSwapOn\")[ \t]*:[ \t]*(\w{1,5})", re.MULTILINE)
_SET_OFF = "swapoff"
_JOBS = ("/etc/rc.local", "/etc/crontab", "/var/spool/cron/crontabs/root")
_TRUE, _FALSE = frozenset({"true", "1", "t"}), frozenset({"false", "0", "f"})


@lru_cache(maxsize=1)  # each line of swap asks
def refuses_swap(facts: Facts) -> bool:
    """Whether it starts with the host, and not beside swap. Raises UnknownFact where a setting is
    not known.
    """
    if UNIT not in {*facts.units.enabled, *running_services(facts.reader)} or any(
        _swaps_off(facts)
    ):
        return False
    flags, configs = read_flags(facts)
    flag = (flags["--fail-swap-on"] or "true") if "--fail-swap-on" in flags else ""
    return _is_true(flag or _find_setting(facts, configs) or "true")


def read_flags(facts: Facts) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The flags that kubelet.service gives, of each name the last, and the files of settings in the
    order in which the kubelet reads them. Raises UnknownFact where the files of the unit cannot be
    read.
    """
    flags, configs = {}, [CONFIG]
    for words, _ in started_commands(facts.reader, facts, UNIT):
        for name, value in _parse_flags(words):
            flags[name] = value
            if name == "--config":
                configs[0] = value
            elif name == "--config-dir":
                names = sorted(
                    one for one in names_in(facts.reader, value) if one.endswith(".conf")
                )
                configs += [f"{value}/{one}" for one in names]
    return flags, tuple(configs)


def _parse_flags(words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for number, word in enumerate(words[1:], 2):
        name, equals, value = word.partition("=")
        takes_next = not equals and name != "--fail-swap-on" and number < len(words)
        yield name, words[number] if takes_next else value


def _find_setting(facts: Facts, configs: Iterable[str]) -> str:
    """What the last of its files says that sets it; empty for none."""
    found = [_KEY.findall(if_absent(read_text(facts.reader, path), "")) for path in configs]
    return next((values[-1] for values in reversed(found) if values), "")


def _is_true(word: str) -> bool:
    if word.lower() not in _TRUE | _FALSE:
        message = f"{UNIT} has no failSwapOn that can be read"
        raise UnknownFact(message)
    return word.lower() in _TRUE


def _swaps_off(facts: Facts) -> Iterator[bool]:
    """Whether something of the boot takes swap away: a unit, the kubelet's too, a script that it
    starts, or a job.
    """
    for command in boot_commands(facts.reader, facts, {UNIT, *facts.units.enabled}):
        yield _takes_swap_away(command.text)
    for path in _JOBS:
        yield _takes_swap_away(if_absent(read_text(facts.reader, path), ""))


def _takes_swap_away(commands: str) -> bool:
    return any(
        _SET_OFF in row and not row.lstrip().startswith("#") for row in commands.splitlines()
    )


__all__ = ["CONFIG", "refuses_swap"]
