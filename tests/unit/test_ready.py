"""`hosttune ready`: approved or held, one reboot, no loop, and what is told of it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.actions import going_on
from hosttune.actions import ready as module
from hosttune.actions.going_on import PATH as UNIT
from hosttune.actions.going_on import arrange, give_up, remove, require_systemd, unit_word
from hosttune.actions.ready import (
    HOOKS,
    METRICS,
    MOTD,
    STATE,
    approvals_of,
    begin,
    bring_up,
    keep_state,
    put,
    read_state,
    require_begun,
    tell_hooks,
    write_metrics,
)
from hosttune.cli import app
from hosttune.cli import going_on as cli_going_on
from hosttune.cli import ready as cli_ready
from hosttune.cli.options import DisplayOptions, HostOptions, LookAgain, LookOnly
from hosttune.engine import trusted
from hosttune.engine.approval import Approvals, PolicyApproval, parse_approvals
from hosttune.engine.catalog import builtin_catalog
from hosttune.engine.policy import NO_DRAINS, AtBoot, Drains, Policy
from hosttune.engine.ready import CONTINUE as NAME
from hosttune.engine.ready import (
    GateUnits,
    ReadyState,
    Standing,
    not_ready,
    outlook,
    state_from_json,
    state_to_json,
    unknown,
    why_no_reboot,
)
from hosttune.engine.reboot import boots_of
from hosttune.errors import BadInput, HosttuneError, Refused
from hosttune.facts.base import UnknownFact
from hosttune.host.door import Completed, Process
from hosttune.host.overlay import Overlay
from hosttune.values import (
    Action,
    Activation,
    Address,
    Change,
    Disturbs,
    FileValue,
    Finding,
    Outcome,
    Phase,
    Plan,
    Receipt,
    Risk,
    Stage,
    Unreadable,
    Verdict,
)
from hosttune.views.prometheus import metrics
from hosttune.views.ready import READY_METRICS, status_text
from tests.hosts.built import HOSTS
from tests.unit.fake_reader import FakeReader

BOOT, STARTING = "boot-a", {("systemctl", "is-system-running"): "starting\n"}
CHANGE = Change(Address("sysctl", "vm.a"), Action.UPDATE, "1", "2", "a-rule")
LATER = replace(CHANGE, activation=Activation.REBOOT)
SAID = "the GPU does not answer"
FAULT = Finding("gpu-lost", "0000:1a:00.0", Verdict.DIFFERS, reason=SAID, is_fault=True, todo="reboot it\nsoon")
ALL = AtBoot(plans="all")


class Host(Overlay):
    """A host at its boot; programs that change it are noted, and refuse where they are told to."""

    def __init__(self, files=None, queries=STARTING, folders=("/run", "/run/systemd/system"), boot=BOOT):
        known = {"/proc/sys/kernel/random/boot_id": f"{boot}\n", "/proc/locks": "", **(files or {})}
        self.base = FakeReader(known, folders=(*folders, "/dev"), queries=queries)
        super().__init__(self.base)
        self.ran, self.refuses, self.logged = [], set(), []

    def run(self, argv, *, timeout_s):
        self.ran.append(tuple(argv))
        if argv[0] in self.refuses:
            raise Refused(f"{argv[0]} ended with status 3\nand a secret")

    def log(self, message):
        self.logged.append(message)


def plan_of(*changes, findings=()):
    return Plan("d" * 64, "0", "m", "", "c" * 64, (Stage(changes),) if changes else (), findings)


def receipt_of(*, failed="", waiting=(), reasons=(), obstacles=(), verified=True, faults=()):
    phase = Phase.FAILED if failed else Phase.DONE
    outcomes = (Outcome(CHANGE, phase, failed),)
    return Receipt("run", "d" * 64, outcomes, waiting, reasons, verified, obstacles, (), faults)


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
):
    made = []
    monkeypatch.setattr(module, "apply", lambda *args, **more: made.append(args) or receipt)
    monkeypatch.setattr(module, "faults_of", lambda *_: later)
    host = host or Host()
    kinds = (mounts or {"/": "ext4"}).items()
    visible = tuple(SimpleNamespace(target=at, fstype=fstype, source=source) for at, fstype in kinds)
    facts = SimpleNamespace(mounts=SimpleNamespace(root=visible[0], visible=visible))
    rules = (
        SimpleNamespace(id="wishing", want=("a wish",), can_drain=False),
        SimpleNamespace(id="judging", want=(), can_drain=True),
        SimpleNamespace(id="looking", want=(), can_drain=False),
    )
    session = SimpleNamespace(
        reader=host, policy=Policy(at_boot=at_boot, disturb=disturb), plan=lambda: plan, facts=facts, selected=rules
    )
    state = state or ReadyState(Standing.WORKING, BOOT, "")
    covered = Approvals("apply --yes --reboot", ("d" * 12,)) if goes_on else Approvals("")
    found = bring_up(session, host, state, approvals or covered, lambda _: None, goes_on=goes_on)
    return found, bool(made)


def test_plan_that_is_not_approved_is_not_made_and_says_which_line_approves_it(monkeypatch):
    state, was_made = brought(monkeypatch, plan_of(CHANGE), receipt_of(), at_boot=AtBoot())
    assert (state.standing, was_made) == (Standing.HELD, False)
    lines = "one of these lines in /etc/hosttune/approved approves it: dddddddddddd or: "
    assert f"dddddddddddd is approved nowhere; {lines}" in state.sentence
    assert "policy cccccccccccc edition 2026.1 risk low" in state.sentence


def test_approved_plan_is_made_and_work_comes_in(monkeypatch):
    approvals = Approvals("approved", ("d" * 12,))
    was = ReadyState(Standing.WORKING, BOOT, "", reboots=("boot-0",))
    state, was_made = brought(
        monkeypatch, plan_of(CHANGE), receipt_of(), at_boot=AtBoot(), state=was, approvals=approvals
    )
    assert (state.standing, state.reboots, was_made) == (Standing.READY, (), True)
    assert state.sentence == "as its plan says; 1 made now, after 1 reboot"


def test_host_on_which_nothing_differs_is_ready_without_an_approval(monkeypatch):
    state, _ = brought(monkeypatch, plan_of(), receipt_of(), at_boot=AtBoot())
    assert (state.standing, state.sentence) == (Standing.READY, "as its plan says; nothing had to be changed")


@pytest.mark.parametrize(
    ("receipt", "words"),
    [
        (receipt_of(failed="the kernel says no\nmore"), "sysctl:vm.a (a-rule) failed: the kernel says no"),
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
    state, _ = brought(monkeypatch, plan_of(CHANGE), receipt, at_boot=AtBoot(plans="all", on_failure="go"))
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
        ({"at_boot": AtBoot(plans="all", reboot="never")}, "the policy allows none (at_boot: reboot)"),
        ({"mounts": {"/": "tmpfs"}}, "would lose what was made, because / is tmpfs"),
        ({"mounts": {"/": "ext4", "/var": "tmpfs"}}, "would lose what was made, because /var is tmpfs"),
        ({"mounts": {"/": "ext4", "/var": "ext4", "/var/lib": "ramfs"}}, "because /var/lib is ramfs"),
        ({"mounts": {"/": "ext4", "/etc": "overlay"}}, "because /etc is overlay"),
        ({"mounts": {"/": "ext4", "/etc/machine-id": "tmpfs"}}, "because /etc/machine-id is tmpfs"),
        ({"mounts": {"/": "ext4"}, "source": "/dev/mapper/live-rw"}, "because / is /dev/mapper/live-rw"),
        ({"mounts": {"/": "ext4"}, "source": "/dev/zram0"}, "because / is /dev/zram0"),
        ({"host": Host(queries={("systemctl", "is-system-running"): "running\n"})}, "this is not the boot"),
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
    why = why_no_reboot(state, ["a-rule: host"], ["no module"], allowed=1, is_boot=True, volatile="")
    assert why == "a reboot is required (a-rule: host), and something has to be solved before: no module"


def test_apply_that_goes_on_boots_as_often_as_its_plan_said_and_stops_then(monkeypatch):
    receipt = receipt_of(reasons=("a-rule: host",))
    going = ReadyState(Standing.WORKING, BOOT, "", reboots=("boot-0",), allowed=2, approval="a line")
    never = AtBoot(plans="all", reboot="never")
    state, _ = brought(monkeypatch, plan_of(LATER), receipt, state=going, at_boot=never, goes_on=True)
    assert (state.standing, state.reboots, state.goes_on) == (Standing.REBOOTING, ("boot-0", BOOT), True)
    state, _ = brought(monkeypatch, plan_of(LATER), receipt, state=replace(state, boot_id="boot-b"), goes_on=True)
    # the gate after it has no boot of its own for the same
    assert (state.standing, state.reboots, state.goes_on) == (Standing.STOPPED, ("boot-0", BOOT), False)
    assert state.sentence == "2 reboots did not bring: a-rule: host"
    held, _ = brought(monkeypatch, plan_of(LATER), receipt, state=replace(state, boot_id="boot-b"))
    assert (held.standing, held.sentence) == (Standing.HELD, "2 reboots did not bring: a-rule: host")


def test_gate_does_not_boot_by_what_an_apply_that_was_cut_off_had_approved(monkeypatch):
    receipt = receipt_of(reasons=("a-rule: host",))
    going = ReadyState(Standing.WORKING, "boot-b", "", reboots=("boot-0",), allowed=2, approval="a line")
    by_day = Host(queries={("systemctl", "is-system-running"): "running\n"})
    for goes_on, standing in ((False, Standing.HELD), (True, Standing.STOPPED)):
        state, _ = brought(monkeypatch, plan_of(LATER), receipt, state=going, host=by_day, goes_on=goes_on)
        assert (state.standing, state.reboots) == (standing, ("boot-0",))
        assert "somebody may be at work here" in state.sentence
    never = AtBoot(plans="all", reboot="never")
    state, _ = brought(monkeypatch, plan_of(LATER), receipt, state=going, at_boot=never)
    assert (state.standing, state.goes_on) == (Standing.HELD, True)
    assert "the policy allows none" in state.sentence


def test_boot_that_has_not_come_yet_is_not_told_as_one_that_was_of_no_use(monkeypatch):
    asked = ReadyState(Standing.WORKING, BOOT, "", reboots=(BOOT,))
    state, _ = brought(monkeypatch, plan_of(LATER), receipt_of(reasons=("a-rule: host",)), state=asked)
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


def test_what_goes_on_ends_well_where_a_starting_manager_alone_is_waited_for_and_its_boots_are_over(monkeypatch):
    waits = "daemon-reload waits: the service manager is still starting"
    going = ReadyState(Standing.WORKING, "boot-b", "", reboots=(BOOT,), allowed=1, approval="a line")
    state, _ = brought(monkeypatch, plan_of(CHANGE), receipt_of(waiting=(waits,)), state=going, goes_on=True)
    assert (state.standing, state.sentence) == (
        Standing.READY, f"as its plan says; 1 made now, after 1 reboot; in force after a boot: {waits}",
    )  # fmt: skip
    two = replace(going, allowed=2)
    state, _ = brought(monkeypatch, plan_of(CHANGE), receipt_of(waiting=(waits,)), state=two, goes_on=True)
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
    state, _ = brought(monkeypatch, plan_of(findings=(replace(unread, rule="looking"),)), receipt_of())
    assert state.standing is Standing.READY


def test_what_is_not_known_holds_where_it_would_if_it_were():
    rules = builtin_catalog().rules
    unread = Finding("", "", Verdict.UNKNOWN, reason="no answer")

    def held(name, drains=NO_DRAINS):
        return bool(unknown([replace(unread, rule=name)], rules.values(), drains))

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
    job = Process(77, "python3", "ann", ("python3", "train.py"), 0, 0, ("/dev/nvidia0",), "/user.slice", 0.0)
    host = Host({"/dev/nvidia0": ""}, folders=("/run", "/run/systemd/system", "/proc/1"))
    host.base._processes = (job,)
    for goes_on in (False, True):
        receipt = receipt_of(reasons=("a-rule: host",))
        state, _ = brought(monkeypatch, plan_of(LATER), receipt, host=host, goes_on=goes_on)
        assert state.standing is (Standing.STOPPED if goes_on else Standing.HELD)
        assert state.reboots == ()
        assert "something has to be solved before: " in state.sentence
        state, _ = brought(monkeypatch, plan_of(LATER), receipt, host=host, goes_on=goes_on, disturb=Disturbs.GPU_WORK)
        assert state.standing is Standing.REBOOTING


@pytest.mark.parametrize(
    ("devices", "cgroup", "words"),
    [
        ((), "/system.slice/slurmstepd.scope/job_42/step_0", "slurm job 42 runs here"),
        (("/dev/kfd", "/dev/dri/renderD128"), "/user.slice", "process 77 (python3) holds /dev/kfd"),
    ],
)
def test_nobody_is_booted_away_where_no_gpu_is_of_nvidia(monkeypatch, devices, cgroup, words):
    host = Host()
    host.base._processes = (Process(77, "python3", "ann", ("python3",), 0, 0, devices, cgroup, 0.0),)
    state, _ = brought(monkeypatch, plan_of(LATER), receipt_of(reasons=("a-rule: host",)), host=host)
    assert (state.standing, words in state.sentence) == (Standing.HELD, True)


def test_what_goes_on_is_covered_by_its_yes_alone(monkeypatch):
    going = ReadyState(Standing.WORKING, "boot-b", "", reboots=(BOOT,), allowed=2, approval="e" * 12)
    approvals = Approvals("apply --yes --reboot", ("e" * 12,))
    state, was_made = brought(
        monkeypatch, plan_of(CHANGE), receipt_of(), state=going, approvals=approvals, goes_on=True, at_boot=ALL
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
    other, own = (PolicyApproval(one, "2026.1", Risk.LOW) for one in ("c" * 12, Policy().digest[:12]))
    require_begun(session, Host(), Approvals("x", (), (other, own)), goes_on=False)
    for approvals in (Approvals(""), Approvals("x", ("b" * 12,)), Approvals("x", (), (other,))):
        with pytest.raises(
            Refused, match="run r1 stopped half-way in a set of packages, and its plan aaaaaaaaaaaa is not"
        ):
            require_begun(session, Host(), approvals, goes_on=False)
    require_begun(session, Host(), Approvals("x", ("a" * 12,)), goes_on=False)
    session.policy = Policy(at_boot=ALL)
    require_begun(session, Host(), Approvals(""), goes_on=False)
    with pytest.raises(Refused):
        require_begun(session, Host(), Approvals(""), goes_on=True)


FINAL = ("systemctl", "show", "cloud-final.service", "--property=ActiveState", "--value")


def test_boot_waits_until_it_cuts_nothing_off(monkeypatch):
    receipt, said = receipt_of(reasons=("a-rule: host",)), ["activating\n", "activating\n", "inactive\n"]

    class Ending(Host):
        def query(self, argv, *, timeout_s=10.0):
            if tuple(argv) == FINAL:
                self.base.queries[FINAL] = said.pop(0) if len(said) > 1 else said[0]
            return super().query(argv, timeout_s=timeout_s)

    waited = []
    monkeypatch.setattr(module.time, "sleep", waited.append)
    state, _ = brought(monkeypatch, plan_of(LATER), receipt, host=Ending(queries={**STARTING, FINAL: ""}))
    assert (state.standing, len(waited)) == (Standing.REBOOTING, 2)


def test_boot_that_would_cut_off_who_waits_for_the_gate_is_none(monkeypatch):
    start = ("systemctl", "start", "slurmd.service")
    busy = Host(queries={**STARTING, FINAL: "activating\n"})
    busy.base._processes = (Process(9, "systemctl", "root", start, 0, 0, (), "/system.slice/cloud-final.service", 0.0),)
    monkeypatch.setattr(module.time, "sleep", lambda _: pytest.fail("waits for who waits for it"))
    state, _ = brought(monkeypatch, plan_of(LATER), receipt_of(reasons=("a-rule: host",)), host=busy)
    assert (state.standing, state.reboots) == (Standing.HELD, ())
    assert state.sentence.endswith("something has to be solved before: cloud-init is at work (cloud-final.service)")
    ends = iter((0.0, 1.0, 601.0))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(ends))
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    busy.base._processes = ()
    state, _ = brought(monkeypatch, plan_of(LATER), receipt_of(reasons=("a-rule: host",)), host=busy)
    assert state.standing is Standing.HELD


def test_state_survives_being_written_and_is_read_strictly():
    host = Host()
    assert read_state(host) is None
    state = ReadyState(Standing.REBOOTING, BOOT, "reboots for: x", "d" * 64, 12, ("boot-0",), 2, "a line", "")
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
            state_from_json(broken, STATE)
    host.replace(STATE, FileValue(b"{"), expected=host.read(STATE))
    with pytest.raises(HosttuneError, match="is no JSON"):
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
    keep_state(host, not_ready(ReadyState(Standing.WORKING, BOOT, ""), "hold", "the plan is not approved"))
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
    modes = {"50-b": 0o755, "10-a": 0o700, "README.md": 0o755, "60-not-executable": 0o644, "70-open": 0o777}
    host = Host({f"{HOOKS}/{name}": FileValue(b"#!/bin/sh\n", mode) for name, mode in modes.items()})
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
    write_metrics(host, state, lambda rows: metrics(READY_METRICS, rows))
    text = host.read(METRICS).decode()
    assert 'hosttune_ready{standing="held"} 1\n' in text
    assert 'hosttune_ready{standing="ready"} 0\n' in text
    assert "hosttune_ready_timestamp_seconds 7\n" in text
    assert "hosttune_ready_reboots 1\n" in text
    bare = Host()
    write_metrics(bare, state, lambda rows: metrics(READY_METRICS, rows))
    assert not isinstance(bare.read(METRICS), bytes)


def test_unit_that_goes_on_is_written_before_the_boot_and_taken_away_again(monkeypatch):
    host = Host()
    monkeypatch.setattr(going_on, "starting_words", lambda _: ("/opt/a b/hosttune",))
    arrange(host, ("ready", "--go-on", "--only", 'x"%$\\'), "policy x", ["a-rule: host"], 2)
    text = host.read(UNIT).decode()
    assert 'ExecStart="/opt/a b/hosttune" "ready" "--go-on" "--only" "x\\"%%$$\\\\"\n' in text
    assert host.ran == [("systemctl", "--no-reload", "enable", NAME)]
    state = read_state(host)
    assert (state.standing, state.allowed, state.reboots, state.approval) == (
        Standing.REBOOTING,
        2,
        (BOOT,),
        "policy x",
    )
    remove(host)
    assert not isinstance(host.read(UNIT), bytes)
    assert host.ran[-1] == ("systemctl", "--no-reload", "disable", NAME)


def test_nothing_is_left_where_it_cannot_be_arranged():
    host = Host()
    host.run = lambda argv, *, timeout_s: (_ for _ in ()).throw(Refused("no")) if argv[2] == "enable" else None
    with pytest.raises(Refused):
        arrange(host, ("ready",), "policy x", ["a"], 1)
    assert not isinstance(host.read(UNIT), bytes)
    with pytest.raises(Refused, match="nothing would go on"):
        require_systemd(Host(folders=()))
    with pytest.raises(Refused, match="line break"):
        unit_word("a\nb")


def test_state_of_an_image_is_no_state_of_its_clones():
    host = Host({"/etc/machine-id": "1" * 32})
    arrange(host, ("ready",), "policy x", ["a-rule: host"], 2)
    assert read_state(host).goes_on
    clone = Host({"/etc/machine-id": "2" * 32, STATE: FileValue(host.read(STATE), 0o600)})
    assert read_state(clone) is None
    assert (begin(clone).reboots, read_state(clone).approval) == ((), "")


def test_what_somebody_does_by_hand_ends_what_would_have_gone_on():
    host = Host()
    assert not give_up(host, "an undo came after it")
    assert host.ran == []
    arrange(host, ("ready",), "policy x", ["a-rule: host"], 2)
    assert give_up(host, "an undo came after it")
    assert read_state(host) is None  # its boot counts against nobody
    assert not isinstance(host.read(MOTD), bytes)
    assert not isinstance(host.read(UNIT), bytes)
    arrange(host, ("ready",), "policy x", ["a-rule: host"], 2)
    host.replace(STATE, FileValue(b"{"), expected=host.read(STATE))
    assert not give_up(host, "an undo came after it")
    assert not isinstance(host.read(UNIT), bytes)


def test_self_contained_file_is_carried_along_and_goes_with_the_unit(monkeypatch):
    host = Host()
    monkeypatch.setattr(going_on, "archive", lambda: "/tmp/hosttune.pyz")
    monkeypatch.setattr(going_on, "load_bytes", lambda path: path.encode())
    monkeypatch.setattr(going_on, "starting_words", lambda carried: ("/usr/bin/python3", "-I", "-S", carried))
    arrange(host, ("ready", "--go-on"), "policy x", ["a-rule: host"], 1)
    assert host.read(going_on.CARRIED) == b"/tmp/hosttune.pyz"
    line = f'ExecStart="/usr/bin/python3" "-I" "-S" "{going_on.CARRIED}" "ready" "--go-on"\n'
    assert line in host.read(UNIT).decode()
    remove(host)
    assert not isinstance(host.read(going_on.CARRIED), bytes)


def test_boots_that_a_plan_names():
    driver = replace(LATER, address=Address("package-set", "nvidia-driver-580"))
    assert [boots_of(one) for one in (plan_of(), plan_of(CHANGE), plan_of(LATER), plan_of(driver))] == [0, 0, 1, 2]


OFF = GateUnits()
ON = GateUnits(holds=True, is_open=True)
AHEAD = GateUnits(holds=True)
FAILED = GateUnits(holds=True, has_failed=True)
RUNNING = GateUnits(holds=True, is_running=True)


def test_status_says_where_it_is():
    state = ReadyState(Standing.REBOOTING, BOOT, "reboots for: x", "d" * 64, 0, (BOOT,), 2, "a line")
    assert status_text(state, "boot-b", outlook(state, "boot-b", GateUnits(goes_on=True))) == (
        "an apply --yes --reboot goes on, and has not begun in this boot\n"
        "rebooting: reboots for: x\n"
        "  looked at 1970-01-01 00:00:00 UTC, in an earlier boot\n"
        "  plan dddddddddddd\n"
        "  1 reboot since the host was ready, of at most 2\n"
        "  an apply --yes --reboot goes on after the boot\n"
    )
    assert "in this boot" in status_text(state, BOOT, outlook(state, BOOT, OFF))


@pytest.mark.parametrize(
    ("standing", "boot", "units", "is_open", "words"),
    [
        (Standing.READY, BOOT, ON, True, ""),
        (Standing.LET_GO, BOOT, ON, True, ""),
        (Standing.STOPPED, BOOT, ON, True, ""),  # by hand, after the gate had opened
        (Standing.HELD, BOOT, FAILED, False, ""),
        (Standing.READY, BOOT, RUNNING, False, "is being brought to its plan"),
        (Standing.WORKING, BOOT, RUNNING, False, "is being brought to its plan"),
        (Standing.READY, BOOT, FAILED, False, "was ended before it was done, and holds work"),
        (Standing.READY, BOOT, AHEAD, False, "this boot was not looked at yet"),  # by what went on before the gate
        (Standing.WORKING, BOOT, AHEAD, False, "not looked at yet"),
        (Standing.WORKING, BOOT, OFF, False, "ended before it was done"),
        (Standing.REBOOTING, BOOT, GateUnits(goes_on=True), False, ""),
        (Standing.REBOOTING, BOOT, OFF, False, "ended before it was done"),
        (Standing.READY, BOOT, OFF, True, ""),
        (Standing.STOPPED, BOOT, OFF, False, ""),
        (Standing.READY, "boot-b", AHEAD, False, "this boot was not looked at yet"),
        (Standing.READY, "boot-b", ON, True, "what it said then is lost"),
        (Standing.READY, "boot-b", OFF, True, "nothing holds work"),
        (Standing.REBOOTING, "boot-b", GateUnits(goes_on=True), False, "has not begun in this boot"),
        (Standing.HELD, "boot-b", replace(AHEAD, is_left_out=True), True, "left out in this boot"),
        (Standing.READY, "boot-b", FAILED, False, "failed before it could say why"),
        (None, BOOT, AHEAD, False, "this boot was not looked at yet"),
        (None, BOOT, FAILED, False, "failed before it could say why"),
        (None, BOOT, OFF, True, "hosttune-ready.service is off"),
    ],
)
def test_work_may_start_where_the_gate_said_so_in_this_boot(standing, boot, units, is_open, words):
    state = ReadyState(standing, BOOT, "x", approval="a line") if standing else None
    now = outlook(state, boot, units)
    assert now.is_open is is_open
    assert words in now.sentence
    assert bool(words) is bool(now.sentence)


def test_gate_is_asked_of_systemd():
    shown = (
        "Id=hosttune-ready.service\nActiveState=failed\nUnitFileState=enabled\nRequiredBy=\nConditionResult=no\n"
        "ConditionTimestampMonotonic=0\n\nId=hosttune-continue.service\nActiveState=activating\nUnitFileState=enabled\n"
    )
    assert module.gate_units(Host(folders=())) == OFF  # no systemd
    host = Host()
    with pytest.raises(HosttuneError, match="systemd does not say"):
        module.gate_units(host)
    asked = host.base.asked[-1]
    for wrong in ("", Completed(1, shown.encode(), b""), Unreadable("no answer in 10 s"), shown.partition("\n\n")[0]):
        with pytest.raises(HosttuneError, match="systemd does not say"):
            module.gate_units(Host(queries={asked: wrong}))
    assert module.gate_units(Host(queries={asked: shown})) == GateUnits(
        holds=True, has_failed=True, is_running=True, goes_on=True
    )
    left = shown.replace("Monotonic=0", "Monotonic=7").replace("=enabled", "=disabled").replace("=failed", "=active")
    found = module.gate_units(Host(queries={asked: left.replace("dBy=", "dBy=slurmd.service")}))
    assert (found.is_left_out, found.holds, found.is_open, found.goes_on) == (True, True, True, False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("at_boot: {plans: some}", "policy.yaml:1: at_boot.plans"),
        ("at_boot: {digests: [abc]}", "policy.yaml:1: at_boot.digests[0]"),
        ("at_boot: {reboot: twice}", "policy.yaml:1: at_boot.reboot"),
        ("at_boot: {on_failure: maybe}", "policy.yaml:1: at_boot.on_failure"),
        ("at_boot: {boots: 1}", "at_boot.boots"),
    ],
)
def test_policy_that_is_wrong_about_boots_is_told(tmp_path, capsys, text, words):
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"{text}\n")
    assert app.run(["check", "--host", str(HOSTS / "h100-8x-2socket.json"), "--policy", str(policy)]) == 2
    assert words in capsys.readouterr().err


def test_section_for_a_host_changes_what_it_names(tmp_path, capsys):
    policy = tmp_path / "policy.yaml"
    policy.write_text("at_boot: {plans: all, reboot: never}\nhosts: {'*': {at_boot: {reboot: once}}}\n")
    assert app.run(["check", "--host", str(HOSTS / "h100-8x-2socket.json"), "--policy", str(policy)]) in {0, 1}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ready", "--root", "/"], "ready is of the running host alone"),
        (["apply", "--reboot", "--root", "/"], "another one is looked at"),
        (["apply", "--reboot", "--format", "json"], "has no answer in JSON"),
    ],
)
def test_what_is_not_of_the_running_host_is_refused(capsys, words, said):
    assert app.run(words) == 2
    assert said in capsys.readouterr().err


def test_document_of_a_status_is_the_state():
    assert json.loads(json.dumps(state_to_json(ReadyState(Standing.READY, BOOT, "x"))))["standing"] == "ready"


def test_root_that_cannot_be_told_is_no_reason_to_boot_and_no_fault_of_ours():
    class Mounts:
        @property
        def root(self):
            raise UnknownFact("/proc/self/mountinfo: permission denied")

    why = module.why_nothing_lasts(SimpleNamespace(facts=SimpleNamespace(mounts=Mounts())))
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


@pytest.fixture
def gate(monkeypatch):
    """`hosttune ready` on a host whose plan comes to `becomes`; what happened is in `did`."""
    did, session = [], SimpleNamespace(policy=Policy(at_boot=ALL))
    host = Host({"/etc/machine-id": "1" * 32}, folders=("/run", METRICS.rpartition("/")[0]))
    case = SimpleNamespace(host=host, did=did, session=session, becomes={"standing": Standing.READY}, trouble=None)

    @contextmanager
    def holding(wait_s=0.0):
        did.append(f"lock {wait_s:.0f}")
        if case.trouble:
            raise case.trouble
        yield
        did.append("unlock")

    @contextmanager
    def opened(*_, is_locked, **__):
        assert is_locked
        yield session, host

    def bring(session, writer, state, *_, goes_on):
        did.append(f"bring{' on' * goes_on}")
        return replace(state, sentence="x", **case.becomes)

    monkeypatch.setattr("hosttune.cli.common.require_root", lambda *_: None)
    monkeypatch.setattr("hosttune.host.open_writer", lambda: host)
    monkeypatch.setattr("hosttune.host.lock.locked", holding)
    monkeypatch.setattr("hosttune.actions.run.open_for_change", opened)
    monkeypatch.setattr(module, "bring_up", bring)
    monkeypatch.setattr(module, "tell_hooks", lambda _, state, __: did.append(f"hooks {state.standing}"))
    monkeypatch.setattr(cli_ready, "await_end", lambda: did.append("awaits"))
    case.bring = lambda made: monkeypatch.setattr(module, "bring_up", made)
    case.run = lambda go_on=False: cli_ready.ready(LookOnly(), DisplayOptions(), go_on=go_on)
    return case


def metric(host):
    return next(line for line in host.read(METRICS).decode().splitlines() if line.endswith("} 1"))


def test_gate_holds_the_lock_from_its_first_note_to_its_last(gate):
    assert gate.run() == 0
    assert gate.did == ["lock 600", "bring", "unlock", "hooks ready"]
    assert read_state(gate.host).standing is Standing.READY
    assert metric(gate.host) == 'hosttune_ready{standing="ready"} 1'


def test_metrics_say_that_it_has_begun_and_are_never_of_another_boot(gate):
    seen = []
    gate.session.plan = None

    def bring(session, writer, state, *_, goes_on):
        seen.append(metric(gate.host))
        return replace(state, standing=Standing.READY)

    gate.bring(bring)
    assert gate.run() == 0
    assert seen == ['hosttune_ready{standing="working"} 1']
    replacing = gate.host.replace

    def full(path, new, *, expected):
        if path == METRICS:
            raise Refused("No space left on device")
        replacing(path, new, expected=expected)

    gate.host.replace = full
    gate.bring(lambda *_, goes_on: (_ for _ in ()).throw(UnknownFact("trial.json: Input/output error")))
    assert gate.run() == 1
    assert not isinstance(gate.host.read(METRICS), bytes)
    assert gate.host.read(MOTD) == b"hosttune: held: trial.json: Input/output error\n"
    assert gate.did[-1] == "hooks held"


@pytest.mark.parametrize("chosen", [{"only": ["a-rule"]}, {"ignore": ["a-rule"]}, {"policy": "x"}, {"profile": "base"}])
def test_gate_looks_at_the_whole_policy_of_its_host(gate, chosen):
    with pytest.raises(HosttuneError, match="by its own policy alone"):
        cli_ready.ready(LookOnly(**chosen), DisplayOptions())
    assert gate.did == []


def trouble_of_the_lock(gate):
    gate.trouble = Refused("another run of hosttune is at work (process 7)", hint="wait for it to end")
    return "another run of hosttune is at work (process 7) (wait for it to end)"


def trouble_of_the_state(gate):
    gate.host.replace(STATE, FileValue(b"{"), expected=gate.host.read(STATE))
    return f"{STATE}: is no JSON"


def trouble_of_the_disk(gate):
    def full(path, new, *, expected):
        if path == STATE:
            raise Refused(f"{path}: No space left on device")
        Host.replace(gate.host, path, new, expected=expected)

    gate.host.replace = full
    return f"{STATE}: No space left on device"


def trouble_of_the_boot(gate):
    gate.becomes = {"standing": Standing.REBOOTING}
    gate.host.refuses = {"systemctl"}
    return "systemctl ended with status 3"


def trouble_of_a_boot_that_does_not_come(gate):
    gate.becomes = {"standing": Standing.REBOOTING}
    return "the reboot that was asked for did not come within 180 s: x"


TROUBLES = (
    trouble_of_the_lock, trouble_of_the_state, trouble_of_the_disk, trouble_of_the_boot, trouble_of_a_boot_that_does_not_come,
)  # fmt: skip


@pytest.mark.parametrize("trouble", TROUBLES)
def test_whatever_the_trouble_is_work_is_held_and_everybody_is_told(gate, capsys, trouble):
    words = trouble(gate)
    assert gate.run() == 1
    said = capsys.readouterr().out
    assert said.startswith(f"hosttune: held: {words}")
    assert gate.host.read(MOTD).decode().startswith(f"hosttune: held: {words}")
    assert gate.did[-1] == "hooks held"
    assert metric(gate.host) == 'hosttune_ready{standing="held"} 1'
    assert any(words in line for line in gate.host.logged)


def test_policy_lets_work_start_where_the_boot_does_not_come(gate, capsys):
    gate.session.policy = Policy(at_boot=replace(ALL, on_failure="go"))
    words = trouble_of_a_boot_that_does_not_come(gate)
    assert gate.run() == 0
    assert words in capsys.readouterr().out
    assert read_state(gate.host).standing is Standing.LET_GO


def test_unit_that_has_nothing_to_go_on_with_is_no_gate_and_goes(gate):
    put(gate.host, UNIT, b"[Unit]\n", 0o644)
    assert gate.run(go_on=True) == 0
    assert not isinstance(gate.host.read(UNIT), bytes)
    assert not any(word.startswith(("bring", "hooks")) for word in gate.did)


def test_unit_that_goes_on_waits_for_the_boot_and_goes_at_its_end(gate):
    arrange(gate.host, ("ready", "--go-on"), "policy aaaaaaaaaaaa edition 2026.1 risk low", ["a-rule: host"], 2)
    assert gate.run(go_on=True) == 1  # in the boot before
    assert isinstance(gate.host.read(UNIT), bytes)
    assert read_state(gate.host).goes_on
    keep_state(gate.host, replace(read_state(gate.host), reboots=("boot-0",)))
    assert gate.run(go_on=True) == 0
    assert gate.did[-3:] == ["bring on", "unlock", "hooks ready"]
    gate.becomes = {"standing": Standing.READY, "approval": ""}
    assert gate.run(go_on=True) == 0
    assert not isinstance(gate.host.read(UNIT), bytes)


@pytest.mark.parametrize(
    ("receipt", "mounts", "status"),
    [
        (receipt_of(), {"/": "ext4"}, 0),  # nothing waits for a boot
        (receipt_of(reasons=("a-rule: host",)), {"/": "ext4", "/var": "tmpfs"}, 1),
        (receipt_of(reasons=("a-rule: host",), failed="no"), {"/": "ext4"}, 1),
        (receipt_of(reasons=("a-rule: host",), obstacles=("no module",)), {"/": "ext4"}, 1),
    ],
)
def test_apply_that_was_to_boot_and_does_not_has_work_left(capsys, receipt, mounts, status):
    visible = tuple(SimpleNamespace(target=at, fstype=fstype, source="") for at, fstype in mounts.items())
    facts = SimpleNamespace(mounts=SimpleNamespace(root=visible[0], visible=visible))
    session, host = SimpleNamespace(policy=Policy(), facts=facts), Host()
    assert cli_going_on.arrange(session, host, plan_of(LATER), receipt, HostOptions())() == status
    assert ("this host is not booted: " in capsys.readouterr().err) is bool(status)
    assert read_state(host) is None


@pytest.fixture
def booting(monkeypatch):
    """`_boot` of a host whose continuation is arranged; what it ran is in `ran`."""
    host = Host({"/etc/machine-id": "1" * 32})
    arrange(host, ("ready",), "policy x", ["a-rule: host"], 1)
    host.ran.clear()
    monkeypatch.setattr("hosttune.host.lock.locked", contextmanager(lambda wait_s: (yield)))
    monkeypatch.setattr(cli_ready, "await_end", lambda: None)
    return host


def test_boot_is_asked_for_where_nothing_came_between(booting, capsys, monkeypatch):
    with pytest.raises(Refused, match="did not come within 180 s"):
        cli_going_on._boot(booting, Policy())
    assert booting.ran == [("systemctl", "reboot")]
    monkeypatch.setattr(module, "at_work", lambda _: iter(["apt is at work"]))
    assert cli_going_on._boot(booting, Policy()) == 1
    assert "this host is not booted: apt is at work; it goes on after the next boot" in capsys.readouterr().err
    give_up(booting, "an undo came after it")
    booting.ran.clear()
    assert cli_going_on._boot(booting, Policy()) == 1
    assert "another run came between" in capsys.readouterr().err
    assert booting.ran == []


def test_yes_to_a_file_covers_what_the_file_does_and_no_option_is_left_that_ready_has_not(monkeypatch):
    host = Host({"/etc/machine-id": "1" * 32})
    session = SimpleNamespace(policy=Policy(), facts=SimpleNamespace(mounts=SimpleNamespace(root=None, visible=())))
    monkeypatch.setattr(module, "why_nothing_lasts", lambda _: "")
    receipt = receipt_of(reasons=("a-rule: host",))
    approvals = Approvals("file", ("d" * 12,), (PolicyApproval("c" * 12, "2026.1", Risk.LOW),))
    look = LookAgain(again=["a-rule"], only=["b-rule"])
    cli_going_on.arrange(session, host, plan_of(LATER), receipt, look, None, approvals)
    assert read_state(host).approval == f"{'d' * 12}\npolicy {'c' * 12} edition 2026.1 risk low"
    line = next(one for one in host.read(UNIT).decode().splitlines() if one.startswith("ExecStart="))
    assert line.endswith('"ready" "--go-on" "--only" "b-rule"')
    cli_going_on.arrange(session, host, plan_of(LATER), receipt, look)
    assert read_state(host).approval.startswith("policy cccccccccccc edition ")
    cli_going_on.arrange(session, host, plan_of(), receipt, look, None, Approvals("file"))
    assert read_state(host).goes_on  # to what needs no approval
    assert parse_approvals(read_state(host).approval, "x") == Approvals("x")


def test_earlier_reboot_ends_with_the_next_apply(capsys):
    host = Host({"/etc/machine-id": "1" * 32})
    arrange(host, ("ready",), "policy x", ["a-rule: host"], 1)
    cli_going_on.before_apply(HostOptions(), host, plan_of(), None, reboot=False)
    assert read_state(host).goes_on  # nothing was changed
    for plan, reboot in ((plan_of(CHANGE), False), (plan_of(), True)):
        arrange(host, ("ready",), "policy x", ["a-rule: host"], 1)
        cli_going_on.before_apply(HostOptions(), host, plan, None, reboot=reboot)
        assert read_state(host) is None
        assert "does not go on after the next boot: another apply came after it" in capsys.readouterr().err
    host.replace(STATE, FileValue(b"{"), expected=host.read(STATE))
    with pytest.raises(HosttuneError, match="is no JSON"):  # before the first change
        cli_going_on.before_apply(HostOptions(), host, plan_of(CHANGE), None, reboot=True)


def test_program_that_others_can_write_is_not_left_for_root_to_start(monkeypatch):
    monkeypatch.setattr(trusted, "stranger_of", lambda _, path: "ann owns /home/ann" if "/ann/" in path else "")
    monkeypatch.setattr("hosttune.host.console.starting_words", lambda _: ("/home/ann/.local/bin/hosttune",))
    with pytest.raises(
        Refused, match=r"root would start /home/ann/\.local/bin/hosttune at a boot, and ann owns /home/ann"
    ):
        going_on.require_own(Host())
    monkeypatch.setattr("hosttune.host.console.starting_words", lambda _: ("/usr/local/bin/hosttune",))
    going_on.require_own(Host())
    monkeypatch.setattr("hosttune.__path__", ["/home/ann/lib/hosttune"])
    with pytest.raises(Refused, match="ann owns"):
        going_on.require_own(Host())
    monkeypatch.setattr("hosttune.host.console.archive", lambda: "/home/ann/hosttune.pyz")  # a copy is carried along
    going_on.require_own(Host())
    monkeypatch.setattr("sys.executable", "/home/ann/venv/bin/python")
    with pytest.raises(Refused, match="ann owns"):
        going_on.require_own(Host())
