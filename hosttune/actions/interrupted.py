"""What earlier runs, and a first boot, left to be finished: `apply` sees to it even where its plan is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.actions.journal import boot_id, goes_on_with
from hosttune.actions.journal_lines import StepId
from hosttune.actions.unended import half_way
from hosttune.host.door import Stat
from hosttune.values import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.actions.journal import Journal
    from hosttune.actions.journal_lines import Run
    from hosttune.host.door import Reader


def interrupted(journal: Journal, reader: Reader) -> Iterator[str]:
    """A sentence for each, and for the runs that only a newer hosttune can tell. Where there is none and no change is
    to be made, apply does nothing at all.
    """
    for run in journal.unread:
        yield f"{run.unread}: {run.way_out}"
    if at_first_boot(reader):
        yield "cloud-init is at work on the first boot: `hosttune apply --yes` waits for its end"
    unfinished = {run.id for run in journal.interrupted}
    for run in journal.interrupted:
        began, steps = run.started_at[:16].replace("T", " "), f"{len(run.steps)} step{'s' * (len(run.steps) != 1)}"
        yield f"run {run.id} ({run.command}, {began} UTC) was interrupted after {steps}: {_finished_by(run)}"
    for half in half_way(journal, reader):
        step = half.step
        if step.id.run not in unfinished:
            yield f"run {step.id.run} stopped half-way in a set of packages: {goes_on_with(step.id, step.undoes)}"
    for trigger in journal.pending_triggers(boot_id(reader)):
        yield f"{trigger} still waits from an earlier run: `hosttune apply --yes` runs it as soon as it may"


def _finished_by(run: Run) -> str:
    undoes = next((step.undoes for step in run.steps if step.undoes), None)
    if run.command == "undo" and not undoes:
        return "nothing was taken back yet; type it again"
    return goes_on_with(StepId(run.id, 0), undoes)


def at_first_boot(reader: Reader) -> bool:
    """Whether cloud-init writes what we read. Its marks are /run/cloud-init/enabled and, at the end, result.json
    (cloud-init documentation, "Boot stages").
    """
    is_enabled = isinstance(reader.stat("/run/cloud-init/enabled"), Stat)
    return is_enabled and reader.stat("/run/cloud-init/result.json") is ABSENT
