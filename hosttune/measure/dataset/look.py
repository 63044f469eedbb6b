"""One look at a data set: names of all, sizes of a sample, headers and page cache of a smaller one.

What takes long is asked between small steps whether there is time left, so that a budget or Ctrl-C
ends it with what was seen until then.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError
from hosttune.facts.base import UnknownFact
from hosttune.measure import page_cache
from hosttune.measure.cpus import usable_cpus
from hosttune.measure.dataset.all_files import FileCounter
from hosttune.measure.dataset.census import Census
from hosttune.measure.dataset.decoded import Decoded, decode, formats_found, is_close
from hosttune.measure.dataset.estimate import bytes_of, estimate
from hosttune.measure.dataset.formats import kind_of
from hosttune.measure.dataset.found import Dataset, FormatShare, Look, Names
from hosttune.measure.dataset.measured import measured_before
from hosttune.measure.dataset.room import Fit, Room, fit, inode_bytes, read_room
from hosttune.measure.dataset.sample import (
    MOST_HEADERS,
    OF_EACH,
    SEED,
    Sample,
    choose_samples,
    estimate_resident,
    held_of,
    look_inside,
    plan,
    take_sizes,
    whole_size,
)
from hosttune.measure.dataset.tally import Tally
from hosttune.measure.dataset.verdict import advise
from hosttune.measure.dataset.walk import Seen, Walk, one_file
from hosttune.measure.underneath import KERNEL, find_underneath
from hosttune.measure.workers import start_workers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.measure.dataset.estimate import Sizes
    from hosttune.measure.dataset.header import ReadUnit
    from hosttune.measure.dataset.patience import Patience, SamplePhase

Tell = Callable[[str], None]


def look(
    path: str,
    facts: Facts,
    patience: Patience,
    *,
    is_exact: bool = False,
    with_headers: bool = True,
    follow: bool = False,
    gpu_processes: int | None = None,
    tell: Tell = lambda _: None,
) -> Dataset:
    """`path` is a folder or one file; `tell` gets progress, now and then. Raises HosttuneError
    where there is nothing to look at. Changes nothing; access times are kept where the rights allow
    it.
    """
    if not path:
        raise HosttuneError("the path is empty", hint="name a folder of data, or one file")
    place = os.path.realpath(path)
    below = find_underneath(place, facts)
    if below.fstype in KERNEL:
        raise HosttuneError(
            f"{path}: holds no data: the kernel shows itself there ({below.fstype})",
            hint="name a folder of data",
        )
    held = held_of(below.fstype) if not follow else whole_size
    tally, census = Tally(), Census(is_exact=is_exact, held=held)
    seen = _look_at_names(
        place, tally, census, patience, follow=follow, with_headers=with_headers, tell=tell
    )
    names_done, names_s = not patience.stopped, patience.seconds
    if names_done and not tally.files:
        raise HosttuneError(f"{path}: {_no_files(seen)}", hint="name the folder of the data set")
    phase = patience.sample()
    sample = Sample(held=held)
    names = choose_samples(tally)
    has_all = names_done and census.is_whole
    take_sizes(
        sample,
        names,
        phase,
        tell,
        is_whole=names_done and len(names) == tally.files,
        has_links=bool(seen.links),
        census=census if has_all else None,
    )
    strata = sample.strata(tally.counts)
    sizes = estimate(strata, page_cache.PAGE)
    by_format = bytes_of(strata)
    sampled = sum(map(len, sample.sizes.values()))
    if has_all:
        sizes, by_format = census.correct_sizes(sizes), census.bytes
        sample.set_apart(census.large())
    decoded = None
    if sizes:
        decoded = _decode_headers(
            sample,
            tally,
            sizes,
            by_format,
            phase,
            with_headers=with_headers,
            is_known=has_all,
            tell=tell,
        )
        if is_exact and has_all and with_headers:
            decoded = census.sum_decoded(decoded)
            sample.moved = max(sample.moved, census.moved)
    has_room = read_room()
    inodes = inode_bytes(below.fstype, tally.files, seen.folders)
    is_all = names_done and seen.unreadable == seen.lost_and_found
    unseen = "" if is_all and census.is_whole else "sizes" if is_all else "partial"
    kept = _fit_page_cache(sizes, inodes, has_room, unseen) if sizes else None
    native, float32 = _fits(decoded, sizes, has_room, unseen) if decoded and sizes else (None, None)
    ranks, why = (gpu_processes, "as given") if gpu_processes else _gpu_processes(facts)
    before = measured_before(place)
    workers = start_workers(
        usable_cpus(), gpu_processes=ranks, available_bytes=has_room.bytes or None,
        measured=before.workers if before else None,
        shards=tally.files if {kind_of(key) for key in tally.counts} == {"shard"} else None,
    )  # fmt: skip
    pictures = [
        one.header.native_bytes
        for one in sample.looked
        if one.header and kind_of(one.key) == "picture"
    ]
    known_pictures = [native for native in pictures if native is not None]
    sample_s = patience.seconds - names_s
    limits = (*workers.limits, why, *((f"measured {before.measured_at[:10]}",) if before else ()))
    return Dataset(
        path=path,
        stopped=patience.stopped,
        names_done=names_done,
        names=_make_names(seen, tally.files),
        formats=_share_formats(tally, by_format, sample),
        sizes=sizes,
        look=Look(
            sampled=sampled,
            gone=sample.gone,
            denied=max(sample.denied, census.denied),
            moved_files=sample.moved,
            moved_folders=seen.moved_folders,
            seed=SEED,
            odd_formats=tuple(
                (a, b, n)
                for a, found in formats_found(sample.looked).items()
                for b, n in found.items()
            ),
        ),
        place=below,
        room=has_room,
        inode_bytes=inodes,
        page_cache=kept,
        resident=estimate_resident(sample, by_format),
        decoded=decoded,
        decoded_fit=native,
        float32_fit=float32,
        workers=replace(workers, limits=limits),
        copies_bytes=decoded.native_bytes * workers.start * ranks
        if decoded and not decoded.untold
        else 0,
        advice=advise(
            files=tally.files,
            sizes=sizes,
            keys=tally.counts,
            place=below,
            page_cache=kept,
            decoded=decoded,
            decoded_fit=native,
            header_s=sample_s / decoded.headers if decoded and decoded.headers else 0.0,
            picture_bytes=median(known_pictures) if known_pictures else 0.0,
            units=_find_units(sample),
            packed_share=_find_packed_share(by_format),
            is_zarr=_is_zarr(tally),
            is_measured=before is not None,
            is_folder=bool(seen.folders),
        ),
        names_s=names_s,
        sample_s=sample_s,
    )


def _find_packed_share(by_format: Mapping[str, int]) -> float:
    """Of the bytes, those in files that are packed from front to back; zip packs its members."""
    packed = sum(by_format[key] for key in by_format if kind_of(key) == "packed" and key != "zip")
    return packed / max(1, sum(by_format.values()))


def _is_zarr(tally: Tally) -> bool:
    """Whether an array of zarr is there: its description has this name in version 2 and in 3."""
    described = tally.strata.get("JSON")
    return ".zarray" in tally.counts or (
        described is not None and any(one.path.endswith("/zarr.json") for one in described.items)
    )


def _find_units(sample: Sample) -> dict[str, ReadUnit]:
    """Of each format the one that unpacks most for a row."""
    found: dict[str, ReadUnit] = {}
    for header in (one.header for one in sample.looked):
        if header is not None and header.unit is not None:
            kept = found.setdefault(header.format, header.unit)
            found[header.format] = max(
                kept, header.unit, key=lambda one: one.unpacked_bytes / one.row_bytes
            )
    return found


def _no_files(seen: Seen) -> str:
    """That there is nothing to measure, and what was left out."""
    left = {
        "folders that cannot be read": seen.unreadable,
        "other file systems (--follow enters them)": seen.mounts_count,
        "links to folders (--follow goes there)": seen.linked_folders,
        "links that lead nowhere": seen.dangling,
        "sockets, pipes and devices": seen.special,
    }
    words = [f"{what}: {many}" for what, many in left.items() if many]
    return "holds no files, so there is nothing to measure" + (
        f"; left out: {'; '.join(words)}" if words else ""
    )


def _decode_headers(
    sample: Sample, tally: Tally, sizes: Sizes, by_format: Mapping[str, int], phase: SamplePhase, *,
    with_headers: bool, is_known: bool, tell: Tell,
) -> Decoded:  # fmt: skip
    """Read headers until what they say is close enough, or time is over; of a small set all,
    because one file that no sample met may become larger than all the others together.
    """
    plan(sample, by_format)
    is_small = is_known and tally.files <= MOST_HEADERS

    def decoded_now() -> Decoded:
        if with_headers:
            sample.settle()
        drawn = sample.drawn(tally.counts, is_known=is_known)
        return decode(sample.looked, by_format, drawn, margin_bytes=sizes.margin_bytes)

    depth = OF_EACH
    while True:
        goes_on = look_inside(sample, depth, phase, with_headers=with_headers, tell=tell)
        decoded = decoded_now()
        if not goes_on or len(sample.looked) >= MOST_HEADERS:
            break
        if is_close(decoded) and not is_small:
            break
        depth *= 2
    return decoded


def _fit_page_cache(sizes: Sizes, inodes: int, has_room: Room, unseen: str) -> Fit:
    """Of the page cache. `unseen` says why not all sizes are known: one file that no sample met may
    be larger than all others together, so no upper end is given then.
    """
    margin = sizes.margin_bytes
    needs = sizes.page_bytes + inodes
    low = 0 if margin is None else max(0, needs - margin)
    high = None if unseen or margin is None else needs + margin + sizes.linked_bytes
    return fit(needs, has_room, low, high, unseen or "margin")


def _fits(decoded: Decoded, sizes: Sizes, has_room: Room, unseen: str) -> tuple[Fit, Fit | None]:
    """As files store it, and as float32."""
    low, high = decoded.bounds()
    high = None if unseen else high
    why = "untold" if decoded.untold else unseen or "margin"
    linked = 1 + sizes.linked_bytes / sizes.total_bytes if sizes.total_bytes else 1.0
    native = fit(
        decoded.native_bytes, has_room, low, None if high is None else round(high * linked), why
    )
    if not decoded.float32_bytes:
        return native, None
    wide = decoded.float32_bytes / decoded.native_bytes if decoded.native_bytes else 4.0
    most = None if high is None else round(high * linked * wide)
    return native, fit(decoded.float32_bytes, has_room, round(low * wide), most, why)


def _look_at_names(
    place: str,
    tally: Tally,
    census: Census,
    patience: Patience,
    *,
    follow: bool,
    with_headers: bool,
    tell: Tell,
) -> Seen:
    counter = FileCounter(census, tally, place, patience, with_headers=with_headers)
    one = one_file(place)
    if one:
        counter.take(*one, tally.take(*one))
        return Seen()
    walk = Walk(place, follow=follow)
    for folder, entries in walk.chunks():
        counter.take(folder, entries, tally.take(folder, entries))
        if patience.is_over():
            break
        tell(f"{tally.files:,} files in {walk.seen.folders:,} folders")
    return walk.seen


def _make_names(seen: Seen, files: int) -> Names:
    return Names(
        files=files,
        folders=seen.folders,
        links=seen.links,
        dangling_links=seen.dangling,
        special_files=seen.special,
        unreadable_folders=seen.unreadable,
        unreadable_examples=tuple(seen.unreadable_paths),
        unreadable_reason=seen.reason,
        linked_folders=seen.linked_folders,
        linked_examples=tuple(seen.linked_paths),
        other_file_systems=seen.mounts_count,
        other_examples=tuple(seen.mounts),
    )


def _share_formats(
    tally: Tally, by_format: Mapping[str, int], sample: Sample
) -> tuple[FormatShare, ...]:
    """The one with the most bytes first."""
    found = [
        FormatShare(key, kind_of(key), files, by_format.get(key) if key in sample.sizes else None)
        for key, files in tally.counts.items()
    ]
    return tuple(sorted(found, key=lambda one: (-(one.bytes or 0), -one.files, one.name)))


def _gpu_processes(facts: Facts) -> tuple[int, str]:
    """The processes that will load data: those that compute now, else one for each GPU, and where
    that comes from.
    """
    try:
        if ranks := len(facts.jobs.ranks):
            return ranks, "as many GPU processes as compute now"
    except UnknownFact:
        pass  # not root: whose devices are open is hidden
    devices = facts.reader.list("/dev")
    gpus = (
        sum(name.removeprefix("nvidia").isdecimal() for name in devices)
        if isinstance(devices, tuple)
        else 0
    )
    if gpus:
        return gpus, "one process for each NVIDIA GPU of this host"
    return 1, "no NVIDIA GPU is visible: one process assumed"
