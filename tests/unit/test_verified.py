"""What a rule says of how far it is verified is what the rings show of it."""

from __future__ import annotations

from hosttune.engine.catalog import builtin_catalog
from tests.vm.shown import SHOWN


def test_rules_that_say_vm_are_those_that_a_guest_shows():
    assert {rule.id for rule in builtin_catalog().rules.values() if rule.verified == "vm"} == set(SHOWN)


def test_what_a_guest_shows_of_a_rule_tells_applied_from_undone():
    assert [rule for rule, one in SHOWN.items() if one.applied == one.undone] == []
