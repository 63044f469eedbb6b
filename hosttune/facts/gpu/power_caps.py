"""What sets the power limit of GPUs at boot: a unit, a script that a unit starts, a crontab of root's, rc.local, or the
configuration of LACT.

Sources: nvidia-smi(1), -pl and --power-limit; `dcgmi config --set -P` of the DCGM user guide; systemd.service(5),
ExecStart=; crontab(5); power_cap of LACT's configuration (github.com/ilya-zlobintsev/LACT, docs/CONFIG.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.reading import hint, names_in
from hosttune.facts.services.unit_files import ADMIN, assignments
from hosttune.frozen import frozen
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_UNITS = (ADMIN, "/usr/local/lib/systemd/system")
_CRON = "/etc/cron.d"
_TABLES = ("/etc/crontab", "/var/spool/cron/crontabs/root", "/etc/rc.local")
_LACT = "/etc/lact/config.yaml"
_SETS = regex(
    r"\bnvidia-smi [^\n;|&#]{0,200}?(?:-pl|--power-limit)(?:[ =]{1,8}(\d{1,5}))?"
    r"|\bdcgmi config [^\n;|&#]{0,200}?(?:-P|--powerlimit)(?:[ =]{1,8}(\d{1,5}))?"
)
_OF_LACT = regex(r"^[ \t]*power_cap: {0,8}(\d{1,5})")
_SCRIPT = regex(r"(?<![^\s\"'=@+!:-])/(?:usr/local|opt|etc|root|srv)/[\w./-]{1,200}")
_MOST_UNITS = 2000
_MOST_SCRIPTS = 64


@frozen
class PowerCap(Fact):
    """A place that sets the power limit."""

    place: str  # /etc/systemd/system/gpu-power.service
    watts: int  # 0 where its line does not say


@frozen
class PowerCaps(Fact):
    """All that is found; what cannot be read is left out."""

    all: tuple[PowerCap, ...]

    @property
    def places(self) -> tuple[str, ...]:
        """The files."""
        return tuple(dict.fromkeys(one.place for one in self.all))

    @property
    def watts(self) -> tuple[int, ...]:
        """What they set, each once; 0 for a place that does not say."""
        return tuple(dict.fromkeys(one.watts for one in self.all))


def caps_in(content: str) -> tuple[int, ...]:
    """The limits, in watts, that commands of a text set; 0 for one that a variable holds. Comments set none."""
    lines = (line for line in content.splitlines() if not line.lstrip().startswith("#"))
    return tuple(int(found[1] or found[2] or 0) for line in lines for found in _SETS.finditer(line))


def collect(reader: Reader, facts: Facts) -> PowerCaps:  # noqa: ARG001 - the interface of all subjects
    return PowerCaps(all=lazy(lambda: tuple(dict.fromkeys(_find(reader)))))


def _find(reader: Reader) -> Iterator[PowerCap]:
    scripts: dict[str, None] = {}
    for folder in _UNITS:
        for name in [one for one in names_in(reader, folder) if one.endswith(".service")][:_MOST_UNITS]:
            path = f"{folder}/{name}"
            for _, _, key, command in assignments(hint(reader, path)):
                if key.startswith("Exec"):
                    yield from (PowerCap(path, watts) for watts in caps_in(command))
                    scripts |= dict.fromkeys(_SCRIPT.findall(command))
    for path in (*_TABLES, *(f"{_CRON}/{name}" for name in names_in(reader, _CRON))):
        content = hint(reader, path)
        yield from (PowerCap(path, watts) for watts in caps_in(content))
        lines = [line for line in content.splitlines() if not line.lstrip().startswith("#")]
        scripts |= dict.fromkeys(found for line in lines for found in _SCRIPT.findall(line))
    for path in list(scripts)[:_MOST_SCRIPTS]:
        yield from (PowerCap(path, watts) for watts in caps_in(hint(reader, path)))
    for line in hint(reader, _LACT).splitlines():
        if found := _OF_LACT.match(line):
            yield PowerCap(_LACT, int(found[1]))
