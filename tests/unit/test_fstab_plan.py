"""noatime planned on a file alone: what the policy makes of each type, which line is edited, why
others are left.
"""

from __future__ import annotations

import pytest

from hosttune.errors import Refused
from hosttune.facts.storage.fstab_lines import parse, separator_of
from hosttune.resources.storage.fstab_document import entry_text
from hosttune.resources.storage.fstab_lint import RemarkLevel, lint
from hosttune.resources.storage.fstab_plan import LineOutcome, tune
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
    data = b"LABEL=1 /a ext4 rw 0 2\n#VAGRANT-BEGIN\nLABEL=2 /b ext4 rw 0 2\n#VAGRANT-END\nLABEL=3 /c ext4 rw 0 2\n"
    plan = tune(parse(data))
    assert [(step.target, step.outcome) for step in plan.steps] == [
        ("/a", LineOutcome.CHANGED), ("/b", LineOutcome.LEFT), ("/c", LineOutcome.CHANGED),
    ]  # fmt: skip
    assert plan.data == data.replace(b"/a ext4 rw", b"/a ext4 rw,noatime").replace(
        b"/c ext4 rw", b"/c ext4 rw,noatime"
    )


@pytest.mark.parametrize(("fstype", "options", "outcome", "reason"), POLICY)
def test_policy_for_a_type_decides_what_becomes_of_its_line(fstype, options, outcome, reason):
    document = parse(f"LABEL=1\t/data\t{fstype}\t{options}\t0 0\n".encode())

    (step,) = tune(document, ["/data"]).steps

    assert step.outcome.value == outcome
    assert reason in step.reason
    assert bool(step.reason) == (outcome in ("left alone", "refused"))


def test_tune_of_all_takes_the_data_disks_and_says_why_not_the_others():
    document = parse(
        b"LABEL=1 / ext4 defaults 0 1\n"
        b"LABEL=2 /home ext4 relatime 0 2\n"
        b"LABEL=3 /boot/efi vfat defaults 0 1\n"
        b"proc /proc proc defaults 0 0\n"
        b"/swap none swap sw 0 0\n"
        b"nas:/x /nfs nfs4 rw 0 0\n"
        b"LABEL=4 /data xfs noatime 0 0\n"
        b"LABEL=5 /twice ext4 rw 0 0\n"
        b"LABEL=6 /twice/ ext4 rw 0 0\n"
        b"LABEL=7 /misread ext4 rw # x\n"
        b"LABEL=8 /var ext4 rw 0 0\n"
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
        data = b"LABEL=1 " + written + b" ext4 rw 0 0\n"
        assert tune(parse(data), [target]).data == data.replace(b"rw", b"rw,noatime")


def test_tune_of_an_unknown_target_names_those_that_there_are():
    (step,) = tune(parse(b"LABEL=1 /data ext4 rw 0 0\n", "my.fstab"), ["/dat"]).steps

    assert (step.line, step.outcome) == (0, LineOutcome.REFUSED)
    assert step.reason == "my.fstab has no line for /dat"
    assert "/data" in step.todo


def test_tune_of_lines_with_the_same_options_keeps_their_reasons_apart():
    data = b"".join(b"LABEL=%d /d%d %s rw,%s 0 0\n" % (n, n, t, o) for n, (t, o) in enumerate([
        (b"ext4", b"nofail"), (b"nfs4", b"nofail"), (b"ext4", b"nofail"), (b"nfs4", b"nofail"), (b"auto", b"nofail"),
        (b"auto", b"nofail"),
    ]))  # fmt: skip

    steps = tune(parse(data)).steps

    assert [step.outcome.value for step in steps] == ["changed", "left alone"] * 2 + [
        "left alone"
    ] * 2
    assert ["line 5" in steps[4].reason, "line 6" in steps[5].reason] == [True, True]


# Lines whose mount fails, with words of what `lint` says of each.
FAULTY = {
    "LABEL=d /data ext4 0 2": "`0` is where the options belong",
    "LABEL=d /data ext4 defaults;nofail 0 2": "only a comma parts options",
    "LABEL=d /data ext4 rw,sec=krb5 0 2": "ext4 refuses it",
    "LABEL=d /data ext4 rw,nobootwait 0 2": "a word of Upstart",
    "LABEL=d /data ext4 rw,NoExec 0 2": "options are case-sensitive",
    "LABEL=d /data ext4 rw,\u201cnoexec 0 2": "left double quotation mark",
    "UUID:a1b2c3d4-0000-1111-2222-333344445555 /data ext4 rw 0 2": "is no tag",
    "UUID=a1b2 /data ext4 rw 0 2": "is no UUID of ext4",
    "UUID=\u201caaaa\u201d /data ext4 rw 0 2": "in the source is no plain dash or quote",
    "/dev/nvmeOn1p1 /data ext4 rw 0 2": "no kernel names a disk",
    "ID=nvme-x /data ext4 rw 0 2": "systemd does not resolve ID=",
    "LABEL=d data ext4 rw 0 2": "no absolute path",
}


@pytest.mark.parametrize("text", FAULTY)
@pytest.mark.parametrize("is_second", [False, True])
def test_line_whose_mount_fails_is_refused_with_what_lint_says_and_others_go_on(text, is_second):
    good = "LABEL=a /a ext4 rw 0 2"
    like = text.replace("/data", "/like").replace(" data", " like")
    rows = [good, text, like] if is_second else [text, like, good]
    document = parse("".join(f"{row}\n" for row in rows).encode(), "my.fstab")

    tuning = tune(document)

    assert tuning.data.decode() == "".join(f"{row}\n" for row in rows).replace(
        "/a ext4 rw", "/a ext4 rw,noatime"
    )
    refused = [step for step in tuning.steps if step.outcome is LineOutcome.REFUSED]
    said = [one for one in lint(document) if one.level is RemarkLevel.ERROR]
    assert [(step.reason, step.todo) for step in refused] == [
        (f"my.fstab:{o.line}: {o.message}", o.todo) for o in said
    ]
    assert [FAULTY[text] in step.reason for step in refused] == [True, True]


def test_lines_that_fail_together_are_no_error_of_a_third():
    data = b"LABEL=x /x ext4 rw 0 0\nLABEL=y /x ext4 rw 0 0\n/p/1 /q none bind 0 0\n/q/1 /p none bind 0 0\nLABEL=a /a ext4 rw 0 0\n"
    assert tune(parse(data)).data == data.replace(b"/a ext4 rw", b"/a ext4 rw,noatime")


def test_tune_of_a_managed_file_leaves_it_to_its_manager():
    data = b"# Ansible managed: do not edit\nLABEL=1 /data ext4 rw 0 0\nLABEL=2 /more ext4 rw 0 0\n"

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
    data = b"LABEL=1 /data ext4 x-a=" + b"a" * 3970 + b" 0 2\nLABEL=2 /more ext4 rw 0 0\n"

    first, second = (tuning := tune(parse(data))).steps

    assert (first.outcome, second.outcome) == (LineOutcome.REFUSED, LineOutcome.CHANGED)
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
        (b"LABEL=1 /data ext4 rw 0 0\n", " "),
        (b"LABEL=1\t/data\text4\trw\t0\t0\n", "\t"),
        (b"LABEL=1\t\t/data\text4\trw\t0\t0\t# a b\n", "\t"),
        (b"LABEL=1\t/data\text4\trw 0 0\n", " "),
        (b"a\t/b\text4\trw\nLABEL=1   /data   ext4 rw 0 0\n# x\n", " "),
    ],
)
def test_separator_of_a_file_is_that_of_its_last_entry(data, separator):
    assert separator_of(parse(data)) == separator


def test_entry_text_is_read_by_both_as_it_was_meant():
    text = entry_text("LABEL=a b", "/my data\\x", "ext4", "rw,nofail", separator="\t")

    (line,) = parse(text.encode() + b"\n").entries
    assert text == "LABEL=a\\040b\t/my\\040data\\134x\text4\trw,nofail\t0\t0"
    assert line.fields == (b"LABEL=a b", b"/my data\\x", b"ext4", b"rw,nofail", 0, 0)
