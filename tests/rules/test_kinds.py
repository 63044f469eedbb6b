"""What `base` without a policy says and does on each kind of host of `tests/hosts/kinds`: `tests/rules/kinds/<kind>.yaml`.

changes: [memory-max-map-count]    # the rules that would change something now; all of them, so a new one needs a decision
says:                              # what must be said
- {rule: gpu-driver, verdict: ok, hold: owned by, says: a phrase}   # some finding of the rule; words are optional
never: [mkfs]                      # what must not stand anywhere in check, plan or the driver's page, in any case
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hosttune.actions.apply import apply
from hosttune.actions.examine import examine
from hosttune.actions.health import ask, health_rules
from hosttune.actions.undo import plan_undo, undo
from hosttune.engine.decide.health import judge
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import FileValue, Risk
from tests.hosts.kinds import NAMES, record_of
from tests.rules.proof import failing
from tests.yaml_files import read_yaml

FOLDER = Path(__file__).resolve().parent / "kinds"
CATALOG = builtin_catalog()
BASE = Policy(today="2026-01-01")
EXPECTED = {path.stem: read_yaml(path) for path in sorted(FOLDER.glob("*.yaml"))}
SAID = [(kind, one) for kind, expected in EXPECTED.items() for one in expected["says"]]


@cache
def plan_of(kind: str):
    return examine(Overlay(record_of(kind)), CATALOG, BASE).plan()


def words_of(finding) -> str:
    return " ".join((finding.reason, *finding.evidence, str(finding.hold), finding.todo))


def test_every_kind_has_its_expectations():
    assert tuple(EXPECTED) == NAMES


@pytest.mark.parametrize("kind", NAMES)
def test_what_base_would_change(kind):
    plan = plan_of(kind)
    assert failing(plan) == []
    assert sorted({change.rule for change in plan.changes}) == sorted(EXPECTED[kind]["changes"])


@pytest.mark.parametrize(("kind", "one"), SAID, ids=[f"{kind}-{one['rule']}" for kind, one in SAID])
def test_what_must_be_said(kind, one):
    found = [finding for finding in plan_of(kind).findings if finding.rule == one["rule"]]
    told = [
        (finding.verdict.value, finding.hold.kind.value if finding.hold else "", words_of(finding))
        for finding in found
    ]
    assert any(
        verdict == one.get("verdict", verdict)
        and hold == one.get("hold", hold)
        and one.get("says", "") in words
        for verdict, hold, words in told
    ), told


@pytest.mark.parametrize("kind", NAMES)
def test_what_must_not_be_said(kind):
    text = " ".join(
        f"{finding.rule} {words_of(finding)}" for finding in plan_of(kind).findings
    ).lower()
    assert [phrase for phrase in EXPECTED[kind]["never"] if phrase.lower() in text] == []


@pytest.mark.parametrize("kind", NAMES)
def test_base_converges_and_comes_back(kind):
    """All of it at once, whatever its risk: the second plan is empty, and undo leaves every byte as
    it was.
    """
    policy = replace(BASE, max_risk=Risk.HIGH)
    host = Overlay(record_of(kind))
    session = examine(host, CATALOG, policy)
    receipt = apply(session, host, session.plan())
    assert receipt.failed == ()
    assert examine(host, CATALOG, policy).plan().changes == ()
    if receipt.run_id:
        session = examine(host, CATALOG, policy)
        assert undo(session, host, plan_undo(session, receipt.run_id)).failed == ()
    before = record_of(kind)
    for path, value in host.files.items():
        if not path.startswith(("/var/lib/hosttune/", "/proc/")):
            assert (value.content if isinstance(value, FileValue) else value) == before.read(
                path
            ), path


@pytest.mark.parametrize("kind", NAMES)
def test_healthy_kind_is_fit_and_one_without_a_driver_is_not(kind):
    policy = replace(BASE, sole=health_rules(CATALOG, BASE))
    health = judge(ask(examine(Overlay(record_of(kind)), CATALOG, policy, collect=False), 60))
    assert [(str(point.fitness), point.rule) for point in health.points] == (
        [("unfit", "gpu-driver")] if kind == "l4_vm" else []
    )
