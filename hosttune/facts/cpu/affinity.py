"""Which processors lie near which GPU, and whether GPU processes may run there.

Sources: kernel, Documentation/ABI/testing/sysfs-bus-pci (local_cpulist); /proc/driver/nvidia/gpus/*/information of the
NVIDIA driver (the number of /dev/nvidiaN); Cpus_allowed_list of proc_pid_status(5).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, UnknownFact, unread
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.reading import derived, line, number_list, text
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.work import GpuProcess
    from hosttune.host.door import Reader

_MINOR = regex(r"^Device Minor:\s*(\d+)", re.MULTILINE)
_ALLOWED = regex(r"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)


@frozen
class GpuPlace(Fact):
    """One GPU and the processors near it; none where the firmware does not say."""

    slot: str
    device: str  # /dev/nvidia0; empty without a loaded driver
    local_cpus: tuple[int, ...]


@frozen
class FarProcess(Fact):
    """A process that may run on no processor near any of its GPUs."""

    pid: int
    name: str
    allowed: str  # as the kernel lists them: 0-55
    gpus: tuple[str, ...]


@frozen
class Affinity(Fact):
    """GPUs by slot, and the GPU processes that are bound to the wrong processors."""

    gpus: tuple[GpuPlace, ...]
    far: tuple[FarProcess, ...]


def collect(reader: Reader, facts: Facts) -> Affinity:
    try:
        gpus = tuple(_place(reader, gpu.slot) for gpu in facts.gpus.devices)
    except UnknownFact as unknown:
        return Affinity(unread(unknown.reason), unread(unknown.reason))
    try:
        processes = facts.work.gpu_processes
        local = {gpu.device: frozenset(gpu.local_cpus) for gpu in gpus if gpu.device}
    except UnknownFact as unknown:
        return Affinity(gpus, unread(unknown.reason))
    far = (_far(reader, process, local) for process in processes)
    return Affinity(gpus, tuple(one for one in far if one))


def _place(reader: Reader, slot: str) -> GpuPlace:
    path = f"{DEVICES}/{slot}/local_cpulist"
    cpus = line(reader, path)
    information = text(reader, f"/proc/driver/nvidia/gpus/{slot}/information")
    minor = _MINOR.search(information) if isinstance(information, str) else None
    near: Any = () if cpus is ABSENT else derived(cpus, path, number_list)
    return GpuPlace(slot, f"/dev/nvidia{minor[1]}" if minor else "", near)


def _far(reader: Reader, process: GpuProcess, local: dict[str, frozenset[int]]) -> FarProcess | None:
    """A process that holds GPUs of both sockets is near to one of them wherever it runs; one that has just ended, and
    GPUs whose place nobody knows, are no fault.
    """
    near = frozenset[int]().union(*(local.get(device, frozenset()) for device in process.gpus))
    status = text(reader, f"/proc/{process.pid}/status")
    match = _ALLOWED.search(status) if isinstance(status, str) else None
    if match is None or not near or near.intersection(number_list(match[1])):
        return None
    return FarProcess(process.pid, process.name, match[1], process.gpus)
