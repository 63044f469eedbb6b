"""Sets of packages at which a run stopped half-way: named by check, gone on with by apply, never called done."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.actions.apply import Execution, apply, changed_reboots, new_run, still_there
from hosttune.actions.journal import Recorder, read_journal
from hosttune.actions.recover import recover
from hosttune.actions.undo import plan_undo, undo
from hosttune.actions.unended import half_way, resume, unended
from hosttune.errors import Refused
from hosttune.facts import Facts
from hosttune.host.door import Completed
from hosttune.resources import apt
from hosttune.resources.package_repair import mend
from hosttune.resources.package_set import PackageSetAddress
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    Disturbs,
    Outcome,
    Phase,
    Plan,
    Stage,
    Verdict,
)
from tests.unit.fake_reader import FakeReader

STATUS = "/var/lib/dpkg/status"
RULE = "gpu-driver"
SET = Address("package-set", "a + b")
CONFIGURE = apt.configuration()
FIX = apt.repair(simulate=True)


def status(**packages):
    """a="1" is installed, a="1 half-configured" is not whole."""
    rows = {"dpkg": "1.22", **packages}
    text = "Package: {}\nStatus: install ok {}\nArchitecture: all\nVersion: {}\n\n"
    words = {name: (*value.split(), "installed")[:2] for name, value in rows.items()}
    return "".join(text.format(name, state, version) for name, (version, state) in words.items())


class Host(FakeReader):
    """A host with dpkg's status file; what a program does to it stands in `acts`: argv -> new status, or an error."""

    def __init__(self, **packages):
        files = {STATUS: status(**packages), "/proc/sys/kernel/random/boot_id": "boot\n"}
        super().__init__(files, queries={FIX: ""})
        self.acts: dict[tuple[str, ...], object] = {}
        self.ran: list[tuple[str, ...]] = []

    def run(self, argv, *, timeout_s):
        assert timeout_s > 0
        self.ran.append(tuple(argv))
        did = self.acts.get(tuple(argv), {})
        if isinstance(did, Exception):
            raise did
        if did:
            self.files[STATUS] = status(**did)
        return Completed(0, b"", b"")

    def append(self, path, data):
        self.files[path] = self.files.get(path, b"") + data

    def log(self, message): ...

    def operator(self):
        return "root"

    def install(self, operands, simulated, result):
        """What apt-get says that it would do with these operands, and what comes of it."""
        self.queries[apt.simulation(operands)] = simulated
        self.acts[apt.installation(operands, apt.parse(simulated.splitlines()))] = result


def planned(before=ABSENT, after=("a=1", "b=1"), **more):
    return Change(SET, Action.CREATE, before, after, RULE, activation=Activation.REBOOT, **more)


def begun(host, change, *, undoes=None, left=None, error="interrupted half-way"):
    """A run that was cut off in this change; with `left` one that ended and left it half-way."""
    recorder = Recorder.start(host, new_run(host, read_journal(host), "undo" if undoes else "apply", "d" * 64))
    step = recorder.intent(change, undoes)
    if left is not None:
        book = recorder.failed if undoes else recorder.done
        book(step, error, replace(change, after=left))
        recorder.finish()
    return step


def found(host, rules=(RULE,)):
    catalog = SimpleNamespace(current=lambda name: name)
    return unended(read_journal(host), host, catalog, [SimpleNamespace(id=rule) for rule in rules])


def resumed(host, rules=frozenset({RULE})):
    return resume(host, read_journal(host), rules, lambda _: None)


HALVES = {
    "unpacked": ({"a": "1 unpacked", "b": "1"}, "1 of 2"),
    "in part, and dpkg is content": ({"b": "1"}, "1 of 2"),
    "a trigger was not run": ({"a": "1 triggers-pending", "b": "1"}, "1 of 2"),
}


@pytest.mark.parametrize(("there", "words"), HALVES.values(), ids=HALVES.keys())
def test_set_that_a_run_left_half_way_is_named_until_it_is_over(there, words):
    host = Host(**there)
    begun(host, planned(), left=PackageSetAddress().read(host, SET.name))
    (one,) = found(host)
    assert (one.rule, one.verdict) == (RULE, Verdict.DIFFERS)
    assert f"stopped half-way: {words} packages are as planned" in one.reason
    assert "sudo hosttune apply --yes goes on with it" in one.todo
    host.files[STATUS] = status(a="1", b="1")
    assert found(host) == ()


def test_run_that_was_cut_off_is_named_before_anybody_booked_it():
    host = Host(b="1 half-configured")
    begun(host, planned())
    assert len(found(host)) == 1
    assert found(host, rules=("another",)) == ()


def test_run_that_was_cut_off_before_it_began_leaves_nothing_to_name():
    host = Host()
    begun(host, planned())
    assert found(host) == ()


def test_set_that_somebody_has_changed_since_is_theirs():
    host = Host(b="1")
    begun(host, planned(), left=("b=1",))
    host.files[STATUS] = status(b="2")
    assert found(host) == ()
    assert resumed(host) == ((), "")
    assert host.ran == []


def test_apply_goes_on_to_where_the_run_was_to_lead():
    host = Host(b="1 unpacked")
    step = begun(host, planned(), left=("b=1 (unpacked)",))
    host.acts[CONFIGURE] = {"b": "1"}
    host.install(("a=1",), "Inst a (1 s [all])\n", {"a": "1", "b": "1"})
    outcomes, run = resumed(host)
    assert [(one.phase, one.change.after) for one in outcomes] == [(Phase.DONE, ("a=1", "b=1"))]
    assert run == step.run
    (in_force,) = read_journal(host).in_force
    assert (in_force.change.before, in_force.change.after, in_force.error) == (ABSENT, ("a=1", "b=1"), "")
    assert half_way(read_journal(host), host) == ()
    assert changed_reboots(outcomes) == (f"{SET} takes effect at the next boot",)


def test_receipt_of_an_apply_that_only_went_on_tells_what_it_did():
    host = Host(a="1", b="1")
    session = SimpleNamespace(reader=host, journal=read_journal(host), facts=Facts(host))
    session.resumed, session.resumed_run = (Outcome(planned(), Phase.DONE),), "earlier"
    receipt = apply(session, host, Plan("d" * 64, "0", "", "", "", (), ()))
    assert (receipt.run_id, receipt.outcomes) == ("earlier", session.resumed)
    assert receipt.reboot_reasons == (f"{SET} takes effect at the next boot",)


def test_script_that_fails_again_keeps_it_named_and_tells_the_way_out():
    host = Host(a="1 half-configured", b="1")
    begun(host, planned(), left=("a=1 (half-configured)", "b=1"))
    host.acts[CONFIGURE] = Refused("dpkg --configure -a: ended with status 1\n  the module could not be built")
    for _ in range(2):
        ((outcome,), _run) = resumed(host)
        assert outcome.phase is Phase.FAILED
        assert "the module could not be built" in outcome.error
        assert "sudo dpkg --configure -a; sudo apt-get -f install" in outcome.hint
        assert changed_reboots((outcome,)) == ()
        assert len(found(host)) == 1


def test_way_back_that_stopped_half_way_is_named_and_made_whole_by_apply():
    host = Host(a="1 half-configured")
    step = begun(host, planned(), left=("a=1", "b=1"), error="")
    back = Change(SET, Action.DELETE, ("a=1", "b=1"), ABSENT, RULE)
    begun(host, back, undoes=step, left=("a=1 (half-configured)",))
    (one,) = found(host)
    assert "the way back of run" in one.reason
    assert "sudo hosttune undo --yes goes on with it" in one.todo
    host.acts[CONFIGURE] = {"a": "1"}
    assert resumed(host) == ((), "")
    assert host.ran == [apt.check(), CONFIGURE]


def test_set_of_a_rule_that_nobody_asks_for_is_made_whole_and_not_gone_on_with():
    host = Host(b="1 unpacked")
    begun(host, planned(), left=("b=1 (unpacked)",))
    host.acts[CONFIGURE] = {"b": "1"}
    assert resumed(host, frozenset()) == ((), "")
    assert host.ran == [apt.check(), CONFIGURE]


def test_work_that_began_since_is_not_disturbed(monkeypatch):
    monkeypatch.setattr("hosttune.actions.unended.unannounced", lambda _change, _facts: ("process 7 computes",))
    host = Host(b="1")
    begun(host, planned(disturbs=Disturbs.GPU_WORK), left=("b=1",))
    ((outcome,), _) = resumed(host)
    assert (outcome.phase, host.ran) == (Phase.FAILED, [])
    assert "process 7 computes" in outcome.error


def test_repair_touches_no_other_package():
    host = Host(a="1 unpacked")
    host.queries[FIX] = "Remv a [1]\nRemv editor [3]\n"
    assert "apt would also touch editor" in mend(host, ("a", "b"))
    assert apt.repair() not in host.ran
    host.queries[FIX] = "Remv a [1]\n"
    assert mend(host, ("a", "b")) == ""
    assert host.ran[-1] == apt.repair()


def test_apt_that_was_killed_is_gone_on_with_in_the_same_run():
    host = Host()
    host.install(("a=1",), "Inst a (1 s [all])\nInst b (1 s [all])\n", Refused("apt-get: was ended by signal 9"))
    host.acts[CONFIGURE] = {"a": "1", "b": "1"}
    PackageSetAddress().write(host, planned())
    assert host.ran[-2:] == [apt.check(), CONFIGURE]


def test_script_that_failed_is_not_run_again_in_the_same_run():
    host = Host()
    host.install(("a=1",), "Inst a (1 s [all])\nInst b (1 s [all])\n", Refused("apt-get: ended with status 100"))
    with pytest.raises(Refused):
        PackageSetAddress().write(host, planned())
    assert len(host.ran) == 1


def test_old_version_that_is_half_configured_is_not_as_before():
    """In the prerm of an update: the version is the old one, and it is not whole."""
    host = Host(a="1 half-configured", b="1")
    change = planned(before=("a=1", "b=1"), after=("a=2", "b=2"))
    recorder = Recorder.start(host, new_run(host, read_journal(host), "apply", "d" * 64))
    execution = Execution(host, recorder, lambda _: None)
    execution._book_failed(recorder.intent(change), change, Refused("killed"), is_undo=False)
    recorder.finish()
    assert len(found(host)) == 1
    session = SimpleNamespace(
        reader=host, journal=read_journal(host), facts=Facts(host), policy=SimpleNamespace(break_work=False)
    )
    way_back = plan_undo(session)
    assert [one.details for one in way_back.plan.changes] == [("configure a 1",)]
    host.acts[CONFIGURE] = {"a": "1", "b": "1"}
    receipt = undo(session, host, way_back)
    assert receipt.failed == ()
    assert read_journal(host).in_force == ()


def test_recovery_lets_dpkg_write_off_its_own_journal():
    host = Host()
    host.files["/var/lib/dpkg/updates/0001"] = status(b="1 unpacked").partition("\n\n")[2]
    begun(host, planned())

    def merged(argv, *, timeout_s):
        host.ran.append(tuple(argv))
        if tuple(argv) == CONFIGURE:
            del host.files["/var/lib/dpkg/updates/0001"]
            host.files[STATUS] = status(b="1")

    host.run = merged
    recover(host)
    (step,) = read_journal(host).in_force
    assert (step.change.after, step.planned.after) == (("b=1",), ("a=1", "b=1"))


def test_failed_change_is_no_reason_for_a_reboot():
    done, failed = Outcome(planned(), Phase.DONE), Outcome(planned(), Phase.FAILED, "status 100")
    assert changed_reboots((failed,)) == ()
    assert len(changed_reboots((done, failed))) == 1


def test_failure_in_an_apply_needs_no_reboot_and_keeps_the_hint():
    host = Host()
    host.install(("a=1",), "Inst a (1 s [all])\nInst b (1 s [all])\n", Refused("apt-get: ended with status 100"))
    session = SimpleNamespace(reader=host, journal=read_journal(host), facts=Facts(host), resumed=(), resumed_run="")
    receipt = apply(session, host, Plan("d" * 64, "0", "", "", "", (Stage((planned(),)),), ()))
    (failed,) = receipt.failed
    assert "status 100" in failed.error
    assert failed.hint == "no package has changed; sudo apt-get update, then run it again"
    assert receipt.reboot_reasons == ()


def test_sets_that_share_packages_stand_as_the_last_change_left_each():
    host = Host(b="1")
    update = replace(planned(), before=("a=1", "b=1"), after=("a=2", "b=2"))
    back = replace(update, before=update.after, after=update.before)
    gone = Change(Address("package-set", "a"), Action.DELETE, ("a=1",), ABSENT, RULE)
    assert still_there((back, gone), host)
    assert not still_there((gone, back), host)
    host.files[STATUS] = status(b="1 half-configured")
    assert not still_there((back, gone), host)


def test_package_that_the_repair_takes_away_is_installed_again():
    """A removal that was stopped: what is half-installed has the version that is wanted, and apt ends its removal."""
    host = Host(a="1 half-installed", b="1")
    host.queries[FIX] = "Remv a [1]\n"

    def removed(argv, *, timeout_s):
        host.ran.append(tuple(argv))
        if tuple(argv) == apt.repair():
            host.files[STATUS] = status(b="1")
            host.queries[FIX] = ""
        elif "install" in argv and "a=1" in argv:
            host.files[STATUS] = status(a="1", b="1")

    host.run = removed
    host.queries[apt.simulation(("a=1",))] = "Inst a (1 s [all])\n"
    back = Change(SET, Action.UPDATE, ("a=1 (half-installed)", "b=1"), ("a=1", "b=1"), RULE)
    PackageSetAddress().write(host, back)
    assert host.ran[-1][-2:] == ("install", "a=1")


UPDATE = Change(SET, Action.UPDATE, ("a=1", "b=1"), ("a=2", "b=2"), RULE)
MOVED = {"back and forth": ({"a": "2", "b": "1"}, True), "to a third version": ({"a": "3", "b": "1"}, False)}


@pytest.mark.parametrize(("now", "goes_on"), MOVED.values(), ids=MOVED.keys())
def test_way_back_goes_on_after_a_repair_by_hand_that_moved_packages_of_it(now, goes_on):
    host = Host(a="2", b="2")
    step = begun(host, UPDATE, left=("a=2", "b=2"), error="")
    back = replace(UPDATE, before=UPDATE.after, after=UPDATE.before)
    begun(host, back, undoes=step, left=("a=1 (unpacked)", "b=1 (unpacked)"))
    host.files[STATUS] = status(**now)
    policy = SimpleNamespace(break_work=False)
    session = SimpleNamespace(reader=host, journal=read_journal(host), facts=Facts(host), policy=policy)
    planned = plan_undo(session)
    assert [one.after for one in planned.plan.changes] == [UPDATE.before] * goes_on
    assert len(planned.plan.findings) == (not goes_on)
