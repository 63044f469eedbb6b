"""The overlay: writes stay in memory, later reads see them, and what is not modelled is refused."""

from __future__ import annotations

import pytest

from hosttune.errors import Conflict, Refused
from hosttune.host.door import Stat
from hosttune.host.overlay.overlay import Overlay
from hosttune.host.overlay.simulate import DPKG_STATUS
from hosttune.host.reading.mountinfo import parse, topmost_at
from hosttune.values import ABSENT, FileValue
from tests.unit.fake_reader import FakeReader

MOUNTINFO = (
    "20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "21 20 8:2 / /data rw,nosuid,relatime shared:2 - ext4 /dev/sda2 rw\n"
    "22 21 0:9 / /data rw,relatime - tmpfs none rw\n"
)


@pytest.fixture
def base():
    files = {
        "/etc/a.conf": "a\n",
        "/proc/sys/vm/swappiness": "60\n",
        "/proc/self/mountinfo": MOUNTINFO,
        "/var/lib/dpkg/status": "Package: old\nStatus: install ok installed\nVersion: 1\n",
        "/usr/lib/systemd/system/x.timer": "[Install]\nWantedBy=timers.target\n",
    }
    return FakeReader(files, links={"/etc/link.conf": "a.conf"}, folders=("/etc/sysctl.d", "/data"))


def test_replace_is_seen_and_the_base_is_untouched(base):
    overlay = Overlay(base)
    overlay.replace("/etc/sysctl.d/x.conf", FileValue(b"x\n"), expected=ABSENT)
    assert overlay.read("/etc/sysctl.d/x.conf") == b"x\n"
    assert overlay.list("/etc/sysctl.d") == ("x.conf",)
    assert overlay.stat("/etc/sysctl.d/x.conf").mode == 0o644
    assert base.read("/etc/sysctl.d/x.conf") is ABSENT


def test_replace_through_a_link_changes_what_it_points_to(base):
    overlay = Overlay(base)
    overlay.replace("/etc/link.conf", FileValue(b"b\n"), expected=b"a\n")
    assert overlay.read("/etc/a.conf") == b"b\n"


def test_file_in_a_new_folder_makes_the_folder(base):
    overlay = Overlay(base)
    overlay.replace("/etc/new/x", FileValue(b""), expected=ABSENT)
    assert overlay.list("/etc/new") == ("x",)
    assert overlay.stat("/etc/new").type == "directory"
    assert "new" in overlay.list("/etc")


def test_unexpected_content_is_a_conflict(base):
    overlay = Overlay(base)
    with pytest.raises(Conflict):
        overlay.replace("/etc/a.conf", FileValue(b"b"), expected=b"other")
    with pytest.raises(Conflict):
        overlay.replace("/etc/a.conf", FileValue(b"b"), expected=ABSENT)
    with pytest.raises(Conflict):
        overlay.remove("/etc/a.conf", expected=b"other")


def test_removed_file_is_absent(base):
    overlay = Overlay(base)
    overlay.remove("/etc/a.conf", expected=b"a\n")
    assert overlay.read("/etc/a.conf") is ABSENT
    assert "a.conf" not in overlay.list("/etc")
    assert overlay.stat("/etc/a.conf") is ABSENT


def test_kernel_value_is_set_and_a_missing_one_is_refused(base):
    overlay = Overlay(base)
    overlay.set_value("/proc/sys/vm/swappiness", "10\n")
    assert overlay.read("/proc/sys/vm/swappiness") == b"10\n"
    with pytest.raises(Refused, match="no such value"):
        overlay.set_value("/proc/sys/vm/none", "1\n")


def test_atime_of_the_topmost_mount_alone_changes(base):
    overlay = Overlay(base)
    overlay.set_atime("/data", "noatime")
    mounts = parse(overlay.read("/proc/self/mountinfo"))
    assert topmost_at(mounts, "/data").atime == "noatime"
    assert [mount.atime for mount in mounts] == ["relatime", "relatime", "noatime"]
    with pytest.raises(Refused, match="nothing is mounted"):
        overlay.set_atime("/none", "noatime")


def test_apt_get_is_modelled_in_the_dpkg_status(base):
    overlay = Overlay(base)
    overlay.run(("apt-get", "-y", "-o", "A=b", "install", "new=2", "old=3"), timeout_s=1)
    status = overlay.read("/var/lib/dpkg/status").decode()
    assert "Package: new\nStatus: install ok installed\nArchitecture: all\nVersion: 2" in status
    assert status.count("Package: old") == 1
    overlay.run(("apt-get", "purge", "new"), timeout_s=1)
    assert "Package: new" not in overlay.read("/var/lib/dpkg/status").decode()


def test_whether_packages_were_tried_is_told_through_a_reader_before_it(base):
    overlay = Overlay(base)
    above = Overlay(overlay)
    assert not above.has_tried_packages
    status = overlay.read(DPKG_STATUS)
    overlay.replace(DPKG_STATUS, FileValue(status + b"\n"), expected=status)
    assert above.has_tried_packages


def test_enabled_unit_gets_its_link(base):
    overlay = Overlay(base)
    overlay.run(("systemctl", "enable", "x.timer"), timeout_s=1)
    assert (
        overlay.link("/etc/systemd/system/timers.target.wants/x.timer")
        == "/usr/lib/systemd/system/x.timer"
    )
    overlay.run(("systemctl", "disable", "x.timer"), timeout_s=1)
    assert overlay.link("/etc/systemd/system/timers.target.wants/x.timer") is ABSENT


@pytest.mark.parametrize(
    "argv", [("rm", "-rf", "/"), ("systemctl", "reboot"), ("apt-get", "dist-upgrade")]
)
def test_program_that_is_not_modelled_is_refused(base, argv):
    with pytest.raises(Refused, match="cannot be tried"):
        Overlay(base).run(argv, timeout_s=1)


def test_enabled_unit_is_enabled_for_the_facts_too(base):
    from hosttune.facts.services.units import read_units

    overlay = Overlay(base)
    overlay.run(("systemctl", "enable", "x.timer"), timeout_s=1)
    assert read_units(overlay, ("x.timer",))["x.timer"].enabled_state == "enabled"
    assert (
        overlay.read("/etc/systemd/system/timers.target.wants/x.timer")
        == b"[Install]\nWantedBy=timers.target\n"
    )
    assert overlay.stat("/etc/systemd/system/timers.target.wants").type == "directory"
    overlay.run(("systemctl", "disable", "x.timer"), timeout_s=1)
    assert read_units(overlay, ("x.timer",))["x.timer"].enabled_state == "disabled"


def test_answer_of_systemctl_show_changes_for_the_unit_alone(base):
    argv = ("systemctl", "show", "x.timer", "y.timer")
    shown = "Id=x.timer\nActiveState=inactive\n\nId=y.timer\nActiveState=inactive\n"
    overlay = Overlay(FakeReader(queries={argv: shown}))
    overlay.run(("systemctl", "start", "x.timer"), timeout_s=1)
    assert overlay.query(argv).text == shown.replace("inactive", "active", 1)


def test_replaced_file_keeps_its_mode_and_owner():
    overlay = Overlay(FakeReader({"/etc/a": FileValue(b"a", 0o600, 7, 8)}))
    overlay.replace("/etc/a", FileValue(b"bc", 0o644), expected=b"a")
    stat = overlay.stat("/etc/a")
    assert (stat.mode, stat.uid, stat.gid, stat.size) == (0o600, 7, 8, 2)


def test_file_is_one_file_by_every_name():
    base = FakeReader({"/usr/lib/a": "a"}, links={"/lib": "usr/lib", "/etc/a": "/lib/a"})
    overlay = Overlay(base)
    overlay.replace("/etc/a", FileValue(b"b"), expected=b"a")
    assert {
        overlay.read(path) for path in ("/etc/a", "/lib/a", "/usr/lib/a", "/usr/lib/../lib/a")
    } == {b"b"}
    assert overlay.link("/etc/a") == "/lib/a"
    assert overlay.stat("/etc/a", follow=False).type == "link"


def test_new_file_below_a_missing_folder_behind_a_link_has_one_place():
    overlay = Overlay(FakeReader(links={"/conf": "/etc"}, folders=("/etc",)))
    overlay.replace("/conf/new/deep/x", FileValue(b"x"), expected=ABSENT)
    assert overlay.read("/etc/new/deep/x") == b"x"
    assert overlay.list("/etc/new") == ("deep",)


def test_what_the_real_replace_refuses_is_refused():
    stat = Stat("file", 0o644, 0, 0, 1, 0, 1, 1, 2)
    base = FakeReader(
        {"/etc/two": "a"},
        links={"/etc/dangling": "nowhere"},
        stats={"/etc/two": stat},
        folders=("/etc/d",),
    )
    overlay = Overlay(base)
    for path, expected, words in (
        ("/etc/two", b"a", "2 hard links"),
        ("/etc/dangling", ABSENT, "leads nowhere"),
        ("/etc/d", ABSENT, "/etc/d"),
    ):
        with pytest.raises(Refused, match=words):
            overlay.replace(path, FileValue(b"b"), expected=expected)


@pytest.mark.parametrize(
    ("old", "text", "printed"),
    [
        ("4096\t87380\t6291456\n", "4096 1048576 16777216", "4096\t1048576\t16777216\n"),
        ("always [madvise] never\n", "never", "always madvise [never]\n"),
        ("60\n", "10\n", "10\n"),
        ("core\n", "|/usr/bin/x %p %s\n", "|/usr/bin/x %p %s\n"),
    ],
)
def test_kernel_value_reads_as_the_kernel_prints_it(old, text, printed):
    overlay = Overlay(FakeReader({"/proc/sys/x/y": old}))
    overlay.set_value("/proc/sys/x/y", text)
    assert overlay.read("/proc/sys/x/y") == printed.encode()


def test_nothing_reaches_the_base(base):
    overlay = Overlay(base)
    before = dict(base.files), dict(base.links)
    overlay.replace("/etc/a.conf", FileValue(b"b"), expected=b"a\n")
    overlay.set_value("/proc/sys/vm/swappiness", "1")
    overlay.set_atime("/data", "noatime")
    overlay.run(("systemctl", "enable", "--now", "x.timer"), timeout_s=1)
    overlay.append("/var/lib/hosttune/runs/1", b"x")
    assert (base.files, base.links) == before


def test_folder_of_a_disk_that_was_unmounted_here_can_be_removed():
    mounts = "20 1 8:2 / / rw - ext4 /dev/sda2 rw\n30 20 8:17 / /data rw - ext4 /dev/sdb1 rw\n"
    overlay = Overlay(FakeReader({"/proc/self/mountinfo": mounts, "/data/lost+found/x": ""}))
    with pytest.raises(Refused, match="not empty"):
        overlay.remove_folder("/data")
    overlay.unmount("/data")
    assert overlay.list("/data") == ()
    overlay.remove_folder("/data")
    assert overlay.stat("/data") is ABSENT


IMMUTABLE = Refused("/etc is immutable (chattr +i)", hint="if it may change: sudo chattr -i /etc")


@pytest.mark.parametrize(
    "write",
    [
        lambda one: one.replace("/etc/a.conf", FileValue(b"b\n"), expected=b"a\n"),
        lambda one: one.replace("/etc/new.d/b.conf", FileValue(b"b\n"), expected=ABSENT),
        lambda one: one.remove("/etc/a.conf", expected=b"a\n"),
        lambda one: one.make_folder("/etc/data"),
        lambda one: one.make_link("/etc/b", "a.conf"),
        lambda one: one.run(("systemctl", "enable", "x.timer"), timeout_s=1.0),
        lambda one: one.run(("systemctl", "disable", "x.timer"), timeout_s=1.0),
    ],
)
def test_what_the_real_write_refuses_whatever_it_writes_is_refused_in_the_plan(base, write):
    links = {"/etc/systemd/system/timers.target.wants/x.timer": "/usr/lib/systemd/system/x.timer"}
    reader = FakeReader(base.files, links=links, refused={"/etc": IMMUTABLE})
    with pytest.raises(Refused, match="/etc is immutable"):
        write(Overlay(reader))


def test_value_that_the_kernel_only_shows_is_refused(base):
    reader = FakeReader({**base.files, "/proc/sys/vm/x": FileValue(b"1\n", 0o444)})
    with pytest.raises(Refused, match="only shows it"):
        Overlay(reader).set_value("/proc/sys/vm/x", "2")
    table = MOUNTINFO + "23 20 0:5 / /proc/sys ro,relatime - proc proc rw\n"
    with pytest.raises(Refused, match="/proc/sys is mounted read-only"):
        Overlay(FakeReader({**base.files, "/proc/self/mountinfo": table})).set_value(
            "/proc/sys/vm/swappiness", "1"
        )


def test_removed_folder_is_absent_however_it_is_looked_at():
    overlay = Overlay(FakeReader({"/etc/x.d/a.conf": "a\n"}, folders=("/etc", "/etc/x.d")))
    overlay.remove("/etc/x.d/a.conf", expected=b"a\n")
    overlay.remove_folder("/etc/x.d")
    assert overlay.list("/etc/x.d") is ABSENT
    assert overlay.stat("/etc/x.d") is ABSENT
    assert overlay.resolve("/etc/x.d") is ABSENT
    assert overlay.list("/etc") == ()
