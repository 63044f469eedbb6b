"""Bonds: what their links say, and what nobody can say."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

NET = "/sys/class/net"
BOND, ONE, TWO = f"{NET}/bond0/bonding", f"{NET}/eth0", f"{NET}/eth1"
FILES = {
    f"{NET}/bonding_masters": "bond0\n", f"{NET}/bond0/flags": "0x1403\n", f"{BOND}/mode": "802.3ad 4\n",
    f"{BOND}/slaves": "eth0 eth1\n", f"{BOND}/mii_status": "up\n", f"{BOND}/miimon": "100\n",
    f"{BOND}/arp_interval": "0\n", f"{BOND}/ad_aggregator": "1\n",
}  # fmt: skip
for _one in (ONE, TWO):
    FILES |= {
        f"{_one}/flags": "0x1803\n", f"{_one}/operstate": "up\n", f"{_one}/speed": "25000\n",
        f"{_one}/bonding_slave/mii_status": "up\n", f"{_one}/bonding_slave/state": "active\n",
        f"{_one}/bonding_slave/ad_aggregator_id": "1\n", f"{_one}/bonding_slave/ad_actor_oper_port_state": "61\n",
    }  # fmt: skip


def bonds_of(changes=None, unreadable=None):
    every = {path: text for path, text in (FILES | (changes or {})).items() if text is not None}
    return Facts(FakeReader(every, unreadable=unreadable)).bonds


def bond_of(**changes):
    """`changes`: a file of the second link, with __ for each slash."""
    (bond,) = bonds_of(
        {f"{TWO}/{name.replace('__', '/')}": text for name, text in changes.items()}
    ).all
    return bond


def test_bond_whose_links_are_all_in_use():
    bond = bond_of()
    assert (bond.name, bond.mode, bond.is_on, bond.is_up, bond.is_watched) == (
        "bond0",
        "802.3ad",
        True,
        True,
        True,
    )
    assert ([one.name for one in bond.members], bond.down, bond.idle) == (["eth0", "eth1"], (), ())
    assert (bond.speeds_mbps, bond.shares_load) == ((25000,), True)


def test_host_without_bonds_is_asked_once():
    reader = FakeReader({f"{ONE}/operstate": "up\n"})
    assert Facts(reader).bonds.all == ()
    assert [path for path in reader.seen if path.startswith(NET)] == [f"{NET}/bonding_masters", NET]


def test_host_that_shows_no_interface_says_nothing_about_bonds():
    with pytest.raises(UnknownFact, match="/sys/class/net does not exist"):
        _ = Facts(FakeReader({})).bonds.all


@pytest.mark.parametrize(
    ("changes", "down"),
    [
        ({"operstate": "down\n"}, ("eth1 (no link)",)),
        ({"operstate": "lowerlayerdown\n"}, ("eth1 (no link)",)),
        ({"operstate": "unknown\n"}, ()),
        ({"flags": "0x1802\n", "operstate": "down\n"}, ("eth1 (switched off)",)),
        ({"bonding_slave__mii_status": "down\n"}, ("eth1 (its link is up, and the bond's own monitor has it as down)",)),
        ({"bonding_slave__mii_status": "going down\n"}, ("eth1 (its link is up, and the bond's own monitor has it as down)",)),
        ({"bonding_slave__mii_status": "going back\n"}, ()),
        ({}, ("eth1 (its link is up, and no speed is agreed with the other side)",)),
    ],
)  # fmt: skip
def test_link_that_is_down_and_why(changes, down):
    bond = bond_of(**changes, speed="-1\n")
    assert (bond.down, bond.speeds_mbps) == (down, (25000,))


@pytest.mark.parametrize(
    ("state", "aggregator", "port", "why"),
    [
        ("backup", "2", "69", "no LACP from the switch"),
        ("active", "2", "69", "no LACP from the switch"),
        ("backup", "2", "7", "another switch or port channel than that of the links in use"),
        ("backup", "2", None, "another switch or port channel than that of the links in use"),
        ("backup", "1", "7", "LACP does not use it"),
        ("backup", "N/A", "N/A", "in no LACP group that is active"),
    ],
)
def test_link_that_lacp_leaves_out_and_why(state, aggregator, port, why):
    changes = {"state": state, "ad_aggregator_id": aggregator, "ad_actor_oper_port_state": port}
    told = {f"bonding_slave__{name}": text for name, text in changes.items()}
    assert bond_of(**told).idle == (f"eth1 ({why})",)
    assert bond_of(**told, operstate="down\n").idle == ()  # it is told as down


def test_link_of_another_speed_is_named_with_it():
    slow = {f"{TWO}/speed": "10000\n", f"{TWO}/bonding_slave/state": "backup\n"}
    (bond,) = bonds_of(slow).all
    assert bond.idle == (
        "eth1 (it runs at 10000 Mb/s, and LACP takes links of one speed: others run at 25000)",
    )
    assert bond.speeds_mbps == (10000, 25000)


def test_first_link_without_a_partner_carries_all_by_itself():
    port = {f"{ONE}/bonding_slave/ad_actor_oper_port_state": "69\n"}
    assert bonds_of(port).all[0].idle == ()
    assert (
        bonds_of({f"{BOND}/ad_aggregator": "0\n"}).all[0].idle[0]
        == "eth0 (in no LACP group that is active)"
    )


@pytest.mark.parametrize(
    ("mode", "shares"),
    [("active-backup 1", False), ("broadcast 3", False), ("balance-alb 6", True)],
)
def test_other_modes_have_no_aggregators(mode, shares):
    (bond,) = bonds_of(
        {
            f"{BOND}/mode": mode,
            f"{TWO}/bonding_slave/state": "backup\n",
            f"{BOND}/ad_aggregator": "",
        }
    ).all
    assert (bond.idle, bond.shares_load) == ((), shares)


def test_bond_notices_a_lost_link_by_either_monitor():
    for miimon, arp, watched in (("0", "0", False), ("0", "1000", True), ("100", "0", True)):
        assert (
            bonds_of({f"{BOND}/miimon": miimon, f"{BOND}/arp_interval": arp}).all[0].is_watched
            is watched
        )


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        (f"{NET}/bonding_masters", Unreadable("no permission"), "all"),
        (f"{BOND}/slaves", None, "members"),
        (f"{BOND}/mode", None, "idle"),
        (f"{BOND}/miimon", "often", "is_watched"),
        (f"{NET}/bond0/flags", "on", "is_on"),
        (f"{TWO}/operstate", None, "down"),
        (f"{TWO}/flags", Unreadable("no permission"), "down"),
        (f"{TWO}/bonding_slave/mii_status", "half", "down"),
        (f"{TWO}/bonding_slave/mii_status", None, "down"),
        (f"{TWO}/bonding_slave/ad_aggregator_id", None, "idle"),
        (f"{TWO}/bonding_slave/state", Unreadable("no permission"), "idle"),
    ],
)
def test_what_cannot_be_read_is_unknown_and_not_well(path, text, name):
    bonds = bonds_of({path: text})
    with pytest.raises(UnknownFact):
        _ = getattr(bonds.all[0], name)


def test_speed_that_a_driver_does_not_tell_is_none():
    bond = bond_of(speed=Unreadable("Invalid argument"))
    assert (bond.members[1].speed_mbps, bond.speeds_mbps, bond.idle) == (0, (25000,), ())


def test_reserve_of_virtio_beside_a_card_is_well():
    (bond,) = bonds_of({f"{BOND}/mode": "active-backup 1\n", f"{TWO}/speed": "-1\n"}).all
    assert bond.down == ()
