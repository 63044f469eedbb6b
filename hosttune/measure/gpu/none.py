"""No GPU to look at: a job is judged by what the host says alone."""

from __future__ import annotations

from hosttune.frozen import frozen
from hosttune.measure.gpu.sample import GpuSample


@frozen
class NoSampler:
    """`reason` is a sentence for people, without a full stop."""

    reason: str
    source: str = "none"

    def read(self) -> tuple[GpuSample, ...]:
        return ()

    def close(self) -> None:
        """There is nothing to give back."""
