"""Profiles: named sets of rules for one kind of host, each an extension of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from hosttune.frozen import frozen

if TYPE_CHECKING:
    from hosttune.engine.rules.document import YamlFile


@frozen
class Profile:
    """A profile as its file says it, and with all that it extends: `rules` and `params` hold
    everything.
    """

    id: str
    title: str
    why: str
    rules: tuple[str, ...]
    extends: str = ""
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    own_params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def build_profile(document: YamlFile) -> Profile:
    """The profile of a file, not yet with what it extends."""
    data = document.data
    own = {rule: dict(values) for rule, values in data.get("params", {}).items()}
    return Profile(
        data["id"],
        data["title"],
        data.get("why", ""),
        (),
        data.get("extends", ""),
        {},
        tuple(data.get("rules", ())),
        tuple(data.get("without", ())),
        own,
    )


def resolve_profiles(profiles: Mapping[str, Profile]) -> dict[str, Profile]:
    """Every profile with the rules and parameters of all that it extends."""
    done: dict[str, Profile] = {}

    def resolve(name: str) -> Profile:
        if name not in done:
            own = profiles[name]
            base = resolve(own.extends) if own.extends else None
            # `without` comes last, so that a profile can leave out what it inherits.
            rules = {*(base.rules if base else ()), *own.added} - {*own.left_out}
            params = {rule: dict(values) for rule, values in (base.params if base else {}).items()}
            for rule, values in own.own_params.items():
                params[rule] = {**params.get(rule, {}), **values}
            done[name] = replace(own, rules=tuple(sorted(rules)), params=params)
        return done[name]

    return {name: resolve(name) for name in sorted(profiles)}
