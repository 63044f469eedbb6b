"""`hosttune bench atime`: what noatime is worth on the file system of a data set, tried on scratch copies.

A and A' read with noatime, B reads as the file system is mounted. Before each chunk the access times of its scratch
copies are set two days back, all that is dirty is written, and the copies leave the page cache; then opening, reading
and syncfs(2) are timed, because the price of an access time is paid when its inode is written.

With root the arms are two mounts of the scratch folder (detached.py), else O_NOATIME against a plain open. Inodes and
names stay cached (cold data, warm metadata) unless caches are dropped.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from hosttune.errors import HosttuneError, Refused
from hosttune.frozen import frozen
from hosttune.host.mountinfo import ATIME_WORDS
from hosttune.measure.bench.copies import Copies, make_copies, sync
from hosttune.measure.bench.counters import now, read_disk
from hosttune.measure.bench.detached import view_of
from hosttune.measure.bench.draw import RandomDraw, copy_sizes, draw
from hosttune.measure.bench.gates import GateClosed, require_disk, require_quiet
from hosttune.measure.bench.noise import work_noise
from hosttune.measure.bench.pairs import BASE, CONTROL, OTHER, Pairs, Timed, compare
from hosttune.measure.bench.place import Place, look_at
from hosttune.measure.bench.results import BenchResult, new_result, noise_figures
from hosttune.measure.bench.scratch import scratch
from hosttune.measure.bench.signals import ended_alike
from hosttune.measure.page_cache import drop

RULE = "storage-noatime"
READ = "read"
DROP_CACHES = "/proc/sys/vm/drop_caches"
_CHUNK_S = 0.075  # of reading, in a chunk
_TRIED = 64  # files, to find out how many that are
_HOUR_NS = 3600 * 10**9
_BUFFER = 1 << 20


@frozen
class Arm:
    """One way to open the scratch copies: a folder, and flags of open(2)."""

    atime: str
    folder: int
    flags: int = 0


@frozen
class AtimeOptions:
    """What the command line says. `where` is the state folder, "" for this user's."""

    budget_s: float = 60.0
    files: int = 4000
    drop_caches: bool = False
    anyway: bool = False
    allow_network: bool = False
    where: str = ""
    same: bool = False  # B reads as A does: what differs then is the noise of this host


def bench_atime(
    path: str, seed: int, options: AtimeOptions, tell: Callable[[str], None] = lambda _: None
) -> BenchResult:
    """Measure it. `tell` gets a line of progress now and then.

    Raises GateClosed where it should not be measured, HosttuneError where it cannot be.
    """
    if options.drop_caches and os.geteuid() != 0:
        raise HosttuneError("--drop-caches needs root", hint="without it, only the scratch copies leave the page cache")
    place = look_at(path)
    most_bytes = require_disk(place, allow_network=options.allow_network)
    tell("watching the host for a second")
    spoiled = require_quiet(place, anyway=options.anyway)
    tell("looking at the files")
    drawn = draw(place.path, seed)
    sizes = copy_sizes(drawn.sizes, options.files, most_bytes)
    with ended_alike(), scratch(place, options.where) as (folder, _):
        tell(f"writing {len(sizes)} scratch copies, {sum(sizes) >> 20} MiB")
        copies = make_copies(folder, sizes)
        with _arms(folder, place, is_same=options.same) as (arms, how):
            tell("counting what is written")
            reader = CopyReader(folder, copies, place, seed, drops_caches=options.drop_caches)
            written = {name: reader.written(arm) for name, arm in arms.items() if name != CONTROL}
            pairs = compare(
                lambda arm, chunk: {READ: reader.timed(arms[arm], chunk)},
                seed=seed,
                budget_s=options.budget_s,
                begin_chunk=lambda: _watch(place.device),
                spoiled=spoiled,
                anyway=options.anyway,
                on_progress=lambda done, share: tell(f"{done} pairs, {share:.0%} of the time"),
            )
    words = {"base": "noatime", "other": arms[OTHER].atime, "mounted": place.atime, "how": how}
    words["caches"] = "all dropped" if options.drop_caches else "cold data, warm metadata"
    figures = {**_figures(drawn, copies, written), **_costs(pairs), **noise_figures(pairs)}
    return new_result("atime", place, seed, pairs.comparisons, figures=figures, words=words)


def _watch(device: str) -> Callable[[], tuple[str, ...]]:
    before = now(device)
    return lambda: work_noise(before, now(device))


def _figures(
    drawn: RandomDraw, copies: Copies, written: Mapping[str, tuple[int | None, int | None]]
) -> dict[str, float | None]:
    figures: dict[str, float | None] = {
        "copies": len(copies.names),
        "copied_bytes": copies.bytes,
        "files_seen": drawn.seen,
        "files_looked_at": len(drawn.sizes),
        "files_stale": drawn.stale,
    }
    for name, (first, again) in written.items():
        figures[f"written_bytes_{name}"] = first  # the first read of a day
        figures[f"rewritten_bytes_{name}"] = again  # a second one right after it
    return figures


def _costs(pairs: Pairs) -> dict[str, float | None]:
    figures: dict[str, float | None] = {}
    for name, one in pairs.comparisons[0].totals.items():
        figures[f"seconds_{name}"] = one.seconds
        figures[f"cpu_s_{name}"] = one.cpu_s
        figures[f"device_read_bytes_{name}"] = one.read_bytes
        figures[f"device_written_bytes_{name}"] = one.written_bytes
    return figures


@contextmanager
def _arms(folder: int, place: Place, *, is_same: bool = False) -> Iterator[tuple[Mapping[str, Arm], str]]:
    """The arms, `strictatime` besides them where it can be had, and a word on how they were made."""
    present = place.atime if place.atime != "noatime" else "relatime"
    with ExitStack() as stack:
        try:
            views = {mode: Arm(mode, stack.enter_context(view_of(folder, mode))) for mode in ATIME_WORDS}
        except Refused as refused:
            if place.atime == "noatime" and not is_same:
                raise GateClosed(
                    f"{place.target} is mounted noatime already: there is nothing to gain",
                    hint="as root, bench shows what relatime would cost there",
                ) from refused
            base, other, more = Arm("noatime", folder, os.O_NOATIME), Arm(present, folder), {}
            how = "O_NOATIME against a plain open"
        else:
            base, other, more = views["noatime"], views[present], {"strictatime": views["strictatime"]}
            how = "private mounts of one folder"
        other = base if is_same else other
        yield {BASE: base, OTHER: other, CONTROL: base, **more}, how


class CopyReader:
    """Reads the scratch copies chunk by chunk."""

    def __init__(self, folder: int, copies: Copies, place: Place, seed: int, *, drops_caches: bool) -> None:
        self._folder = folder
        self._place = place
        self._drops_caches = drops_caches
        self._files = list(zip(copies.names, copies.sizes, strict=True))
        random.Random(seed).shuffle(self._files)  # noqa: S311 - to be repeated from its seed
        self._buffer = bytearray(_BUFFER)
        self._chunk = 0

    def written(self, arm: Arm) -> tuple[int | None, int | None]:
        """Bytes that the device writes when all copies with old access times are read once, and when they are read
        once more.
        """
        self._make_stale(self._files)
        counts = [read_disk(self._place.device)]
        for _ in range(2):
            for name, _size in self._files:
                self._read(arm, name, 1)
            sync(self._folder)
            counts.append(read_disk(self._place.device))
        first, second, third = counts
        if first is None or second is None or third is None:
            return None, None
        return second.since(first).written_bytes, third.since(second).written_bytes

    def timed(self, arm: Arm, chunk: int) -> Timed:
        """Read one chunk, cold, and write what that made dirty."""
        if not self._chunk:
            self._chunk = self._chunk_files(arm)
        return self._timed(arm, self._files_of(chunk))

    def _chunk_files(self, arm: Arm) -> int:
        tried = self._files[:_TRIED]
        self._timed(arm, tried)
        each = self._timed(arm, tried).seconds / len(tried)
        return max(1, min(len(self._files), int(_CHUNK_S / each)))

    def _files_of(self, chunk: int) -> Sequence[tuple[str, int]]:
        """Chunk by chunk through all the copies, and again from the start."""
        start = chunk * self._chunk % len(self._files)
        return (self._files[start:] + self._files[:start])[: self._chunk]

    def _timed(self, arm: Arm, files: Sequence[tuple[str, int]]) -> Timed:
        self._make_stale(files)
        self._evict(files)
        disk, cpu, begun = read_disk(self._place.device), time.process_time(), time.perf_counter()
        for name, size in files:
            self._read(arm, name, size)
        sync(self._folder)
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        after = read_disk(self._place.device)
        done = after.since(disk) if after and disk else None
        return Timed(seconds, cpu, done.read_bytes if done else None, done.written_bytes if done else None)

    def _make_stale(self, files: Sequence[tuple[str, int]]) -> None:
        """Access two days ago, content one day older: as a data set that is read every other day."""
        present = time.time_ns()
        for name, _ in files:
            os.utime(name, ns=(present - 48 * _HOUR_NS, present - 72 * _HOUR_NS), dir_fd=self._folder)
        sync(self._folder)

    def _evict(self, files: Sequence[tuple[str, int]]) -> None:
        if self._drops_caches:
            with open(DROP_CACHES, "w", encoding="ascii") as file:
                file.write("3\n")
            return
        for name, _ in files:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)
            try:
                drop(fd)
            finally:
                os.close(fd)

    def _read(self, arm: Arm, name: str, size: int) -> None:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | arm.flags, dir_fd=arm.folder)
        try:
            left = size
            while left > 0:
                taken = os.readv(fd, [memoryview(self._buffer)[: min(left, _BUFFER)]])
                if not taken:
                    break
                left -= taken
        finally:
            os.close(fd)
