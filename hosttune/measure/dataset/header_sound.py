"""WAV and FLAC: samples times channels. Pure.

Sources: Multimedia Programming Interface 1.0 (RIFF WAVE), EBU Tech 3306 (RF64); RFC 9639, 8.2 (FLAC
STREAMINFO).
"""

from __future__ import annotations

from typing import Final

from hosttune.measure.dataset.header import Header, Source, make_start_test

_PLAIN: Final = frozenset({1, 3, 0xFFFE})  # PCM, float, extensible; others are codecs
_CHUNKS: Final = 32


def parse_wav(source: Source) -> Header:
    """The samples are stored as they are: the size of the data chunk, which a recorder may have
    left at nothing.
    """
    place, bits = 12, 0
    for _ in range(_CHUNKS):
        name, length = source.at(place, 4), source.number(place + 4, 4, "<")
        if name == b"fmt ":
            if source.number(place + 8, 2, "<") not in _PLAIN:
                raise ValueError("packed by a codec")
            bits = source.number(place + 22, 2, "<")
        elif name == b"data":
            if bits not in {8, 16, 24, 32, 64}:
                raise ValueError("no such depth")
            there = source.size - place - 8
            # A stream that was never closed has 0 or 0xFFFFFFFF here, and RF64 keeps the true size
            # elsewhere: the file ends the data.
            held = min(length, there) if length else there
            return Header("WAV", held, held // (bits // 8) * 4)
        # RIFF chunks are padded to an even length, which the size does not count.
        place += 8 + length + length % 2
    raise ValueError("no data")


def parse_flac(source: Source) -> Header:
    """STREAMINFO comes first: 20 bits of rate, 3 of channels - 1, 5 of depth - 1, 36 of samples; 0
    is unknown.
    """
    if source.at(4, 1)[0] & 0x7F != 0:
        raise ValueError("STREAMINFO comes first")
    packed = source.number(18, 8, ">")
    samples, depth, channels = (
        packed & (1 << 36) - 1,
        (packed >> 36 & 31) + 1,
        (packed >> 41 & 7) + 1,
    )
    if not samples or depth < 4:
        raise ValueError("the length is not known")
    numbers = samples * channels
    stored = 1 if depth <= 8 else 2 if depth <= 16 else 4
    return Header("FLAC", numbers * stored, numbers * 4)


def _is_wav(head: bytes) -> bool:
    return head[:4] in {b"RIFF", b"RF64"} and head[8:12] == b"WAVE"


PARSERS: Final = ((_is_wav, "WAV", parse_wav), (make_start_test(b"fLaC"), "FLAC", parse_flac))
