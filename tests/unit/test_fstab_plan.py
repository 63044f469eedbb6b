"""noatime planned on a file alone: what the policy makes of each type, which line is edited, why others are left."""

from __future__ import annotations

import pytest

from hosttune.errors import Refused
from hosttune.facts.storage.fstab_lines import parse, separator_of
from hosttune.resources.storage.fstab_document import entry_text
from hosttune.resources.storage.fstab_plan import Outcome, tune
from tests.unit.test_fstab_document import SAMPLES, assert_one_span

POLICY = [  # type, options, outcome, words of the reason
    ("ext2", "defaults", "changed", ""),
    ("ext3", "defaults", "changed", ""),
    ("ext4", "defaults", "changed", ""),
    ("xfs", "defaults", "changed", ""),
    ("f2fs", "defaults", "changed", ""),
    ("btrfs", "subvol=@data,compress=zstd", "changed", ""),
    ("bcachefs", "defaults", "changed", ""),
    ("jfs", "defaults", "changed", ""),
    ("ext4", "noauto,user", "changed", ""),
    ("ext4", "x-systemd.automount,relatime", "changed", ""),
    ("ext4", "noatime,nodiratime", "ok", ""),
    ("ext4", "strictatime", "left alone", "an explicit `strictatime`"),
    ("ext4", "rw,atime", "left alone", "an explicit `atime`"),
    ("ext4", "ro", "left alone", "read-only"),
    ("ext4", "NoAtime", "refused", "case-sensitive"),
    ("ext4", 'context="a,b', "refused", "open quote"),
    ("ext4", "comment=cloudconfig", "left alone", "cloud-init"),
    ("ext4", "password=x", "left alone", "holds a password"),
    ("auto", "defaults", "left alone", "leaves the type open"),
    ("ext4,xfs", "defaults", "left alone", "leaves the type open"),
    ("none", "bind", "left alone", "a bind mount"),
    ("ext4", "rbind", "left alone", "a bind mount"),
    ("zfs", "defaults", "left alone", "zfs set atime=off"),
    *[(fstype, "defaults", "left alone", "no effect on an NFS client") for fstype in ("nfs", "nfs4")],
    *[
        (fstype, "defaults", "left alone", "the server or its helper decides")
        for fstype in (
            "cifs", "smb3", "9p", "virtiofs", "drvfs", "ceph", "lustre", "beegfs", "gpfs", "wekafs", "glusterfs", "fuse",
            "fuse.sshfs", "fuse.anything",
        )
    ],
    ("overlay", "lowerdir=/a,upperdir=/b,workdir=/c", "left alone", "overlay"),
    *[(fstype, "defaults", "left alone", "saves no writes") for fstype in ("vfat", "iso9660", "udf", "squashfs", "erofs")],
    ("tmpfs", "size=1G", "left alone", "tmpfs"),
    *[
        (fstype, "defaults", "left alone", "no file system on a disk")
        for fstype in (
            "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "efivarfs", "securityfs", "debugfs", "tracefs",
            "bpf", "hugetlbfs", "mqueue", "configfs", "autofs",
        )
    ],
    ("reiserfs", "defaults", "left alone", "does not know whether"),
]  # fmt: skip


def test_line_of_another_owner_is_left_although_one_like_it_was_changed():
    data = b"UUID=1 /a ext4 rw 0 2\n#VAGRANT-BEGIN\nUUID=2 /b ext4 rw 0 2\n#VAGRANT-END\nUUID=3 /c ext4 rw 0 2\n"
    plan = tune(parse(data))
    assert [(step.target, step.outcome) for step in plan.steps] == [
        ("/a", Outcome.CHANGED), ("/b", Outcome.LEFT), ("/c", Outcome.CHANGED),
    ]  # fmt: skip
    assert plan.data == data.replace(b"/a ext4 rw", b"/a ext4 rw,noatime").replace(b"/c ext4 rw", b"/c ext4 rw,noatime")


@pytest.mark.parametrize(("fstype", "options", "outcome", "reason"), POLICY)
def test_policy_for_a_type_decides_what_becomes_of_its_line(fstype, options, outcome, reason):
    document = parse(f"UUID=1\t/data\t{fstype}\t{options}\t0 0\n".encode())

    (step,) = tune(document, ["/data"]).steps

    assert step.outcome.value == outcome
    assert reason in step.reason
    assert bool(step.reason) == (outcome in ("left alone", "refused"))


def test_tune_of_all_takes_the_data_disks_and_says_why_not_the_others():
    document = parse(
        b"UUID=1 / ext4 defaults 0 1\n"
        b"UUID=2 /home ext4 relatime 0 2\n"
        b"UUID=3 /boot/efi vfat defaults 0 1\n"
        b"proc /proc proc defaults 0 0\n"
        b"/swap none swap sw 0 0\n"
        b"nas:/x /nfs nfs4 rw 0 0\n"
        b"UUID=4 /data xfs noatime 0 0\n"
        b"UUID=5 /twice ext4 rw 0 0\n"
        b"UUID=6 /twice/ ext4 rw 0 0\n"
        b"UUID=7 /misread ext4 rw # x\n"
        b"UUID=8 /var ext4 rw 0 0\n"
    )

    tuning = tune(document)

    assert all(isinstance(step.todo, str) for step in tuning.steps)
    assert {step.line: step.outcome.value for step in tuning.steps} == {
        1: "left alone", 2: "changed", 6: "left alone", 7: "ok", 8: "refused", 9: "refused", 10: "refused",
        11: "left alone",
    }  # fmt: skip
    assert tuning.data == document.data.replace(b"/home ext4 relatime", b"/home ext4 noatime")


@pytest.mark.parametrize("target", ["/data", "/data/", "//data", "/x/../data", "/./data"])
def test_tune_of_a_target_finds_its_line_however_it_is_written(target):
    for written in (b"/data", b"/data//", b"/y/../data"):
        data = b"UUID=1 " + written + b" ext4 rw 0 0\n"
        assert tune(parse(data), [target]).data == data.replace(b"rw", b"rw,noatime")


def test_tune_of_an_unknown_target_names_those_that_there_are():
    (step,) = tune(parse(b"UUID=1 /data ext4 rw 0 0\n", "my.fstab"), ["/dat"]).steps

    assert (step.line, step.outcome) == (0, Outcome.REFUSED)
    assert step.reason == "my.fstab has no line for /dat"
    assert "/data" in step.todo


def test_tune_of_lines_with_the_same_options_keeps_their_reasons_apart():
    data = b"".join(b"UUID=%d /d%d %s rw,%s 0 0\n" % (n, n, t, o) for n, (t, o) in enumerate([
        (b"ext4", b"nofail"), (b"nfs4", b"nofail"), (b"ext4", b"nofail"), (b"nfs4", b"nofail"), (b"auto", b"nofail"),
        (b"auto", b"nofail"),
    ]))  # fmt: skip

    steps = tune(parse(data)).steps

    assert [step.outcome.value for step in steps] == ["changed", "left alone"] * 2 + ["left alone"] * 2
    assert ["line 5" in steps[4].reason, "line 6" in steps[5].reason] == [True, True]


def test_tune_of_a_managed_file_leaves_it_to_its_manager():
    data = b"# Ansible managed: do not edit\nUUID=1 /data ext4 rw 0 0\nUUID=2 /more ext4 rw 0 0\n"

    tuning = tune(parse(data))

    assert tuning.data == data
    assert ["Ansible" in step.reason for step in tuning.steps] == [True, True]


@pytest.mark.parametrize("name", ["byte order mark", "nul", "lone cr"])
def test_tune_of_a_file_that_is_not_edited_is_refused_as_a_whole(name):
    with pytest.raises(Refused) as caught:
        tune(parse(SAMPLES[name], "my.fstab"), ["/data"])

    assert caught.value.message.startswith("my.fstab:1: ")
    assert caught.value.hint


def test_tune_of_a_line_that_would_grow_too_long_is_refused_and_the_others_are_not():
    data = b"UUID=1 /data ext4 x-a=" + b"a" * 3970 + b" 0 2\nUUID=2 /more ext4 rw 0 0\n"

    first, second = (tuning := tune(parse(data))).steps

    assert (first.outcome, second.outcome) == (Outcome.REFUSED, Outcome.CHANGED)
    assert "longer than 4000 bytes" in first.reason
    assert_one_span(data, tuning.data, 2)


def test_tune_twice_changes_nothing_the_second_time():
    for data in SAMPLES.values():
        if not parse(data).problems:
            once = tune(parse(data)).data
            assert tune(parse(once)).data == once


@pytest.mark.parametrize(
    ("data", "separator"),
    [
        (b"", " "),
        (b"UUID=1 /data ext4 rw 0 0\n", " "),
        (b"UUID=1\t/data\text4\trw\t0\t0\n", "\t"),
        (b"UUID=1\t\t/data\text4\trw\t0\t0\t# a b\n", "\t"),
        (b"UUID=1\t/data\text4\trw 0 0\n", " "),
        (b"a\t/b\text4\trw\nUUID=1   /data   ext4 rw 0 0\n# x\n", " "),
    ],
)
def test_separator_of_a_file_is_that_of_its_last_entry(data, separator):
    assert separator_of(parse(data)) == separator


def test_entry_text_is_read_by_both_as_it_was_meant():
    text = entry_text("LABEL=a b", "/my data\\x", "ext4", "rw,nofail", separator="\t")

    (line,) = parse(text.encode() + b"\n").entries
    assert text == "LABEL=a\\040b\t/my\\040data\\134x\text4\trw,nofail\t0\t0"
    assert line.fields == (b"LABEL=a b", b"/my data\\x", b"ext4", b"rw,nofail", 0, 0)
