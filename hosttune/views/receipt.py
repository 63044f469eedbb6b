"""The receipt of `apply` and `undo`: what took, what failed, what waits, the way back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.resources import describe_place
from hosttune.values import Phase
from hosttune.verdict_words import STATES
from hosttune.views.change import diff_of
from hosttune.views.document import (
    CommandBlock,
    Document,
    Item,
    Items,
    Lines,
    Say,
    Section,
    render_documents,
)
from hosttune.views.findings import FAULTS, HELD, UNKNOWN, make_sections, todo_items
from hosttune.views.plan import (
    count_left,
    make_ignoring,
    more_of,
    runs_taken,
    still_in_force,
    volatile_lines,
)
from hosttune.views.report import faults_text, status_text
from hosttune.views.summary import is_irreversible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.actions.undo import UndoPlan
    from hosttune.values import Address, Finding, Outcome, Receipt
    from hosttune.views.document import Block
    from hosttune.views.page import Page


def receipt_report(
    receipt: Receipt,
    page: Page,
    *,
    chosen: str = "",
    is_undo: bool = False,
    ignore: tuple[str, ...] = (),
    left: tuple[Finding, ...] = (),
    trial: tuple[Block, ...] = (),
    on_paper: int = 0,
    of: UndoPlan | None = None,
    words: str = "apply",
    volatile: str = "",
    why_status: str = "",
) -> str:
    """What a run did. `chosen`: which profile it was of; `is_undo`: it took something back, and
    `on_paper` so many were gone already; `ignore`: the rules that the next apply would redo;
    `left`: the findings of its plan, of which those that were held or unknown still stand; the
    faults are those that the receipt found afterwards. `trial`: how to keep it, in place of how to
    take it back. `of`: the runs that an undo was of, and those that are still in force. `words`:
    the same again, where it was stopped. `volatile`: the sentence for a / in memory. `why_status`:
    why the command ends with 1.
    """
    back = _taken_back(receipt)
    done = [o for o in receipt.outcomes if o.phase is Phase.DONE and o not in back]
    standing = [o for o in done if o.change.address not in {one.change.address for one in back}]
    host = clean(page.host)
    head = [_make_verdict(receipt, host, "undone" if is_undo else "made", len(standing))]
    if is_undo and left and not receipt.outcomes and not receipt.stopped:
        head = [Say(f"nothing was undone: {count_left(left)}.", "decision", host, "red")]
    if trial and not receipt.outcomes:
        head = [
            Say("nothing is changed for good before it is confirmed.", "decision", host, "green")
        ]
    if on_paper:
        gone = (
            f"{say_count(on_paper, 'change was', 'changes were')} gone already, and recorded as "
            "undone."
        )
        alone = Say(f"nothing touched: {gone}", "decision", host, "green")
        head = [*head, Say(gone)] if receipt.outcomes else [alone]
    taken = f", of {runs_taken(of)}" if of and of.runs else ""
    part_of = f", goes on with run {clean(receipt.part_of)}" if receipt.part_of else ""
    head += (
        [Say(f"Run {clean(receipt.run_id)}{part_of}{taken}")]
        if receipt.outcomes or on_paper
        else []
    )
    head += [Say(page.todo(chosen))] if chosen else []
    head = [*volatile_lines(volatile), *head]
    blocks: list[Block] = [
        *_list("Failed", (_make_failure(outcome, page) for outcome in receipt.failed), "red"),
        *_list("Done", map(_make_title, standing)),
        *_list("Rolled back, because another change of the rule failed", map(_make_title, back)),
        *_list(
            "Not begun",
            (Item(diff_of(one, is_short=True).title, look="code") for one in receipt.left),
            "yellow",
        ),
        *_list(STATES["waits"].heading, map(_make_sentence, receipt.waiting), "yellow"),
        *_list("Needs a reboot", map(_make_sentence, receipt.reboot_reasons), "yellow"),
        *_list(
            "No reboot before this is solved", map(_make_sentence, receipt.reboot_obstacles), "red"
        ),
        *make_sections((FAULTS,), receipt.faults, page),
        *_list("Stays", map(_make_sentence, receipt.stays), "yellow"),
        *make_sections((UNKNOWN, *HELD), left, page),
        *trial,
        *(
            [CommandBlock("To go on with it:", page.act(f"{words} --yes"))]
            if receipt.stopped and not trial
            else []
        ),
        *([] if is_undo or trial else _way_back(receipt, standing, page)),
        *still_in_force(of, page),
        *make_ignoring(ignore, page),
    ]
    command = "undo" if is_undo else "apply"
    document = Document(
        host,
        f"Receipt of {command} on {host}",
        tuple(head),
        tuple(blocks),
        status=status_text(why_status),
    )
    return render_documents(f"hosttune {command}", [document], page)


def _way_back(receipt: Receipt, standing: list[Outcome], page: Page) -> list[Block]:
    """How to take back what can be, and what cannot be."""
    lost = [outcome.change for outcome in standing if is_irreversible(outcome.change)]
    texts = (
        f"{describe_place(change.address)} ({more_of(change) or 'there is no way back'})"
        for change in lost
    )
    says = tuple(Say(f"Cannot be undone: {text}", is_hanging=True) for text in texts)
    blocks: list[Block] = [Lines("No way back", says)] if says else []
    if len(lost) == len(standing):
        return blocks
    title = "To undo the rest:" if lost else "To undo it:"
    whole = clean(receipt.part_of or receipt.run_id)  # with all that belongs to it
    return [*blocks, CommandBlock(title, page.act(f"undo {whole} --yes"))]


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


def _make_verdict(receipt: Receipt, host: str, made: str, done: int) -> Say:
    total = len({outcome.change.address for outcome in receipt.outcomes})
    if receipt.stopped:
        left = (
            f", {len(receipt.left)} not begun" if receipt.left else ", and what follows them waits"
        )
        failed = f", {len(receipt.failed)} failed" if receipt.failed else ""
        words, style = (
            f"stopped by {receipt.stopped}: {say_count(done, 'change')} {made}{failed}{left}.",
            "red",
        )
    elif not total:
        words, style = "nothing to do, nothing touched.", "green"
    elif receipt.failed:
        words, style = (
            f"{len(receipt.failed)} of {say_count(total, 'change')} failed, {done} {made}.",
            "red",
        )
    elif receipt.verified:
        every = {1: "the change is", 2: "both changes are"}.get(total, f"all {total} changes are")
        words, style = f"{every} {made} and read back.", "green"
    else:
        words, style = (
            f"{say_count(total, 'change')} {made}, but not all read back as planned.",
            "red",
        )
    if still := faults_text(receipt.faults):
        words, style = f"{still}; {words}", "red"
    return Say(words, "decision", host, style)


def _list(title: str, items: Iterable[Item], style: str = "") -> list[Section]:
    found = tuple(items)
    return [Section(title, (Items(found),), style)] if found else []


def _make_title(outcome: Outcome) -> Item:
    return Item(diff_of(outcome.change, is_short=True).title, look="code")


def _make_failure(outcome: Outcome, page: Page) -> Item:
    errors = [Item(text=clean(line)) for line in (outcome.error or "no reason given").splitlines()]
    todo = todo_items(page.steps(outcome.hint))
    return replace(_make_title(outcome), items=(*errors, *todo))


def _make_sentence(text: str) -> Item:
    return Item(text=clean(text))
