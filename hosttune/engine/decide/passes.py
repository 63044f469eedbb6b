"""From rules to findings: the passes, in the order in which they run. They read the host only
through its facts and through the kinds of wishes, and change nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.engine.decide.compare import compare
from hosttune.engine.decide.evaluate import Evaluation, evaluate, merge_bounds
from hosttune.engine.decide.leftovers import add_undo_step, find_orphans, rules_left
from hosttune.engine.decide.plan import asks_for_reboot, guard_changes, reboot_blockers
from hosttune.engine.expressions.evaluation import MAX_HOST, MAX_RULE, Budget
from hosttune.errors import HosttuneError
from hosttune.facts.base import UnknownFact
from hosttune.frozen import frozen
from hosttune.host.progress import note_step
from hosttune.quoting import quote
from hosttune.resources import describe_place, kind_of, wish_kinds
from hosttune.resources.base import Context
from hosttune.values import Finding, Hold, HoldKind, Verdict, join_steps, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.engine.rules.rule import Rule
    from hosttune.facts import Facts
    from hosttune.host.door import Reader
    from hosttune.resources.base import Applied, Wish
    from hosttune.values import Address, Change, State, Value

REVERTED_TWICE = 2
_BLOCKED_REBOOT = " (no reboot before "
_SEVERITY = (Verdict.UNKNOWN, Verdict.DIFFERS, Verdict.ADVICE, Verdict.OK, Verdict.NOT_APPLICABLE)

Reason = tuple[str, str]  # why a rule is refused, and what to do


@frozen
class Past:
    """What earlier runs of hosttune left on the host, as their journal tells it."""

    ledger: Mapping[Address, Applied]
    problem: str  # why the journal could not be read in full; empty when it could
    # values on trial that went back by themselves: when and why
    came_back: Mapping[Address, tuple[Value, str]]


def run_passes(
    rules: Sequence[Rule],
    catalog: Catalog,
    policy: Policy,
    facts: Facts,
    past: Past,
    held: Mapping[str, Reason] | None = None,
) -> tuple[Finding, ...]:
    """What these rules find on a host. `held`: the rules that failed where the plan was tried."""
    evaluations = tuple(evaluate_rules(rules, catalog, policy, facts))
    wishes, clashes = merge_bounds(tuple(wish for one in evaluations for wish in one.wishes))
    state, unread = read_state(wishes, facts)
    # One place that cannot be read holds the whole rule, because its changes stand or fall
    # together.
    blocked = {finding.rule for finding in unread}
    able = tuple(rule for rule in rules if rule.id not in blocked)
    compared = tuple(compare_rules(able, wishes, state, past, facts, policy))
    findings = merge_findings(
        (*(one for each in evaluations for one in each.findings), *unread, *compared)
    )
    orphans = _find_left(past.ledger, catalog, policy, findings, facts)
    refused = {**{rule: explain_clash(rule, *one) for rule, one in clashes.items()}, **(held or {})}
    held_back = tuple(
        hold_back(one, policy, facts, past.ledger, refused, past.came_back) for one in findings
    )
    # After hold_back, which looks at one finding: a drop-in that is held also keeps what its
    # siblings wanted in it.
    findings = hold_siblings(findings, held_back)
    names = rules_left(orphans, past.ledger, catalog)
    findings = tuple(add_undo_step(one, names) for one in findings)
    findings = drop_repeated(drop_double_changes(findings), policy)
    # Last, because only now it is certain which steps ask for a reboot.
    return add_reboot_notes((*findings, *orphans))


def evaluate_rules(
    rules: Sequence[Rule], catalog: Catalog, policy: Policy, facts: Facts
) -> Iterator[Evaluation]:
    """A rule whose expression cannot be computed (a division by zero, too much work) is unknown;
    the others go on, with what it leaves of the budget of the host.
    """
    left = MAX_HOST
    for number, rule in enumerate(rules, 1):
        note_step(f"rule {number} of {len(rules)}")
        budget = Budget(min(MAX_RULE, left))
        # Taken in full and given back in part: a rule that used up its budget leaves less to the
        # others.
        left -= budget.left
        try:
            yield evaluate(rule, facts, policy.params_of(rule, catalog), policy.declared, budget)
        except HosttuneError as error:
            yield Evaluation(
                rule,
                (Finding(rule.id, "", Verdict.UNKNOWN, reason=error.message, todo=error.hint),),
            )
        left += max(0, budget.left)


def read_state(wishes: Iterable[Wish], facts: Facts) -> tuple[State, tuple[Finding, ...]]:
    """Read every address that the wishes name, once; a wish whose addresses hang on an unread fact
    is unknown.
    """
    state: dict[Address, Value] = {}
    unknown = []
    for wish in wishes:
        try:
            for address in wish_kinds()[wish.kind].addresses(wish, facts):
                if address not in state:
                    state[address] = read_address(address, facts.reader)
        except UnknownFact as error:
            unknown.append(Finding(wish.rule, wish.subject, Verdict.UNKNOWN, reason=error.reason))
    return state, tuple(unknown)


def read_address(address: Address, reader: Reader) -> Value:
    return kind_of(address).read(reader, address.name)


def compare_rules(
    rules: Sequence[Rule],
    wishes: Iterable[Wish],
    state: State,
    past: Past,
    facts: Facts,
    policy: Policy,
) -> Iterator[Finding]:
    """What is found of the wishes of each of these rules."""
    own: dict[str, list[Wish]] = {}
    for wish in wishes:
        own.setdefault(wish.rule, []).append(wish)
    for rule in rules:
        if rule.id in own:
            context = Context(facts, state, past.ledger, rule.risk, rule.disturbs, past.problem)
            yield from compare(rule, own[rule.id], context, policy)


def merge_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding per rule and subject. What is held or unknown in one part holds the other parts:
    a rule's changes stand or fall together. What waits (for a reboot) does not hold the rest.
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
    obstacle = next(
        (f for f in group if f.hold and f.hold.kind not in {HoldKind.WAITING, HoldKind.DEFERRED}),
        None,
    )
    is_deferred = worst.verdict is Verdict.UNKNOWN and all(
        one.hold.kind is HoldKind.DEFERRED for one in group if one.verdict is Verdict.UNKNOWN
    )
    troubles = [f for f in group if f.verdict is Verdict.DIFFERS]
    waiting = next((f for f in group if f.hold.kind is HoldKind.WAITING), None)
    # what just differs does not wait
    waiting = waiting if all(f.hold or f.changes for f in troubles) else None
    changes = tuple(change for finding in group for change in finding.changes)
    # Half a rule is a state that no one has tried, so one part that is not known keeps all of it.
    if worst.verdict is Verdict.UNKNOWN or obstacle:
        changes = ()
    held = obstacle or (waiting if not changes else None)
    hold = (
        Hold(HoldKind.DEFERRED) if is_deferred and not obstacle else held.hold if held else Hold()
    )
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
        # A fault that does not only impair makes the host unfit, and a milder one beside it must
        # not soften that.
        impairs=any(one.impairs for one in group)
        and all(one.impairs for one in group if one.is_fault),
        yields_to=group[0].yields_to if len({one.yields_to for one in group}) == 1 else "",
    )


def _find_left(
    ledger: Mapping[Address, Applied],
    catalog: Catalog,
    policy: Policy,
    findings: tuple[Finding, ...],
    facts: Facts,
) -> tuple[Finding, ...]:
    if policy.sole:  # the others are not reported
        ledger = {
            address: one
            for address, one in ledger.items()
            if catalog.current(one.rule) in policy.sole
        }
    if not ledger:
        return ()
    state = {address: read_address(address, facts.reader) for address in ledger}
    return find_orphans(ledger, catalog, policy, findings, state)


def explain_clash(rule: str, others: tuple[str, ...], what: str) -> Reason:
    """Why a rule is held that contradicts these others, or itself, and what to do."""
    if others == (rule,):
        return (
            f"it contradicts itself on {what}",
            f"correct the rule, or ignore it: ignore: [{rule}]",
        )
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
    """The finding as a waiver leaves it; its changes become a hold where an earlier revert, the
    policy or running work forbids them, or their rule is `refused`: it contradicts another, or
    failed where the plan was tried. `came_back`: the values that were on trial and went back by
    themselves, each with when and why.
    """
    finding = policy.waive(finding)
    if not finding.changes:
        return finding
    # Of all changes of the finding, since they are made together or not at all.
    risk = max(change.risk for change in finding.changes)
    disturbs = max(change.disturbs for change in finding.changes)
    reverted = [change.address for change in finding.changes if _is_reverted(change, ledger)]
    changes, busy = guard_changes(finding.changes, facts, may_break=policy.break_work)
    if reverted:
        applied = ledger[reverted[0]]
        hold = Hold(
            HoldKind.REVERTED,
            f"({describe_place(reverted[0])}, set in {applied.times} runs, last {applied.run_id})",
        )
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


def hold_siblings(before: Iterable[Finding], after: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings of `after`, which hold_back made of `before`. What differs and has no change of
    its own is made by the drop-in that another finding of its rule carries: where the rule has no
    change left, it is held with that one.
    """
    listed = tuple(after)
    changing = {one.rule for one in listed if one.changes}
    carriers: dict[str, Finding] = {}
    for old, new in zip(before, listed, strict=True):
        if old.changes and new.hold and new.rule not in changing:
            carriers.setdefault(new.rule, new)
    return tuple(
        replace(
            one, hold=carriers[one.rule].hold, todo=join_steps((carriers[one.rule].todo, one.todo))
        )
        if one.rule in carriers
        and one.verdict is Verdict.DIFFERS
        and not one.hold
        and not one.is_fault
        else one
        for one in listed
    )


def _why_came_back(
    finding: Finding, policy: Policy, came_back: Mapping[Address, tuple[Value, str]]
) -> str:
    """When and why a value that this finding would set anew went back by itself; empty where none
    did, or where someone asks for it again.
    """
    if finding.rule in policy.again:
        return ""
    tried = (came_back[one.address] for one in finding.changes if one.address in came_back)
    wanted = [change.after for change in finding.changes]
    return next((why for value, why in tried if value in wanted), "")


def _is_reverted(change: Change, ledger: Mapping[Address, Applied]) -> bool:
    applied = ledger.get(change.address)
    # Another value is another attempt: the policy has changed since, and what was set back is no
    # longer wanted.
    return applied is not None and applied.times >= REVERTED_TWICE and applied.after == change.after


def drop_double_changes(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same change that several rules need is made once, for the first of them."""
    seen: set[tuple[Address, Value]] = set()
    found = []
    for finding in findings:
        kept = tuple(
            # Only the same value: two values for one place are a contradiction, which the proof
            # names.
            change
            for change in finding.changes
            if (change.address, change.after) not in seen
        )
        seen |= {(change.address, change.after) for change in kept}
        found.append(
            finding if len(kept) == len(finding.changes) else replace(finding, changes=kept)
        )
    return tuple(found)


def drop_repeated(findings: Iterable[Finding], policy: Policy) -> tuple[Finding, ...]:
    """The findings, without the advice that the rule it yields to gives of the same subject and
    takes no less seriously. A rule for which the policy drains a node yields to none. None of them
    yields afterwards.
    """
    listed = tuple(findings)
    first = {one.yields_to for one in listed} - {""}
    # Only a finding with a reason can be shown in place of another one.
    reported = {(one.rule, one.subject): one for one in listed if one.rule in first and one.reason}
    found = []
    for one in listed:
        other = (
            reported.get((one.yields_to, one.subject))
            if one.rule not in policy.drains.drain_for
            else None
        )
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


def add_reboot_notes(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings; each that asks for a reboot also says what comes before that."""
    listed = tuple(findings)
    blockers = reboot_blockers(listed)
    if not blockers:
        return listed
    note = f"no reboot before {' and '.join(blockers)} is solved"
    return tuple(
        replace(one, todo="\n".join(_add_note(step, note) for step in steps_of(one.todo)))
        if not one.blocks_reboot and asks_for_reboot(one.todo)
        else one
        for one in listed
    )


def _add_note(step: str, note: str) -> str:
    return f"{step.partition(_BLOCKED_REBOOT)[0]} ({note})" if asks_for_reboot(step) else step
