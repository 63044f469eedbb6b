"""What files of the system set for NCCL, and whether it fits this machine.

Source: NCCL user guide, "Environment Variables". NCCL_SOCKET_IFNAME and NCCL_IB_HCA are lists of
prefixes; `^` before the list excludes them, `=` asks for whole names, and of a device `:1` is its
port. NCCL_IB_GID_INDEX is an entry of the table of addresses (GIDs) of each RoCE port; with an
empty one every job ends when it starts (NVIDIA/nccl issue 1333).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.network.gids import gids_of, has_gid, shared_gid
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_ON = frozenset({"1", "true", "yes", "on"})
_FORCED = frozenset(
    {"NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS", "NCCL_BUFFSIZE"}
)
_FILES = frozenset({"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_TUNER_CONFIG_FILE"})
# Plug-ins for the network, and the variables that only they read: Google's GPUDirect-TCPX and
# -TCPXO (FasTrak).
_PLUGINS = frozenset({"NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN"})
_OF_PLUGINS = ("NCCL_GPUDIRECTTCPX_", "NCCL_FASTRAK_")
_OWN_TRANSPORTS = frozenset({"", "ib", "socket"})
_PLUGIN_FOLDERS = ("/var/lib/tcpx", "/var/lib/fastrak", "/usr/local/gib")
_LOCAL = ("lo", "docker", "virbr", "br-", "veth", "lxcbr", "cni", "flannel")


@frozen
class Nccl(Subject):
    """Settings, each as `NAME=value (file:line)`."""

    # those of NCCL
    all: tuple[str, ...] = read_with(
        lambda self: tuple(one.shown for one in self.facts.environment.nccl)
    )

    @fact
    def p2p_disabled(self) -> tuple[str, ...]:
        """Direct paths between GPUs are off."""
        return self._show_variables("NCCL_P2P_DISABLE") + self._show_variables(
            "NCCL_P2P_LEVEL", when=lambda value: value in {"LOC", "0"}
        )

    @fact
    def rdma_disabled(self) -> tuple[str, ...]:
        """Paths over RDMA are off."""
        return self._show_variables("NCCL_IB_DISABLE") + self._show_variables(
            "NCCL_NET", when=lambda value: value.lower() == "socket"
        )

    @fact
    def shm_disabled(self) -> tuple[str, ...]:
        """Paths through shared memory are off."""
        return self._show_variables("NCCL_SHM_DISABLE")

    @fact
    def forced(self) -> tuple[str, ...]:
        """Algorithms, protocols, numbers of channels."""
        return self._show_variables(*_FORCED, when=bool)

    @fact
    def traced(self) -> tuple[str, ...]:
        """NCCL_DEBUG=TRACE."""
        return self._show_variables("NCCL_DEBUG", when=lambda value: value.upper() == "TRACE")

    @fact
    def absent_interfaces(self) -> tuple[str, ...]:
        """A list that no interface fits."""
        return _find_absent(self.facts, "NCCL_SOCKET_IFNAME", lambda: self.facts.network.names)

    @fact
    def local_interfaces(self) -> tuple[str, ...]:
        """A list that names bridges of containers or virtual machines."""
        return self._show_variables("NCCL_SOCKET_IFNAME", when=_is_local)

    @fact
    def absent_devices(self) -> tuple[str, ...]:
        """A list that no RDMA device fits."""
        return _find_absent(self.facts, "NCCL_IB_HCA", lambda: self.facts.role.rdma_devices)

    @fact
    def empty_gids(self) -> tuple[str, ...]:
        """An entry of the cards' tables of addresses that holds none, and the cards."""
        asked = [
            (one.shown, index)
            for one in self.facts.environment.nccl
            if one.name == "NCCL_IB_GID_INDEX"
            and (index := parse_digits(one.value, None)) is not None
        ]
        cards = _list_cards(self.facts) if asked else []
        without = {
            index: [name for name in cards if not has_gid(self.reader, name, index)]
            for _, index in asked
        }
        return tuple(
            f"{shown} on {', '.join(without[index])}" for shown, index in asked if without[index]
        )

    @fact
    def good_gid(self) -> int:
        """The first entry with an address of RoCE v2 on all of these cards; -1 where there is
        none.
        """
        return shared_gid([gids_of(self.reader, name) for name in _list_cards(self.facts)])

    @fact
    def absent_files(self) -> tuple[str, ...]:
        """Files that are named and are not there."""
        return self._show_variables(*_FILES, when=lambda value: not _is_there(self.reader, value))

    @fact
    def has_topology(self) -> bool:
        """A topology file is named."""
        return any(one.name == "NCCL_TOPO_FILE" for one in self.facts.environment.nccl)

    @fact
    def plugin(self) -> str:
        """What tells that a vendor's plug-in carries the traffic between hosts; empty for NCCL's
        own transports.
        """
        for one in self.facts.environment.nccl:
            if (
                one.name.startswith(_OF_PLUGINS)
                or (one.name == "NCCL_NET" and one.value.lower() not in _OWN_TRANSPORTS)
                or (one.name in _PLUGINS and one.value.lower() not in {"", "none"})
            ):
                return one.shown
        places = (path for path in _PLUGIN_FOLDERS if hasattr(self.reader.stat(path), "type"))
        return next(places, "") or ("an Elastic Fabric Adapter" if self.facts.rdma.has_efa else "")

    def _show_variables(
        self, *names: str, when: Callable[[str], bool] = lambda value: value.lower() in _ON
    ) -> tuple[str, ...]:
        return tuple(
            one.shown
            for one in self.facts.environment.nccl
            if one.name in names and when(one.value)
        )


def parse_prefixes(value: str) -> tuple[str, bool, tuple[str, ...]]:
    """(`^` or nothing, whether names are whole, names) of a list of interfaces or devices."""
    excluded, is_whole, entries = _parse_list(value)
    return excluded, is_whole, tuple(name for name, _ in entries if name)


def _parse_list(value: str) -> tuple[str, bool, tuple[tuple[str, str], ...]]:
    """As `parse_prefixes`, with (name, port) for each name; the port is empty if none is named."""
    excluded = "^" if value.startswith("^") else ""
    rest = value.removeprefix("^")
    entries = (
        one.strip().partition(":")[::2] for one in rest.removeprefix("=").split(",") if one.strip()
    )
    return excluded, rest.startswith("="), tuple(entries)


def fits_none(value: str, names: Iterable[str]) -> bool:
    """Whether a list asks for names of which none is there."""
    excluded, is_whole, asked = parse_prefixes(value)
    there = tuple(names)
    if excluded or not asked:
        return False
    return not any(
        name == one or (not is_whole and name.startswith(one)) for name in there for one in asked
    )


def takes_port(value: str, port: str) -> bool:
    """Whether a list of NCCL_IB_HCA leaves in a port (mlx5_0/1)."""
    device, _, number = port.partition("/")
    excluded, is_whole, entries = _parse_list(value)
    is_named = any(
        (device == name if is_whole else device.startswith(name)) and wanted in {"", number}
        for name, wanted in entries
    )
    # An empty list, as `NCCL_IB_HCA=`, filters nothing in NCCL.
    return not entries or is_named is not bool(excluded)


def _find_absent(facts: Facts, name: str, names: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    # A variable is filled in by a shell at login, which no file shows. To call its list wrong would
    # be a guess.
    asked = (one for one in facts.environment.nccl if one.name == name and "$" not in one.value)
    return tuple(one.shown for one in asked if fits_none(one.value, names()))


def _list_cards(facts: Facts) -> list[str]:
    """The RoCE ports that NCCL may use."""
    lists = [
        one.value
        for one in facts.environment.nccl
        if one.name == "NCCL_IB_HCA" and "$" not in one.value
    ]
    ports = [port for port in facts.rdma.ports if port.link_layer == "Ethernet" and port.is_active]
    return [port.name for port in ports if all(takes_port(value, port.name) for value in lists)]


def _is_local(value: str) -> bool:
    excluded, _, asked = parse_prefixes(value)
    return not excluded and any(name.startswith(_LOCAL) for name in asked)


def _is_there(reader: Reader, path: str) -> bool:
    """A path that a shell would compute counts as there."""
    return not path.startswith("/") or "$" in path or hasattr(reader.stat(path), "type")
