"""What earlier runs, and a first boot, left to be finished: `apply` sees to it even where its plan
is empty.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hosttune.actions.journal.journal import boot_id, goes_on_with
from hosttune.actions.journal.lines import StepId
from hosttune.actions.journal.unended import find_half_done
from hosttune.errors import HosttuneError
from hosttune.facts.base import UnknownFact
from hosttune.facts.reading import hint
from hosttune.host.door import Stat
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import ABSENT
from hosttune.verdict_words import run_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosttune.actions.journal.journal import Journal
    from hosttune.actions.journal.lines import Run
    from hosttune.actions.trial.state import TrialRun
    from hosttune.host.door import Reader

# The units of its stages, of which the last runs runcmd (systemd.exec(5): a process is in the
# cgroup of its unit).
_OF_CLOUD_INIT = regex(r"/cloud-(init|config|final)[a-z-]*\.service(/|$)", re.MULTILINE)
TRIAL_FOLDER = "/etc/hosttune/trial"  # as trial_guard calls it


def describe_interrupted(journal: Journal, reader: Reader) -> Iterator[str]:
    """A sentence for each, and for the runs that only a newer hosttune can tell. Where there is
    none and no change is to be made, apply does nothing at all.
    """
    for run in journal.unread:
        yield f"{run.unread}: {run.way_out}"
    if at_first_boot(reader):
        yield "cloud-init is at work on the first boot: `hosttune apply --yes` waits for its end"
    if sentence := _describe_undecided(reader):
        yield sentence
    # A run that was cut off may have a set that stopped half-way. It is named once.
    unfinished = {run.id for run in journal.interrupted}
    for run in journal.interrupted:
        began, steps = (
            run.started_at[:16].replace("T", " "),
            f"{len(run.steps)} step{'s' * (len(run.steps) != 1)}",
        )
        yield (
            f"run {run.id} ({run.command}, {began} UTC) was interrupted after {steps}: "
            f"{_finished_by(run)}"
        )
    for half in find_half_done(journal, reader):
        step = half.step
        if step.id.run not in unfinished:
            yield (
                f"run {step.id.run} stopped half-way in a set of packages: "
                f"{goes_on_with(step.id, step.undoes)}"
            )
    for trigger in journal.pending_triggers(boot_id(reader)):
        yield (
            f"{trigger} still waits from an earlier run: `hosttune apply --yes` runs it as soon as "
            "it may"
        )


def trial_of(reader: Reader) -> TrialRun | None:
    """The run on trial, as far as this user may see it. Of hosts without one nothing is
    imported.
    """
    if not isinstance(reader.list(TRIAL_FOLDER), tuple):
        return None
    from hosttune.actions.trial.state import read_trial

    try:
        return read_trial(reader)
    except (UnknownFact, HosttuneError):
        return None


def _describe_undecided(reader: Reader) -> str:
    """What is left of a trial that is over, as a sentence; empty where there is nothing of it."""
    trial = trial_of(reader)
    if trial is None or trial.state.is_open:
        return ""
    if trial.state.value == "failed to come back":
        again = f"sudo hosttune undo {quote(trial.run)} --yes tries again"
        return f"run {trial.run} {run_text(trial.state.value)} ({trial.reason}): {again}"
    why = f" ({trial.reason})" if trial.reason else ""
    return (
        f"run {trial.run} was on trial and {run_text(trial.state.value)}{why}: the next run "
        "records it"
    )


def _finished_by(run: Run) -> str:
    undoes = next((step.undoes for step in run.steps if step.undoes), None)
    if run.command == "undo" and not undoes:
        return "nothing was undone yet; type it again"
    return goes_on_with(StepId(run.id, 0), undoes)


def at_first_boot(reader: Reader) -> bool:
    """Whether cloud-init writes what we read. Its marks are /run/cloud-init/enabled and, at the
    end, result.json (cloud-init documentation, "Boot stages"). What itself starts, as in runcmd,
    would wait for its own end.
    """
    is_enabled = isinstance(reader.stat("/run/cloud-init/enabled"), Stat)
    if not is_enabled or reader.stat("/run/cloud-init/result.json") is not ABSENT:
        return False
    return not _OF_CLOUD_INIT.search(hint(reader, "/proc/self/cgroup"))
