"""The journal: one append-only file of JSON lines per run, each line synced before the act that it announces.

Lines of `/var/lib/hosttune/runs/<run id>.jsonl`: first the run (who, boot id, digest, tool version), then for every
change an `intent` line and, after the act, `done` or `failed`; triggers that ran or wait; last `finished`. What is in
force, what was undone and by which run is derived from all files together, so no line is ever rewritten and no
instant leaves two of them in contradiction.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.codec import change_from_json, change_to_json
from hosttune.errors import BadInput, Fault, HosttuneError, Where
from hosttune.frozen import frozen
from hosttune.resources import address_kinds
from hosttune.resources.base import Applied, place
from hosttune.values import Address, Phase, Trigger, Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change

FOLDER = "/var/lib/hosttune/runs"
KEEP = 20
FORMAT_VERSION = 1
HEADER = ("id", "command", "started_at", "who", "boot_id", "digest", "tool_version")  # the first fields of Run


@frozen
class StepId:
    """One step of one run."""

    run: str
    seq: int


@frozen
class Step:
    """One change of a run. `undoes` names the step that this one takes back."""

    id: StepId
    change: Change
    phase: Phase
    error: str = ""
    undoes: StepId | None = None
    superseded: bool = False  # undone on paper: a later run had changed the address again, so nothing was written
    left: Change | None = None  # of one that raised half-way: the change that it made all the same
    planned: Change | None = None  # of one that is in force with what it left half-way: what it was to be


@frozen
class Run:
    """One run of apply or undo, as its file tells it."""

    id: str
    command: str  # apply | undo
    started_at: str  # ISO 8601, UTC
    who: str
    boot_id: str
    digest: str
    tool_version: str
    steps: tuple[Step, ...] = ()
    waiting: tuple[Trigger, ...] = ()  # triggers that had to wait
    ran: tuple[Trigger, ...] = ()  # triggers that ran, its own and those that waited from earlier runs
    is_finished: bool = False


class Journal:
    """All runs that are kept, oldest first, and what follows from them."""

    def __init__(self, runs: tuple[Run, ...], unreadable: str = "") -> None:
        self.runs = runs
        self.unreadable = unreadable
        steps = [step for run in runs for step in run.steps]
        # an undo that failed half-way has changed what the step that it was for stands at
        left = {step.undoes: step.left.after for step in steps if step.undoes and step.left}
        self._steps = [
            replace(step, change=replace(step.change, after=left[step.id])) if step.id in left else step
            for step in steps
        ]
        self.undone = {step.undoes: step for step in self._steps if step.undoes and step.phase is Phase.DONE}

    @property
    def in_force(self) -> tuple[Step, ...]:
        """The steps that took and were not taken back, oldest first (an open intent counts: it may have taken)."""
        return tuple(
            step
            for step in self._steps
            if step.undoes is None and step.phase in {Phase.DONE, Phase.INTENT} and step.id not in self.undone
        )

    def after(self, step: Step) -> tuple[Step, ...]:
        """The steps in force that came after this one, oldest first."""
        steps = self.in_force
        return steps[steps.index(step) + 1 :]

    def before(self, step: Step) -> tuple[Step, ...]:
        """Every step, undone ones too, that came before this one, newest first."""
        return tuple(reversed(self._steps[: self._steps.index(step)]))

    @property
    def interrupted(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if not run.is_finished)

    def ledger(self) -> Mapping[Address, Applied]:
        """What hosttune last left at each address, and how often in a row it set that very value."""
        ledger: dict[Address, Applied] = {}
        for step in self.in_force:
            change = step.change
            last = ledger.get(change.address)
            times = last.times + 1 if last and last.after == change.after else 1
            ledger[change.address] = Applied(step.id.run, change.rule, change.after, times)
        return ledger

    def status(self, run: Run) -> str:
        """One of finished, interrupted, undone, partly undone, nothing taken, for a list of runs."""
        if not run.is_finished:
            return "interrupted"
        taken = [step for step in run.steps if step.undoes is None and step.phase is not Phase.FAILED]
        if run.command == "undo" or not taken:
            return "finished" if run.command == "undo" else "nothing taken"
        undone = [step for step in taken if step.id in self.undone]
        if not undone:
            return "finished"
        return "undone" if len(undone) == len(taken) else "partly undone"

    def run(self, name: str) -> Run:
        """The run with this id, or the only one that it begins."""
        found = [run for run in self.runs if run.id == name] or [run for run in self.runs if run.id.startswith(name)]
        if len(found) != 1:
            message = f"no run is called {name}" if not found else f"several runs begin with {name}"
            raise HosttuneError(message, hint="list them with: hosttune history")
        return found[0]

    def pending_triggers(self, boot_id: str) -> tuple[Trigger, ...]:
        """Triggers that had to wait in this boot and that no later run has run."""
        pending: list[Trigger] = []
        for run in self.runs:
            if run.boot_id == boot_id:
                pending = [trigger for trigger in pending if trigger not in run.ran] + list(run.waiting)
        return tuple(dict.fromkeys(pending))


def read_journal(reader: Reader) -> Journal:
    """Read all runs. A folder that needs root answers with an empty journal that says so."""
    names = reader.list(FOLDER)
    if isinstance(names, Unreadable):
        return Journal((), names.reason)
    runs = []
    for name in names if isinstance(names, tuple) else ():
        if name.endswith(".jsonl"):
            data = reader.read(f"{FOLDER}/{name}")
            if isinstance(data, Unreadable):
                return Journal((), data.reason)
            if isinstance(data, bytes) and b"\n" in data:  # else it ended before its first line, and nothing was done
                runs.append(parse_run(data, f"{FOLDER}/{name}"))
    return Journal(tuple(sorted(runs, key=lambda run: (run.started_at, run.id))))


def parse_run(data: bytes, path: str) -> Run:
    """Parse one run's file. A last line cut off by a crash is dropped: its act had not begun."""
    lines = data.split(b"\n")
    whole, rest = lines[:-1], lines[-1]
    run: Run | None = None
    for number, line in enumerate(whole, 1):
        try:
            run = _fold(run, json.loads(line))
        except (ValueError, KeyError, TypeError, HosttuneError) as error:
            fault = Fault(
                Where(path, number), f"not a journal line: {error}", "move the file away; its run cannot be undone then"
            )
            raise BadInput([fault]) from error
    if run is None:
        fault = Fault(
            Where(path, 1),
            f"no complete first line ({len(rest)} bytes)",
            "nothing was done in this run: remove the file",
        )
        raise BadInput([fault])
    return run


def _fold(run: Run | None, entry: dict[str, Any]) -> Run:
    if run is None:
        if entry["format_version"] > FORMAT_VERSION:
            message = f"written by a newer hosttune ({entry['tool_version']})"
            raise HosttuneError(message)
        run_id, command, started_at, who, boot_id, digest, version = (str(entry[name]) for name in HEADER)
        return Run(run_id, command, started_at, who, boot_id, digest, version)
    if "trigger" in entry:
        trigger = Trigger(entry["trigger"], entry.get("name", ""))
        if entry["phase"] == "waiting":
            return replace(run, waiting=(*run.waiting, trigger))
        return replace(run, ran=(*run.ran, trigger))
    if "finished" in entry:
        return replace(run, is_finished=True)
    step_id = StepId(run.id, int(entry["seq"]))
    if entry["phase"] == Phase.INTENT.value:
        undoes = StepId(entry["undoes"][0], int(entry["undoes"][1])) if entry.get("undoes") else None
        change = change_from_json(entry["change"])
        step = Step(step_id, change, Phase.INTENT, undoes=undoes, superseded=bool(entry.get("superseded")))
        return replace(run, steps=(*run.steps, step))
    return replace(run, steps=tuple(_booked(step, entry) if step.id == step_id else step for step in run.steps))


def _booked(step: Step, entry: dict[str, Any]) -> Step:
    """The step with what became of it. One of apply that raised half-way is in force with what it left."""
    left = change_from_json(entry["left"]) if "left" in entry else None
    phase = Phase(entry["phase"])
    error = entry.get("error", "")
    if not left or phase is not Phase.DONE:
        return replace(step, phase=phase, error=error, left=left)
    planned = (step.planned or step.change) if error else None  # without an error it was gone on with, to the end
    return replace(step, phase=phase, error=error, change=left, left=left, planned=planned)


class Recorder:
    """Writes one run into the journal. The file appears with the first line; every line is synced before the call
    returns.
    """

    def __init__(self, writer: Writer, run: Run) -> None:
        self.run = run
        self._writer = writer
        self._seq = max((step.id.seq for step in run.steps), default=0)

    @classmethod
    def start(cls, writer: Writer, run: Run) -> Recorder:
        recorder = cls(writer, run)
        recorder._append({"format_version": FORMAT_VERSION, **{name: getattr(run, name) for name in HEADER}})
        return recorder

    def intent(self, change: Change, undoes: StepId | None = None, *, superseded: bool = False) -> StepId:
        self._seq += 1
        entry: dict[str, Any] = {"seq": self._seq, "phase": "intent", "at": self._writer.now()}
        if undoes:
            entry["undoes"] = [undoes.run, undoes.seq]
        if superseded:
            entry["superseded"] = True
        self._append({**entry, "change": change_to_json(change)})
        return StepId(self.run.id, self._seq)

    def done(self, step: StepId, error: str = "", left: Change | None = None) -> None:
        self._result(step, Phase.DONE, error, left)

    def failed(self, step: StepId, error: str, left: Change | None = None) -> None:
        self._result(step, Phase.FAILED, error, left)

    def _result(self, step: StepId, phase: Phase, error: str, left: Change | None) -> None:
        entry: dict[str, Any] = {"seq": step.seq, "phase": phase.value, "at": self._writer.now()}
        if error:
            entry["error"] = error
        if left:
            entry["left"] = change_to_json(left)
        self._append(entry)

    def trigger(self, trigger: Trigger, phase: str) -> None:
        self._append({"trigger": trigger.kind, "name": trigger.name, "phase": phase, "at": self._writer.now()})

    def finish(self) -> None:
        self._append({"finished": True, "at": self._writer.now()})

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, sort_keys=False, ensure_ascii=True, separators=(",", ":"))
        self._writer.append(f"{FOLDER}/{self.run.id}.jsonl", line.encode() + b"\n")


def boot_id(reader: Reader) -> str:
    """The id of the running boot (random(4)); empty where nothing runs."""
    data = reader.read("/proc/sys/kernel/random/boot_id")
    return data.decode().strip() if isinstance(data, bytes) else ""


def still_back(journal: Journal, reader: Reader) -> dict[StepId, bool]:
    """Of the steps of the last undo whether each address still holds what it went back to, as far as no later run has
    changed the place: a reboot, or somebody, may have made another value of it.
    """
    at = max((number for number, run in enumerate(journal.runs) if run.command == "undo"), default=None)
    if at is None:
        return {}
    later = {place(step.change.address) for run in journal.runs[at + 1 :] for step in run.steps}
    made = {
        place(step.change.address): step
        for step in journal.runs[at].steps
        if step.phase is Phase.DONE and not step.superseded and step.change.address.kind in address_kinds()
    }
    return {
        step.id: is_at(step.change.address, step.change.after, reader) for key, step in made.items() if key not in later
    }


def is_at(address: Address, value: object, reader: Reader) -> bool:
    """Whether the address holds this value now."""
    kind = address_kinds()[address.kind]
    return kind.same(kind.read(reader, address.name), value)  # type: ignore[arg-type]
