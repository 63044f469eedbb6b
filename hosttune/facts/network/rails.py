"""Rails: the RDMA ports that carry a job's traffic, how those on Ethernet (RoCE) are set up, and
what GPU each is near.

Sources: kernel, Documentation/ABI/stable/sysfs-class-infiniband (gids, gid_attrs: `IB/RoCE v1` or
`RoCE v2`), Documentation/ABI/testing/sysfs-class-net (mtu); dcb-pfc(8) and dcb-app(8) of iproute2,
which a user may ask, too. MLNX_OFED has ECN below /sys/class/net/IF/ecn and the traffic class below
/sys/class/infiniband/DEVICE/tc (NVIDIA, RoCE configuration). mlnx_qos tells the same as dcb, and
takes root and a second for each port, so it is not asked.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, UnknownFact, get_raw, keep_known, lazy
from hosttune.facts.gpu.gpus import DEVICES
from hosttune.facts.gpu.pcie import ports_of
from hosttune.facts.network.gids import gids_of
from hosttune.facts.reading import if_absent, names_in, read_integer, read_line, require_known
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.regex import regex
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hosttune.facts.gpu.gpus import Gpu
    from hosttune.facts.network.rdma import RdmaPort
    from hosttune.host.door import Reader

_CLASS = "/sys/class/infiniband"
_NET = "/sys/class/net"
_PRIORITIES = regex(r"\bprio-pfc((?: \d:(?:on|off))+)")
# ports that are near no GPU are rails of one kind from so many on: two may be for two networks
_FEW = 3
_NO_DCB = "not known: dcb is not installed"


@frozen
class Rail(Fact):
    """A port of RoCE that is up. Its kin are the rails of the same model and speed that are near a
    GPU as it is (below one PCIe switch), or as little. What most of them have is empty, or 0, where
    there are too few to tell.
    """

    name: str  # mlx5_0/1
    interface: str  # its network interface
    mtu: int  # bytes
    # it has a GID of RoCE v2 that other hosts reach: IPv4, or IPv6 that is not link-local
    has_address: bool
    # priorities with flow control of their own (PFC): `3`; none; not told (the driver does without)
    lossless: str
    trust: str  # what decides on the priority: dscp | pcp; not told
    ecn: str  # priorities with congestion control, as MLNX_OFED tells: `np 3 rp 3`; none; not told
    traffic_class: str  # of all its traffic, as MLNX_OFED tells: `Global tclass=106`; not told
    odd: tuple[str, ...] = ()  # what most of its kin have otherwise, in words
    most_mtu: int = 0  # what most of its kin have
    most_have_address: bool = False  # most of its kin have one


@frozen
class RailedGpu(Fact):
    """A GPU and the RDMA devices below a PCIe switch that it hangs on, too."""

    slot: str  # its PCI address
    devices: tuple[str, ...]  # the cards near it, by name: mlx5_0


@frozen
class Rails(Subject):
    """Rails on Ethernet, and what is near what."""

    @fact
    def roce(self) -> tuple[Rail, ...]:
        # Without virtual functions and ports whose interface is in another network namespace: those
        # are someone's own.
        kinds: dict[object, list[Rail]] = {}

        def of(port: RdmaPort) -> tuple[Rail, ...]:
            is_rail = (
                port.link_layer == "Ethernet"
                and port.is_active
                and port.interfaces
                and not port.is_function
            )
            if not is_rail:
                return ()
            kin = kinds.setdefault((port.model, port.rate_gbps, port.is_near_gpu), [])
            kin.append(_make_rail(self.reader, port, kin, 2 if port.is_near_gpu else _FEW))
            return (kin[-1],)

        return keep_known(of, self.facts.rdma.ports)

    @fact
    def gpus(self) -> tuple[RailedGpu, ...]:
        """By slot.

        Each with the RDMA devices below the same switch: a bridge above both that is not a root
        port.
        """

        def switches(path: str) -> set[str]:
            # The first is the root port, which devices of different switches share: by it every
            # card of a socket would be near every GPU.
            return set(ports_of(if_absent(self.reader.resolve(path), ""))[1:])

        devices = {
            name: switches(f"{_CLASS}/{name}/device") for name in names_in(self.reader, _CLASS)
        }

        def of(gpu: Gpu) -> tuple[RailedGpu, ...]:
            above = switches(f"{DEVICES}/{gpu.slot}")
            return (
                RailedGpu(gpu.slot, tuple(name for name, own in devices.items() if own & above)),
            )

        return keep_known(of, self.facts.gpus.devices) if devices else ()

    @property
    def lacks_dcb(self) -> bool:
        """Nothing here tells the lossless priorities and the trust of a rail."""
        return any(rail.lossless == _NO_DCB for rail in self.roce)

    @property
    def most_gpus_have_one(self) -> bool:
        """More than half of the GPUs share a switch with an RDMA device: the board is built so."""
        return 2 * sum(bool(gpu.devices) for gpu in self.gpus) > len(self.gpus)


def lossless_of(shown: str) -> str:
    """The priorities that `dcb pfc show` calls on. Raises ValueError where it shows none of
    them.
    """
    match = _PRIORITIES.search(shown)
    if match is None:
        message = f"dcb shows no priorities: {shown[:60]!r}"
        raise ValueError(message)
    return " ".join(word[0] for word in match[1].split() if word.endswith(":on")) or "none"


def most_common(values: Sequence[Any]) -> Any:
    """The value that most have; of several the largest; None of nothing."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], value)) if counts else None


def _make_rail(reader: Reader, port: RdmaPort, kin: list[Rail], least: int) -> Rail:
    """`kin` are all of its kind, in the end."""
    interface, device = port.interfaces[0], port.name.partition("/")[0]

    def most(name: str) -> Any:
        values = [value for one in kin if type(value := get_raw(one, name)) in {int, bool, str}]
        return most_common(values) if len(values) >= least else None

    def odd() -> tuple[str, ...]:
        words = {
            "lossless": "lossless priorities",
            "trust": "trust",
            "ecn": "ECN",
            "traffic_class": "traffic class",
        }

        def differs(name: str) -> tuple[str, ...]:
            own, usual = getattr(rail, name), most(name)  # raises if that is not known
            is_odd = usual is not None and own != usual
            return (f"{words[name]} {own} instead of {usual}",) if is_odd else ()

        return keep_known(differs, words)

    rail = Rail(
        name=port.name,
        interface=interface,
        mtu=lazy(
            lambda: require_known(
                read_integer(reader, f"{_NET}/{interface}/mtu"), f"{_NET}/{interface}/mtu"
            )
        ),
        has_address=lazy(lambda: gids_of(reader, port.name).is_reached),
        lossless=lazy(_read_lossless, reader, interface),
        trust=lazy(_trust, reader, interface),
        ecn=lazy(_read_ecn, reader, interface),
        traffic_class=lazy(
            lambda: if_absent(
                read_line(reader, f"{_CLASS}/{device}/tc/1/traffic_class"), "not told"
            )
        ),
        odd=lazy(odd),
        most_mtu=lazy(lambda: most("mtu") or 0),
        most_have_address=lazy(lambda: bool(most("has_address"))),
    )
    return rail


def _ask_dcb(reader: Reader, parse: Callable[[str], str], *words: str) -> str:
    """What dcb says. A driver that knows nothing of it (virtual functions, soft RoCE) is no fault,
    and neither is a release without dcb (Ubuntu 20.04).
    """
    answer = reader.query(("dcb", *words))
    if answer is ABSENT:
        return _NO_DCB
    done = require_known(answer, "dcb")
    if "not supported" in done.errors:
        return "not told"
    try:
        return parse(_describe_answer(done))
    except ValueError as error:
        raise UnknownFact(str(error)) from None


def _describe_answer(done: Completed) -> str:
    if done.status:
        message = f"dcb: {done.errors.strip()[:120] or f'exit status {done.status}'}"
        raise ValueError(message)
    return done.text


def _read_lossless(reader: Reader, interface: str) -> str:
    return _ask_dcb(reader, lossless_of, "pfc", "show", "dev", interface, "prio-pfc")


def _trust(reader: Reader, interface: str) -> str:
    """mlx5 trusts DSCP as soon as a priority is given to one
    (drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c).
    """
    return _ask_dcb(
        reader,
        lambda shown: "dscp" if "dscp-prio" in shown else "pcp",
        "app",
        "show",
        "dev",
        interface,
    )


def _read_ecn(reader: Reader, interface: str) -> str:
    words = []
    for kind in ("np", "rp"):  # who is notified, who reacts
        folder = f"{_NET}/{interface}/ecn/roce_{kind}/enable"
        names = names_in(reader, folder)
        if not names:
            return "not told"
        on = [
            name for name in names if if_absent(read_line(reader, f"{folder}/{name}"), "0") == "1"
        ]
        words += [kind, *on] if on else []
    return " ".join(words) or "none"
