"""What NVIDIA and Ubuntu publish and no machine tells by itself: GPU generations by PCI device id, and driver branches.

Generations: the PCI ID Project's list (pci-ids.ucw.cz), version 2026.08.22, vendor 10de, by the chip's code name;
NVIDIA numbers a chip's products in one block. Only display and 3D controllers (class 03) are looked up: audio, USB and
bridge functions of a card lie in other blocks.

Branches: NVIDIA's data-centre driver support matrix (docs.nvidia.com/datacenter/tesla/drivers) of 2026-09-09; which
GPUs a branch drives: the lists of supported products in its README. Where apt or `ubuntu-drivers` know better, they
win.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from hosttune.frozen import frozen

AS_OF: Final = "2026-09-09"  # the date of the support matrix behind BRANCHES
GOOD_UNTIL: Final = "2027-03"  # NVIDIA publishes a new production branch about twice a year


def month_of(now: float) -> str:
    """The month of a time in seconds since the epoch, UTC: 2026-11."""
    from datetime import datetime, timezone

    return f"{datetime.fromtimestamp(now, timezone.utc):%Y-%m}"


def stale_note(month: str) -> str:
    """A sentence where this table is past its date; else empty."""
    if month <= GOOD_UNTIL:
        return ""
    return f"hosttune's table of branches is of {AS_OF}: a newer hosttune may know more"


# Oldest first. `fermi` stands for Fermi and everything before it; `unknown` is not in the order.
GENERATIONS: Final = (
    "fermi", "kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell",
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
# GPUs that share a module with a Grace processor (pci.ids: GH200, GB200, GB300).
GRACE: Final = frozenset({"0x2342", "0x2345", "0x2348", "0x2941", "0x31c2", "0x31c3"})


def generation_of(device: int) -> str:
    """The generation of a class 03 device of vendor 10de; `unknown` for an id in no block."""
    index = bisect_right(_STARTS, device) - 1
    if index < 0:
        return "unknown"
    first, last, generation = _BLOCKS[index]
    return generation if first <= device <= last else "unknown"


def is_older(generation: str, than: str) -> bool:
    """Whether a known generation came before another; false for `unknown`."""
    return generation in GENERATIONS and GENERATIONS.index(generation) < GENERATIONS.index(than)


@frozen
class Branch:
    """One driver branch. `track` is what NVIDIA calls a long-term (lts), production or new-feature (new) branch."""

    number: int
    track: str
    ends: str  # year and month in which NVIDIA's support ends, 2028-06; empty for one that is gone from the matrix
    first: str  # the oldest generation that it drives
    last: str  # the newest

    def is_over(self, month: str) -> bool:
        """Past its end in this month (2026-11), as far as this table knows."""
        return self.ends < max(month, AS_OF[:7])

    def drives(self, generation: str) -> bool:
        """Whether it drives this generation. One that is unknown here is taken to be newer than all that are known."""
        if generation not in GENERATIONS:
            return self.last == GENERATIONS[-1]
        return not is_older(generation, self.first) and not is_older(self.last, generation)


BRANCHES: Final = {
    one.number: one
    for one in (
        Branch(390, "lts", "", "fermi", "volta"),
        Branch(470, "lts", "", "kepler", "ampere"),
        Branch(535, "lts", "2026-06", "maxwell", "hopper"),
        Branch(550, "production", "", "maxwell", "hopper"),
        Branch(570, "production", "", "maxwell", "blackwell"),
        Branch(575, "new", "", "maxwell", "blackwell"),
        Branch(580, "lts", "2028-06", "maxwell", "blackwell"),
        Branch(590, "new", "", "turing", "blackwell"),
        Branch(595, "production", "2027-03", "turing", "blackwell"),
        Branch(610, "new", "2026-08", "turing", "blackwell"),
    )
}


def branch_of(number: int) -> Branch:
    """The table's entry. A branch that it does not list is over when it is older than the newest listed one; else it is
    a new-feature branch in support, for Turing and newer, as all since 590."""
    if number in BRANCHES:
        return BRANCHES[number]
    if number > max(BRANCHES):
        return Branch(number, "new", "9999-12", "turing", "blackwell")
    below = BRANCHES[max((one for one in BRANCHES if one < number), default=min(BRANCHES))]
    return Branch(number, "new", "", below.first, below.last)
