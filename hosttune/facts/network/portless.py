"""ConnectX cards whose driver is bound, and that offer neither a network interface nor an RDMA
device: their firmware died while the driver ran, or did not start.

Kernel: drivers/net/ethernet/mellanox/mlx5. PCI device ids of ConnectX-4 to ConnectX-8: the PCI ID
Project; BlueField (DPU) is left out, as its host may have no port by design. A card of class
InfiniBand offers ports by mlx5_ib only. The folder net/ is there, and empty, if an interface was
moved to another network namespace (drivers/base/core.c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.gpu.gpus import DEVICES, driver_of
from hosttune.facts.gpu.platforms import is_bridged
from hosttune.facts.reading import if_absent, is_there, names_in, read_line, require_sure
from hosttune.facts.subject import Subject, read_with
from hosttune.frozen import frozen
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

MELLANOX, _ETHERNET, _INFINIBAND = "0x15b3", "0x0200", "0x0207"
CONNECTX = frozenset(
    {"0x1013", "0x1015", "0x1017", "0x1019", "0x101b", "0x101d", "0x101f", "0x1021", "0x1023"}
)


@frozen
class Portless(Subject):
    """Physical functions; none on boards where ConnectX functions lead to NVSwitches."""

    # 0000:65:01.0
    slots: tuple[str, ...] = read_with(lambda self: _find_slots(self.reader, self.facts))


def _find_slots(reader: Reader, facts: Facts) -> tuple[str, ...]:
    cards = [
        slot
        for slot in names_in(reader, DEVICES)
        if read_line(reader, f"{DEVICES}/{slot}/vendor") == MELLANOX
    ]
    found = tuple(slot for slot in cards if _is_portless(reader, slot))
    # Only now, as few hosts have such a card: the links of thousands of interfaces of containers
    # are not resolved for nothing.
    if found:
        with_ports = _with_ports(reader)
        found = tuple(slot for slot in found if slot not in with_ports)
    return () if found and any(is_bridged(gpu.device_id) for gpu in facts.gpus.devices) else found


def _is_portless(reader: Reader, slot: str) -> bool:
    folder = f"{DEVICES}/{slot}"
    kind = str(read_line(reader, f"{folder}/class"))
    if (
        not kind.startswith((_ETHERNET, _INFINIBAND))
        or read_line(reader, f"{folder}/device") not in CONNECTX
    ):
        return False
    if driver_of(reader, slot) != "mlx5_core" or isinstance(reader.link(f"{folder}/physfn"), str):
        return False
    if (
        kind.startswith(_INFINIBAND)
        and not is_there(reader, "/sys/module/mlx5_ib")
        and not _has_rdma(reader)
    ):
        return False
    return all(
        require_sure(reader.list(f"{folder}/{name}")) is ABSENT for name in ("net", "infiniband")
    )


def _with_ports(reader: Reader) -> frozenset[str]:
    """The slots to which network interfaces and RDMA devices belong."""
    folders = ("/sys/class/net", "/sys/class/infiniband")
    places = [
        reader.resolve(f"{one}/{name}/device") for one in folders for name in names_in(reader, one)
    ]
    return frozenset(if_absent(place, "").rpartition("/")[2] for place in places)


def _has_rdma(reader: Reader) -> bool:
    """Some RDMA driver works here."""
    return bool(names_in(reader, "/sys/class/infiniband"))
