"""What is on trial: before the yes, in the receipt, afterwards; for people and as JSON."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hosttune.codec import make_document, to_json
from hosttune.engine.decide.trial import TrialPart
from hosttune.engine.trial_terms import LAST_S
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count, say_span
from hosttune.values import Confirmer
from hosttune.verdict_words import run_text, trial_text
from hosttune.views.document import (
    CommandBlock,
    Document,
    Item,
    Items,
    Say,
    Section,
    render_documents,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.actions.journal.lines import Run
    from hosttune.actions.trial.state import TrialRun
    from hosttune.actions.trial.trial import TrialEnd
    from hosttune.engine.decide.trial import TrialPlan, TriedChange
    from hosttune.facts.losses import Loss
    from hosttune.views.document import Block
    from hosttune.views.page import Page

TITLE = "On trial"


def planned_trial(planned: TrialPlan) -> Section:
    """What a yes would put on trial, and what becomes of it."""
    terms = planned.terms
    if planned.obstacles:
        why = tuple(Item(text=clean(one)) for one in planned.obstacles)
        return Section("No trial is possible here", (Items(why),), "red")
    who = "a person, or this host's health," if terms.by is Confirmer.HEALTH else "a person"
    time = say_span(terms.within_s)
    if planned.has_boot and planned.boot_within_s not in {0, terms.within_s}:
        time += f" (in the boot on trial {say_span(planned.boot_within_s)})"
    promise = f"Until {who} confirms it, at most {time}; otherwise this host rolls it back."
    notes = [Say(clean(note), "note", is_hanging=True) for note in planned.notes]
    if planned.has_boot:
        last = (
            f"Work on its GPUs can delay the reboot by {say_span(LAST_S)}; then the reboot ends it."
        )
        notes.insert(
            0,
            Say(
                f"hosttune may reboot this host once, for the rollback. {last}",
                "note",
                is_hanging=True,
            ),
        )
    keep = Say(f"{_describe_time(planned)} sudo hosttune confirm.", is_hanging=True)
    points = tuple(_list_points(planned))
    return Section(TITLE, (Say(promise), Items(points, is_aligned=True), keep, *notes), "yellow")


def _describe_time(planned: TrialPlan) -> str:
    if planned.has_live and planned.has_boot:
        return "To keep it, over a new connection, and once more after a reboot:"
    return (
        "To keep it, over a new connection:" if planned.has_live else "To keep it, after a reboot:"
    )


def _list_points(planned: TrialPlan) -> Iterable[Item]:
    for part, how in (
        (TrialPart.NOW, ""),
        (TrialPart.NEXT_BOOT, ": its files are restored if that boot stops or is not confirmed"),
        (
            TrialPart.ONE_BOOT,
            f": {_list_arguments(planned)}, by an entry of GRUB's that is taken once",
        ),
        (TrialPart.UNTRIED, ": made as without a trial (policy: confirm: boot: false)"),
    ):
        if rules := _list_rules(planned.of(part)):
            yield Item(part.value, f"{rules}{how}", look="label")
    for one in planned.of(TrialPart.NO_RETURN):
        yield Item(
            trial_text(TrialPart.NO_RETURN.value),
            f"{clean(one.change.rule)}: {clean(one.reason)}",
            look="label",
        )


def _list_arguments(planned: TrialPlan) -> str:
    words: list[str] = [clean(" ".join(planned.arguments))] if planned.arguments else []
    words += [f"without {clean(' '.join(planned.dropped))}"] if planned.dropped else []
    return ", ".join(words)


def _list_rules(tried: Iterable[TriedChange]) -> str:
    return ", ".join(dict.fromkeys(clean(one.change.rule) for one in tried))


def planned_json(planned: TrialPlan) -> dict[str, Any]:
    """The same for programs, as the key `trial` of a plan."""
    terms = planned.terms
    return {
        "within_s": terms.within_s,
        "boot_within_s": planned.boot_within_s,
        "by": terms.by.value,
        "obstacles": list(planned.obstacles),
        "notes": list(planned.notes),
        "changes": [
            {
                "rule": one.change.rule,
                "address": str(one.change.address),
                "part": one.part.value,
                "reason": one.reason,
                "arguments": list(one.arguments),
                "dropped": list(one.dropped),
            }
            for one in planned.tried
        ],
    }


def standing_words(trial: TrialRun, now: float) -> str:
    """`on trial until 14:32 UTC (12 minutes left)`, and in the other states what each is called."""
    # Without a clock (the next boot) no time runs yet.
    if trial.left_s is None or not trial.state.is_open:
        return trial_text(trial.state.value)
    until = datetime.fromtimestamp(now + trial.left_s, timezone.utc)
    left = (
        say_count(int(trial.left_s // 60), "minute")
        if trial.left_s >= 60
        else say_count(int(trial.left_s), "second")
    )
    return f"on trial until {until:%H:%M} UTC ({left} left)"


def standing_blocks(trial: TrialRun, page: Page, now: float) -> tuple[Block, ...]:
    """What is on trial after a run, and what to type next."""
    record, state = trial.record, trial.state
    points = [("now", record.live), ("next boot", record.next_boot), ("one boot", record.one_boot)]
    items = tuple(
        Item(name, clean(", ".join(rules)), look="label") for name, rules in points if rules
    )
    what = Section(
        TITLE, (Say(f"{_make_sentence(trial, now)}."), Items(items, is_aligned=True)), "yellow"
    )
    if not state.is_open:
        return (what, CommandBlock("To undo it:", page.act(f"undo {clean(trial.run)} --yes")))
    why = {
        "on trial: live": "Over a new connection, to keep it:",
        "on trial: next boot": "After a reboot, to keep it:",
    }.get(state.value, "To keep it:")
    return (
        what,
        CommandBlock(why, page.act(f"confirm {clean(trial.run)}")),
        CommandBlock("To undo it at once:", page.act(f"undo {clean(trial.run)} --yes")),
    )


def _make_sentence(trial: TrialRun, now: float) -> str:
    has_time = trial.left_s is not None and trial.state.is_open
    sentence = (
        f"Run {clean(trial.run)} "
        f"{f'is {standing_words(trial, now)}' if has_time else run_text(trial.state.value)}"
    )
    if trial.state.value == "on trial: next boot":
        return f"Run {clean(trial.run)} is on trial at the next boot, no matter who asks for it"
    return f"{sentence}: {clean(trial.reason)}" if trial.reason else sentence


def trial_report(trial: TrialRun | None, found: tuple[Loss, ...], page: Page, now: float) -> str:
    """What `hosttune status` shows of a trial."""
    host = clean(page.host)
    if trial is None:
        head = (Say("nothing is on trial.", "decision", host),)
        return render_documents(
            "hosttune status", [Document(host, f"Trial on {host}", head, ())], page
        )
    head = (Say(f"{_make_sentence(trial, now)}.", "decision", host),)
    blocks = (*loss_blocks(found), *standing_blocks(trial, page, now)[1:])
    return render_documents(
        "hosttune status", [Document(host, f"Trial on {host}", head, blocks)], page
    )


def returned_report(run: Run, back: Run, word: str, page: Page) -> str:
    """What `hosttune status` shows of a last run that was rolled back. `word`: its status."""
    host = clean(page.host)
    at = back.started_at[:16].replace("T", " ")
    sentence = (
        f"run {clean(run.id)} {run_text(word)} at {at} UTC: {clean(back.who.partition(': ')[2])}."
    )
    head = (Say(sentence, "decision", host, "red"), Say("Nothing is on trial now."))
    blocks = (
        CommandBlock("What it did, and what was rolled back:", page.act("history --verbose")),
    )
    return render_documents(
        "hosttune status", [Document(host, f"Trial on {host}", head, blocks)], page
    )


def returned_json(run: Run, back: Run, word: str) -> dict[str, Any]:
    """The same for programs."""
    return {"run": run.id, "state": word, "is_open": False, "reason": back.who.partition(": ")[2]}


def loss_blocks(found: tuple[Loss, ...]) -> tuple[Block, ...]:
    """What the host has lost since before the run, and what could not be looked at."""
    sure = tuple(Item(text=clean(one.sentence)) for one in found if one.is_known)
    unsure = tuple(Item(text=clean(one.sentence)) for one in found if not one.is_known)
    blocks: list[Block] = []
    blocks += [Section("Not as before", (Items(sure),), "red", str(len(sure)))] if sure else []
    blocks += (
        [Section("Not looked at", (Items(unsure),), "yellow", str(len(unsure)))] if unsure else []
    )
    return tuple(blocks)


def trial_json(
    trial: TrialRun | None, found: tuple[Loss, ...] = (), now: float = 0.0
) -> dict[str, Any]:
    """The answer of `hosttune trial --format json`, and the key `trial` of a receipt and of the
    history.
    """
    if trial is None:
        return {"run": "", "state": "none"}
    record = trial.record
    until = (
        datetime.fromtimestamp(now + trial.left_s, timezone.utc)
        if trial.left_s is not None
        else None
    )
    return {
        "run": trial.run,
        "state": trial.state.value,
        "is_open": trial.state.is_open,
        "left_s": trial.left_s,
        "until": until.isoformat(timespec="seconds") if until else "",
        "by": record.by.value,
        "within_s": record.within_s,
        "boot_within_s": record.boot_within_s,
        "live": list(record.live),
        "next_boot": list(record.next_boot),
        "one_boot": list(record.one_boot),
        "without_return": list(record.without_return),
        "reason": trial.reason,
        "losses": [to_json(one) for one in found],
    }


def ended_report(
    ended: TrialEnd, found: tuple[Loss, ...], page: Page, more: Iterable[Block] = ()
) -> str:
    """What `hosttune confirm` did, or why it did not."""
    host = clean(page.host)
    run = clean(ended.trial.run)
    sentence, style = {
        "confirmed": (f"run {run} is confirmed and stays.", "green"),
        "on trial: next boot": (
            f"what takes effect at once is confirmed; run {run} is on trial at the next boot.",
            "green",
        ),
    }.get(
        ended.state.value,
        (f"run {run} {run_text(ended.state.value)}: {clean(ended.reason)}.", "red"),
    )
    blocks: list[Block] = [*loss_blocks(found), *more]
    if ended.state.value == "on trial: next boot":
        blocks.append(CommandBlock("After a reboot, to keep it:", page.act(f"confirm {run}")))
    head = (Say(sentence, "decision", host, style),)
    return render_documents(
        "hosttune confirm", [Document(host, f"Trial on {host}", head, tuple(blocks))], page
    )


def ended_json(ended: TrialEnd, found: tuple[Loss, ...]) -> dict[str, Any]:
    """The answer of `hosttune confirm --format json`."""
    return make_document(
        {
            "run": ended.trial.run,
            "state": ended.state.value,
            "reason": ended.reason,
            "needs_reboot": ended.needs_reboot,
            "losses": [to_json(one) for one in found],
            "receipt": to_json(ended.receipt),
        }
    )
