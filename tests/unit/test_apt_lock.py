"""Who holds the locks of dpkg and apt, and what is said while they are waited for."""

import subprocess
import sys

import pytest

from hosttune.errors import Refused
from hosttune.facts import apt_get as apt
from hosttune.host.door import LOCK_HOLDER, Process
from hosttune.host.reading.live import LiveReader
from hosttune.resources.packages import apt_lock, apt_wait
from hosttune.resources.packages.apt_lock import LOCKS, find_holder
from hosttune.resources.packages.apt_wait import wait_for_apt
from hosttune.values import ABSENT, Unreadable
from tests.unit.fake_reader import FakeReader

UPGRADE = Process(
    812, "unattended-upgr", "root", ("/usr/bin/python3", "/usr/bin/unattended-upgrade"), 0, 0, (),
    "/system.slice/apt-daily-upgrade.service", 0.0,
)  # fmt: skip
FRONTEND, DPKG, _ = ((LOCK_HOLDER, path) for path in LOCKS)


def host(held, processes=(UPGRADE,)):
    return FakeReader(queries=held, processes=processes)


HELD = {
    "with its command and unit": (
        {FRONTEND: "812"}, (UPGRADE,),
        "process 812 (/usr/bin/python3 /usr/bin/unattended-upgrade, apt-daily-upgrade.service)",
    ),
    "dpkg alone": ({FRONTEND: "", DPKG: "9"}, (), "process 9"),
    "from a container": ({FRONTEND: "0"}, (UPGRADE,), "a process outside of this container"),
    "not told": ({FRONTEND: Unreadable("needs root"), DPKG: ""}, (UPGRADE,), ""),
    "nobody": ({FRONTEND: "", DPKG: ""}, (), ""),
}  # fmt: skip


@pytest.mark.parametrize(("held", "processes", "who"), HELD.values(), ids=HELD.keys())
def test_holder_is_named(held, processes, who):
    assert find_holder(host(held, processes)) == who


HOLD = """
import fcntl, sys
held = open(sys.argv[1], "r+")
fcntl.lockf(held, getattr(fcntl, sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("kind", "is_held"), [("LOCK_EX", True), ("LOCK_SH", False)])
def test_kernel_tells_who_holds_a_lock_and_no_list_of_all_locks_is_read(
    kind, is_held, tmp_path, monkeypatch
):
    path, opened = tmp_path / "lock", []
    path.touch()
    answered = LiveReader.read
    monkeypatch.setattr(
        LiveReader, "read", lambda self, path: opened.append(path) or answered(self, path)
    )
    monkeypatch.setattr(apt_lock, "LOCKS", (str(path),))
    assert find_holder(LiveReader()) == ""
    held = subprocess.Popen(
        [sys.executable, "-c", HOLD, path, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with held:
        assert held.stdout.readline() == b"held\n"
        assert (
            find_holder(LiveReader()).startswith(f"process {held.pid} (" if is_held else "") is True
        )
        assert bool(find_holder(LiveReader())) is is_held
        held.stdin.close()
    assert find_holder(LiveReader()) == ""
    assert "/proc/locks" not in opened
    assert LiveReader().lock_holder(str(tmp_path / "none")) is ABSENT


def test_holder_is_nobody_where_the_kernel_does_not_tell():
    assert find_holder(FakeReader({})) == ""


def test_wait_tells_at_once_whom_it_waits_for_and_goes_on_when_the_lock_is_free(monkeypatch):
    one = host({FRONTEND: "812"})
    said = []

    def sleep(seconds):
        assert seconds > 0
        one.queries[FRONTEND] = ""

    monkeypatch.setattr(apt_wait.time, "sleep", sleep)
    wait_for_apt(one, said.append)
    (line,) = said
    assert "waiting for process 812" in line
    assert "apt-daily-upgrade.service" in line


def test_wait_gives_signs_of_life_and_ends(monkeypatch):
    slept, said = [], []
    monkeypatch.setattr(apt_wait.time, "sleep", slept.append)
    with pytest.raises(Refused, match=r"process 812 .*apt-daily-upgrade.service") as error:
        wait_for_apt(host({FRONTEND: "812"}), said.append)
    assert sum(slept) == apt.LOCK_WAIT_S
    assert len(said) == apt.LOCK_WAIT_S // 15
    assert said[0].endswith(f"{apt.LOCK_WAIT_S} s at most")
    assert said[-1].endswith(" 15 s at most")
    assert "no package has changed" in error.value.hint


def test_wait_asks_nothing_of_an_image():
    one = host({FRONTEND: "812"})
    one.kind = "root"
    wait_for_apt(one, lambda _: None)
    assert one.asked == []
