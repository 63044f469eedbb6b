"""The audit report of `check`: the line that decides, the findings worst first, the next command to type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.codec import to_json
from hosttune.engine.plan import reboot_blockers
from hosttune.values import Activation
from hosttune.views.findings import ADVICE, ALL, LISTED, WAIVED, sections_lines
from hosttune.views.masking import masked
from hosttune.views.measured import section_lines
from hosttune.views.page import shown
from hosttune.views.summary import exit_status, is_fault, rules_in, summarize, waits_for_reboot
from hosttune.views.terminal import columned, counted, listed, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.values import Finding, Plan
    from hosttune.views.checked import Checked
    from hosttune.views.measured import Quote
    from hosttune.views.page import Page
    from hosttune.views.summary import Summary

_REBOOT = "reboot when it suits you, then check again."
ONE_SCREEN = 24  # lines of a terminal that nobody enlarged


def check_text(hosts: tuple[Checked, ...], measured: tuple[Quote, ...] = ()) -> str:
    """The reports of these hosts, one below the other; `measured` is what benches found on the one that this is."""
    return "\n\n".join(
        check_report(
            one.plan,
            one.page,
            machine=one.machine_text,
            proposal=one.proposal,
            chosen=one.chosen,
            measured=measured,
        )
        for one in hosts
    )


def check_report(
    plan: Plan,
    page: Page,
    *,
    machine: str = "",
    proposal: str = "",
    chosen: str = "",
    measured: tuple[Quote, ...] = (),
) -> str:
    """The report of one host; `machine` says what it is, `proposal` which profile fits better, `chosen` (for --verbose)
    which profile, file and sections are in force, and that as well.

    What is as it should be, or does not apply, is counted. Where nothing differs, what is waived and advice are, too,
    as far as they go beyond one screen.
    """
    folded = 0
    head = wrapped(machine, page.screen.columns, rest="  ") if machine else []
    head += decision(plan, page) + warnings(plan, page)
    aside = section_lines(measured, page) if page.is_verbose else []
    told = (chosen if page.is_verbose else "") or proposal
    aside += ["", *wrapped(shown(told), page.screen.columns, rest="  ")] if told else []
    lines = head + _report_lines(plan, page, aside, folded)
    most = sum(ADVICE.holds(finding) or WAIVED.holds(finding) for finding in plan.findings)
    if not page.is_verbose and not exit_status(plan, strict=False):
        while len(lines) > ONE_SCREEN and folded < most:
            folded += 1
            lines = head + _report_lines(plan, page, aside, folded)
    return "\n".join(lines) + "\n"


def _report_lines(plan: Plan, page: Page, aside: list[str], folded: int) -> list[str]:
    """The lines below the head with `folded` findings only counted, of what is waived and of advice, from the end;
    `aside` stands before the next steps.
    """
    least = [finding for section in (ADVICE, WAIVED) for finding in plan.findings if section.holds(finding)]
    hidden = {id(finding) for finding in least[len(least) - folded :]}
    told = [finding for finding in plan.findings if id(finding) not in hidden]
    lines = sections_lines(ALL if page.is_verbose else LISTED, told, page)
    lines += [] if page.is_verbose else _collapsed(plan, page, hidden)
    return lines + aside + _next(plan, page)


def check_json(one: Checked, *, timings: bool = False) -> dict[str, Any]:
    """One host of `check --format json`; secrets are masked."""
    plan = one.plan
    body = {
        "host": one.page.host,
        "machine": plan.machine,
        "tool_version": plan.tool_version,
        "created_at": plan.created_at,
        "profile": one.profile,
        "proposal": one.proposal,
        "policy_file": one.policy_file,
        "policy_sections": list(one.policy_sections),
        "policy_digest": plan.policy_digest,
        "digest": plan.digest,
        "is_complete": plan.complete,
        "summary": to_json(summarize(plan)),
        "findings": to_json(plan.findings),
        "interrupted": list(plan.interrupted),
    }
    if one.inventory is not None:
        body["inventory"] = to_json(one.inventory)
    if timings:
        body["timings"] = [{"name": name, "seconds": round(seconds, 6)} for name, seconds in one.timings]
    checked: dict[str, Any] = masked(body)
    return checked


def timings_text(timings: tuple[tuple[str, float], ...]) -> str:
    """Where the time of a look went, longest first. Facts are collected side by side, so they add up to more."""
    return "\n".join(f"{seconds * 1000:8.1f} ms  {name}" for name, seconds in timings)


def decision(plan: Plan, page: Page) -> list[str]:
    """What would happen now and later, what cannot be undone, and how much is somebody else's to decide."""
    host = shown(page.host)
    lines = wrapped(f"{host}: {decision_text(plan)}", page.screen.columns)
    lines[0] = lines[0].replace(host, page.screen.paint(host, "bold"), 1)
    return lines


def chosen_lines(chosen: str, page: Page) -> list[str]:
    """Which profile was used, below the decision."""
    return wrapped(shown(chosen), page.screen.columns) if chosen else []


def decision_text(plan: Plan) -> str:
    """The decision in sentences, without the name of the host."""
    summary = summarize(plan)
    faults = [f"{text};" for text in [faults_text(plan.findings)] if text]
    now = f"{counted(summary.changes_now, 'change')} now" if summary.changes_now else "nothing to change now"
    at_boot = sum(change.activation is Activation.REBOOT for change in plan.changes)
    if at_boot:
        verb = "takes" if at_boot == 1 else "take"
        now += f" ({at_boot if at_boot < summary.changes_now else 'which'} {verb} effect at the next reboot)"
    parts = [now, *_numbers((summary.after_drain, "after a drain"), (summary.after_reboot - at_boot, "after a reboot"))]
    parts += _numbers((summary.waiting, "waiting"), (summary.unknown, "unknown"), (summary.deferred, "deferred"))
    undo = f"{summary.irreversible} cannot be undone." if summary.irreversible else "All can be undone."
    aside = _numbers(
        (summary.owned, "left to others"),
        (summary.needs_leave, "beyond what the policy allows"),
        (summary.refused, "refused"),
    )
    sentences = [*faults, f"{', '.join(parts)}."]
    sentences += [undo] if summary.changes_now else []
    sentences += [f"Not touched: {', '.join(aside)}."] if aside else []
    return " ".join(sentences)


def faults_text(findings: Iterable[Finding]) -> str:
    """`2 faults (gpu-errors, and gpu-driver-health waiting for reboot)`, or nothing."""
    rules: dict[str, list[Finding]] = {}
    for finding in filter(is_fault, findings):
        rules.setdefault(shown(finding.rule), []).append(finding)
    if not rules:
        return ""
    waiting = [rule for rule, own in rules.items() if all(map(waits_for_reboot, own))]
    others = listed([rule for rule in rules if rule not in waiting])
    waits = f"{listed(waiting)} waiting for reboot" if waiting else ""
    return f"{counted(len(rules), 'fault')} ({', and '.join(filter(None, (others, waits)))})"


def _numbers(*numbers: tuple[int, str]) -> list[str]:
    return [f"{number} {words}" for number, words in numbers if number]


def warnings(plan: Plan, page: Page) -> list[str]:
    """The warnings of a text report."""
    lines = [line for text in warning_texts(plan, page) for line in wrapped(text, page.screen.columns, rest="  ")]
    return ["", *(page.screen.paint(line, "red") for line in lines)] if lines else []


def warning_texts(plan: Plan, page: Page) -> list[str]:
    """What the reader must know before the rest: interrupted runs."""
    return [f"Attention: {page.todo(text)}" for text in plan.interrupted]


def quiet_text(summary: Summary, waived: int = 0) -> str:
    """What a report only counts; `waived`: rules of that sort which it does not list."""
    return listed(
        _numbers((summary.ok, "as it should be"), (summary.not_applicable, "not applicable here"), (waived, "waived"))
    )


def _collapsed(plan: Plan, page: Page, hidden: set[int]) -> list[str]:
    """What is only counted: the `hidden` findings by their ids, and all that is well."""
    folded = [finding for finding in plan.findings if id(finding) in hidden]
    advice, waived = (rules_in(filter(section.holds, folded)) for section in (ADVICE, WAIVED))
    parts = [f"Advice of {counted(advice, 'more rule')}"] if advice else []
    parts += [quiet] if (quiet := quiet_text(summarize(plan), waived)) else []
    text = f"{'; '.join(parts)} (--verbose lists them)."
    return ["", *wrapped(text, page.screen.columns)] if parts else []


def next_steps(plan: Plan, page: Page) -> list[tuple[str, str]]:
    """The commands that lead on from a report, each with what it does; a step without one is a sentence."""
    summary = summarize(plan)
    steps = []
    if summary.unknown and page.sudo:
        steps.append((page.act("check"), "sees more as root"))
    if plan.changes:
        steps.append((page.look("plan"), "shows the exact diff"))
    if plan.changes and page.can_apply:
        steps.append((page.act("apply --yes"), f"makes {'this change' if len(plan.changes) == 1 else 'these changes'}"))
    if not steps and summary.after_reboot:
        before = listed([shown(rule) for rule in reboot_blockers(plan.findings)])
        words = f"solve what {before} says; no reboot before that." if before else _REBOOT
        steps.append(("", words))
    return steps


def _next(plan: Plan, page: Page) -> list[str]:
    rows: list[tuple[str, ...]] = [*next_steps(plan, page)]
    if not rows:
        return []
    if not rows[0][0]:
        return ["", f"Next: {rows[0][1]}"]
    if max(len(command) + len(why) for command, why in rows) + 4 <= page.screen.columns:
        return ["", "Next", *columned(rows, page.screen, indent=2)]
    # commands stay whole, so that they can be copied
    return ["", "Next", *(line for command, why in rows for line in (f"  {command}", f"      {why}"))]
