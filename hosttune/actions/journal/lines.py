"""One run of the journal as its file tells it, also where this version cannot follow.

No file of the journal stops a look. What a newer hosttune noted is named, with the version that
knows it: a higher `format_version`, a line of another kind, or a field that a newer version added.
The same of a file that is damaged. Of such a run nothing is taken back, nor is anything built upon
it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hosttune import __version__
from hosttune.codec import FORMAT_VERSION, change_from_json, written_by
from hosttune.errors import HosttuneError
from hosttune.facts.versions import compare_versions
from hosttune.frozen import frozen
from hosttune.values import Phase, Trigger

if TYPE_CHECKING:
    from hosttune.values import Change

# the first fields of Run
HEADER = ("id", "command", "started_at", "who", "boot_id", "digest", "tool_version")
# of a run that takes another one back by itself; behind a colon the reason
WHO_COMES_BACK = "hosttune come-back"
# the command of a run that books that the last one of apply was confirmed; it has no steps
CONFIRM = "confirm"
NOT_MADE = "interrupted before it was made"  # the error of a step that an interruption came before
HALF_MADE = "interrupted half-way"  # and of one that it came into
_STOPPED = "undo, and apply where something is to change,"
_FIELDS = frozenset({
    "format_version", *HEADER, "seq", "phase", "at", "undoes", "superseded", "change", "error",
    "left", "trigger", "name", "finished", "interrupted", "part_of", "planned", "boots",
})  # fmt: skip


@frozen
class StepId:
    """One step of one run."""

    run: str
    seq: int


@frozen
class JournalStep:
    """One change of a run. `undoes` names the step that this one takes back."""

    id: StepId
    change: Change
    phase: Phase
    error: str = ""
    undoes: StepId | None = None
    # undone on paper: a later run had changed the address again, so nothing was written
    superseded: bool = False
    left: Change | None = None  # of one that raised half-way: the change that it made all the same
    # of one that is in force with what it left half-way: what it was to be
    planned: Change | None = None

    @property
    def is_interrupted(self) -> bool:
        """Whether an interruption, and no failure, kept it from being made as planned."""
        return self.error in {NOT_MADE, HALF_MADE}


@frozen
class Run:
    """One run of apply or undo, or the confirmation of one. Of one that is `unread` the fields are
    what could be read, and may be empty.
    """

    id: str
    command: str  # apply | undo | confirm
    started_at: str  # ISO 8601, UTC
    who: str
    boot_id: str
    digest: str
    tool_version: str
    steps: tuple[JournalStep, ...] = ()
    waiting: tuple[Trigger, ...] = ()  # triggers that had to wait
    # triggers that ran, its own and those that waited from earlier runs
    ran: tuple[Trigger, ...] = ()
    is_finished: bool = False
    was_interrupted: bool = False  # it was stopped, or cut off, before all was made
    # the first run of the intention that it goes on with; empty where it begins one
    part_of: str = ""
    planned: tuple[str, ...] = ()  # addresses that its yes covered, also those that wait for a boot
    boots: int = 0  # that its plan needs
    unread: str = ""  # why this version cannot tell all that it did
    way_out: str = ""  # of one that is unread: what knows it all

    @property
    def intention(self) -> str:
        """The id of the run that began what it is part of."""
        return self.part_of or self.id

    @property
    def is_return(self) -> bool:
        """Whether it takes another one back by itself."""
        return self.who.partition(": ")[0] == WHO_COMES_BACK


def parse_run(data: bytes, path: str) -> Run:
    """Parse one run's file. A last line cut off by a crash is dropped: its act had not begun."""
    run = Run(path.rpartition("/")[2].removesuffix(".jsonl"), "", "", "", "", "", "")
    collector = _StepCollector(run.id)
    damaged: list[str] = []
    unknown: list[str] = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        here: list[str] = []
        try:
            entry = json.loads(line)
            if number == 1:
                run = _read_header_line(run, entry)
                collector.run = run.id
                if entry["format_version"] > FORMAT_VERSION:
                    # Nothing more of it is read: even a key that is known may mean something else
                    # there.
                    return _needs_newer(run, f"format {entry['format_version']}")
                here += entry.keys() - _FIELDS
            else:
                here += entry.keys() - _FIELDS
                collector.add(entry, here)
        except (
            LookupError,
            TypeError,
            AttributeError,
            ValueError,
            OverflowError,
            RecursionError,
            HosttuneError,
        ) as error:
            # Whole JSON that is not understood is likely a newer version's. Half a line, or zeros,
            # is damage by the disk.
            is_json = not isinstance(
                error, (json.JSONDecodeError, UnicodeDecodeError, RecursionError)
            )
            (unknown if is_json and number > 1 else damaged).append(f"line {number}")
        else:
            # of this version or an older one it is someone's note: it stays where it is, and says
            # nothing to us
            if here and _is_newer(run.tool_version):
                unknown.append(f"line {number}: {', '.join(sorted(here))}")
    run = replace(
        run,
        steps=tuple(collector.steps.values()),
        waiting=tuple(collector.waiting),
        ran=tuple(collector.ran),
        is_finished=collector.is_finished,
        was_interrupted=collector.was_interrupted,
    )
    if damaged:
        way_out = (
            "restore it from a backup; where there is none, remove it, and its run cannot be undone"
        )
        why = f"{path} is damaged ({'; '.join(damaged)})"
        return replace(run, unread=why, way_out=f"{_STOPPED} need the whole file: {way_out}")
    return _needs_newer(run, "; ".join(unknown)) if unknown else run


def _needs_newer(run: Run, what: str) -> Run:
    writer = written_by({"tool_version": run.tool_version if _is_newer(run.tool_version) else None})
    why = (
        f"{writer} wrote the journal of run {run.id}, and {__version__} cannot read all of it "
        f"({what})"
    )
    return replace(run, unread=why, way_out=f"{_STOPPED} need {writer}")


def _is_newer(version: str) -> bool:
    return compare_versions(version, __version__) > 0


def _read_header_line(run: Run, entry: Any) -> Run:
    """With what the first line tells. One that this version knows tells all of it, else it is
    damaged.
    """
    fields = {name: entry[name] for name in HEADER if isinstance(entry.get(name), str)}
    if entry["format_version"] <= FORMAT_VERSION and len(fields) < len(HEADER):
        raise KeyError(next(name for name in HEADER if name not in fields))
    # Runs are ordered by it, and the next one is put behind it (`new_run`): one without a time
    # zone could not be compared then.
    if entry["format_version"] <= FORMAT_VERSION and not _has_zone(fields["started_at"]):
        raise ValueError("started_at")
    more: dict[str, Any] = {}
    if isinstance(part_of := entry.get("part_of"), str):
        more["part_of"] = part_of
    if isinstance(planned := entry.get("planned"), list):
        more["planned"] = tuple(one for one in planned if isinstance(one, str))
    if isinstance(boots := entry.get("boots"), int):
        more["boots"] = boots
    return replace(run, **fields, **more)


def _has_zone(text: str) -> bool:
    """Whether an ISO 8601 time says its zone. Raises ValueError for what is no time."""
    return datetime.fromisoformat(text).tzinfo is not None


def _require_text(value: Any) -> str:
    """Raises TypeError for what is no text, which could be no key of a table."""
    if not isinstance(value, str):
        raise TypeError(type(value).__name__)
    return value


class _StepCollector:
    """What the lines behind the first tell, collected line by line: a file can have very many."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.steps: dict[int, JournalStep] = {}
        self.waiting: list[Trigger] = []
        self.ran: list[Trigger] = []
        self.is_finished = False
        self.was_interrupted = False

    def add(self, entry: dict[str, Any], unknown: list[str]) -> None:
        if "trigger" in entry:
            trigger = Trigger(_require_text(entry["trigger"]), _require_text(entry.get("name", "")))
            (self.waiting if entry["phase"] == "waiting" else self.ran).append(trigger)
        elif "finished" in entry:
            self.is_finished = True
            self.was_interrupted = bool(entry.get("interrupted"))
        elif entry["phase"] == Phase.INTENT.value:
            number = int(entry["seq"])
            if number in self.steps:
                # An undo names a step by its number, so it would take back one of the two, and not
                # know which.
                raise ValueError(f"step {number} begins twice")
            undoes = (
                StepId(_require_text(entry["undoes"][0]), int(entry["undoes"][1]))
                if entry.get("undoes")
                else None
            )
            change = change_from_json(entry["change"], unknown=unknown)
            superseded = bool(entry.get("superseded"))
            step = JournalStep(
                StepId(self.run, number), change, Phase.INTENT, undoes=undoes, superseded=superseded
            )
            self.steps[number] = step
        elif (number := int(entry["seq"])) in self.steps:
            self.steps[number] = _book_outcome(self.steps[number], entry, unknown)


def _book_outcome(step: JournalStep, entry: dict[str, Any], unknown: list[str]) -> JournalStep:
    """The step with what became of it. One of apply that raised half-way is in force with what it
    left.
    """
    left = change_from_json(entry["left"], unknown=unknown) if "left" in entry else None
    phase = Phase(entry["phase"])
    error = _require_text(entry.get("error", ""))
    if not left or phase is not Phase.DONE:
        return replace(step, phase=phase, error=error, left=left)
    # without an error it was gone on with, to the end
    planned = (step.planned or step.change) if error else None
    return replace(step, phase=phase, error=error, change=left, left=left, planned=planned)
