"""Memory: how much there is, and how the kernel gives and takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosttune.facts.memory.arc import Arc
    from hosttune.facts.memory.edac import Edac
    from hosttune.facts.memory.hugepages import Hugepages
    from hosttune.facts.memory.memory import Memory
    from hosttune.facts.memory.memory_modules import MemoryModules
    from hosttune.facts.memory.numa import Numa
    from hosttune.facts.memory.pressure import PressureStalls
    from hosttune.facts.memory.reclaim import Reclaim
    from hosttune.facts.memory.writeback import Writeback


class MemoryFacts:
    """The subjects in this folder."""

    arc: Arc
    edac: Edac
    hugepages: Hugepages
    memory: Memory
    memory_modules: MemoryModules
    numa: Numa
    pressure: PressureStalls
    reclaim: Reclaim
    writeback: Writeback
