"""Ports of RDMA devices (InfiniBand, RoCE, EFA): whether they are up, how fast, and how often the link broke.

Source: kernel, Documentation/ABI/stable/sysfs-class-infiniband (state, phys_state, rate, link_layer, counters).

On HGX B200 and newer ConnectX functions stand between host and NVSwitches (NVIDIA, Fabric Manager user guide). They are
no rails, and their firmware refuses counters: each read writes `mlx5_cmd_out_err ... ACCESS_REG` to the kernel log
(prometheus/node_exporter issue 3434; leptonai/gpud). So they are known by what is around them, and left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.base import Fact, lazy, raw, shared
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.gpu.nvidia_tables import is_switched
from hosttune.facts.gpu.pcie import ports_of
from hosttune.facts.reading import derived, hint, if_absent, integer, line, names_in
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

T = TypeVar("T")
_CLASS = "/sys/class/infiniband"
_FULL = 65535
_RATE = regex(r"([\d.]+) Gb/sec")


@frozen
class RdmaPort(Fact):
    """One port. Its siblings are the ports of the same model and link layer, whose state it is compared with."""

    name: str  # mlx5_0/1
    model: str  # PCI device ID 0x1021; empty where the device has none
    link_layer: str  # InfiniBand | Ethernet; EFA says Unspecified
    state: str  # ACTIVE | DOWN | INIT | ARMED ...
    phys_state: str  # LinkUp | Polling | Disabled ...
    rate_gbps: float  # Gb/s
    symbol_errors: int  # since the driver was loaded; 0 where the device does not count
    link_downed: int  # how often the link broke since then
    interfaces: tuple[str, ...]  # the network interfaces of its device: eth2
    common_downs: int = 0  # the breaks that every active sibling counts, of two at least: those of their switch
    sibling_gbps: float = 0  # the rate of the fastest active sibling, itself included; 0 where none is active

    @property
    def is_active(self) -> bool:
        return self.state == "ACTIVE"

    @property
    def own_downs(self) -> int:
        """The breaks that its siblings do not count as well."""
        return self.link_downed - min(self.common_downs, self.link_downed)

    @property
    def is_full(self) -> bool:
        """The counter of symbol errors stands at its end, 16 bits, where it tells no more (InfiniBand specification,
        PortCounters); those of 64 bits get there by chance, once.
        """
        return self.symbol_errors == _FULL


@frozen
class Rdma(Fact):
    """All ports, by device."""

    ports: tuple[RdmaPort, ...]  # by device, without those of `bridges`
    bridges: tuple[str, ...] = ()  # devices between the host and the NVSwitches of HGX B200 and newer, left alone

    @property
    def has_efa(self) -> bool:
        """One is an Elastic Fabric Adapter of AWS: PCI device ID 0xefa0 and up (kernel: drivers/infiniband/hw/efa)."""
        return any(port.model.startswith("0xefa") for port in self.ports)


def word_of(content: str) -> str:
    """`4: ACTIVE` -> ACTIVE."""
    return content.partition(":")[2].strip() or content


def rate_of(content: str) -> float:
    """`400 Gb/sec (4X NDR)` -> 400. Raises ValueError for anything else."""
    match = _RATE.match(content)
    if match is None:
        message = f"{content[:40]!r} is no rate"
        raise ValueError(message)
    return float(match[1])


def collect(reader: Reader, facts: Facts) -> Rdma:
    bridges = shared(_bridges, reader, facts)
    return Rdma(ports=lazy(lambda: _ports(reader, bridges())), bridges=lazy(bridges))


def _ports(reader: Reader, bridges: tuple[str, ...]) -> tuple[RdmaPort, ...]:
    found: list[RdmaPort] = []
    for device in names_in(reader, _CLASS):
        if device not in bridges:
            found += (_port(reader, device, port, found) for port in names_in(reader, f"{_CLASS}/{device}/ports"))
    return tuple(found)


def _bridges(reader: Reader, facts: Facts) -> tuple[str, ...]:
    """mlx5 functions without a network interface that share no switch with a GPU, beside GPUs of such a board."""
    devices = names_in(reader, _CLASS)
    gpus = raw(facts.gpus, "devices") if devices else ()
    slots = [gpu.slot for gpu in gpus if is_switched(gpu.device_id)] if isinstance(gpus, tuple) else []
    if not slots:
        return ()
    above = [set(ports_of(place)) for slot in slots if isinstance(place := reader.resolve(f"{DEVICES}/{slot}"), str)]
    found = []
    for device in devices:
        driver = reader.link(f"{_CLASS}/{device}/device/driver")
        place = reader.resolve(f"{_CLASS}/{device}/device")
        if not isinstance(driver, str) or not driver.endswith("/mlx5_core") or not isinstance(place, str):
            continue
        ports = set(ports_of(place))
        has_none = reader.list(f"{_CLASS}/{device}/device/net") in (ABSENT, ())
        if has_none and not any(ports & own for own in above):
            found.append(device)
    return tuple(found)


def _port(reader: Reader, device: str, port: str, beside: list[RdmaPort]) -> RdmaPort:
    """`beside` are all ports, in the end."""
    folder = f"{_CLASS}/{device}/ports/{port}"

    def read(name: str, function: Callable[[str], T]) -> T:
        return derived(line(reader, f"{folder}/{name}"), f"{folder}/{name}", function)

    def count(name: str) -> int:
        return if_absent(integer(reader, f"{folder}/counters/{name}"), 0)

    found = RdmaPort(
        name=f"{device}/{port}",
        model=lazy(_model, reader, device),
        link_layer=lazy(read, "link_layer", str),
        state=lazy(read, "state", word_of),
        phys_state=lazy(read, "phys_state", word_of),
        rate_gbps=lazy(read, "rate", rate_of),
        symbol_errors=lazy(count, "symbol_error"),
        link_downed=lazy(count, "link_downed"),
        interfaces=lazy(names_in, reader, f"{_CLASS}/{device}/device/net"),
        common_downs=lazy(lambda: _common(found, beside)),
        sibling_gbps=lazy(lambda: _best(found, beside)),
    )
    return found


def _model(reader: Reader, device: str) -> str:
    return hint(reader, f"{_CLASS}/{device}/device/device").strip()


def _siblings(port: RdmaPort, ports: list[RdmaPort]) -> list[RdmaPort]:
    kind = (port.model, raw(port, "link_layer"))
    return [one for one in ports if (one.model, raw(one, "link_layer")) == kind and raw(one, "state") == "ACTIVE"]


def _best(port: RdmaPort, ports: list[RdmaPort]) -> float:
    rates = [raw(one, "rate_gbps") for one in _siblings(port, ports)]
    return max((rate for rate in rates if isinstance(rate, float)), default=0.0)


def _common(port: RdmaPort, ports: list[RdmaPort]) -> int:
    counts = [raw(one, "link_downed") for one in _siblings(port, ports)]
    numbers = [count for count in counts if isinstance(count, int)]
    return min(numbers) if len(numbers) > 1 else 0
