"""JSON of others that is nested too deeply, or holds a number of thousands of digits, is unknown
and no fault.
"""

from __future__ import annotations

import pytest

from hosttune.cli.common import load_plan
from hosttune.errors import HosttuneError
from hosttune.facts.base import UnknownFact
from hosttune.facts.containers.docker import parse_daemon_json
from hosttune.facts.network.reached import parse_addresses
from hosttune.facts.reading import derive, parse_or_unknown

DEEP = '{"a":' * 100_000
HUGE = '{"a":' + "9" * 5000 + "}"


@pytest.mark.parametrize("text", [DEEP, HUGE], ids=["deep", "huge"])
def test_text_that_json_refuses_is_unknown(text):
    with pytest.raises(UnknownFact, match=r"daemon\.json"):
        derive(text, "/etc/docker/daemon.json", parse_daemon_json)
    with pytest.raises(UnknownFact):
        parse_or_unknown(parse_daemon_json, text)
    with pytest.raises(UnknownFact):
        parse_addresses(text)


def test_plan_that_is_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(DEEP, encoding="utf-8")
    with pytest.raises(HosttuneError, match="not a saved plan"):
        load_plan(str(path))


def test_file_that_is_no_json_is_refused_as_a_plan_in_plain_words(tmp_path):
    path = tmp_path / "plan.txt"
    path.write_text("5 changes", encoding="utf-8")
    with pytest.raises(HosttuneError, match="not a saved plan: it is not JSON"):
        load_plan(str(path))
