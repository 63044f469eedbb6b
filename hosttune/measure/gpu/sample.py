"""What one look at the GPUs says, and what every source of such looks offers."""

from __future__ import annotations

from typing import Protocol

from hosttune.frozen import frozen
from hosttune.numbers import parse_digits


@frozen
class GpuSample:
    """One GPU, or one MIG instance of it, at one look. None is "unknown", never 0.

    `util_percent` is the share of NVML's last sampling window (1/6 to 1 s) in which any kernel ran:
    low says that the GPU waits, high does not say that it works hard. Memory is in bytes, power in
    watts, the clock in MHz. `reasons` are the clock event reasons in words (`REASONS` of
    reasons.py), () where the clock is not held. `pids` are the processes that hold memory on it, as
    the host's process namespace numbers them.

    A MIG instance has the `index` of its GPU, its own `uuid` and memory, and no utilization: NVML
    does not tell it. A `lost` GPU has fallen off the bus: everything that changes is None, for this
    look and all later ones.
    """

    index: int
    uuid: str = ""
    name: str = ""
    util_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_mhz: int | None = None
    reasons: tuple[str, ...] | None = None
    pids: tuple[int, ...] | None = None
    is_mig: bool = False
    lost: bool = False

    def is_named(self, word: str) -> bool:
        """Whether an index, or the beginning of a UUID, means it; an index means the GPU and its
        MIG instances. CUDA_VISIBLE_DEVICES is a word of the job's owner, of any length.
        """
        index = parse_digits(word, None)
        return (
            self.index == index if index is not None else bool(word) and self.uuid.startswith(word)
        )


class GpuSampler(Protocol):
    """A source of looks. `read` and `close` never raise because of a GPU, a driver or a tool."""

    @property
    def source(self) -> str:
        """nvml, nvidia-smi, none or replay."""
        ...

    @property
    def reason(self) -> str:
        """Why there is none, or why not the better source, without a full stop; empty where the
        best one answers.
        """
        ...

    def read(self) -> tuple[GpuSample, ...]:
        """Every GPU as it is now, in order of index, MIG instances behind their GPU; () without a
        source.
        """
        ...

    def close(self) -> None:
        """Gives back the library or the process; a second call does nothing."""
        ...
