"""What is made of a host before work: approved or held, one reboot, no loop, and what is told of
it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.actions.examine import Session
from hosttune.actions.gate import ready as module
from hosttune.actions.gate.going_on import arrange_going_on
from hosttune.actions.gate.ready import (
    HOOKS,
    METRICS,
    MOTD,
    STATE,
    approvals_of,
    await_late,
    begin,
    bring_up,
    keep_state,
    read_state,
    require_begun,
    tell_hooks,
    write_metrics,
)
from hosttune.engine.decide.ready import (
    ReadyState,
    Standing,
    not_ready,
    parse_state,
    state_to_json,
    why_no_reboot,
    why_not_known,
)
from hosttune.engine.policy.approval import Approvals, PolicyApproval
from hosttune.engine.policy.policy import NO_DRAINS, AtBoot, Drains, Policy
from hosttune.engine.rules.catalog import Catalog, builtin_catalog
from hosttune.errors import BadInput, HosttuneError, Refused
from hosttune.facts.base import UnknownFact, make_unread
from hosttune.facts.kernel.after_boot import AfterBoot
from hosttune.host.door import Process
from hosttune.values import (
    Disturbs,
    FileValue,
    Finding,
    Risk,
    Verdict,
)
from hosttune.views.prometheus import render_metrics
from hosttune.views.ready import READY_METRICS
from tests.unit.gate_host import (
    ALL,
    BOOT,
    CHANGE,
    FAULT,
    LATER,
    STARTING,
    Host,
    plan_of,
    receipt_of,
)


def brought(
    monkeypatch,
    plan,
    receipt,
    *,
    host=None,
    at_boot=ALL,
    state=None,
    mounts=None,
    approvals=None,
    goes_on=False,
    later=(),
    source="/dev/sda1",
    disturb=Disturbs.NOTHING,
    known=None,
    whole=None,
):
    made = []

    def make(*args, part_of, **_):
        made.append(args)
        if known is not None:
            known.append(part_of)
        return receipt

    monkeypatch.setattr(module, "apply", make)
    monkeypatch.setattr(module, "faults_of", lambda *_: later)
    monkeypatch.setattr(module, "plan_without_users", lambda _: whole or plan)
    host = host or Host()
    kinds = (mounts or {"/": "ext4"}).items()
    visible = tuple(
        SimpleNamespace(target=at, fstype=fstype, source=source) for at, fstype in kinds
    )
    facts = SimpleNamespace(
        mounts=SimpleNamespace(root=visible[0], visible=visible),
        after_boot=SimpleNamespace(lost=(), failed=()),
    )
    rules = (
        SimpleNamespace(id="wishing", want=("a wish",), can_drain=False),
        SimpleNamespace(id="judging", want=(), can_drain=True),
        SimpleNamespace(id="looking", want=(), can_drain=False),
    )
    session = SimpleNamespace(
        reader=host,
        policy=Policy(at_boot=at_boot, disturb=disturb),
        plan=lambda: plan,
        facts=facts,
        selected=rules,
    )
    state = state or ReadyState(Standing.WORKING, BOOT, "")
    covered = Approvals("apply --yes --reboot", ("d" * 12,)) if goes_on else Approvals("")
    found = bring_up(session, host, state, approvals or covered, lambda _: None, goes_on=goes_on)
    return found, bool(made)


def test_gate_waits_for_what_a_young_boot_may_still_bring_and_then_judges_it(monkeypatch):
    slept, told = [], []
    facts = SimpleNamespace(
        asked=None, after_boot=AfterBoot(True, make_unread("/data is not there"), ())
    )
    later = iter([facts, SimpleNamespace(after_boot=AfterBoot(True, (), ()))])
    monkeypatch.setattr(module, "Facts", lambda *_: next(later))
    monkeypatch.setattr(module.time, "sleep", slept.append)
    monkeypatch.setattr(module, "is_young", lambda _: True)
    session = Session(Host(), Catalog({}, {}), Policy(), None, facts, ())
    assert await_late(session, told.append).facts.after_boot.lost == ()
    assert (slept, told) == ([5.0, 5.0], ["waiting, because /data is not there"])
    monkeypatch.setattr(module, "is_young", lambda _: False)
    assert await_late(session, told.append) is session  # it is judged as it is


def test_plan_that_is_not_approved_is_not_made_and_says_which_line_approves_it(monkeypatch):
    state, was_made = brought(monkeypatch, plan_of(CHANGE), receipt_of(), at_boot=AtBoot())
    assert (state.standing, was_made) == (Standing.HELD, False)
    lines = "one of these lines in /etc/hosttune/approved approves it: dddddddddddd or: "
    assert f"dddddddddddd is approved nowhere; {lines}" in state.sentence
    assert "policy cccccccccccc edition 2026.2 risk low" in state.sentence


@pytest.mark.parametrize(
    ("changes", "is_made"), [((CHANGE,), True), ((replace(CHANGE, after="x"),), False), ((), False)]
)
def test_plan_of_which_users_hold_a_part_is_made_where_the_whole_is_approved(
    monkeypatch, changes, is_made
):
    """A crontab that deletes by access time takes a change out of the plan, which has another
    digest then.
    """
    whole = replace(plan_of(*changes, replace(CHANGE, rule="other")), digest="e" * 64)
    approvals = Approvals("approved", ("e" * 12,))
    state, was_made = brought(
        monkeypatch,
        plan_of(CHANGE),
        receipt_of(),
        at_boot=AtBoot(),
        approvals=approvals,
        whole=whole,
    )
    assert (state.standing, was_made) == (
        (Standing.READY, True) if is_made else (Standing.HELD, False)
    )


def test_approved_plan_is_made_and_work_comes_in(monkeypatch):
    approvals = Approvals("approved", ("d" * 12,))
    was = ReadyState(Standing.WORKING, BOOT, "", reboots=("boot-0",))
    state, was_made = brought(
        monkeypatch, plan_of(CHANGE), receipt_of(), at_boot=AtBoot(), state=was, approvals=approvals
    )
    assert (state.standing, state.reboots, was_made) == (Standing.READY, (), True)
    assert state.sentence == "as its plan says; 1 made now, after 1 reboot"


def test_runs_before_and_after_its_reboot_are_one_intention(monkeypatch):
    known = []
    was = ReadyState(Standing.WORKING, BOOT, "")
    receipt = receipt_of(reasons=("sysctl:vm.a takes effect at the next boot",))
    state, _ = brought(monkeypatch, plan_of(LATER), receipt, at_boot=ALL, state=was, known=known)
    assert (state.standing, state.run, known) == (Standing.REBOOTING, "run", [""])
    again = replace(state, standing=Standing.WORKING, boot_id="boot-b")
    state, _ = brought(
        monkeypatch, plan_of(CHANGE), receipt_of(), at_boot=ALL, state=again, known=known
    )
    assert (state.standing, state.run, known) == (Standing.READY, "", ["", "run"])


def test_run_that_a_signal_stopped_leaves_the_boot_to_be_looked_at_again(monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        brought(monkeypatch, plan_of(CHANGE), replace(receipt_of(), stopped="SIGTERM"), at_boot=ALL)


def test_host_on_which_nothing_differs_is_ready_without_an_approval(monkeypatch):
    state, _ = brought(monkeypatch, plan_of(), receipt_of(), at_boot=AtBoot())
    assert (state.standing, state.sentence) == (
        Standing.READY,
        "as its plan says; nothing had to be changed",
    )


@pytest.mark.parametrize(
    ("receipt", "words"),
    [
        (receipt_of(failed="the kernel says no\nmore"), "vm.a (a-rule) failed: the kernel says no"),
        (receipt_of(verified=False), "what was made did not verify"),
        (
            receipt_of(faults=(FAULT,)),
            "it does not do its work: gpu-lost: 0000:1a:00.0: the GPU does not answer (reboot it)",
        ),
    ],
)
def test_what_keeps_work_away(monkeypatch, receipt, words):
    state, _ = brought(monkeypatch, plan_of(CHANGE), receipt)
    assert (state.standing, state.sentence) == (Standing.HELD, words)
    state, _ = brought(
        monkeypatch, plan_of(CHANGE), receipt, at_boot=AtBoot(plans="all", on_failure="go")
    )
    assert (state.standing, state.sentence) == (Standing.LET_GO, words)


def test_what_waits_for_a_boot_has_one_and_not_a_second(monkeypatch):
    receipt = receipt_of(reasons=("sysctl:vm.a takes effect at the next boot",))
    state, _ = brought(monkeypatch, plan_of(LATER), receipt)
    assert (state.standing, state.reboots) == (Standing.REBOOTING, (BOOT,))
    assert state.sentence == "reboots for: sysctl:vm.a takes effect at the next boot"
    again, _ = brought(monkeypatch, plan_of(LATER), receipt, state=replace(state, boot_id="boot-b"))
    assert (again.standing, again.reboots) == (Standing.HELD, (BOOT,))
    assert again.sentence.startswith("the reboot did not bring: sysctl:vm.a")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"at_boot": AtBoot(plans="all", reboot="never")},
            "the policy allows none (at_boot: reboot)",
        ),
        ({"mounts": {"/": "tmpfs"}}, "would lose what was made, because / is tmpfs"),
        (
            {"mounts": {"/": "ext4", "/var": "tmpfs"}},
            "would lose what was made, because /var is tmpfs",
        ),
        (
            {"mounts": {"/": "ext4", "/var": "ext4", "/var/lib": "ramfs"}},
            "because /var/lib is ramfs",
        ),
        ({"mounts": {"/": "ext4", "/etc": "overlay"}}, "because /etc is overlay"),
        ({"mounts": {"/": "ext4", "/etc/machine-id": "tmpfs"}}, "because /etc/machine-id is tmpfs"),
        (
            {"mounts": {"/": "ext4"}, "source": "/dev/mapper/live-rw"},
            "because / is /dev/mapper/live-rw",
        ),
        ({"mounts": {"/": "ext4"}, "source": "/dev/zram0"}, "because / is /dev/zram0"),
        (
            {"host": Host(queries={("systemctl", "is-system-running"): "running\n"})},
            "this is not the boot",
        ),
        ({"host": Host(queries={})}, "this is not the boot"),
    ],
)
def test_reboots_that_are_not_asked_for(monkeypatch, more, words):
    receipt = receipt_of(reasons=("a-rule: host",))
    state, _ = brought(monkeypatch, plan_of(LATER), receipt, **more)
    assert (state.standing, state.reboots) == (Standing.HELD, ())
    assert words in state.sentence


def test_no_reboot_while_something_has_to_be_solved_before():
    state = ReadyState(Standing.WORKING, BOOT, "")
    why = why_no_reboot(
        state, ["a-rule: host"], ["no module"], allowed=1, is_boot=True, volatile=""
    )
    assert (
        why
        == "a reboot is required (a-rule: host), and something has to be solved before: no module"
    )


def test_apply_that_goes_on_boots_as_often_as_its_plan_said_and_stops_then(monkeypatch):
    receipt = receipt_of(reasons=("a-rule: host",))
    going = ReadyState(
        Standing.WORKING, BOOT, "", reboots=("boot-0",), allowed=2, approval="a line"
    )
    never = AtBoot(plans="all", reboot="never")
    state, _ = brought(
        monkeypatch, plan_of(LATER), receipt, state=going, at_boot=never, goes_on=True
    )
    assert (state.standing, state.reboots, state.goes_on) == (
        Standing.REBOOTING,
        ("boot-0", BOOT),
        True,
    )
    state, _ = brought(
        monkeypatch, plan_of(LATER), receipt, state=replace(state, boot_id="boot-b"), goes_on=True
    )
    # the gate after it has no boot of its own for the same
    assert (state.standing, state.reboots, state.goes_on) == (
        Standing.STOPPED,
        ("boot-0", BOOT),
        False,
    )
    assert state.sentence == "2 reboots did not bring: a-rule: host"
    held, _ = brought(monkeypatch, plan_of(LATER), receipt, state=replace(state, boot_id="boot-b"))
    assert (held.standing, held.sentence) == (
        Standing.HELD,
        "2 reboots did not bring: a-rule: host",
    )


def test_gate_does_not_boot_by_what_an_apply_that_was_cut_off_had_approved(monkeypatch):
    receipt = receipt_of(reasons=("a-rule: host",))
    going = ReadyState(
        Standing.WORKING, "boot-b", "", reboots=("boot-0",), allowed=2, approval="a line"
    )
    by_day = Host(queries={("systemctl", "is-system-running"): "running\n"})
    for goes_on, standing in ((False, Standing.HELD), (True, Standing.STOPPED)):
        state, _ = brought(
            monkeypatch, plan_of(LATER), receipt, state=going, host=by_day, goes_on=goes_on
        )
        assert (state.standing, state.reboots) == (standing, ("boot-0",))
        assert "users may be at work here" in state.sentence
    never = AtBoot(plans="all", reboot="never")
    state, _ = brought(monkeypatch, plan_of(LATER), receipt, state=going, at_boot=never)
    assert (state.standing, state.goes_on) == (Standing.HELD, True)
    assert "the policy allows none" in state.sentence


def test_boot_that_has_not_come_yet_is_not_told_as_one_that_was_of_no_use(monkeypatch):
    asked = ReadyState(Standing.WORKING, BOOT, "", reboots=(BOOT,))
    state, _ = brought(
        monkeypatch, plan_of(LATER), receipt_of(reasons=("a-rule: host",)), state=asked
    )
    assert (state.standing, state.reboots) == (Standing.HELD, (BOOT,))
    assert state.sentence == "the reboot that was asked for has not come yet: a-rule: host"


def test_what_waits_for_work_to_end_is_in_force_after_a_boot_and_not_before(monkeypatch):
    receipt = receipt_of(waiting=("daemon-reload waits: GPU containers run",))
    state, _ = brought(monkeypatch, plan_of(CHANGE), receipt)
    assert (state.standing, state.sentence) == (
        Standing.REBOOTING, "reboots for: daemon-reload waits: GPU containers run",
    )  # fmt: skip
    state, _ = brought(monkeypatch, plan_of(), receipt, at_boot=AtBoot(plans="all", reboot="never"))
    assert state.standing is Standing.HELD


def test_what_goes_on_ends_well_where_a_starting_manager_alone_is_waited_for_and_its_boots_are_over(
    monkeypatch,
):
    waits = "daemon-reload waits: the service manager is still starting"
    going = ReadyState(
        Standing.WORKING, "boot-b", "", reboots=(BOOT,), allowed=1, approval="a line"
    )
    state, _ = brought(
        monkeypatch, plan_of(CHANGE), receipt_of(waiting=(waits,)), state=going, goes_on=True
    )
    assert (state.standing, state.sentence) == (
        Standing.READY, f"as its plan says; 1 made now, after 1 reboot; in force after a boot: {waits}",
    )  # fmt: skip
    two = replace(going, allowed=2)
    state, _ = brought(
        monkeypatch, plan_of(CHANGE), receipt_of(waiting=(waits,)), state=two, goes_on=True
    )
    assert state.standing is Standing.REBOOTING
    both = receipt_of(waiting=(waits,), reasons=("a-rule: host",))
    state, _ = brought(monkeypatch, plan_of(CHANGE), both, state=going, goes_on=True)
    assert state.standing is Standing.STOPPED


def test_plan_that_may_lack_changes_opens_nothing(monkeypatch):
    unread = Finding("wishing", "", Verdict.UNKNOWN, reason="/etc/fstab: Input/output error")
    state, _ = brought(monkeypatch, plan_of(findings=(unread,)), receipt_of())
    assert (state.standing, state.sentence) == (
        Standing.HELD,
        "it is not known whether it is as its plan says, and does its work: wishing: /etc/fstab: Input/output error",
    )
    hangs = Finding("judging", "", Verdict.UNKNOWN, reason="nvidia-smi: no answer in 10 s")
    state, _ = brought(monkeypatch, plan_of(findings=(hangs,)), receipt_of())
    assert (state.standing, "judging: nvidia-smi" in state.sentence) == (Standing.HELD, True)
    state, _ = brought(
        monkeypatch, plan_of(findings=(replace(unread, rule="looking"),)), receipt_of()
    )
    assert state.standing is Standing.READY


def test_log_that_a_user_has_flooded_holds_no_work(monkeypatch):
    """Any user who is there before the gate opens can have the kernel log more than journald
    reads.
    """
    why = "the journal missed lines of the kernel log 0.1 hours ago, which came faster than it reads them"
    flooded = Finding("judging", "", Verdict.UNKNOWN, reason=why)
    state, _ = brought(monkeypatch, plan_of(findings=(flooded,)), receipt_of())
    assert state.standing is Standing.READY
    hangs = Finding("judging", "", Verdict.UNKNOWN, reason="nvidia-smi: no answer in 10 s")
    state, _ = brought(monkeypatch, plan_of(findings=(flooded, hangs)), receipt_of())
    assert (state.standing, "nvidia-smi" in state.sentence) == (Standing.HELD, True)


def test_what_is_not_known_holds_where_it_would_if_it_were():
    rules = builtin_catalog().rules
    unread = Finding("", "", Verdict.UNKNOWN, reason="no answer")

    def held(name, drains=NO_DRAINS):
        return bool(why_not_known([replace(unread, rule=name)], rules.values(), drains))

    assert held("gpu-driver-health")
    assert held("memory-swappiness")  # it sets something up
    assert not held("services-slurm-node")  # impaired at most: Slurm itself takes it out
    assert held("services-slurm-node", Drains(drain_for=frozenset({"services-slurm-node"})))
    assert not held("gpu-driver-health", Drains(no_drain_for=frozenset({"gpu-driver-health"})))


def test_host_is_looked_at_again_after_it_was_changed(monkeypatch):
    state, _ = brought(monkeypatch, plan_of(CHANGE), receipt_of(), later=(FAULT,))
    assert (state.standing, state.sentence) == (
        Standing.HELD, "it does not do its work: gpu-lost: 0000:1a:00.0: the GPU does not answer (reboot it)",
    )  # fmt: skip


def test_reboot_that_brought_what_it_was_for_is_not_counted_against_the_next_change(monkeypatch):
    booted = ReadyState(Standing.WORKING, BOOT, "", reboots=("boot-0",))
    state, _ = brought(monkeypatch, plan_of(), receipt_of(faults=(FAULT,)), state=booted)
    assert (state.standing, state.reboots) == (Standing.HELD, ())


def test_nobody_is_booted_away_from_a_gpu(monkeypatch):
    job = Process(
        77, "python3", "ann", ("python3", "train.py"), 0, 0, ("/dev/nvidia0",), "/user.slice", 0.0
    )
    host = Host({"/dev/nvidia0": ""}, folders=("/run", "/run/systemd/system", "/proc/1"))
    host.base._processes = (job,)
    for goes_on in (False, True):
        receipt = receipt_of(reasons=("a-rule: host",))
        state, _ = brought(monkeypatch, plan_of(LATER), receipt, host=host, goes_on=goes_on)
        assert state.standing is (Standing.STOPPED if goes_on else Standing.HELD)
        assert state.reboots == ()
        assert "something has to be solved before: " in state.sentence
        state, _ = brought(
            monkeypatch,
            plan_of(LATER),
            receipt,
            host=host,
            goes_on=goes_on,
            disturb=Disturbs.GPU_WORK,
        )
        assert state.standing is Standing.REBOOTING


@pytest.mark.parametrize(
    ("devices", "cgroup", "words"),
    [
        ((), "/system.slice/slurmstepd.scope/job_42/step_0", "slurm job 42 runs here"),
        (
            ("/dev/kfd", "/dev/dri/renderD128"),
            "/user.slice",
            "process 77 (python3, ann) holds a GPU",
        ),
    ],
)
def test_nobody_is_booted_away_where_no_gpu_is_of_nvidia(monkeypatch, devices, cgroup, words):
    host = Host()
    host.base._processes = (
        Process(77, "python3", "ann", ("python3",), 0, 0, devices, cgroup, 0.0, uid=1000),
    )
    host.base.files |= dict.fromkeys(devices, "")
    state, _ = brought(
        monkeypatch, plan_of(LATER), receipt_of(reasons=("a-rule: host",)), host=host
    )
    assert (state.standing, words in state.sentence) == (Standing.HELD, True)


def test_what_goes_on_is_covered_by_its_yes_alone(monkeypatch):
    going = ReadyState(
        Standing.WORKING, "boot-b", "", reboots=(BOOT,), allowed=2, approval="e" * 12
    )
    approvals = Approvals("apply --yes --reboot", ("e" * 12,))
    state, was_made = brought(
        monkeypatch,
        plan_of(CHANGE),
        receipt_of(),
        state=going,
        approvals=approvals,
        goes_on=True,
        at_boot=ALL,
    )
    assert (state.standing, was_made) == (Standing.STOPPED, False)
    assert state.sentence == (
        "the plan dddddddddddd is not covered by the yes to apply --yes --reboot; look, then type that again: "
        "hosttune apply --yes --reboot"
    )


def test_set_of_packages_that_stopped_half_way_needs_an_approval_too(monkeypatch):
    half = SimpleNamespace(step=SimpleNamespace(id=SimpleNamespace(run="r1")))
    monkeypatch.setattr(module, "find_half_done", lambda *_: (half,))
    journal = SimpleNamespace(run=lambda name: SimpleNamespace(id=name, digest="a" * 64))
    session = SimpleNamespace(journal=journal, policy=Policy(at_boot=AtBoot()), selected=())
    other, own = (
        PolicyApproval(one, "2026.1", Risk.LOW) for one in ("c" * 12, Policy().digest[:12])
    )
    require_begun(session, Host(), Approvals("x", (), (other, own)), goes_on=False)
    for approvals in (Approvals(""), Approvals("x", ("b" * 12,)), Approvals("x", (), (other,))):
        with pytest.raises(
            Refused,
            match="run r1 stopped half-way in a set of packages, and its plan aaaaaaaaaaaa is not",
        ):
            require_begun(session, Host(), approvals, goes_on=False)
    require_begun(session, Host(), Approvals("x", ("a" * 12,)), goes_on=False)
    session.policy = Policy(at_boot=ALL)
    require_begun(session, Host(), Approvals(""), goes_on=False)
    with pytest.raises(Refused):
        require_begun(session, Host(), Approvals(""), goes_on=True)


FINAL = ("systemctl", "show", "cloud-final.service", "--property=ActiveState", "--value")


def test_boot_waits_until_it_cuts_nothing_off(monkeypatch):
    receipt, said = (
        receipt_of(reasons=("a-rule: host",)),
        ["activating\n", "activating\n", "inactive\n"],
    )

    class Ending(Host):
        def query(self, argv, *, timeout_s=10.0):
            if tuple(argv) == FINAL:
                self.base.queries[FINAL] = said.pop(0) if len(said) > 1 else said[0]
            return super().query(argv, timeout_s=timeout_s)

    waited = []
    monkeypatch.setattr(module.time, "sleep", waited.append)
    state, _ = brought(
        monkeypatch, plan_of(LATER), receipt, host=Ending(queries={**STARTING, FINAL: ""})
    )
    assert (state.standing, len(waited)) == (Standing.REBOOTING, 2)


SYSTEMCTL = Process(
    9, "systemctl", "root", ("systemctl",), 0, 0, (), "/system.slice/cloud-final.service", 0.0, uid=0, program="/usr/bin/systemctl"
)  # fmt: skip


@pytest.mark.parametrize("called", [{"uid": 1001, "user": "eve"}, {"program": "/usr/bin/sudo"}])
def test_user_does_not_call_off_the_wait_for_what_a_boot_would_cut_off(called):
    start = ("systemctl", "start", "slurmd.service")
    host = Host(queries=STARTING)
    host.base._processes = (replace(SYSTEMCTL, command=start),)
    assert module._starts_units(host)
    host.base._processes = (replace(SYSTEMCTL, command=start, **called),)
    assert not module._starts_units(host)


def test_boot_that_would_cut_off_who_waits_for_the_gate_is_none(monkeypatch):
    start = ("systemctl", "start", "slurmd.service")
    busy = Host(queries={**STARTING, FINAL: "activating\n"})
    busy.base._processes = (replace(SYSTEMCTL, command=start),)
    monkeypatch.setattr(module.time, "sleep", lambda _: pytest.fail("waits for who waits for it"))
    state, _ = brought(
        monkeypatch, plan_of(LATER), receipt_of(reasons=("a-rule: host",)), host=busy
    )
    assert (state.standing, state.reboots) == (Standing.HELD, ())
    assert state.sentence.endswith(
        "something has to be solved before: cloud-init is at work (cloud-final.service)"
    )
    ends = iter((0.0, 1.0, 601.0))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(ends))
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    busy.base._processes = ()
    state, _ = brought(
        monkeypatch, plan_of(LATER), receipt_of(reasons=("a-rule: host",)), host=busy
    )
    assert state.standing is Standing.HELD


def test_state_survives_being_written_and_is_read_strictly():
    host = Host()
    assert read_state(host) is None
    state = ReadyState(
        Standing.REBOOTING, BOOT, "reboots for: x", "d" * 64, 12, ("boot-0",), 2, "a line", ""
    )
    keep_state(host, state)
    assert read_state(host) == state
    assert host.logged == ["ready: rebooting: reboots for: x"]
    good = state_to_json(state)
    for broken in (
        {**good, "format_version": 9},
        {**good, "standing": "x"},
        {**good, "at": "x"},
        {**good, "reboots": [1]},
        [],
        {},
    ):
        with pytest.raises(HosttuneError, match=STATE):
            parse_state(json.dumps(broken), STATE)
    host.replace(STATE, FileValue(b"{"), expected=host.read(STATE))
    with pytest.raises(HosttuneError, match="expected an object"):
        read_state(host)


def test_boot_begins_with_what_is_known_of_earlier_ones():
    host = Host()
    assert begin(host).reboots == ()
    keep_state(host, ReadyState(Standing.REBOOTING, "boot-0", "x", reboots=("boot-0",)))
    state = begin(host)
    assert (state.standing, state.boot_id, state.reboots) == (Standing.WORKING, BOOT, ("boot-0",))
    assert read_state(host) == state


def test_who_logs_in_is_told_until_the_host_is_ready():
    host = Host()
    keep_state(
        host, not_ready(ReadyState(Standing.WORKING, BOOT, ""), "hold", "the plan is not approved")
    )
    assert host.read(MOTD) == b"hosttune: held: the plan is not approved\n"
    keep_state(host, ReadyState(Standing.READY, BOOT, "as its plan says"))
    assert host.read(MOTD).__class__.__name__ == "Absent"


def test_approvals_are_those_of_the_file_and_of_the_policy():
    host = Host({"/etc/hosttune/approved": "0123456789ab\n"})
    found = approvals_of(host, AtBoot(digests=("d" * 12,)), "/etc/hosttune/policy.yaml")
    assert (found.digests, found.source) == (
        ("0123456789ab", "d" * 12), "/etc/hosttune/approved and /etc/hosttune/policy.yaml",
    )  # fmt: skip
    assert approvals_of(Host(), AtBoot(), "").digests == ()
    with pytest.raises(BadInput, match="approved:1"):
        approvals_of(Host({"/etc/hosttune/approved": "yes\n"}), AtBoot(), "")


def hooks(host, standing, **more):
    said = []
    tell_hooks(host, ReadyState(standing, BOOT, "why"), said.append)
    return said


def test_hooks_are_told_in_order_and_those_that_others_can_write_are_not_run():
    modes = {
        "50-b": 0o755,
        "10-a": 0o700,
        "README.md": 0o755,
        "60-not-executable": 0o644,
        "70-open": 0o777,
    }
    host = Host(
        {f"{HOOKS}/{name}": FileValue(b"#!/bin/sh\n", mode) for name, mode in modes.items()}
    )
    host.refuses = {f"{HOOKS}/10-a"}
    said = hooks(host, Standing.HELD)
    assert host.ran == [(f"{HOOKS}/10-a", "leave", "why"), (f"{HOOKS}/50-b", "leave", "why")]
    assert said == [
        f"{HOOKS}/10-a leave: {HOOKS}/10-a ended with status 3\nand a secret",
        f"{HOOKS}/70-open is not run, because others can write it",
    ]
    assert not any("secret" in line for line in host.logged)
    for standing, word in (
        (Standing.READY, "join"),
        (Standing.LET_GO, "join"),
        (Standing.HELD, "leave"),
        (Standing.STOPPED, "leave"),
    ):
        host.ran.clear()
        hooks(host, standing)
        assert {argv[1] for argv in host.ran} == {word}
    assert hooks(Host(), Standing.READY) == []


def test_metrics_are_written_where_their_folder_is():
    state = ReadyState(Standing.HELD, BOOT, "why", at=7, reboots=("a",))
    host = Host(folders=("/run", METRICS.rpartition("/")[0]))
    write_metrics(host, state, lambda rows: render_metrics(READY_METRICS, rows))
    text = host.read(METRICS).decode()
    assert 'hosttune_ready{standing="held"} 1\n' in text
    assert 'hosttune_ready{standing="ready"} 0\n' in text
    assert "hosttune_ready_timestamp_seconds 7\n" in text
    assert "hosttune_ready_reboots 1\n" in text
    bare = Host()
    write_metrics(bare, state, lambda rows: render_metrics(READY_METRICS, rows))
    assert not isinstance(bare.read(METRICS), bytes)


def test_state_of_an_image_is_no_state_of_its_clones():
    host = Host({"/etc/machine-id": "1" * 32})
    arrange_going_on(host, ("ready",), "policy x", ["a-rule: host"], 2)
    assert read_state(host).goes_on
    clone = Host({"/etc/machine-id": "2" * 32, STATE: FileValue(host.read(STATE), 0o600)})
    assert read_state(clone) is None
    assert (begin(clone).reboots, read_state(clone).approval) == ((), "")


def test_root_that_cannot_be_told_is_no_reason_to_boot_and_no_fault_of_ours():
    class Mounts:
        @property
        def root(self):
            raise UnknownFact("/proc/self/mountinfo: permission denied")

    why = module.why_nothing_lasts(SimpleNamespace(mounts=Mounts()))
    assert why == "it is not known what / is: /proc/self/mountinfo: permission denied"


def test_notice_that_cannot_be_written_holds_nothing():
    host = Host()
    write = host.replace

    def refuse(path, new, *, expected):
        if path == MOTD:
            raise Refused("No space left on device")
        write(path, new, expected=expected)

    host.replace = refuse
    keep_state(host, ReadyState(Standing.HELD, BOOT, "why"))
    assert read_state(host).standing is Standing.HELD
