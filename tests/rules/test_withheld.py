"""A proven fault stays whatever else is unknown: answers are taken away from hosts on which a rule
of `hosttune health` reports a fault, and from those on which it does not. The draw is the same in
each run.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from hosttune.actions.examine import examine
from hosttune.actions.health import ask, health_rules
from hosttune.engine.decide.health import Fitness, judge
from hosttune.engine.policy.policy import Policy
from hosttune.host.door import BeforeReader
from hosttune.values import Unreadable, Verdict
from tests.rules.test_cases import CASES, CATALOG, host_of
from tests.yaml_files import read_yaml

BASE = Policy(today="2026-01-01")
ASKED = health_rules(CATALOG, BASE)
REASON = "withheld"
SINGLE, SETS = 6, 2  # draws of a case: one answer, some of the answers
OTHER_CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "health"
REPORTS = {
    path.parent.name: case
    for path in sorted(OTHER_CASES.glob("*/case.yaml"))
    if not (case := read_yaml(path))["host"].endswith(".json")  # a record beside it
}
# The kernel log proves the Xid errors of these cases, and only nvidia-smi's answer waives them
# (recovery action None).
WAIVED_BY_SMI = "from which the driver asks for no recovery"


class Withholding(BeforeReader):
    """A host some answers of which cannot be had; `asked` are all that were."""

    def __init__(self, base, withheld=frozenset()):
        super().__init__(base)
        self.withheld = withheld
        self.asked = {}

    @property
    def kind(self):
        return self.base.kind

    def answer(self, method, key, look):
        if (method, key) in self.withheld:
            return Unreadable(REASON)
        found = look()
        self.asked.setdefault((method, key), found)
        return found

    def read(self, path):
        return self.answer("read", path, lambda: self.base.read(path))

    def list(self, path):
        return self.answer("list", path, lambda: self.base.list(path))

    def link(self, path):
        return self.answer("link", path, lambda: self.base.link(path))

    def stat(self, path, *, follow=True):
        return self.answer(f"stat {follow}", path, lambda: self.base.stat(path, follow=follow))

    def resolve(self, path):
        return self.answer("resolve", path, lambda: self.base.resolve(path))

    def space(self, path):
        return self.answer("space", path, lambda: self.base.space(path))

    def query(self, argv, *, timeout_s=10.0):
        return self.answer("query", tuple(argv), lambda: self.base.query(argv, timeout_s=timeout_s))

    def processes(self):
        return self.answer("processes", "", self.base.processes)

    def os_release(self):
        return self.answer("os_release", "", self.base.os_release)

    def now(self):
        return self.base.now()


def findings_of(door, rules, params=()):
    policy = replace(BASE, sole=tuple(rules), params=dict(params))
    return ask(examine(door, CATALOG, policy, collect=False), 60)


def faults_in(findings):
    return {one.subject for one in findings if one.is_fault or one.impairs}


def could_be_read(door):
    return [key for key, answer in door.asked.items() if not isinstance(answer, Unreadable)]


def drawn(door, seed):
    """Sets of answers to withhold: single ones, one of each kind of path before another of the
    same, then several.
    """
    chance = random.Random(seed)  # noqa: S311 - a draw of samples
    kinds = {}
    for method, key in could_be_read(door):
        kinds.setdefault((method, re.sub(r"[0-9a-f]*[0-9][0-9a-f:.]*", "#", str(key))), []).append(
            (method, key)
        )
    keys = [chance.choice(kind) for kind in kinds.values()]
    yield from ({key} for key in chance.sample(keys, min(SINGLE, len(keys))))
    for share in (0.1, 0.5)[:SETS]:
        yield {key for key in could_be_read(door) if chance.random() < share}


OF_HEALTH = [(rule, case) for rule, case in CASES if rule in ASKED and "holes" not in case]


@pytest.mark.parametrize(
    ("rule", "case"), OF_HEALTH, ids=[f"{rule}-{case['name']}" for rule, case in OF_HEALTH]
)
def test_withheld_answer_never_turns_a_fault_into_fit_and_makes_none(rule, case):
    params = {rule: case["params"]} if "params" in case else {}
    door = Withholding(host_of(case))
    before = findings_of(door, [rule], params)
    for withheld in drawn(door, f"{rule} {case['name']}"):
        after = findings_of(Withholding(door.base, frozenset(withheld)), [rule], params)
        if faults_in(before):
            is_unknown = any(one.verdict is Verdict.UNKNOWN for one in after)
            assert faults_in(after) or is_unknown, sorted(map(str, withheld))
        elif WAIVED_BY_SMI not in case["name"]:
            assert not faults_in(after), sorted(map(str, withheld))


OFF_THE_BUS = [
    case
    for rule, case in OF_HEALTH
    if rule == "gpu-errors" and "): 79," in str(case.get("log")) and case["expect"].get("fault")
]


@pytest.mark.parametrize("case", OFF_THE_BUS, ids=[case["name"] for case in OFF_THE_BUS])
def test_error_of_the_kernel_log_stays_whichever_answer_but_the_log_is_missing(case):
    door = Withholding(host_of(case))
    (sick,) = faults_in(findings_of(door, ["gpu-errors"]))
    for key in could_be_read(door):
        if key[0] != "query" or key[1][0] == "nvidia-smi":
            after = findings_of(Withholding(door.base, frozenset({key})), ["gpu-errors"])
            assert sick in faults_in(after), key


def test_error_of_the_kernel_log_stays_without_any_answer_of_nvidia_smi_and_of_sysfs_about_that_gpu():
    door = Withholding(host_of(OFF_THE_BUS[0]))
    (sick,) = faults_in(findings_of(door, ["gpu-errors"]))
    of_sysfs = {key for key in could_be_read(door) if f"/{sick}/" in str(key[1])}
    withheld = of_sysfs | {key for key in could_be_read(door) if key[1][:1] == ("nvidia-smi",)}
    assert len(withheld) > 5
    found = findings_of(Withholding(door.base, frozenset(withheld)), ["gpu-errors"])
    assert sick in faults_in(found)
    assert [one for one in found if one.verdict is Verdict.UNKNOWN], (
        "what is not known is reported beside it"
    )
    assert judge(found).fitness is Fitness.UNFIT


OF_GPUS = [
    (rule, case)
    for rule, case in OF_HEALTH
    if rule in {"gpu-errors", "gpu-pcie-link", "gpu-count", "gpu-throttle", "gpu-modes", "gpu-bar1"}
    and case["host"] == "h100-8x-2socket"
    and (case["expect"].get("fault") or case["expect"].get("impairs"))
]


@pytest.mark.parametrize(
    ("rule", "case"), OF_GPUS, ids=[f"{rule}-{case['name']}" for rule, case in OF_GPUS]
)
def test_one_device_of_unknown_class_hides_no_fault_of_another(rule, case):
    params = {rule: case["params"]} if "params" in case else {}
    door = Withholding(host_of(case))
    sick = faults_in(findings_of(door, [rule], params))
    for _, path in could_be_read(door):
        slot, _, name = str(path).removeprefix("/sys/bus/pci/devices/").rpartition("/")
        # One more function that may be a GPU may be the missing one.
        is_counted = rule == "gpu-count" and name == "class"
        if name in {"vendor", "class"} and slot not in sick and not is_counted:
            after = findings_of(Withholding(door.base, frozenset({("read", path)})), [rule], params)
            # Where no GPU is left, one function of an unknown vendor may be one: then it is
            # unknown, never well.
            is_open = name == "vendor" and case["expect"].get("says", "").startswith(
                "no GPU is on the PCI bus"
            )
            assert sick <= faults_in(after) or (
                is_open and judge(after).fitness is Fitness.UNKNOWN
            ), path


@pytest.mark.skipif(not REPORTS, reason="the cases of public reports are not here")
@pytest.mark.parametrize("name", REPORTS)
def test_sick_node_of_a_public_report_never_becomes_fit(name):
    door = Withholding(host_of(REPORTS[name]))
    before = findings_of(door, ASKED)
    if judge(before).fitness not in {Fitness.IMPAIRED, Fitness.UNFIT}:
        return
    for withheld in list(drawn(door, name))[-SETS:]:
        after = judge(findings_of(Withholding(door.base, frozenset(withheld)), ASKED))
        assert after.fitness is not Fitness.FIT, sorted(map(str, withheld))


WITHOUT = {
    "network-rails": r"/infiniband/[^/]+/device/device",
    "network-rdma-health": r"/infiniband/[^/]+/device/device|/infiniband_verbs(?:/uverbs\d+/ibdev)?",
    "network-card-errors": r"/proc/stat",
    "gpu-fabric": r"/sys/bus/pci/devices/[^/]+/(?:class|device)",
}
OF_CARDS = [(rule, case) for rule, case in OF_HEALTH if rule in WITHOUT]


@pytest.mark.parametrize(
    ("rule", "case"), OF_CARDS, ids=[f"{rule}-{case['name']}" for rule, case in OF_CARDS]
)
def test_unread_name_of_a_card_or_unread_boot_makes_no_fault_and_hides_none(rule, case):
    """Each such answer by itself, and all of them: what cannot be compared is unknown."""
    params = {rule: case["params"]} if "params" in case else {}
    door = Withholding(host_of(case))
    before = findings_of(door, [rule], params)
    keys = [key for key in could_be_read(door) if re.search(f"(?:{WITHOUT[rule]})\\Z", str(key[1]))]
    for withheld in (*({key} for key in keys), set(keys)):
        after = findings_of(Withholding(door.base, frozenset(withheld)), [rule], params)
        is_unknown = any(one.verdict is Verdict.UNKNOWN for one in after)
        assert faults_in(after) <= faults_in(before), sorted(withheld)
        assert faults_in(after) or is_unknown or not faults_in(before), sorted(withheld)
