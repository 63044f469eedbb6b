"""JPEG, PNG, BMP, GIF and WebP: width, height and channels as they are decoded to (RGB for a
palette). Pure.

Sources: ITU-T T.81 annex B; PNG (W3C), 11.2.1; the bitmap headers of the Windows GDI documentation;
GIF89a, 18; RFC 9649 (WebP), RFC 6386, 9.1 (VP8).
"""

from __future__ import annotations

from typing import Final

from hosttune.measure.dataset.header import Header, Source, make_raster, make_start_test

# Start of frame; C4, C8 and CC are no frames (tables, reserved, arithmetic conditioning).
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE: Final = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a length
_PNG_CHANNELS: Final = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}


def parse_jpeg(source: Source) -> Header:
    """The first frame header; segments in between (Exif, colour profiles) are jumped over, not
    read.
    """
    place = 2
    while True:
        marker = source.at(place, 4)
        if marker[0] != 0xFF:
            raise ValueError("no marker")
        if marker[1] == 0xFF:  # fill bytes
            place += 1
        elif marker[1] in _BARE:
            place += 2
        elif marker[1] in _FRAMES:
            frame = source.at(place + 4, 6)
            height, width = int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big")
            # Twelve bits are rare (medical), and decoders give two bytes for them.
            return make_raster("JPEG", width, height, frame[5], 1 if frame[0] <= 8 else 2)
        elif marker[1] in {0xD9, 0xDA}:
            raise ValueError("data before a frame header")
        else:
            length = int.from_bytes(marker[2:4], "big")
            if length < 2:
                raise ValueError("a segment shorter than its length")
            place += 2 + length


def parse_png(source: Source) -> Header:
    if source.at(12, 4) != b"IHDR":
        raise ValueError("IHDR comes first")
    channels = _PNG_CHANNELS.get(source.at(25, 1)[0], 0)
    depth = source.at(24, 1)[0]
    # Less than eight bits are unpacked to a byte for each value.
    if depth not in {1, 2, 4, 8, 16}:
        raise ValueError("no such depth")
    return make_raster(
        "PNG",
        source.number(16, 4, ">"),
        source.number(20, 4, ">"),
        channels,
        2 if depth == 16 else 1,
    )


def parse_bmp(source: Source) -> Header:
    """`OS/2` headers have two bytes for each number; a negative height means top down."""
    length = source.number(14, 4, "<")
    if length == 12:
        return make_raster("BMP", source.number(18, 2, "<"), source.number(20, 2, "<"), 3)
    if not 16 <= length <= 256:
        raise ValueError("no such header")
    width, height = (
        int.from_bytes(source.at(place, 4), "little", signed=True) for place in (18, 22)
    )
    has_alpha = length >= 56 and source.number(28, 2, "<") == 32 and source.number(66, 4, "<") != 0
    if source.number(28, 2, "<") not in {1, 2, 4, 8, 16, 24, 32}:
        raise ValueError("no such depth")
    return make_raster("BMP", width, abs(height), 4 if has_alpha else 3)


def parse_gif(source: Source) -> Header:
    """The first frame: how many follow is nowhere in the header."""
    return make_raster("GIF", source.number(6, 2, "<"), source.number(8, 2, "<"), 3)


def parse_webp(source: Source) -> Header:
    kind = source.at(12, 4)
    if kind == b"VP8 ":
        if source.at(23, 3) != b"\x9d\x01\x2a":
            raise ValueError("no key frame")
        return make_raster(
            "WebP", source.number(26, 2, "<") & 0x3FFF, source.number(28, 2, "<") & 0x3FFF, 3
        )
    if kind == b"VP8L":
        bits = source.number(21, 4, "<")
        if source.at(20, 1) != b"\x2f":
            raise ValueError("no signature")
        return make_raster(
            "WebP", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, 4 if bits >> 28 & 1 else 3
        )
    if kind == b"VP8X":
        flags = source.at(20, 1)[0]
        return make_raster(
            "WebP",
            source.number(24, 3, "<") + 1,
            source.number(27, 3, "<") + 1,
            4 if flags & 0x10 else 3,
        )
    raise ValueError("no such chunk")


def _is_webp(head: bytes) -> bool:
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


def _is_bmp(head: bytes) -> bool:
    """Two letters are little: the reserved bytes are zero, and the header length is one that
    exists.
    """
    return head[:2] == b"BM" and head[6:10] == b"\0\0\0\0" and head[15:18] == b"\0\0\0"


PARSERS: Final = (
    (make_start_test(b"\xff\xd8\xff"), "JPEG", parse_jpeg),
    (make_start_test(b"\x89PNG\r\n\x1a\n"), "PNG", parse_png),
    (make_start_test(b"GIF87a", b"GIF89a"), "GIF", parse_gif),
    (_is_webp, "WebP", parse_webp),
    (_is_bmp, "BMP", parse_bmp),
)
