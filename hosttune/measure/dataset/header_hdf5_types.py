"""How large an item of an HDF5 dataset is: the datatype message. Pure.

Source: HDF5 File Format Specification 3.0, IV.A.2.d; 4.0 for complex numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hosttune.measure.dataset.header import Source

_INTEGER, _FLOAT, _TIME, _STRING, _BITS, _OPAQUE, _COMPOUND, _REFERENCE, _ENUM, _VARIABLE, _ARRAY, _COMPLEX = range(12)
_PROPERTIES: Final = {_INTEGER: 4, _FLOAT: 12, _TIME: 2, _STRING: 0, _BITS: 4, _REFERENCE: 0}  # bytes behind the size
_DEPTH: Final = 8
_RANK: Final = 32


def item(source: Source, place: int) -> tuple[int, int]:
    """(bytes in its type, bytes as float32): integers and floats become four bytes each, other kinds stay as they are.
    Raises ValueError for values of different lengths, and for what is no type."""
    native, float32, _ = _type(source, place, 0)
    return native, float32


def _type(source: Source, place: int, depth: int) -> tuple[int, int, int]:
    """(bytes in its type, as float32, place behind its description)."""
    if depth > _DEPTH:
        raise ValueError("types too deep")
    head = source.at(place, 8)
    version, kind = head[0] >> 4, head[0] & 15
    members = int.from_bytes(head[1:3], "little")
    size = int.from_bytes(head[4:], "little")
    body = place + 8
    if not size or not 1 <= version <= 5:
        raise ValueError("no such type")
    if kind in _PROPERTIES:
        return size, 4 if kind in {_INTEGER, _FLOAT} else size, body + _PROPERTIES[kind]
    if kind == _OPAQUE:
        return size, size, body + head[1]
    if kind == _COMPLEX:
        return size, size, _type(source, body, depth + 1)[2]
    if kind == _ENUM:
        return size, size, _behind_names(source, body, version, members, depth)
    if kind == _COMPOUND:
        return size, size, _behind_members(source, body, version, members, size, depth)
    if kind == _ARRAY:
        return _array(source, body, version, size, depth)
    raise ValueError("values of different lengths")


def _array(source: Source, place: int, version: int, size: int, depth: int) -> tuple[int, int, int]:
    """Version 2 keeps three bytes free and writes a permutation behind the dimensions."""
    rank = source.at(place, 1)[0]
    if not 0 < rank <= _RANK:
        raise ValueError("no such array")
    place += 4 if version < 3 else 1
    count = math.prod(source.number(place + 4 * number, 4, "<") for number in range(rank))
    native, float32, end = _type(source, place + (8 if version < 3 else 4) * rank, depth + 1)
    if count * native != size:
        raise ValueError("not the size of the array")
    return size, count * float32, end


def _behind_names(source: Source, place: int, version: int, members: int, depth: int) -> int:
    width, _, place = _type(source, place, depth + 1)
    for _ in range(members):
        place = _behind_name(source, place, version)
    return place + members * width


def _behind_members(source: Source, place: int, version: int, members: int, size: int, depth: int) -> int:
    """Between the name of a member and its type is its offset, in version 1 with four dimensions."""
    offset = {1: 32, 2: 4}.get(version, (size.bit_length() + 7) // 8)
    for _ in range(members):
        _, _, place = _type(source, _behind_name(source, place, version) + offset, depth + 1)
    return place


def _behind_name(source: Source, place: int, version: int) -> int:
    """Names end with a zero byte; before version 3 they are filled up to eight bytes."""
    while True:
        zero = source.at(place, 8).find(0)
        if zero >= 0:
            return place + (8 if version < 3 else zero + 1)
        place += 8
