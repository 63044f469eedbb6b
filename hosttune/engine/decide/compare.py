"""The comparison of one rule's wishes as the policy wants it, in the rule's own words. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.errors import HosttuneError
from hosttune.facts.base import UnknownFact
from hosttune.resources import wish_kinds
from hosttune.values import Finding, Verdict, join_steps

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.rule import Rule
    from hosttune.resources.base import Context, Wish


def compare(rule: Rule, wishes: Sequence[Wish], context: Context, policy: Policy) -> list[Finding]:
    """What is found of the wishes of a rule, kind by kind; a kind that needs what could not be read
    is unknown.
    """
    findings: list[Finding] = []
    # A kind that cannot be compared is unknown by itself. What the other kinds of the rule found
    # stays in the report.
    for kind in dict.fromkeys(wish.kind for wish in wishes):
        try:
            findings += _compare_kind(
                kind, tuple(wish for wish in wishes if wish.kind == kind), context, policy
            )
        except UnknownFact as error:
            findings.append(Finding(rule.id, "", Verdict.UNKNOWN, reason=error.reason))
        except HosttuneError as error:  # a template that does not take the values of this rule
            findings.append(
                Finding(rule.id, "", Verdict.UNKNOWN, reason=error.message, todo=error.hint)
            )
    # subject or name -> the wishes that say something of it
    spoken: dict[str, dict[int, Wish]] = {}
    for number, wish in enumerate(wishes):
        if wish.message or wish.todo or wish.is_fault:
            for called in (wish.name, wish.subject):
                spoken.setdefault(called, {})[number] = wish
    return [
        _expose(_put_in_words(finding, spoken.get(finding.subject, {}).values()), rule.exposes)
        for finding in findings
    ]


def _compare_kind(
    kind: str, wishes: tuple[Wish, ...], context: Context, policy: Policy
) -> tuple[Finding, ...]:
    """Where a subject of the wishes is waived and differs, it is compared by itself: what the
    others write must not hold its value.
    """
    together = wish_kinds()[kind].compare(wishes, context)
    waived = [wish for wish in wishes if policy.waives(wish.rule, wish.subject)]
    differing = {finding.subject for finding in together if finding.verdict is Verdict.DIFFERS}
    # Compared by themselves only where it matters: wishes that share a drop-in are otherwise one
    # change.
    if len(waived) in {0, len(wishes)} or not differing & {wish.subject for wish in waived}:
        return together
    others = tuple(wish for wish in wishes if wish not in waived)
    return (
        *wish_kinds()[kind].compare(others, context),
        *wish_kinds()[kind].compare(tuple(waived), context),
    )


def _put_in_words(finding: Finding, own: Collection[Wish]) -> Finding:
    """A difference in the words of its wishes, where these have some. What the kind says is
    evidence then.
    """
    if any(wish.is_fault for wish in own) and finding.verdict in {Verdict.DIFFERS, Verdict.ADVICE}:
        finding = replace(finding, is_fault=True)  # also where it is someone's decision
    if finding.verdict is not Verdict.DIFFERS or not own:
        return finding
    message = "; ".join(dict.fromkeys(wish.message for wish in own if wish.message))
    todo = join_steps((finding.todo, *(wish.todo for wish in own)))
    if not message:
        return replace(finding, todo=todo)
    evidence = (finding.reason, *finding.evidence) if finding.reason else finding.evidence
    return replace(finding, reason=message, evidence=evidence, todo=todo)


def _expose(finding: Finding, exposes: str) -> Finding:
    """Each change says what its rule weakens, so that it is read before the yes."""
    if not exposes or not finding.changes:
        return finding
    changes = (
        replace(
            change, reason=f"exposes {exposes}" + (f"; {change.reason}" if change.reason else "")
        )
        for change in finding.changes
    )
    return replace(finding, changes=tuple(changes))
