"""The plan as text: by stage and rule the exact diff, then what does not happen, then how to say yes."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from hosttune.values import Disturbs
from hosttune.views.change import address_text, change_lines
from hosttune.views.findings import FAULTS, HELD, UNKNOWN, sections_lines
from hosttune.views.measured import of_rule, quote_lines
from hosttune.views.page import shown
from hosttune.views.report import chosen_lines, decision, warnings
from hosttune.views.summary import is_irreversible
from hosttune.views.terminal import counted, listed, padded, width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.values import Change, Plan, Stage
    from hosttune.views.measured import Quote
    from hosttune.views.page import Page


SHOWN_DIGITS = 16  # of the digest in a command to copy; apply takes twelve or more


def plan_text(
    plan: Plan,
    page: Page,
    *,
    chosen: str = "",
    measured: tuple[Quote, ...] = (),
) -> str:
    """The plan of `plan` and of `apply` without --yes; `chosen` says which profile it is of, `measured` is what benches
    found on this host.
    """
    lines = decision(plan, page) + chosen_lines(chosen, page) + warnings(plan, page)
    lines += sections_lines((FAULTS,), plan.findings, page)
    lines += _stages(plan, page, measured=measured)
    lines += sections_lines((UNKNOWN, *HELD), plan.findings, page)
    if plan.changes:
        lines += ["", *_tail(plan, page)]
        if yes := the_yes(plan, page):
            lines += ["", "To make exactly these changes:", f"  {yes}"]
    return "\n".join(lines) + "\n"


def undo_text(plan: Plan, page: Page, *, words: str, ignore: tuple[str, ...] = (), on_paper: int = 0) -> str:
    """The plan of `undo`. `words` name it again (`undo RUN`), `ignore` are the rules that the next apply would redo;
    `on_paper` counts the changes that are gone already, so that only the journal has to be told."""
    first = f": {counted(len(plan.changes), 'change')} to take back." if plan.changes else ": nothing to take back."
    if on_paper:
        first += f" {on_paper} {'is' if on_paper == 1 else 'are'} gone already; the journal will say so."
    lines = [page.screen.paint(shown(page.host), "bold") + first]
    lines += _stages(plan, page, is_undo=True)
    lines += sections_lines((UNKNOWN, *HELD), plan.findings, page)
    if plan.changes or on_paper:
        lines += [
            "",
            "To take back exactly this:",
            f"  {page.act(f'{words} --yes --expect {plan.digest[:SHOWN_DIGITS]}')}",
        ]
    return "\n".join([*lines, *ignore_lines(ignore, page)]) + "\n"


def ignore_lines(rules: Iterable[str], page: Page) -> list[str]:
    """The line of the policy that keeps the next run from doing again what was undone."""
    names = [shown(rule) for rule in rules]
    if not names:
        return []
    why = f"The next apply makes these changes again, unless {shown(page.policy)} says:"
    return ["", *wrapped(why, page.screen.columns), f"  ignore: [{', '.join(names)}]"]


def stage_title(plan: Plan, number: int) -> tuple[str, str]:
    """The heading of stage `number` (from 1) and when it comes; nothing where there is one stage only."""
    if len(plan.stages) == 1:
        return "", ""
    return f"Stage {number}", "now" if number == 1 else f"possible only after stage {number - 1}"


def by_rule(stage: Stage) -> list[tuple[str, tuple[Change, ...]]]:
    """The changes of a stage, rule by rule."""
    return [(rule, tuple(changes)) for rule, changes in groupby(stage.changes, key=lambda change: change.rule)]


def price(changes: tuple[Change, ...]) -> str:
    """What the changes of a rule may cost."""
    disturbs = max(change.disturbs for change in changes)
    undo = "cannot be undone" if any(map(is_irreversible, changes)) else "can be undone"
    if any(change.reversible.startswith("after a reboot") for change in changes):
        undo += " after a reboot"
    notes = [f"risk {max(change.risk for change in changes)}", undo]
    if disturbs is not Disturbs.NOTHING:
        notes.insert(1, f"disturbs {disturbs}")
    return ", ".join(notes)


def triggers_text(stage: Stage) -> str:
    """What follows the changes of a stage, or nothing."""
    names = [shown(str(trigger)) for trigger in stage.triggers]
    return f"Then once: {listed(names)}" if names else ""


def closing(plan: Plan) -> list[str]:
    """What the yes would mean, each line a sentence; the digest that it is given for stands beside it."""
    by_action = [("new", "create"), ("changed", "update"), ("removed", "delete")]
    kinds = [(sum(change.action.value == action for change in plan.changes), word) for word, action in by_action]
    kinds_text = ", ".join(f"{number} {word}" for number, word in kinds if number)
    risk = max(change.risk for change in plan.changes)
    lines = [f"{counted(len(plan.changes), 'change')}: {kinds_text}. Highest risk: {risk}."]
    for change in plan.changes:
        if is_irreversible(change):
            lines.append(
                f"Cannot be undone: {address_text(change.address)} ({more_of(change) or 'there is no way back'})"
            )
        elif more_of(change):
            lines.append(f"Undoing {address_text(change.address)}: {more_of(change)}")
    if any(UNKNOWN.holds(finding) for finding in plan.findings):
        lines.append("Something could not be read, so there may be more to change: see Unknown.")
    return lines


def the_yes(plan: Plan, page: Page) -> str:
    """The command that makes exactly these changes; nothing where it would be refused."""
    if not plan.changes or not page.can_apply:
        return ""
    return page.act(f"apply --yes --expect {plan.digest[:SHOWN_DIGITS]}")


def _stages(plan: Plan, page: Page, *, is_undo: bool = False, measured: tuple[Quote, ...] = ()) -> list[str]:
    lines: list[str] = []
    for number, stage in enumerate(plan.stages, 1):
        title, when = stage_title(plan, number)
        lines += ["", page.screen.paint(title, "bold") + f" ({when})"] if title else []
        for rule, changes in by_rule(stage):
            lines += ["", page.screen.paint(shown(rule), "bold") if is_undo else _heading(rule, changes, page)]
            lines += quote_lines(of_rule(measured, rule, changes), page)
            lines += [line for change in changes for line in change_lines(change, page.screen)]
        if text := triggers_text(stage):
            lines += ["", *wrapped(text, page.screen.columns, rest="  ")]
    return lines


def _heading(rule: str, changes: tuple[Change, ...], page: Page) -> str:
    """The rule, and to its right what it may cost."""
    name, note = shown(rule), price(changes)
    gap = page.screen.edge - width_of(name) - width_of(note)
    if gap < 2:
        return page.screen.paint(name, "bold") + f"\n  {note}"
    return page.screen.paint(name, "bold") + padded("", gap) + page.screen.paint(note, "dim")


def _tail(plan: Plan, page: Page) -> list[str]:
    lines = [line for text in closing(plan) for line in wrapped(text, page.screen.columns, rest="  ")]
    return [*lines, f"Digest {plan.digest}"]


def more_of(change: Change) -> str:
    """What `reversible` says behind its first word: how the way back goes, or why there is none."""
    word = next((word for word in ("yes", "after a reboot", "no") if change.reversible.startswith(word)), "")
    return shown(change.reversible[len(word) :].lstrip(",:; "))
