"""How this host is reached: default routes, addresses, sshd and its banner, and whether it has a
name server.

Nothing beyond the host is asked. Sources: proc_pid_net(5) (route) and Linux net/ipv6/route.c
(ipv6_route: numbers in hex); ip-address(8), ss(8), whose columns without a heading are state, two
queues, local and peer address, details; OpenSSH, sshd.c (drop_connection, should_drop_connection);
resolv.conf(5).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import UnknownFact, attempt
from hosttune.facts.processes import is_daemon
from hosttune.facts.reading import (
    ask,
    derive,
    if_absent,
    names_in,
    read_text,
    require_known,
    run_looking,
)
from hosttune.numbers import parse_digits
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from hosttune.facts import Facts
    from hosttune.host.door import Reader

ADDRESSES = ("ip", "-json", "address", "show")
# its -p would read every open file of the host, of users too
LISTENERS = ("ss", "-H", "-l", "-t", "-n", "-e")
_ANY_USER = 1024  # the first port on which any user may listen (ip_unprivileged_port_start)
SSH_SOCKET = ("systemctl", "show", "--no-pager", "--property=Listen", "ssh.socket")
_UP, _REJECT = 0x1, 0x200  # RTF_UP, RTF_REJECT
_FAMILIES = {"inet": "IPv4", "inet6": "IPv6"}
_RESOLV, _STUB, _UPLINK = (
    "/etc/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/systemd/resolve/resolv.conf",
)
_ALL = {"0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound
_WILD = ("0.0.0.0", "[::]", "*")  # noqa: S104 - as ss prints them
_SOCKET = regex(r"^Listen=\S*:(\d+) \(Stream\)$", re.MULTILINE)
# a control group follows, whose name a user may have chosen
_INODE = regex(r"(?:uid:\d+ +)?ino:(\d+)(?: |$)")
_OPENED = regex(r"socket:\[(\d+)\]")
_CLASS = "/sys/class/net"
# What sshd says in place of its banner where it drops a connection: up to 9.7, and from 9.8 on.
_BUSY = ("Exceeded MaxStartups", "Not allowed at this time")
BANNER_S = 10.0  # within which sshd has to say what it is


def make_greeting(address: str, port: int) -> tuple[str, ...]:
    """How a Reader is asked for what a server says first (host/reading/greeting.py)."""
    return ("greeting-of", address, str(port))


def default_routes(reader: Reader) -> Mapping[str, tuple[str, ...]]:
    """Family (IPv4, IPv6) -> the interfaces of its default routes; without those that refuse."""
    return {
        family: derive(if_absent(read_text(reader, path), ""), path, parse)
        for family, path, parse in (
            ("IPv4", "/proc/net/route", parse_ipv4),
            ("IPv6", "/proc/net/ipv6_route", parse_ipv6),
        )
    }


def parse_ipv4(content: str) -> tuple[str, ...]:
    """The interfaces of the default routes of /proc/net/route, each once."""
    rows = [row.split() for row in content.splitlines()[1:]]
    return _remove_doubles(
        row[0]
        for row in rows
        if len(row) > 7
        and not int(row[1], 16)
        and not int(row[7], 16)
        and int(row[3], 16) & (_UP | _REJECT) == _UP
    )


def parse_ipv6(content: str) -> tuple[str, ...]:
    """The interfaces of the default routes of /proc/net/ipv6_route, each once."""
    rows = [row.split() for row in content.splitlines()]
    return _remove_doubles(
        row[9]
        for row in rows
        if len(row) > 9
        and not int(row[0], 16)
        and not int(row[1], 16)
        and int(row[8], 16) & (_UP | _REJECT) == _UP
    )


def _remove_doubles(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def list_addresses(reader: Reader, facts: Facts) -> tuple[tuple[str, str], ...]:
    """(interface, family) of all that has an address that others reach: of cards, of bonds and
    VLANs, and of what a default route leaves by. The interfaces of containers come and go.
    """
    found = parse_addresses(run_looking(reader, ADDRESSES).text)
    lasting = {card.name for card in facts.network.cards} | {
        name for names in default_routes(reader).values() for name in names
    }
    return tuple(one for one in found if one[0] in lasting or _is_lasting(reader, one[0]))


def parse_addresses(printed: str) -> tuple[tuple[str, str], ...]:
    """(interface, family) of the global addresses that `ip -json address` printed, each once.
    Raises UnknownFact.
    """
    try:
        links: list[dict[str, Any]] = json.loads(printed)
        return tuple(
            dict.fromkeys(
                (str(link["ifname"]), _FAMILIES[address["family"]])
                for link in links
                for address in link.get("addr_info", ())
                if address.get("scope") == "global" and address.get("family") in _FAMILIES
            )
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UnknownFact("ip address prints something else than it used to") from None


def _is_lasting(reader: Reader, name: str) -> bool:
    words = if_absent(read_text(reader, f"{_CLASS}/{name}/uevent"), "").split()
    return not {"DEVTYPE=bond", "DEVTYPE=vlan"}.isdisjoint(words)


def sshd_sockets(reader: Reader, ports: Iterable[int] = ()) -> Mapping[str, tuple[str, int]]:
    """Where sshd listens, itself or by systemd's socket, as `ss` calls it (`0.0.0.0:22`, `[::]:22`,
    `*:22` for both families) -> an own address and the port, to ask it there; for certain on ports
    below 1024 and on `ports`. Raises UnknownFact.
    """
    rows = _parse_listening(_list_listeners(reader, ports))
    if not rows:
        return {}
    # The owner of /proc/PID does not tell: it is root for a setuid program that a user started
    # under this name.
    listed = require_known(reader.processes(), "the list of processes")
    daemons = {one.pid: one for one in listed if is_daemon(one, ("sshd",))}
    # the others each serve one connection
    own = [pid for pid, one in daemons.items() if one.parent not in daemons]
    opened = {inode for pid in own for inode in _sockets_of(reader, pid)}
    found = {name: at for name, at, inode in rows if inode in opened}
    rest = [row for row in rows if row[2] not in opened]
    if rest and any(one.pid == 1 and one.name == "systemd" for one in listed):
        ports = {int(port) for port in _SOCKET.findall(ask(reader, SSH_SOCKET).text)}
        if activated := [row for row in rest if row[1][1] in ports]:
            started = set(_sockets_of(reader, 1))
            found |= {name: at for name, at, inode in activated if inode in started}
    return found


def _list_listeners(reader: Reader, ports: Iterable[int]) -> str:
    """What `ss` prints; if that is too long, as any user can make it with sockets of their own,
    what it prints of the ports on which not every user may listen, and of `ports`.
    """
    try:
        return run_looking(reader, LISTENERS).text
    except UnknownFact as unknown:
        listed = attempt(run_looking, reader, listeners_on(ports))
        # The first reason is the true one: a second failure says only that the narrower question
        # did not help either.
        if isinstance(listed, Unreadable):
            raise unknown from None
        return listed.text


def listeners_on(ports: Iterable[int]) -> tuple[str, ...]:
    """How `ss` is asked for privileged ports and these."""
    words = [
        f"sport lt :{_ANY_USER}",
        *(f"sport eq :{port}" for port in sorted({*ports}) if port >= _ANY_USER),
    ]
    return (*LISTENERS, f"( {' or '.join(words)} )")


def _sockets_of(reader: Reader, pid: int) -> Iterator[str]:
    """The inodes of the sockets that a process has open."""
    folder = f"/proc/{pid}/fd"
    for name in names_in(reader, folder):
        if match := _OPENED.fullmatch(if_absent(reader.link(f"{folder}/{name}"), "")):
            yield match[1]


def _parse_listening(printed: str) -> list[tuple[str, tuple[str, int], str]]:
    """The rows of `ss`: the socket, an own address and the port, and its inode."""
    found = []
    for row in printed.splitlines():
        words = row.split(None, 5)
        inode = _INODE.match(words[5]) if len(words) > 5 else None
        address, _, port = words[3].rpartition(":") if inode else ("", "", "")
        number = parse_digits(port, -1)
        if inode and number >= 0:
            end = "]" if "%" in address and address[0] == "[" else ""
            name = f"{address.partition('%')[0]}{end}:{port}"
            found.append((name, (_pick_own(address), number), inode[1]))
    return found


def covers_socket(listening: Collection[str], wanted: str) -> bool:
    """Whether what `wanted` reaches is reached by one of these sockets, too: a whole family takes
    each of its addresses, and `*` both families.
    """
    address, _, port = wanted.rpartition(":")
    four, six, both = (f"{one}:{port}" in listening for one in _WILD)
    if wanted in listening or both:
        return True
    return four and six if address == "*" else six if address.startswith("[") else four


def _pick_own(address: str) -> str:
    """An address on which one asks what listens on `address`."""
    bare = address.partition("%")[0].strip("[]")
    return _ALL.get(bare, bare)


def has_banner(reader: Reader, address: str, port: int) -> bool:
    """Whether the sshd that listens there says SSH-2.0 in time, or that it takes no more logins
    now. Any user can make it say the latter: by connections that do not log in (MaxStartups,
    PerSourcePenalties). Raises UnknownFact where it cannot be asked.
    """
    answer = ask(reader, make_greeting(address, port), timeout_s=BANNER_S)
    return answer.text.startswith(("SSH-2.0-", *_BUSY))


def has_name_server(reader: Reader) -> bool:
    """Whether a name server is set: behind systemd-resolved's stub, one of its own. None is
    asked.
    """
    content = if_absent(read_text(reader, _RESOLV), "")
    # The stub always names 127.0.0.53, even if systemd-resolved itself has no server to ask.
    if reader.resolve(_RESOLV) == _STUB:
        content = if_absent(read_text(reader, _UPLINK), "")
    return any(
        row.split()[:1] == ["nameserver"] and len(row.split()) > 1 for row in content.splitlines()
    )
