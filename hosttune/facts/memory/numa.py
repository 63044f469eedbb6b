"""NUMA nodes (kernel: Documentation/ABI/stable/sysfs-devices-node)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, UnknownFact, lazy, make_shared
from hosttune.facts.reading import derive, names_in, read_line, read_text
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.ranges import number_list
from hosttune.regex import regex

if TYPE_CHECKING:
    from hosttune.host.door import Reader

_NODES = "/sys/devices/system/node"
_ENTRY = regex(r"^Node \d+ (\w+):\s+(\d+) kB", re.MULTILINE)


@frozen
class NumaNode(Fact):
    """One node; a GPU's own memory (GH200) is a node without CPUs, an empty memory slot one without
    memory.
    """

    id: int  # its number
    cpus: tuple[int, ...]  # the processors near to it
    memory_bytes: int  # MemTotal of the node
    free_bytes: int  # of it, what no one uses now; 0 where the kernel does not say


@frozen
class Numa(Subject):
    """The nodes that are on line, by number; none where the kernel was built without NUMA."""

    @fact
    def nodes(self) -> tuple[NumaNode, ...]:
        """Those without processors or without memory, too."""
        names = names_in(self.reader, _NODES)
        ids = sorted(parse_digits(name[4:], -1) for name in names if name.startswith("node"))
        return tuple(_read_node(self.reader, number) for number in ids if number >= 0)

    @property
    def with_cpus(self) -> tuple[NumaNode, ...]:
        """The nodes that have CPUs: what a two-socket machine has two of."""
        return tuple(node for node in self.nodes if node.cpus)

    @property
    def without_cpus(self) -> tuple[NumaNode, ...]:
        """The nodes that are memory alone: of a GPU (Grace), or a memory expander (CXL)."""
        return tuple(node for node in self.nodes if not node.cpus and node.memory_bytes)


def parse_memory(meminfo: str) -> dict[str, int]:
    """Name -> bytes of the lines of `node*/meminfo` that have a size (MemTotal, MemFree ...)."""
    return {name: int(kib) * 1024 for name, kib in _ENTRY.findall(meminfo)}


def _read_node(reader: Reader, number: int) -> NumaNode:
    cpus, meminfo = (f"{_NODES}/node{number}/{name}" for name in ("cpulist", "meminfo"))
    sizes = make_shared(lambda: derive(read_text(reader, meminfo), meminfo, parse_memory))

    def total() -> int:
        if "MemTotal" not in sizes():
            raise UnknownFact(f"{meminfo} has no MemTotal")
        return sizes()["MemTotal"]

    return NumaNode(
        id=number,
        cpus=lazy(lambda: derive(read_line(reader, cpus), cpus, number_list)),
        memory_bytes=lazy(total),
        free_bytes=lazy(lambda: sizes().get("MemFree", 0)),
    )
