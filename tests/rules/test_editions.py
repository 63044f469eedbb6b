"""An edition is a promise: the plans of a policy that pins it stay as they are.

`tests/rules/editions.json` holds the digest of the plan of every profile of every edition for every built host.
`./run generate` writes it anew; for an edition that is released that breaks its promise, unless a built host itself has
changed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.actions.examine import examine
from hosttune.engine import edition as editions
from hosttune.engine.catalog import assembled, builtin_catalog
from hosttune.engine.lint import checked_rule
from hosttune.engine.policy import DataMount, Declared, Policy
from hosttune.engine.profile import build_profile
from hosttune.engine.yamlio import load_document
from hosttune.values import Disturbs, Risk
from tests.generated import hold
from tests.hosts.built import BUILT, reader

FOLDER = Path(__file__).resolve().parent
FILE = FOLDER / "editions.json"
CATALOG = builtin_catalog()
POLICY = Policy(
    declared=Declared((DataMount("UUID=d2-7e", "/mnt/scratch"),)), max_risk=Risk.HIGH, disturb=Disturbs.GPU_WORK
)
SHOWN_DIGITS = 16


def digests(edition: str) -> dict[str, dict[str, str]]:
    """The digest of the plan for each profile and built host, in an edition."""
    catalog = CATALOG.at(edition)
    found: dict[str, dict[str, str]] = {}
    for path in BUILT:
        door = reader(path)
        for profile in catalog.profiles:
            policy = replace(POLICY, edition=edition, profile=profile)
            digest = examine(door, catalog, policy).plan(prove=False).digest
            found.setdefault(profile, {})[path.stem] = digest[:SHOWN_DIGITS]
    return found


def test_plans_of_every_edition_stay_as_they_are():
    found = {edition: digests(edition) for edition in editions.EDITIONS}
    hold(FILE, json.dumps(found, indent=1) + "\n")


RULE = """\
id: site-swappiness
title: x
risk: low
disturbs: nothing
since: "0.2"
gain: none
why: x
sources: [x]
params:
  value: {type: int, default: 1, was: {2026.1: 20}, help: the value}
want:
  - {sysctl: vm.swappiness, at_most: "{{ params.value }}"}
"""
NEW = RULE.replace("site-swappiness", "site-mappings").replace("title:", 'edition: "2026.2"\ntitle:')
PROFILE = """\
id: site
title: x
why: x
rules:
  - site-swappiness
  - site-mappings
  - {rule: storage-fstrim, until: "2026.1"}
  - {rule: memory-max-map-count, from: "2026.2"}
"""


@pytest.fixture
def two(monkeypatch):
    """A catalogue of two editions: a new rule, another default, a rule that left the profile and one that came."""
    monkeypatch.setattr(editions, "EDITIONS", ("2026.1", "2026.2"))
    rules = [
        checked_rule(RULE, "site-swappiness.yaml"),
        checked_rule(NEW.replace("vm.swappiness", "vm.max_map_count"), "site-mappings.yaml"),
    ]
    site = build_profile(load_document(PROFILE, "profiles/site.yaml"))
    return assembled({**CATALOG.rules, **{rule.id: rule for rule in rules}}, {**CATALOG.profiles, "site": site})


def test_pinned_edition_keeps_rules_and_defaults_of_its_day(two):
    old, new = two.at("2026.1"), two.at("")
    assert old.profiles["site"].rules == ("site-swappiness", "storage-fstrim")
    assert new.profiles["site"].rules == ("memory-max-map-count", "site-mappings", "site-swappiness")
    assert old.rules["site-swappiness"].defaults == {"value": 20}
    assert new.rules["site-swappiness"].defaults == {"value": 1}
    assert two.at("2026.2") is two


def test_rule_of_a_later_edition_runs_where_a_policy_names_it(two):
    policy = Policy(profile="site", edition="2026.1", select=("site-mappings",))
    assert "site-mappings" in {rule.id for rule in policy.selected(two.at("2026.1"))}


def test_parameter_has_another_default_where_the_policy_selects_the_rule():
    rule = "storage-tmp-tmpfs"

    def where(policy: Policy, edition: str = "") -> str:
        catalog = CATALOG.at(edition)
        return policy.params_of(catalog.rules[rule], catalog)["where"]

    assert where(Policy()) == "slow-disk"
    assert where(Policy(select=(rule,))) == "anywhere"
    assert where(Policy(select=(rule,), params={rule: {"where": "slow-disk"}})) == "slow-disk"
    assert where(Policy(), "2026.1") == "anywhere"


def test_tmp_in_memory_is_planned_on_any_disk_only_where_it_is_selected():
    door = reader(next(path for path in BUILT if path.stem == "h100-8x-2socket"))

    def touches(policy: Policy) -> bool:
        plan = examine(door, CATALOG.at(policy.edition), policy).plan(prove=False)
        return any(change.rule == "storage-tmp-tmpfs" for change in plan.changes)

    assert not touches(POLICY)
    assert touches(replace(POLICY, select=("storage-tmp-tmpfs",)))
    assert touches(replace(POLICY, edition="2026.1"))
