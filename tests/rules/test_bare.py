"""Hosts that show little of themselves, a chroot or an empty /proc: a rule says unknown there, and never fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosttune.engine.catalog import builtin_catalog
from hosttune.engine.evaluate import evaluate
from hosttune.facts import Facts
from hosttune.host.overlay import Overlay
from hosttune.host.record import read_record
from hosttune.values import FileValue

RECORDS = sorted((Path(__file__).resolve().parents[1] / "hosts").glob("*.json"))
CATALOG = builtin_catalog()
CHROOT = b"41 40 0:21 / /proc rw,relatime - proc proc rw\n"


def chroot(record) -> dict[str, bytes]:
    return {"/proc/self/mountinfo": CHROOT}


def empty(record) -> dict[str, bytes]:
    return {path: b"" for path in record.data["files"] if path.startswith(("/proc/", "/sys/"))}


@pytest.mark.parametrize("shown", [chroot, empty])
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_every_expression_of_a_rule_can_be_worked_out(path, shown):
    record = read_record(str(path))
    door = Overlay(record)
    door.files.update({name: FileValue(text) for name, text in shown(record).items()})
    facts = Facts(door)
    for rule in CATALOG.rules.values():
        evaluate(rule, facts, rule.defaults)
