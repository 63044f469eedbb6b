"""A run on trial: armed, settled, confirmed, taken back; and what is refused."""

from __future__ import annotations

import signal

import pytest

from hosttune.actions import triggers
from hosttune.actions.journal.interrupted import TRIAL_FOLDER, describe_interrupted
from hosttune.actions.journal.journal import read_journal
from hosttune.actions.journal.recover import recover
from hosttune.actions.trial import clock as trial_clock
from hosttune.actions.trial import guard as trial_guard
from hosttune.actions.trial import state as trial_state
from hosttune.actions.trial.connection import Login, read_login, why_not_proof
from hosttune.actions.trial.one_shot import is_asked_for
from hosttune.actions.trial.state import RECORD, TrialState, read_trial, require_none, state_of
from hosttune.actions.trial.trial import (
    apply_on_trial,
    begin_to_take_back,
    come_back,
    confirm,
    finish,
    foresee,
    look_for_losses,
    on_trial_to_undo,
    require_confirmable,
    require_promise,
    still_coming_up,
    taken_back,
)
from hosttune.actions.undo import plan_undo, undo
from hosttune.engine.decide.passes import hold_back
from hosttune.engine.policy.policy import Policy
from hosttune.engine.trial_terms import TrialTerms
from hosttune.errors import Refused
from hosttune.facts.kernel.boot_entry import CUSTOM, ENVIRONMENT, BootEntry, OneShot
from hosttune.facts.losses import HostStanding
from hosttune.host.door import Completed
from hosttune.values import ABSENT, Confirmer, Finding, HoldKind, Unreadable, Verdict
from hosttune.views.history import history_json, history_report
from hosttune.views.page import Page
from tests.unit.trial_host import BLOCK, SECOND, TRIAL
from tests.unit.trial_runs import (
    GRUB,
    SWAPPINESS,
    TrialRunHost,
    argument_change,
    boot_change,
    file_change,
    plan_of,
    sysctl_change,
)

TERMS = TrialTerms(900)
PAGE = Page(host="spine")
LIVE = (sysctl_change(), file_change())
PTS, TTY = 136 << 8 | 3, 4 << 8 | 64  # a pseudo-terminal, ttyS0


def begun(*changes, host=None, terms=TERMS):
    host = host or TrialRunHost()
    plan = plan_of(*changes)
    planned = foresee(host.session, plan, terms)
    require_promise(planned, without_return=False)
    receipt, trial = apply_on_trial(host.session, host, plan, planned, lambda _: None)
    return host, receipt, trial


def value(host):
    return host.read(SWAPPINESS).decode().strip()


def is_clean(host):
    left = [path for path in trial_guard.UNIT_PATHS if host.read(path) is not ABSENT]
    return (
        not left
        and not isinstance(host.list(trial_guard.FOLDER), tuple)
        and host.read(trial_clock.MOTD) is ABSENT
    )


def test_no_trial_begins_where_sshd_cannot_be_seen():
    """A change that locks it out would be no loss, and would be kept by health."""
    host = TrialRunHost()
    host.silent = {"ss"}
    with pytest.raises(Refused, match="sshd"):
        begun(*LIVE, host=host)
    assert is_clean(host)
    assert value(host) == "60"


def test_live_run_is_on_trial_until_its_time_is_up():
    host, receipt, trial = begun(*LIVE)
    assert not receipt.failed
    assert (trial.state, trial.run, trial.left_s) == (TrialState.LIVE, receipt.run_id, 900)
    assert value(host) == "10"
    timers = [line for line in host.ran if line.startswith("systemd-run")]
    for line, (unit, moment) in zip(
        timers, (("making", "cut-off"), ("deadline", "deadline")), strict=False
    ):
        assert f"--unit=hosttune-trial-{trial.run}-{unit} --on-active=900s" in line
        assert line.endswith(f"come-back {moment} {trial.run}")
    assert f"systemctl stop hosttune-trial-{trial.run}-making.timer" in host.ran
    host.after_s(600)
    assert read_trial(host).left_s == 300


def test_what_nobody_confirms_goes_back_in_a_run_of_its_own():
    host, receipt, trial = begun(*LIVE)
    ended = come_back(host.session, host, trial, "it was not confirmed within 15 min")
    assert ended.state is TrialState.CAME_BACK
    assert value(host) == "60"
    assert host.read("/etc/sysctl.d/60-hosttune-x.conf") is ABSENT
    assert is_clean(host)
    journal = read_journal(host)
    assert [run.command for run in journal.runs] == ["apply", "undo"]
    assert journal.runs[1].who == "hosttune come-back: it was not confirmed within 15 min"
    assert journal.status(journal.run(receipt.run_id)) == "came back"
    assert f"run {trial.run} was rolled back: it was not confirmed within 15 min" in host.logged
    assert not any(line.startswith("systemctl reboot") for line in host.ran)


@pytest.mark.parametrize(
    ("marks", "armed", "tried", "state"),
    [
        ({"armed"}, True, False, TrialState.LIVE),
        ({"armed"}, False, False, TrialState.OVERDUE),
        ({"armed", "settled"}, True, False, TrialState.NEXT_BOOT),
        ({"armed", "settled"}, False, False, TrialState.OVERDUE),
        ({"armed", "settled", "trying"}, False, True, TrialState.THIS_BOOT),
        ({"armed", "settled", "trying"}, False, False, TrialState.OVERDUE),
        ({"armed", "ending"}, True, False, TrialState.OVERDUE),
        ({"armed", "settled", "trying", "ending"}, False, True, TrialState.OVERDUE),
        ({"armed", "returned"}, False, False, TrialState.CAME_BACK),
        ({"armed", "ending", "returned", "partly"}, True, False, TrialState.IN_PART),
        ({"armed", "returned", "failed"}, True, False, TrialState.FAILED),
        ({"armed", "settled", "trying", "confirmed"}, False, True, TrialState.CONFIRMED),
        ({"armed", "confirmed"}, True, False, TrialState.CONFIRMED),
    ],
)
def test_marks_and_boots_tell_where_a_run_stands(marks, armed, tried, state):
    assert state_of(marks, is_armed_boot=armed, is_tried_boot=tried) is state


def test_run_without_anything_in_force_waits_for_the_next_boot_from_its_start():
    assert (
        state_of({"armed"}, is_armed_boot=True, is_tried_boot=False, has_live=False)
        is TrialState.NEXT_BOOT
    )


class FullHost(TrialRunHost):
    """Its disk is full: nothing new can be written as long as what was kept free lies there."""

    is_full = False

    def replace(self, path, new, *, expected):
        if self.is_full and self.read(f"{trial_guard.FOLDER}/room") is not ABSENT:
            raise Refused(f"{path}: No space left on device")
        super().replace(path, new, expected=expected)


def test_return_has_room_on_a_disk_that_is_full_by_then():
    host, _, trial = begun(*LIVE, host=FullHost())
    host.is_full = True
    assert come_back(host.session, host, trial, "nobody confirmed it").state is TrialState.CAME_BACK
    assert value(host) == "60"
    assert is_clean(host)


@pytest.mark.parametrize(
    ("late_s", "unit", "state"),
    [
        (10, "inactive", TrialState.LIVE),
        (70, "active", TrialState.LIVE),
        (70, "", TrialState.LIVE),
        (70, "inactive\nactive", TrialState.LIVE),  # it slept, and its timer has still to come
        (70, "inactive\ninactive", TrialState.OVERDUE),
        (70, "failed\ninactive", TrialState.OVERDUE),
    ],
)
def test_run_whose_time_passed_without_a_return_is_not_on_trial_for_ever(
    late_s, unit, state, monkeypatch
):
    host, _, trial = begun(*LIVE)
    asked = []

    def query(argv, *, timeout_s=10.0):
        asked.append(argv)
        return Completed(3, f"{unit}\n".encode(), b"") if unit else Unreadable("no bus")

    host.after_s(900 + late_s)
    monkeypatch.setattr(host, "query", query)
    found = read_trial(host)
    assert found.state is state
    assert found.left_s == (None if state is TrialState.OVERDUE else 0)
    units = (f"hosttune-trial-{trial.run}-deadline.{ending}" for ending in ("service", "timer"))
    assert asked in ([], [("systemctl", "is-active", *units)])


def test_boot_whose_time_passed_without_a_return_is_taken_back_by_who_looks_next(monkeypatch):
    host, _, _ = begun(boot_change())
    host.boot(TRIAL)
    trial_guard.mark(host, "trying")
    assert read_trial(host).state is TrialState.THIS_BOOT
    host.after_s(3600)
    monkeypatch.setattr(host, "query", lambda argv, **_: Completed(3, b"inactive\n", b""))
    assert read_trial(host).state is TrialState.OVERDUE
    monkeypatch.undo()
    monkeypatch.setattr(trial_state, "_is_at_work", lambda *_: False)
    ended = finish(host.session, host, lambda _: None)
    assert (ended.state, ended.reason) == (TrialState.CAME_BACK, "it was not confirmed in time")
    assert host.read("/etc/modprobe.d/60-hosttune-net.conf") is ABSENT


def test_confirmed_live_run_stays_and_nothing_watches_it_any_more():
    host, receipt, trial = begun(*LIVE)
    found = require_confirmable(host.session, host, None)
    assert found == trial
    ended = confirm(host.session, host, found, lambda _: None)
    assert ended.state is TrialState.CONFIRMED
    assert (value(host), is_clean(host)) == ("10", True)
    assert f"systemctl stop hosttune-trial-{trial.run}-*.timer" in host.ran
    assert require_confirmable(host.session, host, receipt.run_id) is None  # again: it stands
    with pytest.raises(Refused, match="nothing is on trial"):
        require_confirmable(host.session, host, None)


def test_confirmation_in_the_last_second_counts_and_the_deadline_finds_nothing():
    host, _, _ = begun(*LIVE)
    host.after_s(899.9)
    confirm(host.session, host, require_confirmable(host.session, host, None), lambda _: None)
    assert read_trial(host) is None
    assert value(host) == "10"


def test_confirmation_after_the_return_is_too_late_and_is_told_why():
    host, receipt, trial = begun(*LIVE)
    come_back(host.session, host, trial, "it was not confirmed within 15 min")
    with pytest.raises(
        Refused, match=r" was rolled back at [0-9: -]+ UTC, because it was not confirmed within"
    ):
        require_confirmable(host.session, host, receipt.run_id)


@pytest.mark.parametrize("years", [-10, 10])
def test_clock_that_is_set_moves_no_deadline(years, monkeypatch):
    host, _, _ = begun(*LIVE)
    host.after_s(60)
    now = host.now()
    monkeypatch.setattr(host.base, "_now", now + years * 365.25 * 86400)
    assert read_trial(host).left_s == 840
    assert read_trial(host).state is TrialState.LIVE


def test_second_run_is_refused_and_names_the_first():
    host, receipt, _ = begun(*LIVE)
    with pytest.raises(Refused, match=f"run {receipt.run_id} is on trial: live"):
        require_none(host)
    with pytest.raises(Refused, match="another run is on trial"):
        begun(boot_change(), host=host)


def test_undo_by_hand_ends_the_trial():
    host, _receipt, _ = begun(*LIVE)
    trial = on_trial_to_undo(host.session, host, None, None)
    begin_to_take_back(host, trial)
    undo(host.session, host, plan_undo(host.session, trial.run))
    taken_back(host, trial)
    assert (value(host), is_clean(host), read_trial(host)) == ("60", True, None)


def test_undo_of_another_run_or_of_a_part_is_refused_meanwhile():
    host, receipt, _ = begun(*LIVE)
    confirm(host.session, host, require_confirmable(host.session, host, None), lambda _: None)
    begun(boot_change(), host=host)
    with pytest.raises(Refused, match=f"run {receipt.run_id} is not undone beside it"):
        on_trial_to_undo(host.session, host, receipt.run_id, None)
    with pytest.raises(Refused, match="a rule of run"):
        on_trial_to_undo(host.session, host, None, "network-driver")


def test_what_takes_effect_at_the_next_boot_is_on_trial_there_and_confirmed_there():
    host, _receipt, trial = begun(boot_change())
    assert trial.state is TrialState.NEXT_BOOT
    assert not any("--on-active" in line for line in host.ran)
    with pytest.raises(Refused, match="next boot, which is not there yet"):
        require_confirmable(host.session, host, None)
    host.boot(TRIAL)
    trial_guard.mark(host, "trying")  # as the guard does
    assert read_trial(host).state is TrialState.THIS_BOOT
    ended = confirm(
        host.session, host, require_confirmable(host.session, host, None), lambda _: None
    )
    assert ended.state is TrialState.CONFIRMED
    assert is_clean(host)
    assert isinstance(host.read("/etc/modprobe.d/60-hosttune-net.conf"), bytes)


def test_run_with_both_parts_is_confirmed_twice():
    host, _, trial = begun(*LIVE, boot_change())
    assert trial.state is TrialState.LIVE
    ended = confirm(
        host.session, host, require_confirmable(host.session, host, None), lambda _: None
    )
    assert ended.state is TrialState.NEXT_BOOT
    assert not is_clean(host)
    host.boot(TRIAL)
    trial_guard.mark(host, "trying")
    ended = confirm(
        host.session, host, require_confirmable(host.session, host, None), lambda _: None
    )
    assert ended.state is TrialState.CONFIRMED


def test_what_a_young_boot_lacks_may_still_come():
    host, _, live = begun(*LIVE, boot_change())
    assert still_coming_up(live, host) == ""  # of what is in force at once nothing comes late
    confirm(host.session, host, require_confirmable(host.session, host, None), lambda _: None)
    host.boot(TRIAL)
    trial_guard.mark(host, "trying")
    assert still_coming_up(read_trial(host), host).startswith(
        "this boot is 20 s old, and what comes late in one"
    )
    host.after_s(280)
    assert still_coming_up(read_trial(host), host) == ""


def test_what_a_boot_takes_away_by_itself_is_not_lost():
    """As the drop-in that keeps systemd from mounting a tmpfs before the boot."""
    path = "/run/systemd/system/tmp.mount.d/60-hosttune-x.conf"
    host, _, _ = begun(file_change(path), boot_change())
    host.folders["/run/systemd/system/tmp.mount.d"] = True
    confirm(host.session, host, require_confirmable(host.session, host, None), lambda _: None)
    host.remove(path, expected=host.read(path))
    host.boot(TRIAL)
    trial_guard.mark(host, "trying")
    assert not any(path in one.sentence for one in look_for_losses(host.session, read_trial(host)))
    host.remove("/etc/modprobe.d/60-hosttune-net.conf", expected=boot_change().after.content)
    assert any(
        "60-hosttune-net.conf" in one.sentence
        for one in look_for_losses(host.session, read_trial(host))
    )


def test_boot_on_trial_that_nobody_confirms_goes_back_and_reboots_once():
    host, _, _ = begun(boot_change())
    host.boot(TRIAL)
    trial_guard.mark(host, "trying")
    ended = come_back(host.session, host, read_trial(host), "nobody confirmed it", may_reboot=True)
    assert ended.state is TrialState.CAME_BACK
    assert host.read("/etc/modprobe.d/60-hosttune-net.conf") is ABSENT
    assert host.ran.count("systemctl reboot") == 1
    assert not is_clean(host)  # where hosttune ends here, the guard reboots
    host.boot(SECOND)
    ended = finish(host.session, host, lambda _: None)
    assert (ended.state, ended.reason) == (TrialState.CAME_BACK, "nobody confirmed it")
    assert host.ran.count("systemctl reboot") == 1
    assert [run.command for run in read_journal(host).runs] == ["apply", "undo"]
    assert is_clean(host)


def test_return_that_is_late_tells_the_reboot_that_it_needs_and_makes_it_where_nobody_can(
    grub, monkeypatch
):
    """As where the guard was cut off before it had marked the boot on trial."""
    for may_reboot in (False, True):
        host, _, trial = begun(
            argument_change(), boot_change(), host=TrialRunHost(dict(grub.base.files))
        )
        host.boot(TRIAL, f"ro iommu=pt hosttune.trial={trial.run}")
        assert read_trial(host).state is TrialState.OVERDUE
        ended = finish(host.session, host, lambda _: None, may_reboot=may_reboot)
        assert ended.needs_reboot == ("" if may_reboot else "it is in force after a reboot")
        assert host.ran.count("systemctl reboot") == may_reboot


def test_gpu_at_work_is_rebooted_under_only_at_the_last_deadline(monkeypatch):
    """The guard's script waits: it is kept for that, and reboots where this program, or its list of
    processes, hangs.
    """
    host, _, trial = begun(boot_change())
    host.boot(TRIAL)
    trial_guard.mark(host, "trying")
    monkeypatch.setattr(
        "hosttune.actions.trial.trial._list_gpu_work",
        lambda _: ("train.py of alice holds /dev/nvidia0",),
    )
    ended = come_back(host.session, host, read_trial(host), "nobody confirmed it", may_reboot=True)
    assert host.read("/etc/modprobe.d/60-hosttune-net.conf") is ABSENT
    assert "systemctl reboot" not in host.ran
    assert ended.needs_reboot.endswith(
        "which waits for at most 1 h: train.py of alice holds /dev/nvidia0"
    )
    assert ended.needs_reboot in host.read(trial_clock.MOTD).decode()
    waiting = next(line for line in host.ran if f"--unit=hosttune-trial-{trial.run}-reboot" in line)
    assert waiting.endswith("-- sh /etc/hosttune/trial/run reboot")
    assert host.read(f"{trial_guard.FOLDER}/last") == b"3600\n"
    assert finish(host.session, host, lambda _: None).state is TrialState.CAME_BACK
    assert is_clean(host)


def test_return_whose_reboot_cannot_be_left_to_the_guard_is_tried_again(monkeypatch):
    host, _, _ = begun(boot_change())
    host.boot(TRIAL)
    trial_guard.mark(host, "trying")
    monkeypatch.setattr(
        "hosttune.actions.trial.trial._list_gpu_work",
        lambda _: ("train.py of alice holds /dev/nvidia0",),
    )
    host.refused.add("systemd-run --unit=hosttune-trial-")
    with pytest.raises(Refused):
        come_back(host.session, host, read_trial(host), "nobody confirmed it", may_reboot=True)
    assert read_trial(host).state is TrialState.OVERDUE
    assert not is_clean(host)


def test_second_boot_without_a_confirmation_is_booked_by_whoever_looks_first():
    host, receipt, _ = begun(boot_change())
    host.boot(TRIAL)
    trial_guard.mark(host, "trying")
    host.boot(SECOND)
    assert read_trial(host).state is TrialState.OVERDUE
    ended = finish(host.session, host, lambda _: None)
    assert ended.state is TrialState.CAME_BACK
    assert read_journal(host).status(read_journal(host).run(receipt.run_id)) == "came back"
    assert "systemctl reboot" not in host.ran


def test_what_the_guard_took_back_is_booked_on_paper_with_its_reason():
    host, _receipt, _ = begun(boot_change())
    path = "/etc/modprobe.d/60-hosttune-net.conf"
    host.remove(path, expected=host.read(path))
    host.append(
        trial_guard.LOG,
        f"the boot on trial has stopped in emergency mode\nput back {path}\n".encode(),
    )
    host.boot(TRIAL)
    trial_guard.mark(host, "returned")
    ended = finish(host.session, host, lambda _: None)
    assert (ended.state, ended.reason) == (
        TrialState.CAME_BACK,
        "the boot on trial has stopped in emergency mode",
    )
    journal = read_journal(host)
    assert journal.runs[-1].steps[0].superseded
    assert journal.runs[-1].who.endswith("the boot on trial has stopped in emergency mode")
    assert is_clean(host)


def test_file_that_somebody_edited_meanwhile_is_left_and_the_return_is_in_part():
    host, _, trial = begun(*LIVE)
    host.set_file("/etc/sysctl.d/60-hosttune-x.conf", "vm.swappiness = 33\n")
    ended = come_back(host.session, host, trial, "nobody confirmed it")
    assert ended.state is TrialState.IN_PART
    assert host.read("/etc/sysctl.d/60-hosttune-x.conf") == b"vm.swappiness = 33\n"
    assert (
        value(host) == "60"
    )  # what is in force is taken back all the same: it may be what keeps people out
    assert is_clean(host)
    journal = read_journal(host)
    assert journal.status(journal.run(trial.run)) == "came back in part"
    with pytest.raises(Refused, match=r"was partly rolled back at .*, because nobody confirmed it"):
        require_confirmable(host.session, host, trial.run)


def test_zeros_that_a_power_cut_left_in_the_log_are_no_reason():
    host, _, _ = begun(boot_change())
    host.boot(TRIAL)
    trial_guard.mark(host, "returned")
    host.set_file(
        trial_guard.LOG,
        "trial of run x\n" + "\0" * 40 + "the host went down while it was taken back\n",
    )
    assert read_trial(host).reason == "the host went down while it was taken back"


def test_return_that_finds_nothing_to_take_back_is_booked_all_the_same():
    host, _, trial = begun(boot_change())
    host.set_file("/etc/modprobe.d/60-hosttune-net.conf", "# Petra\n")
    ended = come_back(host.session, host, trial, "nobody confirmed it")
    assert ended.state is TrialState.IN_PART
    assert [run.who for run in read_journal(host).runs][1:] == [
        "hosttune come-back: nobody confirmed it"
    ]


def test_undo_that_somebody_types_leaves_what_an_edit_came_after():
    host, _, trial = begun(*LIVE)
    host.set_file("/etc/sysctl.d/60-hosttune-x.conf", "vm.swappiness = 33\n")
    planned = plan_undo(host.session, trial.run)
    assert (planned.returns, len(planned.plan.findings)) == ((), 2)


def test_confirmation_is_booked_and_a_second_one_finds_it(grub, monkeypatch):
    """Of an argument alone, too, which is made in a run of its own."""
    monkeypatch.setitem(
        triggers._TRIGGERS,
        "update-grub",
        (lambda writer, _: writer.ran.append("grub"), lambda _: ""),
    )
    host, receipt, trial = begun(argument_change(), host=grub)
    host.boot(TRIAL, f"ro iommu=pt hosttune.trial={trial.run}")
    trial_guard.mark(host, "trying")
    ended = confirm(
        host.session, host, require_confirmable(host.session, host, None), lambda _: None
    )
    assert ended.state is TrialState.CONFIRMED
    journal = read_journal(host)
    assert [(run.command, journal.status(run)) for run in journal.runs] == [
        ("apply", "finished"), ("confirm", "finished"), ("apply", "finished"),
    ]  # fmt: skip
    assert journal.runs[1].who == "alice via sudo"
    assert require_confirmable(host.session, host, receipt.run_id) is None


def test_power_cut_before_the_menu_is_written_is_ended_without_a_failure(grub, monkeypatch):
    class PowerCut(BaseException):
        pass

    def cut(*_):
        raise PowerCut

    host, receipt, trial = begun(argument_change(), host=grub)
    host.boot(TRIAL, f"ro iommu=pt hosttune.trial={trial.run}")
    trial_guard.mark(host, "trying")
    monkeypatch.setitem(triggers._TRIGGERS, "update-grub", (cut, lambda _: ""))
    with pytest.raises(PowerCut):
        confirm(host.session, host, require_confirmable(host.session, host, None), lambda _: None)
    host.boot(SECOND)
    monkeypatch.setitem(
        triggers._TRIGGERS,
        "update-grub",
        (lambda writer, _: writer.ran.append("grub"), lambda _: ""),
    )
    recover(host)
    ended = finish(host.session, host, lambda _: None)
    assert (ended.state, ended.receipt.failed, "grub" in host.ran) == (
        TrialState.CONFIRMED,
        (),
        True,
    )
    assert [run.command for run in read_journal(host).runs].count("confirm") == 1
    assert require_confirmable(host.session, host, receipt.run_id) is None


def test_boot_that_cannot_be_asked_for_leaves_the_live_part_on_trial(grub, monkeypatch):
    host, _, _ = begun(*LIVE, argument_change(), host=grub)
    refused = OneShot(None, ("GRUB's default is kernel 6.9, and 6.8 runs",))
    monkeypatch.setattr("hosttune.actions.trial.trial.look_at_grub", lambda *_: refused)
    with pytest.raises(Refused, match=r"kernel 6\.9"):
        confirm(host.session, host, require_confirmable(host.session, host, None), lambda _: None)
    now = read_trial(host)
    assert (now.state, now.left_s) == (TrialState.LIVE, 900)
    assert not any(line.startswith("systemctl stop") and "making" not in line for line in host.ran)


def test_boot_that_is_asked_for_in_part_takes_the_live_part_back(grub, monkeypatch):
    def refuse(*_):
        raise Refused("the environment block does not read back")

    host, _, _ = begun(*LIVE, argument_change(), host=grub)
    monkeypatch.setattr("hosttune.actions.trial.trial.one_shot.arm_entry", refuse)
    ended = confirm(
        host.session, host, require_confirmable(host.session, host, None), lambda _: None
    )
    assert ended.state is TrialState.CAME_BACK
    assert (value(host), is_clean(host)) == ("60", True)


def test_time_of_a_live_part_begins_when_it_is_counted(monkeypatch):
    """To look at a host with eight GPUs takes minutes."""
    host = TrialRunHost()

    def slow(*_, **__):
        host.after_s(125)
        return HostStanding()

    monkeypatch.setattr("hosttune.actions.trial.trial.read_standing", slow)
    host, _, trial = begun(*LIVE, host=host, terms=TrialTerms(120))
    assert (trial.state, trial.left_s, trial.record.started_s) == (TrialState.LIVE, 120, 225)


def test_time_of_a_live_part_counts_from_the_end_of_its_changes(monkeypatch):
    host = TrialRunHost()
    plain, seen = host.set_value, []

    def slow(path, text):
        host.after_s(600)  # an installation
        seen.append(read_trial(host))
        plain(path, text)

    monkeypatch.setattr(host, "set_value", slow)
    host, _, trial = begun(*LIVE, host=host, terms=TrialTerms(120))
    assert [(one.state, one.left_s) for one in seen] == [(TrialState.LIVE, None)]
    assert (trial.state, trial.left_s) == (TrialState.LIVE, 120)


def test_time_that_cannot_be_kept_takes_the_run_back(monkeypatch):
    host = TrialRunHost()
    plain = host.set_value

    def then_refuses(path, text):
        plain(path, text)
        host.refused = {"systemd-run --unit"}

    monkeypatch.setattr(host, "set_value", then_refuses)
    host, _, ended = begun(*LIVE, host=host)
    assert ended.state is TrialState.CAME_BACK
    assert ended.reason.startswith("the time cannot be kept: ")
    assert (value(host), is_clean(host)) == ("60", True)


def test_run_on_trial_that_is_stopped_comes_back_at_once(monkeypatch):
    host = TrialRunHost()
    plain = host.set_value
    monkeypatch.setattr(
        host, "set_value", lambda *words: (plain(*words), signal.raise_signal(signal.SIGINT))
    )
    host, receipt, ended = begun(*LIVE, host=host)
    assert (receipt.stopped, len(receipt.left)) == ("SIGINT", 1)
    assert (ended.state, ended.reason) == (
        TrialState.CAME_BACK,
        "SIGINT stopped it before all was made",
    )
    assert (value(host), is_clean(host)) == ("60", True)


def test_argument_that_is_still_there_is_lost(grub):
    host, _, trial = begun(argument_change("quiet"), host=grub)
    host.set_file(
        RECORD, host.read(RECORD).decode().replace('"dropped": []', '"dropped": ["nomodeset"]')
    )
    host.boot(TRIAL, f"ro quiet nomodeset hosttune.trial={trial.run}")
    trial_guard.mark(host, "trying")
    found = [one.sentence for one in look_for_losses(host.session, read_trial(host))]
    assert "nomodeset is still among the arguments of the running kernel" in found
    host.set_file("/proc/cmdline", f"ro hosttune.trial={trial.run} -- quiet\n")  # for process 1
    found = [one.sentence for one in look_for_losses(host.session, read_trial(host))]
    assert "quiet is not among the arguments of the running kernel" in found


def test_return_that_fails_says_so_once_and_is_not_tried_again_by_itself():
    host, _receipt, trial = begun(*LIVE)
    host.set_value = fail
    ended = come_back(host.session, host, trial, "nobody confirmed it")
    assert ended.state is TrialState.FAILED
    assert read_trial(host).state is TrialState.FAILED
    assert any("could not be rolled back" in line for line in host.logged)
    assert finish(host.session, host, lambda _: None) is None
    with pytest.raises(Refused, match="could not be rolled back"):
        require_none(host)
    del host.set_value
    trial = on_trial_to_undo(host.session, host, None, None)
    begin_to_take_back(host, trial)
    undo(host.session, host, plan_undo(host.session, trial.run))
    taken_back(host, trial)
    assert (value(host), is_clean(host)) == ("60", True)


def fail(path, text):
    raise Refused("the kernel says no")


@pytest.mark.parametrize("words", ["systemd-run --unit"])
def test_deadline_that_cannot_be_set_is_refused_before_the_first_change(words):
    host = TrialRunHost()
    host.refused = {words}
    with pytest.raises(Refused):
        begun(*LIVE, host=host)
    assert (value(host), is_clean(host)) == ("60", True)
    assert read_journal(host).runs == ()


def test_run_of_which_nothing_stands_is_not_on_trial():
    host = TrialRunHost()
    host.set_value = fail
    host, receipt, ended = begun(*LIVE, host=host)
    assert receipt.failed
    assert ended.state is TrialState.CAME_BACK
    assert (value(host), is_clean(host)) == ("60", True)


def test_no_trial_without_systemd_nor_in_an_image(monkeypatch):
    host = TrialRunHost()
    host.folders["/run/systemd/system"] = False
    planned = foresee(host.session, plan_of(*LIVE), TERMS)
    assert planned.obstacles == (
        "no systemd runs here, and nothing else would keep the time when this session has ended",
    )
    with pytest.raises(Refused, match="no trial is possible here: no systemd runs here"):
        require_promise(planned, without_return=True)
    monkeypatch.setattr(TrialRunHost, "persistent_only", True)
    assert foresee(host.session, plan_of(*LIVE), TERMS).obstacles == (trial_guard.OF_AN_IMAGE,)


def test_came_back_is_known_to_the_journal_until_somebody_sets_it_again():
    host, _, trial = begun(*LIVE)
    come_back(host.session, host, trial, "nobody confirmed it")
    back = read_journal(host).came_back()
    address = sysctl_change().address
    assert back[address].value == "10"
    assert back[address].sentence.endswith("UTC: nobody confirmed it")
    host, _, _ = begun(*LIVE, host=host)
    assert address not in read_journal(host).came_back()


def login(*names):
    """A host whose command descends from processes of these names, each with the second of its
    start, and the number of its terminal: major << 8 | minor.
    """
    files, pid = {}, 1000
    for number, (name, started, *terminal) in enumerate(names):
        own = "self" if number == 0 else str(pid + number)
        parent = pid + number + 1 if number + 1 < len(names) else 1
        fields = [
            "S",
            str(parent),
            "0",
            "0",
            str(sum(terminal)),
            *["0"] * 14,
            str(int(started * 100)),
            "0",
        ]
        files[f"/proc/{own}/stat"] = f"{pid + number} ({name}) {' '.join(fields)}\n"
    return read_login(TrialRunHost(files))


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            (
                ("python3", 150),
                ("sudo", 150),
                ("bash", 90),
                ("sshd", 90),
                ("sshd", 90),
                ("sshd", 5),
            ),
            "was there before",
        ),
        (
            (
                ("python3", 150),
                ("bash", 120),
                ("sshd-session", 120),
                ("sshd-session", 120),
                ("sshd", 5),
            ),
            "",
        ),
        ((("python3", 150), ("bash", 120), ("tmux: server", 90)), "runs in tmux"),
        ((("python3", 150), ("bash", 50), ("login", 10)), ""),
        ((("python3", 150), ("a) (b", 120), ("sshd", 100.5)), ""),
        ((("python3", 150, PTS), ("sudo", 150, TTY), ("bash", 50, TTY), ("login", 10, TTY)), ""),
        (
            (("python3", 150, PTS), ("bash", 150, PTS)),
            "does not show over which",
        ),  # run0, machinectl shell
        (
            (("python3", 150, PTS), ("sudo", 150, PTS), ("bash", 50, PTS), ("node", 40)),
            "does not show over which",
        ),
        ((("python3", 150, PTS), ("bash", 50, PTS), ("mosh-server", 40)), "was there before"),
        ((("python3", 150, PTS), ("bash", 120, PTS), ("dropbear", 120), ("dropbear", 3)), ""),
        ((("python3", 150), ("sh", 149)), ""),  # a unit of systemd
    ],
)
def test_only_a_connection_that_began_after_the_changes_confirms_them(names, says):
    said = why_not_proof(login(*names), made_s=100.0)
    assert (says in said) if says else said == ""


def test_old_connection_is_refused_live_and_taken_in_the_boot_on_trial(monkeypatch):
    host, _, _ = begun(*LIVE, boot_change())
    monkeypatch.setattr(
        "hosttune.actions.trial.trial.read_login", lambda _: Login(is_remote=True, began_s=50.0)
    )
    with pytest.raises(Refused, match="this connection was there before the changes"):
        require_confirmable(host.session, host, None)
    trial_guard.mark(host, "settled")
    host.boot(TRIAL)
    trial_guard.mark(host, "trying")
    assert require_confirmable(host.session, host, None).state is TrialState.THIS_BOOT


def test_health_is_looked_at_by_a_timer_of_its_own():
    host, _, trial = begun(*LIVE, terms=TrialTerms(900, Confirmer.HEALTH))
    timers = [line for line in host.ran if line.startswith("systemd-run")]
    assert f"--unit=hosttune-trial-{trial.run}-look --on-active=120s" in timers[2]
    assert timers[2].endswith(f"come-back look {trial.run}")


ENTRY = BootEntry(
    "Debian", "6.1.0-1", ("insmod ext2",), "/vmlinuz-6.1.0-1", "root=UUID=1 ro", ("initrd /initrd",)
)


@pytest.fixture
def grub(monkeypatch):
    """A host that GRUB can be asked for one boot of."""
    monkeypatch.setattr("hosttune.actions.trial.trial.look_at_grub", lambda *_: OneShot(ENTRY, ()))
    return TrialRunHost({ENVIRONMENT: BLOCK})


def test_argument_of_the_kernel_is_in_the_entry_for_one_boot_alone_until_it_is_confirmed(
    grub, monkeypatch
):
    host, receipt, trial = begun(argument_change(), host=grub)
    assert (trial.state, receipt.outcomes) == (TrialState.NEXT_BOOT, ())
    assert host.read(GRUB) is ABSENT
    assert b"iommu=pt panic=30" in host.read(CUSTOM)
    assert is_asked_for(host)
    host.boot(TRIAL, f"ro iommu=pt hosttune.trial={trial.run}")
    trial_guard.mark(host, "trying")
    monkeypatch.setitem(
        triggers._TRIGGERS,
        "update-grub",
        (lambda writer, _: writer.ran.append("grub"), lambda _: ""),
    )
    ended = confirm(
        host.session, host, require_confirmable(host.session, host, None), lambda _: None
    )
    assert ended.state is TrialState.CONFIRMED
    assert not ended.receipt.failed
    assert b"iommu=pt" in host.read(GRUB)
    assert "grub" in host.ran
    assert (host.read(CUSTOM), is_clean(host)) == (ABSENT, True)


def test_parts_of_a_trial_are_one_intention(grub, monkeypatch):
    host, receipt, _ = begun(*LIVE, argument_change(), host=grub)
    confirm(host.session, host, require_confirmable(host.session, host, None), lambda _: None)
    host.boot(TRIAL, f"ro iommu=pt hosttune.trial={receipt.run_id}")
    trial_guard.mark(host, "trying")
    monkeypatch.setitem(
        triggers._TRIGGERS,
        "update-grub",
        (lambda writer, _: writer.ran.append("grub"), lambda _: ""),
    )
    ended = confirm(
        host.session, host, require_confirmable(host.session, host, None), lambda _: None
    )
    assert (ended.state, ended.receipt.part_of) == (TrialState.CONFIRMED, receipt.run_id)
    planned = plan_undo(host.session)
    assert planned.runs == (receipt.run_id, ended.receipt.run_id)
    assert {one.address for one in planned.plan.changes} == {
        one.address for one in (*LIVE, argument_change())
    }


def test_argument_that_nobody_confirms_is_forgotten_held_and_named_with_the_reason(grub):
    host, _receipt, trial = begun(argument_change(), host=grub)
    host.boot(TRIAL)
    host.append(trial_guard.LOG, b"this boot did not take the entry on trial\n")
    trial_guard.mark(host, "returned")
    ended = finish(host.session, host, lambda _: None)
    assert ended.state is TrialState.CAME_BACK
    assert (host.read(GRUB), host.read(CUSTOM), is_asked_for(host)) == (ABSENT, ABSENT, False)
    back = read_journal(host).came_back()
    assert back[argument_change().address].value == argument_change().after
    assert read_journal(host).in_force == ()
    told = [(one["command"], one["status"]) for one in history_json(read_journal(host), {})["runs"]]
    assert told == [("undo", "finished"), ("apply", "came back")]
    assert "failed" not in history_report(read_journal(host), PAGE)
    with pytest.raises(
        Refused,
        match=r" was rolled back at [0-9: -]+ UTC, because this boot did not take the entry",
    ):
        require_confirmable(host.session, host, trial.run)


def test_argument_running_on_trial_needs_one_reboot_to_be_gone(grub):
    host, _, trial = begun(argument_change(), host=grub)
    host.boot(TRIAL, f"ro iommu=pt hosttune.trial={trial.run}")
    trial_guard.mark(host, "trying")
    come_back(host.session, host, read_trial(host), "nobody confirmed it", may_reboot=True)
    assert host.ran.count("systemctl reboot") == 1
    assert host.read(CUSTOM) is ABSENT


def test_boot_that_cannot_be_asked_for_takes_the_run_back_at_once(grub, monkeypatch):
    def refuse(*_):
        raise Refused("the environment block does not read back")

    monkeypatch.setattr("hosttune.actions.trial.trial.one_shot.arm_entry", refuse)
    host, _receipt, ended = begun(argument_change(), boot_change(), host=grub)
    assert ended.state is TrialState.CAME_BACK
    assert (
        ended.reason
        == "the boot on trial cannot be asked for: the environment block does not read back"
    )
    assert host.read("/etc/modprobe.d/60-hosttune-net.conf") is ABSENT
    assert is_clean(host)


def test_value_that_came_back_is_held_until_it_is_asked_for_again():
    change = sysctl_change()
    finding = Finding("memory-swappiness", "", Verdict.DIFFERS, changes=(change,))
    told = "at 2026-11-24 14:32 UTC: it was not confirmed within 15 min"
    back = {change.address: ("10", told)}
    facts = TrialRunHost().session.facts
    held = hold_back(finding, Policy(), facts, {}, {}, back)
    assert (held.hold.kind, held.hold.detail, held.changes) == (HoldKind.CAME_BACK, told, ())
    assert "apply --yes --again memory-swappiness" in held.todo
    assert hold_back(
        finding, Policy(again=("memory-swappiness",)), facts, {}, {}, back
    ).changes == (change,)
    other = {change.address: ("20", told)}
    assert hold_back(finding, Policy(), facts, {}, {}, other).changes == (change,)


def test_folder_of_trials_has_one_name():
    assert TRIAL_FOLDER == trial_guard.FOLDER


class Killed(BaseException):
    """Signal 9: no handler sees it."""


def test_run_that_was_killed_half_way_is_no_less_taken_back_at_its_deadline(monkeypatch):
    host = TrialRunHost()
    replace = host.replace

    def die(path, new, *, expected):
        if path.startswith("/etc/sysctl.d/"):
            raise Killed
        replace(path, new, expected=expected)

    monkeypatch.setattr(host, "replace", die)
    with pytest.raises(Killed):
        begun(*LIVE, host=host)
    monkeypatch.setattr(host, "replace", replace)
    assert value(host) == "10"
    with pytest.raises(Refused, match="has not come to its end"):
        require_confirmable(host.session, host, None)
    recover(host)
    assert read_trial(host).state is TrialState.LIVE
    assert (
        come_back(host.session, host, read_trial(host), "nobody confirmed it").state
        is TrialState.CAME_BACK
    )
    assert (value(host), is_clean(host)) == ("60", True)
    assert any(
        f"hosttune-trial-{run.id}-making" in line
        for run in read_journal(host).runs[:1]
        for line in host.ran
    )


def test_what_the_guard_has_taken_back_is_told_before_it_is_booked():
    host, receipt, _ = begun(boot_change())
    host.boot(SECOND)
    trial_guard.mark(host, "returned")
    (told,) = describe_interrupted(read_journal(host), host)
    assert told == f"run {receipt.run_id} was on trial and was rolled back: the next run records it"
