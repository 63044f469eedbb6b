"""Ports of RDMA devices (InfiniBand, RoCE, EFA): whether they are up, how fast, and how often the
link broke.

Sources: kernel, Documentation/ABI/stable/sysfs-class-infiniband (state, phys_state, rate,
link_layer, counters), Documentation/ABI/testing/sysfs-class-net (flags, carrier_up_count). A port
of Ethernet that is down always says `Disabled`; one of InfiniBand says `Polling` while it looks for
the other end, and some cards `Disabled` without cable.

Virtual functions (SR-IOV) are ports while they are active: else no one uses them, or a guest does,
who sees more.

On HGX B200 and newer ConnectX functions stand between host and NVSwitches (NVIDIA, Fabric Manager
user guide). They are no rails, and their firmware refuses counters: each read writes
`mlx5_cmd_out_err ... ACCESS_REG` to the kernel log (prometheus/node_exporter issue 3434;
leptonai/gpud). NVIDIA's own start script of Fabric Manager knows them by the word SW_MNG in their
vital product data (NVIDIA/gpu-operator issue 2781), which only root reads; else they are known by
what is around them, also with an interface of IP over InfiniBand (leptonai/gpud issue 1164). They
are left alone.

Programs open a device by /dev/infiniband/uverbsN, which the kernel makes of the entry in the class
infiniband_verbs whose file `ibdev` names the device
(Documentation/ABI/stable/sysfs-class-infiniband). It may be missing while the ports are up
(NVIDIA/NVSentinel pull request 1546). Those of subnet managers (issm) may be left out on purpose
(issue 1663).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.base import (
    Fact,
    any_known,
    attempt,
    get_raw,
    keep_known,
    known_items,
    lazy,
    make_shared,
)
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.gpu.pcie import ports_of
from hosttune.facts.gpu.platforms import is_switched
from hosttune.facts.reading import (
    all_sure,
    derive,
    hint,
    if_absent,
    is_there,
    names_in,
    read_counter,
    read_line,
    require_sure,
)
from hosttune.facts.subject import Subject, fact, read_with
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import ABSENT, is_unrecorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

T = TypeVar("T")
_CLASS = "/sys/class/infiniband"
_VERBS_CLASS = "/sys/class/infiniband_verbs"
_VERBS_FILES = "/dev/infiniband"
# Where the counters of PortCounters end, of 16 and of 8 bits (kernel:
# drivers/infiniband/core/sysfs.c, PORT_PMA_ATTR). The wider ones of newer cards get there by
# chance, once.
_FULL = 65535
_FULL_DOWNS = 255
_RATE = regex(r"([\d.]+) Gb/sec(?: \((\d+)X )?")
_FUNCTION = regex(r"/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\.([0-7])\Z")
_MARK = "SW_MNG"  # in the vital product data of what manages NVSwitches
_IPOIB = 32  # ARPHRD_INFINIBAND (linux/if_arp.h)
_UP = 0x1  # IFF_UP: someone has switched the interface on (netdevice(7))
# four lanes of SDR, InfiniBand's first speed: what a link comes up with that can do no better
_SLOWEST_GBPS = 10


@frozen
class RdmaPort(Fact):
    """One port. Its siblings are the ports of the same model and link layer that are near a GPU
    (below one PCIe switch) as it is, or as little: rails are compared with rails, and not with the
    cards of storage.
    """

    name: str  # mlx5_0/1
    model: str  # PCI device ID 0x1021; empty where the device has none
    link_layer: str  # InfiniBand | Ethernet; EFA says Unspecified
    state: str  # ACTIVE | DOWN | INIT | ARMED ...
    phys_state: str  # LinkUp | Polling | Disabled ...
    rate_gbps: float  # Gb/s
    lanes: int  # of its link, 4 of a whole cable of InfiniBand; 0 where the rate does not tell
    is_near_gpu: bool  # it shares a PCIe switch with a GPU
    is_function: bool  # a virtual function (SR-IOV): such come and go
    has_been_up: bool  # its link was, since the driver was loaded
    is_meant: bool  # something tells that it is to be used, whether it is up or not
    symbol_errors: int  # since the driver was loaded; 0 where the device does not count
    link_downed: int  # how often the link broke since then
    interfaces: tuple[str, ...]  # the network interfaces of its device: eth2
    # why no program can open its device, a phrase; empty if it can, or if that is not known
    verbs_gap: str = ""
    # the breaks that every active sibling counts, of two at least: those of their switch
    common_downs: int = 0
    # the rate of the fastest active sibling, itself included; 0 where none is active
    sibling_gbps: float = 0

    @property
    def is_active(self) -> bool:
        """Whether the port carries traffic."""
        return self.state == "ACTIVE"

    @property
    def is_stunted(self) -> bool:
        """It is up on InfiniBand with one lane, or at the speed of 2001: some of its lanes do not
        work.
        """
        return (
            self.link_layer == "InfiniBand"
            and self.is_active
            and (self.lanes == 1 or self.rate_gbps <= _SLOWEST_GBPS)
        )

    @property
    def own_downs(self) -> int:
        """The breaks that its siblings do not count as well."""
        return self.link_downed - min(self.common_downs, self.link_downed)

    @property
    def is_full(self) -> bool:
        """The counter of symbol errors is at its end, where it tells no more."""
        return self.symbol_errors == _FULL

    @property
    def has_full_downs(self) -> bool:
        """The counter of broken links is at its end: since when, and whether there are more, is not
        known.
        """
        return self.link_downed == _FULL_DOWNS


@frozen
class Rdma(Subject):
    """All ports, by device."""

    @fact
    def ports(self) -> tuple[RdmaPort, ...]:
        """By device, without those of `bridges`."""
        return _read_ports(self.reader, self.facts, self.bridges)

    # devices between the host and the NVSwitches of HGX B200 and newer, left alone
    bridges: tuple[str, ...] = read_with(lambda self: _find_bridges(self.reader, self.facts))

    @property
    def has_efa(self) -> bool:
        """One is an Elastic Fabric Adapter of AWS: PCI device ID 0xefa0 and up (kernel:
        drivers/infiniband/hw/efa).
        """
        return any_known(lambda port: port.model.startswith("0xefa"), self.ports)


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


def lanes_of(content: str) -> int:
    """`400 Gb/sec (4X NDR)` -> 4; 0 where it does not tell."""
    match = _RATE.match(content)
    return int(match[2] or 0) if match else 0


def _read_ports(reader: Reader, facts: Facts, bridges: tuple[str, ...]) -> tuple[RdmaPort, ...]:
    found: list[RdmaPort] = []
    beside = _Beside(reader, facts, found)
    verbs = make_shared(_read_verbs, reader)
    left_alone = frozenset(bridges)

    def of(device: str) -> tuple[RdmaPort, ...]:
        own = [
            _read_port(reader, facts, device, port, beside, verbs)
            for port in names_in(reader, f"{_CLASS}/{device}/ports")
        ]
        return tuple(port for port in own if attempt(_is_idle_function, port) is not True)

    ports = keep_known(
        of, (device for device in names_in(reader, _CLASS) if device not in left_alone)
    )
    found += known_items(ports)
    return ports


def _is_idle_function(port: RdmaPort) -> bool:
    return port.is_function and not port.is_active


def _find_bridges(reader: Reader, facts: Facts) -> tuple[str, ...]:
    """mlx5 functions that NVIDIA marks as its own, beside GPUs of such a board. Where no mark can
    be read: those that share no switch with a GPU and have no network interface, or one of IP over
    InfiniBand that is switched off.
    """
    devices = names_in(reader, _CLASS)
    gpus = attempt(lambda: known_items(facts.gpus.devices)) if devices else []
    slots = (
        [gpu.slot for gpu in gpus if is_switched(gpu.device_id)] if isinstance(gpus, list) else []
    )
    if not slots:
        return ()
    places = (
        place for slot in slots if isinstance(place := reader.resolve(f"{DEVICES}/{slot}"), str)
    )
    above = {port for place in places for port in ports_of(place)}
    found, marked = [], []
    for device in devices:
        driver = reader.link(f"{_CLASS}/{device}/device/driver")
        place = reader.resolve(f"{_CLASS}/{device}/device")
        if (
            not isinstance(driver, str)
            or not driver.endswith("/mlx5_core")
            or not isinstance(place, str)
        ):
            continue
        if _MARK in hint(reader, f"{_CLASS}/{device}/device/vpd"):
            marked.append(device)
        elif (
            above.isdisjoint(ports_of(place))
            and attempt(_is_unused, reader, f"{_CLASS}/{device}/device/net") is True
        ):
            found.append(device)
    # NVIDIA's own mark is certain. The guess by what is around a device is used only if no device
    # carries the mark.
    return tuple(marked or found)


def _is_unused(reader: Reader, folder: str) -> bool:
    """Whether a device has no network interface, or only such of IP over InfiniBand that are
    switched off. Raises UnknownFact.
    """
    names = names_in(reader, folder)
    kinds, flags = (_numbers_of(reader, folder, names, file) for file in ("type", "flags"))
    return (
        kinds == [_IPOIB] * len(names)
        and len(flags) == len(names)
        and not any(one & _UP for one in flags)
    )


class _Beside:
    """What the ports are compared with, found once for all: `ports` holds them all when the first
    is asked.
    """

    def __init__(self, reader: Reader, facts: Facts, ports: list[RdmaPort]) -> None:
        self._reader = reader
        self._ports = ports
        self.near_gpus = make_shared(
            lambda: frozenset(name for gpu in facts.rails.gpus for name in gpu.devices)
        )
        self.active = make_shared(self._active)
        self._groups = make_shared(self._by_kind)

    def siblings(self, port: RdmaPort) -> tuple[float, int]:
        """The rate of the fastest active sibling, and the breaks of the link that each of them
        counts.
        """
        _ = port.model  # of an unread one nothing is known of its kin
        found = self._groups().get(_make_kind(port), (0.0, 0))
        # nothing is common to one port, unless another could not be read
        if not found[1] and len(self._ports) > 1:
            for one in self._ports:
                _ = one.state, one.link_layer, one.link_downed if one.state == "ACTIVE" else 0
        return found

    def _active(self) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
        """The cards with an active port, and (model, function) of those."""
        found = [
            (get_raw(one, "model"), *_split_card(self._reader, one))
            for one in self._ports
            if get_raw(one, "state") == "ACTIVE"
        ]
        known = frozenset((model, which) for model, _, which in found if isinstance(model, str))
        return frozenset(card for _, card, _ in found), known

    def _by_kind(self) -> Mapping[object, tuple[float, int]]:
        groups: dict[object, list[RdmaPort]] = {}
        for one in self._ports:
            if get_raw(one, "state") == "ACTIVE":
                groups.setdefault(_make_kind(one), []).append(one)
        return {kind: (_find_best(ports), _find_common(ports)) for kind, ports in groups.items()}


def _make_kind(port: RdmaPort) -> object:
    return get_raw(port, "model"), get_raw(port, "link_layer"), get_raw(port, "is_near_gpu")


def _find_best(siblings: list[RdmaPort]) -> float:
    rates = [get_raw(one, "rate_gbps") for one in siblings]
    return max((rate for rate in rates if isinstance(rate, float)), default=0.0)


def _find_common(siblings: list[RdmaPort]) -> int:
    counts = [get_raw(one, "link_downed") for one in siblings]
    numbers = [count for count in counts if isinstance(count, int)]
    return min(numbers) if len(numbers) > 1 else 0


def _read_verbs(reader: Reader) -> Mapping[object, str] | None:
    """The entry of each device by which programs open it: mlx5_0 -> uverbs0; of one whose device
    cannot be read the Unreadable instead of the name. None without the class: its module,
    ib_uverbs, is not loaded, as where only the kernel uses the devices.
    """
    answer = reader.list(_VERBS_CLASS)
    listed = ABSENT if is_unrecorded(answer) else require_sure(answer)
    if listed is ABSENT:
        return None
    names = [name for name in listed if name.startswith("uverbs")]
    places = [f"{_VERBS_CLASS}/{name}/ibdev" for name in names]
    return {
        attempt(read_line, reader, place): name for name, place in zip(names, places, strict=True)
    }


def _verbs_gap(
    reader: Reader, device: str, verbs: Callable[[], Mapping[object, str] | None]
) -> str:
    """Raises UnknownFact where the entries, or the file of one, cannot be looked at. An older
    record, in which no one looked for entries, tells of no gap.
    """
    entries = None if reader.persistent_only else verbs()
    if entries is None:
        return ""
    if device not in entries:
        all_sure(tuple(entries))  # one that cannot be read may be this device's
        return f"the kernel has no entry of {device} in {_VERBS_CLASS}"
    path = f"{_VERBS_FILES}/{entries[device]}"
    return "" if is_there(reader, path) else f"{path} is missing"


def _read_port(
    reader: Reader,
    facts: Facts,
    device: str,
    port: str,
    beside: _Beside,
    verbs: Callable[[], Mapping[object, str] | None],
) -> RdmaPort:
    folder = f"{_CLASS}/{device}/ports/{port}"

    def read(name: str, function: Callable[[str], T]) -> T:
        return derive(read_line(reader, f"{folder}/{name}"), f"{folder}/{name}", function)

    def count(name: str) -> int:
        return read_counter(reader, f"{folder}/counters/{name}")

    found = RdmaPort(
        name=f"{device}/{port}",
        model=lazy(_read_model, reader, device),
        link_layer=lazy(read, "link_layer", str),
        state=lazy(read, "state", word_of),
        phys_state=lazy(read, "phys_state", word_of),
        rate_gbps=lazy(read, "rate", rate_of),
        lanes=lazy(read, "rate", lanes_of),
        is_near_gpu=lazy(lambda: device in beside.near_gpus()),
        is_function=lazy(is_there, reader, f"{_CLASS}/{device}/device/physfn"),
        has_been_up=lazy(
            lambda: found.link_downed > 0 or any(_of_interfaces(reader, found, "carrier_up_count"))
        ),
        is_meant=lazy(lambda: found.is_active or _is_meant(reader, facts, found, beside)),
        symbol_errors=lazy(count, "symbol_error"),
        link_downed=lazy(count, "link_downed"),
        interfaces=lazy(names_in, reader, f"{_CLASS}/{device}/device/net"),
        verbs_gap=lazy(_verbs_gap, reader, device, verbs),
        common_downs=lazy(lambda: beside.siblings(found)[1]),
        sibling_gbps=lazy(lambda: beside.siblings(found)[0]),
    )
    return found


def _read_model(reader: Reader, device: str) -> str:
    return if_absent(read_line(reader, f"{_CLASS}/{device}/device/device"), "")


def _of_interfaces(reader: Reader, port: RdmaPort, name: str) -> list[int]:
    """A number that sysfs has of each interface of a port; of an older kernel none."""
    return _numbers_of(
        reader, f"{_CLASS}/{port.name.partition('/')[0]}/device/net", port.interfaces, name
    )


def _numbers_of(reader: Reader, folder: str, interfaces: tuple[str, ...], name: str) -> list[int]:
    found = (
        (path, read_line(reader, path)) for path in (f"{folder}/{one}/{name}" for one in interfaces)
    )
    return [
        derive(word, path, lambda text: int(text, 0)) for path, word in found if word is not ABSENT
    ]


def _is_meant(reader: Reader, facts: Facts, port: RdmaPort, beside: _Beside) -> bool:
    """Of a port that is not active. Servers have Ethernet ports that no one has plugged a cable
    into, with an interface that an installer has switched on, or cards of two ports with one cable,
    and workstations a used card of InfiniBand: such are no fault.
    """
    is_on = any(flags & _UP for flags in _of_interfaces(reader, port, "flags"))
    if not is_on and _is_second(reader, port, beside) and not port.has_been_up:
        return False
    if port.link_layer == "Ethernet":
        return (port.is_near_gpu and port.sibling_gbps > 0) or (
            is_on and (port.is_near_gpu or port.has_been_up)
        )
    if port.sibling_gbps > 0 or is_on or port.has_been_up:
        return True
    return port.phys_state != "Disabled" and (port.is_near_gpu or facts.host.is_vm)


def _is_second(reader: Reader, port: RdmaPort, beside: _Beside) -> bool:
    """Another function of its card is active, and of no card of its model the one that it is."""
    card, function = _split_card(reader, port)
    cards, functions = beside.active()
    return function != "" and card in cards and (port.model, function) not in functions


def _split_card(reader: Reader, port: RdmaPort) -> tuple[str, str]:
    """`0000:18:00`, `1` of a port at 0000:18:00.1; empty where it has no place on the PCI bus."""
    place = reader.resolve(f"{_CLASS}/{port.name.partition('/')[0]}/device")
    match = _FUNCTION.search(place) if isinstance(place, str) else None
    return (match[1], match[2]) if match else ("", "")
