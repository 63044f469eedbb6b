"""Every case of a rule that `hosttune health` asks is also a host to judge as a whole: where the
rule says that all is well no other rule may call the host sick, and where it says what is wrong,
health says that first.

What other rules say there, too, stands in the case: `others: [gpu-fabric]`. Hosts that are sick as
they are built (no driver yet) show false alarms of the rule alone, which is what its cases are for.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from hosttune.actions.examine import examine
from hosttune.actions.health import ask, health_rules
from hosttune.engine.decide.health import Fitness, judge
from hosttune.engine.policy.policy import Policy
from hosttune.facts.gpu.health_smi import QUERIES
from hosttune.facts.gpu.nvidia_smi import QUERY
from hosttune.facts.gpu.nvlink import STATUS
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import RecordReader
from tests.rules.test_cases import CASES, CATALOG, host_of

BASE = Policy(today="2026-01-01")
ASKED = health_rules(CATALOG, BASE)
QUIET = {"ok", "not applicable"}


def health_of(rule: str, case):
    params = {rule: case["params"]} if "params" in case else {}
    return judge(
        ask(
            examine(
                host_of(case), CATALOG, replace(BASE, sole=ASKED, params=params), collect=False
            ),
            60,
        )
    )


def health_where(questions, name: str):
    """Of a sound host whose nvidia-smi says something odd to these questions."""
    record = host_of({"host": "h100-8x-2socket"}).base
    queries = [
        {"argv": one["argv"], "status": 0, "stderr": "", **ODD[name](one["stdout"])}
        if tuple(one["argv"]) in questions
        else one
        for one in record.data["queries"]
    ]
    said = Overlay(RecordReader({**record.data, "queries": queries}, record.file))
    return judge(ask(examine(said, CATALOG, replace(BASE, sole=ASKED), collect=False), 60))


@cache
def is_fit_as_built(host: str) -> bool:
    return not health_of("", {"host": host}).points


OF_HEALTH = [
    (rule, case) for rule, case in CASES if rule in ASKED and is_fit_as_built(case["host"])
]
WELL = [
    (rule, case)
    for rule, case in OF_HEALTH
    if case["expect"]["verdict"] in QUIET and "subject" not in case["expect"]
]
SICK = [
    (rule, case) for rule, case in OF_HEALTH if case["expect"]["verdict"] in {"advice", "differs"}
]
SAYS_LOST = (
    "gpu-driver-health"  # of a GPU that does not answer it speaks beside the rule that says why
)


ODD = {
    "nothing": lambda _: {"stdout": ""},
    "no devices": lambda _: {"status": 6, "stdout": "No devices were found\n"},
    "one that is lost": lambda _: {
        "status": 15, "stdout": "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error\n",
    },
    "no library": lambda _: {"status": 255, "stdout": "Failed to initialize NVML: Unknown Error\n"},
    "something else": lambda _: {"stdout": "\x00\x01 hello, world\n"},
    "half of it": lambda sound: {"stdout": sound[: len(sound) // 2]},
    "killed": lambda _: {"status": -11, "stdout": ""},
    "hung": lambda _: {"unreadable": "nvidia-smi did not end within 30 s"},
    "error words": lambda sound: {
        "stdout": "".join(f"{re.sub(r'(?<=, ).*', '[Unknown Error]', line)}\n" for line in sound.splitlines())
        if ", " in sound
        else re.sub(r"(?<=: )[\d.]+ GB/s", "[Unknown Error]", sound)
    },
}  # fmt: skip


def named(cases):
    return [f"{rule}-{case['name']}" for rule, case in cases]


@pytest.mark.parametrize(("rule", "case"), WELL, ids=named(WELL))
def test_variation_of_a_healthy_host_is_fit(rule, case):
    points = health_of(rule, case).points
    assert {point.rule for point in points} <= set(case.get("others", ())), [
        point.sentence for point in points
    ]


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


@pytest.mark.parametrize("question", [QUERY, QUERIES[0], STATUS], ids=["driver", "state", "links"])
@pytest.mark.parametrize("name", ODD)
def test_answer_of_nvidia_smi_that_is_none_leaves_no_host_fit(question, name):
    assert health_where({question}, name).fitness is not Fitness.FIT


@pytest.mark.parametrize(
    "questions", [{QUERY, *QUERIES}, set(QUERIES)], ids=["from the first question on", "later"]
)
def test_nvidia_smi_that_hangs_is_one_fault_with_a_way_out(questions):
    health = health_where(questions, "hung")
    faults = [point for point in health.points if point.fitness is Fitness.UNFIT]
    assert [point.rule for point in faults] == ["gpu-driver-health"]
    assert "power the host off and on" in faults[0].todo
    assert {point.rule for point in health.points} - {"gpu-driver-health"} <= {
        "gpu-errors",
        "gpu-nvlink",
    }


def test_there_are_many_variations():
    assert len(WELL) >= 100
