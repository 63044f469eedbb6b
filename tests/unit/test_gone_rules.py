"""A policy that names a rule that was taken out, or an edition, holds for the whole fleet, and its
owner is informed.
"""

from __future__ import annotations

import pytest

from hosttune.engine.policy.effect import without_effect
from hosttune.engine.policy.file import build_policy
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.rules.gone import GONE
from hosttune.engine.rules.lint import checked_rule, lint_faults
from hosttune.engine.rules.yamlio import load_document
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
RULE = """\
id: site-a
title: x
risk: low
disturbs: nothing
since: "0.2"
gain: none
why: x
sources: [x]
params:
  value: {type: int, default: 1, was: {2026.1: 20}, help: the value}
want: [{sysctl: vm.swappiness, at_most: "{{ params.value }}"}]
"""


def test_policy_that_names_rules_taken_out_holds_with_a_note_for_each():
    policy = build_policy(load_document(POLICY, "policy.yaml"), CATALOG, "2026-11-27", "gpu-1")
    assert (policy.select, policy.ignore, policy.waivers, policy.params) == (
        ("gpu-dcgm",),
        (),
        (),
        {},
    )
    assert not policy.drains.no_drain_for
    assert {one.rule for one in policy.statements} == {"gpu-dcgm"}
    assert [one.partition(":")[0] for one in policy.notes] == ["policy.yaml"] * 3
    assert all(
        any(f"{name} was taken out: {why}" in note for note in policy.notes)
        for name, why in GONE.items()
    )
    assert "gpu-dcgm" in {rule.id for rule in policy.select_rules(CATALOG)}
    assert not [
        fault for fault in without_effect(policy, CATALOG, ()) if "taken out" in fault.message
    ]


def test_name_that_never_was_a_rule_is_still_a_fault():
    with pytest.raises(BadInput, match="no rule is called cpu-irqbalanc"):
        build_policy(
            load_document("ignore: [cpu-irqbalanc]\n", "policy.yaml"),
            CATALOG,
            "2026-11-27",
            "gpu-1",
        )


def test_command_line_goes_on_without_a_rule_taken_out_unless_it_asks_for_that_one():
    policy = Policy().overridden(
        CATALOG, ignore=("cpu-irqbalance",), select=("framework-modern-tools",)
    )
    assert (policy.ignore, policy.select) == ((), ())
    assert any("cpu-irqbalance was taken out" in note for note in policy.notes)
    with pytest.raises(HosttuneError, match="cpu-irqbalance was taken out"):
        Policy().overridden(CATALOG, only=("cpu-irqbalance",))


def test_rule_taken_out_is_in_no_catalogue_and_no_profile():
    assert not {*GONE} & {*CATALOG.rules}
    assert not any({*GONE} & {*profile.rules} for profile in CATALOG.profiles.values())


@pytest.mark.parametrize("rule", ["kernel-init-on-alloc", "limits-pid-max", "memory-dirty-limits"])
def test_rule_that_left_the_profiles_runs_where_it_is_selected(rule):
    assert not any(rule in profile.rules for profile in CATALOG.profiles.values())
    assert rule in {one.id for one in Policy(select=(rule,)).select_rules(CATALOG)}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("profile: base\nedition: '2026.1'\n", [2]),
        ("edition: 2026.2\n", [1]),
        (
            "edition: latest\nhosts:\n  gpu-*:\n    edition: '2026.1'\n  other:\n    edition: '2026.1'\n",
            [1, 4],
        ),
        ("profile: base\n", []),
    ],
)
def test_edition_of_a_policy_does_nothing_and_a_note_names_its_line(text, lines):
    policy = build_policy(load_document(text, "policy.yaml"), CATALOG, "2026-11-27", "gpu-1")
    assert policy.select_rules(CATALOG) == Policy().select_rules(CATALOG)
    assert [
        note.partition(": does nothing any more: delete this line")[0] for note in policy.notes
    ] == [f"policy.yaml:{line}: {'hosts.gpu-*.' * (line > 2)}edition" for line in lines]


def test_edition_stays_in_the_digest_of_a_policy_so_that_its_approval_keeps():
    """Digests as hosttune 0.2.0 made them."""

    def digest(text: str) -> str:
        return build_policy(
            load_document(text, "policy.yaml"), CATALOG, "2026-11-27", "gpu-1"
        ).digest[:12]

    assert digest("max_risk: medium\n") == "14f06d28a27a"
    assert digest("edition: '2026.1'\n") == "7bbc5e33fca0"


def test_edition_of_a_custom_rule_stops_no_command_and_lint_names_its_line():
    text = RULE + "edition: '2026.1'\n"
    assert checked_rule(text, "site-a.yaml").defaults == {"value": 1}
    found = lint_faults(load_document(text, "site-a.yaml"))
    assert [str(fault.where) for fault in found] == [
        "site-a.yaml:10: params.value.was",
        "site-a.yaml:12: edition",
    ]
