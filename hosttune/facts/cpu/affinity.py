"""Which processors are near which GPU, and whether GPU processes may run there.

Sources: kernel, Documentation/ABI/testing/sysfs-bus-pci (local_cpulist);
/proc/driver/nvidia/gpus/*/information of the NVIDIA driver (the number of /dev/nvidiaN);
Cpus_allowed_list of proc_pid_status(5).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.reading import derive, if_absent, parse_or_unknown, read_line, read_text
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.ranges import number_list
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts.work import GpuProcess
    from hosttune.host.door import Reader

_MINOR = regex(r"^Device Minor:\s*(\d+)", re.MULTILINE)
_ALLOWED = regex(r"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)


@frozen
class GpuPlace(Fact):
    """One GPU and the processors near it; none where the firmware does not say."""

    slot: str  # 0000:1b:00.0
    device: str  # /dev/nvidia0; empty without a loaded driver
    local_cpus: tuple[int, ...]  # their numbers


@frozen
class FarProcess(Fact):
    """A process that may run on no processor near any of its GPUs."""

    pid: int  # the number of the process
    name: str  # of the program: python3
    allowed: str  # processors, as the kernel lists them: 0-55
    gpus: tuple[str, ...]  # /dev/nvidia0 ...


@frozen
class Affinity(Subject):
    """GPUs by slot, and the GPU processes that are bound to the wrong processors."""

    @fact
    def gpus(self) -> tuple[GpuPlace, ...]:
        """By slot."""
        return tuple(_find_place(self.reader, gpu.slot) for gpu in self.facts.gpus.devices)

    @fact
    def far(self) -> tuple[FarProcess, ...]:
        """Processes that may run near none of their GPUs."""
        processes = self.facts.work.gpu_processes
        local = (
            {gpu.device: frozenset(gpu.local_cpus) for gpu in self.gpus if gpu.device}
            if processes
            else {}
        )
        return tuple(
            one for process in processes if (one := _find_far(self.reader, process, local))
        )


def _find_place(reader: Reader, slot: str) -> GpuPlace:
    return GpuPlace(slot, lazy(_name_device, reader, slot), lazy(_list_near_cpus, reader, slot))


def _name_device(reader: Reader, slot: str) -> str:
    information = if_absent(read_text(reader, f"/proc/driver/nvidia/gpus/{slot}/information"), "")
    minor = _MINOR.search(information)
    return f"/dev/nvidia{minor[1]}" if minor else ""


def _list_near_cpus(reader: Reader, slot: str) -> tuple[int, ...]:
    path = f"{DEVICES}/{slot}/local_cpulist"
    cpus = read_line(reader, path)
    return () if cpus is ABSENT else derive(cpus, path, number_list)


def _find_far(
    reader: Reader, process: GpuProcess, local: dict[str, frozenset[int]]
) -> FarProcess | None:
    """A process that holds GPUs of both sockets is near to one of them wherever it runs; one that
    has just ended, and GPUs whose place no one knows, are no fault.
    """
    near = frozenset[int]().union(*(local.get(device, frozenset()) for device in process.gpus))
    match = _ALLOWED.search(if_absent(read_text(reader, f"/proc/{process.pid}/status"), ""))
    if match is None or not near or near.intersection(parse_or_unknown(number_list, match[1])):
        return None
    return FarProcess(process.pid, process.name, match[1], process.gpus)
