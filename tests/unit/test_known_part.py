"""A list of which a part could not be read: what is known decides where it can, and all else is
unknown.
"""

from __future__ import annotations

import json

import pytest

from hosttune.codec import to_json
from hosttune.engine.decide.evaluate import evaluate
from hosttune.engine.expressions.expression import compile_expression
from hosttune.engine.rules.rule import build_rule
from hosttune.engine.rules.yamlio import load_document
from hosttune.errors import Where
from hosttune.facts import Facts
from hosttune.facts.base import (
    Fact,
    KnownPart,
    UnknownFact,
    any_known,
    keep_known,
    known_items,
    known_part,
    make_unread,
)
from hosttune.frozen import frozen
from hosttune.values import Verdict
from tests.unit.fake_reader import FakeReader

WHY = "permission denied"
PART = known_part((1, 2), UnknownFact(WHY))
WHERE = Where("test")


@frozen
class Disk(Fact):
    name: str
    errors: int = 0


@frozen
class Disks(Fact):
    all: tuple[Disk, ...]


DISKS = {"disks": Disks(known_part((Disk("sda"), Disk("sdb", 7)), UnknownFact(WHY)))}


def test_known_item_decides():
    assert any(item == 2 for item in PART)
    assert not all(item == 1 for item in PART)
    assert 1 in PART
    assert bool(PART)


@pytest.mark.parametrize(
    "ask",
    [
        tuple, sorted, len, sum, list, set,
        lambda part: part[0],
        lambda part: part + (3,),  # noqa: RUF005 - the operator is meant
        lambda part: (3, *part),
        lambda part: (3,) + part,  # noqa: RUF005 - the operator is meant
        lambda part: part == (1, 2),
        lambda part: part != (1, 2),
        lambda part: 3 in part,
        lambda part: any(item == 3 for item in part),
        lambda part: all(item < 3 for item in part),
        lambda part: ", ".join(map(str, part)),
        lambda part: dict.fromkeys(part, 1),
    ],
)  # fmt: skip
def test_what_needs_the_whole_list_is_unknown(ask):
    with pytest.raises(UnknownFact, match=WHY):
        ask(PART)


def refuse_odd(item):
    if item % 2:
        raise UnknownFact(WHY)
    return (item,)


def test_keep_known_keeps_what_can_be_made():
    assert keep_known(refuse_odd, (2, 4)) == (2, 4)
    assert keep_known(refuse_odd, (1, 2, 3, 4)) == KnownPart((2, 4), WHY)
    assert keep_known(lambda item: (item,), PART) == PART
    with pytest.raises(UnknownFact, match=WHY):
        keep_known(refuse_odd, (1, 3))
    assert known_items(PART) == [1, 2]


def test_any_known_looks_past_what_is_unknown():
    assert any_known(lambda item: refuse_odd(item) == (2,), (1, 2))
    with pytest.raises(UnknownFact, match=WHY):
        any_known(lambda item: refuse_odd(item) == (4,), (1, 2))
    assert not any_known(lambda item: refuse_odd(item) == (4,), (2, 6))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("any(d.errors > 0 for d in disks.all)", True),
        ("all(d.errors == 0 for d in disks.all)", False),
        ("len(disks.all) > 0", True),
        ("len(disks.all) == 0", False),
        ("0 == len(disks.all)", False),
        ("len(disks.all) >= 2", True),
        ("len(disks.all) < 2", False),
        ("len(disks.all) <= 1", False),
        ("len(disks.all) != 1", True),
        ("len([d for d in disks.all if d.errors > 0]) == 0", False),
        ("'sdb' in [d.name for d in disks.all]", True),
        ("'sdb' not in [d.name for d in disks.all]", False),
        ("0 < len(disks.all)", True),
    ],
)
def test_known_part_decides_an_expression(text, value):
    assert compile_expression(text, WHERE).evaluate(DISKS) is value


@pytest.mark.parametrize(
    "text",
    [
        "any(d.errors > 9 for d in disks.all)",
        "all(d.errors < 9 for d in disks.all)",
        "len(disks.all)",
        "len(disks.all) == 2",
        "len(disks.all) > 2",
        "len(disks.all) <= 2",
        "len(disks.all) < 9",
        "len([d for d in disks.all if d.errors > 9]) == 0",
        "len(disks.all) + 1 > 0",
        "disks.all[0].name",
        "join([d.name for d in disks.all])",
        "[d.name for d in disks.all]",
        "[d.name for d in disks.all] == ['sda', 'sdb']",
        "[d.name for d in disks.all] + ['x']",
        "sorted([d.name for d in disks.all])",
        "'x' in [d.name for d in disks.all]",
        "sum(d.errors for d in disks.all)",
        "len([[e.name for e in disks.all] for d in disks.all]) == 0",
    ],
)
def test_known_part_that_does_not_decide_is_unknown(text):
    with pytest.raises(UnknownFact, match=WHY):
        compile_expression(text, WHERE).evaluate(DISKS)


def test_facts_show_the_known_part_and_why_there_may_be_more():
    shown = json.loads(json.dumps(to_json(DISKS["disks"])))
    assert [one.get("name") for one in shown["all"]] == ["sda", "sdb", None]
    assert shown["all"][2] == {"type": "unreadable", "reason": WHY}


RULE = """id: storage-example
title: Disk errors
risk: low
disturbs: nothing
since: "0.1"
verified: docs
gain: none
why: none
sources: [none]
expect:
  - if: {test}
    else: "{said}"
    do: "look at {said}"
    fault: {fault}
"""


def findings_of(rule, disks, head=""):
    facts = Facts(FakeReader({}))
    facts.__dict__["disks"] = disks
    document = load_document(rule.replace("expect:", f"{head}expect:"), "storage-example.yaml")
    return evaluate(build_rule(document, is_builtin=False), facts, {}).findings


def rule_with(test, said, fault="true"):
    return RULE.format(test=json.dumps(test), said=said, fault=fault)


def test_rule_judges_the_known_items():
    rule = rule_with("item.errors == 0", "{{ item.name }} has {{ item.errors }} errors")
    found = findings_of(rule, DISKS["disks"], "for_each: disks.all\n")
    assert [(one.subject, one.is_fault, one.reason) for one in found] == [
        ("sdb", True, "sdb has 7 errors"),
        ("", False, WHY),
    ]
    sound = Disks(known_part((Disk("sda"),), UnknownFact(WHY)))
    assert [one.verdict for one in findings_of(rule, sound, "for_each: disks.all\n")] == [
        Verdict.UNKNOWN
    ]


def test_words_of_a_fault_name_the_known_part_and_why_there_may_be_more():
    rule = rule_with("len(disks.all) == 0", "found {{ join([d.name for d in disks.all]) }}")
    (found,) = findings_of(rule, DISKS["disks"])
    assert found.is_fault
    assert found.reason == f"found sda, sdb (perhaps more: {WHY})"
    assert found.todo == "look at found sda, sdb"


def test_fault_is_kept_where_its_words_are_unknown():
    disks = Disks((Disk("sda", make_unread(WHY)),))
    (found,) = findings_of(
        rule_with("len(disks.all) == 0", "{{ disks.all[0].errors }} errors"), disks
    )
    assert found.is_fault
    assert found.reason == f"Disk errors: a fault, but its details are unknown: {WHY}"
    assert found.todo == ""


def test_advice_whose_words_are_unknown_is_unknown():
    disks = Disks((Disk("sda", make_unread(WHY)),))
    (found,) = findings_of(
        rule_with("len(disks.all) == 0", "{{ disks.all[0].errors }} errors", "false"), disks
    )
    assert (found.verdict, found.reason) == (Verdict.UNKNOWN, WHY)
