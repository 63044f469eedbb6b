"""A record of a host holds what every rule asks of it, however little of it one look took."""

from __future__ import annotations

import json

import pytest

from hosttune.actions.examine import examine, examine_everything
from hosttune.actions.record import take_record
from hosttune.codec import finding_to_json, to_json
from hosttune.engine.catalog import builtin_catalog
from hosttune.engine.policy import Policy
from hosttune.facts import SUBJECTS
from hosttune.host.record import RecordReader, read_record
from tests.hosts.built import BUILT

CATALOG = builtin_catalog()
NONE = Policy(ignore=tuple(CATALOG.rules))  # the least that a look asks by itself
ALL = Policy(select=tuple(CATALOG.rules))
OF_PROCESSES = {"namespaces"}  # of single processes a record keeps nothing


@pytest.mark.parametrize("path", BUILT, ids=lambda path: path.stem)
def test_rules_say_of_a_record_what_they_say_of_the_host(path):
    host = read_record(str(path))
    data = take_record(host, lambda door: examine_everything(door, CATALOG, NONE), share=False, tool_version="0")
    record = RecordReader(json.loads(json.dumps(data)))
    live, replayed = examine(host, CATALOG, ALL), examine(record, CATALOG, ALL)
    for subject in sorted(set(SUBJECTS) - OF_PROCESSES):
        assert to_json(getattr(replayed.facts, subject)) == to_json(getattr(live.facts, subject)), subject
    findings = [[finding_to_json(one) for one in session.plan(prove=False).findings] for session in (replayed, live)]
    assert findings[0] == findings[1]
