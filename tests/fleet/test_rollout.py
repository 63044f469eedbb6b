"""A rollout never goes on over a host that dropped out, whenever that was, and ends with what to
type next.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.fleet.controller import Controller, Played
from tests.fleet.hosts import ALL, FAULTS, POLICY, Fleet

pytestmark = pytest.mark.fleet

BATCHES = {"hosttune_serial": [1, 2, "100%"]}
LOST = "1 host: failed or gave no answer\n"


def is_untouched(fleet: Fleet, *names: str) -> bool:
    return not any("hosttune" in path for name in names for path in fleet[name].files())


def told(seen: Played, host: str) -> str:
    """What the summary of a batch says of a host that failed or dropped out."""
    _before, said, rest = seen.output.partition(f"{LOST}  {host}: ")
    assert said, seen.output
    return rest.partition("\n")[0]


def test_host_that_does_not_answer_is_told_with_its_batch_and_ends_the_rollout(
    either: Controller, fleet: Fleet
):
    fleet["gpu02"].break_by("no sshd")
    seen = either.play("apply.yml", **BATCHES)
    assert seen.status == 2, seen.output
    assert "Connection refused" in told(seen, "gpu02")
    assert seen.changed() == {"gpu01", "gpu03"}
    assert is_untouched(fleet, "gpu02", "gpu04")
    assert seen.failed() == {"gpu02"}
    assert "made in part" not in seen.output  # nothing began there
    assert "It ends here; of later batches, nothing is touched: gpu04.\n" in seen.output
    runs = re.findall(r"^  gpu0[13]: run (\S+)$", seen.output, re.MULTILINE)
    (back,) = re.findall(r"^    (ansible-playbook .*)$", seen.output, re.MULTILINE)
    assert back.endswith(f"/playbooks/undo.yml -e run_id={','.join(sorted(runs))}")


def test_canary_that_does_not_answer_is_told_and_nobody_is_touched(
    controller: Controller, fleet: Fleet
):
    fleet["gpu01"].break_by("no sshd")
    seen = controller.play("apply.yml", **BATCHES)
    assert seen.status == 2, seen.output
    assert "Connection refused" in told(seen, "gpu01")
    assert is_untouched(fleet, *ALL)


WRITTEN = "until ls /etc/sysctl.d/60-hosttune* >/dev/null 2>&1; do sleep 0.01; done; "


def test_host_that_is_cut_off_in_the_middle_of_its_change_ends_the_rollout(
    controller: Controller, fleet: Fleet
):
    watch = fleet["gpu02"].start("sh", "-c", WRITTEN + FAULTS["no sshd"])
    seen = controller.play("apply.yml", **BATCHES)
    watch.wait(timeout=10)
    assert seen.status == 2, seen.output
    assert told(seen, "gpu02")
    assert (
        "  gpu02: see `hosttune history` there; what was begun may be made in part" in seen.output
    )
    assert is_untouched(fleet, "gpu04")
    assert not is_untouched(fleet, "gpu02")


def test_host_that_its_drain_loses_ends_the_rollout_with_its_run(
    either: Controller, fleet: Fleet, tmp_path: Path
):
    """The scheduler's machine is down: Ansible then takes the host out of the play that was to be
    drained.
    """
    fleet["gpu04"].break_by("no sshd")
    ask = {
        "ansible.builtin.ping": {},
        "delegate_to": "gpu04",
        "when": "inventory_hostname == 'gpu02'",
    }
    (tmp_path / "drain.json").write_text(json.dumps([ask]))
    before = fleet["gpu02"].boot_id()
    options = {"hosttune_policy": POLICY, "hosttune_reboot": True, "hosttune_serial": [2, 1, 1]}
    seen = either.play("apply.yml", hosttune_drain_tasks="drain.json", **options)
    assert seen.status == 4, seen.output  # unreachable, and no other host failed for it
    assert seen.failed() == set()
    assert "made in part" not in seen.output  # its run came to its end
    (run,) = fleet["gpu02"].run("ls", "/var/lib/hosttune/runs").split()
    run = run.removesuffix(".jsonl")
    last = f"run {run} stands; next: drain, reboot, verify; if the host drops out there, type the same again"
    assert last in seen.output  # of a batch that drops out as a whole it is all that is said
    assert told(seen, "gpu02") == (
        f"no answer any more; run {run} was made; whether it is drained, or has rebooted, is not known"
    )
    assert fleet["gpu02"].boot_id() == before
    assert is_untouched(fleet, "gpu03")
    assert "1 host: rebooted, and verified afterwards\n  gpu01\n" in seen.output


def test_host_that_does_not_come_back_from_its_reboot_ends_the_rollout(
    controller: Controller, fleet: Fleet, tmp_path: Path
):
    away = {"ansible.builtin.command": "mv /usr/sbin/sshd /usr/sbin/sshd.away", "become": True}
    (tmp_path / "drain.json").write_text(json.dumps([away]))
    options = {"hosttune_policy": POLICY, "hosttune_reboot": True, "hosttune_reboot_timeout": 8}
    seen = controller.play(
        "apply.yml", hosttune_drain_tasks=str(tmp_path / "drain.json"), **options
    )
    assert seen.status == 2, seen.output
    assert "Timed out waiting for" in told(seen, "gpu01")
    assert told(seen, "gpu01").endswith("stands; it stays drained")
    assert is_untouched(fleet, "gpu02", "gpu03", "gpu04")


def test_host_that_is_lost_while_its_reboot_is_verified_ends_the_rollout(
    either: Controller, fleet: Fleet
):
    """The first program of Python's that runs after the boot is the look that verifies it."""
    before = fleet["gpu01"].boot_id().strip()
    wrapper = f"""#!/bin/sh
[ "$(cat /proc/sys/kernel/random/boot_id)" = {before} ] || {{ {FAULTS["no sshd"]}; }}
exec /usr/bin/python3.real "$@"
"""
    fleet["gpu01"].put("/run/wrapper", wrapper.encode())
    fleet["gpu01"].shell(
        "mv /usr/bin/python3 /usr/bin/python3.real && install /run/wrapper /usr/bin/python3"
    )
    options = {
        "hosttune_policy": POLICY,
        "hosttune_reboot": True,
        "hosttune_serial": [1, 1, "100%"],
    }
    seen = either.play("apply.yml", **options)
    assert seen.status == 2, seen.output
    assert fleet["gpu01"].boots == 2
    (run,) = fleet["gpu01"].run("ls", "/var/lib/hosttune/runs").split()
    assert f"; run {run.removesuffix('.jsonl')} stands" in told(seen, "gpu01")
    assert "rebooted, and verified afterwards" not in seen.output
    assert is_untouched(fleet, "gpu02", "gpu03", "gpu04")


def test_so_many_may_fail_and_the_rollout_goes_on(controller: Controller, fleet: Fleet):
    fleet["gpu02"].break_by("no sshd")
    options = {"hosttune_serial": "50%", "hosttune_max_fail_percentage": 50}
    seen = controller.play("apply.yml", **options)
    assert seen.status == 2, seen.output
    assert seen.changed() == ALL - {"gpu02"}
    assert "It ends here" not in seen.output
    assert "Connection refused" in told(seen, "gpu02")
    assert seen.failed() == {"gpu02"}
    stricter = controller.play("apply.yml", **(options | {"hosttune_max_fail_percentage": 49}))
    assert "It ends here; of later batches, nothing is touched: gpu03, gpu04.\n" in stricter.output
    assert stricter.output.count("gpu03") == 1


def test_undo_stops_at_a_host_that_does_not_answer(controller: Controller, fleet: Fleet):
    made = controller.play("apply.yml", hosttune_serial="100%")
    assert made.status == 0, made.output
    fleet["gpu02"].break_by("no sshd")
    seen = controller.play("undo.yml", **BATCHES)
    assert seen.status == 2, seen.output
    assert "Connection refused" in told(seen, "gpu02")
    assert seen.changed() == {"gpu01", "gpu03"}
    assert "noatime" in fleet["gpu04"].read("/etc/fstab")
    assert "It ends here" in seen.output


def test_undo_whose_sole_host_is_lost_is_no_undo(either: Controller, fleet: Fleet, tmp_path: Path):
    """Before it is asked, and in its drain: nobody is left to tell it but the play itself."""
    made = either.play(
        "apply.yml", "--limit", "gpu01", hosttune_policy=POLICY, hosttune_require_compliant=False
    )
    assert made.status == 0, made.output
    fleet["gpu04"].break_by("no sshd")
    ask = {"ansible.builtin.ping": {}, "delegate_to": "gpu04"}
    (tmp_path / "drain.json").write_text(json.dumps([ask]))
    options = {"hosttune_drain_tasks": "drain.json", "hosttune_reboot": True}
    seen = either.play("undo.yml", "--limit", "gpu01", **options)
    assert seen.status != 0, seen.output
    runs = [
        name.removesuffix(".jsonl")
        for name in fleet["gpu01"].run("ls", "/var/lib/hosttune/runs").split()
    ]
    assert f"run {runs[-1]} stands; next: drain, reboot, verify" in seen.output
    assert "undone" not in seen.output.partition("PLAY RECAP")[0].rpartition("next: drain")[2]
    fleet["gpu01"].break_by("no sshd")
    seen = either.play("undo.yml", "--limit", "gpu01")
    assert seen.status == 2, seen.output
    assert "Connection refused" in told(seen, "gpu01")


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (
            None,
            "hook.yml: no such file of tasks on the controller, nor hook.yml beside the playbook",
        ),
        (
            "- name: x\n  ansible.builtin.shel: {cmd: y}\n",
            "hook.yml: cannot be run as tasks: couldn't resolve module/action",
        ),
        ("not: a list\n", "hook.yml: cannot be run as tasks: no list of tasks"),
    ],
)
def test_hook_that_cannot_be_run_is_found_before_anything_is_changed(
    tasks: str | None, said: str, either: Controller, fleet: Fleet, tmp_path: Path
):
    if tasks:
        (tmp_path / "hook.yml").write_text(tasks)
    for word in ("drain", "undrain"):
        seen = either.play(
            "apply.yml", "--limit", "gpu01", **{f"hosttune_{word}_tasks": "hook.yml"}
        )
        assert seen.status == 2, seen.output
        assert said in told(seen, "gpu01")
        assert told(seen, "gpu01").startswith("/")
    assert is_untouched(fleet, "gpu01")


def test_hook_that_fails_is_told_with_the_run_and_the_host_stays_drained(
    controller: Controller, fleet: Fleet, tmp_path: Path
):
    for name, bad in (("drain", "gpu01"), ("undrain", "gpu02")):
        fails = {
            "ansible.builtin.fail": {"msg": f"no {name}"},
            "when": f"inventory_hostname == '{bad}'",
        }
        note = {"ansible.builtin.shell": f"echo {name} >> /home/ops/hooks"}
        (tmp_path / f"{name}.json").write_text(json.dumps([fails, note]))
    boots = {host.name: host.boot_id() for host in fleet.hosts}
    hooks = {f"hosttune_{name}_tasks": f"{name}.json" for name in ("drain", "undrain")}
    options = {"hosttune_policy": POLICY, "hosttune_reboot": True, "hosttune_serial": [2, 2]}
    seen = controller.play("apply.yml", **hooks, **options)
    assert seen.status == 2, seen.output
    runs = {
        name: fleet[name].run("ls", "/var/lib/hosttune/runs").strip().removesuffix(".jsonl")
        for name in ("gpu01", "gpu02")
    }
    reasons = seen.output.partition("2 hosts: failed or gave no answer\n")[2]
    assert (
        f"  gpu01: not drained, so not rebooted: no drain; run {runs['gpu01']} stands, the reboot is still to come\n"
        "  gpu02: rebooted and verified, but not given back, so it stays drained: no undrain;"
        f" run {runs['gpu02']} stands\n"
    ) in reasons
    assert fleet["gpu01"].boot_id() == boots["gpu01"]
    assert fleet["gpu02"].boot_id() != boots["gpu02"]
    assert fleet["gpu02"].read("/home/ops/hooks") == "drain\n"
    assert is_untouched(fleet, "gpu03", "gpu04")


def test_pattern_that_matches_nobody_is_an_error(either: Controller, fleet: Fleet):
    typo = (["-e", "hosttune_hosts=TYPO"], "hosttune_hosts: TYPO matches no host of the inventory")
    for playbook, words, said in (
        *((playbook, *typo) for playbook in ("check.yml", "apply.yml", "undo.yml")),
        (
            "apply.yml",
            ["-e", "hosttune_hosts=gpu:!TYPO"],
            "hosttune_hosts: !TYPO matches no host of the inventory",
        ),
        (
            "undo.yml",
            ["-e", "hosttune_hosts=gpu02", "--limit", "gpu01"],
            "hosttune_hosts: gpu02 matches no host within --limit gpu01",
        ),
    ):
        seen = either.play(playbook, *words)
        assert seen.status != 0, seen.output
        assert said in seen.output
        assert "TASK" not in seen.output


def test_undo_of_a_rule_that_nobody_has_is_an_error(controller: Controller, fleet: Fleet):
    for words, said in (
        ({"rule": "storage-noatme"}, "no rule is called storage-noatme"),
        ({"digest": "ab" * 32}, f"no host has a run of a plan with the digest {'ab' * 32}"),
        ({"run_id": "20260101-000000-abcd"}, "no host has the run 20260101-000000-abcd"),
    ):
        seen = controller.play("undo.yml", "--limit", "gpu01", **words)
        assert seen.status == 2, seen.output
        assert said in seen.output


def test_reboot_of_an_undo_is_verified(controller: Controller, fleet: Fleet, tmp_path: Path):
    """On one of the hosts somebody puts a value there again before the boot."""
    options = {"hosttune_policy": POLICY, "hosttune_serial": [2]}
    made = controller.play(
        "apply.yml", "--limit", "gpu01,gpu02", hosttune_require_compliant=False, **options
    )
    assert made.status == 0, made.output
    path = "/etc/sysctl.d/60-hosttune-memory-max-map-count.conf"
    again = {
        "ansible.builtin.copy": {"content": "#\n", "dest": path, "mode": "0644"},
        "become": True,
    }
    (tmp_path / "drain.json").write_text(
        json.dumps([again | {"when": "inventory_hostname == 'gpu02'"}])
    )
    hook = {"hosttune_drain_tasks": "drain.json", "hosttune_reboot": True}
    shown = controller.play("undo.yml", "--limit", "gpu01", "--check", "--diff", **options)
    assert shown.status == 0, shown.output
    hunk = "@@ -6 +6 @@\n-/dev/vdb    /data   ext4    defaults,noatime        0       2\n+/dev/vdb    /data   ext4    defaults        0       2\n"
    assert shown.output.count(hunk) == 1
    seen = controller.play("undo.yml", "--limit", "gpu01,gpu02", **hook, **options)
    assert seen.status == 2, seen.output
    assert fleet["gpu01"].boots == fleet["gpu02"].boots == 2
    assert "1 host: rebooted, and verified afterwards\n  gpu01\n" in seen.output
    assert f"after the reboot this is not as the undo left it: file:{path}; run " in told(
        seen, "gpu02"
    )
    assert told(seen, "gpu02").endswith("stands; it stays drained")
