"""What earlier runs left for rules that no longer ask for it: it stays, and is reported until it is
undone. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.quoting import quote
from hosttune.resources import describe_place
from hosttune.values import ABSENT, Finding, Hold, HoldKind, Verdict

if TYPE_CHECKING:
    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.resources.base import Applied
    from hosttune.values import Address

DROPIN = "60-hosttune-"  # how the name of each file of ours begins; the rule follows


def find_orphans(
    ledger: Mapping[Address, Applied],
    catalog: Catalog,
    policy: Policy,
    findings: Iterable[Finding],
    state: Mapping[Address, object],
) -> tuple[Finding, ...]:
    """A finding for each rule that was applied and does not ask for it any more, with the reason.

    `findings` are those of the selected rules, `state` the present values at the addresses of the
    ledger.
    """
    verdicts: dict[str, set[Verdict]] = {}
    for finding in findings:
        verdicts.setdefault(finding.rule, set()).add(finding.verdict)
    left: dict[str, list[str]] = {}
    for address, applied in sorted(ledger.items()):
        # What was removed, or is gone since, leaves nothing. What cannot be read may be there
        # still.
        if applied.after is not ABSENT and state.get(address) != ABSENT:
            left.setdefault(applied.rule, []).append(describe_place(address))
    whys = {rule: _why_left(rule, catalog, policy, verdicts) for rule in left}
    return tuple(
        Finding(
            rule,
            "",
            Verdict.ADVICE,
            Hold(HoldKind.ORPHANED),
            f"applied earlier, {whys[rule]}: it stays until it is undone",
            tuple(addresses),
            todo=f"sudo hosttune undo --rule {quote(rule)} --yes",
        )
        for rule, addresses in left.items()
        if whys[rule]
    )


def _why_left(
    rule: str, catalog: Catalog, policy: Policy, verdicts: Mapping[str, set[Verdict]]
) -> str:
    """Why what a rule did is no one's any more; empty where it still asks for it, under whatever
    name.
    """
    now = catalog.current(rule)
    if now not in catalog.rules:
        return "of a rule that there is no more"
    if now != rule and catalog.rules[now].replaces == rule:
        return f"replaced by {now}"
    if now in policy.ignore:
        return "off by the policy now"
    # `now` is a rule of the catalogue here, so only the profile or the command line has left it
    # out.
    if now not in verdicts:
        return "no longer selected"
    if verdicts[now] == {Verdict.NOT_APPLICABLE}:
        return "does not apply any more"
    return "waived now" if policy.waives(now, "") else ""


def rules_left(
    left: Iterable[Finding], ledger: Mapping[Address, Applied], catalog: Catalog
) -> tuple[str, ...]:
    """The names of rules whose files stay: those that no one asks for, and former names."""
    former = (
        applied.rule for applied in ledger.values() if catalog.current(applied.rule) != applied.rule
    )
    return tuple(sorted({*(finding.rule for finding in left), *former}))


def add_undo_step(finding: Finding, left: Iterable[str]) -> Finding:
    """The finding; where a file that we wrote for one of these rules is against it, how that goes
    away.
    """
    if finding.hold.kind is not HoldKind.OWNED:
        return finding
    rule = next((one for one in left if f"{DROPIN}{one}." in finding.hold.detail), "")
    return (
        replace(finding, todo=f"undo it first: sudo hosttune undo --rule {quote(rule)} --yes")
        if rule
        else finding
    )
