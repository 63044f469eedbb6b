"""The proof of a plan on the overlay: what it looks at again."""

from __future__ import annotations

import pytest

from hosttune.actions import examine
from hosttune.engine.catalog import builtin_catalog
from hosttune.engine.policy import Policy
from hosttune.host.record import read_record
from tests.hosts.built import BUILT


@pytest.mark.parametrize("host", BUILT, ids=lambda path: path.stem)
def test_plan_is_tried_with_the_rules_that_can_change_something_alone(host, monkeypatch):
    looked, evaluate = [], examine.evaluate
    monkeypatch.setattr(examine, "evaluate", lambda rule, *rest: looked.append(rule) or evaluate(rule, *rest))
    session = examine.examine(read_record(str(host)), builtin_catalog(), Policy(today="2026-01-01"))
    plan = session.plan()
    every, wishing = list(session.selected), [rule for rule in session.selected if rule.want]
    assert looked[: len(every)] == every
    assert looked[len(every) :] == wishing * len(plan.stages)
    assert 0 < len(wishing) < len(every) / 2


@pytest.mark.parametrize("host", BUILT, ids=lambda path: path.stem)
def test_rules_without_wishes_change_nothing(host):
    session = examine.examine(read_record(str(host)), builtin_catalog(), Policy(today="2026-01-01"))
    wishing = {rule.id for rule in session.selected if rule.want}
    plan = session.plan()
    assert {change.rule for change in plan.changes} <= wishing
    assert {finding.rule for finding in plan.findings if finding.changes} <= wishing
