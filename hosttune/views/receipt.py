"""The receipt of `apply` and `undo`: what took, what failed, what waits, the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.values import Phase
from hosttune.views.change import title_line
from hosttune.views.findings import HELD, UNKNOWN, sections_lines
from hosttune.views.page import shown
from hosttune.views.plan import ignore_lines
from hosttune.views.terminal import counted, wrapped

if TYPE_CHECKING:
    from hosttune.values import Finding, Receipt
    from hosttune.views.findings import HELD, UNKNOWN, sections_lines
from hosttune.views.page import Page


def receipt_text(
    receipt: Receipt,
    page: Page,
    *,
    is_undo: bool = False,
    ignore: tuple[str, ...] = (),
    left: tuple[Finding, ...] = (),
) -> str:
    """What a run did. `is_undo`: it took something back; `ignore`: the rules that the next apply would redo; `left`: the
    findings of its plan, of which those that were held or unknown still stand."""
    lines = _verdict(receipt, page, "taken back" if is_undo else "made")
    lines += _failed(receipt, page)
    lines += _list("Done", receipt, Phase.DONE, page)
    lines += _list("Taken back, because their rule failed", receipt, Phase.UNDONE, page)
    lines += _list("Not tried", receipt, Phase.INTENT, page)
    lines += _sentences("Waits", receipt.waiting, page)
    lines += _sentences("Needs a reboot", receipt.reboot_reasons, page)
    lines += sections_lines((UNKNOWN, *HELD), left, page)
    if any(outcome.phase is Phase.DONE for outcome in receipt.outcomes) and not is_undo:
        lines += ["", "To take it back:", f"  {page.act(f'undo {shown(receipt.run_id)}')}"]
    return "\n".join([*lines, *ignore_lines(ignore, page)]) + "\n"


def _verdict(receipt: Receipt, page: Page, made: str) -> list[str]:
    total = len(receipt.outcomes)
    done = sum(outcome.phase is Phase.DONE for outcome in receipt.outcomes)
    if not total:
        words, style = "nothing to do, nothing touched.", "green"
    elif done == total and receipt.verified:
        words, style = f"{'the change is' if total == 1 else f'all {total} changes are'} {made} and read back.", "green"
    elif receipt.failed:
        words, style = f"{len(receipt.failed)} of {counted(total, 'change')} failed, {done} {made}.", "red"
    elif not receipt.verified:
        words, style = f"{done} of {counted(total, 'change')} {made}, but not all read back as planned.", "red"
    else:
        words, style = f"{done} of {counted(total, 'change')} {made}.", "yellow"
    run = [f"Run {shown(receipt.run_id)}"] if total else []
    return [f"{page.screen.paint(shown(page.host), 'bold')}: {page.screen.paint(words, style)}", *run]


def _failed(receipt: Receipt, page: Page) -> list[str]:
    lines: list[str] = []
    for outcome in receipt.failed:
        lines.append(f"  {title_line(outcome.change)}")
        error = outcome.error or "no reason given"
        for line in error.splitlines():
            lines += wrapped(shown(line), page.screen.columns, first="      ", rest="      ")
    return ["", page.screen.paint("Failed", "bold", "red"), *lines] if lines else []


def _list(title: str, receipt: Receipt, phase: Phase, page: Page) -> list[str]:
    lines = [f"  {title_line(outcome.change)}" for outcome in receipt.outcomes if outcome.phase is phase]
    return ["", page.screen.paint(title, "bold"), *lines] if lines else []


def _sentences(title: str, texts: tuple[str, ...], page: Page) -> list[str]:
    lines = [line for text in texts for line in wrapped(shown(text), page.screen.columns, first="  ", rest="    ")]
    return ["", page.screen.paint(title, "bold", "yellow"), *lines] if lines else []
