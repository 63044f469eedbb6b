"""The journal: one append-only file of JSON lines per run, each line synced before the act that it
announces.

Lines of `/var/lib/hosttune/runs/<run id>.jsonl`: first the run (who, boot id, digest, tool version,
what its yes covered, the run that it goes on with), then for every change an `intent` line and,
after the act, `done` or `failed`; triggers that ran or wait; last `finished`. What is in force,
what was undone and by which run is derived from all files together, so no line is ever rewritten
and no instant leaves two of them in contradiction.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosttune.actions.journal.lines import CONFIRM, HEADER, JournalStep, Run, StepId, parse_run
from hosttune.codec import FORMAT_VERSION, change_to_json
from hosttune.errors import HalfWay, HosttuneError, Refused
from hosttune.frozen import frozen
from hosttune.host.reading.tree import read_own
from hosttune.quoting import quote
from hosttune.resources import address_kinds, kind_of, locate_address
from hosttune.resources.base import Applied
from hosttune.values import Address, FileValue, Phase, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hosttune.host.door import Reader, Writer
    from hosttune.values import Change, Trigger, Value

FOLDER = "/var/lib/hosttune/runs"
KEEP = 20
# A boot reads units anew, so a daemon-reload is no longer due. What it starts from it does not
# write: without these an option would wait for one boot after the other.
_OUTLIVE_BOOT = frozenset({"update-grub", "rebuild-initramfs"})


@frozen
class CameBack:
    """What was on trial at an address and went back by itself."""

    value: Value
    sentence: str  # `at 2026-11-24 14:32 UTC: it was not confirmed within 15 min`


class Journal:
    """All runs that are kept, oldest first, and what follows from them."""

    def __init__(self, runs: tuple[Run, ...], unreadable: str = "") -> None:
        self.runs = runs
        self.unreadable = unreadable
        steps = [step for run in runs for step in run.steps]
        # an undo that failed half-way has changed what the step that it was for is at
        left = {step.undoes: step.left.after for step in steps if step.undoes and step.left}
        self._steps = [
            replace(step, change=replace(step.change, after=left[step.id]))
            if step.id in left
            else step
            for step in steps
        ]
        self.undone = {
            step.undoes: step for step in self._steps if step.undoes and step.phase is Phase.DONE
        }

    @property
    def in_force(self) -> tuple[JournalStep, ...]:
        """The steps that took and were not taken back, oldest first (an open intent counts: it may
        have taken).
        """
        return tuple(
            step
            for step in self._steps
            if step.undoes is None
            and step.phase in {Phase.DONE, Phase.INTENT}
            and step.id not in self.undone
        )

    @property
    def unended(self) -> Mapping[StepId, JournalStep]:
        """Of the steps in force those at which a run stopped half-way, each with the step that did:
        itself, or the one that was to take it back. Whether the host still is so, only the host
        tells.
        """
        in_force = {step.id for step in self.in_force}
        last: dict[StepId, JournalStep] = {}
        for step in (step for run in self.runs for step in run.steps):
            of = step.undoes or step.id
            if of in in_force and (step.undoes is None or step.left or step.phase is Phase.INTENT):
                # The last attempt decides: a later one may have finished what an earlier one left.
                last[of] = step
        return {
            of: step
            for of, step in last.items()
            if step.phase is Phase.INTENT or (step.left and (step.undoes or step.planned))
        }

    def after(self, step: JournalStep) -> tuple[JournalStep, ...]:
        """The steps in force that came after this one, oldest first."""
        steps = self.in_force
        return steps[steps.index(step) + 1 :]

    def before(self, step: JournalStep) -> tuple[JournalStep, ...]:
        """Every step, undone ones too, that came before this one, newest first."""
        return tuple(reversed(self._steps[: self._steps.index(step)]))

    @property
    def unread(self) -> tuple[Run, ...]:
        """The runs that this version cannot tell in full. What is in force is not known then, for
        they may have changed what any other run did.
        """
        return tuple(run for run in self.runs if run.unread)

    @property
    def problem(self) -> str:
        """Why it is not known what is in force; empty where it is."""
        return self.unreadable or next((run.unread for run in self.unread), "")

    def require_known(self) -> None:
        """Raise Refused where it is not known what is in force."""
        if self.unreadable:
            raise Refused(
                f"the journal cannot be read: {self.unreadable}",
                hint="it is read as root, and only if root owns it",
            )
        if self.unread:
            raise Refused(self.problem, hint=self.unread[0].way_out)

    @property
    def interrupted(self) -> tuple[Run, ...]:
        """The runs to be finished; none where a newer hosttune has to say which."""
        return tuple(run for run in self.runs if not run.is_finished and not self.problem)

    def ledger(self) -> Mapping[Address, Applied]:
        """What hosttune last left at each address, and how often in a row it set that very value;
        empty where there is a `problem`.
        """
        ledger: dict[Address, Applied] = {}
        unended = self.unended
        for step in () if self.problem else self.in_force:
            change = step.change
            last = ledger.get(change.address)
            # A second run has the same change only if someone set the value back in between. Two in
            # a row are taken for a decision (REVERTED_TWICE).
            times = last.times + 1 if last and last.after == change.after else 1
            stopped = unended.get(step.id)
            goes_on = goes_on_with(stopped.id, stopped.undoes) if stopped else ""
            ledger[change.address] = Applied(step.id.run, change.rule, change.after, times, goes_on)
        return ledger

    def came_back(self) -> Mapping[Address, CameBack]:
        """What went back by itself, and was not set again since by a run of someone's; empty where
        there is a `problem`.
        """
        steps = {step.id: step for step in self._steps}
        found: dict[Address, CameBack] = {}
        for run in () if self.problem else self.runs:
            reason = run.who.partition(": ")[2]
            for step in run.steps:
                tried = step if step.undoes is None else steps.get(step.undoes)
                if tried is None:
                    continue
                address = tried.change.address
                if run.is_return:
                    at = run.started_at[:16].replace("T", " ")
                    found[address] = CameBack(tried.change.after, f"at {at} UTC: {reason}")
                # Someone has asked for the value again since, and it did not go back.
                elif step.undoes is None and step.phase in {Phase.DONE, Phase.INTENT}:
                    found.pop(address, None)
        return found

    def return_of(self, run: Run) -> Run | None:
        """The run that took this one back by itself, where one did."""
        return next((one for one in self._ends_of(run) if one.is_return), None)

    def last_return(self) -> tuple[Run, Run] | None:
        """The last run of apply, and the run that took it back by itself; None where it did not
        come back.
        """
        applied = next((run for run in reversed(self.runs) if run.command == "apply"), None)
        back = self.return_of(applied) if applied and not self.problem else None
        return (applied, back) if applied and back else None

    def confirmation_of(self, run: Run) -> Run | None:
        """The run that confirmed this one, where it was on trial and one did."""
        return next((one for one in self._ends_of(run) if one.command == CONFIRM), None)

    def _ends_of(self, run: Run) -> Iterator[Run]:
        """What ended its trial. Beside a run on trial there is no other: what has no steps ended
        that of the last.
        """
        applied = ""
        for one in self.runs:
            if one.command == "apply":
                applied = one.id
            elif next((step.undoes.run for step in one.steps if step.undoes), applied) == run.id:
                yield one

    def parts_from(self, run: Run) -> tuple[Run, ...]:
        """This run and those after it that went on with what it is part of: an apply that was
        interrupted, or one that needed boots, is more than one run.
        """
        own = self.runs[self.runs.index(run) :]
        return tuple(
            one for one in own if one.intention == run.intention and one.command == run.command
        )

    def first_of(self, run: Run) -> Run:
        """The first run that is kept of the intention that this one is part of."""
        return next(
            (
                one
                for one in self.runs
                if one.intention == run.intention and one.command == run.command
            ),
            run,
        )

    def unmade(self, run: Run) -> frozenset[str]:
        """The addresses that the yes to this intention covered, and that none of its runs has come
        to: what failed was tried. A set at which a run stopped half-way was not.
        """
        parts = self.parts_from(self.first_of(run))
        half = {step.id for step in self.unended.values()}
        tried = {
            str(step.change.address)
            for one in parts
            for step in one.steps
            if not step.is_interrupted and step.id not in half
        }
        return frozenset(address for one in parts for address in one.planned) - tried

    def goes_on_with(self, run: Run, addresses: Iterable[str], known: str = "") -> str:
        """The first run of the intention that `run`, which has not begun, goes on with; empty where
        it begins one. It changes `addresses`, and its caller may know what it is part of.

        It goes on with the run before it where that was interrupted, or waited for a boot, and this
        one changes what its yes covered; or where that needed more boots than there were. An undo
        ends an intention.
        """
        runs = [one for one in self.runs if one.command != CONFIRM]
        if self.problem or not runs or runs[-1].command != run.command:
            return ""
        last = runs[-1]
        if run.command == "undo":
            return last.intention if last.was_interrupted else ""
        if any(one.intention == known for one in runs):
            return known
        first = self.first_of(last)
        boots = {one.boot_id for one in self.parts_from(first)}
        # Only a boot that the plan needed continues the intention. Otherwise one undo would take
        # back what two answers had allowed.
        comes_after_boot = run.boot_id not in boots and len(boots) < first.boots
        changed = set(addresses)
        goes_on = comes_after_boot or not changed or changed & self.unmade(first)
        return last.intention if goes_on else ""

    def status(self, run: Run) -> str:
        """finished, interrupted, half-way, undone, partly undone, came back, came back in part,
        failed to come back, nothing taken or not known, for a list of runs.
        """
        if self.problem:
            return "not known"
        if not run.is_finished:
            return "interrupted"
        stopped = {step.id for step in self.unended.values()}
        if any(
            step.id in stopped or (step.planned and step.id not in self.undone)
            for step in run.steps
        ):
            return "half-way"
        taken = [
            step for step in run.steps if step.undoes is None and step.phase is not Phase.FAILED
        ]
        if run.command in {"undo", CONFIRM}:
            return "interrupted" if run.was_interrupted and self.unmade(run) else "finished"
        undone = [step for step in taken if step.id in self.undone]
        if back := self.return_of(run):
            has_failed = any(step.undoes and step.phase is Phase.FAILED for step in back.steps)
            in_part = "failed to come back" if has_failed else "came back in part"
            return "came back" if len(undone) == len(taken) else in_part
        if not taken:
            quiet = "interrupted" if run.was_interrupted and self.unmade(run) else "nothing taken"
            return "finished" if self.confirmation_of(run) else quiet
        is_left = run.was_interrupted and not undone and self.unmade(run)
        some = "partly undone" if undone else "interrupted" if is_left else "finished"
        return "undone" if len(undone) == len(taken) else some

    def run(self, name: str) -> Run:
        """The run with this id, or the only one that it begins."""
        # A whole id is never ambiguous, also where it begins a longer one.
        found = [run for run in self.runs if run.id == name] or [
            run for run in self.runs if run.id.startswith(name)
        ]
        if len(found) != 1:
            message = f"no run is called {name}" if not found else f"several runs begin with {name}"
            raise HosttuneError(message, hint="list them with: hosttune history")
        return found[0]

    def pending_triggers(self, boot_id: str) -> tuple[Trigger, ...]:
        """Triggers that had to wait and that no later run has run: all of this boot, and of earlier
        ones those whose work no boot does.
        """
        pending: list[Trigger] = []
        for run in () if self.problem else self.runs:
            pending = [trigger for trigger in pending if trigger not in run.ran]
            # An image (no boot id) runs in many machines, and who builds it also builds its RAM
            # disks: what waited there is not due in each of them.
            pending += [
                trigger
                for trigger in run.waiting
                if run.boot_id == boot_id or (run.boot_id and trigger.kind in _OUTLIVE_BOOT)
            ]
        return tuple(dict.fromkeys(pending))


def goes_on_with(step: StepId, undoes: StepId | None) -> str:
    """What goes on with a step that stopped half-way, a phrase with the command."""
    if undoes:
        return f"sudo hosttune undo {quote(undoes.run)} --yes goes on with it"
    return (
        "sudo hosttune apply --yes goes on with it; to undo it: sudo hosttune undo "
        f"{quote(step.run)} --yes"
    )


def way_out(error: HosttuneError, step: StepId, undoes: StepId | None) -> str:
    """The way out of an error that this step met: of one that left it half-way, first who goes on
    with it.
    """
    return error.way_out(goes_on_with(step, undoes)) if isinstance(error, HalfWay) else error.hint


def read_journal(reader: Reader) -> Journal:
    """Read all runs. A folder that needs root answers with an empty journal that says so."""
    names = reader.list(FOLDER)
    if isinstance(names, Unreadable):
        return Journal((), names.reason)
    runs = []
    for name in names if isinstance(names, tuple) else ():
        if name.endswith(".jsonl"):
            data = read_own(reader, f"{FOLDER}/{name}")
            # One run that cannot be read makes all unknown, since what is in force follows from
            # every run together.
            if isinstance(data, Unreadable):
                return Journal((), data.reason)
            # else it ended before its first line, and nothing was done
            if isinstance(data, bytes) and b"\n" in data:
                runs.append(parse_run(data, f"{FOLDER}/{name}"))
    return Journal(tuple(sorted(runs, key=lambda run: (run.started_at, run.id))))


class JournalWriter:
    """Writes one run into the journal. The file appears with the first line; every line is synced
    before the call returns.
    """

    def __init__(self, writer: Writer, run: Run) -> None:
        self.run = run
        self._writer = writer
        self._seq = max((step.id.seq for step in run.steps), default=0)

    @classmethod
    def start(cls, writer: Writer, run: Run) -> JournalWriter:
        recorder = cls(writer, run)
        more = {"part_of": run.part_of, "planned": list(run.planned), "boots": run.boots}
        head = {
            **{name: getattr(run, name) for name in HEADER},
            **{name: one for name, one in more.items() if one},
        }
        recorder._append({"format_version": FORMAT_VERSION, **head})
        return recorder

    @classmethod
    def again(cls, writer: Writer, run: Run) -> JournalWriter:
        """For a run that an earlier process wrote. A crash can leave half a line at the end: its
        act had not begun, and nothing may be appended to it.
        """
        path = _path_of_run(run)
        data = read_own(writer, path)
        if isinstance(data, bytes) and not data.endswith(b"\n"):
            writer.replace(path, FileValue(data[: data.rfind(b"\n") + 1], 0o600), expected=data)
        return cls(writer, run)

    def intent(
        self, change: Change, undoes: StepId | None = None, *, superseded: bool = False
    ) -> StepId:
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

    def record_failure(self, step: StepId, error: str, left: Change | None = None) -> None:
        self._result(step, Phase.FAILED, error, left)

    def _result(self, step: StepId, phase: Phase, error: str, left: Change | None) -> None:
        entry: dict[str, Any] = {"seq": step.seq, "phase": phase.value, "at": self._writer.now()}
        if error:
            entry["error"] = error
        if left:
            entry["left"] = change_to_json(left)
        self._append(entry)

    def trigger(self, trigger: Trigger, phase: str) -> None:
        self._append(
            {
                "trigger": trigger.kind,
                "name": trigger.name,
                "phase": phase,
                "at": self._writer.now(),
            }
        )

    def finish(self, *, was_interrupted: bool = False) -> None:
        more = {"interrupted": True} if was_interrupted else {}
        self._append({"finished": True, "at": self._writer.now(), **more})

    def _append(self, entry: dict[str, Any]) -> None:
        # ASCII with escapes: no line break and no broken character in a value can end the line
        # early.
        line = json.dumps(entry, sort_keys=False, ensure_ascii=True, separators=(",", ":"))
        self._writer.append(_path_of_run(self.run), line.encode() + b"\n")


def _path_of_run(run: Run) -> str:
    return f"{FOLDER}/{run.id}.jsonl"


def boot_id(reader: Reader) -> str:
    """The id of the running boot (random(4)); empty where nothing runs."""
    data = reader.read("/proc/sys/kernel/random/boot_id")
    return data.decode("ascii", "replace").strip() if isinstance(data, bytes) else ""


def still_back(journal: Journal, reader: Reader) -> dict[StepId, bool]:
    """Of the steps of the last undo whether each address still holds what it went back to, as far
    as no later run has changed the place: a reboot, or someone, may have made another value of it.
    """
    at = max(
        (number for number, run in enumerate(journal.runs) if run.command == "undo"), default=None
    )
    # Nothing is claimed about a way back whose later runs cannot be read.
    if at is None or journal.problem:
        return {}
    later = {
        locate_address(step.change.address) for run in journal.runs[at + 1 :] for step in run.steps
    }
    made = {
        locate_address(step.change.address): step
        for step in journal.runs[at].steps
        if step.phase is Phase.DONE
        and not step.superseded
        and step.change.address.kind in address_kinds()
    }
    return {
        step.id: is_at(step.change.address, step.change.after, reader)
        for key, step in made.items()
        if key not in later
    }


def is_at(address: Address, value: object, reader: Reader) -> bool:
    """Whether the address holds this value now."""
    kind = kind_of(address)
    return kind.same(kind.read(reader, address.name), value)  # type: ignore[arg-type]
