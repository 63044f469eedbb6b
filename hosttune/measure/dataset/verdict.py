"""From what was found to what to do about it. Pure. Figures are own measurements, and say on what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hosttune.measure.dataset.formats import kind_of
from hosttune.measure.dataset.found import DatasetAdvice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hosttune.measure.dataset.decoded import Decoded
    from hosttune.measure.dataset.estimate import Sizes
    from hosttune.measure.dataset.room import Fit
    from hosttune.measure.underneath import Underneath

MANY: Final = 10_000  # files; fewer are opened in no time
MOSTLY: Final = 0.5  # of the files are small
WIDE: Final = 0.2  # a margin that says little
FEWEST: Final = 12  # that `bench read` takes
DECODED: Final = frozenset({"picture", "sound", "array"})  # that it can decode
SHARDED: Final = frozenset({"shard", "array", "video"})


def advise(
    *,
    files: int,
    sizes: Sizes | None,
    keys: Iterable[str],
    place: Underneath,
    page_cache: Fit | None,
    decoded: Decoded | None,
    decoded_fit: Fit | None,
    is_measured: bool = False,
    is_folder: bool = True,
) -> tuple[DatasetAdvice, ...]:
    """The most telling first. `is_measured`: how many workers pay was tried before; only a folder can be tried."""
    if sizes is None or page_cache is None:
        return ()
    found = frozenset(keys)
    return (
        *_advise_place(page_cache, place),
        *_advise_decoded(page_cache, decoded, decoded_fit),
        *_advise_small(files, sizes, page_cache, place, found),
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
        f"it {verb} stay in the page cache, so every epoch reads from storage again: fewer or smaller files, more "
        "memory, or fast local disks",
        rule="memory-dataset-fits-ram",
    )
    if place.kind == "network" and place.fstype.startswith("nfs"):
        yield DatasetAdvice(
            "NFS reads ahead little on its own; a copy on a local disk is better still", "storage-nfs-readahead"
        )
    elif place.kind == "network":
        yield DatasetAdvice(
            "it is on a network file system: copy it to a local disk first", rule="storage-data-placement"
        )
    elif place.is_rotating:
        yield DatasetAdvice(
            "a disk that rotates answers about a hundred random reads a second: read in order, or move it to flash",
            rule="storage-data-placement",
        )
    elif "usb" in place.transports:
        yield DatasetAdvice("it is on a USB disk: move it to one that is built in", rule="storage-data-placement")


def _advise_decoded(page_cache: Fit, decoded: Decoded | None, fit: Fit | None) -> Iterator[DatasetAdvice]:
    if decoded and fit and fit.answer == "too large" and decoded.native_bytes > page_cache.needs_bytes:
        kept = "; the page cache keeps the files themselves" if page_cache.answer == "fits" else ""
        yield DatasetAdvice(
            f"do not cache decoded data in the program: it would swap{kept}. Decode anew each time, with more workers",
            rule="memory-dataset-fits-ram",
        )


def _advise_small(
    files: int, sizes: Sizes, page_cache: Fit, place: Underneath, keys: frozenset[str]
) -> Iterator[DatasetAdvice]:  # fmt: skip
    is_packed = {kind_of(key) for key in keys} <= SHARDED
    if files < MANY or sizes.small_share < MOSTLY or place.kind == "memory" or is_packed:
        return
    text = (
        f"{sizes.small_share * 100:.0f} % of the files are small (below 64 KiB): pack them into shards that are read "
        "in order (tar/WebDataset, TFRecord, HDF5 front to back). From a cold disk that came 4.3 times as fast "
        "[3.7, 5.0]; one large file read at random only 1.2 times [1.16, 1.35], so it is the order that helps, not the "
        "container (16 KiB files, ext4 on a virtio disk)"
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
            f"{place.atime}: reading writes each file's access time, {often}; without it a cold pass over small files "
            "took 2 to 5 % less time, less of a training epoch",
            rule="storage-noatime",
        )


def _advise_precision(sizes: Sizes, *fits: Fit | None) -> Iterator[DatasetAdvice]:
    if any(one and one.why == "sizes" for one in fits):
        yield DatasetAdvice(
            "to take the size of every file takes long here, and one that a sample did not meet may be larger than all "
            "the others: look at every file",
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
        "how many workers pay here, and whether disk or decoding limits: try it", command=f"bench read{decode}"
    )
