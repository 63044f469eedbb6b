"""Network cards, the subnets they are in, and TCP's buffers.

Sources: kernel, Documentation/ABI/testing/sysfs-class-net (speed, operstate) and
Documentation/networking/ip-sysctl.rst (tcp_rmem, arp_announce, arp_ignore); proc_pid_net(5) (route:
numbers in hex, in the byte order of the machine).
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy, make_shared
from hosttune.facts.reading import (
    derive,
    if_absent,
    is_there,
    read_counter,
    read_integer,
    read_line,
    read_text,
    require_known,
)
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hosttune.host.door import Reader

_CLASS = "/sys/class/net"
# a file among the interfaces, there while the bonding driver is loaded
BONDING_MASTERS = "bonding_masters"
ROUTES = "/proc/net/route"
_IPV4 = "/proc/sys/net/ipv4"
_UP = 0x1  # RTF_UP
_GATEWAY = 0x2  # RTF_GATEWAY


@frozen
class NetworkInterface(Fact):
    """A network interface that belongs to a device: no bridge, bond or veth."""

    name: str  # eth0, ens5f0np0 ...
    is_up: bool  # its link is
    speed_mbps: int  # 0 where the link is down or the driver does not say
    subnets: tuple[str, ...]  # 10.1.0.0/24, IPv4, that it reaches without a gateway
    is_function: bool  # a virtual function of another card (SR-IOV): such come and go


@frozen
class Network(Subject):
    """The interfaces of this network namespace, and settings."""

    names: tuple[str, ...] = read_with(lambda self: _list_names(self.reader))  # of all interfaces

    @fact
    def cards(self) -> tuple[NetworkInterface, ...]:
        """The interfaces that belong to a device.

        A host of containers has thousands of interfaces; of those without a device nothing is read.
        """
        subnets = make_shared(
            lambda: derive(if_absent(read_text(self.reader, ROUTES), ""), ROUTES, parse_routes)
        )
        names = (
            name
            for name in _list_names(self.reader)
            if is_there(self.reader, f"{_CLASS}/{name}/device")
        )
        return tuple(_read_card(self.reader, name, subnets) for name in names)

    # bytes: least, at first, at most
    tcp_rmem: tuple[int, ...] = read_with(lambda self: _read_sizes(self.reader, "tcp_rmem"))
    # likewise, of what is sent
    tcp_wmem: tuple[int, ...] = read_with(lambda self: _read_sizes(self.reader, "tcp_wmem"))
    # of `all`; the larger one of it and the interface's own counts
    arp_ignore: int = read_with(lambda self: _read_arp(self.reader, "arp_ignore"))
    arp_announce: int = read_with(lambda self: _read_arp(self.reader, "arp_announce"))  # likewise

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
            if any(
                set(card.subnets) & set(other.subnets)
                for other in self.cards
                if other.name != card.name
            )
        )


def parse_routes(content: str) -> Mapping[str, tuple[str, ...]]:
    """Interface -> subnets of /proc/net/route that it reaches directly. The order of bytes is
    little-endian on all machines that Ubuntu and Debian support with NVIDIA GPUs.
    """
    found: dict[str, dict[str, None]] = {}
    for row in content.splitlines()[1:]:
        fields = row.split()
        if len(fields) < 8:
            continue
        flags, mask = int(fields[3], 16), int(fields[7], 16)
        # A mask of 0 is the default route: by it every card would share a subnet with every other
        # one.
        if flags & _UP and not flags & _GATEWAY and mask:
            subnet = f"{_format_dotted(int(fields[1], 16))}/{mask.bit_count()}"
            found.setdefault(fields[0], {})[subnet] = None
    return {name: tuple(subnets) for name, subnets in found.items()}


def interface_to(content: str, address: str) -> str:
    """The interface by which an IPv4 address is reached, by /proc/net/route: the route with the
    longest mask, and of those the smallest metric; empty for another address, and where no route
    leads there.
    """
    try:
        target = int.from_bytes(IPv4Address(address).packed, "little")
    except ValueError:
        return ""
    best = (-1, 0, "")
    for row in content.splitlines()[1:]:
        fields = row.split()
        if len(fields) < 8 or not int(fields[3], 16) & _UP:
            continue
        mask = int(fields[7], 16)
        if target & mask == int(fields[1], 16):
            best = max(best, (mask.bit_count(), -int(fields[6]), fields[0]))
    return best[2]


def _format_dotted(number: int) -> str:
    if number >> 32:
        raise ValueError(f"{number:X} is no IPv4 address")
    return ".".join(str(byte) for byte in number.to_bytes(4, "little"))


def _list_names(reader: Reader) -> tuple[str, ...]:
    return tuple(
        name for name in require_known(reader.list(_CLASS), _CLASS) if name != BONDING_MASTERS
    )


def _read_sizes(reader: Reader, name: str) -> tuple[int, ...]:
    return derive(
        read_line(reader, f"{_IPV4}/{name}"), name, lambda words: tuple(map(int, words.split()))
    )


def _read_arp(reader: Reader, name: str) -> int:
    path = f"{_IPV4}/conf/all/{name}"
    return require_known(read_integer(reader, path), path)


def _read_card(
    reader: Reader, name: str, subnets: Callable[[], Mapping[str, tuple[str, ...]]]
) -> NetworkInterface:
    folder = f"{_CLASS}/{name}"
    is_up = make_shared(
        lambda: (
            require_known(read_line(reader, f"{folder}/operstate"), f"{folder}/operstate") == "up"
        )
    )
    return NetworkInterface(
        name=name,
        is_up=lazy(is_up),
        speed_mbps=lazy(lambda: speed_of(reader, folder) if is_up() else 0),
        subnets=lazy(lambda: subnets().get(name, ())),
        is_function=lazy(is_there, reader, f"{folder}/device/physfn"),
    )


def speed_of(reader: Reader, folder: str) -> int:
    """The speed, Mb/s, of an interface by its folder in sysfs; 0 where nothing tells it: drivers
    that do not know it, and links that are down, answer EINVAL, or -1; InfiniBand's have it in
    /sys/class/infiniband.
    """
    return max(0, read_counter(reader, f"{folder}/speed"))
