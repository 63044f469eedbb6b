"""The way back: what is taken back, what is left and why, and what the receipt of it says."""

from types import SimpleNamespace

import pytest

from hosttune.actions.apply import apply
from hosttune.actions.journal.journal import Journal, read_journal
from hosttune.actions.undo import plan_undo, undo
from hosttune.cli.undo import list_redone
from hosttune.errors import HosttuneError, Refused
from hosttune.facts import Facts
from hosttune.host.overlay.overlay import Overlay
from hosttune.resources import address_kinds
from hosttune.values import (
    ABSENT,
    Action,
    Activation,
    Address,
    Change,
    FileValue,
    HoldKind,
    Phase,
    Plan,
    Stage,
    Trigger,
    Unreadable,
    Verdict,
)
from hosttune.views.page import Page
from hosttune.views.plan import undo_report
from hosttune.views.receipt import receipt_report
from tests.unit.fake_reader import FakeReader

A, B, FILE = Address("sysctl", "vm.a"), Address("sysctl", "vm.b"), Address("file", "/etc/x.conf")
RELOAD = Trigger("daemon-reload")


def host():
    files = {
        "/proc/sys/vm/a": "60\n",
        "/proc/sys/vm/b": "1\n",
        "/proc/sys/kernel/random/boot_id": "boot\n",
    }
    return Overlay(FakeReader(files))


def change(address=A, before="60", after="10", rule="some-rule", **more):
    return Change(address, Action.UPDATE, before, after, rule, **more)


def session_on(writer):
    return SimpleNamespace(
        reader=writer,
        journal=read_journal(writer),
        facts=Facts(writer),
        selected=(),
        resumed=(),
        policy=SimpleNamespace(break_work=False, ignore=()),
        catalog=SimpleNamespace(
            current=lambda rule: rule,
            find_id=lambda rule: rule,
            former=lambda rule: (),
            rules={"some-rule": None},
            tells_health=lambda rule: False,
        ),
    )


def plan_of(*changes):
    return Plan("d" * 64, "0", "", "", "", (Stage(changes, ()),), ())


def applied(writer, *changes):
    receipt = apply(session_on(writer), writer, plan_of(*changes))
    assert not receipt.failed
    return receipt


def left(planned):
    """The one finding of what is not taken back."""
    (finding,) = planned.plan.findings
    assert (planned.returns, planned.plan.stages) == ((), ())
    assert (finding.rule, finding.verdict, finding.reason) == (
        "some-rule",
        Verdict.DIFFERS,
        "is left as it is",
    )
    assert "put it back by hand, then undo again" in finding.todo
    return finding


def test_value_of_somebody_else_is_left_and_named_with_the_run():
    writer = host()
    receipt = applied(writer, change())
    writer.set_value("/proc/sys/vm/a", "33\n")
    finding = left(plan_undo(session_on(writer)))
    assert (finding.subject, finding.hold.kind) == ("sysctl:vm.a", HoldKind.EDITED)
    assert finding.hold.detail == f"vm.a since run {receipt.run_id}"


def test_value_that_cannot_be_read_is_left_with_the_reason():
    writer = host()
    applied(writer, change())
    plain = writer.read
    writer.read = lambda path: (
        Unreadable("input/output error") if path == "/proc/sys/vm/a" else plain(path)
    )
    finding = left(plan_undo(session_on(writer)))
    assert finding.hold.kind is HoldKind.REFUSED
    assert "input/output error" in finding.hold.detail


def test_change_that_says_that_there_is_no_way_back_is_left_although_one_could_be_written():
    writer = host()
    applied(writer, change(reversible="no: the old value is lost"))
    finding = left(plan_undo(session_on(writer)))
    assert finding.hold.kind is HoldKind.REFUSED
    assert finding.hold.detail == "it cannot be undone: no: the old value is lost"


def test_way_back_that_the_place_refuses_is_left_with_its_words(monkeypatch):
    writer = host()
    applied(writer, change())

    def refuse(writer, change):
        raise Refused("the proof fails")

    monkeypatch.setattr(address_kinds()["sysctl"], "write", refuse)
    finding = left(plan_undo(session_on(writer)))
    assert (finding.hold.kind, finding.hold.detail) == (HoldKind.REFUSED, "the proof fails")


def test_way_back_that_fails_half_way_is_booked_with_its_error_and_the_value_that_it_left(
    monkeypatch,
):
    writer = host()
    applied(writer, change())
    session = session_on(writer)
    planned = plan_undo(session)
    plain = writer.set_value

    def half(path, text):
        plain(path, "33\n")
        raise Refused("half of it")

    monkeypatch.setattr(writer, "set_value", half)
    receipt = undo(session, writer, planned)
    assert [one.error for one in receipt.failed] == ["half of it"]
    journal = read_journal(writer)
    assert journal.runs[-1].steps[0].error == "half of it"
    assert [step.change.after for step in journal.in_force] == ["33"]


def test_kind_that_is_not_known_here_is_left(monkeypatch):
    writer = host()
    applied(writer, change())
    known = {kind: one for kind, one in address_kinds().items() if kind != "sysctl"}
    monkeypatch.setattr("hosttune.actions.undo.find_original", lambda step, journal: "60")
    monkeypatch.setattr("hosttune.resources.address_kinds", lambda: known)
    finding = left(plan_undo(session_on(writer)))
    assert finding.hold.kind is HoldKind.REFUSED
    assert "does not know what sysctl:vm.a is" in finding.hold.detail


def test_what_came_before_a_step_that_is_left_is_left_too_and_says_for_which():
    writer = host()
    applied(writer, change(), change(B, "1", "2", reversible="no"))
    first, second = plan_undo(session_on(writer)).plan.findings
    assert (first.subject, second.subject) == ("sysctl:vm.b", "sysctl:vm.a")
    assert (second.hold.kind, second.hold.detail) == (
        HoldKind.REFUSED,
        "vm.b, which came after it, is left",
    )
    assert (first.todo.startswith("look at vm.b; remove it"), second.todo) == (
        True,
        "solve that first, then undo again",
    )


def test_where_nothing_can_be_undone_the_report_and_the_receipt_say_so_and_name_no_rule_that_comes_again():
    writer = host()
    applied(writer, change(B, "1", "2"), change())
    writer.set_value("/proc/sys/vm/a", "33\n")
    session = session_on(writer)
    session.selected = (SimpleNamespace(id="some-rule"),)
    planned = plan_undo(session)
    why = "1 edited by hand, 1 blocked."
    assert undo_report(planned.plan, Page(), words="undo").startswith(
        f"this host: nothing can be undone: {why}\n"
    )
    receipt = undo(session, writer, planned)
    text = receipt_report(receipt, Page(), is_undo=True, left=planned.plan.findings)
    assert text.startswith(f"this host: nothing was undone: {why}\n")
    assert list_redone(planned, session) == ()
    writer.set_value("/proc/sys/vm/a", "10\n")
    assert list_redone(plan_undo(session), session) == ("some-rule",)


@pytest.mark.parametrize(
    ("chosen", "taken"),
    [
        ({}, {"sysctl:vm.b"}),
        ({"run_id": 0}, {"sysctl:vm.a"}),
        ({"rule": "some-rule"}, {"sysctl:vm.a", "sysctl:vm.b"}),
        ({"rule": "other"}, {"file:/etc/x.conf"}),
        ({"run_id": 1, "rule": "other"}, set()),
        ({"run_id": 0, "rule": "other"}, {"file:/etc/x.conf"}),
    ],
)
def test_only_what_was_asked_for_is_taken_back_and_the_last_run_where_nothing_was(chosen, taken):
    writer = host()
    receipts = [
        applied(writer, change(), change(FILE, ABSENT, FileValue(b"x\n"), "other")),
        applied(writer, change(B, "1", "2")),
    ]
    if "run_id" in chosen:
        chosen = {**chosen, "run_id": receipts[chosen["run_id"]].run_id}
    planned = plan_undo(session_on(writer), **chosen)
    if chosen.keys() == {"run_id"}:
        taken = {*taken, "file:/etc/x.conf"}
    assert {str(one.address) for one in planned.plan.changes} == taken


def test_rule_that_nobody_knows_is_refused():
    with pytest.raises(HosttuneError, match="no rule is called of-none"):
        plan_undo(session_on(host()), rule="of-none")


def test_rule_is_known_by_the_names_that_it_had_and_one_that_was_mistyped_gets_the_nearest():
    writer = host()
    applied(writer, change(rule="old-name"), change(B, "1", "2", "some-rule"))
    session = session_on(writer)
    former = {"some-rule": ("old-name",)}
    session.catalog.current = lambda rule: {"old-name": "some-rule"}.get(rule, rule)
    session.catalog.find_id = session.catalog.current
    session.catalog.former = lambda rule: former.get(rule, ())
    for name in ("old-name", "some-rule"):
        planned = plan_undo(session, rule=name)
        assert {str(one.address) for one in planned.plan.changes} == {"sysctl:vm.a", "sysctl:vm.b"}
        assert planned.rules == ("old-name", "some-rule")
    with pytest.raises(HosttuneError) as unknown:
        plan_undo(session, rule="some-rul")
    assert "some-rule" in unknown.value.hint
    with pytest.raises(HosttuneError) as unknown:
        plan_undo(session, rule="xyz")
    assert unknown.value.hint.endswith("hosttune history -v")


def test_journal_that_cannot_be_read_needs_root():
    session = session_on(host())
    session.journal = Journal((), "permission denied")
    with pytest.raises(HosttuneError, match="permission denied") as refused:
        plan_undo(session)
    assert refused.value.hint == "it is read as root, and only if root owns it"


def test_file_that_was_taken_away_comes_back_by_a_change_that_says_so():
    writer = host()
    old = FileValue(b"x\n")
    writer.replace(FILE.name, old, expected=ABSENT)
    applied(writer, Change(FILE, Action.DELETE, old, ABSENT, "some-rule"))
    (back,) = plan_undo(session_on(writer)).plan.changes
    assert (back.action, back.before, back.after.content) == (Action.CREATE, ABSENT, b"x\n")


def test_way_back_runs_its_triggers_and_tells_what_waits_for_a_reboot():
    writer = host()
    applied(writer, change(triggers=(RELOAD,), activation=Activation.REBOOT), change(B, "1", "2"))
    session = session_on(writer)
    planned = plan_undo(session)
    assert planned.plan.stages[0].triggers == (RELOAD,)
    assert planned.plan.created_at.endswith("+00:00")
    (back,) = (one for one in planned.plan.changes if one.address == A)
    assert (back.action, back.before, back.after) == (Action.UPDATE, "10", "60")
    receipt = undo(session, writer, planned)
    assert receipt.digest == planned.plan.digest
    assert receipt.reboot_reasons == ("vm.a takes effect at the next boot",)
    assert [outcome.phase for outcome in receipt.outcomes] == [Phase.DONE, Phase.DONE]
    assert (receipt.verified, receipt.waiting) == (True, ())


def test_file_of_ours_is_taken_away_by_a_change_that_says_so():
    writer = host()
    applied(writer, change(FILE, ABSENT, FileValue(b"x\n")))
    (back,) = plan_undo(session_on(writer)).plan.changes
    assert (back.action, back.before.content, back.after) == (Action.DELETE, b"x\n", ABSENT)


def test_undo_of_nothing_leaves_no_trace_and_an_empty_receipt():
    writer = host()
    session = session_on(writer)
    planned = plan_undo(session)
    receipt = undo(session, writer, planned)
    assert (receipt.run_id, receipt.digest, receipt.outcomes) == ("", planned.plan.digest, ())
    assert read_journal(writer).runs == ()


def test_return_to_the_first_value_passes_other_places_and_what_failed_in_between(monkeypatch):
    writer = host()
    applied(writer, change())
    applied(writer, change(B, "1", "2"))
    plain = writer.set_value

    def refuse(path, text):
        raise Refused("not now")

    monkeypatch.setattr(writer, "set_value", refuse)
    assert apply(session_on(writer), writer, plan_of(change(before="10", after="6"))).failed
    monkeypatch.setattr(writer, "set_value", plain)
    applied(writer, change(before="10", after="5"))
    session = session_on(writer)
    first, *_, last = session.journal.runs
    assert (
        undo(session, writer, plan_undo(session, first.id)).failed == ()
    )  # on paper: a later run holds it
    session = session_on(writer)
    assert undo(session, writer, plan_undo(session, last.id)).failed == ()
    assert writer.read("/proc/sys/vm/a") == b"60\n"


def test_return_to_the_first_value_passes_what_was_undone_for_good_in_between():
    writer = host()
    applied(writer, change())
    applied(writer, change(before="10", after="5"))
    session = session_on(writer)
    assert undo(session, writer, plan_undo(session)).failed == ()
    applied(writer, change(before="10", after="7"))
    first = read_journal(writer).runs[0].id
    session = session_on(writer)
    assert (
        undo(session, writer, plan_undo(session, first)).failed == ()
    )  # on paper: a later run holds it
    session = session_on(writer)
    assert undo(session, writer, plan_undo(session)).failed == ()
    assert writer.read("/proc/sys/vm/a") == b"60\n"
