"""The sample: sizes of many files, the page cache and headers of fewer."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen
from hosttune.measure import page_cache
from hosttune.measure.dataset.decoded import Looked
from hosttune.measure.dataset.estimate import Stratum
from hosttune.measure.dataset.formats import kind_of
from hosttune.measure.dataset.found import Resident
from hosttune.measure.dataset.probe import probe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.measure.dataset.patience import Phase
    from hosttune.measure.dataset.tally import Named, Tally

HEADERS: Final = 500
OPENED: Final = 2_000  # for the page cache
_LEAST: Final = 8  # of each format
_BATCH: Final = 1_000
CONTAINERS: Final = frozenset({"Parquet", "Arrow", "HDF5", "TFRecord"})  # that held_program.py can tell of
_UNTOLD: Final = frozenset({"text", "packed", "video"})  # kinds of which no header is read


@frozen
class Container:
    """A file that a library has to be asked about: its place in `looked`, its format, and whether nothing of it was in
    the page cache."""

    place: int
    path: str
    kind: str
    is_cold: bool


@dataclass
class Sample:
    """What came of it, by format."""

    sizes: dict[str, list[tuple[int, Named]]] = field(default_factory=dict)
    looked: list[Looked] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)
    resident: dict[str, tuple[int, int]] = field(default_factory=dict)  # format -> (resident, size) of those told
    opened: int = 0
    told: int = 0
    gone: int = 0
    denied: int = 0
    moved: int = 0

    def strata(self, counts: Mapping[str, int]) -> tuple[Stratum, ...]:
        """The sizes with the numbers of files that they stand for."""
        return tuple(
            Stratum(key, files, tuple(size for size, _ in self.sizes.get(key, ()))) for key, files in counts.items()
        )


def chosen(tally: Tally) -> list[Named]:
    """Of each format the larger of its two samples: its share of the sample of all, or the one of its own."""
    of_all: dict[str, list[Named]] = {}
    for named in tally.sample.items:
        of_all.setdefault(named.key, []).append(named)
    found: list[Named] = []
    for key, stratum in tally.strata.items():
        shared = of_all.get(key, [])
        found += shared if len(shared) > len(stratum.items) else stratum.items
    return found


def take_sizes(sample: Sample, files: list[Named], phase: Phase, tell: Callable[[str], None]) -> None:
    """stat(2) of the files, in random batches, so that whatever time allows is a fair sample. Within a batch the order
    is that of the inodes, which is about the order on the disk."""
    Random(1).shuffle(files)  # noqa: S311 - no secret
    done = 0
    for start in range(0, len(files), _BATCH):
        batch = sorted(files[start : start + _BATCH], key=lambda named: named.inode)
        taken: list[tuple[int, Named]] = []
        for named in batch:
            if not phase.has_time(for_stats=True):
                break
            if (size := _size(sample, named)) is not None:
                taken.append((size, named))
        else:
            done += len(batch)
            _keep(sample, taken)
            tell(f"sizes of {done:,} files")
            continue
        if not done:  # a cut batch is none of a random order, and still better than nothing
            _keep(sample, taken)
        return


def _keep(sample: Sample, taken: Iterable[tuple[int, Named]]) -> None:
    for size, named in taken:
        sample.sizes.setdefault(named.key, []).append((size, named))


def _size(sample: Sample, named: Named) -> int | None:
    try:
        info = os.stat(named.path)
    except FileNotFoundError:
        sample.gone += 1
    except OSError:
        sample.denied += 1
    else:
        if stat.S_ISREG(info.st_mode):
            return info.st_size
        sample.gone += 1
    return None


def look_inside(
    sample: Sample, by_format: Mapping[str, int], phase: Phase, *, with_headers: bool, tell: Callable[[str], None]
) -> None:
    """Open a few files of each format, the more the more bytes it has."""
    plan = list(_planned(sample, by_format, with_headers=with_headers))
    Random(2).shuffle(plan)  # noqa: S311 - no secret
    for number, (named, has_header) in enumerate(plan):
        if not phase.has_time(for_stats=False):
            return
        if number % 50 == 0:
            tell(f"{number:,} of {len(plan):,} files opened")
        _probe(sample, named, with_header=has_header)


def _planned(sample: Sample, by_format: Mapping[str, int], *, with_headers: bool) -> Iterator[tuple[Named, bool]]:
    total = sum(by_format.values()) or 1
    for key, taken in sample.sizes.items():
        share = by_format.get(key, 0) / total
        headers = max(_LEAST, round(HEADERS * share)) if with_headers and kind_of(key) not in _UNTOLD else 0
        for number, (_, named) in enumerate(taken[: max(_LEAST, round(OPENED * share))]):
            yield named, number < headers


def _probe(sample: Sample, named: Named, *, with_header: bool) -> None:
    try:
        found = probe(named.path, with_header=with_header)
    except OSError:
        sample.denied += 1
        return
    if found is None:
        sample.gone += 1
        return
    sample.opened += 1
    sample.moved += found.has_moved_atime
    if found.was_read:
        kind = found.header.format if found.header else named.key
        if kind in CONTAINERS:
            sample.containers.append(Container(len(sample.looked), named.path, kind, is_cold=found.resident_bytes == 0))
        sample.looked.append(Looked(named.key, found.size, found.header))
    if found.resident_bytes is not None:
        sample.told += 1
        resident, size = sample.resident.get(named.key, (0, 0))
        sample.resident[named.key] = (resident + found.resident_bytes, size + found.size)


def resident(sample: Sample, by_format: Mapping[str, int]) -> Resident:
    """The share of all bytes in the page cache: of each format as far as it was seen."""
    if not sample.told:
        why = (
            "no file was opened"
            if not sample.opened
            else f"the kernel hides it for files of others ({page_cache.how()})"
        )
        return Resident(None, sample.opened, why)
    seen = {key: held for key, held in sample.resident.items() if held[1] and by_format.get(key)}
    whole = sum(by_format[key] for key in seen)
    share = sum(by_format[key] * held / size for key, (held, size) in seen.items()) / whole if whole else 0.0
    return Resident(share, sample.told, page_cache.how())
