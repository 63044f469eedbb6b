"""What no machine tells by itself: GPU generations by PCI device id. Branches are in
hosttune.facts.gpu.branch_table.

Source: the PCI ID Project's list (pci-ids.ucw.cz), version 2026.08.22, vendor 10de, by the chip's
code name; NVIDIA numbers a chip's products in one block. Only display and 3D controllers (class 03)
are looked up: audio, USB and bridge functions of a card lie in other blocks.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

# Oldest first. `fermi` means Fermi and everything before it; `unknown` is not in the order.
GENERATIONS: Final = (
    "fermi", "kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper",
    "blackwell",
)  # fmt: skip

# (first device id, last device id, generation), in order.
_BLOCKS: Final = (
    (0x0000, 0x0F9F, "fermi"),
    (0x0FC0, 0x103F, "kepler"),
    (0x1040, 0x1140, "fermi"),
    (0x1180, 0x11FF, "kepler"),
    (0x1200, 0x125F, "fermi"),
    (0x1280, 0x130F, "kepler"),
    (0x1340, 0x143F, "maxwell"),
    (0x15C0, 0x15FF, "pascal"),
    (0x1600, 0x167F, "maxwell"),
    (0x1725, 0x172F, "pascal"),
    (0x1740, 0x17FF, "maxwell"),
    (0x1B00, 0x1D7F, "pascal"),
    (0x1D80, 0x1DFF, "volta"),
    (0x1E00, 0x1FFF, "turing"),
    (0x2080, 0x20FF, "ampere"),
    (0x2180, 0x21FF, "turing"),
    (0x2200, 0x227F, "ampere"),
    (0x2300, 0x23FF, "hopper"),
    (0x2400, 0x25FF, "ampere"),
    (0x2680, 0x28FF, "ada"),
    (0x2900, 0x2F7F, "blackwell"),
    (0x3180, 0x33FF, "blackwell"),
)
_STARTS: Final = tuple(first for first, _, _ in _BLOCKS)

# Below it lie the nForce chip sets, whose network and power functions also have class 0680.
FIRST_NVSWITCH: Final = 0x1AC0


def generation_of(device: int) -> str:
    """The generation of a class 03 device of vendor 10de; `unknown` for an id in no block."""
    # The gaps between blocks are meant: an id there may be of a chip that came after the list.
    index = bisect_right(_STARTS, device) - 1
    if index < 0:
        return "unknown"
    first, last, generation = _BLOCKS[index]
    return generation if first <= device <= last else "unknown"


def is_older(generation: str, than: str) -> bool:
    """Whether a known generation came before another; false for `unknown`."""
    return generation in GENERATIONS and GENERATIONS.index(generation) < GENERATIONS.index(than)
