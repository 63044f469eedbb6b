"""The long text of `nvidia-smi -q`, as the answers to questions for single fields (`--query-gpu=`).
Pure.

The labels of the text changed with the branches of the driver; those of 430 to 580 are here, the
newest first. A field whose label is not there is answered as a driver answers that does not know
it: the whole question is refused, with its name.

Sources: nvidia-smi(1), `nvidia-smi --help-query-gpu`; outputs of the branches 430 to 580; nvml.h
(nvmlClocksEventReason*).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.numbers import parse_digits
from hosttune.regex import regex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GPU = regex(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*")
_UNIT = regex(r"(-?\d+(?:\.\d+)?) (?:W|MiB|MHz|C|%|us|KB/s|bank\(s\))")
_WHOLE = regex(r"\d{1,18}")
_MOST = 1 << 14  # lines of one GPU
_ATTACHED, _PROCESSES = "Attached GPUs", "Processes"
_UNREACHED = regex(r"Unable to determine the device handle for GPU ?([0-9A-Fa-f:]{10,14}\.[0-7])")
_MOST_GPUS = 256
_DEEPEST = 8  # titles above a row
_DRAWS = ("Power Draw", "Average Power Draw", "Instantaneous Power Draw")
_HISTOGRAM = ("Remapped Rows", "Bank Remap Availability Histogram")
_AGGREGATE = ("ECC Errors", "Aggregate")
_POWER = ("GPU Power Readings", "Power Readings")
_RECOVERY, _RESET_REQUIRED = "gpu_recovery_action", ("GPU Reset Status", "Reset Required")
_REASONS = ("Clocks Event Reasons", "Clocks Throttle Reasons")

# Field of --query-gpu -> the places of its value in the text, the first that is there counts.
_LABELS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "persistence_mode": (("Persistence Mode",),),
    "name": (("Product Name",),),
    "uuid": (("GPU UUID",),),
    "temperature.gpu": (("Temperature", "GPU Current Temp"), ("Temperature", "Gpu")),
    "utilization.gpu": (("Utilization", "GPU"), ("Utilization", "Gpu")),
    "memory.used": (("FB Memory Usage", "Used"),),
    "power.draw": tuple((table, row) for table in _POWER for row in _DRAWS),
    "power.limit": tuple(
        (table, row) for table in _POWER for row in ("Current Power Limit", "Power Limit")
    ),
    "power.default_limit": tuple((table, "Default Power Limit") for table in _POWER),
    "power.min_limit": tuple((table, "Min Power Limit") for table in _POWER),
    "power.max_limit": tuple((table, "Max Power Limit") for table in _POWER),
    "clocks.sm": (("Clocks", "SM"),),
    "clocks.max.sm": (("Max Clocks", "SM"),),
    "ecc.mode.current": (("ECC Mode", "Current"), ("Ecc Mode", "Current")),
    "ecc.mode.pending": (("ECC Mode", "Pending"), ("Ecc Mode", "Pending")),
    "retired_pages.pending": (
        ("Retired Pages", "Pending Page Blacklist"),
        ("Retired Pages", "Pending"),
    ),
    "mig.mode.current": (("MIG Mode", "Current"), ("MIG Mode",)),
    "mig.mode.pending": (("MIG Mode", "Pending"), ("MIG Mode",)),
    "compute_mode": (("Compute Mode",),),
    "gpu_recovery_action": (("GPU Recovery Action",),),
    "clocks_event_reasons_counters.sw_thermal_slowdown": (
        ("Clocks Event Reasons Counters", "SW Thermal Slowdown"),
    ),
    "clocks_event_reasons_counters.hw_thermal_slowdown": (
        ("Clocks Event Reasons Counters", "HW Thermal Slowdown"),
    ),
    "clocks_event_reasons_counters.hw_power_brake_slowdown": (
        ("Clocks Event Reasons Counters", "HW Power Braking"),
        ("Clocks Event Reasons Counters", "HW Power Brake Slowdown"),
    ),
    "remapped_rows.uncorrectable": (("Remapped Rows", "Uncorrectable Error"), ("Remapped Rows",)),
    "remapped_rows.pending": (("Remapped Rows", "Pending"), ("Remapped Rows",)),
    "remapped_rows.failure": (("Remapped Rows", "Remapping Failure Occurred"), ("Remapped Rows",)),
    "remapped_rows.histogram.low": ((*_HISTOGRAM, "Low"), ("Remapped Rows",)),
    "remapped_rows.histogram.none": ((*_HISTOGRAM, "None"), ("Remapped Rows",)),
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": (
        (*_AGGREGATE, "SRAM Threshold Exceeded"),
    ),
    "fabric.state": (("Fabric", "State"),),
    "fabric.status": (("Fabric", "Status"),),
    "fabric.health.summary": (("Fabric", "Health", "Summary"),),
    "fabric.health.bandwidth": (("Fabric", "Health", "Bandwidth"),),
    "fabric.health.route_unhealthy": (("Fabric", "Health", "Route Unhealthy"),),
    "fabric.health.incorrect_configuration": (("Fabric", "Health", "Incorrect Configuration"),),
    "fabric.health.route_recovery_in_progress": (
        ("Fabric", "Health", "Route Recovery in progress"),
    ),
    "fabric.health.access_timeout_recovery": (("Fabric", "Health", "Access Timeout Recovery"),),
}
# Counters that are a sum: since branch 535 of parity and SEC-DED, before of both memories, before
# Turing one row.
_SUMS: Mapping[str, tuple[tuple[tuple[str, ...], ...], ...]] = {
    "uncorrected": (
        (("SRAM Uncorrectable Parity",), ("SRAM Uncorrectable SEC-DED",), ("DRAM Uncorrectable",)),
        (("SRAM Uncorrectable",), ("DRAM Uncorrectable",)),
        (("Double Bit", "Total"),),
    ),
    "corrected": ((("SRAM Correctable",), ("DRAM Correctable",)), (("Single Bit", "Total"),)),
}
_COUNTER = regex(r"ecc\.errors\.(uncorrected|corrected)\.(volatile|aggregate)\.total")
# nvmlClocksEventReasons
_BITS = {
    "Idle": 0x1, "Applications Clocks Setting": 0x2, "SW Power Cap": 0x4, "HW Slowdown": 0x8,
    "Sync Boost": 0x10, "SW Thermal Slowdown": 0x20, "HW Thermal Slowdown": 0x40,
    "HW Power Brake Slowdown": 0x80, "Display Clock Setting": 0x100,
}  # fmt: skip


@frozen
class LongText:
    """What the text says: of the driver, and of each GPU in its order, values by the labels above
    them.
    """

    driver: str
    # It names a GPU twice, or one that was not reached, or more of them than it counts, or than a
    # host has: names of processes are in it, and a name may hold whole lines.
    is_doubtful: bool
    gpus: tuple[tuple[str, Mapping[tuple[str, ...], str]], ...]  # (bus id, values)


def read_long(text: str) -> LongText:
    """Of what is no such text, no GPUs."""
    driver, gpus = "", list[tuple[str, dict[tuple[str, ...], str]]]()
    names: set[str] = set()
    is_doubtful = is_in_processes = False
    most, unreached = _MOST_GPUS, {match[1].upper() for match in _UNREACHED.finditer(text)}
    values: dict[tuple[str, ...], str] = {}
    above: list[tuple[int, str]] = []
    for line in text.split("\n"):
        if gpu := _GPU.fullmatch(line):
            values, above, is_in_processes = {}, [], False
            is_doubtful |= gpu[1] in names or len(gpus) >= most or _is_among(gpu[1], unreached)
            if is_doubtful:
                break
            names.add(gpu[1])
            gpus.append((gpu[1], values))
            continue
        label, value = _row_of(line)
        if not label or label.startswith("="):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if not gpus:
            driver = value if label == "Driver Version" and value else driver
            most = min(most, parse_digits(value or "", most)) if label == _ATTACHED else most
            continue
        is_in_processes |= label == _PROCESSES
        if is_in_processes:  # the last part of a GPU
            continue
        while above and above[-1][0] >= indent:
            above.pop()
        if value is not None and len(values) < _MOST:
            # The first of two equal rows counts: names of processes, which may hold rows, come
            # later.
            values.setdefault((*(title for _, title in above), label), value)
        if len(above) < _DEEPEST:
            above.append((indent, label))
    return LongText(driver, is_doubtful, tuple(gpus))


def _is_among(bus: str, others: set[str]) -> bool:
    """Whether a bus id is one of these, whose domain may have fewer digits."""
    return any(one.lstrip("0") == bus.upper().lstrip("0") for one in others)


def _row_of(line: str) -> tuple[str, str | None]:
    """Label and value of `    Label      : value`; None for a row that is a title."""
    label, mark, value = line.partition(": ")
    if mark or line.rstrip().endswith(" :"):
        return label.rstrip().removesuffix(":").strip(), value.strip()
    return line.strip(), None


def answer(report: LongText, argv: Sequence[str]) -> tuple[int, str] | None:
    """(status, output) of `nvidia-smi --query-gpu=FIELDS --format=csv,noheader[,nounits]`, or of
    --query-remapped-rows; None for another question.
    """
    if len(argv) != 3 or not argv[1].startswith(("--query-gpu=", "--query-remapped-rows=")):
        return None
    if not argv[2].startswith("--format=csv,noheader"):
        return None
    fields = argv[1].partition("=")[2].split(",")
    with_units = "nounits" not in argv[2]
    rows = []
    for bus, values in report.gpus:
        row = []
        for field in fields:
            value = _find_value(field, bus, report.driver, values)
            if value is None:
                return 2, f'Field "{field}" is not a valid field to query.\n'
            row.append(_format_cell(value, with_units=with_units))
        rows.append(", ".join(row))
    return 0, "".join(f"{row}\n" for row in rows)


def list_gpus(report: LongText) -> str:
    """As `nvidia-smi -L` has it; MIG devices are not in the long text of every branch, and not
    here.
    """
    rows = ((number, values) for number, (_, values) in enumerate(report.gpus))
    return "".join(
        f"GPU {number}: {values.get(('Product Name',), '')} (UUID: "
        f"{values.get(('GPU UUID',), '')})\n"
        for number, values in rows
    )


def has_mig(report: LongText) -> bool:
    """Whether a GPU is cut in parts."""
    return any(values.get(("MIG Mode", "Current")) == "Enabled" for _, values in report.gpus)


def _find_value(
    field: str, bus: str, driver: str, values: Mapping[tuple[str, ...], str]
) -> str | None:
    if field in {"pci.bus_id", "gpu_bus_id"}:
        return bus
    if field == "driver_version":
        return driver or None
    if field in {"clocks_event_reasons.active", "clocks_throttle_reasons.active"}:
        title = _REASONS[0] if field.startswith("clocks_event") else _REASONS[1]
        return _mask(values, title)
    if counter := _COUNTER.fullmatch(field):
        return _sum(counter[1], counter[2].title(), values)
    value = next((values[place] for place in _LABELS.get(field, ()) if place in values), None)
    # branches 535 to 565 say no more of a recovery
    if value is None and (needs := values.get(_RESET_REQUIRED)):
        return (
            {"Yes": "Reset", "No": "None"}.get(needs, needs)
            if field == _RECOVERY
            else _none_of(field)
        )
    return value


def _none_of(field: str) -> str | None:
    """Those branches do not have the counters that newer ones ask for along with the recovery."""
    return "N/A" if field.startswith("clocks_event_reasons_counters.") else None


def _mask(values: Mapping[tuple[str, ...], str], title: str) -> str | None:
    if (title,) in values:  # `Clocks Event Reasons : N/A`, or an error
        return values[(title,)]
    rows = {key[-1]: value for key, value in values.items() if key[0] == title}
    if not rows:
        return None
    odd = next((value for value in rows.values() if value not in ("Active", "Not Active")), "")
    if odd and "Active" not in rows.values():
        return odd
    return (
        f"0x{sum(_BITS.get(label, 0) for label, value in rows.items() if value == 'Active'):016x}"
    )


def _sum(kind: str, when: str, values: Mapping[tuple[str, ...], str]) -> str | None:
    for rows in _SUMS[kind]:
        cells = [values[place] for row in rows if (place := ("ECC Errors", when, *row)) in values]
        if len(cells) == len(rows):
            numbers = [int(cell) for cell in cells if _WHOLE.fullmatch(cell)]
            odd = [cell for cell in cells if not _WHOLE.fullmatch(cell) and cell != "N/A"]
            return odd[0] if odd else str(sum(numbers)) if numbers else "N/A"
    return values.get(("ECC Errors",))


def _format_cell(value: str, *, with_units: bool) -> str:
    """As CSV has it: what is no value in brackets, numbers without their unit."""
    if value == "N/A" or value.endswith(" Error") or value.startswith("GPU "):
        return f"[{value}]"
    number = None if with_units else _UNIT.fullmatch(value)
    return number[1] if number else value
