"""The runs of `apply` and `undo`, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from hosttune.codec import FORMAT_VERSION
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.resources import describe_place
from hosttune.values import Phase
from hosttune.verdict_words import trial_text
from hosttune.views.document import (
    CommandBlock,
    Document,
    Item,
    Items,
    Panel,
    Say,
    Steps,
    Table,
    render_documents,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.actions.journal.journal import Journal
    from hosttune.actions.journal.lines import Run, StepId
    from hosttune.views.document import Block
    from hosttune.views.page import Page


GONE = ("undone", "came back")
OnTrial: TypeAlias = "Mapping[str, str]"
NO_TRIAL: OnTrial = {}


def history_report(
    journal: Journal, page: Page, trial: OnTrial = NO_TRIAL, receipts: Mapping[str, str] = NO_TRIAL
) -> str:
    """A table of runs; with --verbose each with its changes. `trial`: what is shown of the run on
    trial, in place of its status. `receipts`: where that of a run is kept.
    """
    host = clean(page.host)
    head: list[Say] = []
    blocks: list[Block] = []
    runs = journal.runs[::-1]
    if journal.unreadable:
        head.append(
            Say(f"the journal cannot be read: {clean(journal.unreadable)}", "decision", host)
        )
        blocks.append(Steps("Next", ((page.act("history"), ""),)))
    elif not runs:
        head.append(Say("hosttune has changed nothing here.", "decision", host))
    else:
        rows = tuple(_make_row(run, journal, trial) for run in runs)
        blocks.append(Table(("run", "what", "status", "changes", "who"), rows))
        blocks += [
            Panel(clean(run.id), _make_steps(run, receipts.get(run.id, "")))
            for run in runs
            if page.is_whole
        ]
        blocks += [Say(f"{clean(run.unread)}: {clean(run.way_out)}.") for run in journal.unread]
        applied = (
            run for run in runs if run.command == "apply" and journal.status(run) not in GONE
        )
        # An entry that cannot be read may belong to any run, so no way back is offered beside it.
        if (last := next(applied, None)) and not journal.unread:
            whole = clean(journal.first_of(last).id)
            blocks.append(CommandBlock("To look at the way back:", page.act(f"undo {whole}")))
    return render_documents(
        "hosttune history", [Document(host, f"Runs on {host}", tuple(head), tuple(blocks))], page
    )


def history_json(
    journal: Journal, still: Mapping[StepId, bool], trial: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`still` is what `actions.journal.still_back` says, `trial` what `views.trial.trial_json`
    does.
    """
    return {
        "format_version": FORMAT_VERSION,
        "unreadable": journal.unreadable,
        "trial": dict(trial) if trial else None,
        "runs": [
            {
                "id": run.id,
                "command": run.command,
                "status": journal.status(run),
                "started_at": run.started_at,
                "who": run.who,
                "boot_id": run.boot_id,
                "digest": run.digest,
                "tool_version": run.tool_version,
                "part_of": run.part_of,
                "unread": f"{run.unread}: {run.way_out}" if run.unread else "",
                "steps": [
                    {
                        "address": str(step.change.address),
                        "action": step.change.action.value,
                        "rule": step.change.rule,
                        "activation": step.change.activation.value,
                        "phase": step.phase.value,
                        "error": step.error,
                        "is_undone": step.id in journal.undone,
                        "holds": still.get(step.id),
                    }
                    for step in run.steps
                ],
            }
            for run in journal.runs[::-1]
        ],
    }


def _make_row(run: Run, journal: Journal, trial: OnTrial) -> tuple[str, ...]:
    done = sum(step.phase is Phase.DONE for step in run.steps)
    # What a return gives up has never been made, and an interruption is no failure.
    failed = sum(
        step.phase is Phase.FAILED
        and not (run.is_return and not step.undoes)
        and not step.is_interrupted
        for step in run.steps
    )
    status = trial.get(run.id) or trial_text(journal.status(run))
    is_part = run.was_interrupted or not run.is_finished
    if run.was_interrupted and status == "finished":
        status = "interrupted, finished later"
    count = f"{done} of {len(run.planned)}" if is_part and len(run.planned) > done else str(done)
    number = "?" if run.unread else f"{count}, {failed} failed" if failed else count
    return (
        clean(run.id),
        clean(run.command),
        f"{status}, part of {clean(run.part_of)}" if run.part_of else status,
        number,
        clean(run.who),
    )


def _make_steps(run: Run, receipt: str) -> tuple[Block, ...]:
    items = tuple(
        Item(
            f"{step.change.action.symbol} {describe_place(step.change.address)}",
            clean(step.error)
            if step.is_interrupted
            else f"{step.phase} {clean(step.error)}".strip(),
            look="code",
        )
        for step in run.steps
    )
    made = Items(items, is_aligned=True) if items else Say(say_count(0, "change"))
    return (made, Say(f"Receipt: {clean(receipt)}")) if receipt else (made,)
