"""Network cards, subnets and TCP's settings."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.network.network import interface_to, parse_routes
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
eth0\t0001A8C0\t00000000\t0001\t0\t0\t200\t00FFFFFF\t0\t0\t0
eth1\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
eth1\t0000100A\t0101A8C0\t0003\t0\t0\t100\t0000F0FF\t0\t0\t0
docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""
NET, IPV4 = "/sys/class/net", "/proc/sys/net/ipv4"
FILES = {
    f"{NET}/eth0/operstate": "up\n", f"{NET}/eth0/speed": "100000\n", f"{NET}/eth0/device/vendor": "",
    f"{NET}/eth1/operstate": "up\n", f"{NET}/eth1/speed": "-1\n", f"{NET}/eth1/device/vendor": "",
    f"{NET}/eth2/operstate": "down\n", f"{NET}/eth2/speed": Unreadable("Invalid argument"),
    f"{NET}/eth2/device/vendor": "", f"{NET}/docker0/operstate": "up\n", f"{NET}/docker0/speed": "400000\n",
    "/proc/net/route": ROUTES, f"{IPV4}/tcp_rmem": "4096\t131072\t6291456\n", f"{IPV4}/tcp_wmem": "4096 16384 x\n",
    f"{IPV4}/conf/all/arp_ignore": "1\n",
}  # fmt: skip


def network(**changes):
    return Facts(FakeReader({**FILES, **changes})).network


def test_subnets_are_those_without_a_gateway():
    assert parse_routes(ROUTES) == {
        "eth0": ("192.168.1.0/24",), "eth1": ("192.168.1.0/24",), "docker0": ("172.17.0.0/16",)
    }  # fmt: skip


def test_cards_with_their_speed_and_who_shares_a_subnet():
    seen = network()
    assert {card.name: (card.is_up, card.speed_mbps) for card in seen.cards} == {
        "eth0": (True, 100000), "eth1": (True, 0), "eth2": (False, 0)
    }  # fmt: skip
    assert (seen.fastest_mbps, seen.sharing) == (100000, ("eth0", "eth1"))
    assert seen.names == ("docker0", "eth0", "eth1", "eth2")


def test_settings_are_numbers_or_unknown():
    seen = network()
    assert (seen.tcp_rmem, seen.arp_ignore) == ((4096, 131072, 6291456), 1)
    for name in ("tcp_wmem", "arp_announce"):
        with pytest.raises(UnknownFact):
            getattr(seen, name)


def test_host_without_ipv4_has_no_subnets():
    files = {path: value for path, value in FILES.items() if path != "/proc/net/route"}
    assert Facts(FakeReader(files)).network.sharing == ()


def test_file_of_the_bonding_driver_is_no_interface():
    seen = network(**{f"{NET}/bonding_masters": "bond0\n"})
    assert seen.names == ("docker0", "eth0", "eth1", "eth2")


def test_route_with_an_impossible_address_is_refused_as_a_sentence():
    row = "\neth0\t1FFFFFFFF\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    with pytest.raises(ValueError, match="1FFFFFFFF is no IPv4 address"):
        parse_routes(f"Iface{row}")


ROUTE_TABLE = (
    "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    "ib0\t0000010A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    "eth1\t0002010A\t00000000\t0000\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
)


@pytest.mark.parametrize(
    ("address", "interface"),
    [("10.1.2.3", "ib0"), ("192.168.0.1", "eth0"), ("fe80::1", ""), ("nfs01", ""), ("", "")],
)
def test_interface_by_which_an_address_is_reached(address, interface):
    assert interface_to(ROUTE_TABLE, address) == interface
