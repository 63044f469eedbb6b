"""HDF5: what has to be unpacked for one row of the largest array. Pure.

Source: HDF5 File Format Specification 3.0: II.A (superblock), III.A.1 and III.B (B-trees and nodes
of groups), IV.A.1 (object headers), IV.A.2 (messages).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen
from hosttune.measure.dataset.header import Header, ReadUnit, Source, Spent, make_start_test

if TYPE_CHECKING:
    from collections.abc import Iterator

_DATASPACE, _DATATYPE, _LINK, _LAYOUT, _FILTERS, _CONTINUATION, _SYMBOLS = 1, 3, 6, 8, 11, 16, 17
_WANTED: Final = frozenset({_DATASPACE, _DATATYPE, _LINK, _LAYOUT, _FILTERS, _SYMBOLS})
_SHARED: Final = 2  # a flag: the message is elsewhere
_CHUNKED: Final = 2
_RANK: Final = 32
_MOST: Final = 1 << 40  # bytes of one row, and of what is unpacked for it
_SOFT: Final = 2  # an entry of a symbol table that only names another
_WIDTHS: Final = frozenset({2, 4, 8})
_MESSAGES: Final = 256  # of one object
# Registered filters that pack (portal.hdfgroup.org, Registered Filter Plugins); shuffle and
# checksums do not.
_PACKINGS: Final = {
    1: "gzip", 4: "szip", 307: "bzip2", 32000: "lzf", 32001: "blosc", 32004: "lz4",
    32008: "bitshuffle", 32015: "zstd", 32026: "blosc2",
}  # fmt: skip


def parse_hdf5(source: Source) -> Header:
    """As far as the bounds of a file let it look: groups with very many links are not walked to
    their end.
    """
    file, root = _open_file(source)
    waiting, seen = [root], {root}
    found: list[_Array] = []
    while waiting:
        try:
            messages = list(file.read_messages(waiting.pop()))
            by_kind = {one.kind: one for one in messages}
            if _LAYOUT in by_kind:
                found += _read_array(file, by_kind)
                continue
            # Groups may contain each other through hard links, so a place is visited once.
            new = {place for one in messages for place in _list_children(file, one)} - seen
        except Spent:
            if not found:
                raise
            break
        except ValueError:  # what one object holds says nothing of the others
            continue
        seen |= new
        waiting += sorted(new, reverse=True)
    largest = max(found, key=lambda one: one.size, default=None)
    return Header("HDF5", unit=largest.to_unit() if largest else None)


@frozen
class _Array:
    """`chunks` are () where the array is in one piece."""

    dimensions: tuple[int, ...]
    chunks: tuple[int, ...]
    item_bytes: int
    packing: str

    @property
    def size(self) -> int:
        return math.prod(self.dimensions) * self.item_bytes

    def to_unit(self) -> ReadUnit | None:
        """None where rows cannot be told from single values."""
        row = math.prod(self.dimensions[1:]) * self.item_bytes
        if len(self.dimensions) < 2 or not row:
            return None
        if len(self.chunks) != len(self.dimensions) or not all(self.chunks):
            return ReadUnit(1, row, row) if not self.chunks else None
        across = math.prod(
            -(-size // part)
            for size, part in zip(self.dimensions[1:], self.chunks[1:], strict=True)
        )
        unpacked = across * math.prod(self.chunks) * self.item_bytes
        if max(unpacked, row) > _MOST:
            return None
        return ReadUnit(min(self.chunks[0], self.dimensions[0]), unpacked, row, self.packing)


@frozen
class _Message:
    kind: int
    is_shared: bool
    place: int
    length: int


class _File:
    """`addresses` and `lengths` are how many bytes those take in this file."""

    def __init__(self, source: Source, addresses: int, lengths: int) -> None:
        if not {addresses, lengths} <= _WIDTHS:
            raise ValueError("no such widths")
        self.source, self.addresses, self.lengths = source, addresses, lengths

    def number(self, place: int, width: int) -> int:
        return self.source.number(place, width, "<")

    def address(self, place: int) -> int:
        return self.number(place, self.addresses)

    def length(self, place: int) -> int:
        return self.number(place, self.lengths)

    def read_messages(self, place: int) -> Iterator[_Message]:
        """Of an object header, in all its chunks, those that matter here."""
        is_new = self.source.at(place, 4) == b"OHDR"
        chunks = [self._find_first_of_new(place) if is_new else self._find_first_of_old(place)]
        head = (6 if self.number(place + 5, 1) & 4 else 4) if is_new else 8
        count = 0
        for start, length in chunks:  # grows on the way
            at, end = start, start + length
            while at + head <= end:
                count += 1
                if count > _MESSAGES:
                    raise ValueError("too many messages")
                octets = self.source.at(at, head)
                if is_new:
                    kind, size, flags = octets[0], int.from_bytes(octets[1:3], "little"), octets[3]
                else:
                    kind, size, flags = (
                        int.from_bytes(octets[a:b], "little") for a, b in ((0, 2), (2, 4), (4, 5))
                    )
                at += head
                # A size that points beyond its block would make the next header out of anything.
                if at + size > end:
                    raise ValueError("a message longer than its header")
                if kind == _CONTINUATION:
                    chunks.append(self._find_continued(at, is_new=is_new))
                elif kind in _WANTED:
                    yield _Message(kind, bool(flags & _SHARED), at, size)
                at += size

    def _find_first_of_old(self, place: int) -> tuple[int, int]:
        if self.number(place, 1) != 1:
            raise ValueError("no object header")
        return place + 16, self.number(place + 8, 4)

    def _find_first_of_new(self, place: int) -> tuple[int, int]:
        flags = self.number(place + 5, 1)
        width = 1 << (flags & 3)
        start = place + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        return start + width, self.number(start, width)

    def _find_continued(self, place: int, *, is_new: bool) -> tuple[int, int]:
        """The newer format puts a signature before and a checksum behind."""
        start, length = self.address(place), self.length(place + self.addresses)
        if not is_new:
            return start, length
        if self.source.at(start, 4) != b"OCHK":
            raise ValueError("no continuation")
        return start + 4, length - 8


def _open_file(source: Source) -> tuple[_File, int]:
    """(file, address of the root group)."""
    version = source.at(8, 1)[0]
    if version > 3:
        raise ValueError("no such superblock")
    widths = 13 if version < 2 else 9
    file = _File(source, source.number(widths, 1, "<"), source.number(widths + 1, 1, "<"))
    base = {0: 24, 1: 28}.get(version, 12)
    # A base address moves all others (a user block before the file), which is not followed here.
    if file.address(base):
        raise ValueError("moved")
    # The older ones have an entry of a symbol table here: the offset of a name comes before the
    # address.
    return file, file.address(base + (5 if version < 2 else 3) * file.addresses)


def _list_children(file: _File, message: _Message) -> Iterator[int]:
    """The objects that a group's message names."""
    if message.is_shared:
        return
    if message.kind == _SYMBOLS:
        yield from _list_entries(file, file.address(message.place))
    elif message.kind == _LINK:
        yield from _follow_link(file, message.place)


def _follow_link(file: _File, place: int) -> Iterator[int]:
    flags = file.number(place + 1, 1)
    place += 2
    if flags & 8:
        if file.number(place, 1):  # soft, or into another file
            return
        place += 1
    place += (8 if flags & 4 else 0) + (1 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    yield file.address(place + width + file.number(place, width))


def _list_entries(file: _File, root: int) -> Iterator[int]:
    """The leaves of a B-tree are nodes of symbols."""
    nodes, step = [root], 2 * file.addresses + 24
    while nodes:
        place = nodes.pop()
        head = file.source.at(place, 8)
        count = int.from_bytes(head[6:], "little")
        if head[:4] == b"SNOD":
            table = file.source.at(place + 8, count * step)
            for entry in range(0, len(table), step):
                address, kind = entry + file.addresses, entry + 2 * file.addresses
                # The address of a soft link is not one of an object, and to follow its name would
                # need the heap.
                if int.from_bytes(table[kind : kind + 4], "little") != _SOFT:
                    yield int.from_bytes(table[address : address + file.addresses], "little")
        elif head[:5] == b"TREE\0":
            first = place + 8 + 2 * file.addresses + file.lengths
            nodes += [
                file.address(first + number * (file.addresses + file.lengths))
                for number in range(count)
            ]
        else:
            raise ValueError("no node")


def _read_array(file: _File, messages: dict[int, _Message]) -> list[_Array]:
    """Nothing where its shape or type is elsewhere."""
    needed = [messages[kind] for kind in (_DATASPACE, _DATATYPE, _LAYOUT) if kind in messages]
    # Shared messages are in another object or in a heap (committed datatypes), which is not read.
    if len(needed) < 3 or any(one.is_shared for one in needed):
        return []
    space, kind, layout = (one.place for one in needed)
    version, rank = file.source.at(space, 2)
    if version not in {1, 2} or rank > _RANK:
        return []
    start = space + (8 if version == 1 else 4)
    dimensions = tuple(file.length(start + number * file.lengths) for number in range(rank))
    item_bytes = file.number(kind + 4, 4)
    packing = _name_packing(file, messages[_FILTERS]) if _FILTERS in messages else ""
    return [_Array(dimensions, _read_chunks(file, layout), item_bytes, packing)]


def _read_chunks(file: _File, place: int) -> tuple[int, ...]:
    """The shape of a chunk; () where the array is in one piece. The last number that is stored is
    the item's size.
    """
    version, second, third = file.source.at(place, 3)
    if version in {1, 2}:
        rank, kind, start, width = second, third, place + 8 + file.addresses, 4
    elif version == 3:
        rank, kind, start, width = third, second, place + 3 + file.addresses, 4
    elif version in {4, 5}:
        rank, width = file.source.at(place + 3, 2) if second == _CHUNKED else (0, 1)
        kind, start = second, place + 5
    else:
        raise ValueError("no such layout")
    if kind != _CHUNKED:
        return ()
    if not 0 < rank <= _RANK + 1 or not 0 < width <= 8:
        raise ValueError("no such chunks")
    octets = file.source.at(start, (rank - 1) * width)
    return tuple(
        int.from_bytes(octets[at : at + width], "little") for at in range(0, len(octets), width)
    )


def _name_packing(file: _File, message: _Message) -> str:
    """The filter that packs; "" where none does."""
    octets = file.source.at(message.place, message.length)
    if message.is_shared or len(octets) < 2:
        return ""
    version, count = octets[0], octets[1]
    at, names = 8 if version == 1 else 2, []
    for _ in range(min(count, _RANK)):
        number, length = (int.from_bytes(octets[at + k : at + k + 2], "little") for k in (0, 2))
        has_name = version == 1 or number >= 256
        values_at = at + (6 if has_name else 4)
        values = int.from_bytes(octets[values_at : values_at + 2], "little")
        at = (
            values_at
            + 2
            + (length if has_name else 0)
            + 4 * values
            + (4 if version == 1 and values % 2 else 0)
        )
        names.append(_PACKINGS.get(number, ""))
    return next((name for name in names if name), "")


PARSERS: Final = ((make_start_test(b"\x89HDF\r\n\x1a\n"), "HDF5", parse_hdf5),)
