"""Memory and swap of the machine (not of a control group), from proc_meminfo(5) and /proc/swaps (proc(5))."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, unread
from hosttune.facts.reading import derived, known, text
from hosttune.frozen import frozen
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_OCTAL = re.compile(r"\\([0-7]{3})")


@frozen
class Swap(Fact):
    """One swap area that is in use."""

    path: str
    type: str  # partition | file
    size_bytes: int
    used_bytes: int
    is_zram: bool


@frozen
class Memory(Fact):
    """Memory of the machine. `available_bytes` is the kernel's estimate of what new work gets without swapping."""

    total_bytes: int
    available_bytes: int
    swap_total_bytes: int
    swap_free_bytes: int
    swaps: tuple[Swap, ...]
    huge_pages_total: int  # pages of the default huge page size that are set aside

    @property
    def has_swap(self) -> bool:
        """Whether there is a swap area, zram included."""
        return bool(self.swaps)

    @property
    def has_zram(self) -> bool:
        """Whether some swap is compressed memory."""
        return any(swap.is_zram for swap in self.swaps)

    @property
    def total_gib(self) -> float:
        """Memory in GiB (2**30 bytes)."""
        return self.total_bytes / 2**30


def parse_meminfo(content: str) -> Mapping[str, int]:
    """Name -> bytes, or a count where the line has no unit (HugePages_Total). "kB" means 1024 bytes there."""
    values: dict[str, int] = {}
    for entry in content.splitlines():
        name, _, rest = entry.partition(":")
        number, _, unit = rest.strip().partition(" ")
        if number.isdecimal():
            values[name] = int(number) * (1024 if unit == "kB" else 1)
    return values


def parse_swaps(content: str) -> tuple[Swap, ...]:
    r"""The lines after the head: path (white space as \040), type, size and used in KiB, priority."""
    swaps = []
    for entry in content.splitlines()[1:]:
        fields = entry.split()
        if len(fields) >= 4:
            path = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[0])
            kib = int(fields[2]), int(fields[3])
            swaps.append(Swap(path, fields[1], kib[0] * 1024, kib[1] * 1024, path.startswith("/dev/zram")))
    return tuple(swaps)


def collect(reader: Reader, facts: Facts) -> Memory:  # noqa: ARG001 - the interface of all subjects
    meminfo = text(reader, "/proc/meminfo")
    if not isinstance(meminfo, str):
        gone = known(meminfo, "/proc/meminfo")
        return Memory(gone, gone, gone, gone, gone, gone)
    values = parse_meminfo(meminfo)

    def value(name: str) -> Any:
        return values[name] if name in values else unread(f"/proc/meminfo has no {name}")

    swaps = text(reader, "/proc/swaps")
    # A kernel without CONFIG_SWAP has no /proc/swaps; a kernel without hugetlbfs has no HugePages_ lines.
    return Memory(
        total_bytes=value("MemTotal"),
        available_bytes=value("MemAvailable"),
        swap_total_bytes=value("SwapTotal"),
        swap_free_bytes=value("SwapFree"),
        swaps=() if swaps is ABSENT else derived(swaps, "/proc/swaps", parse_swaps),
        huge_pages_total=values.get("HugePages_Total", 0),
    )
