"""What a policy says and nothing comes of on a host: a typo in it would otherwise pass for a
decision. Pure.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from hosttune.engine.policy.policy import suggest_nearest
from hosttune.errors import Fault
from hosttune.values import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.engine.policy.policy import Policy, Statement
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.values import Finding

_ALIKE = 0.5  # of SequenceMatcher.ratio: `h1OO-` and `h100-` have 0.6
_MOST_NAMED = 100  # of the subjects that a fault names: there may be thousands, for each waiver
_DOES = {"select": "selects", "waiver": "waives", "params": "sets"}


def without_effect(
    policy: Policy, catalog: Catalog, findings: Iterable[Finding], *, everything: bool = True
) -> tuple[Fault, ...]:
    """A fault for each part of the policy in force that does nothing on the host of these findings,
    in file order.

    `everything` includes what has no effect and harms no one: a rule switched off that does not run
    anyway, one selected that runs anyway.
    """
    selected = {rule.id for rule in policy.select_rules(catalog)}
    subjects: dict[str, set[str]] = {}
    # rules that say nothing of single subjects here, so that no name can be called wrong
    silent = set()
    for finding in findings:
        subjects.setdefault(finding.rule, set()).add(finding.subject)
        if finding.verdict in {Verdict.UNKNOWN, Verdict.NOT_APPLICABLE}:
            silent.add(finding.rule)
    found = [fault] if (fault := no_section(policy)) else []
    for one in policy.statements:
        if policy.sole and one.rule not in policy.sole:
            continue
        # Without all subjects no name can be called wrong: the one that is meant may be among those
        # that were not read.
        own = subjects.get(one.rule, set()) if one.rule not in silent else set()
        message, hint = _find_effect(one, policy, catalog, selected, own)
        if message and (everything or not _is_idle(one, policy)):
            found.append(Fault(one.where, message, hint))
    return tuple(sorted(found, key=lambda fault: fault.where.line))


def _is_idle(one: Statement, policy: Policy) -> bool:
    """Whether it harms no one that nothing comes of it: what was meant is so anyway."""
    return one.key == "ignore" or (one.key == "select" and one.rule not in policy.ignore)


def _find_effect(
    one: Statement, policy: Policy, catalog: Catalog, selected: set[str], subjects: set[str]
) -> tuple[str, str]:  # fmt: skip
    """Why this does nothing, and what was meant perhaps; empty texts where it does something, or
    may.
    """
    # Of the profile in force here: a section of the file may name another one.
    of_profile = catalog.profiles[policy.profile].rules
    wanted = {*of_profile, *policy.select}
    missing = (
        f"{one.rule} does not run here: profile {policy.profile} does not have it, and nothing "
        "selects it"
    )
    if one.key == "ignore":
        return ("", "") if one.rule in wanted else (f"switches nothing off: {missing}", "")
    if one.rule in policy.ignore:
        return (
            f"{_DOES[one.key]} nothing: {one.rule} is off by ignore",
            f"take {one.rule} out of `ignore` to let it run",
        )
    if one.key == "select":
        return (
            (f"{one.rule} is in profile {policy.profile} already", "")
            if one.rule in of_profile
            else ("", "")
        )
    if one.rule not in selected:
        return f"{_DOES[one.key]} nothing: {missing}", f"select: [{one.rule}] lets it run"
    if one.key == "waiver" and one.subject and subjects and not any(map(one.covers, subjects)):
        names = sorted(subjects - {""})[:_MOST_NAMED]
        looks = f"looks at {', '.join(names)}" if names else "has no subjects here"
        return f"waives nothing here: nothing of {one.rule} is called {one.subject}; it {looks}", (
            suggest_nearest(one.subject, names) if names else "leave `subject` away"
        )
    return "", ""


def no_section(policy: Policy) -> Fault | None:
    """The fault of a policy with sections for hosts of which none fits this one."""
    if not policy.sections or any(section.fits for section in policy.sections):
        return None
    near = find_likeliest(policy.host, [section.pattern for section in policy.sections])
    where = next(
        (one.where for one in policy.sections if one.pattern == near), policy.sections[0].where
    )
    return Fault(
        where,
        f"no section for hosts fits this host ({policy.host}): only what is outside of them holds",
        f"{near} nearly fits" if near else "",
    )


def find_likeliest(host: str, patterns: Iterable[str]) -> str:
    """The pattern that was meant for this host perhaps: its plain beginning is nearly that of the
    name.
    """

    def likeness(pattern: str) -> float:
        plain = pattern.partition("*")[0].partition("?")[0].partition("[")[0]
        return (
            SequenceMatcher(None, plain.lower(), host[: len(plain)].lower()).ratio()
            if plain
            else 0.0
        )

    best = max(patterns, key=likeness, default="")
    return best if best and likeness(best) >= _ALIKE else ""
