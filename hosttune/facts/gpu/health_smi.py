"""What nvidia-smi says of the state of each GPU; pure.

Sources: nvidia-smi(1) and `nvidia-smi --help-query-gpu`, `--help-query-remapped-rows`; NVIDIA's
NVML API reference (nvmlClocksEventReasons, nvmlDeviceGpuRecoveryAction_t). Field names differ
between branches: a driver that lacks one refuses the whole question (`Field "..." is not a valid
field to query.`), so there are four of them, newest first, and a common field that is named in a
refusal is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NoReturn

from hosttune.facts.gpu.gpu_errors import slot_of
from hosttune.facts.gpu.nvidia_smi import corrupted_in
from hosttune.facts.gpu.smi_words import BROKEN, SmiWord, is_supported, word_of
from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex

COMMON = (
    "pci.bus_id", "temperature.gpu", "utilization.gpu", "memory.used", "power.draw", "power.limit",
    "power.default_limit", "power.min_limit", "power.max_limit", "clocks.sm", "clocks.max.sm",
    "ecc.mode.current", "ecc.mode.pending", "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.uncorrected.aggregate.total", "retired_pages.pending", "mig.mode.current",
    "mig.mode.pending", "compute_mode",
)  # fmt: skip
_COUNTERS = tuple(
    f"clocks_event_reasons_counters.{name}_slowdown"
    for name in ("sw_thermal", "hw_thermal", "hw_power_brake")
)
REASONS = "clocks_event_reasons.active"
OLD_REASONS = "clocks_throttle_reasons.active"
RECOVERY = "gpu_recovery_action"
# Of branch 580 and newer: the memory on the chip, the InfoROM, the fabric of NVLinks; older ones
# tell of remapped rows by a question of their own.
SRAM_OVER = "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"
INFOROM = "inforom.checksum_validation"
FABRIC_STATE = "fabric.state"
FABRIC_STATUS = "fabric.status"
_FABRIC = {
    name: f"fabric.{name}"
    for name in (
        "status",
        "health.summary",
        "health.bandwidth",
        "health.route_unhealthy",
        "health.incorrect_configuration",
        "health.route_recovery_in_progress",
        "health.access_timeout_recovery",
    )
}
_YES_NO = frozenset({"true", "false", "yes", "no", "none"})
_FABRIC_WORDS = {
    "state": frozenset({"not started", "in progress", "completed"}),
    "health.summary": frozenset({"healthy"}), "health.bandwidth": frozenset({"full"}),
}  # fmt: skip
# Banks of memory by the spare rows that they have left (nvmlRowRemapperHistogramValues_t); MIG does
# not hide it. In a vGPU guest each question for them writes `NVRM: serverControl_ValidateCookie` to
# the kernel log (utkuozdemir/nvidia_gpu_exporter issue 384).
FEW, NONE = "remapped_rows.histogram.low", "remapped_rows.histogram.none"
PENDING, FAILURE = "remapped_rows.pending", "remapped_rows.failure"
_ROWS = (PENDING, FAILURE, "remapped_rows.uncorrectable")
DETAILS = (SRAM_OVER, INFOROM, FABRIC_STATE, *_FABRIC.values(), *_ROWS, FEW, NONE)
FIELDS = (
    (*COMMON, REASONS, *_COUNTERS, RECOVERY, *DETAILS),
    (*COMMON, REASONS, *_COUNTERS, RECOVERY),
    (*COMMON, REASONS),
    (*COMMON, OLD_REASONS),
)
_FIRST_WITH_DETAILS = 580
REPAIRS = ("nvidia-smi", "-q", "-d", "ECC")
_FIRST_WITH_REPAIRS = 590
_REPAIR = regex(r"\s+(Channel Repair Pending|TPC Repair Pending|Unrepairable Memory)\s+: (\S.*)")
# GPUs, and below each the MIG devices that CUDA can use: a GPU instance without a compute instance
# is none (NVIDIA, MIG User Guide).
LIST = ("nvidia-smi", "-L")
_LISTED = regex(r"GPU (\d{1,9}): ")
_MIG_DEVICE = regex(r"\s*MIG (\S+)\s+Device\s+\d+: ")
_FORMAT = "--format=csv,noheader,nounits"
OLD_REMAPPED_FIELDS = ("gpu_bus_id", *_ROWS)
REMAPPED_FIELDS = (*OLD_REMAPPED_FIELDS, FEW, NONE)


def _remapped_of(fields: tuple[str, ...]) -> tuple[str, ...]:
    return ("nvidia-smi", f"--query-remapped-rows={','.join(fields)}", _FORMAT)


REMAPPED, OLD_REMAPPED = map(_remapped_of, (REMAPPED_FIELDS, OLD_REMAPPED_FIELDS))

# Optional: a driver that does not know it, or does not answer, leaves the state of a GPU known.
CORRECTED_FIELDS = ("pci.bus_id", "ecc.errors.corrected.volatile.total")
CORRECTED = ("nvidia-smi", f"--query-gpu={','.join(CORRECTED_FIELDS)}", _FORMAT)

_BUS_ID = regex(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
_UNKNOWN_FIELD = regex(r'Field "([\w.]+)" is not a valid field')
_REFUSED = regex(
    r"is not a valid (?:field to query|query)|Unrecognized|Invalid combination", re.IGNORECASE
)
# nvmlClocksEventReasons; those that mean that the GPU is slower than its power limit and its work
# make it.
SLOWDOWNS: Mapping[int, str] = {
    0x8: "hardware slowdown (heat or power)", 0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown", 0x80: "power brake from outside (power supply)",
}  # fmt: skip
HEAT, POWER_BRAKE = 0x60, 0x80
APPLICATION_CLOCKS = 0x2
_ERRORS = BROKEN | {SmiWord.ERROR}


@frozen
class Rows:
    """The rows of one answer by slot, each field by the name it was asked with."""

    rows: Mapping[str, Mapping[str, str]]
    refused: bool  # this nvidia-smi does not know a field
    unknown: tuple[str, ...]  # the fields that it names then


def query_of(fields: tuple[str, ...]) -> tuple[str, ...]:
    """The command that asks for these fields of all GPUs."""
    return ("nvidia-smi", f"--query-gpu={','.join(fields)}", _FORMAT)


def questions_for(driver: str, *, is_vgpu: bool = False) -> tuple[tuple[str, ...], ...]:
    """The fields to ask a driver of this version (580.126.20; empty: not known) for, the most
    first: what it does not know it refuses, and each refusal costs a run. Older records of a vGPU
    hold the answer to the second.
    """
    if _parse_branch(driver) < _FIRST_WITH_DETAILS:
        return FIELDS[1:]
    return (
        (tuple(name for name in FIELDS[0] if name not in {FEW, NONE}), *FIELDS)
        if is_vgpu
        else FIELDS
    )


def with_kin(unknown: Iterable[str]) -> set[str]:
    """The fields that a driver does not know, and those that came with them: a refusal names the
    first that it meets, so where that is the first of a group (fabric.state) it does not know the
    others either.
    """
    names = set(unknown)
    for name in tuple(names):
        group = [one for one in DETAILS if one.startswith(f"{name.rpartition('.')[0]}.")]
        names |= set(group) if group and group[0] == name else set()
    return names


def has_repairs(driver: str) -> bool:
    """Whether `REPAIRS` tells of repairs of memory on a driver of this version."""
    return _parse_branch(driver) >= _FIRST_WITH_REPAIRS


def repairs_in(output: str) -> Mapping[str, tuple[str, ...]]:
    """By slot what is reported as so (Channel Repair Pending, Unrepairable Memory) in an answer to
    `REPAIRS`. Raises ValueError for an error in its place.
    """
    found: dict[str, tuple[str, ...]] = {}
    slot = ""
    for line in output.splitlines():
        if line.startswith("GPU ") and (bus := _BUS_ID.fullmatch(line[4:].strip())):
            slot = slot_of(*bus.group(1, 2, 3, 4))
            found[slot] = ()
        elif (
            slot
            and (repair := _REPAIR.fullmatch(line.rstrip()))
            and parse_yes(repair[2], repair[1])
        ):
            found[slot] = (*found[slot], repair[1])
    return found


def mig_devices_in(output: str) -> Mapping[int, int | None]:
    """By the number of each GPU how many MIG devices an answer to `LIST` has; None where it has
    none, and something else is in their place.
    """
    found: dict[int, int | None] = {}
    number = -1
    for line in output.splitlines():
        if gpu := _LISTED.match(line):
            number = int(gpu[1])
            found[number] = 0
        elif number < 0 or not line.strip() or corrupted_in(line):
            continue
        elif _MIG_DEVICE.match(line):
            found[number] = (found[number] or 0) + 1
        else:
            found[number] = found[number] or None
    return found


def mig_profiles_in(output: str) -> tuple[str, ...]:
    """The profile of each MIG device of an answer to `LIST`: 1g.10gb, 1c.2g.20gb."""
    return tuple(match[1] for line in output.splitlines() if (match := _MIG_DEVICE.match(line)))


def _parse_branch(driver: str) -> int:
    branch = driver.partition(".")[0]
    return parse_digits(branch, 0)


QUERIES = tuple(map(query_of, FIELDS))


def parse_rows(output: str, fields: tuple[str, ...], status: int) -> Rows:
    """The rows of a CSV answer whose first field is the bus id; other lines are no rows."""
    rows: dict[str, Mapping[str, str]] = {}
    for line in output.splitlines():
        words = [word.strip() for word in line.split(",")]
        bus = _BUS_ID.fullmatch(words[0])
        # No value of these questions holds a comma, so a row with another count of cells is not an
        # answer.
        if bus and len(words) == len(fields):
            rows[slot_of(bus[1], bus[2], bus[3], bus[4])] = dict(zip(fields, words, strict=True))
    # nvidia-smi(1): 2 is an argument that it does not know.
    refused = not rows and (status == 2 or _REFUSED.search(output) is not None)
    return Rows(rows, refused, tuple(_UNKNOWN_FIELD.findall(output)) if refused else ())


def find_dead_word(row: Mapping[str, str]) -> str:
    """The word that a row has in the place of every value ([GPU is lost], ERR!, [N/A]); empty where
    it has one value.

    A vGPU, and a GPU that shares the memory of its CPU, have few values, and none has none. What
    newer drivers print of every GPU, whatever it has (No, valid), does not count.
    """
    words = [text for name, text in row.items() if name not in DETAILS][1:]
    if any(word and word_of(word) is SmiWord.VALUE for word in words):
        return ""
    return next((word for word in words if is_supported(word)), words[0] if words else "nothing")


def error_words(row: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """The words of an error that stand in the place of values in a row ([Unknown Error], [GPU
    requires reset], ERR!), each with the fields that say so. A right that is missing is none.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, spelled in row.items():
        if word_of(spelled) in _ERRORS:
            found[spelled] = (*found.get(spelled, ()), name)
    return found


def parse_number(spelled: str, what: str) -> float:
    """A number with or without its unit (700.00, 700.00 W, 12 us). Raises ValueError for [N/A],
    ERR! and [Unknown Error].
    """
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(?: \S+)?", spelled)
    return float(match[1]) if match else _raise_unclear(spelled, what)


def parse_count(spelled: str, what: str) -> int:
    return int(parse_number(spelled, what))


def mask(spelled: str, what: str) -> int:
    """A bit mask: 0x0000000000000004. Raises ValueError for anything else."""
    return (
        int(spelled, 16)
        if re.fullmatch(r"0x[0-9A-Fa-f]+", spelled)
        else _raise_unclear(spelled, what)
    )


def parse_word(spelled: str, what: str) -> str:
    """A mode: Enabled, Default; empty where this GPU has no such thing. Raises ValueError for an
    error.
    """
    if not is_supported(spelled):
        return ""
    is_value = word_of(spelled) is SmiWord.VALUE and not re.search(r"[\[!]", spelled)
    return spelled if is_value else _raise_unclear(spelled, what)


def parse_yes(spelled: str, what: str) -> bool:
    """Whether something is pending or failed: Yes, No, or a count of it; false where this GPU has
    no such thing. Raises ValueError for an error.
    """
    if not is_supported(spelled):
        return False
    if (count := parse_digits(spelled, None)) is not None:
        return count > 0
    return spelled.lower() == "yes" or (spelled.lower() != "no" and _raise_unclear(spelled, what))


def fabric_of(row: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(what ails a GPU in its fabric, what makes it slow there), phrases; nothing where it has
    none, or the driver does not tell. That it has not joined is its state. Raises ValueError for
    words that are not known, beside which nothing bad is reported. Source: nvmlGpuFabricState_t,
    nvmlGpuFabricHealthMask (NVML API reference).
    """
    cells = {name: row.get(field, "N/A") for name, field in _FABRIC.items()}
    known = {name: words.lower() for name, words in cells.items() if is_supported(words)}
    state = row.get(FABRIC_STATE, "N/A")
    apart: list[str] = []
    # The status counts only in this state (nvmlGpuFabricInfo_t, NVML API reference).
    if state == "Completed" and known.get("status", "success") != "success":
        apart.append(f"joining it failed ({cells['status']})")
    if known.get("health.summary") == "unhealthy" or known.get("health.route_unhealthy") in {
        "true",
        "yes",
    }:
        apart.append("a route is not healthy")
    if known.get("health.incorrect_configuration", "none") not in {"none", "false", "no"}:
        apart.append(f"it is set up wrong ({cells['health.incorrect_configuration']})")
    slow = ["its bandwidth is degraded"] if known.get("health.bandwidth") == "degraded" else []
    if known.get("health.summary") == "limited capacity" and not slow:
        slow.append("it has a part of its capacity")
    if any(
        known.get(f"health.{name}") in {"true", "yes"}
        for name in ("route_recovery_in_progress", "access_timeout_recovery")
    ):
        slow.append("it is being recovered")
    if not apart and not slow:
        for name, spelled in {"state": state, **cells}.items():
            is_clear = name == "status" or spelled.lower() in _FABRIC_WORDS.get(name, _YES_NO)
            if is_supported(spelled) and not is_clear:
                _raise_unclear(spelled, f"fabric.{name}")
    return tuple(apart), tuple(slow)


def _raise_unclear(spelled: str, what: str) -> NoReturn:
    message = f"nvidia-smi says {spelled!r} of {what}"
    raise ValueError(message)
