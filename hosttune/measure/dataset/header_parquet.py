"""Parquet: how many rows a row group has, and what it takes unpacked. Pure.

Sources: parquet-format, README (file format) and parquet.thrift (FileMetaData, RowGroup); Apache
Thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from typing import Final

from hosttune.measure.dataset.header import Header, ReadUnit, Source, make_start_test

_FOOTER: Final = 56 << 10  # bytes of it that are read: the schema, and the first row group
_MOST: Final = 1 << 40  # rows and bytes of one row group
_DEPTH: Final = 16  # Parquet has eight
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 12, 13
_INTEGERS: Final = frozenset({4, 5, 6})  # of 16, 32 and 64 bits, all zigzag
_ROW_GROUPS: Final = 4  # fields of FileMetaData
_BYTES, _ROWS = 2, 3  # and of RowGroup


def parse_parquet(source: Source) -> Header:
    """The first row group is taken for all: writers make them alike, but for the last."""
    tail = source.at(source.size - 8, 8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or not 0 < length <= source.size - 12:
        raise ValueError("no footer, or an encrypted one")
    # The footer of a file with thousands of row groups takes megabytes; the first group is behind
    # the schema, near its start.
    octets = source.at(source.size - 8 - length, min(length, _FOOTER))
    group = _Compact(octets).find_first_of(_ROW_GROUPS)
    rows, unpacked = group.get(_ROWS), group.get(_BYTES)
    if (
        not isinstance(rows, int)
        or not isinstance(unpacked, int)
        or not (0 < rows < 1 << 40 and 0 < unpacked < 1 << 40)
    ):
        raise ValueError("no row group")
    return Header("Parquet", unit=ReadUnit(rows, unpacked, max(1, unpacked // rows)))


class _Compact:
    """Reads `octets` from the start. Every method raises ValueError where they end, or are nothing
    that this protocol writes.
    """

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._place = 0

    def find_first_of(self, wanted: int) -> dict[int, object]:
        """The first structure of a field that is a list of them; what is behind it is not looked
        at.
        """
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            if number == wanted:
                kind, count = self._list_head()
                if head & 15 != _LIST or kind != _STRUCT or not count:
                    raise ValueError("no list of structures")
                return self._struct(1)
            # The compact protocol keeps a boolean field in the type of its head, so no byte of
            # value follows.
            if head & 15 not in {_TRUE, _FALSE}:
                self._value(head & 15, 1)
        raise ValueError("no such field")

    def _struct(self, depth: int) -> dict[int, object]:
        """Number of the field -> value."""
        if depth > _DEPTH:
            raise ValueError("structures too deep")
        found: dict[int, object] = {}
        number = 0
        while head := self._byte():
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            found[number] = (
                kind == _TRUE if kind in {_TRUE, _FALSE} else self._value(kind, depth + 1)
            )
        return found

    def _value(self, kind: int, depth: int) -> object:
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == _BINARY:
            self._skip(self._varint())
            return None
        if kind == _STRUCT:
            return self._struct(depth)
        if kind in {_LIST, _SET} and depth <= _DEPTH:
            inner, count = self._list_head()
            if count > len(self._octets) - self._place:  # an element takes a byte at least
                raise ValueError("a list longer than what it is in")
            for _ in range(count):
                self._value(inner, depth + 1)
            return None
        if kind in {_TRUE, _FALSE, _BYTE}:  # true and false as elements take a byte
            return self._byte()
        if kind in {_DOUBLE, _UUID}:
            self._skip(8 if kind == _DOUBLE else 16)
            return None
        raise ValueError("no such type")  # maps, too: Parquet has none

    def _list_head(self) -> tuple[int, int]:
        """The type and the number of the elements."""
        head = self._byte()
        return head & 15, self._varint() if head >> 4 == 15 else head >> 4

    def _zigzag(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)

    def _varint(self) -> int:
        number = shift = 0
        # Ten bytes hold 64 bits; without the bound 0x80 bytes would grow one number as long as the
        # footer.
        while shift < 70:
            octet = self._byte()
            number |= (octet & 0x7F) << shift
            if octet < 0x80:
                return number
            shift += 7
        raise ValueError("no number")

    def _byte(self) -> int:
        if self._place >= len(self._octets):
            raise ValueError("cut off")
        self._place += 1
        return self._octets[self._place - 1]

    def _skip(self, length: int) -> None:
        self._place += length
        if self._place > len(self._octets):
            raise ValueError("cut off")


PARSERS: Final = ((make_start_test(b"PAR1"), "Parquet", parse_parquet),)
