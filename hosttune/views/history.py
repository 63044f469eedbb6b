"""The runs of `apply` and `undo`, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import FORMAT_VERSION
from hosttune.values import Phase
from hosttune.views.page import shown
from hosttune.views.terminal import columned, counted, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hosttune.actions.journal import Journal
    from hosttune.actions.journal_lines import Run, StepId
    from hosttune.views.page import Page


def history_text(journal: Journal, page: Page) -> str:
    """A table of runs; with --verbose each with its changes."""
    if journal.unreadable:
        why = f"{shown(page.host)}: the journal cannot be read: {shown(journal.unreadable)}"
        return "\n".join([*wrapped(why, page.screen.columns), "", "Next", f"  {page.act('history')}"]) + "\n"
    if not journal.runs:
        return f"{shown(page.host)}: hosttune has changed nothing here.\n"
    runs = journal.runs[::-1]
    rows = [_row(run, journal) for run in runs]
    lines = columned([("run", "what", "status", "changes", "who"), *rows], page.screen)
    lines[0] = page.screen.paint(lines[0], "dim")
    if page.is_verbose:
        for run in runs:
            lines += ["", page.screen.paint(shown(run.id), "bold"), *_steps(run, page)]
    for run in journal.unread:
        lines += ["", *wrapped(f"{shown(run.unread)}: {shown(run.way_out)}.", page.screen.columns)]
    last = (
        None
        if journal.unread
        else next((run for run in runs if run.command == "apply" and journal.status(run) != "undone"), None)
    )
    if last:
        lines += ["", "To look at the way back:", f"  {page.act(f'undo {shown(last.id)}')}"]
    return "\n".join(lines) + "\n"


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


def _steps(run: Run, page: Page) -> list[str]:
    rows: list[tuple[str, ...]] = [
        (f"{step.change.action.symbol} {shown(str(step.change.address))}", f"{step.phase} {shown(step.error)}".strip())
        for step in run.steps
    ]
    return columned(rows, page.screen, indent=2) or [f"  {counted(0, 'change')}"]
