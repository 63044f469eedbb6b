"""The lines of `nvidia-smi --query-gpu=... --format=csv,nounits -lms N` as GPU samples; pure.

Sources: nvidia-smi(1), `nvidia-smi --help-query-gpu`, outputs recorded on real GPUs. What is in the
place of a value is read by facts/gpu/smi_words.py; of a GPU that fell off the bus it is in each
cell. The head is once, its names may differ from those that were asked for: drivers from 535 on
answer clocks_throttle_reasons.active under its new name, and clocks.sm has always been
clocks.current.sm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hosttune.facts.gpu.health_smi import OLD_REASONS, REASONS
from hosttune.facts.gpu.smi_words import BROKEN, SmiWord, word_of
from hosttune.frozen import frozen
from hosttune.measure.gpu.reasons import words_of
from hosttune.measure.gpu.sample import GpuSample
from hosttune.numbers import parse_digits
from hosttune.regex import regex

# The name is last: it is the only one that may hold a comma.
FIELDS: Final = (
    "index", "uuid", "pci.bus_id", "utilization.gpu", "memory.used", "memory.total", "power.draw",
    "enforced.power.limit", "clocks.sm", REASONS, "mig.mode.current", "name",
)  # fmt: skip
OLDER: Final[Mapping[str, str]] = {REASONS: OLD_REASONS, "enforced.power.limit": "power.limit"}
_CALLED: Final[Mapping[str, str]] = {
    "clocks.current.sm": "clocks.sm", OLD_REASONS: REASONS, "power.limit": "enforced.power.limit",
    "power.draw.instant": "power.draw",
}  # fmt: skip
_UNKNOWN_FIELD = regex(r'Field "([\w.]+)" is not a valid field')
# A container that may not open a GPU prints nearly the same sentence; "insufficient permissions" is
# not a GPU that is lost.
_FALLEN = regex(
    r"device handle for GPU ?(?:(\d+)(?![0-9A-Fa-f]*:[0-9A-Fa-f]))?:? ?"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])?(?!.{0,300}insufficient permissions)",
    re.IGNORECASE,
)
_MIB: Final = 1 << 20


@frozen
class SmiRow:
    """A GPU as one line shows it, and what identifies it beside the sample."""

    sample: GpuSample
    bus_id: str
    is_mig_on: bool


class SmiTable:
    """Takes lines one by one. `rows` holds the last one of each GPU, `message` the last line that
    is none.
    """

    def __init__(self) -> None:
        self.rows: dict[int, SmiRow] = {}
        self.message = ""
        self.refused: str | None = None  # the field that this nvidia-smi does not know
        self._head: tuple[str, ...] = ()
        self._last = -1

    def feed(self, line: str) -> int | None:
        """The index of the GPU that the line speaks of, None for every other line."""
        cells = [cell.strip() for cell in line.split(",")]
        names = tuple(_name(cell) for cell in cells)
        if names[0] == "index" and len(names) > 1:
            self._head, self._last = names, -1
            return None
        if self._head and len(cells) >= len(self._head):
            return self._row(dict(zip(self._head, self._fit_cells(cells), strict=True)))
        return self._sentence(line.strip())

    def _fit_cells(self, cells: list[str]) -> list[str]:
        width = len(self._head)
        return [*cells[: width - 1], ", ".join(cells[width - 1 :])]

    def _row(self, cells: Mapping[str, str]) -> int | None:
        spelled = cells["index"]
        index = parse_digits(spelled, -1)
        if index < 0 and word_of(spelled) not in BROKEN:
            return None
        # A lost GPU has its error in the cell of its index too; lines come in order, so it is the
        # next one.
        index = index if index >= 0 else self._last + 1
        self._last = index
        before = self.rows.get(index)
        if any(word_of(cell) in BROKEN for cell in cells.values()):
            self.rows[index] = _make_lost(index, before)
        else:
            self.rows[index] = _read(index, cells)
        return index

    def _sentence(self, line: str) -> int | None:
        if not line:
            return None
        self.message = line
        if refused := _UNKNOWN_FIELD.search(line):
            self.refused = refused[1]
        if not (fallen := _FALLEN.search(line)):
            return None
        known = (
            index
            for index, row in self.rows.items()
            if fallen[2] and _normalize_bus(row.bus_id) == _normalize_bus(fallen[2])
        )
        index = int(fallen[1]) if fallen[1] else next(known, None)
        if index is not None:
            self.rows[index] = _make_lost(index, self.rows.get(index))
        return index


def _normalize_bus(spelled: str) -> str:
    """A slot whatever the digits of its domain: 0000:1b:00.0 and 00000000:1B:00.0."""
    return spelled.lower().lstrip("0")


def _name(cell: str) -> str:
    """`memory.used [MiB]` without the unit, under the name that we ask for."""
    name = cell.partition(" [")[0]
    return _CALLED.get(name, name)


def _make_lost(index: int, before: SmiRow | None) -> SmiRow:
    if before is None:
        return SmiRow(GpuSample(index, lost=True), "", is_mig_on=False)
    return SmiRow(
        GpuSample(index, before.sample.uuid, before.sample.name, lost=True),
        before.bus_id,
        before.is_mig_on,
    )


def _read(index: int, cells: Mapping[str, str]) -> SmiRow:
    is_mig_on = cells.get("mig.mode.current") == "Enabled"
    reasons = cells.get(REASONS, "")
    util = _get_number(cells, "utilization.gpu")
    sample = GpuSample(
        index,
        _get_text(cells, "uuid"),
        _get_text(cells, "name"),
        # With MIG on, NVML has no utilization of the whole GPU, so what is printed there does not
        # count.
        util_percent=None if is_mig_on or util is None or not 0 <= util <= 100 else util,
        memory_used_bytes=_get_scaled(cells, "memory.used"),
        memory_total_bytes=_get_scaled(cells, "memory.total"),
        power_w=_get_number(cells, "power.draw"),
        power_limit_w=_get_number(cells, "enforced.power.limit"),
        sm_clock_mhz=_get_whole(cells, "clocks.sm"),
        reasons=words_of(int(reasons, 16)) if re.fullmatch(r"0x[0-9A-Fa-f]+", reasons) else None,
    )
    return SmiRow(sample, _get_text(cells, "pci.bus_id"), is_mig_on)


def _get_text(cells: Mapping[str, str], name: str) -> str:
    cell = cells.get(name, "")
    return cell if word_of(cell) is SmiWord.VALUE and not cell.startswith("[") else ""


def _get_number(cells: Mapping[str, str], name: str) -> float | None:
    """A number, its unit or not; None for [N/A], ERR! and all else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?: \S+)?", cells.get(name, ""))
    return float(match[1]) if match else None


def _get_whole(cells: Mapping[str, str], name: str) -> int | None:
    value = _get_number(cells, name)
    return None if value is None else int(value)


def _get_scaled(cells: Mapping[str, str], name: str) -> int | None:
    value = _get_number(cells, name)
    return None if value is None else int(value) * _MIB


def pids_in(output: str) -> dict[str, tuple[int, ...]]:
    """The processes by the UUID of their GPU, from `--query-compute-apps=gpu_uuid,pid
    --format=csv,noheader`.
    """
    found: dict[str, set[int]] = {}
    for line in output.splitlines():
        uuid, _, pid = (word.strip() for word in line.partition(","))
        if pid.isdecimal():
            found.setdefault(uuid, set()).add(int(pid))
    return {uuid: tuple(sorted(pids)) for uuid, pids in found.items()}


_LISTED = regex(r"GPU (\d+): .*|\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)")


def instances_in(output: str) -> dict[int, tuple[GpuSample, ...]]:
    """The MIG instances by the index of their GPU, from `nvidia-smi -L`, with nothing but uuid and
    name known.
    """
    found: dict[int, list[GpuSample]] = {}
    index = -1
    for line in output.splitlines():
        if not (match := _LISTED.match(line)):
            continue
        if match[1]:
            index = int(match[1])
        else:
            one = GpuSample(index, match[3], f"MIG {match[2]}", is_mig=True)
            found.setdefault(index, []).append(one)
    return {index: tuple(some) for index, some in found.items()}
