"""Ports of RDMA devices (InfiniBand, RoCE, EFA): whether they are up, how fast, and how often the link broke.

Source: kernel, Documentation/ABI/stable/sysfs-class-infiniband (state, phys_state, rate, link_layer, counters).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, raw, unread
from hosttune.facts.reading import derived, integer, line
from hosttune.frozen import frozen
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_CLASS = "/sys/class/infiniband"
_RATE = re.compile(r"([\d.]+) Gb/sec")


@frozen
class RdmaPort(Fact):
    """One port. Its siblings are the ports of the same model and link layer, whose state it is compared with."""

    name: str  # mlx5_0/1
    model: str  # PCI device ID 0x1021; empty where the device has none
    link_layer: str  # InfiniBand | Ethernet; EFA says Unspecified
    state: str  # ACTIVE | DOWN | INIT | ARMED ...
    phys_state: str  # LinkUp | Polling | Disabled ...
    rate_gbps: float
    symbol_errors: int  # since the driver was loaded; 0 where the device does not count
    link_downed: int
    interfaces: tuple[str, ...]  # the network interfaces of its device: eth2
    sibling_gbps: float = 0  # the rate of the fastest active sibling, itself included; 0 where none is active

    @property
    def is_active(self) -> bool:
        return self.state == "ACTIVE"


@frozen
class Rdma(Fact):
    """All ports, by device."""

    ports: tuple[RdmaPort, ...]

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


def collect(reader: Reader, facts: Facts) -> Rdma:  # noqa: ARG001 - the interface of all subjects
    devices = reader.list(_CLASS)
    if isinstance(devices, Unreadable):
        return Rdma(unread(devices.reason))
    found: list[RdmaPort] = []
    for device in devices if isinstance(devices, tuple) else ():
        ports = reader.list(f"{_CLASS}/{device}/ports")
        if isinstance(ports, Unreadable):
            return Rdma(unread(ports.reason))
        found += (_port(reader, device, port) for port in (ports if isinstance(ports, tuple) else ()))
    return Rdma(tuple(_beside(port, found) for port in found))


def _port(reader: Reader, device: str, port: str) -> RdmaPort:
    folder = f"{_CLASS}/{device}/ports/{port}"
    model, names = line(reader, f"{_CLASS}/{device}/device/device"), reader.list(f"{_CLASS}/{device}/device/net")

    def read(name: str, function: Any) -> Any:
        return derived(line(reader, f"{folder}/{name}"), f"{folder}/{name}", function)

    def count(name: str) -> Any:
        answer = integer(reader, f"{folder}/counters/{name}")
        return 0 if answer is ABSENT else answer

    return RdmaPort(
        name=f"{device}/{port}",
        model=model if isinstance(model, str) else "",
        link_layer=read("link_layer", str),
        state=read("state", word_of),
        phys_state=read("phys_state", word_of),
        rate_gbps=read("rate", rate_of),
        symbol_errors=count("symbol_error"),
        link_downed=count("link_downed"),
        interfaces=names if isinstance(names, (tuple, Unreadable)) else (),  # type: ignore[arg-type]
    )


def _beside(port: RdmaPort, ports: list[RdmaPort]) -> RdmaPort:
    kind = (port.model, raw(port, "link_layer"))
    rates = [
        rate
        for one in ports
        if (one.model, raw(one, "link_layer")) == kind
        and raw(one, "state") == "ACTIVE"
        and isinstance(rate := raw(one, "rate_gbps"), float)
    ]
    slots: Any = RdmaPort.__slots__
    return RdmaPort(**{name: raw(port, name) for name in slots} | {"sibling_gbps": max(rates, default=0.0)})  # type: ignore[arg-type]
