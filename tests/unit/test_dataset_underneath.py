"""The disk under a path, through everything that can lie in between."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hosttune.facts import Facts, make_unread
from hosttune.facts.storage.disks import Disk
from hosttune.measure.underneath import find_underneath, overlay_places
from hosttune.measure.views.dataset import place_text
from tests.unit.fake_reader import FakeReader

ROOT = "20 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw"


def disk(
    name, device, kind="disk", *, parents=(), disks=(), transport="", rotational=False, path=""
):
    return Disk(
        name,
        path or f"/dev/{name}",
        kind,
        1,
        rotational,
        transport,
        "",
        False,
        True,
        parents,
        disks or (name,),
        device,
        False,
    )


DISKS = (
    disk("sda", "8:0", transport="sata", rotational=True),
    disk("sda2", "8:2", "partition", parents=("sda",), disks=("sda",)),
    disk("nvme0n1", "259:0", transport="nvme"),
    disk("nvme1n1", "259:1", transport="nvme", rotational=True),
    disk("nvme0n1p1", "259:2", "partition", parents=("nvme0n1",), disks=("nvme0n1",)),
    disk("md0", "9:0", "md", parents=("nvme0n1p1", "nvme1n1"), disks=("nvme0n1", "nvme1n1")),
    disk("dm-0", "253:0", "dm", parents=("md0",), disks=("nvme0n1", "nvme1n1"), path="/dev/mapper/vg-data"),
    disk("loop0", "7:0", "loop", disks=("loop0",)),
    disk("loop1p1", "7:9", "partition", parents=("loop1",)),
    disk("loop1", "7:1", "loop"),
    disk("loop2", "7:2", "loop"),
    disk("vda", "254:0", transport="virtio", rotational=True),
    disk("ram0", "1:0", "ram"),
    disk("sdz", "65:144", rotational=None, transport="usb"),
)  # fmt: skip


def host(*lines, files=None, links=None, folders=(), is_vm=False, zfs=()):
    reader = FakeReader(
        {"/proc/self/mountinfo": "\n".join((ROOT, *lines)) + "\n", **(files or {})},
        links=links,
        folders=folders,
    )
    facts = Facts(reader)
    facts.__dict__["host"] = SimpleNamespace(is_vm=is_vm)
    facts.__dict__["disks"] = SimpleNamespace(
        all=DISKS,
        by_device={one.device: one for one in DISKS},
        by_name={one.name: one for one in DISKS},
    )
    facts.__dict__["filesystems"] = SimpleNamespace(all=zfs)
    return facts


CASES = {
    "partition": (["30 20 8:2 /x /data rw,noatime - ext4 /dev/sda2 rw"], "disk", (), ["sda rotating"]),
    "dm on md on partitions": (
        ["30 20 253:0 / /data rw,relatime - xfs /dev/mapper/vg-data rw"], "disk", ("vg-data (dm)", "md0 (md)"),
        ["nvme0n1 flash", "nvme1n1 flash"],
    ),
    "usb of unknown medium": (["30 20 65:144 / /data rw - ext4 /dev/sdz rw"], "disk", (), ["sdz "]),
    "btrfs": (["30 20 0:45 /@ /data rw,relatime - btrfs /dev/nvme1n1 rw,subvol=/@"], "disk", (), ["nvme1n1 flash"]),
    "bcachefs": (["30 20 0:46 / /data rw - bcachefs /dev/nvme0n1:/dev/sda rw"], "disk", (), ["nvme0n1 flash", "sda rotating"]),
    "bind mount": (["30 20 259:2 /deep/down /data rw,relatime - ext4 /dev/nvme0n1p1 rw"], "disk", (), ["nvme0n1 flash"]),
    "nfs": (["30 20 0:50 / /data rw - nfs4 nas:/export rw"], "network", (), []),
    "tmpfs": (["30 20 0:51 / /data rw - tmpfs tmpfs rw"], "memory", (), []),
    "ram disk": (["30 20 1:0 / /data rw - ext4 /dev/ram0 rw"], "memory", (), []),
    "fuse": (["30 20 0:52 / /data rw - fuse.mergerfs a:b rw"], "unknown", (), []),
    "zfs without its labels": (["30 20 0:53 / /data rw - zfs tank/data rw"], "unknown", (), []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_underneath_is_the_disk_at_the_bottom(name):
    lines, kind, layers, disks = CASES[name]
    found = find_underneath("/data/set", host(*lines))
    assert (found.target, found.kind, found.layers) == ("/data", kind, layers)
    assert [f"{one.name} {one.medium}" for one in found.disks] == disks
    assert bool(found.note) == (kind == "unknown")
    assert place_text(found)


def test_underneath_in_a_virtual_machine_rotation_is_nobodys_word():
    lines = [
        "30 20 254:0 / /data rw - ext4 /dev/vda rw",
        "31 20 8:0 / /more rw - ext4 /dev/sda rw",
        "32 20 259:1 / /fast rw - ext4 /dev/nvme1n1 rw",
    ]
    facts = host(*lines, is_vm=True)
    assert [
        find_underneath(path, facts).disks[0].medium for path in ("/data", "/more", "/fast")
    ] == ["", "", "flash"]
    assert not find_underneath("/more", facts).is_rotating
    assert find_underneath("/data", host(*lines)).disks[0].medium == ""
    assert find_underneath("/data", facts).transports == ("virtio",)


def test_underneath_zfs_are_the_members_of_its_pool():
    member = SimpleNamespace(path="/dev/nvme0n1p1", fstype="zfs_member", label="tank")
    other = SimpleNamespace(path="/dev/sda", fstype="zfs_member", label="other")
    found = find_underneath(
        "/data", host("30 20 0:53 / /data rw - zfs tank/data rw", zfs=(member, other))
    )
    assert [one.name for one in found.disks] == ["nvme0n1"]


def test_underneath_a_loop_device_is_where_its_file_lies():
    lines = [
        "30 20 7:0 / /data rw,relatime - ext4 /dev/loop0 rw", "31 20 259:2 / /images rw,relatime - xfs /dev/nvme0n1p1 rw",
        "32 20 7:9 / /part rw - ext4 /dev/loop1p1 rw", "33 20 7:2 / /lost rw - ext4 /dev/loop2 rw",
    ]  # fmt: skip
    files = {
        "/sys/block/loop0/loop/backing_file": "/images/a.img\n", "/images/a.img": "", "/images/b.img": "",
        "/sys/block/loop1/loop/backing_file": "/images/b.img\n", "/sys/block/loop2/loop/backing_file": "/x (deleted)\n",
    }  # fmt: skip
    facts = host(*lines, files=files)
    found = find_underneath("/data/set", facts)
    assert (found.fstype, found.target, found.kind) == ("ext4", "/data", "disk")
    assert found.layers == ("loop0 (/images/a.img)", "xfs on /images")
    assert [one.name for one in found.disks] == ["nvme0n1"]
    assert [one.name for one in find_underneath("/part", facts).disks] == ["nvme0n1"]
    assert "loop2" in find_underneath("/lost", facts).note


def test_underneath_a_loop_device_on_itself_ends():
    files = {"/sys/block/loop0/loop/backing_file": "/data/a.img\n", "/data/a.img": ""}
    found = find_underneath("/data", host("30 20 7:0 / /data rw - ext4 /dev/loop0 rw", files=files))
    assert found.kind == "unknown"


def test_underneath_an_overlay_is_where_its_upper_folder_lies():
    lines = [
        "30 20 0:60 / /merged rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/store/up,workdir=/store/work",
        "31 20 259:2 / /store rw,relatime - ext4 /dev/nvme0n1p1 rw",
    ]
    found = find_underneath("/merged/set", host(*lines, folders=("/store/up",)))
    assert (found.kind, found.layers) == ("disk", ("overlay", "ext4 on /store"))
    hidden = find_underneath("/merged/set", host(lines[0]))
    assert (hidden.kind, hidden.note) == (
        "unknown",
        "an overlay whose folders are not visible from here",
    )


def test_overlay_places_are_those_of_all_layers_and_none_where_one_is_hidden():
    lines = [
        "30 20 0:60 / /merged rw,relatime - overlay overlay rw,lowerdir=/l:/ll,upperdir=/store/up,workdir=/store/work",
        "31 20 259:2 / /store rw,relatime - ext4 /dev/nvme0n1p1 rw",
        "32 20 0:61 / /l rw,relatime - tmpfs tmpfs rw",
        "33 20 0:62 / /ll rw,relatime - tmpfs tmpfs rw",
        "34 20 0:63 / /new rw,relatime - overlay overlay rw,lowerdir+=/l,lowerdir+=/ll",
    ]
    facts = host(*lines, folders=("/store/up", "/l", "/ll"))
    assert [(one.target, one.kind) for one in overlay_places("/merged/set", facts)] == [
        ("/store", "disk"), ("/l", "memory"), ("/ll", "memory"),
    ]  # fmt: skip
    assert [one.target for one in overlay_places("/new/set", facts)] == ["/l", "/ll"]
    assert overlay_places("/merged/set", host(*lines, folders=("/store/up", "/l"))) == ()
    assert overlay_places("/store", facts) == ()


def test_underneath_follows_links_and_tells_what_is_unknown():
    facts = host(
        "30 20 259:2 / /fast rw - ext4 /dev/nvme0n1p1 rw",
        links={"/home/set": "/fast/set"},
        folders=("/fast/set",),
    )
    assert find_underneath("/home/set", facts).target == "/fast"
    facts.__dict__["disks"] = SimpleNamespace(all=make_unread("x"))
    blind = Facts(FakeReader())
    blind.__dict__["host"] = SimpleNamespace(is_vm=False)
    found = find_underneath("/data", blind)
    assert (found.kind, bool(found.note)) == ("unknown", True)
