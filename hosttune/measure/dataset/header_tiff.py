"""TIFF and BigTIFF: the size of every page, as long as there are few. Pure.

Source: TIFF 6.0, section 2; the BigTIFF extension of libtiff (eight-byte offsets, twenty-byte
entries).
"""

from __future__ import annotations

from typing import Final

from hosttune.measure.dataset.header import Header, Source, make_raster, make_start_test

_PAGES: Final = 16
_WIDTH, _HEIGHT, _BITS, _SAMPLES, _COLOURS, _REDUCED = 256, 257, 258, 277, 262, 254
_PALETTE: Final = 3
_LENGTHS: Final = {1: 1, 3: 2, 4: 4, 16: 8}  # BYTE, SHORT, LONG, LONG8


def parse_tiff(source: Source) -> Header:
    """All pages but those that are smaller versions of one (pyramids). More pages than are looked
    at: not known.
    """
    order = "<" if source.at(0, 2) == b"II" else ">"
    is_big = source.number(2, 2, order) == 43
    place = source.number(8, 8, order) if is_big else source.number(4, 4, order)
    native = float32 = 0
    for _ in range(_PAGES):
        tags, place = _parse_page(source, place, order, is_big=is_big)
        # A pyramid holds the same picture several times, and a program decodes one of them.
        if not tags.get(_REDUCED, 0) & 1:
            channels = 3 if tags.get(_COLOURS) == _PALETTE else tags.get(_SAMPLES, 1)
            depth = -(-tags.get(_BITS, 1) // 8)
            page = make_raster("TIFF", tags.get(_WIDTH, 0), tags.get(_HEIGHT, 0), channels, depth)
            native += page.native_bytes or 0
            float32 += page.float32_bytes or 0
        # A chain that ends in itself never gets here: the number of pages bounds it.
        if not place:
            return Header("TIFF", native, float32)
    raise ValueError("many pages")


def _parse_page(
    source: Source, place: int, order: str, *, is_big: bool
) -> tuple[dict[int, int], int]:
    """(tag -> first value, place of the next page or 0)."""
    width, entry, inner = (8, 20, 8) if is_big else (2, 12, 4)
    count = source.number(place, width, order)
    # BigTIFF counts in 64 bits: a table of that length would be asked for at once.
    if not 0 < count <= 200:
        raise ValueError("no page has so many tags")
    table = source.at(place + width, count * entry)
    tags: dict[int, int] = {}
    for start in range(0, len(table), entry):
        tag, kind = (_parse_number(table[start + at : start + at + 2], order) for at in (0, 2))
        if (
            tag not in {_WIDTH, _HEIGHT, _BITS, _SAMPLES, _COLOURS, _REDUCED}
            or kind not in _LENGTHS
        ):
            continue
        length = _LENGTHS[kind]
        values = _parse_number(table[start + 4 : start + 4 + inner], order)
        field = table[start + entry - inner : start + entry]
        if values * length > inner:  # more values than fit: the field holds where they are
            field = source.at(_parse_number(field, order), length)
        tags[tag] = _parse_number(field[:length], order)
    following = place + width + count * entry
    return tags, source.number(following, inner, order)


def _parse_number(octets: bytes, order: str) -> int:
    return int.from_bytes(octets, "little" if order == "<" else "big")


PARSERS: Final = ((make_start_test(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), "TIFF", parse_tiff),)
