"""What lies between two editions: of the catalogue, and of the plans of hosts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosttune.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosttune.engine.catalog import Catalog
    from hosttune.values import Change


@frozen
class ProfileDiff:
    """The rules that a profile gains and loses from one edition to another."""

    profile: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]


@frozen
class DefaultDiff:
    """A parameter whose default is another one."""

    rule: str
    param: str
    before: Any
    after: Any


@frozen
class EditionDiff:
    """All that moving from `before` to `after` changes in profiles and defaults."""

    before: str
    after: str
    profiles: tuple[ProfileDiff, ...]
    defaults: tuple[DefaultDiff, ...]


@frozen
class PlanDiff:
    """The changes that a host's plan loses and gains with the move."""

    host: str
    lost: tuple[Change, ...]
    gained: tuple[Change, ...]


def edition_diff(catalog: Catalog, before: str, after: str) -> EditionDiff:
    one, other = catalog.at(before), catalog.at(after)
    profiles = []
    for name, profile in other.profiles.items():
        old, new = set(one.profiles[name].rules), set(profile.rules)
        if old != new:
            profiles.append(ProfileDiff(name, tuple(sorted(new - old)), tuple(sorted(old - new))))
    defaults = tuple(
        DefaultDiff(rule.id, param.name, param.default, other.rules[rule.id].params[param.name].default)
        for rule in one.rules.values()
        for param in rule.params.values()
        if param.default != other.rules[rule.id].params[param.name].default
    )
    return EditionDiff(before, after, tuple(profiles), defaults)


def plan_diff(host: str, before: Iterable[Change], after: Iterable[Change]) -> PlanDiff:
    """Two plans of one host: what only one of them does."""
    old, new = tuple(before), tuple(after)
    told = [{(one.address, one.after) for one in plan} for plan in (old, new)]
    lost = tuple(one for one in old if (one.address, one.after) not in told[1])
    gained = tuple(one for one in new if (one.address, one.after) not in told[0])
    return PlanDiff(host, lost, gained)
