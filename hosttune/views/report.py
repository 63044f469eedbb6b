"""The audit report of `check`: the line that decides, the findings worst first, the next command to
type.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from hosttune import quoting
from hosttune.codec import to_json
from hosttune.engine.decide.health import Fitness, judge
from hosttune.engine.decide.plan import reboot_blockers, waits_for_reboot
from hosttune.host.masking.cleaned import clean
from hosttune.numbers import say_count
from hosttune.values import Activation, Verdict
from hosttune.verdict_words import STATES
from hosttune.views.document import (
    Document,
    Item,
    Items,
    Matrix,
    Say,
    Steps,
    Warnings,
    render_documents,
)
from hosttune.views.findings import (
    ADVICE,
    ALL,
    FAULTS,
    LISTED,
    WAIVED,
    WORST_FIRST,
    explain_finding,
    gather_findings,
    make_sections,
    quiet_groups,
)
from hosttune.views.masking import mask_data
from hosttune.views.summary import (
    WAITS,
    counts_for_status,
    exit_status,
    is_fault,
    reach_text,
    rules_in,
    summarize,
    why_status,
)
from hosttune.views.terminal import join_words
from hosttune.views.text import ONE_SCREEN, render_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.values import Finding, Plan
    from hosttune.views.checked import Checked
    from hosttune.views.document import Block
    from hosttune.views.page import Page
    from hosttune.views.summary import Summary

_REBOOT = "reboot when it suits you, then check again."


def check_report(hosts: tuple[Checked, ...], *, strict: bool = False) -> str:
    """The reports of these hosts in the medium of their page; `strict`: advice counts for the exit
    status.

    What is ok, or not applicable, is counted where it cannot be folded away. Where nothing differs,
    a terminal counts what is waived and advice, too, as far as they go beyond its screen; a pipe
    gets all of it.
    """
    hosts = tuple(sorted(hosts, key=_rank_badness))
    documents = [_on_screen(one, strict=strict) for one in hosts]
    return render_documents(
        "hosttune check", documents, hosts[0].page, is_filtered=True, summary=_make_matrix(hosts)
    )


def _rank_badness(one: Checked) -> tuple[int, ...]:
    """By which hosts are in order, the worst first: by how many rules find what costs most."""
    return tuple(-rules_in(filter(group.holds, one.plan.findings)) for group in WORST_FIRST)


def _make_matrix(hosts: tuple[Checked, ...]) -> tuple[Block, ...]:
    """The hosts by the rules that say something of one of them."""
    if len(hosts) < 2:
        return ()
    states: list[dict[str, str]] = []
    for one in hosts:
        own: dict[str, str] = {}
        for group in WORST_FIRST:
            for finding in filter(group.holds, one.plan.findings):
                own.setdefault(clean(finding.rule), group.state)
        states.append(own)
    rules = dict.fromkeys(
        rule for group in WORST_FIRST for own in states for rule in own if own[rule] == group.state
    )
    rows = (
        (clean(one.page.host), tuple(own.get(rule, "") for rule in rules))
        for one, own in zip(hosts, states, strict=True)
    )
    return (Matrix("Hosts, the worst first", tuple(rules), tuple(rows)),) if rules else ()


def _on_screen(one: Checked, *, strict: bool) -> Document:
    """The report of one host; where nothing differs, with as few findings only counted as a
    terminal asks for. The number is found by halves: findings can be many, and each try makes the
    whole report.
    """
    most = 0
    if (
        one.page.is_terse
        and one.page.screen.is_terminal
        and not exit_status(one.plan, strict=False)
    ):
        most = sum(ADVICE.holds(finding) or WAIVED.holds(finding) for finding in one.plan.findings)

    def fits(folded: int) -> bool:
        return (
            render_text(check_outline(one, folded, strict=strict), one.page.screen).count("\n")
            <= ONE_SCREEN
        )

    folded = 0 if not most or fits(0) else 1 + bisect_left(range(1, most), True, key=fits)
    return check_outline(one, folded, strict=strict)


def check_outline(one: Checked, folded: int = 0, *, strict: bool = False) -> Document:
    """The report of one host, with `folded` findings only counted, of what is waived and of advice,
    from the end. On a screen that shows a fault, what is not one is named by its rules.
    """
    plan, page = one.plan, one.page
    least = [
        finding for group in (ADVICE, WAIVED) for finding in plan.findings if group.holds(finding)
    ]
    hidden = {id(finding) for finding in least[len(least) - folded :]}
    shown = [finding for finding in plan.findings if id(finding) not in hidden]
    blocks: list[Block] = []
    if page.is_terse and page.screen.is_terminal and any(map(is_fault, shown)):
        blocks += [*make_sections((FAULTS,), shown, page, one.about), *_list_named(shown)]
    else:
        blocks += make_sections(
            ALL if page.is_whole else (*LISTED, *quiet_groups(plan)), shown, page, one.about
        )
    if not (page.is_whole or quiet_groups(plan)) and (quiet := _count_rest(plan, page, hidden)):
        blocks.append(Say(quiet))
    if chosen := (one.chosen if page.is_verbose else "") or one.proposal:
        blocks.append(Say(page.todo(chosen), is_hanging=True))
    if steps := next_steps(one):
        blocks.append(Steps("Next", tuple(steps)))
    host = clean(page.host)
    return Document(
        host,
        host,
        make_head(one),
        tuple(blocks),
        made_text(one),
        status_text(why_status(plan, strict=strict)),
        list_faults(plan.findings, page),
    )


def list_faults(findings: Iterable[Finding], page: Page) -> tuple[str, ...]:
    """`FAULT gpu-errors: 3 GPUs do not answer`, of each rule that finds one; then how many are
    left.
    """
    found = [
        explain_finding(one, page)
        for one in gather_findings(filter(is_fault, findings), most=_MOST_FAULTS)
    ]
    first = {one.rule: one for one in reversed(found)}
    own = list(reversed(first.values()))
    shown = [f"{STATES[FAULTS.state].label} {one.rule}: {one.reason}" for one in own[:_MOST_FAULTS]]
    more = len(own) - _MOST_FAULTS
    return (*shown, *([f"and {say_count(more, 'more fault')}"] if more > 0 else []))


def status_text(why: str) -> str:
    """`Exit status 1: 1 fault, 2 rules differ.`, or nothing."""
    return f"Exit status 1: {why}." if why else ""


def _list_named(findings: Iterable[Finding]) -> list[Items]:
    """A line for each group except faults: how many rules, and which."""
    every = tuple(findings)
    found = [
        (STATES[group.state].label, [clean(one.rule) for one in every if group.holds(one)])
        for group in LISTED
    ]
    items = (
        Item(f"{label} ({rules})", ", ".join(names))
        for label, own in found
        if label != STATES[FAULTS.state].label
        and (names := dict.fromkeys(own))
        and (rules := len(names))
    )
    listed = tuple(items)
    return [Items(listed, is_aligned=True)] if listed else []


def check_json(one: Checked, *, timings: bool = False) -> dict[str, Any]:
    """One host of `check --format json`; secrets are masked."""
    plan = one.plan
    health = judge(plan.findings, one.drains)
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
        "health": {
            "fitness": str(health.fitness),
            "unfit": list(health.rules(Fitness.UNFIT)),
            "impaired": list(health.rules(Fitness.IMPAIRED)),
        },
        "findings": to_json(plan.findings),
        "interrupted": list(plan.interrupted),
    }
    if one.inventory is not None:
        body["inventory"] = to_json(one.inventory)
    if timings:
        body["timings"] = [
            {"name": name, "seconds": round(seconds, 6)} for name, seconds in one.timings
        ]
    checked: dict[str, Any] = mask_data(body)
    return checked


def timings_text(timings: tuple[tuple[str, float], ...]) -> str:
    """Where the time of a look went, longest first. Facts are collected side by side, so they add
    up to more.
    """
    return "\n".join(f"{seconds * 1000:8.1f} ms  {name}" for name, seconds in timings)


_MOST_FAULTS = 3  # of which the next command is named
_TRY_IT = "see whether its own manual agrees before you change anything"


def make_head(one: Checked, *, chosen: str = "") -> tuple[Block, ...]:
    """What the host is, what must be known first, and what would happen now and later, what cannot
    be undone, and how much is someone else's to decide; `chosen` says which profile that is of.
    """
    machine = (Say(one.machine_text, "machine", is_hanging=True),) if one.machine else ()
    decision = Say(decision_text(one.plan), "decision", name=clean(one.page.host))
    rules = {
        finding.rule
        for finding in one.plan.findings
        if finding.verdict is not Verdict.NOT_APPLICABLE
    }
    sentences = filter(None, (reach_text(rules), one.page.todo(chosen)))
    return (*machine, *make_warnings(one), decision, *map(Say, sentences))


def made_text(one: Checked) -> str:
    """By what and when the report was made."""
    profile = f", profile {clean(one.profile)}" if one.profile else ""
    return f"hosttune {one.plan.tool_version}, {one.plan.created_at}{profile}"


def decision_text(plan: Plan) -> str:
    """The decision in sentences, without the name of the host."""
    summary = summarize(plan)
    faults = [f"{text};" for text in [faults_text(plan.findings)] if text]
    now = (
        f"{say_count(summary.changes_now, 'change')} now"
        if summary.changes_now
        else "nothing to change now"
    )
    rules = len({change.rule for change in plan.changes})
    now += f" by {say_count(rules, 'rule')}" if rules not in {0, summary.changes_now} else ""
    rest = ((summary.unknown, "unknown"), (summary.deferred, "deferred"))
    at_boot = sum(change.activation is Activation.REBOOT for change in plan.changes)
    if at_boot:
        verb = "takes" if at_boot == 1 else "take"
        which = at_boot if at_boot < summary.changes_now else "which"
        now += f" ({which} {verb} effect at the next reboot)"
    parts = [now, *_list_numbers((summary.after_drain, "waiting for GPU work"))]
    parts += _list_numbers(
        (summary.after_reboot - at_boot, "waiting for reboot"), (summary.waiting, "waiting")
    )
    parts += [f"{number} {STATES[state].phrase}" for number, state in rest if number]
    undo = (
        f"{summary.irreversible} cannot be undone."
        if summary.irreversible
        else "All can be undone."
    )
    aside = _list_numbers(
        (summary.owned, "managed elsewhere"),
        (summary.needs_leave, "beyond what the policy allows"),
        (summary.refused, STATES["refused"].phrase),
    )
    sentences = [*faults, f"{', '.join(parts)}."]
    sentences += [undo] if summary.changes_now else []
    sentences += [f"Not touched: {', '.join(aside)}."] if aside else []
    return " ".join(sentences)


def faults_text(findings: Iterable[Finding]) -> str:
    """`2 faults (gpu-errors, and gpu-driver-health waiting for reboot)`, or nothing."""
    rules: dict[str, list[Finding]] = {}
    for finding in filter(is_fault, findings):
        rules.setdefault(clean(finding.rule), []).append(finding)
    if not rules:
        return ""
    waiting = [rule for rule, own in rules.items() if all(map(waits_for_reboot, own))]
    others = join_words([rule for rule in rules if rule not in waiting])
    waits = f"{join_words(waiting)} waiting for reboot" if waiting else ""
    return f"{say_count(len(rules), 'fault')} ({', and '.join(filter(None, (others, waits)))})"


def _list_numbers(*numbers: tuple[int, str]) -> list[str]:
    return [f"{number} {words}" for number, words in numbers if number]


def make_warnings(one: Checked) -> list[Warnings]:
    """The warnings, where there are any."""
    texts = warning_texts(one)
    return [Warnings(tuple(texts))] if texts else []


def warning_texts(one: Checked) -> list[str]:
    """What the reader must know before the rest: a system that nothing was tried on, interrupted
    runs.
    """
    name = clean(one.other_system)
    system = (
        f"Attention: {name} is neither Ubuntu nor Debian, and hosttune was tried on no other "
        f"system: {_TRY_IT}"
    )
    return [
        *([system] if name else []),
        *(f"Attention: {one.page.todo(text)}" for text in one.plan.interrupted),
    ]


def quiet_text(summary: Summary, waived: int = 0) -> str:
    """What a report only counts; `waived`: rules of that sort which it does not list."""
    counts = ((summary.ok, "ok"), (summary.not_applicable, "not applicable"), (waived, "waived"))
    return join_words([f"{number} {STATES[state].phrase}" for number, state in counts if number])


def _count_rest(plan: Plan, page: Page, hidden: set[int]) -> str:
    """What is only counted: the `hidden` findings by their ids, and all that is well."""
    folded = [finding for finding in plan.findings if id(finding) in hidden]
    advice, waived = (rules_in(filter(group.holds, folded)) for group in (ADVICE, WAIVED))
    parts = [f"Advice of {say_count(advice, 'more rule')}"] if advice else []
    parts += [quiet] if (quiet := quiet_text(summarize(plan), waived)) else []
    return f"{'; '.join(parts)}{' (-v lists them)' if page.is_terse else ''}." if parts else ""


def next_steps(one: Checked) -> list[tuple[str, str]]:
    """The commands that lead on from a check, each with what it does; a step without one is a
    sentence. None of them changes anything: a fault comes first, with what explains it.
    """
    plan, page = one.plan, one.page
    summary = summarize(plan)
    steps = []
    if summary.unknown and page.is_partial:
        steps.append((page.act("check"), "sees more as root"))
    if judge(plan.findings, one.drains).fitness >= Fitness.IMPAIRED:
        steps.append((page.look("health"), "says whether this node may take jobs"))
    faults = {finding.rule: finding for finding in reversed(plan.findings) if is_fault(finding)}
    own = [
        finding
        for finding in plan.findings
        if counts_for_status(finding, strict=False)
        and finding.hold.kind not in WAITS
        and not (page.is_partial and finding.verdict is Verdict.UNKNOWN)
    ]
    steps += [
        (page.todo(f"hosttune explain {quoting.quote(finding.rule)}"), "says why, and what to do")
        for finding in list(reversed(faults.values()))[:_MOST_FAULTS] or own[:1]
    ]
    if plan.changes:
        steps.append((page.look_as_root("plan"), "shows the exact diff"))
    if not steps and summary.after_reboot:
        before = join_words([clean(rule) for rule in reboot_blockers(plan.findings)])
        words = f"solve what {before} says; no reboot before that." if before else _REBOOT
        steps.append(("", words))
    return steps
