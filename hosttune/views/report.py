"""The audit report of `check`: the line that decides, the findings worst first, the next command to type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import to_json
from hosttune.values import Activation
from hosttune.views.findings import ALL, WORST_FIRST, sections_lines
from hosttune.views.masking import masked
from hosttune.views.page import shown
from hosttune.views.summary import summarize
from hosttune.views.terminal import columned, counted, listed, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.values import Plan
    from hosttune.views.page import Page
    from hosttune.views.summary import Summary


def check_report(plan: Plan, page: Page, *, interrupted: tuple[str, ...] = ()) -> str:
    """The report of one host; `interrupted` says which earlier runs did not end."""
    summary = summarize(plan)
    lines = decision(plan, page)
    lines += warnings(plan, page, interrupted)
    lines += sections_lines(ALL if page.is_verbose else WORST_FIRST, plan.findings, page)
    if not page.is_verbose:
        lines += _collapsed(summary, page)
    return "\n".join([*lines, *_next(plan, summary, page)]) + "\n"


def check_json(
    plan: Plan, host: str, interrupted: tuple[str, ...], timings: tuple[tuple[str, float], ...] = ()
) -> dict[str, Any]:
    """One host of `check --format json`; secrets are masked."""
    body = {
        "host": host,
        "machine": plan.machine,
        "tool_version": plan.tool_version,
        "created_at": plan.created_at,
        "policy_digest": plan.policy_digest,
        "digest": plan.digest,
        "is_complete": plan.complete,
        "summary": to_json(summarize(plan)),
        "findings": to_json(plan.findings),
        "problems": list(plan.problems),
        "interrupted": list(interrupted),
    }
    if timings:
        body["timings"] = [{"name": name, "seconds": round(seconds, 6)} for name, seconds in timings]
    checked: dict[str, Any] = masked(body)
    return checked


def timings_text(timings: tuple[tuple[str, float], ...]) -> str:
    """Where the time of a look went, longest first. Facts are collected side by side, so they add up to more."""
    return "\n".join(f"{seconds * 1000:8.1f} ms  {name}" for name, seconds in timings)


def decision(plan: Plan, page: Page) -> list[str]:
    """What would happen now and later, what cannot be undone, and how much is somebody else's to decide."""
    summary = summarize(plan)
    now = f"{counted(summary.changes_now, 'change')} now" if summary.changes_now else "nothing to change now"
    at_boot = sum(change.activation is Activation.REBOOT for change in plan.changes)
    if at_boot:
        verb = "takes" if at_boot == 1 else "take"
        now += f" ({at_boot if at_boot < summary.changes_now else 'which'} {verb} effect at the next reboot)"
    parts = [now, *_numbers((summary.after_drain, "after a drain"), (summary.after_reboot - at_boot, "after a reboot"))]
    parts += _numbers((summary.waiting, "waiting"), (summary.unknown, "unknown"))
    host = shown(page.host)
    undo = f"{summary.irreversible} cannot be undone." if summary.irreversible else "All can be undone."
    aside = _numbers(
        (summary.owned, "left to others"),
        (summary.needs_leave, "beyond what the policy allows"),
        (summary.refused, "refused"),
    )
    sentences = [f"{host}: {', '.join(parts)}."]
    sentences += [undo] if summary.changes_now else []
    sentences += [f"Not touched: {', '.join(aside)}."] if aside else []
    lines = wrapped(" ".join(sentences), page.screen.columns)
    lines[0] = lines[0].replace(host, page.screen.paint(host, "bold"), 1)
    return lines


def _numbers(*numbers: tuple[int, str]) -> list[str]:
    return [f"{number} {words}" for number, words in numbers if number]


def warnings(plan: Plan, page: Page, interrupted: Iterable[str] = ()) -> list[str]:
    """What the reader must know before the rest: interrupted runs, a plan that fails its own proof."""
    texts = [f"Attention: {page.todo(text)}" for text in interrupted]
    if plan.problems:
        texts.append("This plan fails its own proof and will not be applied; please report it:")
        texts += [f"- {shown(problem)}" for problem in plan.problems]
    lines = [line for text in texts for line in wrapped(text, page.screen.columns, rest="  ")]
    return ["", *(page.screen.paint(line, "red") for line in lines)] if lines else []


def _collapsed(summary: Summary, page: Page) -> list[str]:
    parts = _numbers(
        (summary.ok, "as it should be"), (summary.not_applicable, "not applicable here"), (summary.waived, "waived")
    )
    text = f"{listed(parts)} (--verbose lists them)."
    return ["", *wrapped(text, page.screen.columns)] if parts else []


def _next(plan: Plan, summary: Summary, page: Page) -> list[str]:
    rows: list[tuple[str, ...]] = []
    if summary.unknown and page.sudo:
        rows.append((page.act("check"), "sees more as root"))
    if plan.changes:
        rows.append((page.look("plan"), "shows the exact diff"))
    if plan.changes and not plan.problems and page.can_apply:
        rows.append((page.act("apply --yes"), f"makes {'this change' if len(plan.changes) == 1 else 'these changes'}"))
    if not rows:
        return ["", "Next: reboot when it suits you, then check again."] if summary.after_reboot else []
    if max(len(command) + len(why) for command, why in rows) + 4 <= page.screen.columns:
        return ["", "Next", *columned(rows, page.screen, indent=2)]
    # commands stay whole, so that they can be copied
    return ["", "Next", *(line for command, why in rows for line in (f"  {command}", f"      {why}"))]
