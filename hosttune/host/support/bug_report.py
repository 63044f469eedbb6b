"""A report of nvidia-bug-report.sh as the record of its host: files and answers of programs, as far as it has them.

Nothing in it is absent because it is not there: most of a host is not collected. Absent is what the program itself says is no
file (`*** PATH does not exist`), a PCI device that a whole list does not name, and a module that /proc/modules does not.

Sources: nvidia-bug-report.sh of the branches 390 to 595.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any, Final

from hosttune.errors import BadInput, Fault, Where
from hosttune.frozen import frozen
from hosttune.host.record import FORMAT_VERSION, KIND
from hosttune.host.support.lspci import devices_in, tables_of
from hosttune.host.support.sections import END, START, Section, sections_of
from hosttune.host.support.smi import LongText, read_long
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST: Final = 256 << 20  # bytes of the text; a report of eight GPUs has some 20 MiB
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
_HEAD = 4096  # bytes in which the first sentence is
_UNAME = regex(r"^uname: (\S+) (\S+) (\S+) .*?\b(x86_64|aarch64|ppc64le) ", re.MULTILINE)
_VERSION = regex(r"^nvidia-bug-report.sh Version: (\d{1,12})", re.MULTILINE)
_FLAGS = regex(r"^command line flags: (.*)$", re.MULTILINE)
_CONTAINER = regex(r"[0-9a-f]{12}")  # the host name that Docker gives a container
# The kernel log, the configuration space of PCI devices and the tables of the firmware are read on a host, or in a container
# that is as open as one: of both the verdicts are about the host.
_FIRST_NAMESPACES: Final = {"/proc/self/ns/pid": "pid:[4026531836]", "/proc/self/ns/user": "user:[4026531837]"}
_VIRTUAL = regex(r"^flags\s*:.* hypervisor\b", re.MULTILINE)
_DMI_ROW = regex(r"\t([\w ]+): (.*)")
_DMI = {
    ("System Information", "Manufacturer"): "sys_vendor", ("System Information", "Product Name"): "product_name",
    ("Base Board Information", "Manufacturer"): "board_vendor", ("Base Board Information", "Product Name"): "board_name",
    ("BIOS Information", "Vendor"): "bios_vendor", ("BIOS Information", "Version"): "bios_version",
    ("Chassis Information", "Asset Tag"): "chassis_asset_tag",
}  # fmt: skip
_STAMP = regex(r"\[ *(\d+\.\d+)\] (.*)")
_OLD_CONTAINER = regex(r"[0-9a-f]{12}")  # the host name that Docker gives a container
# The kernel log, the configuration space of PCI devices and the tables of the firmware are read on a host, or in a container
# that is as open as one: of both the verdicts are about the host.
_FIRST_NAMESPACES: Final = {"/proc/self/ns/pid": "pid:[4026531836]", "/proc/self/ns/user": "user:[4026531837]"}
_STAMP = regex(r"\w{3} +\d+ [\d:]{8} \S+ kernel: (.*)")
_DRIVER = regex(r"^NVRM version: .*?(\d+\.\d+(?:\.\d+)?)\s", re.MULTILINE)
_LOADED = regex(r"^(\w+) \d+ ", re.MULTILINE)
_MODULES = ("nvidia", "nvidia_modeset", "nvidia_drm", "nvidia_uvm", "nvidia_peermem", "nouveau", "vfio_pci")
_SYSRQ = "--extra-system-data"
_OF_KERNEL = ("/proc/", "/sys/")
_OS = regex(r"^([A-Z_]+)=(?:\"([^\"]*)\"|'([^']*)'|(\S*))\s*$", re.MULTILINE)
_ISSUE = regex(r"(Ubuntu|Debian GNU/Linux) (\d+(?:\.\d+)?)")
# Files that say what the host was long ago, or nothing of it: their errors are over.
_LSPCI = regex(r"lspci -(?:nn$|nnDvvvx|d)")
_LEFT_OUT = regex(r"/var/log/|/var/lib/dkms/|/home/|/usr/share/|/etc/X11/|/proc/asound/|/sys/class/drm/")


@frozen
class BugReport:
    """What a report holds."""

    record: Mapping[str, Any]  # as host/record.py has it
    smi: LongText
    answers: Mapping[str, str]  # of nvidia-smi's other commands, by the command
    script: str  # version of the program
    collected_at: float  # seconds since 1970; 0 where nothing tells
    is_whole: bool  # its last line is there
    is_safe_mode: bool  # nvidia-smi was not asked
    has_backtraces: bool  # the program asked the kernel for them: they are no stall


def is_bug_report(head: bytes) -> bool:
    """Whether a file begins as one: plain, or gzip whose first bytes are."""
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, _HEAD)
        except zlib.error:
            return False
    return START in head[:_HEAD]


def unpacked(content: bytes, path: str) -> bytes:
    """The text. gzip files are one after another, because the program adds section by section; what breaks off is read up to
    there. Raises BadInput where it is longer than MOST.
    """
    if not content.startswith(_GZIP):
        return _at_most(content, path)
    parts: list[bytes] = []
    length, left = 0, content
    while left.startswith(_GZIP):
        stream = zlib.decompressobj(wbits=31)
        while left and not stream.eof:
            try:
                part = stream.decompress(left, _CHUNK)
            except zlib.error:
                left = b""
                break
            left = stream.unconsumed_tail
            length += len(part)
            if length > MOST:
                return _at_most(b"", path, length)
            parts.append(part)
            if not part and not left:
                break
        left = stream.unused_data if stream.eof else b""
    return b"".join(parts)


def _at_most(content: bytes, path: str, length: int = 0) -> bytes:
    if max(length, len(content)) > MOST:
        message = f"its text is longer than {MOST >> 20} MiB, which no report of nvidia-bug-report.sh is"
        raise BadInput([Fault(Where(path), message)])
    return content


def read_bug_report(content: bytes, path: str, tool_version: str) -> BugReport:
    """What a file holds that `is_bug_report`."""
    text = unpacked(content, path).decode("utf-8", "surrogateescape")
    start = text.find(START.decode())
    sections: dict[str, Section] = {}
    for section in sections_of("_" * 44 + "\n\n" + text[max(start, 0) :]):
        sections.setdefault(section.head, section)
    head = text[start : start + _HEAD]
    flags = match[1] if (match := _FLAGS.search(head)) else ""
    uname = _UNAME.search(head)
    at = max((one.seen_at for one in sections.values() if one.head.startswith(_OF_KERNEL)), default=0.0)
    tables = _tables(sections)
    if uname:
        tables["files"] |= {
            "/proc/sys/kernel/ostype": f"{uname[1]}\n", "/proc/sys/kernel/hostname": f"{uname[2]}\n",
            "/proc/sys/kernel/osrelease": f"{uname[3]}\n", "/proc/sys/kernel/arch": f"{uname[4]}\n",
        }  # fmt: skip
    if uname and not _CONTAINER.fullmatch(uname[2]):
        tables["links"] |= _FIRST_NAMESPACES
    has_backtraces = _SYSRQ in flags.split()
    log = "" if has_backtraces else _text(sections, "dmesg")
    queries = []
    if log:
        queries.append({"argv": ["dmesg", "--kernel"], "status": 0, "stdout": log, "stderr": ""})
        tables["files"]["/proc/uptime"] = f"{max(at - _booted(sections, log, at), 0.0):.2f} 0.00\n"
    if uname:
        queries.append({"argv": ["uname", "-m"], "status": 0, "stdout": f"{uname[4]}\n", "stderr": ""})
    record = {
        "format_version": FORMAT_VERSION, "kind": KIND, "tool_version": tool_version, "made_at": at,
        "name": uname[2] if uname else "unknown", "machine": "", "privileged": True, "persistent_only": False,
        "shared": False, "os_release": _os_release(sections), "queries": queries, **tables,
    }  # fmt: skip
    answers = {name: one.text for name, one in sections.items() if name.startswith("nvidia-smi ")}
    version = _VERSION.search(head)
    return BugReport(
        record=record,
        smi=read_long(answers.get("nvidia-smi --query") or answers.get("nvidia-smi -q", "")),
        answers=answers,
        script=version[1] if version else "",
        collected_at=at,
        is_whole=END in text[-_HEAD:],
        is_safe_mode="--safe-mode" in flags.split(),
        has_backtraces=has_backtraces,
    )


def _text(sections: Mapping[str, Section], head: str) -> str:
    return sections[head].text if head in sections else ""


def _tables(sections: Mapping[str, Section]) -> dict[str, dict[str, Any]]:
    files: dict[str, Any] = {}
    for path, one in sections.items():
        if not path.startswith("/") or not one.state or _LEFT_OUT.match(path):
            continue
        if one.state == "file":
            files[path] = one.text
        elif one.state == "missing":
            files[path] = {"absent": True}
        elif one.state == "unreadable":
            files[path] = {"unreadable": f"{path} could not be read there"}
    tables: dict[str, dict[str, Any]] = {"files": files, "links": {}, "listings": {}, "stats": {}, "lstats": {}}
    absent = ["/etc/hosttune", "/var/lib/hosttune"]  # its policy is not collected: the default one judges
    shown = [one.text for name, one in sections.items() if _LSPCI.match(name)]
    if shown and (devices := devices_in(*shown)):
        for name, own in tables_of(devices).items():
            tables[name] |= own
    tables["listings"] |= _driver_folders(files)
    files |= _firmware_words(_text(sections, "/sbin/dmidecode") or _text(sections, "/usr/sbin/dmidecode"))
    if (cpuinfo := _text(sections, "/proc/cpuinfo")) and not (_VIRTUAL.search(cpuinfo) and "Xen" in _text(sections, "dmesg")):
        absent += ["/sys/hypervisor/type", "/sys/hypervisor"]
    if any(name.startswith("nvidia-smi ") for name in sections):  # the host's own: of a driver container's hosts none has one
        absent += ["/run/nvidia/driver", "/run/nvidia"]
    for table in tables.values():
        table |= dict.fromkeys(absent, {"absent": True})
    if modules := _text(sections, "/proc/modules"):
        loaded = set(_LOADED.findall(modules))
        for name in _MODULES:
            place = f"/sys/module/{name}"
            tables["stats"][place] = ["directory", 0o755, 0, 0, 0, 0, 1, 1, 2, 0] if name in loaded else {"absent": True}
            if name not in loaded:
                files[f"{place}/version"] = {"absent": True}
        if "nvidia" in loaded and (driver := _DRIVER.search(files.get("/proc/driver/nvidia/version", "") or "")):
            files["/sys/module/nvidia/version"] = f"{driver[1]}\n"
    if "/sys/module/nvidia/version" in files and isinstance(files["/sys/module/nvidia/version"], dict):
        files.setdefault("/proc/driver/nvidia/version", {"absent": True})
    return tables


def _firmware_words(dmidecode: str) -> dict[str, str]:
    """What /sys/class/dmi/id has, of the first table of each kind that dmidecode(8) prints."""
    found: dict[str, str] = {}
    table = ""
    for line in dmidecode.split("\n"):
        if line and not line.startswith(("\t", " ")):
            table = line.strip()
        elif (row := _DMI_ROW.fullmatch(line)) and (name := _DMI.get((table, row[1]))):
            found.setdefault(f"/sys/class/dmi/id/{name}", f"{row[2].strip()}\n")
    if found:  # firmware may have no such row
        found.setdefault("/sys/class/dmi/id/chassis_asset_tag", "\n")
    return found


def _driver_folders(files: Mapping[str, Any]) -> dict[str, list[str]]:
    """The folder of each GPU below /proc/driver/nvidia/gpus."""
    folder = "/proc/driver/nvidia/gpus"
    slots = sorted({path.split("/")[5] for path, one in files.items() if path.startswith(f"{folder}/") and isinstance(one, str)})
    return {folder: slots} if slots else {}


def _booted(sections: Mapping[str, Section], log: str, now: float) -> float:
    """When the kernel's clock began: no later than the first look at any of its files, and than its last line said."""
    last = max((float(match[1]) for line in log.split("\n")[-200:] if (match := _STAMP.match(line))), default=0.0)
    seen = [one.seen_at for one in sections.values() if one.seen_at and one.head.startswith(_OF_KERNEL)]
    return min([now - last, *seen])


def _os_release(sections: Mapping[str, Section]) -> Mapping[str, Any]:
    found = {match[1]: match[2] or match[3] or match[4] or "" for match in _OS.finditer(_text(sections, "/etc/os-release"))}
    if found:
        return found
    if issue := _ISSUE.match(_text(sections, "/etc/issue").lstrip()):
        return {"ID": issue[1].split()[0].lower(), "VERSION_ID": issue[2], "PRETTY_NAME": issue[0]}
    return {"unreadable": "this report does not say which distribution it is"}
