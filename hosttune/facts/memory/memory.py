"""Memory and swap of the machine (not of a control group), from proc_meminfo(5) and /proc/swaps
(proc(5)).

On NVIDIA's Grace superchips the driver gives the memory of the GPU to the kernel as NUMA nodes
without processors, and the totals of /proc/meminfo count it (NVIDIA Grace Performance Tuning Guide;
kernel: mm/memory_hotplug.c). It is no RAM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, get_raw
from hosttune.facts.reading import derive, read_text
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts.memory.numa import NumaNode

MEMINFO = "/proc/meminfo"
_OCTAL = regex(r"\\([0-7]{3})")


@frozen
class Swap(Fact):
    """One swap area that is in use."""

    path: str  # of the device or the file: /dev/dm-1, /swap.img
    type: str  # partition | file
    size_bytes: int  # of the area
    used_bytes: int  # of the area
    is_zram: bool  # compressed memory, on no disk


@frozen
class Memory(Subject):
    """Memory of the machine, without that of its GPUs. `available_bytes` is the kernel's estimate
    of what new work gets without swapping.
    """

    @fact
    def total_bytes(self) -> int:
        """MemTotal of /proc/meminfo, less than what is built in."""
        return self._value("MemTotal") - sum(node.memory_bytes for node in self._of_gpus)

    @fact
    def gpu_bytes(self) -> int:
        """Memory of GPUs that the kernel uses as its own, and that is not in `total_bytes`
        (Grace).
        """
        return sum(node.memory_bytes for node in self._of_gpus)

    @fact
    def available_bytes(self) -> int:
        """MemAvailable: the kernel's estimate for new work, without swapping."""
        return max(0, self._value("MemAvailable") - sum(node.free_bytes for node in self._of_gpus))

    @fact
    def swap_total_bytes(self) -> int:
        """Of all swap areas; 0 without swap."""
        return self._value("SwapTotal")

    @fact
    def swap_free_bytes(self) -> int:
        """Of all swap areas."""
        return self._value("SwapFree")

    @fact
    def swaps(self) -> tuple[Swap, ...]:
        """Those that are in use, in the order of /proc/swaps.

        A kernel without CONFIG_SWAP has no such file; nor has anybody where /proc is not there at
        all.
        """
        swaps = read_text(self.reader, "/proc/swaps")
        if swaps is ABSENT:
            _ = self._meminfo  # raises where /proc is not there
            return ()
        return derive(swaps, "/proc/swaps", parse_swaps)

    @fact
    def committed_bytes(self) -> int:
        """Promised to programs, whether they use it or not."""
        return self._value("Committed_AS")

    @fact
    def commit_limit_bytes(self) -> int:
        """What may be promised where vm.overcommit_memory is 2."""
        return self._value("CommitLimit")

    @fact
    def corrupted_bytes(self) -> int:
        """Put out of use after errors; also after corrected ones, by tools that do so."""
        # no such line without CONFIG_MEMORY_FAILURE
        return self._meminfo.get("HardwareCorrupted", 0)

    @fact
    def huge_pages_total(self) -> int:
        """Pages of the default huge page size that are set aside."""
        return self._meminfo.get("HugePages_Total", 0)  # no such line without hugetlbfs

    @fact
    def _meminfo(self) -> Mapping[str, int]:
        return derive(read_text(self.reader, MEMINFO), MEMINFO, parse_meminfo)

    @fact
    def _of_gpus(self) -> tuple[NumaNode, ...]:
        """The nodes of memory of GPUs that the kernel uses as its own."""
        facts = self.facts
        # get_raw does not raise: on a machine whose architecture is not known the nodes decide, and
        # only if there are some is the fact asked for.
        if get_raw(facts.kernel, "architecture") == "x86_64" or not (
            nodes := facts.numa.without_cpus
        ):
            return ()
        if facts.kernel.architecture != "aarch64" or not facts.gpus.has_gpu:
            return ()  # a memory expander is RAM
        return nodes

    def _value(self, name: str) -> int:
        if name not in self._meminfo:
            raise UnknownFact(f"{MEMINFO} has no {name}")
        return self._meminfo[name]

    @property
    def has_swap(self) -> bool:
        """Whether there is a swap area, zram included."""
        return bool(self.swaps)

    @property
    def has_zram(self) -> bool:
        """Whether some swap is compressed memory."""
        return any(swap.is_zram for swap in self.swaps)

    @property
    def sold_bytes(self) -> int:
        """What the machine was sold with, to compare with thresholds: one with 256 GiB shows 251.5,
        because firmware, kernel and crash kernel keep their part.
        """
        return as_sold(self.total_bytes, 8)

    @property
    def total_gib(self) -> float:
        """Memory in GiB (2**30 bytes)."""
        return self.total_bytes / 2**30


def as_sold(size_bytes: int, parts: int) -> int:
    """The size of the modules that are built in, as far as that is known: the next multiple of a
    part of the power of two below (`parts`: 8 or 16), at least a GiB. 31.3 GiB are 32, 251.5 are
    256, 376 are 384.
    """
    step = max(1 << 30, (1 << (max(size_bytes, 1).bit_length() - 1)) // parts)
    return -(-size_bytes // step) * step


def parse_meminfo(content: str) -> Mapping[str, int]:
    """Name -> bytes, or a count where the line has no unit (HugePages_Total). "kB" means 1024 bytes
    there.
    """
    values: dict[str, int] = {}
    for entry in content.splitlines():
        name, _, rest = entry.partition(":")
        number, _, unit = rest.strip().partition(" ")
        if (count := parse_digits(number, -1)) >= 0:
            values[name] = count * (1024 if unit == "kB" else 1)
    return values


def parse_swaps(content: str) -> tuple[Swap, ...]:
    r"""The lines after the head: path (white space as \040), type, size and used in KiB,
    priority.
    """
    swaps = []
    for entry in content.splitlines()[1:]:
        fields = entry.split()
        if len(fields) >= 4:
            path = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[0])
            kib = int(fields[2]), int(fields[3])
            swaps.append(
                Swap(path, fields[1], kib[0] * 1024, kib[1] * 1024, path.startswith("/dev/zram"))
            )
    return tuple(swaps)
