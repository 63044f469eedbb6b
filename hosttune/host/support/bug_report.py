"""A report of nvidia-bug-report.sh as the record of its host: files and answers of programs, as far
as it has them.

Nothing is absent because the report does not have it: most of a host is not collected. Absent is
what the program itself says is no file (`*** PATH does not exist`), a PCI device that a whole list
does not name, and a module that /proc/modules does not.

Sources: nvidia-bug-report.sh of the branches 390 to 595; dmidecode(8); proc(5).
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from hosttune.errors import BadInput, Fault, Where
from hosttune.frozen import frozen
from hosttune.host.record.record import FORMAT_VERSION, KIND
from hosttune.host.support.lspci import FOLDER, devices_in, tables_of
from hosttune.host.support.sections import END, RULE, START, ReportSection, sections_of
from hosttune.host.support.sections import MOST as MOST_SECTIONS
from hosttune.host.support.smi import LongText, read_long
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

MOST: Final = 48 << 20  # bytes of the text; a report of eight GPUs has some 20 MiB
MOST_LINES: Final = 1 << 20
_GZIP = b"\x1f\x8b"
# bytes that are unpacked at a time, and that come of them at most
_PIECE, _CHUNK = 1 << 14, 1 << 20
_MOST_MEMBERS = 20_000  # gzip files in one; the program writes some 600
_MOST_LOG = 16 << 20  # characters of the kernel log; the kernel's buffer has 1 MiB as a rule
_LOOK = 64 << 10  # bytes of a file by which its kind is known
_HEAD = 4096  # bytes in which the first sentences are
_UNAME = regex(
    r"^uname: (\S{1,99}) (\S{1,99}) (\S{1,99}) .{0,200}?\b(x86_64|aarch64|ppc64le) ", re.MULTILINE
)
_VERSION = regex(r"^nvidia-bug-report.sh Version: (\d{1,12})", re.MULTILINE)
_CLOCK = regex(r"^Date: .{0,80}?(\d{1,2}):(\d{2}):(\d{2})\b", re.MULTILINE)
_QUARTER_S, _HALF_DAY_S = 900, 43_200
_LONGEST_S = 1800  # that the program runs
_FLAGS = regex(r"^command line flags: (.*)$", re.MULTILINE)
QUERY: Final = "nvidia-smi --query"
# A table before all else, since branch 565, has what nvidia-smi said when it was asked for the
# GPUs.
_REFUSED = regex(r"^NVIDIA GPU Details {1,40}\| Failed: ([A-Z][^\n]{1,300})$", re.MULTILINE)
_SAFE_MODE = "--safe-mode"
_NO_SMI: Final = "Skipping nvidia-smi output (nvidia-smi not found)"
_XID = regex(r"NVRM: Xid \([^()\n]{1,60}\): (\d{1,3}), [^\n]{0,400}")
_LOGS = "Scanning kernel log files for NVIDIA kernel messages"
_OF_KERNEL = ("/proc/", "/sys/")
_DRIVER = regex(r"^NVRM version: .{0,200}?(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)\s", re.MULTILINE)
_LOADED = regex(r"^(\w+) \d+ ", re.MULTILINE)
_MODULES = (
    "nvidia",
    "nvidia_modeset",
    "nvidia_drm",
    "nvidia_uvm",
    "nvidia_peermem",
    "nouveau",
    "vfio_pci",
)
_VERSION_LOADED, _MODULE_VERSION = "/proc/driver/nvidia/version", "/sys/module/nvidia/version"
_GPUS = "/proc/driver/nvidia/gpus"
_VIRTUAL = regex(r"^flags\s*:.* hypervisor\b", re.MULTILINE)
_DMI_FOLDER = "/sys/class/dmi/id"
_DMI_ROW = regex(r"\t([\w ]{1,60}): (.*)")
_DMI = {
    ("System Information", "Manufacturer"): "sys_vendor",
    ("System Information", "Product Name"): "product_name",
    ("Base Board Information", "Manufacturer"): "board_vendor",
    ("Base Board Information", "Product Name"): "board_name",
    ("BIOS Information", "Vendor"): "bios_vendor",
    ("BIOS Information", "Version"): "bios_version",
    ("Chassis Information", "Asset Tag"): "chassis_asset_tag",
}
_OS = regex(r"^([A-Z_]{1,40})=(?:\"([^\"\n]*)\"|'([^'\n]*)'|(\S*))\s*$", re.MULTILINE)
# In /etc/issue, /etc/redhat-release and the table before all else. The id is the first word, but
# for these.
_NAMED = regex(
    r"((?:Ubuntu|Debian|Arch|Manjaro|Fedora|Kali|Linux Mint|Pop!_OS|Parrot|Rocky|AlmaLinux|CentOS"
    r"|Red Hat|openSUSE)"
    r"(?: (?:GNU/Linux|Linux|OS|Enterprise|Stream|Leap|Tumbleweed"
    r"|release)\b){0,3})(?: (\d{1,3}(?:\.\d{1,3})?))?"
)
_IDS = {"linux": "linuxmint", "pop!_os": "pop", "red": "rhel"}
_DISTRIBUTION = regex(r"^[\w ]{0,80}\| Distribution : ([^\n]{1,100})$", re.MULTILINE)
_LSPCI = regex(r"lspci -(?:nn$|nnDvvvx|d)")
# Files that count. Others say what the host was long ago, or are of users.
_OF_HOST = regex(
    r"/(?:proc|sys)/(?!asound/|class/drm/)|/etc/(?:issue|os-release|debian_version|lsb-release)$"
)
_COUNTS = regex(r"/|dmesg$|lspci |nvidia-smi |Skipping nvidia-smi |Scanning kernel log files ")
_CONTAINER = regex(r"[0-9a-f]{12}")  # the host name that Docker gives a container
# The kernel log, the configuration space of PCI devices and the tables of the firmware are read on
# a host, or in a container that is as open as one: of both the verdicts are about the host.
FIRST_NAMESPACES: Final = {
    "/proc/self/ns/pid": "pid:[4026531836]",
    "/proc/self/ns/user": "user:[4026531837]",
}
# And those of a container, of which only that they are others is known.
OTHER_NAMESPACES: Final = dict.fromkeys(FIRST_NAMESPACES, "a container's own")
# Not collected: the default policy judges. That nothing was learned there, and no boot was asked
# for, is not known.
_NO_POLICY = ("/etc/hosttune", "/var/lib/hosttune/runs", "/var/lib/hosttune/lock")
_NO_HYPERVISOR = ("/sys/hypervisor", "/sys/hypervisor/type")
# nvidia-smi is the host's own there: hosts whose driver is in a container have none.
_NO_CONTAINED_DRIVER = ("/run/nvidia", "/run/nvidia/driver")
Tables = dict[str, dict[str, Any]]


@frozen
class BugReport:
    """What a report holds."""

    record: Mapping[str, Any]  # as host/record/record.py has it
    smi: LongText
    answers: Mapping[str, str]  # of nvidia-smi's commands, by the command
    script: str  # version of the program
    collected_at: float  # seconds since 1970; 0 where nothing tells
    is_whole: bool  # its last line is there
    # heads that are there twice, of which none counts: a user may have written one
    doubled: tuple[str, ...]
    is_safe_mode: bool  # the full answer of nvidia-smi is not in it
    has_no_smi: bool  # there is no nvidia-smi on that host
    has_log: bool  # of the kernel, of that boot
    # Xid numbers of the system's logs that the kernel log of that boot does not have, and how many
    # lines have each. Any user of that host can write into these logs.
    logged_xids: Mapping[int, int]
    xids: Mapping[int, int]  # the same of the kernel log of that boot


def is_bug_report(content: bytes) -> bool:
    """Whether a file begins as one, plain or packed."""
    return START in _unpack(content[:_LOOK], _HEAD)[:_HEAD]


def read_bug_report(content: bytes, path: str, tool_version: str) -> BugReport:
    """What a file holds that `is_bug_report`. Raises BadInput for one that is too long."""
    plain = _unpack(content, MOST)
    if len(plain) > MOST or plain.count(b"\n") > MOST_LINES:
        message = (
            f"its text is longer than any of nvidia-bug-report.sh ({MOST >> 20} MiB, {MOST_LINES} "
            "lines)"
        )
        raise BadInput([Fault(Where(path), message, "send the file as that program wrote it")])
    text = plain.decode("utf-8", "surrogateescape").replace("\r\n", "\n").rstrip("\0\n") + "\n"
    text = text[max(text.find(START.decode()), 0) :]
    head, is_whole = text[:_HEAD], END in text[-_HEAD:]
    table = text[: max(text.find(RULE, len(RULE)), 0)][:_LOOK]  # and what is before it
    found = list(sections_of(f"{RULE}\n\n{text}"))
    if len(found) > MOST_SECTIONS:
        raise BadInput(
            [Fault(Where(path), "it has more sections than a report of nvidia-bug-report.sh")]
        )
    if not is_whole:  # if it breaks off, what is missing means nothing
        del found[-1:]
    counts = Counter(one.head for one in found)
    sections = {one.head: one for one in found if counts[one.head] == 1}
    if refused := _REFUSED.search(table):
        sections.setdefault(QUERY, ReportSection(QUERY, (refused[1],)))
    doubled = tuple(name for name, count in counts.items() if count > 1 and _COUNTS.match(name))
    flags = match[1].split() if (match := _FLAGS.search(head)) else []
    # With --extra-system-data it also has backtraces that the program asked for: no words of a
    # stall are in them.
    log = _get_text(sections, "dmesg")
    log = log if len(log) <= _MOST_LOG else ""
    at = _find_time(
        [one for one in sections.values() if one.seen_at and one.head.startswith(_OF_KERNEL)], head
    )
    uname = _UNAME.search(head)
    answers = {name: one.text for name, one in sections.items() if name.startswith("nvidia-smi ")}
    version = _VERSION.search(head)
    return BugReport(
        record=_record(sections, uname, log, at, tool_version)
        | {"os_release": _os_release(sections, table)},
        smi=read_long(answers.get(QUERY) or answers.get("nvidia-smi -q", "")),
        answers=answers,
        script=version[1] if version else "",
        collected_at=at,
        is_whole=is_whole,
        doubled=doubled,
        is_safe_mode=_SAFE_MODE in flags and QUERY not in answers,
        has_no_smi=_NO_SMI in sections and is_whole and not answers and _SAFE_MODE not in flags,
        has_log=bool(log),
        logged_xids=_logged_xids(_get_text(sections, _LOGS), log),
        xids=count_xids(log),
    )


def _find_time(files: Collection[ReportSection], head: str) -> float:
    """When it was made, by the newest file of the kernel and by the report's own date; 0 where
    nothing tells.

    The kernel dates a file by the first look at it, which may be minutes before, or at a boot with
    a clock that was hours ahead. The date is in words of any language and has no zone that can be
    read; its clock, of 12 or 24 hours, is that of the listings, and all zones are apart by quarters
    of an hour.
    """
    clock = _CLOCK.search(head)
    if not clock:
        return max((one.seen_at for one in files), default=0.0)
    hours, minutes, seconds = map(int, clock.groups())
    began = hours * 3600 + minutes * 60 + seconds
    meanwhile = [
        one.seen_at for one in files if (one.seen_clock - began) % _HALF_DAY_S < _LONGEST_S
    ]
    at = max(meanwhile or [one.seen_at for one in files], default=0.0)
    later_s = (minutes * 60 + seconds - at) % _QUARTER_S
    return at + later_s if at and later_s < _QUARTER_S / 2 else at


def _unpack(content: bytes, most: int) -> bytes:
    """The text, at most 1 MiB more than `most` of it. The program adds section by section, so that
    gzip files are one after another, also such with nothing in them; of one that breaks off what is
    before the break.
    """
    if not content.startswith(_GZIP):
        return content
    parts: list[bytes] = []
    length = at = members = 0
    while content.startswith(_GZIP, at) and length <= most and members < _MOST_MEMBERS:
        members += 1
        stream, data = zlib.decompressobj(wbits=31), b""
        while not stream.eof and length <= most:
            if not data:
                data = content[at : at + _PIECE]
                at += len(data)
            is_over = not data
            try:
                part = stream.decompress(data, _CHUNK)
            except zlib.error:
                return b"".join(parts)
            data = stream.unconsumed_tail
            parts.append(part)
            length += len(part)
            if is_over and not part:
                return b"".join(parts)
        # What is left belongs to the next gzip file.
        at -= len(stream.unused_data)
    return b"".join(parts)


def _record(
    sections: Mapping[str, ReportSection],
    uname: re.Match[str] | None,
    log: str,
    at: float,
    tool_version: str,
) -> dict[str, Any]:
    tables = _list_tables(sections)
    queries = []
    if log:
        queries.append({"argv": ["dmesg", "--kernel"], "status": 0, "stdout": log, "stderr": ""})
    if uname:
        names = zip(("ostype", "hostname", "osrelease", "arch"), uname.groups(), strict=True)
        tables["files"] |= {f"/proc/sys/kernel/{name}": f"{value}\n" for name, value in names}
        queries.append(
            {"argv": ["uname", "-m"], "status": 0, "stdout": f"{uname[4]}\n", "stderr": ""}
        )
        if not _CONTAINER.fullmatch(uname[2]):
            tables["links"] |= FIRST_NAMESPACES
    return {
        "format_version": FORMAT_VERSION, "kind": KIND, "tool_version": tool_version, "made_at": at,
        "name": uname[2] if uname else "unknown", "machine": "", "privileged": True,
        "persistent_only": False, "shared": False, "queries": queries, **tables,
    }  # fmt: skip


def _get_text(sections: Mapping[str, ReportSection], *heads: str) -> str:
    return next((sections[head].text for head in heads if head in sections), "")


def _list_tables(sections: Mapping[str, ReportSection]) -> Tables:
    tables: Tables = {
        name: {} for name in ("files", "links", "listings", "stats", "lstats", "paths")
    }
    files = tables["files"]
    files |= {
        path: _make_entry(one)
        for path, one in sections.items()
        if one.is_known and _OF_HOST.match(path)
    }
    shown = [one.text for name, one in sections.items() if _LSPCI.match(name)]
    if shown and (devices := devices_in(*shown)):
        for name, own in tables_of(devices).items():
            tables[name] |= own
    slots = {
        path.split("/")[5]
        for path, one in files.items()
        if path.startswith(f"{_GPUS}/") and isinstance(one, str)
    }
    tables["listings"] |= {_GPUS: sorted(slots)} if slots else {}
    add_conclusions(
        tables,
        modules=_get_text(sections, "/proc/modules"),
        cpuinfo=_get_text(sections, "/proc/cpuinfo"),
        log=_get_text(sections, "dmesg"),
        dmidecode=_get_text(sections, "/sbin/dmidecode", "/usr/sbin/dmidecode"),
        has_smi=any(name.startswith("nvidia-smi ") for name in sections),
    )
    return tables


def add_conclusions(
    tables: Tables, *, modules: str, cpuinfo: str, log: str, dmidecode: str, has_smi: bool
) -> None:
    """What the texts of a file prove besides what they are."""
    for path, words in _firmware_words(dmidecode).items():
        tables["files"].setdefault(path, words)
    if modules:
        _add_modules(tables, frozenset(_LOADED.findall(modules)))
    absent = [*_NO_POLICY]
    if cpuinfo and not (_VIRTUAL.search(cpuinfo) and "Xen" in log):
        absent += _NO_HYPERVISOR
    if has_smi:
        absent += _NO_CONTAINED_DRIVER
    for table in tables.values():
        table.update({path: {"absent": True} for path in absent})


def _make_entry(section: ReportSection) -> Any:
    if section.state == "missing":
        return {"absent": True}
    return (
        section.text
        if section.state == "file"
        else {"unreadable": f"{section.head} could not be read there"}
    )


def _add_modules(tables: Tables, loaded: frozenset[str]) -> None:
    """Which modules of GPUs are loaded: none of them is built into a kernel of a distribution."""
    files = tables["files"]
    for name in _MODULES:
        is_loaded = name in loaded
        tables["stats"][f"/sys/module/{name}"] = list(FOLDER) if is_loaded else {"absent": True}
        if not is_loaded:
            files[f"/sys/module/{name}/version"] = {"absent": True}
    if "nvidia" not in loaded:
        files.setdefault(_VERSION_LOADED, {"absent": True})
    elif isinstance(version := files.get(_VERSION_LOADED), str) and (
        driver := _DRIVER.search(version)
    ):
        files[_MODULE_VERSION] = f"{driver[1]}\n"


def _firmware_words(dmidecode: str) -> dict[str, str]:
    """What /sys/class/dmi/id has, of the first table of each kind."""
    found: dict[str, str] = {}
    table = ""
    for line in dmidecode.split("\n"):
        if line and not line.startswith(("\t", " ")):
            table = line.strip()
        elif (row := _DMI_ROW.fullmatch(line)) and (name := _DMI.get((table, row[1]))):
            found.setdefault(f"{_DMI_FOLDER}/{name}", f"{row[2].strip()}\n")
    if found:  # firmware may have no such row
        found.setdefault(f"{_DMI_FOLDER}/chassis_asset_tag", "\n")
    return found


def count_xids(log: str) -> dict[int, int]:
    """How many lines of a kernel log have each Xid."""
    return dict(Counter(int(match[1]) for match in _XID.finditer(log)))


def _logged_xids(logs: str, log: str) -> dict[int, int]:
    known = {match[0] for match in _XID.finditer(log)}
    found = (match for match in _XID.finditer(logs) if match[0] not in known)
    return dict(Counter(int(match[1]) for match in found))


def _os_release(sections: Mapping[str, ReportSection], table: str) -> Mapping[str, Any]:
    row = _DISTRIBUTION.search(table)
    named = (
        _get_text(sections, "/etc/issue"),
        _get_text(sections, "/etc/redhat-release"),
        row[1] if row else "",
    )
    return make_os_release(_get_text(sections, "/etc/os-release"), *named)


def make_os_release(release: str, *named: str) -> Mapping[str, Any]:
    """As a record has it, of the text of os-release(5), else of the first text that begins with a
    name.
    """
    if found := {
        match[1].lower(): match[2] or match[3] or match[4] or "" for match in _OS.finditer(release)
    }:
        return found
    for match in filter(None, (_NAMED.match(text.lstrip()) for text in named)):
        first = match[1].split()[0].lower()
        return {
            "id": _IDS.get(first, first),
            "version_id": match[2] or "",
            "pretty_name": match[0].strip(),
        }
    return {"unreadable": "which distribution it is was not found in it"}
