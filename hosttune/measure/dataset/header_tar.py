"""Tar shards: what the members that begin in some windows become, for each byte of the windows.
Pure.

Every member begins in one place, and a window may lie anywhere: so nothing hangs on which members
lie side by side, and headers and padding are counted with the bytes of the shard, as it is on disk.
Source: pax(1) of POSIX.1-2017, "ustar Interchange Format"; GNU tar's binary numbers (tar manual,
"Extensions").
"""

from __future__ import annotations

import math
import zlib
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple

from hosttune.measure.dataset.header import MOST_BYTES, WINDOW, Header, Source, Spent

_BLOCK: Final = 512
# an archive ends with two blocks of zeros, and is filled up to a multiple of it
_RECORD: Final = 20 * _BLOCK
_WINDOWS: Final = 64  # of a shard, one at random in each part of the same length
_MEMBERS: Final = 16  # that a window is long, by the mean of the first ones
_MOST_MEMBERS: Final = 64  # of a window
_SHORT: Final = 256  # members; a shard with no more is read through
_STEP: Final = 16 << 10  # bytes that are searched at once for the next member
_SEARCHED: Final = 4 << 20  # bytes, at most, in one window


class _TarRow(NamedTuple):
    """Members in a row: the bytes of the shard that they cover and what they become, how many
    headers are known, and where they end (None: the shard does).
    """

    taken: int
    native: int
    float32: int
    headers: int
    end: int | None


def parse_tar(source: Source) -> Header:
    """Members of which no header tells count as they are: labels, captions."""
    if source.is_whole:
        source.allow(math.inf, math.inf)
        return _sum(_read_row(source, 0, 1 << 60), source)
    source.allow(_SHORT * (WINDOW + _BLOCK), 2 * _SHORT)
    first = _read_row(source, 0, _SHORT)
    if first.end is None:
        return _sum(first, source)
    source.allow(
        _WINDOWS * (_SEARCHED + _MOST_MEMBERS * MOST_BYTES),
        _WINDOWS * (_SEARCHED // _STEP + 8 * _MOST_MEMBERS),
    )
    # The same windows for the same shard, so that two looks give one answer; and other windows for
    # each shard, so that a pattern of the writer cannot hit all.
    random = Random(zlib.crc32(source.head) + source.size)  # noqa: S311 - no secret
    size = source.size - _count_zeros(source)
    part = size / _WINDOWS
    length = min(part, _MEMBERS * first.taken / _SHORT)
    found = [
        _read_window(source, int(number * part + random.random() * (part - length)), length)
        for number in range(_WINDOWS)
    ]
    # A window that could not be judged may be the one with the large members: no mean of the others
    # stands for it.
    if None in found or not any(row.headers for row in found if row):
        return Header("tar")
    native = [row.native / row.taken for row in found if row]
    wide = [row.float32 / row.taken for row in found if row]
    # Successive differences: what is side by side is alike (Wolter, Introduction to Variance
    # Estimation, chapter 8).
    spread = math.fsum((one - other) ** 2 for one, other in pairwise(native)) / (
        2 * (_WINDOWS - 1) * _WINDOWS
    )
    whole = (math.fsum(native) / _WINDOWS * size, math.fsum(wide) / _WINDOWS * size)
    headers = sum(row.headers for row in found if row)
    return Header(
        "tar",
        round(whole[0]),
        round(whole[1]),
        source.size,
        round(math.sqrt(spread) * size),
        headers,
    )


def _read_window(source: Source, place: int, length: float) -> _TarRow | None:
    """The members that begin in it; None if that is not known."""
    start = _next_member(source, place, length)
    if start is None:
        return None if length > _SEARCHED else _TarRow(int(length) or 1, 0, 0, 0, place)
    row = _read_row(source, start, _MOST_MEMBERS, until=place + length)
    # Too many small members: only the bytes that were judged count as seen.
    is_cut = row.end is not None and row.end < place + length
    return row._replace(taken=max(1, start + row.taken - place if is_cut else int(length)))


def _count_zeros(source: Source) -> int:
    """Bytes of the zeros at the end."""
    length = min(_RECORD, source.size)
    return (
        length - -(-len(source.at(source.size - length, length).rstrip(b"\0")) // _BLOCK) * _BLOCK
    )


def _sum(row: _TarRow, source: Source) -> Header:
    """Of all members; what is cut off or broken behind them counts as they do."""
    is_all = source.size - row.taken <= _RECORD
    of_bytes = source.size if is_all else row.taken
    return (
        Header("tar", row.native, row.float32, of_bytes, headers=row.headers)
        if row.headers
        else Header("tar")
    )


def _read_row(source: Source, place: int, most: int, *, until: float = math.inf) -> _TarRow:
    """At most so many members, that begin before `until`."""
    from hosttune.measure.dataset.header import read_member

    start, native, float32, headers = place, 0, 0, 0
    for _ in range(most):
        if place >= until:
            break
        try:
            block = source.at(place, _BLOCK)
            size = _parse_size(block)
            if (
                not block.strip(b"\0")
                or place + _BLOCK + size > source.size
                or not is_member(block)
            ):
                return _TarRow(place - start, native, float32, headers, None)
            # Links, folders and the long names of pax and GNU have no data of the set.
            if block[156:157] in {b"0", b"\0"} and size:
                found = read_member(source.inside(place + _BLOCK, size), with_containers=False)
                is_known = found is not None and found.native_bytes is not None
                headers += is_known
                native += (found.native_bytes or 0) if found and is_known else size
                float32 += (found.float32_bytes or 0) if found and is_known else size
        except Spent:
            break
        except ValueError:
            return _TarRow(place - start, native, float32, headers, None)
        place += _BLOCK + -(-size // _BLOCK) * _BLOCK
    return _TarRow(place - start, native, float32, headers, place)


def _next_member(source: Source, place: int, length: float) -> int | None:
    """Where the first member of a window begins: its header has a checksum. None where none is
    near.
    """
    # A member may begin before the window and end behind it: then none begins in it, and the search
    # needs an end.
    end = min(place + int(min(length, _SEARCHED)), source.size - _BLOCK)
    for start in range(-(-place // _BLOCK) * _BLOCK, end, _STEP):
        try:
            part = source.at(start, min(_STEP, source.size - start))
        except ValueError:
            return None
        for offset in range(0, min(len(part) - _BLOCK + 1, end - start), _BLOCK):
            if is_member(part[offset : offset + _BLOCK]):
                return start + offset
    return None


def _parse_size(block: bytes) -> int:
    """Octal digits, or from 0x80 on a binary number."""
    field = block[124:136]
    # Octal digits end at 8 GiB.
    if field[0] & 0x80:
        return int.from_bytes(bytes((field[0] & 0x7F, *field[1:])), "big")
    return _parse_octal(field.strip(b" \0") or b"0")


def _parse_octal(digits: bytes) -> int:
    """int() also takes a sign, blanks and `_`: a member of negative size would never end. Raises
    ValueError.
    """
    if not digits or digits.strip(b"01234567"):
        raise ValueError("no octal number")
    return int(digits, 8)


def is_member(block: bytes) -> bool:
    """Whether the checksum of a member's header is right: the sum of its bytes, its own field as
    blanks.
    """
    if len(block) < _BLOCK:
        return False
    try:
        checksum = _parse_octal(block[148:156].strip(b" \0"))
    except ValueError:
        return False
    return checksum == sum(block[:148]) + 8 * 0x20 + sum(block[156:_BLOCK])


PARSERS: Final = ((is_member, "tar", parse_tar),)
