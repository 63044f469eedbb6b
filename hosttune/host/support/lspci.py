"""PCI devices as `lspci -nnDvvvxxx` prints them, in the form in which sysfs has them. Pure.

Where the configuration space is shown, link and power state are read from it, as the kernel does;
else from the words.

Sources: lspci(8); kernel, Documentation/PCI/sysfs-pci.rst; PCI Local Bus Specification 3.0, section
6.1 (the first 64 bytes of the configuration space); PCI Express Base Specification, 7.5.3.6 and
7.5.3.8 (link capabilities and status), 7.5.2.2 (power management); PCI-to-PCI Bridge Architecture
Specification, 3.2.5.3 (bus numbers).
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.frozen import frozen
from hosttune.host.reading.pci_config import STANDARD, standard_capabilities
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEVICES = "/sys/bus/pci/devices"
NAMES = "/usr/share/misc/pci.ids"
MOST = 4096  # devices
# Older scripts ask for the details without numbers (-d 10de:* -v -xxx), and for the numbers without
# details (-nn).
_HEAD = regex(r"([0-9a-f]{4,8}:)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) \S")
_NUMBERS = regex(
    r"\S{7,20} .{0,120}? \[([0-9a-f]{4})\]: (.{0,300}?)\[([0-9a-f]{4}):([0-9a-f]{4})\]"
)
# lspci has the names of pci.ids(5), and before them the maker's; without one it says Device.
_NAME = regex(
    r"(NVIDIA Corporation|nVidia Corporation|Intel Corporation"
    r"|Advanced Micro Devices, Inc\. \[AMD(?:/ATI)?\]) "
    r"(?!Device )(\S.*\S) "
)
_BYTES = regex(r"([0-9a-f]{2,3}): ((?:[0-9a-f]{2} ?){16})")
_LINK = regex(
    r"[\t ]{1,9}Lnk(Cap|Sta):\s.{0,60}?Speed (\d{1,3}(?:\.\d)?)GT/s(?: \([^)]{0,40}\))?, Width x"
    r"(\d{1,2})"
)
_REGION = regex(
    r"\tRegion (\d): (?:Memory|I/O ports) at ([0-9a-f]{1,16}) .{0,120}?\[size=(\d{1,6})([KMGT]?)\]"
)
_BUSES = regex(r"\tBus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), ")
_DRIVER = regex(r"\tKernel driver in use: ([\w-]{1,64})")
_NODE = regex(r"\tNUMA node: (\d{1,5})")
_GROUP = regex(r"\tIOMMU group: (\d{1,6})")
_FUNCTIONS = regex(r"[\t ]{1,9}Initial VFs: \d{1,5}, .{0,120}?Number of VFs: ([1-9]\d{0,4})")
_BRIDGES = ("0604", "0609")
_POWER, _EXPRESS = 0x01, 0x10  # ids of capabilities
_SPEEDS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}  # GT/s
_STATES = {0: "active", 3: "suspended"}  # D0 and D3hot, in the words of power/runtime_status
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_NOTHING = b"\xff" * 4  # what is read of a device that does not answer
_LINK_FILES = [(when, what) for when in ("max", "current") for what in ("speed", "width")]
_BARS = 6
FOLDER = ("directory", 0o755, 0, 0, 0, 0, 1, 1, 2, 0)  # as the table `stats` of a record has it
_LINES_OF_RESOURCE = 13


@frozen
class PciDevice:
    """One device as lspci shows it."""

    slot: str  # 0000:1b:00.0
    kind: str  # class and subclass: 0302
    vendor: str
    device: str
    words: str  # the names of its maker and its own
    config: bytes  # as much of the configuration space as is shown
    details: tuple[str, ...]  # its other lines


def devices_in(*texts: str) -> tuple[PciDevice, ...]:
    """Those of whole answers, at most MOST; of a device that several answers have, what each
    adds.
    """
    found: dict[str, PciDevice] = {}
    details: dict[str, list[str]] = {}
    seen: set[tuple[int, str]] = set()
    for number, lines in (
        (number, block) for number, text in enumerate(texts) for block in _split_blocks(text)
    ):
        head = _HEAD.match(lines[0])
        slot = f"{head[1] or '0000:'}{head[2]}" if head else ""
        if not head or len(found) >= MOST or (number, slot) in seen:
            continue
        seen.add((number, slot))
        rows = [row for line in lines if (row := _BYTES.fullmatch(line.strip()))]
        config = b"".join(
            bytes.fromhex(row[2]) for at, row in enumerate(rows) if int(row[1], 16) == at * 16
        )
        before = found.get(slot)
        numbers = _NUMBERS.match(lines[0])
        kind, words, vendor, device = (
            numbers.groups()
            if numbers
            else _numbers_of(config)
            if len(config) >= 64
            else ("", "", "", "")
        )
        details.setdefault(slot, []).extend(lines[1:])
        if before:
            known = (before.kind, before.words, before.vendor, before.device)
            kind, words, vendor, device = (
                one or other
                for one, other in zip((kind, words, vendor, device), known, strict=True)
            )
            config = config or before.config
        found[slot] = PciDevice(slot, kind, vendor, device, words, config, ())
    return tuple(
        replace(one, details=tuple(details[one.slot]))
        for one in found.values()
        if one.kind and one.vendor
    )


def _numbers_of(config: bytes) -> tuple[str, str, str, str]:
    return (
        f"{config[11]:02x}{config[10]:02x}",
        "",
        f"{config[1]:02x}{config[0]:02x}",
        f"{config[3]:02x}{config[2]:02x}",
    )


def _split_blocks(text: str) -> Iterator[list[str]]:
    """`lspci -nn` has a line for each device, and no empty ones between them."""
    lines: list[str] = []
    for line in text.split("\n"):
        if lines and (not line.strip() or _HEAD.match(line)):
            yield lines
            lines = []
        if line.strip():
            lines.append(line)
    if lines:
        yield lines


def tables_of(devices: tuple[PciDevice, ...]) -> Mapping[str, dict[str, Any]]:
    """The files, links and listings of /sys/bus/pci/devices in the tables of a record."""
    places = _place_devices(devices)
    files: dict[str, Any] = {NAMES: _list_names(devices)}
    links: dict[str, Any] = {}
    stats: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    has_functions = any(_find_first(_FUNCTIONS, device) for device in devices)
    for device in devices:
        if place := places[device.slot]:
            links[f"{DEVICES}/{device.slot}"] = "../../.." + place.removeprefix("/sys")
        else:
            place = f"{DEVICES}/{device.slot}"
            paths[place] = {
                "unreadable": f"{place}: the registers of the bridges above it are not shown"
            }
        stats[place] = list(FOLDER)
        for name, value in _list_values(device).items():
            files[f"{place}/{name}"] = f"{value}\n"
        if _has_no_link(device.config):
            files |= {f"{place}/{when}_link_{what}": {"absent": True} for when, what in _LINK_FILES}
        if device.config:
            files[f"{place}/config"] = {"base64": base64.b64encode(device.config).decode()}
        driver, group = _find_first(_DRIVER, device), _find_first(_GROUP, device)
        links[f"{place}/driver"] = (
            f"/sys/bus/pci/drivers/{driver[1]}" if driver else {"absent": True}
        )
        if group:
            links[f"{place}/iommu_group"] = f"/sys/kernel/iommu_groups/{group[1]}"
        if not has_functions:
            links[f"{place}/physfn"] = {"absent": True}
    listings = {DEVICES: [device.slot for device in devices]}
    return {"files": files, "links": links, "stats": stats, "paths": paths, "listings": listings}


def _list_names(devices: tuple[PciDevice, ...]) -> str:
    """As much of pci.ids(5) as lspci shows."""
    makers: dict[str, dict[str, str]] = {}
    for one in devices:
        if name := _NAME.fullmatch(one.words):
            makers.setdefault(f"{one.vendor}  {name[1]}", {}).setdefault(one.device, name[2])
    return "".join(
        f"\n{maker}" + "".join(f"\n\t{device}  {name}" for device, name in own.items())
        for maker, own in makers.items()
    )


def _place_devices(devices: tuple[PciDevice, ...]) -> Mapping[str, str]:
    """The folder of each device below the bridges above it; empty where these are not known."""
    buses = {device.slot: _find_bus(device) for device in devices if device.kind in _BRIDGES}
    bridges: dict[tuple[str, str], str] = {}  # (domain, bus below it) -> slot
    for slot, bus in buses.items():
        bridges.setdefault((slot.partition(":")[0], bus), slot)
    return {
        device.slot: _place_slot(device.slot, bridges, is_sure=all(buses.values()))
        for device in devices
    }


def _find_bus(bridge: PciDevice) -> str:
    """The bus below a bridge; empty where it is not shown."""
    # The highest bit of the header type only says that the device has more functions.
    if len(bridge.config) >= 64 and bridge.config[14] & 0x7F == 1:
        return f"{bridge.config[25]:02x}"
    buses = _find_first(_BUSES, bridge)
    return buses[2] if buses else ""


def _place_slot(slot: str, bridges: Mapping[tuple[str, str], str], *, is_sure: bool) -> str:
    way = [slot]
    # A damaged or invented list of bridges may be a ring.
    while len(way) < 32:
        domain, bus = way[-1].split(":")[:2]
        above = bridges.get((domain, bus))
        if above is None or above in way:
            break
        way.append(above)
    domain, bus = way[-1].split(":")[:2]
    return (
        "/".join((f"/sys/devices/pci{domain}:{bus}", *reversed(way)))
        if is_sure or bus == "00"
        else ""
    )


def _list_values(device: PciDevice) -> dict[str, str]:
    config = device.config
    interface = f"{config[9]:02x}" if len(config) > 9 else "00"
    found = {
        "vendor": f"0x{device.vendor}", "device": f"0x{device.device}",
        "class": f"0x{device.kind}{interface}",
    }  # fmt: skip
    is_endpoint = len(config) >= 64 and config[14] & 0x7F == 0
    if is_endpoint:
        found["subsystem_vendor"] = f"0x{config[45]:02x}{config[44]:02x}"
        found["subsystem_device"] = f"0x{config[47]:02x}{config[46]:02x}"
    node = _find_first(_NODE, device)
    found["numa_node"] = node[1] if node else "-1"
    found |= _list_states(config)
    for line in device.details:
        if link := _LINK.match(line):
            when = "max" if link[1] == "Cap" else "current"
            found.setdefault(f"{when}_link_speed", f"{float(link[2]):.1f} GT/s PCIe")
            found.setdefault(f"{when}_link_width", link[3])
    found["resource"] = _make_resource(device)
    return found


def _list_states(config: bytes) -> dict[str, str]:
    """Power state and link, as far as the capabilities of a function show them; of registers that
    all read as ones, as of a device that does not answer, nothing.
    """
    found: dict[str, str] = {}
    capabilities = standard_capabilities(config)
    power, express = capabilities.get(_POWER), capabilities.get(_EXPRESS)
    if (
        power is not None
        and len(config) >= power + 6
        and (state := _STATES.get(config[power + 4] & 3))
    ):
        found["power/runtime_status"] = state
    if express is not None and len(config) >= express + 20:
        for when, at in (("max", express + 12), ("current", express + 18)):
            bits = int.from_bytes(config[at : at + 2], "little")
            speed = _SPEEDS.get(bits & 0xF)
            found[f"{when}_link_speed"] = f"{speed:.1f} GT/s PCIe" if speed else "Unknown"
            found[f"{when}_link_width"] = str(bits >> 4 & 0x3F)
    return found


def _has_no_link(config: bytes) -> bool:
    """Whether it is a function of plain PCI, which the kernel gives no files of a link."""
    return (
        len(config) >= STANDARD
        and not config.startswith(_NOTHING)
        and _EXPRESS not in standard_capabilities(config)
    )


def _make_resource(device: PciDevice) -> str:
    rows = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * _LINES_OF_RESOURCE
    for line in device.details:
        if (region := _REGION.match(line)) and int(region[1]) < _BARS:
            first, size = int(region[2], 16), int(region[3]) << _UNITS[region[4]]
            rows[int(region[1])] = f"0x{first:016x} 0x{first + size - 1:016x} 0x0000000000140204"
    return "\n".join(rows)


def _find_first(pattern: Any, device: PciDevice) -> Any:
    return next((match for line in device.details if (match := pattern.match(line))), None)
