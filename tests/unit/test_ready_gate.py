"""`hosttune ready` and `hosttune status`: the lock, every trouble, and whether work may start in
this boot.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.actions.gate import ready as module
from hosttune.actions.gate.going_on import PATH as UNIT
from hosttune.actions.gate.going_on import arrange_going_on
from hosttune.actions.gate.ready import (
    METRICS,
    MOTD,
    STATE,
    keep_state,
    put,
    read_state,
    write_metrics,
)
from hosttune.cli import app
from hosttune.cli import ready as cli_ready
from hosttune.cli.options import DisplayOptions, LookOnly
from hosttune.engine.decide.ready import (
    GateUnits,
    ReadyState,
    Standing,
    read_outlook,
    state_to_json,
)
from hosttune.engine.policy.policy import Policy
from hosttune.errors import HosttuneError, Refused
from hosttune.facts.base import UnknownFact
from hosttune.host.door import Completed
from hosttune.host.masking.cleaned import clean
from hosttune.values import (
    ABSENT,
    FileValue,
    Unreadable,
)
from hosttune.views.prometheus import render_metrics
from hosttune.views.ready import READY_METRICS, status_text
from tests.hosts.built import HOSTS
from tests.unit.gate_host import ALL, BOOT, Host

OFF = GateUnits()
ON = GateUnits(holds=True, is_open=True)
AHEAD = GateUnits(holds=True)
FAILED = GateUnits(holds=True, has_failed=True)
RUNNING = GateUnits(holds=True, is_running=True)


def test_status_says_where_it_is():
    state = ReadyState(
        Standing.REBOOTING, BOOT, "reboots for: x", "d" * 64, 0, (BOOT,), 2, "a line"
    )
    assert status_text(state, "boot-b", read_outlook(state, "boot-b", GateUnits(goes_on=True))) == (
        "an apply --yes --reboot goes on, and has not begun in this boot\n"
        "rebooting: reboots for: x\n"
        "  looked at 1970-01-01 00:00:00 UTC, in an earlier boot\n"
        "  plan dddddddddddd\n"
        "  1 reboot since the host was ready, of at most 2\n"
        "  an apply --yes --reboot goes on after the boot\n"
    )
    assert "in this boot" in status_text(state, BOOT, read_outlook(state, BOOT, OFF))
    assert status_text(state, BOOT, read_outlook(state, BOOT, OFF), "no metrics").endswith(
        "\n  no metrics\n"
    )


@pytest.mark.parametrize("form", ["text", "json"])
def test_status_says_that_the_metrics_are_not_of_this_boot(monkeypatch, capsys, form):
    host = Host(folders=("/run", METRICS.rpartition("/")[0]))
    monkeypatch.setattr("hosttune.cli.common.require_root", lambda *_: None)
    monkeypatch.setattr("hosttune.host.open_reader", lambda: host)
    keep_state(host, ReadyState(Standing.READY, BOOT, clean("as its plan says"), at=7))
    told = f"{METRICS} does not hold this: journalctl --boot --unit=hosttune-ready says why"
    app.run(["status", "--format", form])
    assert told in capsys.readouterr().out
    write_metrics(host, read_state(host), lambda rows: render_metrics(READY_METRICS, rows))
    app.run(["status", "--format", form])
    assert "hosttune-ready.prom" not in capsys.readouterr().out
    app.run(["status", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["metrics"] == ""


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
        (
            Standing.READY,
            BOOT,
            AHEAD,
            False,
            "this boot was not looked at yet",
        ),  # by what went on before the gate
        (Standing.WORKING, BOOT, AHEAD, False, "not looked at yet"),
        (Standing.WORKING, BOOT, OFF, False, "ended before it was done"),
        (Standing.REBOOTING, BOOT, GateUnits(goes_on=True), False, ""),
        (Standing.REBOOTING, BOOT, OFF, False, "ended before it was done"),
        (Standing.READY, BOOT, OFF, True, ""),
        (Standing.STOPPED, BOOT, OFF, False, ""),
        (Standing.READY, "boot-b", AHEAD, False, "this boot was not looked at yet"),
        (Standing.READY, "boot-b", ON, True, "what it said then is lost"),
        (
            Standing.READY,
            "boot-b",
            OFF,
            True,
            "jobs may start: the boot gate (hosttune-ready.service) is off",
        ),
        (
            Standing.REBOOTING,
            "boot-b",
            GateUnits(goes_on=True),
            False,
            "has not begun in this boot",
        ),
        (Standing.HELD, "boot-b", replace(AHEAD, is_left_out=True), True, "left out in this boot"),
        (Standing.READY, "boot-b", FAILED, False, "failed before it could say why"),
        (None, BOOT, AHEAD, False, "this boot was not looked at yet"),
        (None, BOOT, FAILED, False, "failed before it could say why"),
        (None, BOOT, OFF, True, "(hosttune-ready.service) is off"),
    ],
)
def test_work_may_start_where_the_gate_said_so_in_this_boot(standing, boot, units, is_open, words):
    state = ReadyState(standing, BOOT, "x", approval="a line") if standing else None
    now = read_outlook(state, boot, units)
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
    with pytest.raises(HosttuneError, match="systemd does not report"):
        module.gate_units(host)
    asked = host.base.asked[-1]
    for wrong in (
        "",
        Completed(1, shown.encode(), b""),
        Unreadable("no answer in 10 s"),
        shown.partition("\n\n")[0],
    ):
        with pytest.raises(HosttuneError, match="systemd does not report"):
            module.gate_units(Host(queries={asked: wrong}))
    assert module.gate_units(Host(queries={asked: shown})) == GateUnits(
        holds=True, has_failed=True, is_running=True, goes_on=True
    )
    left = (
        shown.replace("Monotonic=0", "Monotonic=7")
        .replace("=enabled", "=disabled")
        .replace("=failed", "=active")
    )
    found = module.gate_units(Host(queries={asked: left.replace("dBy=", "dBy=slurmd.service")}))
    assert (found.is_left_out, found.holds, found.is_open, found.goes_on) == (
        True,
        True,
        True,
        False,
    )


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
    assert (
        app.run(["check", "--host", str(HOSTS / "h100-8x-2socket.json"), "--policy", str(policy)])
        == 2
    )
    assert words in capsys.readouterr().err


def test_section_for_a_host_changes_what_it_names(tmp_path, capsys):
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "at_boot: {plans: all, reboot: never}\nhosts: {'*': {at_boot: {reboot: once}}}\n"
    )
    assert app.run(
        ["check", "--host", str(HOSTS / "h100-8x-2socket.json"), "--policy", str(policy)]
    ) in {0, 1}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ready", "--root", "/"], "ready works only on the running host"),
        (["apply", "--reboot", "--root", "/"], "another one is looked at"),
        (["apply", "--reboot", "--format", "json"], "has no answer in JSON"),
    ],
)
def test_what_is_not_of_the_running_host_is_refused(capsys, words, said):
    assert app.run(words) == 2
    assert said in capsys.readouterr().err


def test_document_of_a_status_is_the_state():
    assert (
        json.loads(json.dumps(state_to_json(ReadyState(Standing.READY, BOOT, "x"))))["standing"]
        == "ready"
    )


@pytest.fixture
def gate(monkeypatch):
    """`hosttune ready` on a host whose plan comes to `becomes`; what happened is in `did`."""
    did, session = [], SimpleNamespace(policy=Policy(at_boot=ALL))
    host = Host({"/etc/machine-id": "1" * 32}, folders=("/run", METRICS.rpartition("/")[0]))
    case = SimpleNamespace(
        host=host, did=did, session=session, becomes={"standing": Standing.READY}, trouble=None
    )

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
    monkeypatch.setattr("hosttune.host.writing.lock.hold_lock", holding)
    monkeypatch.setattr("hosttune.actions.run.open_for_change", opened)
    monkeypatch.setattr(module, "bring_up", bring)
    monkeypatch.setattr(
        module, "tell_hooks", lambda _, state, __: did.append(f"hooks {state.standing}")
    )
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


def test_metrics_say_that_it_has_begun_and_are_never_of_another_boot(gate, capsys):
    seen = []
    gate.session.plan = None

    def bring(session, writer, state, *_, goes_on):
        seen.append(metric(gate.host))
        return replace(state, standing=Standing.READY)

    gate.bring(bring)
    assert gate.run() == 0
    assert seen == ['hosttune_ready{standing="working"} 1']
    publishing = gate.host.publish

    def full(path, new):
        if new is not ABSENT:
            raise Refused("No space left on device")
        publishing(path, new)

    gate.host.publish = full
    gate.bring(
        lambda *_, goes_on: (_ for _ in ()).throw(UnknownFact("trial.json: Input/output error"))
    )
    assert gate.run() == 1
    assert not isinstance(gate.host.read(METRICS), bytes)
    assert gate.host.read(MOTD) == b"hosttune: held: trial.json: Input/output error\n"
    assert gate.did[-1] == "hooks held"
    assert (
        "hosttune: the metrics were not written: No space left on device\n"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "chosen", [{"only": ["a-rule"]}, {"ignore": ["a-rule"]}, {"policy": "x"}, {"profile": "base"}]
)
def test_gate_looks_at_the_whole_policy_of_its_host(gate, chosen):
    with pytest.raises(HosttuneError, match="only by its own policy"):
        cli_ready.ready(LookOnly(**chosen), DisplayOptions())
    assert gate.did == []


def trouble_of_the_lock(gate):
    gate.trouble = Refused(
        "another run of hosttune is at work (process 7)", hint="wait for it to end"
    )
    return "another run of hosttune is at work (process 7) (wait for it to end)"


def trouble_of_the_state(gate):
    gate.host.replace(STATE, FileValue(b"{"), expected=gate.host.read(STATE))
    return f"{STATE}: expected an object"


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
    arrange_going_on(
        gate.host,
        ("ready", "--go-on"),
        "policy aaaaaaaaaaaa edition 2026.1 risk low",
        ["a-rule: host"],
        2,
    )
    assert gate.run(go_on=True) == 1  # in the boot before
    assert isinstance(gate.host.read(UNIT), bytes)
    assert read_state(gate.host).goes_on
    keep_state(gate.host, replace(read_state(gate.host), reboots=("boot-0",)))
    assert gate.run(go_on=True) == 0
    assert gate.did[-3:] == ["bring on", "unlock", "hooks ready"]
    gate.becomes = {"standing": Standing.READY, "approval": ""}
    assert gate.run(go_on=True) == 0
    assert not isinstance(gate.host.read(UNIT), bytes)
