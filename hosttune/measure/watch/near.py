"""Which processes of a job are near the GPU that they use: on a machine with several NUMA nodes the
others reach it through the link between these.

Sources: /proc/driver/nvidia/gpus/SLOT/information of the NVIDIA driver (GPU UUID), local_cpulist of
the PCI device (kernel: Documentation/ABI/testing/sysfs-bus-pci), sched_getaffinity(2).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from hosttune.host.reading.bounded import MOST_NAMES, names_in
from hosttune.measure.gpu.sample import GpuSample
from hosttune.measure.watch.kept import content_of
from hosttune.measure.watch.limits import parse_numbers
from hosttune.measure.watch.tick import Placement
from hosttune.ranges import number_list_text

_DRIVER = "/proc/driver/nvidia/gpus"
_DEVICES = "/sys/bus/pci/devices"
_UUID = b"GPU UUID:"


class NearCpus:
    """The CPUs near each GPU, read once."""

    def __init__(self, *, driver: str = _DRIVER, devices: str = _DEVICES) -> None:
        self._driver, self._devices = driver, devices
        self._near: dict[str, frozenset[int]] | None = None

    def look(self, gpus: Iterable[GpuSample], members: Iterable[int]) -> Placement | None:
        """None if no process of the job is on a GPU whose place is known."""
        if self._near is None:
            self._near = self._read()
        known, ours = self._near, set(members)
        by_process: dict[int, set[int]] = {}
        for gpu in gpus:
            # A process with several GPUs is near if it is near one of them.
            for pid in ours.intersection(gpu.pids or ()) if gpu.uuid in known else ():
                by_process.setdefault(pid, set()).update(known[gpu.uuid])
        masks = {pid: mask for pid in by_process if (mask := _read_mask(pid))}
        return judge_places(
            {pid: (by_process[pid], masks[pid]) for pid in masks}, len(set(known.values()))
        )

    def _read(self) -> dict[str, frozenset[int]]:
        found = {}
        try:
            slots = names_in(self._driver, MOST_NAMES)[0]
        except OSError:
            return {}
        for slot in slots:
            after = (content_of(f"{self._driver}/{slot}/information") or b"").partition(_UUID)[2]
            uuid = after.partition(b"\n")[0].strip().decode("ascii", "replace")
            cpus = parse_numbers(
                (content_of(f"{self._devices}/{slot}/local_cpulist") or b"").strip()
            )
            if uuid and cpus:
                found[uuid] = cpus
        return found


def judge_places(
    processes: Mapping[int, tuple[set[int], frozenset[int]]], domains: int
) -> Placement | None:
    """`processes`: the CPUs near the GPUs of each, and those that it may use. Pure."""
    if not processes:
        return None
    # Only without a single near CPU: a process that may use both nodes is placed by the scheduler.
    far = sorted(pid for pid, (near, mask) in processes.items() if not near & mask)
    whole = os.cpu_count() or 1
    example = ""
    if far:
        near, mask = processes[far[0]]
        example = (
            f"process {far[0]} may use CPUs {number_list_text(mask)}, its GPU is near "
            f"{number_list_text(near)}"
        )
    unbound = sum(len(mask) >= whole for _, mask in processes.values())
    return Placement(len(processes), unbound, len(far), example, domains)


def _read_mask(pid: int) -> frozenset[int]:
    try:
        return frozenset(os.sched_getaffinity(pid))
    except OSError:
        return frozenset()
