"""What the Ansible modules make of hosttune's documents, without Ansible."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from hosttune.cli.app import run
from hosttune.codec import WORKED_OUT
from tests.hosts.built import HOSTS

PLUGINS = (
    Path(__file__).resolve().parents[2]
    / "playbooks/collections/ansible_collections/hosttune/hosttune/plugins"
)
answer = runpy.run_path(str(PLUGINS / "module_utils/answer.py"))
classes = runpy.run_path(str(PLUGINS / "plugin_utils/classes.py"))
RECORD = HOSTS / "h100-8x-2socket.json"


def test_request_of_a_task_is_words_for_an_installed_hosttune():
    client = runpy.run_path(str(PLUGINS / "module_utils/client.py"))
    look = client["look_of"](
        {"profile": "base", "select": ["a"], "ignore": [], "only": ["b", "c"], "max_risk": None}
    )
    assert look == {"profile": "base", "select": ["a"], "only": ["b", "c"]}
    chosen = ["--profile", "base", "--select", "a", "--only", "b", "--only", "c"]
    words = client["words_of"]("undo", run="r1", rule="memory-x", look=look, yes=True)
    assert words == ["undo", "r1", *chosen, "--rule", "memory-x", "--yes", "--format", "json"]
    assert client["words_of"]("record", file="/x") == ["record", "/x", "--format", "json"]


@pytest.fixture
def plan(capsys):
    assert run(["plan", "--host", str(RECORD), "--format", "json"]) == 1
    return json.loads(capsys.readouterr().out)


def finding(verdict="differs", kind="none", detail="", rule="a-rule", subject=""):
    return {
        "rule": rule,
        "subject": subject,
        "verdict": verdict,
        "reason": "",
        "evidence": [],
        "hold": {"kind": kind, "detail": detail},
        "changes": [],
        "is_waiver_over": False,
    }


def change(
    address="sysctl:vm.swappiness", before="60", after="10", details=(), rule="memory-swappiness"
):
    return {
        "address": address,
        "before": before,
        "after": after,
        "details": list(details),
        "rule": rule,
    }


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
        one["address"]
        for one in changes
        if one["address"].split(":")[0] not in ("file", "fstab", "fstab-line")
    ]


def test_diff_of_a_deleted_file_ends_empty():
    file = {"type": "file", "text": "x\n", "mode": "0644", "uid": 0, "gid": 0}
    (entry,) = answer["diff_of"]([change("file:/etc/x", file, {"type": "absent"})])
    assert entry == {
        "before_header": "/etc/x",
        "after_header": "/etc/x",
        "before": "x\n",
        "after": "",
    }


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
    blocking = finding("differs") | {
        "blocks_reboot": True,
        "reason": "the next kernel has no module",
    }
    assert answer["reboot_obstacles"]([finding("differs"), blocking]) == [
        "a-rule: the next kernel has no module"
    ]


def test_deferred_names_what_runs_on_the_gpus():
    busy = finding(kind="busy", detail="slurm: job 4711", rule="gpu-modes", subject="0000:1b:00.0")
    told = {"rule": "gpu-modes", "subject": "0000:1b:00.0", "reason": "slurm: job 4711"}
    assert answer["deferred"]([busy, finding(kind="would disturb", detail="running GPU work")]) == [
        told
    ]


@pytest.mark.parametrize(
    ("approved", "expected"),
    [
        (["ab" * 32], True),
        (["abababababab"], True),
        (["ababab"], False),
        (["cd" * 32], False),
        ([], False),
    ],
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
    return {
        "digest": digest,
        "changes": [change()] if digest else [],
        "diff": answer["diff_of"]([change()]),
        **more,
    }


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
    shown = answer["diff_of"]([change()])
    answers = {
        "a": told("1" * 64, deferred=busy, plan_diff=shown),
        "b": told("1" * 64, reboot_reasons=["storage-tmp-tmpfs: /tmp"], plan_diff=shown),
    }
    found = classes["folded"](answers, act="apply", is_planned=True)
    text = "\n".join(classes["summary"](found, answers, {"c": "it was not asked"}))
    assert text.count("+sysctl:vm.swappiness = 10") == 1
    assert "2 hosts: 1 change to make\n  a, b\n" in text
    assert "1 host: waiting for GPU work\n  a: gpu-modes (process 7 on GPU 0)" in text
    assert "1 host: to reboot\n  b: storage-tmp-tmpfs: /tmp" in text
    assert "1 host: failed or gave no answer\n  c: it was not asked" in text


def test_what_is_shown_of_a_class_is_what_most_of_its_hosts_say():
    """Old values and devices are no part of a digest, so one host could take them out of the one
    diff.
    """
    liar = change() | {"before": "10"}
    answers = {
        "a-evil": told("1" * 64) | {"changes": [liar], "plan_diff": []},
        **{name: told("1" * 64, plan_diff=answer["diff_of"]([change()])) for name in ("b", "c")},
    }
    (found,) = classes["folded"](answers, act="plan")
    text = "\n".join(classes["summary"]([found], answers, {}))
    assert (found["shown"], found["changes"]) == (2, [change()])
    assert "+sysctl:vm.swappiness = 10" in text
    assert "old values and devices as 2 of them have them; the others differ there" in text
    json.dumps(found)  # it is what the module returns


def test_equal_hosts_are_one_class_though_their_kernels_work_out_other_defaults():
    """The digest leaves these out too: the value of before, the number of a device, and the
    order.
    """
    exports = [
        change(f"sysfs:/sys/class/bdi/0:{number}/read_ahead_kb", before, "15360")
        | {"device": "PROGRAM==nfs"}
        for number, before in ((40, "128"), (51, "1024"))
    ]
    answers = {
        "a": {"digest": "1" * 64, "changes": [change(before="59"), exports[0]]},
        "b": {"digest": "1" * 64, "changes": [exports[1], change(before="60")]},
    }
    (entry,) = classes["folded"](answers, act="plan")
    assert entry["hosts"] == ["a", "b"]


@pytest.mark.parametrize(
    "other",
    [
        change(after="11"),
        change("sysctl:vm.x"),
        change(rule="x"),
        change(details=["--- /x", "", "+y"]),
    ],
)
def test_host_that_shows_another_change_for_a_digest_is_a_class_of_its_own(other):
    answers = {"a": told("1" * 64), "b": told("1" * 64) | {"changes": [other]}}
    assert [one["hosts"] for one in classes["folded"](answers, act="plan")] == [["a"], ["b"]]


def test_values_that_the_digest_leaves_out_are_one_list():
    assert set(classes["WORKED_OUT"]) == WORKED_OUT


def test_diff_that_ansible_shows_by_itself_is_not_shown_again():
    found = classes["folded"]({"a": told("1" * 64)}, act="apply")
    assert "vm.swappiness = 10" not in "\n".join(classes["summary"](found, {}, {}))


def test_folded_nothing_was_tried_is_told_from_what_failed_on_the_way():
    failed = told("1" * 64, msg="why")
    tried = failed | {"changes": [change() | {"phase": "failed"}]}
    found = classes["folded"]({"a": failed, "b": tried}, act="apply")
    assert {one["standing"]: one["hosts"] for one in found} == {
        "tried, and some failed": ["b"],
        "not made, nothing was tried": ["a"],
    }


READ_ONLY = {"verdict": "differs", "kind": "refused", "detail": "/etc is mounted read-only"}


@pytest.mark.parametrize(
    ("one", "heading", "line"),
    [
        (finding("advice") | {"is_fault": True, "reason": "r"}, "faults", "r (a-rule)"),
        (finding(**READ_ONLY), "blocked", "/etc is mounted read-only (a-rule)"),
        (finding(kind="owned by", detail="TuneD"), "skipped", "managed by TuneD (a-rule)"),
        (
            finding(kind="edited by hand", detail="sysctl:a"),
            "skipped",
            "edited by hand sysctl:a (a-rule)",
        ),
        (
            finding(kind="above max_risk", detail="medium"),
            "beyond what the policy allows",
            "above max_risk medium (a-rule)",
        ),
        (
            finding("unknown") | {"reason": "needs root"},
            "could not be checked",
            "needs root (a-rule)",
        ),
        (finding("unknown", "refused", "2.5 MB"), "blocked", "2.5 MB (a-rule)"),
        (
            finding() | {"evidence": ["a GPU is lost", "x"]},
            "to change, and hosttune does not change it",
            "a GPU is lost (a-rule)",
        ),
        (
            finding("advice") | {"is_waiver_over": True, "reason": "r"},
            "the waiver is over",
            "r (a-rule)",
        ),
        (
            finding(kind="waiting for", detail="a remount"),
            "waiting",
            "waiting for a remount (a-rule)",
        ),
    ],
)
def test_host_that_nothing_can_be_changed_on_is_told_with_the_reason(one, heading, line):
    answers = {host: told("", compliant=False, findings=[one]) for host in ("a", "b")}
    found = classes["folded"](answers, act="apply")
    assert classes["summary"](found, answers, {}) == [
        "2 hosts: nothing that hosttune changes, and not ok", "  a, b", "",
        f"2 hosts: {heading}", f"  a, b: {line}", "",
    ]  # fmt: skip


def test_what_the_reboot_let_show_itself_is_for_the_next_run_and_no_longer_put_off():
    (after,) = answer["flat"]([finding() | {"changes": [change()], "reason": "60, wanted 10"}])
    assert ("changes" in after, after["is_planned"]) == (False, True)
    other = [change("file:/etc/x", rule="another-rule")]
    made, waited = (
        told("1" * 64, compliant=False, findings=[after], changes=other),
        told("", compliant=False),
    )
    answers = {"a": made, "b": waited | {"findings": [after]}}
    found = classes["folded"](answers, act="apply")
    text = "\n".join(classes["summary"](found, answers, {}))
    assert "1 host: 1 change made\n  a\n" in text
    assert "1 host: more to make by the next run\n  b\n" in text
    assert text.endswith("2 hosts: more to make by the next run\n  a, b: 60, wanted 10 (a-rule)\n")


@pytest.mark.parametrize(
    "one",
    [
        finding("ok"),
        finding("advice"),
        finding(kind="waived", detail="by me"),
        finding("unknown", "deferred"),
        finding(kind="orphaned"),
    ],
)
def test_nothing_to_change_is_said_where_it_is_true(one):
    answers = {"a": told("", compliant=True, findings=[one, finding("ok")])}
    text = classes["summary"](classes["folded"](answers, act="plan"), answers, {})
    assert text == ["1 host: nothing to change", "  a", ""]


def test_rules_with_one_reason_are_one_line_and_those_of_the_plan_are_told_there():
    rules = [f"rule-{number}" for number in range(6)]
    findings = [finding(rule=rule, **READ_ONLY) for rule in rules] + [
        finding(rule="memory-swappiness")
    ]
    answers = {"a": told("1" * 64, compliant=False, findings=findings)}
    text = "\n".join(classes["summary"]([], answers, {}))
    assert (
        text
        == "1 host: blocked\n  a: /etc is mounted read-only (rule-0, rule-1, rule-2, rule-3 and 2 more)\n"
    )


def test_container_where_nothing_was_judged_is_not_called_fine(capsys):
    run(["check", "--host", str(RECORD.with_name("container-docker.json")), "--format", "json"])
    (seen,) = json.loads(capsys.readouterr().out)["hosts"]
    answers = {
        "a": told("", compliant=True, findings=seen["findings"]),
        "b": told("", compliant=True),
    }
    found = classes["folded"](answers, act="plan")
    assert [one["standing"] for one in found] == [
        "nothing was judged here (a container)",
        "nothing to change",
    ]
    gone = [finding("not applicable")]
    assert classes["unjudged"](gone) == "no rule applies"


def test_summary_tells_a_reason_of_many_hosts_once():
    failed = {f"gpu{number:02}": "gpu.yaml:1: no key\n\thint: x" for number in range(40)} | {
        "other": "no route"
    }
    lines = classes["summary"]([], {}, failed)
    assert lines[0] == "41 hosts: failed or gave no answer"
    assert lines[1].endswith("gpu11 and 28 more: gpu.yaml:1: no key")
    assert lines[2:] == ["      hint: x", "  other: no route", ""]


def test_summary_of_an_undo_names_what_is_left_and_where():
    edited = finding(kind="edited by hand", detail="", rule="memory-swappiness") | {
        "subject": "vm.swappiness"
    }
    answers = {
        "a": told("1" * 64, undone_run="r1", run_id="r3", findings=[edited]),
        "b": told("", undone_run="", findings=[]),
    }
    found = classes["folded"](answers, act="undo")
    assert [(one["standing"], one["hosts"]) for one in found] == [
        ("undone", ["a"]),
        ("nothing to undo", ["b"]),
    ]
    text = "\n".join(classes["summary"](found, answers, {}))
    assert "1 host: not all of it is undone\n  a: memory-swappiness (edited by hand)" in text


def test_undone_until_reboot_is_what_was_taken_back_in_this_boot():
    step = {"address": "file:/etc/a", "phase": "done", "activation": "reboot"}
    runs = [
        {
            "command": "undo",
            "boot_id": "now",
            "steps": [step, step | {"address": "sysctl:a", "activation": "now"}],
        },
        {"command": "undo", "boot_id": "before", "steps": [step | {"address": "file:/etc/b"}]},
        {"command": "apply", "boot_id": "now", "steps": [step | {"address": "file:/etc/c"}]},
    ]
    assert answer["undone_until_reboot"]({"runs": runs}, "now") == [
        "file:/etc/a takes effect at the next boot"
    ]


def test_named_many_hosts_are_counted():
    assert classes["named"]([f"gpu{number}" for number in range(40)]).endswith("gpu11 and 28 more")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sudo hosttune undo --rule a-b --yes starts afresh", "ansible-playbook hosttune.hosttune.undo -e rule=a-b starts afresh"),
        ("mend it, then: sudo hosttune apply --yes --only gpu-driver", "mend it, then: ansible-playbook hosttune.hosttune.apply -e hosttune_only=gpu-driver"),
        ("sudo hosttune undo 20261121-093012-4711 --yes", "ansible-playbook hosttune.hosttune.undo -e run_id=20261121-093012-4711"),
        ("`hosttune plan` shows it", "`ansible-playbook hosttune.hosttune.check` shows it"),
        ("sudo hosttune apply --yes --again a-b", "sudo hosttune apply --yes --again a-b"),
        ("sudo hosttune health --learn keeps it", "sudo hosttune health --learn keeps it"),
    ],
)  # fmt: skip
def test_host_without_hosttune_is_told_the_playbooks(text, told):
    assert answer["as_played"](text) == told
    (found,) = answer["with_todo"]([{"todo": text}], "")
    assert found["todo"] == told
    assert answer["with_todo"]([{"todo": text}], "/usr/bin/hosttune") == [{"todo": text}]


IMPAIRED = finding(verdict="advice", rule="gpu-clocks") | {"impairs": True}


@pytest.mark.parametrize(
    ("one", "standing"),
    [
        (
            told("", compliant=True, findings=[IMPAIRED]),
            "nothing that hosttune changes, and impaired",
        ),
        (
            told("", compliant=True, findings=[], check={"health": {"fitness": "unfit"}}),
            "nothing that hosttune changes, and unfit: drain it",
        ),
        (told("", compliant=True, findings=[], failed=True), "nothing was changed, and it failed"),
        (told("", compliant=True, findings=[]), "nothing to change"),
    ],
)
def test_only_a_host_that_does_its_work_has_nothing_to_change(one, standing):
    assert [entry["standing"] for entry in classes["folded"]({"a": one}, act="apply")] == [standing]


def test_host_that_failed_elsewhere_has_not_nothing_to_change():
    (entry,) = classes["folded"](
        {"a": told("", compliant=True)}, act="apply", failed={"a": "its drain failed"}
    )
    assert entry["standing"] == "nothing was changed, and it failed"


def test_impaired_host_is_told_with_its_rule():
    text = "\n".join(
        classes["summary"]([], {"a": told("", compliant=True, findings=[IMPAIRED])}, {})
    )
    assert "1 host: degraded: slower, or not for long\n  a: " in text


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (told("1" * 64, compliant=False, changes=[change()]), "1 change to make"),
        (
            told("", compliant=False, findings=[finding("unknown", rule="b")]),
            "could not be checked: b",
        ),
        (
            told("", compliant=False, findings=[], deferred=[{"rule": "b"}]),
            "waiting for GPU work: b",
        ),
        (
            told("", compliant=False, findings=[], reboot_reasons=["b: host"]),
            "waiting for reboot: b: host",
        ),
        (told("", compliant=False, findings=[finding(rule="b")], undone_run="r1"), "not undone: b"),
    ],
)
def test_each_host_says_why_it_is_not_as_it_should_be(one, why):
    assert classes["shortfall"](one, "plan") == why
