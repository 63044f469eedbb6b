"""Thrift's compact protocol, as Parquet writes its footer and the headers of its pages. Pure.

Source: Apache Thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from typing import Final

_DEPTH: Final = 16  # Parquet has eight
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 12, 13
_INTEGERS: Final = frozenset({4, 5, 6})  # of 16, 32 and 64 bits, all zigzag

Struct = dict[int, object]


class Compact:
    """Reads `octets` from the start; `place` is how far it came. Every method raises ValueError where they end, or are
    nothing that this protocol writes."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self.place = 0

    def struct(self, depth: int = 0) -> Struct:
        """Number of the field -> int, bool, bytes, list or dict."""
        if depth > _DEPTH:
            raise ValueError("structures too deep")
        found: Struct = {}
        number = 0
        while head := self._byte():
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            found[number] = kind == _TRUE if kind in {_TRUE, _FALSE} else self._value(kind, depth + 1)
        return found

    def _value(self, kind: int, depth: int) -> object:
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct(depth)
        if kind in {_LIST, _SET}:
            return self._list(depth)
        if kind in {_TRUE, _FALSE, _BYTE}:  # true and false as elements take a byte
            return self._byte()
        if kind in {_DOUBLE, _UUID}:
            return self._take(8 if kind == _DOUBLE else 16)
        raise ValueError("no such type")  # maps, too: Parquet has none

    def _list(self, depth: int) -> list[object]:
        if depth > _DEPTH:
            raise ValueError("lists too deep")
        head = self._byte()
        count = self._varint() if head >> 4 == 15 else head >> 4
        if count > len(self._octets) - self.place:  # an element takes a byte at least
            raise ValueError("a list longer than what it is in")
        return [self._value(head & 15, depth + 1) for _ in range(count)]

    def _zigzag(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)

    def _varint(self) -> int:
        number = shift = 0
        while shift < 70:
            octet = self._byte()
            number |= (octet & 0x7F) << shift
            if octet < 0x80:
                return number
            shift += 7
        raise ValueError("no number")

    def _byte(self) -> int:
        if self.place >= len(self._octets):
            raise ValueError("cut off")
        self.place += 1
        return self._octets[self.place - 1]

    def _take(self, length: int) -> bytes:
        start, self.place = self.place, self.place + length
        if self.place > len(self._octets):
            raise ValueError("cut off")
        return self._octets[start : self.place]


def whole(struct: Struct, number: int, default: int | None = None) -> int:
    """A field that is a number of 0 or more. Raises ValueError where it is none, or is not there without a default."""
    value = struct.get(number, default)
    if not isinstance(value, int) or value < 0:
        raise ValueError("no such number")
    return value


def inner(struct: Struct, number: int) -> Struct:
    """A field that is a structure. Raises ValueError where it is none."""
    value = struct.get(number)
    if not isinstance(value, dict):
        raise ValueError("no structure")  # noqa: TRY004 - as all that a file gets wrong
    return value


def structs(struct: Struct, number: int) -> list[Struct]:
    """A field that is a list of structures. Raises ValueError where it is none."""
    value = struct.get(number)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError("no list of structures")
    return value
