"""The passes of `bench read`: cold and warm files chunk by chunk, shards, decoding, and ever more
workers.

Cold data is made by fadvise(2) before each pass, so inodes stay warm. A pass that others disturbed
is done again.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.measure.bench.counters import Moment, read_moment
from hosttune.measure.bench.gates import GateClosed
from hosttune.measure.bench.noise import LIMIT, foreign_cpu
from hosttune.measure.bench.read_crew import Crew, Probed, WorkerDied
from hosttune.measure.bench.read_sample import ReadSample, evict_files
from hosttune.measure.bench.reading import Pass
from hosttune.measure.bench.statistics import median_interval
from hosttune.measure.dataset.walk import open_regular

CHUNK_S: Final = 0.05  # of cold reading
CHUNK_BYTES: Final = 32 << 20
PASS_S: Final = 1.0  # of a pass of the sweep, where there are files enough
PASS_TIMEOUT_S: Final = 120.0
MOST_CHUNKS: Final = 40
MOST_ROUNDS: Final = 9
PRECISE: Final = 0.02  # half of an interval of a rate
MOST_SKIPPED: Final = 0.30  # of the passes
_TRIED: Final = 10  # passes, before too many count as disturbed
_DEATHS: Final = 20  # files that may end a worker, before decoding is given up
_SMALL_READ: Final = 1 << 20
_WRITING_S: Final = 120.0  # of shards, at most
_BATCH: Final = 32  # files that are probed at a time


class Watch:
    """Runs passes and does those again that others disturbed. With `spoiled`, none: nothing is
    concluded then. `anyway` makes a reason of too many that were disturbed.
    """

    def __init__(self, device: str, spoiled: str = "", *, anyway: bool = False) -> None:
        self.device = device
        self.spoiled = spoiled
        self.anyway = anyway
        self.tried = self.skipped = 0

    def run(
        self,
        crew: Crew,
        numbers: Sequence[int],
        workers: int,
        how: str,
        prepare: Callable[[], None],
    ) -> Pass:
        """One undisturbed pass. Raises GateClosed where more than 30 % are disturbed and it is not
        measured anyway.
        """
        while True:
            prepare()
            before = read_moment(self.device)
            # Between the two moments and nothing else: what `prepare` evicts or reads must not
            # count as the work of others.
            made = crew.run(numbers, workers, how, PASS_TIMEOUT_S)
            if not made.files:
                raise HosttuneError(
                    "none of the files of a pass could be read: they were moved, or changed, "
                    "meanwhile",
                    hint="measure when no one works in this folder",
                )
            noise = describe_disturbance(before, read_moment(self.device), made)
            self.tried += 1
            if not noise or self.spoiled:
                return made
            self.skipped += 1
            # A few passes at the start prove nothing about the host; only behind these does the
            # share mean something.
            if self.tried >= _TRIED and self.skipped > MOST_SKIPPED * self.tried:
                why = (
                    f"{self.skipped} of {self.tried} passes were disturbed, {noise}: they show "
                    "nothing"
                )
                if not self.anyway:
                    raise GateClosed(
                        why, hint="wait for the host to be idle, or measure anyway: --anyway"
                    )
                self.spoiled = why
                return made


def describe_disturbance(before: Moment, after: Moment, made: Pass) -> str:
    """Who else was at work during a pass, in a few words; nothing where no one was."""
    # The counters of ended children reach the parent only when they are waited for (getrusage(2)),
    # and workers live on: their part is added by hand.
    own = replace(
        after,
        own_cpu_s=after.own_cpu_s + made.user_seconds,
        own_read_bytes=after.own_read_bytes + made.bytes_device,
    )
    if others := foreign_cpu(before, own):
        return others[0]
    if before.disk and own.disk:
        read = own.disk.since(before.disk).read_bytes
        foreign = read - (own.own_read_bytes - before.own_read_bytes)
        # Read-ahead and the journal read a little that no worker asked for, and of a short pass
        # that is a large share.
        if foreign > max(LIMIT * read, _SMALL_READ):
            return f"others read {foreign / read:.0%} of what the disk gave"
    return ""


@frozen
class Chunk:
    """Some files of the sample, by number, and the file that holds the same bytes in order; -1 for
    none.
    """

    files: tuple[int, ...]
    shard: int = -1


def chunks_of(sample: ReadSample, rate: float) -> list[Chunk]:
    """The sample in pieces that take about 50 ms cold, at `rate` files a second; at least three
    where it can be.
    """
    # Three at least, or the median of the passes would rest on one place of the disk.
    each = max(1, min(int(rate * CHUNK_S), len(sample.paths) // 3))
    found: list[Chunk] = []
    own: list[int] = []
    size = 0
    for number, one in enumerate(sample.sizes):
        if own and (len(own) >= each or size + one > CHUNK_BYTES):
            found.append(Chunk(tuple(own)))
            own, size = [], 0
        own.append(number)
        size += one
    return ([*found, Chunk(tuple(own))] if own else found)[:MOST_CHUNKS]


def write_shards(
    chunks: Sequence[Chunk], sample: ReadSample, folder: int, most: int,
    is_over: Callable[[], bool] = lambda: False,
) -> list[tuple[Chunk, str]]:  # fmt: skip
    """Each chunk with the path of a new file below `folder` that holds its bytes in order; "" once
    `most` bytes are written, two minutes have passed, or `is_over` says so. Synced: dirty pages
    cannot be dropped. The path leads by our descriptor (proc_pid_fd(5)): the owner of the folder
    above can put a dead server under the name of this one.
    """
    made = []
    left = most
    until = time.monotonic() + _WRITING_S
    for place, chunk in enumerate(chunks):
        # Counted before the write: `most` is a promise about the disk, which a shard that is too
        # large would break.
        left -= sum(sample.sizes[number] for number in chunk.files)
        if left < 0 or is_over() or time.monotonic() > until:
            made.append((chunk, ""))
            continue
        name = f"shard-{place:03}"
        fd = os.open(
            name,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
            dir_fd=folder,
        )
        with os.fdopen(fd, "wb") as file:
            for number in chunk.files:
                file.write(_read_content(sample.paths[number], sample.sizes[number]))
            file.flush()
            os.fsync(file.fileno())
        made.append((chunk, f"/proc/{os.getpid()}/fd/{folder}/{name}"))
    return made


def _read_content(path: str, size: int) -> bytes:
    # another's file is one whose access time does not move
    fd, _ = open_regular(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        return file.read(size)


@frozen
class Differential:
    """The passes of one worker over cold files, the same files warm, and shards with the same
    bytes.
    """

    cold: tuple[Pass, ...]
    warm: tuple[Pass, ...]
    packed: tuple[Pass, ...]


def measure_differential(
    crew: Crew, watch: Watch, chunks: Sequence[Chunk], paths: Sequence[str],
    cold: Callable[[Sequence[str]], None],
    seed: int, until: float,
) -> Differential:  # fmt: skip
    """Chunk by chunk in random order until `until` or until it is precise, at least each of three.
    `cold` lets go of what is cached of paths.
    """
    draws = random.Random(seed)  # noqa: S311 - an order, to be repeated from its seed
    found: dict[str, list[Pass]] = {"cold": [], "warm": [], "packed": []}
    order: list[Chunk] = []
    while len(found["cold"]) < 3 or (time.monotonic() < until and not _is_precise(found, seed)):
        # Without replacement: each chunk comes before any comes twice, so the parts of the disk
        # have the same weight.
        order = order or draws.sample(list(chunks), len(chunks))
        chunk = order.pop()
        own = [paths[number] for number in chunk.files]

        # Defaults bind the values of this round; a closure would see those of the next.
        def files(chunk: Chunk = chunk, own: list[str] = own) -> None:
            found["cold"].append(watch.run(crew, chunk.files, 1, "read", lambda: cold(own)))
            found["warm"].append(watch.run(crew, chunk.files, 1, "read", lambda: None))

        def shard(chunk: Chunk = chunk) -> None:
            made = watch.run(crew, (chunk.shard,), 1, "read", lambda: cold([paths[chunk.shard]]))
            found["packed"].append(replace(made, files=len(chunk.files)))

        for step in draws.sample(
            [files, shard] if chunk.shard >= 0 else [files], 2 if chunk.shard >= 0 else 1
        ):
            step()
        if len(found["cold"]) >= 3 * len(chunks) and len(found["cold"]) >= MOST_CHUNKS:
            break
    return Differential(tuple(found["cold"]), tuple(found["warm"]), tuple(found["packed"]))


def _is_precise(found: dict[str, list[Pass]], seed: int) -> bool:
    """Whether the rates are known well; asked at twenty passes, forty ..., as a look costs time."""
    count = len(found["cold"])
    # A look after each pass would also stop at the first lucky one: repeated tests of one interval
    # are too sure.
    if count < 20 or count % 20:
        return False
    intervals = [
        median_interval([one.rate for one in passes], seed) for passes in found.values() if passes
    ]
    return all(one.half_width <= PRECISE for one in intervals)


@frozen
class DecodedSample:
    """What the user's library makes of the sample: the numbers of the files that it decodes, and
    why not the others.
    """

    good: tuple[int, ...]
    bad: tuple[tuple[int, str], ...]


def probe_files(
    make_crew: Callable[[], Crew], numbers: Sequence[int], until: float
) -> DecodedSample:
    """Decode each file once, one worker, until `until`. A file that ends the worker is counted, and
    another worker goes on with the next. Raises HosttuneError where that happens again and again.
    """
    good: list[int] = []
    bad: list[tuple[int, str]] = []
    left, deaths = list(numbers), 0
    while left and (time.monotonic() < until or not good):
        with make_crew() as crew:
            try:
                while left and (time.monotonic() < until or not good):
                    batch, left = left[:_BATCH], left[_BATCH:]
                    for one in crew.probe(batch):
                        batch = batch[1:]
                        _sort_in(one, good, bad)
            except WorkerDied as death:
                deaths += 1
                if deaths > _DEATHS or not batch:
                    raise HosttuneError(f"decoding is given up: {death.message}") from None
                # The batch shrinks with each answer, so its first number is the file at which the
                # worker died.
                bad.append((batch[0], death.message))
                left = batch[1:] + left
    return DecodedSample(tuple(good), tuple(bad))


def _sort_in(one: Probed, good: list[int], bad: list[tuple[int, str]]) -> None:
    if one.error:
        bad.append((one.number, one.error))
    else:
        good.append(one.number)


def decode_warm(
    crew: Crew, watch: Watch, numbers: Sequence[int], until: float, how: str = "decode"
) -> tuple[Pass, ...]:
    """Passes of one worker that decodes warm files, each about half a second; at least three. `how`
    is decode, or hand: then it hands on what it decoded.
    """
    found: list[Pass] = []
    take = Taker(numbers)
    rate = 100.0
    while len(found) < 3 or (time.monotonic() < until and len(found) < MOST_CHUNKS):
        own = take.some(int(rate * PASS_S / 2))
        found.append(watch.run(crew, own, 1, how, lambda own=own: _warm_up(crew, own)))  # type: ignore[misc]
        rate = max(found[-1].rate, 1.0)
    # The first pass pays for what a library sets up at its first image, and its length is a guess.
    return tuple(found[1:]) if len(found) > 3 else tuple(found)


def _warm_up(crew: Crew, numbers: Sequence[int]) -> None:
    crew.run(numbers, 1, "read", PASS_TIMEOUT_S)


def sweep_levels(
    crew: Crew, watch: Watch, levels: Sequence[int], numbers: Sequence[int], paths: Sequence[str],
    how: str,
    cold: Callable[[Sequence[str]], None], seed: int, until: float,
) -> dict[int, list[Pass]]:  # fmt: skip
    """Cold files by so many workers, round after round, the levels of each round in random order;
    one round at least.
    """
    draws = random.Random(seed)  # noqa: S311 - an order, to be repeated from its seed
    found: dict[int, list[Pass]] = {level: [] for level in levels}
    rates: dict[int, float] = {}
    take = Taker(numbers)
    for number in range(MOST_ROUNDS):
        # In ascending order at first: the rate of fewer workers is the guess for how many files the
        # next level needs.
        for level in sorted(levels) if number == 0 else draws.sample(list(levels), len(levels)):
            if number and time.monotonic() >= until:
                return found
            guess = rates.get(level) or max(rates.values(), default=50.0)
            # Four files for each worker at least: with fewer the last one that is still busy
            # decides the time.
            own = take.some(max(4 * level, int(guess * PASS_S)))
            own_paths = [paths[one] for one in own]
            made = watch.run(crew, own, level, how, lambda own_paths=own_paths: cold(own_paths))  # type: ignore[misc]
            found[level].append(made)
            rates[level] = max(made.rate, 1.0)
    return found


class Taker:
    """Hands out numbers in turn, from the beginning again after the last; no number twice at
    once.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = list(numbers)
        self._next = 0

    def some(self, count: int) -> list[int]:
        count = max(1, min(count, len(self._numbers)))
        # Never the same file twice in one pass: the second read of it would come from memory.
        both = self._numbers[self._next :] + self._numbers[: self._next]
        self._next = (self._next + count) % len(self._numbers)
        return both[:count]


def cold_by_fadvise(paths: Sequence[str]) -> None:
    """Let go of the pages of these files alone."""
    evict_files(paths)


def cold_by_dropping_all(paths: Sequence[str]) -> None:
    """Let go of all clean pages, inodes and names of this host (drop_caches,
    Documentation/admin-guide/sysctl/vm.rst): the metadata of the files is cold, too, and so is
    every other job's.
    """
    evict_files(paths)
    # 1 would drop the page cache only; 3 drops inodes and names as well, which is what makes the
    # metadata cold.
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3\n")
