"""Rules that contradict each other hold themselves by name, and nothing else."""

from __future__ import annotations

import pytest

from hosttune.actions.apply import apply
from hosttune.actions.examine import examine
from hosttune.actions.undo import plan_undo, undo
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import assemble_catalog, builtin_catalog
from hosttune.engine.rules.declared import DataMount, Declared
from hosttune.engine.rules.lint import checked_rule
from hosttune.errors import HosttuneError
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.record.record import read_record
from hosttune.resources import address_kinds
from hosttune.values import FileValue, HoldKind, Verdict
from hosttune.views.summary import exit_status
from tests.hosts.built import HOSTS
from tests.rules.proof import failing

H100 = str(HOSTS / "h100-8x-2socket.json")
RULE = """\
id: {id}
title: What the site wants
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: the handbook says so
sources: [site handbook]
want:
{want}
"""


def id_of(name: str) -> str:
    return name.replace("_", "-")


def session(door, **wants: str):
    """A session with these rules of the site besides those of base: `site_a="vm.swappiness at_least
    50"`.
    """
    rules = []
    for name, text in wants.items():
        lines = [one.split() for one in text.split(", ")]
        want = "\n".join(
            f"  - sysctl: {key}\n    {operator}: {value}" for key, operator, value in lines
        )
        rules.append(checked_rule(RULE.format(id=id_of(name), want=want), f"{id_of(name)}.yaml"))
    catalog = assemble_catalog(
        {**builtin_catalog().rules, **{rule.id: rule for rule in rules}}, builtin_catalog().profiles
    )
    return examine(
        door, catalog, Policy(select=tuple(rule.id for rule in rules), today="2026-01-01")
    )


def held(plan) -> dict[str, str]:
    return {
        one.rule: one.hold.detail
        for one in plan.findings
        if one.hold.kind is HoldKind.REFUSED
        and one.verdict is Verdict.DIFFERS
        and "contradicts" in one.hold.detail
    }


def planned(plan) -> set[str]:
    return {change.rule for change in plan.changes}


@pytest.fixture
def others():
    """The rules that base changes on this host."""
    return planned(session(read_record(H100)).plan())


def test_bounds_that_nothing_satisfies_hold_both_rules_and_no_other(others):
    overlay = Overlay(read_record(H100))
    overlay.files["/proc/sys/vm/swappiness"] = FileValue(b"30\n")
    plan = session(overlay, site_a="vm.swappiness at_least 50").plan()
    what = "sysctl vm.swappiness (at_most 10, at_least 50)"
    assert held(plan) == {
        "site-a": f"it contradicts memory-swappiness on {what}",
        "memory-swappiness": f"it contradicts site-a on {what}",
    }
    assert planned(plan) == others - {"memory-swappiness"} != set()
    assert {one.rule for one in failing(plan)} == set(
        held(plan)
    )  # what the rings ask of every plan sees it
    assert all("ignore one of them" in one.todo for one in plan.findings if one.rule in held(plan))
    assert exit_status(plan, strict=False) == 1


def test_rule_that_has_its_value_is_ok_and_the_other_is_held_by_its_name(others):
    plan = session(
        read_record(H100), site_a="vm.swappiness exactly 60"
    ).plan()  # as the kernel has it
    assert set(held(plan)) == {"memory-swappiness", "site-a"}  # no file of the boot says 60 yet
    assert planned(plan) == others - {"memory-swappiness"}


def test_third_rule_on_the_same_key_goes_its_way(others):
    plan = session(
        read_record(H100), site_a="vm.dirty_background_ratio at_least 50", site_b="vm.dirty_background_ratio at_most 5",
        site_c="vm.dirty_background_ratio at_least 60", site_d="vm.min_free_kbytes at_least 200000",
    ).plan()  # fmt: skip
    assert held(plan)["site-b"].startswith(
        "it contradicts site-a and site-c on sysctl vm.dirty_background_ratio"
    )
    assert held(plan)["site-c"].startswith("it contradicts site-b on sysctl")
    assert planned(plan) == others | {"site-d"}


def test_rule_that_contradicts_itself_holds_itself(others):
    plan = session(
        read_record(H100), site_a="vm.swappiness at_least 50, vm.swappiness at_most 40"
    ).plan()
    assert "itself" in held(plan)["site-a"] or "memory-swappiness" in held(plan)["site-a"]
    assert planned(plan) == others - {"memory-swappiness"}


def test_rules_that_undo_each_other_are_found_by_trying_them(others):
    """vm.dirty_bytes and vm.dirty_ratio are one setting: each one that is set takes the other one
    away.
    """
    plan = session(
        read_record(H100),
        site_a="vm.dirty_bytes exactly 1073741824",
        site_b="vm.dirty_ratio exactly 7",
    ).plan()
    assert set(held(plan)) == {"site-a", "site-b"}
    assert "site-b" in held(plan)["site-a"]
    assert "site-a" in held(plan)["site-b"]
    assert planned(plan) == others


def test_rule_that_fails_by_itself_is_held_alone(others, monkeypatch):
    kind = address_kinds()["sysctl"]
    write = kind.write

    def losing(writer, change):
        if change.rule == "site-a":
            return
        write(writer, change)

    monkeypatch.setattr(type(kind), "write", lambda _, writer, change: losing(writer, change))
    plan = session(read_record(H100), site_a="vm.min_free_kbytes at_least 200000").plan()
    (finding,) = [one for one in plan.findings if one.rule == "site-a"]
    assert finding.hold.detail == "vm.min_free_kbytes still differs after it was set"
    assert "ignore: [site-a]" in finding.todo
    assert planned(plan) == others


def test_the_others_are_made_and_the_second_run_changes_nothing(others):
    overlay = Overlay(read_record(H100))
    first = session(overlay, site_a="vm.swappiness at_least 70")
    plan = first.plan()
    receipt = apply(first, overlay, plan)
    assert receipt.verified
    assert {one.change.rule for one in receipt.outcomes} == others - {"memory-swappiness"}
    again = session(overlay, site_a="vm.swappiness at_least 70").plan()
    assert again.changes == ()
    assert set(held(again)) == {"site-a", "memory-swappiness"}


def test_rule_adds_to_its_file_what_a_later_stage_brings():
    """The disk that is mounted gets its line beside the others: no rule contradicts another."""
    policy = Policy(
        select=("storage-data-mounts", "storage-readahead"),
        declared=Declared((DataMount("UUID=d2-7e", "/scratch", "", ("noatime",)),)),
        params={"storage-readahead": {"targets": ["/data", "/scratch"]}},
        today="2026-01-01",
    )
    overlay = Overlay(read_record(H100))
    first = examine(overlay, builtin_catalog(), policy)
    plan = first.plan()
    assert held(plan) == {}
    written = [
        change.after
        for change in plan.changes
        if change.address.name.endswith("storage-readahead.rules")
    ]
    lines = [
        one.content.decode().count("read_ahead_kb") for one in written if isinstance(one, FileValue)
    ]
    assert lines == [1, 2]
    assert apply(first, overlay, plan).verified
    assert examine(overlay, builtin_catalog(), policy).plan().changes == ()
    last = examine(overlay, builtin_catalog(), policy)
    receipt = undo(last, overlay, plan_undo(last, None))
    assert receipt.failed == ()


def test_failure_in_the_proof_is_not_hidden(monkeypatch):
    def broken(*_):
        raise HosttuneError("boom")

    monkeypatch.setattr(type(address_kinds()["sysctl"]), "write", broken)
    plan = session(read_record(H100)).plan()
    (finding,) = [one for one in plan.findings if one.rule == "memory-swappiness"]
    assert finding.hold.detail == "boom"
