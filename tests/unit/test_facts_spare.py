"""Disks that nothing uses: what is blank, what holds a file system, and what is somebody's."""

import json

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.storage.filesystems import LSBLK, UDEV
from hosttune.facts.storage.spare import make_comparison, make_wipefs
from hosttune.host.door import Completed, Process
from hosttune.values import ABSENT, Unreadable
from tests.unit.fake_reader import FakeReader

PCI = "/sys/devices/pci0000:00/0000:00:1d.0/nvme/nvme1"
DISK = f"{PCI}/nvme1n1"
NOTHING = Completed(0, b'{"signatures": []}', b"")
ROOT = "20 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw\n"


def rows(*found):
    columns = ("path", "fstype", "label", "uuid", "partlabel", "partuuid")
    return json.dumps(
        {"blockdevices": [dict(zip(columns, (*row, *[None] * 6), strict=False)) for row in found]}
    )


def spare(
    *found,
    files=(),
    queries=(),
    links=(),
    signatures=NOTHING,
    zeros=0,
    device="/dev/nvme1n1",
    **options,
):
    tree = {
        UDEV: "", "/proc/meminfo": "MemTotal: 1 kB\n", "/proc/swaps": "head\n", "/etc/fstab": "",
        "/proc/self/mountinfo": ROOT, f"{DISK}/size": "2048\n", f"{DISK}/dev": "259:0\n", f"{DISK}/ro": "0\n",
        f"{DISK}/removable": "0\n", f"{DISK}/queue/rotational": "0\n", f"{DISK}/queue/discard_max_bytes": "0\n",
        f"{DISK}/device/model": "SAMSUNG MZWLO3T8HCLS\n", f"{DISK}/device/transport": "pcie\n", **dict(files),
    }  # fmt: skip
    asked = {
        LSBLK: rows(*found),
        make_wipefs(device): signatures,
        make_comparison(device): zeros
        if isinstance(zeros, Unreadable)
        else Completed(zeros, b"", b""),
    }
    reader = FakeReader(
        {path: text for path, text in tree.items() if text is not None},
        links={"/sys/block/nvme1n1": "../devices/pci0000:00/0000:00:1d.0/nvme/nvme1/nvme1n1", **dict(links)},
        queries={**asked, **dict(queries)}, **options,
    )  # fmt: skip
    return Facts(reader).spare


def partition(number, **values):
    base = f"{DISK}/nvme1n1p{number}"
    return {f"{base}/partition": f"{number}\n", f"{base}/size": "1024\n", f"{base}/dev": f"259:{number}\n",
            f"{base}/ro": "0\n", **{f"{base}/{name}": value for name, value in values.items()}}  # fmt: skip


def test_blank_disk():
    (disk,) = spare().all
    assert (disk.path, disk.is_blank, disk.fstype, disk.is_ephemeral) == (
        "/dev/nvme1n1",
        True,
        "",
        False,
    )


@pytest.mark.parametrize("fstype", ["xfs", "ext4", "btrfs"])
def test_plain_file_system_is_named_and_never_blank(fstype):
    (disk,) = spare(("/dev/nvme1n1", fstype, "scratch", "11-22")).all
    assert (disk.is_blank, disk.fstype, disk.tags) == (
        False,
        fstype,
        ("UUID=11-22", "LABEL=scratch", "/dev/nvme1n1"),
    )


def test_plain_file_system_on_the_only_partition():
    (disk,) = spare(("/dev/nvme1n1p1", "xfs", None, "11-22"), files=partition(1)).all
    assert (disk.is_blank, disk.fstype, disk.tags[-1]) == (False, "xfs", "/dev/nvme1n1p1")


@pytest.mark.parametrize(
    "fstype",
    [
        "crypto_LUKS", "zfs_member", "linux_raid_member", "ceph_bluestore", "LVM2_member", "BitLocker", "ntfs", "swap",
        "bcache", "isw_raid_member", "apfs", "something_new",
    ],
)  # fmt: skip
def test_what_is_a_part_of_something_is_neither(fstype):
    (disk,) = spare(("/dev/nvme1n1", fstype, None, "11-22")).all
    assert (disk.is_blank, disk.fstype, disk.tags) == (False, "", ())


def test_partition_table_is_neither():
    (disk,) = spare(files=partition(1)).all
    assert (disk.is_blank, disk.fstype) == (False, "")


def test_disk_of_another_system_is_left_alone():
    held = (("/dev/nvme1n1p1", "vfat", None, "A"), ("/dev/nvme1n1p2", "ext4", None, "B"))
    (disk,) = spare(*held, files={**partition(1), **partition(2)}).all
    assert (disk.is_blank, disk.fstype) == (False, "")


def test_two_of_one_uuid_are_a_pool_or_a_copy():
    (disk,) = spare(
        ("/dev/nvme1n1", "btrfs", None, "11-22"), ("/dev/sdx", "btrfs", None, "11-22")
    ).all
    assert (disk.is_blank, disk.fstype) == (False, "")


def test_signature_that_udev_does_not_name_is_not_blank():
    found = Completed(0, b'{"signatures": [{"offset": "0x1fe", "type": "dos"}]}', b"")
    assert not spare(signatures=found).all[0].is_blank


def test_data_without_a_signature_is_not_blank():
    assert not spare(zeros=1).all[0].is_blank


def test_empty_answer_of_older_wipefs_is_no_signature():
    assert spare(signatures=Completed(0, b"", b"")).all[0].is_blank


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"is_privileged": False}, "only root can see whether /dev/nvme1n1 is blank"),
        ({"signatures": ABSENT}, "wipefs is not installed"),
        (
            {"signatures": Completed(1, b"", b"probing initialization failed: Input/output error")},
            "Input/output error",
        ),
        ({"signatures": Completed(0, b"[]", b"")}, "printed no list"),
        ({"signatures": Completed(0, b"x", b"")}, "printed no list"),
        ({"signatures": Unreadable("timed out")}, "timed out"),
        ({"zeros": 2}, "cmp ended with status 2"),
        ({"zeros": Unreadable("timed out")}, "timed out"),
    ],
)
def test_what_could_not_be_looked_at_is_unknown_not_blank(options, reason):
    (disk,) = spare(**options).all
    with pytest.raises(UnknownFact, match=reason):
        _ = disk.is_blank


def test_signatures_that_udev_cannot_tell_leave_all_unknown():
    with pytest.raises(UnknownFact, match="only root can look into the disks"):
        _ = spare(files={UDEV: None}, is_privileged=False).all


@pytest.mark.parametrize(
    "files",
    [
        {"/proc/self/mountinfo": ROOT + "30 20 259:0 / /data rw - xfs /dev/nvme1n1 rw\n"},
        {"/proc/swaps": "head\n/dev/nvme1n1 partition 1024 0 -2\n"},
        {f"{DISK}/holders/bcache0": ""},
        {**partition(1), "/proc/swaps": "head\n/dev/nvme1n1p1 partition 1024 0 -2\n"},
        {**partition(1), f"{DISK}/nvme1n1p1/holders/dm-3": ""},
        {"/etc/fstab": "/dev/nvme1n1 /data xfs noauto 0 0\n"},
        {"/sys/fs/xfs/nvme1n1/stats/stats": ""},
        {f"{DISK}/device/transport": "tcp\n"},
    ],
    ids=["mounted", "swap", "held", "swap on a partition", "a partition is held", "in fstab", "mounted elsewhere", "remote"],
)  # fmt: skip
def test_what_is_used_or_not_of_this_machine_is_not_there(files):
    assert spare(files=files).all == ()


def test_fstab_that_names_it_by_label():
    assert (
        spare(
            ("/dev/nvme1n1", "xfs", "data", "1"),
            files={"/etc/fstab": 'LABEL="data" /data xfs noauto 0 0\n'},
        ).all
        == ()
    )


def test_member_of_an_array_of_the_kernel_is_not_there():
    md = "/sys/devices/virtual/block/md0"
    files = {f"{md}/slaves/nvme1n1/dev": "", f"{md}/size": "2048\n", f"{md}/dev": "9:0\n"}
    assert spare(files=files, links={"/sys/block/md0": "../devices/virtual/block/md0"}).all == ()


def test_how_it_is_attached_is_not_told():
    with pytest.raises(UnknownFact, match="does not say how it is attached"):
        _ = spare(files={f"{DISK}/device/transport": None}).all


def test_head_of_several_paths_asks_its_controllers():
    files = {
        f"{DISK}/device/transport": None, f"{DISK}/device/nvme1/transport": "pcie\n",
        f"{DISK}/device/nvme2/transport": "rdma\n",
    }  # fmt: skip
    assert spare(files=files).all == ()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("Amazon EC2 NVMe Instance Storage", True), ("Microsoft NVMe Direct Disk", True),
        ("Microsoft NVMe Direct Disk v2", True), ("nvme_card", True), ("nvme_card3", True), ("nvme_card-pd", False),
        ("Amazon Elastic Block Store", False), ("MSFT NVMe Accelerator v1.0", False), ("SAMSUNG MZWLO3T8HCLS", False),
    ],
)  # fmt: skip
def test_disks_that_come_back_empty(model, expected):
    assert spare(files={f"{DISK}/device/model": f"{model}   \n"}).all[0].is_ephemeral is expected


BY_ID = "/dev/disk/by-id/nvme-SAMSUNG_1"


@pytest.mark.parametrize(
    "files",
    [
        {"/etc/fstab": f"{BY_ID} /data xfs noauto 0 0\n"},
        {"/etc/fstab": "ID=nvme-SAMSUNG_1 /data xfs noauto 0 0\n"},
        {"/etc/fstab": "/dev/sdb1 /data xfs noauto,logdev=/dev/nvme1n1 0 0\n"},
        {"/etc/fstab": f"{BY_ID} /data\n"},
        {"/etc/systemd/system/data.mount": f"[Mount]\nWhat={BY_ID}\nWhere=/data\n"},
        {"/usr/lib/systemd/system/data.mount": "[Mount]\nWhat = /dev/nvme1n1\nWhere=/data\n"},
        {
            "/usr/lib/systemd/system/data.mount": "[Mount]\nWhere=/data\n",
            "/etc/systemd/system/data.mount.d/a.conf": f"[Mount]\nWhat={BY_ID}\n",
        },
        {"/etc/systemd/system/x.swap": f"[Swap]\nWhat={BY_ID}\n"},
        {"/etc/auto.master": "/misc /srv/maps/misc\n", "/srv/maps/misc": "data -fstype=xfs :/dev/nvme1n1\n"},
        {"/etc/auto.direct": f"/data -fstype=xfs :{BY_ID}\n", "/etc/auto.master.d/a.autofs": "/- /etc/auto.direct\n"},
        {"/etc/crypttab": f"data {BY_ID} none noauto\n"},
        {"/etc/libvirt/qemu/vm.xml": "<disk type='block'><source dev='/dev/nvme1n1'/></disk>\n"},
        {"/etc/libvirt/storage/p.xml": f'<source><device path="{BY_ID}"/></source>\n'},
        {"/sys/kernel/config/nvmet/subsystems/nqn/namespaces/1/device_path": f"{BY_ID}\n"},
        {"/sys/kernel/config/target/core/iblock_0/data/udev_path": "/dev/nvme1n1\n"},
        {"/proc/self/mountinfo": ROOT + "30 20 8:17 / /data rw - xfs /dev/sdb1 rw,logdev=/dev/nvme1n1\n"},
    ],
)  # fmt: skip
def test_disk_that_a_file_or_the_kernel_names_is_not_there(files):
    links = {BY_ID: "../../nvme1n1"}
    assert spare(files={**files, "/dev/nvme1n1": ""}, links=links).all == ()


def test_partition_that_is_named_by_a_link_claims_its_disk():
    files = {
        **partition(1),
        "/etc/fstab": f"{BY_ID}-part1 /data xfs noauto 0 0\n",
        "/dev/nvme1n1p1": "",
    }
    found = ("/dev/nvme1n1p1", "xfs", None, "11-22")
    assert spare(found, files=files, links={f"{BY_ID}-part1": "../../nvme1n1p1"}).all == ()


def test_uuid_is_the_same_in_large_letters():
    files = {"/etc/fstab": "UUID=AB-CD /data xfs noauto 0 0\n"}
    assert spare(("/dev/nvme1n1", "xfs", None, "ab-cd"), files=files).all == ()


def test_disk_that_a_process_has_open_is_not_there():
    qemu = Process(
        7, "qemu-system-x86", "libvirt-qemu", (), 0, 0, ("/dev/kvm", "/dev/nvme1n1"), "", 0.0
    )
    assert spare(processes=(qemu,)).all == ()


@pytest.mark.parametrize("kind", ["id", "uuid", "path", "partuuid"])
def test_link_that_leads_nowhere_may_mean_any_disk(kind):
    files = {"/etc/fstab": f"/dev/disk/by-{kind}/x /data xfs nofail 0 0\n"}
    with pytest.raises(
        UnknownFact, match=f"/etc/fstab names /dev/disk/by-{kind}/x, which leads to no device now"
    ):
        _ = spare(files=files).all


@pytest.mark.parametrize(
    "options",
    [
        {"files": {"/etc/crypttab": Unreadable("needs root")}},
        {"unreadable": {"/etc/libvirt/qemu": "needs root"}},
        {"files": {"/etc/systemd/system/data.mount": Unreadable("needs root")}},
        {"processes": Unreadable("needs root")},
    ],
)
def test_place_that_could_not_be_read_may_name_any_disk(options):
    with pytest.raises(UnknownFact, match="needs root"):
        _ = spare(**options).all


def test_map_of_a_site_whose_reading_would_mount_something_is_not_read():
    """A user's server could be behind /net, and root would mount it."""
    table = "20 1 0:50 / /net rw - autofs -hosts rw,fd=6,indirect\n"
    files = {
        "/proc/self/mountinfo": table,
        "/etc/auto.master.d/site.autofs": "/data file:/net/evil/../evil/auto.data\n",
    }
    reader_asked = spare(files=files)
    with pytest.raises(UnknownFact, match="to read it would mount something"):
        _ = reader_asked.all


def test_comments_name_nothing_and_other_disks_claim_nothing():
    files = {
        "/etc/fstab": f"# {BY_ID} /data xfs\n/dev/sdb1 /mnt ext4 noauto 0 0\nUUID=1 / ext4 defaults 0 1\n",
        "/etc/auto.master": "+auto.master\n/net -hosts\n",
    }
    links = {"/etc/systemd/system/off.mount": "/dev/null"}
    assert [disk.name for disk in spare(files=files, links=links).all] == ["nvme1n1"]


@pytest.mark.parametrize(
    "place",
    ["/sys/fs/xfs/nvme1n1", "/sys/fs/btrfs/0a11b22c-0000-4000-8000-000000000001/devices/nvme1n1"],
)
def test_disk_that_only_another_mount_namespace_has_mounted_is_used(place):
    """The kernel has a folder of a file system for as long as it is mounted anywhere."""
    assert spare(("/dev/nvme1n1", "btrfs", None, "11-22"), files={f"{place}/x": ""}).all == ()
