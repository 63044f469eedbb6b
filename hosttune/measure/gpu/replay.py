"""GPU looks from a trace: what the fakes of the tests replay, and what a job looked like on another
host.

A trace is lines of words; what is behind # is passed over:

    gpu INDEX UUID NAME...
    mig INDEX/INSTANCE UUID NAME...
    at SECONDS INDEX[/INSTANCE] UTIL USED_MIB TOTAL_MIB POWER_W LIMIT_W CLOCK_MHZ REASONS PIDS

SECONDS count from the first look, REASONS is a bit mask (0x4), PIDS are numbers with commas, or
`none`. A dash is unknown. Of each GPU the last line whose time has come holds; `lost` in place of
UTIL, and nothing after it, is a GPU that has fallen off the bus.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hosttune.errors import HosttuneError
from hosttune.frozen import frozen
from hosttune.measure.gpu.reasons import words_of
from hosttune.measure.gpu.sample import GpuSample

_MIB: Final = 1 << 20
_COLUMNS: Final = 11


@frozen
class Trace:
    """The devices in the order of their first lines, and what each shows from which second on."""

    devices: tuple[str, ...]
    steps: tuple[tuple[float, str, GpuSample], ...]

    def at(self, seconds: float) -> tuple[GpuSample, ...]:
        """Every device as it is `seconds` after the first look; before its first line nothing is
        known of it.
        """
        shown = {device: sample for start, device, sample in self.steps if start <= seconds}
        return tuple(shown[device] for device in self.devices if device in shown)


def parse(text: str, file: str = "trace") -> Trace:
    """Raises HosttuneError with file and line for what is no trace."""
    known: dict[str, GpuSample] = {}
    steps: list[tuple[float, str, GpuSample]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            if words[0] in {"gpu", "mig"}:
                known[words[1]] = _parse_device(words)
                steps.append((float("-inf"), words[1], known[words[1]]))
            elif words[0] == "at":
                steps.append((float(words[1]), words[2], _step(known[words[2]], words)))
            else:
                raise ValueError(f"{words[0]} is neither gpu, mig nor at")
        except (ValueError, IndexError, KeyError) as error:
            raise HosttuneError(
                f"{file}:{number}: {error}",
                hint="docs/explanation/measuring.md has the format (--gpu-trace)",
            ) from None
    return Trace(tuple(known), tuple(sorted(steps, key=lambda step: step[0])))


def _parse_device(words: list[str]) -> GpuSample:
    index = int(words[1].partition("/")[0])
    return GpuSample(index, uuid=words[2], name=" ".join(words[3:]), is_mig=words[0] == "mig")


def _step(device: GpuSample, words: list[str]) -> GpuSample:
    same = {
        "index": device.index,
        "uuid": device.uuid,
        "name": device.name,
        "is_mig": device.is_mig,
    }
    if words[3:] == ["lost"]:
        return GpuSample(**same, lost=True)  # type: ignore[arg-type]
    if len(words) != _COLUMNS:
        raise ValueError(f"{len(words)} columns, where {_COLUMNS} are due")
    util, used, total, power, limit, clock, reasons, pids = (
        None if word == "-" else word for word in words[3:]
    )
    return GpuSample(
        **same,  # type: ignore[arg-type]
        util_percent=float(util) if util else None,
        memory_used_bytes=int(used) * _MIB if used else None,
        memory_total_bytes=int(total) * _MIB if total else None,
        power_w=float(power) if power else None,
        power_limit_w=float(limit) if limit else None,
        sm_clock_mhz=int(clock) if clock else None,
        reasons=words_of(int(reasons, 16)) if reasons else None,
        pids=tuple(int(pid) for pid in pids.split(",") if pid != "none") if pids else None,
    )


class ReplaySampler:
    """Shows a trace from the first look on; `clock` counts seconds."""

    source = "replay"
    reason = ""

    def __init__(self, trace: Trace, clock: Callable[[], float] = time.monotonic) -> None:
        self._trace = trace
        self._clock = clock
        self._start: float | None = None

    def read(self) -> tuple[GpuSample, ...]:
        now = self._clock()
        if self._start is None:
            self._start = now
        return self._trace.at(now - self._start)

    def close(self) -> None:
        """A trace holds nothing open."""
