"""Sockets of this network namespace as the kernel lists them: who is at the other end, and what has
come in.

A question over netlink that anybody may ask (sock_diag(7); tcp_info of include/uapi/linux/tcp.h).
/proc/PID/io counts only read(2), not recv(2), so what came over the network is counted here: bytes
that TCP has received and sent, of each socket. Other network namespaces are not listed, and of a
connection that came and went between two looks nothing is known: what is counted is a lower bound.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from typing import Final

from hosttune.frozen import frozen
from hosttune.host.reading.bounded import names_in
from hosttune.numbers import parse_digits

_NETLINK_SOCK_DIAG: Final = 4
_BY_FAMILY, _DONE, _ERROR = 20, 3, 2  # SOCK_DIAG_BY_FAMILY, NLMSG_DONE, NLMSG_ERROR
_REQUEST_DUMP: Final = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_INFO, _PEER = 2, 2  # INET_DIAG_INFO, UNIX_DIAG_PEER
_SHOW_PEER: Final = 4  # UDIAG_SHOW_PEER
_LISTEN, _ESTABLISHED, _SYN_SENT = 10, 1, 2
_ACKED_AT: Final = 120  # tcpi_bytes_acked, and tcpi_bytes_received behind it, Linux 4.1
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_MOST_BYTES: Final = 1 << 22
_PATIENCE_S: Final = 0.5


@frozen
class OpenSocket:
    """One end. `local` and `remote` are ADDRESS:PORT, "" of a UNIX socket; `peer` is that one's
    inode, 0 where it is not known. `received` and `sent` (and acknowledged) None: the kernel does
    not tell.
    """

    inode: int
    local: str = ""
    remote: str = ""
    peer: int = 0
    received: int | None = None
    sent: int | None = None
    is_listening: bool = False
    is_asking: bool = False  # the other end has not answered to the first packet


def tcp_sockets() -> dict[int, OpenSocket]:
    """By inode; none where this kernel does not list them (CONFIG_INET_DIAG)."""
    found: dict[int, OpenSocket] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        # All states (0xFFFFFFFF), because one that connects or listens decides as well.
        request = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0xFFFFFFFF)
        for body in _dump_sockets(request):
            if (one := tcp_socket(body)) is not None:
                found[one.inode] = one
    return found


def unix_sockets() -> dict[int, OpenSocket]:
    """By inode; none where this kernel does not list them (CONFIG_UNIX_DIAG)."""
    found = {}
    for body in _dump_sockets(
        struct.pack("=BBxxIII8x", socket.AF_UNIX, 0, 0xFFFFFFFF, 0, _SHOW_PEER)
    ):
        if len(body) >= 16:
            inode = struct.unpack_from("=I", body, 4)[0]
            peer = _parse_attributes(body[16:]).get(_PEER, b"")
            found[inode] = OpenSocket(
                inode, peer=struct.unpack("=I", peer[:4])[0] if len(peer) >= 4 else 0
            )
    return found


def tcp_socket(body: bytes) -> OpenSocket | None:
    """Struct inet_diag_msg and what follows it. Pure; None for what is too short."""
    if len(body) < 72:
        return None
    family, state = body[0], body[1]
    local_port, remote_port = struct.unpack_from(">HH", body, 4)
    size = 4 if family == socket.AF_INET else 16
    local, remote = (_format_address(body[start : start + size]) for start in (8, 24))
    info = _parse_attributes(body[72:]).get(_INFO, b"")
    sent, received = (
        # tcp_info grows with the kernel; before 4.1 these counters are not in it.
        struct.unpack_from("=QQ", info, _ACKED_AT) if len(info) >= _ACKED_AT + 16 else (None, None)
    )
    inode = struct.unpack_from("=I", body, 68)[0]
    return OpenSocket(
        inode,
        f"{local}:{local_port}",
        f"{remote}:{remote_port}",
        0,
        received,
        sent,
        state == _LISTEN,
        state == _SYN_SENT,
    )


def _format_address(packed: bytes) -> str:
    address = ipaddress.ip_address(packed)
    if isinstance(address, ipaddress.IPv6Address):
        # A dual-stack socket shows IPv4 peers as ::ffff:a.b.c.d, and the other end as plain IPv4:
        # both have to compare equal.
        return str(address.ipv4_mapped) if address.ipv4_mapped else f"[{address}]"
    return str(address)


def _parse_attributes(content: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(content) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(content)
        # A length of zero would never end the loop.
        if size < _ATTRIBUTE.size:
            break
        found[kind] = content[_ATTRIBUTE.size : size]
        content = content[(size + 3) & ~3 :]
    return found


def _dump_sockets(request: bytes) -> Iterator[bytes]:
    """The bodies of the answers; it ends early where the kernel refuses, or answers nothing in
    time.
    """
    try:
        line = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
        )
    except OSError:
        return
    with line:
        try:
            line.settimeout(_PATIENCE_S)
            line.sendto(
                _HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _REQUEST_DUMP, 1, 0)
                + request,
                (0, 0),
            )
            read = 0
            while read < _MOST_BYTES:
                content = line.recv(1 << 16)
                read += len(content)
                while len(content) >= _HEADER.size:
                    size, kind, *_ = _HEADER.unpack_from(content)
                    if kind in {_DONE, _ERROR} or size < _HEADER.size:
                        return
                    yield content[_HEADER.size : size]
                    content = content[(size + 3) & ~3 :]
        except OSError:
            return


def inode_of(link: str) -> tuple[str, int] | None:
    """`socket:[4711]` and `pipe:[4711]` as ("socket", 4711), the writing end of a pipe
    (`pipe:[4711]>`, links_of) as ("pipe>", 4711); None for another file.
    """
    if link.endswith("]>"):
        link = f"{link[:4]}>{link[4:-1]}"
    kind, _, rest = link.partition(":[")
    inode = parse_digits(rest[:-1], -1)
    return (kind, inode) if kind in {"socket", "pipe", "pipe>"} and inode >= 0 else None


def is_local(address: str) -> bool:
    """Whether ADDRESS:PORT is this very host's loopback."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def links_of(folder: str) -> dict[int, str]:
    """The open files of a process: number -> what it is, a writing end of a pipe with `>` behind
    it; none where this user may not see them. A link of /proc/PID/fd has the rights with which the
    file was opened (proc_pid_fd(5)).
    """
    found: dict[int, str] = {}
    try:
        for name in names_in(folder, 256)[0]:
            try:
                link = os.readlink(f"{folder}/{name}")
                is_writing = (
                    link.startswith("pipe:") and os.lstat(f"{folder}/{name}").st_mode & 0o200
                )
                found[int(name)] = f"{link}>" if is_writing else link
            except (OSError, ValueError):
                continue
    except OSError:
        return {}
    return found
