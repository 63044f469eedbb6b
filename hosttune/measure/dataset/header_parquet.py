"""Parquet: values times their width, from the footer; pictures in columns of bytes, from the first pages. Pure.

Source: parquet.thrift and Encodings.md of Apache's parquet-format (2.13).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen
from hosttune.measure.dataset.header import Header, Pieces, Source, Spent, read_member, starting
from hosttune.measure.dataset.header_packed import beginning
from hosttune.measure.dataset.header_thrift import Compact, Struct, inner, structs, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOOLEAN, _INT32, _INT64, _INT96, _FLOAT, _DOUBLE, _BYTE_ARRAY, _FIXED = range(8)
_WIDTHS: Final = {_BOOLEAN: 1, _INT32: 4, _INT64: 8, _INT96: 12, _FLOAT: 4, _DOUBLE: 8}
_NARROW: Final = {11: 1, 12: 2, 15: 1, 16: 2}  # UINT_8, UINT_16, INT_8 and INT_16, which are stored as INT32
_FLOAT16: Final = 15  # a logical type
_OPTIONAL, _REPEATED = 1, 2
_PLAIN, _PLAIN_DICTIONARY = 0, 2
_DICTIONARIES: Final = (_PLAIN_DICTIONARY, 8)
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3  # kinds of pages
_HEADS: Final = (256, 8192)  # a page's header is short, unless it quotes the smallest and largest value
_VALUES: Final = 8
_BEGINNING: Final = 4096  # of a packed page: a picture tells its size early
_TRIFLE: Final = 0.01


@frozen
class _Leaf:
    """A column: bytes of a value decoded, and as float32 (0 where values differ in length). `is_raw`: bytes, and the
    schema does not say what they are. `levels`: how many lists of levels stand before the values of a page."""

    native: int
    float32: int
    is_raw: bool
    is_repeated: bool
    levels: int
    kind: int


@frozen
class _Chunk:
    """A column in a row group. `filled` is how many values are there, `text` the bytes that they take with a length
    before each; `is_exact`: not as they are kept in a dictionary. `place` is the first page."""

    values: int
    filled: int
    text: int
    is_exact: bool
    packed: int
    codec: int
    place: int


def parquet(source: Source) -> Header:
    """Not told: more than a trifle in columns of bytes that are no pictures or sounds, or are packed otherwise than by
    Snappy or gzip; a footer of more than 60 KiB; encrypted files, and those that only describe others."""
    footer = _footer(source)
    leaves = _leaves(structs(footer, 2))
    groups = [_chunks(group, leaves) for group in structs(footer, 4)]
    pieces = Pieces(source)
    native = float32 = packed = untold = 0
    for leaf, *chunks in zip(leaves, *groups, strict=True):
        sizes = _decoded(pieces, leaf, chunks)
        length = sum(one.packed for one in chunks)
        packed += length
        untold += 0 if sizes else length
        native += sizes[0] if sizes else length
        float32 += sizes[1] if sizes else length
    if packed > source.size:
        raise ValueError("columns longer than the file")
    return Header("Parquet") if untold > packed * _TRIFLE else Header("Parquet", native, float32)


def _footer(source: Source) -> Struct:
    tail = source.at(source.size - 8, 8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1":
        raise ValueError("cut off, or encrypted")
    return Compact(source.at(source.size - 8 - length, length)).struct()


def _leaves(schema: list[Struct]) -> list[_Leaf]:
    """The schema is a tree, written depth first with the number of children of each group."""
    if not schema:
        raise ValueError("no schema")
    found = []
    above = [(whole(schema[0], 5, 0), 0, 0)]  # children still to come, repeated and optional ancestors
    for element in schema[1:]:
        while above and not above[-1][0]:
            above.pop()
        if not above:
            raise ValueError("more columns than the schema has")
        left, repeated, optional = above.pop()
        above.append((left - 1, repeated, optional))
        repetition = whole(element, 3)
        if repetition > _REPEATED:
            raise ValueError("no such repetition")
        repeated += repetition == _REPEATED
        optional += repetition != 0
        if 1 in element:
            found.append(_leaf(element, repeated, optional))
        else:
            above.append((whole(element, 5), repeated, optional))
    return found


def _leaf(element: Struct, repeated: int, optional: int) -> _Leaf:
    kind = whole(element, 1)
    logical = inner(element, 10) if 10 in element else {}
    width = whole(element, 2) if kind == _FIXED else _WIDTHS.get(kind, 0)
    if not width and kind != _BYTE_ARRAY:
        raise ValueError("no such type")
    if kind == _INT32:
        bits = whole(inner(logical, 10), 1) if 10 in logical else 32
        width = bits // 8 if bits in {8, 16} else _NARROW.get(whole(element, 6, 0), width)
    is_number = kind in {_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE} or (width == 2 and _FLOAT16 in logical)
    return _Leaf(
        native=width,
        float32=4 if is_number else width,
        is_raw=kind == _BYTE_ARRAY and not logical and 6 not in element,
        is_repeated=repeated > 0,
        levels=(repeated > 0) + (optional > 0),
        kind=kind,
    )


def _chunks(group: Struct, leaves: list[_Leaf]) -> list[_Chunk]:
    rows = whole(group, 3)
    columns = structs(group, 1)
    if len(columns) != len(leaves):
        raise ValueError("not the columns of the schema")
    found = []
    for leaf, column in zip(leaves, columns, strict=True):
        about = inner(column, 3)
        if 1 in column or whole(about, 1) != leaf.kind or (whole(about, 5) != rows and not leaf.is_repeated):
            raise ValueError("not the column of the schema")
        found.append(_chunk(about))
    return found


def _chunk(about: Struct) -> _Chunk:
    values = whole(about, 5)
    sizes = inner(about, 16) if 16 in about else {}
    nulls = whole(inner(about, 12), 3, 0) if 12 in about else 0
    encodings = about.get(2)
    is_dictionary = not isinstance(encodings, list) or any(one in encodings for one in _DICTIONARIES)
    pages = [place for place in (whole(about, 9), whole(about, 11, 0)) if place]
    return _Chunk(
        values=values,
        filled=max(0, values - nulls),
        text=whole(sizes, 1) + 4 * values if 1 in sizes else whole(about, 6) if values else 0,
        is_exact=1 in sizes or not is_dictionary or not values,
        packed=whole(about, 7),
        codec=whole(about, 4),
        place=min(pages, default=0),
    )


def _decoded(source: Source, leaf: _Leaf, chunks: list[_Chunk]) -> tuple[int, int] | None:
    """(in the types of the file, as float32) of a column; None where that is not told."""
    if leaf.native:
        values = sum(one.values for one in chunks)
        return values * leaf.native, values * leaf.float32
    try:
        text = _text(source, chunks)
        if not leaf.is_raw or not text:
            return text, text
        native, float32, length = _members(source, leaf, chunks)
    except ValueError:
        return None
    return text * native // length, text * float32 // length


def _text(source: Source, chunks: list[_Chunk]) -> int:
    """Bytes of values that differ in length. Where they are kept in a dictionary, and no statistics tell more, each
    takes what an entry of the first dictionary takes on average."""
    text = sum(one.text for one in chunks)
    if all(one.is_exact for one in chunks):
        return text
    head, _ = _page_header(source, chunks[0].place)
    if whole(head, 1) != _DICTIONARY:
        return text
    entries = whole(inner(head, 7), 1)
    return max(text, sum(one.filled for one in chunks) * whole(head, 2) // entries if entries else 0)


def _members(source: Source, leaf: _Leaf, chunks: list[_Chunk]) -> tuple[int, int, int]:
    """(in their types, as float32, as they are) of a few pictures or sounds in a column. Raises ValueError for other
    bytes, and for pages that cannot be looked into."""
    native = float32 = length = told = 0
    with suppress(Spent):
        for member in _packed(source, leaf, chunks) if chunks[0].codec else _plain(source, leaf, chunks[0]):
            found = read_member(member, with_containers=False)
            if found and found.native_bytes is None:  # its header is longer than what was looked at
                continue
            told += found is not None
            native += (found.native_bytes or 0) if found else member.size
            float32 += (found.float32_bytes or 0) if found else member.size
            length += member.size + 4
    if not told:
        raise ValueError("no pictures")
    return native, float32, length


def _plain(source: Source, leaf: _Leaf, chunk: _Chunk) -> Iterator[Source]:
    """The first values of a column."""
    page = _page(source, chunk.place)
    place = page.place + page.levels
    for _ in range(0 if page.has_levels else leaf.levels):
        place += 4 + source.number(place, 4, "<")
    for _ in range(_VALUES):
        if place + 4 > page.place + page.length:
            return
        size = source.number(place, 4, "<")
        if place + 4 + size > page.place + page.length:
            raise ValueError("longer than its page")
        yield source.inside(place + 4, size)
        place += 4 + size


def _packed(source: Source, leaf: _Leaf, chunks: list[_Chunk]) -> Iterator[Source]:
    """The first value of each row group: what comes next lies behind what would have to be unpacked."""
    for chunk in chunks[:_VALUES]:
        page = _page(source, chunk.place)
        place = page.place + page.levels
        octets = source.at(place, min(_BEGINNING, page.length - page.levels))
        text = beginning(octets, chunk.codec, _BEGINNING) if page.is_packed else octets
        start = 0
        for _ in range(0 if page.has_levels else leaf.levels):
            start += 4 + int.from_bytes(text[start : start + 4], "little")
        size = int.from_bytes(text[start : start + 4], "little")
        value = text[start + 4 :]
        if size:
            yield Source(size, partial(_part, value))


def _part(octets: bytes, offset: int, length: int) -> bytes:
    return octets[offset : offset + length]


@frozen
class _Page:
    """`levels` bytes of levels come first, where the header tells (`has_levels`); else each list tells its length."""

    place: int
    length: int
    levels: int
    has_levels: bool
    is_packed: bool


def _page(source: Source, start: int) -> _Page:
    """The first page of a column, which is its dictionary if it has one. Raises ValueError where the values are not
    one after another."""
    head, place = _page_header(source, start)
    kind, length = whole(head, 1), whole(head, 3)
    if place + length > source.size:
        raise ValueError("a page longer than the file")
    if kind == _DICTIONARY and whole(inner(head, 7), 2) in {_PLAIN, _PLAIN_DICTIONARY}:
        return _Page(place, length, 0, has_levels=True, is_packed=True)
    if kind == _DATA and whole(inner(head, 5), 2) == _PLAIN:
        return _Page(place, length, 0, has_levels=False, is_packed=True)
    if kind == _DATA_V2 and whole(inner(head, 8), 4) == _PLAIN:
        about = inner(head, 8)
        levels = whole(about, 5) + whole(about, 6)
        if levels > length:
            raise ValueError("levels longer than their page")
        return _Page(place, length, levels, has_levels=True, is_packed=about.get(7) is not False)
    raise ValueError("values that do not lie there as they are")


def _page_header(source: Source, place: int) -> tuple[Struct, int]:
    """(header, place behind it)."""
    for length in _HEADS:
        reader = Compact(source.at(place, min(length, max(0, source.size - place))))
        try:
            return reader.struct(), place + reader.place
        except ValueError:
            continue
    raise ValueError("no header of a page")


PARSERS: Final = ((starting(b"PAR1"), "Parquet", parquet),)
