"""Findings of one subject made one, changes of several rules made once, holds at their very
bounds.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.engine.decide.passes import (
    add_reboot_notes,
    drop_double_changes,
    drop_repeated,
    hold_back,
    hold_siblings,
    merge_findings,
)
from hosttune.engine.decide.plan import guard_changes, list_unannounced, running_work, stage
from hosttune.engine.policy.policy import Policy
from hosttune.engine.policy.waiver import Waiver
from hosttune.facts.base import UnknownFact
from hosttune.resources.base import Applied
from hosttune.values import (
    Action,
    Address,
    Change,
    Disturbs,
    Finding,
    Hold,
    HoldKind,
    OnlyRunning,
    Risk,
    Trigger,
    Verdict,
)

A, B = Address("sysctl", "vm.a"), Address("sysctl", "vm.b")


def change(address=A, after="2", **more):
    return Change(address, Action.UPDATE, "1", after, "rule", **more)


def finding(verdict, *changes, hold=Hold(), **more):
    return Finding("rule", "subject", verdict, hold, changes=changes, **more)


@pytest.mark.parametrize(
    ("parts", "verdict", "hold", "count"),
    [
        ([finding(Verdict.DIFFERS, change(A)), finding(Verdict.DIFFERS, change(B))], Verdict.DIFFERS, HoldKind.NONE, 2),
        ([finding(Verdict.DIFFERS, change(A)), finding(Verdict.OK)], Verdict.DIFFERS, HoldKind.NONE, 1),
        # unknown in one part holds the other parts
        ([finding(Verdict.DIFFERS, change(A)), finding(Verdict.UNKNOWN)], Verdict.UNKNOWN, HoldKind.NONE, 0),
        # so does what is somebody else's
        ([finding(Verdict.DIFFERS, change(A)), finding(Verdict.DIFFERS, hold=Hold(HoldKind.OWNED, "x"))], Verdict.DIFFERS, HoldKind.OWNED, 0),
        # what waits for a reboot is no obstacle to the rest, and is told where there is none
        ([finding(Verdict.DIFFERS, change(A)), finding(Verdict.DIFFERS, hold=Hold(HoldKind.WAITING, "x"))], Verdict.DIFFERS, HoldKind.NONE, 1),
        ([finding(Verdict.OK), finding(Verdict.DIFFERS, hold=Hold(HoldKind.WAITING, "x"))], Verdict.DIFFERS, HoldKind.WAITING, 0),
        ([finding(Verdict.NOT_APPLICABLE), finding(Verdict.OK)], Verdict.OK, HoldKind.NONE, 0),
        ([finding(Verdict.ADVICE), finding(Verdict.OK)], Verdict.ADVICE, HoldKind.NONE, 0),
    ],
)  # fmt: skip
def test_parts_of_one_subject_stand_or_fall_together(parts, verdict, hold, count):
    for order in (parts, parts[::-1]):
        (merged,) = merge_findings(order)
        assert (merged.verdict, merged.hold.kind, len(merged.changes)) == (verdict, hold, count)


def test_parts_of_one_subject_say_each_thing_once_and_all_of_it():
    parts = [
        finding(Verdict.DIFFERS, reason="one", evidence=("x", "y"), todo="do this"),
        finding(Verdict.DIFFERS, reason="two", evidence=("y", "z"), todo="do this"),
        finding(Verdict.OK),
    ]
    (merged,) = merge_findings(parts)
    assert (merged.reason, merged.evidence, merged.todo) == ("one; two", ("x", "y", "z"), "do this")


@pytest.mark.parametrize("mark", ["is_fault", "blocks_reboot"])
def test_mark_of_one_part_is_one_of_the_subject(mark):
    plain, marked = finding(Verdict.DIFFERS), finding(Verdict.ADVICE, **{mark: True})
    for parts in ((plain, marked), (marked, plain), (marked, marked), (plain, plain)):
        (merged,) = merge_findings(parts)
        marks = {"is_fault": False, "blocks_reboot": False, mark: marked in parts}
        assert {name: getattr(merged, name) for name in marks} == marks


def test_fault_is_said_before_the_other_parts():
    plain, fault = (
        finding(Verdict.DIFFERS, reason="plain"),
        finding(Verdict.ADVICE, reason="fault", is_fault=True),
    )
    for parts in ((plain, fault), (fault, plain)):
        (merged,) = merge_findings(parts)
        assert merged.reason == "fault; plain"


def test_who_tells_to_reboot_says_what_comes_before_it():
    reboots = Finding("kernel-cmdline", "", Verdict.DIFFERS, todo="reboot")
    other = Finding("memory-swappiness", "", Verdict.DIFFERS, todo="look at rebooting.conf")
    assert add_reboot_notes((reboots, other)) == (reboots, other)
    fstab = Finding(
        "storage-fstab", "/data", Verdict.ADVICE, todo="mend it, then reboot", blocks_reboot=True
    )
    driver = Finding("gpu-driver", "", Verdict.DIFFERS, todo="mend it", blocks_reboot=True)
    noted = replace(
        reboots, todo="reboot (no reboot before storage-fstab and gpu-driver is solved)"
    )
    assert add_reboot_notes((fstab, reboots, other, fstab, driver)) == (
        fstab,
        noted,
        other,
        fstab,
        driver,
    )


def test_command_that_names_a_rule_about_reboots_stays_as_it_has_to_be_typed():
    left = Finding(
        "x", "", Verdict.ADVICE, todo="sudo hosttune undo --rule services-auto-reboot --yes"
    )
    blocks = Finding("gpu-driver", "", Verdict.DIFFERS, todo="mend it", blocks_reboot=True)
    assert add_reboot_notes((blocks, left)) == (blocks, left)


def test_findings_of_other_subjects_stay_apart():
    other = Finding("rule", "another", Verdict.UNKNOWN)
    assert merge_findings([finding(Verdict.OK), other]) == (finding(Verdict.OK), other)


def test_change_that_two_rules_need_is_made_once_for_the_first():
    first, second = (
        finding(Verdict.DIFFERS, change(A)),
        finding(Verdict.DIFFERS, change(A), change(B)),
    )
    assert [one.changes for one in drop_double_changes([first, second])] == [
        (change(A),),
        (change(B),),
    ]
    other = finding(Verdict.DIFFERS, change(A, after="3"))  # not the same change
    assert [one.changes for one in drop_double_changes([first, other])] == [
        (change(A),),
        other.changes,
    ]


IDLE = SimpleNamespace(work=SimpleNamespace(is_gpu_busy=False, evidence=()))
BUSY = SimpleNamespace(work=SimpleNamespace(is_gpu_busy=True, evidence=("pid 7 computes",)))


class Blind:
    @property
    def work(self):
        raise UnknownFact("needs root")


def held(change, policy, facts=IDLE):
    found = hold_back(finding(Verdict.DIFFERS, change), policy, facts, {}, {})
    return found.hold.kind, bool(found.changes)


@pytest.mark.parametrize(
    ("risk", "most", "hold"),
    [
        (Risk.LOW, Risk.LOW, HoldKind.NONE),
        (Risk.MEDIUM, Risk.LOW, HoldKind.ABOVE_MAX_RISK),
        (Risk.MEDIUM, Risk.MEDIUM, HoldKind.NONE),
        (Risk.HIGH, Risk.MEDIUM, HoldKind.ABOVE_MAX_RISK),
    ],
)
def test_risk_that_the_policy_allows_is_taken_and_no_more(risk, most, hold):
    assert held(change(risk=risk), Policy(max_risk=most)) == (hold, hold is HoldKind.NONE)


@pytest.mark.parametrize(
    ("disturbs", "leave", "hold"),
    [
        (Disturbs.NOTHING, Disturbs.NOTHING, HoldKind.NONE),
        (Disturbs.SESSIONS, Disturbs.NOTHING, HoldKind.DISTURBS),
        (Disturbs.SESSIONS, Disturbs.SESSIONS, HoldKind.NONE),
        (Disturbs.SERVICE, Disturbs.SESSIONS, HoldKind.DISTURBS),
    ],
)
def test_what_the_policy_lets_be_disturbed_is_and_no_more(disturbs, leave, hold):
    assert held(change(disturbs=disturbs), Policy(disturb=leave)) == (hold, hold is HoldKind.NONE)


@pytest.mark.parametrize("facts", [BUSY, Blind()])
def test_gpu_work_that_runs_or_may_run_holds_what_would_disturb_it(facts):
    disturbing = change(disturbs=Disturbs.GPU_WORK)
    assert held(disturbing, Policy(disturb=Disturbs.GPU_WORK), facts) == (HoldKind.BUSY, False)
    assert held(disturbing, Policy(disturb=Disturbs.GPU_WORK, break_work=True), facts) == (
        HoldKind.NONE,
        True,
    )
    assert held(change(), Policy(), facts) == (HoldKind.NONE, True)
    assert running_work(facts)
    assert list_unannounced(disturbing, facts) == running_work(facts)
    assert list_unannounced(change(), facts) == ()
    shown = change(
        disturbs=Disturbs.GPU_WORK, details=tuple(f"breaks: {one}" for one in running_work(facts))
    )
    assert list_unannounced(shown, facts) == ()


@pytest.mark.parametrize(
    ("times", "after", "is_held"),
    [(1, "2", False), (2, "2", True), (3, "2", True), (2, "3", False)],
)
def test_value_that_was_set_back_twice_is_held_and_says_how_often_and_since_when(
    times, after, is_held
):
    ledger = {B: Applied("run-7", "rule", after, times)}
    one = finding(Verdict.DIFFERS, change(A), change(B), todo="look")
    found = hold_back(one, Policy(), IDLE, ledger, {})
    assert bool(found.changes) is not is_held
    assert (found.hold.kind is HoldKind.REVERTED) is is_held
    if is_held:
        assert found.hold.detail == f"(vm.b, set in {times} runs, last run-7)"
        afresh = "sudo hosttune undo --rule rule --yes starts afresh"
        assert found.todo == f"find out who sets it back, or ignore rule; {afresh}\nlook"


def test_what_a_held_change_of_its_rule_would_have_set_is_held_with_it():
    """Two values in one drop-in, which only the first finding carries: the second was called a
    change to come.
    """
    carrier = finding(Verdict.DIFFERS, change(A))
    other = replace(finding(Verdict.DIFFERS), subject="vm.c", todo="look")
    dead = replace(other, subject="vm.d", is_fault=True)
    ledger = {A: Applied("run-7", "rule", "2", 2)}
    held_back = [hold_back(one, Policy(), IDLE, ledger, {}) for one in (carrier, other, dead)]
    first, second, third = hold_siblings((carrier, other, dead), held_back)
    assert first.hold.kind is HoldKind.REVERTED
    assert (second.hold, second.todo) == (first.hold, f"{first.todo}\nlook")
    assert third is dead
    free = replace(
        finding(Verdict.DIFFERS, change(B)), subject="vm.e"
    )  # the rule still has a change: it may be this one's
    assert hold_siblings((carrier, other, free), (held_back[0], other, free))[1] is other


def test_hold_says_what_would_allow_it():
    risky, disturbing = change(risk=Risk.HIGH), change(disturbs=Disturbs.SERVICE)
    for one, detail, todo in (
        (risky, "low (risk high)", "allow it with --max-risk high (policy: max_risk: high)"),
        (
            disturbing,
            str(Disturbs.SERVICE),
            "allow it with --disturb service (policy: disturb: a service)",
        ),
    ):
        found = hold_back(finding(Verdict.DIFFERS, one), Policy(max_risk=Risk.LOW), IDLE, {}, {})
        assert (found.hold.detail, found.todo) == (detail, todo)
    free = hold_back(finding(Verdict.DIFFERS, change()), Policy(), IDLE, {}, {})
    assert (free.hold, free.todo) == (Hold(), "")


def test_rule_that_is_refused_is_held_where_nothing_else_holds_it_and_a_waiver_comes_before_all():
    refused = {"rule": ("it contradicts other on vm.a", "ignore one of them")}
    one = finding(Verdict.DIFFERS, change(risk=Risk.HIGH), todo="look")
    held_by_rule = hold_back(one, Policy(max_risk=Risk.HIGH), IDLE, {}, refused)
    assert held_by_rule.hold == Hold(HoldKind.REFUSED, "it contradicts other on vm.a")
    assert (held_by_rule.changes, held_by_rule.todo) == ((), "ignore one of them")
    assert hold_back(one, Policy(), IDLE, {}, refused).hold.kind is HoldKind.ABOVE_MAX_RISK
    waived = hold_back(one, Policy(waivers=(Waiver("rule", "known"),)), Blind(), {}, refused)
    assert (waived.hold.kind, waived.changes, waived.todo) == (HoldKind.WAIVED, (), "")
    nothing = finding(Verdict.OK)
    assert hold_back(nothing, Policy(), IDLE, {}, refused) is nothing


def test_only_what_disturbs_gpu_work_says_what_it_breaks():
    disturbing = change(disturbs=Disturbs.GPU_WORK)
    (first, second), hold = guard_changes((disturbing, change(B)), BUSY, may_break=True)
    assert (first.details, second.details, hold) == (("breaks: pid 7 computes",), (), Hold())


def test_change_of_the_first_of_three_rules_is_not_made_again_for_the_third():
    first, second = finding(Verdict.DIFFERS, change(A)), finding(Verdict.DIFFERS, change(B))
    assert [one.changes for one in drop_double_changes([first, second, first])] == [
        (change(A),),
        (change(B),),
        (),
    ]


def test_stage_has_each_trigger_of_its_changes_once():
    reload, restart = Trigger("daemon-reload"), Trigger("restart", "x.service")
    made = stage(iter((change(A, triggers=(reload, restart)), change(B, triggers=(reload,)))))
    assert ([one.address for one in made.changes], made.triggers) == ([A, B], (reload, restart))


def test_of_an_image_only_what_a_running_machine_tells_is_deferred():
    waits = finding(Verdict.UNKNOWN, reason=OnlyRunning("of a running machine"))
    others = (
        finding(Verdict.UNKNOWN, reason="could not be read"),
        finding(Verdict.UNKNOWN, reason=OnlyRunning("x"), hold=Hold(HoldKind.OWNED, "y")),
        finding(Verdict.DIFFERS, reason=OnlyRunning("x")),
    )
    assert waits.hold == Hold(HoldKind.DEFERRED)
    assert [one.hold.kind for one in others] == [HoldKind.NONE, HoldKind.OWNED, HoldKind.NONE]


def test_parts_are_deferred_together_only_where_all_that_is_unknown_is():
    waits = finding(Verdict.UNKNOWN, hold=Hold(HoldKind.DEFERRED))
    unread, owned = (
        finding(Verdict.UNKNOWN),
        finding(Verdict.DIFFERS, hold=Hold(HoldKind.OWNED, "x")),
    )
    for parts, hold in (
        ((waits, finding(Verdict.OK)), HoldKind.DEFERRED),
        ((waits, unread), HoldKind.NONE),
        ((waits, owned), HoldKind.OWNED),
    ):
        (merged,) = merge_findings(parts)
        assert (merged.rule, merged.subject, merged.verdict, merged.hold.kind) == (
            "rule", "subject", Verdict.UNKNOWN, hold,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("other", "mine", "drained", "is_dropped"),
    [
        (
            {"verdict": Verdict.DIFFERS, "is_fault": True, "impairs": True},
            {"impairs": True},
            (),
            True,
        ),
        ({"verdict": Verdict.ADVICE, "impairs": True}, {"impairs": True}, (), True),
        ({"verdict": Verdict.ADVICE}, {"impairs": True}, (), False),  # the graver one stays
        ({"verdict": Verdict.OK}, {}, (), False),
        ({"verdict": Verdict.UNKNOWN}, {}, (), False),
        ({"verdict": Verdict.ADVICE, "hold": Hold(HoldKind.WAIVED)}, {}, (), False),
        ({"verdict": Verdict.ADVICE, "impairs": True}, {"impairs": True}, ("later",), False),
    ],
)
def test_advice_that_the_rule_before_gives_of_the_same_subject_is_not_repeated(
    other, mine, drained, is_dropped
):
    policy = SimpleNamespace(drains=SimpleNamespace(drain_for=frozenset(drained)))
    one = Finding("first", "/data", reason="gone", **other)
    two = Finding("later", "/data", Verdict.ADVICE, reason="not mounted", yields_to="first", **mine)
    elsewhere = Finding("later", "/other", Verdict.ADVICE, reason="not mounted", yields_to="first")
    besides = replace(two, reason="a service writes there", yields_to="")
    found = drop_repeated((one, two, elsewhere, besides), policy)
    assert (found[0], *found[2:]) == (one, replace(elsewhere, yields_to=""), besides)
    assert (found[1].verdict is Verdict.NOT_APPLICABLE) is is_dropped
    told = replace(two, yields_to="")
    assert is_dropped or found[1] == told
    assert drop_repeated((two,), policy) == (told,)  # without the other one, it is reported
