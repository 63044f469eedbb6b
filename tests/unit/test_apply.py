"""What apply books, runs and says: of a change that failed, of what waits, of what a reboot
brings.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.actions import apply as module
from hosttune.actions.apply import apply, check_expected, reboot_reasons, what_differs
from hosttune.actions.journal.journal import read_journal
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import Catalog
from hosttune.errors import Refused
from hosttune.facts import Facts
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds
from hosttune.resources.packages import package_set
from hosttune.values import (
    Action,
    Activation,
    Address,
    Change,
    Finding,
    Hold,
    HoldKind,
    Phase,
    Plan,
    Stage,
    Trigger,
    Verdict,
)
from tests.unit.fake_reader import FakeReader

A, B, C = (Address("sysctl", f"vm.{name}") for name in "abc")
RELOAD, RESTART = Trigger("daemon-reload"), Trigger("restart", "x.service")


class Host(Overlay):
    """A host on which some files refuse to be written, and some triggers to run."""

    def __init__(self):
        boot = {"/proc/sys/kernel/random/boot_id": "boot\n", "/var/lib/dpkg/status": ""}
        running = {("systemctl", "is-system-running"): "running\n"}
        values = {f"/proc/sys/vm/{name}": "1\n" for name in "abc"}
        super().__init__(
            FakeReader({**values, **boot}, folders=("/run/systemd/system", "/dev"), queries=running)
        )
        self.refused, self.half_way, self.ran, self.broken = set(), set(), [], False

    def set_value(self, path, text):
        if path in self.half_way:
            super().set_value(path, "5\n")
            raise Refused("half of it")
        if path in self.refused:
            raise Refused("the kernel says no")
        super().set_value(path, text)

    def run(self, argv, *, timeout_s):
        if self.broken:
            raise Refused("systemctl: access denied")
        self.ran.append(argv)


def change(address=A, before="1", after="2", rule="some-rule", **more):
    return Change(address, Action.UPDATE, before, after, rule, **more)


def plan_of(*stages, findings=()):
    return Plan("d" * 64, "0", "", "", "", tuple(Stage(tuple(one), ()) for one in stages), findings)


def applied(host, *stages, findings=(), said=None):
    session = SimpleNamespace(
        reader=host, journal=read_journal(host), facts=Facts(host), selected=(), resumed=(), resumed_run="",
        catalog=Catalog({}, {}), policy=Policy(),
    )  # fmt: skip
    more = {} if said is None else {"on_progress": said.append}
    return apply(session, host, plan_of(*stages, findings=findings), **more)


def booked(host):
    return [
        (str(step.change.address), step.phase, step.error)
        for run in read_journal(host).runs
        for step in run.steps
    ]


def test_plan_that_changed_is_told_place_by_place():
    shown = plan_of([change(A), change(B)])
    now = plan_of([change(B, after="3"), change(C)])
    assert what_differs(shown, now) == "no longer needed: vm.a; new: vm.c; different: vm.b"
    assert what_differs(shown, plan_of([change(B), change(A)])) == "the order of the changes"
    assert (
        what_differs(plan_of([change(A)]), plan_of([change(A), change(B), change(C)]))
        == "new: vm.b, vm.c"
    )


def test_plan_that_is_not_the_expected_one_is_refused_with_both_digests_and_the_way_on():
    check_expected(plan_of(), "d" * 12)
    for digest in ("d" * 11, "e" * 64):
        with pytest.raises(Refused, match=f"expected {digest[:12]}, now {'d' * 12}$") as refused:
            check_expected(plan_of(), digest)
        assert "hosttune plan" in refused.value.hint


def test_log_keeps_what_a_program_said_to_itself():
    host, logged = Host(), []
    host.log = logged.append
    host.set_value = lambda path, text: (_ for _ in ()).throw(
        Refused("it ended with status 1\n  password=hunter2")
    )
    applied(host, [change()])
    assert any("failed" in line and line.endswith("it ended with status 1") for line in logged)
    assert not any("hunter2" in line for line in logged)


def test_change_that_failed_is_booked_with_its_error():
    host = Host()
    host.refused = {"/proc/sys/vm/a"}
    receipt = applied(host, [change()])
    assert booked(host) == [("sysctl:vm.a", Phase.FAILED, "the kernel says no")]
    assert receipt.failed[0].error == "the kernel says no"


def test_change_that_failed_half_way_is_in_force_with_its_error_and_the_value_that_it_left():
    host = Host()
    host.half_way = {"/proc/sys/vm/a"}
    applied(host, [change(reversible="no")])
    (step,) = read_journal(host).in_force
    assert (step.phase, step.error, step.change.after) == (Phase.DONE, "half of it", "5")


def test_change_that_says_that_there_is_no_way_back_is_not_taken_back_with_its_rule():
    host = Host()
    host.refused = {"/proc/sys/vm/b"}
    said = []
    applied(host, [change(reversible="no: the old value is lost"), change(B)], said=said)
    assert host.read("/proc/sys/vm/a") == b"2\n"
    assert [str(step.change.address) for step in read_journal(host).in_force] == ["sysctl:vm.a"]
    assert said[-1] == "vm.b failed"


def test_change_that_could_not_be_taken_back_still_takes_effect_at_the_next_boot():
    host = Host()
    host.refused = {"/proc/sys/vm/b"}

    class Said(list):
        def append(self, line):
            if line.startswith("rolling back"):
                host.refused.add("/proc/sys/vm/a")

    receipt = applied(host, [change(activation=Activation.REBOOT), change(B)], said=Said())
    assert receipt.reboot_reasons == ("vm.a takes effect at the next boot",)


def test_trigger_of_a_stage_is_not_run_again_after_the_next_one():
    host = Host()
    applied(host, [change(triggers=(RELOAD,))], [change(B)])
    assert host.ran == [("systemctl", "daemon-reload")]


def test_progress_names_each_change_and_trigger_and_takes_nothing_back_where_nothing_stands():
    host = Host()
    host.refused = {"/proc/sys/vm/b"}
    said = []
    applied(host, [change(B, rule="other"), change(triggers=(RELOAD,))], said=said)
    assert said == ["~ vm.b", "vm.b failed", "~ vm.a", "running daemon-reload"]


def test_trigger_that_failed_waits_for_the_next_run_and_the_run_is_not_verified():
    host = Host()
    host.broken = True
    receipt = applied(host, [change(triggers=(RELOAD,))])
    assert receipt.verified is False
    assert len(receipt.waiting) == 1
    assert "access denied" in receipt.waiting[0]
    assert read_journal(host).pending_triggers("boot") == (RELOAD,)
    host.broken = False
    assert applied(host).verified
    assert (host.ran, read_journal(host).pending_triggers("boot")) == (
        [("systemctl", "daemon-reload")],
        (),
    )


def test_what_waited_runs_once_and_in_the_first_stage(monkeypatch):
    host = Host()
    host.broken = True
    applied(host, [change(triggers=(RELOAD,))])
    host.broken = False
    order = []
    plain = Host.set_value
    monkeypatch.setattr(
        Host, "set_value", lambda self, path, text: (order.append(path), plain(self, path, text))[1]
    )
    monkeypatch.setattr(Host, "run", lambda self, argv, *, timeout_s: order.append(argv[1]))
    applied(host, [change(B)], [change(C)])
    assert order == ["/proc/sys/vm/b", "daemon-reload", "/proc/sys/vm/c"]


def test_run_that_could_do_nothing_says_what_waits_and_what_a_reboot_brings(monkeypatch):
    host = Host()
    host.broken = True
    applied(host, [change(triggers=(RELOAD,))])
    monkeypatch.setattr(module, "must_wait", lambda trigger, facts: "containers run")
    waits = Finding("kernel-cmdline", "", Verdict.DIFFERS, Hold(HoldKind.WAITING, "reboot"))
    receipt = applied(host, findings=(waits,))
    assert (receipt.run_id, receipt.digest, receipt.outcomes) == ("", "d" * 64, ())
    assert receipt.waiting == ("daemon-reload waits: containers run",)
    assert receipt.reboot_reasons == ("kernel-cmdline: host",)


def test_reboot_is_named_only_for_what_waits_for_one():
    found = [
        Finding("a", "/data", Verdict.DIFFERS, Hold(HoldKind.WAITING, "reboot")),
        Finding("b", "", Verdict.DIFFERS, Hold(HoldKind.WAITING, "reboot")),
        Finding("c", "", Verdict.DIFFERS, Hold(HoldKind.WAITING, "login")),
        Finding("d", "", Verdict.DIFFERS, Hold(HoldKind.OWNED, "/etc/reboot.conf")),
    ]
    assert reboot_reasons(found) == ("a: /data", "b: host")


def test_what_has_to_be_solved_before_a_boot_is_told_unless_it_is_changed_now(monkeypatch):
    blocks = Finding(
        "storage-fstab", "", Verdict.DIFFERS, reason="a line is broken", blocks_reboot=True
    )
    mended, plain = (
        replace(blocks, rule="other", changes=(change(B),)),
        replace(blocks, blocks_reboot=False),
    )
    monkeypatch.setattr(module, "faults_of", lambda *_: (blocks,))
    for stages in ((), ([change()],)):
        receipt = applied(Host(), *stages, findings=(mended, plain, blocks))
        assert receipt.reboot_obstacles == ("storage-fstab: a line is broken",)


def test_change_in_effect_after_a_reboot_is_told_and_one_of_now_is_not():
    receipt = applied(Host(), [change(activation=Activation.REBOOT), change(B)])
    assert receipt.digest == "d" * 64
    assert [reason for reason in receipt.reboot_reasons if "vm.b" in reason] == []
    assert any("vm.a" in reason for reason in receipt.reboot_reasons)


@pytest.mark.parametrize(
    ("address", "kept"),
    [(Address("package-set", "htop"), [{"htop": "1"}]), (A, [])],
)
def test_old_packages_are_kept_before_a_set_is_changed_and_not_on_the_way_back(
    monkeypatch, address, kept
):
    host, asked = Host(), []

    def keep(writer, versions):
        assert writer is host
        asked.append(versions)

    monkeypatch.setattr(package_set, "keep", keep)
    kind = address_kinds()[address.kind]
    monkeypatch.setattr(kind, "write", lambda writer, change: None)
    monkeypatch.setattr(kind, "read", lambda reader, name: ("htop=2",))
    one = change(address, ("htop=1",), ("htop=2",))
    applied(host, [one])
    assert asked == kept
    step = read_journal(host).runs[0].steps[0].id
    session = SimpleNamespace(
        reader=host, journal=read_journal(host), facts=Facts(host), selected=(), resumed=()
    )
    recorder = module.JournalWriter.start(host, module.new_run(host, session.journal, "undo", "d"))
    module.Execution(host, recorder, lambda _: None).make(one, step)
    assert asked == kept
