"""NUMA nodes (kernel: Documentation/ABI/stable/sysfs-devices-node)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, unread
from hosttune.facts.reading import derived, known, line, number_list, text
from hosttune.frozen import frozen
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_NODES = "/sys/devices/system/node"
_TOTAL = re.compile(r"MemTotal:\s+(\d+) kB")


@frozen
class NumaNode(Fact):
    """One node; a GPU's own memory (GH200) is a node without CPUs, an empty memory slot one without memory."""

    id: int
    cpus: tuple[int, ...]
    memory_bytes: int


@frozen
class Numa(Fact):
    """The nodes that are on line, by number; none where the kernel was built without NUMA."""

    nodes: tuple[NumaNode, ...]

    @property
    def with_cpus(self) -> tuple[NumaNode, ...]:
        """The nodes that have CPUs: what a two-socket machine has two of."""
        return tuple(node for node in self.nodes if node.cpus)


def parse_memory(meminfo: str) -> int | None:
    """MemTotal of `node*/meminfo` in bytes."""
    match = _TOTAL.search(meminfo)
    return int(match[1]) * 1024 if match else None


def collect(reader: Reader, facts: Facts) -> Numa:  # noqa: ARG001 - the interface of all subjects
    names = reader.list(_NODES)
    if names is ABSENT:
        return Numa(())
    if not isinstance(names, tuple):
        return Numa(known(names, _NODES))
    ids = sorted(int(name[4:]) for name in names if name.startswith("node") and name[4:].isdecimal())
    return Numa(tuple(_node(reader, number) for number in ids))


def _node(reader: Reader, number: int) -> NumaNode:
    cpus = line(reader, f"{_NODES}/node{number}/cpulist")
    return NumaNode(
        id=number,
        cpus=derived(cpus, f"{_NODES}/node{number}/cpulist", number_list),
        memory_bytes=_memory(reader, f"{_NODES}/node{number}/meminfo"),
    )


def _memory(reader: Reader, path: str) -> Any:
    content = text(reader, path)
    if not isinstance(content, str):
        return known(content, path)
    total = parse_memory(content)
    return unread(f"{path} has no MemTotal") if total is None else total
