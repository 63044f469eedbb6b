"""The runs of `apply` and `undo`, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION
from hosttune.values import Phase
from hosttune.views.document import Card, Command, Document, Item, Items, Say, Steps, Table, rendered
from hosttune.views.page import shown
from hosttune.views.terminal import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.actions.journal import Journal
    from hosttune.actions.journal_lines import Run, StepId
    from hosttune.views.document import Block
    from hosttune.views.page import Page


def history_report(journal: Journal, page: Page) -> str:
    """A table of runs; with --verbose each with its changes."""
    host = shown(page.host)
    head: list[Say] = []
    blocks: list[Block] = []
    runs = journal.runs[::-1]
    if journal.unreadable:
        head.append(Say(f"the journal cannot be read: {shown(journal.unreadable)}", "decision", host))
        blocks.append(Steps("Next", ((page.act("history"), ""),)))
    elif not runs:
        head.append(Say("hosttune has changed nothing here.", "decision", host))
    else:
        rows = tuple(_row(run, journal) for run in runs)
        blocks.append(Table(("run", "what", "status", "changes", "who"), rows))
        blocks += [Card(shown(run.id), (_steps(run),)) for run in runs if page.is_whole]
        blocks += [Say(f"{shown(run.unread)}: {shown(run.way_out)}.") for run in journal.unread]
        applied = (run for run in runs if run.command == "apply" and journal.status(run) != "undone")
        if (last := next(applied, None)) and not journal.unread:
            blocks.append(Command("To look at the way back:", page.act(f"undo {shown(last.id)}")))
    return rendered("hosttune history", [Document(host, f"Runs on {host}", tuple(head), tuple(blocks))], page)


def history_json(journal: Journal, still: Mapping[StepId, bool]) -> dict[str, Any]:
    """`still` is what `actions.journal.still_back` says."""
    return {
        "format_version": FORMAT_VERSION,
        "unreadable": journal.unreadable,
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


def _row(run: Run, journal: Journal) -> tuple[str, ...]:
    done = sum(step.phase is Phase.DONE for step in run.steps)
    failed = sum(step.phase is Phase.FAILED for step in run.steps)
    number = "?" if run.unread else f"{done}, {failed} failed" if failed else str(done)
    return (shown(run.id), shown(run.command), journal.status(run), number, shown(run.who))


def _steps(run: Run) -> Block:
    items = tuple(
        Item(
            f"{step.change.action.symbol} {shown(str(step.change.address))}",
            f"{step.phase} {shown(step.error)}".strip(),
            look="code",
        )
        for step in run.steps
    )
    return Items(items, is_aligned=True) if items else Say(counted(0, "change"))
