"""Which GPUs are the job's. Pure."""

from __future__ import annotations

from hosttune.measure.gpu.sample import GpuSample


def jobs_gpus(
    samples: tuple[GpuSample, ...], pids: frozenset[int], visible: str | None, known: frozenset[str]
) -> tuple[tuple[GpuSample, ...], bool]:
    """The GPUs to judge by, and whether they are certainly the job's.

    First those on which its processes hold memory, or once held (`known`, their UUIDs); then those
    that CUDA_VISIBLE_DEVICES names (`visible`; CUDA may number them otherwise than NVML, by speed);
    then all of them, which is certain only where no other process holds one.
    """
    held = tuple(gpu for gpu in samples if gpu.uuid in known or pids.intersection(gpu.pids or ()))
    if held:
        return held, True
    if visible is not None:
        words = [word.strip() for word in visible.split(",")]
        return tuple(gpu for gpu in samples if any(gpu.is_named(word) for word in words)), True
    return samples, False
