"""Who sets a kernel value below /sys at the next boot: the kernel command line, udev rules,
tmpfiles.d, sysfsutils: `sysfs_at_boot["/sys/kernel/mm/transparent_hugepage/enabled"].settings`.

Sources: tmpfiles.d(5) and systemd-tmpfiles (`w` lines are all applied in the order of their files,
but of two that spell the same path the first counts alone), udev(7), kernel-parameters.txt,
Debian's /etc/init.d/sysfsutils.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy
from hosttune.facts.globs import fits_glob
from hosttune.facts.kernel.kernel import kernel_words
from hosttune.facts.lookups import Lookup
from hosttune.facts.placed import Placed
from hosttune.facts.reading import drop_in_texts, read_texts
from hosttune.facts.subject import Subject, fact
from hosttune.facts.sysfs import fits
from hosttune.frozen import frozen
from hosttune.host.reading.effort import EFFORT
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.host.door import Reader

SOURCES = ("command-line", "udev", "tmpfiles", "sysfsutils")  # in the order in which they act
_ROOTS = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
_WORD = regex(r'"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|(\S+)')
_PART = regex(r'(?<!\w)(\w+(?:\{[^{}]*\})?)\s*(==|!=|:=|\+=|-=|=)\s*e?"((?:[^"\\]|\\.)*)"\s*,?')
_DEVICE = (
    regex(r"/sys/(?:class/)?(?P<subsystem>block)/(?P<device>[^/]+)/(?P<attribute>.+)"),
    regex(r"/sys/class/(?P<subsystem>[^/]+)/(?P<device>[^/]+)/(?P<attribute>.+)"),
    regex(r"/sys/bus/(?P<subsystem>[^/]+)/devices/(?P<device>[^/]+)/(?P<attribute>.+)"),
    regex(
        r"/sys/devices/system/(?P<subsystem>cpu)/(?P<device>cpu(?!freq"
        r"|idle)[^/]+)/(?P<attribute>.+)"
    ),
)
_PARAMETER = regex(r"/sys/module/([^/]+)/parameters/([^/]+)")
_ARGUMENTS = {
    "/sys/kernel/mm/transparent_hugepage/enabled": "transparent_hugepage",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled": "transparent_hugepage_shmem",
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor": "cpufreq.default_governor",
}


@frozen
class Device:
    """A file below /sys as udev names it."""

    subsystem: str
    device: str  # its kernel name, or a pattern
    attribute: str


@frozen
class Setter(Fact):
    """One place that sets a value at boot."""

    given: Placed
    source: str  # command-line, udev, tmpfiles, sysfsutils
    # the path as it is spelled there (tmpfiles), or the kernel's name of the device (udev)
    pattern: str = ""
    # what it depends on besides the device's name, so that perhaps it does not apply (udev)
    condition: str = ""

    @property
    def is_conditional(self) -> bool:
        """Whether it depends on more than the device's name."""
        return bool(self.condition)


@frozen
class FileAtBoot(Fact):
    """One file below /sys at the next boot."""

    path: str  # the file below /sys
    settings: tuple[Setter, ...]  # all that set it, in the order in which they act


@frozen
class SysfsAtBoot(Subject):
    """`sysfs_at_boot["/sys/..."]`, for every file; only what was asked for is kept."""

    @fact
    def entries(self) -> Mapping[str, FileAtBoot]:
        return Lookup(lambda path: FileAtBoot(path, lazy(self._settings, path)))

    @fact
    def _written(self) -> _Written:
        return _read_written(self.reader)

    def _settings(self, path: str) -> tuple[Setter, ...]:
        if fault := SysfsAtBoot.name_fault(path):
            raise UnknownFact(fault[0])
        return tuple(_find_setters(path, self._written))

    def __getitem__(self, path: str) -> FileAtBoot:
        return self.entries[path]

    @staticmethod
    def name_fault(path: str) -> tuple[str, str] | None:
        """What is wrong with a path as a rule writes it, and the way out."""
        return (
            None
            if path.startswith("/sys/")
            else (f"{path!r} is no path below /sys", "write all of it")
        )


def device_of(path: str) -> Device | None:
    """The device and attribute that a path means; None where udev knows no device for it."""
    match = next((found for pattern in _DEVICE if (found := pattern.fullmatch(path))), None)
    return Device(match["subsystem"], match["device"], match["attribute"]) if match else None


def tmpfiles_writes(content: str) -> tuple[tuple[int, str, str, bool], ...]:
    """(line, path, value, whether it adds to others) of the `w` lines of one tmpfiles.d file. The
    value is the rest of the line behind the sixth field, as it is there; `%%` is a percent sign.
    """
    found = []
    for number, row in enumerate(content.splitlines(), 1):
        fields = list(_WORD.finditer(row))
        words = [
            next((part for part in match.groups() if part is not None), "") for match in fields
        ]
        if len(words) < 7 or not words[0].startswith("w") or row.lstrip().startswith("#"):
            continue
        value = " ".join(row[fields[6].start() :].split()).replace("%%", "%")
        found.append((number, words[1].replace("%%", "%"), value, "+" in words[0]))
    return tuple(found)


def udev_writes(content: str) -> tuple[tuple[int, dict[str, str], str, str], ...]:
    """(line, the names it must match, attribute, value) of every assignment to ATTR{...} in one
    udev rules file. Under `?` in the names is what else it depends on, as it is written.
    """
    found = []
    jumps = False
    for number, row in _udev_rows(content):
        matches: dict[str, str] = {"?": "GOTO"} if jumps else {}
        assigned = []
        for key, operator, value in (match.groups() for match in _PART.finditer(row)):
            if key.startswith("ATTR{") and operator in {"=", ":="}:
                assigned.append((key[5:-1], value))
            elif operator == "==" and key in {"KERNEL", "SUBSYSTEM"}:
                matches[key] = value
            elif _is_condition(key, operator):
                written = f'{key}{operator}"{value}"'.replace("\t", " ")
                matches["?"] = f"{matches['?']}, {written}" if "?" in matches else written
            # Whether a jump is taken depends on the device, so every assignment behind a GOTO may
            # be skipped and counts as conditional.
            jumps = jumps or key == "GOTO"
        found += [(number, matches, attribute, value) for attribute, value in assigned]
    return tuple(found)


def _is_condition(key: str, operator: str) -> bool:
    """Whether it is a match on more than names; PROGRAM and IMPORT are, however their operator is
    written (udev(7)).
    """
    if (
        operator in {"==", "!="}
        and key not in {"ACTION", "ENV{DEVTYPE}"}
        and not key.startswith("TEST")
    ):
        return True
    return key.startswith(("PROGRAM", "IMPORT"))


def _udev_rows(content: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, rule) with continued lines joined, comments left out."""
    whole, start = "", 0
    for number, row in enumerate(content.splitlines(), 1):
        start = start or number
        whole += row
        if whole.endswith("\\"):
            whole = whole[:-1]
            continue
        if not whole.lstrip().startswith("#"):
            yield start, whole
        whole, start = "", 0


def sysfs_conf_writes(content: str) -> tuple[tuple[int, str, str], ...]:
    """(line, path, value) of `class/x/y = value` lines of /etc/sysfs.conf."""
    found = []
    for number, row in enumerate(content.splitlines(), 1):
        path, equals, value = (part.strip() for part in row.partition("="))
        if equals and not path.startswith(("#", "mode ", "owner ")):
            found.append((number, f"/sys/{path.lstrip('/')}", value))
    return tuple(found)


@frozen
class _Written:
    """All that the sources set, in the order in which they are read."""

    arguments: tuple[str, ...]
    # the names it must match, attribute, value
    udev: tuple[tuple[Mapping[str, str], str, Placed], ...]
    tmpfiles: tuple[tuple[str, bool, Placed], ...]  # path, whether it adds to others, value
    sysfsutils: tuple[tuple[str, Placed], ...]  # path, value


def _read_written(reader: Reader) -> _Written:
    udev = drop_in_texts(reader, [f"{root}/udev/rules.d" for root in _ROOTS], ".rules")
    tmpfiles = drop_in_texts(reader, [f"{root}/tmpfiles.d" for root in _ROOTS])
    sysfsutils = chain(
        read_texts(reader, ("/etc/sysfs.conf",)), drop_in_texts(reader, ("/etc/sysfs.d",))
    )
    return _Written(
        arguments=kernel_words(reader),
        udev=tuple(
            (names, attribute, Placed(value, path, line))
            for path, content in udev
            for line, names, attribute, value in udev_writes(content)
        ),
        tmpfiles=tuple(
            (target, adds, Placed(value, path, line))
            for path, content in tmpfiles
            for line, target, value, adds in tmpfiles_writes(content)
        ),
        sysfsutils=tuple(
            (target, Placed(value, path, line))
            for path, content in sysfsutils
            for line, target, value in sysfs_conf_writes(content)
        ),
    )


def _find_setters(path: str, written: _Written) -> Iterator[Setter]:
    """All that set this one file at boot, in the order in which they act."""
    EFFORT.spent += sum(
        map(len, (written.arguments, written.udev, written.tmpfiles, written.sysfsutils))
    )
    yield from _by_command_line(path, written)
    yield from _by_udev(path, written)
    yield from _by_tmpfiles(path, written)
    yield from (
        Setter(given, "sysfsutils") for target, given in written.sysfsutils if fits(path, target)
    )


def _by_command_line(path: str, written: _Written) -> Iterator[Setter]:
    parameter = _PARAMETER.fullmatch(path)
    name = f"{parameter[1]}.{parameter[2]}" if parameter else ""
    name = name or next(
        (argument for pattern, argument in _ARGUMENTS.items() if fits(path, pattern)), ""
    )
    for word in written.arguments:
        key, equals, value = word.partition("=")
        if name and equals and key.replace("-", "_") == name.replace("-", "_"):
            yield Setter(Placed(value, f"the kernel command line: {word}"), "command-line")


def _by_udev(path: str, written: _Written) -> Iterator[Setter]:
    device = device_of(path)
    if device is None:
        return
    for names, attribute, given in written.udev:
        kernel = names.get("KERNEL", "*")
        is_named = attribute == device.attribute and any(
            fits_glob(device.device, one) for one in kernel.split("|")
        )
        if is_named and fits_glob(device.subsystem, names.get("SUBSYSTEM", "*")):
            yield Setter(given, "udev", kernel, names.get("?", ""))


def _by_tmpfiles(path: str, written: _Written) -> Iterator[Setter]:
    taken: set[str] = set()
    for pattern, adds, given in written.tmpfiles:
        if pattern in taken and not adds:
            continue  # systemd-tmpfiles: "Duplicate line for path, ignoring"
        taken.add(pattern)
        if fits(path, pattern):
            yield Setter(given, "tmpfiles", pattern)
