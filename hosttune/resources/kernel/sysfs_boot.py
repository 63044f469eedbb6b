"""Who sets a kernel value below /sys at boot: the kernel command line, udev rules, tmpfiles.d, sysfsutils. Pure but for
the one address that reads them.

Sources: tmpfiles.d(5) and systemd-tmpfiles (`w` lines are all applied in the order of their files, but of two that
spell the same path the first counts alone), udev(7), kernel-parameters.txt, Debian's /etc/init.d/sysfsutils.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hosttune.facts.reading import drop_ins
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.resources.read_only import ReadOnly
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.host.door import Reader
    from hosttune.values import Value

SOURCES = ("command-line", "udev", "tmpfiles", "sysfsutils")  # in the order in which they act
_DISTRIBUTION = ("/usr/lib/", "/lib/")
_WORD = regex(r'"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|(\S+)')
_PART = regex(r'\s*([\w]+(?:\{[^}]*\})?)\s*(==|!=|:=|\+=|-=|=)\s*e?"((?:[^"\\]|\\.)*)"\s*,?')
_BRACES = regex(r"\{([^{}]*)\}")
_DEVICE = (
    regex(r"/sys/(?:class/)?(?P<subsystem>block)/(?P<device>[^/]+)/(?P<attribute>.+)"),
    regex(r"/sys/class/(?P<subsystem>[^/]+)/(?P<device>[^/]+)/(?P<attribute>.+)"),
    regex(r"/sys/bus/(?P<subsystem>[^/]+)/devices/(?P<device>[^/]+)/(?P<attribute>.+)"),
    regex(r"/sys/devices/system/(?P<subsystem>cpu)/(?P<device>cpu(?!freq|idle)[^/]+)/(?P<attribute>.+)"),
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
class Setter:
    """One place that sets a value at boot."""

    value: str
    place: str  # file:line, or the kernel command line
    source: str  # one of SOURCES
    pattern: str = ""  # the path as it is spelled there (tmpfiles), or the kernel's name of the device (udev)
    condition: str = ""  # what it depends on besides the device's name, so that perhaps it does not apply (udev)

    @property
    def is_conditional(self) -> bool:
        return bool(self.condition)

    @property
    def file(self) -> str:
        return self.place.rpartition(":")[0]

    @property
    def is_distribution(self) -> bool:
        return self.place.startswith(_DISTRIBUTION)


def device_of(path: str) -> Device | None:
    """The device and attribute that a path means; None where udev knows no device for it."""
    match = next((found for pattern in _DEVICE if (found := pattern.fullmatch(path))), None)
    return Device(match["subsystem"], match["device"], match["attribute"]) if match else None


def fits(path: str, pattern: str) -> bool:
    """Whether a pattern of glob(7), braces included, means this path: wildcards do not reach over a slash."""
    return any(_fits(_plain(path), _plain(one)) for one in _unbraced(pattern))


def _plain(path: str) -> str:
    return path.replace("/sys/class/block/", "/sys/block/", 1)


def _fits(path: str, pattern: str) -> bool:
    one, other = path.split("/"), pattern.split("/")
    return len(one) == len(other) and all(map(fnmatchcase, one, other))


def _unbraced(pattern: str) -> Iterator[str]:
    match = _BRACES.search(pattern)
    if match is None:
        yield pattern
        return
    for word in match[1].split(","):
        yield from _unbraced(pattern[: match.start()] + word + pattern[match.end() :])


def tmpfiles_writes(content: str) -> tuple[tuple[int, str, str, bool], ...]:
    """(line, path, value, whether it adds to others) of the `w` lines of one tmpfiles.d file. The value is the rest of
    the line behind the sixth field, as it stands there; `%%` is a percent sign.
    """
    found = []
    for number, row in enumerate(content.splitlines(), 1):
        fields = list(_WORD.finditer(row))
        words = [next((part for part in match.groups() if part is not None), "") for match in fields]
        if len(words) < 7 or not words[0].startswith("w") or row.lstrip().startswith("#"):
            continue
        value = " ".join(row[fields[6].start() :].split()).replace("%%", "%")
        found.append((number, words[1].replace("%%", "%"), value, "+" in words[0]))
    return tuple(found)


def udev_writes(content: str) -> tuple[tuple[int, dict[str, str], str, str], ...]:
    """(line, the names it must match, attribute, value) of every assignment to ATTR{...} in one udev rules file. Under
    `?` in the names stands what else it depends on, as it is written.
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
            jumps = jumps or key == "GOTO"
        found += [(number, matches, attribute, value) for attribute, value in assigned]
    return tuple(found)


def _is_condition(key: str, operator: str) -> bool:
    """Whether it is a match on more than names; PROGRAM and IMPORT are, however their operator is written (udev(7))."""
    if operator in {"==", "!="} and key not in {"ACTION", "ENV{DEVTYPE}"} and not key.startswith("TEST"):
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


class SysfsBootAddress(ReadOnly):
    """`sysfs-boot:SOURCE`: what one of the sources sets, one row each with fields parted by tabs."""

    kind = "sysfs-boot"

    def read(self, reader: Reader, name: str) -> Value:
        rows: list[str] = []
        if name == "command-line":
            line = ABSENT if reader.persistent_only else reader.read("/proc/cmdline")
            if isinstance(line, Unreadable):
                return line
            return tuple(line.decode("utf-8", "replace").split()) if isinstance(line, bytes) else ()
        for path in _files(reader, name):
            if isinstance(path, Unreadable):
                return path
            content = reader.read(path)
            if isinstance(content, Unreadable):
                return content
            text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
            rows += ("\t".join(fields) for fields in _rows(name, path, text))
        return tuple(rows)


def _rows(source: str, path: str, text: str) -> Iterator[tuple[str, ...]]:
    if source == "udev":
        for number, matches, attribute, value in udev_writes(text):
            names = (matches.get("SUBSYSTEM", "*"), matches.get("KERNEL", "*"), matches.get("?", ""))
            yield (*names, attribute, value, f"{path}:{number}")
    elif source == "tmpfiles":
        for number, pattern, value, adds in tmpfiles_writes(text):
            yield (pattern, "+" if adds else "", value, f"{path}:{number}")
    else:
        for number, target, value in sysfs_conf_writes(text):
            yield (target, value, f"{path}:{number}")


def _files(reader: Reader, source: str) -> Iterator[str | Unreadable]:
    """The files of a source in the order in which they are read; one in /etc hides its namesakes."""
    folder, suffix = {"udev": ("udev/rules.d", ".rules"), "tmpfiles": ("tmpfiles.d", ".conf")}.get(
        source, ("sysfs.d", ".conf")
    )
    folders = [f"{root}/{folder}" for root in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")]
    if source == "sysfsutils":
        yield "/etc/sysfs.conf"
        folders = folders[:1]
    files = drop_ins(reader, folders, suffix)
    yield from (files,) if isinstance(files, Unreadable) else files


def setters(path: str, rows: Mapping[str, Iterable[str]]) -> tuple[Setter, ...]:
    """All that set this one file at boot, in the order in which they act; `rows` are those of each source."""
    return (
        *_by_command_line(path, rows),
        *_by_udev(path, rows),
        *_by_tmpfiles(path, rows),
        *_by_sysfsutils(path, rows),
    )


def _by_command_line(path: str, rows: Mapping[str, Iterable[str]]) -> Iterator[Setter]:
    parameter = _PARAMETER.fullmatch(path)
    name = f"{parameter[1]}.{parameter[2]}" if parameter else ""
    name = name or next((argument for pattern, argument in _ARGUMENTS.items() if fits(path, pattern)), "")
    for row in rows["command-line"]:
        key, equals, value = row.partition("=")
        if name and equals and key.replace("-", "_") == name.replace("-", "_"):
            yield Setter(value, f"the kernel command line: {row}", "command-line")


def _by_udev(path: str, rows: Mapping[str, Iterable[str]]) -> Iterator[Setter]:
    device = device_of(path)
    if device is None:
        return
    for row in rows["udev"]:
        subsystem, kernel, condition, attribute, value, place = row.split("\t")
        is_named = any(fnmatchcase(device.device, one) for one in kernel.split("|"))
        if attribute == device.attribute and is_named and fnmatchcase(device.subsystem, subsystem):
            yield Setter(value, place, "udev", kernel, condition)


def _by_tmpfiles(path: str, rows: Mapping[str, Iterable[str]]) -> Iterator[Setter]:
    taken: set[str] = set()
    for row in rows["tmpfiles"]:
        pattern, adds, value, place = row.split("\t")
        if pattern in taken and not adds:
            continue  # systemd-tmpfiles: "Duplicate line for path, ignoring"
        taken.add(pattern)
        if fits(path, pattern):
            yield Setter(value, place, "tmpfiles", pattern)


def _by_sysfsutils(path: str, rows: Mapping[str, Iterable[str]]) -> Iterator[Setter]:
    for row in rows["sysfsutils"]:
        target, value, place = row.split("\t")
        if fits(path, target):
            yield Setter(value, place, "sysfsutils")


ADDRESSES = (SysfsBootAddress(),)
