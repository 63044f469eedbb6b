"""Headers tell the decoded size; whatever else a file holds, reading is bounded, never fails and
believes no nonsense.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import wave
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosttune.measure.dataset.header import MOST_BYTES, Header, ReadUnit, Source, read_header


def look(content: bytes, size: int | None = None) -> Header | None:
    """The header of a file that holds `content` and then zeros up to `size`."""
    whole = len(content) if size is None else size

    def read(offset, length):
        length = min(length, max(0, whole - offset))
        return content[offset : offset + length].ljust(length, b"\0")

    return read_header(Source(whole, read))


def jpeg(width, height, channels=3, *, before=b"", frame=0xC0):
    body = struct.pack(">BHHB", 8, height, width, channels) + bytes(3 * channels)
    return b"\xff\xd8" + before + bytes((0xFF, frame)) + struct.pack(">H", len(body) + 2) + body


def segment(marker, length):
    return bytes((0xFF, marker)) + struct.pack(">H", length + 2) + bytes(length)


def png(width, height, colour=2, depth=8):
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I4sIIBB", 13, b"IHDR", width, height, depth, colour)
        + bytes(7)
    )


def bmp(width, height, bits=24):
    return (
        b"BM"
        + struct.pack("<IHHI", 0, 0, 0, 54)
        + struct.pack("<IiiHH", 40, width, height, 1, bits)
        + bytes(24)
    )


def tiff(pages, order="<", *, big=False):
    """Each page: (width, height, bits, samples). Several bits values lie outside of their entry."""
    mark = b"II" if order == "<" else b"MM"
    start = 16 if big else 8
    out = mark + (
        struct.pack(order + "HHHQ", 43, 8, 0, start)
        if big
        else struct.pack(order + "HI", 42, start)
    )
    for number, (width, height, bits, samples) in enumerate(pages):
        tags = [
            (256, 4, 1, width),
            (257, 3, 1, height),
            (258, 3, samples, bits),
            (277, 3, 1, samples),
        ]
        entry, inner = (20, 8) if big else (12, 4)
        table = len(out) + (8 if big else 2) + len(tags) * entry + inner
        body = struct.pack(order + ("Q" if big else "H"), len(tags))
        for tag, kind, count, value in tags:
            form = "H" if kind == 3 else "I"
            if count * 2 > inner:
                field = struct.pack(order + ("Q" if big else "I"), table)
            else:
                field = (struct.pack(order + form, value) * count).ljust(inner, b"\0")
            body += struct.pack(order + "HH" + ("Q" if big else "I"), tag, kind, count) + field
        after = table + 2 * samples
        last = number == len(pages) - 1
        body += struct.pack(order + ("Q" if big else "I"), 0 if last else after)
        out += body + struct.pack(order + "H", bits) * samples
    return out


def sound(seconds=1, channels=2):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(8000 * seconds * channels * 2))
    return out.getvalue()


def flac(samples, channels=2, bits=16):
    packed = 44_100 << 44 | (channels - 1) << 41 | (bits - 1) << 36 | samples
    return b"fLaC\x80\0\0\x22" + bytes(10) + packed.to_bytes(8, "big") + bytes(16)


def npy(shape="(10, 20)", descr="'<f4'", held=800, version=1):
    text = (
        f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117)
        + b"\n"
    )
    return (
        b"\x93NUMPY"
        + bytes((version, 0))
        + len(text).to_bytes(2 if version == 1 else 4, "little")
        + text
        + bytes(held)
    )


def npz(*names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name in names:
            file.writestr(name, bytes(5000))
    return out.getvalue()


def shard(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return out.getvalue()


WEBP_LOSSY = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 500, 375)
WEBP_LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 499 | 374 << 14 | 1 << 28)
WEBP_EXTENDED = (
    b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0"
    + (499).to_bytes(3, "little")
    + (374).to_bytes(3, "little")
)
PICTURE = 500 * 375

CASES = {
    "jpeg": (jpeg(500, 375), "JPEG", PICTURE * 3, PICTURE * 12),
    "jpeg grey": (jpeg(500, 375, 1), "JPEG", PICTURE, PICTURE * 4),
    "jpeg progressive behind Exif": (jpeg(500, 375, before=segment(0xE1, 60_000) * 3, frame=0xC2), "JPEG", PICTURE * 3, PICTURE * 12),
    "jpeg with fill bytes": (jpeg(500, 375, before=b"\xff\xe0\0\4ab\xff\xff\xff"[:-1]), "JPEG", PICTURE * 3, PICTURE * 12),
    "png": (png(500, 375), "PNG", PICTURE * 3, PICTURE * 12),
    "png palette": (png(500, 375, 3, 4), "PNG", PICTURE * 3, PICTURE * 12),
    "png alpha": (png(500, 375, 6), "PNG", PICTURE * 4, PICTURE * 16),
    "png 16 bits grey": (png(500, 375, 0, 16), "PNG", PICTURE * 2, PICTURE * 4),
    "bmp": (bmp(500, 375), "BMP", PICTURE * 3, PICTURE * 12),
    "bmp top down": (bmp(500, -375), "BMP", PICTURE * 3, PICTURE * 12),
    "gif": (b"GIF89a" + struct.pack("<HH", 500, 375), "GIF", PICTURE * 3, PICTURE * 12),
    "webp": (WEBP_LOSSY, "WebP", PICTURE * 3, PICTURE * 12),
    "webp lossless": (WEBP_LOSSLESS, "WebP", PICTURE * 4, PICTURE * 16),
    "webp extended": (WEBP_EXTENDED, "WebP", PICTURE * 4, PICTURE * 16),
    "tiff": (tiff([(500, 375, 8, 3)]), "TIFF", PICTURE * 3, PICTURE * 12),
    "tiff Motorola 16 bits": (tiff([(500, 375, 16, 1)], ">"), "TIFF", PICTURE * 2, PICTURE * 4),
    "tiff two pages": (tiff([(500, 375, 8, 3), (500, 375, 8, 1)]), "TIFF", PICTURE * 4, PICTURE * 16),
    "bigtiff": (tiff([(500, 375, 8, 4)], big=True), "TIFF", PICTURE * 4, PICTURE * 16),
    "flac": (flac(100_000), "FLAC", 400_000, 800_000),
    "flac 24 bits": (flac(100_000, 1, 24), "FLAC", 400_000, 400_000),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_header_tells_the_decoded_size(name):
    content, form, native, wide = CASES[name]
    size = max(len(content), 40_000)
    assert look(content, size) == Header(form, native, wide, size)


def test_header_of_sound_is_what_its_data_holds():
    content = sound()
    assert look(content) == Header("WAV", 32_000, 64_000, len(content))
    unfinished = content.replace(b"data\0\x7d\0\0", b"data\xff\xff\xff\xff")
    assert unfinished != content
    assert look(unfinished) == Header("WAV", 32_000, 64_000, len(content))


def test_header_of_arrays_is_what_the_file_holds():
    assert look(npy()) == Header("npy", 800, 800, len(npy()))
    assert look(npy("(100,)", "'|u1'", 100)) == Header(
        "npy", 100, 400, len(npy("(100,)", "'|u1'", 100))
    )
    assert look(npy("()", "'<f8'", 8, version=2)) == Header(
        "npy", 8, 4, len(npy("()", "'<f8'", 8, version=2))
    )
    records = npy("(100,)", "[('a', '<f4'), ('b', '<i8')]", 1200)
    assert look(records).native_bytes == 1200
    assert look(npy("(10, 21)")) == Header("npy")
    assert look(npz("a.npy", "b.npy")) == Header("npz")  # no arrays in it
    assert look(npz("a.npy", "b.txt")) == Header("zip")
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", kind) as archive:
            archive.writestr("a.npy", npy("(100,)", "'|u1'", 100))
            archive.writestr("b.npy", npy("(100,)", "'<f8'", 800))
        content = packed.getvalue()
        assert look(content) == Header(
            "npz", 900, 800, len(content)
        )  # 100 and 100 numbers of four bytes


def safetensors(table, held):
    text = json.dumps(table).encode()
    return len(text).to_bytes(8, "little") + text + bytes(held)


def test_header_of_safetensors_is_what_the_file_holds():
    one = {"dtype": "BF16", "shape": [10, 20], "data_offsets": [0, 400]}
    content = safetensors({"__metadata__": {"format": "pt"}, "w": one}, 400)
    assert look(content) == Header("safetensors", 400, 800, len(content))
    for broken in (
        safetensors({"w": one}, 399),
        safetensors({"w": {**one, "shape": [1 << 62, 2]}}, 400),
        safetensors({"w": {**one, "shape": "ab"}}, 400),
        safetensors({"w": {**one, "dtype": ["F32"]}}, 400),
    ):
        assert look(broken) == Header("safetensors")


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (b"\x89HDF\r\n\x1a\n" + bytes(90), "HDF5"),
        (b"PAR1" + bytes(90) + b"PAR1", "Parquet"),
        (b"ARROW1\0\0" + bytes(90), "Arrow"),
    ],
)
def test_header_of_containers_is_recognized(content, form):
    assert look(content) == Header(form)


FILES = Path(__file__).parent / "dataset_files"


def packed(name):
    return gzip.decompress((FILES / f"{name}.gz").read_bytes())


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("groups.h5", ReadUnit(5, 15_360, 3_072, "gzip")),
        ("groups_v18.h5", ReadUnit(5, 15_360, 3_072, "gzip")),
        ("groups_latest.h5", ReadUnit(5, 15_360, 3_072, "gzip")),
        ("wide.h5", ReadUnit(8, 75_264, 9_408, "lzf")),  # a row is in 12 chunks
        ("many.h5", None),  # of one dimension: what a sample is cannot be known
        ("strings.h5", None),
        ("virtual.h5", None),
    ],
)
def test_header_of_hdf5_is_what_one_row_of_the_largest_array_costs(name, unit):
    """h5py issue 2568: pictures in chunks of 12 with gzip, which are read one at a time."""
    assert look(packed(name)) == Header("HDF5", unit=unit)


def test_broken_object_of_hdf5_does_not_hide_the_others():
    content = packed("groups_latest.h5").replace(struct.pack("<Q", 1032), struct.pack("<Q", 8))
    assert look(content) == Header("HDF5", unit=ReadUnit(5, 15_360, 3_072, "gzip"))


def test_a_node_of_hdf5_that_names_itself_has_an_end():
    """What is in the start of a file costs no read, so that the bound of reads alone never
    comes.
    """
    content = bytearray(4096)
    content[:16] = b"\x89HDF\r\n\x1a\n" + bytes((0, 0, 0, 0, 0, 8, 8, 0))
    content[64:72] = struct.pack(
        "<Q", 128
    )  # the root group, whose only message is a table of symbols
    content[128:160] = struct.pack("<BxxxxxxxIxxxxHHBxxxQ", 1, 24, 17, 16, 0, 256)
    content[256:264] = b"TREE\0\0" + struct.pack("<H", 200)
    content[288 : 288 + 3200] = struct.pack("<QQ", 256, 0) * 200
    assert look(bytes(content)) == Header("HDF5")
    assert look(shard(("a.h5", bytes(content)), ("b.jpg", jpeg(500, 375)))).headers == 1


def test_header_of_parquet_is_the_size_of_a_row_group():
    assert look(packed("table.parquet")) == Header("Parquet", unit=ReadUnit(30, 1_824, 60))
    assert look(packed("blobs.parquet")) == Header("Parquet", unit=ReadUnit(4, 517, 129))
    content = packed("table.parquet")
    assert look(content[:-4] + b"PARE") == Header("Parquet")  # an encrypted footer
    assert look(content[:-8] + b"\xff\xff\xff\x7fPAR1") == Header(
        "Parquet"
    )  # a footer longer than the file


@pytest.mark.parametrize("name", ["groups.h5", "groups_latest.h5", "wide.h5", "table.parquet"])
@given(st.data())
@settings(max_examples=150, deadline=None)
def test_header_of_a_broken_container_is_bounded(name, data):
    """Every byte of it may be wrong, and the file may claim to be of any size."""
    content = bytearray(packed(name))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    found = look(bytes(content), data.draw(st.sampled_from([None, 1 << 40])))
    assert found is None or found.unit is None or 0 < found.unit.unpacked_bytes <= 1 << 40


def test_header_of_shard_is_the_ratio_of_its_members():
    picture = jpeg(500, 375).ljust(30_000, b"\1")
    members = [
        (f"{number}.{end}", content)
        for number in range(200)
        for end, content in (("jpg", picture), ("cls", b"7"))
    ]
    found = look(shard(*members))
    assert found.format == "tar"
    assert abs(found.native_bytes - 200 * (PICTURE * 3 + 1)) < 2.5 * found.error_bytes
    assert found.of_bytes == len(shard(*members))
    assert 0 < found.error_bytes < 0.02 * found.native_bytes
    assert look(shard(("a.txt", b"words"))) == Header("tar")


def test_header_of_a_short_shard_is_the_sum_of_its_members():
    content = shard(("a.jpg", jpeg(500, 375).ljust(700, b"\1")), ("a.txt", b"words"))
    assert look(content) == Header("tar", PICTURE * 3 + 5, PICTURE * 12 + 5, len(content))


@pytest.mark.parametrize("first", [0, 1])
def test_header_of_a_shard_whose_kinds_lie_one_after_the_other_is_that_of_both(first):
    kinds = [jpeg(500, 375).ljust(5_000, b"\1"), jpeg(500, 375).ljust(70_000, b"\1")]
    found = look(shard(*((f"{n}.jpg", kinds[n // 300 ^ first]) for n in range(600))))
    assert abs(found.native_bytes - 600 * PICTURE * 3) < 2.5 * found.error_bytes
    assert found.error_bytes < 0.5 * found.native_bytes


def test_header_of_a_whole_shard_is_read_to_its_end():
    kinds = [jpeg(500, 375).ljust(5_000, b"\1"), jpeg(50, 30).ljust(7_000, b"\1")]
    content = shard(*((f"{n}.jpg", kinds[n // 200]) for n in range(400)))
    found = read_header(
        Source(
            len(content), lambda offset, length: content[offset : offset + length], is_whole=True
        )
    )
    assert found == Header(
        "tar", 200 * (PICTURE * 3 + 4_500), 200 * (PICTURE * 12 + 18_000), len(content), headers=400
    )


def tar_header(size, kind=b"0"):
    """A member's header with this field of its size, and the right checksum."""
    block = bytearray(512)
    block[:1], block[124 : 124 + len(size)], block[156:157] = b"a", size, kind
    block[148:156] = b"%06o\0 " % (sum(block) + 8 * 0x20)
    return bytes(block)


def whole(content, **words):
    return read_header(
        Source(
            len(content),
            lambda offset, length: content[offset : offset + length],
            is_whole=True,
            **words,
        )
    )


@pytest.mark.parametrize(
    "size", [b"-0000001000", b"+0000000010", b"0o10", b"1_0", b"1 0", b"\xff" * 12, b"8"]
)
def test_members_of_a_size_that_is_no_octal_number_end_a_shard(size):
    assert whole(
        tar_header(b"5", b"0") + bytes(512) + tar_header(size, b"5") + bytes(10_240)
    ) == Header("tar")


def test_shards_inside_of_shards_count_as_they_are_however_deep():
    content = jpeg(500, 375).ljust(1024, b"\1")
    for _ in range(2_000):
        content = tar_header(b"%011o" % len(content)) + content
    found = whole(
        content + tar_header(b"%011o" % 512) + jpeg(500, 375).ljust(512, b"\1") + bytes(1024)
    )
    assert (found.headers, found.native_bytes) == (1, 1024 + 1_999 * 512 + PICTURE * 3)


def test_a_member_costs_no_more_than_a_file_and_does_not_hide_the_next_one():
    slow = b"\xff\xd8" + b"\xff" * 1_000_000  # fill bytes: each is asked for by itself
    content = shard(("a.jpg", slow), ("b.jpg", jpeg(500, 375).ljust(700, b"\1")))
    read = Counting(content, len(content))
    found = read_header(Source(len(content), read, is_whole=True))
    assert (found.headers, found.native_bytes) == (1, len(slow) + PICTURE * 3)
    assert read.reads < 200


def test_reading_of_a_whole_shard_ends_with_the_time():
    content = shard(*((str(number), b"words") for number in range(50)))
    left = iter([True] * 10)
    found = whole(content, has_time=lambda: next(left, False))
    assert found == Header("tar")


@pytest.mark.parametrize(
    "content",
    [
        png(2**31 - 1, 2**31 - 1), jpeg(65535, 65535), jpeg(0, 375), jpeg(500, 0), b"GIF89a\xff\xff\xff\xff", WEBP_EXTENDED,
        tiff([(2**32 - 1, 65535, 64, 60)]), flac(2**36 - 1), flac(0), png(500, 375, 7), png(500, 375, 2, 9),
        jpeg(500, 375, frame=0xDA), jpeg(500, 375, 0), bmp(-5, 5), bmp(5, 5, 77), tiff([(1, 1, 8, 1)] * 17),
    ],
    ids=range(16),
)  # fmt: skip
def test_header_that_cannot_be_true_is_not_believed(content):
    found = look(content)
    assert found is not None
    assert (found.native_bytes, found.float32_bytes) == (None, None)


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"hello world, this is text", b"\xff\xd8", b"BM is no picture here at all"],
)
def test_header_of_anything_else_is_none(content):
    assert look(content) is None


class Counting:
    def __init__(self, content, size):
        self.content, self.size, self.asked, self.reads = content, size, 0, 0

    def __call__(self, offset, length):
        self.asked += length
        self.reads += 1
        assert 0 <= offset <= self.size
        length = min(length, max(0, self.size - offset))
        return (self.content[offset:] + self.content)[:length].ljust(length, b"\0")


STARTS = [
    *(case[0] for case in CASES.values()), sound(), npy(), npz("a.npy"), shard(("a.jpg", jpeg(500, 375)), ("b.png", png(5, 5))),
    shard(("a.tar", shard(("b.tar", shard(("c.jpg", jpeg(500, 375))))))), tiff([(9, 9, 8, 3)] * 4), b"\x89HDF\r\n\x1a\n",
]  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(STARTS),
    st.lists(st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=8)), max_size=6),
    st.binary(max_size=300),
    st.one_of(st.integers(0, 5000), st.integers(0, 1 << 50)),
)
def test_header_of_hostile_bytes_is_bounded_and_never_fails(start, changes, tail, size):
    content = bytearray(start + tail)
    for number, octets in changes:
        place = number % len(content)
        content[place : place + len(octets)] = octets
    read = Counting(bytes(content), size)
    found = read_header(Source(size, read))
    assert read.asked <= MOST_BYTES
    if found is not None and found.native_bytes is not None:
        assert 0 <= found.native_bytes <= max(size, found.of_bytes) * 5_000 + (64 << 10)
        assert 0 <= found.float32_bytes <= (max(size, found.of_bytes) * 5_000 + (64 << 10)) * 4
        assert 0 < found.of_bytes <= size


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=6000))
def test_header_of_any_bytes_never_fails(content):
    look(content)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(zlib.compress(bytes(10))) + 3000), st.sampled_from(STARTS))
def test_header_of_a_file_cut_short_never_fails(length, start):
    found = look(start[:length])
    if found and found.native_bytes is not None:
        assert found.native_bytes <= max(length, 1) * 5_000 + (64 << 10)
