"""The sample: sizes of many files, the page cache and headers of fewer."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from hosttune.measure import page_cache
from hosttune.measure.dataset.decoded import Drawn, Looked
from hosttune.measure.dataset.estimate import Stratum, split_in_runs
from hosttune.measure.dataset.formats import kind_of
from hosttune.measure.dataset.found import Resident
from hosttune.measure.dataset.probe import probe_file
from hosttune.measure.dataset.tally import Named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hosttune.measure.dataset.census import Census
    from hosttune.measure.dataset.patience import SamplePhase
    from hosttune.measure.dataset.tally import Tally

OPENED: Final = 2_000  # for the page cache, and for headers
MOST_HEADERS: Final = 20_000  # where fewer do not bring the decoded size close enough
SEED: Final = 1  # of all samples: an unchanged data set gives the same report
_LEAST: Final = 32  # of each format
OF_EACH: Final = 8  # headers of each stratum
_BATCH: Final = 1_000
LARGE_RUN: Final = -1  # the stratum of those that are looked into for certain
_WITHOUT_HEADER: Final = frozenset({"text", "packed", "video"})  # kinds of which no header is read


Held = Callable[[str, os.stat_result], int]  # format, file -> bytes
_UNPACKED: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "tmpfs"}
)  # blocks that wait to be written count there, too


def has_header(key: str) -> bool:
    """Whether the header of a format tells anything."""
    return kind_of(key) not in _WITHOUT_HEADER


def whole_size(_: str, info: os.stat_result) -> int:
    """The length of a file, holes and all: who reads through them fills the page cache with
    them.
    """
    return info.st_size


def allocated_size(key: str, info: os.stat_result) -> int:
    """The same, but of LMDB without holes: with MDB_WRITEMAP a file is as long as its map, and only
    pages that were written are read.
    """
    # st_blocks counts units of 512 bytes whatever the file system has for blocks (inode(7)).
    return min(info.st_size, info.st_blocks * 512) if key == "LMDB" else info.st_size


def held_of(fstype: str) -> Held:
    """What counts as the size of a file in bytes. Where a file system may pack, blocks say nothing
    of the length.
    """
    return allocated_size if fstype in _UNPACKED else whole_size


class Sized(NamedTuple):
    """A name with what stat(2) says of its file: `links` is the number of its names, on this file
    system and anywhere, `part` the share of this name, so that a file counts once.
    """

    named: Named
    size: int
    inode: tuple[int, int, int] | None  # device, number, time; None where it has this name alone
    links: int
    part: float = 1.0

    @property
    def where(self) -> tuple[str, int]:
        return self.named.path.rpartition("/")[0], self.size


@dataclass
class Sample:
    """What came of it, by format."""

    sizes: dict[str, list[Sized]] = field(default_factory=dict)
    runs: dict[str, list[list[Sized]]] = field(default_factory=dict)  # each in random order
    # looked into for certain, and in no other part of this
    large: dict[str, list[Sized]] = field(default_factory=dict)
    looked: list[Looked] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)  # paths that were opened, or could not be
    # stratum -> (resident, size)
    resident: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    held: Held = whole_size
    opened: int = 0
    seen: int = 0
    gone: int = 0
    denied: int = 0
    moved: int = 0

    def strata(self, counts: Mapping[str, int]) -> tuple[Stratum, ...]:
        """The sizes with the numbers of files that they stand for."""
        found = []
        for key, files in counts.items():
            taken = self.sizes.get(key, ())
            parts = tuple(one.part for one in taken)
            weights = parts if any(part != 1.0 for part in parts) else ()
            found.append(Stratum(key, files, tuple(one.size for one in taken), weights))
        return tuple(found)

    def drawn(self, counts: Mapping[str, int], *, is_known: bool = False) -> dict[str, Drawn]:
        """How headers were drawn from it; `is_known`: the bytes of each format are."""
        return {
            key: Drawn(
                counts[key] - len(self.large.get(key, ())), tuple(map(len, runs)), is_known=is_known
            )
            for key, runs in self.runs.items()
        }

    def set_apart(self, named: Sequence[Named]) -> None:
        """These are looked into for certain, as far as there is time, and stand for nothing but
        themselves.
        """
        # A file that is certain must not also stand for others in the sample.
        paths = {one.path for one in named}
        for key, taken in self.sizes.items():
            self.sizes[key] = [one for one in taken if one.named.path not in paths]
        for one in named:
            with suppress(OSError):
                info = os.stat(one.path)
                self.large.setdefault(one.key, []).append(
                    Sized(one, self.held(one.key, info), None, 1)
                )
        for large in self.large.values():
            # At random, so that time that ends in the middle leaves a fair part of them.
            Random(SEED + 3).shuffle(large)  # noqa: S311 - no secret

    def settle(self) -> None:
        """Where there was no time for all of the large files of a format, they are one more stratum
        of its sample.
        """
        seen = Counter(one.key for one in self.looked if one.run < 0)
        for key in [
            key for key in self.large if has_header(key) and seen[key] < len(self.large[key])
        ]:
            # Time may have ended before the sample met any file of the format.
            self.runs.setdefault(key, []).append(self.large.pop(key))
            run = len(self.runs[key]) - 1
            self.looked = [
                replace(one, run=run) if one.key == key and one.run < 0 else one
                for one in self.looked
            ]


def choose_samples(tally: Tally) -> list[Named]:
    """Of each format the larger of its two samples: its share of the sample of all, or the one of
    its own.
    """
    of_all: dict[str, list[Named]] = {}
    for named in tally.sample.items:
        of_all.setdefault(named.key, []).append(named)
    found: list[Named] = []
    for key, stratum in tally.strata.items():
        shared = of_all.get(key, [])
        found += shared if len(shared) > len(stratum.items) else stratum.items
    return found


def take_sizes(
    sample: Sample,
    files: list[Named],
    phase: SamplePhase,
    tell: Callable[[str], None],
    *,
    is_whole: bool,
    has_links: bool,
    census: Census | None = None,
) -> None:
    """stat(2) of the files, in random batches, so that whatever time allows is a fair sample.
    Within a batch the order is that of the inodes, which is about the order on the disk: nothing
    may hang on it later.

    `is_whole` says that these are all names, `has_links` that symbolic links are among them; a
    `census` knows how many names of a file lie here.
    """
    Random(SEED).shuffle(files)  # noqa: S311 - no secret
    taken: list[Sized] = []
    for start in range(0, len(files), _BATCH):
        batch = list(_read_sizes(sample, files[start : start + _BATCH], phase, has_links=has_links))
        if not phase.has_time(for_stats=True) and taken:  # a cut batch is none of a random order
            break
        taken += batch
        tell(f"sizes of {len(taken):,} files")
    is_all = is_whole and len(taken) + sample.gone + sample.denied == len(files)
    for one in once_each(taken, is_whole=is_all, census=census):
        sample.sizes.setdefault(one.named.key, []).append(one)


def _read_sizes(
    sample: Sample, batch: list[Named], phase: SamplePhase, *, has_links: bool
) -> Iterator[Sized]:
    for named in sorted(batch, key=lambda named: named.inode):
        if not phase.has_time(for_stats=True):
            return
        try:
            info = os.stat(named.path)
        except FileNotFoundError:
            sample.gone += 1
            continue
        except OSError:
            sample.denied += 1
            continue
        if stat.S_ISREG(info.st_mode):
            # Only such files can come twice; for 20,000 others an inode would be kept for nothing.
            is_shared = has_links or info.st_nlink > 1
            inode = (info.st_dev, info.st_ino, info.st_mtime_ns) if is_shared else None
            yield Sized(named, sample.held(named.key, info), inode, info.st_nlink)
        else:
            sample.gone += 1


def once_each(
    taken: list[Sized], *, is_whole: bool, census: Census | None = None
) -> Iterator[Sized]:
    """Each with its part of the file that it names. Of all names it is known how often a file
    comes, and a census knows it, too; of a sample only how many names it has anywhere, so all of
    them are taken to be here.
    """
    if not is_whole:
        for one in taken:
            links = one.links
            if census and one.inode and links > 1:
                links = max(1, census.names_below(*one.inode[:2], links))
            yield one._replace(part=1 / links) if links > 1 else one
        return
    times = Counter(one.inode for one in taken if one.inode)
    yield from (one._replace(part=1 / times[one.inode]) if one.inode else one for one in taken)


def plan(sample: Sample, by_format: Mapping[str, int]) -> None:
    """Strata for the files to open, the more the more bytes a format has, each in random order."""
    total = sum(by_format.values()) or 1  # of which the large files are looked into besides
    random = Random(SEED + 1)  # noqa: S311 - no secret
    for key, taken in sample.sizes.items():
        most = max(_LEAST, round(OPENED * by_format.get(key, 0) / total))
        sample.runs[key] = split_in_runs(taken, max(1, most // OF_EACH), lambda one: one.where)
        for run in sample.runs[key]:
            random.shuffle(run)


def look_inside(
    sample: Sample,
    depth: int,
    phase: SamplePhase,
    *,
    with_headers: bool,
    tell: Callable[[str], None],
) -> bool:
    """Open files until `depth` of each stratum were; whether there was time and something to open.
    `depth` grows from call to call, from OF_EACH on.
    """
    wanted: list[tuple[int, Named, float, bool]] = []
    for key, strata in sample.runs.items():
        each = _count_each(depth, len(strata))
        is_read = with_headers and has_header(key)
        for number, run in enumerate(strata):
            new = (one for one in run[:each] if one.named.path not in sample.tried)
            wanted += [(number, one.named, one.part, is_read) for one in new]
    Random(SEED + 2).shuffle(wanted)  # noqa: S311 - no secret
    # The large files first: they are certain, and time may end before the others.
    if depth == OF_EACH:
        wanted[:0] = [
            (LARGE_RUN, one.named, 1.0, with_headers and has_header(key))
            for key, large in sample.large.items()
            for one in large
        ]
    for done, (place, named, part, is_read) in enumerate(wanted):
        if not phase.has_time(for_stats=False):
            return False
        if done % 50 == 0:
            tell(f"{done:,} of {len(wanted):,} files opened")
        _probe_named(sample, named, place, part, phase, with_header=is_read)
    return bool(wanted)


def _count_each(depth: int, strata: int) -> int:
    """A format with few strata gets its least number from them."""
    return max(depth, -(-_LEAST * depth // (OF_EACH * max(1, strata))))


def _probe_named(
    sample: Sample, named: Named, run: int, part: float, phase: SamplePhase, *, with_header: bool
) -> None:
    sample.tried.add(named.path)
    try:
        found = probe_file(
            named.path,
            with_header=with_header,
            has_time=lambda: phase.has_time(for_stats=False),
            held=lambda info: sample.held(named.key, info),
        )
    except OSError:
        sample.denied += 1
        return
    if found is None:
        sample.gone += 1
        return
    sample.opened += 1
    sample.moved += found.has_moved_atime
    if found.was_read:
        sample.looked.append(Looked(named.key, found.size, found.header, run, part))
    # Not known is left out of both sums; as 0 it would say that nothing is cached.
    if found.resident_bytes is not None:
        sample.seen += 1
        resident, size = sample.resident.get((named.key, run), (0, 0))
        sample.resident[named.key, run] = (resident + found.resident_bytes, size + found.size)


def estimate_resident(sample: Sample, by_format: Mapping[str, int]) -> Resident:
    """The share of all bytes in the page cache: of each stratum as far as it was seen, by its
    bytes.
    """
    if not sample.seen:
        why = (
            "no file was opened"
            if not sample.opened
            else f"the kernel hides it for files of others ({page_cache.name_method()})"
        )
        return Resident(None, sample.opened, why)
    shares: dict[str, float] = {}
    for key, size_of_all in by_format.items():
        seen = [
            (run, *sample.resident.get((key, number), (0, 0)))
            for number, run in enumerate(sample.runs.get(key, ()))
        ]
        weighed = [(sum(one.size for one in run), held / size) for run, held, size in seen if size]
        held_large, large = sample.resident.get((key, LARGE_RUN), (0, 0))
        rest = max(0, size_of_all - large)
        whole = sum(weight for weight, _ in weighed)
        if size_of_all and (whole or large):
            part = sum(weight * part for weight, part in weighed) / whole if whole else 0.0
            shares[key] = (rest * part + held_large) / (rest + large)
    whole = sum(by_format[key] for key in shares)
    share = sum(by_format[key] * part for key, part in shares.items()) / whole if whole else 0.0
    return Resident(share, sample.seen, page_cache.name_method())
