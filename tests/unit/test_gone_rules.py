"""A policy that names a rule that was taken out holds for the whole fleet, and its owner is informed."""

from __future__ import annotations

import pytest

from hosttune.engine.catalog import builtin_catalog
from hosttune.engine.gone import GONE
from hosttune.engine.policy import Policy
from hosttune.engine.policy_effect import without_effect
from hosttune.engine.policy_file import build_policy
from hosttune.engine.yamlio import load_document
from hosttune.errors import BadInput, HosttuneError

CATALOG = builtin_catalog()
POLICY = """\
select: [framework-modern-tools, framework-idle-gpu-watch, gpu-dcgm]
ignore: [cpu-irqbalance, {rule: cpu-irqbalance, subject: eth0, reason: x}]
no_drain_for: [cpu-irqbalance]
params:
  framework-modern-tools: {python: /usr/bin/python3}
hosts:
  "gpu-*":
    ignore: [framework-modern-tools]
"""


def test_policy_that_names_rules_taken_out_holds_with_a_note_for_each():
    policy = build_policy(load_document(POLICY, "policy.yaml"), CATALOG, "2026-11-27", "gpu-1")
    assert (policy.select, policy.ignore, policy.waivers, policy.params) == (("gpu-dcgm",), (), (), {})
    assert not policy.drains.no_drain_for
    assert {one.rule for one in policy.said} == {"gpu-dcgm"}
    assert [one.partition(":")[0] for one in policy.notes] == ["policy.yaml"] * 3
    assert all(any(f"{name} was taken out: {why}" in note for note in policy.notes) for name, why in GONE.items())
    assert "gpu-dcgm" in {rule.id for rule in policy.selected(CATALOG)}
    assert not [fault for fault in without_effect(policy, CATALOG, ()) if "taken out" in fault.message]


def test_name_that_never_was_a_rule_is_still_a_fault():
    with pytest.raises(BadInput, match="no rule is called cpu-irqbalanc"):
        build_policy(load_document("ignore: [cpu-irqbalanc]\n", "policy.yaml"), CATALOG, "2026-11-27", "gpu-1")


def test_command_line_goes_on_without_a_rule_taken_out_unless_it_asks_for_that_one():
    policy = Policy().overridden(CATALOG, ignore=("cpu-irqbalance",), select=("framework-modern-tools",))
    assert (policy.ignore, policy.select) == ((), ())
    assert any("cpu-irqbalance was taken out" in note for note in policy.notes)
    with pytest.raises(HosttuneError, match="cpu-irqbalance was taken out"):
        Policy().overridden(CATALOG, only=("cpu-irqbalance",))


def test_rule_taken_out_is_in_no_catalogue_and_no_profile():
    assert not {*GONE} & {*CATALOG.rules}
    assert not any({*GONE} & {*profile.rules} for profile in CATALOG.profiles.values())


@pytest.mark.parametrize("rule", ["kernel-init-on-alloc", "limits-pid-max", "memory-dirty-limits"])
def test_rule_that_ended_runs_in_its_edition_and_where_it_is_selected(rule):
    old = CATALOG.at("2026.1")
    assert any(rule in profile.rules for profile in old.profiles.values())
    assert not any(rule in profile.rules for profile in CATALOG.profiles.values())
    assert rule in {one.id for one in Policy(select=(rule,)).selected(CATALOG)}
