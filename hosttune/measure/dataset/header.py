"""What the first bytes of a file say that it is, and how large it becomes when it is decoded. Pure.

Every parser asks its `Source` for a few bytes at a place; all of them together are bounded, so that
no file, whatever it claims, costs more than that. Numbers in a header were written by someone: what
cannot be true is not believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    Parse = Callable[["Source"], "Header"]

WINDOW: Final = 4096  # bytes of the start, read at once
MOST_BYTES: Final = 64 << 10  # of one file, over all reads
MOST_READS: Final = 96
# also into the start, which costs no read: what points at itself there has no end
MOST_LOOKS: Final = 1 << 14
# No common codec packs better: deflate ends at 1,032 to 1, a silent FLAC or a one-coloured GIF at a
# few thousand.
_BEST_RATIO: Final = 5_000
_SLACK: Final = 64 << 10
_ARROW: Final = b"ARROW1"  # Arrow's file format: only its library knows what is in it


@frozen
class ReadUnit:
    """What has to be unpacked for one row that is read at random: so many rows, and their bytes,
    against those of one row. `packing` is the name of the codec, "" where it is not known or there
    is none.
    """

    rows: int
    unpacked_bytes: int
    row_bytes: int
    packing: str = ""


@frozen
class Header:
    """`native_bytes` is the decoded size in the type that the file stores (uint8 for most pictures,
    int16 for sound), `float32_bytes` with four bytes for each number; None where the header does
    not tell. `of_bytes` is what becomes that: the file, or the part of a container that was looked
    at, so that the ratio counts. `error_bytes` is the standard error of `native_bytes` where a part
    of the file is read for the whole. `headers` have it: of a container those of its members.
    `unit` is known of HDF5 and Parquet.
    """

    format: str
    native_bytes: int | None = None
    float32_bytes: int | None = None
    of_bytes: int = 0
    error_bytes: int = 0
    headers: int = 1
    unit: ReadUnit | None = None


class Spent(ValueError):
    """The bounds of a file or the time are reached: what comes next in it is not known to be
    wrong.
    """


class Source:
    """A few bytes of a file. `read` is pread(2): (offset, length) -> bytes, shorter at the end of
    the file. `is_whole` asks for all parts of a container, instead of some. `has_time` is asked
    before each read.
    """

    _too_long: type[ValueError] = Spent

    def __init__(
        self,
        size: int,
        read: Callable[[int, int], bytes],
        *,
        is_whole: bool = False,
        has_time: Callable[[], bool] = lambda: True,
    ) -> None:
        self.size = size
        self._read = read
        self._has_time = has_time
        self._left: float = MOST_BYTES
        self._reads: float = MOST_READS
        self._looks: float = MOST_LOOKS
        self.is_whole = is_whole
        self.head = self._fetch(0, WINDOW)

    def at(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes. Raises ValueError where the file has fewer, Spent where it was
        asked for too much.
        """
        # Offsets come out of the file, and pread(2) answers EINVAL to a negative one, which would
        # be taken for a fault of the disk.
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ValueError("beyond the end of the file")
        # Counted before the head is asked: two structures that point at each other inside of it
        # cost no read, and would go on for ever.
        self._looks -= 1
        if self._looks < 0:
            raise self._too_long("the header is too long")
        if offset + length <= len(self.head):
            return self.head[offset : offset + length]
        # The file may shrink while it is read; a short answer is not padded.
        found = self._fetch(offset, length)
        if len(found) != length:
            raise ValueError("shorter than it was")
        return found

    def number(self, offset: int, length: int, order: str) -> int:
        """An unsigned number; `order` is "<" or ">"."""
        return int.from_bytes(self.at(offset, length), "little" if order == "<" else "big")

    def inside(self, offset: int, length: int) -> Source:
        """A member of a container as a file of its own, with the bounds of one; its reads count
        here, too.
        """
        return _Inside(self, offset, length)

    def allow(self, length: float, reads: float) -> None:
        """As much more, for a container."""
        self._left += length
        self._reads += reads
        self._looks += reads

    def _fetch(self, offset: int, length: int) -> bytes:
        self._left -= length
        self._reads -= 1
        if self._left < 0 or self._reads < 0 or not self._has_time():
            raise self._too_long("the header is too long")
        return self._read(offset, length)


class _Inside(Source):
    """What is too long in one member ends the look at that one."""

    _too_long = ValueError

    def __init__(self, outer: Source, offset: int, length: int) -> None:
        super().__init__(
            length, lambda place, count: outer.at(offset + place, min(count, length - place))
        )


def read_header(source: Source) -> Header | None:
    """None for what no parser knows. Never raises because of what a file holds."""
    try:
        return read_member(source)
    except Spent:
        # The format is known by its first bytes even where time or reads ended before its size was.
        return Header(_choose_parser(source.head, with_containers=True)[0])


def read_member(source: Source, *, with_containers: bool = True) -> Header | None:
    """The same for a part of a container: one inside of another counts as it is, because depth has
    no limit. Raises Spent if the bounds of the file are reached before the part shows anything.
    """
    name, parse = _choose_parser(source.head, with_containers=with_containers)
    if not parse:
        return None
    try:
        return check_header(parse(source), source.size)
    except Spent:
        raise
    except ValueError:
        return Header(name)


def _choose_parser(head: bytes, *, with_containers: bool) -> tuple[str, Parse | None]:
    # Imported here: each of them needs this module, and a look without headers needs none of them.
    from hosttune.measure.dataset import (
        header_arrays,
        header_hdf5,
        header_parquet,
        header_pictures,
        header_sound,
        header_tar,
        header_tiff,
    )

    values = (header_pictures, header_sound, header_arrays, header_tiff)
    for module in (
        *values,
        *((header_tar, header_hdf5, header_parquet) if with_containers else ()),
    ):
        for starts, name, parse in module.PARSERS:
            if starts(head):
                return name, parse
    return ("Arrow", _tell_nothing) if with_containers and head.startswith(_ARROW) else ("", None)


def _tell_nothing(_: Source) -> Header:
    raise ValueError("its library has it")


def check_header(header: Header, size: int) -> Header:
    """The header without figures that cannot be true of a file of this size in bytes."""
    most = (header.of_bytes or size) * _BEST_RATIO + _SLACK
    sizes = (header.native_bytes, header.float32_bytes)
    if (
        # Four times, because float32 takes up to four bytes for each byte that is stored.
        any(value is None or not 0 <= value <= most * 4 for value in sizes)
        or (header.native_bytes or 0) > most
    ):
        return Header(header.format, unit=header.unit)
    return header if header.of_bytes else Header(header.format, *sizes, size, header.error_bytes)


def make_start_test(*magics: bytes) -> Callable[[bytes], bool]:
    """Whether a head begins with one of these."""
    return lambda head: head.startswith(magics)


def make_raster(name: str, width: int, height: int, channels: int, depth_bytes: int = 1) -> Header:
    """The header of a picture. Raises ValueError for one without an area, or with a channel that no
    one stores.
    """
    if not (min(width, height) > 0 and 0 < channels <= 64 and depth_bytes in {1, 2, 4, 8}):
        raise ValueError("no picture has this shape")
    numbers = width * height * channels
    return Header(name, numbers * depth_bytes, numbers * 4)
