"""Finish what an interrupted run left: book its open step, note its triggers, remove its temp
files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.actions.journal.journal import FOLDER, KEEP, JournalWriter, read_journal
from hosttune.actions.journal.lines import CONFIRM, HALF_MADE, NOT_MADE
from hosttune.actions.journal.receipts import drop_receipts
from hosttune.engine.decide.plan import list_unannounced
from hosttune.facts import Facts
from hosttune.host.masking.cleaned import clean
from hosttune.resources import by_kind, describe_place, kind_of
from hosttune.values import ABSENT, Phase, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosttune.actions.journal.journal import Journal
    from hosttune.actions.journal.lines import JournalStep, Run
    from hosttune.host.door import Writer
    from hosttune.values import Address


def recover(writer: Writer, *, on_progress: Callable[[str], None] = lambda _: None) -> Journal:
    """Bring the journal in line with the host after a crash. The caller holds the lock. Returns the
    journal as it is then.

    Nothing on the host is changed but temp files of ours removed, and dpkg let go on where it was
    stopped: what the run still had to start waits for the next apply. Raises Refused while another
    package manager is at work on a set whose step is open. An open intent took if its address is at
    the new value, and not if it is at the old one; one that is neither stays open, unless its kind
    can stop half-way.
    """
    interrupted = read_journal(writer).interrupted
    for run in interrupted:
        on_progress(f"finishing run {run.id}, which was interrupted")
        _finish(run, writer, on_progress)
    return read_journal(writer)


def _finish(run: Run, writer: Writer, on_progress: Callable[[str], None]) -> None:
    recorder = JournalWriter.again(writer, run)
    for step in run.steps:
        if file := kind_of(step.change.address).file_of(step.change.address.name):
            # A new content is written beside the file and then renamed. A run that was cut off
            # leaves this draft in the folder, where a daemon may read it as a file of settings.
            writer.discard_leftovers(file)
        if step.phase is Phase.INTENT:
            _close(step, recorder, writer, on_progress)
    for trigger in dict.fromkeys(
        t for s in run.steps if s.phase is not Phase.FAILED for t in s.change.triggers
    ):
        recorder.trigger(trigger, "waiting")
    recorder.finish(was_interrupted=True)
    sentence = (
        f"{run.command} {run.id}, digest {run.digest[:12]}, by {run.who}: was interrupted, is "
        "finished now"
    )
    writer.log(clean(sentence))


def _close(
    step: JournalStep, recorder: JournalWriter, writer: Writer, on_progress: Callable[[str], None]
) -> None:
    """Book what became of an open intent, by what the host holds now."""
    kind = kind_of(step.change.address)
    if kind.settle(writer, on_progress):
        facts = Facts(writer)
        # A repair of packages stops and starts the driver as the change itself does, so GPU work
        # holds it up in the same way.
        if not list_unannounced(kind.as_of_now(step.change, facts), facts):
            kind.mend(writer, step.change)
    present = kind.read(writer, step.change.address.name)
    left = replace(step.change, after=present)
    # An undo on paper writes nothing, so there is no value to look for.
    if step.superseded or kind.same(present, step.change.after):
        recorder.done(step.id)
    elif kind.same(present, step.change.before):
        recorder.record_failure(step.id, NOT_MADE)
    elif isinstance(present, Unreadable) or not kind.is_in_parts:
        on_progress(
            f"{describe_place(step.change.address)} is neither as before nor as planned: it is "
            "left as it is"
        )
    elif step.undoes:
        recorder.record_failure(step.id, HALF_MADE, left)
    else:
        recorder.done(step.id, HALF_MADE, left)


def prune(writer: Writer, journal: Journal) -> None:
    """Keep the newest runs, and older ones of which something is still in force; without its
    journal a run cannot be undone, and `history` no longer lists it. All are kept where it is not
    known what is in force.
    """
    # What is in force is unknown then, and a run that is removed can never be undone.
    if journal.problem:
        return
    in_force = journal.in_force
    newest = [run for run in journal.runs if run.command != CONFIRM][-KEEP:]
    kept = {run.id for run in newest} | {step.id.run for step in in_force}
    # what was taken back on paper knows the value to which a later step in force returns
    held = {step.change.address for step in in_force}
    on_paper = [
        step
        for step, undo in journal.undone.items()
        if undo.superseded and undo.change.address in held
    ]
    kept |= {step.run for step in on_paper}
    # what took back a step of a run that is kept must stay too, or that step would seem to be in
    # force again; and what stopped on that way, or it would seem to stand where that run had left
    # it
    kept |= {undo.id.run for step, undo in journal.undone.items() if step.run in kept}
    kept |= {
        step.id.run
        for run in journal.runs
        for step in run.steps
        if step.undoes and step.undoes.run in kept and step.left
    }
    confirmations = ((run.id, journal.confirmation_of(run)) for run in journal.runs)
    kept |= {confirmation.id for its, confirmation in confirmations if confirmation and its in kept}
    _let_go(writer, journal, held)
    drop_receipts(writer, kept)
    for run in journal.runs:
        path = f"{FOLDER}/{run.id}.jsonl"
        data = writer.read(path) if run.id not in kept else ABSENT
        if isinstance(data, bytes):
            writer.remove(path, expected=data)


def _let_go(writer: Writer, journal: Journal, held: set[Address]) -> None:
    """What a kind kept for its undo stays for the steps that can still be taken back."""
    for kind, changes in by_kind(step.change for run in journal.runs for step in run.steps):
        kind.keep_for([one for one in changes if one.address in held], writer)
