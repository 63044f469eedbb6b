"""npy and npz: the shape, or the sizes of the members. Pure.

Sources: the npy format (numpy.lib.format); APPNOTE 6.3 (zip), 4.3.12 and 4.3.16.
"""

from __future__ import annotations

import math
from typing import Final

from hosttune.measure.dataset.header import Header, Source, starting
from hosttune.regex import regex

_DESCR: Final = regex(rb"'descr'\s*:\s*'[<>|=]?([biufcSUV?])(\d{1,9})'")
_SHAPE: Final = regex(rb"'shape'\s*:\s*\(([\d,\s]{0,400})\)")
_TAIL: Final = 4096  # where the end record of a zip file is looked for: a comment is rare
_MEMBERS: Final = 32 << 10  # the longest directory that is read
_SCALE: Final = {"U": 4}  # bytes of a character


def npy(source: Source) -> Header:
    """Nothing is packed, so what shape and type promise must be what the file holds."""
    version = source.at(6, 1)[0]
    width = 2 if version == 1 else 4
    length = source.number(8, width, "<")
    text = source.at(8 + width, min(length, 8192))
    held = source.size - 8 - width - length
    shape = _SHAPE.search(text)
    if not shape or held < 0:
        raise ValueError("no shape")
    numbers = math.prod(int(word) for word in shape[1].split(b",") if word.strip())
    kind = _DESCR.search(text)
    if not kind:  # a structure of several fields
        return Header("npy", held, held)
    item = int(kind[2]) * _SCALE.get(kind[1].decode(), 1)
    if numbers * item != held:
        raise ValueError("the file is not as long as its header says")
    return Header("npy", held, numbers * 4 if kind[1] in b"biuf?" else held)


def npz(source: Source) -> Header:
    """The sizes in the directory of the zip file. Arrays are kept as they are stored."""
    start = max(0, source.size - _TAIL)
    tail = source.at(start, source.size - start)
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or end + 20 > len(tail):
        raise ValueError("no end record")
    count, length, place = (
        int.from_bytes(tail[end + at : end + at + size], "little") for at, size in ((10, 2), (12, 4), (16, 4))
    )
    if not 0 < count < 0xFFFF or length > _MEMBERS:
        raise ValueError("a directory too long to read")
    table = source.at(place, length)
    total = at = 0
    is_numpy = True
    for _ in range(count):
        if table[at : at + 4] != b"PK\x01\x02" or at + 46 > len(table):
            raise ValueError("no member")
        size = int.from_bytes(table[at + 24 : at + 28], "little")
        if size == 0xFFFFFFFF:
            raise ValueError("a size of eight bytes")
        total += size
        name, extra, comment = (int.from_bytes(table[at + k : at + k + 2], "little") for k in (28, 30, 32))
        is_numpy = is_numpy and table[at + 46 : at + 46 + name].endswith(b".npy")
        at += 46 + name + extra + comment
    return Header("npz", total, total) if is_numpy else Header("zip")


PARSERS: Final = ((starting(b"\x93NUMPY"), "npy", npy), (starting(b"PK\x03\x04"), "zip", npz))
