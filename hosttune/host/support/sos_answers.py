"""What the commands of a sosreport prove besides the files that it copied. Pure.

Devices and their attributes (udevadm), names in folders (ls), space (df), packages (dpkg), tasks
(ps). A line in an unknown form, as of an error message, is passed over. Of what would have to be
there once and is twice nothing is taken.

Sources: udevadm(8), ls(1), df(1), dpkg-query(1); sos 4.0 to 4.12 (sos/report/plugins: block, boot,
devices, dpkg, filesys, process).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from hosttune.host.known.dpkg_status import NO_RELATIONS
from hosttune.host.support.archive import NameCount
from hosttune.host.support.lspci import FOLDER
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.host.support.bug_report import Tables

_DEVICES: Final = "udevadm info --export-db"
_ATTRIBUTES: Final = "udevadm info -a "
# Classes that facts list; a class without a device may also be missing, which is the same to them.
_CLASSES: Final = (
    "bdi",
    "block",
    "infiniband",
    "infiniband_mad",
    "infiniband_verbs",
    "net",
    "nvme",
)
_PROPERTY = regex(
    r"E: (DEVPATH|SUBSYSTEM|DEVTYPE|DEVNAME|MAJOR|MINOR|DM_NAME|ID_FS_\w{1,20}"
    r"|ID_PART_ENTRY_\w{1,20})=(.{1,4000})"
)
_DEVICE = regex(r" {2}looking at (?:parent )?device '(/devices/[^']{1,4000})':")
_ATTRIBUTE = regex(r" {4}ATTRS?\{([\w./:-]{1,200})\}==\"(.{0,4000})\"")
_LSBLK: Final = (
    "lsblk",
    "--json",
    "--list",
    "--output",
    "NAME,PATH,FSTYPE,LABEL,UUID,PARTLABEL,PARTUUID",
)
_OF_LSBLK: Final = (
    ("fstype", "ID_FS_TYPE"), ("label", "ID_FS_LABEL_ENC"), ("uuid", "ID_FS_UUID_ENC"),
    ("partlabel", "ID_PART_ENTRY_NAME"), ("partuuid", "ID_PART_ENTRY_UUID"),
)  # fmt: skip
_RAM: Final = "1"  # major number of RAM disks
_UDEV_SIGN = regex(r"(?:\\x[0-9a-f]{2}){1,4}")
_NOT_SHOWN: Final = "(not-readable)"
_LISTED: Final = ("ls -lanR ", "ls -alZR ", "ls -lR ")
_FOLDER = regex(r"(/.{0,4000}):")
_NAMED = regex(
    r"([bcdlps-])[rwxsStT-]{9}[.+]? {1,9}\d{1,9} (?:[^\s]{1,64} {1,64}){2,3}(?:\d{1,9}, {1,9})?"
    r"(\d{1,19}) "
    r"[A-Z][a-z]{2} [ \d]\d [ \d][\d:]{4} (.{1,4000})"
)
# of which the size is asked, and nothing else
_SIZED = regex(r"/boot/(?:initrd\.img|vmlinuz|System\.map)-.{1,200}")
_OF_QUEUES: Final = "/dev/mqueue"  # all may make queues there, but no links (mq_overview(7))
_DF = regex(
    r"\S.{0,4000}? (\d{1,19}) {1,19}(\d{1,19}) {1,19}(\d{1,19}) {1,9}(?:-|\d{1,3}%) (/.{0,4000})"
)
_PACKAGE = regex(
    r"([uirph])([ncHUFWti])([ R]) {1,9}(\S{1,300}) {1,300}(\S{1,300}) {1,300}([a-z0-9-]{1,40})"
    r" .{0,4000}"
)
_WANT: Final = {"u": "unknown", "i": "install", "r": "deinstall", "p": "purge", "h": "hold"}
_STATE: Final = {
    "n": "not-installed", "c": "config-files", "H": "half-installed", "U": "unpacked",
    "F": "half-configured", "W": "triggers-awaited", "t": "triggers-pending", "i": "installed",
}  # fmt: skip
_ERRORS = regex(r"^FS Error count: {1,20}\d", re.MULTILINE)
_LOAD = regex(r"load average: (\d{1,9}\.\d\d), (\d{1,9}\.\d\d), (\d{1,9}\.\d\d)")
_TASK = regex(r"\d [A-Za-z] \S{1,64} {1,64}\d")
_GROUP = regex(r"^ {1,9}1 {1,9}0 .{1,4000} (\d{1,9}::/\S{0,4000})$", re.MULTILINE)


def add_answers(tables: Tables, answers: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Enter into the tables of a record what these commands printed; what is there already stays.
    What other commands would have printed is returned as a record has it. Raises TooMuch.
    """
    named = NameCount()
    devices = [one for one in map(_read_properties, answers.get(_DEVICES, "").split("\n\n")) if one]
    _add_devices(tables, devices)
    for command, text in answers.items():
        if command.startswith(_ATTRIBUTES):
            for path, value in _list_attributes(text):
                named.add(path)
                tables["files"].setdefault(path, f"{value}\n")
        elif command.startswith(_LISTED):
            _add_listing(tables, command.split(" ", 2)[2].rstrip("/"), text, named)
        elif command.startswith("ps axo pid,ppid,") and (group := _GROUP.search(text)):
            tables["files"].setdefault("/proc/1/cgroup", f"{group[1]}\n")
        elif command.startswith("dumpe2fs -h /dev/"):
            _add_errors(tables, command.rpartition(" ")[2], text)
    tables["spaces"] |= _list_spaces(answers)
    if packages := answers.get("dpkg -l"):
        tables["files"].setdefault("/var/lib/dpkg/status", _make_status(packages))
    if tasks := _count_tasks(answers):
        tables["files"].setdefault("/proc/loadavg", tasks)
    shown = _list_file_systems(devices, tables["files"].get("/proc/partitions"))
    return [{"argv": list(_LSBLK), "status": 0, "stdout": shown, "stderr": ""}] if shown else []


def _read_properties(paragraph: str) -> dict[str, str]:
    """Of a device; empty for anything else."""
    found = {
        match[1]: match[2] for match in map(_PROPERTY.fullmatch, paragraph.split("\n")) if match
    }
    return found if found.get("DEVPATH", "").startswith("/devices/") else {}


def _add_devices(tables: Tables, devices: Iterable[Mapping[str, str]]) -> None:
    """All devices of the machine, so that a class is known as a whole."""
    classes: dict[str, set[str]] = {name: set() for name in _CLASSES}
    disks: set[str] = set()
    for found in devices:
        place, subsystem = found["DEVPATH"], found.get("SUBSYSTEM", "")
        name = place.rpartition("/")[2]
        tables["stats"].setdefault(f"/sys{place}", list(FOLDER))
        if subsystem in classes:
            classes[subsystem].add(name)
            tables["links"][f"/sys/class/{subsystem}/{name}"] = f"../..{place}"
        if subsystem == "block" and "MAJOR" in found:
            tables["links"][f"/sys/dev/block/{found['MAJOR']}:{found.get('MINOR', '')}"] = (
                f"../..{place}"
            )
        if subsystem == "block" and found.get("DEVTYPE") == "disk":
            disks.add(name)
            tables["links"][f"/sys/block/{name}"] = f"..{place}"
    if any(classes.values()):
        tables["listings"] |= {f"/sys/class/{name}": sorted(own) for name, own in classes.items()}
        tables["listings"]["/sys/block"] = sorted(disks)


def _list_file_systems(devices: Iterable[Mapping[str, str]], partitions: object) -> str:
    """As lsblk(8) has it, which knows it of udev too. Devices without a medium are not among them.
    Empty where udev does not know one.
    """
    rows = (
        [row.split() for row in partitions.split("\n")[1:]] if isinstance(partitions, str) else []
    )
    left = {row[3] for row in rows if len(row) == 4 and row[0] != _RAM}
    found = []
    for one in devices:
        if (
            one.get("SUBSYSTEM") != "block"
            or (name := one["DEVPATH"].rpartition("/")[2]) not in left
        ):
            continue
        left.discard(name)
        mapped = one.get("DM_NAME", "")
        names = {
            "name": mapped or name.replace("!", "/"),
            "path": f"/dev/mapper/{mapped}" if mapped else one.get("DEVNAME"),
        }
        values = {
            key: _UDEV_SIGN.sub(_decode_sign, one[own]) if own in one else None
            for key, own in _OF_LSBLK
        }
        found.append(names | values)
    return json.dumps({"blockdevices": found}) if found and not left else ""


def _decode_sign(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("\\x", "")).decode("utf-8", "replace")


def _list_attributes(text: str) -> Iterator[tuple[str, str]]:
    """(path, value) of the attributes of a device and of those above it."""
    place = ""
    for line in text.split("\n"):
        if device := _DEVICE.fullmatch(line):
            place = f"/sys{device[1]}"
        elif place and (found := _ATTRIBUTE.fullmatch(line)) and found[2] != _NOT_SHOWN:
            yield f"{place}/{found[1]}", found[2]


def _add_listing(tables: Tables, top: str, text: str, named: NameCount) -> None:
    """The names in each folder below `top`, and where the links lead. ls(1) writes names and
    targets raw into a file, and a target of a user can hold lines and slashes. So all that follows
    the head of a folder in which users may make links is theirs; but for links, names alone can
    begin no folder.
    """
    folders: dict[str, set[str]] = {}
    open_to_users: set[str] = set()
    own: set[str] | None = None
    folder = ""
    usr = "/usr" if top.startswith("/lib/") and tables["links"].get("/lib") == "/usr/lib" else ""
    for line in text.split("\n"):
        if (found := _FOLDER.fullmatch(line)) and (
            found[1] == top or found[1].startswith(f"{top}/")
        ):
            folder = usr + found[1].rstrip("/")
            if folder in open_to_users:
                break
            own = folders[folder] = set()
        elif own is not None and (row := _NAMED.fullmatch(line)):
            name, arrow, target = row[3].partition(" -> ") if row[1] == "l" else (row[3], "", "")
            if name in {".", ".."}:
                continue
            own.add(name)
            path = f"{folder}/{name}"
            if row[1] == "-" and _SIZED.fullmatch(path):
                named.add(path)
                tables["stats"].setdefault(path, ["file", 0o644, 0, 0, int(row[2]), *FOLDER[5:]])
            if not arrow and row[1] != "d":
                continue
            # The ninth character is the right of all others to write (ls(1)): there any user can
            # make a link.
            if not arrow and line[8] == "w" and path != _OF_QUEUES:
                open_to_users.add(path)
            named.add(path, target)
            if arrow:
                tables["links"].setdefault(path, target)
            else:
                tables["stats"].setdefault(path, list(FOLDER))
    for path, names in folders.items():
        tables["listings"].setdefault(path, sorted(names))


def _add_errors(tables: Tables, device: str, text: str) -> None:
    """The superblock of a file system that is mounted is the one that the kernel counts in."""
    name = tables["links"].get(device, device).rpartition("/")[2]  # /dev/mapper/NAME -> ../dm-0
    if "Filesystem features:" in text and not _ERRORS.search(text):
        for attribute in ("errors_count", "last_error_time"):
            tables["files"].setdefault(f"/sys/fs/ext4/{name}/{attribute}", "0\n")


def _count_tasks(answers: Mapping[str, str]) -> str:
    """As /proc/loadavg: the load of uptime(1), the tasks that ps(1) lists. The last pid is not
    known.
    """
    load, rows = _LOAD.search(answers.get("uptime", "")), answers.get("ps -elfL", "").split("\n")
    tasks = [row for row in rows if _TASK.match(row)]
    running = sum(row[2] == "R" for row in tasks)
    return f"{load[1]} {load[2]} {load[3]} {running}/{len(tasks)} 0\n" if load and tasks else ""


def _list_spaces(answers: Mapping[str, str]) -> dict[str, list[int]]:
    """As statvfs(3) has it, of file systems with room."""
    blocks = _list_rows_of_df(answers, "df -al ")
    nodes = _list_rows_of_df(answers, "df -ali")
    return {
        path: [total << 10, free << 10, *(nodes[path][::2]), total - used - free << 10]
        for path, (total, used, free) in blocks.items() if total and path in nodes
    }  # fmt: skip


def _list_rows_of_df(answers: Mapping[str, str], command: str) -> dict[str, tuple[int, int, int]]:
    """Of a place on which two file systems are mounted nothing is taken: one is hidden."""
    text = next((text for one, text in answers.items() if one.startswith(command)), "")
    rows = [row for row in map(_DF.fullmatch, text.split("\n")) if row]
    places = Counter(row[4] for row in rows)
    return {row[4]: (int(row[1]), int(row[2]), int(row[3])) for row in rows if places[row[4]] == 1}


def _make_status(text: str) -> Any:
    """The status file of dpkg, without relations between packages. `dpkg -l` shows NAME:ARCH where
    a package can be there for several architectures.
    """
    found = []
    for row in filter(None, map(_PACKAGE.fullmatch, text.split("\n"))):
        flag = "reinstreq" if row[3] == "R" else "ok"
        status = f"{_WANT[row[1]]} {flag} {_STATE[row[2]]}"
        name = row[4].partition(":")[0]
        found.append(
            f"Package: {name}\nStatus: {status}\nArchitecture: {row[6]}\nVersion: {row[5]}\n"
        )
    return (
        "\n".join((NO_RELATIONS, *found))
        if found
        else {"unreadable": "/var/lib/dpkg/status: `dpkg -l` shows no package"}
    )
