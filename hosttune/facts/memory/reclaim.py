"""When the kernel takes memory back and writes it out: the settings below /proc/sys/vm that weigh
it, as they are now.

Source: kernel, Documentation/admin-guide/sysctl/vm.rst. Of `dirty_bytes` and `dirty_ratio` one is
always 0: the other is in force; likewise of the background pair.
"""

from __future__ import annotations

from hosttune.facts.memory.memory import MEMINFO, parse_meminfo
from hosttune.facts.reading import derive, names_in, read_integer, read_text, require_known
from hosttune.facts.subject import Subject, fact, number, read_with
from hosttune.frozen import frozen
from hosttune.values import ABSENT

_SETTINGS = "/proc/sys/vm"


@frozen
class Reclaim(Subject):
    """Sizes in bytes, ratios in percent of the memory that is available."""

    # what the kernel keeps free for itself
    min_free_bytes: int = number("/proc/sys/vm/min_free_kbytes", times=1024)
    # in 1/10000 of memory: how much more is kept free in the background
    watermark_scale_factor: int = number("/proc/sys/vm/watermark_scale_factor")

    @fact
    def zone_reclaim_mode(self) -> int:
        """0: use another NUMA node before dropping page cache; a kernel without NUMA has 0.

        Without the folder a missing file says nothing about the kernel.
        """
        mode = read_integer(self.reader, f"{_SETTINGS}/zone_reclaim_mode")
        return (
            0
            if mode is ABSENT and names_in(self.reader, _SETTINGS)
            else require_known(mode, "zone_reclaim_mode")
        )

    # where programs that write are made to wait; 0 where dirty_bytes is in force
    dirty_ratio: int = number("/proc/sys/vm/dirty_ratio")
    # where the kernel begins to write; 0 where dirty_background_bytes is in force
    dirty_background_ratio: int = number("/proc/sys/vm/dirty_background_ratio")
    dirty_bytes: int = number("/proc/sys/vm/dirty_bytes")  # 0 where dirty_ratio is in force
    # 0 where dirty_background_ratio is in force
    dirty_background_bytes: int = number("/proc/sys/vm/dirty_background_bytes")
    # written by programs and not yet on a disk: Dirty and Writeback of /proc/meminfo
    waiting_bytes: int = read_with(
        lambda self: derive(read_text(self.reader, MEMINFO), MEMINFO, waiting_in)
    )


def waiting_in(meminfo: str) -> int:
    """Bytes that are written and not yet on a disk, of the text of /proc/meminfo."""
    values = parse_meminfo(meminfo)
    return values.get("Dirty", 0) + values.get("Writeback", 0)
