"""Findings that say that a machine does not do its work: what rules declare, and what it means for
who reads them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.actions.apply import apply, reboot_obstacles
from hosttune.actions.examine import examine
from hosttune.actions.undo import plan_undo, undo
from hosttune.engine.decide.passes import add_reboot_notes, merge_findings
from hosttune.engine.decide.plan import waits_for_reboot
from hosttune.engine.fleet.reading import _decode_finding as read_finding
from hosttune.engine.policy.policy import Policy
from hosttune.engine.policy.waiver import Waiver
from hosttune.engine.rules.catalog import load_catalog
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.overlay.simulate import DPKG_STATUS
from hosttune.values import (
    Action,
    Activation,
    Address,
    Change,
    FileValue,
    Finding,
    Hold,
    HoldKind,
    Plan,
    Receipt,
    Stage,
    Verdict,
)
from hosttune.views.page import Page
from hosttune.views.receipt import receipt_report
from hosttune.views.summary import applied_status, counts_for_status, exit_status, name_standing
from tests.unit.fake_reader import FakeReader

RULE = """\
id: site-gpus
title: Every GPU that we bought is there
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: the scheduler sends jobs for eight
sources: [site handbook, chapter 3]
params:
  is_there: {type: bool, default: false, help: whether the GPU is there}
  is_dead: {type: bool, default: true, help: whether it is a fault}
expect:
  - if: params.is_there
    else: a GPU is missing
    do: look at the seat of the card, then reboot
"""
FAULT = Finding(
    "a-fault", "", Verdict.DIFFERS, reason="no GPU computes", is_fault=True, blocks_reboot=True
)


def findings_of(lines, waivers=(), **params):
    reader = FakeReader({"/etc/hosttune/rules.d/site-gpus.yaml": RULE + lines})
    policy = Policy(
        waivers=waivers, today="2026-11-01", params={"site-gpus": params} if params else {}
    )
    catalog = load_catalog(reader)
    found = (
        examine(reader, catalog, replace(policy, sole=("site-gpus",), select=("site-gpus",)))
        .plan()
        .findings
    )
    return [one for one in found if one.rule == "site-gpus"]


@pytest.mark.parametrize(
    ("lines", "params", "verdict", "is_counted"),
    [
        ("", {}, Verdict.ADVICE, False),
        ("    fault: true\n", {}, Verdict.DIFFERS, True),
        ("    fault: false\n", {}, Verdict.ADVICE, False),
        ("    fault: params.is_dead\n", {}, Verdict.DIFFERS, True),
        ("    fault: params.is_dead\n", {"is_dead": False}, Verdict.ADVICE, False),
    ],
)
def test_rule_says_whether_what_it_finds_is_a_fault_or_advice(lines, params, verdict, is_counted):
    (found,) = findings_of(lines, **params)
    assert (found.verdict, found.is_fault, counts_for_status(found, strict=False)) == (
        verdict,
        is_counted,
        is_counted,
    )
    assert counts_for_status(found, strict=True)


def test_fault_that_somebody_accepted_is_nobodys_alarm():
    (found,) = findings_of("    fault: true\n", (Waiver("site-gpus", "it is on order"),))
    assert (name_standing(found), counts_for_status(found, strict=False)) == ("waived", False)


def test_fault_among_the_parts_of_a_subject_makes_it_one_and_is_said_first():
    advice = Finding("a-fault", "", Verdict.ADVICE, reason="it is slow", todo="look")
    (merged,) = merge_findings((advice, FAULT))
    assert (merged.is_fault, merged.blocks_reboot, merged.reason) == (
        True,
        True,
        "no GPU computes; it is slow",
    )


def test_whoever_says_reboot_says_what_comes_before():
    waits = Finding(
        "b-waits",
        "",
        Verdict.DIFFERS,
        Hold(HoldKind.WAITING, "a reboot"),
        todo="reboot when nothing runs",
    )
    other = Finding("c-other", "", Verdict.ADVICE, todo="look at the fans")
    told = add_reboot_notes((FAULT, waits, other))
    assert told[1].todo == "reboot when nothing runs (no reboot before a-fault is solved)"
    assert (told[0], told[2]) == (FAULT, other)
    assert add_reboot_notes((waits, other)) == (waits, other)


def test_receipt_says_what_stays_and_what_must_come_before_the_reboot():
    obstacles = reboot_obstacles((FAULT,))
    receipt = Receipt(
        "",
        "0" * 64,
        (),
        reboot_reasons=("b-waits: host",),
        reboot_obstacles=obstacles,
        faults=(FAULT,),
    )
    text = receipt_report(receipt, Page())
    assert text.startswith("this host: 1 fault (a-fault); nothing to do, nothing touched.")
    assert "No reboot before this is solved\n  a-fault: no GPU computes" in text


def test_report_on_a_fleet_reads_the_flags_of_a_result_and_refuses_others():
    data = {"rule": "a-b", "subject": "", "verdict": "differs", "is_fault": True}
    assert read_finding(data, "x").is_fault
    with pytest.raises(Exception, match="must be true or false"):
        read_finding(data | {"blocks_reboot": "no"}, "x")


WORKS = """\
id: site-works
title: What the site runs finds its setting
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: it starts with the old value otherwise
sources: [site handbook, chapter 4]
expect:
  - if: IF
    else: it cannot work
    fault: true
    blocks_reboot: BLOCKS
    waits_for_reboot: WAITS
"""
SETS = """\
id: site-sets
title: The setting of the site
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: it needs it
sources: [site handbook, chapter 4]
want:
  - sysctl: vm.swappiness
    exactly: 10
"""
SET = "sysctl['vm.swappiness'].number == 10"


def session_on(writer, rules=("site-sets", "site-works")):
    return examine(
        writer, load_catalog(writer), Policy(today="2026-11-01", sole=rules, select=rules)
    )


def host(condition="1 > 2", blocks="false", waits="false"):
    rule = WORKS.replace("IF", condition).replace("BLOCKS", blocks).replace("WAITS", waits)
    files = {
        "/etc/hosttune/rules.d/site-works.yaml": rule,
        "/etc/hosttune/rules.d/site-sets.yaml": SETS,
    }
    kernel = {"/proc/sys/vm/swappiness": "60\n", "/proc/sys/kernel/random/boot_id": "boot\n"}
    return Overlay(FakeReader({**files, **kernel, DPKG_STATUS: ""}, folders=("/etc/sysctl.d",)))


@pytest.mark.parametrize(("fault", "said"), [("false", (False, True)), ("true", (True, True))])
def test_what_makes_a_machine_slower_is_advice_that_says_so(fault, said):
    rule = WORKS.replace("IF", "1 > 2").replace("BLOCKS", "false").replace("WAITS", "false")
    rule = rule.replace("fault: true", f"fault: {fault}\n    impairs: true")
    session = session_on(
        Overlay(FakeReader({"/etc/hosttune/rules.d/site-works.yaml": rule, DPKG_STATUS: ""})),
        ("site-works",),
    )
    assert session.selected[0].tells_health
    assert [(one.is_fault, one.impairs) for one in session.plan().findings] == [said]


@pytest.mark.parametrize(
    ("writer", "status", "first"),
    [
        (host(), 1, "1 fault (site-works); "),
        (host(condition=SET), 0, ""),
        (host(waits=SET), 0, "1 fault (site-works waiting for reboot); "),
    ],
    ids=["stays", "is mended at once", "is mended by the next boot"],
)
def test_apply_judges_a_fault_by_what_it_left(writer, status, first):
    """A fault that the run mends, now or at the next boot, keeps no pipeline from the reboot."""
    session = session_on(writer)
    plan = session.plan()
    assert [one.rule for one in plan.findings if one.is_fault and not waits_for_reboot(one)] == [
        "site-works"
    ]
    receipt = apply(session, writer, plan)
    assert (len(receipt.outcomes) > 0, receipt.failed) == (True, ())
    assert applied_status(plan, receipt) == status
    text = receipt_report(receipt, Page(), left=plan.findings)
    assert text.startswith((f"this host: {first}all ", f"this host: {first}both "))
    waits = first.endswith("reboot); ")
    assert ("site-works: host" in receipt.reboot_reasons) is waits
    left = session_on(writer).plan()
    assert exit_status(left, strict=False) == int(
        bool(first)
    )  # a check before the reboot says that it is dead
    again = apply(session_on(writer), writer, left)
    assert (applied_status(left, again), bool(again.faults)) == (status, bool(first))


def test_undo_says_what_comes_before_the_reboot_as_apply_does():
    writer = host(blocks=SET.replace("10", "60"))
    change = Change(
        Address("sysctl", "vm.swappiness"),
        Action.UPDATE,
        "60",
        "10",
        "site-sets",
        activation=Activation.REBOOT,
    )
    made = apply(
        session_on(writer), writer, Plan("d" * 64, "0", "", "", "", (Stage((change,), ()),), ())
    )
    assert (made.reboot_obstacles, [one.reason for one in made.faults]) == ((), ["it cannot work"])
    session = session_on(writer)
    receipt = undo(session, writer, plan_undo(session))
    assert receipt.reboot_obstacles == ("site-works: it cannot work",)
    text = receipt_report(receipt, Page(), is_undo=True)
    assert "No reboot before this is solved\n  site-works: it cannot work" in text
    assert text.startswith("this host: 1 fault (site-works); the change is undone")


def test_what_waits_does_not_hide_what_just_differs():
    waits = Finding("a-fault", "", Verdict.DIFFERS, Hold(HoldKind.WAITING, "reboot"), is_fault=True)
    (merged,) = merge_findings((waits, FAULT))
    assert not merged.hold


def test_fault_of_a_wish_that_nothing_may_be_done_about_stays_after_a_run_that_did_something_else():
    writer = host()
    rule = (
        SETS.replace("site-sets", "site-works").replace("vm.swappiness", "vm.laptop_mode")
        + "    fault: true\n"
    )
    writer.files["/etc/hosttune/rules.d/site-works.yaml"] = FileValue(
        rule.replace("risk: low", "risk: high").encode()
    )
    writer.files["/proc/sys/vm/laptop_mode"] = FileValue(b"0\n")
    session = session_on(writer)
    plan = session.plan()
    assert {change.rule for change in plan.changes} == {"site-sets"}
    receipt = apply(session, writer, plan)
    assert [one.rule for one in receipt.faults] == ["site-works"]
    assert applied_status(plan, receipt) == 1
