"""`apply --yes --reboot`: what it leaves for after the boot, when it boots, and what ends it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.actions import examine
from hosttune.actions.gate import going_on
from hosttune.actions.gate import ready as module
from hosttune.actions.gate.going_on import PATH as UNIT
from hosttune.actions.gate.going_on import (
    arrange_going_on,
    give_up,
    remove,
    require_systemd,
    unit_word,
)
from hosttune.actions.gate.ready import (
    MOTD,
    STATE,
    read_state,
)
from hosttune.cli import going_on as cli_going_on
from hosttune.cli import ready as cli_ready
from hosttune.cli.options import HostOptions, LookAgain
from hosttune.engine.decide.ready import CONTINUE as NAME
from hosttune.engine.decide.ready import (
    Standing,
)
from hosttune.engine.decide.reboot import boots_of
from hosttune.engine.policy.approval import Approvals, PolicyApproval, parse_approvals
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules import trusted
from hosttune.engine.rules.catalog import Catalog
from hosttune.errors import HosttuneError, Refused
from hosttune.facts.storage import lasting
from hosttune.values import (
    Address,
    FileValue,
    Finding,
    Risk,
    Verdict,
)
from tests.unit.gate_host import BOOT, CHANGE, LATER, Host, plan_of, receipt_of


def test_unit_that_goes_on_is_written_before_the_boot_and_taken_away_again(monkeypatch):
    host = Host()
    monkeypatch.setattr(going_on, "starting_words", lambda _: ("/opt/a b/hosttune",))
    arrange_going_on(
        host, ("ready", "--go-on", "--only", 'x"%$\\'), "policy x", ["a-rule: host"], 2
    )
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
    host.run = lambda argv, *, timeout_s: (
        (_ for _ in ()).throw(Refused("no")) if argv[2] == "enable" else None
    )
    with pytest.raises(Refused):
        arrange_going_on(host, ("ready",), "policy x", ["a"], 1)
    assert not isinstance(host.read(UNIT), bytes)
    with pytest.raises(Refused, match="nothing would go on"):
        require_systemd(Host(folders=()))
    with pytest.raises(Refused, match="line break"):
        unit_word("a\nb")


def test_systemctl_that_does_not_answer_leaves_neither_unit_nor_an_older_yes():
    host = Host()
    arrange_going_on(host, ("ready",), "policy old", ["a"], 1)
    host.refuses = {"systemctl"}
    with pytest.raises(Refused, match="systemctl ended with status 3"):
        arrange_going_on(host, ("ready",), "policy new", ["a"], 2)
    assert not isinstance(host.read(UNIT), bytes)
    assert read_state(host) is None


def test_what_somebody_does_by_hand_ends_what_would_have_gone_on():
    host = Host()
    assert not give_up(host, "an undo came after it")
    assert host.ran == []
    arrange_going_on(host, ("ready",), "policy x", ["a-rule: host"], 2)
    assert give_up(host, "an undo came after it")
    assert read_state(host) is None  # its boot counts against nobody
    assert not isinstance(host.read(MOTD), bytes)
    assert not isinstance(host.read(UNIT), bytes)
    arrange_going_on(host, ("ready",), "policy x", ["a-rule: host"], 2)
    host.replace(STATE, FileValue(b"{"), expected=host.read(STATE))
    assert not give_up(host, "an undo came after it")
    assert not isinstance(host.read(UNIT), bytes)


def test_self_contained_file_is_carried_along_and_goes_with_the_unit(monkeypatch):
    host = Host()
    monkeypatch.setattr(going_on, "find_archive", lambda: "/tmp/hosttune.pyz")
    monkeypatch.setattr(going_on, "load_bytes", lambda path: path.encode())
    monkeypatch.setattr(
        going_on, "starting_words", lambda carried: ("/usr/bin/python3", "-I", "-S", carried)
    )
    arrange_going_on(host, ("ready", "--go-on"), "policy x", ["a-rule: host"], 1)
    assert host.read(going_on.CARRIED) == b"/tmp/hosttune.pyz"
    line = f'ExecStart="/usr/bin/python3" "-I" "-S" "{going_on.CARRIED}" "ready" "--go-on"\n'
    assert line in host.read(UNIT).decode()
    remove(host)
    assert not isinstance(host.read(going_on.CARRIED), bytes)


def test_boots_that_a_plan_names():
    driver = replace(LATER, address=Address("package-set", "nvidia-driver-580"))
    assert [
        boots_of(one) for one in (plan_of(), plan_of(CHANGE), plan_of(LATER), plan_of(driver))
    ] == [0, 0, 1, 2]


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
    visible = tuple(
        SimpleNamespace(target=at, fstype=fstype, source="") for at, fstype in mounts.items()
    )
    facts = SimpleNamespace(mounts=SimpleNamespace(root=visible[0], visible=visible))
    session, host = SimpleNamespace(policy=Policy(), facts=facts), Host()
    assert (
        cli_going_on.arrange_boot(session, host, plan_of(LATER), receipt, HostOptions())() == status
    )
    assert ("this host is not booted: " in capsys.readouterr().err) is bool(status)
    assert read_state(host) is None


@pytest.fixture
def booting(monkeypatch):
    """`_boot` of a host whose continuation is arranged; what it ran is in `ran`."""
    host = Host({"/etc/machine-id": "1" * 32})
    arrange_going_on(host, ("ready",), "policy x", ["a-rule: host"], 1)
    host.ran.clear()
    monkeypatch.setattr(
        "hosttune.host.writing.lock.hold_lock", contextmanager(lambda wait_s: (yield))
    )
    monkeypatch.setattr(cli_ready, "await_end", lambda: None)
    return host


SESSION = SimpleNamespace(policy=Policy(), catalog=Catalog({}, {}), selected=())


def test_boot_is_asked_for_where_nothing_came_between(booting, capsys, monkeypatch):
    with pytest.raises(Refused, match="did not come within 180 s"):
        cli_going_on._boot(SESSION, booting)
    assert booting.ran == [("systemctl", "reboot")]
    monkeypatch.setattr(module, "at_work", lambda _: iter(["apt is at work"]))
    assert cli_going_on._boot(SESSION, booting) == 1
    assert (
        "this host is not booted: apt is at work; it goes on after the next boot"
        in capsys.readouterr().err
    )
    monkeypatch.setattr(module, "at_work", lambda _: iter(()))
    fault = Finding(
        "storage-fstab",
        "/data",
        Verdict.DIFFERS,
        reason="line 2 fails",
        is_fault=True,
        blocks_reboot=True,
    )
    monkeypatch.setattr(examine, "faults_of", lambda *_: (fault,))
    assert cli_going_on._boot(SESSION, booting) == 1
    assert "this host is not booted: storage-fstab: line 2 fails" in capsys.readouterr().err
    give_up(booting, "an undo came after it")
    booting.ran.clear()
    assert cli_going_on._boot(SESSION, booting) == 1
    assert "another run came between" in capsys.readouterr().err
    assert booting.ran == []


def test_yes_to_a_file_covers_what_the_file_does_and_no_option_is_left_that_ready_has_not(
    monkeypatch,
):
    host = Host({"/etc/machine-id": "1" * 32})
    session = SimpleNamespace(
        policy=Policy(), facts=SimpleNamespace(mounts=SimpleNamespace(root=None, visible=()))
    )
    monkeypatch.setattr(lasting, "why_nothing_lasts", lambda _: "")
    receipt = receipt_of(reasons=("a-rule: host",))
    approvals = Approvals("file", ("d" * 12,), (PolicyApproval("c" * 12, "2026.1", Risk.LOW),))
    look = LookAgain(again=["a-rule"], only=["b-rule"])
    cli_going_on.arrange_boot(session, host, plan_of(LATER), receipt, look, None, approvals)
    assert read_state(host).approval == f"{'d' * 12}\npolicy {'c' * 12} edition 2026.1 risk low"
    line = next(
        one for one in host.read(UNIT).decode().splitlines() if one.startswith("ExecStart=")
    )
    assert line.endswith('"ready" "--go-on" "--only" "b-rule"')
    cli_going_on.arrange_boot(session, host, plan_of(LATER), receipt, look)
    assert read_state(host).approval.startswith("policy cccccccccccc edition ")
    cli_going_on.arrange_boot(session, host, plan_of(), receipt, look, None, Approvals("file"))
    assert read_state(host).goes_on  # to what needs no approval
    assert parse_approvals(read_state(host).approval, "x") == Approvals("x")


def test_earlier_reboot_ends_with_the_next_apply(capsys):
    host = Host({"/etc/machine-id": "1" * 32})
    arrange_going_on(host, ("ready",), "policy x", ["a-rule: host"], 1)
    cli_going_on.before_apply(HostOptions(), host, plan_of(), None, reboot=False)
    assert read_state(host).goes_on  # nothing was changed
    for plan, reboot in ((plan_of(CHANGE), False), (plan_of(), True)):
        arrange_going_on(host, ("ready",), "policy x", ["a-rule: host"], 1)
        cli_going_on.before_apply(HostOptions(), host, plan, None, reboot=reboot)
        assert read_state(host) is None
        assert (
            "does not go on after the next boot: another apply came after it"
            in capsys.readouterr().err
        )
    host.replace(STATE, FileValue(b"{"), expected=host.read(STATE))
    with pytest.raises(HosttuneError, match="expected an object"):  # before the first change
        cli_going_on.before_apply(HostOptions(), host, plan_of(CHANGE), None, reboot=True)


def test_program_that_others_can_write_is_not_left_for_root_to_start(monkeypatch):
    monkeypatch.setattr(
        trusted, "stranger_of", lambda _, path: "ann owns /home/ann" if "/ann/" in path else ""
    )
    monkeypatch.setattr(
        "hosttune.host.console.starting_words", lambda _: ("/home/ann/.local/bin/hosttune",)
    )
    with pytest.raises(
        Refused,
        match=r"root would start /home/ann/\.local/bin/hosttune at a boot, and ann owns /home/ann",
    ):
        going_on.require_own(Host())
    monkeypatch.setattr(
        "hosttune.host.console.starting_words", lambda _: ("/usr/local/bin/hosttune",)
    )
    going_on.require_own(Host())
    monkeypatch.setattr("hosttune.__path__", ["/home/ann/lib/hosttune"])
    with pytest.raises(Refused, match="ann owns"):
        going_on.require_own(Host())
    monkeypatch.setattr(
        "hosttune.host.console.find_archive", lambda: "/home/ann/hosttune.pyz"
    )  # a copy is carried along
    going_on.require_own(Host())
    monkeypatch.setattr("sys.executable", "/home/ann/venv/bin/python")
    with pytest.raises(Refused, match="ann owns"):
        going_on.require_own(Host())
