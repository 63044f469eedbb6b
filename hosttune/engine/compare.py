"""The comparison of one rule's wishes as the policy wants it. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hosttune.resources import wish_kinds
from hosttune.values import Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hosttune.engine.policy import Policy
    from hosttune.resources.base import Context, Wish


def compare(kind: str, wishes: tuple[Wish, ...], context: Context, policy: Policy) -> tuple[Finding, ...]:
    """Compare the wishes of one kind of one rule. Where a subject of them is waived and differs, it is compared by
    itself: what the others write must not hold its value.
    """
    together = wish_kinds()[kind].compare(wishes, context)
    waived = [wish for wish in wishes if policy.waives(wish.rule, wish.subject)]
    differing = {finding.subject for finding in together if finding.verdict is Verdict.DIFFERS}
    if len(waived) in {0, len(wishes)} or not differing & {wish.subject for wish in waived}:
        return together
    others = tuple(wish for wish in wishes if wish not in waived)
    return (*wish_kinds()[kind].compare(others, context), *wish_kinds()[kind].compare(tuple(waived), context))


def worded(findings: Iterable[Finding], wishes: Iterable[Wish]) -> tuple[Finding, ...]:
    """The findings; a difference in the words of its wish, where that has some. What the kind says is evidence then."""
    spoken = [wish for wish in wishes if wish.message or wish.todo or wish.is_fault]
    return tuple(_in_words(finding, spoken) for finding in findings) if spoken else tuple(findings)


def _in_words(finding: Finding, spoken: list[Wish]) -> Finding:
    own = [wish for wish in spoken if finding.subject in {wish.name, wish.subject}]
    if any(wish.is_fault for wish in own) and finding.verdict in {Verdict.DIFFERS, Verdict.ADVICE}:
        finding = replace(finding, is_fault=True)  # also where it is somebody's decision
    if finding.verdict is not Verdict.DIFFERS or not own:
        return finding
    message = "; ".join(dict.fromkeys(wish.message for wish in own if wish.message))
    todo = "; ".join(dict.fromkeys(text for text in (finding.todo, *(wish.todo for wish in own)) if text))
    if not message:
        return replace(finding, todo=todo)
    evidence = (finding.reason, *finding.evidence) if finding.reason else finding.evidence
    return replace(finding, reason=message, evidence=evidence, todo=todo)


def exposed(findings: Iterable[Finding], exposing: Mapping[str, str]) -> list[Finding]:
    """The findings, each change of a rule in `exposing` saying what it weakens, so that it is read before the yes."""
    return [_with_exposure(one, exposing[one.rule]) if one.rule in exposing else one for one in findings]


def _with_exposure(finding: Finding, exposes: str) -> Finding:
    changes = tuple(
        replace(change, reason=f"exposes {exposes}" + (f"; {change.reason}" if change.reason else ""))
        for change in finding.changes
    )
    return replace(finding, changes=changes)
