"""`explain` on hosts: no template is left raw, the way by hand has this host's values, the way back
removes our file.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hosttune.actions.examine import examine
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.host.record.record import read_record
from hosttune.resources.base import Wish
from hosttune.resources.steps import CommandLine
from hosttune.values import (
    ABSENT,
    Action,
    Address,
    Change,
    Disturbs,
    FileValue,
    Finding,
    Hold,
    HoldKind,
    Risk,
    Verdict,
)
from hosttune.views.by_hand import describe_by_hand
from hosttune.views.document import Medium, Section
from hosttune.views.explain import explain_json, explain_outline, explain_report, explain_rule
from hosttune.views.page import Page
from hosttune.views.rule_words import describe_wishes, todo_texts, ways_of
from hosttune.views.rules_doc import rule_document
from hosttune.views.terminal import Screen
from hosttune.views.wording import Wording, in_words
from tests.hosts.built import BUILT

CATALOG = builtin_catalog()
POLICY = Policy(max_risk=Risk.HIGH, disturb=Disturbs.GPU_WORK, today="2026-01-01")


def explanation(rule, host):
    session = examine(read_record(str(host)), CATALOG, POLICY.only(rule))
    findings = session.plan(prove=False).findings
    return explain_rule(CATALOG.rules[rule], session.facts, POLICY, CATALOG, findings)


@cache
def explanations(host):
    """Of all rules, from one plan."""
    session = examine(read_record(str(host)), CATALOG, POLICY.only(*CATALOG.rules))
    findings = session.plan(prove=False).findings
    return {
        name: explain_rule(rule, session.facts, POLICY, CATALOG, findings)
        for name, rule in CATALOG.rules.items()
    }


def by_hand(rule, host):
    does, undoes = explanation(rule, next(path for path in BUILT if path.stem == host)).ways
    return " | ".join(does), " | ".join(undoes)


def test_short_explanation_has_only_the_steps_of_what_was_found_here():
    """The steps of the rule's other findings (mkfs.xfs) were taken for more of the same."""
    one = explanation(
        "storage-data-placement", next(path for path in BUILT if path.stem == "a100-cloud-vm")
    )
    short, whole = explain_report(one, Page()), explain_report(one, Page(is_verbose=True))
    assert ("mkfs.xfs DISK" in whole, "mkfs.xfs DISK" in short) == (True, False)
    assert short.count("use them for scratch") == 1  # with what was found


def test_by_hand_are_the_steps_of_the_change_and_each_finding_has_its_own():
    """TMPDIR on another disk is not the fifth step of /tmp in memory."""
    one = explanation(
        "storage-tmp-tmpfs", next(path for path in BUILT if path.stem == "workstation-rtx4090")
    )
    whole = explain_report(one, Page(is_verbose=True))
    assert (
        "TMPDIR"
        not in whole.partition("\nBy hand, as root\n")[2].partition("\nUndone by hand, as root\n")[
            0
        ]
    )
    assert (
        "make a folder there: sudo"
        in whole.partition("\nLooks for\n")[2].partition("\nParameters\n")[0]
    )
    assert "TMPDIR" not in explain_report(one, Page())


@pytest.mark.parametrize("host", BUILT, ids=lambda path: path.stem)
def test_explain_leaves_no_template_raw_and_names_the_files_of_ours_to_remove(host):
    for one in explanations(host).values():
        text = explain_report(one, Page(host=host.stem))
        assert "{{" not in text, text
        made = {
            change.address.name
            for finding in one.findings
            for change in finding.changes
            if is_ours(change)
        }
        assert [path for path in made if path not in " ".join(one.ways[1])] == []


@pytest.mark.parametrize("rule", sorted(CATALOG.rules))
def test_page_of_a_rule_is_the_explanation_without_a_host(rule):
    """The sections are the same, in the same order, but for those that a host fills."""
    document = rule_document(CATALOG.rules[rule], CATALOG)
    one = explanations(next(path for path in BUILT if path.stem == "no-gpu-debian12"))[rule]
    outline = explain_outline(one, Page(medium=Medium.MARKDOWN))
    titles = [block.title for block in outline.blocks if isinstance(block, Section)]
    in_general = {
        "Why",
        "Reasons not to apply",
        "Reads",
        "Wants",
        "Looks for",
        "Parameters",
        "Sources",
    }
    assert [
        title for title in re.findall(r"^## (.*)$", document, re.MULTILINE) if title in in_general
    ] == [title for title in titles if title in in_general]
    assert [title for title in ("Switch it off", "On ") if f"## {title}" in document] == []
    assert "Switch it off" in titles


def test_conditions_of_the_rule_are_told_where_there_is_room():
    one = explanation(
        "storage-noatime", next(path for path in BUILT if path.stem == "h100-8x-2socket")
    )
    told = (
        "(unless `not host.is_wsl`)",
        "For each: [m for m in mounts.local_data if m.fstype in params.types]",
    )
    screens = [
        explain_report(one, Page(screen=Screen(0), is_verbose=is_verbose))
        for is_verbose in (False, True)
    ]
    assert [[text in screen for text in told] for screen in screens] == [
        [False, False],
        [True, True],
    ]


def test_a_terminal_gets_the_short_answer_and_this_host_first():
    one = explanation(
        "storage-noatime", next(path for path in BUILT if path.stem == "h100-8x-2socket")
    )
    short, whole = (
        explain_report(one, Page(host="h", screen=Screen(80), is_verbose=more))
        for more in (False, True)
    )
    assert short.index("On h") < short.index("gain") < short.index("Why") < short.index("By hand")
    assert len(short.splitlines()) <= 40
    details = ("Undone by hand", "Sources", "profiles  ", "Caches that clean by last access")
    assert [text in short for text in details] == [False] * 4
    assert [text in whole for text in details] == [True] * 4
    assert "--verbose" in short


def is_ours(change):
    """A drop-in that a rule brings."""
    return change.address.kind == "file" and "/60-hosttune-" in change.address.name


@pytest.mark.parametrize(
    ("rule", "host", "do", "undo"),
    [
        (  # it does not apply there, so it is told in general
            "kernel-iommu", "workstation-rtx4090",
            r"""printf '%s\n' 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT ARGUMENT"' | install -D -m 644 """,
            "60-hosttune-kernel-iommu.cfg | update-grub | reboot when nothing runs",
        ),
        (
            "gpu-persistence", "h100-8x-2socket",
            "'ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose'",
            "nvidia-persistenced.service.d/60-hosttune-gpu-persistence.conf | systemctl daemon-reload",
        ),
        ("memory-swappiness", "h100-8x-2socket", "'vm.swappiness = 10'", "sysctl -w vm.swappiness=60"),
        ("memory-swappiness", "no-gpu-debian12", "sysctl -w vm.swappiness=10", "sysctl -w vm.swappiness=60"),
        ("network-sysctl", "h100-8x-2socket", "tcp_rmem = 4096 131072 134217728'", "'net.ipv4.tcp_rmem=4096 131072 6291456'"),
        ("limits-nofile", "a100-cloud-vm", "'* soft nofile 65536' 'root soft nofile 65536' |", "limits.d/60-hosttune-limits-nofile.conf"),
        ("limits-removeipc", "h100-8x-2socket", "systemctl restart systemd-logind.service", "rm /etc/systemd/logind.conf.d/"),
        ("containers-docker-daemon", "h100-8x-2socket", 'merge {"default-shm-size": "1G"} into', "take default-shm-size out"),
        ("storage-noatime", "h100-8x-2socket", "in line 3 of /etc/fstab the options `defaults` become `defaults,noatime`",
         "in the line of /data in /etc/fstab the options `defaults,noatime` become `defaults`"),
        ("storage-noatime", "gh200-arm64", ',noatime" /scratch', ',relatime" /scratch'),
        ("storage-tmp-tmpfs", "h100-8x-2socket", "x-systemd.before=local-fs.target 0 0`", "take the line `tmpfs /tmp"),
        ("cpu-governor", "h100-8x-2socket", "echo performance | tee /sys", "echo powersave | tee /sys"),
        ("gpu-profiling", "h100-8x-2socket", "options nvidia NVreg_RestrictProfilingToAdminUsers=0", "rm /etc/modprobe.d/"),
        ("storage-fstrim", "h100-8x-2socket", "systemctl enable --now fstrim.timer", "systemctl disable --now fstrim.timer"),
        ("services-needrestart", "h100-8x-2socket", r"qr(^slurmd\.service$)} = 0;", "rm /etc/needrestart/conf.d/"),
    ],
)  # fmt: skip
def test_by_hand_has_the_values_of_the_host(rule, host, do, undo):
    does, undoes = by_hand(rule, host)
    assert do in does
    assert undo in undoes


def test_no_way_reads_fstab_again_in_a_remount():
    """`mount -o remount,noatime` takes off flags that stand in no line
    (hosttune/resources/storage/mount_policy.py).
    """
    source = Path(__file__).resolve().parents[2] / "hosttune"
    said = [
        line
        for path in source.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    said += [step for rule in CATALOG.rules for steps in ways_in_general(rule) for step in steps]
    assert [line for line in said if re.search(r"(?<!disable )(?<!mtab )-o \"?remount,", line)] == [
        "A plain `mount -o remount,noatime` can turn a read-only mount writable and drop nosuid, nodev and"
    ]


def ways_in_general(rule):
    one = CATALOG.rules[rule]
    wording = Wording(one.defaults)
    does, undoes = ways_of(describe_wishes(one, wording))
    return [*does, *todo_texts(one, wording)], undoes


def test_commands_stand_whole_and_sentences_are_wrapped():
    one = explanation(
        "storage-noatime", next(path for path in BUILT if path.stem == "h100-8x-2socket")
    )
    lines = explain_report(one, Page(host="h", screen=Screen(60))).splitlines()
    does = one.ways[0]
    assert f"  - {next(step for step in does if step.startswith('mount '))}" in lines
    assert "  - in line 3 of /etc/fstab the options `defaults` become" in lines
    for rule in CATALOG.rules:
        assert [
            step
            for step in ways_of(
                describe_wishes(CATALOG.rules[rule], Wording(CATALOG.rules[rule].defaults))
            )[0]
            if " | install -D " in step and not isinstance(step, CommandLine)
        ] == []


@pytest.mark.parametrize("rule", sorted(CATALOG.rules))
def test_way_in_general_has_no_choice_that_nobody_can_type(rule):
    """Where no host is known: the words of the host stand in capitals, and no command lacks its
    operand.
    """
    one = CATALOG.rules[rule]
    does, undoes = ways_of(describe_wishes(one, Wording(one.defaults)))
    for step in (*does, *undoes):
        assert " or " not in step
        assert "{{" not in step
        assert not step.endswith(("install", "recommends", "remove"))
    assert bool(does) == bool(one.want)


@pytest.mark.parametrize("rule", sorted(CATALOG.rules))
def test_steps_in_general_say_what_to_do_and_not_the_name_of_a_field(rule):
    one = CATALOG.rules[rule]
    for step in todo_texts(one, Wording(one.defaults)):
        assert "{{" not in step
        assert re.search(r"[a-z]{2}", step), step
        assert not re.search(r"\b(?:WAYS|[A-Z_]*WAY_OUT|COMMANDS|UNHOLD)\b", step), step


def test_room_of_a_job_names_the_way_of_each_manager_without_a_host():
    one = CATALOG.rules["limits-confines"]
    steps = todo_texts(one, Wording(one.defaults))
    for way in (
        "docker run --cpus N",
        "resources.limits.cpu of the pod",
        "sbatch --cpus-per-task=N",
        "--shm-size=8g",
    ):
        assert any(way in step for step in steps), steps


def test_what_a_host_holds_back_for_its_own_reason_is_not_taught():
    finding = Finding(
        "storage-noatime", "/data", Verdict.DIFFERS, Hold(HoldKind.OWNED, "tmpreaper")
    )
    wishes = (Wish("mount", "/data", "storage-noatime", "/data", {"atime": "noatime"}),)
    assert ways_of(wishes, (finding,)) == ([], [])
    assert ways_of(wishes) != ([], [])


def test_set_of_packages_that_is_refused_has_no_way():
    wish = Wish(
        "packages", "", "gpu-driver", "", {"state": "installed", "refused": "no branch fits"}
    )
    assert ways_of((wish,)) == ([], [])


def test_other_spelling_of_a_sysctl_is_put_back_as_it_was():
    change = Change(
        Address("sysctl", "vm.dirty_bytes"), Action.UPDATE, "vm.dirty_ratio=20", "1", "a"
    )
    assert describe_by_hand((change,)) == (
        ["sysctl -w vm.dirty_bytes=1"],
        ["sysctl -w vm.dirty_ratio=20"],
    )


@pytest.mark.parametrize(
    ("change", "do", "undo"),
    [
        (
            Change(Address("package-set", "tuned + python3-perf - power-profiles-daemon"), Action.UPDATE,
                   ("power-profiles-daemon=0.21",), ("python3-perf=6.8", "tuned=2.21"), "a"),
            "apt-get install --no-install-recommends tuned=2.21 power-profiles-daemon-",
            "apt-get install --no-install-recommends power-profiles-daemon=0.21 tuned- python3-perf-",
        ),
        (
            Change(Address("unit", "a.timer"), Action.UPDATE, ("enabled", "inactive"), ("enabled", "active"), "a"),
            "systemctl start a.timer", "systemctl stop a.timer",
        ),
        (
            Change(Address("sysfs-set", "/sys/cpu*/x"), Action.UPDATE, ("0-3: a", "4-7: b"), "c", "a"),
            "echo c | tee /sys/cpu*/x", "write into /sys/cpu*/x, by what the star stands for: 0-3: a; 4-7: b",
        ),
        (
            Change(Address("file", "/etc/a b.conf"), Action.CREATE, ABSENT, FileValue(b"# Written by\nit's = 1\n", 0o600), "a"),
            """printf '%s\\n' 'it'"'"'s = 1' | install -D -m 600 /dev/stdin '/etc/a b.conf'""", "rm '/etc/a b.conf'",
        ),
    ],
)  # fmt: skip
def test_step_of_a_change(change, do, undo):
    assert describe_by_hand((change,)) == ([do], [undo])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("item.target", "TARGET"),
        ("'a' if x.y else 'b'", "a or b"),
        ("'a' if x.y else ''", "a"),
        ("'; first' if x.y else ', second'", "; first"),
        ("join([m.name + ' on ' + m.place for m in x.all])", "NAME on PLACE"),
        ("round(x.size / 3)", "N"),
        ("gib_text(x.total_bytes)", "TOTAL_BYTES"),
        ("counted(x.lost, 'row was', 'rows were')", "LOST rows were"),
        ("counted(x.broken, 'error')", "BROKEN errors"),
        ("x.parts[0]", "PARTS"),
        ("x.reset_way_out", "what the report says of the host"),
        ("'pci:' + x.models[0]", "pci:MODELS"),
    ],
)
def test_expression_in_words(source, words):
    assert in_words(ast.parse(source, mode="eval").body) == words


def test_secret_of_the_host_is_in_no_part_of_the_json():
    """Also where the rule does not apply, with the reason, and in the way by hand."""
    secret = "Zx9hunter2Qq"
    finding = Finding(
        "services-core-size", "", Verdict.NOT_APPLICABLE, reason=f"|/usr/bin/x --token {secret} %p"
    )
    one = replace(explanation("services-core-size", BUILT[0]), findings=(finding,))
    one = replace(one, wording=Wording({**one.wording.params}, None))
    assert secret in one.why_in_general
    assert secret not in json.dumps(explain_json(one))
