"""The state of each NVIDIA GPU that the driver holds: errors, clocks, power and modes, as nvidia-smi and the kernel log
tell. What is printed and how it is read stands in facts/gpu/health_smi.py.

A GPU that does not answer keeps its place here, with every field of nvidia-smi unread. Serial numbers are not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hosttune.facts.base import Fact, UnknownFact, raw, unread
from hosttune.facts.gpu.gpu_errors import SAID, GpuError, sxids_in, way_of, xids_in
from hosttune.facts.gpu.health_smi import (
    APPLICATION_CLOCKS,
    COMMON,
    FEW,
    FIELDS,
    NONE,
    OLD_REASONS,
    OLD_REMAPPED,
    OLD_REMAPPED_FIELDS,
    REASONS,
    RECOVERY,
    REMAPPED,
    REMAPPED_FIELDS,
    SLOWDOWNS,
    dead,
    is_supported,
    mask,
    number,
    parse_rows,
    query_of,
    whole,
    word,
    yes,
)
from hosttune.facts.gpu.nvidia_smi import printed
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.values import Unreadable

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.gpus import Gpu
    from hosttune.host.door import Reader

__all__ = ["GpuHealth", "Health", "collect"]

_TIMEOUT_S = 30.0
_MICROSECONDS = 1e6
_RETIREMENTS = frozenset({63, 64})
_MOST_UNKNOWN = 4  # each costs one more run of nvidia-smi


@frozen
class GpuHealth(Fact):
    """One GPU. What it has not got is empty, false or unread with the reason, never a number."""

    slot: str  # 0000:1b:00.0
    errors: tuple[GpuError, ...]  # Xid errors of this boot's kernel log, each kind once
    temperature_c: int
    utilization_percent: int  # of the last second or less; unread with MIG
    memory_used_mib: int
    power_draw_w: float
    power_limit_w: float
    power_default_w: float
    power_min_w: float
    power_max_w: float
    sm_clock_mhz: int
    sm_clock_max_mhz: int
    event_reasons: int  # nvmlClocksEventReasons, a bit mask; of this moment
    slowed_s: float  # slowed by heat or power brake since the driver was loaded, in seconds; -1 on older drivers
    ecc: str  # Enabled, Disabled; empty where the GPU has none
    ecc_pending: str  # after the next reset
    has_ecc_counts: bool
    uncorrected_volatile: int  # since the driver was loaded
    uncorrected_aggregate: int  # in the life of the GPU
    retirement_pending: bool  # of memory pages or rows, done at the next reset
    can_remap: bool  # it has spare rows of memory (Ampere and newer)
    remap_failed: bool  # there was no spare row left
    worn_banks: int  # banks of memory with few spare rows left, or none; -1 on drivers that do not say
    rows_lost: int  # remapped for uncorrectable errors in the life of the GPU
    mig: str  # Enabled, Disabled; empty where the GPU has none
    mig_pending: str
    compute_mode: str  # Default, Exclusive_Process, Prohibited
    recovery_action: str  # None, Reset, Reboot, Drain P2P, Drain and Reset; empty on drivers that do not say
    silence: str = ""  # why it is taken not to answer, a sentence; empty for one that does, or where nobody was asked
    silence_way_out: str = ""  # what a person does about that
    model: str = ""  # its PCI device ID, 0x2330; empty for one that is gone from the bus
    ships_with_ecc: bool = False  # its model comes with ECC switched on

    @property
    def xids(self) -> tuple[int, ...]:
        """The numbers of the Xid errors of this boot, each once."""
        return tuple(dict.fromkeys(error.number for error in self.errors))

    @property
    def hardware_xids(self) -> tuple[str, ...]:
        """Sentences for the Xid errors since the last reset about which somebody has to do something."""
        return tuple(error.sentence for error in self.errors if error.is_reported)

    @property
    def way_out(self) -> str:
        """What a person does about them, as NVIDIA's catalogue says."""
        return way_of((error.action for error in self.errors if error.is_reported), self.slot)

    @property
    def recovery_way_out(self) -> str:
        """What the recovery that the driver asks for means to a person."""
        return way_of((SAID.get(self.recovery_action, "RESET_GPU"),), self.slot)

    @property
    def slowdowns(self) -> tuple[str, ...]:
        """Why the clocks are held down now, heat and power brake alone."""
        return tuple(words for bit, words in SLOWDOWNS.items() if self.event_reasons & bit)

    @property
    def has_set_clocks(self) -> bool:
        """Somebody set application clocks; those that -lgc locks do not show."""
        return bool(self.event_reasons & APPLICATION_CLOCKS)


@frozen
class Health(Fact):
    """All GPUs that the NVIDIA driver holds, by slot; none while it is not loaded."""

    gpus: tuple[GpuHealth, ...]
    switch_errors: tuple[str, ...]  # sentences for the SXid errors about which somebody has to do something
    is_switch_fatal: bool  # one of them has stopped the fabric
    problem: str  # a sentence where nvidia-smi is not asked, or did not answer

    @property
    def ecc_models(self) -> tuple[str, ...]:
        """The models of which one GPU here has ECC on."""
        return tuple(dict.fromkeys(gpu.model for gpu in self.gpus if gpu.model and raw(gpu, "ecc") == "Enabled"))

    @property
    def modes(self) -> tuple[str, ...]:
        """The MIG modes of the GPUs that have one, each once; one that does not answer has none."""
        return tuple(dict.fromkeys(str(mode) for gpu in self.gpus if isinstance(mode := raw(gpu, "mig"), str) and mode))


def collect(reader: Reader, facts: Facts) -> Health:
    try:
        known = {gpu.slot: gpu for gpu in facts.gpus.devices if gpu.driver == "nvidia"}
        is_asked = facts.nvidia.smi not in {"not asked", "absent", "hangs"}
        problem = facts.nvidia.problem
        silent = raw(facts.nvidia, "silent")
    except UnknownFact as unknown:
        return Health(*[unread(unknown.reason)] * 4)
    silences: Any = {gpu.slot: gpu for gpu in silent} if isinstance(silent, tuple) else silent
    slots = tuple(sorted({*known, *(silences if isinstance(silences, dict) else ())}))
    rows: Mapping[str, Mapping[str, str]] = {}
    remapped: Mapping[str, Mapping[str, str]] = {}
    if slots and is_asked:
        rows, problem = _asked(reader)
        remapped = _remapped(reader) if rows else {}
    messages = raw(facts.nvidia, "messages")
    recoveries = {slot: row.get(RECOVERY, "") for slot, row in rows.items() if is_supported(row.get(RECOVERY, "N/A"))}
    errors = sxids = messages
    if isinstance(messages, tuple):
        now = reader.now()
        errors = xids_in(messages, str(raw(facts.driver, "loaded_version")), now, recoveries)
        sxids = [(slot, one) for slot, found in sxids_in(messages, now).items() for one in found if one.is_reported]
    gpus = tuple(
        _gpu(slot, known.get(slot), rows.get(slot), remapped.get(slot), errors, silences, problem) for slot in slots
    )
    if not isinstance(sxids, list):
        return Health(gpus, messages, messages, problem)  # type: ignore[arg-type]
    sentences = tuple(f"NVSwitch {slot}: {error.sentence}" for slot, error in sxids)
    return Health(gpus, sentences, any(error.weight == "fault" for _, error in sxids), problem)


def _asked(reader: Reader) -> tuple[Mapping[str, Mapping[str, str]], str]:
    """The rows of the newest question that this nvidia-smi understands, or why there are none."""
    problem = "nvidia-smi knows none of the fields"
    todo, unknown = list(FIELDS), set[str]()
    while todo:
        fields = tuple(name for name in todo[0] if name not in unknown)
        answer = reader.query(query_of(fields), timeout_s=_TIMEOUT_S)
        if not isinstance(answer, Completed):
            return {}, answer.reason if isinstance(answer, Unreadable) else "nvidia-smi is not installed"
        said = parse_rows(answer.text or answer.errors, fields, answer.status)
        if said.rows:
            return said.rows, ""
        lines = (answer.text or answer.errors).strip().splitlines()
        problem = printed(lines[0]) if lines else f"exit status {answer.status}"
        if not said.refused:
            break
        missing = set(said.unknown) & set(COMMON) - unknown
        unknown |= missing
        if not missing or len(unknown) > _MOST_UNKNOWN:
            del todo[0]
    return {}, f"nvidia-smi: {problem}"


def _remapped(reader: Reader) -> Mapping[str, Mapping[str, str]]:
    """Without the banks where this nvidia-smi, or an older record, does not know them."""
    for query, fields in ((REMAPPED, REMAPPED_FIELDS), (OLD_REMAPPED, OLD_REMAPPED_FIELDS)):
        answer = reader.query(query, timeout_s=_TIMEOUT_S)
        if isinstance(answer, Completed) and (rows := parse_rows(answer.text, fields, answer.status).rows):
            return rows
        if isinstance(answer, Unreadable) and not answer.reason.startswith("not in this record"):
            break
    return {}


def _gpu(
    slot: str,
    gpu: Gpu | None,
    row: Mapping[str, str] | None,
    remapped: Mapping[str, str] | None,
    errors: object,
    silences: Any,
    problem: str,
) -> GpuHealth:
    own: Any = errors.get(slot, ()) if isinstance(errors, Mapping) else errors
    silent = silences.get(slot) if isinstance(silences, dict) else None
    silence: Any = "" if isinstance(silences, dict) else silences
    if silent:
        silence = unread(silent.why) if silent.sign == "not known" else f"it {silent.why}"
    if row and (words := dead(row)):
        silence, row = silence or f"nvidia-smi says {words} of all that it is asked of it", None
    if row:  # it answers, as far as this process is concerned
        silence = ""
    if not silence and not row and isinstance(silence, str) and not problem:
        silence = unread("nvidia-smi showed it at first, and then no more")
    gone: Any = silence if isinstance(silence, Unreadable) else unread(silence or problem)

    def take(read: Any, name: str) -> Any:
        return gone if row is None else read(row.get(name, "N/A"), name)

    reasons = OLD_REASONS if row and OLD_REASONS in row else REASONS
    return GpuHealth(
        slot=slot,
        errors=own,
        temperature_c=take(whole, "temperature.gpu"),
        utilization_percent=take(whole, "utilization.gpu"),
        memory_used_mib=take(whole, "memory.used"),
        power_draw_w=take(number, "power.draw"),
        power_limit_w=take(number, "power.limit"),
        power_default_w=take(number, "power.default_limit"),
        power_min_w=take(number, "power.min_limit"),
        power_max_w=take(number, "power.max_limit"),
        sm_clock_mhz=take(whole, "clocks.sm"),
        sm_clock_max_mhz=take(whole, "clocks.max.sm"),
        event_reasons=take(mask, reasons),
        slowed_s=gone if row is None else _slowed(row),
        ecc=take(word, "ecc.mode.current"),
        ecc_pending=take(word, "ecc.mode.pending"),
        has_ecc_counts=gone if row is None else is_supported(row.get("ecc.errors.uncorrected.volatile.total", "N/A")),
        uncorrected_volatile=take(whole, "ecc.errors.uncorrected.volatile.total"),
        uncorrected_aggregate=take(whole, "ecc.errors.uncorrected.aggregate.total"),
        retirement_pending=gone if row is None else _pending(row, remapped, own),
        can_remap=gone if row is None else remapped is not None and is_supported(remapped["remapped_rows.failure"]),
        remap_failed=gone if row is None else _failed(row, remapped),
        worn_banks=gone if row is None else _worn(remapped),
        rows_lost=gone if row is None else whole(_of(remapped, "remapped_rows.uncorrectable"), "remapped rows"),
        mig=take(word, "mig.mode.current"),
        mig_pending=take(word, "mig.mode.pending"),
        compute_mode=take(word, "compute_mode"),
        recovery_action=gone if row is None else word(row.get(RECOVERY, "N/A"), "the recovery action"),
        silence=silence,
        silence_way_out=way_of((silent.action if silent else "RESTART_BM",), slot),
        model=gpu.device_id if gpu else "",
        ships_with_ecc=gpu is not None and gpu.ships_with_ecc,
    )


def _of(row: Mapping[str, str] | None, name: str) -> str:
    return "N/A" if row is None else row.get(name, "N/A")


def _worn(remapped: Mapping[str, str] | None) -> Any:
    banks = [whole(text, "spare rows") for name in (FEW, NONE) if is_supported(text := _of(remapped, name))]
    return next((one for one in banks if not isinstance(one, int)), sum(banks) if banks else -1)


def _failed(row: Mapping[str, str], remapped: Mapping[str, str] | None) -> Any:
    """Whether a row found no spare one. With MIG nvidia-smi tells of the banks alone: with spares left none failed."""
    spelled = _of(remapped, "remapped_rows.failure")
    if remapped is None or is_supported(spelled) or row["mig.mode.current"] != "Enabled":
        return yes(spelled, "failed row remapping")
    left = _of(remapped, NONE)
    return False if left == "0" else unread("with MIG nvidia-smi does not tell whether the row remapper has failed")


def _pending(row: Mapping[str, str], remapped: Mapping[str, str] | None, errors: Any) -> Any:
    """Of pages (before Ampere) or rows. With MIG nvidia-smi does not tell of rows; none waits where none was retired in
    this boot, for a reboot is a reset."""
    is_told = (
        remapped is None or is_supported(remapped["remapped_rows.pending"]) or row["mig.mode.current"] != "Enabled"
    )
    if not is_told and not isinstance(errors, tuple):
        return errors
    if not is_told and any(one.number in _RETIREMENTS and not one.is_settled for one in errors):
        return unread("with MIG nvidia-smi does not tell whether a memory row waits for a reset, and one was retired")
    pages = yes(row.get("retired_pages.pending", "N/A"), "pending page retirement")
    rows = yes(_of(remapped, "remapped_rows.pending"), "pending row remapping")
    if pages is True or rows is True:
        return True
    return pages if pages is not False else rows


def _slowed(row: Mapping[str, str]) -> Any:
    """The counters overlap (hardware slowdown counts as thermal, too), so the longest one counts."""
    spelled = [text for name, text in row.items() if "_counters." in name and is_supported(text)]
    if not spelled:
        return -1.0
    values = [number(text, "the time that clocks were held down") for text in spelled]
    if hidden := next((value for value in values if not isinstance(value, float)), None):
        return hidden
    return round(max(values) / _MICROSECONDS, 1)
