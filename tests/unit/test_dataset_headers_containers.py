"""TFRecord, Parquet and HDF5 as the libraries write them tell what their values take; what cannot be known is not told.

The files are made by dataset_files/generate.py with h5py 3.16 (HDF5 2.0), pyarrow 26, polars 1 and Google's protobuf; what is
expected of them is what numpy and pyarrow say of the data that went in.
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosttune.measure.dataset.formats import key_of
from hosttune.measure.dataset.header import MOST_BYTES, MOST_READS, Header, Source, read_header
from hosttune.measure.dataset.header_packed import GZIP, SNAPPY, beginning
from hosttune.measure.dataset.header_tfrecord import masked_crc
from hosttune.measure.dataset.header_thrift import Compact

FILES = {
    path.stem: gzip.decompress(path.read_bytes()) for path in Path(__file__).with_name("dataset_files").glob("*.gz")
}
PICTURE = 64 * 48 * 3
JPEG = b"\xff\xd8\xff\xc0\0\x11\x08\0\x30\0\x40\x03" + bytes(9)  # the same 64 x 48, as far as a header goes


def look(content: bytes) -> Header | None:
    return read_header(Source(len(content), lambda offset, length: content[offset : offset + length]))


TOLD = {
    "groups.h5": ("HDF5", 61_440 + 160 + 16 + 3 + 90 + 96 + 480 + 2 + 32, 61_440 * 4 + 80 + 16 + 3 + 90 + 48 + 240 + 4 + 32),
    "many.h5": ("HDF5", 80 * 80, 80 * 40),
    "table.parquet": ("Parquet", 50 * (46 + 7 + 12 + 4), 50 * (48 + 7 + 12 + 16)),
    "dictionary.parquet": ("Parquet", 500 * (3 + 5) + 1000 * 4, 500 * (3 + 5) + 1000 * 4),
    "pictures.parquet": ("Parquet", 4 * (PICTURE + 8 + 9), 4 * (PICTURE * 4 + 4 + 9)),
    "examples.tfrecord": ("TFRecord", 5 * PICTURE + 3 * 51 + 8, 5 * PICTURE * 4 + 3 * 35 + 4),
}  # fmt: skip
TOLD |= {"groups_v18.h5": TOLD["groups.h5"], "groups_latest.h5": TOLD["groups.h5"]}
TOLD |= {f"pictures_{how}.parquet": TOLD["pictures.parquet"] for how in ("plain", "v2", "snappy", "gzip", "gzip_v2")}
UNTOLD = {
    "dense.h5": "HDF5", "crowd.h5": "HDF5", "strings.h5": "HDF5", "nested_strings.h5": "HDF5", "external.h5": "HDF5",
    "virtual.h5": "HDF5", "named_type.h5": "HDF5", "pictures_zstd.parquet": "Parquet", "blobs.parquet": "Parquet",
    "long.parquet": "Parquet",
}  # fmt: skip


def test_files_are_all_expected():
    assert set(FILES) == {*TOLD, *UNTOLD}


@pytest.mark.parametrize("name", TOLD)
def test_container_tells_what_its_values_take(name):
    form, native, wide = TOLD[name]
    assert look(FILES[name]) == Header(form, native, wide, len(FILES[name]))


@pytest.mark.parametrize("name", UNTOLD)
def test_container_that_hides_its_values_is_only_named(name):
    assert look(FILES[name]) == Header(UNTOLD[name])


def field(number: int, value: bytes | int) -> bytes:
    """Of a message; lengths below 16,384."""
    if isinstance(value, int):
        return bytes((number << 3, value))
    length = bytes((len(value) & 0x7F | 0x80, len(value) >> 7)) if len(value) > 127 else bytes((len(value),))
    return bytes((number << 3 | 2,)) + length + value


def example(**features: bytes) -> bytes:
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, one)) for name, one in features.items()))


def values(*octets: bytes) -> bytes:
    return field(1, b"".join(field(1, one) for one in octets))


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc(length)) + payload + struct.pack("<I", masked_crc(payload))


def picture(size: int) -> bytes:
    return JPEG.ljust(size, b"\1")


def test_tfrecord_bytes_that_are_no_picture_count_as_they_are():
    content = record(example(image=values(bytes(3000)), label=field(3, field(1, 7)))) * 5
    assert look(content) == Header("TFRecord", 5 * 3008, 5 * 3004, len(content))


def test_tfrecord_numbers_may_be_written_one_by_one():
    one = example(floats=field(2, b"\x0d\0\0\0\0\x0d\0\0\0\0"), whole=field(3, b"\x08\x07\x08\xac\x02"))
    assert look(record(one)) == Header("TFRecord", 8 + 16, 8 + 8, len(record(one)))


def test_tfrecord_of_bare_pictures_is_their_size():
    content = record(picture(500)) * 3
    assert look(content) == Header("TFRecord", 3 * PICTURE, 3 * PICTURE * 4, len(content))


def test_tfrecord_longer_than_the_bounds_is_the_ratio_of_its_start():
    one = record(example(image=values(picture(9000)), label=field(3, field(1, 7))))
    found = look(one * 400)
    records = found.of_bytes // len(one)
    assert 8 <= records <= 16
    assert found.native_bytes / found.of_bytes == pytest.approx((PICTURE + 8) / len(one), rel=0.1)


def test_tfrecord_of_one_record_longer_than_the_bounds_is_the_ratio_of_its_start():
    found = look(
        record(field(1, b"".join(field(1, field(1, b"k") + field(2, values(picture(200)))) for _ in range(70))))
    )
    assert found.native_bytes / found.of_bytes == pytest.approx(PICTURE / 215, rel=0.1)


@pytest.mark.parametrize(
    "payload",
    [
        b"words " * 40,
        b"\x0a" + b"no message" * 40,
        field(1, b"\x0b" * 50),
        example(film=values(b"\0\0\0\x20ftypavif" + bytes(500)), label=field(3, field(1, 7))),
        example(sound=values(b"OggS" + bytes(500))),
        example(picture=values(b"\xff\xd8\xff\xd9" + bytes(500))),
    ],
    ids=range(6),
)
def test_tfrecord_whose_values_are_not_known_is_only_named(payload):
    assert look(record(payload) * 3) == Header("TFRecord")


def test_tfrecord_with_some_records_of_another_kind_counts_them_as_they_are():
    content = record(example(image=values(picture(300)))) + record(b"\x0a" + b"no message" * 40)
    assert look(content) == Header("TFRecord", PICTURE + 401, PICTURE * 4 + 401, len(content))


def test_tfrecord_cut_off_is_the_ratio_of_what_is_there():
    one = record(example(image=values(picture(3000))))
    assert look(one * 3 + one[:-1]) == Header("TFRecord", 3 * PICTURE, 3 * PICTURE * 4, 3 * len(one))


def test_tfrecord_packed_as_a_whole_is_none():
    assert look(gzip.compress(FILES["examples.tfrecord"])) is None


def test_tfrecord_in_itself_ends():
    content = bytes(70)
    for _ in range(60):
        content = record(content)
    assert look(content) == Header("TFRecord")


@pytest.mark.parametrize("suffix", ["tfrecord", "TFRecord-00003-of-01024", "tfrec"])
def test_key_of_a_numbered_shard_is_its_format(suffix):
    assert key_of(suffix) == "TFRecord"


@pytest.mark.parametrize("octets", [b"\x1c" * 5000, b"\x19\xfc\xff\xff\xff\xff\x0f", b"\x19\x99" * 5000, b"\x15", b"\x1b\xff\xff\xff\x7f", b"\x15" + b"\xff" * 20])  # fmt: skip
def test_thrift_that_nobody_writes_is_refused(octets):
    with pytest.raises(ValueError, match=r"\w"):
        Compact(octets).struct()


def test_beginning_of_snappy_is_what_was_packed():
    near, far, long = (
        bytes((1 | 1 << 2, 2)),
        struct.pack("<BH", 2 | 2 << 2, 7),
        b"\xf4" + struct.pack("<H", 299) + b"z" * 300,
    )
    packed = b"\xc4\x02" + b"\x04ab" + near + far + long
    whole = b"ab" + b"ababa" + b"aba" + b"z" * 300
    assert beginning(packed, SNAPPY, 4096) == whole
    assert beginning(packed[:-100], SNAPPY, 4096) == whole[:-100]
    assert beginning(packed, SNAPPY, 3) == whole[:7]


@pytest.mark.parametrize(
    ("octets", "codec"),
    [(b"\x05\x05\x01", SNAPPY), (b"\x05\x02\0\0", SNAPPY), (b"\xff" * 9, SNAPPY), (b"", SNAPPY), (b"no gzip", GZIP), (b"\x05\x04ab", 6)],
)  # fmt: skip
def test_beginning_of_what_was_never_packed_is_refused(octets, codec):
    with pytest.raises(ValueError, match=r"\w"):
        beginning(octets, codec, 4096)


def test_beginning_of_gzip_is_bounded():
    assert beginning(gzip.compress(bytes(1 << 20)), GZIP, 4096) == bytes(4096)


def changed(name: str, old: bytes, new: bytes) -> bytes:
    content = FILES[name]
    assert content.count(old) >= 1
    assert len(old) == len(new)
    return content.replace(old, new)


def test_hdf5_whose_data_are_not_as_long_as_its_shape_is_not_believed():
    dimension = struct.pack("<Q", 10)
    assert look(
        changed("many.h5", b"\x01\x01\x01\0\0\0\0\0" + dimension, b"\x01\x01\x01\0\0\0\0\0" + struct.pack("<Q", 11))
    ) == Header("HDF5")
    assert look(FILES["many.h5"][:-100]) == Header("HDF5")


def test_parquet_whose_rows_are_not_those_of_its_columns_is_not_believed():
    content = FILES["table.parquet"]
    assert look(content[:-9] + content[-8:]) == Header("Parquet")
    assert look(content[:-4] + b"PARE") == Header("Parquet")


class Counting:
    def __init__(self, content):
        self.content, self.asked, self.reads = content, 0, 0

    def __call__(self, offset, length):
        assert offset >= 0
        self.asked += length
        self.reads += 1
        return self.content[offset : offset + length]


def bounded(content: bytes) -> None:
    read = Counting(content)
    found = read_header(Source(len(content), read))
    assert read.asked <= MOST_BYTES
    assert read.reads <= MOST_READS
    if found is not None and found.native_bytes is not None:
        assert 0 < found.of_bytes <= len(content)
        assert 0 <= found.native_bytes <= found.of_bytes * 5_000 + (64 << 10)
        assert 0 <= found.float32_bytes <= (found.of_bytes * 5_000 + (64 << 10)) * 4


@settings(max_examples=1000, deadline=None)
@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 7)), max_size=40),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=8)), max_size=4),
    st.one_of(st.none(), st.integers(0, 1 << 20)),
)
def test_container_with_flipped_bits_is_bounded_and_never_fails(name, bits, octets, length):
    content = bytearray(FILES[name])
    for place, bit in bits:
        content[place % len(content)] ^= 1 << bit
    for place, piece in octets:
        start = place % len(content)
        content[start : start + len(piece)] = piece
    bounded(bytes(content if length is None else content[: length % len(content)]))
