"""What people read, of every host that the tests have: the built ones, the recorded one, the kinds
of servers, the states of a driver, and a record that holds nothing. The text of `check`, `plan`,
`apply`, `driver` and `report`.

A reason is told in people's words, and no line is wider than the terminal, other than what is to be
copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

import pytest

import hosttune.facts
from hosttune.actions.apply import apply
from hosttune.actions.examine import examine
from hosttune.actions.undo import plan_undo
from hosttune.choices.driver_state import UNITS
from hosttune.engine.fleet.fold import FleetAggregator
from hosttune.engine.fleet.seen import seen_of_plan
from hosttune.engine.policy.policy import NO_DRAINS, Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Fact, Facts, RequestedNames
from hosttune.facts.inventory import take_inventory
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import RecordReader
from hosttune.values import Finding, Verdict
from hosttune.views.checked import Checked
from hosttune.views.driver import driver_table, driver_text
from hosttune.views.findings import gather_findings
from hosttune.views.fleet.report import fleet_report
from hosttune.views.page import Page
from hosttune.views.plan import plan_report, undo_report
from hosttune.views.receipt import receipt_report
from hosttune.views.report import check_report
from hosttune.views.terminal import Screen, width_of
from tests.hosts.built import BUILT, RECORDED, reader
from tests.hosts.kinds import NAMES, record_of
from tests.masked_once import mask_once
from tests.rules import test_driver_states as states

CATALOG = builtin_catalog()
POLICY = Policy(today="2026-01-01")
DRIVER = CATALOG.rules["gpu-driver"].defaults
COLUMNS = (60, 80, 100)
TABLES = ("files", "links", "listings", "stats", "lstats", "paths", "spaces", "usages")
HOSTS = {
    **{path.stem: lambda path=path: reader(path) for path in (*BUILT, *RECORDED)},
    **{kind: lambda kind=kind: record_of(kind) for kind in NAMES},
    **{name: lambda one=one: states.reader_of(one) for name, one in states.HOSTS.items()},
    "an empty record": lambda: empty(without=(*TABLES, "queries")),
    "a record without answers": lambda: empty(without=("queries",)),
}


@pytest.fixture(autouse=True)
def masking_once(monkeypatch):
    """A text is on six pages of a host, and on those of most hosts."""
    monkeypatch.setattr("hosttune.host.masking.cleaned.mask_sentence", mask_once)


def empty(without):
    """A record of the largest built host that holds nothing of these."""
    data = dict(reader(states.RECORD).data)
    for table in without:
        data[table] = type(data[table])() if table in data else {}
    return RecordReader(
        {name: value for name, value in data.items() if name != "processes"}, "empty.json"
    )


@cache
def looked_at(name):
    """The session of a host, its plan, the receipt of all of it and the way back."""
    host = Overlay(HOSTS[name]())
    session = examine(host, CATALOG, POLICY)
    plan = session.plan()
    before = take_inventory(session.facts)
    table = driver_table(Facts(HOSTS[name](), RequestedNames(units=frozenset(UNITS))), DRIVER)
    receipt = apply(session, host, plan)
    back = (
        plan_undo(examine(host, CATALOG, POLICY), receipt.run_id).plan if receipt.run_id else None
    )
    return plan, before, table, receipt, back


def texts(name, page) -> Iterator[tuple[str, str]]:
    plan, _, table, receipt, back = looked_at(name)
    half = replace(
        plan,
        interrupted=(
            "run 20261008-220143-9c1e (apply) was interrupted: sudo hosttune apply --yes",
        ),
    )
    yield "check", check_report((Checked(half, page),))
    yield "plan", plan_report(Checked(half, page))
    yield "driver", driver_text(table, page)
    yield "apply", receipt_report(receipt, page, left=plan.findings)
    if back:
        yield "undo", undo_report(back, page, words=f"undo {receipt.run_id}")


@cache
def fleet():
    fold = FleetAggregator(len(HOSTS))
    plans = {}
    for name in HOSTS:
        plan, before, *_ = looked_at(name)
        about = {"host": name, "source": f"{name}.json", "profile": "base", "inventory": before}
        fold.add(seen_of_plan(plan, **about, drains=NO_DRAINS, problems=()))
        plans[plan.digest] = plan.changes
    return fold.result(), plans


def is_copied(line: str) -> bool:
    """A diff, a value, a digest, a command or a line of a policy; or a name that no line is long
    enough for.
    """
    line = re.sub(r"^ *\d+\. ", "", line)  # the number of a step
    start = line.split(maxsplit=1)[0] if line.split() else ""
    words = len(line.split())
    return (
        start in {"+", "-", "@@", "Digest", "digest", "ignore:", "sudo", "hosttune", "printf"}
        or "->" in line
        or words <= 1
    )


def too_wide(text: str, columns: int) -> list[str]:
    return [line for line in text.splitlines() if width_of(line) > columns and not is_copied(line)]


@pytest.mark.parametrize("name", HOSTS)
def test_no_line_is_wider_than_the_terminal(name):
    for columns in COLUMNS:
        for is_verbose in (False, True):
            page = Page(screen=Screen(columns), is_verbose=is_verbose)
            wide = {kind: too_wide(text, columns) for kind, text in texts(name, page)}
            assert {kind: lines for kind, lines in wide.items() if lines} == {}, columns


@pytest.mark.parametrize("columns", COLUMNS)
def test_no_line_of_a_report_on_all_of_them_is_wider_than_the_terminal(columns):
    for is_verbose in (False, True):
        assert (
            too_wide(
                fleet_report(*fleet(), Page(screen=Screen(columns), is_verbose=is_verbose)), columns
            )
            == []
        )


@pytest.mark.parametrize("columns", COLUMNS)
def test_a_name_goes_below_where_it_has_no_room_beside(columns):
    """So that linux-modules-nvidia-580-server-open-6.8.0-60-generic, of 53 letters, is whole at 60
    columns.
    """
    for name in HOSTS:
        text = check_report((Checked(looked_at(name)[0], Page(screen=Screen(columns))),))
        wide = [line for line in text.splitlines() if width_of(line) > columns]
        assert [line for line in wide if 6 + width_of(line.strip()) <= columns] == []


def inside() -> frozenset[str]:
    """`GpuHealth.remap_failed`, `nvidia.silent`: how a program calls each field of a fact."""
    for module in walk_packages(hosttune.facts.__path__, "hosttune.facts."):
        import_module(module.name)
    kinds = [Fact]
    for kind in kinds:
        kinds += [one for one in kind.__subclasses__() if one not in kinds]
    return frozenset(
        f"{owner}.{field}"
        for kind in kinds
        for owner in {kind.__name__, *hosttune.facts.SUBJECTS}
        for field in (*getattr(kind, "__dataclass_fields__", ()), *vars(kind))
        if not field.startswith("_")
    )


INSIDE = inside()
DOTTED = re.compile(r"(?<![\w./-])[A-Za-z_]+\.[a-z_]\w*(?![\w.*-])(?=:)")
OF_PYTHON = re.compile(
    r"\b(?:Unreadable|UnknownFact|Absent|FileValue|None|True|False)\b|<\w+ object|reason='"
)


@pytest.mark.parametrize("name", HOSTS)
def test_nobody_reads_how_a_program_calls_a_fact(name):
    page = Page(screen=Screen(0), is_verbose=True)
    for kind, text in texts(name, page):
        assert [word for word in DOTTED.findall(text) if word in INSIDE] == [], kind
        shown = "\n".join(
            line for line in text.splitlines() if line.split()[:1] not in (["+"], ["-"])
        )
        assert OF_PYTHON.findall(shown) == [], kind


def test_names_of_facts_are_known():
    assert {"GpuHealth.remap_failed", "Driver.runfile", "Spare.all", "nvidia.silent"} <= INSIDE
    assert DOTTED.findall("gpu-errors  0000:1b: GpuHealth.remap_failed: nvidia-smi") == [
        "GpuHealth.remap_failed"
    ]


@pytest.mark.parametrize("name", ["an empty record", "a record without answers"])
def test_what_a_record_lacks_is_named_by_its_file_or_question(name):
    reasons = {one.reason for one in looked_at(name)[0].findings if one.verdict is Verdict.UNKNOWN}
    assert len(reasons) > 1
    assert not [reason for reason in reasons if reason.endswith("not in this record")]


def test_what_is_the_same_of_many_gpus_is_one_line():
    text = dict(texts("upgraded under the loaded module", Page(screen=Screen(0))))["check"]
    lines = [line.strip() for line in text.splitlines() if "Failed to initialize NVML" in line]
    assert [line.split()[:2] for line in lines] == [["UNKNOWN", "gpu-errors"]]
    assert "0000:1b:00.0, 0000:43:00.0 and 6 more: nvidia-smi: Failed" in lines[0]


def test_findings_are_one_only_where_they_say_the_same():
    def one(subject, reason, todo=""):
        return Finding("gpu-errors", subject, Verdict.UNKNOWN, reason=reason, todo=todo)

    slots = [f"0000:{number}:00.0" for number in range(4)]
    same = [one(slot, "no answer") for slot in slots]
    assert [found.subject for found in gather_findings(same)] == [
        f"{', '.join(slots[:3])} and {slots[3]}"
    ]
    assert [found.subject for found in gather_findings(same, most=2)] == [
        f"{slots[0]}, {slots[1]} and 2 more"
    ]
    assert [found.subject for found in gather_findings(same[:3], most=2)] == [
        f"{slots[0]}, {slots[1]} and {slots[2]}"
    ]
    other = [
        *same[:2],
        one(slots[2], "no answer", "reset it"),
        one(slots[3], f"{slots[3]} is lost"),
    ]
    assert [found.subject for found in gather_findings(other)] == [
        f"{slots[0]} and {slots[1]}",
        slots[2],
        slots[3],
    ]


def test_what_was_interrupted_stands_above_that_nothing_is_to_be_changed():
    plan = replace(
        looked_at("no-gpu-debian12")[0], stages=(), interrupted=("run r1 was interrupted",)
    )
    page = Page(screen=Screen(80))
    for text in (plan_report(Checked(plan, page)), check_report((Checked(plan, page),))):
        assert text.index("Attention: run r1") < text.index("nothing to change now")
    assert plan_report(Checked(plan, page)).startswith("Attention: ")
