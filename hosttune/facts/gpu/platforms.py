"""The boards on which NVLinks join GPUs, one row for each kind: its links, its NVSwitches, its
sizes, its daemons.

All that differs between these generations is here, so a new one is one row.
`tests/unit/test_facts_platforms.py` fails if a row lacks a daemon, a size, a machine of
gpu-counts.tsv or a board of gpu-boards.tsv.

Sources: PCI ID Project (ids); NVIDIA, Fabric Manager User Guide (NVSwitches of HGX boards, nvlsm
since B200); NVIDIA, IMEX Service Guide (GB200 NVL72); links and speeds as in
hosttune.facts.gpu.nvlink.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from hosttune.frozen import frozen
from hosttune.regex import regex

FABRIC_MANAGER: Final = "nvidia-fabricmanager.service"
IMEX: Final = "nvidia-imex.service"
NVLSM: Final = "nvlsm"  # a program that Fabric Manager's unit starts, in a package of its own


class Switches(Enum):
    """Where the NVSwitches of a board are."""

    NONE = "none"  # the GPUs are joined to each other
    PCI = "pci"  # on the PCI bus of the host; smaller boards of the same GPUs have none
    BRIDGES = "bridges"  # behind ConnectX functions, and not on the PCI bus as such
    RACK = "rack"  # in trays of their own, which run the fabric


@frozen
class Platform:
    """One kind of board."""

    name: str
    devices: tuple[str, ...]  # PCI device ids of its GPUs: 0x2330
    links: int  # NVLinks of a GPU; 0 if that is not known
    gbytes: float  # GB/s of each in one direction; 0 if that is not known
    switches: Switches
    boards: tuple[int, ...]  # GPUs of a board, or of a tray; one or two GPUs are no board
    chips: int = 0  # NVSwitches on the PCI bus for each eight GPUs
    daemons: tuple[str, ...] = ()  # what the host itself has to run for the NVLinks
    has_grace: bool = False  # the GPU shares a module with a Grace processor


_MANAGED: Final = (FABRIC_MANAGER,)
PLATFORMS: Final = (
    Platform("HGX V100", ("0x1db1", "0x1db5"), 6, 25.781, Switches.NONE, (4, 8)),
    Platform("HGX-2", ("0x1db8",), 6, 25.781, Switches.PCI, (8, 16), 6, _MANAGED),
    Platform("HGX A100", ("0x20b0", "0x20b2"), 12, 25.0, Switches.PCI, (4, 8, 16), 6, _MANAGED),
    # A100 of 64 GB that was made to order; A800
    Platform(
        "HGX A800", ("0x20b3", "0x20bd", "0x20f3"), 0, 0.0, Switches.PCI, (4, 8, 16), 6, _MANAGED
    ),
    Platform(
        "HGX H100", ("0x2330", "0x2335", "0x2339"), 18, 26.562, Switches.PCI, (4, 8), 4, _MANAGED
    ),
    # H800, H20, H20-3e, H100 of 64 GB
    Platform(
        "HGX H20",
        ("0x2324", "0x2329", "0x232c", "0x2337"),
        0,
        0.0,
        Switches.PCI,
        (4, 8),
        4,
        _MANAGED,
    ),
    Platform("GH200", ("0x2342",), 0, 0.0, Switches.NONE, (4,), has_grace=True),
    Platform(
        "HGX B200", ("0x2901",), 18, 53.125, Switches.BRIDGES, (8,), 0, (FABRIC_MANAGER, NVLSM)
    ),
    Platform(
        "HGX B300", ("0x3182",), 18, 53.125, Switches.BRIDGES, (8,), 0, (FABRIC_MANAGER, NVLSM)
    ),
    Platform(
        "GB200 NVL72", ("0x2941",), 18, 53.125, Switches.RACK, (4,), 0, (IMEX,), has_grace=True
    ),
    Platform(
        "GB300 NVL72", ("0x31c2",), 18, 53.125, Switches.RACK, (4,), 0, (IMEX,), has_grace=True
    ),
)
_BY_DEVICE: Final[Mapping[str, Platform]] = {
    device: one for one in PLATFORMS for device in one.devices
}
# GPUs with Grace that are on none of these boards, or whose board is not known: GH200 of 144 GB,
# more of GB300.
_MORE_GRACE: Final = frozenset({"0x2345", "0x2348", "0x31c3"})
# GB100 and GB110 (PCI ID Project): B200, B300 and their kin, which come with NVSwitches. Also those
# of no row yet.
_SWITCHED: Final = ((0x2900, 0x29FF), (0x3180, 0x31FF))
_DEVICE: Final = regex(r"0x[0-9A-Fa-f]{1,8}")


def platform_of(device_id: str) -> Platform | None:
    """The board of a GPU by its PCI device id (0x2330); None for a card, and for what is not
    known.
    """
    return _BY_DEVICE.get(device_id.lower())


def has_grace(device_id: str) -> bool:
    """Whether a GPU of this PCI device id shares a module with a Grace processor."""
    found = platform_of(device_id)
    return bool(found and found.has_grace) or device_id.lower() in _MORE_GRACE


def is_switched(device_id: str) -> bool:
    """Whether a GPU of this PCI device id (0x2901) comes with NVSwitches that do not show on the
    PCI bus as such.
    """
    number = int(device_id, 16) if _DEVICE.fullmatch(device_id) else -1
    return any(first <= number <= last for first, last in _SWITCHED)


def is_of_rack(device_id: str) -> bool:
    """Whether the NVSwitches of a GPU of this PCI device id are in trays of their own."""
    found = platform_of(device_id)
    return (
        found.switches is Switches.RACK
        if found
        else is_switched(device_id) and has_grace(device_id)
    )


def is_bridged(device_id: str) -> bool:
    """Whether a host reaches the NVSwitches of a GPU of this PCI device id through ConnectX
    functions.
    """
    return is_switched(device_id) and not is_of_rack(device_id)
