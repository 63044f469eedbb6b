"""Hosts that show little of themselves, a chroot or an empty /proc: a rule says unknown there, and
never fails.
"""

from __future__ import annotations

import pytest

from hosttune.engine.decide.evaluate import evaluate
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.facts import Facts
from hosttune.host.overlay.overlay import Overlay
from hosttune.values import FileValue
from tests.hosts.built import BUILT, reader

CATALOG = builtin_catalog()
CHROOT = b"41 40 0:21 / /proc rw,relatime - proc proc rw\n"


def chroot(record) -> dict[str, bytes]:
    return {"/proc/self/mountinfo": CHROOT}


def empty(record) -> dict[str, bytes]:
    return {path: b"" for path in record.data["files"] if path.startswith(("/proc/", "/sys/"))}


@pytest.mark.parametrize("shown", [chroot, empty])
@pytest.mark.parametrize("path", BUILT, ids=lambda path: path.stem)
def test_every_expression_of_a_rule_can_be_worked_out(path, shown):
    record = reader(path)
    door = Overlay(record)
    door.files.update({name: FileValue(text) for name, text in shown(record).items()})
    facts = Facts(door)
    for rule in CATALOG.rules.values():
        evaluate(rule, facts, rule.defaults)
