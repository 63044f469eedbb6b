"""How the host is reached: default routes, addresses, sshd and its banner, a name server."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.facts.network import reached
from hosttune.host.door import CONTAINED, Completed, Process, Stat
from tests.unit.fake_reader import FakeReader


def sshd_process(pid):
    """That of this host."""
    return Process(pid, "sshd", "root", ("sshd",), 0, 0, (), "", 0.0, uid=0, program="/usr/sbin/sshd")


ROUTES = (
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
)
ZERO = "0" * 32
ROUTES_6 = (
    f"{ZERO} 00 {ZERO} 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003 eth0\n"
    f"{ZERO} 00 {ZERO} 00 {ZERO} ffffffff 00000001 00000000 00200200 lo\n"
)
LISTENERS = """\
LISTEN 0      128          0.0.0.0:22        0.0.0.0:*    users:(("sshd",pid=612,fd=3))
LISTEN 0      128             [::]:22           [::]:*    users:(("sshd",pid=612,fd=4))
LISTEN 0      4096       127.0.0.1:631       0.0.0.0:*    users:(("cupsd",pid=700,fd=7))
"""


def addresses(*links):
    return json.dumps([
        {"ifname": name, "addr_info": [{"family": family, "scope": scope} for family, scope in infos]}
        for name, infos in links
    ])  # fmt: skip


def test_default_routes_of_each_family_without_those_that_refuse():
    found = reached.default_routes(FakeReader({"/proc/net/route": ROUTES, "/proc/net/ipv6_route": ROUTES_6}))
    assert found == {"IPv4": ("eth0",), "IPv6": ("eth0",)}
    assert reached.parse_ipv6(ROUTES_6.splitlines()[1]) == ()
    assert reached.parse_ipv4(ROUTES.replace("00000000\t010200C0\t0003", "00000000\t00000000\t0201")) == ()


def test_addresses_count_where_they_last_and_others_reach_them():
    """Interfaces of containers come and go."""
    printed = addresses(
        ("lo", [("inet", "host")]),
        ("eth0", [("inet", "global"), ("inet6", "link"), ("inet", "global")]),
        ("docker0", [("inet", "global")]),
        ("bond0", [("inet", "global"), ("inet6", "global")]),
        ("br0", [("inet", "global")]),
    )
    reader = FakeReader(
        {
            "/sys/class/net/bond0/uevent": "DEVTYPE=bond\nINTERFACE=bond0\n",
            "/sys/class/net/docker0/uevent": "DEVTYPE=bridge\n",
            "/proc/net/route": ROUTES.replace("eth0", "br0"),
        },
        folders=["/sys/class/net/eth0/device"],
        queries={reached.ADDRESSES: printed},
    )
    assert reached.addresses(reader, Facts(reader)) == (
        ("eth0", "IPv4"), ("bond0", "IPv4"), ("bond0", "IPv6"), ("br0", "IPv4"),
    )  # fmt: skip


def test_what_ip_prints_otherwise_is_not_known():
    with pytest.raises(UnknownFact):
        reached.parse_addresses('{"no": "list"}')


def test_sshd_listens_by_itself_or_by_systemd_and_is_asked_on_an_address_of_this_host():
    assert reached.parse_listeners(LISTENERS) == {"0.0.0.0:22": ("127.0.0.1", 22), "[::]:22": ("::1", 22)}
    own = LISTENERS.replace("0.0.0.0:22 ", "10.1.0.7:2222").replace("[::]:22", "[fe80::1%eth0]:22")
    assert reached.parse_listeners(own) == {"10.1.0.7:2222": ("10.1.0.7", 2222), "[fe80::1]:22": ("fe80::1", 22)}
    socket = 'LISTEN 0 4096 *:22 *:* users:(("systemd",pid=1,fd=61))\nLISTEN 0 9 *:111 *:* users:(("systemd",pid=1))\n'
    reader = FakeReader(queries={reached.LISTENERS: socket, reached.SSH_SOCKET: "Listen=[::]:22 (Stream)\n"})
    assert reached.sshd_sockets(reader) == {"*:22": ("127.0.0.1", 22)}
    assert reached.sshd_sockets(FakeReader(queries={reached.LISTENERS: ""})) == {}


@pytest.mark.parametrize("name", ["sshd", 'sshd",pid=612,', 'systemd",pid=1,'])
@pytest.mark.parametrize(
    ("uid", "program"), [(1001, "/usr/sbin/sshd"), (1001, "/usr/bin/su"), (0, "/usr/bin/su"), (0, f"{CONTAINED}/sshd")]
)
def test_listener_that_is_called_sshd_and_is_none_does_not_count(name, uid, program):
    """Of a setuid program that a user started, the owner of /proc/PID is root."""
    listeners = f'{LISTENERS}LISTEN 0 5 0.0.0.0:2222 0.0.0.0:* users:(("{name}",pid=4711,fd=3))\n'
    listening = "Listen=[::]:2222 (Stream)\n"
    reader = FakeReader(
        queries={reached.LISTENERS: listeners, reached.SSH_SOCKET: listening},
        processes=(sshd_process(612), replace(sshd_process(4711), uid=uid, program=program)),
        folders=["/proc/4711"],
        stats={"/proc/4711": Stat("directory", 0o555, 0, 0, 0, 0, 1, 1, 9)},
    )
    assert set(reached.sshd_sockets(reader)) == {"0.0.0.0:22", "[::]:22"}


@pytest.mark.parametrize(
    ("listening", "wanted", "is_covered"),
    [
        ({"0.0.0.0:22"}, "10.0.0.5:22", True),
        ({"[::]:22"}, "10.0.0.5:22", False),
        ({"[::]:22"}, "[2001:db8::5]:22", True),
        ({"*:22"}, "[2001:db8::5]:22", True),
        ({"127.0.0.1:22"}, "10.0.0.5:22", False),
        ({"0.0.0.0:22", "[::]:22"}, "*:22", True),
        ({"0.0.0.0:22"}, "*:22", False),
        ({"0.0.0.0:2222"}, "10.0.0.5:22", False),
        ({"*:22"}, "0.0.0.0:22", True),
    ],
)
def test_sockets_of_a_whole_family_reach_each_of_its_addresses(listening, wanted, is_covered):
    assert reached.covers(listening, wanted) is is_covered


def test_the_banner_is_what_sshd_says_on_its_port():
    command = reached.keyscan("127.0.0.1", 22)
    said = Completed(0, b"", b"# 127.0.0.1:22 SSH-2.0-OpenSSH_9.2p1 Debian-2\n")
    assert reached.has_banner(FakeReader(queries={command: said}), "127.0.0.1", 22)
    assert not reached.has_banner(FakeReader(queries={command: Completed(1, b"", b"")}), "127.0.0.1", 22)
    with pytest.raises(UnknownFact):
        reached.has_banner(FakeReader(), "127.0.0.1", 22)


def test_a_name_server_behind_the_stub_is_one_of_resolveds_own():
    stub, uplink = "/run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf"
    files = {stub: "nameserver 127.0.0.53\n", uplink: "# none\n"}
    links = {"/etc/resolv.conf": f"..{stub}"}
    assert not reached.has_name_server(FakeReader(files, links=links))
    assert reached.has_name_server(FakeReader({**files, uplink: "nameserver 10.0.0.2\n"}, links=links))
    assert reached.has_name_server(FakeReader({"/etc/resolv.conf": "search a\nnameserver\t10.0.0.2\n"}))
    assert not reached.has_name_server(FakeReader({"/etc/resolv.conf": "# nameserver 10.0.0.2\n"}))
