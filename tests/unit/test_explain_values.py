"""No text of a rule gives a value that was not chosen: on every built host and kind of host, for
every rule.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from hosttune.actions.examine import examine
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.values import Disturbs, Risk, Verdict
from hosttune.views import masking
from hosttune.views.explain import Explained, explain_json, explain_rule
from hosttune.views.wording import Wording
from tests.hosts.built import BUILT, RECORDED, reader
from tests.hosts.kinds import NAMES, record_of
from tests.masked_once import mask_once

CATALOG = builtin_catalog()
POLICY = Policy(max_risk=Risk.HIGH, disturb=Disturbs.GPU_WORK, today="2026-01-01").only(
    *CATALOG.rules
)
HOSTS = {**{path.stem: reader for path in (*BUILT, *RECORDED)}, **dict.fromkeys(NAMES, record_of)}
PATHS = {path.stem: path for path in (*BUILT, *RECORDED)}
# What an empty or missing value leaves in a sentence or a command, and a size of nothing.
_HOLE = re.compile(
    r"(?<![\w'\"=%n]) ''(?= |;|$)|\bNone\b|(?<!\w)\(\)|\[\]|\{\}|printf '%s\\n' +\||[=:] *[;,](?!;)|\(, |, ,|; ;|: *$|^ *[;,]"
)
_UNANSWERED = "not in this record: the answer of "  # and then a command, with all its patterns
_NOTHING = re.compile(
    r"\bsize=0|\bat (?:least|most) 0(?:\.0)? ?[KMGT]i?B?\b|\bshould be .*?\b0(?:\.0)? [KMGT]iB\b|<= 0 |remount,size=0"
)


@cache
def in_general(rule):
    """What `explain` says of a rule where no host is."""
    general = Explained(
        CATALOG.rules[rule], Wording(POLICY.params_of(CATALOG.rules[rule], CATALOG)), ()
    )
    return general.ways, explain_json(general)["wants"]


@pytest.fixture
def masking_once(monkeypatch):
    """Most texts are those of all hosts."""
    monkeypatch.setattr(masking, "mask_sentence", mask_once)


def looked_at(name):
    """What `explain` says of each rule there."""
    door = reader(PATHS[name]) if name in PATHS else record_of(name)
    session = examine(door, CATALOG, POLICY)
    findings = session.plan(prove=False).findings
    for rule in CATALOG.rules.values():
        yield rule, explain_rule(rule, session.facts, POLICY, CATALOG, findings)


def told(one, document):
    yield from document["wants"]
    yield from document["by_hand"]["do"]
    yield from document["by_hand"]["undo"]
    for finding in one.findings:
        yield from (finding.reason, finding.todo, finding.hold.detail, *finding.evidence)


@pytest.mark.parametrize("name", HOSTS)
def test_what_was_not_chosen_gives_no_value(name, masking_once):
    for rule, one in looked_at(name):
        document = explain_json(one)
        lines = [
            line for text in told(one, document) for line in text.splitlines()
        ]  # of a way out each is a step
        texts = [line for line in lines if not line.startswith(_UNANSWERED)]
        holes = [text for text in texts if _HOLE.search(text) or _NOTHING.search(text)]
        assert holes == [], (rule.id, holes)
        if one.findings and all(found.verdict is Verdict.NOT_APPLICABLE for found in one.findings):
            assert (one.ways, document["wants"]) == in_general(rule.id), rule.id
            assert one.why_in_general.startswith("not on this host: "), rule.id
