"""The scenarios of test_live_packages.py; runs inside the tree, on its own Python: `package_scenarios.py NAME`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from hosttune.errors import Conflict, Refused
from hosttune.facts import Facts
from hosttune.host.live import LiveReader, LiveWriter
from hosttune.host.overlay import Overlay
from hosttune.resources import apt
from hosttune.resources.base import Context, Wish
from hosttune.resources.package import PackageSetAddress, PackagesWish, SimulationAddress
from hosttune.values import ABSENT, Disturbs, HoldKind, Risk, Verdict

SET, SIMULATION, WISH = PackageSetAddress(), SimulationAddress(), PackagesWish("packages")
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
    kinds = {SET.kind: SET, SIMULATION.kind: SIMULATION}
    state = {address: kinds[address.kind].read(reader, address.name) for address in WISH.addresses(wish, facts)}
    (finding,) = WISH.compare((wish,), Context(facts, state, {}, Risk.MEDIUM, Disturbs.NOTHING))
    return finding


def only_change(finding):
    assert len(finding.changes) == 1, finding
    return finding.changes[0]


def refused(finding, words):
    assert (finding.verdict, finding.hold.kind, finding.changes) == (Verdict.DIFFERS, HoldKind.REFUSED, ()), finding
    assert words in finding.hold.detail, finding.hold.detail


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
    assert "install nvidia-utils-580-server 580.95.05-0ubuntu1" in "\n".join(change.details)
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
    assert "remove power-tool 1" in change.details
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
    refused(finding, "apt-get would fail")


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
    raises(Conflict, lambda: SET.write(LiveWriter(), SET.invert(change)), "remove good 1-1")
    assert installed() == before
    sh("apt-get", "-y", "purge", "good", "good-data")


def stops_when_the_archive_moved_on():
    change = only_change(compare(("moves",)))
    later_archive()
    Path("/archive/moves_1-1_all.deb").unlink()
    packages = Path("/archive/Packages")
    whole = packages.read_text(encoding="utf-8")
    old = next(one for one in whole.split("\n\n") if "Package: moves\n" in one and "Version: 1-1" in one)
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
    raises(Refused, lambda: SET.write(LiveWriter(), change), "lock-frontend", f"process {holder.pid}")
    holder.communicate()
    assert "waits" not in installed()
    SET.write(LiveWriter(), change)
    sh("apt-get", "-y", "purge", "waits")


def says_how_to_repair_a_failed_postinst():
    change = only_change(compare(("breaks",)))
    raises(Refused, lambda: SET.write(LiveWriter(), change), "status 100", "good-data=1-1", "dpkg --configure -a")
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
        folders = ("/var/cache", "/var/lib/apt", "/var/lib/dpkg", "/var/log", "/etc", "/tmp", "/root")
        every = [place for folder in folders for place in (Path(folder), *Path(folder).rglob("*"))]
        return {str(place): place.lstat().st_mtime_ns for place in every}

    before = stamps()
    assert compare(("good",)).changes
    after = stamps()
    assert after == before, {key for key in {*before, *after} if before.get(key) != after.get(key)}


if __name__ == "__main__":
    globals()[sys.argv[1]]()
