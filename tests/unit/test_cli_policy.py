"""Profiles, waivers and custom rules from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hosttune.engine.rules.catalog import load_catalog
from tests.hosts.built import HOSTS
from tests.unit.fake_reader import FakeReader
from tests.unit.schemas import faults
from tests.unit.test_custom_rules import RULE

H100 = str(HOSTS / "h100-8x-2socket.json")
CLOUD = str(HOSTS / "a100-cloud-vm.json")
DESKTOP = str(HOSTS / "workstation-rtx4090.json")
ADVISED = "storage-data-placement"  # the one rule that only advises on CLOUD


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "site-swappiness.yaml").write_text(
        RULE.replace("title:", "replaces: memory-swappiness\ntitle:")
    )
    return tmp_path


def test_profiles_tell_what_each_adds_and_which_is_chosen(run):
    status, out, _ = run("profiles", "--host", H100, "--profile", "inference-latency")
    assert status == 0
    assert "inference-latency, chosen here: A server that answers requests" in out
    block = out.partition("inference-latency, chosen")[2].partition("\n\n")[0]
    assert "gpu-update-hold" in block.partition("adds: ")[2]
    assert "sets: memory-swappiness: value=1" in block
    assert "extends base" in block
    data = json.loads(run("profiles", "--host", H100, "--format", "json")[1])
    (node,) = [one for one in data["profiles"] if one["id"] == "k8s-node"]
    assert node["extends"] == "base"
    assert "memory-swappiness" in node["leaves_out"]
    assert [one["id"] for one in data["profiles"] if one["is_chosen"]] == ["base"]


def test_check_proposes_the_profile_that_fits_where_base_is_chosen(run):
    _, out, _ = run("check", "--host", DESKTOP)
    assert "The profile workstation fits this host: gdm3.service" in " ".join(out.split())
    assert "fits this host" not in run("check", "--host", DESKTOP, "--profile", "train-single")[1]
    data = json.loads(run("check", "--host", DESKTOP, "--format", "json")[1])
    assert faults(data, "check") == []
    assert data["hosts"][0]["proposal"].startswith("The profile workstation")


def test_rule_that_replaces_runs_and_the_old_name_leads_to_it(run, folder):
    _, out, _ = run("plan", "--host", H100, "--rules", folder)
    assert "vm.swappiness  60 -> 1\n" in out
    assert "60-hosttune-memory-swappiness.conf" not in out
    status, out, err = run("explain", "memory-swappiness", "--host", H100, "--rules", folder)
    assert status == 0
    assert out.startswith("site-swappiness: ")
    assert "takes the place of memory-swappiness" in err


def test_explain_tells_reading_the_way_by_hand_and_back_and_who_sets_the_value(run):
    out = run("explain", "memory-max-map-count", "--host", DESKTOP)[1]
    text = " ".join(out.split())
    assert "next boot 262144 (/etc/sysctl.d/99-local.conf:1)" in text
    assert "do: change /etc/sysctl.d/99-local.conf:1" in text
    assert "By hand" not in out  # somebody else decides here
    out = run("explain", "memory-max-map-count", "--host", H100, "-v")[1]
    for title in (
        "Why",
        "Reasons not to apply",
        "Reads",
        "Wants",
        "By hand, as root",
        "Undone by hand, as root",
        "Switch it off",
        "Sources",
    ):
        assert f"\n{title}\n" in out
    assert "sysctl -w vm.max_map_count=OLD_VALUE" in out
    data = json.loads(
        run("explain", "memory-max-map-count", "--host", DESKTOP, "--format", "json")[1]
    )
    assert faults(data, "explain") == []
    assert "base" in data["profiles"]


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("text", ("storage-noatime: noatime on", "\nOn ", "  ~ mount of /data   relatime -> noatime")),
        ("markdown", ("## storage-noatime\n", "\n- `~ mount of /data  relatime -> noatime`\n", "`ignore: [storage-noatime]`")),
        ("html", ("<title>hosttune explain: storage-noatime</title>", "<code>~ mount of /data  relatime -&gt; noatime</code>")),
        ("json", ('"id": "storage-noatime"', '"subject": "/data"')),
    ],
)  # fmt: skip
def test_explanation_has_the_formats_of_a_report(run, tmp_path, form, texts):
    status, out, err = run("explain", "storage-noatime", "--host", H100, "--format", form)
    assert (status, err) == (0, "")
    assert [text for text in texts if " ".join(text.split()) not in " ".join(out.split())] == []
    assert run(
        "explain", "storage-noatime", "--host", H100, "--format", form, "--output", tmp_path / "it"
    )[:2] == (
        0,
        "",
    )
    assert " ".join((tmp_path / "it").read_text(encoding="utf-8").split()) == " ".join(out.split())


def test_reports_name_who_writes_the_file_that_sets_a_value(run, tmp_path):
    record = json.loads(Path(H100).read_text(encoding="utf-8"))
    path = "/etc/sysctl.d/99-site.conf"
    record["files"][path] = "# Ansible managed\nvm.swappiness = 60\n"
    record["listings"]["/etc/sysctl.d"].append("99-site.conf")
    record["stats"][path] = ["file", 0o644, 0, 0, 36, 0, 1, 1, 1, 0]
    host = tmp_path / "host.json"
    host.write_text(json.dumps(record))
    for words in (
        ["check"],
        ["plan"],
        ["apply"],
        ["check", "--format", "markdown"],
        ["check", "--format", "html"],
    ):
        assert f"{path}:2 of Ansible" in " ".join(run(*words, "--host", host)[1].split()), words
    out = " ".join(run("explain", "memory-swappiness", "--host", host)[1].split())
    assert f"next boot 60 ({path}:2 of Ansible)" in out
    out = " ".join(run("explain", "memory-max-map-count", "--host", H100)[1].split())
    assert "(/usr/lib/sysctl.d/10-map-count.conf:1 of the distribution)" in out


def test_waiver_in_a_policy_is_reported_and_not_counted(run, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("ignore: [{rule: memory-swappiness, reason: asked by the DBA, owner: ops}]\n")
    out = run("check", "-v", "--host", H100, "--policy", policy)[1]
    assert "waived by ops: asked by the DBA" in " ".join(out.split())
    for form in (
        "text",
        "markdown",
        "html",
        "junit",
        "json",
    ):  # without --verbose: the reason stays in the report
        assert "by ops: asked by the DBA" in " ".join(
            run("check", "--host", H100, "--policy", policy, "--format", form)[1].split()
        )
    assert "vm.swappiness  60" not in run("plan", "--host", H100, "--policy", policy)[1]


@pytest.mark.parametrize(
    ("until", "status", "text"),
    [
        ("2000-01-31", 1, "the waiver of ops expired on 2000-01-31: they know"),
        ("2999-01-31", 0, "waived until 2999-01-31 by ops: they know"),
    ],
)
def test_waiver_of_advice_alone_counts_once_it_has_expired(run, tmp_path, until, status, text):
    others = "".join(
        f"- {name}\n" for name in load_catalog(FakeReader({})).rules if name != ADVISED
    )
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        f"ignore:\n{others}- {{rule: {ADVISED}, reason: they know, owner: ops, until: {until}}}\n"
    )
    found, out, _ = run("check", "-v", "--host", CLOUD, "--policy", policy)
    assert text in " ".join(out.split())
    assert "CHANGE" not in out
    assert found == status
    assert run("plan", "--host", CLOUD, "--policy", policy)[0] == status
    assert run("check", "--host", CLOUD, "--policy", policy, "--ignore", ADVISED)[0] == 0


def test_lint_of_everything_covers_the_profiles(run, monkeypatch):
    assert run("rules", "lint")[0] == 0
    monkeypatch.setattr(
        "hosttune.engine.rules.shapes.profile_faults", lambda document, catalog: ["a fault"]
    )
    assert run("rules", "lint", "--format", "text")[0] == 2


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (
            "",
            (),
            "Profile base, the default, because {file} names none. The profile workstation fits this host: ",
        ),
        ("profile: train-single\n", (), "Profile train-single, named by {file}."),
        (
            "profile: train-single\n",
            ("--profile", "workstation"),
            "Profile workstation, named by --profile.",
        ),
        (
            'hosts:\n  "workstation-*": {profile: cloud-vm}\n  "gpu-*": {profile: k8s-node}\n',
            (),
            "Profile cloud-vm, named by {file} (hosts: workstation-*).",
        ),
    ],
)
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_plan_and_apply_say_first_which_profile_it_is_and_who_names_it(
    command, text, options, said, tmp_path, run
):
    policy = tmp_path / "p.yaml"
    policy.write_text(text)
    shown = " ".join(run(command, "--host", DESKTOP, "--policy", policy, *options)[1].split())
    assert said.format(file=policy) in shown
    assert shown.index("Profile ") < 300


def test_profile_that_nobody_names_is_said_so(run):
    assert (
        "Profile base, the default, because no policy names one." in run("plan", "--host", H100)[1]
    )
    for form in ("markdown", "html"):
        assert "Profile base, the default" in run("plan", "--host", H100, "--format", form)[1]


def test_broken_policy_of_a_host_keeps_nobody_from_a_record_of_it(run, tmp_path):
    policy = tmp_path / "tree/etc/hosttune/policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text("select: [no-such-rule]\n")
    (tmp_path / "tree/etc/os-release").write_text('ID=debian\nVERSION_ID="12"\n')
    status, _, err = run("record", tmp_path / "record.json", "--root", tmp_path / "tree")
    assert status == 0, err
    assert "hosttune: recorded with the built-in rules and no policy, because " in err
    assert (
        "no-such-rule"
        in json.loads((tmp_path / "record.json").read_text())["files"]["/etc/hosttune/policy.yaml"]
    )
    assert (
        run("record", tmp_path / "other.json", "--root", tmp_path / "tree", "--policy", policy)[0]
        == 2
    )


def test_policy_names_the_rules_that_were_taken_out(run, tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("ignore: [cpu-irqbalance]\n")

    status, _, err = run("policy", path, "--host", H100, "--host", CLOUD)

    assert status == 0
    assert err.count("cpu-irqbalance was taken out") == 1


def test_no_other_rule_is_meant_by_one_that_was_taken_out(run):
    assert "did you mean" not in run("explain", "framework-modern-tools", "--host", H100)[2]
