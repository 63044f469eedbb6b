"""The memory of each GPU, and the window through which the bus reaches it (BAR1).

The sizes are those of `nvidia-smi -q -d MEMORY`. Without an answer of it (no driver, an older
record), the memory is what the name of the GPU says. sysfs shows the window without any driver,
too; of two sizes the smaller one counts.

Sources: nvidia-smi(1) (FB Memory Usage, BAR1 Memory Usage); kernel, Documentation/PCI/sysfs-pci.rst
(resource); outputs that utkuozdemir/nvidia_gpu_exporter keeps: A10G 23,028 MiB behind 32,768, H100
81,559 MiB behind 131,072. With unified memory (GH200, GB10) BAR1 is N/A
(hashicorp/nomad-device-nvidia, pull request 87).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, attempt, keep_known, lazy
from hosttune.facts.gpu.gpu_errors import slot_of
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.gpu.platforms import has_grace
from hosttune.facts.reading import if_absent, read_text
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hosttune.facts import Facts
    from hosttune.facts.gpu.gpus import Gpu
    from hosttune.host.door import Reader

QUERY = ("nvidia-smi", "-q", "-d", "MEMORY")
_TIMEOUT_S = 30.0
_GENERATIONS = frozenset({"ampere", "ada", "hopper", "blackwell"})
_BUS_ID = regex(r"GPU ([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
_SECTION = regex(r" {4}(FB|BAR1) Memory Usage")  # those of a MIG device are indented further
_TOTAL = regex(r" {8}Total\s+: (\d{1,9}) MiB")
_NOT_ASKED = frozenset({"not asked", "absent", "hangs"})


@frozen
class MemorySizes:
    """What nvidia-smi says of one GPU, in bytes; 0 for what it does not say."""

    memory: int
    window: int


@frozen
class GpuMemory(Fact):
    """That of one GPU."""

    slot: str  # 0000:1b:00.0
    bytes: int  # 0 if it is not known; also of a vGPU
    window_bytes: int  # 0 if it is not known
    # its window reaches all of its memory by design: a card for servers, from Ampere on
    is_judged: bool


@frozen
class GpuMemories(Subject):
    """All GPUs, by slot."""

    @fact
    def gpus(self) -> tuple[GpuMemory, ...]:
        return keep_known(
            lambda gpu: (_read_memory(self.reader, gpu, lambda: self._sizes),),
            self.facts.gpus.devices,
        )

    @fact
    def _sizes(self) -> Mapping[str, MemorySizes]:
        return _ask(self.reader, self.facts)

    @property
    def total_bytes(self) -> int:
        """The memory of those of which it is known."""
        return sum(gpu.bytes for gpu in self.gpus)

    @property
    def windows(self) -> tuple[GpuMemory, ...]:
        """GPUs whose window has to reach all of their memory. Others may have a small one on
        purpose (a T4, a GeForce without resizable BAR, a card for workstations, a vGPU).
        """
        return keep_known(lambda gpu: (gpu,) if gpu.is_judged and gpu.bytes else (), self.gpus)


def window_in(resource: str) -> int:
    """The size of the largest of the six BARs: a line of each with its first and last address and
    flags, zeros for one that is not there.
    """
    # Behind the six BARs come the ROM and, with SR-IOV, the windows of all virtual functions, which
    # are larger than the GPU's own.
    rows = re.findall(r"^0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+$", resource, re.MULTILINE)[:6]
    return max(
        (int(last, 16) - int(first, 16) + 1 for first, last in rows if int(last, 16)), default=0
    )


def sizes_in(output: str) -> Mapping[str, MemorySizes]:
    """The sizes by slot in an answer to `QUERY`."""
    found: dict[str, dict[str, int]] = {}
    slot = section = ""
    for row in output.splitlines():
        if bus := _BUS_ID.fullmatch(row.rstrip()):
            slot, section = slot_of(*bus.group(1, 2, 3, 4)), ""
            found[slot] = {}
        elif slot and not row.startswith("     "):
            section = title[1] if (title := _SECTION.fullmatch(row.rstrip())) else ""
        elif section and (total := _TOTAL.fullmatch(row.rstrip())):
            found[slot].setdefault(section, int(total[1]) << 20)
    return {
        slot: MemorySizes(sizes.get("FB", 0), sizes.get("BAR1", 0)) for slot, sizes in found.items()
    }


def is_whole_by_design(gpu: Gpu) -> bool:
    """Whether the window of a GPU has to reach all of its memory."""
    return (
        gpu.generation in _GENERATIONS
        and gpu.ships_with_ecc
        and not gpu.is_vgpu
        and not has_grace(gpu.device_id)
    )


def _ask(reader: Reader, facts: Facts) -> Mapping[str, MemorySizes]:
    """Optional: without an answer the sizes are those of names and sysfs."""
    smi = attempt(lambda: facts.nvidia.smi)
    # After a hang nvidia-smi is not started again: each start can take the whole time limit and
    # leave one more process that cannot be killed.
    if isinstance(smi, Unreadable) or smi in _NOT_ASKED:
        return {}
    answer = reader.query(QUERY, timeout_s=_TIMEOUT_S)
    return sizes_in(answer.text) if isinstance(answer, Completed) else {}


def _read_memory(
    reader: Reader, gpu: Gpu, sizes: Callable[[], Mapping[str, MemorySizes]]
) -> GpuMemory:
    def ask_sizes() -> MemorySizes:
        return sizes().get(gpu.slot, MemorySizes(0, 0))

    return GpuMemory(
        gpu.slot,
        lazy(lambda: 0 if gpu.is_vgpu else ask_sizes().memory or gpu.named_bytes),
        lazy(lambda: _read_window(reader, gpu.slot, ask_sizes().window)),
        lazy(is_whole_by_design, gpu),
    )


def _read_window(reader: Reader, slot: str, reported: int) -> int:
    """The window that sysfs shows, or that nvidia-smi reports. Raises UnknownFact if neither can be
    read.
    """
    shown = attempt(
        lambda: window_in(if_absent(read_text(reader, f"{DEVICES}/{slot}/resource"), ""))
    )
    if isinstance(shown, Unreadable):
        if not reported:
            raise UnknownFact(shown.reason)
        return reported
    return min(filter(None, (shown, reported)), default=0)
