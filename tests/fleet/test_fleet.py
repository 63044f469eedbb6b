"""Ansible over real ssh on bare servers: what the modules, the role and the playbooks promise."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.fleet.controller import Controller
from tests.fleet.hosts import ALL, POLICY, Fleet, Host

pytestmark = pytest.mark.fleet


def data_flags(host: Host) -> set[str]:
    return set(
        host.run("findmnt", "--noheadings", "--output", "OPTIONS", "/data").strip().split(",")
    )


def all_files(fleet: Fleet) -> dict[str, dict[str, str]]:
    return {host.name: host.files() for host in fleet.hosts}


# Kernel values that the plans of these hosts change, as far as they are too low: from those of this
# machine, from low ones, and from some that are above what is asked for.
VALUES = ("vm/max_map_count", "fs/inotify/max_user_watches", "fs/inotify/max_user_instances")
LOW = dict(zip(VALUES, ("1024", "8192", "128"), strict=True))
UNEVEN = dict(zip(VALUES, ("2000000", "99999", "100000"), strict=True))
elsewhere = pytest.mark.parametrize(
    "fleet", [{}, LOW, UNEVEN], ids=["here", "low", "uneven"], indirect=True
)


def all_values(fleet: Fleet) -> dict[str, list[str]]:
    """What each host's kernel is set to."""
    return {
        host.name: [host.read(f"/proc/sys/{name}").removesuffix("\n") for name in VALUES]
        for host in fleet.hosts
    }


def test_check_bare_hosts_shows_the_plan_once_and_writes_nothing(
    controller: Controller, fleet: Fleet, bundle: Path
):
    before = all_files(fleet)
    seen = controller.play("check.yml")
    assert seen.status == 2, seen.output
    assert seen.failed() == ALL
    assert re.search(
        r"^fatal: \[gpu03\]: .*not ok: \d+ changes to make ", seen.output, re.MULTILINE
    )
    assert all_files(fleet) == before
    assert re.search(
        r"^4 hosts: \d+ changes to make\n  gpu01, gpu02, gpu03, gpu04$", seen.output, re.MULTILINE
    )
    assert "+/dev/vdb    /data   ext4    defaults,noatime        0       2" in seen.output
    assert seen.changed() == set()


def test_apply_check_mode_on_bare_hosts_says_what_plan_says_there_and_writes_nothing(
    controller: Controller, fleet: Fleet, bundle: Path
):
    host = fleet["gpu01"]
    before = all_files(fleet)
    answer = controller.ask("gpu01", "tune", "--check", "--diff")
    assert all_files(fleet) == before
    own = json.loads(run_there(host, bundle, "plan", "--format", "json"))
    assert answer["changed"]
    assert answer["digest"] == own["digest"]
    assert answer["changes"] == [change for stage in own["stages"] for change in stage["changes"]]
    assert [one.get("before_header") for one in answer["diff"]][-1] == "live values"


def run_there(host: Host, bundle: Path, *words: str) -> str:
    """What hosttune prints when somebody types it on the host; 1 is its status where something
    differs.
    """
    host.put("/run/hosttune.pyz", bundle.read_bytes())
    script = 'python3 -I /run/hosttune.pyz "$@"; status=$?; rm /run/hosttune.pyz; [ $status -lt 2 ]'
    return host.run("sh", "-c", script, "sh", *words)


@elsewhere
def test_apply_makes_the_plan_and_the_second_run_touches_nothing(
    controller: Controller, fleet: Fleet
):
    first = controller.play("apply.yml", hosttune_serial=["100%"])
    assert first.status == 0, first.output
    assert first.changed() == ALL
    for host in fleet.hosts:
        assert "defaults,noatime" in host.read("/etc/fstab")
        assert "noatime" in data_flags(host)
        assert " apply " in host.run(
            "hosttune", "history"
        )  # what the headers of its files name can be typed
    before, values = all_files(fleet), all_values(fleet)
    assert all(value.isdecimal() for of_host in values.values() for value in of_host)
    second = controller.play("apply.yml", hosttune_serial=["100%"])
    assert second.status == 0, second.output
    assert second.changed() == set()
    assert (all_files(fleet), all_values(fleet)) == (before, values)


@elsewhere
def test_undo_by_digest_gives_every_host_its_files_back(controller: Controller, fleet: Fleet):
    before, values = all_files(fleet), all_values(fleet)
    made = controller.play("apply.yml", hosttune_serial=["100%"])
    digest = re.search(r"digest ([0-9a-f]{64})", made.output)[1]
    undone = controller.play("undo.yml", digest=digest, hosttune_serial=["100%"])
    assert undone.status == 0, undone.output
    assert undone.changed() == ALL
    for host in fleet.hosts:
        left = {
            path: seen
            for path, seen in host.files().items()
            if not path.startswith("/var/lib/hosttune/")
        }
        assert contents(left) == contents(before[host.name])
        assert "relatime" in data_flags(host)
    assert all_values(fleet) == values
    again = controller.play("undo.yml", digest=digest, hosttune_serial=["100%"])
    assert again.status == 0, again.output
    assert again.changed() == set()


def contents(files: dict[str, str]) -> dict[str, str]:
    """Without the time of change. A file as the tree has it counts as no file of the host's own."""
    return {path: seen.split()[-1] for path, seen in files.items() if path != "/etc/fstab"}


def test_apply_only_where_the_plan_is_approved_and_tells_what_moved_since(
    controller: Controller, fleet: Fleet
):
    fleet["gpu03"].shell("sed -i s/defaults/rw/ /etc/fstab")
    seen = controller.play("check.yml")
    digests = re.findall(r"digest ([0-9a-f]{64})", seen.output)
    assert len(digests) == 2
    before = fleet["gpu03"].files()
    made = controller.play("apply.yml", hosttune_serial=["100%"], approved=digests[0])
    assert made.status == 2, made.output
    assert made.failed() == {"gpu03"}
    assert "changes not made, because the plan is not approved (-e " in made.output
    assert made.changed() == ALL - {"gpu03"}
    assert fleet["gpu03"].files() == before
    assert re.search(
        r"1 host: \d+ changes not made, because the plan is not approved\n  gpu03", made.output
    )
    assert (
        "gpu03: its plan is that of the review, which is not among the approved ones" in made.output
    )
    fleet["gpu03"].shell(
        "echo vm.max_map_count=2000000 >/etc/sysctl.d/70-site.conf; sed -i s/rw,*// /etc/fstab"
    )
    fleet["gpu03"].shell("echo 2000000 >/proc/sys/vm/max_map_count")
    moved = controller.play(
        "apply.yml",
        hosttune_serial="100%",
        approved=",".join(digests),
        hosttune_require_compliant=False,
    )
    assert moved.status == 0, moved.output
    assert "1 host: not approved\n  gpu03: " in moved.output
    (told,) = re.findall(
        r"^  gpu03: (.* since the review.*|.* no longer needed.*)$", moved.output, re.MULTILINE
    )
    assert "memory-max-map-count.conf" in told


def test_apply_reboots_what_needs_it_drained_and_verifies_the_running_state(
    controller: Controller, fleet: Fleet, tmp_path: Path
):
    hooks = {}
    for name in ("drain", "undrain"):
        hooks[f"hosttune_{name}_tasks"] = str(tmp_path / f"{name}.json")
        note = {
            "ansible.builtin.shell": f"echo {name} $(cat /proc/sys/kernel/random/boot_id) >> /home/ops/hooks"
        }
        (tmp_path / f"{name}.json").write_text(json.dumps([note]))
    boots = {host.name: host.boot_id() for host in fleet.hosts}
    made = controller.play(
        "apply.yml", hosttune_serial=["100%"], hosttune_policy=POLICY, hosttune_reboot=True, **hooks
    )
    assert made.status == 0, made.output
    for host in fleet.hosts:
        assert host.boot_id() != boots[host.name]
        assert host.run("findmnt", "--noheadings", "--output", "FSTYPE", "/tmp").strip() == "tmpfs"
        assert "noatime" in data_flags(host)
        drained, back = (line.split() for line in host.read("/home/ops/hooks").splitlines())
        assert drained == ["drain", boots[host.name].strip()]
        assert back == ["undrain", host.boot_id().strip()]
    assert "4 hosts: rebooted, and verified afterwards" in made.output


def test_empty_value_of_the_role_reaches_no_host(controller: Controller, fleet: Fleet):
    """A variable of the site that was never set: it would mean the policy of the host, every plan,
    or no drain.
    """
    before = all_files(fleet)
    names = (
        "policy_file",
        "policy",
        "profile",
        "select",
        "approved",
        "drain_tasks",
        "executable",
        "max_risk",
        "deb",
    )
    for name in names:
        seen = controller.play("apply.yml", **{f"hosttune_{name}": ""})
        assert seen.status != 0, name
        assert f"{name}: the value is empty" in seen.output or f"hosttune_{name}" in seen.output, (
            seen.output
        )
    assert all_files(fleet) == before


def test_tune_rules_and_policy_of_the_controller_count(controller: Controller, tmp_path: Path):
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "site-somaxconn.yaml").write_text(SITE_RULE)
    policy = tmp_path / "policy.yaml"
    policy.write_text("ignore: [storage-noatime]\n")
    answer = controller.ask(
        "gpu01",
        "tune",
        "--check",
        rules_files=[str(rules)],
        policy_file=str(policy),
        select=["site-somaxconn"],
    )
    rules_named = {change["rule"] for change in answer["changes"]}
    assert "site-somaxconn" in rules_named
    assert "storage-noatime" not in rules_named
    wrong = controller.ask("gpu01", "tune", "--check", policy={"ignroe": []})
    assert wrong["failed"]
    assert wrong["msg"].startswith("policy.yaml:")
    assert "ignore" in wrong["msg"]


SITE_RULE = """\
id: site-somaxconn
title: A longer queue of connections
risk: low
disturbs: nothing
since: "0.1"
gain: none that was measured
why: The site's services open many connections at once.
sources: ["tcp(7)"]
want:
  - sysctl: net.core.somaxconn
    at_least: 65535
"""
