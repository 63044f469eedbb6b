"""What nvidia-smi says of the state of each GPU; pure.

Sources: nvidia-smi(1) and `nvidia-smi --help-query-gpu`, `--help-query-remapped-rows`; NVIDIA's NVML API reference
(nvmlClocksEventReasons, nvmlDeviceGpuRecoveryAction_t). Field names differ between branches: a driver that lacks one
refuses the whole question (`Field "..." is not a valid field to query.`), so there are three of them, newest first, and
a common field that is named in a refusal is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from hosttune.facts.gpu.gpu_errors import slot_of
from hosttune.frozen import frozen
from hosttune.regex import regex

COMMON = (
    "pci.bus_id", "temperature.gpu", "utilization.gpu", "memory.used", "power.draw", "power.limit",
    "power.default_limit", "power.min_limit", "power.max_limit", "clocks.sm", "clocks.max.sm", "ecc.mode.current",
    "ecc.mode.pending", "ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.aggregate.total",
    "retired_pages.pending", "mig.mode.current", "mig.mode.pending", "compute_mode",
)  # fmt: skip
_COUNTERS = tuple(
    f"clocks_event_reasons_counters.{name}_slowdown" for name in ("sw_thermal", "hw_thermal", "hw_power_brake")
)
REASONS = "clocks_event_reasons.active"
OLD_REASONS = "clocks_throttle_reasons.active"
RECOVERY = "gpu_recovery_action"
FIELDS = (
    (*COMMON, REASONS, *_COUNTERS, RECOVERY),
    (*COMMON, REASONS),
    (*COMMON, OLD_REASONS),
)
_FORMAT = "--format=csv,noheader,nounits"
# Banks of memory by the spare rows that they have left (nvmlRowRemapperHistogramValues_t); MIG does not hide it.
FEW, NONE = "remapped_rows.histogram.low", "remapped_rows.histogram.none"
OLD_REMAPPED_FIELDS = ("gpu_bus_id", "remapped_rows.pending", "remapped_rows.failure", "remapped_rows.uncorrectable")
REMAPPED_FIELDS = (*OLD_REMAPPED_FIELDS, FEW, NONE)


def _remapped_of(fields: tuple[str, ...]) -> tuple[str, ...]:
    return ("nvidia-smi", f"--query-remapped-rows={','.join(fields)}", _FORMAT)


REMAPPED, OLD_REMAPPED = map(_remapped_of, (REMAPPED_FIELDS, OLD_REMAPPED_FIELDS))

_BUS_ID = regex(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
_UNKNOWN_FIELD = regex(r'Field "([\w.]+)" is not a valid field')
_REFUSED = regex(r"is not a valid (?:field to query|query)|Unrecognized|Invalid combination", re.IGNORECASE)
_NOT_THERE = frozenset({"n/a", "not supported", "requested functionality has been deprecated"})
# nvmlClocksEventReasons; those that mean that the GPU is slower than its power limit and its work make it.
SLOWDOWNS: Mapping[int, str] = {
    0x8: "hardware slowdown (heat or power)", 0x20: "software thermal slowdown", 0x40: "hardware thermal slowdown",
    0x80: "power brake from outside (power supply)",
}  # fmt: skip
APPLICATION_CLOCKS = 0x2


@frozen
class Rows:
    """The rows of one answer by slot, each field by the name it was asked with."""

    rows: Mapping[str, Mapping[str, str]]
    refused: bool  # this nvidia-smi does not know a field
    unknown: tuple[str, ...]  # the fields that it names then


def query_of(fields: tuple[str, ...]) -> tuple[str, ...]:
    """The command that asks for these fields of all GPUs."""
    return ("nvidia-smi", f"--query-gpu={','.join(fields)}", _FORMAT)


QUERIES = tuple(map(query_of, FIELDS))


def parse_rows(output: str, fields: tuple[str, ...], status: int) -> Rows:
    """The rows of a CSV answer whose first field is the bus id; other lines are no rows."""
    rows: dict[str, Mapping[str, str]] = {}
    for line in output.splitlines():
        words = [word.strip() for word in line.split(",")]
        bus = _BUS_ID.fullmatch(words[0])
        if bus and len(words) == len(fields):
            rows[slot_of(bus[1], bus[2], bus[3], bus[4])] = dict(zip(fields, words, strict=True))
    refused = not rows and (status == 2 or _REFUSED.search(output) is not None)
    return Rows(rows, refused, tuple(_UNKNOWN_FIELD.findall(output)) if refused else ())


def is_supported(spelled: str) -> bool:
    """False for [N/A] and its like: this GPU has no such thing. An error is no such answer."""
    return spelled.strip("[] ").lower() not in _NOT_THERE


def dead(row: Mapping[str, str]) -> str:
    """The word that a row has in the place of every value ([GPU is lost], ERR!, [N/A]); empty where it has one value.

    A vGPU, and a GPU that shares the memory of its CPU, have few values, and none has none.
    """
    words = list(row.values())[1:]
    values = [word for word in words if is_supported(word) and not re.fullmatch(r"\[.*\]|ERR!|", word)]
    return "" if values else next((word for word in words if is_supported(word)), words[0] if words else "nothing")


def number(spelled: str, what: str) -> float:
    """A number with or without its unit (700.00, 700.00 W, 12 us). Raises ValueError for [N/A], ERR! and
    [Unknown Error].
    """
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(?: \S+)?", spelled)
    return float(match[1]) if match else _unclear(spelled, what)


def whole(spelled: str, what: str) -> int:
    return int(number(spelled, what))


def mask(spelled: str, what: str) -> int:
    """A bit mask: 0x0000000000000004. Raises ValueError for anything else."""
    return int(spelled, 16) if re.fullmatch(r"0x[0-9A-Fa-f]+", spelled) else _unclear(spelled, what)


def word(spelled: str, what: str) -> str:
    """A mode: Enabled, Default; empty where this GPU has no such thing. Raises ValueError for an error."""
    if not is_supported(spelled):
        return ""
    return _unclear(spelled, what) if re.search(r"[\[!]", spelled) else spelled


def yes(spelled: str, what: str) -> bool:
    """Whether something is pending or failed: Yes, No, or a count of it; false where this GPU has no such thing. Raises
    ValueError for an error.
    """
    if not is_supported(spelled):
        return False
    if spelled.isdecimal():
        return int(spelled) > 0
    return spelled.lower() == "yes" or (spelled.lower() != "no" and _unclear(spelled, what))


def _unclear(spelled: str, what: str) -> NoReturn:
    message = f"nvidia-smi says {spelled!r} of {what}"
    raise ValueError(message)
