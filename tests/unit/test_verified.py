"""What a rule says of how far it is verified is what the rings show of it."""

from __future__ import annotations

from pathlib import Path

from hosttune.engine.rules.catalog import builtin_catalog
from tests.vm import shown
from tests.vm.shown import FAULTS, SHOWN, SHOWN_ON_METAL

APPLIED = {**SHOWN, **SHOWN_ON_METAL}


def test_rules_that_say_vm_are_those_that_a_guest_shows():
    assert {rule.id for rule in builtin_catalog().rules.values() if rule.verified == "vm"} == {
        *APPLIED,
        *FAULTS,
    }


def test_what_a_guest_shows_of_a_rule_tells_applied_from_undone():
    assert [rule for rule, one in APPLIED.items() if one.applied == one.undone] == []


def test_each_fault_is_asked_of_its_guest():
    for rule, name in FAULTS.items():
        assert rule in (Path(shown.__file__).parent / name).read_text(encoding="utf-8")
