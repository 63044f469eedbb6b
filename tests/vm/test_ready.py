"""A node that takes work only as approved: hosttune-ready.service before a stand-in slurmd, from
hold to ready, over one reboot; what a broken policy and a power cut leave; apply --yes --reboot to
its end; and the way back by one command each.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vm.guest import BOOT_TIMEOUT_S, Guest
from tests.vm.operator import POLICY, hosttune

pytestmark = pytest.mark.vm

BUILDER = Path(__file__).resolve().parents[2] / "playbooks/packaging/deb.py"
APPROVED = "/etc/hosttune/approved"
# The least that /tmp in memory asks of a host, so that this one has something that waits for a
# boot.
TMP = "params:\n  storage-tmp-tmpfs: {where: anywhere, min_ram_bytes: 1073741824, min_bytes: 1073741824, max_ram_share: 0.75, used_share: 0.5}\n"
SLURMD = """\
[Unit]
Description=Stands in for slurmd
[Service]
ExecStart=/bin/sleep infinity
KillMode=process
[Install]
WantedBy=multi-user.target
"""
# The harness speaks again when the gate is open or shut, not in a boot that the gate ends.
AFTER = "[Unit]\nAfter=hosttune-ready.service hosttune-continue.service\n"
# Waits for the start of what requires the gate, as cloud-init's module `snap` does, and the seeding
# before it.
CLOUD_CONFIG = """\
[Unit]
Description=Stands in for cloud-config
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/systemctl start nomad.service
[Install]
WantedBy=multi-user.target
"""
AGENT = "nomad.service"  # a kubelet would make another plan
HOOK = '#!/bin/sh\necho "$1 $2" >> /var/lib/hook.log\n'


def status(guest: Guest) -> dict:
    """What `hosttune status` says in JSON; standing is empty where no boot was looked at."""
    said = json.loads(guest.ask_any(["hosttune", "status", "--format", "json"]).stdout)
    return {"standing": "", **said}


def is_active(guest: Guest, unit: str = "slurmd.service") -> bool:
    return guest.run(["systemctl", "is-active", unit]).stdout == "active\n"


def seconds(guest: Guest, unit: str, since: str = "ExecMainStartTimestampMonotonic") -> float:
    """How long a oneshot unit ran in this boot."""
    names = (since, "ExecMainExitTimestampMonotonic")
    said = guest.ask(["systemctl", "show", unit, *(f"--property={name}" for name in names)])
    values = dict(line.split("=") for line in said.splitlines())
    return (int(values[names[1]]) - int(values[names[0]])) / 1e6


def test_apply_with_reboot_goes_on_by_itself_to_its_end(guest: Guest) -> None:
    guest.write("/etc/systemd/system/hosttune-agent.service.d/after.conf", AFTER.encode())
    guest.write(POLICY, TMP.encode())
    _, shown = hosttune(guest, "apply", "--reboot")
    assert "hosttune will boot this host at most 1 time" in shown
    before = guest.boot_id
    guest.leave(["hosttune", "apply", "--yes", "--reboot"])
    assert guest.await_boot(BOOT_TIMEOUT_S) != before
    assert status(guest)["standing"] == "ready", guest.ask_any(
        ["journalctl", "-b", "-u", "hosttune-continue", "--no-pager"]
    ).stdout
    assert guest.run(["hosttune", "status"]).rc == 0
    assert (
        guest.ask_any(["find", "/etc/systemd/system", "-name", "hosttune-continue*"]).stdout == ""
    )
    assert hosttune(guest, "reboot-required") == (1, "no reboot is required\n")
    assert guest.ask(["findmnt", "--noheadings", "--output", "FSTYPE", "/tmp"]).strip() == "tmpfs"
    rc, _ = hosttune(guest, "undo", "--yes")
    assert rc == 0


def test_unapproved_plan_holds_the_node_and_says_which_line_opens_it(
    guest: Guest, tmp_path_factory
) -> None:
    deb = tmp_path_factory.mktemp("deb") / "hosttune.deb"
    subprocess.run(
        [sys.executable, "-I", BUILDER, deb], check=True, capture_output=True, timeout=300
    )
    guest.write("/root/hosttune.deb", deb.read_bytes())
    guest.ask(["rm", "/usr/local/bin/hosttune"])
    assert guest.run(["dpkg", "--force-confold", "--install", "/root/hosttune.deb"]).rc == 0
    guest.write("/etc/systemd/system/slurmd.service", SLURMD.encode())
    guest.write(
        "/etc/slurm/slurm.conf", b"TmpFS=/data\n"
    )  # else /tmp is what slurmd promises to jobs, and stays on disk
    guest.write("/etc/hosttune/ready.d/10-note", HOOK.encode())
    guest.ask(["chmod", "755", "/etc/hosttune/ready.d/10-note"])
    guest.write(f"/etc/systemd/system/{AGENT}", SLURMD.encode())
    guest.ask(["systemctl", "enable", "slurmd.service", AGENT])
    assert guest.run(["systemctl", "enable", "hosttune-ready.service"]).rc == 0
    guest.reboot()
    held = status(guest)
    assert (held["standing"], held["this_boot"], held["reboots"]) == ("held", True, [])
    assert (
        "is approved nowhere; one of these lines in /etc/hosttune/approved approves it: "
        in held["sentence"]
    )
    assert not is_active(guest)
    assert not is_active(guest, AGENT)
    assert guest.run(["hosttune", "status"]).rc == 1
    assert "held: the plan" in guest.ask(["cat", "/run/motd.d/60-hosttune"])
    assert (
        "is approved nowhere"
        in guest.ask_any(
            ["systemctl", "status", "hosttune-ready.service", "--no-pager", "--full"]
        ).stdout
    )
    assert guest.ask(["tail", "-n1", "/var/lib/hook.log"]).startswith("leave the plan ")


def test_approved_plan_is_made_with_one_reboot_before_work(guest: Guest) -> None:
    line = status(guest)["sentence"].partition(" or: ")[2]
    assert line.startswith("policy ")
    guest.write(APPROVED, f"{line}\n".encode())
    guest.leave(["systemctl", "reboot"])
    guest.await_boot(BOOT_TIMEOUT_S)
    ready = status(guest)
    assert (ready["standing"], ready["this_boot"], ready["reboots"]) == ("ready", True, []), ready
    said = guest.ask_any(["journalctl", "--unit", "hosttune-ready", "--no-pager"]).stdout
    assert ready["sentence"] == "as its plan says; nothing had to be changed, after 1 reboot", said
    assert is_active(guest)
    assert guest.run(["test", "-e", "/run/motd.d/60-hosttune"]).rc != 0
    assert guest.ask(["findmnt", "--noheadings", "--output", "FSTYPE", "/tmp"]).strip() == "tmpfs"
    order = guest.ask(
        [
            "systemctl",
            "show",
            "hosttune-ready.service",
            "slurmd.service",
            "--property=ActiveEnterTimestampMonotonic",
        ]
    )
    opened, started = (int(line.partition("=")[2]) for line in order.split())
    assert 0 < opened <= started


def test_nothing_to_do_opens_at_once_and_stopping_the_gate_is_refused(guest: Guest) -> None:
    guest.reboot()
    ready = status(guest)
    assert (ready["standing"], ready["sentence"]) == (
        "ready",
        "as its plan says; nothing had to be changed",
    )
    assert is_active(guest)
    guest.note(f"the gate took {seconds(guest, 'hosttune-ready.service'):.1f} s of this boot")
    pid = guest.ask(["systemctl", "show", "slurmd.service", "--property=MainPID"])
    assert guest.run(["systemctl", "restart", "hosttune-ready.service"]).rc != 0
    assert guest.run(["systemctl", "stop", "hosttune-ready.service"]).rc != 0
    assert guest.ask(["systemctl", "show", "slurmd.service", "--property=MainPID"]) == pid
    assert guest.ask(["tail", "-n1", "/var/lib/hook.log"]).startswith("join ")


def test_circle_of_cloud_config_an_agent_and_the_gate_ends_by_itself(guest: Guest) -> None:
    """The gate waits for cloud-config, which waits for the start of what requires the gate: here 20
    s, else five minutes.
    """
    unit = guest.read("/usr/lib/systemd/system/hosttune-ready.service").decode()
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStartPre=")]
    drop_in = f"[Service]\nExecStartPre=\n{line.replace('timeout 300', 'timeout 20')}\n"
    guest.write("/etc/systemd/system/hosttune-ready.service.d/nearer.conf", drop_in.encode())
    guest.write("/etc/systemd/system/cloud-config.service", CLOUD_CONFIG.encode())
    guest.ask(["systemctl", "enable", "cloud-config.service"])
    guest.reboot()
    assert (status(guest)["standing"], status(guest)["this_boot"]) == ("ready", True)
    assert all(is_active(guest, one) for one in ("slurmd.service", "cloud-config.service", AGENT))
    assert seconds(guest, "hosttune-ready.service", since="InactiveExitTimestampMonotonic") >= 20
    guest.ask(["systemctl", "disable", "cloud-config.service"])


def test_broken_policy_holds_with_its_line_and_a_power_cut_changes_nothing(guest: Guest) -> None:
    good = guest.read(POLICY)
    guest.write(POLICY, b"at_boot: {plans: some}\n")
    guest.ask(["sync"])
    guest.kill()
    guest.boot()
    held = status(guest)
    assert (held["standing"], held["this_boot"]) == ("held", True)
    assert held["sentence"].startswith("/etc/hosttune/policy.yaml:1: at_boot.plans")
    assert not is_active(guest)
    # What the gate waits for hangs: its job ends, here after 10 s, and the start that asked for it.
    guest.write(
        "/etc/systemd/system/munge.service", b"[Service]\nType=oneshot\nExecStart=/bin/sleep 300\n"
    )
    guest.write(
        "/etc/systemd/system/hosttune-ready.service.d/nearer.conf", b"[Unit]\nJobTimeoutSec=10s\n"
    )
    guest.ask(["systemctl", "daemon-reload"])
    guest.ask(["systemctl", "start", "--no-block", "munge.service"])
    assert guest.run(["systemctl", "start", "slurmd.service"]).rc != 0
    assert not is_active(guest)
    assert guest.run(["systemctl", "is-active", "munge.service"]).stdout == "activating\n"
    guest.ask(["systemctl", "stop", "munge.service"])
    guest.ask(
        [
            "rm",
            "/etc/systemd/system/munge.service",
            "/etc/systemd/system/hosttune-ready.service.d/nearer.conf",
        ]
    )
    guest.ask(["systemctl", "daemon-reload"])
    guest.write(POLICY, good)
    assert guest.run(["systemctl", "start", "slurmd.service"]).rc == 0
    assert is_active(guest)
    assert status(guest)["standing"] == "ready"


def test_package_goes_and_work_still_starts(guest: Guest) -> None:
    assert hosttune(guest, "undo", "--yes")[0] == 0
    pid = guest.ask(["systemctl", "show", "slurmd.service", "--property=MainPID"])
    purged = guest.run(["dpkg", "--purge", "hosttune"])
    assert purged.rc == 0, purged
    assert guest.ask(["systemctl", "show", "slurmd.service", "--property=MainPID"]) == pid
    assert guest.ask(["find", "/etc/systemd/system", "-name", "hosttune-ready.service"]) == ""
    guest.reboot()
    assert is_active(guest)
    assert is_active(guest, AGENT)
