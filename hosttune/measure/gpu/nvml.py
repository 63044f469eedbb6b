"""GPU looks through NVML and nvidia-ml-py. Facts: NVIDIA's NVML API reference (nvmlReturn_t,
nvmlDeviceGet...).

A GPU that lacks a function, a driver that is too old for it and a user who may not ask leave that
one value unknown; a GPU that is lost stays lost, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from hosttune.host.reading.bounded import MOST_NAMES, names_in
from hosttune.measure.gpu.bindings import load_bindings
from hosttune.measure.gpu.patience import TimedCaller
from hosttune.measure.gpu.reasons import words_of
from hosttune.measure.gpu.sample import GpuSample

# A folder for each GPU that the driver has taken (its README, "/proc interface"); in a container
# for those given to it. nvmlDeviceGetCount counts those, too, that this process may not open.
HELD: Final = Path("/proc/driver/nvidia/gpus")
# without persistence mode the driver wakes each GPU first, some seconds for each
OPENING_S: Final = 10.0
LOOK_S: Final = 0.5
_PIDS_EVERY: Final = 5  # looks; which processes hold memory changes slowly
_NOT_SUPPORTED, _NO_PERMISSION, _DRIVER_NOT_LOADED, _NO_LIBRARY, _NO_FUNCTION = 3, 4, 9, 12, 13
_LOST: Final = frozenset({15, 16})  # the GPU is lost; it answers again after a reset alone
_MISMATCH, _UNKNOWN = 18, 999
_WHY: Mapping[int, str] = {
    _NO_PERMISSION: "this user may not ask NVML",
    _DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    _NO_LIBRARY: "libnvidia-ml.so.1 is not installed",
    _MISMATCH: "the driver and libnvidia-ml.so.1 are of different versions (upgraded and not "
    "rebooted since)",
}
# Where NVML says so, nvidia-smi, which asks the same library, says so too.
FINAL: Final = frozenset({_DRIVER_NOT_LOADED, _MISMATCH})
_ODD = (ValueError, TypeError, AttributeError, OSError)  # of bindings that do not fit the library


class NoNvml(Exception):
    """NVML cannot be used. `is_final`: nvidia-smi cannot either."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class _Lost(Exception):
    """The GPU does not answer any more."""


class _Device:
    """One GPU or MIG instance; `mute` are the values that it will never tell, `pids` those of the
    last time.
    """

    def __init__(self, index: int, handle: Any, *, is_mig: bool = False) -> None:
        self.index = index
        self.handle = handle
        self.is_mig = is_mig
        self.lost = False
        self.uuid = ""
        self.name = ""
        self.mute: set[str] = set()
        self.pids: tuple[int, ...] | None = None

    def read_known(self) -> GpuSample:
        return GpuSample(self.index, self.uuid, self.name, is_mig=self.is_mig, lost=self.lost)


class NvmlSampler:
    """Looks at every GPU that NVML shows. Raises NoNvml where there is none; takes up to
    `OPENING_S`.
    """

    source = "nvml"

    def __init__(
        self, opening_s: float = OPENING_S, look_s: float = LOOK_S, held: Path = HELD
    ) -> None:
        self.reason = ""
        self._held = held
        self._look_s = look_s
        self._looks = 0
        self._is_open = True
        self._module, why = load_bindings()
        if self._module is None:
            raise NoNvml(why)
        self._patience: TimedCaller[tuple[GpuSample, ...]] = TimedCaller()
        self._devices: tuple[_Device, ...] = ()
        try:
            opened = self._patience.ask(self._open, opening_s)
        except self._module.NVMLError as error:
            self._patience.end(0)
            why = _WHY.get(error.value, f"NVML: {error}")
            raise NoNvml(why, is_final=error.value in FINAL) from None
        except _ODD as error:
            self._patience.end(0)
            raise NoNvml(f"nvidia-ml-py and libnvidia-ml.so.1 do not fit: {error}") from None
        if opened is None:
            self._patience.end(0)
            raise NoNvml(f"NVML did not answer within {opening_s:g} s")
        if not opened:
            self.close()
            raise NoNvml("the NVIDIA driver has no GPU", is_final=True)

    def read(self) -> tuple[GpuSample, ...]:
        """Values of GPUs that do not answer in time are unknown; the look that came too late counts
        as the next.
        """
        seen = self._patience.ask(self._look, self._look_s) if self._is_open else ()
        if seen is None:
            return tuple(device.read_known() for device in self._devices)
        return seen

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        with suppress(self._module.NVMLError):
            self._patience.ask(self._shut, self._look_s)
        self._patience.end(self._look_s)

    # What follows runs in the thread of its own.

    def _open(self) -> tuple[GpuSample, ...]:
        self._module.nvmlInit()
        self._devices = tuple(self._find_devices())
        # A GPU that fell off the bus before NVML was opened is missing in its count, not lost in
        # it.
        count, held = self._module.nvmlDeviceGetCount(), _count_entries(self._held)
        if count < held:
            self.reason = (
                f"NVML shows {count} of the {held} GPUs that the driver holds: the others do not "
                "answer"
            )
        return tuple(device.read_known() for device in self._devices)

    def _shut(self) -> tuple[GpuSample, ...]:
        self._module.nvmlShutdown()
        return ()

    def _find_devices(self) -> Iterator[_Device]:
        for index in range(self._module.nvmlDeviceGetCount()):
            try:
                gpu = _Device(index, self._module.nvmlDeviceGetHandleByIndex(index))
            except self._module.NVMLError as error:
                # not given to this container or user, so it is not the job's either
                if error.value == _NO_PERMISSION:
                    continue
                # Kept as lost: left out, the others would look like all there are.
                gpu = _Device(index, None)
                gpu.lost = True
                yield gpu
                continue
            self._introduce(gpu)
            yield gpu
            if not gpu.lost:
                yield from self._instances(gpu)

    def _introduce(self, device: _Device) -> None:
        try:
            device.uuid = str(self._value(device, "uuid", ("nvmlDeviceGetUUID",)) or "")
            device.name = str(self._value(device, "name", ("nvmlDeviceGetName",)) or "")
        except _Lost:
            device.lost = True

    def _instances(self, gpu: _Device) -> Iterator[_Device]:
        """The MIG instances as they are now: they cannot be changed while a job runs on the GPU."""
        ask = self._module
        try:
            # The current mode; [1] is the one after the next reset.
            if not ask.nvmlDeviceGetMigMode(gpu.handle)[0]:
                return
            handles = range(ask.nvmlDeviceGetMaxMigDeviceCount(gpu.handle))
        except (ask.NVMLError, *_ODD):  # a GPU or a driver without MIG
            return
        for place in handles:
            with suppress(ask.NVMLError):  # fewer instances than the most there may be
                one = _Device(
                    gpu.index,
                    ask.nvmlDeviceGetMigDeviceHandleByIndex(gpu.handle, place),
                    is_mig=True,
                )
                self._introduce(one)
                yield one

    def _look(self) -> tuple[GpuSample, ...]:
        with_pids = self._looks % _PIDS_EVERY == 0
        self._looks += 1
        return tuple(self._sample(device, with_pids=with_pids) for device in self._devices)

    def _sample(self, device: _Device, *, with_pids: bool) -> GpuSample:
        if device.lost:
            return device.read_known()
        try:
            used, total = self._memory(device)
            if with_pids:
                device.pids = self._pids(device)
            return GpuSample(
                device.index,
                device.uuid,
                device.name,
                util_percent=self._number(
                    device, "utilization", ("nvmlDeviceGetUtilizationRates",), _compute_utilization
                ),
                memory_used_bytes=used,
                memory_total_bytes=total,
                power_w=self._number(device, "power", ("nvmlDeviceGetPowerUsage",), _convert_watts),
                power_limit_w=self._number(device, "limit", _LIMIT, _convert_watts),
                sm_clock_mhz=self._clock(device),
                reasons=self._number(device, "reasons", _REASONS, words_of),
                pids=device.pids,
                is_mig=device.is_mig,
            )
        except _Lost:
            device.lost = True
            return device.read_known()

    def _number(
        self, device: _Device, value: str, names: tuple[str, ...], read: Callable[[Any], Any]
    ) -> Any:
        answer = self._value(device, value, names)
        return None if answer is None else read(answer)

    def _clock(self, device: _Device) -> int | None:
        clock = self._value(
            device, "clock", ("nvmlDeviceGetClockInfo",), self._module.NVML_CLOCK_SM
        )
        return None if clock is None else int(clock)

    def _memory(self, device: _Device) -> tuple[int | None, int | None]:
        """The second version does not count what the driver keeps for itself as used; nvidia-smi
        shows that one.
        """
        answer = self._value(
            device, "memory v2", ("nvmlDeviceGetMemoryInfo",), self._module.nvmlMemory_v2
        )
        if answer is None:
            answer = self._value(device, "memory", ("nvmlDeviceGetMemoryInfo",))
        return (
            (None, None)
            if answer is None or not answer.total
            else (int(answer.used), int(answer.total))
        )

    def _pids(self, device: _Device) -> tuple[int, ...] | None:
        """Of CUDA processes, and of those that share the GPU through MPS."""
        direct, shared = (self._value(device, names[0], names) for names in _PROCESSES)
        # Without the list of CUDA processes nothing is known; those of MPS only add to it.
        if direct is None:
            return None
        return tuple(sorted({int(process.pid) for process in (*direct, *(shared or ()))}))

    def _value(self, device: _Device, value: str, names: tuple[str, ...], *words: Any) -> Any:
        """What the first of these functions that the driver has says; None where it is unknown.
        Raises _Lost.
        """
        if value in device.mute:
            return None
        for name in names:
            function = getattr(self._module, name, None)
            if function is None:
                continue
            try:
                return function(device.handle, *words)
            except self._module.NVMLError as error:
                if error.value in _LOST:
                    raise _Lost from None
                if error.value == _NOT_SUPPORTED:
                    break
                # A passing error leaves the value unknown for this look only; an unsupported one is
                # never asked again.
                if error.value != _NO_FUNCTION:
                    return None
            except _ODD:
                return None
        device.mute.add(value)
        return None


_LIMIT = ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit")
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
_PROCESSES = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
)


def _count_entries(folder: Path) -> int:
    try:
        return len(names_in(str(folder), MOST_NAMES)[0])
    except OSError:
        return 0


def _compute_utilization(rates: Any) -> float | None:
    return float(rates.gpu) if 0 <= rates.gpu <= 100 else None


def _convert_watts(milliwatts: int) -> float:
    return milliwatts / 1000
