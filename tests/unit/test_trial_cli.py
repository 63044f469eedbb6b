"""A trial from the command line: asked for, refused, confirmed, looked at, taken back; in text and
JSON.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from hosttune.actions.trial import guard as trial_guard
from hosttune.actions.trial.standing import Judged
from hosttune.actions.trial.state import BEFORE, RECORD, read_trial
from hosttune.cli import served
from hosttune.engine.decide.ready import GateUnits
from hosttune.engine.policy.file import PATH as POLICY
from hosttune.errors import Refused
from hosttune.facts.losses import Aspect, HostStanding, Loss
from hosttune.host.door import Completed, Space
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import ABSENT, FileValue
from tests.unit.schemas import faults

ONLY = ("--only", "memory-swappiness")
ON_TRIAL = ("apply", "--yes", *ONLY, "--confirm-within", "15m")


@pytest.fixture
def host(changed, monkeypatch):
    """A host whose systemd keeps time, and where a guard has room."""
    changed.files["/proc/uptime"] = FileValue(b"1000.00 1.0\n")
    changed.files["/proc/self/mountinfo"] = FileValue(
        b"22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
    )
    changed.folders |= {"/run/motd.d": True, "/etc/systemd/system": True}
    changed.kind = "live"
    ask, monkey = changed.query, monkeypatch
    monkey.setattr("sys.argv", ["/usr/bin/hosttune"])

    def query(argv, *, timeout_s=10.0):
        if argv[0] in {"sh", "systemd-run"}:
            return Completed(0, b"", b"")
        if tuple(argv[:2]) == ("systemctl", "is-active"):
            return Completed(0, b"active\n", b"")
        return ask(argv, timeout_s=timeout_s)

    def act(argv, *, timeout_s):
        if argv[0] in {"systemd-run", "wall"} or tuple(argv[:2]) == ("systemctl", "stop"):
            return Completed(0, b"", b"")
        return Overlay.run(changed, argv, timeout_s=timeout_s)

    monkey.setattr(changed, "query", query)
    monkey.setattr(changed, "run", act)
    monkey.setattr(changed, "space", lambda _: Space(10**11, 10**11, 10**7, 10**7))
    monkey.setattr("hosttune.actions.trial.trial.read_standing", lambda *_, **__: HostStanding())
    monkey.setattr("hosttune.actions.trial.trial.read_planned", lambda *_, **__: ())
    return changed


def test_plan_tells_what_would_be_tried_before_the_yes(run, host):
    _, out, _ = run("apply", *ONLY, "--confirm-within", "15m")
    assert "On trial\n  Until a person confirms it, at most 15 min;" in out
    assert out.rstrip().endswith("--confirm-within 15m --only memory-swappiness")
    _status, out, _ = run("apply", *ONLY, "--confirm-within", "15m", "--format", "json")
    plan = json.loads(out)
    assert faults(plan, "plan") == []
    assert [one["part"] for one in plan["trial"]["changes"]] == ["now", "now"]
    without = json.loads(run("apply", *ONLY, "--format", "json")[1])
    assert "trial" not in without
    assert plan["digest"] == without["digest"]
    assert run("apply", *ONLY, "--confirm-within", "1m")[0] == 2


def test_run_on_trial_is_seen_refuses_another_and_is_confirmed(run, host):
    status, out, _ = run(*ON_TRIAL)
    assert status == 0
    assert "is on trial until" in out
    assert "To undo it at once:" in out
    status, out, err = run("trial", "--format", "json")
    said = json.loads(out)
    assert (status, said["state"], said["left_s"], faults(said, "trial")) == (
        1,
        "on trial: live",
        900,
        [],
    )
    assert said["format_version"] == 1
    assert "(15 minutes left)" in run("history")[1]
    assert faults(json.loads(run("history", "--format", "json")[1]), "history") == []
    status, _, err = run("check", *ONLY)
    assert f"run {said['run']} is on trial until" in err
    assert run("undo", said["run"], "--rule", "memory-swappiness", "--yes")[0] == 2
    status, out, err = run("confirm")
    assert (status, f"run {said['run']} is confirmed and stays" in out) == (0, True)
    assert run("confirm", said["run"])[0] == 0
    assert run("confirm")[0] == 2
    assert run("trial")[0] == 0
    assert host.read("/proc/sys/vm/swappiness") == b"10\n"


def test_receipt_says_what_is_on_trial_in_json_too(run, host):
    receipt = json.loads(run(*ON_TRIAL, "--format", "json")[1])
    assert faults(receipt, "receipt") == []
    assert receipt["trial"]["run"] == receipt["run_id"]


def test_losses_are_shown_and_confirmed_only_anyway(run, host, monkeypatch):
    run(*ON_TRIAL)
    lost = (Loss(Aspect.MOUNT, "/data", "/data is not mounted any more"),)
    monkeypatch.setattr("hosttune.actions.trial.trial.find_losses", lambda *_: lost)
    status, out, err = run("confirm")
    assert (status, "/data is not mounted any more" in out) == (1, True)
    assert "--anyway" in err
    assert "ask again" not in err
    monkeypatch.setattr(
        "hosttune.actions.trial.trial.still_coming_up",
        lambda *_: "this boot is 20 s old: ask again then",
    )
    assert "hosttune: this boot is 20 s old: ask again then" in run("confirm")[2]
    assert run("confirm", "--anyway")[0] == 0


def test_lost_memory_of_before_is_told_and_confirmed_only_anyway(run, host):
    run(*ON_TRIAL)
    del host.files[BEFORE]
    status, out, err = run("trial")
    assert (status, "is on trial until" in out, "before cannot be read" in err) == (1, True, True)
    status, _, err = run("confirm")
    assert (status, "--anyway" in err) == (2, True)
    assert run("confirm", "--anyway")[0] == 0


def test_deadline_takes_back_and_the_next_plan_holds_it(run, host):
    run(*ON_TRIAL)
    name = json.loads(run("trial", "--format", "json")[1])["run"]
    assert run("come-back", "deadline", "20200101-000000-aaaa")[0] == 0  # of another run
    assert run("come-back", "cut-off", name)[0] == 0  # it was not: its time has begun
    assert host.read("/proc/sys/vm/swappiness") == b"10\n"
    assert run("come-back", "deadline", name)[0] == 0
    assert host.read("/proc/sys/vm/swappiness") == b"60\n"
    status, out, _ = run("trial")
    assert (
        status,
        f"run {name} was rolled back at" in out,
        "it was not confirmed within 15 min" in out,
    ) == (
        1,
        True,
        True,
    )
    told = json.loads(run("trial", "--format", "json")[1])
    assert faults(told, "trial") == []
    assert (told["run"], told["state"], told["is_open"]) == (name, "came back", False)
    assert host.list(trial_guard.FOLDER) is ABSENT or not isinstance(
        host.list(trial_guard.FOLDER), tuple
    )
    status, out, _ = run("check", *ONLY)
    assert status == 1
    assert "rolled back at" in out
    assert "it was not confirmed within 15 min" in out
    assert "--again memory-swappiness" in out
    assert "nothing to do" in run("apply", "--yes", *ONLY)[1]
    assert run("apply", "--yes", *ONLY, "--again", "memory-swappiness")[0] == 0
    assert run("trial")[0] == 0
    assert host.read("/proc/sys/vm/swappiness") == b"10\n"


def test_run_that_was_cut_off_is_taken_back_by_the_timer_that_began_with_it(run, host):
    run(*ON_TRIAL)
    made = host.files[RECORD]
    host.files[RECORD] = FileValue(
        json.dumps(dict(json.loads(made.content), made_s=0.0)).encode(), 0o600
    )
    assert run("come-back", "cut-off", read_trial(host).run)[0] == 0
    assert host.read("/proc/sys/vm/swappiness") == b"60\n"
    status, out, _ = run("trial")
    assert (status, "it was cut off before all was made" in out) == (1, True)


def test_undo_by_hand_ends_it(run, host):
    run(*ON_TRIAL)
    status, _, err = run("undo", "--yes")
    assert (status, "is on trial no more" in err) == (0, True)
    assert run("trial")[0] == 0
    assert host.read("/proc/sys/vm/swappiness") == b"60\n"


def test_trial_that_cannot_be_promised_changes_nothing(run, changed):
    status, _, err = run(*ON_TRIAL)
    assert status == 2
    assert "no trial is possible here" in err
    assert changed.read("/proc/sys/vm/swappiness") == b"60\n"


def test_policy_puts_every_apply_on_trial_unless_it_is_switched_off(run, host, tmp_path, capsys):
    policy = tmp_path / "policy.yaml"
    policy.write_text("confirm: {within: 30m, by: health}\n")
    status, out, _ = run("apply", *ONLY, "--policy", policy)
    assert "Until a person, or this host's health, confirms it, at most 30 min" in out
    assert "at most 30 min" in run("plan", *ONLY, "--policy", policy)[1]
    assert (
        json.loads(run("plan", *ONLY, "--policy", policy, "--format", "json")[1])["trial"]["by"]
        == "health"
    )
    assert "On trial" not in run("apply", *ONLY, "--policy", policy, "--confirm-within", "off")[1]
    served.answer(
        {"command": "plan", "look": {"only": [ONLY[1]], "policy": str(policy)}}
    )  # a program asks
    assert json.loads(capsys.readouterr().out)["trial"]["within_s"] == 1800
    served.answer(
        {"command": "apply", "yes": True, "look": {"only": [ONLY[1]], "policy": str(policy)}}
    )
    assert json.loads(capsys.readouterr().out)["trial"]["state"] == "on trial: live"
    assert run("undo", "--yes")[0] == 0
    policy.write_text("confirm: {within: 1m}\n")
    status, _, err = run("apply", *ONLY, "--policy", policy)
    assert (status, "policy.yaml:1" in err, "is no time for a trial" in err) == (2, True, True)
    policy.write_text("confirm: {by: health}\n")
    assert run("apply", *ONLY, "--policy", policy)[0] == 2


def test_plan_of_nothing_but_what_cannot_come_back_is_refused_and_never_made_without_a_trial(
    run, host, monkeypatch
):
    from hosttune.engine.decide import trial

    monkeypatch.setattr(
        trial, "_try_change", lambda change, *_: trial._keep_change(change, "nothing takes it back")
    )
    before = dict(host.files)
    status, _, err = run(*ON_TRIAL)
    assert status == 2
    assert "cannot be rolled back" in err
    assert host.files == before
    status, out, _ = run(*ON_TRIAL, "--without-return")
    assert status == 0
    assert "On trial" not in out


def test_receipt_tells_commands_that_can_be_typed(run, host):
    _, out, _ = run(*ON_TRIAL)
    line = next(row for row in out.splitlines() if "hosttune confirm" in row)
    words = line.split("hosttune ", 1)[1].split()
    assert run(*words)[0] == 0, line


def test_look_at_an_open_trial_holds_nobody_up(run, host, monkeypatch):
    """A confirmation may come at the same moment."""
    run(*ON_TRIAL)
    name = json.loads(run("trial", "--format", "json")[1])["run"]

    def hold(*_, **__):
        raise AssertionError("the lock is taken")

    monkeypatch.setattr("hosttune.actions.run.open_for_change", hold)
    monkeypatch.setattr("hosttune.host.open_writer", lambda **_: host)
    monkeypatch.setattr(
        "hosttune.actions.trial.standing.await_health", lambda *_, **__: Judged(True, (), 1.0)
    )
    assert run("come-back", "look", name)[0] == 0
    assert json.loads(run("trial", "--format", "json")[1])["state"] == "on trial: live"


@pytest.fixture
def looking(run, host, monkeypatch):
    """A look at a live run that its host's health may confirm: what happens at each moment is up to
    the test.
    """

    def look(losses):
        run(*ON_TRIAL, "--confirm-by", "health")
        name = json.loads(run("trial", "--format", "json")[1])["run"]
        monkeypatch.setattr("hosttune.host.open_writer", lambda **_: host)
        monkeypatch.setattr("hosttune.actions.run.open_writer", lambda **_: host)
        monkeypatch.setattr("hosttune.actions.trial.trial.find_losses", lambda *_: losses())
        return name

    return look


def test_health_that_was_lost_while_the_lock_was_waited_for_does_not_confirm(
    run, host, looking, monkeypatch
):
    gone = (Loss(Aspect.MOUNT, "/data", "/data is not mounted any more"),)
    answers = [(), gone, gone]
    name = looking(lambda: answers.pop(0))
    judged = []

    def judge(look, **_):
        judged.append(look(1.0))
        return Judged(not judged[-1], judged[-1], 1.0)

    monkeypatch.setattr("hosttune.actions.trial.standing.await_health", judge)
    assert run("come-back", "look", name)[0] == 0
    assert (judged, answers) == (
        [(), gone],
        [],
    )  # the second look, with the lock, was not as before: once more
    last = json.loads(run("history", "--format", "json")[1])["runs"][0]
    assert last["who"] == "hosttune come-back: not as before: /data is not mounted any more"


def test_health_is_not_asked_before_the_run_has_come_to_its_end(run, host, looking, monkeypatch):
    name = looking(tuple)
    made = host.files[RECORD]
    half = json.dumps(dict(json.loads(made.content), made_s=0.0)).encode()
    host.files[RECORD] = FileValue(half, 0o600)
    monkeypatch.setattr(
        "hosttune.actions.trial.standing.await_health",
        lambda *_, **__: pytest.fail("it is not at its end"),
    )
    assert run("come-back", "look", name)[0] == 0
    monkeypatch.setattr(
        "hosttune.actions.trial.standing.await_health", lambda *_, **__: Judged(True, (), 1.0)
    )
    host.files[RECORD] = made
    assert run("come-back", "look", name)[0] == 0
    assert run("confirm", name)[0] == 0
    assert (
        json.loads(run("history", "--format", "json")[1])["runs"][0]["who"]
        == "hosttune, by this host's health"
    )


def test_word_too_many_in_the_policy_keeps_nobody_from_confirming_and_from_going_back(run, host):
    for words in (("confirm",), ("undo", "--yes")):
        host.files.pop(POLICY, None)
        run(*ON_TRIAL)
        host.files[POLICY] = FileValue(b"profil: base\n")
        assert run("plan")[0] == 2
        status, out, _ = run("trial")
        assert (status, "is on trial until" in out) == (1, True)
        assert run("undo")[0] == 0
        status, _, err = run(*words)
        assert (status, "rules and policy are not used: " in err) == (0, True)
        assert "\\n" not in err
        host.files.pop(POLICY)
        run("undo", "--yes")


@pytest.fixture
def booted(host, monkeypatch):
    """A host that can be asked to boot; how often it was."""
    from hosttune.engine.decide import trial

    boots = []
    host.folders["/run/systemd/system"] = True
    monkeypatch.setattr("hosttune.actions.gate.ready.reboot", boots.append)
    monkeypatch.setattr("hosttune.cli.ready.await_end", lambda: None)
    tried = trial._try_change

    def half_at_boot(change, terms, one_boot):
        is_file = change.address.kind == "file"
        return (
            trial.TriedChange(change, trial.TrialPart.NEXT_BOOT)
            if is_file
            else tried(change, terms, one_boot)
        )

    monkeypatch.setattr(trial, "_try_change", half_at_boot)
    return boots


BOOTS = (*ON_TRIAL, "--reboot")


def test_boot_on_trial_is_made_when_what_is_in_force_at_once_is_confirmed_and_not_before(
    run, booted, monkeypatch
):
    _, out, _ = run(*(word for word in BOOTS if word != "--yes"))
    assert (
        "hosttune will boot this host once as soon as what takes effect at once is confirmed" in out
    )
    confirmed = []

    def wait(_):
        assert booted == []
        confirmed.append(run("confirm"))

    monkeypatch.setattr("hosttune.cli.going_on.time", SimpleNamespace(sleep=wait))
    status, _, err = run(*BOOTS)
    assert [one[0] for one in confirmed] == [0]
    assert len(booted) == 1
    assert (status, "the boot did not come" in err) == (
        2,
        True,
    )  # where it comes, nobody reads this any more
    assert json.loads(run("trial", "--format", "json")[1])["state"] == "on trial: next boot"


def test_confirmation_whose_boot_cannot_be_asked_for_comes_back_and_is_none(
    run, host, booted, monkeypatch
):
    def refuse(*_):
        raise Refused("the environment block does not read back")

    run(*ON_TRIAL)
    monkeypatch.setattr("hosttune.actions.trial.trial._ask_for_boot", refuse)
    status, out, _ = run("confirm")
    assert (status, "was rolled back: the boot on trial cannot be asked for" in out) == (1, True)
    assert json.loads(run("trial", "--format", "json")[1])["state"] == "came back"


def test_run_that_came_back_is_not_booted_for(run, host, booted, monkeypatch):
    def wait(_):
        assert run("come-back", "deadline", read_trial(host).run)[0] == 0

    monkeypatch.setattr("hosttune.cli.going_on.time", SimpleNamespace(sleep=wait))
    status, *_ = run(*BOOTS)
    assert (status, booted) == (1, [])


def test_run_without_a_boot_on_trial_is_not_booted_for(run, host, monkeypatch):
    host.folders["/run/systemd/system"] = True
    monkeypatch.setattr(
        "hosttune.actions.gate.ready.reboot", lambda _: pytest.fail("it was booted")
    )
    status, _, err = run(*BOOTS)
    assert (status, "not booted: no boot is on trial, and one would take the run back" in err) == (
        0,
        True,
    )


def test_plan_of_two_boots_is_refused_on_trial(run, booted, host, monkeypatch):
    monkeypatch.setattr("hosttune.engine.decide.reboot.boots_of", lambda _: 2)
    before = dict(host.files)
    status, _, err = run(*BOOTS)
    assert (
        status,
        "this plan needs 2 boots, and a run on trial has one; nothing was changed" in err,
    ) == (2, True)
    assert (host.files, booted) == (before, [])


def test_status_shows_the_trial_and_trial_is_its_older_name(run, host, monkeypatch):
    """One command for both; without --wait its exit status is whether jobs may start."""
    monkeypatch.setattr("hosttune.cli.common.require_root", lambda *_: None)
    monkeypatch.setattr("hosttune.actions.gate.ready.gate_units", lambda _: GateUnits())
    monkeypatch.setattr("hosttune.actions.gate.ready.boot_id", lambda _: "a")
    monkeypatch.setattr("hosttune.actions.journal.journal.boot_id", lambda _: "a")
    status, out, err = run("status")
    assert (status, "trial" in out) == (0, False), err
    assert "trial" not in json.loads(run("status", "--json")[1])
    run(*ON_TRIAL)
    status, out, _ = run("status")
    assert status == 0
    assert "jobs may start: " in out
    assert " is on trial until " in out
    assert "hosttune confirm 2" in out
    told = json.loads(run("status", "--json")[1])
    assert (told["is_open"], told["trial"]["is_open"]) == (True, True)
    assert "is now a part of: sudo hosttune status" in run("trial")[2]
    run("undo", "--yes")
    assert run("status", "--wait")[0] == 0
