"""The window through which the bus reaches the memory of each GPU (BAR1), as sysfs shows it without any driver.

Source: kernel, Documentation/PCI/sysfs-pci.rst (resource); what `nvidia-smi -q` prints as BAR1 of H100, H200 and L40S
(outputs that utkuozdemir/nvidia_gpu_exporter keeps): on cards for servers it is larger than the memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, keep_known, lazy
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.reading import if_absent, text
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.gpus import Gpu
    from hosttune.host.door import Reader

_GENERATIONS = frozenset({"ampere", "hopper"})
_L40S = "0x26b9"


@frozen
class Window(Fact):
    """That of one GPU."""

    slot: str  # 0000:1b:00.0
    bytes: int  # 0 where sysfs does not tell
    memory_bytes: int  # of the GPU, all of which the window reaches by design


@frozen
class Bar1(Fact):
    """The windows of GPUs that reach all of their memory by design: those for servers with HBM, and the L40S. Others
    may have a small one on purpose (a T4, a GeForce without resizable BAR, a vGPU).
    """

    windows: tuple[Window, ...]


def window_in(resource: str) -> int:
    """The size of the largest of the six BARs: a line of each with its first and last address and flags, zeros for one
    that is not there.
    """
    rows = re.findall(r"^0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+$", resource, re.MULTILINE)[:6]
    return max((int(last, 16) - int(first, 16) + 1 for first, last in rows if int(last, 16)), default=0)


def memory_of(gpu: Gpu) -> int:
    """The memory of a GPU in bytes that its window reaches by design; 0 for other GPUs."""
    is_reached = (gpu.generation in _GENERATIONS and gpu.ships_with_ecc) or gpu.device_id == _L40S
    return gpu.memory_bytes if is_reached else 0


def collect(reader: Reader, facts: Facts) -> Bar1:
    return Bar1(windows=lazy(_windows, reader, facts))


def _windows(reader: Reader, facts: Facts) -> tuple[Window, ...]:
    def of(gpu: Gpu) -> tuple[Window, ...]:
        memory = memory_of(gpu)
        return (Window(gpu.slot, lazy(_window, reader, gpu.slot), memory),) if memory else ()

    return keep_known(of, facts.gpus.devices)


def _window(reader: Reader, slot: str) -> int:
    return window_in(if_absent(text(reader, f"{DEVICES}/{slot}/resource"), ""))
