"""When what a rule did earlier is nobody's any more, by what the rule says of this host now."""

from types import SimpleNamespace

import pytest

from hosttune.engine.decide.leftovers import add_undo_step, find_orphans, rules_left
from hosttune.engine.policy.policy import Policy
from hosttune.resources.base import Applied
from hosttune.values import ABSENT, Address, Finding, Hold, HoldKind, Verdict

ADDRESS = Address("sysctl", "vm.a")
CATALOG = SimpleNamespace(
    current=lambda rule: rule, rules={"some-rule": SimpleNamespace(replaces="")}
)


def left(*verdicts, present="1", after="1"):
    ledger = {ADDRESS: Applied("20231114-221320-aaaa", "some-rule", after)}
    findings = [
        Finding("some-rule", f"disk {number}", verdict) for number, verdict in enumerate(verdicts)
    ]
    return [
        found.reason
        for found in find_orphans(ledger, CATALOG, Policy(), findings, {ADDRESS: present})
    ]


@pytest.mark.parametrize("other", [one for one in Verdict if one is not Verdict.NOT_APPLICABLE])
def test_rule_that_applies_to_one_of_its_subjects_still_asks_for_what_it_did(other):
    assert left(Verdict.NOT_APPLICABLE, other) == left(other) == []


def test_rule_that_applies_to_no_subject_any_more_leaves_what_it_did():
    why = "applied earlier, does not apply any more: it stays until it is undone"
    assert (
        left(Verdict.NOT_APPLICABLE)
        == left(Verdict.NOT_APPLICABLE, Verdict.NOT_APPLICABLE)
        == [why]
    )


def test_rule_that_is_not_selected_leaves_what_it_did_while_it_is_there():
    assert left() == ["applied earlier, no longer selected: it stays until it is undone"]
    assert left(present=ABSENT) == left(after=ABSENT) == []


def test_what_is_left_is_advice_that_names_each_place_and_the_way_back():
    second = Address("file", "/etc/x")
    ledger = {one: Applied("20231114-221320-aaaa", "some-rule", "1") for one in (second, ADDRESS)}
    (found,) = find_orphans(ledger, CATALOG, Policy(), [], {ADDRESS: "1", second: "1"})
    assert (found.rule, found.subject, found.verdict, found.hold) == (
        "some-rule", "", Verdict.ADVICE, Hold(HoldKind.ORPHANED),
    )  # fmt: skip
    assert found.evidence == ("/etc/x", "vm.a")
    assert found.todo == "sudo hosttune undo --rule some-rule --yes"


def test_file_of_a_rule_that_is_left_or_had_another_name_says_how_it_goes():
    def owned(rule):
        return Finding(
            "x",
            "",
            Verdict.DIFFERS,
            Hold(HoldKind.OWNED, f"/etc/sysctl.d/60-hosttune-{rule}.conf:3"),
        )

    catalog = SimpleNamespace(current=lambda rule: {"was-so": "is-so"}.get(rule, rule))
    ledger = {
        ADDRESS: Applied("r", "was-so", "1"),
        Address("sysctl", "vm.b"): Applied("r", "stays", "1"),
    }
    edited = Finding(
        "x", "", Verdict.DIFFERS, Hold(HoldKind.EDITED, "/etc/sysctl.d/60-hosttune-gone.conf")
    )
    findings = (owned("gone"), owned("was-so"), owned("stays"), owned("of-nobody"), edited)
    rules = rules_left([Finding("gone", "", Verdict.ADVICE)], ledger, catalog)
    assert rules == ("gone", "was-so")
    found = [add_undo_step(one, rules) for one in findings]
    way = "undo it first: sudo hosttune undo --rule"
    assert [one.todo for one in found] == [f"{way} gone --yes", f"{way} was-so --yes", "", "", ""]
