"""`hosttune reboot-required`: yes, no, not known."""

from __future__ import annotations

import json

import pytest

from hosttune.cli import app
from hosttune.engine.decide.reboot import can_wait, reboot_answer
from hosttune.engine.rules.catalog import load_catalog
from hosttune.values import Finding, Hold, HoldKind, Verdict
from tests.hosts.built import BUILT
from tests.unit.fake_reader import FakeReader
from tests.unit.schemas import faults

CATALOG = load_catalog(FakeReader({}))
TMPFS, SWAPPINESS = CATALOG.rules["storage-tmp-tmpfs"], CATALOG.rules["memory-swappiness"]
WAITS = Finding(
    TMPFS.id, "/tmp", Verdict.DIFFERS, Hold(HoldKind.WAITING, "a reboot"), reason="/tmp is set up"
)
BLOCKS = Finding("gpu-driver", "", Verdict.DIFFERS, reason="no module", blocks_reboot=True)


def required(*findings: Finding) -> bool | None:
    return reboot_answer(findings, (TMPFS, SWAPPINESS)).required


def test_what_waits_makes_a_reboot_required():
    answer = reboot_answer([WAITS], (TMPFS,))
    assert (answer.required, answer.reasons) == (True, ("storage-tmp-tmpfs: /tmp: /tmp is set up",))


def test_boot_that_makes_things_worse_is_never_asked_for():
    answer = reboot_answer([WAITS, BLOCKS], (TMPFS,))
    assert (answer.required, answer.head) == (None, "no reboot before this is solved:")
    assert answer.reasons == ("gpu-driver: no module",)


def test_unknown_counts_where_the_rule_can_wait_for_a_boot():
    assert required(Finding(TMPFS.id, "", Verdict.UNKNOWN, reason="needs root")) is None
    assert required(Finding(SWAPPINESS.id, "", Verdict.UNKNOWN, reason="needs root")) is False
    assert required(Finding(TMPFS.id, "", Verdict.UNKNOWN, Hold(HoldKind.DEFERRED))) is False
    assert required(Finding(TMPFS.id, "", Verdict.UNKNOWN, reason="needs root"), WAITS) is True


def test_nothing_that_waits_is_no():
    assert (
        required(Finding(TMPFS.id, "", Verdict.DIFFERS), Finding(SWAPPINESS.id, "", Verdict.OK))
        is False
    )
    assert required() is False


@pytest.mark.parametrize("name", ["kernel-iommu", "gpu-driver-health", "storage-tmp-tmpfs"])
def test_rules_that_can_wait(name):
    assert can_wait(CATALOG.rules[name])


@pytest.mark.parametrize("name", ["memory-swappiness", "services-time-sync"])
def test_rules_that_cannot_wait(name):
    assert not can_wait(CATALOG.rules[name])


@pytest.mark.parametrize("record", BUILT, ids=lambda path: path.stem)
def test_command_says_the_same_as_the_metrics(record, capsys):
    status = app.run(["reboot-required", "--host", str(record), "--format", "json"])
    data = json.loads(capsys.readouterr().out)
    assert faults(data, "reboot-required") == []
    assert status == {True: 0, False: 1, None: 2}[data["required"]]
    app.run(["check", "--host", str(record), "--format", "prometheus"])
    metrics = capsys.readouterr().out
    assert ("\nhosttune_reboot_required 1\n" in metrics) is (data["required"] is True)
    assert app.run(["reboot-required", "--host", str(record)]) == status
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(data["reasons"])
