"""Whether a host waits for a boot, as the findings tell it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.engine.decide.plan import waits_for_reboot
from hosttune.frozen import frozen
from hosttune.resources import wish_kinds
from hosttune.values import Activation, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.engine.rules.rule import Rule
    from hosttune.values import Finding, Plan


@frozen
class RebootAnswer:
    """Yes, no, or not known (None), which a boot that would make things worse is, too; and why."""

    required: bool | None
    head: str
    reasons: tuple[str, ...] = ()


def reboot_answer(findings: Iterable[Finding], rules: Iterable[Rule]) -> RebootAnswer:
    """Whether this host waits for a boot; `rules` are those that the findings are of."""
    listed = tuple(findings)
    # A boot that makes it worse comes before one that is needed. A script that asks must not read
    # yes.
    if blocks := _list_reasons(one for one in listed if one.blocks_reboot):
        return RebootAnswer(None, "no reboot before this is solved:", blocks)
    if waits := _list_reasons(filter(waits_for_reboot, listed)):
        return RebootAnswer(True, "a reboot is required:", waits)
    # An unknown of any other rule cannot hide a reboot, and would make the answer useless on most
    # hosts.
    telling = {rule.id for rule in rules if can_wait(rule)}
    unknown = _list_reasons(
        one
        for one in listed
        if one.rule in telling and not one.hold and one.verdict is Verdict.UNKNOWN
    )
    if unknown:
        return RebootAnswer(None, "it is not known whether a reboot is required:", unknown)
    return RebootAnswer(False, "no reboot is required")


def boots_of(plan: Plan) -> int:
    """How often an apply boots this host until nothing waits: once for what takes effect at a boot,
    and once more after a driver, whose settings can be made when it runs.
    """
    waits = any(change.activation is Activation.REBOOT for change in plan.changes) or any(
        map(waits_for_reboot, plan.findings)
    )
    return waits + (waits and any(change.address.kind == "package-set" for change in plan.changes))


def can_wait(rule: Rule) -> bool:
    """Whether what this rule sets up, or finds, may wait for a boot."""
    kinds = wish_kinds()
    return any(Activation.REBOOT in kinds[wish.kind].activations for wish in rule.want) or any(
        one.waits_for_reboot for one in rule.expect
    )


def _list_reasons(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(
        f"{one.rule}: {one.subject + ': ' if one.subject else ''}{one.reason or one.hold}"
        for one in findings
    )
