"""One look at a data set: names of all, sizes of a sample, headers and page cache of a smaller one.

What takes long is asked between small steps whether there is time left, so that a budget or Ctrl-C ends it with what
was seen until then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError
from hosttune.facts.base import UnknownFact
from hosttune.measure import page_cache
from hosttune.measure.cpus import usable_cpus
from hosttune.measure.dataset.containers import ask
from hosttune.measure.dataset.decoded import decode, formats_found
from hosttune.measure.dataset.estimate import bytes_of, estimate
from hosttune.measure.dataset.exact import Exact
from hosttune.measure.dataset.formats import kind_of
from hosttune.measure.dataset.found import Dataset, FormatShare, Look, Names
from hosttune.measure.dataset.measured import measured_before
from hosttune.measure.dataset.room import fit, inode_bytes, room
from hosttune.measure.dataset.sample import Sample, chosen, look_inside, resident, take_sizes
from hosttune.measure.dataset.tally import Tally
from hosttune.measure.dataset.verdict import advise
from hosttune.measure.dataset.walk import Seen, Walk, one_file
from hosttune.measure.underneath import KERNEL, underneath
from hosttune.measure.workers import start_workers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.facts import Facts
    from hosttune.measure.dataset.patience import Patience

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
    python: str | None = None,
    tell: Tell = lambda _: None,
) -> Dataset:
    """`path` is a folder or one file; `python` is the interpreter that is asked about containers, else the
    user's own; `tell` gets progress, now and then. Raises HosttuneError where there is nothing
    to look at. Changes nothing; access times are kept where the rights allow it."""
    if not path:
        raise HosttuneError("the path is empty", hint="name a folder of data, or one file")
    place = os.path.realpath(path)
    below = underneath(place, facts)
    if below.fstype in KERNEL:
        raise HosttuneError(
            f"{path}: holds no data: the kernel shows itself there ({below.fstype})", hint="name a folder of data"
        )
    tally, exact = Tally(), Exact() if is_exact else None
    seen = _names(place, tally, exact, patience, follow=follow, tell=tell)
    names_done, names_s = not patience.stopped, patience.seconds
    phase = patience.sample()
    sample = Sample()
    take_sizes(sample, chosen(tally), phase, tell)
    strata = sample.strata(tally.counts)
    sizes = estimate(strata, page_cache.PAGE)
    by_format = bytes_of(strata)
    if exact and names_done:
        sizes, by_format = exact.corrected(sizes), exact.bytes
    look_inside(sample, by_format, phase, with_headers=with_headers, tell=tell)
    asked = ask(sample, place, python, phase, tell)
    has_room = room()
    inodes = inode_bytes(below.fstype, tally.files, seen.folders)
    decoded = decode(sample.looked, by_format) if sizes else None
    kept = fit(sizes.page_bytes + inodes, has_room) if sizes else None
    native = fit(decoded.least_bytes, has_room) if decoded else None
    ranks, why = (gpu_processes, "as told") if gpu_processes else _gpu_processes(facts)
    before = measured_before(place)
    workers = start_workers(
        usable_cpus(), gpu_processes=ranks, available_bytes=has_room.bytes or None,
        measured=before.workers if before else None,
    )  # fmt: skip
    limits = (*workers.limits, why, *((f"measured {before.measured_at[:10]}",) if before else ()))
    return Dataset(
        path=path,
        stopped=patience.stopped,
        names_done=names_done,
        names=_told(seen, tally.files),
        formats=_formats(tally, by_format, sample),
        sizes=sizes,
        look=Look(
            sampled=sum(map(len, sample.sizes.values())),
            gone=sample.gone,
            denied=sample.denied + (exact.denied if exact else 0),
            moved_files=sample.moved,
            moved_folders=seen.moved_folders,
            odd_formats=tuple((a, b, n) for a, found in formats_found(sample.looked).items() for b, n in found.items()),
        ),
        place=below,
        room=has_room,
        inode_bytes=inodes,
        page_cache=kept,
        resident=resident(sample, by_format),
        decoded=decoded,
        asked=asked,
        decoded_fit=native,
        float32_fit=fit(decoded.float32_bytes, has_room) if decoded and decoded.float32_bytes else None,
        workers=replace(workers, limits=limits),
        copies_bytes=decoded.least_bytes * workers.start * ranks if decoded else 0,
        advice=advise(
            files=tally.files, sizes=sizes, keys=tally.counts, place=below, page_cache=kept, decoded=decoded,
            decoded_fit=native, is_measured=before is not None, is_folder=bool(seen.folders),
        ),
        names_s=names_s,
        sample_s=patience.seconds - names_s,
    )  # fmt: skip


def _names(place: str, tally: Tally, exact: Exact | None, patience: Patience, *, follow: bool, tell: Tell) -> Seen:
    one = one_file(place)
    if one:
        tally.take(*one)
        if exact:
            exact.take(tally.key_of_name(one[1][0].name), [os.stat(place).st_size])
        return Seen()
    walk = Walk(place, follow=follow)
    for folder, entries in walk.chunks():
        only = tally.take(folder, entries)
        if exact:
            _stat_all(exact, tally, entries, only)
        if patience.is_over():
            break
        tell(f"{tally.files:,} files in {walk.seen.folders:,} folders")
    return walk.seen


def _stat_all(exact: Exact, tally: Tally, entries: Sequence[os.DirEntry[str]], only: str) -> None:
    sizes: dict[str, list[int]] = {}
    for entry in entries:
        try:
            size = entry.stat().st_size
        except FileNotFoundError:
            continue
        except OSError:
            exact.denied += 1
            continue
        sizes.setdefault(only or tally.key_of_name(entry.name), []).append(size)
    for key, found in sizes.items():
        exact.take(key, found)


def _told(seen: Seen, files: int) -> Names:
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


def _formats(tally: Tally, by_format: Mapping[str, int], sample: Sample) -> tuple[FormatShare, ...]:
    """The one with the most bytes first."""
    found = [
        FormatShare(key, kind_of(key), files, by_format.get(key) if key in sample.sizes else None)
        for key, files in tally.counts.items()
    ]
    return tuple(sorted(found, key=lambda one: (-(one.bytes or 0), -one.files, one.name)))


def _gpu_processes(facts: Facts) -> tuple[int, str]:
    """The processes that will load data: those that compute now, else one for each GPU, and where that comes from."""
    try:
        if ranks := len(facts.jobs.ranks):
            return ranks, "as many GPU processes as compute now"
    except UnknownFact:
        pass  # not root: whose devices are open is hidden
    devices = facts.reader.list("/dev")
    gpus = sum(name.removeprefix("nvidia").isdecimal() for name in devices) if isinstance(devices, tuple) else 0
    if gpus:
        return gpus, "one process for each NVIDIA GPU of this host"
    return 1, "no NVIDIA GPU is visible: one process assumed"
