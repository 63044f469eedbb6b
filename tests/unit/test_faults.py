"""Findings that say that a machine does not do its work: what rules declare, and what it means for who reads them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.actions.apply import reboot_obstacles
from hosttune.actions.examine import examine
from hosttune.engine.catalog import load_catalog
from hosttune.engine.fleet_reading import _finding as read_finding
from hosttune.engine.plan import merge_findings, reboots_last
from hosttune.engine.policy import Policy
from hosttune.engine.waiver import Waiver
from hosttune.values import Finding, Hold, HoldKind, Receipt, Verdict
from hosttune.views.page import Page
from hosttune.views.receipt import receipt_text
from hosttune.views.summary import counts, standing
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
FAULT = Finding("a-fault", "", Verdict.DIFFERS, reason="no GPU computes", is_fault=True, blocks_reboot=True)


def findings_of(lines, waivers=(), **params):
    reader = FakeReader({"/etc/hosttune/rules.d/site-gpus.yaml": RULE + lines})
    policy = Policy(waivers=waivers, today="2026-11-01", params={"site-gpus": params} if params else {})
    catalog = load_catalog(reader)
    return examine(reader, catalog, replace(policy, sole=("site-gpus",), select=("site-gpus",))).plan().findings


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
    assert (found.verdict, found.is_fault, counts(found, strict=False)) == (verdict, is_counted, is_counted)
    assert counts(found, strict=True)


def test_fault_that_somebody_accepted_is_nobodys_alarm():
    (found,) = findings_of("    fault: true\n", (Waiver("site-gpus", "it is on order"),))
    assert (standing(found), counts(found, strict=False)) == ("waived", False)


def test_fault_among_the_parts_of_a_subject_makes_it_one_and_is_said_first():
    advice = Finding("a-fault", "", Verdict.ADVICE, reason="it is slow", todo="look")
    (merged,) = merge_findings((advice, FAULT))
    assert (merged.is_fault, merged.blocks_reboot, merged.reason) == (True, True, "no GPU computes; it is slow")


def test_whoever_says_reboot_says_what_comes_before():
    waits = Finding("b-waits", "", Verdict.DIFFERS, Hold(HoldKind.WAITING, "a reboot"), todo="reboot when nothing runs")
    other = Finding("c-other", "", Verdict.ADVICE, todo="look at the fans")
    told = reboots_last((FAULT, waits, other))
    assert told[1].todo == "reboot when nothing runs (no reboot before a-fault is solved)"
    assert (told[0], told[2]) == (FAULT, other)
    assert reboots_last((waits, other)) == (waits, other)


def test_receipt_says_what_stays_and_what_must_come_before_the_reboot():
    obstacles = reboot_obstacles((FAULT,))
    receipt = Receipt("", "0" * 64, (), reboot_reasons=("b-waits: host",), reboot_obstacles=obstacles)
    text = receipt_text(receipt, Page(), left=(FAULT,))
    assert text.startswith("this host: 1 fault (a-fault); nothing to do, nothing touched.")
    assert "No reboot before this is solved\n  a-fault: no GPU computes" in text


def test_report_on_a_fleet_reads_the_flags_of_a_result_and_refuses_others():
    data = {"rule": "a-b", "subject": "", "verdict": "differs", "is_fault": True}
    assert read_finding(data, "x").is_fault
    with pytest.raises(Exception, match="must be true or false"):
        read_finding(data | {"blocks_reboot": "no"}, "x")
