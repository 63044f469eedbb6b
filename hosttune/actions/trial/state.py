"""Whether a run is on trial, and how far it has come: from marks in a folder and the kernel's own
clock.

`FOLDER` of `trial_guard` holds `trial.json`, a `TrialRecord`, and the marks, which only come. Which
boot is running is known by its id, how much time is left by /proc/uptime: no clock that someone can
set is ever compared. Sources: proc_uptime(5), random(4), systemd.timer(5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.actions.journal.journal import boot_id
from hosttune.actions.trial import clock as trial_clock
from hosttune.actions.trial import guard as trial_guard
from hosttune.codec import dump_json, make_document, read_document
from hosttune.errors import Refused
from hosttune.facts.base import UnknownFact
from hosttune.frozen import frozen
from hosttune.host.door import Completed
from hosttune.host.reading.tree import read_own
from hosttune.numbers import parse_digits
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import ABSENT, Change, Confirmer, Unreadable, Word
from hosttune.verdict_words import run_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from hosttune.actions.trial.guard import Mark
    from hosttune.host.door import Reader

RECORD = f"{trial_guard.FOLDER}/trial.json"
BEFORE = f"{trial_guard.FOLDER}/before.json"
_LATE_S = 60.0  # after its time: systemd has started what the deadline starts
_UPTIME = regex(rb"([0-9]+\.[0-9]+) ")


class TrialState(Word):
    """Where a run on trial is."""

    # it changes what is in force now; a reboot before the confirmation takes it back
    LIVE = "on trial: live"
    # the next boot is the one that counts, no matter who asks for it
    NEXT_BOOT = "on trial: next boot"
    THIS_BOOT = "on trial: this boot"
    # Its boot or its time is over, and the guard did not run, could not act or was cut off: who
    # looks next takes it back.
    OVERDUE = "on trial: to be taken back"
    CONFIRMED = "confirmed"  # and not tidied up yet
    CAME_BACK = "came back"  # the files are back, and the journal has to be updated
    IN_PART = "came back in part"
    FAILED = "failed to come back"

    @property
    def is_open(self) -> bool:
        """Whether it can still be confirmed."""
        return self in {TrialState.LIVE, TrialState.NEXT_BOOT, TrialState.THIS_BOOT}

    @property
    def is_over(self) -> bool:
        """Whether it is decided, and only has to be brought to its end."""
        return self in {TrialState.CONFIRMED, TrialState.CAME_BACK, TrialState.IN_PART}


@frozen
class TrialRecord:
    """What trial.json holds: written before the first change, and once more when all have been
    made.
    """

    run: str
    digest: str
    within_s: int  # monotonic, of what takes effect now
    boot_within_s: int  # and of the boot on trial, at least the time that its GPUs need
    by: Confirmer
    boot_id: str  # of the boot that armed it
    started_at: float  # seconds since the epoch: to be shown, never compared
    started_s: float  # /proc/uptime
    # /proc/uptime when all changes had been made; 0: the run has not come to its end
    made_s: float = 0.0
    live: tuple[str, ...] = ()  # rules of what is tried now
    next_boot: tuple[str, ...] = ()
    one_boot: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()  # of the kernel, for the boot on trial
    dropped: tuple[str, ...] = ()
    postponed: tuple[Change, ...] = ()  # made when it is confirmed
    without_return: tuple[str, ...] = ()  # rules that were made without a way back by themselves

    @property
    def has_boot(self) -> bool:
        return bool(self.next_boot or self.one_boot)


@frozen
class TrialRun:
    """A run on trial."""

    record: TrialRecord
    state: TrialState
    # up to its return; None where no time runs, as while changes are still being made
    left_s: float | None = None
    reason: str = ""  # of one that came back: why

    @property
    def run(self) -> str:
        return self.record.run


def state_of(
    marks: Collection[Mark], *, is_armed_boot: bool, is_tried_boot: bool, has_live: bool = True
) -> TrialState:
    """Where a run is by its marks. is_armed_boot: this boot is the one that armed it;
    is_tried_boot: it is the one that the guard has marked as the trial.
    """
    # Marks are only added, so the order decides: a confirmed run stays so, whatever a late script
    # has noted besides.
    if "confirmed" in marks:
        return TrialState.CONFIRMED
    if "failed" in marks:
        return TrialState.FAILED
    if "returned" in marks:
        return TrialState.IN_PART if "partly" in marks else TrialState.CAME_BACK
    if "ending" in marks:
        return TrialState.OVERDUE
    if "trying" in marks:
        return TrialState.THIS_BOOT if is_tried_boot else TrialState.OVERDUE
    if not is_armed_boot:
        return TrialState.OVERDUE
    return TrialState.NEXT_BOOT if "settled" in marks or not has_live else TrialState.LIVE


def read_trial(reader: Reader) -> TrialRun | None:
    """The run on trial, if one is; None also where setting one up was cut off before its first
    change.

    Raises UnknownFact if that is not known, as without root's rights, HosttuneError where
    trial.json is damaged.
    """
    names = reader.list(trial_guard.FOLDER)
    if isinstance(names, Unreadable):
        raise UnknownFact(names.reason)
    content = read_own(reader, RECORD)
    if names is ABSENT or content is ABSENT or "armed" not in names:
        return None
    if isinstance(content, Unreadable):
        raise UnknownFact(content.reason)
    record = _record_of(content)
    marks = trial_guard.read_marks(reader)
    here = boot_id(reader)
    state = state_of(
        marks,
        is_armed_boot=here == record.boot_id,
        is_tried_boot=here == trial_guard.boot_of(reader, "trying"),
        has_live=bool(record.live),
    )
    left_s = _left_s(reader, record, state)
    is_made = state is not TrialState.LIVE or record.made_s > 0
    # The unit at the deadline may be at work right now. What it has begun must not be taken back a
    # second time beside it.
    if left_s is not None and left_s < -_LATE_S and not _is_at_work(reader, record, state):
        state, left_s = TrialState.OVERDUE, None  # as on a full disk, where no mark could be made
    return TrialRun(
        record,
        state,
        max(0.0, left_s) if left_s is not None and is_made else None,
        _read_reason(reader, state),
    )


def _is_at_work(reader: Reader, record: TrialRecord, state: TrialState) -> bool:
    """Whether what the deadline starts still runs, or, of a live part, is still to come: its timer
    does not count what a host slept through, /proc/uptime does. If that is not known, it does.
    """
    its = trial_clock.name_of(record.run, "deadline" if record.made_s else trial_clock.MAKING)
    units = (
        ("hosttune-trial-deadline.service",)
        if state is TrialState.THIS_BOOT
        else (f"{its}.service", f"{its}.timer")
    )
    answer = reader.query(("systemctl", "is-active", *units))
    return not isinstance(answer, Completed) or not {*answer.text.split()} <= {"inactive", "failed"}


def is_left_over(reader: Reader) -> bool:
    """Whether something is there of a trial that never began, or whose end was cut off."""
    return isinstance(reader.list(trial_guard.FOLDER), tuple)


def uptime_s(reader: Reader) -> float:
    """Seconds since the kernel started, in which no clock's setting counts. Raises UnknownFact."""
    content = reader.read("/proc/uptime")
    found = _UPTIME.match(content) if isinstance(content, bytes) else None
    if found is None:
        raise UnknownFact("/proc/uptime cannot be read")
    return float(found[1])


def record_text(record: TrialRecord) -> bytes:
    """The content of trial.json."""
    return dump_json(make_document(record)).encode()


def _record_of(content: bytes) -> TrialRecord:
    way_out = "take the run back (sudo hosttune undo --yes), then remove the folder"
    return read_document(TrialRecord, content, RECORD, way_out)


def _left_s(reader: Reader, record: TrialRecord, state: TrialState) -> float | None:
    if state is TrialState.LIVE:
        return (record.made_s or record.started_s) + record.within_s - uptime_s(reader)
    if state is TrialState.THIS_BOOT:
        return _boot_timer_s(reader) + record.boot_within_s - uptime_s(reader)
    return None


def _boot_timer_s(reader: Reader) -> float:
    """When the timer of the boot on trial began, in seconds of the kernel's clock; 0 where no one
    tells.
    """
    timer = "hosttune-trial-deadline.timer"
    answer = reader.query(
        ("systemctl", "show", "--property=ActiveEnterTimestampMonotonic", "--value", timer)
    )
    text = answer.text.strip() if isinstance(answer, Completed) and answer.status == 0 else ""
    return parse_digits(text, 0) / 1e6


def _read_reason(reader: Reader, state: TrialState) -> str:
    """Why it came back: the first line that the guard, or hosttune, wrote then. A power cut may
    have left zeros where its line was not on the disk yet.
    """
    if state not in {TrialState.CAME_BACK, TrialState.IN_PART, TrialState.FAILED}:
        return ""
    content = reader.read(trial_guard.LOG)
    lines = (
        content.replace(b"\0", b"").decode("utf-8", "replace").splitlines()
        if isinstance(content, bytes)
        else []
    )
    reasons = (line for line in lines if not line.startswith(("trial of run ", "put back ")))
    # as 0.1.0 wrote
    return next(reasons, "").removeprefix("rollback failed: ").removeprefix("failed to come back: ")


def require_none(reader: Reader) -> None:
    """Raise Refused where a run is on trial: what is made beside it could not be kept apart from
    it.
    """
    try:
        trial = read_trial(reader)
    except UnknownFact as unknown:
        raise Refused(f"it is not known whether a run is on trial: {unknown.reason}") from None
    if trial is not None:
        back = f"sudo hosttune undo {quote(trial.run)} --yes"
        if trial.state is TrialState.FAILED:
            raise Refused(
                f"run {trial.run} {run_text(trial.state.value)}: {trial.reason}",
                hint=f"fix that, then: {back}",
            )
        way_out = f"sudo hosttune confirm {quote(trial.run)}, or undo it: {back}"
        raise Refused(
            f"run {trial.run} {run_text(trial.state.value)}; nothing else is changed meanwhile",
            hint=way_out,
        )
