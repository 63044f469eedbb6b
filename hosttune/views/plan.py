"""The plan: by stage and rule the exact diff, then what does not happen, then how to say yes."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from hosttune.frozen import frozen
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.resources import describe_place
from hosttune.values import Disturbs
from hosttune.verdict_words import hold_text
from hosttune.views.change import diff_of
from hosttune.views.document import (
    CommandBlock,
    Document,
    Heading,
    Item,
    Items,
    Lines,
    Panel,
    Say,
    Section,
    render_documents,
)
from hosttune.views.findings import FAULTS, HELD, NOTHING, UNKNOWN, make_sections, quiet_groups
from hosttune.views.report import list_faults, made_text, make_head, status_text
from hosttune.views.summary import is_irreversible, why_status
from hosttune.views.terminal import join_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.actions.undo import UndoPlan
    from hosttune.values import Change, Finding, Plan, Stage
    from hosttune.views.checked import About, Checked
    from hosttune.views.document import Block
    from hosttune.views.page import Page


@frozen
class PlannedTrial:
    """What of the plan a yes would put on trial, and the words that ask for it."""

    blocks: tuple[Block, ...]
    words: str = ""


_MOST_RUNS = 5  # that are named with what they left in force
SHOWN_DIGITS = 16  # of the digest in a command to copy; apply takes twelve or more


def plan_report(
    one: Checked, more: tuple[Block, ...] = (), trial: PlannedTrial | None = None
) -> str:
    """The plan of `plan` and of `apply` without --yes; `more` is at the end."""
    return render_documents("hosttune plan", [plan_outline(one, more, trial)], one.page)


def plan_outline(
    one: Checked, more: tuple[Block, ...] = (), trial: PlannedTrial | None = None
) -> Document:
    """What each rule would change, why the rest does not happen, how to say yes."""
    plan, page = one.plan, one.page
    blocks: list[Block] = [*make_sections((FAULTS,), plan.findings, page, one.about)]
    blocks += _make_stages(plan, about=one.about)
    blocks += make_sections((UNKNOWN, *HELD, *quiet_groups(plan)), plan.findings, page, one.about)
    if plan.changes:
        says = [Say(text, is_hanging=True) for text in describe_consent(plan)]
        digest = () if page.is_partial else (Say("Digest", code=plan.digest),)
        blocks.append(Lines("In all", (*says, *digest)))
    blocks += trial.blocks if trial else ()
    if page.is_partial:
        more_as_root = page.look_as_root("plan")
        blocks.append(
            CommandBlock("Root may see more to change, and the digest to apply by:", more_as_root)
        )
    elif plan.changes and page.can_apply:
        words = f"apply --yes --expect {plan.digest[:SHOWN_DIGITS]}"
        yes = page.act(f"{words}{trial.words}" if trial else words)
        blocks.append(CommandBlock("To make exactly these changes:", yes))
    elif plan.changes:
        yes = page.act_there(f"apply --yes --expect {plan.digest[:SHOWN_DIGITS]}")
        blocks.append(CommandBlock("To make exactly these changes, on that host:", yes))
    host = clean(page.host)
    first = (*volatile_lines(one.volatile), *make_head(one, chosen=one.chosen))
    status = status_text(why_status(plan, strict=False))
    faults = list_faults(plan.findings, page)
    return Document(
        host, f"Plan for {host}", first, (*blocks, *more), made_text(one), status, faults
    )


def volatile_lines(sentence: str) -> tuple[Say, ...]:
    """The first line of a plan and of a receipt of a host whose / is in memory."""
    return (Say(clean(sentence), style="yellow", is_hanging=True),) if sentence else ()


def undo_report(
    plan: Plan,
    page: Page,
    *,
    words: str,
    ignore: tuple[str, ...] = (),
    on_paper: int = 0,
    of: UndoPlan | None = None,
) -> str:
    """The plan of `undo`. `words` name it again (`undo RUN`), `ignore` are the rules that the next
    apply would redo; `on_paper` counts the changes that are gone already, so that only the journal
    has to follow; `of` names the runs.
    """
    nothing = (
        f"nothing can be undone: {count_left(plan.findings)}."
        if plan.findings
        else "nothing to undo."
    )
    sentence = f"{say_count(len(plan.changes), 'change')} to undo." if plan.changes else nothing
    if on_paper:
        sentence += (
            f" {on_paper} {'is' if on_paper == 1 else 'are'} gone already; the journal will say so."
        )
    host = clean(page.host)
    blocks: list[Block] = [
        *_make_stages(plan, is_undo=True),
        *make_sections((UNKNOWN, *HELD), plan.findings, page),
    ]
    if (plan.changes or on_paper) and page.can_apply:
        yes = page.act(f"{words} --yes --expect {plan.digest[:SHOWN_DIGITS]}")
        blocks.append(CommandBlock("To undo exactly this:", yes))
    blocks += still_in_force(of, page)
    blocks += make_ignoring(ignore, page)
    runs = [Say(f"Of {runs_taken(of)}.")] if of and len(of.runs) > 1 else []
    head = (Say(sentence, "decision", name=host), *runs)
    return render_documents(
        "hosttune undo", [Document(host, f"The way back for {host}", head, tuple(blocks))], page
    )


def count_left(findings: Iterable[Finding]) -> str:
    """`1 edited by hand, 2 blocked`: why changes are not undone."""
    kinds = Counter(hold_text(one.hold.kind.value, "") for one in findings)
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())


def runs_taken(of: UndoPlan) -> str:
    """The runs of which something is taken back, as they belong together."""
    names = [clean(run) for run in of.runs]
    return f"run{'s' * (len(names) > 1)} {join_words(names)}" + (
        ", one intention" if len(names) > 1 else ""
    )


def still_in_force(of: UndoPlan | None, page: Page) -> list[Section]:
    """What other runs did and stays, each with the command that takes it back."""
    if of is None or not of.stays:
        return []
    items = [
        Item(
            text=f"{say_count(one.changes, 'change')} of run {clean(one.run.id)} "
            f"({one.run.started_at[:16]} UTC): "
            f"{page.act(f'undo {clean(one.run.id)} --yes')}".replace("T", " ", 1)
        )
        for one in of.stays[:_MOST_RUNS]
    ]
    more = len(of.stays) - _MOST_RUNS
    items += (
        [Item(text=f"and {say_count(more, 'earlier run')}: {page.act('history')}")]
        if more > 0
        else []
    )
    return [Section("Still in force, of other runs", (Items(tuple(items)),), "yellow")]


def make_ignoring(rules: Iterable[str], page: Page) -> list[CommandBlock]:
    """The line of the policy that keeps the next run from doing again what was undone."""
    names = [clean(rule) for rule in rules]
    why = f"The next apply makes these changes again, unless {clean(page.policy)} says:"
    return [CommandBlock(why, f"ignore: [{', '.join(names)}]", "yaml")] if names else []


def describe_costs(changes: tuple[Change, ...]) -> str:
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
    names = [clean(str(trigger)) for trigger in stage.triggers]
    return f"Then once: {join_words(names)}" if names else ""


def describe_consent(plan: Plan) -> list[str]:
    """What the yes would mean, each line a sentence; the digest that it is given for is beside
    it.
    """
    by_action = [("new", "create"), ("changed", "update"), ("removed", "delete")]
    kinds = [
        (sum(change.action.value == action for change in plan.changes), word)
        for word, action in by_action
    ]
    kinds_text = ", ".join(f"{number} {word}" for number, word in kinds if number)
    risk = max(change.risk for change in plan.changes)
    lines = [f"{say_count(len(plan.changes), 'change')}: {kinds_text}. Highest risk: {risk}."]
    for change in plan.changes:
        if is_irreversible(change):
            lines.append(
                f"Cannot be undone: {describe_place(change.address)} "
                f"({more_of(change) or 'there is no way back'})"
            )
        elif more_of(change):
            lines.append(f"Undoing {describe_place(change.address)}: {more_of(change)}")
    if any(UNKNOWN.holds(finding) for finding in plan.findings):
        lines.append(
            "Something could not be read, so there may be more to change: see above what could not "
            "be checked."
        )
    return lines


def _make_stages(
    plan: Plan, *, about: Mapping[str, About] = NOTHING, is_undo: bool = False
) -> list[Block]:
    """The stages, and in each a card for a rule."""
    blocks: list[Block] = []
    for number, stage in enumerate(plan.stages, 1):
        if len(plan.stages) > 1:
            when = "now" if number == 1 else f"possible only after stage {number - 1}"
            blocks.append(Heading(f"Stage {number}", when))
        for rule, group in groupby(stage.changes, key=lambda change: change.rule):
            changes = tuple(group)
            inside = tuple(map(diff_of, changes))
            title = clean(about[rule].title) if rule in about else ""
            blocks.append(
                Panel(clean(rule), inside, "" if is_undo else describe_costs(changes), title)
            )
        if text := triggers_text(stage):
            blocks.append(Say(text, is_hanging=True))
    return blocks


def more_of(change: Change) -> str:
    """What `reversible` says behind its first word: how the way back goes, or why there is none."""
    word = next(
        (word for word in ("yes", "after a reboot", "no") if change.reversible.startswith(word)), ""
    )
    return clean(change.reversible[len(word) :].lstrip(",:; "))
