"""The beginning of a packed block, from its first bytes: Snappy and gzip, as pages of Parquet are packed. Pure.

Sources: google/snappy, format_description.txt; RFC 1952 by zlib.
"""

from __future__ import annotations

import zlib
from typing import Final

SNAPPY, GZIP = 1, 2  # as Parquet numbers them
_LITERAL, _NEAR = 0, 1  # kinds of elements; others are copies from farther away
_SHORT: Final = 60  # bytes of a literal whose length stands in its tag
_EITHER: Final = 47  # a gzip or a zlib header, and the largest window


def beginning(octets: bytes, codec: int, most: int) -> bytes:
    """About `most` bytes, or as many as `octets` hold. Raises ValueError for another codec, or what it did not pack."""
    if codec == SNAPPY:
        return _snappy(octets, most)
    if codec != GZIP:
        raise ValueError("packed by another codec")
    try:
        return zlib.decompressobj(_EITHER).decompress(octets, most)
    except zlib.error as error:
        raise ValueError("no gzip") from error


def _snappy(octets: bytes, most: int) -> bytes:
    """Literals, and copies of what came before, which may overlap themselves."""
    out = bytearray()
    place = _behind_length(octets)
    while place < len(octets) and len(out) < most:
        tag, kind = octets[place] >> 2, octets[place] & 3
        width = max(0, tag - _SHORT + 1) if kind == _LITERAL else 1 << kind - 1
        operand = int.from_bytes(octets[place + 1 : place + 1 + width], "little")
        place += 1 + width
        if place > len(octets):
            break
        if kind == _LITERAL:
            length = operand + 1 if width else tag + 1
            out += octets[place : place + length]
            place += length
            continue
        length, back = (4 + (tag & 7), tag >> 3 << 8 | operand) if kind == _NEAR else (tag + 1, operand)
        if not 0 < back <= len(out):
            raise ValueError("a copy from before the start")
        for _ in range(length):
            out.append(out[-back])
    return bytes(out)


def _behind_length(octets: bytes) -> int:
    for place, octet in enumerate(octets[:5]):
        if octet < 0x80:
            return place + 1
    raise ValueError("no length")
