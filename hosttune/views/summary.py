"""What a plan amounts to: the numbers behind the first line of every report, and the exit
status.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hosttune.engine.decide.plan import after_run, waits_for_reboot
from hosttune.frozen import frozen
from hosttune.values import Activation, HoldKind, Verdict
from hosttune.verdict_words import STATES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from hosttune.values import Change, Finding, Plan, Receipt

OTHER_VENDORS = "gpu-other-vendors"  # the rule about GPUs of others than NVIDIA
# Why a difference stays, in the order of a report: first what passes by itself, then what needs a
# person.
WAITS = (HoldKind.WAITING, HoldKind.BUSY)
NEEDS_LEAVE = (HoldKind.ABOVE_MAX_RISK, HoldKind.DISTURBS)
NOT_SAFE = (HoldKind.REFUSED, HoldKind.CAME_BACK)
OWNED = (HoldKind.OWNED, HoldKind.EDITED, HoldKind.REVERTED)


@frozen
class Summary:
    """Changes of a plan, and the rules of its findings, counted by what would become of them: as
    the headings of a report count them, because subjects come in dozens.
    """

    faults: int  # rules that say that this machine does not do its work, whatever becomes of them
    changes_now: int  # what apply would do; those after a reboot included
    after_drain: int  # rules that wait for running GPU work to end
    after_reboot: int  # changes that take effect at the next boot, and rules that wait for it
    waiting: int  # rules that wait for something else: a remount, a new session
    needs_leave: int  # rules above max_risk or disturb
    irreversible: int  # changes that cannot be undone
    owned: int  # rules where someone else decides
    owners: tuple[str, ...]
    refused: int  # rules that cannot be acted on safely
    # rules that find no fault, and of which something is not known, however many their subjects
    unknown: int
    advice: int
    deferred: int  # rules of which only the machine that runs this image can tell
    waived: int
    orphaned: int  # rules applied once, no longer selected
    ok: int
    not_applicable: int


def rules_in(findings: Iterable[Finding]) -> int:
    """How many rules these findings are of: the number that a report gives, because subjects come
    in dozens.
    """
    return len({finding.rule for finding in findings})


def summarize(plan: Plan) -> Summary:
    held = [finding for finding in plan.findings if finding.hold]
    owned = [finding for finding in held if finding.hold.kind in OWNED]
    waiting = [
        finding
        for finding in held
        if finding.hold.kind is HoldKind.WAITING and not is_fault(finding)
    ]
    for_reboot = [finding for finding in waiting if waits_for_reboot(finding)]
    free = [finding for finding in plan.findings if not finding.hold]
    faulty = {finding.rule for finding in filter(is_fault, plan.findings)}
    return Summary(
        faults=len(faulty),
        changes_now=len(plan.changes),
        after_drain=_count(held, HoldKind.BUSY),
        after_reboot=sum(change.activation is Activation.REBOOT for change in plan.changes)
        + rules_in(for_reboot),
        waiting=rules_in(finding for finding in waiting if not waits_for_reboot(finding)),
        needs_leave=_count(held, *NEEDS_LEAVE),
        irreversible=sum(is_irreversible(change) for change in plan.changes),
        owned=rules_in(owned),
        owners=tuple(
            dict.fromkeys(finding.hold.detail for finding in owned if finding.hold.detail)
        ),
        refused=_count(held, *NOT_SAFE),
        unknown=_count_verdict([one for one in free if one.rule not in faulty], Verdict.UNKNOWN),
        advice=_count_verdict(free, Verdict.ADVICE),
        deferred=_count(held, HoldKind.DEFERRED),
        waived=_count(held, HoldKind.WAIVED),
        orphaned=_count(held, HoldKind.ORPHANED),
        ok=_count_verdict(free, Verdict.OK),
        not_applicable=_count_verdict(free, Verdict.NOT_APPLICABLE),
    )


ASIDE = frozenset({HoldKind.DEFERRED, HoldKind.WAIVED, HoldKind.ORPHANED})  # no one's alarm
# the worst first; the verdicts, and what makes one no one's alarm
FAULT = "fault"
STANDINGS = (
    FAULT, Verdict.DIFFERS.value, Verdict.UNKNOWN.value, Verdict.ADVICE.value,
    HoldKind.DEFERRED.value, HoldKind.ORPHANED.value, HoldKind.WAIVED.value, Verdict.OK.value,
    Verdict.NOT_APPLICABLE.value,
)  # fmt: skip


def name_standing(finding: Finding) -> str:
    """The verdict of a finding, or `fault`, `deferred`, `waived` or `orphaned`: one of
    STANDINGS.
    """
    if finding.hold.kind in ASIDE:
        return finding.hold.kind.value
    return FAULT if finding.is_fault else finding.verdict.value


def is_fault(finding: Finding) -> bool:
    """Whether it says that this machine does not do its work, now or after the next boot, and no
    one accepted that.
    """
    return name_standing(finding) == FAULT


def find_worst(findings: Iterable[Finding]) -> Finding:
    """The finding that a rule with several subjects is judged by."""
    return min(findings, key=lambda finding: STANDINGS.index(name_standing(finding)))


def is_irreversible(change: Change) -> bool:
    return change.reversible.startswith("no")


def counts_for_status(finding: Finding, *, strict: bool) -> bool:
    """Whether a finding makes the exit status 1: a selected rule differs, finds a fault, is unknown
    or waits, and no one waived it, or a waiver expired. What is deferred to the machine that runs
    an image does not: no one can tell it before.
    """
    if finding.hold.kind in ASIDE:
        return False
    return (
        finding.verdict in {Verdict.DIFFERS, Verdict.UNKNOWN}
        or finding.is_fault
        or finding.is_waiver_over
        or (strict and finding.verdict is Verdict.ADVICE)
    )


def exit_status(plan: Plan, *, strict: bool) -> int:
    """Of `check` and `plan`: 0 where nothing counts, else 1."""
    return int(bool(why_status(plan, strict=strict)))


def why_status(plan: Plan, *, strict: bool) -> str:
    """Why `check` and `plan` end with 1, as in `1 fault, 2 rules differ`; nothing where they end
    with 0.
    """
    return _count_causes(
        [finding for finding in plan.findings if counts_for_status(finding, strict=strict)]
    )


def applied_status(plan: Plan, receipt: Receipt) -> int:
    """Of `apply --yes`: 0 all done and verified, 1 something failed, or a difference stays that
    does not just wait.
    """
    return int(bool(why_applied(plan, receipt)))


def why_applied(plan: Plan, receipt: Receipt) -> str:
    """Why `apply --yes` ends with 1; nothing where it ends with 0."""
    left = [
        finding
        for finding in after_run(plan.findings, receipt.faults)
        if is_left_after(finding, plan)
    ]
    failed = f"{len(receipt.failed)} failed" if receipt.failed else ""
    unread = "" if failed or receipt.verified else "not all was read back as planned"
    return ", ".join(filter(None, (failed, unread, _count_causes(left))))


def _count_causes(findings: Collection[Finding]) -> str:
    """How many rules these findings are of, by what they say: the numbers of the first line."""
    faulty = {finding.rule for finding in findings if is_fault(finding)}
    pairs = {
        (one.rule, cause)
        for one in findings
        for cause in _name_causes(one, is_faulty=one.rule in faulty)
    }
    counts = Counter(cause for _, cause in pairs)
    return ", ".join(
        f"{counts[one]} {words[counts[one] > 1]}" for one, words in _CAUSES.items() if counts[one]
    )


_CAUSES = {
    FAULT: ("fault", "faults"),
    "differs": ("rule to change", "rules to change"),
    **{
        state: (STATES[state].phrase,) * 2
        for state in ("refused", "left alone", "waits", "unknown")
    },
    "waiver": ("waiver is over", "waivers are over"),
    "advice": ("piece of advice", "pieces of advice"),
}


def _name_causes(finding: Finding, *, is_faulty: bool) -> tuple[str, ...]:
    """The words of _CAUSES that it counts for; of a fault also what would become of it.
    `is_faulty`: its rule is.
    """
    if not is_fault(finding):
        return () if is_faulty and _name_cause(finding) == "unknown" else (_name_cause(finding),)
    is_held = bool(finding.hold) and finding.hold.kind not in WAITS
    return (
        FAULT,
        *([_name_cause(finding)] if is_held or (finding.changes and not finding.hold) else []),
    )


def _name_cause(finding: Finding) -> str:
    """One of the words of _CAUSES; not whether it is a fault."""
    if finding.hold.kind in WAITS:
        return "waits"
    if finding.hold:
        return "refused" if finding.hold.kind in NOT_SAFE else "left alone"
    if finding.verdict in {Verdict.DIFFERS, Verdict.UNKNOWN}:
        return str(finding.verdict.value)
    return "waiver" if finding.is_waiver_over else "advice"


def is_left_after(finding: Finding, plan: Plan) -> bool:
    """Whether a difference stays although the plan was done, for another reason than waiting."""
    if not counts_for_status(finding, strict=False) or finding.hold.kind in WAITS:
        return False
    done = set(plan.changes)
    needs_person = bool(finding.hold) or finding.verdict in {Verdict.UNKNOWN, Verdict.ADVICE}
    needs_person = needs_person or (finding.is_fault and not finding.changes)
    return needs_person or not all(change in done for change in finding.changes)


def _count(findings: list[Finding], *kinds: HoldKind) -> int:
    return rules_in(finding for finding in findings if finding.hold.kind in kinds)


def _count_verdict(findings: list[Finding], verdict: Verdict) -> int:
    return rules_in(finding for finding in findings if finding.verdict is verdict)


def is_reach_short(rules: Collection[str]) -> bool:
    """Whether these rules, those that apply, are of a host with GPUs of others than NVIDIA."""
    return OTHER_VENDORS in rules


def reach_text(rules: Collection[str]) -> str:
    """How far these rules, those that apply, reach on a host with GPUs of others than NVIDIA; else
    nothing.
    """
    if not is_reach_short(rules):
        return ""
    return (
        "Of GPUs of AMD and Intel only driver, memory and failed resets are looked at: the other "
        "rules for GPUs are for NVIDIA's. Those for the host (memory, storage, processors, "
        "network, limits) count here, too."
    )
