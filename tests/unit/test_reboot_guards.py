"""What hosttune knows to make the next boot fail keeps it from every reboot and from editing the
line.
"""

from dataclasses import replace

import pytest

from hosttune.actions.apply import apply, reboot_obstacles
from hosttune.actions.examine import examine, faults_of
from hosttune.actions.trial import clock as trial_clock
from hosttune.actions.trial.trial import foresee
from hosttune.engine.decide.reboot import reboot_answer
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.trial_terms import TrialTerms
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import read_record
from hosttune.values import FileValue, HoldKind
from tests.hosts.built import BUILT

POLICY = Policy(today="2026-01-01", select=("storage-tmp-tmpfs",))
AT_BOOT = "storage-tmp-tmpfs"  # takes effect at the next boot


def broken(**chosen):
    """A host whose /data is mounted, with a typing error in its line."""
    host = Overlay(read_record(str(next(path for path in BUILT if path.stem == "h100-8x-2socket"))))
    fstab = host.read("/etc/fstab")
    host.replace("/etc/fstab", replace_options(fstab), expected=fstab)
    return examine(host, builtin_catalog(), replace(POLICY, **chosen)), host


def replace_options(fstab):
    assert b"/data\text4\tdefaults" in fstab
    return FileValue(fstab.replace(b"/data\text4\tdefaults", b"/data\text4\tdefautls"))


@pytest.mark.parametrize("chosen", [{}, {"sole": (AT_BOOT,)}])
def test_no_reboot_is_made_or_advised_whatever_was_selected(chosen, monkeypatch):
    monkeypatch.setattr(trial_clock, "why_not_timer", lambda _: "")
    session, host = broken(**chosen)
    plan = session.plan(prove=False)
    assert any(one.blocks_reboot and one.rule == "storage-fstab" for one in plan.findings)
    planned = foresee(session, plan, TrialTerms(900))
    assert planned.has_boot
    assert any("storage-fstab: line" in one for one in planned.obstacles)
    receipt = apply(session, host, plan)
    assert receipt.reboot_reasons
    assert any("storage-fstab: line" in one for one in receipt.reboot_obstacles)
    assert reboot_answer(session.plan(prove=False).findings, session.selected).required is None


def test_rule_that_the_policy_switches_off_is_not_asked():
    session, host = broken(ignore=("storage-fstab",))
    assert not any("storage-fstab" in one for one in reboot_obstacles(faults_of(session, host)))


def test_plan_that_leads_to_no_boot_says_nothing_of_rules_that_were_not_selected():
    session, _ = broken(sole=("memory-swappiness",))
    assert {one.rule for one in session.plan(prove=False).findings} == {"memory-swappiness"}


def test_line_is_not_edited():
    session, _ = broken(sole=("storage-noatime",))
    finding = next(
        one
        for one in session.plan().findings
        if one.subject == "/data" and one.rule == "storage-noatime"
    )
    assert finding.changes == ()
    assert finding.hold.kind is HoldKind.REFUSED
    assert "has an option `defautls`: the mount fails" in finding.hold.detail
