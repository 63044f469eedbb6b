"""What the playbooks do where something is broken or busy: nothing is lost, and everybody hears of
it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.fleet.controller import Controller
from tests.fleet.hosts import ALL, POLICY, Fleet

pytestmark = pytest.mark.fleet

AT_ONCE = {"hosttune_serial": ["100%"]}
MORE_MAPS = {"params": {"memory-max-map-count": {"minimum": 4194304}}}


def test_apply_one_host_fails_the_play_stops_and_the_rerun_reboots_what_is_left(
    controller: Controller, fleet: Fleet
):
    fleet["gpu02"].break_by("full fstab")
    boots = {host.name: host.boot_id() for host in fleet.hosts}
    options = {"hosttune_policy": POLICY, "hosttune_serial": [1, 2, 1]}
    broken = controller.play("apply.yml", **options)
    assert broken.status == 2, broken.output
    assert "gpu02: " in broken.output.partition("failed or gave no answer")[2]
    assert fleet["gpu04"].boots == 1
    assert "/etc/sysctl.d/60-hosttune-memory-max-map-count.conf" in fleet["gpu03"].files()
    assert not any("hosttune" in path for path in fleet["gpu04"].files())
    fleet["gpu02"].heal()
    healed = controller.play("apply.yml", hosttune_reboot=True, **options)
    assert healed.status == 0, healed.output
    assert [host.name for host in fleet.hosts if host.boot_id() == boots[host.name]] == []


def test_tune_failed_change_still_tells_what_was_done(controller: Controller, fleet: Fleet):
    fleet["gpu01"].break_by("full fstab")
    answer = controller.ask("gpu01", "tune")
    assert answer["failed"]
    assert answer["changed"]
    phases = {one["address"]: one["phase"] for one in answer["changes"]}
    assert phases["file:/etc/sysctl.d/60-hosttune-memory-max-map-count.conf"] == "done"
    assert phases["fstab:/data"] == "failed"
    assert answer["run_id"]
    assert "fstab" in answer["msg"]


SYSFS_RULE = """\
id: site-defrag
title: The kernel makes huge pages later
risk: low
disturbs: nothing
since: "0.1"
gain: none that was measured
why: The site says so.
sources: ["https://docs.kernel.org/admin-guide/mm/transhuge.html"]
want:
  - {sysfs: /sys/kernel/mm/transparent_hugepage/defrag, exactly: never}
"""
GPU_RULE = """\
id: site-somaxconn
title: A longer queue of connections
risk: low
disturbs: running GPU work
since: "0.1"
gain: none that was measured
why: The site's services open many connections at once.
sources: ["tcp(7)"]
want:
  - {sysctl: net.core.somaxconn, at_least: 65535}
"""


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("full sysctl.d", "No space left on device"),
        ("full journal", "nothing was tried: "),
    ],
)
def test_tune_fault_of_the_host_is_named_and_nothing_half_done_stays(
    fault: str, told: str, controller: Controller, fleet: Fleet
):
    host = fleet["gpu01"]
    before = host.read("/proc/sys/vm/max_map_count")
    host.break_by(fault)
    answer = controller.ask(
        "gpu01", "tune", policy=MORE_MAPS, ignore=["storage-noatime", "limits-nofile"]
    )
    assert answer["failed"]
    assert told in answer["msg"]
    assert "Traceback" not in json.dumps(answer)
    assert host.read("/proc/sys/vm/max_map_count") == before
    assert "/etc/sysctl.d/60-hosttune-memory-max-map-count.conf" not in host.files()


def test_tune_with_a_full_run_folder_works_from_a_folder_on_disk(
    controller: Controller, fleet: Fleet
):
    host = fleet["gpu01"]
    host.break_by("full memory")
    answer = controller.ask("gpu01", "tune")
    assert not answer.get("failed"), answer
    assert answer["compliant"]
    assert host.shell("ls -d /tmp/hosttune-task-* /run/hosttune-task-* 2>/dev/null; true") == ""


def test_locked_host_is_told_as_nothing_was_tried(controller: Controller, fleet: Fleet):
    holder = fleet["gpu01"].start("flock", "/run/hosttune.lock", "sleep", "120")
    try:
        seen = controller.play("apply.yml", "--limit", "gpu01")
    finally:
        holder.kill()
        holder.wait()
    assert seen.status == 2, seen.output
    assert re.search(
        r"^1 host: \d+ changes not made, nothing was tried\n  gpu01$", seen.output, re.MULTILINE
    )
    assert "  gpu01: nothing was tried: another run of hosttune is at work" in seen.output
    assert not any("hosttune" in path for path in fleet["gpu01"].files())
    assert len(max(seen.output.splitlines(), key=len)) < 1500


def test_tune_read_only_values_are_refused_in_the_plan_and_the_other_rules_are_done(
    controller: Controller, fleet: Fleet, tmp_path: Path
):
    (tmp_path / "site-defrag.yaml").write_text(SYSFS_RULE)
    fleet["gpu01"].break_by("read-only sysctl")
    rules = {"rules_files": [str(tmp_path / "site-defrag.yaml")], "select": ["site-defrag"]}
    answer = controller.ask("gpu01", "tune", policy=MORE_MAPS, **rules)
    assert not answer.get("failed"), answer
    assert not answer["compliant"]
    told = json.dumps(answer)
    assert "/sys is mounted read-only" in told
    assert "/proc/sys is mounted read-only" in told
    phases = {one["address"]: one["phase"] for one in answer["changes"]}
    assert phases["fstab:/data"] == "done"
    assert not any(address.startswith(("sysfs:", "sysctl:vm.max_map_count")) for address in phases)


def test_check_names_who_gives_no_answer_and_keeps_the_answers_of_the_others(
    controller: Controller, fleet: Fleet, tmp_path: Path
):
    fleet["gpu03"].break_by("no sshd")
    fleet["gpu04"].break_by("no python")
    folder = tmp_path / "results"
    seen = controller.play("check.yml", results=str(folder), gather="record")
    assert seen.status == 2, seen.output
    silent = seen.output.partition("2 hosts: failed or gave no answer")[2]
    assert "gpu03: " in silent
    assert "gpu04: The module interpreter '/usr/bin/python3' was not found." in silent
    # How many depends on the sysctls of the machine that these hosts share.
    assert re.search(r"^2 hosts: \d+ changes to make\n  gpu01, gpu02$", seen.output, re.MULTILINE)
    kept = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    assert set(kept) == ALL
    assert [one["host"] for one in kept["gpu01"]["hosts"]] == ["gpu01"]
    assert kept["gpu03"]["kind"] == kept["gpu04"]["kind"] == "hosttune missing"
    assert (kept["gpu03"]["host"], kept["gpu04"]["host"]) == ("gpu03", "gpu04")
    assert sorted(path.name for path in (folder / "records").iterdir()) == [
        "gpu01.json",
        "gpu02.json",
    ]
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*.json")} == {0o600}


def test_check_without_any_answer_is_told_too(controller: Controller, fleet: Fleet, tmp_path: Path):
    fleet["gpu03"].break_by("no sshd")
    seen = controller.play("check.yml", "--limit", "gpu03", results=str(tmp_path / "results"))
    assert seen.status == 2, seen.output
    assert "1 host: failed or gave no answer\n  gpu03: " in seen.output
    assert json.loads((tmp_path / "results/gpu03.json").read_text())["host"] == "gpu03"


def test_apply_canary_fails_and_nobody_else_is_touched(controller: Controller, fleet: Fleet):
    fleet["gpu01"].break_by("full fstab")
    others = [fleet[name] for name in sorted(ALL - {"gpu01"})]
    before = [host.files() for host in others]
    broken = controller.play("apply.yml")
    assert broken.status == 2, broken.output
    assert [host.files() for host in others] == before
    told = [line.strip() for line in broken.output.splitlines() if "gpu02" in line]
    assert told == ["It ends here; of later batches, nothing is touched: gpu02, gpu03, gpu04."]


def test_apply_play_that_dies_before_the_reboot_is_finished_by_the_next_run(
    controller: Controller, fleet: Fleet, tmp_path: Path
):
    drain = tmp_path / "drain.json"
    kill = {
        "ansible.builtin.shell": f"kill -KILL $(cat {tmp_path}/pid)",
        "delegate_to": "localhost",
        "run_once": True,
    }
    drain.write_text(json.dumps([kill]))
    boots = {host.name: host.boot_id() for host in fleet.hosts}
    options = {"hosttune_policy": POLICY, "hosttune_reboot": True, **AT_ONCE}
    died = controller.play("apply.yml", hosttune_drain_tasks=str(drain), **options)
    assert died.status == -9, died.output
    assert {host.name: host.boot_id() for host in fleet.hosts} == boots
    assert all("noatime" in host.read("/etc/fstab") for host in fleet.hosts)
    again = controller.play("apply.yml", **options)
    assert again.status == 0, again.output
    assert "4 hosts: rebooted, and verified afterwards" in again.output
    assert not {host.boot_id() for host in fleet.hosts} & set(boots.values())


def test_no_reboot_into_a_boot_that_loses_a_disk(controller: Controller, fleet: Fleet):
    """Of gpu01 the line of /data, which is mounted, has a typing error: it is not edited, and only
    gpu02 boots.
    """
    fleet["gpu01"].shell("sed -i '/vdb/s/defaults/defautls/' /etc/fstab")
    boots = {name: fleet[name].boot_id() for name in ("gpu01", "gpu02")}
    options = {"hosttune_policy": POLICY, "hosttune_reboot": True, **AT_ONCE}
    seen = controller.play("apply.yml", "--limit", "gpu01,gpu02", **options)
    assert seen.status == 2, seen.output
    assert "no reboot before this is solved: storage-fstab: line 6 of /etc/fstab: " in seen.output
    assert "an option `defautls`: the mount fails" in seen.output
    assert fleet["gpu01"].boot_id() == boots["gpu01"]
    assert "noatime" not in fleet["gpu01"].read("/etc/fstab")
    assert fleet["gpu02"].boot_id() != boots["gpu02"]
    assert "before-boot.json" in fleet["gpu02"].shell("ls /var/lib/hosttune")


def test_apply_busy_gpus_put_a_change_off_and_the_next_run_makes_it(
    controller: Controller, fleet: Fleet, tmp_path: Path
):
    (tmp_path / "site-somaxconn.yaml").write_text(GPU_RULE)
    options = {
        "hosttune_rules_files": [str(tmp_path / "site-somaxconn.yaml")],
        "hosttune_policy": {"select": ["site-somaxconn"], "disturb": "running GPU work"},
        **AT_ONCE,
    }
    work = fleet["gpu02"].work_on_gpu()
    try:
        first = controller.play("apply.yml", **options)
        pid = work.pid
    finally:
        work.kill()
        work.wait()
    assert first.status == 2, first.output
    assert first.failed() == {"gpu02"}
    assert "not ok: waiting for GPU work: site-somaxconn (" in first.output
    assert first.changed() == ALL
    held = f"1 host: waiting for GPU work\n  gpu02: site-somaxconn (process {pid} (sleep, root) holds a GPU)"
    assert held in first.output
    assert [
        host.name
        for host in fleet.hosts
        if host.read("/proc/sys/net/core/somaxconn").strip() != "65535"
    ] == ["gpu02"]
    second = controller.play("apply.yml", **options)
    assert second.status == 0, second.output
    assert second.changed() == {"gpu02"}
    assert "waiting for GPU work" not in second.output
    assert fleet["gpu02"].read("/proc/sys/net/core/somaxconn").strip() == "65535"


def test_what_the_reboot_makes_possible_is_for_the_next_run(
    controller: Controller, fleet: Fleet, tmp_path: Path
):
    """The reboot ends the work that a change was put off for."""
    (tmp_path / "site-somaxconn.yaml").write_text(GPU_RULE)
    policy = POLICY | {"select": ["site-somaxconn"], "disturb": "running GPU work"}
    options = {
        "hosttune_rules_files": [str(tmp_path / "site-somaxconn.yaml")],
        "hosttune_policy": policy,
    }
    work = fleet["gpu01"].work_on_gpu()
    try:
        seen = controller.play("apply.yml", "--limit", "gpu01", hosttune_reboot=True, **options)
    finally:
        work.kill()
        work.wait()
    assert seen.status == 2, seen.output
    assert fleet["gpu01"].boots == 2
    assert "host: waiting for GPU work" not in seen.output
    (told,) = re.findall(
        r"^1 host: more to make by the next run\n  (gpu01: .*)$", seen.output, re.MULTILINE
    )
    assert told.endswith("(site-somaxconn)")
    again = controller.play("apply.yml", "--limit", "gpu01", **options)
    assert again.status == 0, again.output


def test_host_that_nothing_can_be_changed_on_is_never_nothing_to_change(
    controller: Controller, fleet: Fleet
):
    fleet["gpu01"].shell("mount --bind /etc /etc && mount -o remount,bind,ro /etc")
    fleet["gpu02"].shell("yes '# a remark, and nothing else' | head -c 2500000 >>/etc/fstab")
    fleet["gpu03"].shell("sed -i s/defaults/strictatime/ /etc/fstab")
    for playbook in ("check.yml", "apply.yml"):
        seen = controller.play(playbook, "--limit", "gpu01,gpu02,gpu03", **AT_ONCE)
        assert seen.status == 2, seen.output
        assert "nothing to change" not in seen.output
        assert "1 host: nothing that hosttune changes, and not ok\n  gpu01\n" in seen.output
        refused = seen.output.partition("\n1 host: blocked\n")[2].partition("\n\n")[0]
        assert (
            "  gpu01: /etc/fstab cannot be written: /etc is mounted read-only (storage-noatime)"
            in refused
        )
        assert "  gpu02: larger than 1 MiB or 10,000 lines, which no fstab is (" in seen.output
        alone = "1 host: skipped\n  gpu03: managed by an explicit `strictatime` in /etc/fstab line 6 (storage-noatime)"
        assert alone in seen.output
        assert seen.failed() == {"gpu01", "gpu02", "gpu03"}
        assert "skipped: storage-noatime (-e " in seen.output
    again = controller.play("apply.yml", "--limit", "gpu03", hosttune_require_compliant=False)
    assert again.status == 0, again.output
    assert "1 host: nothing that hosttune changes, and not ok\n  gpu03\n" in again.output
