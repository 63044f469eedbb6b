"""What a play puts on trial stays only where it reaches the host again over a new connection; the
others take it back.

These hosts run no systemd and have an overlay for their root, where hosttune promises no return.
Stand-ins make the root look as ext4, start the guard in a boot, and keep the timers of a trial.
Where it is to be over, six seconds are the two minutes that it lasts at least. What systemd and a
real boot do of it, tests/vm shows.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.fleet.controller import Controller, Played
from tests.fleet.hosts import POLICY, Fleet, Host
from tests.fleet.tree import INIT

pytestmark = pytest.mark.fleet

FASTER = "/run/faster"  # time runs twenty times as fast
RULE = "memory-max-map-count"
PATH = f"/etc/sysctl.d/60-hosttune-{RULE}.conf"
ON_TRIAL = {
    "hosttune_only": [RULE],
    "hosttune_confirm_within": "2m",
    "hosttune_require_compliant": False,
}
SYSTEMD_RUN = f"""#!/bin/sh
unit= seconds=0
while [ $# -gt 0 ]; do
    case $1 in
    --unit=*) unit=${{1#*=}} ;;
    --on-active=*) seconds=${{1#*=}} ;;
    --) shift; break ;;
    esac
    shift
done
[ "$unit" ] || exit 0
mkdir -p /run/timers
seconds=${{seconds%s}}
[ ! -e {FASTER} ] || seconds=$((seconds / 20))
setsid sh -c 'sleep "$1"; rm "$2"; shift 2; exec "$@"' timer "$seconds" "/run/timers/$unit.timer" "$@" \\
    </dev/null >>/run/timers.log 2>&1 &
echo $! >"/run/timers/$unit.timer"
"""
SYSTEMCTL = """#!/bin/sh
case $1 in
daemon-reload) ;;
show) cat /run/booted ;;
reboot) kill -USR1 "$(cat /run/fleet-init.pid)" ;;
is-active) [ -e "/run/timers/$2" ] && echo active ;;
stop) for timer in /run/timers/$2; do [ ! -e "$timer" ] || { kill "$(cat "$timer")"; rm "$timer"; }; done ;;
*) exit 1 ;;
esac
"""
# In a boot: the guard, early; and what systemd asks it for where the boot stops in emergency mode.
AT_BOOT = """\
mkdir -p /run/systemd/system /etc/systemd/system
echo $(($(cut -d. -f1 /proc/uptime) * 1000000)) >/run/booted
[ ! -e /etc/hosttune/trial/run ] || sh /etc/hosttune/trial/run early
[ ! -e /etc/stops ] || { rm /etc/stops; sh /etc/hosttune/trial/run emergency; }
"""
# As long as the change is there no new connection is let in, and those of before go on; or nothing
# gets through at all.
DEAF = f"""
until [ -e {PATH} ]; do sleep 0.01; done; kill -KILL $(cat /run/sshd.pid)
while [ -e {PATH} ]; do sleep 0.1; done; exec /usr/sbin/sshd -D"""
CUT_OFF = f"""
until [ -e {PATH} ]; do sleep 0.01; done; ip link set eth0 down
while [ -e {PATH} ]; do sleep 0.1; done; ip link set eth0 up"""


def stand_in(host: Host) -> None:
    """Give the host what a trial asks of systemd."""
    scripts = {"/usr/bin/systemd-run": SYSTEMD_RUN, "/usr/bin/systemctl": SYSTEMCTL}
    scripts["/sbin/fleet-init"] = INIT.replace("mount -a", AT_BOOT + "mount -a")
    for path, text in scripts.items():
        host.put("/run/script", text.encode())
        host.shell(f"install /run/script {path}")
    host.shell(
        AT_BOOT + "mount /dev/vdb /"
    )  # in no later boot: all that is mounted before it counts as hidden


@pytest.fixture(autouse=True)
def stand_ins(fleet: Fleet) -> None:
    for host in fleet.hosts:
        stand_in(host)


def told(seen: Played, host: str) -> str:
    """What the summary of a batch says of a host that failed."""
    return re.findall(
        rf"^  {host}: (.*)$", seen.output.rpartition("failed or gave no answer\n")[2], re.MULTILINE
    )[0]


def left(host: Host) -> list[str]:
    """What is there of a trial."""
    return host.shell("ls -d /etc/hosttune/trial /run/timers/* 2>/dev/null; true").split()


def runs(controller: Controller, host: str) -> list[tuple[str, str]]:
    told: dict[str, Any] = controller.ask(host, "tune_info", gather=["history"])["history"]
    return [(one["command"], one["status"]) for one in told["runs"]]


def test_what_is_reached_over_a_new_connection_is_kept_and_the_second_run_touches_nothing(
    either: Controller, fleet: Fleet
):
    shown = either.play("apply.yml", "--check", hosttune_serial="100%", **ON_TRIAL)
    assert shown.status == 0, shown.output
    assert (
        "4 hosts: on trial\n  gpu01, gpu02, gpu03, gpu04: would be for 2 minutes, unless it is confirmed\n"
        in shown.output
    )
    seen = either.play("apply.yml", hosttune_serial="100%", **ON_TRIAL)
    assert seen.status == 0, seen.output
    assert all(PATH in host.files() for host in fleet.hosts)
    assert [left(host) for host in fleet.hosts] == [[]] * 4
    assert "hosts: on trial" not in seen.output
    again = either.play("apply.yml", hosttune_serial="100%", **ON_TRIAL)
    assert (again.status, again.changed()) == (0, set()), again.output
    assert runs(either, "gpu01") == [("confirm", "finished"), ("apply", "finished")]


@pytest.mark.parametrize("how", [DEAF, CUT_OFF], ids=["no new connection", "no connection"])
def test_host_that_is_not_reached_again_has_taken_it_back_and_ends_the_rollout(
    how: str, controller: Controller, fleet: Fleet
):
    fleet["gpu02"].put(FASTER, b"")
    watch = fleet["gpu02"].start("sh", "-c", how)
    seen = controller.play("apply.yml", hosttune_serial=[1, 2, 1], **ON_TRIAL)
    assert seen.status == 2, seen.output
    assert re.search(
        r"^run \S+ was rolled back at [0-9: -]+ UTC, because it was not confirmed within 2 min$",
        told(seen, "gpu02"),
    )
    assert "2 hosts: failed" not in seen.output
    assert "1 host: 1 change made on trial, and not kept\n  gpu02\n" in seen.output
    assert "It ends here; of later batches, nothing is touched: gpu04.\n" in seen.output
    (back,) = re.findall(r"undo.yml -e run_id=(\S+)$", seen.output, re.MULTILINE)
    assert len(back.split(",")) == 2  # nothing is to be taken back on gpu02
    assert [PATH in host.files() for host in fleet.hosts] == [True, False, True, False]
    assert left(fleet["gpu02"]) == []
    watch.kill()
    watch.wait(timeout=10)
    if how is CUT_OFF:
        assert runs(controller, "gpu02") == [("undo", "finished"), ("apply", "came back")]
        again = controller.play("apply.yml", "--limit", "gpu02", **ON_TRIAL)
        assert (again.status, again.changed()) == (0, set()), (
            again.output
        )  # held, until somebody asks for it
        assert "rolled back at" in again.output


def test_trial_of_the_policy_is_honoured_and_another_play_keeps_its_hands_off(
    controller: Controller, fleet: Fleet
):
    policy = {"confirm": {"within": "2h"}}
    made = controller.ask("gpu01", policy=policy, only=[RULE])
    assert (made["changed"], made["trial"]["state"], made["trial"]["within_s"]) == (
        True,
        "on trial: live",
        7200,
    )
    assert PATH in fleet["gpu01"].files()
    other = controller.ask("gpu01", only=[RULE])
    assert other["failed"]
    assert f"run {made['run_id']} ({RULE}) is on trial until " in other["msg"]
    assert "was not put there by this play" in other["msg"]
    kept = controller.ask("gpu01", state="confirmed", trial=made["trial"])
    assert (kept["changed"], kept["trial"]["state"], left(fleet["gpu01"])) == (
        True,
        "confirmed",
        [],
    )
    again = controller.ask("gpu01", state="confirmed", trial=made["trial"])
    assert (again["changed"], again["trial"]["state"]) == (False, "confirmed")
    assert not controller.ask("gpu01", state="confirmed")["changed"]


def test_boot_on_trial_is_kept_and_one_that_stops_is_told_with_its_reason(
    controller: Controller, fleet: Fleet
):
    options: dict[str, Any] = {
        "hosttune_policy": POLICY,
        "hosttune_serial": "100%",
        "hosttune_only": ["storage-tmp-tmpfs"],
    }
    options |= {"hosttune_confirm_within": "2m", "hosttune_require_compliant": False}
    waits = controller.play("apply.yml", "--limit", "gpu01,gpu02", **options)
    assert waits.status == 0, waits.output
    assert "2 hosts: on trial\n" in waits.output
    assert " in its next boot; to keep it then: sudo hosttune confirm " in waits.output
    fleet["gpu02"].shell("touch /etc/stops")
    seen = controller.play("apply.yml", "--limit", "gpu01,gpu02", hosttune_reboot=True, **options)
    assert seen.status == 2, seen.output
    assert (fleet["gpu01"].boots, fleet["gpu02"].boots) == (2, 3)
    assert "1 host: rebooted, and verified afterwards\n  gpu01\n" in seen.output, seen.output
    assert "rolled back at" in told(seen, "gpu02")
    assert "stopped in emergency mode" in told(seen, "gpu02")
    assert ["tmpfs" in host.read("/etc/fstab") for host in fleet.hosts[:2]] == [True, False]
    assert [left(host) for host in fleet.hosts] == [[]] * 4
