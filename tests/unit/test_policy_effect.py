"""A policy that does nothing says so: sections, waivers, parameters and names that fit nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hosttune.actions.examine import examine
from hosttune.cli import app
from hosttune.engine.policy.effect import find_likeliest, without_effect
from hosttune.engine.policy.file import build_policy
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import builtin_catalog
from hosttune.engine.rules.yamlio import load_document
from hosttune.host.record.record import read_record
from hosttune.values import HoldKind
from tests.hosts.built import HOSTS
from tests.unit.schemas import faults

H100, GH200 = str(HOSTS / "h100-8x-2socket.json"), str(HOSTS / "gh200-arm64.json")
CATALOG = builtin_catalog()


@pytest.fixture
def run(capsys):
    def run(*argv):
        status = app.run([str(word) for word in argv])
        out, err = capsys.readouterr()
        return status, " ".join(out.split()), err

    return run


@pytest.fixture
def policy(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "policy.yaml"
        path.write_text(text)
        return str(path)

    return write


def said(text: str, *, everything: bool = True, sole: tuple[str, ...] = ()) -> list[str]:
    policy = build_policy(
        load_document(text, "p.yaml"), CATALOG, "2026-01-01", "h100-8x-2socket"
    ).only(*sole)
    session = examine(read_record(H100), CATALOG, policy)
    found = without_effect(
        policy, CATALOG, session.plan(prove=False).findings, everything=everything
    )
    return [f"{fault.where}: {fault.message} | {fault.hint}" for fault in found]


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("ignore:\n  - {rule: storage-noatime, subject: /dta, reason: r}\n", "p.yaml:2: ignore[0]", "waives nothing here: nothing of storage-noatime is called /dta; it looks at /data", "did you mean /data?"),
        ("ignore:\n  - {rule: memory-max-map-count, subject: vm.max_map, reason: r}\n", "p.yaml:2: ignore[0]", "nothing of memory-max-map-count is called vm.max_map", "did you mean vm.max_map_count?"),
        ("ignore:\n  - {rule: storage-stopped, subject: /dat, reason: r}\n", "p.yaml:2: ignore[0]", "nothing of storage-stopped is called /dat; it looks at /, /data", "did you mean /data?"),
        ("ignore:\n  - {rule: memory-thp, subject: enabled, reason: r}\n", "p.yaml:2: ignore[0]", "nothing of memory-thp is called enabled; it has no subjects here", "leave `subject` away"),
        ("ignore:\n  - {rule: storage-nfs-readahead, reason: r}\n", "p.yaml:2: ignore[0]", "waives nothing: storage-nfs-readahead does not run here", "select: [storage-nfs-readahead]"),
        ("ignore: [storage-nfs-readahead]\n", "p.yaml:1: ignore[0]", "switches nothing off", ""),
        ("select: [memory-swappiness]\n", "p.yaml:1: select[0]", "is in profile base already", ""),
        ("params:\n  storage-readahead: {}\n", "p.yaml:2: params.storage-readahead", "sets nothing: storage-readahead does not run here", "select:"),
        ("ignore: [memory-swappiness]\nparams:\n  memory-swappiness: {value: 1}\n", "p.yaml:3: params.memory-swappiness", "sets nothing: memory-swappiness is off by ignore", "take memory-swappiness out of `ignore` to let it run"),
        ("ignore: [storage-nfs-readahead]\nselect: [storage-nfs-readahead]\n", "p.yaml:2: select[0]", "selects nothing: storage-nfs-readahead is off by ignore", "take storage-nfs-readahead out of `ignore` to let it run"),
        ('hosts:\n  "h1OO-*":\n    profile: train-multinode\n', "p.yaml:2: hosts.h1OO-*", "no section for hosts fits this host (h100-8x-2socket)", "h1OO-* nearly fits"),
        ('hosts:\n  "login-*":\n    profile: train-single\n  "h1OO-*":\n    profile: train-single\n', "p.yaml:4: hosts.h1OO-*", "no section for hosts fits this host", "h1OO-* nearly fits"),
        ('hosts:\n  "login-*":\n    profile: train-single\n', "p.yaml:2: hosts.login-*", "no section for hosts fits this host", ""),
        ('hosts:\n  "h100-*":\n    ignore:\n      - {rule: storage-noatime, subject: /dat, reason: r}\n', "p.yaml:4: hosts.h100-*.ignore[0]", "nothing of storage-noatime is called /dat", "did you mean /data?"),
    ],
)  # fmt: skip
def test_part_of_a_policy_that_does_nothing_is_named_with_its_line(text, place, message, hint):
    (found,) = said(text)
    assert found.startswith(f"{place}: ")
    told, _, todo = found.partition(" | ")
    assert message in told
    assert hint in todo
    assert bool(hint) is bool(todo)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ignore:\n  - {rule: storage-noatime, subject: /data, reason: r}\n",
        "ignore:\n  - {rule: storage-noatime, subject: '/d*', reason: r}\n",
        "ignore:\n  - {rule: memory-swappiness, reason: r}\n",
        "select: [storage-nfs-readahead]\n",
        "ignore: [memory-swappiness]\nselect: [storage-nfs-readahead]\nparams: {memory-max-map-count: {}}\n",
        # it does not apply here, so no name of it can be called wrong
        "ignore:\n  - {rule: services-oomd, subject: /home, reason: r}\n",
        'hosts:\n  "h100-*":\n    max_risk: low\n  "login-*":\n    max_risk: high\n',
        # of sections that do not fit nothing is said
        'hosts:\n  "h100-*":\n    max_risk: low\n  "login-*":\n    select: [memory-swappiness]\n',
    ],
)
def test_policy_that_does_all_it_says_is_not_remarked_on(text):
    assert said(text) == []


def test_what_harms_nobody_is_said_on_wish_only_and_other_rules_are_left_out_with_one_rule():
    text = "select: [memory-swappiness]\nignore:\n  - {rule: storage-noatime, subject: /dta, reason: r}\n"
    assert len(said(text)) == 2
    assert len(said(text, everything=False)) == 1
    assert said("ignore: [storage-nfs-readahead]\n", everything=False) == []
    assert (
        len(said("ignore: [memory-swappiness]\nselect: [memory-swappiness]\n", everything=False))
        == 1
    )
    assert said(text, sole=("memory-max-map-count",)) == []
    assert len(said(text, sole=("storage-noatime",))) == 1


@pytest.mark.parametrize(
    ("pattern", "near"),
    [("h1OO-*", True), ("H100-*", True), ("h100-9*", True), ("login-*", False), ("*", False)],
)
def test_nearest_pattern_has_nearly_the_same_beginning(pattern, near):
    assert bool(find_likeliest("h100-8x-2socket", [pattern])) is near


@pytest.mark.parametrize("pattern", ["h1OO-*abcdefgh*", "h1OO-????????", "h1OO-[0-9abcdef]"])
def test_of_several_patterns_the_one_whose_plain_beginning_is_nearest_is_meant(pattern):
    assert find_likeliest("h100-8x-2socket", ["dgx-*", pattern, "login-*"]) == pattern
    assert find_likeliest("h100-8x-2socket", []) == ""


def test_plan_check_and_explain_name_profile_section_and_file_and_tell_what_does_nothing(
    run, policy
):
    file = policy(
        'hosts:\n  "h100-*":\n    profile: train-single\nignore:\n  - {rule: storage-noatime, subject: /dta, reason: r}\n'
    )
    for words in (["plan"], ["check", "-v"], ["explain", "storage-noatime"]):
        _, out, err = run(*words, "--host", H100, "--policy", file)
        assert f"Profile train-single, named by {file} (hosts: h100-*)." in out, words
        assert "Of its sections for hosts h100-* fits this one (h100-8x-2socket)." in out, words
        assert f"{file}:5: ignore[0]: waives nothing here" in err, words
        assert "(did you mean /data?)" in err, words
    assert "Of its sections" not in run("check", "--host", H100, "--policy", file)[1]
    data = json.loads(run("check", "--host", H100, "--policy", file, "--format", "json")[1])
    assert (data["hosts"][0]["policy_file"], data["hosts"][0]["policy_sections"]) == (
        file,
        ["h100-*"],
    )


def test_host_that_no_section_fits_does_not_run_base_in_silence(run, policy):
    file = policy('hosts:\n  "h1OO-*":\n    profile: train-multinode\n')
    status, out, err = run("plan", "--host", H100, "--policy", file)
    assert status == 1
    assert "None of its sections for hosts fits this one (h100-8x-2socket)." in out
    assert "no section for hosts fits this host (h100-8x-2socket)" in err
    assert "(h1OO-* nearly fits)" in err


def test_policy_command_places_sections_on_hosts(run, policy):
    file = policy(
        'ignore:\n  - {rule: storage-noatime, subject: /dta, reason: r}\nhosts:\n  "h100-*":\n    profile: train-single\n'
        '  "gh2OO-*":\n    profile: train-single\n'
    )
    status, out, _ = run("policy", file, "--host", H100, "--host", GH200)
    assert status == 1
    assert f"{H100} section h100-*, profile train-single," in out
    assert f"{GH200} no section, profile base," in out
    assert "gh2OO-* fits none of these hosts" in out
    assert "no section for hosts fits" not in out  # the pattern is told once
    _, out, _ = run("policy", file, "--host", H100, "--host", GH200, "--format", "json")
    assert faults(json.loads(out), "policy-look") == []


def test_policy_command_keeps_silent_about_what_works_on_one_of_the_hosts(run, policy):
    """A waiver for one host of many is no typo on the others."""
    file = policy("ignore:\n  - {rule: storage-noatime, subject: /data, reason: r}\n")
    status, out, _ = run("policy", file, "--host", H100, "--host", GH200)
    assert (status, "Nothing comes of" in out) == (0, False)


def test_policy_command_takes_hosts_with_policies_of_their_own(run, tmp_path):
    """Two hosts whose policies have not the same number of sections."""
    hosts = []
    for number, text in enumerate(
        ("hosts:\n  h100-*: {max_risk: low}\n  nobody-*: {max_risk: low}\n", "profile: base\n")
    ):
        for source in (H100, GH200)[number : number + 1]:
            data = json.loads(Path(source).read_text())
            data["files"]["/etc/hosttune/policy.yaml"] = text
            data["listings"]["/etc/hosttune"] = ["policy.yaml"]
            path = tmp_path / f"{number}.json"
            path.write_text(json.dumps(data))
            hosts += ["--host", path]
    for words in (hosts, [*hosts[2:], *hosts[:2]]):
        status, out, err = run("policy", *words)
        assert (status, err) == (1, "")
        assert "nobody-* fits none of these hosts" in out


def test_policy_command_tells_what_is_said_for_nothing_too(run, policy):
    _, out, _ = run("policy", policy("select: [memory-swappiness]\n"), "--host", H100)
    assert "memory-swappiness is in profile base already" in out


def test_policy_command_tells_every_fault_and_that_there_is_no_policy(run, policy):
    status, _, err = run(
        "policy", policy("profil: base\nignore: [memory-swapines]\n"), "--host", H100
    )
    assert status == 2
    assert "unknown key" in err
    status, _, err = run("policy", "--host", H100)
    assert (status, "there is no /etc/hosttune/policy.yaml" in err) == (2, True)


def test_policy_in_an_image_is_named_with_the_folder_of_the_image(run, tmp_path):
    root = tmp_path / "image"
    for folder in ("etc/hosttune", "usr/lib"):
        (root / folder).mkdir(parents=True)
    (root / "etc/os-release").write_text('ID=ubuntu\nVERSION_ID="22.04"\n')
    (root / "etc/hosttune/policy.yaml").write_text("profile: nope\n")
    os.chmod(root / "etc/hosttune/policy.yaml", 0o644)
    status, _, err = run("check", "--root", root)
    assert status == 2
    assert f"{root}/etc/hosttune/policy.yaml:1: profile: no profile is called nope" in err
    (root / "etc/hosttune/policy.yaml").write_text("profile: base\n")
    assert f"named by {root}/etc/hosttune/policy.yaml" in run("plan", "--root", root)[1]
    assert (
        f"in {root}/etc/hosttune/policy.yaml: ignore: [memory-swappiness]"
        in run("explain", "memory-swappiness", "--root", root)[1]
    )


def test_only_leaves_every_other_rule_out(run):
    for command in ("plan", "apply", "check"):
        _, out, _ = run(
            command, "--host", H100, "--only", "memory-swappiness", "--only", "memory-max-map-count"
        )
        assert "storage-noatime" not in out, command
        assert "memory-swappiness" in out, command
        if command != "check":
            assert "Only rules of --only: memory-swappiness and memory-max-map-count." in out
        status, out, _ = run(command, "--help")
        assert "--only" in out
    _, out, _ = run("check", "--host", H100, "--only", "storage-nfs-readahead", "-v")
    assert "storage-nfs-readahead" in out  # it is looked at although the profile does not have it
    status, _, err = run("plan", "--host", H100, "--only", "memory-swapiness")
    assert (status, "did you mean memory-swappiness?" in err) == (2, True)


def test_end_of_a_name_is_enough_on_the_command_line(run):
    _, out, _ = run("plan", "--host", H100, "--only", "noatime")
    assert "Only rules of --only: storage-noatime." in out
    assert "storage-noatime" in run("plan", "--host", H100)[1]
    assert "storage-noatime" not in run("plan", "--host", H100, "--ignore", "noatime")[1]
    status, _, err = run("plan", "--host", H100, "--only", "gpu")
    assert status == 2
    assert "no rule is called gpu\n  hint: there is: containers-gpu-loss, " in err


def test_only_repeats_itself_in_the_next_command(run):
    assert "plan --host" in (out := run("check", "--host", H100, "--only", "memory-swappiness")[1])
    assert "--only memory-swappiness" in out


def test_only_does_not_bring_back_a_rule_that_is_off(run, policy):
    file = policy("ignore: [memory-swappiness]\n")
    status, _, err = run("plan", "--host", H100, "--policy", file, "--only", "memory-swappiness")
    assert status == 2
    assert f"--only memory-swappiness: the rule is off by {file}" in err
    status, _, err = run(
        "plan", "--host", H100, "--only", "memory-swappiness", "--ignore", "memory-swappiness"
    )
    assert (status, "the rule is off by --ignore" in err) == (2, True)


def test_only_keeps_waivers_and_says_nothing_of_what_other_rules_left(policy):
    """The journal knows other rules; looking at one must not call theirs orphaned."""
    from hosttune.actions.apply import apply
    from hosttune.host.overlay.overlay import Overlay

    overlay = Overlay(read_record(H100))
    both = Policy(today="2026-01-01").only("memory-swappiness", "network-arp")
    session = examine(overlay, CATALOG, both)
    apply(session, overlay, session.plan())
    left = examine(overlay, CATALOG, both.only("network-arp")).plan(prove=False).findings
    assert {finding.rule for finding in left} == {"network-arp"}
    assert not any(finding.hold.kind is HoldKind.ORPHANED for finding in left)


def test_way_out_of_the_risk_names_the_key_of_the_policy():
    policy = Policy(
        today="2026-01-01",
        max_risk=Policy().max_risk.__class__("low"),
        select=("storage-tmp-tmpfs",),
    )
    held = [
        f for f in examine(read_record(H100), CATALOG, policy).plan(prove=False).findings if f.hold
    ]
    todos = " ".join(f.todo for f in held if f.hold.kind is HoldKind.ABOVE_MAX_RISK)
    assert "--max-risk medium (policy: max_risk: medium)" in todos


def test_policy_of_a_host_without_a_file_says_nothing():
    assert without_effect(Policy(today="2026-01-01"), CATALOG, ()) == ()
