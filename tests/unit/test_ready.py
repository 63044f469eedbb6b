"""`hosttune ready`: approved or held, one reboot, no loop, and what is told of it."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.actions import ready as module
from hosttune.actions.going_on import PATH as UNIT
from hosttune.actions.going_on import UNIT as NAME
from hosttune.actions.going_on import arrange, remove, require_systemd, unit_word
from hosttune.actions.ready import (
    HOOKS,
    METRICS,
    MOTD,
    STATE,
    approvals_of,
    begin,
    bring_up,
    keep_state,
    not_ready,
    read_state,
    tell_hooks,
    write_metrics,
)
from hosttune.cli import app
from hosttune.cli import ready as cli_ready
from hosttune.cli.options import DisplayOptions, LookOnly
from hosttune.engine.approval import Approvals
from hosttune.engine.policy import AtBoot, Policy
from hosttune.engine.ready import ReadyState, Standing, state_from_json, state_to_json, why_no_reboot
from hosttune.engine.reboot import boots_of
from hosttune.errors import BadInput, HosttuneError, Refused
from hosttune.facts.base import UnknownFact
from hosttune.host.overlay import Overlay
from hosttune.values import (
    Action,
    Activation,
    Address,
    Change,
    FileValue,
    Finding,
    Outcome,
    Phase,
    Plan,
    Receipt,
    Stage,
    Verdict,
)
from hosttune.views.prometheus import metrics
from hosttune.views.ready import READY_METRICS, status_text
from tests.hosts.built import HOSTS
from tests.unit.fake_reader import FakeReader

BOOT, STARTING = "boot-a", {("systemctl", "is-system-running"): "starting\n"}
CHANGE = Change(Address("sysctl", "vm.a"), Action.UPDATE, "1", "2", "a-rule")
LATER = replace(CHANGE, activation=Activation.REBOOT)
FAULT = Finding("gpu-lost", "0000:1a:00.0", Verdict.DIFFERS, reason="the GPU does not answer", is_fault=True)
ALL = AtBoot(plans="all")


class Host(Overlay):
    """A host at its boot; programs that change it are noted, and refuse where they are told to."""

    def __init__(self, files=None, queries=STARTING, folders=("/run", "/run/systemd/system"), boot=BOOT):
        known = {"/proc/sys/kernel/random/boot_id": f"{boot}\n", "/proc/locks": "", **(files or {})}
        super().__init__(FakeReader(known, folders=folders, queries=queries))
        self.ran, self.refuses, self.logged = [], set(), []

    def run(self, argv, *, timeout_s):
        self.ran.append(tuple(argv))
        if argv[0] in self.refuses:
            raise Refused(f"{argv[0]} ended with status 3\nand a secret")

    def log(self, message):
        self.logged.append(message)


def plan_of(*changes, findings=()):
    return Plan("d" * 64, "0", "m", "", "c" * 64, (Stage(changes),) if changes else (), findings)


def receipt_of(*, failed="", reasons=(), obstacles=(), verified=True, faults=()):
    phase = Phase.FAILED if failed else Phase.DONE
    outcomes = (Outcome(CHANGE, phase, failed),)
    return Receipt("run", "d" * 64, outcomes, (), reasons, verified, obstacles, (), faults)


def brought(monkeypatch, plan, receipt, *, host=None, at_boot=ALL, state=None, fstype="ext4", approvals=None):
    made = []
    monkeypatch.setattr(module, "apply", lambda *args, **more: made.append(args) or receipt)
    host = host or Host()
    root = SimpleNamespace(mounts=SimpleNamespace(root=SimpleNamespace(fstype=fstype)))
    session = SimpleNamespace(reader=host, policy=Policy(at_boot=at_boot), plan=lambda: plan, facts=root)
    state = state or ReadyState(Standing.WORKING, BOOT, "")
    found = bring_up(session, host, state, approvals or Approvals(""), lambda _: None)
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
        (receipt_of(faults=(FAULT,)), "it does not do its work: gpu-lost: 0000:1a:00.0: the GPU does not answer"),
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
        ({"fstype": "tmpfs"}, "would lose what was made, because / is tmpfs"),
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
    why = why_no_reboot(state, ["a-rule: host"], ["no module"], may=True, is_boot=True, volatile="")
    assert why == "a reboot is required (a-rule: host), and something has to be solved before: no module"


def test_apply_that_goes_on_boots_as_often_as_its_plan_said_and_stops_then(monkeypatch):
    receipt = receipt_of(reasons=("a-rule: host",))
    going = ReadyState(Standing.WORKING, BOOT, "", reboots=("boot-0",), allowed=2, approval="a line")
    running = Host(queries={})
    state, _ = brought(
        monkeypatch, plan_of(LATER), receipt, state=going, host=running, at_boot=AtBoot(plans="all", reboot="never")
    )
    assert (state.standing, state.reboots, state.goes_on) == (Standing.REBOOTING, ("boot-0", BOOT), True)
    state, _ = brought(monkeypatch, plan_of(LATER), receipt, state=state, host=running)
    assert (state.standing, state.reboots, state.goes_on) == (Standing.STOPPED, (), False)
    assert state.sentence == "2 reboots did not bring: a-rule: host"


def test_state_survives_being_written_and_is_read_strictly():
    host = Host()
    assert read_state(host) is None
    state = ReadyState(Standing.REBOOTING, BOOT, "reboots for: x", "d" * 64, 12, ("boot-0",), 2, "a line")
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
    keep_state(host, not_ready(ReadyState(Standing.WORKING, BOOT, ""), AtBoot(), "the plan is not approved"))
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


def test_unit_that_goes_on_is_written_before_the_boot_and_taken_away_again():
    host = Host()
    arrange(host, ("/opt/a b/hosttune", "ready", "--go-on", "--only", 'x"%$\\'), "policy x", ["a-rule: host"], 2)
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
        arrange(host, ("/usr/bin/hosttune",), "policy x", ["a"], 1)
    assert not isinstance(host.read(UNIT), bytes)
    with pytest.raises(Refused, match="nothing would go on"):
        require_systemd(Host(folders=()))
    with pytest.raises(Refused, match="line break"):
        unit_word("a\nb")


def test_boots_that_a_plan_names():
    driver = replace(LATER, address=Address("package-set", "nvidia-driver-580"))
    assert [boots_of(one) for one in (plan_of(), plan_of(CHANGE), plan_of(LATER), plan_of(driver))] == [0, 0, 1, 2]


def test_status_says_where_it_is():
    state = ReadyState(Standing.REBOOTING, BOOT, "reboots for: x", "d" * 64, 0, (BOOT,), 2, "a line")
    assert status_text(state, "boot-b") == (
        "rebooting: reboots for: x\n"
        "  looked at 1970-01-01 00:00:00 UTC, in an earlier boot\n"
        "  plan dddddddddddd\n"
        "  1 of at most 2 reboots since the host was ready\n"
        "  an apply --yes --reboot goes on after the boot\n"
    )
    assert "in this boot" in status_text(state, BOOT)
    assert status_text(None, BOOT).startswith("no boot was looked at here")


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

    why = module.volatile_root(SimpleNamespace(facts=SimpleNamespace(mounts=Mounts())))
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


@pytest.mark.parametrize(
    ("at_boot", "standing", "rc"), [(ALL, "held", 1), (replace(ALL, on_failure="go"), "let go", 0)]
)
def test_boot_that_was_asked_for_and_does_not_come_ends_as_the_policy_says(monkeypatch, capsys, at_boot, standing, rc):
    host = Host()
    asked = ReadyState(Standing.REBOOTING, BOOT, "reboots for: a driver")
    monkeypatch.setattr("hosttune.cli.common.require_root", lambda *_: None)
    monkeypatch.setattr("hosttune.host.open_writer", lambda: host)
    monkeypatch.setattr(cli_ready, "_brought", lambda look, state: (asked, at_boot))
    monkeypatch.setattr(cli_ready, "await_end", lambda: None)
    ended = cli_ready.ready(LookOnly(), DisplayOptions())
    kept = json.loads(host.read(STATE))
    assert (ended, kept["standing"]) == (rc, standing)
    assert "did not come within 180 s: reboots for: a driver" in capsys.readouterr().out
