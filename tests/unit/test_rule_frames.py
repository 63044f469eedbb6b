"""A rule is begun for its kind of wish or for advice; lint finds what is not written yet; `explain
--source` shows the file of a finished one; `rules parts` and `facts` list what a rule is made of.
"""

from __future__ import annotations

import json
import re

import pytest
import yaml

from hosttune import textfiles
from hosttune.cli import app
from hosttune.cli.rule_files import new_rule
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.rules.lint import PLACEHOLDER, checked_rule, fact_types, lint_faults
from hosttune.engine.rules.yamlio import load_document
from hosttune.facts.memory.memory import Memory
from hosttune.facts.memory.reclaim import Reclaim
from hosttune.resources import wish_kinds
from hosttune.views.fact_words import field_words, read_meanings
from tests.hosts.built import HOSTS
from tests.unit.schemas import faults

H100 = str(HOSTS / "h100-8x-2socket.json")
CUSTOM = """\
id: site-example
title: An \\e[31mexample
risk: low
disturbs: nothing
since: "0.1"
gain: none
why: |
  x
sources: [x]
want:
  - {sysctl: vm.swappiness, at_most: 1}
"""


@pytest.fixture
def run(capsys):
    def started(*words):
        status = app.run([str(word) for word in words])
        return status, *capsys.readouterr()

    return started


@pytest.mark.parametrize("kind", [None, *wish_kinds()])
def test_frame_is_a_rule_of_that_kind_and_lint_finds_all_that_is_to_be_written(kind):
    (text, cases) = new_rule("site-example", kind).values()
    rule = checked_rule(text, "site-example.yaml")
    assert [wish.kind for wish in rule.want] == ([] if kind is None else [kind])
    assert bool(rule.expect) == (kind is None)
    every = lint_faults(load_document(text, "site-example.yaml"))
    faults = [one for one in every if "is not written yet" in str(one)]
    fields = [line.partition("#")[0] for line in text.splitlines()]
    assert len(faults) == sum(PLACEHOLDER in field for field in fields) >= 5
    assert all(fields[fault.where.line - 1 : fault.where.line + 1] for fault in faults)
    verdict = yaml.safe_load(cases)[0]["expect"]["verdict"]
    assert verdict == ("advice" if kind is None else "differs")


def test_frame_tells_every_key_of_its_kind_and_a_rule_that_has_it():
    for name, kind in wish_kinds().items():
        text = new_rule("site-example", name)["hosttune/rules/site/site-example.yaml"]
        assert [
            key for key in kind.fields if not re.search(rf"^    (# )?{key}: ", text, re.MULTILINE)
        ] == [], name
        named = re.findall(r"hosttune explain ([\w-]+) --source", text)
        assert all(
            any(wish.kind == name for wish in builtin_catalog().rules[one].want) for one in named
        )


def test_rules_new_takes_a_kind_or_advice(run):
    assert "\n  - unit: " in run("rules", "new", "site-example", "--wish", "unit")[1]
    assert "\nexpect:\n" in run("rules", "new", "site-example", "--advice")[1]
    status, _, err = run("rules", "new", "site-example", "--wish", "sysctrl")
    assert status == 2
    assert "there is: apt-blacklist, " in err


def test_placeholder_stops_no_command_but_lint(tmp_path, run):
    text = CUSTOM.replace("title: An \\e[31mexample", f"title: {PLACEHOLDER} something")
    (tmp_path / "site-example.yaml").write_text(text)
    assert run("plan", "--host", H100, "--rules", tmp_path, "--only", "site-example")[0] == 1
    status, out, _ = run("rules", "lint", tmp_path / "site-example.yaml")
    assert status == 2
    assert "site-example.yaml:2: title: is not written yet: 'FILL IN something'" in out


def test_source_of_a_rule_is_its_file_and_its_cases(run):
    status, out, _ = run("explain", "memory-max-map-count", "--source", "--host", H100)
    assert status == 0
    assert out.startswith(
        "# hosttune/rules/memory/memory-max-map-count.yaml\nid: memory-max-map-count\n"
    )
    assert "\n# tests/rules/memory-max-map-count.yaml\n- name: " in out


def test_source_is_shown_as_it_is(run):
    status, out, err = run(
        "explain", "memory-max-map-count", "--source", "--host", H100, "--format", "json"
    )
    assert (status, out) == (2, "")
    assert "in no other format" in err


def test_source_of_an_installed_rule_says_where_its_cases_are(run, monkeypatch):
    monkeypatch.setattr(textfiles, "_why_not_ours", lambda *_: "installed")
    out = run("explain", "memory-max-map-count", "--source", "--host", H100)[1]
    assert "- name:" not in out
    assert out.endswith("\n# Its cases lie in a checkout of hosttune.\n")


def test_source_of_a_custom_rule_is_its_own_file_with_nothing_for_the_terminal(run, tmp_path):
    text = CUSTOM.replace("\\e", "\N{RIGHT-TO-LEFT OVERRIDE}")
    (tmp_path / "site-example.yaml").write_text(text)
    status, out, _ = run("explain", "site-example", "--source", "--rules", tmp_path, "--host", H100)
    assert status == 0
    assert out == text.replace("\N{RIGHT-TO-LEFT OVERRIDE}", "\\u202e")


def test_source_of_a_rule_of_a_recorded_host_is_the_recorded_one(run, tmp_path):
    record = json.loads((HOSTS / "h100-8x-2socket.json").read_text())
    path = "/etc/hosttune/rules.d/site-example.yaml"
    record["files"][path] = CUSTOM
    record["listings"]["/etc/hosttune"] = ["rules.d"]
    record["listings"]["/etc/hosttune/rules.d"] = ["site-example.yaml"]
    record["stats"]["/etc/hosttune/rules.d"] = record["stats"]["/etc/hosttune"]
    record["stats"][path] = ["file", 0o644, 0, 0, len(CUSTOM), 0, 1, 7, 1, 0]
    (tmp_path / "host.json").write_text(json.dumps(record))
    assert run("explain", "site-example", "--source", "--host", tmp_path / "host.json")[1] == CUSTOM


def test_parts_are_those_of_the_rules(run):
    out = run("rules", "parts")[1]
    rules = builtin_catalog().rules.values()
    assert {rule.domain for rule in rules} <= set(out.split())
    assert [kind for kind in wish_kinds() if f"\n  {kind} " not in out] == []
    parts = json.loads(run("rules", "parts", "--format", "json")[1])
    assert faults(parts, "rules-parts") == []
    assert sum(parts["domains"].values()) == len(rules)
    assert "{if: gpus.has_gpu, else: there is no NVIDIA GPU on the PCI bus}" in " ".join(
        out.split()
    )


def test_facts_without_a_name_lists_subjects_and_with_one_tells_types_values_and_meanings(run):
    listed = run("facts", "--host", H100)[1]
    assert {line.split()[0] for line in listed.splitlines()[:-2] if line[:1].strip()} == set(
        fact_types()
    )
    told = run("facts", "memory", "--host", H100)[1]
    assert re.search(
        r"^  gpu_bytes +int +0 \(0.0 GiB\)\n +\(Memory of GPUs that ", told, re.MULTILINE
    )
    assert re.search(r"^  has_swap +bool +yes$", told, re.MULTILINE)
    assert re.search(r"^    \[\]\.path +str +of the device or the file", told, re.MULTILINE)


def test_everything_that_an_expression_can_ask_is_told(run):
    told = run("facts", "all", "--host", H100)[1]
    for subject, kind in fact_types().items():
        fields = {name.split(".")[0].split("[")[0] for name in field_words(subject, kind)} - {""}
        block = (
            told.partition(f"\n\n{subject}: ")[2].partition("\n\n")[0] or told.partition("\n\n")[0]
        )
        assert [
            one for one in fields if not re.search(rf"^  {one}( |$)", block, re.MULTILINE)
        ] == [], subject


def test_property_that_cannot_be_worked_out_says_why(run, tmp_path):
    record = json.loads((HOSTS / "h100-8x-2socket.json").read_text())
    record["files"]["/proc/meminfo"] = {"unreadable": "no right"}
    (tmp_path / "host.json").write_text(json.dumps(record))
    told = run("facts", "memory", "--host", tmp_path / "host.json")[1]
    assert re.search(r"^  total_gib +float +unknown: .*no right", told, re.MULTILINE)


def test_meaning_is_the_comment_at_a_field_and_the_docstring_of_a_fact_or_property():
    meanings = read_meanings(Memory)
    assert meanings["huge_pages_total"] == "Pages of the default huge page size that are set aside."
    assert meanings["has_swap"] == "Whether there is a swap area, zram included."
    assert read_meanings(Reclaim)["dirty_bytes"] == "0 where dirty_ratio is in force"
