"""The package under a running systemd: installed, its daily check switched on and run, and
purged.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vm.guest import Guest
from tests.vm.operator import RUNS, etc_digest

pytestmark = pytest.mark.vm

BUILDER = Path(__file__).resolve().parents[2] / "playbooks/packaging/deb.py"
RUN = "20260101-000000-0000.jsonl"
REPORT = "/var/lib/hosttune/report.json"
METRICS = "/var/lib/prometheus/node-exporter/hosttune.prom"


def names(guest: Guest) -> set[str]:
    """Every path where the package or what it runs may write. dpkg's own notes and the journal of
    systemd aside.
    """
    found = guest.ask(
        ["find", "/etc", "/usr", "/opt", "/var", "/run/systemd", "-xdev"]
    ).splitlines()
    moving = ("/var/lib/dpkg", "/var/log", "/var/tmp", "/run/systemd", "/var/cache/ldconfig")
    return {name for name in found if not name.startswith(moving) and "__pycache__" not in name}


@pytest.fixture(scope="module")
def before(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What is there before the package is installed."""
    guest.ask(["mkdir", "-p", RUNS])
    there = names(guest)
    deb = tmp_path_factory.mktemp("deb") / "hosttune.deb"
    subprocess.run(
        [sys.executable, "-I", BUILDER, deb], check=True, capture_output=True, timeout=300
    )
    guest.write("/root/hosttune.deb", deb.read_bytes())
    installed = guest.run(["dpkg", "--install", "/root/hosttune.deb"])
    assert installed.rc == 0, installed
    return there


def test_timer_is_off_until_somebody_starts_it(guest: Guest, before: set[str]) -> None:
    assert guest.run(["systemctl", "is-enabled", "hosttune-check.timer"]).stdout == "disabled\n"
    assert guest.run(["systemctl", "is-active", "hosttune-check.timer"]).stdout == "inactive\n"
    assert guest.run(["systemctl", "enable", "--now", "hosttune-check.timer"]).rc == 0
    assert guest.run(["systemctl", "is-active", "hosttune-check.timer"]).stdout == "active\n"
    assert "hosttune-check.service" in guest.run(["systemctl", "list-timers", "--no-pager"]).stdout


def test_service_leaves_the_report_and_the_metrics_and_changes_nothing(
    guest: Guest, before: set[str]
) -> None:
    etc = etc_digest(guest)
    started = guest.run(["systemctl", "start", "hosttune-check.service"])
    assert started.rc == 0, guest.ask_any(
        ["journalctl", "--unit", "hosttune-check", "--no-pager"]
    ).stdout
    (host,) = json.loads(guest.read(REPORT))["hosts"]
    assert host["host"] == "spine"
    assert host["findings"]
    metrics = guest.read(METRICS).decode()
    assert "hosttune_check_timestamp_seconds" in metrics
    assert metrics.endswith("\n")
    modes = guest.ask(["stat", "--format", "%a %U", REPORT, METRICS])
    assert modes == "644 root\n644 root\n"
    assert etc_digest(guest) == etc


def test_purge_leaves_the_journal_alone_and_says_so(guest: Guest, before: set[str]) -> None:
    guest.write(f"{RUNS}/{RUN}", b"")
    purged = guest.run(["dpkg", "--purge", "hosttune"])
    assert purged.rc == 0, purged
    assert f"the undo journal stays in {RUNS}" in purged.stderr
    assert names(guest) - before == {f"{RUNS}/{RUN}"}
    assert guest.run(["systemctl", "is-active", "hosttune-check.timer"]).stdout == "inactive\n"
    assert guest.run(["systemctl", "is-system-running"]).stdout == "running\n"
