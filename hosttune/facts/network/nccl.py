"""What files of the system set for NCCL, and whether it fits this machine.

Source: NCCL user guide, "Environment Variables". NCCL_SOCKET_IFNAME and NCCL_IB_HCA are lists of prefixes; `^` before
the list excludes them, `=` asks for whole names, and of a device `:1` is its port. NCCL_IB_GID_INDEX is an entry of the
table of addresses (GIDs) of each RoCE port; with an empty one every job ends when it starts (NVIDIA/nccl issue 1333).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import Fact, lazy
from hosttune.facts.network.gids import gids_of, has_gid, shared_gid
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

_ON = frozenset({"1", "true", "yes", "on"})
_FORCED = frozenset({"NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS", "NCCL_BUFFSIZE"})
_FILES = frozenset({"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_TUNER_CONFIG_FILE"})
# Plug-ins for the network, and the variables that only they read: Google's GPUDirect-TCPX and -TCPXO (FasTrak).
_PLUGINS = frozenset({"NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN"})
_OF_PLUGINS = ("NCCL_GPUDIRECTTCPX_", "NCCL_FASTRAK_")
_OWN_TRANSPORTS = frozenset({"", "ib", "socket"})
_PLUGIN_FOLDERS = ("/var/lib/tcpx", "/var/lib/fastrak", "/usr/local/gib")
_LOCAL = ("lo", "docker", "virbr", "br-", "veth", "lxcbr", "cni", "flannel")


@frozen
class Nccl(Fact):
    """Settings, each as `NAME=value (file:line)`."""

    all: tuple[str, ...]  # those of NCCL
    p2p_disabled: tuple[str, ...]  # direct paths between GPUs are off
    rdma_disabled: tuple[str, ...]  # paths over RDMA are off
    shm_disabled: tuple[str, ...]  # paths through shared memory are off
    forced: tuple[str, ...]  # algorithms, protocols, numbers of channels
    traced: tuple[str, ...]  # NCCL_DEBUG=TRACE
    absent_interfaces: tuple[str, ...]  # a list that no interface fits
    local_interfaces: tuple[str, ...]  # a list that names bridges of containers or virtual machines
    absent_devices: tuple[str, ...]  # a list that no RDMA device fits
    empty_gids: tuple[str, ...]  # an entry of the cards' tables of addresses that holds none, and the cards
    good_gid: int  # the first entry with an address of RoCE v2 on all of these cards; -1 where there is none
    absent_files: tuple[str, ...]  # files that are named and are not there
    has_topology: bool  # a topology file is named
    plugin: str  # what tells that a vendor's plug-in carries the traffic between hosts; empty for NCCL's own transports


def parse_prefixes(value: str) -> tuple[str, bool, tuple[str, ...]]:
    """(`^` or nothing, whether names are whole, names) of a list of interfaces or devices."""
    excluded, is_whole, entries = _parse_list(value)
    return excluded, is_whole, tuple(name for name, _ in entries if name)


def _parse_list(value: str) -> tuple[str, bool, tuple[tuple[str, str], ...]]:
    """As `parse_prefixes`, with (name, port) for each name; the port is empty if none is named."""
    excluded = "^" if value.startswith("^") else ""
    rest = value.removeprefix("^")
    entries = (one.strip().partition(":")[::2] for one in rest.removeprefix("=").split(",") if one.strip())
    return excluded, rest.startswith("="), tuple(entries)


def fits_none(value: str, names: Iterable[str]) -> bool:
    """Whether a list asks for names of which none is there."""
    excluded, is_whole, asked = parse_prefixes(value)
    there = tuple(names)
    if excluded or not asked:
        return False
    return not any(name == one or (not is_whole and name.startswith(one)) for name in there for one in asked)


def takes_port(value: str, port: str) -> bool:
    """Whether a list of NCCL_IB_HCA leaves in a port (mlx5_0/1)."""
    device, _, number = port.partition("/")
    excluded, is_whole, entries = _parse_list(value)
    is_named = any(
        (device == name if is_whole else device.startswith(name)) and wanted in {"", number} for name, wanted in entries
    )
    return not entries or is_named is not bool(excluded)


def collect(reader: Reader, facts: Facts) -> Nccl:
    def show_variables(
        *names: str, when: Callable[[str], bool] = lambda value: value.lower() in _ON
    ) -> tuple[str, ...]:
        return tuple(one.shown for one in facts.environment.nccl if one.name in names and when(one.value))

    return Nccl(
        all=lazy(lambda: tuple(one.shown for one in facts.environment.nccl)),
        p2p_disabled=lazy(
            lambda: (
                show_variables("NCCL_P2P_DISABLE")
                + show_variables("NCCL_P2P_LEVEL", when=lambda value: value in {"LOC", "0"})
            )
        ),
        rdma_disabled=lazy(
            lambda: (
                show_variables("NCCL_IB_DISABLE")
                + show_variables("NCCL_NET", when=lambda value: value.lower() == "socket")
            )
        ),
        shm_disabled=lazy(show_variables, "NCCL_SHM_DISABLE"),
        forced=lazy(show_variables, *_FORCED, when=bool),
        traced=lazy(show_variables, "NCCL_DEBUG", when=lambda value: value.upper() == "TRACE"),
        absent_interfaces=lazy(_find_absent, facts, "NCCL_SOCKET_IFNAME", lambda: facts.network.names),
        local_interfaces=lazy(show_variables, "NCCL_SOCKET_IFNAME", when=_is_local),
        absent_devices=lazy(_find_absent, facts, "NCCL_IB_HCA", lambda: facts.role.rdma_devices),
        empty_gids=lazy(_empty_gids, reader, facts),
        good_gid=lazy(lambda: shared_gid([gids_of(reader, name) for name in _list_cards(facts)])),
        absent_files=lazy(lambda: show_variables(*_FILES, when=lambda value: not _is_there(reader, value))),
        has_topology=lazy(lambda: any(one.name == "NCCL_TOPO_FILE" for one in facts.environment.nccl)),
        plugin=lazy(_find_plugin, reader, facts),
    )


def _find_plugin(reader: Reader, facts: Facts) -> str:
    for one in facts.environment.nccl:
        if (
            one.name.startswith(_OF_PLUGINS)
            or (one.name == "NCCL_NET" and one.value.lower() not in _OWN_TRANSPORTS)
            or (one.name in _PLUGINS and one.value.lower() not in {"", "none"})
        ):
            return one.shown
    places = (path for path in _PLUGIN_FOLDERS if hasattr(reader.stat(path), "type"))
    return next(places, "") or ("an Elastic Fabric Adapter" if facts.rdma.has_efa else "")


def _find_absent(facts: Facts, name: str, names: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    asked = (one for one in facts.environment.nccl if one.name == name and "$" not in one.value)
    return tuple(one.shown for one in asked if fits_none(one.value, names()))


def _list_cards(facts: Facts) -> list[str]:
    """The RoCE ports that NCCL may use."""
    lists = [one.value for one in facts.environment.nccl if one.name == "NCCL_IB_HCA" and "$" not in one.value]
    ports = [port for port in facts.rdma.ports if port.link_layer == "Ethernet" and port.is_active]
    return [port.name for port in ports if all(takes_port(value, port.name) for value in lists)]


def _empty_gids(reader: Reader, facts: Facts) -> tuple[str, ...]:
    asked = [
        (one.shown, index)
        for one in facts.environment.nccl
        if one.name == "NCCL_IB_GID_INDEX" and (index := parse_digits(one.value, None)) is not None
    ]
    cards = _list_cards(facts) if asked else []
    without = {index: [name for name in cards if not has_gid(reader, name, index)] for _, index in asked}
    return tuple(f"{shown} on {', '.join(without[index])}" for shown, index in asked if without[index])


def _is_local(value: str) -> bool:
    excluded, _, asked = parse_prefixes(value)
    return not excluded and any(name.startswith(_LOCAL) for name in asked)


def _is_there(reader: Reader, path: str) -> bool:
    """A path that a shell would compute counts as there."""
    return not path.startswith("/") or "$" in path or hasattr(reader.stat(path), "type")
