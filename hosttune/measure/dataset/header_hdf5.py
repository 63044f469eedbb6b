"""HDF5: dimensions times the size of an item, over all datasets. Pure.

Source: HDF5 File Format Specification 3.0: II.A (superblock), III.A.1 and III.B (B-trees and nodes of groups), IV.A.1
(object headers), IV.A.2 (messages).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen
from hosttune.measure.dataset.header import Header, Pieces, Source, starting
from hosttune.measure.dataset.header_hdf5_types import item

if TYPE_CHECKING:
    from collections.abc import Iterator

_DATASPACE, _LINK_INFO, _DATATYPE, _LINK, _EXTERNAL, _LAYOUT, _CONTINUATION, _SYMBOLS = 1, 2, 3, 6, 7, 8, 16, 17
_WANTED: Final = frozenset({_DATASPACE, _LINK_INFO, _DATATYPE, _LINK, _EXTERNAL, _LAYOUT, _SYMBOLS})
_SHARED: Final = 2  # a flag: the message lies elsewhere
_CONTIGUOUS, _CHUNKED = 1, 2
_RANK: Final = 32
_NULL: Final = 2  # a dataspace without elements
_SOFT: Final = 2  # an entry of a symbol table that only names another
_WIDTHS: Final = frozenset({2, 4, 8})


def hdf5(source: Source) -> Header:
    """What a program gets that reads all datasets; each counts once. Not told: values of different lengths, data in
    other files, groups with dense storage (many links in the newer format), and more datasets than fit the bounds."""
    file, root = _open(Pieces(source))
    waiting, seen = [root], {root}
    native = float32 = 0
    while waiting:
        messages = list(file.messages(waiting.pop()))
        if any(one.kind == _LAYOUT for one in messages):
            sizes = _dataset(file, {one.kind: one for one in messages})
            native += sizes[0]
            float32 += sizes[1]
        else:
            new = {place for one in messages for place in _children(file, one)} - seen
            seen |= new
            waiting += sorted(new, reverse=True)
    return Header("HDF5", native, float32)


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
        self.nowhere = (1 << 8 * addresses) - 1

    def number(self, place: int, width: int) -> int:
        return self.source.number(place, width, "<")

    def address(self, place: int) -> int:
        return self.number(place, self.addresses)

    def length(self, place: int) -> int:
        return self.number(place, self.lengths)

    def messages(self, place: int) -> Iterator[_Message]:
        """Of an object header, in all its chunks, those that matter here."""
        is_new = self.source.at(place, 4) == b"OHDR"
        chunks = [self._first_of_new(place) if is_new else self._first_of_old(place)]
        head = (6 if self.number(place + 5, 1) & 4 else 4) if is_new else 8
        for start, length in chunks:  # grows on the way
            at, end = start, start + length
            while at + head <= end:
                octets = self.source.at(at, head)
                if is_new:
                    kind, size, flags = octets[0], int.from_bytes(octets[1:3], "little"), octets[3]
                else:
                    kind, size, flags = (int.from_bytes(octets[a:b], "little") for a, b in ((0, 2), (2, 4), (4, 5)))
                at += head
                if at + size > end:
                    raise ValueError("a message longer than its header")
                if kind == _CONTINUATION:
                    chunks.append(self._continued(at, is_new=is_new))
                elif kind in _WANTED:
                    yield _Message(kind, bool(flags & _SHARED), at, size)
                at += size

    def _first_of_old(self, place: int) -> tuple[int, int]:
        if self.number(place, 1) != 1:
            raise ValueError("no object header")
        return place + 16, self.number(place + 8, 4)

    def _first_of_new(self, place: int) -> tuple[int, int]:
        flags = self.number(place + 5, 1)
        width = 1 << (flags & 3)
        start = place + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        return start + width, self.number(start, width)

    def _continued(self, place: int, *, is_new: bool) -> tuple[int, int]:
        """The newer format puts a signature before and a checksum behind."""
        start, length = self.address(place), self.length(place + self.addresses)
        if not is_new:
            return start, length
        if self.source.at(start, 4) != b"OCHK":
            raise ValueError("no continuation")
        return start + 4, length - 8


def _open(source: Source) -> tuple[_File, int]:
    """(file, address of the root group)."""
    version = source.at(8, 1)[0]
    if version > 3:
        raise ValueError("no such superblock")
    widths = 13 if version < 2 else 9
    file = _File(source, source.number(widths, 1, "<"), source.number(widths + 1, 1, "<"))
    base = {0: 24, 1: 28}.get(version, 12)
    end = file.address(base + 2 * file.addresses)
    if file.address(base) or end > source.size:
        raise ValueError("cut off, or moved")
    # The older ones have an entry of a symbol table here: the offset of a name comes before the address.
    return file, file.address(base + (5 if version < 2 else 3) * file.addresses)


def _children(file: _File, message: _Message) -> Iterator[int]:
    """The objects that a group's message names."""
    if message.is_shared:
        raise ValueError("a message that lies elsewhere")
    if message.kind == _SYMBOLS:
        yield from _entries(file, file.address(message.place))
    elif message.kind == _LINK:
        yield from _linked(file, message.place)
    elif message.kind == _LINK_INFO:
        place = message.place + 2 + (8 if file.number(message.place + 1, 1) & 1 else 0)
        if file.address(place) != file.nowhere:
            raise ValueError("dense storage")


def _linked(file: _File, place: int) -> Iterator[int]:
    flags = file.number(place + 1, 1)
    place += 2
    if flags & 8:
        if file.number(place, 1):  # soft, or into another file
            return
        place += 1
    place += (8 if flags & 4 else 0) + (1 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    yield file.address(place + width + file.number(place, width))


def _entries(file: _File, root: int) -> Iterator[int]:
    """The leaves of a B-tree are nodes of symbols."""
    nodes = [root]
    while nodes:
        place = nodes.pop()
        head = file.source.at(place, 8)
        count = int.from_bytes(head[6:], "little")
        if head[:4] == b"SNOD":
            for entry in range(place + 8, place + 8 + count * (2 * file.addresses + 24), 2 * file.addresses + 24):
                if file.number(entry + 2 * file.addresses, 4) != _SOFT:
                    yield file.address(entry + file.addresses)
        elif head[:5] == b"TREE\0":
            first = place + 8 + 2 * file.addresses + file.lengths
            step = file.addresses + file.lengths
            nodes += [file.address(first + number * step) for number in range(count)]
        else:
            raise ValueError("no node")


def _dataset(file: _File, messages: dict[int, _Message]) -> tuple[int, int]:
    """(in its type, as float32)."""
    if not {_DATASPACE, _DATATYPE} <= set(messages) or _EXTERNAL in messages:
        raise ValueError("no shape, or data in another file")
    if any(one.is_shared for one in messages.values()):
        raise ValueError("a type that lies elsewhere")
    count = _elements(file, messages[_DATASPACE].place)
    native, float32 = item(file.source, messages[_DATATYPE].place)
    _check_layout(file, messages[_LAYOUT].place, count * native)
    return count * native, count * float32


def _elements(file: _File, place: int) -> int:
    version, rank, _, kind = file.source.at(place, 4)
    if version not in {1, 2} or rank > _RANK:
        raise ValueError("no such dataspace")
    if version == 2 and kind == _NULL:
        return 0
    start = place + (8 if version == 1 else 4)
    return math.prod(file.length(start + number * file.lengths) for number in range(rank))


def _check_layout(file: _File, place: int, size: int) -> None:
    """Data in one piece must be in the file, and as long as the shape says. A virtual dataset is in others."""
    version, kind, older = file.source.at(place, 3)
    if (kind if version > 2 else older) > _CHUNKED:
        raise ValueError("data in other files")
    if version > 2 and kind == _CONTIGUOUS:
        start, length = file.address(place + 2), file.length(place + 2 + file.addresses)
        if start != file.nowhere and (length != size or start + length > file.source.size):
            raise ValueError("data that the file does not hold")


PARSERS: Final = ((starting(b"\x89HDF\r\n\x1a\n"), "HDF5", hdf5),)
