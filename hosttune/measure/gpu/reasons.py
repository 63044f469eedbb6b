"""Why a GPU does not clock higher at this moment, in words; pure.

Source: nvmlClocksEventReasons of NVIDIA's NVML API reference; before driver 535 they were called
throttle reasons.
"""

from __future__ import annotations

from collections.abc import Mapping

from hosttune.facts.gpu.health_smi import APPLICATION_CLOCKS, SLOWDOWNS

# nvmlClocksEventReasonSwPowerCap: the GPU's own limit, or one that the machine asked for
POWER_CAP = "power limit"
REASONS: Mapping[int, str] = {
    0x1: "idle",
    APPLICATION_CLOCKS: "application clocks",
    0x4: POWER_CAP,
    0x10: "sync boost",
    **SLOWDOWNS,
    0x100: "display clocks",
}
# Those that say that the GPU is held back by heat or by its power supply, not by its work or its
# settings.
HELD_BACK = frozenset(SLOWDOWNS.values())


def words_of(mask: int) -> tuple[str, ...]:
    """The reasons of a bit mask, lowest bit first; a bit that is not in the reference as its
    number.
    """
    bits = (1 << place for place in range(max(mask, 0).bit_length()) if mask >> place & 1)
    return tuple(REASONS.get(bit, f"reason {bit:#x}") for bit in bits)
