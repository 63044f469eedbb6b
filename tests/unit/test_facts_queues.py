"""Queues of disks: schedulers, read-ahead, what is mounted from them."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.storage.queues import chosen_scheduler
from hosttune.resources.kernel.sysfs import _MATCH
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

PCI = "/sys/devices/pci0000:00/0000:00:1d.0"


def disk(base, device, scheduler="[none] mq-deadline\n", queues=4, rotational="0\n", **files):
    return {
        f"{base}/size": "2048\n", f"{base}/dev": f"{device}\n", f"{base}/ro": "0\n", f"{base}/removable": "0\n",
        f"{base}/queue/rotational": rotational, f"{base}/queue/discard_max_bytes": "0\n",
        f"{base}/queue/scheduler": scheduler, f"{base}/queue/read_ahead_kb": "128\n",
        **{f"{base}/mq/{number}/nr_tags": "1\n" for number in range(queues)},
        **{f"{base}/{path}": value for path, value in files.items()},
    }  # fmt: skip


SDA, NVME, DM = (
    f"{PCI}/ata1/block/sda",
    f"{PCI}/nvme/nvme0/nvme0n1",
    "/sys/devices/virtual/block/dm-0",
)
LINKS = {"/sys/block/sda": SDA, "/sys/block/nvme0n1": NVME, "/sys/block/dm-0": DM}
MOUNTS = "20 1 8:1 / /data rw shared:1 - xfs /dev/sda1 rw\n21 1 253:0 / /sets rw shared:1 - xfs /dev/dm-0 rw\n"


def queues(**changes):
    files = {
        **disk(SDA, "8:0", "none [mq-deadline] bfq\n", 1, "1\n"),
        f"{SDA}/sda1/dev": "8:1\n", f"{SDA}/sda1/partition": "1\n", f"{SDA}/sda1/size": "9\n", f"{SDA}/sda1/ro": "0\n",
        **disk(NVME, "259:0"),
        **disk(DM, "253:0", "none\n", 0),
        f"{DM}/slaves/nvme0n1/dev": "", f"{DM}/dm/name": "sets\n", f"{DM}/dm/uuid": "LVM-x\n",
        "/proc/self/mountinfo": MOUNTS, **changes,
    }  # fmt: skip
    return Facts(FakeReader(files, links=LINKS)).queues


@pytest.mark.parametrize(
    ("content", "word"),
    [("mq-deadline kyber [none]", "none"), ("none", "none"), ("[mq-deadline] none", "mq-deadline")],
)
def test_scheduler_is_the_word_in_brackets_or_the_only_one(content, word):
    assert chosen_scheduler(content) == word


def test_queues_of_disks_and_of_what_is_made_of_them():
    seen = {one.name: one for one in queues().all}
    assert [(name, one.medium, one.scheduler, one.kernel_scheduler) for name, one in seen.items()] == [
        ("dm-0", "ssd", "none", "mq-deadline"), ("nvme0n1", "nvme", "none", "none"),
        ("sda", "hdd", "mq-deadline", "mq-deadline"),
    ]  # fmt: skip
    assert {name: one.targets for name, one in seen.items()} == {
        "dm-0": ("/sets",), "nvme0n1": (), "sda": ("/data",)
    }  # fmt: skip
    assert [one.name for one in queues().attached] == ["nvme0n1", "sda"]


def test_kernel_whose_deadline_is_a_module_gives_no_disk_a_scheduler_and_takes_its_name_all_the_same():
    modules = "/lib/modules/6.12.118+deb13-amd64/kernel/block"
    release = {
        "/proc/sys/kernel/osrelease": "6.12.118+deb13-amd64\n",
        f"{SDA}/queue/scheduler": "[none] \n",
    }
    files = {
        **release,
        f"{modules}/mq-deadline.ko.xz": "",
        f"{modules}/kyber-iosched.ko.xz": "",
        f"{modules}/t10.ko": "",
    }
    facts = Facts(
        FakeReader({**disk(SDA, "8:0", queues=1, rotational="1\n"), **files}, links=LINKS)
    )
    assert facts.queues.all[-1].kernel_scheduler == "none"
    assert facts.sysfs.choices["/sys/block/sda/queue/scheduler"] == ("none", "kyber", "mq-deadline")
    facts = Facts(FakeReader({**disk(SDA, "8:0", queues=1), **release}, links=LINKS))
    assert facts.queues.all[-1].kernel_scheduler == "mq-deadline"
    assert facts.sysfs.choices["/sys/block/sda/queue/scheduler"] == ("none",)


def test_queues_of_multipath_members_are_not_attached():
    assert [one.name for one in queues(**{f"{DM}/dm/uuid": "mpath-3600\n"}).attached] == ["sda"]


def test_queue_whose_scheduler_cannot_be_read_is_unknown_in_that_field_alone():
    sda = queues(**{f"{SDA}/queue/scheduler": Unreadable("no")}).all[-1]
    assert sda.read_ahead_kib == 128
    with pytest.raises(UnknownFact):
        _ = sda.scheduler


PORT = 'DEVPATH=="/devices/pci0000:00/0000:00:1d.0/ata1/block/*"'


@pytest.mark.parametrize(
    ("files", "name", "match"),
    [
        (
            {f"{SDA}/device/wwid": "naa.5000c500a1b2c3d4\n"},
            "sda",
            'ATTR{device/wwid}=="naa.5000c500a1b2c3d4"',
        ),
        (
            {f"{SDA}/device/wwid": "t10.ATA     WDC  WD-1 \n"},
            "sda",
            'ATTR{device/wwid}=="t10.ATA     WDC  WD-1"',
        ),
        ({f"{SDA}/device/wwid": 'a", RUN+="/bin/x\n'}, "sda", PORT),
        ({f"{SDA}/device/wwid": "naa.5*\n"}, "sda", PORT),
        ({}, "sda", PORT),
        ({}, "dm-0", 'ATTR{dm/uuid}=="LVM-x"'),
        ({f"{NVME}/wwid": "eui.0025\n"}, "nvme0n1", 'ATTR{wwid}=="eui.0025"'),
        ({f"{SDA}/serial": "vol0a1b2c3d4\n"}, "sda", 'ATTR{serial}=="vol0a1b2c3d4"'),
        ({f"{SDA}/serial": "\n"}, "sda", PORT),
        ({f"{NVME}/wwid": "eui.0025\n"}, "sda", PORT),  # the one disk that says nothing of itself
        ({f"{SDA}/wwid": "eui.0025\n", f"{NVME}/wwid": "eui.0025\n"}, "sda", PORT),
    ],
)
def test_udev_knows_a_disk_by_what_stays_and_never_by_a_pattern(files, name, match):
    assert {one.name: one.match for one in queues(**files).all}[name] == match


MD_UUID = "a1b2c3d4:00112233:44556677:8899aabb"
ARRAY = (
    f'PROGRAM=="/sbin/mdadm --detail --no-devices --export $devnode", RESULT=="*MD_UUID={MD_UUID}*"'
)


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({"/sys/block/md0/md/uuid": "a1b2c3d4-0011-2233-4455-66778899aabb\n"}, 'ATTR{md/uuid}=="a1b2c3d4-0011-2233-4455-66778899aabb"'),
        ({"/run/udev/data/b9:0": f"S:md0\nE:MD_LEVEL=raid5\nE:MD_UUID={MD_UUID}\nG:systemd\n"}, ARRAY),
        ({"/run/udev/data/b9:0": 'E:MD_UUID=", RUN+="/bin/x\n'}, 'KERNEL=="md0"'),
        ({}, 'KERNEL=="md0"'),
    ],
)  # fmt: skip
def test_array_is_known_by_its_uuid_because_its_name_may_change(files, match):
    array = disk("/sys/block/md0", "9:0") | {"/sys/block/md0/md/level": "raid5\n"}
    assert Facts(FakeReader(array | files)).queues.all[0].match == match
    assert "".join(found[0] for found in _MATCH.finditer(match)) == match  # a udev rule can hold it


def test_queues_without_block_devices_are_unknown():
    with pytest.raises(UnknownFact):
        _ = Facts(FakeReader({})).queues.all


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block/sda", "pci0000:00/0000:00:17.0/ata3/host*/target*:0:0/*:0:0:0/block/*"),
        ("pci0000:00/0000:00:05.0/virtio2/block/sda", "pci0000:00/0000:00:05.0/virtio*/block/*"),
        ("virtual/block/sda", ""),
        ('pci0000:00/a",RUN+="x/sda', ""),
    ],
)  # fmt: skip
def test_disk_without_an_identity_is_known_by_its_port(path, match):
    place = f"/sys/devices/{path}"
    reader = FakeReader(disk(place, "8:0"), links={"/sys/block/sda": place})
    found = Facts(reader).queues.all[0].match
    assert found == (f'DEVPATH=="/devices/{match}"' if match else 'KERNEL=="sda"')


def test_kernel_reads_twice_the_optimal_size_ahead():
    assert queues().all[-1].kernel_read_ahead_kib == 128
    assert (
        queues(**{f"{SDA}/queue/optimal_io_size": "2621440\n"}).all[-1].kernel_read_ahead_kib
        == 5120
    )
