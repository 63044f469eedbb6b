"""The life of a driver on a new server, from nothing to another branch and back; runs inside the
tree of test_live_driver.py, on its own Python, apt and dpkg.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from hosttune.actions.apply import apply
from hosttune.actions.examine import open_session
from hosttune.actions.undo import plan_undo, undo
from hosttune.host.reading.live import LiveWriter
from hosttune.values import HoldKind, Verdict
from hosttune.views.driver import driver_table, driver_text
from hosttune.views.page import Page

RULES = ("gpu-driver", "gpu-driver-health")
POLICY = Path("/etc/hosttune/policy.yaml")
OLD, NEW, OTHER = "580.95.05-0ubuntu1", "580.142-0ubuntu1", "595.58.03-0ubuntu1"


def sh(*argv: str) -> str:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def installed() -> dict[str, str]:
    lines = sh("dpkg-query", "-W", "-f", "${Package}=${Version}=${db:Status-Status}\n").split()
    rows = (line.split("=") for line in lines)
    return {
        name: version
        for name, version, status in rows
        if status == "installed" and "nvidia" in name
    }


def policy(*lines: str) -> None:
    POLICY.parent.mkdir(mode=0o755, exist_ok=True)
    text = "".join(f"    {line}\n" for line in lines)
    POLICY.write_text(
        f"max_risk: high\ndisturb: running GPU work\nparams:\n  gpu-driver:\n{text}"
        if lines
        else ""
    )


def look():
    writer = LiveWriter()
    session = open_session(reader=writer, select=RULES)
    return session, writer, session.plan()


def finding(plan, rule="gpu-driver"):
    return next(one for one in plan.findings if one.rule == rule)


def changes_of(plan):
    return [change for change in plan.changes if change.rule == "gpu-driver"]


def make(what: str):
    session, writer, plan = look()
    changes = changes_of(plan)
    assert len(changes) == 1, (what, finding(plan))
    before = installed()
    receipt = apply(session, writer, plan)
    assert receipt.failed == (), receipt.failed
    assert receipt.verified
    session, writer, again = look()
    assert changes_of(again) == [], (what, changes_of(again))
    return before, changes[0], finding(again)


def table() -> str:
    session, _, _ = look()
    params = session.policy.params_of(session.catalog.rules["gpu-driver"], session.catalog)
    return driver_text(driver_table(session.facts, params), Page())


def reboot(version: str) -> None:
    """What a boot would leave behind: the module that is on the disk is loaded and has the GPUs."""
    module = Path("/sys/module/nvidia")
    module.mkdir(parents=True, exist_ok=True)
    (module / "version").write_text(f"{version}\n")
    (module / "taint").write_text("OE\n")
    for device in Path("/sys/bus/pci/devices").iterdir():
        (device / "driver").unlink(missing_ok=True)
        (device / "driver").symlink_to("../../../bus/pci/drivers/nvidia")


def reads_what_the_packages_say() -> None:
    session, _, _ = look()
    told = session.facts.packaging
    assert told.problem == "", told.problem
    found = {
        name: (one.support, one.component, len(one.drives)) for name, one in told.packages.items()
    }
    assert found == {
        "nvidia-driver-580-server-open": ("LTSB", "restricted", 2),
        "nvidia-driver-595-server-open": ("PB", "restricted", 2),
    }, found


def installs_on_a_new_server() -> None:
    reads_what_the_packages_say()
    assert "installed    nothing" in table()
    before, change, now = make("install")
    assert before == {}
    assert set(installed()) == {
        "nvidia-headless-no-dkms-580-server-open", "nvidia-utils-580-server", "nvidia-kernel-common-580-server",
        "libnvidia-compute-580-server", "linux-modules-nvidia-580-server-open-generic",
    }  # fmt: skip
    assert set(installed().values()) == {OLD}
    assert "removes nothing" in change.details
    assert (now.verdict, now.hold.kind) == (Verdict.DIFFERS, HoldKind.WAITING), now
    reboot("580.95.05")
    _, _, plan = look()
    assert finding(plan).verdict is Verdict.OK, finding(plan)
    assert finding(plan, "gpu-driver-health").verdict is Verdict.OK, finding(
        plan, "gpu-driver-health"
    )
    text = table()
    assert "580-server-open, 580.95.05" in text
    assert "recommended  595-server-open" in text
    assert "chosen       580-server-open, as it is" in text


def updates_within_the_branch() -> None:
    for name in ("Packages", "Release"):
        shutil.copy(f"/archive/later/{name}", f"/archive/{name}")
    sh("apt-get", "-q", "update")
    _, _, plan = look()
    assert changes_of(plan) == []  # not unless the policy says so
    assert "a newer driver of branch 580 is available" in finding(plan, "gpu-driver-health").reason
    policy("update: true")
    _, change, now = make("update")
    assert set(installed().values()) == {NEW}
    assert "libnvidia-compute-580-server" in sh("apt-mark", "showauto")
    assert "nvidia-utils-580-server" in sh("apt-mark", "showmanual")
    assert any(
        one.startswith("upgrade ") and "libnvidia-compute-580-server" in one
        for one in change.details
    )
    assert now.hold.kind is HoldKind.WAITING, now  # the old module is loaded until the reboot
    _, _, plan = look()
    health = finding(plan, "gpu-driver-health")
    assert "580.95.05 and the libraries are 580.142" in health.reason, health
    reboot("580.142")
    _, _, plan = look()
    assert finding(plan).verdict is Verdict.OK, finding(plan)


def switches_the_branch_only_when_told_and_goes_back() -> None:
    policy('branch: "595"')
    _, _, plan = look()
    assert finding(plan).hold.kind is HoldKind.REFUSED
    assert "switch_branch: true" in finding(plan).hold.detail
    before = installed()
    policy('branch: "595"', "switch_branch: true")
    _, change, _ = make("switch")
    assert set(installed().values()) == {OTHER}
    assert all("595" in name for name in installed())
    assert any(
        one.startswith("remove ") and "nvidia-utils-580-server" in one for one in change.details
    )
    session, writer, _ = look()
    back = plan_undo(session)
    receipt = undo(session, writer, back)
    assert receipt.failed == (), receipt.failed
    assert installed() == before


def leaves_a_held_driver_alone() -> None:
    sh("apt-mark", "hold", "nvidia-utils-580-server")
    _, _, plan = look()
    assert finding(plan).hold.kind is HoldKind.REFUSED
    assert "holds nvidia-utils-580-server" in finding(plan).hold.detail
    sh("apt-mark", "unhold", "nvidia-utils-580-server")


if __name__ == "__main__":
    for step in (
        installs_on_a_new_server,
        updates_within_the_branch,
        switches_the_branch_only_when_told_and_goes_back,
        leaves_a_held_driver_alone,
    ):
        print(step.__name__, file=sys.stderr)
        step()
