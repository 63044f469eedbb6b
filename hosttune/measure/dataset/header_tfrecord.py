"""TFRecord: the ratio of what the values of the first records become to what the records take. Pure.

Sources: a record is its length, the masked CRC-32C of that, the data and their CRC (TensorFlow, io/record_writer.h);
the data are mostly an Example or a SequenceExample (example.proto, feature.proto) in the wire format of Protocol
Buffers. Records that are packed as a whole (gzip, zlib) are none: the file is a gzip file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune.measure.dataset.header import Header, Pieces, Source, Spent, read_member

if TYPE_CHECKING:
    from collections.abc import Iterator

_RECORDS: Final = 64
_LABEL: Final = 64  # no picture and no sound is as short as that
_COUNTED: Final = 256  # of a list of integers, which are of different lengths: the rest is taken to be alike
_TRIFLE: Final = 0.01
_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5  # how a field is written
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3  # what a Feature holds
# Packed, and no header of ours tells how large it becomes: AVIF and MPEG-4 (at 4), Ogg, MP3, gzip, Zstandard, Matroska.
_PACKED: Final = (b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x1a\x45\xdf\xa3")


def tfrecord(source: Source) -> Header:
    """As many records as the bounds of a file let through. Bytes that are no picture and no sound count as they are,
    but where they are known to be packed: then nothing is told."""
    walk = _Walk(Pieces(source))
    place = 0
    try:
        for _ in range(_RECORDS):
            if place == source.size:
                break
            place = walk.record(place)
    except ValueError:  # spent, or a record that is cut off: what was seen until then counts
        pass
    if not walk.is_told or walk.untold > walk.reached * _TRIFLE:
        return Header("TFRecord")
    return Header("TFRecord", walk.native, walk.float32, walk.reached)


class _Walk:
    """Through the records of a file, one after another. `reached` is the place up to which the sums go."""

    def __init__(self, source: Source) -> None:
        self.native = self.float32 = self.untold = self.reached = 0
        self.is_told = False
        self._source = source

    def record(self, place: int) -> int:
        """The place of the next record. Raises ValueError where this is none, Spent at the bounds."""
        head = self._source.at(place, 12)
        start, end = place + 12, place + 12 + int.from_bytes(head[:8], "little")
        if not is_length(head) or end + 4 > self._source.size:
            raise ValueError("no record")
        before = self.native, self.float32, self.untold, self.is_told
        try:
            if end > start and self._source.at(start, 1) in b"\x0a\x12":  # what an Example starts with, and no picture
                self._example(start, end)
                self.is_told = True
            else:
                self._value(start, end)
        except Spent:
            raise
        except ValueError:
            self.native, self.float32, self.untold, self.is_told = before
            self._add(end - start, end - start, end)
        self.reached = end + 4
        return end + 4

    def _example(self, start: int, end: int) -> None:
        """Features, or the context and the lists of features of a SequenceExample."""
        for number, at, till in self._messages(start, end, {1, 2}):
            for _, entry, after in self._messages(at, till, {1}):
                for field, value, stop in self._messages(entry, after, {1, 2}):
                    if field == 2 and number == 1:
                        self._feature(value, stop)
                    elif field == 2:
                        for _, feature, last in self._messages(value, stop, {1}):
                            self._feature(feature, last)

    def _feature(self, start: int, end: int) -> None:
        for kind, at, till in self._messages(start, end, {_BYTES, _FLOATS, _INTEGERS}):
            for field, wire, value, stop in _fields(self._source, at, till):
                if field != 1:
                    raise ValueError("no list")
                if kind == _BYTES and wire == _LENGTH:
                    self._value(value, stop)
                elif kind == _FLOATS and wire in {_LENGTH, _FOUR}:
                    self._add((stop - value) // 4 * 4, (stop - value) // 4 * 4, stop)
                elif kind == _INTEGERS and wire in {_LENGTH, _VARINT}:
                    numbers = self._integers(value, stop) if wire == _LENGTH else 1
                    self._add(numbers * 8, numbers * 4, stop)
                else:
                    raise ValueError("no such value")

    def _value(self, start: int, end: int) -> None:
        length = end - start
        if length < _LABEL:
            self._add(length, length, end)
            return
        source = self._source.inside(start, length)
        found = read_member(source, with_containers=False)
        if found and found.native_bytes is not None:
            self.is_told = True
            self._add(found.native_bytes, found.float32_bytes or 0, end)
        else:
            is_packed = found is not None or source.head.startswith(_PACKED) or source.head[4:8] == b"ftyp"
            self.untold += length if is_packed else 0
            self._add(length, length, end)

    def _add(self, native: int, float32: int, end: int) -> None:
        self.native += native
        self.float32 += float32
        self.reached = end

    def _integers(self, start: int, end: int) -> int:
        """How many there are: the last byte of each has no high bit."""
        octets = self._source.at(start, min(end - start, _COUNTED))
        last = sum(octet < 0x80 for octet in octets)
        return round(last * (end - start) / len(octets)) if octets else 0

    def _messages(self, start: int, end: int, known: set[int]) -> Iterator[tuple[int, int, int]]:
        """(number, start, end) of fields with a length. Raises ValueError for any other."""
        for number, wire, at, till in _fields(self._source, start, end):
            if wire != _LENGTH or number not in known:
                raise ValueError("no such field")
            yield number, at, till


def _fields(source: Source, place: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, how it is written, start, end) of the value of each field."""
    while place < end:
        key, start = _varint(source, place, end)
        wire = key & 7
        if wire == _LENGTH:
            length, start = _varint(source, start, end)
            place = start + length
        elif wire == _VARINT:
            _, place = _varint(source, start, end)
        elif wire in {_FOUR, _EIGHT}:
            place = start + (4 if wire == _FOUR else 8)
        else:
            raise ValueError("no such wire type")
        if place > end:
            raise ValueError("longer than what it is in")
        yield key >> 3, wire, start, place


def _varint(source: Source, place: int, end: int) -> tuple[int, int]:
    """(number, place behind it): seven bits a byte, the low ones first."""
    number = 0
    for count, octet in enumerate(source.at(place, min(10, end - place))):
        number |= (octet & 0x7F) << 7 * count
        if octet < 0x80:
            return number, place + count + 1
    raise ValueError("no number")


def is_length(head: bytes) -> bool:
    """Whether a record starts here. The checksum of the length is right by chance once in four thousand million."""
    return len(head) >= 12 and int.from_bytes(head[8:12], "little") == masked_crc(head[:8])


def masked_crc(octets: bytes) -> int:
    """CRC-32C (Castagnoli, RFC 3720 B.4), rotated and shifted as TFRecord does."""
    crc = 0xFFFFFFFF
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF


PARSERS: Final = ((is_length, "TFRecord", tfrecord),)
