"""Tar shards: the ratio of what the first members become to what they take. Pure.

Source: pax(1) of POSIX.1-2017, "ustar Interchange Format"; GNU tar's binary numbers (tar manual, "Extensions").
"""

from __future__ import annotations

from typing import Final

from hosttune.measure.dataset.header import Header, Source

_BLOCK: Final = 512
_MEMBERS: Final = 12  # a sample of a shard has a picture and a label or two


def tar(source: Source) -> Header:
    """Members of which no header tells count as they are: labels, captions."""
    from hosttune.measure.dataset.header import read_member

    place = native = float32 = packed = told = 0
    for _ in range(_MEMBERS):
        if place + _BLOCK > source.size:
            break
        try:
            block = source.at(place, _BLOCK)
            size = _size(block)
            if not block.strip(b"\0") or place + _BLOCK + size > source.size or not is_member(block):
                break
            if block[156:157] in {b"0", b"\0"} and size:
                found = read_member(source.inside(place + _BLOCK, size))
                packed += size
                is_told = found is not None and found.native_bytes is not None
                told += is_told
                native += (found.native_bytes or 0) if found and is_told else size
                float32 += (found.float32_bytes or 0) if found and is_told else size
        except ValueError:
            break
        place += _BLOCK + -(-size // _BLOCK) * _BLOCK
    return Header("tar", native, float32, packed) if told else Header("tar")


def _size(block: bytes) -> int:
    """Octal digits, or from 0x80 on a binary number."""
    field = block[124:136]
    if field[0] & 0x80:
        return int.from_bytes(bytes((field[0] & 0x7F, *field[1:])), "big")
    return int(field.strip(b" \0") or b"0", 8)


def is_member(block: bytes) -> bool:
    """Whether the checksum of a member's header is right: the sum of its bytes, its own field as blanks."""
    if len(block) < _BLOCK:
        return False
    field = block[148:156].strip(b" \0")
    if not field or any(digit not in b"01234567" for digit in field):
        return False
    return int(field, 8) == sum(block[:148]) + 8 * 0x20 + sum(block[156:_BLOCK])


PARSERS: Final = ((is_member, "tar", tar),)
