"""How the host is reached: default routes, addresses, sshd and its banner, a name server."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.facts.network import reached
from hosttune.host.door import CONTAINED, Completed, Process
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader


def sshd_process(pid):
    """That of this host."""
    return Process(
        pid, "sshd", "root", ("sshd",), 0, 0, (), "", 0.0, uid=0, program="/usr/sbin/sshd"
    )


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
LISTEN 0      128          0.0.0.0:22        0.0.0.0:*    ino:30 sk:1 cgroup:/system.slice/ssh.service <->
LISTEN 0      128             [::]:22           [::]:*    ino:31 sk:2 cgroup:/system.slice/ssh.service v6only:1 <->
LISTEN 0      4096       127.0.0.1:631       0.0.0.0:*    uid:7 ino:32 sk:3 cgroup:/system.slice/cups.service <->
"""
SYSTEMD = Process(1, "systemd", "root", ("/sbin/init",), 0, 0, (), "/init.scope", 0.0, uid=0)


def opened(pid, *inodes):
    """The sockets that a process has open, as links of /proc."""
    return {
        f"/proc/{pid}/fd/{number}": f"socket:[{inode}]" for number, inode in enumerate(inodes, 3)
    }


def listening(listeners, links, *processes):
    reader = FakeReader(links=links, queries={reached.LISTENERS: listeners}, processes=processes)
    return reached.sshd_sockets(reader)


def addresses(*links):
    return json.dumps([
        {"ifname": name, "addr_info": [{"family": family, "scope": scope} for family, scope in infos]}
        for name, infos in links
    ])  # fmt: skip


def test_default_routes_of_each_family_without_those_that_refuse():
    found = reached.default_routes(
        FakeReader({"/proc/net/route": ROUTES, "/proc/net/ipv6_route": ROUTES_6})
    )
    assert found == {"IPv4": ("eth0",), "IPv6": ("eth0",)}
    assert reached.parse_ipv6(ROUTES_6.splitlines()[1]) == ()
    assert (
        reached.parse_ipv4(ROUTES.replace("00000000\t010200C0\t0003", "00000000\t00000000\t0201"))
        == ()
    )


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
    assert reached.list_addresses(reader, Facts(reader)) == (
        ("eth0", "IPv4"), ("bond0", "IPv4"), ("bond0", "IPv6"), ("br0", "IPv4"),
    )  # fmt: skip


def test_what_ip_prints_otherwise_is_not_known():
    with pytest.raises(UnknownFact):
        reached.parse_addresses('{"no": "list"}')


def test_sshd_listens_by_itself_or_by_systemd_and_is_asked_on_an_address_of_this_host():
    links = opened(612, 30, 31) | {"/proc/612/fd/0": "/dev/null"}
    found = listening(LISTENERS, links, sshd_process(612))
    assert found == {"0.0.0.0:22": ("127.0.0.1", 22), "[::]:22": ("::1", 22)}
    own = LISTENERS.replace("0.0.0.0:22 ", "10.1.0.7:2222").replace("[::]:22", "[fe80::1%eth0]:22")
    found = listening(own, links, sshd_process(612))
    assert found == {"10.1.0.7:2222": ("10.1.0.7", 2222), "[fe80::1]:22": ("fe80::1", 22)}
    sockets = "LISTEN 0 4096 *:22 *:* ino:40 sk:1 <->\nLISTEN 0 9 *:111 *:* ino:41 sk:2 <->\n"
    reader = FakeReader(
        links=opened(1, 40, 41), processes=(SYSTEMD,),
        queries={reached.LISTENERS: sockets, reached.SSH_SOCKET: "Listen=[::]:22 (Stream)\n"},
    )  # fmt: skip
    assert reached.sshd_sockets(reader) == {"*:22": ("127.0.0.1", 22)}
    assert listening("", {}) == {}


def test_no_open_file_is_looked_at_but_of_the_sshd_that_listens():
    """Those of users have no bound, and each connection has an sshd of its own."""
    connection = replace(sshd_process(700), parent=612)
    eve = Process(
        800, "sshd", "eve", ("sshd",), 0, 0, (), "", 0.0, uid=1003, program="/usr/sbin/sshd"
    )
    reader = FakeReader(
        links=opened(612, 30) | opened(700, 31) | opened(800, 32) | opened(1, 33),
        queries={reached.LISTENERS: LISTENERS, reached.SSH_SOCKET: "Listen=[::]:2222 (Stream)\n"},
        processes=(SYSTEMD, sshd_process(612), connection, eve),
    )  # fmt: skip
    assert set(reached.sshd_sockets(reader)) == {"0.0.0.0:22"}
    assert {path.split("/")[2] for path in reader.seen} == {"612"}
    assert "-p" not in reached.LISTENERS


def test_name_of_a_control_group_is_no_inode():
    row = "LISTEN 0 5 0.0.0.0:2222 0.0.0.0:* uid:1003 ino:99 sk:4 cgroup:/user.slice/x ino:30 sk:1 <->\n"
    assert set(listening(LISTENERS + row, opened(612, 30), sshd_process(612))) == {"0.0.0.0:22"}


def test_sockets_of_an_sshd_that_cannot_be_looked_at_are_unknown():
    reader = FakeReader(
        queries={reached.LISTENERS: LISTENERS},
        processes=(sshd_process(612),),
        unreadable={"/proc/612/fd": "no"},
    )
    with pytest.raises(UnknownFact):
        reached.sshd_sockets(reader)


@pytest.mark.parametrize(
    ("uid", "program"),
    [(1001, "/usr/sbin/sshd"), (1001, "/usr/bin/su"), (0, "/usr/bin/su"), (0, f"{CONTAINED}/sshd")],
)
def test_listener_that_is_called_sshd_and_is_none_does_not_count(uid, program):
    """Of a setuid program that a user started, the owner of /proc/PID is root."""
    listeners = f"{LISTENERS}LISTEN 0 5 0.0.0.0:2222 0.0.0.0:* uid:1001 ino:50 sk:9 <->\n"
    reader = FakeReader(
        links=opened(612, 30, 31) | opened(4711, 50),
        queries={reached.LISTENERS: listeners, reached.SSH_SOCKET: "Listen=[::]:2222 (Stream)\n"},
        processes=(sshd_process(612), replace(sshd_process(4711), uid=uid, program=program)),
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
    assert reached.covers_socket(listening, wanted) is is_covered


@pytest.mark.parametrize(
    ("said", "is_answer"),
    [
        (b"SSH-2.0-OpenSSH_9.2p1 Debian-2", True), (b"Exceeded MaxStartups", True), (b"Not allowed at this time", True),
        (b"", False), (b"HTTP/1.1 400 Bad Request", False), (b"220 SSH-2.0-x", False),
    ],
)  # fmt: skip
def test_the_banner_is_what_sshd_says_on_its_port(said, is_answer):
    """Or that it drops connections now: any user can make it do that."""
    command = reached.make_greeting("127.0.0.1", 22)
    assert (
        reached.has_banner(FakeReader(queries={command: Completed(0, said, b"")}), "127.0.0.1", 22)
        is is_answer
    )


def test_the_banner_that_does_not_come_is_none():
    command = reached.make_greeting("127.0.0.1", 22)
    assert not reached.has_banner(
        FakeReader(queries={command: Completed(1, b"", b"timed out")}), "127.0.0.1", 22
    )
    with pytest.raises(UnknownFact):
        reached.has_banner(FakeReader(), "127.0.0.1", 22)


def test_a_name_server_behind_the_stub_is_one_of_resolveds_own():
    stub, uplink = "/run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf"
    files = {stub: "nameserver 127.0.0.53\n", uplink: "# none\n"}
    links = {"/etc/resolv.conf": f"..{stub}"}
    assert not reached.has_name_server(FakeReader(files, links=links))
    assert reached.has_name_server(
        FakeReader({**files, uplink: "nameserver 10.0.0.2\n"}, links=links)
    )
    assert reached.has_name_server(
        FakeReader({"/etc/resolv.conf": "search a\nnameserver\t10.0.0.2\n"})
    )
    assert not reached.has_name_server(FakeReader({"/etc/resolv.conf": "# nameserver 10.0.0.2\n"}))


def test_sockets_of_users_do_not_hide_sshd():
    """Any user can have ss print more than is read: sockets on addresses of 127.0.0.0/8, in groups
    with long names.
    """
    low = reached.listeners_on([2222, 22])
    assert low[-1] == "( sport lt :1024 or sport eq :2222 )"
    reader = FakeReader(
        links=opened(612, 30), queries={reached.LISTENERS: Unreadable("ss wrote more than 32 MiB"), low: LISTENERS},
        processes=(sshd_process(612),),
    )  # fmt: skip
    assert set(reached.sshd_sockets(reader, [2222, 22])) == {"0.0.0.0:22"}

    del reader.queries[low]
    with pytest.raises(UnknownFact, match="more than 32 MiB"):
        reached.sshd_sockets(reader, [2222])
