"""The scenarios of test_live_packages.py; runs inside the tree, on its own Python:
`package_scenarios.py NAME`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from hosttune.actions.apply import apply
from hosttune.actions.examine import Session
from hosttune.actions.journal.journal import read_journal
from hosttune.actions.journal.recover import prune, recover
from hosttune.actions.undo import plan_undo, undo
from hosttune.engine.policy.policy import Policy
from hosttune.engine.rules.catalog import Catalog
from hosttune.errors import Conflict, Refused
from hosttune.facts import Facts, gates
from hosttune.facts import apt_get as apt
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.reading.live import LiveReader, LiveWriter
from hosttune.resources.base import Context, Wish
from hosttune.resources.packages.package import PackagesWish
from hosttune.resources.packages.package_set import PackageSetAddress
from hosttune.values import ABSENT, Disturbs, HoldKind, Plan, Risk, Stage, Verdict

SET, WISH = PackageSetAddress(), PackagesWish("packages")
DRIVER = (
    "nvidia-headless-no-dkms-580-server-open",
    "nvidia-utils-580-server",
    "linux-modules-nvidia-580-server-open-generic",
)
HOLDER = """
import fcntl, sys
file = open("/var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def sh(*argv: str, status: int = 0) -> str:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == status, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def installed() -> str:
    return sh("dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package} ${Version}\n")


def compare(names, reader=None, **fields):
    reader = reader or LiveReader()
    facts = Facts(reader)
    wish = Wish("packages", " ".join(names), "some-rule", "", {"state": "installed"} | fields)
    state = {address: SET.read(reader, address.name) for address in WISH.addresses(wish, facts)}
    (finding,) = WISH.compare((wish,), Context(facts, state, {}, Risk.MEDIUM, Disturbs.NOTHING))
    return finding


def only_change(finding):
    assert len(finding.changes) == 1, finding
    return finding.changes[0]


def refused(finding, words):
    assert (finding.verdict, finding.hold.kind, finding.changes) == (
        Verdict.DIFFERS,
        HoldKind.REFUSED,
        (),
    ), finding
    assert words in finding.hold.detail, finding.hold.detail


def told(details, verb, version, name):
    """Whether a line says so of this package, which may be one of several of that version."""
    return any(line.startswith(f"{verb} ") and version in line and name in line for line in details)


def raises(kind, call, *words):
    try:
        call()
    except kind as error:
        said = f"{error}\n{error.hint}"
    else:
        said = f"{kind.__name__} was not raised"
    missing = [word for word in words if word not in said]
    assert missing == [], said


def installs_the_set_and_takes_it_back():
    before = installed()
    change = only_change(compare(DRIVER, activation="reboot"))
    assert len(change.after) == 5
    assert told(change.details, "install", "580.95.05-0ubuntu1", "nvidia-utils-580-server")
    assert "removes nothing" in change.details
    overlay = Overlay(LiveReader())
    SET.write(overlay, change)
    assert SET.read(overlay, change.address.name) == change.after
    assert compare(DRIVER, overlay).verdict is Verdict.OK
    assert installed() == before
    SET.write(LiveWriter(), change)
    assert SET.read(LiveReader(), change.address.name) == change.after
    assert Facts(LiveReader()).driver.name == "580-server-open"
    automatic = sh("apt-mark", "showauto").split()
    assert "nvidia-kernel-common-580-server" in automatic
    assert not set(DRIVER) & set(automatic)
    assert compare(DRIVER).verdict is Verdict.OK
    assert compare(DRIVER, in_use=False, activation="reboot").hold.kind is HoldKind.WAITING
    SET.write(LiveWriter(), SET.invert(change))
    assert SET.read(LiveReader(), change.address.name) is ABSENT
    assert installed() == before


def second_look_asks_apt_nothing():
    SET.write(LiveWriter(), only_change(compare(("good",))))

    class Mute(LiveReader):
        def query(self, argv, *, timeout_s=10.0):
            raise AssertionError(f"{argv} was asked")

    assert compare(("good",), Mute()).verdict is Verdict.OK
    sh("apt-get", "-y", "purge", "good", "good-data")


def refuses_to_remove_somebody_elses_package():
    sh("apt-get", "-y", "install", "power-tool")
    refused(compare(("tuner",)), "apt would remove power-tool")
    change = only_change(compare(("tuner",), may_remove=["power-"]))
    assert told(change.details, "remove", "1", "power-tool")
    before = installed()
    SET.write(LiveWriter(), change)
    assert "power-tool 1" not in installed()
    SET.write(LiveWriter(), SET.invert(change))
    assert installed() == before
    sh("apt-get", "-y", "purge", "power-tool")


def refuses_to_compile_modules_unasked():
    refused(compare(("nvidia-driver-535",)), "nvidia-dkms-535")
    assert compare(("nvidia-driver-535",), allow_dkms=True).changes


def refuses_two_versions_of_driver_and_fabric_manager():
    names = ("nvidia-utils-580-server", "nvidia-fabricmanager-580")
    refused(compare(names, one_version=list(names)), "must have one version")


def later_archive():
    shutil.copy("/archive/Packages", "/archive/Packages.first")
    shutil.copy("/archive/Packages.later", "/archive/Packages")
    sh("apt-get", "-q", "update")


def first_archive():
    shutil.move("/archive/Packages.first", "/archive/Packages")
    sh("apt-get", "-q", "update")


def refuses_to_change_a_held_package():
    sh("apt-get", "-y", "install", "library")
    sh("apt-mark", "hold", "library")
    later_archive()
    finding = compare(("needs-new-library",))
    sh("apt-mark", "unhold", "library")
    first_archive()
    sh("apt-get", "-y", "purge", "library")
    refused(finding, "an administrator holds library (apt-mark showhold)")
    assert (
        finding.todo == "when the hold has served: sudo apt-mark unhold library, then run it again"
    )


def names_the_hold_of_packages_that_are_not_there():
    sh("apt-mark", "hold", "nvidia*", "libnvidia*", "linux-modules-nvidia*")
    finding = compare(DRIVER)
    sh(*finding.todo.removeprefix("when the hold has served: sudo ").partition(",")[0].split())
    refused(finding, "an administrator holds ")
    assert compare(DRIVER).changes
    sh("apt-mark", "unhold", "nvidia*", "libnvidia*")


def names_the_pin_that_keeps_a_package_away():
    pin = Path("/etc/apt/preferences.d/no-nvidia")
    pin.write_text("Package: *nvidia-*\nPin: release *\nPin-Priority: -1\n")
    finding = compare(DRIVER)
    pin.unlink()
    refused(finding, "/etc/apt/preferences.d/no-nvidia:1 keeps ")


def upgrade_of_a_library_goes_back_with_the_set():
    sh("apt-get", "-y", "install", "library")
    before = installed()
    later_archive()
    change = only_change(compare(("needs-new-library",)))
    assert change.before == ("library=1",)
    SET.write(LiveWriter(), change)
    SET.write(LiveWriter(), SET.invert(change))
    first_archive()
    after = installed()
    sh("apt-get", "-y", "purge", "library")
    assert after == before


def undo_stops_when_another_package_needs_it():
    change = only_change(compare(("good-data",)))
    SET.write(LiveWriter(), change)
    sh("apt-get", "-y", "install", "good")
    before = installed()
    raises(
        Conflict,
        lambda: SET.write(LiveWriter(), SET.invert(change)),
        "remove 2 packages, 1-1: good, good-data",
    )
    assert installed() == before
    sh("apt-get", "-y", "purge", "good", "good-data")


def stops_when_the_archive_moved_on():
    change = only_change(compare(("moves",)))
    later_archive()
    Path("/archive/moves_1-1_all.deb").unlink()
    packages = Path("/archive/Packages")
    whole = packages.read_text(encoding="utf-8")
    old = next(
        one for one in whole.split("\n\n") if "Package: moves\n" in one and "Version: 1-1" in one
    )
    packages.write_text(whole.replace(old + "\n\n", ""), encoding="utf-8")
    sh("apt-get", "-q", "update")
    before = installed()
    raises(Refused, lambda: SET.write(LiveWriter(), change), "1-1")
    assert installed() == before
    assert only_change(compare(("moves",))).after == ("moves=2-1",)
    first_archive()


def says_who_holds_the_lock():
    change = only_change(compare(("waits",)))
    apt.LOCK_WAIT_S = 0  # type: ignore[misc]
    holder = subprocess.Popen(
        (sys.executable, "-c", HOLDER),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    assert compare(("waits",)).changes  # looking needs no lock
    raises(
        Refused, lambda: SET.write(LiveWriter(), change), "lock-frontend", f"process {holder.pid}"
    )
    holder.communicate()
    assert "waits" not in installed()
    SET.write(LiveWriter(), change)
    sh("apt-get", "-y", "purge", "waits")


def says_how_to_repair_a_failed_postinst():
    change = only_change(compare(("breaks",)))
    raises(
        Refused,
        lambda: SET.write(LiveWriter(), change),
        "status 100",
        "good-data=1-1",
        "dpkg --configure -a",
    )
    assert "breaks=1 (half-configured)" in SET.read(LiveReader(), change.address.name)
    refused(compare(("good",)), "dpkg stopped half-way with breaks (half-configured)")
    half = Facts(LiveReader()).packages["breaks"]
    assert (half.is_installed, half.status) == (False, "half-configured")
    sh("apt-get", "-y", "purge", "breaks", "good-data")


def lost_file_leaves_everything_as_it_was():
    before = installed()
    change = only_change(compare(("lost", "good")))
    raises(Refused, lambda: SET.write(LiveWriter(), change), "lost", "none of them is installed")
    assert installed() == before


def unknown_package_is_unknown():
    finding = compare(("good", "no-such-thing"))
    assert finding.verdict is Verdict.UNKNOWN
    assert "no-such-thing" in finding.reason
    assert "apt-get update" in finding.todo


def looking_writes_nothing():
    def stamps():
        folders = (
            "/var/cache",
            "/var/lib/apt",
            "/var/lib/dpkg",
            "/var/log",
            "/etc",
            "/tmp",
            "/root",
        )
        every = [place for folder in folders for place in (Path(folder), *Path(folder).rglob("*"))]
        return {str(place): place.lstat().st_mtime_ns for place in every}

    before = stamps()
    assert compare(("good",)).changes
    after = stamps()
    assert after == before, {key for key in {*before, *after} if before.get(key) != after.get(key)}


def session():
    """A look at this tree with its journal, and no rule: what the scenarios plan is made by
    hand.
    """
    reader = LiveWriter()
    return Session(reader, Catalog({}, {}), Policy(), read_journal(reader), Facts(reader), ())


def applied(*changes):
    """The receipt of an apply of these changes, through the journal; old .deb files are pruned
    afterwards.
    """
    stages = tuple(Stage((change,)) for change in changes)
    plan = Plan("0" * 64, "0", "", "2026-01-01T00:00:00", "", stages, ())
    receipt = apply(session(), LiveWriter(), plan)
    prune(LiveWriter(), read_journal(LiveReader()))
    return receipt


def undone(rule="some-rule"):
    now = session()
    receipt = undo(now, LiveWriter(), plan_undo(now, rule=rule))
    prune(LiveWriter(), read_journal(LiveReader()))
    return receipt


def kept():
    return sorted(path.name for path in Path("/var/lib/hosttune/debs").glob("*"))


def asks_nobody_and_restarts_nothing():
    program = Path("/usr/sbin/needrestart")
    program.write_text("#!/bin/sh\ntest \"$*\" = '-b -l -r l' || exit 1\necho NEEDRESTART-VER: 3.6\n"
                       "echo NEEDRESTART-SVC: ssh.service\necho NEEDRESTART-SVC: cron.service\n")  # fmt: skip
    program.chmod(0o755)
    receipt = applied(only_change(compare(("asks",))))
    assert not receipt.failed, receipt
    assert any("cron.service, ssh.service waits" in one for one in receipt.waiting), receipt.waiting
    program.unlink()
    assert not undone().failed
    assert "asks" not in installed()


def success_without_the_package_is_a_failure():
    """An apt hook that takes the package away again, after which apt-get ends with status 0."""
    change = only_change(compare(("lies",)))
    hook = Path("/etc/apt/apt.conf.d/99lies")
    hook.write_text('DPkg::Post-Invoke { "dpkg --force-all -P lies || true"; };\n')
    receipt = applied(change)
    hook.unlink()
    (failed,) = receipt.failed
    assert "apt-get reported no error" in failed.error
    assert "not as planned: lies 1" in failed.error


def full_disk_leaves_a_clear_message():
    before = installed()
    change = only_change(compare(("fills",)))
    receipt = applied(change)
    (failed,) = receipt.failed
    assert "No space left on device" in failed.error, failed.error
    assert not undone().failed
    assert installed() == before


def killed_apt_is_gone_on_with_in_the_same_run_and_undone():
    before = installed()
    change = only_change(compare(("kills",)))
    receipt = applied(change)
    assert not receipt.failed, receipt
    assert SET.read(LiveReader(), change.address.name) == change.after
    assert sh("dpkg", "--audit") == ""
    assert not undone().failed
    assert installed() == before


def killed_hosttune_is_recovered_and_undone():
    """Apt goes on without hosttune, to its end, and the journal has what came."""
    before = installed()
    Path("/root/wait").touch()
    child = os.fork()
    if not child:
        applied(only_change(compare(("after-slow",))))
        os._exit(0)
    while Facts(LiveReader()).packages["slow"].status != "half-configured":
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    release = threading.Timer(1, Path("/root/wait").unlink)
    release.start()
    recover(LiveWriter())
    release.join()
    (step,) = read_journal(LiveReader()).in_force
    assert step.change.after == ("after-slow=1", "slow=1"), step
    assert sh("dpkg", "--audit") == ""
    receipt = undone()
    assert receipt.outcomes
    assert not receipt.failed, receipt
    assert installed() == before


def gates_of_the_site_are_asked():
    folder = Path(gates.FOLDER)
    folder.mkdir(parents=True)
    os.environ["SECRET"] = "of the caller"
    programs = {
        "10-free": 'test -z "$SECRET" || exit 1',
        "20-busy": "echo allocated to job 17; exit 1",
        "30-fails": "echo no controller >&2; exit 3",
        "40-hangs": "sleep 60",
        "50-killed": "kill -9 $$",
    }
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "60-broken").write_text("#!/nonexistent\n")
    (folder / "60-broken").chmod(0o755)
    gates.TIMEOUT_S = 1.0  # type: ignore[misc]
    said = gates.ask_gates(LiveReader())
    assert said.busy == ("gate 20-busy: allocated to job 17",), said
    assert [one.split()[1] for one in said.unknown] == [
        "30-fails",
        "40-hangs",
        "50-killed",
        "60-broken",
    ], said
    folder.chmod(0o777)
    said = gates.ask_gates(LiveReader())
    assert said.busy == ()
    assert all("others than root can write" in one for one in said.unknown)
    shutil.rmtree("/etc/hosttune")


def half_an_installed_set_is_booked_and_undone():
    before = installed()
    receipt = applied(only_change(compare(("breaks", "good"))))
    assert len(receipt.failed) == 1
    (step,) = [
        step for step in read_journal(LiveReader()).in_force if step.id.run == receipt.run_id
    ]
    assert "breaks=1 (half-configured)" in step.change.after
    assert "good-data=1-1" in step.change.after
    receipt = undone()
    assert not receipt.failed, receipt
    assert receipt.outcomes
    assert installed() == before


def undo_after_the_repair_takes_the_set_back():
    before = installed()
    applied(only_change(compare(("breaks",))))
    Path("/var/lib/dpkg/info/breaks.postinst").write_text("#!/bin/sh\nexit 0\n")
    sh("dpkg", "--configure", "-a")
    receipt = undone()
    assert receipt.outcomes
    assert not receipt.failed, receipt
    assert installed() == before


def updates_within_the_branch_and_goes_back_without_the_archive():
    sh("apt-get", "-y", "install", "gpu-utils-1")
    before = installed()
    assert compare(("gpu-utils-1",), versions=["gpu-utils-1=1.1-1"]).verdict is Verdict.OK
    later_archive()
    finding = compare(("gpu-utils-1",), versions=["gpu-utils-1=1.2-1"])
    assert "gpu-utils-1 is 1.1-1, not 1.2-1" in finding.reason
    change = only_change(finding)
    assert change.before == ("gpu-common-1=1.1-1 (auto)", "gpu-utils-1=1.1-1")
    assert change.reversible.startswith("yes, from kept .deb files"), change.reversible
    assert not applied(change).failed
    assert compare(("gpu-utils-1",), versions=["gpu-utils-1=1.2-1"]).verdict is Verdict.OK
    assert "gpu-common-1" in sh("apt-mark", "showauto").split()
    assert kept() == ["gpu-common-1_1.1-1_all.deb", "gpu-utils-1_1.1-1_all.deb"]
    lose("gpu-common-1", "1.1-1")
    lose("gpu-utils-1", "1.1-1")
    receipt = undone()
    restore_files()
    first_archive()
    assert not receipt.failed, receipt
    assert installed() == before
    assert "gpu-common-1" in sh("apt-mark", "showauto").split()
    assert kept() == []
    sh("apt-get", "-y", "purge", "gpu-utils-1", "gpu-common-1")


def switches_the_branch_and_goes_back():
    sh("apt-get", "-y", "install", "gpu-utils-1")
    before, marks = installed(), sh("apt-mark", "showauto")
    refused(compare(("gpu-utils-2",)), "apt would remove gpu-common-1, gpu-utils-1")
    old = ["gpu-utils-1", "gpu-common-1"]
    change = only_change(compare(("gpu-utils-2",), remove=old))
    assert told(change.details, "remove", "1.1-1", "gpu-utils-1")
    assert not applied(change).failed
    after = installed()
    assert "gpu-utils-2" in after
    assert "gpu-utils-1" not in after
    assert compare(("gpu-utils-2",), remove=old).verdict is Verdict.OK
    assert not undone().failed
    assert (installed(), sh("apt-mark", "showauto")) == (before, marks)
    sh("apt-get", "-y", "purge", "gpu-utils-1", "gpu-common-1")


def old_version_that_is_nowhere_is_said_before():
    sh("apt-get", "-y", "install", "gpu-utils-1")
    later_archive()
    lose("gpu-utils-1", "1.1-1")
    change = only_change(compare(("gpu-utils-1",), versions=["gpu-utils-1=1.2-1"]))
    assert change.reversible.startswith("no: only 1 of 2 old versions"), change.reversible
    assert "gpu-utils-1 1.1-1" in change.reversible
    restore_files()
    first_archive()
    sh("apt-get", "-y", "purge", "gpu-utils-1", "gpu-common-1")


def lose(name, version):
    """The archive has this version no longer."""
    (Path("/archive") / f"{name}_{version}_all.deb").rename(f"/root/{name}_{version}_all.deb")
    packages = Path("/archive/Packages")
    every = packages.read_text(encoding="utf-8").strip("\n").split("\n\n")
    left = [
        one
        for one in every
        if f"Package: {name}\n" not in one or f"Version: {version}\n" not in one
    ]
    packages.write_text("\n\n".join(left) + "\n", encoding="utf-8")
    sh("apt-get", "-q", "update")


def restore_files():
    for path in Path("/root").glob("*.deb"):
        path.rename(Path("/archive") / path.name)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
