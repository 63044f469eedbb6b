"""A rule of which nothing is ever applied fails, and is told what to add where."""

from __future__ import annotations

import pytest

from hosttune.engine.rules.catalog import Catalog
from hosttune.engine.rules.lint import checked_rule
from tests.rules.tried import CATALOG, why_untried

HEAD = 'title: x\nrisk: low\ndisturbs: nothing\nsince: "0.1"\ngain: none\nwhy: x\nsources: [x]\n'


def why(wants: str) -> str:
    rule = checked_rule(f"id: site-example\n{HEAD}{wants}\n", "site-example.yaml")
    return why_untried(rule.id, Catalog({**CATALOG.rules, rule.id: rule}, CATALOG.profiles))


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ('sysctl: kernel.panic, exactly: "10"', 'kernel.panic: add its value to SYSCTLS of tests/hosts/machine.py: "kernel.panic": "..."'),
        ('sysfs: /sys/none/such, exactly: "1"', "/sys/none/such: add its value to `files` of a host in tests/hosts/make.py"),
        ("sysctl: vm.swappiness, at_most: 1}\napplies_when:\n  - {if: cpu.cores > 9999, else: few", "write a case in tests/rules/site-example.yaml with `files:`"),
    ],
)  # fmt: skip
def test_rule_that_is_applied_nowhere_is_told_what_to_add(wish, told):
    said = why(f"want:\n  - {{{wish}}}")
    assert told in said
    assert "h100-8x-2socket: " in said
    assert said.endswith("./run test rules -k site-example")


@pytest.mark.parametrize(
    "wants",
    [
        "want:\n  - {sysctl: vm.swappiness, at_most: 1}",
        "expect:\n  - {if: cpu.cores > 0, else: none}",
    ],
)
def test_rule_that_is_applied_or_wants_nothing_is_tried(wants):
    assert why(wants) == ""
