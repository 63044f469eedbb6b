"""Every case of a rule that `hosttune health` asks is also a host to judge as a whole: where the rule says that all is
well no other rule may call the host sick, and where it says what is wrong, health says that first.

What other rules say there, too, stands in the case: `others: [gpu-fabric]`. Hosts that are sick as they are built (no
driver yet) show false alarms of the rule alone, which is what its cases are for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from hosttune.actions.examine import examine
from hosttune.actions.health import ask, health_rules
from hosttune.engine.health import Fitness, judge
from hosttune.engine.policy import Policy
from tests.rules.test_cases import CASES, CATALOG, host_of

BASE = Policy(today="2026-01-01")
ASKED = health_rules(CATALOG, BASE)
QUIET = {"ok", "not applicable"}


def health_of(rule: str, case):
    params = {rule: case["params"]} if "params" in case else {}
    return judge(ask(examine(host_of(case), CATALOG, replace(BASE, sole=ASKED, params=params), collect=False), 60))


@cache
def is_fit_as_built(host: str) -> bool:
    return not health_of("", {"host": host}).points


OF_HEALTH = [(rule, case) for rule, case in CASES if rule in ASKED and is_fit_as_built(case["host"])]
WELL = [
    (rule, case) for rule, case in OF_HEALTH if case["expect"]["verdict"] in QUIET and "subject" not in case["expect"]
]
SICK = [(rule, case) for rule, case in OF_HEALTH if case["expect"]["verdict"] in {"advice", "differs"}]
SAYS_LOST = "gpu-driver-health"  # of a GPU that does not answer it speaks beside the rule that says why


def named(cases):
    return [f"{rule}-{case['name']}" for rule, case in cases]


@pytest.mark.parametrize(("rule", "case"), WELL, ids=named(WELL))
def test_variation_of_a_healthy_host_is_fit(rule, case):
    points = health_of(rule, case).points
    assert {point.rule for point in points} <= set(case.get("others", ())), [point.sentence for point in points]


@pytest.mark.parametrize(("rule", "case"), SICK, ids=named(SICK))
def test_fault_is_said_first(rule, case):
    health = health_of(rule, case)
    mine = [point for point in health.points if point.rule == rule]
    if not mine:  # advice that costs no work
        assert {point.rule for point in health.points} <= set(case.get("others", ()))
        return
    first = health.points[0]
    assert first.rule in {rule, SAYS_LOST, *case.get("others", ())}, first.sentence
    assert health.fitness is not Fitness.FIT


def test_there_are_many_variations():
    assert len(WELL) >= 100
