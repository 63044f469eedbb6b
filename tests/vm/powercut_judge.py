"""Whether what lies on a disk after a power cut is what hosttune promises.

The runs that the log holds are a ladder: each step that writes below /etc is one rung. After a
power cut the disk must stand on one rung, to the byte, and the journal must have said so before:
the steps that it calls done are made, and at most the one announced last may be made too. Nothing
else below /etc differs, but for temp files that hosttune knows as its own. Nothing here touches a
disk.
"""

import base64
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hosttune.actions.journal.lines import Run, parse_run
from hosttune.values import FileValue, Phase

FSTAB = "fstab"
LEFTOVER = re.compile(r"\.(.+)\.hosttune-[0-9a-f]{16}")
OURS = (0o100644, 0, 0)

Rung = Mapping[str, bytes | None]  # path below /etc -> content, None: absent
FstabTexts = Mapping[
    frozenset[str], bytes
]  # by the addresses in fstab that hosttune's changes hold


@dataclass(frozen=True, slots=True)
class Flight:
    """One finished run: `rungs[n]` is what lies below /etc when n of its steps are made."""

    run: Run
    rungs: tuple[Rung, ...]


@dataclass(frozen=True, slots=True)
class Situation:
    """How far a run had come, for the choice of states to boot. `made`: the announced step is on
    the disk.
    """

    command: str = ""
    announced: int = 0
    done: int = 0
    made: bool = False
    is_finished: bool = False
    is_torn: bool = False
    leftovers: int = 0

    @property
    def is_interrupted(self) -> bool:
        return bool(self.command) and not self.is_finished


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with a state (nothing, if hosttune keeps its word) and where it lies in the
    story.
    """

    faults: tuple[str, ...]
    situation: Situation


def ladder(journals: Mapping[str, bytes], texts: FstabTexts) -> tuple[Flight, ...]:
    """The runs of these whole journal files (file name -> bytes), in the order of their names."""
    flights = []
    held: frozenset[str] = frozenset()
    rung: dict[str, bytes | None] = {FSTAB: texts[held]}
    for name in sorted(journals):
        run = parse_run(journals[name], name)
        if not run.is_finished or any(step.phase is not Phase.DONE for step in run.steps):
            raise ValueError(f"run {run.id} did not come to its end: {journals[name]!r}")
        rungs = [dict(rung)]
        for step in run.steps:
            address, after = step.change.address, step.change.after
            if address.kind.startswith("fstab"):
                held = held ^ {str(address)}
                rung[FSTAB] = texts[held]
            elif address.kind == "file" and address.name.startswith("/etc/"):
                rung[address.name.removeprefix("/etc/")] = (
                    after.content if isinstance(after, FileValue) else None
                )
            rungs.append(dict(rung))
        flights.append(Flight(run, tuple(rungs)))
    paths = {path for flight in flights for path in flight.rungs[-1]}
    return tuple(
        Flight(flight.run, tuple({path: one.get(path) for path in paths} for one in flight.rungs))
        for flight in flights
    )


def judge(found: Mapping[str, Any], flights: Sequence[Flight], finished: int = 0) -> Verdict:
    """Judge one observation of `powercut_disk`. The first `finished` runs had ended before the
    power went.
    """
    if found["error"]:
        return Verdict((found["error"],), Situation())
    disk, leftovers, faults = _contents(found["etc"], flights[0].rungs[0])
    runs, is_torn, unread = _journals(found["runs"], flights)
    faults += unread
    last = _last(runs, flights, finished, faults)
    if last is None:
        rungs, situation = [flights[0].rungs[0]], Situation(is_torn=is_torn, leftovers=leftovers)
    else:
        flight, run = last
        announced, done = len(run.steps), sum(step.phase is Phase.DONE for step in run.steps)
        rungs = [flight.rungs[done], flight.rungs[announced]]
        made = announced > done and disk == rungs[1]
        situation = Situation(
            run.command, announced, done, made, run.is_finished, is_torn, leftovers
        )
    known = [rung for flight in flights for rung in flight.rungs]
    if disk not in rungs:
        faults += [
            _mismatch(path, disk[path], rungs, known)
            for path in disk
            if disk[path] not in (r[path] for r in rungs)
        ]
        faults = faults or ["the files are of several steps at once"]
    return Verdict(tuple(faults), situation)


def _contents(etc: Mapping[str, Any], base: Rung) -> tuple[dict[str, bytes | None], int, list[str]]:
    """The files that hosttune writes as they lie on the disk, the number of its temp files, and
    what is wrong.
    """
    disk, leftovers, faults = dict(base), 0, []
    for path, entry in etc.items():
        folder, _, name = path.rpartition("/")
        temp = LEFTOVER.fullmatch(name)
        if path in base:
            disk[path] = None if entry is None else base64.b64decode(entry[3])
            if entry is not None and tuple(entry[:3]) != OURS:
                faults.append(
                    f"/etc/{path} has mode, owner and group {entry[0]:o} {entry[1]} {entry[2]}"
                )
        elif (
            temp and f"{folder}/{temp[1]}".lstrip("/") in base and entry and stat.S_ISREG(entry[0])
        ):
            leftovers += 1
        else:
            faults.append(f"/etc/{path} {'is gone' if entry is None else 'is not as it was'}")
    return disk, leftovers, faults


def _journals(
    files: Mapping[str, Any], flights: Sequence[Flight]
) -> tuple[dict[str, Run], bool, list[str]]:
    """The runs that hosttune can read after the power cut, by id."""
    runs, is_torn, faults = {}, False, []
    for name, entry in files.items():
        data = base64.b64decode(entry[3])
        is_torn |= not data.endswith(b"\n")
        temp = LEFTOVER.fullmatch(name)
        if name.removesuffix(".jsonl") not in {flight.run.id for flight in flights} and not temp:
            faults.append(f"nobody wrote the run {name}")
        elif tuple(entry[:3]) != (0o100600, 0, 0):
            faults.append(
                f"run {name} has mode, owner and group {entry[0]:o} {entry[1]} {entry[2]}"
            )
        elif b"\n" in data and not temp:
            run = parse_run(data, name)
            if run.unread:
                faults.append(f"hosttune cannot read its journal: {run.unread}: {data[-120:]!r}")
            else:
                runs[name.removesuffix(".jsonl")] = run
    return runs, is_torn, faults


def _last(
    runs: Mapping[str, Run], flights: Sequence[Flight], finished: int, faults: list[str]
) -> tuple[Flight, Run] | None:
    """The run that the power cut hit, or the last one before it; what is wrong with the order is
    added to `faults`.
    """
    last = None
    for number, flight in enumerate(flights):
        run = runs.get(flight.run.id)
        if run is None:
            if number < finished:
                faults.append(f"run {flight.run.id} had ended, and its journal is lost")
            continue
        if last is not None and not last[1].is_finished:
            faults.append(f"run {run.id} began, and run {last[1].id} before it has lost its end")
        if number < finished and not run.is_finished:
            faults.append(f"run {run.id} had ended, and its journal has lost that")
        open_steps = [step for step in run.steps if step.phase is not Phase.DONE]
        if open_steps not in ([], [*run.steps[-1:]]):
            faults.append(f"run {run.id} went on after a step that is not done")
        if [step.change for step in run.steps] != [
            step.change for step in flight.run.steps[: len(run.steps)]
        ]:
            faults.append(f"run {run.id} tells other changes than it made")
        last = flight, run
    return last


def _mismatch(
    path: str, content: bytes | None, rungs: Sequence[Rung], known: Sequence[Rung]
) -> str:
    said = " or ".join(dict.fromkeys(_size(rung[path]) for rung in rungs))
    if content not in [rung[path] for rung in known]:
        return f"/etc/{path} is torn: {_size(content)}, no version that anybody meant (by the journal: {said})"
    return f"/etc/{path} is another version than its journal says: {_size(content)}, by the journal {said}"


def _size(content: bytes | None) -> str:
    return "absent" if content is None else f"{len(content)} bytes"
