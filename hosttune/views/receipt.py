"""The receipt of `apply` and `undo`: what took, what failed, what waits, the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.values import Phase
from hosttune.views.change import address_text, title_line
from hosttune.views.findings import FAULTS, HELD, UNKNOWN, sections_lines
from hosttune.views.page import shown
from hosttune.views.plan import ignore_lines, more_of
from hosttune.views.report import chosen_lines, faults_text
from hosttune.views.summary import is_irreversible
from hosttune.views.terminal import counted, wrapped

if TYPE_CHECKING:
    from hosttune.values import Address, Finding, Outcome, Receipt
    from hosttune.views.page import Page


def receipt_text(
    receipt: Receipt,
    page: Page,
    *,
    chosen: str = "",
    is_undo: bool = False,
    ignore: tuple[str, ...] = (),
    left: tuple[Finding, ...] = (),
) -> str:
    """What a run did. `chosen`: which profile it was of; `is_undo`: it took something back; `ignore`: the rules that
    the next apply would redo; `left`: the findings of its plan, of which those that were held or unknown still stand;
    the faults are those that the receipt found afterwards.
    """
    back = _taken_back(receipt)
    done = [o for o in receipt.outcomes if o.phase is Phase.DONE and o not in back]
    standing = [o for o in done if o.change.address not in {one.change.address for one in back}]
    lines = _verdict(receipt, page, "taken back" if is_undo else "made", len(standing))
    lines += chosen_lines(chosen, page) + _failed(receipt, page)
    lines += _list("Done", standing, page)
    lines += _list("Taken back, because another change of the rule failed", back, page)
    lines += _sentences("Waits", receipt.waiting, page)
    lines += _sentences("Needs a reboot", receipt.reboot_reasons, page)
    lines += _sentences("No reboot before this is solved", receipt.reboot_obstacles, page, "red")
    lines += sections_lines((FAULTS,), receipt.faults, page)
    lines += _sentences("Stays", receipt.stays, page)
    lines += sections_lines((UNKNOWN, *HELD), left, page)
    lines += _way_back(receipt, standing, page) if not is_undo else []
    return "\n".join([*lines, *ignore_lines(ignore, page)]) + "\n"


def _way_back(receipt: Receipt, standing: list[Outcome], page: Page) -> list[str]:
    """How to take back what can be, and what cannot be."""
    lost = [outcome.change for outcome in standing if is_irreversible(outcome.change)]
    lines = [""] if lost else []
    for change in lost:
        text = f"Cannot be taken back: {address_text(change.address)} ({more_of(change) or 'there is no way back'})"
        lines += wrapped(text, page.screen.columns, rest="  ")
    if len(lost) == len(standing):
        return lines
    title = "To take back the rest:" if lost else "To take it back:"
    return [*lines, "", title, f"  {page.act(f'undo {shown(receipt.run_id)}')}"]


def _taken_back(receipt: Receipt) -> list[Outcome]:
    """What was set back because its rule failed: the second act on an address of such a rule."""
    failed = {outcome.change.rule for outcome in receipt.failed}
    seen: set[Address] = set()
    back = []
    for outcome in receipt.outcomes:
        if outcome.phase is Phase.DONE and outcome.change.rule in failed:
            if outcome.change.address in seen:
                back.append(outcome)
            seen.add(outcome.change.address)
    return back


def _verdict(receipt: Receipt, page: Page, made: str, done: int) -> list[str]:
    total = len({outcome.change.address for outcome in receipt.outcomes})
    if not total:
        words, style = "nothing to do, nothing touched.", "green"
    elif receipt.failed:
        words, style = f"{len(receipt.failed)} of {counted(total, 'change')} failed, {done} {made}.", "red"
    elif receipt.verified:
        every = {1: "the change is", 2: "both changes are"}.get(total, f"all {total} changes are")
        words, style = f"{every} {made} and read back.", "green"
    else:
        words, style = f"{counted(total, 'change')} {made}, but not all read back as planned.", "red"
    if still := faults_text(receipt.faults):
        words, style = f"{still}; {words}", "red"
    run = [f"Run {shown(receipt.run_id)}"] if total else []
    return [f"{page.screen.paint(shown(page.host), 'bold')}: {page.screen.paint(words, style)}", *run]


def _failed(receipt: Receipt, page: Page) -> list[str]:
    lines: list[str] = []
    for outcome in receipt.failed:
        lines.append(f"  {title_line(outcome.change)}")
        error = outcome.error or "no reason given"
        for line in error.splitlines():
            lines += wrapped(shown(line), page.screen.columns, first="      ", rest="      ")
        if outcome.hint:
            lines += wrapped(f"do: {page.todo(outcome.hint)}", page.screen.columns, first="      ", rest="          ")
    return ["", page.screen.paint("Failed", "bold", "red"), *lines] if lines else []


def _list(title: str, outcomes: list[Outcome], page: Page) -> list[str]:
    lines = [f"  {title_line(outcome.change)}" for outcome in outcomes]
    return ["", page.screen.paint(title, "bold"), *lines] if lines else []


def _sentences(title: str, texts: tuple[str, ...], page: Page, style: str = "yellow") -> list[str]:
    lines = [line for text in texts for line in wrapped(shown(text), page.screen.columns, first="  ", rest="    ")]
    return ["", page.screen.paint(title, "bold", style), *lines] if lines else []
