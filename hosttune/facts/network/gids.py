"""The tables of addresses (GIDs) of RoCE ports.

Source: kernel, Documentation/ABI/stable/sysfs-class-infiniband (gids; gid_attrs: `IB/RoCE v1` or
`RoCE v2`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.facts.base import UnknownFact
from hosttune.facts.reading import if_absent, names_in, read_line
from hosttune.frozen import frozen
from hosttune.regex import regex
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hosttune.host.door import Reader

_CLASS = "/sys/class/infiniband"
_MOST = 64  # of a table; mlx5 has 256
_EMPTY = 8  # so many in a row: the rest is empty, too
_NOTHING = "0000:0000:0000:0000:0000:0000:0000:0000"
_OF_EMPTY = "Invalid argument"  # EINVAL, as the door words it
_LINK_LOCAL = "fe80:"
_MAPPED = "0000:0000:0000:0000:0000:ffff:"
_HEX = regex(r"[0-9a-f]{8}")
_MOST_OF_IPV4 = 16


@frozen
class Gids:
    """What one table holds that other networks reach."""

    kinds: Mapping[int, str]  # by entry: RoCE v2, IB/RoCE v1
    unread: str = ""  # why the kind of an entry is not known

    @property
    def is_reached(self) -> bool:
        """It has one of RoCE v2 that other hosts reach: IPv4, or IPv6 that is not link-local.
        Raises UnknownFact.
        """
        # One good entry is enough, whatever could not be read beside it. "None" needs every entry.
        if "RoCE v2" in self.kinds.values():
            return True
        if self.unread:
            raise UnknownFact(self.unread)
        return False


def has_gid(reader: Reader, port: str, index: int) -> bool:
    """Whether an entry of a port (mlx5_0/1) holds an address."""
    return if_absent(read_line(reader, f"{_name_folder(port)}/gids/{index}"), _NOTHING) != _NOTHING


def gids_of(reader: Reader, port: str) -> Gids:
    """Of a port (mlx5_0/1)."""
    folder = _name_folder(port)
    kinds: dict[int, str] = {}
    empty, unread = 0, ""
    for index in range(min(_MOST, len(names_in(reader, f"{folder}/gids")))):
        gid = if_absent(read_line(reader, f"{folder}/gids/{index}"), _NOTHING)
        empty = empty + 1 if gid == _NOTHING else 0
        if empty == _EMPTY:
            break
        # the type of an entry that is empty by now answers EINVAL
        if empty or gid.startswith(_LINK_LOCAL):
            continue
        kind = reader.read(f"{folder}/gid_attrs/types/{index}")
        if isinstance(kind, bytes):
            kinds[index] = kind.decode("ascii", "replace").strip()
        elif isinstance(kind, Unreadable) and _OF_EMPTY not in kind.reason:
            unread = unread or kind.reason
    return Gids(kinds, unread)


def shared_gid(tables: Sequence[Gids]) -> int:
    """The first entry with an address of RoCE v2 in all of these tables; -1 where there is none."""
    sound = [{index for index, kind in one.kinds.items() if kind == "RoCE v2"} for one in tables]
    return min(set.intersection(*sound), default=-1) if sound else -1


def ipv4_of_roce(reader: Reader) -> frozenset[str]:
    """The IPv4 addresses in the tables of all ports: such an entry ends with one (RFC 4291,
    IPv4-mapped).
    """
    found = set()
    for device in names_in(reader, _CLASS):
        for number in names_in(reader, f"{_CLASS}/{device}/ports"):
            folder = f"{_CLASS}/{device}/ports/{number}/gids"
            entries = sorted(names_in(reader, folder), key=lambda name: (len(name), name))[
                :_MOST_OF_IPV4
            ]
            gids = (if_absent(read_line(reader, f"{folder}/{name}"), _NOTHING) for name in entries)
            mapped = (gid.replace(":", "")[-8:] for gid in gids if gid.startswith(_MAPPED))
            found |= {
                ".".join(str(byte) for byte in bytes.fromhex(digits))
                for digits in mapped
                if _HEX.fullmatch(digits)
            }
    return frozenset(found)


def _name_folder(port: str) -> str:
    device, _, number = port.partition("/")
    return f"{_CLASS}/{device}/ports/{number}"
