"""Which board of NVIDIA's a PCI function is, or of which one it is a part that a hypervisor lends
(vGPU); pure, but for the package's own table, hosttune/tables/gpu-boards.tsv, which names its
source.

A vGPU has the device id of the card and a subsystem id of its own, so that it is known before any
driver is there: canonical/ubuntu-drivers-common issue 92 (Azure NVadsA10 v5: 2236, subsystem
10de:14bb; the card is 10de:1482).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from hosttune.facts.own_tables import read_own_table
from hosttune.frozen import frozen

TABLE = "gpu-boards"
_NVIDIA = "10de"


@frozen
class Board:
    """What the table says of a PCI function."""

    name: str  # of the card: NVIDIA A10; empty where the table does not know it
    is_vgpu: bool
    is_listed: (
        # this very board, or the device alone tells; False for a board of NVIDIA's that is not in
        # the table
        bool
    )


@cache
def _read_table() -> Mapping[str, tuple[tuple[bool, tuple[tuple[int, int], ...], str], ...]]:
    """Device -> (is it a vGPU, ranges of subsystem devices, name) of each row; no ranges where the
    device tells.
    """
    found: dict[str, list[tuple[bool, tuple[tuple[int, int], ...], str]]] = {}
    for kind, device, boards, name in read_own_table(TABLE).rows:
        pairs = () if boards == "*" else tuple(map(_parse_range, boards.split(",")))
        found.setdefault(device, []).append((kind == "vgpu", pairs, name))
    return {device: tuple(rows) for device, rows in found.items()}


def _parse_range(spelled: str) -> tuple[int, int]:
    first, _, last = spelled.partition("-")
    return int(first, 16), int(last or first, 16)


def board_of(device_id: str, subsystem: str) -> Board:
    """`device_id` as sysfs has it (0x2236), `subsystem` as vendor:device (10de:14bb), empty where
    it is not known.

    Cards that other vendors sell have subsystem ids of these vendors, and are never vGPUs.
    """
    rows = _read_table().get(device_id.removeprefix("0x").lower(), ())
    vendor, _, board = subsystem.lower().partition(":")
    is_known = vendor == _NVIDIA and re.fullmatch(r"[0-9a-f]{1,8}", board)
    number = int(board, 16) if is_known else 0  # 0: not known
    for is_vgpu, pairs, name in rows:
        if number and any(first <= number <= last for first, last in pairs):
            return Board(name, is_vgpu, is_listed=True)
    # No row names this very board. If all cards with this device have one name, the number of the
    # board does not matter.
    whole = [(pairs, name) for is_vgpu, pairs, name in rows if not is_vgpu]
    names = {name for _, name in whole}
    name = next(
        (name for pairs, name in whole if not pairs), names.pop() if len(names) == 1 else ""
    )
    return Board(
        name,
        is_vgpu=False,
        is_listed=not number or not rows or any(not pairs for pairs, _ in whole),
    )
