"""Apply, recovery and undo where something goes wrong half-way."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune import __version__
from hosttune.actions.apply import apply, check_expected, new_run
from hosttune.actions.journal.journal import (
    FOLDER,
    Journal,
    JournalWriter,
    read_journal,
    still_back,
)
from hosttune.actions.journal.lines import Run, parse_run
from hosttune.actions.journal.recover import recover
from hosttune.actions.run import wait_for_first_boot
from hosttune.actions.undo import plan_undo, undo
from hosttune.errors import Conflict, HosttuneError, Refused
from hosttune.facts import Facts
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds
from hosttune.values import (
    ABSENT,
    Action,
    Address,
    Change,
    HoldKind,
    Phase,
    Plan,
    Stage,
    Trigger,
    Unreadable,
)
from hosttune.views.page import Page
from hosttune.views.receipt import receipt_report
from tests.unit.fake_reader import FakeReader

UNIT, SECOND = Address("unit", "x.service"), Address("sysctl", "vm.b")
SWAPPINESS = Address("sysctl", "vm.a")
VALUES = {
    "/proc/sys/vm/a": "60\n",
    "/proc/sys/vm/b": "1\n",
    "/proc/sys/kernel/random/boot_id": "boot\n",
}


class Host(Overlay):
    """A host whose kernel refuses to write, or takes a value and complains, as `refused` and
    `complained` say.
    """

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
    return SimpleNamespace(
        reader=host,
        journal=read_journal(host),
        facts=Facts(host),
        selected=(),
        resumed=(),
        resumed_run="",
    )


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
    receipt = apply_stages(
        host, [change(SWAPPINESS, "60", "10")]
    )  # it is taken back at once, and that complains, too
    assert len(receipt.failed) == 2
    assert value(host, "vm.a") == "60"
    host.complained = set()
    assert undo_all(host)[1].failed == ()
    assert read_journal(host).in_force == ()


def test_value_that_the_kernel_rounds_is_failed_and_goes_back():
    host = Host()
    plain = Overlay.set_value
    host.set_value = lambda path, text: plain(
        host, path, "1024" if text.strip() == "1000" else text
    )
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
    recorder = JournalWriter.start(host, new_run(host, session.journal, "apply", "d"))
    for number, one in enumerate(changes, 1):
        step = recorder.intent(one)
        if number < len(changes):
            recorder.done(step)


@pytest.mark.parametrize(
    ("present", "phase"), [("10", Phase.DONE), ("60", Phase.FAILED), ("33", Phase.INTENT)]
)
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
    assert [argv for argv, _ in ran] == [
        ("systemctl", "daemon-reload"),
        ("systemctl", "try-restart", "x.service"),
    ]
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
    head = ("--- /etc/fstab", "+++ /etc/fstab")
    tuned = LINE.replace("noatime", "noatime,nofail")
    assert [one.details for one in planned.plan.changes] == [
        (*head, "@@ -2 +2 @@", f"-{tuned}", f"+{LINE}"),
        (*head, "@@ -2 +1,0 @@", f"-{LINE}"),
    ]


def test_what_an_undo_left_is_looked_at_again():
    host = Host()
    assert still_back(read_journal(host), host) == {}
    apply_stages(host, [change(SWAPPINESS, "60", "10"), change(SECOND, "1", "2")])
    undo_all(host)
    assert set(still_back(read_journal(host), host).values()) == {True}
    host.files["/proc/sys/vm/a"] = b"10\n"
    run = read_journal(host).runs[-1]
    held = still_back(read_journal(host), host)
    assert {step.change.address: held[step.id] for step in run.steps} == {
        SWAPPINESS: False,
        SECOND: True,
    }
    apply_stages(host, [change(SWAPPINESS, "10", "20")])
    assert [
        held.change.address for held in run.steps if held.id in still_back(read_journal(host), host)
    ] == [SECOND]


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
    receipt = apply_stages(
        host, [change(SWAPPINESS, "60", "10"), change(SECOND, "1", "2", "other-rule")]
    )
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
    steps = [
        change(SWAPPINESS, "60", "10"),
        change(packages, ABSENT, ("tuned=2",)),
        change(SECOND, "1", "2"),
    ]
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
    receipt = apply_stages(
        host, [change(SWAPPINESS, "60", "10"), change(SECOND, "1", "2", rule="other-rule")]
    )
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
        f"begins: 1 of {receipt.run_id} to undo, hosttune {__version__}",
        "update sysctl:vm.a (some-rule)",
        "ended: 1 made",
    ]


def test_trigger_that_waited_in_an_earlier_boot_waits_no_more():
    host = Host({"/proc/sys/vm/a": "10"})
    interrupted(host, change(SWAPPINESS, "60", "10", triggers=(Trigger("daemon-reload"),)))
    recover(host)
    journal = read_journal(host)
    assert journal.pending_triggers("boot") == (Trigger("daemon-reload"),)
    assert journal.pending_triggers("next boot") == ()


def test_initial_ram_disk_that_was_not_built_waits_over_the_boot():
    """A power cut came between the option and the disk that holds it; no boot builds that."""
    host = Host({"/proc/sys/vm/a": "10"})
    build, reload = Trigger("rebuild-initramfs"), Trigger("daemon-reload")
    interrupted(host, change(SWAPPINESS, "60", "10", triggers=(build, reload)))
    recover(host)
    journal = read_journal(host)
    assert journal.pending_triggers("next boot") == (build,)
    of_image = Journal(tuple(replace(run, boot_id="") for run in journal.runs))
    assert of_image.pending_triggers("next boot") == ()
    later = replace(journal.runs[0], id="later", boot_id="next boot", waiting=(), ran=(build,))
    assert Journal((*journal.runs, later)).pending_triggers("next boot") == ()


def test_value_counts_as_set_again_only_where_it_is_the_one_that_was_set_last():
    host = Host()
    for before, after, times in (("60", "10", 1), ("60", "10", 2), ("60", "5", 1), ("5", "10", 1)):
        host.set_value("/proc/sys/vm/a", before)
        apply_stages(host, [change(SWAPPINESS, before, after)])
        assert read_journal(host).ledger()[SWAPPINESS].times == times


def test_journal_of_which_one_run_cannot_be_read_is_unreadable_and_undoes_nothing():
    host = Host()
    receipt = apply_stages(host, [change(SWAPPINESS, "60", "10")])
    apply_stages(host, [change(SECOND, "1", "2")])
    host.lost.add(f"{FOLDER}/{receipt.run_id}.jsonl")
    journal = read_journal(host)
    assert (journal.unreadable, journal.runs) == ("input/output error", ())
    with pytest.raises(HosttuneError, match="the journal cannot be read: input/output error"):
        plan_undo(session_on(host))


def test_journal_of_a_newer_hosttune_is_not_guessed_at():
    host = Host()
    receipt = apply_stages(host, [change(SWAPPINESS, "60", "10")])
    data = host.read(f"{FOLDER}/{receipt.run_id}.jsonl")
    assert len(parse_run(data, "x").steps) == 1
    newer = parse_run(data.replace(b'"format_version":1', b'"format_version":2'), "x")
    assert (newer.steps, newer.id) == ((), receipt.run_id)
    assert newer.unread.startswith(f"a newer hosttune wrote the journal of run {receipt.run_id}")


@pytest.mark.parametrize(
    ("digest", "is_enough"),
    [("d" * 64, True), ("d" * 12, True), ("d" * 11, False), ("d" * 11 + "e", False), ("", False)],
)
def test_digest_is_expected_by_twelve_digits_or_more(digest, is_enough):
    plan = Plan("d" * 64, "0", "", "", "", (), ())
    if is_enough:
        check_expected(plan, digest)
    else:
        with pytest.raises(Refused, match="the plan has changed since it was shown"):
            check_expected(plan, digest)


def test_run_starts_after_the_last_one_although_the_clock_was_set_back():
    host = Host()
    late = Run("late", "apply", "2099-01-01T00:00:00.000000+00:00", "me", "boot", "d", "0")
    assert (
        new_run(host, Journal((late,)), "apply", "d").started_at
        == "2099-01-01T00:00:00.000001+00:00"
    )
    early = Run("early", "apply", "1999-01-01T00:00:00.000000+00:00", "me", "boot", "d", "0")
    assert new_run(host, Journal((early,)), "apply", "d").started_at.startswith("2025-")


THIRD = Address("sysctl", "vm.c")


def test_change_before_one_that_cannot_be_taken_back_stays_because_the_later_may_rest_on_it():
    host = Host({"/proc/sys/vm/c": "0\n"})
    host.refused = {"/proc/sys/vm/c"}
    plain = host.set_value

    def set_value(path, text):
        if path == "/proc/sys/vm/b" and text.strip() == "1":
            raise Refused("no way back")
        plain(path, text)

    host.set_value = set_value
    apply_stages(
        host, [change(SWAPPINESS, "60", "10"), change(SECOND, "1", "2"), change(THIRD, "0", "1")]
    )
    assert (value(host, "vm.a"), value(host, "vm.b")) == ("10", "2")
    assert [step.change.address for step in read_journal(host).in_force] == [SWAPPINESS, SECOND]


def test_rest_of_a_rule_is_not_begun_after_a_change_of_it_failed():
    host = Host()
    host.refused = {"/proc/sys/vm/a"}
    asked = []
    plain = host.set_value
    host.set_value = lambda path, text: asked.append(path) or plain(path, text)
    apply_stages(host, [change(SWAPPINESS, "60", "10"), change(SECOND, "1", "2")])
    assert asked == ["/proc/sys/vm/a"]


def test_step_of_an_undo_is_left_where_a_later_one_of_its_rule_could_not_be_undone():
    host = Host()
    apply_stages(host, [change(SWAPPINESS, "60", "10"), change(SECOND, "1", "2")])
    host.refused = {"/proc/sys/vm/b"}
    _, receipt = undo_all(host)
    assert [outcome.error for outcome in receipt.failed][1:] == [
        "left: another step of some-rule could not be undone"
    ]
    assert (value(host, "vm.a"), value(host, "vm.b")) == ("10", "2")


def test_receipt_of_an_undo_tells_what_was_gone_beside_what_was_taken_back():
    host = Host()
    apply_stages(
        host, [change(SWAPPINESS, "60", "10"), change(Address("sysctl", "vm.b"), "1", "2")]
    )
    host.files["/proc/sys/vm/a"] = ABSENT
    receipt = undo_all(host)[1]
    text = receipt_report(receipt, Page(), is_undo=True, on_paper=1)
    assert text.startswith(
        "this host: the change is undone and read back.\n1 change was gone already, and recorded"
    )
    assert "gone already" not in receipt_report(receipt, Page(), is_undo=True)


def test_value_that_went_with_its_device_is_undone_on_paper():
    host = Host()
    apply_stages(host, [change(SWAPPINESS, "60", "10")])
    host.files["/proc/sys/vm/a"] = ABSENT
    session, told = session_on(host), []
    planned = plan_undo(session)
    receipt = undo(session, host, planned, on_progress=told.append)
    assert [one.on_paper for one in planned.returns] == [True]
    assert (planned.plan.changes, receipt.failed) == ((), ())
    assert told == ["vm.a already has its old value: recorded as undone"]
    text = receipt_report(receipt, Page(), is_undo=True, on_paper=1)
    assert text.startswith(
        "this host: nothing touched: 1 change was gone already, and recorded as undone.\nRun 2"
    )
    assert read_journal(host).in_force == ()


def test_trigger_of_a_change_that_failed_does_not_wait_after_a_crash():
    host = Host()
    recorder = JournalWriter.start(host, new_run(host, read_journal(host), "apply", "d"))
    recorder.record_failure(
        recorder.intent(change(SWAPPINESS, "60", "10", triggers=(Trigger("daemon-reload"),))), "no"
    )
    recover(host)
    assert read_journal(host).pending_triggers("boot") == ()


def waiting_host(monkeypatch, reasons):
    """A host with a reload and a restart that wait from an earlier run, each now for the reason
    that is given.
    """
    host = Host({"/proc/sys/vm/a": "10"}, folders=("/run/systemd/system",))
    host.run = lambda argv, *, timeout_s: host.ran.append((argv, timeout_s)[0])
    host.ran = []
    triggers = (Trigger("daemon-reload"), Trigger("restart", "x.service"))
    interrupted(host, change(SWAPPINESS, "60", "10", triggers=triggers))
    recover(host)
    monkeypatch.setattr(
        "hosttune.actions.apply.must_wait", lambda trigger, facts: reasons.get(trigger.kind, "")
    )
    return host


def test_what_need_not_wait_runs_although_another_waits(monkeypatch):
    host = waiting_host(monkeypatch, {"restart": "GPU work runs"})
    receipt = apply_stages(host)
    assert host.ran == [("systemctl", "daemon-reload")]
    assert receipt.waiting == ("restart x.service waits: GPU work runs",)


def test_run_in_which_all_has_to_wait_leaves_no_trace(monkeypatch):
    host = waiting_host(
        monkeypatch, {"restart": "GPU work runs", "daemon-reload": "containers run"}
    )
    runs = len(read_journal(host).runs)
    assert apply_stages(host).run_id == ""
    assert (host.ran, len(read_journal(host).runs)) == ([], runs)


def test_restart_waits_for_the_reload_that_brings_its_settings(monkeypatch):
    host = waiting_host(monkeypatch, {"daemon-reload": "containers run"})
    receipt = apply_stages(host)
    assert host.ran == []
    assert receipt.waiting[1].endswith("daemon-reload comes first")


def test_recovery_takes_away_the_drafts_of_the_files_that_the_run_wrote():
    host = fstab_host()
    looked_at = []
    host.discard_leftovers = looked_at.append
    docker = change(Address("docker-daemon", "log-driver"), ABSENT, ABSENT)
    interrupted(
        host,
        change(SWAPPINESS, "60", "10"),
        change(Address("file", "/etc/x.conf"), ABSENT, ABSENT),
        ADDED,
        docker,
    )
    recover(host)
    assert looked_at == ["/etc/x.conf", "/etc/fstab", "/etc/docker/daemon.json"]


MARKS = {"/run/cloud-init/enabled": ""}
WAIT = ("cloud-init", "status", "--wait")


def test_first_boot_is_waited_for_and_one_that_does_not_end_is_refused():
    over = FakeReader({**MARKS, "/run/cloud-init/result.json": "{}"})
    ends = FakeReader(MARKS, queries={WAIT: "status: done\n"})
    never = FakeReader(MARKS, queries={WAIT: Unreadable("timed out")})
    for reader, asked in ((FakeReader(), []), (over, []), (ends, [WAIT])):
        wait_for_first_boot(reader, lambda _: None)
        assert reader.asked == asked
    with pytest.raises(Refused, match="cloud-init is still at work on this host after 600 s"):
        wait_for_first_boot(never, lambda _: None)


@pytest.mark.parametrize(
    ("cgroup", "waits"),
    [
        ("0::/system.slice/cloud-final.service\n", False),
        (
            "12:pids:/system.slice/cloud-final.service\n1:name=systemd:/system.slice/cloud-final.service\n",
            False,
        ),
        ("0::/system.slice/cloud-config.service/inner\n", False),
        ("0::/user.slice/user-0.slice/session-1.scope\n", True),
        ("0::/system.slice/hosttune-check.service\n", True),
    ],
)
def test_what_cloud_init_itself_starts_does_not_wait_for_its_end(cgroup, waits):
    """A runcmd that waited for it would hold it up until the wait is given up."""
    reader = FakeReader({**MARKS, "/proc/self/cgroup": cgroup}, queries={WAIT: "status: done\n"})
    wait_for_first_boot(reader, lambda _: None)
    assert reader.asked == ([WAIT] if waits else [])
