"""Apply, recovery and undo where something goes wrong half-way."""

from types import SimpleNamespace

import pytest

from hosttune import __version__
from hosttune.actions.apply import apply, new_run
from hosttune.actions.journal import Recorder, read_journal
from hosttune.actions.recover import recover
from hosttune.actions.undo import plan_undo, undo
from hosttune.errors import Conflict, Refused
from hosttune.facts import Facts
from hosttune.host.overlay import Overlay
from hosttune.resources import address_kinds
from hosttune.values import ABSENT, Action, Address, Change, HoldKind, Phase, Plan, Stage, Trigger, Unreadable
from tests.unit.fake_reader import FakeReader

UNIT, SECOND = Address("unit", "x.service"), Address("sysctl", "vm.b")
SWAPPINESS = Address("sysctl", "vm.a")
VALUES = {"/proc/sys/vm/a": "60\n", "/proc/sys/vm/b": "1\n", "/proc/sys/kernel/random/boot_id": "boot\n"}


class Host(Overlay):
    """A host whose kernel refuses to write, or takes a value and complains, as `refused` and `complained` say."""

    def __init__(self, files=None, **more):
        super().__init__(FakeReader({**VALUES, **(files or {})}, **more))
        self.refused: set[str] = set()
        self.complained: set[str] = set()
        self.lost: set[str] = set()

    def set_value(self, path, text):
        if path in self.refused:
            raise Refused("the kernel says no")
        super().set_value(path, text)
        if path in self.complained:
            raise Refused("written, and the kernel complains")

    def read(self, path):
        return Unreadable("input/output error") if path in self.lost else super().read(path)


def change(address, before, after, rule="some-rule", triggers=()):
    return Change(address, Action.UPDATE, before, after, rule, triggers=triggers)


def session_on(host):
    return SimpleNamespace(reader=host, journal=read_journal(host), facts=Facts(host))


def apply_stages(host, *stages):
    made = tuple(Stage(tuple(changes), ()) for changes in stages)
    plan = Plan("d" * 64, "0", "", "", "", made, ())
    return apply(session_on(host), host, plan)


def undo_all(host, run=None):
    session = session_on(host)
    planned = plan_undo(session, run)
    return planned, undo(session, host, planned)


def value(host, name):
    return address_kinds()["sysctl"].read(host, name)


def test_change_that_took_although_it_complained_can_be_undone():
    host = Host()
    host.complained = {"/proc/sys/vm/a"}
    receipt = apply_stages(host, [change(SWAPPINESS, "60", "10")])  # it is taken back at once, and that complains, too
    assert len(receipt.failed) == 2
    assert value(host, "vm.a") == "60"
    host.complained = set()
    assert undo_all(host)[1].failed == ()
    assert read_journal(host).in_force == ()


def test_value_that_the_kernel_rounds_is_failed_and_goes_back():
    host = Host()
    plain = Overlay.set_value
    host.set_value = lambda path, text: plain(host, path, "1024" if text.strip() == "1000" else text)
    receipt = apply_stages(host, [change(SWAPPINESS, "60", "1000")])
    assert "reads differently" in receipt.failed[0].error
    assert value(host, "vm.a") == "60"
    assert read_journal(host).in_force == ()


def test_refused_change_leaves_nothing_in_force():
    host = Host()
    host.refused = {"/proc/sys/vm/a"}
    receipt = apply_stages(host, [change(SWAPPINESS, "60", "10")])
    assert len(receipt.failed) == 1
    assert read_journal(host).in_force == ()


def test_value_of_somebody_else_is_no_change_of_ours():
    host = Host()
    receipt = apply_stages(host, [change(SWAPPINESS, "50", "10")])
    assert len(receipt.failed) == 1
    assert read_journal(host).in_force == ()
    assert value(host, "vm.a") == "60"


def test_change_that_cannot_be_read_back_stays_open():
    host = Host()
    plain = Overlay.set_value

    def write_and_lose(path, text):
        plain(host, path, text)
        host.lost.add(path)

    host.set_value = write_and_lose
    apply_stages(host, [change(SWAPPINESS, "60", "10")])
    (step,) = read_journal(host).in_force
    assert step.phase is Phase.INTENT
    host.lost.clear()
    del host.set_value
    assert undo_all(host)[1].failed == ()
    assert value(host, "vm.a") == "60"


def test_rule_that_fails_in_its_second_stage_is_taken_back_whole():
    host = Host()
    host.refused = {"/proc/sys/vm/b"}
    receipt = apply_stages(host, [change(SWAPPINESS, "60", "10")], [change(SECOND, "1", "2")])
    assert len(receipt.failed) == 1
    assert value(host, "vm.a") == "60"
    assert read_journal(host).in_force == ()
    assert receipt.verified


def test_undo_that_fails_half_way_can_be_done_again(monkeypatch):
    host = Host()
    apply_stages(host, [change(SWAPPINESS, "60", "10")])

    def half_way(path, text):
        Overlay.set_value(host, path, "30")
        raise Refused("half-way")

    host.set_value = half_way
    _, receipt = undo_all(host)
    assert len(receipt.failed) == 1
    del host.set_value
    planned, receipt = undo_all(host)
    assert [(one.before, one.after) for one in planned.plan.changes] == [("30", "60")]
    assert (value(host, "vm.a"), receipt.failed) == ("60", ())


def interrupted(host, *changes):
    """A run that ended after the intent of its last change."""
    session = session_on(host)
    recorder = Recorder.start(host, new_run(host, session.journal, "apply", "d"))
    for number, one in enumerate(changes, 1):
        step = recorder.intent(one)
        if number < len(changes):
            recorder.done(step)


@pytest.mark.parametrize(("present", "phase"), [("10", Phase.DONE), ("60", Phase.FAILED), ("33", Phase.INTENT)])
def test_open_intent_is_booked_by_what_the_host_holds(present, phase):
    host = Host({"/proc/sys/vm/a": present})
    interrupted(host, change(SWAPPINESS, "60", "10"))
    said = []
    journal = recover(host, on_progress=said.append)
    assert [step.phase for run in journal.runs for step in run.steps] == [phase]
    assert ("neither as before nor as planned" in said[-1]) is (phase is Phase.INTENT)
    assert journal.interrupted == ()


def test_unit_that_was_enabled_and_not_started_is_taken_back_by_undo():
    text = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
    unit = "/usr/lib/systemd/system/x.service"
    host = Host({unit: text}, links={"/etc/systemd/system/multi-user.target.wants/x.service": unit})
    interrupted(host, change(UNIT, ("disabled", "inactive"), ("enabled", "active")))
    recover(host)
    (step,) = read_journal(host).in_force
    assert step.change.after == ("enabled", "inactive")
    planned, _ = undo_all(host)
    assert [one.after for one in planned.plan.changes] == [("disabled", "inactive")]


def test_recovery_runs_nothing_and_apply_runs_it_then():
    running = {("systemctl", "is-system-running"): "running\n"}
    host = Host({"/proc/sys/vm/a": "10"}, folders=("/run/systemd/system", "/dev"), queries=running)
    ran = []

    def run(argv, *, timeout_s):
        assert timeout_s > 0
        ran.append(argv)

    host.run = run
    interrupted(host, change(SWAPPINESS, "60", "10", triggers=(Trigger("daemon-reload"),)))
    recover(host)
    assert ran == []
    assert read_journal(host).pending_triggers("boot") == (Trigger("daemon-reload"),)
    apply_stages(host)
    assert ran == [("systemctl", "daemon-reload")]
    assert read_journal(host).pending_triggers("boot") == ()


def test_restart_that_waited_runs_after_the_reload_of_a_later_run():
    running = {("systemctl", "is-system-running"): "running\n"}
    host = Host(folders=("/run/systemd/system", "/dev"), queries=running)
    ran = []
    host.run = lambda argv, *, timeout_s: ran.append((argv, timeout_s))
    restart, reload = Trigger("restart", "x.service"), Trigger("daemon-reload")
    interrupted(host, change(SWAPPINESS, "60", "10", triggers=(restart,)))
    recover(host)
    apply_stages(host, [change(SECOND, "1", "2", triggers=(reload, restart))])
    assert [argv for argv, _ in ran] == [("systemctl", "daemon-reload"), ("systemctl", "try-restart", "x.service")]
    assert read_journal(host).pending_triggers("boot") == ()


FSTAB = "UUID=0a / ext4 defaults 0 1\n"
LINE = "UUID=b7 /data xfs noatime 0 0"
WHOLE = Address("fstab-line", "/data")
OPTIONS = Address("fstab", "/data")


def fstab_host():
    return Host({"/etc/fstab": FSTAB})


ADDED = Change(WHOLE, Action.CREATE, ABSENT, LINE, "adds")


def test_line_and_its_options_in_one_run_go_back_together():
    host = fstab_host()
    receipt = apply_stages(host, [ADDED], [change(OPTIONS, "noatime", "noatime,nofail", "tunes")])
    assert receipt.verified
    planned, receipt = undo_all(host)
    assert planned.plan.findings == ()
    assert receipt.failed == ()
    assert receipt.verified
    assert host.read("/etc/fstab") == FSTAB.encode()


def test_line_that_a_later_run_edited_waits_for_that_run():
    host = fstab_host()
    first = apply_stages(host, [ADDED, change(SWAPPINESS, "60", "10", "adds")])
    later = apply_stages(host, [change(OPTIONS, "noatime", "noatime,nofail", "tunes")])
    planned, _ = undo_all(host, first.run_id)
    assert planned.plan.changes == ()
    assert {finding.hold.kind for finding in planned.plan.findings} == {HoldKind.REFUSED}
    assert all(later.run_id in finding.hold.detail for finding in planned.plan.findings)
    assert value(host, "vm.a") == "10"
    for run in (later.run_id, first.run_id):
        assert undo_all(host, run)[1].failed == ()
    assert host.read("/etc/fstab") == FSTAB.encode()
    assert value(host, "vm.a") == "60"


def test_undo_on_paper_ends_at_what_an_admin_set_in_between():
    host = Host()
    first = apply_stages(host, [change(SWAPPINESS, "60", "10")])
    second = apply_stages(host, [change(SWAPPINESS, "10", "5")])
    host.set_value("/proc/sys/vm/a", "10")  # an administrator
    third = apply_stages(host, [change(SWAPPINESS, "10", "5")])
    for run in (second.run_id, first.run_id):
        undo_all(host, run)
    undo_all(host, third.run_id)
    assert value(host, "vm.a") == "10"


def test_conflict_on_undo_is_no_half_way():
    host = Host()
    apply_stages(host, [change(SWAPPINESS, "60", "10")])
    session = session_on(host)
    planned = plan_undo(session)
    host.set_value("/proc/sys/vm/a", "77")
    undo(session, host, planned)
    (step,) = read_journal(host).in_force
    assert step.change.after == "10"
    with pytest.raises(Conflict):
        address_kinds()["sysctl"].write(host, planned.plan.changes[0])


class Entangled(Host):
    """A kernel in which the value of `b` sets that of `a` along."""

    def set_value(self, path, text):
        super().set_value(path, text)
        if path == "/proc/sys/vm/b":
            super().set_value("/proc/sys/vm/a", "33")


def test_value_that_a_later_change_of_the_run_set_aside_is_not_called_verified():
    host = Entangled()
    receipt = apply_stages(host, [change(SWAPPINESS, "60", "10"), change(SECOND, "1", "2", "other-rule")])
    assert receipt.failed == ()
    assert not receipt.verified


def test_value_that_a_later_step_of_the_undo_set_aside_is_not_called_verified():
    host = Host()
    apply_stages(host, [change(SECOND, "1", "2"), change(SWAPPINESS, "60", "10", "other-rule")])
    host.__class__ = Entangled
    _, receipt = undo_all(host)
    assert receipt.failed == ()
    assert not receipt.verified


def test_run_whose_values_all_stand_at_its_end_is_verified():
    host = Host()
    assert apply_stages(host, [change(SWAPPINESS, "60", "10")]).verified
    assert undo_all(host)[1].verified


def test_package_is_never_taken_back_without_being_asked():
    dpkg = "Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n"
    host = Host({"/var/lib/dpkg/status": dpkg})
    host.refused = {"/proc/sys/vm/b"}
    packages = Address("package-set", "tuned")
    steps = [change(SWAPPINESS, "60", "10"), change(packages, ABSENT, ("tuned=2",)), change(SECOND, "1", "2")]
    receipt = apply_stages(host, steps)
    assert [str(outcome.change.address) for outcome in receipt.failed] == ["sysctl:vm.b"]
    assert address_kinds()["package-set"].read(host, "tuned") == ("tuned=2",)
    assert value(host, "vm.a") == "60"  # the rest of its rule is
    assert [step.change.address for step in read_journal(host).in_force] == [packages]
    undo_all(host)
    assert address_kinds()["package-set"].read(host, "tuned") is ABSENT


class Logging(Host):
    """A host that keeps the lines of its system log; somebody is behind sudo."""

    def __init__(self, **more):
        super().__init__(**more)
        self.logged: list[str] = []

    def log(self, message):
        self.logged.append(message)

    def operator(self):
        return "alice via sudo"


def test_system_log_says_who_applied_and_undid_what_in_every_line():
    host = Logging()
    host.refused = {"/proc/sys/vm/b"}
    receipt = apply_stages(host, [change(SWAPPINESS, "60", "10"), change(SECOND, "1", "2", rule="other-rule")])
    head = f"apply {receipt.run_id}, digest dddddddddddd, by alice via sudo: "
    assert [line.removeprefix(head) for line in host.logged] == [
        f"begins: 2 to make, hosttune {__version__}",
        "update sysctl:vm.a (some-rule)",
        "failed: update sysctl:vm.b (other-rule): the kernel says no",
        "ended: 1 made, 1 failed or left",
    ]
    host.logged.clear()
    planned, back = undo_all(host)
    head = f"undo {back.run_id}, digest {planned.plan.digest[:12]}, by alice via sudo: "
    assert [line.removeprefix(head) for line in host.logged] == [
        f"begins: 1 of {receipt.run_id} to take back, hosttune {__version__}",
        "update sysctl:vm.a (some-rule)",
        "ended: 1 made",
    ]
