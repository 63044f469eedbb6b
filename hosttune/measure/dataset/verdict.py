"""From what was found to what to do about it. Pure. Figures are own measurements, and say on
what.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hosttune.measure.dataset.formats import kind_of
from hosttune.measure.dataset.found import DatasetAdvice
from hosttune.numbers import say_count, say_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.measure.dataset.decoded import Decoded
    from hosttune.measure.dataset.estimate import Sizes
    from hosttune.measure.dataset.header import ReadUnit
    from hosttune.measure.dataset.room import Fit
    from hosttune.measure.underneath import Underneath

MANY: Final = 10_000  # files; fewer are opened in no time
MOSTLY: Final = 0.5  # of the files are small
WIDE: Final = 0.2  # a margin that says little
FEWEST: Final = 12  # that `bench read` takes
DECODED: Final = frozenset({"picture", "sound", "array"})  # that it can decode
PACKED_SOUND: Final = frozenset({"FLAC", "MP3", "Ogg"})
SHARDED: Final = frozenset({"shard", "video"})
FAR: Final = 1_000  # files of a server: each is opened over there
FAR_S: Final = 0.002  # that a look into one of them takes
LARGE_PICTURE: Final = 12 << 20  # bytes decoded: 4 million pixels
LARGE_UNIT: Final = 256 << 10  # bytes: less is unpacked in a moment
WIDE_UNIT: Final = 4  # times what one row takes
LEAST_ROW: Final = 1 << 10  # bytes: of smaller ones a sample takes many


def advise(
    *,
    files: int,
    sizes: Sizes | None,
    keys: Iterable[str],
    place: Underneath,
    page_cache: Fit | None,
    decoded: Decoded | None,
    decoded_fit: Fit | None,
    header_s: float = 0.0,
    picture_bytes: float = 0.0,
    units: Mapping[str, ReadUnit] = MappingProxyType({}),
    packed_share: float = 0.0,
    is_zarr: bool = False,
    is_measured: bool = False,
    is_folder: bool = True,
) -> tuple[DatasetAdvice, ...]:
    """The most telling first. `header_s` is what a look into one file took, `picture_bytes` what a
    picture takes decoded, `units` the widest of each format, `packed_share` the part of the bytes
    in files packed as a whole. `is_measured`: how many workers pay was tried before; only a folder
    can be tried.
    """
    if sizes is None or page_cache is None:
        return ()
    found = frozenset(keys)
    return (
        *_advise_place(page_cache, place),
        *_advise_far(files, place, page_cache, found, header_s),
        *_advise_decoded(page_cache, decoded, decoded_fit),
        *_advise_large_pictures(picture_bytes),
        *_advise_sound(found),
        *_advise_packed(packed_share),
        *_advise_lmdb(found, place, page_cache),
        *_advise_chunks(found, units),
        *_advise_row_groups(units.get("Parquet")),
        *_advise_small(files, sizes, page_cache, place, found, is_zarr=is_zarr),
        *_advise_atime(files, sizes, place),
        *_advise_precision(sizes, page_cache, decoded_fit),
        *(_advise_trying(found) if is_folder and not is_measured and files >= FEWEST else ()),
    )


def _advise_place(page_cache: Fit, place: Underneath) -> Iterator[DatasetAdvice]:
    """Where it does not stay in memory, the place counts."""
    if page_cache.answer == "fits" or place.kind == "memory":
        return
    if page_cache.answer == "unknown":
        return
    verb = "may not" if page_cache.answer == "tight" else "does not"
    yield DatasetAdvice(
        f"it {verb} stay in the page cache, so every epoch reads from storage again: fewer or "
        "smaller files, more memory, or fast local disks",
        rule="memory-dataset-fits-ram",
    )
    if place.kind == "network" and place.fstype.startswith("nfs"):
        yield DatasetAdvice(
            "NFS reads ahead little on its own; a copy on a local disk is better still",
            "storage-nfs-readahead",
        )
    elif place.kind == "network":
        yield DatasetAdvice(
            "it is on a network file system: copy it to a local disk first",
            rule="storage-data-placement",
        )
    elif place.is_rotating:
        yield DatasetAdvice(
            "a disk that rotates answers about a hundred random reads a second: read in order, or "
            "move it to flash",
            rule="storage-data-placement",
        )
    elif "usb" in place.transports:
        yield DatasetAdvice(
            "it is on a USB disk: move it to one that is built in", rule="storage-data-placement"
        )


def _advise_far(
    files: int, place: Underneath, page_cache: Fit, keys: frozenset[str], header_s: float
) -> Iterator[DatasetAdvice]:  # fmt: skip
    """A server of FUSE may be one of this host: there it counts what a look took."""
    is_slow = place.fstype.startswith("fuse") and header_s >= FAR_S
    is_told = page_cache.answer in {"tight", "too large"}
    if (
        files < FAR
        or _is_packed(keys)
        or not ((place.kind == "network" and not is_told) or is_slow)
    ):
        return
    took = f" ({header_s * 1000:.0f} ms in this look)" if header_s >= FAR_S else ""
    yield DatasetAdvice(
        f"each file waits for an answer of the server of {place.fstype}{took}, whatever its size: "
        "copy the data to a local disk once, or pack it into shards that are read in order "
        "(tar/WebDataset). Until then more loader workers than CPUs",
        rule="storage-data-placement",
    )


def _is_packed(keys: frozenset[str]) -> bool:
    return {kind_of(key) for key in keys} <= SHARDED


def _advise_large_pictures(picture_bytes: float) -> Iterator[DatasetAdvice]:
    if picture_bytes >= LARGE_PICTURE:
        yield DatasetAdvice(
            f"a picture takes {picture_bytes / (1 << 20):.0f} MiB decoded, and most models 0.1 to "
            "3 MiB of it: make smaller copies (or tiles) once, before the training. They are "
            "decoded and scanned faster in proportion, and more of them fit into memory",
            rule="framework-input-pipeline",
        )


def _advise_sound(keys: frozenset[str]) -> Iterator[DatasetAdvice]:
    packed = sorted(PACKED_SOUND & keys)
    if packed:
        yield DatasetAdvice(
            f"{' and '.join(packed)} sound is decoded in every epoch, resampled where the model "
            "takes another rate. Keep copies at the rate of the model, as WAV where space allows "
            "(30 s of sound, read and resampled: Opus 108 ms, Vorbis 34, FLAC 26, MP3 24; WAV kept "
            "at 16 kHz 1.4)",
            rule="framework-input-pipeline",
        )


def _advise_packed(packed_share: float) -> Iterator[DatasetAdvice]:
    if packed_share >= MOSTLY:
        yield DatasetAdvice(
            "files packed as a whole (gzip, xz, Zstandard) are unpacked from their start for each "
            "part that is read. Where a job reads slices or single records, keep unpacked copies, "
            "or HDF5 and zarr with a slice a chunk (slices of 32 KiB of .nii.gz for each CPU "
            "second: 167, unpacked 78,674)",
            rule="framework-input-pipeline",
        )


def _advise_lmdb(
    keys: frozenset[str], place: Underneath, page_cache: Fit
) -> Iterator[DatasetAdvice]:
    if "LMDB" not in keys:
        return
    if page_cache.answer == "too large":
        yield DatasetAdvice(
            "LMDB that does not fit in memory reads 128 KiB at each fault, and drops as much: "
            "lmdb.open(path, readahead=False) (200 MB at random, 100 MB of memory: 201 records a "
            "second, without read-ahead 2,508)"
        )
    elif place.kind == "network":
        yield DatasetAdvice(
            f"LMDB touches its pages one by one, and each waits for the server of {place.fstype}: "
            "before the start copy it to a local disk, or read it once, front to back: "
            "cat data.mdb >/dev/null",
            rule="storage-data-placement",
        )


def _advise_chunks(keys: frozenset[str], units: Mapping[str, ReadUnit]) -> Iterator[DatasetAdvice]:
    unit = units.get("HDF5")
    if unit is None or unit.row_bytes < LEAST_ROW:
        if "HDF5" in keys:
            yield DatasetAdvice(
                "HDF5 reads a whole chunk for each sample: h5ls -rv FILE shows them (hdf5-tools). "
                "Read at random, a chunk should hold as many samples as one read takes, unpacked "
                "or with lzf"
            )
    elif _is_wide(unit):
        packing = f", {unit.packing}" if unit.packing else ""
        chunks = f"chunks of {say_count(unit.rows, 'row')}{packing}"
        yield DatasetAdvice(
            f"one row of the largest HDF5 array takes {unit.row_bytes >> 10:,} KiB, and for it "
            f"HDF5 reads and unpacks {say_size(unit.unpacked_bytes)} ({chunks}). For rows that are "
            "read at random, write it anew with chunks of one row, not packed or with lzf "
            "(pictures of 147 KiB, samples for each CPU second: gzip with 64 in a chunk 12, with "
            "one 865; lzf 1,404; not packed 24,157)"
        )


def _advise_row_groups(unit: ReadUnit | None) -> Iterator[DatasetAdvice]:
    if unit is not None and _is_wide(unit):
        yield DatasetAdvice(
            f"a row group of Parquet has {unit.rows:,} rows here ({say_size(unit.unpacked_bytes)} "
            "unpacked), and most readers unpack all of it for one row. Read row groups in order, "
            "and shuffle in a buffer (streaming=True and shuffle() of datasets). For rows at "
            "random, convert it once to Arrow (load_dataset() without streaming does) or to small "
            "row groups (rows for each CPU second: 200,000 in a group 149, 1,000 in a group 5,216; "
            "Arrow 37,870)"
        )


def _is_wide(unit: ReadUnit) -> bool:
    return unit.unpacked_bytes >= max(LARGE_UNIT, WIDE_UNIT * unit.row_bytes)


def _advise_decoded(
    page_cache: Fit, decoded: Decoded | None, fit: Fit | None
) -> Iterator[DatasetAdvice]:
    if (
        decoded
        and fit
        and fit.answer == "too large"
        and decoded.native_bytes > page_cache.needs_bytes
    ):
        kept = "; the page cache keeps the files themselves" if page_cache.answer == "fits" else ""
        yield DatasetAdvice(
            f"do not cache decoded data in the program: it would swap{kept}. Decode anew each "
            "time, with more workers",
            rule="memory-dataset-fits-ram",
        )


def _advise_small(
    files: int, sizes: Sizes, page_cache: Fit, place: Underneath, keys: frozenset[str], *,
    is_zarr: bool,
) -> Iterator[DatasetAdvice]:  # fmt: skip
    if files < MANY or sizes.small_share < MOSTLY or place.kind == "memory" or _is_packed(keys):
        return
    text = (
        f"{sizes.small_share * 100:.0f} % of the files are small (below 64 KiB): pack them into "
        "shards that are read in order (tar/WebDataset, TFRecord, HDF5 front to back). From a cold "
        "disk that came 4.3 times as fast [3.7, 5.0]; one large file read at random only 1.2 times "
        "[1.16, 1.35], so it is the order that helps, not the container (16 KiB files, ext4 on a "
        "virtio disk). Each file takes an inode, too (df -i)"
    )
    if is_zarr:
        text = (
            f"{sizes.small_share * 100:.0f} % of the files are small, and zarr keeps each chunk in "
            "one: write it anew with chunks of what one read takes, and many of them in one file, "
            "the shards of version 3 (zarr.create_array(chunks=, shards=)). Rows of 256 KiB for "
            "each CPU second: in chunks of 4 KiB 70, in one chunk 982, in shards of 64 rows 519"
        )
    if any(kind_of(key) == "picture" for key in keys):
        text += ". Keep the pictures as they are inside"
    if page_cache.answer == "fits":
        text += ". It all fits into the page cache: only the first epoch gains"
    yield DatasetAdvice(text, rule="framework-input-pipeline")


def _advise_atime(files: int, sizes: Sizes, place: Underneath) -> Iterator[DatasetAdvice]:
    is_written = place.atime != "noatime" and not place.is_read_only and place.kind == "disk"
    if is_written and files >= MANY and sizes.small_share >= MOSTLY:
        often = "at every read" if place.atime == "strictatime" else "at most once a day"
        yield DatasetAdvice(
            f"{place.atime}: reading writes each file's access time, {often}; without it a cold "
            "pass over small files took 2 to 5 % less time, less of a training epoch",
            rule="storage-noatime",
        )


def _advise_precision(sizes: Sizes, *fits: Fit | None) -> Iterator[DatasetAdvice]:
    if any(one and one.why == "sizes" for one in fits):
        yield DatasetAdvice(
            "to take the size of every file takes long here, and one that a sample did not meet "
            "may be larger than all the others: look at every file",
            command="dataset --exact",
        )
        return
    is_across = any(one and one.why == "margin" for one in fits)
    if is_across or sizes.margin_bytes is None or sizes.margin_bytes > WIDE * sizes.total_bytes:
        yield DatasetAdvice(
            "files differ so much that a sample says little about the whole: look at every file",
            command="dataset --exact",
        )


def _advise_trying(keys: frozenset[str]) -> Iterator[DatasetAdvice]:
    """The number of workers to start with is a formula's; what pays is another thing."""
    decode = " --decode" if {kind_of(key) for key in keys} & DECODED else ""
    yield DatasetAdvice(
        "how many workers pay here, and whether disk or decoding limits: try it",
        command=f"bench read{decode}",
    )
