"""Sets of packages at which a run stopped half-way: named by check, gone on with by apply, never
called done.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.actions.apply import Execution, apply, changed_reboots, new_run, still_there
from hosttune.actions.journal.interrupted import describe_interrupted
from hosttune.actions.journal.journal import FOLDER, JournalWriter, read_journal
from hosttune.actions.journal.recover import recover
from hosttune.actions.journal.unended import find_half_done, find_unended, resume
from hosttune.actions.undo import plan_undo, undo
from hosttune.errors import Refused
from hosttune.facts import Facts
from hosttune.facts import apt_get as apt
from hosttune.facts.base import UnknownFact
from hosttune.host.door import Completed
from hosttune.resources.packages import package_set
from hosttune.resources.packages.package_repair import mend
from hosttune.resources.packages.package_set import PackageSetAddress
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    Disturbs,
    HoldKind,
    Outcome,
    Phase,
    Plan,
    Stage,
    Unreadable,
    Verdict,
)
from hosttune.views.summary import is_left_after
from tests.unit.fake_reader import FakeReader

STATUS = "/var/lib/dpkg/status"
RULE = "gpu-driver"
SET = Address("package-set", "a + b")
CONFIGURE = apt.make_configuration()
FIX = apt.repair(simulate=True)


def status(**packages):
    """a="1" is installed, a="1 half-configured" is not whole."""
    rows = {"dpkg": "1.22", **packages}
    text = "Package: {}\nStatus: install ok {}\nArchitecture: all\nVersion: {}\n\n"
    words = {name: (*value.split(), "installed")[:2] for name, value in rows.items()}
    return "".join(text.format(name, state, version) for name, (version, state) in words.items())


class Host(FakeReader):
    """A host with dpkg's status file; what a program does to it stands in `acts`: argv -> new
    status, or an error.
    """

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

    def replace(self, path, value, *, expected):
        assert self.files.get(path, ABSENT) == expected
        self.files[path] = value.content

    def log(self, message): ...

    def operator(self):
        return "root"

    def install(self, operands, simulated, result):
        """What apt-get says that it would do with these operands, and what comes of it."""
        self.queries[apt.make_simulation(operands)] = simulated
        self.acts[apt.make_installation(operands, apt.parse(simulated.splitlines()))] = result


def planned(before=ABSENT, after=("a=1", "b=1"), **more):
    return Change(SET, Action.CREATE, before, after, RULE, activation=Activation.REBOOT, **more)


def begun(host, change, *, undoes=None, left=None, error="interrupted half-way"):
    """A run that was cut off in this change; with `left` one that ended and left it half-way."""
    recorder = JournalWriter.start(
        host, new_run(host, read_journal(host), "undo" if undoes else "apply", "d" * 64)
    )
    step = recorder.intent(change, undoes)
    if left is not None:
        book = recorder.record_failure if undoes else recorder.done
        book(step, error, replace(change, after=left))
        recorder.finish()
    return step


def session_on(host):
    return SimpleNamespace(
        reader=host,
        journal=read_journal(host),
        facts=Facts(host),
        policy=SimpleNamespace(break_work=False, ignore=(RULE,)),
        catalog=SimpleNamespace(
            find_id=lambda rule: rule,
            current=lambda rule: rule,
            former=lambda _: (),
            rules={RULE: None},
        ),
        selected=(),
        resumed=(),
        resumed_run="",
    )


def plan_of(*changes):
    return Plan("d" * 64, "0", "", "", "", (Stage(changes),) if changes else (), ())


def found(host, rules=(RULE,)):
    catalog = SimpleNamespace(current=lambda name: name)
    return find_unended(
        read_journal(host), host, catalog, [SimpleNamespace(id=rule) for rule in rules]
    )


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
    (sentence,) = describe_interrupted(read_journal(host), host)
    assert "stopped half-way" in sentence
    host.files[STATUS] = status(a="1", b="1")
    assert found(host) == ()
    assert [*describe_interrupted(read_journal(host), host)] == []


def test_run_that_was_cut_off_is_named_before_anybody_booked_it():
    host = Host(b="1 half-configured")
    begun(host, planned())
    assert len(found(host)) == 1
    assert found(host, rules=("another",)) == ()
    (sentence,) = describe_interrupted(
        read_journal(host), host
    )  # apply makes it whole, whatever rules are selected
    assert "was interrupted after 1 step: sudo hosttune apply --yes goes on with it" in sentence


def test_run_that_was_cut_off_in_the_middle_is_named_although_dpkg_is_content():
    host = Host(b="1")
    begun(host, planned())
    (one,) = found(host)
    assert (one.subject, one.reason.partition(" of run ")[0]) == ("packages", "the transaction")


def test_removal_that_stopped_half_way_counts_what_is_gone():
    host = Host(b="1")
    gone = Change(SET, Action.DELETE, ("a=1", "b=1"), ABSENT, RULE)
    begun(host, gone, left=("b=1",))
    (one,) = found(host)
    assert "1 of 2 packages are as planned" in one.reason


def one_package(name, rule=RULE, **more):
    return Change(Address("package-set", name), Action.CREATE, ABSENT, (f"{name}=1",), rule, **more)


def test_each_set_is_looked_at_by_itself():
    """One that was gone on with, one that is as planned, one of a rule that nobody asks for, two
    that are half-way.
    """
    host = Host(
        gone_on="1", whole="1", foreign="1 half-configured", c="1 unpacked", d="1 half-configured"
    )
    for name in ("gone_on", "whole", "foreign", "c", "d"):
        step = begun(
            host,
            one_package(name, "another" if name == "foreign" else RULE),
            left=(f"{name}=1 (unpacked)",),
        )
        if name == "gone_on":
            JournalWriter(host, read_journal(host).run(step.run)).done(step, "", one_package(name))
    value = Change(Address("sysctl", "vm.a"), Action.UPDATE, "1", "2", RULE)
    begun(host, value)
    assert [half.planned.address.name for half in find_half_done(read_journal(host), host)] == [
        "foreign",
        "c",
        "d",
    ]
    assert len(found(host)) == 2
    host.acts[CONFIGURE] = dict.fromkeys(("gone_on", "whole", "foreign", "c", "d"), "1")
    assert [one.change.address.name for one in resumed(host)[0]] == ["foreign", "c", "d"]


def test_set_that_was_gone_on_with_and_changed_by_somebody_is_theirs():
    host = Host(a="1", b="1")
    step = begun(host, planned(), left=("b=1",))
    JournalWriter(host, read_journal(host).run(step.run)).done(step, "", planned())
    host.files[STATUS] = status(b="1 half-configured")
    assert find_half_done(read_journal(host), host) == ()


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


def test_set_that_was_cut_off_twice_and_repaired_by_hand_is_still_ours():
    """What the second run left half-way nobody has booked; the repair has made it whole, and not
    complete.
    """
    host = Host(b="1")
    begun(host, planned(), left=("b=1 (unpacked)",))
    host.files[STATUS] = status(a="1")
    assert len(found(host)) == 1


def test_other_version_that_somebodys_apt_left_half_way_is_not_gone_on_with():
    host = Host(b="2 unpacked")
    begun(host, planned(), left=("b=1 (unpacked)",))
    assert found(host) == ()
    assert resumed(host) == ((), "")


def test_package_of_which_dpkg_knows_no_version_yet_is_of_the_run():
    host = Host(b="1 unpacked")
    host.files[STATUS] += (
        "Package: a\nStatus: install reinstreq half-installed\nArchitecture: all\nVersion:\n\n"
    )
    begun(host, planned())
    assert len(found(host)) == 1


def test_apply_goes_on_to_where_the_run_was_to_lead():
    host = Host(b="1 unpacked")
    step = begun(host, planned(), left=("b=1 (unpacked)",))
    host.acts[CONFIGURE] = {"b": "1"}
    host.install(("a=1",), "Inst a (1 s [all])\n", {"a": "1", "b": "1"})
    logged, said = [], []
    host.log = logged.append
    outcomes, run = resume(host, read_journal(host), frozenset({RULE}), said.append)
    assert host.ran[:2] == [apt.check(), CONFIGURE]
    assert said == [f"going on with run {run}, which stopped half-way: a and 1 more"]
    assert logged == [f"run {run}, which had stopped half-way, was gone on with to the end: {SET}"]
    assert [(one.phase, one.change.after) for one in outcomes] == [(Phase.DONE, ("a=1", "b=1"))]
    assert run == step.run
    (in_force,) = read_journal(host).in_force
    assert (in_force.change.before, in_force.change.after, in_force.error) == (
        ABSENT,
        ("a=1", "b=1"),
        "",
    )
    assert find_half_done(read_journal(host), host) == ()
    assert changed_reboots(outcomes) == ("a and 1 more takes effect at the next boot",)


def test_receipt_of_an_apply_that_only_went_on_tells_what_it_did():
    host = Host(a="1", b="1")
    session = session_on(host)
    session.resumed, session.resumed_run = (Outcome(planned(), Phase.DONE),), "earlier"
    receipt = apply(session, host, plan_of())
    assert (receipt.run_id, receipt.outcomes) == ("earlier", session.resumed)
    assert receipt.reboot_reasons == ("a and 1 more takes effect at the next boot",)


def test_half_a_line_of_an_apply_that_went_on_is_cut_off_by_the_next():
    host = Host(b="1 unpacked")
    step = begun(host, planned(), left=("b=1 (unpacked)",))
    path = f"{FOLDER}/{step.run}.jsonl"
    host.files[path] += b'{"seq":1,"phase":"do'
    host.acts[CONFIGURE] = {"a": "1", "b": "1"}
    ((outcome,), _run) = resumed(host)
    assert outcome.phase is Phase.DONE
    (in_force,) = read_journal(host).in_force
    assert in_force.change.after == ("a=1", "b=1")


@pytest.mark.parametrize("rules", [{RULE}, set()], ids=["its rule is selected", "another one"])
def test_nothing_is_booked_while_another_package_manager_is_at_work(rules):
    """What it will have done is not known: unattended-upgrades that takes longer than anybody
    waits.
    """
    host = Host(a="1 unpacked")
    begun(host, planned(), left=("a=1 (unpacked)",))
    host.acts[apt.check()] = Refused(
        "apt-get check: E: Could not get lock /var/lib/dpkg/lock-frontend"
    )
    ((outcome,), _run) = resumed(host, frozenset(rules))
    assert "another package manager is still at work" in outcome.error
    assert outcome.hint == "when it has ended, run it again"
    assert CONFIGURE not in host.ran
    host.files[STATUS] = status(b="1 unpacked")
    assert len(found(host)) == 1


def test_interrupted_run_stays_open_while_its_own_apt_is_still_at_work():
    """It is as before now, and will not be when the apt-get that was left alone has ended."""
    host = Host()
    begun(host, planned())
    host.acts[apt.check()] = Refused(
        "apt-get check: E: Could not get lock /var/lib/dpkg/lock-frontend"
    )
    with pytest.raises(Refused, match="still at work"):
        recover(host)
    (run,) = read_journal(host).interrupted
    assert [step.phase for step in run.steps] == [Phase.INTENT]
    host.acts[apt.check()] = {"a": "1", "b": "1"}
    recover(host)
    assert [step.phase for step in read_journal(host).in_force] == [Phase.DONE]


def test_run_that_was_cut_off_can_be_taken_back_before_anybody_booked_it():
    host = Host(b="1 unpacked")
    begun(host, planned())
    session = SimpleNamespace(
        reader=host,
        journal=read_journal(host),
        facts=Facts(host),
        policy=SimpleNamespace(break_work=False),
    )
    way_back = plan_undo(session)
    assert [one.details[0] for one in way_back.plan.changes] == ["remove b 1"]
    assert way_back.plan.findings == ()


def test_what_is_not_gone_on_with_and_stays_broken_is_told():
    host = Host(b="1 half-configured")
    begun(host, planned(), left=("b=1 (half-configured)",))
    host.acts[CONFIGURE] = Refused(
        "dpkg --configure -a: ended with status 1\n  the module could not be built"
    )
    ((outcome,), _run) = resumed(host, frozenset())
    assert outcome.phase is Phase.FAILED
    assert "the module could not be built" in outcome.error
    assert outcome.hint.endswith("; by hand: sudo dpkg --configure -a; sudo apt-get -f install")


def test_failed_way_back_is_gone_on_with_by_undo_and_not_by_apply():
    host = Host(a="1", b="1")
    step = begun(host, planned(), left=("a=1", "b=1"), error="")
    recorder = JournalWriter.start(host, new_run(host, read_journal(host), "undo", "d" * 64))
    back = Change(SET, Action.DELETE, ("a=1", "b=1"), ABSENT, RULE)
    simulated = "Remv a [1]\nRemv b [1]\n"
    host.install(("a-", "b-"), simulated, {"a": "1 half-configured"})
    execution = Execution(host, recorder, lambda _: None)
    assert execution.make(back, step) is None
    (outcome,) = execution.outcomes
    way_out = (
        f"sudo hosttune undo {step.run} --yes goes on with it; by hand: sudo dpkg --configure -a"
    )
    assert outcome.hint.startswith(way_out)


def test_script_that_fails_again_keeps_it_named_and_tells_the_way_out():
    host = Host(a="1 half-configured", b="1")
    begun(host, planned(), left=("a=1 (half-configured)", "b=1"))
    host.acts[CONFIGURE] = Refused(
        "dpkg --configure -a: ended with status 1\n  the module could not be built"
    )
    for _ in range(2):
        ((outcome,), _run) = resumed(host)
        assert (outcome.phase, outcome.change) == (Phase.FAILED, planned())
        (booked,) = read_journal(host).in_force
        assert booked.change.after == ("a=1 (half-configured)", "b=1")
        assert "the module could not be built" in booked.error
        assert "the module could not be built" in outcome.error
        run = read_journal(host).runs[0].id
        assert outcome.hint == (
            f"sudo hosttune apply --yes goes on with it; to undo it: sudo hosttune undo {run} --yes; "
            "by hand: sudo dpkg --configure -a; sudo apt-get -f install"
        )
        assert changed_reboots((outcome,)) == ()
        assert len(found(host)) == 1


def test_way_back_that_stopped_half_way_is_named_and_made_whole_by_apply():
    host = Host(a="1 half-configured")
    step = begun(host, planned(), left=("a=1", "b=1"), error="")
    back = Change(SET, Action.DELETE, ("a=1", "b=1"), ABSENT, RULE)
    begun(host, back, undoes=step, left=("a=1 (half-configured)",))
    (one,) = found(host)
    assert "the way back of run" in one.reason
    assert is_left_after(
        one, Plan("d" * 64, "0", "", "", "", (), (one,))
    )  # no apply that ends with 0
    assert (
        one.todo == f"sudo hosttune undo {step.run} --yes goes on with it"
    )  # another run may have come since
    assert read_journal(host).ledger()[SET].goes_on == one.todo
    assert [read_journal(host).status(run) for run in read_journal(host).runs] == [
        "finished",
        "half-way",
    ]
    host.acts[CONFIGURE] = {"a": "1"}
    host.queries[FIX] = "Remv a [1]\n"  # of these packages alone
    ((outcome,), _run) = resumed(host)
    assert (outcome.phase, outcome.change.before, outcome.change.after) == (
        Phase.DONE,
        ("a=1 (half-configured)",),
        ("a=1",),
    )
    assert host.ran == [apt.check(), CONFIGURE, apt.repair()]
    assert [one.change.after for one in read_journal(host).in_force] == [("a=1",)]


def test_set_of_a_rule_that_nobody_asks_for_is_made_whole_and_not_gone_on_with():
    host = Host(b="1 unpacked")
    begun(host, planned(), left=("b=1 (unpacked)",))
    host.acts[CONFIGURE] = {"b": "1"}
    ((outcome,), _run) = resumed(host, frozenset())
    assert (outcome.phase, outcome.change.details) == (Phase.DONE, ("configure b 1",))
    assert host.ran == [apt.check(), CONFIGURE]
    (step,) = read_journal(host).in_force
    assert (step.change.after, step.planned.after) == (("b=1",), ("a=1", "b=1"))


def test_work_that_began_since_is_not_disturbed(monkeypatch):
    host = Host(b="1")

    def as_of_now(change, facts):
        assert facts.reader is host
        return replace(change, disturbs=Disturbs.GPU_WORK)

    def unannounced(change, facts):
        return (
            ("process 7 computes",)
            if change.disturbs is Disturbs.GPU_WORK and facts.reader is host
            else ()
        )

    monkeypatch.setattr("hosttune.resources.packages.driver_use.as_of_now", as_of_now)
    monkeypatch.setattr("hosttune.actions.journal.unended.list_unannounced", unannounced)
    begun(host, planned(), left=("b=1",))
    for rules in ({RULE}, set()):
        host.files[STATUS] = status(b="1 unpacked")
        ((outcome,), _) = resumed(host, frozenset(rules))
        assert (outcome.phase, host.ran) == (Phase.FAILED, [])
        assert "process 7 computes" in outcome.error
        assert outcome.hint == "drain the host, then apply again"


def test_set_of_which_nobody_can_tell_what_it_disturbs_is_not_gone_on_with(monkeypatch):
    def as_of_now(change, facts):
        raise UnknownFact("needs root")

    monkeypatch.setattr("hosttune.resources.packages.driver_use.as_of_now", as_of_now)
    host = Host(b="1")
    begun(host, planned(), left=("b=1",))
    ((outcome,), _) = resumed(host)
    assert (outcome.phase, outcome.error, outcome.hint) == (Phase.FAILED, "needs root", "")
    assert host.ran == []


def test_going_on_waits_for_apts_lock_and_books_nothing_that_it_cannot_read(monkeypatch):
    host, said = Host(b="1"), []
    begun(host, planned(), left=("b=1",))

    def wait(writer, tell):
        tell("waiting")
        writer.files[STATUS] = Unreadable("input/output error")
        raise Refused("process 9 holds the lock")

    monkeypatch.setattr("hosttune.actions.journal.unended.wait_for_apt", wait)
    before = {path: text for path, text in host.files.items() if path != STATUS}
    ((outcome,), _) = resume(host, read_journal(host), frozenset({RULE}), said.append)
    assert (outcome.phase, outcome.error, said[-1]) == (
        Phase.FAILED,
        "process 9 holds the lock",
        "waiting",
    )
    assert {path: text for path, text in host.files.items() if path != STATUS} == before


def test_recovery_configures_nothing_beside_work_that_began_since(monkeypatch):
    monkeypatch.setattr(
        "hosttune.actions.journal.recover.list_unannounced",
        lambda _change, _facts: ("process 7 computes",),
    )
    host = Host()
    host.files["/var/lib/dpkg/updates/0001"] = status(b="1 unpacked").partition("\n\n")[2]
    begun(host, planned(disturbs=Disturbs.GPU_WORK))
    recover(host)
    assert host.ran == [apt.check()]
    (step,) = read_journal(host).in_force
    assert step.change.after == ("b=1 (unpacked)",)


def test_repair_touches_no_other_package():
    host = Host(a="1 unpacked")
    host.queries[FIX] = "Remv a [1]\nRemv editor [3]\n"
    assert "apt would also touch editor" in mend(host, ("a", "b"))
    assert apt.repair() not in host.ran
    host.queries[FIX] = "Remv a [1]\n"
    assert mend(host, ("a", "b")) == ""
    assert host.ran[-1] == apt.repair()


REINSTALLED = apt.repair(("a=1",))


@pytest.mark.parametrize(
    "touched", ["", "Remv editor [3]\n"], ids=["of the set alone", "another one too"]
)
def test_package_that_is_to_be_reinstalled_is_installed_once_more(touched):
    """`-f install` configures what depends on it first, and fails over and over."""
    host = Host(a="1 half-installed", b="1")
    host.files[STATUS] = host.files[STATUS].replace("ok half-installed", "reinstreq half-installed")
    host.queries[apt.repair(("a=1",), simulate=True)] = f"Inst a [1] (1 s [all])\n{touched}"
    host.acts[REINSTALLED] = {"a": "1", "b": "1"}
    back = Change(
        SET, Action.UPDATE, ("a=1 (half-installed, reinst-required)", "b=1"), ("a=1", "b=1"), RULE
    )
    if touched:
        with pytest.raises(Refused, match="apt would also touch editor"):
            PackageSetAddress().write(host, back)
    else:
        PackageSetAddress().write(host, back)
    assert (REINSTALLED in host.ran) == (not touched)


def test_apt_that_was_killed_is_gone_on_with_in_the_same_run():
    host = Host()
    host.install(
        ("a=1",),
        "Inst a (1 s [all])\nInst b (1 s [all])\n",
        Refused("apt-get: was ended by signal 9"),
    )
    host.acts[CONFIGURE] = {"b": "1"}
    host.queries[FIX] = "Inst a (1 s [all])\n"
    host.acts[apt.repair()] = {"a": "1", "b": "1"}
    PackageSetAddress().write(host, planned())
    assert host.ran[-3:] == [apt.check(), CONFIGURE, apt.repair()]


def test_script_that_failed_is_not_run_again_in_the_same_run():
    host = Host()
    host.install(
        ("a=1",),
        "Inst a (1 s [all])\nInst b (1 s [all])\n",
        Refused("apt-get: ended with status 100"),
    )
    with pytest.raises(Refused):
        PackageSetAddress().write(host, planned())
    assert len(host.ran) == 1


def test_old_version_that_is_half_configured_is_not_as_before():
    """In the prerm of an update: the version is the old one, and it is not whole."""
    host = Host(a="1 half-configured", b="1")
    change = planned(before=("a=1", "b=1"), after=("a=2", "b=2"))
    recorder = JournalWriter.start(host, new_run(host, read_journal(host), "apply", "d" * 64))
    execution = Execution(host, recorder, lambda _: None)
    execution._book_failed(recorder.intent(change), change, Refused("killed"), is_undo=False)
    recorder.finish()
    assert len(found(host)) == 1
    session = session_on(host)
    way_back = plan_undo(session)
    assert [one.details for one in way_back.plan.changes] == [("configure a 1",)]
    host.acts[CONFIGURE] = {"a": "1", "b": "1"}
    receipt = undo(session, host, way_back)
    assert receipt.failed == ()
    assert read_journal(host).in_force == ()


def test_recovery_lets_dpkg_write_off_its_own_journal(monkeypatch):
    monkeypatch.setattr(
        "hosttune.resources.packages.package_set.wait_for_apt",
        lambda _, tell: tell("waiting for process 9"),
    )
    host, logged, said = Host(), [], []
    host.log = logged.append
    host.queries[FIX] = "Remv b [1]\n"  # of this set alone
    host.files["/var/lib/dpkg/updates/0001"] = status(b="1 unpacked").partition("\n\n")[2]
    begun(host, planned())

    def merged(argv, *, timeout_s):
        host.ran.append(tuple(argv))
        if tuple(argv) == CONFIGURE:
            del host.files["/var/lib/dpkg/updates/0001"]
            host.files[STATUS] = status(b="1")

    host.run = merged
    recover(host, on_progress=said.append)
    assert host.ran[-1] == apt.repair()
    assert "waiting for process 9" in said
    assert [line.endswith("by root: was interrupted, is finished now") for line in logged] == [True]
    (step,) = read_journal(host).in_force
    assert (step.change.after, step.planned.after) == (("b=1",), ("a=1", "b=1"))


def test_failed_change_is_no_reason_for_a_reboot():
    done, failed = Outcome(planned(), Phase.DONE), Outcome(planned(), Phase.FAILED, "status 100")
    assert changed_reboots((failed,)) == ()
    assert len(changed_reboots((done, failed))) == 1


def test_failure_in_an_apply_needs_no_reboot_and_keeps_the_hint():
    host = Host()
    host.install(
        ("a=1",),
        "Inst a (1 s [all])\nInst b (1 s [all])\n",
        Refused("apt-get: ended with status 100"),
    )
    receipt = apply(session_on(host), host, plan_of(planned()))
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


@pytest.mark.parametrize("act", ["write", "complete"])
def test_package_that_the_repair_takes_away_is_installed_again(act):
    """A removal that was stopped: what is half-installed has the version that is wanted, and apt
    ends its removal.
    """
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
    host.queries[apt.make_simulation(("a=1",))] = "Inst a (1 s [all])\n"
    back = Change(SET, Action.UPDATE, ("a=1 (half-installed)", "b=1"), ("a=1", "b=1"), RULE)
    getattr(PackageSetAddress(), act)(host, back)
    assert host.ran[-1][-2:] == ("install", "a=1")


def test_packages_are_touched_when_apts_lock_is_free_and_what_stays_of_them_is_told(monkeypatch):
    host = Host()
    monkeypatch.setattr(
        package_set,
        "wait_for_apt",
        lambda writer, tell: (tell("waiting"), writer.ran.append("wait")),
    )
    monkeypatch.setattr(package_set, "keep", lambda writer, _old: writer.ran.append("keep"))
    host.install(("a=1",), "Inst a (1 s [all])\nInst b (1 s [all])\n", {"a": "1", "b": "1"})
    host.install(("a-", "b-"), "Remv a [1]\nRemv b [1]\n", {"a": "1 config-files"})
    said = []
    assert apply(session_on(host), host, plan_of(planned()), on_progress=said.append).stays == ()
    assert "waiting" in said
    stays = ("the configuration files of a: sudo apt-get purge a",)
    session = session_on(host)
    assert undo(session, host, plan_undo(session)).stays == stays
    assert [one if isinstance(one, str) else one[-1] for one in host.ran] == [
        "wait",
        "keep",
        "a=1",
        "wait",
        "b-",
    ]
    host.files[STATUS] = status(a="1", b="1")
    gone = Change(SET, Action.DELETE, ("a=1", "b=1"), ABSENT, RULE)
    assert apply(session_on(host), host, plan_of(gone)).stays == stays


def test_apts_lock_is_nothing_to_a_way_back_on_paper_and_to_other_kinds(monkeypatch):
    host = Host()
    monkeypatch.setattr(package_set, "wait_for_apt", lambda _writer, _tell: pytest.fail("it waits"))
    host.files["/proc/sys/vm/a"] = b"1\n"
    host.set_value = lambda path, text: host.files.update({path: text.encode()})
    value = Change(Address("sysctl", "vm.a"), Action.UPDATE, "1", "2", RULE)
    assert not apply(session_on(host), host, plan_of(value)).failed
    begun(host, planned(), left=("a=1", "b=1"), error="")
    session = session_on(host)  # none of them is there any more
    way_back = plan_undo(session)
    assert [one.on_paper for one in way_back.returns] == [True]
    assert not undo(session, host, way_back).failed


UPDATE = Change(SET, Action.UPDATE, ("a=1", "b=1"), ("a=2", "b=2"), RULE)
OLD, NEW = UPDATE.before, UPDATE.after
BACK = replace(UPDATE, before=NEW, after=OLD)
OTHER = replace(
    UPDATE, address=Address("package-set", "c"), before=("c=1",), after=("c=2",), rule="other"
)


def update(host, left=NEW, error=""):
    return begun(host, UPDATE, left=left, error=error)


def way_back_stopped(host):
    begun(host, BACK, undoes=update(host), left=("a=1 (unpacked)", "b=1 (unpacked)"))


def way_back_cut_off(host):
    begun(host, BACK, undoes=update(host))


def way_back_did_nothing(host):
    step = update(host)
    recorder = JournalWriter.start(host, new_run(host, read_journal(host), "undo", "d" * 64))
    recorder.record_failure(recorder.intent(BACK, step), "refused")
    recorder.finish()


def way_back_of_another_stopped(host):
    other = begun(host, OTHER, left=OTHER.after, error="")
    begun(
        host,
        replace(OTHER, before=OTHER.after, after=OTHER.before),
        undoes=other,
        left=("c=1 (unpacked)",),
    )
    update(host)


def way_there_stopped(host):
    update(host, ("a=2 (unpacked)", "b=2 (unpacked)"), "interrupted half-way")


MOVED = {
    "back and forth": (way_back_stopped, {"a": "2", "b": "1"}, True),
    "to a third version": (way_back_stopped, {"a": "3", "b": "1"}, False),
    "away": (way_back_stopped, {"b": "1"}, False),
    "back and forth on the way there": (way_there_stopped, {"a": "2", "b": "1"}, True),
    "to a third version on the way there": (way_there_stopped, {"a": "2", "b": "3"}, False),
    "of a run that ended well": (update, {"a": "2", "b": "1"}, False),
    "cut off on the way back": (way_back_cut_off, {"a": "2", "b": "1"}, True),
    "when the way back had done nothing": (way_back_did_nothing, {"a": "2", "b": "1"}, False),
    "when another set had stopped": (way_back_of_another_stopped, {"a": "2", "b": "1"}, False),
}


@pytest.mark.parametrize(("stopped", "now", "goes_on"), MOVED.values(), ids=MOVED.keys())
def test_way_back_goes_on_after_a_repair_by_hand_that_moved_packages_of_it(stopped, now, goes_on):
    host = Host(a="2", b="2", c="2")
    stopped(host)
    host.files[STATUS] = status(**now, c="2")
    way_back = plan_undo(session_on(host), rule=RULE)
    assert [one.after for one in way_back.plan.changes] == [UPDATE.before] * goes_on
    assert [one.hold.kind for one in way_back.plan.findings] == [HoldKind.EDITED] * (not goes_on)


def test_other_value_than_the_one_left_half_way_is_somebodys_where_it_is_no_set_of_packages():
    host = Host()
    host.files["/proc/sys/vm/a"] = b"33\n"
    value = Change(Address("sysctl", "vm.a"), Action.UPDATE, "60", "10", RULE)
    begun(host, value, left="5")
    (finding,) = plan_undo(session_on(host)).plan.findings
    assert finding.hold.kind is HoldKind.EDITED
