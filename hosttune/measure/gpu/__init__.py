"""What the GPUs do while a job runs: NVML, then one long-lived nvidia-smi, then nothing, with the
reason.
"""

from __future__ import annotations

from pathlib import Path

from hosttune.errors import HosttuneError
from hosttune.host.process import locate
from hosttune.host.reading.bounded import MOST_NAMES, head_text, names_in
from hosttune.host.reading.driver_root import make_contained
from hosttune.measure.gpu.none import NoSampler
from hosttune.measure.gpu.sample import GpuSample, GpuSampler
from hosttune.values import Absent, Unreadable

__all__ = ["GpuSample", "GpuSampler", "open_sampler"]

_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # the base class of display and 3D controllers


def open_sampler(wanted: tuple[str, ...] = ()) -> GpuSampler:
    """The best source of GPU looks that this host has; may take some seconds where the driver wakes
    the GPUs.

    `wanted` are indexes or beginnings of UUIDs (also of MIG instances) as nvidia-smi -L prints
    them; none means all. Raises HosttuneError where one of them is not there. Never loads the
    driver: what only looks changes nothing.
    """
    found = _choose_sampler()
    if not wanted:
        return found
    try:
        return _Chosen(found, wanted)
    except HosttuneError:
        found.close()
        raise


def _choose_sampler() -> GpuSampler:
    from hosttune.measure.gpu.nvml import NoNvml, NvmlSampler
    from hosttune.measure.gpu.smi import NoSmi, SmiSampler

    if _is_asleep(Path("/sys")):
        return NoSampler("the NVIDIA driver is not loaded")
    try:
        return NvmlSampler()
    except NoNvml as error:
        nvml, is_final = str(error), error.is_final
    program, unbuffered, inside = (
        locate("nvidia-smi"),
        locate("stdbuf"),
        make_contained(("nvidia-smi",)),
    )
    if isinstance(inside, Unreadable):
        return NoSampler(f"{nvml}; {inside.reason}")
    if is_final or (isinstance(program, Absent) and not inside):
        return NoSampler(nvml)
    try:
        # a program that prints into a pipe may hold its lines back; in a driver's container it is
        # asked as it is
        if inside:
            sampler = SmiSampler(inside[-1], inside[:-1])
        else:
            sampler = SmiSampler(
                str(program), () if isinstance(unbuffered, Absent) else (unbuffered, "-oL")
            )
    except NoSmi as error:
        return NoSampler(f"{nvml}; {error}")
    # It works, but coarser: the report names why the better source was not used.
    sampler.reason = nvml
    return sampler


def _is_asleep(sys: Path) -> bool:
    """An NVIDIA GPU is there and its kernel module is not: who asks NVML now would have it
    loaded.
    """
    if (sys / "module/nvidia").is_dir():
        return False
    devices = sys / "bus/pci/devices"
    try:
        names = names_in(str(devices), MOST_NAMES)[0]
    except OSError:
        return False
    return any(
        head_text(f"{devices}/{name}/vendor").strip() == _NVIDIA
        and head_text(f"{devices}/{name}/class").startswith(_DISPLAY)
        for name in names
    )


class _Chosen:
    """Some of the GPUs of another sampler."""

    def __init__(self, inner: GpuSampler, wanted: tuple[str, ...]) -> None:
        self._inner = inner
        self._wanted = wanted
        self.source = inner.source
        seen = inner.read()
        # A typing error must not turn into a watch of no GPU, which would judge the job as one
        # without any.
        for one in wanted:
            if not any(sample.is_named(one) for sample in seen):
                there = ", ".join(f"{sample.index} ({sample.uuid})" for sample in seen)
                hint = (
                    f"there are: {there}"
                    if there
                    else f"none is visible: {inner.reason or 'no GPU answers'}"
                )
                raise HosttuneError(f"no GPU {one} here", hint=hint)

    @property
    def reason(self) -> str:
        return self._inner.reason

    def read(self) -> tuple[GpuSample, ...]:
        return tuple(
            sample
            for sample in self._inner.read()
            if any(sample.is_named(one) for one in self._wanted)
        )

    def close(self) -> None:
        self._inner.close()
