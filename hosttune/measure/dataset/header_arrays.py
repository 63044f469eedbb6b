"""npy, npz and safetensors: the shapes. Pure.

Sources: the npy format (numpy.lib.format); APPNOTE 6.3 (zip), 4.3.12 and 4.3.16.
"""

from __future__ import annotations

import json
import math
import zlib
from typing import Final, NamedTuple

from hosttune.measure.dataset.header import Header, Source, Spent, make_start_test
from hosttune.regex import regex

_DESCR: Final = regex(rb"'descr'\s*:\s*'[<>|=]?([biufcSUV?])(\d{1,9})'")
_SHAPE: Final = regex(rb"'shape'\s*:\s*\(([\d,\s]{0,400})\)")
_TAIL: Final = 4096  # where the end record of a zip file is looked for: a comment is rare
_MEMBERS: Final = 32 << 10  # the longest directory that is read
_HEAD: Final = 512  # of an array in an npz file; its header is 128 bytes, as a rule
_ARRAYS: Final = 40  # of an npz file: two reads each
_NPY: Final = b"\x93NUMPY"
_STORED, _DEFLATED = 0, 8  # APPNOTE 4.4.5
_BITS: Final = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I16": 16, "U16": 16,
    "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
}  # fmt: skip
_SCALE: Final = {"U": 4}  # bytes of a character


def parse_npy(source: Source) -> Header:
    """Nothing is packed, so what shape and type promise must be what the file holds."""
    held, float32 = _parse_array(source.at(0, min(source.size, _HEAD)), source.size)
    return Header("npy", held, float32)


def _parse_array(head: bytes, size: int) -> tuple[int, int]:
    """What an array takes, and what it takes as float32, in bytes; `head` is the start of an npy
    file of this size.
    """
    # Version 1 has two bytes for the length of the header, 2 and 3 have four (numpy.lib.format).
    width = 2 if head[6:7] == b"\1" else 4
    length = int.from_bytes(head[8 : 8 + width], "little")
    text = head[8 + width : 8 + width + length]
    held = size - 8 - width - length
    shape = _SHAPE.search(text)
    if not head.startswith(_NPY) or not shape or held < 0:
        raise ValueError("no shape")
    numbers = math.prod(int(word) for word in shape[1].split(b",") if word.strip())
    kind = _DESCR.search(text)
    if not kind:  # a structure of several fields
        return held, held
    item = int(kind[2]) * _SCALE.get(kind[1].decode(), 1)
    # An array cut off by a full disk, or a header that was made to harm: neither is believed.
    if numbers * item != held:
        raise ValueError("the file is not as long as its header says")
    return held, numbers * 4 if kind[1] in b"biuf?" else held


def parse_npz(source: Source) -> Header:
    """The directory of the zip file, and the head of each array in it, unpacked as far as that."""
    start = max(0, source.size - _TAIL)
    tail = source.at(start, source.size - start)
    # From the end, because the data of a member may hold the same four bytes.
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or end + 20 > len(tail):
        raise ValueError("no end record")
    count, length, place = (
        int.from_bytes(tail[end + at : end + at + size], "little")
        for at, size in ((10, 2), (12, 4), (16, 4))
    )
    # 0xFFFF means that the number is in a ZIP64 record, which is not read (APPNOTE 4.4.1.4).
    if not 0 < count < 0xFFFF or length > _MEMBERS:
        raise ValueError("a directory too long to read")
    table = source.at(place, length)
    found: list[_Member] = []
    at = 0
    for _ in range(count):
        if table[at : at + 4] != b"PK\x01\x02" or at + 46 > len(table):
            raise ValueError("no member")
        packed, size = (int.from_bytes(table[at + k : at + k + 4], "little") for k in (20, 24))
        if size == 0xFFFFFFFF:
            raise ValueError("a size of eight bytes")
        name, extra, comment = (
            int.from_bytes(table[at + k : at + k + 2], "little") for k in (28, 30, 32)
        )
        # A zip file with anything else in it is an archive, of which an array or two say nothing.
        if not table[at + 46 : at + 46 + name].endswith(b".npy"):
            return Header("zip")
        method, local = (
            int.from_bytes(table[at + k : at + k + n], "little") for k, n in ((10, 2), (42, 4))
        )
        found.append(_Member(local, method, packed, size))
        at += 46 + name + extra + comment
    if count > _ARRAYS:
        return Header("npz")
    try:
        sizes = [_parse_array(_read_head(source, one), one.size) for one in found]
    except Spent:
        raise
    except ValueError:  # one of them is unknown, so the file is
        return Header("npz")
    return Header("npz", sum(held for held, _ in sizes), sum(float32 for _, float32 in sizes))


class _Member(NamedTuple):
    """Of a zip file: where its own header is, how it is packed, and its sizes in bytes."""

    place: int
    method: int
    packed: int
    size: int


def _read_head(source: Source, one: _Member) -> bytes:
    """The first bytes of a member, unpacked. Raises ValueError where that cannot be."""
    # The lengths of the local header: those of the directory may differ, and the data begins behind
    # the local one.
    name, extra = (source.number(one.place + k, 2, "<") for k in (26, 28))
    start = one.place + 30 + name + extra
    head = source.at(start, min(one.packed, _HEAD))
    if one.method == _STORED:
        return head
    if one.method != _DEFLATED:
        raise ValueError("packed in a way that is not known here")
    try:
        # Bounded output: a member of zeros would unpack to a thousand times what was read.
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(head, _HEAD)
    except zlib.error as error:
        raise ValueError(str(error)) from None


def parse_safetensors(source: Source) -> Header:
    """The JSON in front of the tensors: type, shape and place of each (huggingface/safetensors,
    README, Format). They are kept as they are stored.
    """
    length = source.number(0, 8, "<")
    if not 0 < length <= _MEMBERS:
        raise ValueError("a header too long to read")
    try:
        table = json.loads(source.at(8, length))
    except RecursionError:
        raise ValueError("nested too deep") from None
    held = float32 = 0
    for name, one in table.items() if isinstance(table, dict) else ():
        if name == "__metadata__":
            continue
        kind, shape = (
            (one.get("dtype"), one.get("shape")) if isinstance(one, dict) else (None, None)
        )
        is_shape = isinstance(shape, list) and all(
            # `type`, because JSON has `true`, and a bool is an int; bounded, because the product of
            # long numbers takes time without end.
            type(n) is int and 0 <= n < 1 << 40
            for n in shape
        )
        if (
            not isinstance(kind, str)
            or kind not in _BITS
            or not is_shape
            or not isinstance(shape, list)
        ):
            raise ValueError("a type or shape that is not known")
        numbers = math.prod(shape)
        held += numbers * _BITS[kind] // 8
        float32 += numbers * 4
    if held != source.size - 8 - length:
        raise ValueError("the file is not as long as its header says")
    return Header("safetensors", held, float32)


def _is_safetensors(head: bytes) -> bool:
    # The format has no magic: a length below 2^48 and the beginning of a JSON object with a type in
    # it take its place.
    return head[6:8] == b"\0\0" and head[8:10] in {b'{"', b"{ "} and b'"dtype"' in head


PARSERS: Final = (
    (make_start_test(_NPY), "npy", parse_npy),
    (make_start_test(b"PK\x03\x04"), "zip", parse_npz),
    (_is_safetensors, "safetensors", parse_safetensors),
)
