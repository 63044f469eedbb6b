"""What would disturb GPU work waits while some runs: when it is planned, right before the act, and
on the way back.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.actions.apply import apply
from hosttune.actions.journal.journal import read_journal
from hosttune.actions.undo import plan_undo, undo
from hosttune.engine.decide.passes import hold_back
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Facts
from hosttune.facts.containment import INITIAL
from hosttune.host.door import Process
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import (
    ABSENT,
    Action,
    Address,
    Change,
    Disturbs,
    Finding,
    HoldKind,
    Phase,
    Plan,
    Stage,
    Unreadable,
    Verdict,
)
from tests.unit.fake_reader import FakeReader

TRAINING = Process(
    7, "python3", "alice", ("python3", "train.py"), 0, 0, ("/dev/nvidia0",), "/", 0.0
)
OTHER = replace(TRAINING, pid=8)
RUNS = "process 7 (python3, alice) holds a GPU"
CHANGE = Change(
    Address("sysctl", "vm.a"),
    Action.UPDATE,
    "60",
    "10",
    "some-rule",
    disturbs=Disturbs.GPU_WORK,
    details=("a line",),
)
NOTHING, ALLOWED, TYPED = (
    Policy(),
    Policy(disturb=Disturbs.GPU_WORK),
    Policy(disturb=Disturbs.GPU_WORK, break_work=True),
)


def host(*processes, unknown=""):
    links = {f"/proc/self/ns/{name}": text for name, text in INITIAL.items()}
    files = {
        "/dev/nvidia0": "",
        "/proc/sys/vm/a": "60\n",
        "/proc/sys/kernel/random/boot_id": "boot\n",
    }
    return Overlay(
        FakeReader(files, links=links, processes=Unreadable(unknown) if unknown else processes)
    )


def held(policy, reader, change=CHANGE):
    finding = Finding("some-rule", "", Verdict.DIFFERS, changes=(change,))
    return hold_back(finding, policy, Facts(reader), {}, {})


@pytest.mark.parametrize("policy", [NOTHING, ALLOWED], ids=["default", "allowed by the policy"])
def test_planned_beside_work_is_busy_with_the_list_of_what_runs(policy):
    found = held(policy, host(TRAINING, OTHER))
    assert (found.hold.kind, found.changes) == (HoldKind.BUSY, ())
    assert found.hold.detail == f"{RUNS}; process 8 (python3, alice) holds a GPU"
    assert "--disturb gpu-work breaks what runs now" in found.todo


def test_planned_where_nobody_can_tell_is_busy():
    found = held(ALLOWED, host(unknown="no list"))
    assert found.hold.kind is HoldKind.BUSY
    assert "cannot find out whether GPU work runs (no list)" in found.hold.detail


def test_planned_on_an_idle_host_needs_leave_and_nothing_more():
    assert held(NOTHING, host()).hold.kind is HoldKind.DISTURBS
    assert held(ALLOWED, host()).changes == (CHANGE,)


def test_planned_with_the_word_typed_says_what_it_breaks():
    (change,) = held(TYPED, host(TRAINING)).changes
    assert change.details == ("a line", f"breaks: {RUNS}")


def test_planned_without_disturbing_anybody_looks_at_no_process():
    quiet = replace(CHANGE, disturbs=Disturbs.SERVICE)
    assert held(
        replace(NOTHING, disturb=Disturbs.SERVICE), host(unknown="never asked"), quiet
    ).changes == (quiet,)


def session_on(writer, policy):
    journal, facts = read_journal(writer), Facts(writer)
    return SimpleNamespace(
        reader=writer,
        journal=journal,
        facts=facts,
        policy=policy,
        selected=(),
        resumed=(),
        resumed_run="",
    )


def applied(writer, change=CHANGE):
    plan = Plan("d" * 64, "0", "", "", "", (Stage((change,)),), ())
    return apply(session_on(writer, ALLOWED), writer, plan)


def test_work_that_began_after_the_plan_stops_the_act():
    writer = host(TRAINING)
    receipt = applied(writer)
    (outcome,) = receipt.outcomes
    assert (outcome.phase, RUNS in outcome.error) == (Phase.FAILED, True)
    assert writer.read("/proc/sys/vm/a") == b"60\n"
    assert read_journal(writer).in_force == ()


def test_work_that_was_shown_does_not_stop_the_act_and_other_work_does():
    shown = replace(CHANGE, details=(f"breaks: {RUNS}",))
    assert applied(host(TRAINING), shown).failed == ()
    (outcome,) = applied(host(TRAINING, OTHER), shown).failed
    assert "process 8" in outcome.error
    assert "process 7" not in outcome.error


def test_change_before_the_one_that_is_stopped_is_taken_back():
    writer = host(TRAINING)
    writer.base.files["/proc/sys/vm/b"] = "1\n"
    before = replace(
        CHANGE, address=Address("sysctl", "vm.b"), before="1", after="2", disturbs=Disturbs.NOTHING
    )
    plan = Plan("d" * 64, "0", "", "", "", (Stage((before, CHANGE)),), ())
    receipt = apply(session_on(writer, ALLOWED), writer, plan)
    assert len(receipt.failed) == 1
    assert writer.read("/proc/sys/vm/b") == b"1\n"


def test_undo_beside_work_waits_and_says_for_what():
    writer = host()
    assert applied(writer).failed == ()
    writer.base._processes = (TRAINING,)
    planned = plan_undo(session_on(writer, ALLOWED))
    assert planned.returns == ()
    (finding,) = planned.plan.findings
    assert (finding.hold.kind, finding.hold.detail) == (HoldKind.BUSY, RUNS)
    assert finding.todo == "when that work has ended, undo again"
    session = session_on(writer, TYPED)
    planned = plan_undo(session)
    assert planned.plan.changes[0].details == (f"breaks: {RUNS}",)
    assert undo(session, writer, planned).failed == ()
    assert writer.read("/proc/sys/vm/a") == b"60\n"


def test_undo_on_paper_disturbs_nothing_and_waits_for_nobody():
    writer = host()
    assert applied(writer).failed == ()
    writer.set_value("/proc/sys/vm/a", "60\n")
    writer.base._processes = (TRAINING,)
    (back,) = plan_undo(session_on(writer, ALLOWED)).returns
    assert back.on_paper


def test_only_the_command_line_lets_running_work_be_broken():
    catalog = builtin_catalog()
    assert Policy().overridden(catalog, disturb="running GPU work").break_work
    assert not Policy().overridden(catalog, disturb="a service").break_work
    assert not ALLOWED.overridden(catalog).break_work


def test_undo_of_a_driver_that_works_meanwhile_waits():
    writer = host(TRAINING)
    writer.base.files |= {"/var/lib/dpkg/status": "", "/sys/module/kernel/uevent": ""}
    value = ("nvidia-utils-580=580.1-1",)
    address = Address("package-set", "nvidia-utils-580")
    change = Change(address, Action.CREATE, ABSENT, value, "some-rule", reversible="yes")
    assert applied(writer, change).failed == ()
    assert plan_undo(session_on(writer, ALLOWED)).returns
    writer.base.files["/proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1  Fri\n"
    )
    (finding,) = plan_undo(session_on(writer, ALLOWED)).plan.findings
    assert (finding.hold.kind, finding.hold.detail) == (HoldKind.BUSY, RUNS)
    (back,) = plan_undo(session_on(writer, TYPED)).plan.changes
    assert back.details[-1] == f"breaks: {RUNS}"
