"""A sosreport (sos 4.0 to 4.11) as the record of its host: copied files, and a few answers of
programs.

Nothing is absent because the archive does not have it. Absent is only a name that is not in a
folder which sos took whole, and a PCI device that a whole `lspci` does not name. What sos or `sos
clean` masked is unreadable.

Sources: sos 4.0 and 4.9.1 (sos/report/plugins/__init__.py, sos/archive.py, sos/cleaner); archives
of both.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from posixpath import dirname, normpath
from typing import TYPE_CHECKING, Any, Final

from hosttune.codec import parse_json
from hosttune.errors import BadInput, Fault, Where
from hosttune.frozen import frozen
from hosttune.host.known.unit_folders import LOCAL, PACKAGES, SPLIT
from hosttune.host.record.record import FORMAT_VERSION, KIND, encode_bytes
from hosttune.host.support.archive import (
    Archive,
    ArchivePart,
    NameCount,
    TooMuch,
    make_refusal,
    read_archive,
    read_folder,
)  # fmt: skip
from hosttune.host.support.bug_report import (
    FIRST_NAMESPACES,
    OTHER_NAMESPACES,
    Tables,
    add_conclusions,
    count_xids,
    make_os_release,
)
from hosttune.host.support.lspci import FOLDER, PciDevice, devices_in, tables_of
from hosttune.host.support.smi import LongText, read_long
from hosttune.host.support.sos_answers import add_answers
from hosttune.host.support.sos_units import SosUnits
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MANIFEST: Final = "sos_reports/manifest.json"
_RELEASES = ("etc/os-release", "usr/lib/os-release")  # the first is a link, as a rule
_DRIVER_OF_NVME: Final = "/sys/bus/pci/drivers/nvme"
_SETTINGS: Final = "etc/sos/sos.conf"
# Of a module that is loaded or has a parameter the kernel has a folder, of which sos takes a file
# at least.
_OF_MODULES: Final = (("spl", "/proc/spl"), ("nvme", _DRIVER_OF_NVME))
_OF_UNITS = regex(
    r"etc/systemd/system(?:\.control|\.attached)?|(?:usr/)?lib/systemd/system"
    r"|run/systemd/[\w.]{1,40}"
)
# Files of single processes, and of sos itself (/proc/self), are not of the host.
_WANTED = regex(
    r"sos_reports/manifest\.json$|lib$|usr/lib/os-release$|(?:etc|sys|boot|proc/1)(?:/|$)"
    r"|sos_commands/(?:block|boot|date|devices|docker|dpkg|filesys|hardware|host|kernel|nvidia|"
    r"pci|process|systemd)(?:/|$)"
    r"|(?:usr/)?lib/(?:sysctl\.d|modprobe\.d|systemd|udev)(?:/|$)"
    r"|(?:run/systemd|(?:run|usr/local/lib)/(?:sysctl\.d|modprobe\.d))(?:/|$)"
    r"|proc/(?!\d|self(?:/|$)|thread-self(?:/|$))"
    # the latter where the host's own settings of sos name it
    r"|var/(?:spool/cron|lib/hosttune)(?:/|$)"
)
# Folders of which sos forbids itself no part, and where root reads each file.
_WHOLE: Final = frozenset({
    "/etc/sysctl.d", "/etc/modprobe.d", "/etc/systemd", "/etc/security", "/etc/udev/rules.d",
    "/etc/pam.d", "/lib/sysctl.d", "/lib/modprobe.d", SPLIT, "/lib/udev/rules.d",
    "/usr/lib/sysctl.d", "/usr/lib/modprobe.d", PACKAGES, "/usr/lib/udev/rules.d", "/proc/driver",
    "/proc/pressure", "/proc/sys", "/run/modprobe.d", "/run/sysctl.d", "/run/systemd/system",
    "/sys/devices/system/cpu", "/sys/devices/system/cpu/vulnerabilities", "/sys/fs/cgroup",
    "/sys/fs/pstore", "/sys/kernel/mm/ksm", "/sys/kernel/mm/transparent_hugepage",
    "/sys/kernel/mm/hugepages", "/usr/local/lib/modprobe.d", "/usr/local/lib/sysctl.d",
    "/var/spool/cron",
})  # fmt: skip
# what the plugin of cron names, and its folders
_CRON, _OF_CRON = "/etc/cron*", regex(r"/etc/cron\.[a-z]{1,20}")
# What a plugin of sos takes whenever it runs, since which version: what is not in the archive then
# was not there.
_ALWAYS: Final = (
    ("kernel", (4, 0), "/etc/sysctl.conf"), ("kernel", (4, 3), "/proc/pressure"),
    ("kernel", (4, 5), "/lib/modprobe.d"), ("kernel", (4, 5), "/run/modprobe.d"),
    ("kernel", (4, 5), "/usr/local/lib/modprobe.d"), ("kernel", (4, 12), "/run/sysctl.d"),
    ("kernel", (4, 12), "/usr/local/lib/sysctl.d"),
    ("release", (4, 0), "/etc/dgx-release"), ("systemd", (4, 0), "/run/systemd/system"),
)  # fmt: skip
_MASKED = regex(rb"(?<!\*)\*{6,10}(?!\*)")  # how plugins write what they masked
# MAC and IP addresses that `sos clean` makes up
_OF_CLEANING = regex(rb"53:4f:53:|\b10\d\.0\.0\.\d|obfuscated")
_OF_ROOT: Final = ("etc/", "sys/", "sos_commands/host/")
_VERSION = regex(r"\d{1,3}(?:\.\d{1,4}){1,3}")
_CHASSIS = regex(r"^ {0,40}Chassis: (\w{1,20})", re.MULTILINE)
_HOSTS: Final = frozenset(
    {"desktop", "laptop", "convertible", "server", "tablet", "vm", "embedded"}
)
_VIRTUALIZATION = regex(
    r"^ {0,40}Virtualization: (lxc|docker|podman|systemd-nspawn)$", re.MULTILINE
)
_MANAGER: Final = "/run/systemd/container"  # systemd writes there what it runs in
_ARCHITECTURE = regex(r" (x86_64|aarch64|ppc64le) ")
_NO_LINK = "sos_strings/"
_DEEP: Final = 64  # folders above a path
_OF_INIT: Final = frozenset({"/proc/1/mountinfo", "/proc/1/cgroup"})
# Files of control groups that are read. A host with containers has some hundred of others for each,
# which are nine tenths of all that is in an archive.
_GROUPS: Final = "sys/fs/cgroup/"
FILES_OF_GROUPS: Final = frozenset({
    "cgroup.procs", "cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.max", "cpu.pressure",
    "io.pressure", "memory.events", "memory.high", "memory.limit_in_bytes", "memory.max",
    "memory.oom_control", "memory.pressure", "pids.current", "pids.events", "pids.max",
})  # fmt: skip
# Folders with files of which sos forbids itself the copy.
_WITH_HOLES = regex(r"/proc/sys/net/ipv[46]/(?:route|neigh/.{1,64})")
_SOS_MASKED: Final = "sos masked values in it"
# nvidia-smi(1), RETURN VALUE, and 255; what timeout(1) ends has 124 or 137.
_STATUSES_OF_SMI: Final = frozenset((*range(32), 255))
# systemctl(1), EXIT STATUS: one of the units is not active, or not there
_STATUSES_OF_UNITS: Final = frozenset({3, 4})
_LEAVES_OUT = regex(r"^\s{0,20}skip[-_]files\s{0,20}=", re.MULTILINE)
_SPELLED: Final = {
    "nvidia-smi nvlink -s": "nvidia-smi nvlink --status",
    "nvidia-smi nvlink -e": "nvidia-smi nvlink --errorcounters",
}


@frozen
class SosReport:
    """What a sosreport holds."""

    record: Mapping[str, Any]  # as host/record/record.py has it
    smi: LongText
    units: SosUnits | None  # None where names may be missing or masked
    answers: Mapping[str, str]  # of nvidia-smi's commands, by the command
    script: str  # version of sos
    collected_at: float  # seconds since 1970; 0 where nothing tells
    is_folder: bool  # unpacked
    is_whole: bool
    doubled: tuple[str, ...]  # paths that are in it twice
    has_log: bool
    xids: Mapping[int, int]  # Xid numbers of the kernel log, and how many lines have each
    is_cleaned: bool
    masked: int  # files in which sos masked values
    timed_out: tuple[str, ...]  # plugins of sos that did not come to their end
    is_safe_mode: bool = False


@frozen
class _Manifest:
    plugins: Mapping[str, Mapping[str, Any]]  # that ran
    version: str
    command_line: str
    is_cleaned: bool = False


def read_sosreport(content: bytes | None, path: str, tool_version: str) -> SosReport:
    """`content` is None for a folder. Raises BadInput for an archive of something else, or one that
    no sos wrote.
    """
    archive = (
        read_folder(path, _choose, _MANIFEST)
        if content is None
        else read_archive(content, path, _choose)
    )
    manifest = _read_manifest(archive)
    if not manifest.version:
        why = (
            "no sosreport: it has no readable sos_reports/manifest.json (sos 4.0 and newer write "
            "it)"
        )
        raise BadInput(
            [Fault(Where(path), why, "give the sosreport-*.tar.xz as sos wrote it, or a record")]
        )
    answers = dict(_list_answers(archive, manifest))
    # `sos clean` puts this word into the name of the file. A person may have renamed it, so its
    # files are asked, too.
    is_cleaned = manifest.is_cleaned or "obfuscated" in path or _shows_cleaning(archive)
    log = answers.get("dmesg", "")
    at = _parse_time(answers.get("date --utc", ""))
    queries: list[Mapping[str, Any]] = []
    if log:
        queries.append({"argv": ["dmesg", "--kernel"], "status": 0, "stdout": log, "stderr": ""})
    try:
        tables, masked, units = _list_tables(
            archive, manifest, answers, queries, is_cleaned=is_cleaned
        )
    except TooMuch:
        raise make_refusal(path, "it holds more than any sosreport") from None
    hostnamectl = answers.get("hostnamectl status", "") or answers.get("hostnamectl", "")
    _conclude_place(tables, hostnamectl, is_cleaned=is_cleaned)
    if machine := _ARCHITECTURE.search(answers.get("uname -a", "")):
        queries.append(
            {"argv": ["uname", "-m"], "status": 0, "stdout": f"{machine[1]}\n", "stderr": ""}
        )
    name = tables["files"].get("/proc/sys/kernel/hostname")
    release = next((archive.files[one] for one in _RELEASES if one in archive.files), b"")
    record = {
        "format_version": FORMAT_VERSION, "kind": KIND, "tool_version": tool_version, "made_at": at,
        "name": name.strip() if isinstance(name, str) else "unknown", "machine": "",
        "privileged": True, "persistent_only": False, "shared": False, "queries": queries,
        "os_release": make_os_release(_decode(release)), **tables,
    }  # fmt: skip
    smi = {
        _SPELLED.get(command, command): text
        for command, text in answers.items()
        if command.startswith("nvidia-smi")
    }
    return SosReport(
        record=record,
        smi=read_long(smi.get("nvidia-smi -q", "")),
        units=units,
        answers=smi,
        script=manifest.version,
        collected_at=at,
        is_folder=content is None,
        is_whole=archive.is_whole,
        doubled=tuple(sorted(archive.doubled)),
        has_log=bool(log),
        xids=count_xids(log),
        is_cleaned=is_cleaned,
        masked=masked,
        timed_out=tuple(
            sorted(name for name, one in manifest.plugins.items() if one.get("timeout_hit") is True)
        ),
    )


def _conclude_place(tables: Tables, hostnamectl: str, *, is_cleaned: bool) -> None:
    """Whether it is a host or a container, as hostnamed of systemd says, and what follows."""
    chassis = _CHASSIS.search(hostnamectl)
    if chassis:
        tables["stats"]["/run/systemd/system"] = list(FOLDER)
    if chassis and chassis[1] == "container":
        tables["links"] |= OTHER_NAMESPACES
        if manager := _VIRTUALIZATION.search(hostnamectl):
            tables["stats"].setdefault(_MANAGER, ["file", *FOLDER[1:]])
            tables["files"].setdefault(_MANAGER, f"{manager[1]}\n")
    if chassis and chassis[1] in _HOSTS:  # hostnamed of systemd answered, and is not in a container
        tables["links"] |= FIRST_NAMESPACES
        # the uppermost control group has the numbers of the host
        if "/proc/pressure" not in tables["files"]:
            for kind in ("cpu", "io", "memory"):
                if (measured := tables["files"].get(f"/sys/fs/cgroup/{kind}.pressure")) is not None:
                    tables["files"].setdefault(f"/proc/pressure/{kind}", measured)
        if not is_cleaned:
            for place in _OF_INIT & tables["files"].keys():  # as a shell of root has them
                tables["files"][place.replace("/1/", "/self/")] = tables["files"][place]


def _choose(place: str) -> ArchivePart:
    if _WANTED.match(place) is None:
        return ArchivePart.NOTHING
    is_unread = place.startswith(_GROUPS) and place.rpartition("/")[2] not in FILES_OF_GROUPS
    return ArchivePart.NAME if is_unread else ArchivePart.WHOLE


def _decode(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _read_manifest(archive: Archive) -> _Manifest:
    """Its version is empty where it is no manifest."""
    nothing = _Manifest({}, "", "")
    try:
        document = parse_json(archive.files.get(_MANIFEST, b""))
        components, version = document["components"], document["version"]
        plugins = components["report"]["plugins"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return nothing
    if not (isinstance(plugins, dict) and isinstance(version, str) and _VERSION.fullmatch(version)):
        return nothing
    own = {name: one for name, one in plugins.items() if isinstance(one, dict)}
    return _Manifest(own, version, str(document.get("cmdline", "")), "cleaner" in components)


def _shows_cleaning(archive: Archive) -> bool:
    """Whether `sos clean` went over it, by files that only root writes. Elsewhere any user can
    write such a word, as the title of a process, and would hide the rest.
    """
    return any(
        _OF_CLEANING.search(content)
        for place, content in archive.files.items()
        if place.startswith(_OF_ROOT)
    )


def _list_rows(plugin: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    rows = plugin.get(key)
    yield from (row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()


def _list_answers(archive: Archive, manifest: _Manifest) -> Iterator[tuple[str, str]]:
    """What commands printed that came to their end, and of which nothing is cut, by the command.
    sos writes a file for each: one that many name counts for the first, and costs once.
    """
    taken: set[str] = set()
    for row in (
        row for plugin in manifest.plugins.values() for row in _list_rows(plugin, "commands")
    ):
        command, place, status = row.get("exec"), row.get("filepath"), row.get("return_code")
        if not (isinstance(command, str) and isinstance(place, str) and isinstance(status, int)):
            continue
        ended = status == 0 or (command.startswith("nvidia-smi ") and status in _STATUSES_OF_SMI)
        ended = ended or (command == "systemctl status --all" and status in _STATUSES_OF_UNITS)
        if ended and not row.get("truncated") and archive.files.get(place) and place not in taken:
            taken.add(place)
            yield command, _decode(archive.files[place])


def _parse_time(date: str) -> float:
    """Of `date --utc`, in the C locale in which sos starts programs."""
    try:
        text = " ".join(date.split()).replace(" UTC ", " +0000 ")
        return max(datetime.strptime(text, "%a %b %d %H:%M:%S %z %Y").timestamp(), 0.0)
    except (ValueError, OverflowError):
        return 0.0


def _list_tables(
    archive: Archive,
    manifest: _Manifest,
    answers: Mapping[str, str],
    queries: list[Mapping[str, Any]],
    *,
    is_cleaned: bool,
) -> tuple[Tables, int, SosUnits | None]:
    """The tables of a record, in how many files sos masked values, and the units. `queries` grows
    by what is proven.
    """
    tables: Tables = {
        name: {} for name in ("files", "links", "listings", "stats", "lstats", "paths", "spaces")
    }
    files = tables["files"]
    masked = 0
    units = None
    for place, content in archive.files.items():
        if not place.startswith("sos_"):
            why = _why_not_copied(place, content, is_cleaned=is_cleaned)
            masked += why == _SOS_MASKED
            files[f"/{place}"] = (
                {"unreadable": f"/{place}: {why}"} if why else encode_bytes(content)
            )
    if "sys/module/nvme" in _find_folders(archive):
        tables["stats"][_DRIVER_OF_NVME] = list(FOLDER)
    if not is_cleaned:
        _add_links(archive, tables)
    settings = _decode(archive.files.get(_SETTINGS, b""))
    # Where a person has sos leave files out, a name that is missing proves nothing.
    is_filtered = "--skip-files" in manifest.command_line or _LEAVES_OUT.search(settings)
    if archive.is_whole and not (is_cleaned or archive.doubled or is_filtered):
        tables["listings"] |= _list_folders(archive, manifest)
        queries += add_answers(tables, answers)
        units = SosUnits(answers, tables["listings"], _list_unit_files(archive))
        for path in (
            *_list_absent(archive, manifest),
            *_list_impossible(archive, manifest, answers, units),
        ):
            for table in tables.values():
                table.setdefault(path, {"absent": True})
    if shown := answers.get("lspci -nnvv"):
        devices = tuple(_add_config(one, archive) for one in devices_in(shown))
        for name, own in tables_of(devices).items() if devices else ():
            tables[name] |= own
    modules = files.get("/proc/modules")
    add_conclusions(
        tables,
        modules=modules if isinstance(modules, str) else "",
        cpuinfo=str(files.get("/proc/cpuinfo", "")),
        log=answers.get("dmesg", ""),
        dmidecode=answers.get("dmidecode", ""),
        has_smi="nvidia-smi -q" in answers,
    )
    return tables, masked, units


def _why_not_copied(place: str, content: bytes, *, is_cleaned: bool) -> str:
    """Why a copied file is not what is on the host; empty if it is."""
    if place.startswith(("proc/", "sys/")):
        return "" if content else "it is empty in this sosreport"
    if is_cleaned:
        return "sos clean masks names and addresses in such files"
    return _SOS_MASKED if _MASKED.search(content) else ""


def _add_links(archive: Archive, tables: Tables) -> None:
    """A link that was absolute is relative to the archive: the place that it leads to is the
    same.
    """
    for place, target in archive.links.items():
        text = "/" + normpath(f"/{dirname(place)}/{target}").lstrip("/")
        if place.startswith("sos_"):
            continue
        if _NO_LINK in text:
            tables["files"][f"/{place}"] = {"unreadable": f"/{place}: sos kept only its end"}
        else:
            tables["links"][f"/{place}"] = text


def _add_config(device: PciDevice, archive: Archive) -> PciDevice:
    domain, bus, function = device.slot.split(":")
    config = archive.files.get(f"proc/bus/pci/{bus}/{function}", b"") if domain == "0000" else b""
    return replace(device, config=config[:4096]) if len(config) >= 64 else device


def _list_absent(archive: Archive, manifest: _Manifest) -> Iterator[str]:
    """What sos would have taken if it had been there."""
    version = tuple(int(part) for part in manifest.version.split(".")[:2])
    places = (*archive.files, *archive.links, *archive.folders, *archive.left_out)
    for plugin, since, path in _ALWAYS:
        own = manifest.plugins.get(plugin, {})
        specifications = {row.get("specification") for row in _list_rows(own, "files")}
        is_taken = own.get("timeout_hit") is False and version >= since
        if (
            is_taken
            and path not in specifications
            and not any(f"/{one}/".startswith(f"{path}/") for one in places)
        ):
            yield path


def _list_impossible(
    archive: Archive, manifest: _Manifest, answers: Mapping[str, str], units: SosUnits
) -> Iterator[str]:
    """What only a program or a module makes that the machine does not have."""
    folders = _find_folders(archive)
    for module, path in _OF_MODULES:
        if (
            manifest.plugins.get("kernel", {}).get("timeout_hit") is False
            and f"sys/module/{module}" not in folders
        ):
            yield path
    packages = answers.get("dpkg -l", "cloud-init")
    if (
        "cloud_init" not in manifest.plugins
        and "cloud-init" not in packages
        and not units.has_file("cloud-")
    ):
        yield "/run/cloud-init"
    if units.has_no_local:
        yield LOCAL


def _list_unit_files(archive: Archive) -> frozenset[str]:
    places = (place.rpartition("/") for place in (*archive.files, *archive.links))
    return frozenset(name for folder, _, name in places if _OF_UNITS.fullmatch(folder))


def _find_folders(archive: Archive) -> set[str]:
    """Those that are in the archive, and those that what is in it must be in. Raises TooMuch."""
    found: set[str] = set(archive.folders)
    named = NameCount()
    for place in (*archive.files, *archive.links, *archive.folders, *archive.left_out):
        folder = place.rpartition("/")[0]
        for _ in range(_DEEP):
            if not folder or folder in found:
                break
            named.add(folder)
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def _list_folders(archive: Archive, manifest: _Manifest) -> dict[str, list[str]]:
    """The folders that sos took whole, and those below them."""
    named = {
        row["specification"].rstrip("/")
        for plugin in manifest.plugins.values() if plugin.get("timeout_hit") is False
        for row in _list_rows(plugin, "files") if isinstance(row.get("specification"), str)
    }  # fmt: skip
    usr = "/usr" if archive.links.get("lib") in {"usr/lib", "/usr/lib"} else ""
    folders = _find_folders(archive)
    roots = tuple(usr + path if path.startswith("/lib/") else path for path in named & _WHOLE)
    if _CRON in named:
        roots += tuple(f"/{folder}" for folder in folders if _OF_CRON.fullmatch(f"/{folder}"))
    found: dict[str, set[str]] = {
        f"/{place}": set() for place in folders if f"/{place}".startswith(roots)
    }
    for place in (*archive.files, *archive.links, *folders, *archive.left_out):
        folder, _, name = f"/{place}".rpartition("/")
        if folder in found:
            found[folder].add(name)
    is_below = tuple(f"{root}/" for root in roots)
    return {
        path: sorted(names)
        for path, names in found.items() if path in roots or path.startswith(is_below)
        if not _WITH_HOLES.fullmatch(path)
    }  # fmt: skip
