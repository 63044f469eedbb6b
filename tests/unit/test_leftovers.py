"""When what a rule did earlier is nobody's any more, by what the rule says of this host now."""

from types import SimpleNamespace

import pytest

from hosttune.engine.leftovers import orphans
from hosttune.engine.policy import Policy
from hosttune.resources.base import Applied
from hosttune.values import ABSENT, Address, Finding, Verdict

ADDRESS = Address("sysctl", "vm.a")
CATALOG = SimpleNamespace(current=lambda rule: rule, rules={"some-rule": SimpleNamespace(replaces="")})


def left(*verdicts, present="1", after="1"):
    ledger = {ADDRESS: Applied("20231114-221320-aaaa", "some-rule", after)}
    findings = [Finding("some-rule", f"disk {number}", verdict) for number, verdict in enumerate(verdicts)]
    return [found.reason for found in orphans(ledger, CATALOG, Policy(), findings, {ADDRESS: present})]


@pytest.mark.parametrize("other", [one for one in Verdict if one is not Verdict.NOT_APPLICABLE])
def test_rule_that_applies_to_one_of_its_subjects_still_asks_for_what_it_did(other):
    assert left(Verdict.NOT_APPLICABLE, other) == left(other) == []


def test_rule_that_applies_to_no_subject_any_more_leaves_what_it_did():
    why = "applied earlier, does not apply any more: it stays until it is undone"
    assert left(Verdict.NOT_APPLICABLE) == left(Verdict.NOT_APPLICABLE, Verdict.NOT_APPLICABLE) == [why]


def test_rule_that_is_not_selected_leaves_what_it_did_while_it_is_there():
    assert left() == ["applied earlier, no longer selected: it stays until it is undone"]
    assert left(present=ABSENT) == left(after=ABSENT) == []
