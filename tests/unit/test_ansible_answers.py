"""What the Ansible modules make of hosttune's documents, without Ansible."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from hosttune.cli.app import run

PLUGINS = Path(__file__).resolve().parents[2] / "playbooks/collections/ansible_collections/hosttune/hosttune/plugins"
answer = runpy.run_path(str(PLUGINS / "module_utils/answer.py"))
classes = runpy.run_path(str(PLUGINS / "plugin_utils/classes.py"))
RECORD = Path(__file__).resolve().parents[1] / "hosts/h100-8x-2socket.json"


@pytest.fixture
def plan(capsys):
    assert run(["plan", "--host", str(RECORD), "--format", "json"]) == 1
    return json.loads(capsys.readouterr().out)


def finding(verdict="differs", kind="none", detail="", rule="a-rule", subject=""):
    return {
        "rule": rule,
        "subject": subject,
        "verdict": verdict,
        "hold": {"kind": kind, "detail": detail},
        "changes": [],
        "is_waiver_over": False,
    }


def change(address="sysctl:vm.swappiness", before="60", after="10", details=(), rule="memory-swappiness"):
    return {"address": address, "before": before, "after": after, "details": list(details), "rule": rule}


def test_diff_of_a_real_plan_names_every_change_once(plan):
    changes = answer["changes_of"](plan)
    shown = answer["diff_of"](changes)
    whole = [entry["after_header"] for entry in shown if "after_header" in entry]
    files = [one["address"][5:] for one in changes if one["address"].startswith("file:")]
    assert whole == [*files, "live values"]
    (fstab,) = [entry["prepared"] for entry in shown if "prepared" in entry]
    assert fstab.startswith("--- /etc/fstab\n+++ /etc/fstab\n@@")
    assert fstab.count("@@ -") == sum(one["address"].startswith("fstab") for one in changes)
    live = [line.split(" = ")[0] for line in shown[-1]["after"].splitlines()]
    assert live == [
        one["address"] for one in changes if one["address"].split(":")[0] not in ("file", "fstab", "fstab-line")
    ]


def test_diff_of_a_deleted_file_ends_empty():
    file = {"type": "file", "text": "x\n", "mode": "0644", "uid": 0, "gid": 0}
    (entry,) = answer["diff_of"]([change("file:/etc/x", file, {"type": "absent"})])
    assert entry == {"before_header": "/etc/x", "after_header": "/etc/x", "before": "x\n", "after": ""}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("60", "60"),
        (True, "true"),
        (["a", "b"], "a b"),
        ({"type": "absent"}, "(absent)"),
        ({"type": "unreadable", "reason": "why"}, "(why)"),
    ],
)
def test_value_text_of_every_kind_of_value(value, text):
    assert answer["value_text"](value) == text


def test_reboot_reasons_come_from_what_waits_for_a_reboot_alone():
    findings = [
        finding(kind="waiting for", detail="reboot", subject="/tmp"),
        finding(kind="waiting for", detail="new session"),
        finding(kind="busy", detail="reboot of a job"),
    ]
    assert answer["reboot_reasons"](findings) == ["a-rule: /tmp"]


def test_reboot_obstacles_are_what_a_boot_makes_worse():
    blocking = finding("differs") | {"blocks_reboot": True, "reason": "the next kernel has no module"}
    assert answer["reboot_obstacles"]([finding("differs"), blocking]) == ["a-rule: the next kernel has no module"]


def test_deferred_names_what_runs_on_the_gpus():
    busy = finding(kind="busy", detail="slurm: job 4711", rule="gpu-modes", subject="0000:1b:00.0")
    told = {"rule": "gpu-modes", "subject": "0000:1b:00.0", "reason": "slurm: job 4711"}
    assert answer["deferred"]([busy, finding(kind="would disturb", detail="running GPU work")]) == [told]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (finding("ok"), True),
        (finding("advice"), True),
        (finding("advice") | {"is_waiver_over": True}, False),
        (finding("advice") | {"is_fault": True}, False),
        (finding("unknown"), False),
        (finding("differs", "waived"), True),
        (finding("differs", "busy"), False),
    ],
)
def test_is_compliant_counts_what_the_exit_status_counts(one, expected):
    assert answer["is_compliant"]([one]) is expected


@pytest.mark.parametrize(
    ("approved", "expected"),
    [(["ab" * 32], True), (["abababababab"], True), (["ababab"], False), (["cd" * 32], False), ([], False)],
)
def test_is_approved_takes_a_digest_or_its_first_twelve_digits(approved, expected):
    assert answer["is_approved"]("ab" * 32, approved) is expected


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["ab" * 32, "abababababab"], ""),
        (["ababab"], "ababab"),
        ([""], "an empty word"),
        (["AB" * 32, "ab" * 32, "ab" * 33], f"{'AB' * 32}, {'ab' * 33}"),
    ],
)
def test_no_digests_names_the_words_that_no_plan_can_have(words, wrong):
    assert answer["no_digests"](words).partition(":")[0] == wrong


def told(digest, **more):
    return {"digest": digest, "changes": [change()] if digest else [], "diff": answer["diff_of"]([change()]), **more}


def test_folded_equal_plans_are_one_class_and_the_largest_comes_first():
    answers = {"a": told("1" * 64), "b": told("2" * 64), "c": told("2" * 64), "d": told("")}
    found = classes["folded"](answers, act="plan")
    assert [(one["standing"], one["hosts"]) for one in found] == [
        ("to make", ["b", "c"]),
        ("to make", ["a"]),
        ("nothing to change", ["d"]),
    ]


def test_folded_tells_made_from_not_approved():
    answers = {"a": told("1" * 64, approved=True, run_id="r1"), "b": told("1" * 64, approved=False)}
    found = classes["folded"](answers, act="apply")
    assert [(one["standing"], one["hosts"], one["runs"]) for one in found] == [
        ("made", ["a"], {"a": "r1"}),
        ("not made, because the plan is not approved", ["b"], {}),
    ]


def test_summary_shows_one_diff_a_class_and_everybody_who_needs_a_look():
    busy = [{"rule": "gpu-modes", "subject": "", "reason": "process 7 on GPU 0"}]
    answers = {"a": told("1" * 64, deferred=busy), "b": told("1" * 64, reboot_reasons=["storage-tmp-tmpfs: /tmp"])}
    found = classes["folded"](answers, act="apply", is_planned=True)
    text = "\n".join(classes["summary"](found, answers, {"c": "it was not asked"}))
    assert text.count("+sysctl:vm.swappiness = 10") == 1
    assert "2 hosts: 1 change to make\n  a, b\n" in text
    assert "1 host: put off until the GPUs are free\n  a: gpu-modes (process 7 on GPU 0)" in text
    assert "1 host: to reboot\n  b: storage-tmp-tmpfs: /tmp" in text
    assert "1 host: failed or gave no answer\n  c: it was not asked" in text


def test_summary_tells_a_reason_of_many_hosts_once():
    failed = {f"gpu{number:02}": "gpu.yaml:1: no key\n\thint: x" for number in range(40)} | {"other": "no route"}
    lines = classes["summary"]([], {}, failed)
    assert lines[0] == "41 hosts: failed or gave no answer"
    assert lines[1].endswith("gpu11 and 28 more: gpu.yaml:1: no key")
    assert lines[2:] == ["      hint: x", "  other: no route", ""]


def test_summary_of_an_undo_names_what_is_left_and_where():
    edited = finding(kind="edited by hand", detail="", rule="memory-swappiness") | {"subject": "vm.swappiness"}
    answers = {
        "a": told("1" * 64, undone_run="r1", run_id="r3", findings=[edited]),
        "b": told("", undone_run="", findings=[]),
    }
    found = classes["folded"](answers, act="undo")
    assert [(one["standing"], one["hosts"]) for one in found] == [
        ("taken back", ["a"]),
        ("nothing to take back", ["b"]),
    ]
    text = "\n".join(classes["summary"](found, answers, {}))
    assert "1 host: not all of it is taken back\n  a: memory-swappiness (edited by hand)" in text


def test_undone_until_reboot_is_what_was_taken_back_in_this_boot():
    step = {"address": "file:/etc/a", "phase": "done", "activation": "reboot"}
    runs = [
        {"command": "undo", "boot_id": "now", "steps": [step, step | {"address": "sysctl:a", "activation": "now"}]},
        {"command": "undo", "boot_id": "before", "steps": [step | {"address": "file:/etc/b"}]},
        {"command": "apply", "boot_id": "now", "steps": [step | {"address": "file:/etc/c"}]},
    ]
    assert answer["undone_until_reboot"]({"runs": runs}, "now") == ["file:/etc/a takes effect at the next boot"]


def test_named_many_hosts_are_counted():
    assert classes["named"]([f"gpu{number}" for number in range(40)]).endswith("gpu11 and 28 more")
