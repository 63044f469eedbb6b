"""What commands set at boot: those of enabled units and rc.local, and of the scripts that they
start.

A vendor's package or a site often keeps a kernel value this way (nv-cpu-governor of DGX OS calls
cpupower). Looked for are `sysctl -w KEY=VALUE`, `echo VALUE > /sys/...` and into a variable of a
loop over such files, `cpupower frequency-set -g` and `cpufreq-set -g`, in the Exec lines of
services and, one level down, in the scripts that they start. Sources: systemd.service(5),
sysctl(8), cpupower-frequency-set(1), systemd-rc-local-generator(8), Debian's cpufrequtils.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact
from hosttune.facts.reading import hint
from hosttune.facts.services.systemd_config import parse as section_of
from hosttune.facts.services.unit_files import UnitFiles, parse_assignments
from hosttune.facts.storage.ways import Ways
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Stat
from hosttune.lines import LineNumbers
from hosttune.regex import regex

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

RC_LOCAL = "/etc/rc.local"
CPUFREQUTILS = "/etc/default/cpufrequtils"
SYSCTL_CONF = "/etc/sysctl.conf"
_GOVERNOR = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
_EXEC = frozenset({"ExecStartPre", "ExecStart", "ExecStartPost"})
_SCRIPT = regex(r"(?:^|[\s\"'])(/(?:etc|opt|usr|root|lib|srv|var)/[\w./@+-]+)")
_SYSCTL = regex(r"\bsysctl\s+(?:--?\w+\s+){0,9}[\"']?([a-z][\w./-]*)\s*=\s*[\"']?([^\s\"';|&]+)")
_LOAD = regex(
    r"\bsysctl\s+(?:-[-\w]{1,20}\s+){0,9}(?:(--system\b)|(?:-(?:[a-oq-z]{0,5})[pf]"
    r"|--load)(?:[\s=]*([/\"'][^\s;|&>]*))?)"
)
_ECHO = regex(
    r"\becho\s+(?:-n\s+)?[\"']?([^\s\"';|&>]+)[\"']?\s*(?:>"
    r"|\|\s*(?:sudo\s+)?tee(?:\s+-a)?)\s*[\"']?(/(?:proc/)?sys/[^\s\"';|&]+)"
)
_LOOP = regex(r"\bfor\s+(\w+)\s+in\s+(/sys/[^\s;]+)(?:\s*;)?\s+do\b")
_DONE = regex(r"\bdone\b")
_INTO = regex(
    r"\becho\s+(?:-n\s+)?[\"']?([^\s\"';|&>]+)[\"']?\s*(?:>|\|\s*tee)\s*[\"']?\$\{?(\w+)\}?"
)
_CPUPOWER = regex(
    r"\b(?:cpupower\b.{0,200}?\bfrequency-set|cpufreq-set)\b[^;|&\n]{0,200}?(?:-g"
    r"|--governor)[\s=]*(\w+)"
)
# bytes; a larger program is no script of this kind, and is not read: there are some of 50 MB
_LONGEST = 64 << 10


@frozen
class BootValue(Fact):
    """One kernel value that a command sets at boot."""

    path: str  # below /proc/sys or /sys; may hold wildcards
    value: str  # what the command sets it to
    place: str  # nv-cpu-governor.service (/usr/lib/systemd/system/nv-cpu-governor.service:9)


@frozen
class Commands(Subject):
    """All of them. What could not be read is left out: this only tells who else sets a value."""

    @fact
    def all(self) -> tuple[BootValue, ...]:
        return tuple(one for one in self._found if one.path != SYSCTL_CONF)

    @fact
    def sysctl_conf_loader(self) -> str:
        """The first that reads /etc/sysctl.conf (sysctl -p, sysctl --system); empty for none."""
        return next((one.place for one in self._found if one.path == SYSCTL_CONF), "")

    @fact
    def _found(self) -> tuple[BootValue, ...]:
        return tuple(_read_values(self.reader, self.facts))


def values_in(content: str) -> Iterator[tuple[int, str, str]]:
    """(line from 1, path, value) of what a script, or a command line, sets."""
    # Commented rows become empty ones and are not dropped, so that the numbers of lines stay those
    # of the file.
    plain = "\n".join("" if row.lstrip().startswith("#") else row for row in content.split("\n"))
    line = LineNumbers(plain).at
    for found in _SYSCTL.finditer(plain):
        yield line(found.start()), "/proc/sys/" + found[1].replace(".", "/"), found[2]
    for found in _ECHO.finditer(plain):
        yield line(found.start()), found[2], found[1]
    for loop, end in _loops_in(plain):
        into = (one for one in _INTO.finditer(plain, loop.end(), end) if one[2] == loop[1])
        if inner := next(into, None):
            yield line(inner.start()), loop[2], inner[1]
    for found in _CPUPOWER.finditer(plain):
        yield line(found.start()), _GOVERNOR, found[1]


def loads_of_sysctl_conf(content: str) -> Iterator[int]:
    """The lines from 1 in which a script, or a command line, has procps read /etc/sysctl.conf."""
    for number, row in enumerate(content.split("\n"), 1):
        found = None if row.lstrip().startswith("#") else _LOAD.search(row)
        if found and (found[1] or (found[2] or "").strip("\"'") in {"", SYSCTL_CONF}):
            yield number


def _loops_in(plain: str) -> Iterator[tuple[re.Match[str], int]]:
    """The heads of loops, and where each body ends. The search goes on behind a body, so that no
    text is read twice.
    """
    at = 0
    while (loop := _LOOP.search(plain, at)) and (done := _DONE.search(plain, loop.end())):
        yield loop, done.start()
        at = done.end()


def _read_values(reader: Reader, facts: Facts) -> Iterator[BootValue]:
    for one in boot_commands(reader, facts, facts.units.enabled):
        for number, target, value in values_in(one.text):
            yield BootValue(target, value, one.place(number))
        for number in loads_of_sysctl_conf(one.text):
            yield BootValue(SYSCTL_CONF, "", one.place(number))
    governor = (
        section_of("[_]\n" + hint(reader, CPUFREQUTILS), "_").get("GOVERNOR", "").strip("\"'")
    )
    if governor and isinstance(reader.stat("/etc/init.d/cpufrequtils"), Stat):
        yield BootValue(_GOVERNOR, governor, CPUFREQUTILS)


@frozen
class StartedText:
    """A command line, or a script, that something starts."""

    name: str  # of the unit or file that starts it: nv-cpu-governor.service, rc.local
    path: str  # where the text is
    line: int  # of its beginning, from 1
    text: str

    def place(self, number: int = 1) -> str:
        """A line of it: nv-cpu-governor.service
        (/usr/lib/systemd/system/nv-cpu-governor.service:9).
        """
        return f"{self.name} ({self.path}:{self.line + number - 1})"


def boot_commands(reader: Reader, facts: Facts, units: Iterable[str]) -> Iterator[StartedText]:
    """What these services and rc.local start, one level down, without what cannot be read or waits
    for a server.
    """
    files, ways = UnitFiles(reader), Ways(reader, facts)
    for name in sorted(units):
        if name.endswith(".service") and (path := files.path(name)):
            for place in (path, *files.drop_ins(name)):
                for number, _, key, value in parse_assignments(hint(reader, place)):
                    if key in _EXEC:
                        command = value.lstrip("-@:+!")
                        yield StartedText(name, place, number, command)
                        yield from started_scripts(reader, ways, name, command)
    if _is_executable(reader, RC_LOCAL):
        yield from read_script(reader, ways, "rc.local", RC_LOCAL)


def started_scripts(reader: Reader, ways: Ways, name: str, commands: str) -> Iterator[StartedText]:
    """The scripts whose paths these commands hold."""
    for script in dict.fromkeys(_SCRIPT.findall(commands)):
        yield from read_script(reader, ways, name, script)


def read_script(reader: Reader, ways: Ways, name: str, path: str) -> Iterator[StartedText]:
    """It, if it is a script that can be read without a wait; else nothing."""
    # A script on a server that does not answer would hold the look for ever, and a check with it.
    if ways.way(path)[1]:
        return
    stat = reader.stat(path)
    content = "" if isinstance(stat, Stat) and stat.size > _LONGEST else hint(reader, path)
    if content.startswith("#!") and "\0" not in content:
        yield StartedText(name, path, 1, content)


def _is_executable(reader: Reader, path: str) -> bool:
    stat = reader.stat(path)
    return isinstance(stat, Stat) and bool(stat.mode & 0o111)
