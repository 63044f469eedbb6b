"""When the kernel takes memory back and writes it out: the settings below /proc/sys/vm that weigh it, as they are now.

Source: kernel, Documentation/admin-guide/sysctl/vm.rst. Of `dirty_bytes` and `dirty_ratio` one is always 0: the other
is in force; likewise of the background pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact
from hosttune.facts.memory.memory import parse_meminfo
from hosttune.facts.reading import integer, known, text
from hosttune.frozen import frozen
from hosttune.values import ABSENT, Answer

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader


@frozen
class Reclaim(Fact):
    """Sizes in bytes, ratios in percent of the memory that is available."""

    min_free_bytes: int  # what the kernel keeps free for itself
    watermark_scale_factor: int  # in 1/10000 of memory: how much more is kept free in the background
    zone_reclaim_mode: int  # 0: use another NUMA node before dropping page cache; a kernel without NUMA has 0
    dirty_ratio: int  # 0 where dirty_bytes is in force
    dirty_background_ratio: int
    dirty_bytes: int  # 0 where dirty_ratio is in force
    dirty_background_bytes: int
    waiting_bytes: int  # written by programs and not yet on a disk: Dirty and Writeback of /proc/meminfo


def collect(reader: Reader, facts: Facts) -> Reclaim:  # noqa: ARG001 - the interface of all subjects
    def setting(name: str, unit: int = 1) -> Any:
        value = integer(reader, f"/proc/sys/vm/{name}")
        return value * unit if isinstance(value, int) else known(value, f"/proc/sys/vm/{name}")

    zone = integer(reader, "/proc/sys/vm/zone_reclaim_mode")
    return Reclaim(
        min_free_bytes=setting("min_free_kbytes", 1024),
        watermark_scale_factor=setting("watermark_scale_factor"),
        zone_reclaim_mode=0 if zone is ABSENT and not _is_hidden(reader) else known(zone, "zone_reclaim_mode"),
        dirty_ratio=setting("dirty_ratio"),
        dirty_background_ratio=setting("dirty_background_ratio"),
        dirty_bytes=setting("dirty_bytes"),
        dirty_background_bytes=setting("dirty_background_bytes"),
        waiting_bytes=_waiting(text(reader, "/proc/meminfo")),
    )


def _is_hidden(reader: Reader) -> bool:
    """Whether /proc/sys/vm is not there at all, so that a missing file says nothing about the kernel."""
    return not isinstance(reader.list("/proc/sys/vm"), tuple)


def _waiting(answer: Answer[str]) -> Any:
    if not isinstance(answer, str):
        return known(answer, "/proc/meminfo")
    values = parse_meminfo(answer)
    return values.get("Dirty", 0) + values.get("Writeback", 0)
