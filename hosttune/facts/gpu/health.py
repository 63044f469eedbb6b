"""The state of each NVIDIA GPU that the driver holds: errors, clocks, power and modes, as
nvidia-smi and the kernel log report. What is printed and how it is read is in
facts/gpu/health_smi.py.

A GPU that does not answer keeps its place here, with every field of nvidia-smi unread. Serial
numbers are not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import TYPE_CHECKING, TypeVar

from hosttune.facts.base import (
    Fact,
    UnknownFact,
    attempt,
    get_raw,
    keep_known,
    known_items,
    known_part,
    lacking_of,
    lazy,
    make_shared,
)
from hosttune.facts.gpu.gpu_errors import ACTIONS, GpuError, is_load, stamp_of, sxids_in, xids_in
from hosttune.facts.gpu.gsp_firmware import GspFailure, way_out
from hosttune.facts.gpu.health_smi import (
    APPLICATION_CLOCKS,
    COMMON,
    CORRECTED,
    CORRECTED_FIELDS,
    DETAILS,
    FABRIC_STATE,
    FABRIC_STATUS,
    FAILURE,
    FEW,
    HEAT,
    INFOROM,
    LIST,
    NONE,
    OLD_REASONS,
    OLD_REMAPPED,
    OLD_REMAPPED_FIELDS,
    PENDING,
    POWER_BRAKE,
    REASONS,
    RECOVERY,
    REMAPPED,
    REMAPPED_FIELDS,
    REPAIRS,
    SLOWDOWNS,
    SRAM_OVER,
    error_words,
    fabric_of,
    find_dead_word,
    has_repairs,
    mask,
    mig_devices_in,
    mig_profiles_in,
    parse_count,
    parse_number,
    parse_rows,
    parse_word,
    parse_yes,
    query_of,
    questions_for,
    repairs_in,
    with_kin,
)
from hosttune.facts.gpu.nvidia import HANGS, why_narrowed
from hosttune.facts.gpu.nvidia_lost import SilentGpu
from hosttune.facts.gpu.nvidia_smi import describe_failure, slots_of
from hosttune.facts.gpu.smi_words import BROKEN, asks_for_reset, is_supported, word_of
from hosttune.facts.gpu.ways_out import find_place, reset_idle, way_of
from hosttune.facts.reading import ask, is_there, parse_or_unknown, require_known, require_sure
from hosttune.facts.subject import Subject, fact
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.numbers import parse_digits
from hosttune.values import Unreadable, is_unrecorded

if TYPE_CHECKING:
    from hosttune.facts import Facts
    from hosttune.facts.gpu.gpus import Gpu
    from hosttune.host.door import Reader

__all__ = ["GpuHealth", "Health"]

T = TypeVar("T")
_TIMEOUT_S = 30.0
_MICROSECONDS = 1e6
_BUSY_PERCENT = 90  # of the time a kernel runs
_HOUR_S, _DAY_S = 3600, 86400
_CONTAINED = 94  # of the Xid
_UNCORRECTED = "ecc.errors.uncorrected.volatile.total"
_RETIREMENTS = frozenset({63, 64})
_MOST_REFUSALS = 4  # each costs one more run of nvidia-smi
# lends vGPUs to virtual machines (NVIDIA, vGPU User Guide)
_VGPU_HOST = "/sys/module/nvidia_vgpu_vfio"
_NO_REPAIR = "Unrepairable Memory"
_CORRUPTED = 14  # NVML_ERROR_CORRUPTED_INFOROM as an exit status


@frozen
class GpuHealth(Fact):
    """One GPU. What it has not got is empty, false or unread with the reason, never a number."""

    slot: str  # 0000:1b:00.0
    errors: tuple[GpuError, ...]  # Xid errors of this boot's kernel log, each kind once
    temperature_c: int  # of the GPU, in degrees Celsius
    utilization_percent: int  # of the last second or less; unread with MIG
    memory_used_mib: int  # memory in use, in MiB
    power_draw_w: float  # in watts, now
    power_limit_w: float  # the limit in force, in watts
    power_default_w: float  # the limit it starts with, in watts
    power_min_w: float  # the lowest limit that can be set, in watts
    power_max_w: float  # the highest limit that can be set, in watts
    sm_clock_mhz: int  # the clock of its processors now, in MHz
    sm_clock_max_mhz: int  # the highest clock of its processors, in MHz
    # nvmlClocksEventReasons, a bit mask; of this moment; 0 where the GPU has none
    event_reasons: int
    # slowed by heat or power brake since the driver was loaded, in seconds; -1 on older drivers
    slowed_s: float
    ecc: str  # Enabled, Disabled; empty where the GPU has none
    ecc_pending: str  # after the next reset
    has_ecc_counts: bool  # it counts errors of its memory
    corrected_volatile: int  # corrected since the driver was loaded; -1 if nvidia-smi does not tell
    corrected_an_hour: float  # of them, on average since then; 0 if nvidia-smi does not tell
    # the median of the same figure of the other GPUs of its model here; 0 for none
    corrected_of_others: float
    uncorrected_volatile: int  # since the driver was loaded
    uncorrected_aggregate: int  # in the life of the GPU
    retirement_pending: bool  # of memory pages or rows, done at the next reset
    can_remap: bool  # it has spare rows of memory (Ampere and newer)
    remap_failed: bool  # there was no spare row left
    # banks of memory with few spare rows left, or none; -1 on drivers that do not say
    worn_banks: int
    rows_lost: int  # remapped for uncorrectable errors in the life of the GPU
    mig: str  # Enabled, Disabled; empty where the GPU has none
    # Enabled or Disabled: the MIG mode after its next reset; empty where it has none
    mig_pending: str
    # that CUDA can use; -1 where that is not asked: no MIG, for virtual machines, by older records
    mig_devices: int
    compute_mode: str  # Default, Exclusive_Process, Prohibited
    # whether its settings store is right: valid, corrupted ...; empty on drivers that do not say
    inforom: str
    # its chip had more uncorrected errors than NVIDIA puts up with; False also on older drivers
    is_sram_over: bool
    # Channel Repair Pending, TPC Repair Pending, Unrepairable Memory; none on older drivers
    repairs: tuple[str, ...]
    # Not Started, In Progress, Completed; empty without a fabric, or on drivers that do not say
    fabric_state: str
    fabric_faults: tuple[str, ...]  # what keeps it from its fabric, phrases
    fabric_delays: tuple[str, ...]  # what makes it slow there
    # None, Reset, Reboot, Drain P2P, Drain and Reset; empty on drivers that do not say
    recovery_action: str
    # what nvidia-smi says of it in the place of values: [GPU requires reset]; unread for another
    # error
    breakdown: str
    # why it is taken not to answer, a sentence; empty for one that does, or where no one was asked
    silence: str = ""
    silence_way_out: str = ""  # what a person does about that, a step on each line
    # what a person does about all that is wrong with one that answers: the worst decides
    way_out: str = ""
    # about an error from which the driver asks for no recovery, if jobs are hit by it
    waived_way_out: str = ""
    reset_way_out: str = ""  # a reset that puts a changed mode in force, a step on each line
    suspect_way_out: str = ""  # about a board that may have to be replaced
    model: str = ""  # its PCI device ID, 0x2330; empty for one that is gone from the bus
    ships_with_ecc: bool = False  # its model comes with ECC switched on

    @property
    def is_slow_without_reason(self) -> bool:
        """It computes at under a third of its clock, and the driver gives no reason. False if an
        answer is missing.
        """
        found = [
            get_raw(self, one)
            for one in ("event_reasons", "utilization_percent", "sm_clock_mhz", "sm_clock_max_mhz")
        ]
        reasons, used, clock, most = (one if isinstance(one, int) else -1 for one in found)
        return reasons == 0 and used >= _BUSY_PERCENT and 0 < clock * 3 < most

    @property
    def xids(self) -> tuple[int, ...]:
        """The numbers of the Xid errors of this boot, each once."""
        return tuple(dict.fromkeys(error.number for error in self.errors))

    @property
    def hardware_xids(self) -> tuple[str, ...]:
        """Sentences for the Xid errors since the last reset about which someone has to do
        something.
        """
        return tuple(error.sentence for error in self.errors if error.is_reported)

    @property
    def actions(self) -> tuple[str, ...]:
        """What NVIDIA asks for, for each thing that is wrong with it; what cannot be read asks for
        nothing.
        """
        errors, repairs = get_raw(self, "errors"), get_raw(self, "repairs")
        found = (
            [error.action for error in errors if error.is_reported]
            if isinstance(errors, tuple)
            else []
        )
        names = repairs if isinstance(repairs, tuple) else ()
        found += ["REPLACE_BOARD" if name == _NO_REPAIR else "DRAIN_RESET" for name in names]
        found += [
            "REPLACE_BOARD"
            for name in ("remap_failed", "is_sram_over")
            if get_raw(self, name) is True
        ]
        found += ["DRAIN_RESET"] if get_raw(self, "retirement_pending") is True else []
        found += (
            ["SUSPECT_BOARD"]
            if isinstance(errors, tuple) and any(one.keeps_coming for one in errors)
            else []
        )
        wish, words = get_raw(self, "recovery_action"), get_raw(self, "breakdown")
        found += (
            [ACTIONS.get(wish, "RESET_GPU")]
            if isinstance(wish, str) and wish not in {"", "None"}
            else []
        )
        found += (
            ["RESET_GPU" if asks_for_reset(words) else "RESTART_BM"]
            if isinstance(words, str) and words
            else []
        )
        count = (
            get_raw(self, "uncorrected_volatile")
            if get_raw(self, "has_ecc_counts") is True and not found
            else 0
        )
        return tuple(found) or (("RESET_GPU",) if isinstance(count, int) and count > 0 else ())

    @property
    def errors_settled(self) -> str:
        """Why its uncorrected memory errors ask for nothing now, a phrase: they have new rows
        already, or the driver contained them (Xid 94), and it asks for no recovery. Empty where one
        of these answers is missing.

        Rows are counted over the GPU's life, so all errors of its life are held against them: a new
        one in the SRAM, which has no rows, is one more than there are rows. Fewer errors than since
        the load were cleared by a person.
        """
        lost, new, ever, errors = (
            get_raw(self, name)
            for name in ("rows_lost", "uncorrected_volatile", "uncorrected_aggregate", "errors")
        )
        is_done = (
            get_raw(self, "retirement_pending") is False and get_raw(self, "remap_failed") is False
        )
        if not is_done or get_raw(self, "recovery_action") != "None":
            return ""
        if (
            not (isinstance(lost, int) and isinstance(new, int) and isinstance(ever, int))
            or new <= 0
        ):
            return ""
        if max(new, ever) <= lost:
            return "whose rows are remapped already"
        found = errors if isinstance(errors, tuple) else ()
        contained = sum(one.count for one in found if one.number == _CONTAINED and not one.is_often)
        is_all = new <= contained and not any(one.is_reported for one in found)
        return "which the driver contained (Xid 94)" if is_all else ""

    @property
    def correction_rate(self) -> str:
        """Its memory corrects 9,000 errors an hour, the other GPUs of its model 2."""
        others = (
            f", the other GPUs of its model {self.corrected_of_others:,.0f}"
            if self.corrected_of_others
            else ""
        )
        return f"its memory corrects {self.corrected_an_hour:,.0f} errors an hour{others}"

    @property
    def repeated_xids(self) -> tuple[str, ...]:
        """Sentences for the Xid errors for which this GPU was reset again and again in the last
        day.
        """
        return tuple(error.repeated_resets for error in self.errors if error.keeps_coming)

    @property
    def waived_xids(self) -> tuple[str, ...]:
        """Sentences for the faults since the last reset from which the driver asks for no
        recovery.
        """
        return tuple(error.sentence for error in self.errors if error.is_waived)

    @property
    def is_waived_often(self) -> bool:
        """One of these faults came several times."""
        return any(error.is_waived and error.is_often for error in self.errors)

    @property
    def slowdowns(self) -> tuple[str, ...]:
        """Why the clocks are held down now, heat and power brake alone."""
        return tuple(words for bit, words in SLOWDOWNS.items() if self.event_reasons & bit)

    @property
    def is_only_braked(self) -> bool:
        """Its power supply holds the clocks down, and heat is none of the reasons that the driver
        gives.
        """
        return bool(self.event_reasons & POWER_BRAKE) and not self.event_reasons & HEAT

    @property
    def has_set_clocks(self) -> bool:
        """Someone set application clocks; those that -lgc locks do not show."""
        return bool(self.event_reasons & APPLICATION_CLOCKS)


@frozen
class Health(Subject):
    """All GPUs that the NVIDIA driver holds, by slot; none while it is not loaded."""

    @fact
    def gpus(self) -> tuple[GpuHealth, ...]:
        return keep_known(lambda slot: (_make_gpu(slot, self._sources),), self._sources.slots())

    @fact
    def switch_errors(self) -> tuple[str, ...]:
        """Sentences for the SXid errors about which someone has to do something."""
        return tuple(f"NVSwitch {slot}: {error.sentence}" for slot, error in self._sources.sxids())

    @fact
    def is_switch_fatal(self) -> bool:
        """One of them has stopped the fabric."""
        return any(error.weight == "fault" for _, error in self._sources.sxids())

    @fact
    def switch_way_out(self) -> str:
        """What a person does about them, a step on each line."""
        return self._sources.switch_way_out()

    @fact
    def mig_profiles(self) -> tuple[str, ...] | None:
        """Of the MIG devices of this host, one for each: 1g.10gb; None in an older record."""
        return self._sources.mig_profiles()

    @fact
    def problem(self) -> str:
        """A sentence where nvidia-smi is not asked, or did not answer."""
        return self._sources.problem()

    @fact
    def is_refused(self) -> bool:
        """nvidia-smi refuses or hangs, and so tells nothing of any GPU."""
        return self._sources.is_refused()

    @fact
    def _sources(self) -> _Sources:
        return _Sources(self.reader, self.facts)

    @property
    def is_stuck(self) -> bool:
        """nvidia-smi lists the GPUs, and does not come to an end when it is asked for their
        state.
        """
        problem = attempt(lambda: self.problem)
        return isinstance(problem, str) and HANGS in problem

    @property
    def ecc_models(self) -> tuple[str, ...]:
        """The models of which one GPU here has ECC on."""
        return tuple(
            dict.fromkeys(
                gpu.model for gpu in self.gpus if gpu.model and get_raw(gpu, "ecc") == "Enabled"
            )
        )

    @property
    def modes(self) -> tuple[str, ...]:
        """The MIG modes of the GPUs that have one, each once; one that does not answer beside
        others has none.
        """
        if self.gpus and all(isinstance(get_raw(gpu, "mig"), Unreadable) for gpu in self.gpus):
            _ = self.gpus[0].mig  # raises: not one of them tells
        return tuple(
            dict.fromkeys(
                str(mode)
                for gpu in self.gpus
                if isinstance(mode := get_raw(gpu, "mig"), str) and mode
            )
        )


class _Sources:
    """What the driver, nvidia-smi and the kernel log tell of all GPUs; each is asked once, and not
    before.
    """

    def __init__(self, reader: Reader, facts: Facts) -> None:
        self.reader, self.facts = reader, facts
        self.driver = str(get_raw(facts.driver, "loaded_version"))
        self.held = make_shared(self._list_held)
        self.place = make_shared(find_place, reader, facts)
        self.silences = make_shared(lambda: {gpu.slot: gpu for gpu in facts.nvidia.silent})
        self.is_vgpu = make_shared(lambda: attempt(lambda: facts.gpus.is_vgpu) is True)
        self.slots = make_shared(self._slots)
        self.asked = make_shared(self._ask)
        self.remapped = make_shared(self._ask_remapped)
        self.repairs = make_shared(
            lambda: _read_repairs(reader) if has_repairs(self.driver) and self.asked()[0] else None
        )
        self.listing = make_shared(reader.query, LIST, timeout_s=_TIMEOUT_S)
        self.listed = make_shared(self._count_listed)
        self.corrected = make_shared(self._count_corrected)
        self.loaded_s = make_shared(self._loaded_s)
        self.errors = make_shared(self._errors)
        self.sxids = make_shared(self._sxids)

    def problem(self) -> str:
        """A sentence where nvidia-smi is not asked, or did not answer."""
        return self.asked()[1]

    def is_refused(self) -> bool:
        """An answer that cannot be had for another reason is unknown, not refused."""
        problem, smi = attempt(self.problem), attempt(lambda: self.facts.nvidia.smi)
        return (
            isinstance(problem, str)
            and bool(problem)
            and (smi in {"refused", "hangs"} or HANGS in problem)
        )

    def _list_held(self) -> dict[str, Gpu]:
        """By slot, also one whose driver could not be read: nvidia-smi and the log may have
        something of it. Those that are known; `slots` raises where there may be more.
        """
        found = ((gpu, get_raw(gpu, "driver")) for gpu in known_items(self.facts.gpus.devices))
        return {
            gpu.slot: gpu
            for gpu, driver in found
            if driver == "nvidia" or isinstance(driver, Unreadable)
        }

    def _slots(self) -> tuple[str, ...]:
        """Nothing is known of those that the log has nothing of, where the list of GPUs or
        nvidia-smi cannot be had.
        """
        smi, silences = attempt(lambda: self.facts.nvidia.smi), attempt(self.silences)
        devices = attempt(lambda: self.facts.gpus.devices)
        unread = next((one for one in (smi, devices) if isinstance(one, Unreadable)), None)
        found = (
            set() if unread else {*self.held(), *(silences if isinstance(silences, dict) else ())}
        )
        lacking = UnknownFact(unread.reason) if unread else lacking_of(devices)
        if lacking:
            messages = attempt(lambda: self.facts.nvidia.messages)
            errors = (
                xids_in(messages, self.driver, self.reader.now(), {})
                if isinstance(messages, tuple)
                else {}
            )
            found |= {slot for slot, own in errors.items() if any(one.is_reported for one in own)}
        return known_part(sorted(found), lacking)

    def _ask(self) -> tuple[Mapping[str, Mapping[str, str]], str]:
        is_asked = self.facts.nvidia.smi not in {"not asked", "absent", "hangs"}
        if not is_asked or not self.slots():
            return {}, self.facts.nvidia.problem
        return _ask_gpus(self.reader, self.driver, is_vgpu=self.is_vgpu())

    def _ask_remapped(self) -> Mapping[str, Mapping[str, str]]:
        rows = self.asked()[0]
        tells = any(PENDING in row for row in rows.values())
        return rows if tells else _ask_remapped(self.reader, is_vgpu=self.is_vgpu()) if rows else {}

    def _count_corrected(self) -> Mapping[str, int]:
        """The corrected memory errors by slot, of the GPUs that count them. What nvidia-smi does
        not tell is left out; raises UnknownFact where it was asked, and its answer could not be
        had.
        """
        rows = self.asked()[0].values()
        if not any(is_supported(row.get(_UNCORRECTED, "N/A")) for row in rows):
            return {}
        answer = self.reader.query(CORRECTED, timeout_s=_TIMEOUT_S)
        if isinstance(answer, Unreadable) and not is_unrecorded(answer):
            raise UnknownFact(answer.reason)
        by_slot = (
            parse_rows(answer.text, CORRECTED_FIELDS, answer.status).rows
            if isinstance(answer, Completed)
            else {}
        )
        counts = {slot: parse_digits(row[CORRECTED_FIELDS[1]], -1) for slot, row in by_slot.items()}
        return {slot: count for slot, count in counts.items() if count >= 0}

    def _loaded_s(self) -> float:
        """Seconds since the driver was loaded, or since the boot; 0 if nothing tells."""
        log = attempt(lambda: self.facts.nvidia.messages)
        loads = [message for message in log if is_load(message)] if isinstance(log, tuple) else []
        stamp = stamp_of(loads[-1]) if loads else 0.0
        uptime_days = attempt(lambda: self.facts.pressure.uptime_days)
        uptime_s = uptime_days * _DAY_S if isinstance(uptime_days, float | int) else 0.0
        return min(self.reader.now() - stamp, uptime_s) if stamp and uptime_s else uptime_s

    def corrected_an_hour(self, slot: str) -> float:
        """How many memory errors a GPU corrects in an hour, on average since the driver was
        loaded.
        """
        count = self.corrected().get(slot, 0)
        if not count:
            return 0.0
        # raises where nothing tells since when they are counted
        _ = self.facts.pressure.uptime_days
        return count / max(1.0, self.loaded_s() / _HOUR_S) if self.loaded_s() else 0.0

    def corrected_of_others(self, slot: str) -> float:
        own = self.held().get(slot)
        others = (
            gpu.slot for gpu in self.held().values() if own and gpu.device_id == own.device_id
        )
        rates = [
            self.corrected_an_hour(other)
            for other in others
            if other != slot and other in self.corrected()
        ]
        return median(rates) if rates else 0.0

    def _errors(self) -> Mapping[str, tuple[GpuError, ...]]:
        messages, asked = self.facts.nvidia.messages, attempt(self.asked)
        rows = {} if isinstance(asked, Unreadable) else asked[0]
        ways = {
            slot: row.get(RECOVERY, "")
            for slot, row in rows.items()
            if is_supported(row.get(RECOVERY, "N/A"))
        }
        return xids_in(messages, self.driver, self.reader.now(), ways)

    def _sxids(self) -> list[tuple[str, GpuError]]:
        found = sxids_in(self.facts.nvidia.messages, self.reader.now())
        return [(slot, one) for slot, errors in found.items() for one in errors if one.is_reported]

    def silence(self, slot: str) -> str:
        """Why a GPU is taken not to answer, a sentence; empty for one that does, or where no one
        was asked.
        """
        rows, problem = self.asked()
        words = find_dead_word(rows[slot]) if slot in rows else ""
        if slot in rows and not words:
            return ""  # it answers, as far as this process is concerned
        silent = self.silences().get(slot)
        if silent and silent.sign == "not known":
            raise UnknownFact(silent.why)
        if not silent:
            held = self.held().get(slot)
            if held is None:
                raise UnknownFact(f"whether {slot} is a GPU that the driver has")
            _ = held.driver  # raises where that is not known
        if not silent and not words and not problem:
            raise UnknownFact("nvidia-smi showed it at first, and then no more")
        sentence = (
            f"it {silent.why}"
            if silent
            else words and f"nvidia-smi says {words} of all that it is asked of it"
        )
        failure = self.not_set_up(slot)
        return f"{sentence}; {failure.describe()}" if sentence and failure else sentence

    def not_set_up(self, slot: str) -> GspFailure | None:
        """Why the driver could not set a GPU up, where the log tells."""
        known = attempt(lambda: self.facts.gsp_firmware.of(slot))
        return None if isinstance(known, Unreadable) else known

    def reachable(self, action: str) -> str:
        """An action, or a reboot in the place of a reset where nvidia-smi finds no GPU to reset."""
        is_blind = attempt(lambda: self.facts.nvidia.refusal) == "no devices"
        return "RESTART_BM" if is_blind and action == "RESET_GPU" else action

    def silence_way_out(self, slot: str) -> str:
        if failure := self.not_set_up(slot):
            return way_out(failure, self.facts)
        silent = attempt(lambda: self.silences().get(slot))
        return way_of(
            (silent.action if isinstance(silent, SilentGpu) else "RESTART_BM",), slot, self.place()
        )

    def switch_way_out(self) -> str:
        asks = ["RESET_FABRIC" if error.weight == "fault" else "LATER" for _, error in self.sxids()]
        way = way_of(asks, "", self.place())
        stalls = bool(asks) and "RESET_FABRIC" not in asks
        return (
            f"let no new job start on that GPU, whose traffic may have stopped\n{way}"
            if stalls
            else way
        )

    def inforom(self, slot: str) -> str:
        """Drivers before 580 only warn, in a line of its own or by their exit status."""
        if slot in self.facts.nvidia.corrupted:
            return "corrupted"
        state = parse_or_unknown(parse_word, self.row(slot).get(INFOROM, "N/A"), INFOROM)
        if (
            not state
            and self.facts.nvidia.smi_status == _CORRUPTED
            and not self.facts.nvidia.corrupted
        ):
            raise UnknownFact(
                f"nvidia-smi ends with status {_CORRUPTED}: an InfoROM is corrupted, it does not "
                "say which"
            )
        return state

    def breakdown(self, slot: str) -> str:
        words = error_words(self.row(slot))
        of = {spelled: f"{spelled} of {', '.join(names)}" for spelled, names in words.items()}
        if broken := [phrase for spelled, phrase in of.items() if word_of(spelled) in BROKEN]:
            return f"nvidia-smi says {'; '.join(broken)}"
        if unclear := [
            of[spelled] for spelled, names in words.items() if names != (FABRIC_STATUS,)
        ]:
            raise UnknownFact(f"nvidia-smi says {'; '.join(unclear)}")
        # why a GPU could not join its fabric is a word of an error in that field, and of the fabric
        return ""

    def list_repairs(self, slot: str) -> tuple[str, ...]:
        found = self.repairs()
        if found is not None and slot not in found:
            raise UnknownFact("nvidia-smi tells of the repairs of other GPUs, and not of this one")
        return found[slot] if found is not None else ()

    def mig_devices(self, slot: str) -> int:
        if (
            parse_or_unknown(
                parse_word, self.row(slot).get("mig.mode.current", "N/A"), "mig.mode.current"
            )
            != "Enabled"
        ):
            return -1
        found = self.listed()
        if found is None:
            return -1
        if (count := found.get(slot)) is None:
            raise UnknownFact("nvidia-smi -L does not tell of the MIG devices of this GPU")
        if count == 0 and not self.reader.is_privileged:
            raise UnknownFact("an ordinary user may be shown no MIG devices: ask as root")
        # where GPU instances are lent as vGPUs, compute instances are made in the guest, if at all
        return -1 if count == 0 and is_there(self.reader, _VGPU_HOST) else count

    def _count_listed(self) -> Mapping[str, int | None] | None:
        """The MIG devices of each GPU that nvidia-smi lists. None in an older record, in a guest,
        and where this process may see a part of them. Raises UnknownFact where it does not tell.
        """
        if attempt(lambda: self.facts.nvidia.is_vgpu) is True or why_narrowed(
            self.reader, self.facts
        ):
            return None
        answer = attempt(self.listing)
        if isinstance(answer, Unreadable) and not is_unrecorded(answer):
            raise UnknownFact(answer.reason)
        if not isinstance(answer, Completed):
            return None
        found = mig_devices_in(answer.text)
        slots = slots_of(self.facts.nvidia.gpus, found)
        if not found or not slots:
            raise UnknownFact(
                f"nvidia-smi -L does not tell of MIG devices: {describe_failure(answer)}"
            )
        return {slots[number]: count for number, count in found.items()}

    def mig_profiles(self) -> tuple[str, ...] | None:
        """Raises UnknownFact if nvidia-smi does not list the GPUs, or may hide some from this
        process.
        """
        if is_unrecorded(attempt(self.listing)):
            return None
        if reason := why_narrowed(self.reader, self.facts):
            raise UnknownFact(reason)
        if not self.reader.is_privileged:
            raise UnknownFact("an ordinary user may be shown no MIG devices: ask as root")
        answer = require_known(self.listing(), LIST[0])
        if not mig_devices_in(answer.text):
            raise UnknownFact(
                f"nvidia-smi -L does not tell of MIG devices: {describe_failure(answer)}"
            )
        return mig_profiles_in(answer.text)

    def row(self, slot: str) -> Mapping[str, str]:
        """What nvidia-smi prints of a GPU; raises UnknownFact for one that does not answer."""
        rows, problem = self.asked()
        if slot not in rows or find_dead_word(rows[slot]):
            raise UnknownFact(self.silence(slot) or problem)
        return rows[slot]


def _ask_gpus(
    reader: Reader, driver: str, *, is_vgpu: bool
) -> tuple[Mapping[str, Mapping[str, str]], str]:
    """The rows of the newest question that this nvidia-smi understands, or why there are none.
    `driver` is the version of the loaded one.
    """
    problem = "nvidia-smi knows none of the fields"
    todo, unknown, refusals = list(questions_for(driver, is_vgpu=is_vgpu)), set[str](), 0
    while todo:
        fields = tuple(name for name in todo[0] if name not in unknown)
        answer = attempt(ask, reader, query_of(fields), timeout_s=_TIMEOUT_S)
        if is_unrecorded(answer) and len(todo) > 1:
            del todo[0]  # an older record
            continue
        if isinstance(answer, Unreadable):
            return {}, answer.reason
        answer_rows = parse_rows(answer.text or answer.errors, fields, answer.status)
        if answer_rows.rows:
            return answer_rows.rows, ""
        problem = describe_failure(answer)
        if not answer_rows.refused:
            break
        missing = with_kin(set(answer_rows.unknown)) & {*COMMON, *DETAILS} - unknown
        unknown |= missing
        refusals += 1
        if not missing or refusals > _MOST_REFUSALS:
            del todo[0]
    return {}, f"nvidia-smi: {problem}"


def _ask_remapped(reader: Reader, *, is_vgpu: bool) -> Mapping[str, Mapping[str, str]]:
    """Without the banks of a vGPU, and where this nvidia-smi, or an older record, does not know
    them; nothing where it knows of no remapping. Raises UnknownFact where it was asked and did not
    tell: that is no memory without faults.
    """
    questions = ((REMAPPED, REMAPPED_FIELDS), (OLD_REMAPPED, OLD_REMAPPED_FIELDS))
    for query, fields in reversed(questions) if is_vgpu else questions:
        answer = reader.query(query, timeout_s=_TIMEOUT_S)
        if isinstance(answer, Completed):
            parsed = parse_rows(answer.text or answer.errors, fields, answer.status)
            if parsed.rows:
                return parsed.rows
            if not parsed.refused:
                raise UnknownFact(
                    f"nvidia-smi does not tell of remapped rows: {describe_failure(answer)}"
                )
        elif isinstance(answer, Unreadable) and not is_unrecorded(answer):
            raise UnknownFact(answer.reason)
    return {}


def _read_repairs(reader: Reader) -> Mapping[str, tuple[str, ...]] | None:
    """None in an older record. Raises UnknownFact where it was asked and did not tell."""
    answer = reader.query(REPAIRS, timeout_s=_TIMEOUT_S)
    if isinstance(answer, Unreadable) and not is_unrecorded(answer):
        raise UnknownFact(answer.reason)
    if not isinstance(answer, Completed):
        return None
    found = parse_or_unknown(repairs_in, answer.text)
    if not found:
        raise UnknownFact(
            f"nvidia-smi does not tell of repairs of memory: {describe_failure(answer)}"
        )
    return found


def _make_gpu(slot: str, sources: _Sources) -> GpuHealth:
    def take(read: Callable[[str, str], T], name: str, what: str = "") -> T:
        return parse_or_unknown(read, sources.row(slot).get(name, "N/A"), what or name)

    def make_value(make: Callable[[Mapping[str, str], Mapping[str, str] | None], T]) -> T:
        row = sources.row(slot)
        rows = sources.remapped()
        if rows and slot not in rows:
            raise UnknownFact(
                "nvidia-smi tells of the remapped rows of other GPUs, and not of this one"
            )
        return parse_or_unknown(make, row, rows.get(slot))

    held = attempt(sources.held)
    gpu = None if isinstance(held, Unreadable) else held.get(slot)
    errors = make_shared(lambda: sources.errors().get(slot, ()))
    found = GpuHealth(
        slot=slot,
        errors=lazy(errors),
        temperature_c=lazy(take, parse_count, "temperature.gpu"),
        utilization_percent=lazy(take, parse_count, "utilization.gpu"),
        memory_used_mib=lazy(take, parse_count, "memory.used"),
        power_draw_w=lazy(take, parse_number, "power.draw"),
        power_limit_w=lazy(take, parse_number, "power.limit"),
        power_default_w=lazy(take, parse_number, "power.default_limit"),
        power_min_w=lazy(take, parse_number, "power.min_limit"),
        power_max_w=lazy(take, parse_number, "power.max_limit"),
        sm_clock_mhz=lazy(take, parse_count, "clocks.sm"),
        sm_clock_max_mhz=lazy(take, parse_count, "clocks.max.sm"),
        event_reasons=lazy(
            lambda: take(
                _parse_reasons, OLD_REASONS if OLD_REASONS in sources.row(slot) else REASONS
            )
        ),
        slowed_s=lazy(lambda: make_value(lambda row, _: _find_slowed(row))),
        ecc=lazy(take, parse_word, "ecc.mode.current"),
        ecc_pending=lazy(take, parse_word, "ecc.mode.pending"),
        has_ecc_counts=lazy(lambda: is_supported(_get_cell(sources.row(slot), _UNCORRECTED))),
        corrected_volatile=lazy(lambda: sources.corrected().get(slot, -1)),
        corrected_an_hour=lazy(sources.corrected_an_hour, slot),
        corrected_of_others=lazy(sources.corrected_of_others, slot),
        uncorrected_volatile=lazy(take, parse_count, _UNCORRECTED),
        uncorrected_aggregate=lazy(take, parse_count, "ecc.errors.uncorrected.aggregate.total"),
        retirement_pending=lazy(
            lambda: make_value(lambda row, remapped: _is_pending(row, remapped, errors))
        ),
        can_remap=lazy(
            lambda: make_value(lambda _, remapped: is_supported(_get_cell(remapped, FAILURE)))
        ),
        remap_failed=lazy(make_value, _has_failed),
        worn_banks=lazy(lambda: make_value(lambda _, remapped: _count_worn(remapped))),
        rows_lost=lazy(
            lambda: make_value(
                lambda _, one: parse_count(
                    _get_cell(one, "remapped_rows.uncorrectable"), "remapped rows"
                )
            )
        ),
        inforom=lazy(sources.inforom, slot),
        is_sram_over=lazy(take, parse_yes, SRAM_OVER),
        repairs=lazy(sources.list_repairs, slot),
        fabric_state=lazy(take, parse_word, FABRIC_STATE),
        fabric_faults=lazy(lambda: parse_or_unknown(fabric_of, sources.row(slot))[0]),
        fabric_delays=lazy(lambda: parse_or_unknown(fabric_of, sources.row(slot))[1]),
        mig=lazy(take, parse_word, "mig.mode.current"),
        mig_pending=lazy(take, parse_word, "mig.mode.pending"),
        mig_devices=lazy(sources.mig_devices, slot),
        compute_mode=lazy(take, parse_word, "compute_mode"),
        recovery_action=lazy(take, parse_word, RECOVERY, "the recovery action"),
        breakdown=lazy(sources.breakdown, slot),
        silence=lazy(sources.silence, slot),
        silence_way_out=lazy(sources.silence_way_out, slot),
        way_out=lazy(lambda: way_of(map(sources.reachable, found.actions), slot, sources.place())),
        waived_way_out=lazy(  # a reset that is due for another reason is the way out of this, too
            lambda: (
                ""
                if get_raw(found, "retirement_pending") is True
                else way_of(("WATCH",), slot, sources.place())
            )
        ),
        reset_way_out=lazy(lambda: reset_idle(slot, sources.place())),
        suspect_way_out=lazy(lambda: way_of(("SUSPECT_BOARD",), slot, sources.place())),
        model=lazy(lambda: gpu.device_id if gpu else ""),
        ships_with_ecc=lazy(lambda: gpu is not None and gpu.ships_with_ecc),
    )
    return found


def _parse_reasons(spelled: str, what: str) -> int:
    return mask(spelled, what) if is_supported(spelled) else 0


def _get_cell(row: Mapping[str, str] | None, name: str) -> str:
    return "N/A" if row is None else row.get(name, "N/A")


def _count_worn(remapped: Mapping[str, str] | None) -> int:
    banks = [
        parse_count(text, "spare rows")
        for name in (FEW, NONE)
        if is_supported(text := _get_cell(remapped, name))
    ]
    return sum(banks) if banks else -1


def _has_failed(row: Mapping[str, str], remapped: Mapping[str, str] | None) -> bool:
    """Whether a row found no spare one. With MIG nvidia-smi tells of the banks alone: with spares
    left none failed.
    """
    spelled = _get_cell(remapped, FAILURE)
    if remapped is None or is_supported(spelled) or row.get("mig.mode.current") != "Enabled":
        return parse_yes(spelled, "failed row remapping")
    if _get_cell(remapped, NONE) != "0":
        raise UnknownFact("with MIG nvidia-smi does not tell whether the row remapper has failed")
    return False


def _is_pending(
    row: Mapping[str, str],
    remapped: Mapping[str, str] | None,
    errors: Callable[[], tuple[GpuError, ...]],
) -> bool:
    """Of pages (before Ampere) or rows. With MIG nvidia-smi does not tell of rows; none waits where
    none was retired in this boot, for a reboot is a reset.
    """
    is_known = (
        remapped is None
        or is_supported(remapped[PENDING])
        or row.get("mig.mode.current") != "Enabled"
    )
    if not is_known and any(one.number in _RETIREMENTS and not one.is_settled for one in errors()):
        message = (
            "with MIG nvidia-smi does not tell whether a memory row waits for a reset, and one was "
            "retired"
        )
        raise UnknownFact(message)
    pages = attempt(
        parse_or_unknown,
        parse_yes,
        row.get("retired_pages.pending", "N/A"),
        "pending page retirement",
    )
    rows = attempt(
        parse_or_unknown, parse_yes, _get_cell(remapped, PENDING), "pending row remapping"
    )
    if pages is True or rows is True:
        return True
    return bool(require_sure(pages)) or bool(require_sure(rows))


def _find_slowed(row: Mapping[str, str]) -> float:
    """The counters overlap (hardware slowdown counts as thermal, too), so the longest one
    counts.
    """
    spelled = [text for name, text in row.items() if "_counters." in name and is_supported(text)]
    if not spelled:
        return -1.0
    return round(
        max(parse_number(text, "the time that clocks were held down") for text in spelled)
        / _MICROSECONDS,
        1,
    )
