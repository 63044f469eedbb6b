"""A record of a host holds what every rule asks of it, however little of it one look took."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path

import pytest

import hosttune.facts
import hosttune.rules
from hosttune.actions.examine import examine, examine_everything
from hosttune.actions.record import encode as record_encode
from hosttune.actions.record.commands import UNIT_KEYS
from hosttune.actions.record.encode import record_text
from hosttune.actions.record.record import take_record
from hosttune.codec import finding_to_json, to_json
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.errors import HosttuneError
from hosttune.facts import SUBJECTS
from hosttune.facts.kernel.kernel_log import JOURNAL
from hosttune.host.record import record as host_record
from hosttune.host.record.record import RecordingReader, RecordReader, read_record
from hosttune.regex import regex
from hosttune.values import Unreadable
from tests.hosts.built import BUILT, RECORDED
from tests.unit.fake_reader import FakeReader

CATALOG = builtin_catalog()
ASKED = regex(r"[\w@.-]+\.(?:service|timer|mount|slice|socket)/[A-Z]\w+/([A-Z]\w+)")
NONE = Policy(ignore=tuple(CATALOG.rules))  # the least that a look asks by itself
ALL = Policy(select=tuple(CATALOG.rules))
OF_PROCESSES = {"namespaces"}  # of single processes a record keeps nothing


@pytest.mark.parametrize("path", BUILT, ids=lambda path: path.stem)
def test_rules_say_of_a_record_what_they_say_of_the_host(path):
    host = read_record(str(path))
    data = take_record(
        host, lambda door: examine_everything(door, CATALOG, NONE), share=False, tool_version="0"
    )
    record = RecordReader(json.loads(json.dumps(data)))
    live, replayed = examine(host, CATALOG, ALL), examine(record, CATALOG, ALL)
    for subject in sorted(set(SUBJECTS) - OF_PROCESSES):
        assert to_json(getattr(replayed.facts, subject)) == to_json(getattr(live.facts, subject)), (
            subject
        )
    findings = [
        [finding_to_json(one) for one in session.plan(prove=False).findings]
        for session in (replayed, live)
    ]
    assert findings[0] == findings[1]


def _verdicts(record, *, share: bool) -> list[tuple[str, str, str, int]]:
    data = take_record(
        record, lambda door: examine_everything(door, CATALOG, NONE), share=share, tool_version="0"
    )
    findings = (
        examine(RecordReader(json.loads(json.dumps(data))), CATALOG, ALL).plan(prove=False).findings
    )
    told = (
        (one.rule, one.verdict.value, one.hold.kind.value if one.hold else "", len(one.changes))
        for one in findings
    )
    return sorted(told)


@pytest.mark.parametrize("path", [*BUILT, *RECORDED], ids=lambda path: path.stem)
def test_rules_decide_on_a_shared_record_as_on_one_that_is_not(path):
    record = RecordReader(
        read_record(str(path)).data
    )  # called as it was, not by its file, which a record is redacted by
    assert _verdicts(record, share=True) == _verdicts(record, share=False)


def test_shared_record_keeps_the_keys_of_units_that_rules_ask_for():
    rules = "".join(
        path.read_text(encoding="utf-8")
        for path in Path(hosttune.rules.__path__[0]).glob("*/*.yaml")
    )
    asked = set(ASKED.findall(rules))
    assert asked
    assert asked <= UNIT_KEYS


def test_record_leaves_out_the_longest_listing_rather_than_be_longer_than_its_reader_takes(
    monkeypatch,
):
    monkeypatch.setattr(record_encode, "LIMIT", 20_000)
    names = {f"/dev/shm/{number:0200}": "" for number in range(200)}
    host = FakeReader({"/etc/hostname": "a" * 9000, "/etc/fstab": "", **names})

    def collect(door):
        assert len(door.list("/dev/shm")) == 200
        assert door.list("/etc") == ("fstab", "hostname")

    text, left_out = record_text(take_record(host, collect, share=False, tool_version="0"))
    assert left_out == ("/dev/shm",)
    assert len(text) < 20_000
    record = RecordReader(json.loads(text))
    assert record.list("/etc") == ("fstab", "hostname")
    assert record.read("/etc/hostname") == b"a" * 9000
    assert isinstance(record.list("/dev/shm"), Unreadable)
    monkeypatch.setattr(host_record, "_MOST_LISTED", 39_999)
    assert isinstance(RecordingReader(host).list("/dev/shm"), Unreadable)
    monkeypatch.setattr(record_encode, "LIMIT", 1000)
    with pytest.raises(HosttuneError, match="larger"):
        record_text(
            take_record(host, lambda door: door.list("/etc"), share=False, tool_version="0")
        )


@pytest.mark.parametrize(
    ("tag", "kept"),
    [
        ("7783-7084-3265-9085-8269-3286-77", "7783-7084-3265-9085-8269-3286-77"),
        ("OracleCloud.com", "OracleCloud.com"),
        ("OracleCloud.com 4711", "(masked)"),
        ("CZJ1234567", "(masked)"),
    ],
)
def test_asset_tag_stays_in_a_record_where_it_names_a_cloud_and_is_no_serial_number(tag, kept):
    path = "/sys/class/dmi/id/chassis_asset_tag"
    host = FakeReader(files={path: f"{tag}\n"})
    data = take_record(host, lambda door: door.read(path), share=True, tool_version="0")
    assert data["files"][path].strip() == kept


def test_every_reader_of_the_kernel_log_finds_its_lines_in_a_record():
    names = (one.name for one in pkgutil.walk_packages(hosttune.facts.__path__, "hosttune.facts."))
    choosers = {getattr(importlib.import_module(name), "choose_lines", None) for name in names} - {
        None
    }
    assert len(choosers) > 2
    assert choosers <= set(record_encode._CHOOSERS)


def test_a_record_keeps_the_kernel_log_in_its_order():
    """What a machine check says before init runs is of the boot that ended with it."""
    now = 1_780_000_000
    lines = [
        f"{now}.1 kernel: Linux version 6.8.0-60-generic (a@b)",
        f"{now}.2 kernel: mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 4: be00000000800400",
        f"{now}.3 kernel: Run /init as init process",
        f"{now}.4 kernel: nvme nvme1: controller is down; will reset: CSTS=0x3",
    ]
    host = FakeReader(queries={JOURNAL: "".join(f"{line}\n" for line in reversed(lines))})
    data = take_record(host, lambda door: door.query(JOURNAL), share=False, tool_version="0")
    kept = RecordReader(json.loads(json.dumps(data))).query(JOURNAL).stdout.decode()
    assert [line for line in kept.splitlines() if line in lines] == lines[::-1]


def test_a_record_keeps_how_often_a_drive_was_reset_and_that_a_table_was_full():
    now = 1_780_000_000
    lines = [
        *(
            f"{now - 4000 + 900 * n}.1 kernel: nvme nvme1: controller is down; will reset: CSTS=0x3"
            for n in range(3)
        ),
        f"{now - 60}.1 kernel: nf_conntrack: nf_conntrack: table full, dropping packet",
    ]
    journal = "".join(f"{line}\n" for line in reversed(lines))
    host = FakeReader(queries={JOURNAL: journal})
    data = take_record(host, lambda door: door.query(JOURNAL), share=False, tool_version="0")
    kept = RecordReader(json.loads(json.dumps(data))).query(JOURNAL).stdout.decode()
    assert kept.count("controller is down") == 3
    assert "table full" in kept
