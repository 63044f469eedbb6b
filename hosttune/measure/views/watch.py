"""A watch as text and as JSON, and its live line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune import quoting
from hosttune.codec import make_document, to_json
from hosttune.host.masking.cleaned import clean
from hosttune.measure.views.watch_words import (
    confidence_text,
    ending_text,
    list_details,
    list_evidence,
    make_headline,
    not_the_cause,
)
from hosttune.measure.watch.endings import ending_of
from hosttune.measure.watch.remedies import choose_remedies
from hosttune.measure.watch.states import State
from hosttune.measure.watch.tick import gpu_percent
from hosttune.measure.watch.verdict import VerdictKind, judge
from hosttune.numbers import say_time
from hosttune.textfiles import docs_page
from hosttune.views.terminal import wrap_text
from hosttune.views.text import ONE_SCREEN

if TYPE_CHECKING:
    from hosttune.measure.advice import Advice
    from hosttune.measure.watch.account import Account
    from hosttune.measure.watch.session import WatchEnd
    from hosttune.measure.watch.tick import Tick
    from hosttune.views.page import Page

GUIDE = "how-to/slow-training"
_COLOURS = {VerdictKind.ONE: "cyan", VerdictKind.CHANGED: "cyan", VerdictKind.MIXED: "yellow"}


def watch_text(seen: WatchEnd, page: Page) -> str:
    """The report of a watch. What is longer than the screen of a terminal has the verdict at its
    end, too.
    """
    account = seen.account
    verdict = judge(account)
    screen = page.screen
    columns = screen.columns
    lines = [f"hosttune watch: {command_text(account)}"]
    if end := ending_text(account):
        lines += [
            screen.paint(line, "bold", "red") for line in wrap_text(clean(end), columns, rest="  ")
        ]
    title = wrap_text(f"verdict: {make_headline(verdict, account)}", columns, rest="  ")
    coloured = [screen.paint(line, "bold", _COLOURS.get(verdict.outcome, "bold")) for line in title]
    lines += coloured
    if verdict.state is not None and verdict.outcome is not VerdictKind.IDLE:
        lines.append(f"confidence: {confidence_text(verdict)}")
    more = list_details(verdict, account) if page.is_verbose else ()
    for sentence in (*list_evidence(verdict, account), *more):
        lines += wrap_text(clean(sentence), columns, first="  ", rest="    ")
    for advice in choose_remedies(verdict, account):
        lines += _render_advice(advice, page)
    if (others := not_the_cause(verdict)) and verdict.state is not None:
        lines += wrap_text(f"not the cause: {others}", columns, first="  ", rest="    ")
    if verdict.would_decide:
        lines.append("  to be surer:" if verdict.state is not None else "  what would decide it:")
        for sentence in verdict.would_decide:
            lines += wrap_text(clean(sentence), columns, first="    - ", rest="      ")
    lines.append(f"  step by step: {docs_page(GUIDE) or f'docs/{GUIDE}.md of the source'}")
    for note in seen.notes:
        lines += wrap_text(clean(note), columns, first="  note: ", rest="    ")
    if screen.is_terminal and len(lines) >= ONE_SCREEN:
        lines += ["", *coloured]
    return "\n".join(lines) + "\n"


def _render_advice(advice: Advice, page: Page) -> list[str]:
    columns = page.screen.columns
    lines = wrap_text(clean(advice.text), columns, first="  -> ", rest="     ")
    if advice.figure:
        where = f" ({advice.measured})" if advice.measured else ""
        lines += wrap_text(f"{advice.figure}{where}", columns, first="     ", rest="     ")
    if advice.rule:
        lines.append(f"     {page.look(f'explain {advice.rule}')}")
    if advice.command:
        lines.append(f"     {advice.command.replace('hosttune', page.program, 1)}")
    return lines


def watch_json(seen: WatchEnd) -> dict[str, Any]:
    """The document of a watch: the verdict, what was seen, what to do. Unknown is null."""
    account = seen.account
    verdict = judge(account)
    return make_document({
        "watched": account.watched,
        "status": seen.status,
        "ended": seen.ended,
        "verdict": verdict,
        "ending": ending_of(account),
        "sentence": make_headline(verdict, account),
        "evidence": list_evidence(verdict, account),
        "advice": choose_remedies(verdict, account),
        "means": {name: mean.value for name, mean in account.means.items()},
        "totals": account.totals,
        "gpus": [_gpu_json(gpu) for gpu in account.gpus.values()],
        "gpu_zero_s": account.zero_s if account.judged_gpu_s else None,
        "gpu_zero_longest_s": account.zero_run.longest_s if account.judged_gpu_s else None,
        "gpu_others_s": account.gpu_others,
        "others_core_s": account.others,
        "file_systems": tuple(dict.fromkeys(one.fstype for one in account.mounts.values())),
        "mounts": tuple(account.mounts.values()),
        "notes": seen.notes,
    })  # fmt: skip


def _gpu_json(gpu: Any) -> dict[str, Any]:
    return {
        "index": gpu.last.index,
        "uuid": gpu.last.uuid,
        "name": gpu.last.name,
        "is_mig": gpu.last.is_mig,
        "was_lost": gpu.was_lost,
        "util_percent": gpu.util.value,
        "power_w": gpu.power.value,
        "power_limit_w": gpu.limit.value,
        "reasons_s": to_json(gpu.reasons),
    }


def command_text(account: Account) -> str:
    """The command as a shell takes it, or the process."""
    words = " ".join(quoting.quote(word) for word in account.watched.command)
    text = clean(words) if len(words) <= 200 else f"{clean(words[:200])} ..."
    return text if account.watched.is_child else f"process {account.watched.pid}: {text}"


def live_text(tick: Tick, account: Account) -> str:
    """One line about now and so far."""
    parts = [
        f"watch {_format_clock(account.seconds)}",
        account.held.state.value if not tick.is_paused else "stopped",
    ]
    percent = gpu_percent(tick)
    if percent is not None:
        parts.append(f"GPU {percent:.0f} %")
    if tick.tree is not None and tick.tree.cores is not None:
        parts.append(
            f"CPU {tick.tree.cores:.1f} of {round(tick.cpus, 2):g}"
            if tick.cpus
            else f"CPU {tick.tree.cores:.1f}"
        )
    if not account.is_warm:
        parts.append("warming up")
    elif account.counted_s:
        parts.append(_describe_leading(account))
    return "  ".join(parts)


def _describe_leading(account: Account) -> str:
    sums: dict[State, float] = {}
    for (state, _), seconds in account.states.items():
        sums[state] = sums.get(state, 0.0) + seconds
    top = max(sums, key=lambda state: sums[state])
    return (
        f"so far {top.value} {100 * sums[top] / account.counted_s:.0f} % of "
        f"{say_time(account.counted_s)}"
    )


def _format_clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600:d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
