"""What devices hold: the answers of lsblk and blkid, and the tags that name a device."""

import json

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.storage.filesystems import BLKID, LSBLK, UDEV, parse_blkid, parse_lsblk
from hosttune.host.door import Completed
from hosttune.values import ABSENT, Unreadable
from tests.unit.fake_reader import FakeReader

ROWS = [
    {"name": "sda", "path": "/dev/sda", "fstype": None, "label": None, "uuid": None, "partlabel": None, "partuuid": None},
    {
        "name": "sda1", "path": "/dev/sda1", "fstype": "ext4", "label": "data", "uuid": "b7-1f", "partlabel": "scratch",
        "partuuid": "c0-01",
    },
    {
        "name": "vg-data", "path": "/dev/mapper/vg-data", "fstype": "xfs", "label": None, "uuid": "99", "partlabel": None,
        "partuuid": None,
    },
    {"name": "sdb", "path": "/dev/sdb", "fstype": "LVM2_member", "label": None, "uuid": "pv", "partlabel": None, "partuuid": None},
]  # fmt: skip


def filesystems(**options):
    return Facts(FakeReader(**options)).filesystems


def udev(answer, **options):
    return filesystems(files={UDEV: ""}, queries={LSBLK: answer}, **options)


def test_lsblk_gives_devices_with_a_signature():
    found = udev(json.dumps({"blockdevices": ROWS}))
    assert [(one.path, one.fstype, one.is_member) for one in found.all] == [
        ("/dev/mapper/vg-data", "xfs", False), ("/dev/sda1", "ext4", False), ("/dev/sdb", "LVM2_member", True),
    ]  # fmt: skip
    assert found.by_path["/dev/sda1"].tags == (
        "UUID=b7-1f", "LABEL=data", "PARTUUID=c0-01", "PARTLABEL=scratch", "/dev/sda1",
    )  # fmt: skip


def test_tag_of_two_devices_names_neither():
    copy = {**ROWS[1], "name": "sdc1", "path": "/dev/sdc1"}
    found = udev(json.dumps({"blockdevices": [ROWS[1], copy]}))
    assert "UUID=b7-1f" not in found.by_tag
    assert found.by_tag["/dev/sdc1"].uuid == "b7-1f"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("not json", "Expecting value"),
        ('{"devices": []}', "no list of block devices"),
        ("[]", "no list of block devices"),
        (ABSENT, "not installed"),
        (Unreadable("lsblk did not end within 10 s"), "did not end"),
        (Completed(1, b"", b"lsblk: unknown column: PARTUUID"), "unknown column"),
    ],
)
def test_lsblk_without_a_list_is_unknown(answer, reason):
    with pytest.raises(UnknownFact, match=reason):
        udev(answer).all  # noqa: B018 - touching it is the test


def test_blkid_answers_where_no_udev_runs():
    answer = "DEVNAME=/dev/loop0\nLABEL=my\\ data\nUUID=e6-a6\nBLOCK_SIZE=1024\nTYPE=ext4\n\nDEVNAME=/dev/sdb1\nPARTUUID=1-01\n"
    found = filesystems(queries={BLKID: answer})
    assert [(one.name, one.fstype, one.label, one.uuid) for one in found.all] == [
        ("loop0", "ext4", "my data", "e6-a6"), ("sdb1", "", "", ""),
    ]  # fmt: skip


def test_blkid_status_two_means_that_no_device_holds_anything():
    assert filesystems(queries={BLKID: Completed(2, b"", b"")}).all == ()


def test_without_udev_and_root_the_disks_are_unknown():
    with pytest.raises(UnknownFact, match="only root"):
        filesystems(is_privileged=False).all  # noqa: B018 - touching it is the test


def test_root_folder_has_no_disks():
    with pytest.raises(UnknownFact, match="not known"):
        filesystems(persistent_only=True).all  # noqa: B018 - touching it is the test


def test_parsers_take_what_lsblk_and_blkid_print_for_nothing():
    assert parse_lsblk('{"blockdevices": []}') == ()
    assert parse_blkid("") == ()


def block(name, number, *slaves, **more):
    base = f"/sys/block/{name}"
    files = {
        f"{base}/dev": number,
        f"{base}/size": "2048",
        **{f"{base}/{path}": text for path, text in more.items()},
    }
    return files | {f"{base}/slaves/{slave}/dev": "" for slave in slaves}


@pytest.mark.parametrize(
    ("fstype", "kind"),
    [("zfs_member", "ZFS"), ("LVM2_member", "LVM"), ("linux_raid_member", "RAID")],
)
def test_image_of_a_user_is_no_part_of_a_pool(fstype, kind):
    """An import would mount over the system what a user's pool says."""
    rows = [
        {**ROWS[3], "name": name, "path": f"/dev/{name}", "fstype": fstype, "label": name}
        for name in ("loop0", "sdb")
    ]
    files = {UDEV: "", "/proc/self/mountinfo": "", **block("loop0", "7:0"), **block("sdb", "8:16")}
    found = filesystems(files=files, queries={LSBLK: json.dumps({"blockdevices": rows})})

    assert [(one.kind, one.paths) for one in found.idle] == [(kind, ("/dev/sdb",))]


def test_volume_group_of_a_user_does_not_hide_one_that_is_not_active():
    rows = [{**ROWS[3], "name": name, "path": f"/dev/{name}"} for name in ("loop0", "sdb")]
    of_user = block("dm-0", "253:0", "loop0", **{"dm/uuid": "LVM-x\n", "dm/name": "evil-vg\n"})
    files = {
        UDEV: "",
        "/proc/self/mountinfo": "",
        **block("loop0", "7:0"),
        **block("sdb", "8:16"),
        **of_user,
    }
    found = filesystems(files=files, queries={LSBLK: json.dumps({"blockdevices": rows})})

    assert [one.paths for one in found.idle] == [("/dev/sdb",)]


def test_label_with_a_line_break_stays_on_its_line():
    rows = [{**ROWS[1], "label": "a\nsudo sh /tmp/x", "uuid": "b7\n1f"}]
    (found,) = udev(json.dumps({"blockdevices": rows})).all
    assert "\n" not in "".join((found.path, *map(str, found.tags)))
    assert any("a\\x0asudo sh /tmp/x" in str(tag) for tag in found.tags)
