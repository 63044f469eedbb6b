"""Network cards, the subnets they are in, and TCP's buffers.

Sources: kernel, Documentation/ABI/testing/sysfs-class-net (speed, operstate) and Documentation/networking/ip-sysctl.rst
(tcp_rmem, arp_announce, arp_ignore); proc_pid_net(5) (route: numbers in hex, in the byte order of the machine).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact
from hosttune.facts.reading import derived, integer, known, line, text
from hosttune.frozen import frozen
from hosttune.values import ABSENT, Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_CLASS = "/sys/class/net"
_ROUTES = "/proc/net/route"
_IPV4 = "/proc/sys/net/ipv4"
_UP = 0x1  # RTF_UP
_GATEWAY = 0x2  # RTF_GATEWAY


@frozen
class Card(Fact):
    """A network interface that belongs to a device: no bridge, bond or veth."""

    name: str
    is_up: bool
    speed_mbps: int  # 0 where the link is down or the driver does not say
    subnets: tuple[str, ...]  # 10.1.0.0/24, IPv4, that it reaches without a gateway


@frozen
class Network(Fact):
    """The interfaces of this network namespace, and settings."""

    names: tuple[str, ...]  # of all interfaces
    cards: tuple[Card, ...]
    tcp_rmem: tuple[int, ...]  # bytes: least, at first, at most
    tcp_wmem: tuple[int, ...]
    arp_ignore: int  # of `all`; the larger one of it and the interface's own counts
    arp_announce: int

    @property
    def fastest_mbps(self) -> int:
        """The speed of the fastest card that is up; 0 where no driver says."""
        return max((card.speed_mbps for card in self.cards), default=0)

    @property
    def sharing(self) -> tuple[str, ...]:
        """The cards that have an address in a subnet in which another card has one, too."""
        return tuple(
            card.name
            for card in self.cards
            if any(set(card.subnets) & set(other.subnets) for other in self.cards if other.name != card.name)
        )


def parse_routes(content: str) -> Mapping[str, tuple[str, ...]]:
    """Interface -> subnets of /proc/net/route that it reaches directly. The order of bytes is little-endian on all
    machines that Ubuntu and Debian support with NVIDIA GPUs.
    """
    found: dict[str, list[str]] = {}
    for row in content.splitlines()[1:]:
        fields = row.split()
        if len(fields) < 8:
            continue
        flags, mask = int(fields[3], 16), int(fields[7], 16)
        if flags & _UP and not flags & _GATEWAY and mask:
            subnet = f"{_dotted(int(fields[1], 16))}/{mask.bit_count()}"
            if subnet not in found.setdefault(fields[0], []):
                found[fields[0]].append(subnet)
    return {name: tuple(subnets) for name, subnets in found.items()}


def _dotted(number: int) -> str:
    return ".".join(str(byte) for byte in number.to_bytes(4, "little"))


def collect(reader: Reader, facts: Facts) -> Network:  # noqa: ARG001 - the interface of all subjects
    names = reader.list(_CLASS)
    routes = text(reader, _ROUTES)
    subnets = derived("" if routes is ABSENT else routes, _ROUTES, parse_routes)
    return Network(
        known(names, _CLASS),
        _cards(reader, names, subnets) if isinstance(names, tuple) else known(names, _CLASS),
        *(derived(line(reader, f"{_IPV4}/{name}"), name, _numbers) for name in ("tcp_rmem", "tcp_wmem")),
        *(
            known(integer(reader, f"{_IPV4}/conf/all/{name}"), f"{_IPV4}/conf/all/{name}")
            for name in ("arp_ignore", "arp_announce")
        ),
    )


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(int(word) for word in words.split())


def _cards(reader: Reader, names: tuple[str, ...], subnets: Any) -> Any:
    """A host of containers has thousands of interfaces; of those without a device nothing is read."""
    devices = {name: reader.stat(f"{_CLASS}/{name}/device") for name in names}
    hidden = next((stat for stat in devices.values() if isinstance(stat, Unreadable)), None)
    return hidden or tuple(_card(reader, name, subnets) for name in names if devices[name] is not ABSENT)


def _card(reader: Reader, name: str, subnets: Any) -> Card:
    folder = f"{_CLASS}/{name}"
    state = line(reader, f"{folder}/operstate")
    return Card(
        name=name,
        is_up=derived(state, f"{folder}/operstate", lambda word: word == "up"),
        speed_mbps=_speed(reader, folder) if state == "up" else 0,
        subnets=subnets if isinstance(subnets, Unreadable) else subnets.get(name, ()),  # type: ignore[arg-type]
    )


def _speed(reader: Reader, folder: str) -> int:
    """Drivers that do not know it answer EINVAL, or -1; InfiniBand's have it in /sys/class/infiniband."""
    speed = integer(reader, f"{folder}/speed")
    return speed if isinstance(speed, int) and speed > 0 else 0
