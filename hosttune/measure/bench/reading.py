"""What the figures of `bench read` say: what limits, how many workers pay, what to do. Pure.

The differential is that of DS-Analyzer (Mohan et al., "Analyzing and Mitigating Data Stalls in DNN
Training", VLDB 2021), without a change to anybody's code: cold files against warm ones is what
storage costs, warm files against warm files decoded is what the CPU costs. Bytes from the device
stand beside bytes read in every pass, because an epoch that made no storage traffic says nothing
about storage (mlcommons/storage issue 464).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from hosttune.frozen import frozen
from hosttune.measure.bench.statistics import Interval, median_interval
from hosttune.measure.workers import start_workers

if TYPE_CHECKING:
    from hosttune.measure.cpus import Cpus

KNEE: Final = 0.98  # of the best rate: the fewest workers that come so near
# bytes from the device for each byte read, below which nothing was learnt about storage
CACHED: Final = 0.1
SAME: Final = 0.9  # of the warm rate: cold files that come as fast, where no device can be asked
BUSY: Final = 0.7  # of the CPUs that the workers can use
GROWS: Final = 0.3  # of the added workers' share that the last step still brought
PACKED_PAYS: Final = 1.5


class Limit(Enum):
    """What keeps the files from coming faster."""

    DECODE = "decode"  # the CPU, decoding
    CPU = "cpu"  # the CPU, opening and reading
    LATENCY = "latency"  # waiting that more workers overlap
    DISK = "disk"  # waiting that more workers do not overlap
    MEMORY = "memory"  # nothing came from a disk
    UNKNOWN = "inconclusive"


@frozen
class Pass:
    """One pass of some workers over some files."""

    workers: int
    files: int
    failed: int
    bytes_read: int
    # that the block layer was asked for on behalf of the workers; 0 on a network file system
    bytes_device: int
    seconds: float  # from the start to the end of the last worker
    cpu_seconds: float  # of all workers together
    user_seconds: float = 0.0  # of it, outside of the kernel

    @property
    def rate(self) -> float:
        """Files a second."""
        return self.files / self.seconds if self.seconds else 0.0


@frozen
class Measure:
    """Several passes of one kind, all with as many workers."""

    workers: int
    rate: Interval  # files a second
    bytes_per_s: float
    bytes_read: int
    bytes_device: int
    seconds: float
    cpu_seconds: float
    rates: tuple[float, ...]  # of each pass, files a second
    failed: int = 0

    @property
    def device_share(self) -> float:
        """Bytes from the device for each byte read."""
        return self.bytes_device / self.bytes_read if self.bytes_read else 0.0

    @property
    def wait_ratio(self) -> float:
        """What a worker waits for each second that it computes."""
        # Two clocks are read one after the other, so a worker that only computes may show a little
        # more CPU than time.
        return max(0.0, self.seconds * self.workers - self.cpu_seconds) / max(
            self.cpu_seconds, 1e-6
        )

    def busy(self, cpus: float) -> float:
        """The share of the CPUs these workers could use that they did use."""
        return self.cpu_seconds / (self.seconds * min(self.workers, cpus)) if self.seconds else 0.0


def measure_of(passes: Sequence[Pass], seed: int) -> Measure:
    """The passes of one kind in one value; there is at least one, and it read something."""
    seconds = sum(one.seconds for one in passes)
    rates = tuple(one.rate for one in passes)
    return Measure(
        passes[0].workers,
        median_interval(rates, seed),
        sum(one.bytes_read for one in passes) / seconds,
        sum(one.bytes_read for one in passes),
        sum(one.bytes_device for one in passes),
        seconds,
        sum(one.cpu_seconds for one in passes),
        rates,
        sum(one.failed for one in passes),
    )


@frozen
class Figures:
    """All that was measured."""

    cold: Measure
    warm: Measure
    # the same bytes from one file, in order; None where none could be written
    packed: Measure | None
    decode: Measure | None  # warm files, decoded by one worker
    sweep: tuple[Measure, ...]  # cold files, decoded where decode is measured, by ever more workers
    cpus: Cpus  # usable ones
    available_bytes: int | None = None  # of memory
    is_network: bool = False  # no block device is behind the files
    spoiled: str = ""  # why nothing may be concluded
    # the same, and each batch copied to where another process can map it
    handed: Measure | None = None

    @property
    def handed_share(self) -> float | None:
        """What one worker brings of what the training process decodes by itself; None where it was
        not measured.
        """
        if self.decode is None or self.handed is None:
            return None
        return self.handed.rate.estimate / self.decode.rate.estimate


@frozen
class ReadAdvice:
    """One thing to do. `rule` is the id of the rule that does or explains it, or nothing."""

    text: str
    rule: str = ""


@frozen
class Conclusion:
    """What the figures say."""

    limit: Limit
    reason: str
    knee: int  # the fewest workers that come near the best rate; 0 where nothing was swept
    wait_ratio: float  # of one worker on cold files
    workers: int  # to start with
    advice: tuple[ReadAdvice, ...]


def conclude_limit(figures: Figures) -> Conclusion:
    """What limits here, from the figures alone."""
    limit, reason = _limit(figures)
    knee = knee_of(figures.sweep)
    ratio = figures.sweep[0].wait_ratio if figures.sweep else figures.cold.wait_ratio
    workers = _choose_workers(figures, limit, knee, ratio)
    return Conclusion(
        limit, reason, knee, ratio, workers, tuple(_give_advice(figures, limit, workers))
    )


def knee_of(sweep: Sequence[Measure]) -> int:
    """The fewest workers whose rate is within 2 % of the best one."""
    if not sweep:
        return 0
    best = max(one.rate.estimate for one in sweep)
    # The sweep is in ascending order, so the first that comes near is the fewest.
    return next(one.workers for one in sweep if one.rate.estimate >= KNEE * best)


def still_grows(sweep: Sequence[Measure]) -> bool:
    """Whether the last step still brought a good part of what the added workers could."""
    if len(sweep) < 2:
        return False
    before, last = sweep[-2:]
    added = last.workers / before.workers - 1
    return last.rate.estimate / before.rate.estimate - 1 >= GROWS * added


def _limit(figures: Figures) -> tuple[Limit, str]:
    if figures.spoiled:
        return Limit.UNKNOWN, figures.spoiled
    # Before the CPUs are asked: files from memory keep the CPUs busy as well, and that says nothing
    # about this disk.
    is_cached = _is_cached(figures)
    if is_cached and figures.decode is None:
        if figures.is_network:
            return (
                Limit.MEMORY,
                "cold files came as fast as warm ones: a cache is before the network",
            )
        return (
            Limit.MEMORY,
            (
                "almost nothing came from a disk: the files lie in memory, or cannot be dropped "
                "from it"
            ),
        )
    if not figures.sweep:
        return Limit.UNKNOWN, "too little could be read in the time"
    best = max(figures.sweep, key=lambda one: one.rate.estimate)
    if best.busy(figures.cpus.usable) >= BUSY:
        what = "decoding" if figures.decode else "opening and reading"
        share = (
            f"{min(1.0, best.busy(figures.cpus.usable)):.0%} of the CPUs that "
            f"{_workers_text(best.workers)} can use"
        )
        return Limit.DECODE if figures.decode else Limit.CPU, f"{what} takes {share}"
    if is_cached:
        return (
            Limit.UNKNOWN,
            "nothing came from a disk, and yet the workers waited: something else held them up",
        )
    return _find_waiting(figures.sweep)


def _find_waiting(sweep: Sequence[Measure]) -> tuple[Limit, str]:
    """What workers wait for that do not keep the CPUs busy."""
    if len(sweep) < 2:
        return (
            Limit.UNKNOWN,
            "the workers wait, and one number of workers does not say for what: give several",
        )
    if still_grows(sweep):
        return (
            Limit.LATENCY,
            (
                "the workers wait, and more of them wait at the same time: each file takes long "
                "to come"
            ),
        )
    return Limit.DISK, "the workers wait, and more of them get no more: storage gives what it can"


def _is_cached(figures: Figures) -> bool:
    cold, warm = figures.cold, figures.warm
    if figures.is_network:
        return cold.rate.estimate >= SAME * warm.rate.estimate
    # Not zero: metadata and read-ahead of neighbours come from the device even where all pages are
    # in memory.
    return cold.device_share < CACHED


def _choose_workers(figures: Figures, limit: Limit, knee: int, ratio: float) -> int:
    """How many to start with: CPUs x (1 + wait/CPU) where waiting can be overlapped, the knee
    otherwise. Never one alone, where that brings less than none and there are CPUs for two.
    """
    grows = still_grows(figures.sweep)
    share = figures.handed_share
    least = (
        2 if knee == 1 and share is not None and share < KNEE and figures.cpus.whole > 1 else knee
    )
    if limit is Limit.LATENCY:
        start = start_workers(
            figures.cpus, wait_per_cpu=ratio, available_bytes=figures.available_bytes
        ).start
        return max(least, start)
    # The sweep ended before its knee: more CPUs are there than workers were tried.
    if grows and limit in {Limit.CPU, Limit.DECODE}:
        return max(least, figures.cpus.whole)
    return least


def _give_advice(figures: Figures, limit: Limit, workers: int) -> list[ReadAdvice]:
    found = []
    if workers and limit is not Limit.UNKNOWN:
        found.append(
            ReadAdvice(
                f"num_workers={workers} in all; with several training processes on this host, "
                "share them"
            )
        )
    share = figures.handed_share
    if share is not None and share < KNEE and limit is not Limit.UNKNOWN:
        sentence = f"one worker delivers {share:.0%} of what the training process decodes by itself"
        found.append(
            ReadAdvice(
                f"{sentence}: a single one pays only where training and loading overlap; take two "
                "or more, or none"
            )
        )
    if limit is Limit.DECODE:
        found.append(
            ReadAdvice(
                "cheaper decoding pays: smaller images, decoding on the GPU, a cache",
                "framework-input-pipeline",
            )
        )
        if figures.decode and not _is_cached(figures):
            times = figures.cold.rate.estimate / figures.decode.rate.estimate
            found.append(
                ReadAdvice(
                    f"one worker reads {times:.1f} times as fast as it decodes: no faster disk is "
                    "needed"
                )
            )
    if limit is Limit.DISK:
        found.append(
            ReadAdvice("a faster disk, or files that fit into memory", "storage-data-placement")
        )
    if limit is Limit.LATENCY:
        found.append(
            ReadAdvice(
                "more workers overlap the waiting; so does prefetching", "framework-input-pipeline"
            )
        )
        found += (
            [ReadAdvice("on NFS, read-ahead", "storage-nfs-readahead")]
            if figures.is_network
            else []
        )
    times = figures.packed.rate.estimate / figures.cold.rate.estimate if figures.packed else 0.0
    if times >= PACKED_PAYS and limit in {Limit.DISK, Limit.LATENCY, Limit.CPU}:
        found.append(
            ReadAdvice(
                f"the same bytes in order from one file come {times:.1f} times as fast: sequential "
                "shards (tar)"
            )
        )
    return found


def _workers_text(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
