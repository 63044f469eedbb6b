"""When the kernel takes memory back and writes it out: the settings below /proc/sys/vm that weigh it, as they are now.

Source: kernel, Documentation/admin-guide/sysctl/vm.rst. Of `dirty_bytes` and `dirty_ratio` one is always 0: the other
is in force; likewise of the background pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.memory.memory import MEMINFO, parse_meminfo
from hosttune.facts.reading import derive, names_in, read_integer, read_text, require_known
from hosttune.frozen import frozen
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_SETTINGS = "/proc/sys/vm"


@frozen
class Reclaim(Fact):
    """Sizes in bytes, ratios in percent of the memory that is available."""

    min_free_bytes: int  # what the kernel keeps free for itself
    watermark_scale_factor: int  # in 1/10000 of memory: how much more is kept free in the background
    zone_reclaim_mode: int  # 0: use another NUMA node before dropping page cache; a kernel without NUMA has 0
    dirty_ratio: int  # where programs that write are made to wait; 0 where dirty_bytes is in force
    dirty_background_ratio: int  # where the kernel begins to write; 0 where dirty_background_bytes is in force
    dirty_bytes: int  # 0 where dirty_ratio is in force
    dirty_background_bytes: int  # 0 where dirty_background_ratio is in force
    waiting_bytes: int  # written by programs and not yet on a disk: Dirty and Writeback of /proc/meminfo


def collect(reader: Reader, facts: Facts) -> Reclaim:  # noqa: ARG001 - the interface of all subjects
    return Reclaim(
        min_free_bytes=lazy(lambda: _read_setting(reader, "min_free_kbytes") * 1024),
        watermark_scale_factor=lazy(_read_setting, reader, "watermark_scale_factor"),
        zone_reclaim_mode=lazy(_zone_reclaim_mode, reader),
        dirty_ratio=lazy(_read_setting, reader, "dirty_ratio"),
        dirty_background_ratio=lazy(_read_setting, reader, "dirty_background_ratio"),
        dirty_bytes=lazy(_read_setting, reader, "dirty_bytes"),
        dirty_background_bytes=lazy(_read_setting, reader, "dirty_background_bytes"),
        waiting_bytes=lazy(lambda: derive(read_text(reader, MEMINFO), MEMINFO, waiting_in)),
    )


def _read_setting(reader: Reader, name: str) -> int:
    return require_known(read_integer(reader, f"{_SETTINGS}/{name}"), f"{_SETTINGS}/{name}")


def _zone_reclaim_mode(reader: Reader) -> int:
    """Without the folder a missing file says nothing about the kernel."""
    mode = read_integer(reader, f"{_SETTINGS}/zone_reclaim_mode")
    return 0 if mode is ABSENT and names_in(reader, _SETTINGS) else require_known(mode, "zone_reclaim_mode")


def waiting_in(meminfo: str) -> int:
    """Bytes that are written and not yet on a disk, of the text of /proc/meminfo."""
    values = parse_meminfo(meminfo)
    return values.get("Dirty", 0) + values.get("Writeback", 0)
