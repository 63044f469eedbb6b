"""Who is in charge of /tmp at the next boot, and what lies in it now."""

from __future__ import annotations

import pytest

from hosttune.facts.base import UnknownFact
from hosttune.host.door import Space, Stat, Usage
from hosttune.values import FileValue
from tests.unit.fake_reader import FakeReader
from tests.unit.storage_host import GIB, ROOT, StorageHost

UNIT = "[Mount]\nWhat=tmpfs\nWhere=/tmp\nType=tmpfs\nOptions=mode=1777,strictatime,nosuid,nodev,size=50%%,nr_inodes=1m\n"
DISK = "[Mount]\nWhat=/dev/nvme2n1\nWhere=/tmp\nType=xfs\nOptions=size=4G\n"
USR = "/usr/lib/systemd/system/tmp.mount"
ETC = "/etc/systemd/system/tmp.mount"
WANTS = "/usr/lib/systemd/system/local-fs.target.wants/tmp.mount"
LINE = "tmpfs /tmp tmpfs size=4G 0 0\n"


def tmp(fstab="", mountinfo=ROOT, **kwargs):
    return StorageHost(fstab, mountinfo, **kwargs).facts.tmp


def filling(**kwargs):
    return StorageHost("", kwargs.pop("mountinfo", ROOT), **kwargs).facts.filling


@pytest.mark.parametrize(
    ("fstab", "files", "links", "home", "words"),
    [
        ("", {}, {}, "none", "nothing mounts /tmp at boot"),
        ("", {USR: UNIT}, {}, "none", f"{USR} is not enabled"),
        ("", {USR: UNIT}, {WANTS: "../tmp.mount"}, "usr-unit", USR),
        (LINE, {USR: UNIT}, {WANTS: "../tmp.mount"}, "fstab", "line 1"),
        (LINE, {}, {}, "fstab", "size=4G"),
        ("/dev/sdb1 /tmp ext4 rw 0 0\n", {}, {}, "fstab-other", "/dev/sdb1"),
        ("/var/tmp /tmp none bind 0 0\n", {}, {}, "fstab-other", "bind"),
        (LINE, {ETC: UNIT}, {}, "etc-unit", f"{ETC} mounts /tmp"),
        (
            "",
            {"/usr/share/systemd/tmp.mount": UNIT},
            {ETC: "/usr/share/systemd/tmp.mount"},
            "etc-unit",
            "a link to",
        ),
        (LINE, {ETC: DISK}, {}, "unit-other", f"{ETC}: /dev/nvme2n1 (xfs) is mounted at /tmp"),
        (
            "",
            {ETC: "[Mount]\nWhat=/dev/md0\nWhere=/tmp\n"},
            {},
            "unit-other",
            "/dev/md0 (of whatever type is found)",
        ),
        (
            "",
            {ETC: UNIT, f"{ETC}.d/a.conf": "[Mount]\nWhat=/dev/md0\nType=ext4\n"},
            {},
            "unit-other",
            "/dev/md0 (ext4)",
        ),
        (
            "",
            {USR: UNIT, f"{ETC}.d/a.conf": "[Mount]\nType=\n"},
            {},
            "unit-other",
            "a.conf: what it names",
        ),
        (
            "",
            {ETC: DISK, f"{ETC}.d/a.conf": "[Mount]\nWhat=tmpfs\nType=tmpfs\n"},
            {},
            "dropin",
            "a.conf",
        ),
        (
            "",
            {ETC: DISK, f"{ETC}.d/60-hosttune-x.conf": "[Mount]\nOptions=size=1G\n"},
            {},
            "unit-other",
            "(xfs)",
        ),
        ("", {USR: DISK}, {WANTS: "../tmp.mount"}, "unit-other", f"{USR}: /dev/nvme2n1 (xfs)"),
        (LINE, {USR: DISK}, {WANTS: "../tmp.mount"}, "fstab", "line 1"),
        (LINE, {ETC: ""}, {}, "masked", f"{ETC} masks"),
        ("", {USR: UNIT}, {ETC: "/dev/null"}, "masked", f"{ETC} masks"),
        # an upgrade to Ubuntu 26.04 leaves an empty file there until the reboot
        (
            "",
            {"/run/systemd/system/tmp.mount": "", USR: UNIT},
            {WANTS: "../tmp.mount"},
            "usr-unit",
            "/usr/lib/systemd",
        ),
        (
            "",
            {USR: UNIT},
            {WANTS: "../tmp.mount", "/run/systemd/system/tmp.mount": "/dev/null"},
            "usr-unit",
            "/usr/lib",
        ),
        (
            LINE,
            {f"{ETC}.d/size.conf": "[Mount]\nOptions=size=1G\n"},
            {},
            "dropin",
            f"{ETC}.d/size.conf",
        ),
        (
            "",
            {f"{USR}.d/10-vendor.conf": "", USR: UNIT},
            {WANTS: "../tmp.mount"},
            "dropin",
            "10-vendor.conf",
        ),
        (LINE, {f"{ETC}.d/60-hosttune-storage-tmp-tmpfs.conf": "x"}, {}, "fstab", "line 1"),
    ],
)
def test_home_of_tmp_is_what_systemd_obeys(fstab, files, links, home, words):
    found = tmp(fstab, files=files, links=links)

    assert found.home == home
    assert words in found.home_evidence


def test_unit_options_are_those_of_the_last_drop_in_with_percent_signs_as_mount_sees_them():
    files = {
        USR: UNIT,
        f"{ETC}.d/60-hosttune-x.conf": "[Mount]\nOptions=size=10%%\n",
        f"{ETC}.d/70-no.conf": "[Unit]\n",
    }
    found = tmp(files=files)

    assert found.unit_options == "size=10%"
    assert found.drop_ins == (f"{ETC}.d/60-hosttune-x.conf", f"{ETC}.d/70-no.conf")
    assert found.has_usr_unit


def test_drop_in_of_etc_hides_the_one_of_the_same_name():
    files = {
        f"{ETC}.d/a.conf": "[Mount]\nOptions=size=1G\n",
        f"{USR}.d/a.conf": "[Mount]\nOptions=size=2G\n",
    }

    assert tmp(files=files).drop_ins == (f"{ETC}.d/a.conf",)


def test_link_is_told():
    assert tmp(links={"/tmp": "/var/tmp"}, folders=("/var/tmp",)).is_symlink


def test_live_tmpfs_tells_size_and_use_without_a_walk():
    mountinfo = f"{ROOT}\n30 20 0:40 / /tmp rw,nosuid,nodev - tmpfs tmpfs rw,size=4194304k\n"
    found = tmp(
        mountinfo=mountinfo, spaces={"/tmp": Space(4 * GIB, 3 * GIB, 1, 1)}, files={"/tmp/x": "x"}
    )

    assert (found.is_tmpfs, found.is_mount, found.fstype) == (True, True, "tmpfs")
    assert found.size_bytes == 4 * GIB
    lies = filling(
        mountinfo=mountinfo, spaces={"/tmp": Space(4 * GIB, 3 * GIB, 1, 1)}, files={"/tmp/x": "x"}
    )
    assert (lies.used_bytes, lies.entries, lies.is_complete) == (GIB, 0, True)


def test_tmp_on_the_disk_is_counted():
    files = {"/tmp/a": b"x" * 10, "/tmp/d/b": b"x" * 20, "/tmp/d/e/c": FileValue(b"x" * 30)}
    found = tmp(files=files, links={"/tmp/loop": "/tmp"})

    assert (found.is_tmpfs, found.is_mount, found.fstype, found.size_bytes) == (
        False,
        False,
        "ext4",
        None,
    )
    lies = filling(files=files, links={"/tmp/loop": "/tmp"})
    assert (lies.used_bytes, lies.entries, lies.is_complete) == (60, 6, True)


def test_count_that_was_cut_says_so(monkeypatch):
    monkeypatch.setattr(FakeReader, "usage", lambda *_: Usage(3, 3, is_complete=False))
    found = filling(files={"/tmp/a": "x"})

    assert (found.entries, found.used_bytes, found.is_complete) == (3, 3, False)


def test_private_folder_says_that_there_is_more():
    found = filling(files={"/tmp/b": "x"}, unreadable={"/tmp/a/x": "permission denied"}, stats={
        "/tmp/s": Stat("socket", 0o755, 0, 0, 0, 0, 1, 1, 1),
    })  # fmt: skip

    assert found.used_bytes == 1
    assert not found.is_complete


def test_size_and_use_of_the_file_system_below_bound_what_lies_in_tmp():
    found = tmp(files={"/tmp/b": "x"}, spaces={"/": Space(8 * GIB, 2 * GIB, 1, 1)})

    assert (found.disk_bytes, found.disk_used_bytes) == (8 * GIB, 6 * GIB)


def test_folder_that_cannot_be_listed_is_not_known():
    with pytest.raises(UnknownFact, match="permission denied"):
        _ = filling(files={"/tmp/b": "x"}, unreadable={"/tmp": "permission denied"}).used_bytes


def test_unreadable_fstab_makes_the_home_unknown_and_not_the_rest():
    found = tmp(None, unreadable={"/etc/fstab": "permission denied"})

    assert found.fstype == "ext4"
    with pytest.raises(UnknownFact, match="permission denied"):
        _ = found.home


def test_other_root_has_a_home_for_tmp_and_nothing_mounted():
    found = tmp(LINE, None, persistent_only=True, files={"/tmp/a": "x"})

    assert (found.home, found.is_mount, found.is_tmpfs) == ("fstab", False, False)
    assert filling(persistent_only=True, mountinfo=None, files={"/tmp/a": "x"}).used_bytes == 1


def test_what_is_mounted_there_not_known_leaves_what_lies_there_unknown():
    with pytest.raises(UnknownFact, match="needs root"):
        _ = filling(mountinfo=None, unreadable={"/proc/self/mountinfo": "needs root"}).entries


def test_unit_that_cannot_be_read_leaves_the_home_unknown():
    found = tmp(unreadable={ETC: "needs root"})

    for name in ("home", "home_evidence", "unit_options"):
        with pytest.raises(UnknownFact, match="needs root"):
            getattr(found, name)


def test_other_root_whose_run_cannot_be_read_has_the_home_that_its_files_say():
    image = {"persistent_only": True, "mountinfo": None, "unreadable": {"/run": "no kernel"}}

    assert tmp(LINE, **image).home == "fstab"
    assert tmp("", files={ETC: DISK}, **image).home == "unit-other"


def test_folder_of_drop_ins_that_cannot_be_read_leaves_open_who_decides():
    unreadable = {"/etc/systemd/system/tmp.mount.d": "needs root"}
    with pytest.raises(UnknownFact, match="needs root"):
        _ = tmp(unreadable=unreadable).home
