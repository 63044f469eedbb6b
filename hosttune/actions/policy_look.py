"""A policy on several hosts: which section fits which, what holds there, and what of it does
nothing on any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosttune.actions.examine import examine
from hosttune.engine.policy.effect import find_likeliest, without_effect
from hosttune.engine.policy.file import PATH, load_policy
from hosttune.errors import Fault, HosttuneError
from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.engine.policy.policy import Policy
    from hosttune.engine.rules.catalog import Catalog
    from hosttune.host.door import Reader


@frozen
class PlacedPolicy:
    """The policy as it holds on one host. `rules` is how many run there."""

    name: str  # of the record, the root, or the host
    policy: Policy
    rules: int
    digest: str  # of the policy, with the custom rules that run there
    idle: tuple[Fault, ...]


def place_policy(reader: Reader, catalog: Catalog, file: str | None) -> PlacedPolicy:
    """Evaluate the policy on one host; nothing is changed. Raises BadInput for its faults,
    HosttuneError for none.
    """
    policy = load_policy(reader, catalog, file)
    if not policy.source:
        raise HosttuneError(
            f"there is no {PATH} on {reader.name}",
            hint="hosttune init shows a first one; to check another file: hosttune policy FILE",
        )
    session = examine(reader, catalog, policy)
    idle = without_effect(policy, session.catalog, session.plan(prove=False).findings)
    return PlacedPolicy(
        reader.name, policy, len(session.selected), policy.digest_with(session.selected), idle
    )


def list_remarks(placed: tuple[PlacedPolicy, ...]) -> tuple[Fault, ...]:
    """What does nothing on any of the hosts on which it holds, in file order."""
    found: dict[object, Fault] = {}
    for one in placed:
        for fault in one.idle:
            holders = [
                other
                for other in placed
                if any(statement.where == fault.where for statement in other.policy.statements)
            ]
            if all(any(idle.where == fault.where for idle in other.idle) for other in holders):
                found.setdefault(fault.where, fault)
    if len(placed) > 1:
        hosts = [one.policy.host for one in placed]
        # Each host may have a policy of its own, so sections go by their place, not by a number.
        every = [section for one in placed for section in one.policy.sections]
        fitting = {section.where for section in every if section.fits}
        for section in every:
            if section.where not in fitting:
                near = next((host for host in hosts if find_likeliest(host, [section.pattern])), "")
                hint = f"{near} is nearly called so" if near else ""
                found[section.where] = Fault(
                    section.where, f"{section.pattern} fits none of these hosts", hint
                )
        # Each host has its own fault for that, and what was just added says it of all hosts
        # together.
        found = {
            where: fault
            for where, fault in found.items()
            if "no section for hosts fits" not in fault.message
        }
    return tuple(sorted(found.values(), key=lambda fault: (fault.where.line, fault.where.field)))
