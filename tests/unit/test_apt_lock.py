"""Who holds the locks of dpkg and apt, and what is said while they are waited for."""

import os

import pytest

from hosttune.errors import Refused
from hosttune.facts import apt_get as apt
from hosttune.host.door import Process, Stat
from hosttune.resources.packages import apt_wait
from hosttune.resources.packages.apt_lock import LOCKS, holder
from hosttune.resources.packages.apt_wait import wait_for_apt
from tests.unit.fake_reader import FakeReader

DEVICE = os.makedev(0xFD, 1)
UPGRADE = Process(
    812, "unattended-upgr", "root", ("/usr/bin/python3", "/usr/bin/unattended-upgrade"), 0, 0, (),
    "/system.slice/apt-daily-upgrade.service", 0.0,
)  # fmt: skip
ROW = "1: POSIX  ADVISORY  WRITE {} fd:01:{} 0 EOF\n"


def host(locks, processes=(UPGRADE,)):
    stats = {path: Stat("file", 0o640, 0, 0, 0, 0, DEVICE, 1311 + number, 1) for number, path in enumerate(LOCKS)}
    return FakeReader({"/proc/locks": locks}, stats=stats, processes=processes)


HELD = {
    "with its command and unit": (
        ROW.format(812, 1311), (UPGRADE,),
        "process 812 (/usr/bin/python3 /usr/bin/unattended-upgrade, apt-daily-upgrade.service)",
    ),
    "dpkg alone": (ROW.format(9, 1312), (), "process 9"),
    "another file": (ROW.format(812, 77), (UPGRADE,), ""),
    "another disk": (ROW.format(812, 1311).replace("fd:01", "fd:02"), (UPGRADE,), ""),
    "one that only waits": (ROW.format(812, 1311).replace("POSIX", "-> POSIX"), (UPGRADE,), ""),
    "one that only reads": (ROW.format(812, 1311).replace("WRITE", "READ "), (UPGRADE,), ""),
    "nobody": ("", (), ""),
}  # fmt: skip


@pytest.mark.parametrize(("locks", "processes", "who"), HELD.values(), ids=HELD.keys())
def test_holder_is_named(locks, processes, who):
    assert holder(host(locks, processes)) == who


def test_holder_is_nobody_where_the_kernel_does_not_tell():
    assert holder(FakeReader({})) == ""


def test_wait_tells_at_once_whom_it_waits_for_and_goes_on_when_the_lock_is_free(monkeypatch):
    one = host(ROW.format(812, 1311))
    said = []

    def sleep(seconds):
        assert seconds > 0
        one.files["/proc/locks"] = ""

    monkeypatch.setattr(apt_wait.time, "sleep", sleep)
    wait_for_apt(one, said.append)
    (line,) = said
    assert "waiting for process 812" in line
    assert "apt-daily-upgrade.service" in line


def test_wait_gives_signs_of_life_and_ends(monkeypatch):
    slept, said = [], []
    monkeypatch.setattr(apt_wait.time, "sleep", slept.append)
    with pytest.raises(Refused, match=r"process 812 .*apt-daily-upgrade.service") as error:
        wait_for_apt(host(ROW.format(812, 1311)), said.append)
    assert sum(slept) == apt.LOCK_WAIT_S
    assert len(said) == apt.LOCK_WAIT_S // 15
    assert said[0].endswith(f"{apt.LOCK_WAIT_S} s at most")
    assert said[-1].endswith(" 15 s at most")
    assert "no package has changed" in error.value.hint


def test_wait_asks_nothing_of_an_image():
    one = host(ROW.format(812, 1311))
    one.kind = "root"
    wait_for_apt(one, lambda _: None)
    assert one.seen == []
