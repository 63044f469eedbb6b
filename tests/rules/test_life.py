"""What becomes of an applied rule that is no longer selected, is waived, replaced or renamed;
subjects waived alone.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.actions.apply import apply
from hosttune.actions.examine import examine
from hosttune.actions.undo import plan_undo, undo
from hosttune.engine.decide.leftovers import find_orphans
from hosttune.engine.policy.policy import Policy
from hosttune.engine.policy.waiver import Waiver
from hosttune.engine.rules.catalog import Catalog, assemble_catalog, builtin_catalog
from hosttune.engine.rules.lint import checked_rule
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources.base import Applied
from hosttune.values import ABSENT, Address, FileValue, Finding, HoldKind, Risk, Verdict
from tests.hosts.built import HOSTS, reader
from tests.rules.proof import failing

H100 = HOSTS / "h100-8x-2socket.json"
CATALOG = builtin_catalog()
OLD = "/etc/sysctl.d/60-hosttune-memory-swappiness.conf"
ONLY = Policy(
    today="2026-01-01", ignore=tuple({*CATALOG.profiles["base"].rules} - {"memory-swappiness"})
)
SITE = """\
id: site-swappiness
title: Swap nearly never
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: because
sources: [handbook]
want:
  - {sysctl: vm.swappiness, at_most: 1}
"""


def with_rule(text: str, name: str = "site-swappiness") -> Catalog:
    rule = checked_rule(text, f"{name}.yaml")
    return assemble_catalog({**CATALOG.rules, rule.id: rule}, CATALOG.profiles)


def applied() -> Overlay:
    host = Overlay(reader(H100))
    session = examine(host, CATALOG, ONLY)
    apply(session, host, session.plan())
    assert host.read("/proc/sys/vm/swappiness") == b"10\n"
    return host


def left_on(host: Overlay, policy: Policy, catalog: Catalog = CATALOG) -> list[tuple[str, str]]:
    plan = examine(host, catalog, policy).plan()
    assert plan.changes == ()
    assert host.read("/proc/sys/vm/swappiness") == b"10\n"
    assert isinstance(host.read(OLD), bytes)
    return [(f.rule, f.reason) for f in plan.findings if f.hold.kind is HoldKind.ORPHANED]


WAIVED = replace(ONLY, waivers=(Waiver("memory-swappiness", "asked by the DBA"),))
OFF = replace(ONLY, ignore=(*ONLY.ignore, "memory-swappiness"))
STAYS = "it stays until it is undone"


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (OFF, "off by the policy now"),
        (
            replace(ONLY, profile="k8s-node", ignore=CATALOG.profiles["k8s-node"].rules),
            "no longer selected",
        ),
        (WAIVED, "waived now"),
    ],
    ids=["ignored", "another profile", "waived"],
)
def test_applied_rule_that_is_not_asked_for_stays_and_is_reported(policy, why):
    assert left_on(applied(), policy) == [("memory-swappiness", f"applied earlier, {why}: {STAYS}")]


def test_undo_of_the_rule_takes_back_what_stayed():
    host = applied()
    session = examine(host, CATALOG, OFF)
    undo(session, host, plan_undo(session, rule="memory-swappiness"))
    assert host.read("/proc/sys/vm/swappiness") == b"60\n"
    assert host.read(OLD) is ABSENT
    assert examine(host, CATALOG, OFF).plan().findings == ()


def test_applied_rule_that_is_not_known_any_more_stays_and_is_reported():
    fewer = Catalog({name: rule for name, rule in CATALOG.rules.items() if name == "storage-fstrim"}, {
        "base": replace(CATALOG.profiles["base"], rules=())
    })  # fmt: skip
    assert left_on(applied(), Policy(), fewer) == [
        ("memory-swappiness", f"applied earlier, of a rule that there is no more: {STAYS}")
    ]


def test_replaced_rule_stays_and_says_what_stands_in_the_way_until_it_is_undone():
    host = applied()
    catalog = with_rule(SITE + "replaces: memory-swappiness\n")
    policy = replace(ONLY, ignore=tuple({*catalog.profiles["base"].rules} - {"site-swappiness"}))
    assert left_on(host, policy, catalog) == [
        ("memory-swappiness", f"applied earlier, replaced by site-swappiness: {STAYS}")
    ]
    (held,) = [
        f for f in examine(host, catalog, policy).plan().findings if f.rule == "site-swappiness"
    ]
    assert held.hold.kind is HoldKind.OWNED
    assert held.todo == "undo it first: sudo hosttune undo --rule memory-swappiness --yes"
    session = examine(host, catalog, policy)
    undo(session, host, plan_undo(session, rule="memory-swappiness"))
    session = examine(host, catalog, policy)
    apply(session, host, session.plan())
    assert host.read("/proc/sys/vm/swappiness") == b"1\n"
    assert examine(host, catalog, policy).plan().changes == ()


@pytest.mark.parametrize("name", ["memory-swappiness", "memory-swap"])
def test_renamed_rule_is_no_leftover_and_is_undone_by_either_name(name):
    host = applied()
    text = SITE.replace("site-swappiness", "memory-swap").replace("at_most: 1", "at_most: 10")
    rule = checked_rule(text + "renamed_from: [memory-swappiness]\n", "memory-swap.yaml")
    others = {name: one for name, one in CATALOG.rules.items() if name != "memory-swappiness"}
    catalog = assemble_catalog({**others, rule.id: rule}, CATALOG.profiles)
    policy = replace(ONLY, ignore=tuple({*catalog.profiles["base"].rules} - {"memory-swap"}))
    assert left_on(host, policy, catalog) == []
    session = examine(host, catalog, policy)
    undo(session, host, plan_undo(session, rule=name))
    assert host.read("/proc/sys/vm/swappiness") == b"60\n"


def test_renamed_rule_that_wants_another_value_says_what_clears_its_old_file():
    host = applied()
    rule = checked_rule(
        SITE.replace("site-swappiness", "memory-swap") + "renamed_from: [memory-swappiness]\n",
        "memory-swap.yaml",
    )
    others = {name: one for name, one in CATALOG.rules.items() if name != "memory-swappiness"}
    catalog = assemble_catalog({**others, rule.id: rule}, CATALOG.profiles)
    policy = replace(ONLY, ignore=tuple({*catalog.profiles["base"].rules} - {"memory-swap"}))
    (held,) = [f for f in examine(host, catalog, policy).plan().findings if f.rule == "memory-swap"]
    assert held.todo == "undo it first: sudo hosttune undo --rule memory-swappiness --yes"


def test_waived_rule_that_differs_is_held_with_the_reason_and_changes_nothing():
    host = Overlay(reader(H100))
    plan = examine(host, CATALOG, WAIVED).plan()
    (found,) = [f for f in plan.findings if f.rule == "memory-swappiness"]
    assert (found.verdict, found.hold.kind, found.hold.detail) == (
        Verdict.DIFFERS,
        HoldKind.WAIVED,
        "because asked by the DBA",
    )
    assert plan.changes == ()


TWO = SITE.replace(
    "  - {sysctl: vm.swappiness, at_most: 1}\n",
    "  - {sysctl: vm.swappiness, at_most: 1}\n  - {sysctl: vm.max_map_count, at_least: 2000000}\n",
)


@pytest.mark.parametrize("subject", ["vm.swappiness", "vm.max_map_count"])
def test_subject_that_is_waived_is_not_written_and_the_others_are(subject):
    catalog = with_rule(TWO)
    policy = Policy(
        today="2026-01-01",
        select=("site-swappiness",),
        ignore=CATALOG.profiles["base"].rules,
        waivers=(Waiver("site-swappiness", "so", subject=subject),),
    )
    host = Overlay(reader(H100))
    session = examine(host, catalog, policy)
    plan = session.plan()
    assert failing(plan) == []
    other = ({"vm.swappiness", "vm.max_map_count"} - {subject}).pop()
    assert [str(change.address) for change in plan.changes] == [
        f"sysctl:{other}",
        "file:/etc/sysctl.d/60-hosttune-site-swappiness.conf",
    ]
    assert f"{subject} =".encode() not in plan.changes[1].after.content
    apply(session, host, plan)
    again = examine(host, catalog, policy).plan()
    assert again.changes == ()
    assert [f.subject for f in again.findings if f.hold.kind is HoldKind.WAIVED] == [subject]


def test_rule_that_exposes_security_waits_for_leave_and_says_so_before_the_yes():
    catalog = with_rule(SITE.replace("risk: low", "risk: high") + "exposes: security\n")
    policy = Policy(select=("site-swappiness",), ignore=CATALOG.profiles["base"].rules)
    held = examine(reader(H100), catalog, policy).plan()
    assert [f.hold.kind for f in held.findings] == [HoldKind.ABOVE_MAX_RISK]
    plan = examine(reader(H100), catalog, replace(policy, max_risk=Risk.HIGH)).plan()
    assert {change.reason.partition(";")[0] for change in plan.changes} == {"exposes security"}


def test_edit_of_somebody_else_is_not_taken_for_a_leftover():
    host = applied()
    host.files[OLD] = FileValue(b"vm.swappiness = 42\n")
    plan = examine(host, CATALOG, ONLY).plan()
    assert [f.hold.kind for f in plan.findings if f.rule == "memory-swappiness"] == [
        HoldKind.EDITED
    ]


def test_applied_rule_whose_traces_are_gone_is_no_leftover():
    host = applied()
    host.remove(OLD, expected=host.read(OLD))
    host.files["/proc/sys/vm/swappiness"] = ABSENT
    plan = examine(host, CATALOG, OFF).plan()
    assert plan.findings == ()


@pytest.mark.parametrize(("after", "present", "is_left"), [
    ("10", "10", True), ("10", "60", True), ("10", ABSENT, False), (ABSENT, "60", False), (ABSENT, ABSENT, False),
])  # fmt: skip
def test_leftover_is_what_was_put_there_and_still_is_not_what_was_taken_away(
    after, present, is_left
):
    address = Address("sysctl", "vm.swappiness")
    ledger = {address: Applied("run", "memory-swappiness", after)}
    assert bool(find_orphans(ledger, CATALOG, OFF, (), {address: present})) is is_left


def test_rule_that_still_applies_to_one_subject_is_no_leftover():
    address = Address("sysctl", "vm.swappiness")
    ledger, present = {address: Applied("run", "memory-swappiness", "10")}, {address: "10"}
    gone = Finding("memory-swappiness", "/a", Verdict.NOT_APPLICABLE)
    (left,) = find_orphans(ledger, CATALOG, ONLY, (gone,), present)
    assert left.reason == f"applied earlier, does not apply any more: {STAYS}"
    assert (
        find_orphans(
            ledger, CATALOG, ONLY, (gone, Finding("memory-swappiness", "/b", Verdict.OK)), present
        )
        == ()
    )
