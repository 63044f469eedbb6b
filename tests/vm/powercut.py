"""The proof that a power cut at any instant leaves the old file or the new one, and a journal that
knows which.

    python -m tests.vm.powercut          what CI runs: 400 states of one recording, 2 boots
    python -m tests.vm.powercut --all    every state of it (about 5,000) and 6,000 of a second recording, in which
                                         another process syncs all the time; 16 boots

As root, from the project's folder. Exit status 0 when every state and boot keeps the promise and
the bad editor is caught, 1 otherwise.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.vm.guest import Guest, GuestError
from tests.vm.operator import etc_digest
from tests.vm.powercut_judge import Verdict, judge
from tests.vm.powercut_record import PROJECT, Recording, disk_program, guest_at, record
from tests.vm.powercut_states import State, epochs, states, untorn
from tests.vm.transcript import Transcript

CI_STATES, CI_BOOTS = 400, 2
BUSY_STATES, ALL_BOOTS = 6000, 8  # boots of each recording
WORKERS_AT_MOST = 4  # each holds a copy of the disk in memory
OBSERVE_TIMEOUT_S = 3600


@dataclass(frozen=True, slots=True)
class Judged:
    """A state and what became of it."""

    state: State
    verdict: Verdict


def check(recording: Recording, start: int, stop: int, limit: int | None = None) -> list[Judged]:
    """Mount and judge the states between two entries of the log: all of them, or about `limit`."""
    found = epochs(recording.log.entries, start, stop)
    chosen = states(found, limit, untorn(recording.log, found))
    workers = max(1, min(os.cpu_count() or 1, WORKERS_AT_MOST, len(chosen) // 50))
    share = -(-len(chosen) // workers)
    parts = [chosen[at : at + share] for at in range(0, len(chosen), share)]
    with ThreadPoolExecutor(workers) as pool:
        seen = [
            one for part in pool.map(lambda part: _observe(recording, part), parts) for one in part
        ]
    return [
        Judged(state, judge(one, recording.flights, recording.finished_at(state)))
        for state, one in zip(chosen, seen, strict=True)
    ]


def _observe(recording: Recording, part: Sequence[State]) -> list[dict[str, Any]]:
    done = subprocess.run(
        disk_program(recording.disk, recording.log_path, recording.begin),
        input="".join(json.dumps([state.first, state.kept]) + "\n" for state in part),
        check=True,
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=OBSERVE_TIMEOUT_S,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def summary(judged: Sequence[Judged]) -> str:
    """How many states, of which kinds, and how many keep the promise."""
    places = Counter(_where(one) for one in judged)
    boundaries = sum(not one.state.kept for one in judged)
    torn = sum(one.verdict.situation.is_torn for one in judged)
    temp = sum(one.verdict.situation.leftovers > 0 for one in judged)
    bad = sum(bool(one.verdict.faults) for one in judged)
    return (
        f"{len(judged)} states mounted and checked, {boundaries} of them at a flush: "
        f"{', '.join(f'{number} {where}' for where, number in sorted(places.items()))}; "
        f"{temp} with a temp file, {torn} with half a journal line. {bad} broken."
    )


def _where(one: Judged) -> str:
    situation = one.verdict.situation
    if not situation.command:
        return "without a run"
    return f"{'after' if situation.is_finished else 'in'} {situation.command}"


def faults(judged: Sequence[Judged]) -> list[str]:
    """One line for each state that breaks the promise."""
    return [f"{one.state.name}: {fault}" for one in judged for fault in one.verdict.faults]


def to_boot(judged: Sequence[Judged], number: int) -> list[Judged]:
    """A spread of states that interrupt a run, no two in the same situation."""
    kinds: dict[Any, Judged] = {}
    for one in judged:
        if one.verdict.situation.is_interrupted and not one.verdict.faults:
            kinds.setdefault(one.verdict.situation, one)
    found = list(kinds.values())
    return [
        found[(2 * at + 1) * len(found) // (2 * number)] for at in range(min(number, len(found)))
    ]


def place(one: Judged) -> str:
    """How far the interrupted run had come, for people."""
    situation = one.verdict.situation
    made = " and made" if situation.made else ""
    return (
        f"{situation.command}, {situation.announced} steps announced{made}, {situation.done} done"
    )


def boot(recording: Recording, one: Judged, word: str, transcript: Transcript) -> list[str]:
    """Boot the machine as the power cut left it and let `hosttune WORD --yes` clean up. What was
    wrong, if anything.
    """
    with tempfile.TemporaryDirectory(prefix="hosttune-powercut-") as folder:
        guest = guest_at(recording, one.state, Path(folder), transcript)
        try:
            guest.boot()
            return _clean_up(guest, recording, one, word)
        except GuestError as error:
            return [str(error)]
        finally:
            guest.close()


def _clean_up(guest: Guest, recording: Recording, one: Judged, word: str) -> list[str]:
    wrong = []
    if guest.run(["systemctl", "is-active", "multi-user.target"]).stdout != "active\n":
        wrong.append("multi-user.target is not reached")
    if failed := guest.run(
        ["systemctl", "list-units", "--failed", "--no-legend", "--plain"]
    ).stdout:
        wrong.append(f"failed units: {failed}")
    run = next(
        flight.run.id
        for flight in recording.flights
        if flight.run.command == one.verdict.situation.command
    )
    lines = guest.run(["hosttune", "history"]).stdout.splitlines()
    if not any(run in line and "interrupted" in line for line in lines):
        wrong.append(f"history does not name the interrupted run {run}: {lines}")
    if "interrupted" not in guest.run(["hosttune", "check"]).stdout:
        wrong.append("check does not say that a run was interrupted")
    rc, stdout, stderr = guest.run(["hosttune", word, "--yes"])
    if rc != 0:
        wrong.append(f"{word} --yes: exit status {rc}: {stdout}{stderr}")
    if etc_digest(guest) != recording.etc["before" if word == "undo" else "after"]:
        wrong.append(f"/etc is not what {word} should leave")
    # History goes on saying that the run was interrupted, and finished later; what is left to do is
    # what check says.
    if "interrupted" in (said := guest.run(["hosttune", "check"]).stdout):
        wrong.append(f"check still says that a run was interrupted: {said}")
    return wrong


def _report(recording: Recording, limit: int | None, boots: int, transcript: Transcript) -> bool:
    """Everything about one recording, printed. Whether all is as it should be."""
    judged = check(recording, recording.begin, recording.clean, limit)
    wrong = faults(judged)
    print("hosttune:", summary(judged))
    chosen = to_boot(judged, boots)
    for number, one in enumerate(chosen):
        word = ("undo", "apply")[number % 2]
        found = boot(recording, one, word, transcript)
        wrong += found
        said = "; ".join(found) or "clean"
        print(
            f"boot {number + 1} of {len(chosen)}: cut in {place(one)}; {word} --yes: {said}",
            flush=True,
        )
    spoilt = check(recording, recording.clean, recording.end, limit)
    torn = [fault for fault in faults(spoilt) if "is torn" in fault]
    print("an editor that writes in place:", summary(spoilt), f"{len(torn)} with a torn file.")
    if wrong:
        print(*wrong, sep="\n", file=sys.stderr)
    return not wrong and bool(torn) and len(chosen) == boots


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.vm.powercut")
    parser.add_argument(
        "--all", action="store_true", help="every state, a second recording, more boots"
    )
    is_all = parser.parse_args().all
    plan = (
        [(False, None, ALL_BOOTS), (True, BUSY_STATES, ALL_BOOTS)]
        if is_all
        else [(False, CI_STATES, CI_BOOTS)]
    )
    good = True
    for is_busy, limit, boots in plan:
        with (
            tempfile.TemporaryDirectory(prefix="hosttune-powercut-") as folder,
            (Path(folder) / "transcript.txt").open("w", encoding="utf-8") as file,
        ):
            print(
                f"a recording{' with another process that syncs' if is_busy else ''}:", flush=True
            )
            transcript = Transcript(file)
            recording = record(Path(folder), transcript, is_busy=is_busy)
            good &= _report(recording, limit, boots, transcript)
    print("every promise kept" if good else "NOT every promise kept")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
