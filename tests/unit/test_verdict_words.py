"""One table of the words of a verdict, from which every view takes them; programs keep the words of
the values.
"""

import re
import runpy
from pathlib import Path

import pytest

from hosttune.actions.trial.state import TrialState
from hosttune.engine.decide.health import Fitness
from hosttune.engine.decide.trial import TrialPart
from hosttune.engine.fleet.seen import OUTCOMES
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.values import Finding, Hold, HoldKind, Plan, Verdict
from hosttune.verdict_words import FITNESS, HOLDS, STATES, run_text, trial_text
from hosttune.views.checked import Checked, about_rules
from hosttune.views.document import Medium
from hosttune.views.findings import ALL, first_clause
from hosttune.views.page import Page
from hosttune.views.report import check_json, check_report
from hosttune.views.terminal import Screen

ROOT = Path(__file__).resolve().parents[2]
VIEWS = ROOT / "hosttune" / "views"
COLLECTION = ROOT / "playbooks/collections/ansible_collections/hosttune/hosttune"
RULES = builtin_catalog().rules
OLD = re.compile(
    r'"(?:Differs|Left alone|Waits|Deferred|As it should be|Does not apply|Unknown|Impaired|Unfit)\b'
    r"|as (?:it|they) should be[\"}]|not applicable here|after a drain|left to others|it may take work|rules? asked"
)  # headings and phrases that the table replaced
DIFFERS = Finding(
    "memory-max-map-count", "", Verdict.DIFFERS, reason="vm.max_map_count should be 1048576"
)
HELD = Finding(
    "storage-noatime",
    "/mnt",
    Verdict.DIFFERS,
    Hold(HoldKind.OWNED, "cloud-init"),
    "/mnt is relatime",
)
BLOCKED = Finding(
    "storage-data-mounts",
    "",
    Verdict.DIFFERS,
    Hold(HoldKind.REFUSED, "no device"),
    "/data is not mounted",
)
OK = Finding("memory-swappiness", "", Verdict.OK)


def checked(*findings, **page):
    plan = Plan("d" * 64, "0.2.0", "2026-11-28T00:00:00+00:00", "", "", (), findings)
    return Checked(plan, Page(host="host", **page), about=about_rules(RULES.values()))


def test_each_state_hold_and_fitness_has_its_words():
    assert set(STATES) >= {
        *OUTCOMES,
        *(one.value for one in Verdict),
        *(group.state for group in ALL),
    }
    assert set(HOLDS) == {one.value for one in HoldKind} - {"none"}
    assert set(FITNESS) == {one.value for one in Fitness}
    labels = [one.label for one in STATES.values()]
    assert len(set(labels)) == len(labels)
    assert max(map(len, labels)) < 8  # a column of eight


@pytest.mark.parametrize("path", sorted(VIEWS.rglob("*.py")), ids=lambda path: path.stem)
def test_no_view_has_words_of_its_own_for_a_verdict(path):
    assert OLD.findall(path.read_text(encoding="utf-8")) == []


def test_line_of_check_begins_with_label_and_rule_and_goes_on_with_the_gain():
    lines = check_report((checked(DIFFERS, HELD, BLOCKED, OK, screen=Screen(100)),)).splitlines()
    at = lines.index("CHANGE  memory-max-map-count  vm.max_map_count should be 1048576")
    assert lines[at + 1] == " " * 22 + "why: avoids failures of programs that map very many regions"
    assert "BLOCKED storage-data-mounts  /data is not mounted" in lines
    assert " " * 22 + "why not: blocked: no device" in lines
    assert "SKIPPED storage-noatime  /mnt is relatime" in lines
    assert " " * 22 + "why not: managed by cloud-init" in lines
    assert "1 ok (-v lists them)." in lines


def test_gain_is_said_once_for_a_rule_and_never_of_what_is_ok():
    text = check_report((checked(DIFFERS, DIFFERS, OK, medium=Medium.MARKDOWN, is_verbose=True),))
    assert text.count("  - why: avoids failures of programs that map very many regions\n") == 1
    assert text.count("why:") == 1
    assert "### To change (1)" in text
    assert "### Ok (1)" in text


def test_programs_keep_their_words():
    body = check_json(checked(DIFFERS, HELD, BLOCKED, OK))
    assert [one["verdict"] for one in body["findings"]] == ["differs", "differs", "differs", "ok"]
    assert [one["hold"]["kind"] for one in body["findings"]] == [
        "none",
        "owned by",
        "refused",
        "none",
    ]


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_clause_of_a_gain_is_a_whole_one(rule):
    clause = first_clause(rule.gain)
    assert clause in " ".join(rule.gain.split())
    assert clause.count("(") == clause.count(")")
    assert not clause.endswith((",", ":", ";"))


@pytest.mark.parametrize(
    ("gain", "clause"),
    [
        ("none in speed; fewer lost packets", "fewer lost packets"),
        ("none", "none"),
        ("half. None otherwise", "half"),
        ("a job (of two, or more) that waits for memory runs many times slower than it should, and is killed in the end",
         "a job (of two, or more) that waits for memory runs many times slower than it should"),
    ],
)  # fmt: skip
def test_first_clause_names_a_gain(gain, clause):
    assert first_clause(gain) == clause


def test_words_of_the_ansible_collection_are_those_of_the_table():
    """It runs on a controller without hosttune, so it has the few that it needs once more."""
    words = runpy.run_path(str(COLLECTION / "plugins" / "plugin_utils" / "classes.py"))
    assert {kind: HOLDS[kind] for kind in words["SAID"]} == words["SAID"]
    phrases = [STATES[one].phrase for one in ("refused", "left alone", "waits", "unknown")]
    assert [words[one] for one in ("REFUSED", "ALONE", "WAITS", "UNKNOWN")] == phrases


OTHER_WORDS_OF_A_ROLLBACK = re.compile(
    r"\b(?:comes?|came|goes|went|t[ao]ken?|takes) (?:it |them )?back\b"
)


@pytest.mark.parametrize("state", [*TrialState, *TrialPart], ids=str)
def test_a_rollback_has_one_name(state):
    """`rolled back` is what hosttune does, `undone` what a person does; JSON keeps its words."""
    assert not OTHER_WORDS_OF_A_ROLLBACK.search(
        f"{trial_text(state.value)}, {run_text(state.value)}"
    )
