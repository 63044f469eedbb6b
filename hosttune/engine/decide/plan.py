"""Findings -> plan: holds, stages, triggers, digest. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.codec import encode_canonically
from hosttune.facts.base import UnknownFact
from hosttune.quoting import quote
from hosttune.regex import regex
from hosttune.values import Activation, Disturbs, Finding, Hold, HoldKind, Stage, Verdict, join_steps, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.engine.policy.policy import Policy
    from hosttune.facts import Facts
    from hosttune.resources.base import Applied
    from hosttune.values import Address, Change, Trigger, Value

REVERTED_TWICE = 2
BREAKS = "breaks: "  # begins a line of a change that names what runs

Reason = tuple[str, str]  # why a rule is refused, and what to do

_BLOCKED_REBOOT = " (no reboot before "
_REBOOT = regex(r"(?<![\w-])reboots?(?![\w-])")  # not within the name of a rule
_SEVERITY = (Verdict.UNKNOWN, Verdict.DIFFERS, Verdict.ADVICE, Verdict.OK, Verdict.NOT_APPLICABLE)


def digest(changes: Iterable[Change]) -> str:
    """The digest of a plan: sha256 over its changes alone, so that equal hosts have equal digests."""
    import hashlib  # OpenSSL with it, which takes its time: what shows no digest does without

    return hashlib.sha256(encode_canonically(tuple(changes))).hexdigest()


def merge_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding per rule and subject. What is held or unknown in one part holds the other parts: a rule's changes
    stand or fall together. Waiting (for a reboot) is no obstacle to the rest.
    """
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.subject), []).append(finding)
    return tuple(_merge(group) for group in groups.values())


def _merge(group: list[Finding]) -> Finding:
    if len(group) == 1:
        return group[0]
    group = sorted(group, key=lambda finding: not finding.is_fault)  # what counts most comes first
    worst = min(group, key=lambda finding: _SEVERITY.index(finding.verdict))
    obstacle = next((f for f in group if f.hold and f.hold.kind not in {HoldKind.WAITING, HoldKind.DEFERRED}), None)
    is_deferred = worst.verdict is Verdict.UNKNOWN and all(
        one.hold.kind is HoldKind.DEFERRED for one in group if one.verdict is Verdict.UNKNOWN
    )
    troubles = [f for f in group if f.verdict is Verdict.DIFFERS]
    waiting = next((f for f in group if f.hold.kind is HoldKind.WAITING), None)
    waiting = waiting if all(f.hold or f.changes for f in troubles) else None  # what just differs does not wait
    changes = tuple(change for finding in group for change in finding.changes)
    if worst.verdict is Verdict.UNKNOWN or obstacle:
        changes = ()
    held = obstacle or (waiting if not changes else None)
    hold = Hold(HoldKind.DEFERRED) if is_deferred and not obstacle else held.hold if held else Hold()
    return Finding(
        worst.rule,
        worst.subject,
        worst.verdict,
        hold,
        "; ".join(dict.fromkeys(finding.reason for finding in group if finding.reason)),
        tuple(dict.fromkeys(line for finding in group for line in finding.evidence)),
        changes,
        join_steps(finding.todo for finding in group),
        is_fault=any(finding.is_fault for finding in group),
        blocks_reboot=any(finding.blocks_reboot for finding in group),
        impairs=any(one.impairs for one in group) and all(one.impairs for one in group if one.is_fault),
        yields_to=group[0].yields_to if len({one.yields_to for one in group}) == 1 else "",
    )


def standing_faults(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The faults that no change mends, and what blocks a boot."""
    return tuple(one for one in findings if (one.is_fault or one.blocks_reboot) and not one.changes)


def after_run(findings: Iterable[Finding], faults: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings before a run, with the faults as they are after it."""
    listed = tuple(findings)
    before = standing_faults(listed)
    return (*(one for one in listed if one not in before), *faults)


def waits_for_reboot(finding: Finding) -> bool:
    """Whether what is set up takes effect at the next boot."""
    return finding.hold.kind is HoldKind.WAITING and "reboot" in finding.hold.detail


def reboot_blockers(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The rules that say that something must be solved before the host is booted again, also where someone accepted
    that: a boot makes it worse."""
    return tuple(dict.fromkeys(finding.rule for finding in findings if finding.blocks_reboot))


def leads_to_boot(findings: Iterable[Finding], changes: Iterable[Change]) -> bool:
    """Whether a reboot follows from them, or is advised."""
    return any(one.activation is Activation.REBOOT for one in changes) or any(
        waits_for_reboot(one) or (_REBOOT.search(one.todo) and not one.blocks_reboot) for one in findings
    )


def add_reboot_notes(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings; each that asks for a reboot also says what comes before that."""
    listed = tuple(findings)
    blockers = reboot_blockers(listed)
    if not blockers:
        return listed
    note = f"no reboot before {' and '.join(blockers)} is solved"
    return tuple(
        replace(one, todo="\n".join(_add_note(step, note) for step in steps_of(one.todo)))
        if not one.blocks_reboot and _REBOOT.search(one.todo)
        else one
        for one in listed
    )


def _add_note(step: str, note: str) -> str:
    return f"{step.partition(_BLOCKED_REBOOT)[0]} ({note})" if _REBOOT.search(step) else step


def explain_clash(rule: str, others: tuple[str, ...], what: str) -> Reason:
    """Why a rule is held that contradicts these others, or itself, and what to do."""
    if others == (rule,):
        return f"it contradicts itself on {what}", f"correct the rule, or ignore it: ignore: [{rule}]"
    named = " and ".join(one for one in others if one != rule)
    return f"it contradicts {named} on {what}", "ignore one of them, or let both ask for the same"


def hold_back(
    finding: Finding,
    policy: Policy,
    facts: Facts,
    ledger: Mapping[Address, Applied],
    refused: Mapping[str, Reason],
    came_back: Mapping[Address, tuple[Value, str]] | None = None,
) -> Finding:
    """The finding as a waiver leaves it; its changes become a hold where an earlier revert, the policy or running work
    forbids them, or their rule is `refused`: it contradicts another, or failed where the plan was tried. `came_back`:
    the values that were on trial and went back by themselves, each with when and why.
    """
    finding = policy.waive(finding)
    if not finding.changes:
        return finding
    risk = max(change.risk for change in finding.changes)
    disturbs = max(change.disturbs for change in finding.changes)
    reverted = [change.address for change in finding.changes if _is_reverted(change, ledger)]
    changes, busy = guard_changes(finding.changes, facts, may_break=policy.break_work)
    if reverted:
        applied = ledger[reverted[0]]
        hold = Hold(HoldKind.REVERTED, f"({reverted[0]}, set in {applied.times} runs, last {applied.run_id})")
        afresh = f"sudo hosttune undo --rule {quote(finding.rule)} --yes starts afresh"
        todo = f"find out who sets it back, or ignore {finding.rule}; {afresh}"
    elif back := _why_came_back(finding, policy, came_back or {}):
        hold = Hold(HoldKind.CAME_BACK, back)
        todo = f"fix the cause, then: sudo hosttune apply --yes --again {quote(finding.rule)}"
    elif risk > policy.max_risk:
        hold = Hold(HoldKind.ABOVE_MAX_RISK, f"{policy.max_risk} (risk {risk})")
        todo = f"allow it with --max-risk {risk} (policy: max_risk: {risk})"
    elif busy:
        hold = busy
        todo = f"drain the host, then run it again; --disturb {disturbs.word} breaks what runs now"
    elif disturbs > policy.disturb:
        hold = Hold(HoldKind.DISTURBS, str(disturbs))
        todo = f"allow it with --disturb {disturbs.word} (policy: disturb: {disturbs})"
    elif finding.rule in refused:
        why, todo = refused[finding.rule]
        return replace(finding, hold=Hold(HoldKind.REFUSED, why), changes=(), todo=todo)
    else:
        return replace(finding, changes=changes)
    return replace(finding, hold=hold, changes=(), todo=join_steps((todo, finding.todo)))


def guard_changes(changes: tuple[Change, ...], facts: Facts, *, may_break: bool) -> tuple[tuple[Change, ...], Hold]:
    """The changes, those that disturb GPU work with a line for each thing that runs and that they will break; or the
    hold that lists it, where nothing may be broken.
    """
    if not any(change.disturbs is Disturbs.GPU_WORK for change in changes):
        return changes, Hold()
    running = running_work(facts)
    if running and not may_break:
        return changes, Hold(HoldKind.BUSY, "; ".join(running))
    breaks = tuple(f"{BREAKS}{sentence}" for sentence in running)
    return tuple(
        replace(change, details=(*change.details, *breaks)) if change.disturbs is Disturbs.GPU_WORK else change
        for change in changes
    ), Hold()


def running_work(facts: Facts) -> tuple[str, ...]:
    """What GPU work runs now, a sentence each; what cannot be read counts as running. Empty on an idle host."""
    try:
        return facts.work.evidence if facts.work.is_gpu_busy else ()
    except UnknownFact as unknown:
        return (f"perhaps: cannot find out whether GPU work runs ({unknown.reason})",)


def list_unannounced(change: Change, facts: Facts) -> tuple[str, ...]:
    """What runs now, would be disturbed by this change, and was not shown with it."""
    if change.disturbs is not Disturbs.GPU_WORK:
        return ()
    shown = {line.removeprefix(BREAKS) for line in change.details if line.startswith(BREAKS)}
    return tuple(sentence for sentence in running_work(facts) if sentence not in shown)


def drop_double_changes(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same change that several rules need is made once, for the first of them."""
    seen: set[tuple[Address, Value]] = set()
    found = []
    for finding in findings:
        kept = tuple(change for change in finding.changes if (change.address, change.after) not in seen)
        seen |= {(change.address, change.after) for change in kept}
        found.append(finding if len(kept) == len(finding.changes) else replace(finding, changes=kept))
    return tuple(found)


def drop_repeated(findings: Iterable[Finding], policy: Policy) -> tuple[Finding, ...]:
    """The findings, without the advice that the rule it yields to gives of the same subject and takes no less
    seriously. A rule for which the policy drains a node yields to none. None of them yields afterwards.
    """
    listed = tuple(findings)
    first = {one.yields_to for one in listed} - {""}
    reported = {(one.rule, one.subject): one for one in listed if one.rule in first and one.reason}
    found = []
    for one in listed:
        other = reported.get((one.yields_to, one.subject)) if one.rule not in policy.drains.drain_for else None
        is_repeated = (
            other is not None
            and one.verdict is Verdict.ADVICE
            and other.verdict in {Verdict.DIFFERS, Verdict.ADVICE}
            and not other.hold
            and (other.is_fault or not one.is_fault)
            and (other.impairs or not one.impairs)
        )
        reason = f"{one.yields_to} reports it"
        if is_repeated:
            found.append(Finding(one.rule, one.subject, Verdict.NOT_APPLICABLE, reason=reason))
        else:
            found.append(replace(one, yields_to="") if one.yields_to else one)
    return tuple(found)


def _why_came_back(finding: Finding, policy: Policy, came_back: Mapping[Address, tuple[Value, str]]) -> str:
    """When and why a value that this finding would set anew went back by itself; empty where none did, or where
    someone asks for it again.
    """
    if finding.rule in policy.again:
        return ""
    tried = (came_back[one.address] for one in finding.changes if one.address in came_back)
    wanted = [change.after for change in finding.changes]
    return next((why for value, why in tried if value in wanted), "")


def _is_reverted(change: Change, ledger: Mapping[Address, Applied]) -> bool:
    applied = ledger.get(change.address)
    return applied is not None and applied.times >= REVERTED_TWICE and applied.after == change.after


def stage(changes: Iterable[Change]) -> Stage:
    """One stage: its changes in the order of the rules, its triggers once each."""
    listed = tuple(changes)
    triggers: dict[Trigger, None] = dict.fromkeys(trigger for change in listed for trigger in change.triggers)
    return Stage(listed, tuple(triggers))
