"""Finish what an interrupted run left: name its open step, run its triggers again, remove its temp files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.actions.apply import Execution
from hosttune.actions.journal import FOLDER, KEEP, Recorder, is_at, read_journal
from hosttune.values import ABSENT, FileValue, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.actions.journal import Journal, Run
    from hosttune.facts import Facts
    from hosttune.host.door import Writer


def recover(writer: Writer, facts: Facts, *, on_progress: Callable[[str], None] = lambda _: None) -> Journal:
    """Bring the journal in line with the host after a crash. The caller holds the lock. Returns the journal as it is
    then.

    An open intent took if its address is at the new value; then it counts as done and can be undone. Otherwise the
    act had not happened: files are replaced by rename and kernel values by one write, so there is nothing in between.
    """
    interrupted = read_journal(writer).interrupted
    for run in interrupted:
        on_progress(f"finishing run {run.id}, which was interrupted")
        _finish(run, writer, facts, on_progress)
    return read_journal(writer)


def _finish(run: Run, writer: Writer, facts: Facts, on_progress: Callable[[str], None]) -> None:
    _drop_torn_line(run, writer)
    recorder = Recorder(writer, run)
    done = [step.change for step in run.steps if step.phase is Phase.DONE]
    for step in run.steps:
        if step.change.address.kind == "file" or step.change.address.kind.startswith("fstab"):
            writer.discard_leftovers(
                "/etc/fstab" if step.change.address.kind.startswith("fstab") else step.change.address.name
            )
        if step.phase is not Phase.INTENT:
            continue
        if step.superseded or is_at(step.change.address, step.change.after, writer):
            recorder.done(step.id)
            done.append(step.change)
        else:
            recorder.failed(step.id, "interrupted before it was made")
    Execution(writer, recorder, on_progress).fire([trigger for change in done for trigger in change.triggers], facts)
    recorder.finish()


def _drop_torn_line(run: Run, writer: Writer) -> None:
    """A power cut can leave half a line at the end: its act had not begun, and nothing may be appended to it."""
    path = f"{FOLDER}/{run.id}.jsonl"
    data = writer.read(path)
    if isinstance(data, bytes) and not data.endswith(b"\n"):
        writer.replace(path, FileValue(data[: data.rfind(b"\n") + 1], 0o600), expected=data)


def prune(writer: Writer, journal: Journal) -> None:
    """Keep the newest runs, and older ones of which something is still in force; without its journal a run cannot be
    undone, and `history` no longer lists it.
    """
    kept = {run.id for run in journal.runs[-KEEP:]} | {step.id.run for step in journal.in_force}
    # what took back a step of a run that is kept must stay too, or that step would seem to be in force again
    kept |= {undo.id.run for step, undo in journal.undone.items() if step is not None and step.run in kept}
    for run in journal.runs:
        path = f"{FOLDER}/{run.id}.jsonl"
        data = writer.read(path) if run.id not in kept else ABSENT
        if isinstance(data, bytes):
            writer.remove(path, expected=data)
