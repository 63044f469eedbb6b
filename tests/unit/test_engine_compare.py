"""One rule's wishes compared as the policy wants it: what is waived apart from the rest, in the
words of the wish.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.engine.decide import compare as module
from hosttune.engine.decide.compare import compare
from hosttune.engine.policy.policy import Policy
from hosttune.engine.policy.waiver import Waiver, waive
from hosttune.facts.base import UnknownFact
from hosttune.resources.base import Wish
from hosttune.values import Action, Address, Change, Finding, Hold, HoldKind, Verdict

CONTEXT = object()
RULE = SimpleNamespace(id="some-rule", exposes="")


def wish(subject, **more):
    return Wish("some", subject, "some-rule", subject, {}, **more)


@pytest.mark.parametrize(
    ("subjects", "waived", "differing", "together"),
    [
        ("ab", "b", "b", ["a", "b"]),  # waived and another: by itself
        ("abc", "b", "bc", ["ac", "b"]),
        ("ab", "b", "a", ["ab"]),
        ("ab", "b", "", ["ab"]),
        ("ab", "", "ab", ["ab"]),
        ("ab", "ab", "ab", ["ab"]),
        ("a", "a", "a", ["a"]),
    ],
)
def test_subject_that_is_waived_and_differs_is_compared_by_itself(
    monkeypatch, subjects, waived, differing, together
):
    seen = []

    def looked(wishes, context):
        assert context is CONTEXT
        seen.append("".join(one.subject for one in wishes))
        return tuple(
            Finding(
                one.rule, one.subject, Verdict.DIFFERS if one.subject in differing else Verdict.OK
            )
            for one in wishes
        )

    monkeypatch.setattr(module, "wish_kinds", lambda: {"some": SimpleNamespace(compare=looked)})
    policy = Policy(waivers=tuple(Waiver("some-rule", "x", one) for one in waived))
    found = compare(RULE, tuple(wish(one) for one in subjects), CONTEXT, policy)
    assert sorted(one.subject for one in found) == list(subjects)
    assert seen[-len(together) :] == together


def compared(monkeypatch, findings, wishes, rule=RULE):
    """What is said of these wishes where their kind finds this."""
    monkeypatch.setattr(
        module, "wish_kinds", lambda: {"some": SimpleNamespace(compare=lambda *_: tuple(findings))}
    )
    return compare(rule, wishes, CONTEXT, Policy())


def test_kind_that_needs_what_could_not_be_read_is_unknown_and_the_others_are_compared(monkeypatch):
    def unread(wishes, context):
        raise UnknownFact("no list")

    kinds = {
        "some": SimpleNamespace(compare=unread),
        "other": SimpleNamespace(compare=lambda *_: (Finding("r", "b", Verdict.OK),)),
    }
    monkeypatch.setattr(module, "wish_kinds", lambda: kinds)
    first, second = compare(RULE, (wish("a"), replace(wish("b"), kind="other")), CONTEXT, Policy())
    assert first == Finding("some-rule", "", Verdict.UNKNOWN, reason="no list")
    assert second.verdict is Verdict.OK


def test_difference_is_told_in_the_words_of_its_wish_and_the_kind_is_evidence(monkeypatch):
    wishes = (wish("a", message="no pipe", todo="do this"), wish("b", todo="only this"), wish("c"))
    found = compared(
        monkeypatch,
        (
            Finding(
                "r", "a", Verdict.DIFFERS, reason="a is |x", evidence=("line 3",), todo="first"
            ),
            Finding("r", "a", Verdict.DIFFERS),
            Finding("r", "b", Verdict.DIFFERS, reason="b is off"),
            Finding("r", "c", Verdict.DIFFERS, reason="c is off"),
            Finding("r", "a", Verdict.OK, reason="fine"),
        ),
        wishes,
    )
    assert [(one.reason, one.evidence, one.todo) for one in found] == [
        ("no pipe", ("a is |x", "line 3"), "first\ndo this"),
        ("no pipe", (), "do this"),
        ("b is off", (), "only this"),
        ("c is off", (), ""),
        ("fine", (), ""),
    ]


def test_words_of_several_wishes_of_one_subject_are_all_said(monkeypatch):
    one = Wish("some", "a", "r", "s", {}, message="first", todo="do a")
    two = Wish("some", "b", "r", "s", {}, message="second", todo="do b")
    (found,) = compared(monkeypatch, [Finding("r", "s", Verdict.DIFFERS)], (one, two))
    assert (found.reason, found.todo) == ("first; second", "do a\ndo b")


def test_what_a_change_weakens_is_said_with_it_before_the_yes(monkeypatch):
    change = Change(Address("sysctl", "vm.a"), Action.UPDATE, "1", "2", "open")
    explained = Change(Address("sysctl", "vm.b"), Action.UPDATE, "1", "2", "open", reason="faster")
    finding = Finding("open", "", Verdict.DIFFERS, changes=(change, explained))
    (told,) = compared(
        monkeypatch, [finding], (wish("a"),), SimpleNamespace(id="open", exposes="the kernel's log")
    )
    assert [one.reason for one in told.changes] == [
        "exposes the kernel's log",
        "exposes the kernel's log; faster",
    ]
    assert compared(monkeypatch, [finding], (wish("a"),)) == [finding]


def test_waived_finding_asks_for_nothing_and_the_last_waiver_that_ended_is_named():
    finding = Finding("r", "/a", Verdict.DIFFERS, todo="do this", evidence=("seen",))
    held = waive(finding, (Waiver("r", "later", until="2026-06-01"),), "2026-06-01")
    assert (held.hold.kind, held.todo, held.changes) == (HoldKind.WAIVED, "", ())
    ended = (
        Waiver("r", "z", until="2026-01-02"),
        Waiver("r", "a", until="2026-03-04"),
        Waiver("r", "b", until="2026-02-01"),
    )
    counts = waive(finding, ended, "2026-06-01")
    assert (counts.evidence, counts.is_waiver_over) == (
        ("the waiver expired on 2026-03-04: a", "seen"),
        True,
    )
    assert counts.hold == Hold()
