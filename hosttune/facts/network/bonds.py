"""Bonds: several links that the kernel's bonding driver makes one of, and which of them carry
nothing.

Sources: kernel, Documentation/networking/bonding.rst (modes, miimon, arp_interval, min_links),
drivers/net/bonding (bond_sysfs.c, bond_sysfs_slave.c; bond_3ad.c: links of one aggregator have the
same partner, key and speed, and only those of the active aggregator carry anything),
include/uapi/linux/if_bonding.h (LACP_STATE_...), Documentation/networking/operstates.rst. Only root
can read partners, aggregators and states of ports to everybody. Team devices (teamd) are no bonds,
and are not seen here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import (
    Fact,
    UnknownFact,
    keep_known,
    known_items,
    known_part,
    lacking_of,
    lazy,
    make_shared,
)
from hosttune.facts.network.network import BONDING_MASTERS, speed_of
from hosttune.facts.reading import derive, if_absent, read_integer, read_line, require_known
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosttune.host.door import Reader

_CLASS = "/sys/class/net"
_IFF_UP = 0x1  # netdevice(7)
# operstate; dummies and the like say unknown
_DOWN = frozenset({"down", "lowerlayerdown", "notpresent"})
# bond_slave_link_status
_MII = {"up": True, "going back": True, "going down": False, "down": False}
_LACP, _FAIL_OVER = "802.3ad", frozenset({"active-backup", "broadcast"})
_DEFAULTED = 0x40  # of the state of a port: it heard no LACPDU, and knows no partner


@frozen
class BondMember(Fact):
    """A link of a bond."""

    name: str  # ens5f0
    # why its link is not up, or carries nothing in a bond that shares the load; empty for one that
    # works
    fault: str
    # why it carries nothing although its link is up, a phrase; empty for one that does; of 802.3ad
    # alone
    idle: str
    speed_mbps: int  # Mb/s; 0 where the link is down or the driver does not say


@frozen
class Bond(Fact):
    """One bond."""

    name: str  # bond0
    is_on: bool  # someone has switched it on
    # balance-rr, active-backup, balance-xor, broadcast, 802.3ad, balance-tlb, balance-alb
    mode: str
    is_up: bool  # it carries something
    members: tuple[BondMember, ...]  # its links
    is_watched: bool  # it notices when a link is lost: miimon or arp_interval is set

    @property
    def shares_load(self) -> bool:
        """All of its links carry traffic; else the others wait for one to fail, or carry the
        same.
        """
        return self.mode not in _FAIL_OVER

    @property
    def down(self) -> tuple[str, ...]:
        """The links that are not up, each with why: ens5f1 (no link)."""
        return keep_known(
            lambda one: (f"{one.name} ({one.fault})",) if one.fault else (), self.members
        )

    @property
    def idle(self) -> tuple[str, ...]:
        """Of 802.3ad the links that are up and carry nothing, each with why: ens5f1 (no LACP from
        the switch).
        """
        return keep_known(
            lambda one: (f"{one.name} ({one.idle})",) if not one.fault and one.idle else (),
            self.members,
        )

    @property
    def speeds_mbps(self) -> tuple[int, ...]:
        """The speeds, Mb/s, of its links that are up, each once, the slowest first."""
        speeds = keep_known(
            lambda one: (one.speed_mbps,) if not one.fault and one.speed_mbps else (), self.members
        )
        return known_part(sorted({*known_items(speeds)}), lacking_of(speeds))


@frozen
class Bonds(Subject):
    """The bonds of this network namespace."""

    @fact
    def all(self) -> tuple[Bond, ...]:
        masters = read_line(self.reader, f"{_CLASS}/{BONDING_MASTERS}")
        if masters is ABSENT:
            _ = self.facts.network.names  # raises where no interface at all is to be seen
            return ()
        return tuple(_read_bond(self.reader, name) for name in sorted(str(masters).split()))


def _read_known(reader: Reader, path: str) -> str:
    return require_known(read_line(reader, path), path)


def _is_on(reader: Reader, name: str) -> bool:
    path = f"{_CLASS}/{name}/flags"
    return bool(derive(read_line(reader, path), path, lambda word: int(word, 16)) & _IFF_UP)


def _read_bond(reader: Reader, name: str) -> Bond:
    folder = f"{_CLASS}/{name}/bonding"
    mode = make_shared(lambda: _read_known(reader, f"{folder}/mode").partition(" ")[0])
    return Bond(
        name=name,
        is_on=lazy(_is_on, reader, name),
        mode=lazy(mode),
        is_up=lazy(lambda: _read_known(reader, f"{folder}/mii_status") == "up"),
        members=lazy(lambda: _read_members(reader, folder, mode())),
        is_watched=lazy(
            lambda: any(
                _read_number(reader, f"{folder}/{one}") for one in ("miimon", "arp_interval")
            )
        ),
    )


def _read_members(reader: Reader, bond: str, mode: str) -> tuple[BondMember, ...]:
    found: list[BondMember] = []
    found += (
        _read_member(reader, bond, name, mode, found)
        for name in _read_known(reader, f"{bond}/slaves").split()
    )
    return tuple(found)


def _read_number(reader: Reader, path: str) -> int:
    return require_known(read_integer(reader, path), path)


def _read_member(
    reader: Reader, bond: str, name: str, mode: str, beside: Sequence[BondMember]
) -> BondMember:
    """`beside` are all links of the bond, in the end."""
    return BondMember(
        name=name,
        fault=lazy(
            lambda: (
                _find_fault(reader, name)
                or ("" if mode in _FAIL_OVER else _no_speed(reader, name, beside))
            )
        ),
        idle=lazy(lambda: _describe_idle(reader, bond, name, beside) if mode == _LACP else ""),
        speed_mbps=lazy(speed_of, reader, f"{_CLASS}/{name}"),
    )


def _find_fault(reader: Reader, name: str) -> str:
    """Without monitoring the bond calls every link up, so the interface is asked as well."""
    if not _is_on(reader, name):
        return "switched off"
    folder = f"{_CLASS}/{name}"
    if _read_known(reader, f"{folder}/operstate") in _DOWN:
        return "no link"
    state = _read_known(reader, f"{folder}/bonding_slave/mii_status")
    # A word of a newer kernel must not count as up: what is not known is unknown.
    if state not in _MII:
        raise UnknownFact(f"{folder}/bonding_slave/mii_status says {state[:40]!r}")
    return "" if _MII[state] else "its link is up, and the bond's own monitor has it as down"


def _no_speed(reader: Reader, name: str, beside: Sequence[BondMember]) -> str:
    """A transceiver or port that fails can leave the link up without a speed (ethtool: `Unknown!`),
    while the others have one. Not where none tells its speed, as of virtio; in modes of fail-over a
    virtio reserve is usual.
    """
    folder = f"{_CLASS}/{name}"
    is_up = (
        _read_known(reader, f"{folder}/operstate")
        == _read_known(reader, f"{folder}/bonding_slave/mii_status")
        == "up"
    )
    if not is_up or speed_of(reader, folder) or not any(one.speed_mbps for one in beside):
        return ""
    return "its link is up, and no speed is agreed with the other side"


def _describe_idle(reader: Reader, bond: str, name: str, beside: Sequence[BondMember]) -> str:
    """A link of the active aggregator that has no partner carries traffic all the same, by
    itself.
    """
    folder = f"{_CLASS}/{name}/bonding_slave"
    own, active = (
        _read_known(reader, f"{folder}/ad_aggregator_id"),
        _read_known(reader, f"{bond}/ad_aggregator"),
    )
    if own == active and _read_known(reader, f"{folder}/state") != "backup":
        return ""
    speeds = {one.speed_mbps for one in beside if not one.fault and one.speed_mbps}
    mine = next((one.speed_mbps for one in beside if one.name == name), 0)
    if mine and mine < max(speeds, default=0):
        return (
            f"it runs at {mine} Mb/s, and LACP takes links of one speed: others run at "
            f"{max(speeds)}"
        )
    state = if_absent(read_line(reader, f"{folder}/ad_actor_oper_port_state"), "N/A")
    if parse_digits(state, 0) & _DEFAULTED:
        return "no LACP from the switch"
    if active == "0" or not own.isdecimal():
        return "in no LACP group that is active"
    return (
        "LACP does not use it"
        if own == active
        else "another switch or port channel than that of the links in use"
    )
