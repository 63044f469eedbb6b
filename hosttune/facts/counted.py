"""What a healthy host has and does not lose, and the errors that it counts: what is learned of it
(facts/baseline.py).

A table for each. To add something, add its function: it raises UnknownFact where it cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact, attempt, keep_known, known_items, lacking_of
from hosttune.facts.memory.memory import as_sold
from hosttune.frozen import frozen
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from hosttune.facts import Facts

    # name, amount, things: as of a Part
    _Amounts: TypeAlias = Iterable[tuple[str, float, tuple[str, ...]]]

GPUS = "GPUs"
_GIB = 1 << 30


@frozen
class Part:
    """Something that a healthy host does not lose: an amount, or things with names."""

    kind: str  # which function of the table tells it
    name: str  # GPUs, GiB of memory, Gb/s of mlx5_0/1
    amount: float
    things: tuple[str, ...] = ()  # what it counts, where these have names


@frozen
class Counter:
    """Errors of one thing."""

    name: str  # link breaks of mlx5_0/1
    count: int
    usual_a_day: float = 0.0  # what no one has to look at
    is_lasting: bool = False  # it goes on over boots: the device keeps it


def list_parts(facts: Facts) -> tuple[tuple[Part, ...], Mapping[str, UnknownFact]]:
    """What the host has, and by kind why something could not be read."""
    found: list[Part] = []
    unread: dict[str, UnknownFact] = {}
    for kind, tell in _PARTS.items():
        try:
            found += [part for row in tell(facts) if (part := Part(kind, *row)).amount]
        except UnknownFact as error:
            unread[kind] = error
    return tuple(found), unread


def list_counters(facts: Facts) -> tuple[Counter, ...]:
    """The errors that the host counts, as far as they can be read."""
    found = attempt(_read_counters, facts)
    return () if isinstance(found, Unreadable) else tuple(known_items(found))


def why_uncounted(facts: Facts) -> UnknownFact | None:
    """Why some of them could not be read; None where all could."""
    found = attempt(_read_counters, facts)
    return UnknownFact(found.reason) if isinstance(found, Unreadable) else lacking_of(found)


def _read_counters(facts: Facts) -> tuple[Counter, ...]:
    return keep_known(lambda tell: tell(facts), _COUNTERS)


def _list_things(name: str, things: Iterator[str]) -> _Amounts:
    listed = tuple(things)
    yield name, len(listed), listed


def _list_gpus(facts: Facts) -> _Amounts:
    return _list_things(GPUS, (gpu.slot for gpu in facts.gpus.devices))


def _list_disks(facts: Facts) -> _Amounts:
    """Those of the machine itself: what a cloud or an array lends comes and goes."""
    own = (
        disk
        for disk in facts.disks.all
        if disk.kind == "disk" and not disk.is_virtual and not disk.is_removable
    )
    return _list_things(
        "disks", (disk.name for disk in own if disk.transport not in {"usb", "virtio"})
    )


def _list_ports(facts: Facts) -> _Amounts:
    for port in facts.rdma.ports:
        # A port that is down has no rate to lose, and learned as 0 it would never be missed.
        if port.is_active and not port.is_function:
            yield f"Gb/s of {port.name}", port.rate_gbps, ()


def _list_cards(facts: Facts) -> _Amounts:
    for card in facts.network.cards:
        if card.is_up and card.speed_mbps > 0 and not card.is_function:
            yield f"Gb/s of {card.name}", card.speed_mbps / 1000, ()


_PARTS: Mapping[str, Callable[[Facts], _Amounts]] = {
    GPUS: _list_gpus,
    "memory": lambda facts: [("GiB of memory", as_sold(facts.memory.total_bytes, 16) // _GIB, ())],
    "cores": lambda facts: [("CPU cores", facts.cpu.cores, ())],
    "nodes": lambda facts: [("NUMA nodes", len(facts.numa.nodes), ())],
    "disks": _list_disks,
    "RDMA": _list_ports,
    "network": _list_cards,
}


KINDS = tuple(_PARTS)


def _of_modules(facts: Facts) -> Iterator[Counter]:
    for dimm in facts.edac.dimms:
        yield Counter(f"corrected errors of memory module {dimm.name}", dimm.corrected, 24)
        yield Counter(f"uncorrected errors of memory module {dimm.name}", dimm.uncorrected)


def _of_ports(facts: Facts) -> Iterator[Counter]:
    for port in facts.rdma.ports:
        if port.is_function:
            continue
        yield Counter(f"link breaks of {port.name}", port.link_downed, 1)
        yield Counter(f"symbol errors of {port.name}", port.symbol_errors, 100)


def _of_links(facts: Facts) -> Iterator[Counter]:
    for link in facts.pcie.links:
        if link.corrected >= 0:
            yield Counter(f"corrected PCIe errors of {link.slot}", link.corrected, 1000)


def _of_gpus(facts: Facts) -> Iterator[Counter]:
    for gpu in facts.health.gpus:
        if gpu.has_ecc_counts:
            yield Counter(
                f"uncorrected memory errors of GPU {gpu.slot}",
                gpu.uncorrected_aggregate,
                is_lasting=True,
            )
        if gpu.corrected_volatile >= 0:
            yield Counter(
                f"corrected memory errors of GPU {gpu.slot}", gpu.corrected_volatile, 24_000
            )
        if gpu.can_remap:
            yield Counter(f"rows remapped by GPU {gpu.slot}", gpu.rows_lost, 0.1, is_lasting=True)
        if gpu.slowed_s >= 0:
            yield Counter(f"seconds of slowdown of GPU {gpu.slot}", int(gpu.slowed_s), 60)


def _of_drives(facts: Facts) -> Iterator[Counter]:
    for drive in facts.nvme.drives:
        if drive.is_asked and not drive.is_untold:
            yield Counter(
                f"errors of the medium of the NVMe drive at {drive.address}",
                drive.media_errors,
                is_lasting=True,
            )


def _of_nvlinks(facts: Facts) -> Iterator[Counter]:
    for gpu in facts.nvlink_errors.gpus:
        yield Counter(f"NVLink errors of GPU {gpu.slot}", gpu.errors, 100)
        yield Counter(f"NVLinks of GPU {gpu.slot} that did not come back", gpu.failed_recoveries)


_COUNTERS: tuple[Callable[[Facts], Iterator[Counter]], ...] = (
    _of_modules, _of_ports, _of_links, _of_gpus, _of_nvlinks, _of_drives,
)  # fmt: skip
