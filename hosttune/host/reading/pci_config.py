"""The configuration space of a PCI Express function, as /sys/bus/pci/devices/*/config shows it.

Source: PCI Express Base Specification, 7.5.1.1.11 (list of capabilities), 7.6.3 (extended
capability header) and 7.9.3 (device serial number).
"""

from __future__ import annotations

from collections.abc import Mapping

from hosttune.regex import regex

STANDARD = 256  # the space of plain PCI; extended capabilities begin behind it
_FILE = regex(r"/sys/(?:bus/pci/)?devices/.*/config")
_SERIAL = 0x0003
_HEADER = 64
_CAPABILITIES = 0x34  # where the list of plain capabilities begins


def is_pci_config(path: str) -> bool:
    return _FILE.fullmatch(path) is not None


def standard_capabilities(config: bytes) -> Mapping[int, int]:
    """Capability id -> where it begins, of those in the first 256 bytes; of several of one kind the
    first.
    """
    found: dict[int, int] = {}
    place = config[_CAPABILITIES] & 0xFC if len(config) >= _HEADER else 0
    for _ in range(48):  # as many as fit; a damaged list may be a ring
        if place < _HEADER or place + 4 > min(len(config), STANDARD):
            break
        found.setdefault(config[place], place)
        place = config[place + 1] & 0xFC
    return found


def extended_capabilities(config: bytes) -> Mapping[int, int]:
    """Capability id -> where its header is; of several of one kind the first."""
    found: dict[int, int] = {}
    place = STANDARD
    for _ in range((4096 - STANDARD) // 8):  # as many as fit; a damaged list may be a ring
        if place < STANDARD or place + 8 > len(config):
            break
        header = int.from_bytes(config[place : place + 4], "little")
        if header in {0, 0xFFFFFFFF}:
            break
        found.setdefault(header & 0xFFFF, place)
        place = header >> 20 & 0xFFC
    return found


def without_serial(config: bytes) -> bytes:
    """The same with the serial number of the device, where it has one, filled with zeros."""
    place = extended_capabilities(config).get(_SERIAL)
    if place is None:
        return config
    return config[: place + 4] + bytes(8) + config[place + 12 :]
