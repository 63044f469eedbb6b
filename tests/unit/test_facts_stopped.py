"""File systems that the kernel stopped, and what ext4 counted."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.kernel.kernel_log import JOURNAL
from hosttune.facts.storage.stopped import word_of
from hosttune.host.reading.mountinfo import parse
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

ROOT = "22 1 259:2 / / {own},relatime shared:1 - {fstype} /dev/nvme0n1p2 {whole}\n"
COUNTS = "/sys/fs/ext4/nvme0n1p2"
NOW = 1_795_000_000.0


def seen(own="rw", whole="rw,errors=remount-ro", fstype="ext4", files=None, **more):
    every = {
        "/proc/self/mountinfo": ROOT.format(own=own, whole=whole, fstype=fstype),
        "/proc/uptime": "86400.00 1000.00\n",
    }
    reader = FakeReader(
        every | (files or {}), folders=["/sys/block", "/etc/systemd/system"], now=NOW, **more
    )
    (found,) = Facts(reader).stopped.filesystems
    return found


def test_image_that_a_user_mounted_is_no_file_system_of_the_host():
    """Its superblock says what that user wrote: errors, and that it stops at them."""
    utab = {"/run/mount/utab": "ID=22 TARGET=/ ROOT=/ OPTS=uhelper=udisks2\n"}
    with pytest.raises(ValueError, match="not enough values"):
        seen(files=utab)


@pytest.mark.parametrize(
    ("own", "whole", "word"),
    [
        ("rw", "rw,errors=remount-ro", ""),
        ("rw", "rw,errors=remount-ro,emergency_ro", "emergency_ro"),
        ("rw", "rw,shutdown", "shutdown"),
        ("rw", "ro,errors=remount-ro", "ro"),
        ("ro", "ro,errors=remount-ro", ""),  # mounted so
        ("ro", "rw", ""),
        ("ro", "ro,emergency_ro", "emergency_ro"),
    ],
)
def test_word_that_tells_of_a_file_system_that_stopped(own, whole, word):
    assert seen(own, whole).stopped == word_of((own,), tuple(whole.split(","))) == word
    (line,) = parse(ROOT.format(own=own, whole=whole, fstype="ext4").encode())
    assert line.is_read_only is (bool(word) or own == "ro")


def test_errors_that_ext4_counted_with_their_time():
    found = seen(
        files={f"{COUNTS}/errors_count": "3\n", f"{COUNTS}/last_error_time": f"{NOW - 3600:.0f}\n"}
    )
    assert (found.errors, found.age_s, found.is_recent) == (3, 3600.0, True)
    old = seen(
        files={f"{COUNTS}/errors_count": "3\n", f"{COUNTS}/last_error_time": f"{NOW - 90000:.0f}\n"}
    )
    assert (old.errors, old.is_recent) == (3, False)
    assert (seen().errors, seen().age_s, seen().is_recent) == (0, -1.0, False)
    others = seen(fstype="btrfs", files={f"{COUNTS}/errors_count": "3\n"})
    assert others.errors == 0


def test_damage_of_xfs_is_counted_by_the_log_and_unknown_without_one():
    """Nothing else tells of it."""
    line = f"{NOW - 60:.6f} kernel: XFS (nvme0n1p2): Metadata CRC error detected at xfs_agi_read_verify+0x1/0x2 [xfs]\n"
    found = seen(fstype="xfs", queries={JOURNAL: line})
    assert (found.errors, found.is_recent) == (1, True)
    other = seen(fstype="xfs", queries={JOURNAL: line.replace("nvme0n1p2", "sdb1")})
    assert (other.errors, other.age_s, other.is_recent) == (0, -1.0, False)
    with pytest.raises(UnknownFact, match="kernel log"):
        _ = seen(fstype="xfs").errors


def test_counts_that_cannot_be_read_are_not_0():
    found = seen(unreadable={f"{COUNTS}/errors_count": "input/output error"})
    assert found.stopped == ""
    with pytest.raises(UnknownFact, match="input/output error"):
        _ = found.errors


def test_kernel_that_shows_nothing_is_asked_for_its_log_where_ext4_counted_an_error():
    counted = {f"{COUNTS}/errors_count": "3\n", f"{COUNTS}/last_error_time": f"{NOW - 3600:.0f}\n"}
    line = f"{NOW - 3600:.6f} kernel: EXT4-fs (nvme0n1p2): Remounting filesystem read-only\n"
    assert seen(files=counted, queries={JOURNAL: line}).stopped == "stopped by an error"
    assert seen(files=counted, queries={JOURNAL: line.replace("nvme0n1p2", "sdb1")}).stopped == ""
    hidden = seen(files=counted)  # nobody may read the log
    assert (hidden.stopped, hidden.errors, hidden.is_recent) == ("", 3, True)
    old = {**counted, f"{COUNTS}/last_error_time": f"{NOW - 90000:.0f}\n"}
    assert seen(files=old, queries={JOURNAL: line}).stopped == ""
    assert seen(queries={JOURNAL: line}).stopped == ""


def test_xfs_that_shut_itself_down_answers_with_errors_alone():
    refused = {"/": Unreadable("/: Input/output error")}
    assert seen(fstype="xfs", whole="rw,attr2", stats=refused).stopped == "shut down"
    assert seen(fstype="btrfs", whole="rw", stats=refused).stopped == "answering with errors alone"
    assert (
        seen(fstype="xfs", stats={"/": Unreadable("needs root: permission denied on /")}).stopped
        == ""
    )


@pytest.mark.parametrize(
    "words",
    [
        "I/O Error Detected. Shutting down filesystem",
        "Metadata I/O Error (0x1) detected at xfs_trans_read_buf_map+0x22c/0x360 [xfs] (fs/xfs/xfs_trans_buf.c:296).  Shutting down filesystem.",
        "User initiated shutdown received.",
    ],
)
def test_log_tells_that_xfs_shut_down_where_no_one_could_ask_it(words):
    line = f"{NOW - 3600:.6f} kernel: XFS (nvme0n1p2): {words}\n"
    unasked = {"/": Unreadable("not in this record: the state of /")}
    assert (
        seen(fstype="xfs", whole="rw,attr2", stats=unasked, queries={JOURNAL: line}).stopped
        == "shut down"
    )
    assert (
        seen(fstype="xfs", whole="rw,attr2", queries={JOURNAL: line}).stopped == ""
    )  # it answers: mounted anew since
    anew = f"{NOW - 60:.6f} kernel: XFS (nvme0n1p2): Ending recovery (logdev: internal)\n{line}"
    assert (
        seen(fstype="xfs", whole="rw,attr2", stats=unasked, queries={JOURNAL: anew}).stopped == ""
    )
    other = line.replace("nvme0n1p2", "sdb1")
    assert (
        seen(fstype="xfs", whole="rw,attr2", stats=unasked, queries={JOURNAL: other}).stopped == ""
    )


def test_xfs_under_a_mount_of_a_user_may_have_shut_down_unseen():
    """The answer for its path is that of the file system that the user mounted, good or bad."""
    over = "23 22 0:44 / / rw,nosuid,nodev - fuse evil rw,user_id=1001,group_id=1001\n"
    for fstype, whole in (("xfs", "rw,attr2"), ("ext4", "rw,errors=remount-ro")):
        table = {"/proc/self/mountinfo": ROOT.format(own="rw", whole=whole, fstype=fstype) + over}
        for answer in ({}, {"/": Unreadable("/: Input/output error")}):
            if fstype == "ext4":
                assert seen(files=table, stats=answer).stopped == ""
            else:
                with pytest.raises(
                    UnknownFact, match="a user mounted another file system over /, which hides"
                ):
                    _ = seen(files=table, stats=answer).stopped


UUID = "/sys/fs/btrfs/0b6c7f0e-3a44-4b8e-9d10-6c2f7e0a9b1f"
SOUND = "write_errs 0\nread_errs 0\nflush_errs 0\ncorruption_errs {}\ngeneration_errs 0\n"


def test_disks_of_btrfs_that_did_wrong_or_are_missing():
    files = {
        f"{UUID}/devices/nvme0n1p2/size": "1\n", f"{UUID}/devinfo/1/error_stats": SOUND.format(0),
        f"{UUID}/devinfo/1/missing": "0\n", f"{UUID}/devinfo/2/error_stats": SOUND.format(3),
        f"{UUID}/devinfo/3/missing": "1\n", "/sys/fs/btrfs/features/raid1c34": "0\n",
    }  # fmt: skip
    assert seen(fstype="btrfs", files=files).erring == ("disk 2: 3 corruption", "disk 3 is missing")
    assert seen(fstype="ext4", files=files).erring == ()
    assert (
        seen(
            fstype="btrfs",
            files={f"{UUID}/devices/sda1/size": "1\n", f"{UUID}/devinfo/1/missing": "1\n"},
        ).erring
        == ()
    )
    with pytest.raises(UnknownFact, match="no permission"):
        _ = seen(
            fstype="btrfs", files=files, unreadable={f"{UUID}/devinfo/2": "no permission"}
        ).erring
