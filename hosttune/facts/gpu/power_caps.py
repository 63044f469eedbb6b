"""What sets the power limit of GPUs at boot: a unit, a script that a unit starts, a crontab of
root's, rc.local, or the configuration of LACT.

Sources: nvidia-smi(1), -pl and --power-limit; `dcgmi config --set -P` of the DCGM user guide;
systemd.service(5), ExecStart=; crontab(5); power_cap of LACT's configuration
(github.com/ilya-zlobintsev/LACT, docs/CONFIG.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, attempt
from hosttune.facts.commands import StartedText, boot_commands, started_scripts
from hosttune.facts.reading import hint, names_in
from hosttune.facts.storage.ways import Ways
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_CRON = "/etc/cron.d"
_TABLES = ("/etc/crontab", "/var/spool/cron/crontabs/root")
_LACT = "/etc/lact/config.yaml"
_SETS = regex(
    r"\bnvidia-smi [^\n;|&#]{0,200}?(?:-pl|--power-limit)(?:[ =]{1,8}(\d{1,5}))?[^\n;|&#]{0,200}"
    r"|\bdcgmi config [^\n;|&#]{0,200}?(?:-P|--powerlimit)(?:[ =]{1,8}(\d{1,5}))?[^\n;|&#]{0,200}"
)
_OF_SOME = regex(r" (?:-i|--id|-g|--group)[ =]")
_OF_LACT = regex(r"^[ \t]*power_cap: {0,8}(\d{1,5})")


@frozen
class PowerCap(Fact):
    """A place that sets the power limit."""

    place: str  # /etc/systemd/system/gpu-power.service
    watts: int  # 0 if its line does not say, or is for some GPUs only


@frozen
class PowerCaps(Subject):
    """All that is found; what cannot be read is left out."""

    all: tuple[PowerCap, ...] = read_with(
        lambda self: tuple(dict.fromkeys(_find(self.reader, self.facts)))
    )

    @property
    def places(self) -> tuple[str, ...]:
        """The files."""
        return tuple(dict.fromkeys(one.place for one in self.all))

    @property
    def watts(self) -> tuple[int, ...]:
        """What they set, each once; 0 for a place that does not say it of all GPUs."""
        return tuple(dict.fromkeys(one.watts for one in self.all))


def caps_in(content: str) -> tuple[int, ...]:
    """The limits, in watts, that commands of a text set; 0 for one of a variable, or for some GPUs
    only. Comments set none.
    """
    lines = (line for line in content.splitlines() if not line.lstrip().startswith("#"))
    found = (one for line in lines for one in _SETS.finditer(line))
    return tuple(0 if _OF_SOME.search(one[0]) else int(one[1] or one[2] or 0) for one in found)


def _find(reader: Reader, facts: Facts) -> Iterator[PowerCap]:
    for one in (
        *boot_commands(reader, facts, _started_units(facts)),
        *_cron_commands(reader, facts),
    ):
        yield from (PowerCap(one.path, watts) for watts in caps_in(one.text))
    for line in hint(reader, _LACT).splitlines():
        if found := _OF_LACT.match(line):
            yield PowerCap(_LACT, int(found[1]))


def _started_units(facts: Facts) -> frozenset[str]:
    """The services that a boot starts, by themselves or by a timer of their name."""
    enabled = attempt(lambda: facts.units.enabled)
    # What cannot be read is left out: a place that was not found only makes advice less exact.
    names = enabled if isinstance(enabled, frozenset) else frozenset[str]()
    return names | {
        f"{name.removesuffix('.timer')}.service" for name in names if name.endswith(".timer")
    }


def _cron_commands(reader: Reader, facts: Facts) -> Iterator[StartedText]:
    ways = Ways(reader, facts)
    for path in (*_TABLES, *(f"{_CRON}/{name}" for name in names_in(reader, _CRON))):
        rows = (row for row in hint(reader, path).splitlines() if not row.lstrip().startswith("#"))
        table = "\n".join(rows)
        yield StartedText(path, path, 1, table)
        yield from started_scripts(reader, ways, path, table)
