"""What the first field of a line leads to on a host: by tags, paths and links, through layers, and
what is left alone.
"""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hosttune.facts import Facts
from hosttune.facts.storage import sources
from hosttune.facts.storage.sources import SourceKind, Sources, find_fault
from hosttune.resources.storage.fstab_boot import look_at_boot_lines
from tests.unit.fake_reader import FakeReader

UUID = "b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f"
OTHER = "c81f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f"
ROOT = "22 1 8:2 / / rw shared:1 - ext4 /dev/sda2 rw\n"
HELD = (
    ("sda2", "/dev/sda2", "ext4", "", "0a11-22", "", "p-2"),
    ("sdb", "/dev/sdb", "ext4", "my data", UUID, "", ""),
)
LINKS = {"/dev/disk/by-id/wwn-0x5": "/dev/sdb", "/dev/vg/data": "/dev/dm-0"}


def host(
    line, *mounts, held=HELD, devices=(), links=LINKS, is_container=False, removable="0\n", more=()
):
    """A host with sda, its partition, sdb, and `devices`: (name, number, slaves)."""
    content = {
        "/etc/fstab": f"{line}\n",
        "/proc/self/mountinfo": ROOT + "".join(mounts),
        "/run/udev/control": "",
        "/dev/sdb": "",
        "/dev/dm-0": "",
    }
    content["/proc/swaps"] = "Filename Type Size Used Priority\n"
    for name, number, slaves in (("sda", "8:0", ()), ("sdb", "8:16", ()), *devices):
        folder = f"/sys/block/{name}"
        content |= {
            f"{folder}/size": "9000000\n",
            f"{folder}/dev": f"{number}\n",
            f"{folder}/removable": removable,
        }
        content |= {f"{folder}/slaves/{one}/dev": "" for one in slaves}
        if name.startswith("dm-"):
            content[f"{folder}/dm/name"] = f"of-{name}\n"
    content |= {"/sys/block/sda/sda2/size": "9000000\n", "/sys/block/sda/sda2/dev": "8:2\n"}
    content |= dict(more)
    columns = ("name", "path", "fstype", "label", "uuid", "partlabel", "partuuid")
    answer = json.dumps({"blockdevices": [dict(zip(columns, row, strict=True)) for row in held]})
    lsblk = (
        "lsblk",
        "--json",
        "--list",
        "--output",
        "NAME,PATH,FSTYPE,LABEL,UUID,PARTLABEL,PARTUUID",
    )
    reader = FakeReader(content, links=links, queries={lsblk: answer})
    facts = Facts(reader)
    facts.__dict__["host"] = SimpleNamespace(is_container=is_container, is_vm=False)
    return facts


def fault(line, *mounts, **kwargs):
    facts = host(line, *mounts, **kwargs)
    entry = facts.fstab.entries[0]
    return find_fault(
        Sources(facts), entry, [one for one in facts.mounts.all if one.target == entry.target]
    )


DATA = "31 22 8:16 / /data rw shared:9 - ext4 /dev/sdb rw\n"


@pytest.mark.parametrize(
    "source",
    [
        f"UUID={UUID}", f'UUID="{UUID}"', "LABEL=my\\040data", "/dev/sdb",
        f"/dev/disk/by-uuid/{UUID}", "/dev/disk/by-label/my\\134x20data", "/dev/disk/by-id/wwn-0x5", "ID=wwn-0x5",
    ],
)  # fmt: skip
def test_every_name_of_the_mounted_disk_leads_to_it(source):
    assert fault(f"{source} /data ext4 defaults 0 2", DATA) is None


@pytest.mark.parametrize(
    ("line", "kind", "text"),
    [
        (f"UUID={OTHER} /data ext4 defaults", SourceKind.MISSING, f"names UUID={OTHER}, which no device has, while /dev/sdb"),
        ("LABEL=mydata /data ext4 defaults", SourceKind.MISSING, "LABEL=mydata, which no device has"),
        ("/dev/sdc1 /data ext4 defaults", SourceKind.MISSING, "/dev/sdc1, which no device has"),
        ("/dev/md127 /data ext4 defaults", SourceKind.MISSING, "/dev/md127, which no device has"),
        ("/dev/nosuch/data /data ext4 defaults", SourceKind.MISSING, "/dev/nosuch/data, which no device has"),
        ("/dev/sda2 /data ext4 defaults", SourceKind.OTHER, f"while /dev/sdb (UUID={UUID}, ext4) is mounted there"),
        ("/dev/sda /data ext4 defaults", SourceKind.TYPE, "names /dev/sda, a whole disk with partitions, while /dev/sdb"),
        (f"UUID={UUID} /data xfs defaults", SourceKind.TYPE, "says xfs, and /dev/sdb"),
        (f"UUID={UUID} /data ext2 defaults", SourceKind.TYPE, "holds ext4"),
    ],
)  # fmt: skip
def test_line_that_does_not_lead_to_what_is_mounted(line, kind, text):
    found = fault(f"{line} 0 2", DATA)
    assert found is not None
    assert found.kind is kind
    assert text in found.sentence


@pytest.mark.parametrize(
    "line",
    [
        "nfs01:/x /data nfs4 _netdev", "//nas/x /data cifs defaults", "tmpfs /data tmpfs size=1G", "/srv/x /data none bind",
        "tank/x /data zfs defaults", "/dev/nbd0 /data ext4 defaults", "/dev/rbd0 /data ext4 defaults",
        "/dev/disk/cloud/azure_resource-part1 /data auto defaults", "/dev/fuse /data fuse defaults",
        f"UUID={UUID} /data auto defaults", f"UUID={UUID} /data ext4,xfs defaults", f"UUID={UUID} /data newfs defaults",
        "/dev/sr0 /data udf,iso9660 defaults", "label-of-nothing /data ext4 defaults",
    ],
)  # fmt: skip
def test_what_is_no_device_or_cannot_be_told_is_left_alone(line):
    assert fault(f"{line} 0 0", DATA) is None


def test_btrfs_on_several_disks_of_one_uuid():
    held = (
        HELD[0],
        ("sdb", "/dev/sdb", "btrfs", "", UUID, "", ""),
        ("sdc", "/dev/sdc", "btrfs", "", UUID, "", ""),
    )
    mount = "31 22 0:44 /@data /data rw shared:9 - btrfs /dev/sdc rw,subvol=/@data\n"
    args = {"held": held, "devices": [("sdc", "8:32", ())]}
    for source in (f"UUID={UUID}", "/dev/sdb", "/dev/sdc"):
        assert fault(f"{source} /data btrfs subvol=@data 0 0", mount, **args) is None
    assert fault("/dev/sda2 /data btrfs subvol=@data 0 0", mount, **args).kind is SourceKind.TYPE


def test_multipath_and_raid_are_the_device_above():
    held = (HELD[0], ("sdb", "/dev/sdb", "mpath_member", "", "", "", ""),
            ("of-dm-0", "/dev/mapper/of-dm-0", "ext4", "my data", UUID, "", ""))  # fmt: skip
    mount = "31 22 253:0 / /data rw shared:9 - ext4 /dev/mapper/of-dm-0 rw\n"
    args = {"held": held, "devices": [("dm-0", "253:0", ("sdb",))]}
    for source in (f"UUID={UUID}", "/dev/mapper/of-dm-0", "/dev/vg/data", "/dev/dm-0"):
        assert fault(f"{source} /data ext4 defaults 0 0", mount, **args) is None


def test_what_is_missing_may_lie_in_a_volume_group_that_is_not_active():
    held = (HELD[0], ("sdb", "/dev/sdb", "LVM2_member", "", "pv", "", ""))
    found = fault(f"UUID={UUID} /data ext4 defaults 0 2", held=held)
    assert found.kind is SourceKind.HIDDEN
    assert "vgchange -ay" in found.way_out
    stick = fault(f"UUID={UUID} /data ext4 defaults 0 2", held=held, removable="1\n")
    assert stick.kind is SourceKind.MISSING  # a user can bring it
    found = fault("UUID=pv /data ext4 defaults 0 2", held=held)
    assert "cannot be mounted itself" in found.sentence


def test_line_that_fits_the_one_unused_file_system_names_it():
    found = fault(f"UUID={OTHER} /scratch ext4 defaults 0 2")
    assert (
        found.way_out
        == f"write UUID={UUID}, if /dev/sdb (UUID={UUID}, ext4) is meant, which nothing uses"
    )
    assert "find the disk" in fault(f"UUID={OTHER} /scratch xfs defaults 0 2").way_out


def test_disk_without_a_file_system_is_told_once_nothing_is_mounted():
    found = fault("/dev/sdb /scratch ext4 defaults 0 2", held=HELD[:1])
    assert found.sentence == "names /dev/sdb, which holds no file system"
    assert fault("/dev/sdb /data ext4 defaults 0 2", DATA, held=HELD[:1]) is None


def test_node_of_another_name_than_the_kernels_is_not_told_from_the_mounted_device():
    """As mknod(1) makes one, for a program that wants the disk to be called so."""
    held = (HELD[0], ("vdb", "/dev/vdb", "ext4", "", UUID, "", ""))
    assert fault("/dev/vdb /data ext4 defaults 0 2", DATA, held=held) is None
    assert fault(f"UUID={UUID} /data ext4 defaults 0 2", DATA, held=held) is None


@pytest.mark.parametrize("blind", [{"is_container": True}, {"held": ()}])
def test_where_the_disks_cannot_be_seen_nothing_is_missing(blind):
    assert fault(f"UUID={OTHER} /data ext4 defaults 0 2", DATA, **blind) is None


def test_disk_that_is_not_mounted_is_missed_also_where_no_signature_can_be_read():
    """As findmnt --verify does: blkid reads nothing on some virtual machines."""
    assert fault(f"UUID={OTHER} /data ext4 defaults 0 2", held=()).kind is SourceKind.MISSING
    assert fault("/dev/sdz1 /data ext4 defaults 0 2", held=()).kind is SourceKind.MISSING


@pytest.mark.parametrize("source", [f"UUID={UUID.upper()}", f"/dev/disk/by-uuid/{UUID.upper()}"])
@pytest.mark.parametrize("mounts", [(DATA,), ()])
def test_capitals_in_a_uuid_are_another_name(source, mounts):
    found = fault(f"{source} /data ext4 defaults,nofail 0 2", *mounts)
    text = f"names {source}, which no device has; /dev/sdb (UUID={UUID}, ext4) differs only in capitals"
    assert (found.kind, found.sentence) == (SourceKind.MISSING, text)
    assert found.way_out == f"write UUID={UUID}, if that is meant"


def test_without_the_devices_nothing_is_said():
    facts = Facts(
        FakeReader(
            {"/etc/fstab": f"UUID={OTHER} /data ext4 defaults 0 2\n", "/proc/self/mountinfo": ROOT}
        )
    )
    assert find_fault(Sources(facts), facts.fstab.entries[0], ()) is None


def test_unused_file_systems_are_not_gone_through_for_each_line(monkeypatch):
    """A record may have thousands of both."""
    tried = []
    monkeypatch.setattr(sources, "_fits", lambda *_: tried.append(1) or True)
    held = [
        (f"sdb{number}", f"/dev/sdb{number}", f"t{number}", "", f"u-{number}", "", "")
        for number in range(300)
    ]
    lines = "\n".join(f"UUID=x-{number} /d{number} t{number} defaults" for number in range(300))
    facts = host(lines, held=held)
    asked = Sources(facts)
    found = [asked.find_unused(entry) for entry in facts.fstab.entries]
    assert found == [(f"sdb{number}",) for number in range(300)]
    assert len(tried) < 600


def test_ext4_line_means_an_unused_file_system_that_its_driver_reads():
    held = [
        ("sdb1", "/dev/sdb1", "ext3", "", "u-1", "", ""),
        ("sdb2", "/dev/sdb2", "xfs", "", "u-2", "", ""),
    ]
    facts = host(
        "UUID=x /d ext4 defaults\nUUID=y /e auto defaults\nUUID=z /f zfs defaults", held=held
    )
    asked = Sources(facts)
    assert [asked.find_unused(entry) for entry in facts.fstab.entries] == [
        ("sdb1",),
        ("sdb1", "sdb2"),
        (),
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("/dev/sdb /file ext4 nofail 0 2", "mounts on /file, which is a file and no folder"),
        ("/srv/gone.img /data ext4 loop 0 2", "names /srv/gone.img, which is not there"),
        ("/srv /data ext4 defaults 0 2", "names /srv, which is a folder"),
        ("/srv/there.img /data ext4 loop 0 2", ""),
        ("/srv/there.img /file none bind 0 0", ""),
        ("/srv/gone /data none bind 0 0", ""),
        ("/late/x.img /data ext4 loop 0 2\n/dev/sdb /late ext4 nofail 0 2", ""),
        ("/srv/gone /data fuse.mergerfs defaults 0 0", ""),
    ],
)
def test_folder_and_source_are_what_a_mount_takes(line, text):
    facts = host(line)
    facts.reader.files |= {"/file": "", "/srv/there.img": "x"}
    found = find_fault(Sources(facts), facts.fstab.entries[0], ())
    assert (found.sentence if found else "") == text


def test_array_that_came_up_under_another_number_is_named_by_its_uuid():
    held = (HELD[0], ("md127", "/dev/md127", "ext4", "", UUID, "", ""))
    found = fault(
        "/dev/md0 /data ext4 defaults 0 2", held=held, devices=[("md127", "9:127", ("sdb",))]
    )
    assert found.way_out.startswith(f"write UUID={UUID}, if /dev/md127")


def test_swap_line_of_a_file_system_is_not_to_become_one():
    found = fault(f"UUID={UUID} none swap sw 0 0")
    assert found.way_out == "name the device of the swap, or take the line out"


def test_what_is_made_of_a_device_is_not_searched_for_among_all_for_each_line(monkeypatch):
    """A record may have thousands of both."""
    tried = []
    real = sources._list_parents
    monkeypatch.setattr(sources, "_list_parents", lambda disk: tried.append(1) or real(disk))
    devices = [(f"dm-{number}", f"253:{number}", ("sdb",)) for number in range(100)]
    asked = Sources(host("", devices=devices))
    assert [asked.made_of(f"dm-{number}") for number in range(100)] == [()] * 100
    assert len(asked.made_of("sdb")) == 100
    assert len(tried) < 300


COPY = ("sdc", "/dev/sdc", "ext4", "my data", UUID, "", "")
WWIDS = {"/sys/block/sdb/device/wwid": "naa.1\n", "/sys/block/sdc/device/wwid": "naa.2\n"}


def notes(line, **kwargs):
    return [one.note for one in look_at_boot_lines(host(line, DATA, **kwargs)) if one.note]


@pytest.mark.parametrize(
    "source", [f"UUID={UUID}", "LABEL=my\\040data", f"/dev/disk/by-uuid/{UUID}"]
)
def test_name_that_a_copied_disk_has_too_is_noted(source):
    found = notes(
        f"{source} /data ext4 defaults 0 2",
        held=(*HELD, COPY),
        devices=[("sdc", "8:32", ())],
        more=WWIDS,
    )

    assert len(found) == 1
    assert "2 devices have" in found[0]
    assert "/dev/sdc" in found[0]


def test_copied_disk_takes_nothing_from_a_node_even_where_nothing_is_mounted():
    facts = host(
        f"UUID={UUID} /data ext4 nofail 0 2",
        held=(*HELD, COPY),
        devices=[("sdc", "8:32", ())],
        more=WWIDS,
    )

    assert [(bool(one.note), one.is_absent) for one in look_at_boot_lines(facts)] == [(True, False)]


def test_copied_partition_that_starts_the_host_is_left_alone():
    """It is put on a second disk on purpose."""
    args = {"held": (*HELD, COPY), "devices": [("sdc", "8:32", ())], "more": WWIDS}
    assert not notes(f"UUID={UUID} /boot/efi ext4 defaults 0 1", **args)


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("/dev/sdb", {}),  # the kernel's name is of one device
        (
            f"UUID={UUID}",
            {"more": dict.fromkeys(WWIDS, "naa.1\n")},
        ),  # two paths to one disk, without multipathd
        (f"UUID={UUID}", {"more": {}}),  # what the disks are is not known
        (
            f"UUID={UUID}",
            {"devices": [("sdc", "8:32", ()), ("dm-0", "253:0", ("sdb", "sdc"))]},
        ),  # mapped
        (
            f"UUID={UUID}",
            {"devices": [("dm-1", "253:1", ())], "held": (*HELD, ("dm-1", "/dev/dm-1", *COPY[2:]))},
        ),
    ],
)
def test_devices_of_one_name_that_are_no_copies_are_left_alone(source, changes):
    args = {"held": (*HELD, COPY), "devices": [("sdc", "8:32", ())], "more": WWIDS, **changes}
    assert notes(f"{source} /data ext4 defaults 0 2", **args) == []


@pytest.mark.parametrize("source", [f"UUID={UUID}", "/dev/sdb", "/dev/disk/by-id/wwn-0x5"])
@pytest.mark.parametrize(
    ("options", "is_told"),
    [("defaults", True), ("defaults,nofail", False), ("x-systemd.makefs", False)],
)
def test_disk_of_the_instance_is_noted_by_whatever_name_its_line_has(source, options, is_told):
    more = {"/sys/block/sdb/device/model": "EphemeralDisk\n"}  # cockroachdb/cockroach#122094

    found = notes(f"{source} /data ext4 {options} 0 2", more=more)

    assert ["emergency shell" in one for one in found] == [True] * is_told


def test_no_line_is_to_name_a_loop_device():
    """A user can make one of a file."""
    loop = ("loop7", "/dev/loop7", "ext4", "", UUID, "", "")
    args = {"held": (HELD[0], loop), "devices": [("loop7", "7:7", ())]}
    for source in (OTHER, UUID.upper()):
        found = fault(f"UUID={source} /scratch ext4 defaults 0 2", **args)
        assert found.kind is SourceKind.MISSING
        assert "loop7" not in f"{found.sentence} {found.way_out}"


def test_numbers_of_devices_that_cannot_be_right_prove_nothing():
    held = (*HELD, ("sdc", "/dev/sdc", "LVM2_member", "", "x", "", ""))
    mounted = "31 22 8:32 / /data rw shared:9 - ext4 /dev/sdb rw\n"
    assert (
        fault(
            f"UUID={UUID} /data ext4 defaults 0 2",
            mounted,
            held=held,
            devices=[("sdc", "8:32", ())],
        )
        is None
    )


LOOP = (("loop0", "7:0", ()),)
IMAGE = ("loop0", "/dev/loop0", "ext4", "my data", OTHER, "", "")
UNLOCKED = (*LOOP, ("dm-5", "253:5", ("loop0",)))
LOCKED = (
    ("loop0", "/dev/loop0", "crypto_LUKS", "", "9-9", "", ""),
    ("dm-5", "/dev/mapper/of-dm-5", *IMAGE[2:]),
)


@pytest.mark.parametrize(
    "source", [f"UUID={OTHER}", "LABEL=my\\040data", f"/dev/disk/by-uuid/{OTHER}"]
)
@pytest.mark.parametrize(("held", "devices"), [([IMAGE], LOOP), (LOCKED, UNLOCKED)])
def test_image_of_a_user_does_not_hide_that_a_disk_is_missing(source, held, devices):
    """udisks2 makes a loop device of any file of a user, and opens what is encrypted on it."""
    found = fault(f"{source} /data ext4 defaults 0 2", held=[HELD[0], *held], devices=devices)

    assert found.kind is SourceKind.MISSING
    assert "which no disk has, only /dev/" in found.sentence
    assert "a file that a user can attach" in found.sentence
    assert "/dev/loop0" not in found.way_out


def test_image_of_a_user_does_not_name_a_missing_encrypted_disk():
    more = {"/sys/block/dm-5/dm/name": "luks-9-9\n"}
    held = [HELD[0], LOCKED[0], ("dm-5", "/dev/mapper/luks-9-9", *IMAGE[2:])]
    found = fault(
        "/dev/mapper/luks-9-9 /data ext4 defaults 0 2", held=held, devices=UNLOCKED, more=more
    )

    assert found.kind is SourceKind.MISSING


def test_missing_swap_is_not_found_in_an_image_of_a_user():
    held = [HELD[0], ("loop0", "/dev/loop0", "swap", "", OTHER, "", "")]
    lines = look_at_boot_lines(host(f"UUID={OTHER} none swap sw 0 0", held=held, devices=LOOP))

    assert "each boot waits" in lines[0].note


def test_image_of_a_user_is_no_copy_of_a_disk():
    held = [*HELD, ("loop0", "/dev/loop0", "ext4", "my data", UUID, "", "")]
    facts = host(f"UUID={UUID} /data ext4 defaults 0 2", DATA, held=held, devices=LOOP)

    assert [one.sentence for one in look_at_boot_lines(facts)] == [""]
    assert Sources(facts).find(f"UUID={UUID}") == ("sdb",)


def test_image_that_root_mounted_is_where_its_line_says():
    """A service can make it at each boot, before the mount."""
    mounted = "31 22 7:0 / /data rw shared:9 - ext4 /dev/loop0 rw\n"

    assert (
        fault(f"UUID={OTHER} /data ext4 defaults 0 2", mounted, held=[HELD[0], IMAGE], devices=LOOP)
        is None
    )
    assert fault("/dev/loop0 /data ext4 defaults 0 2", held=[HELD[0], IMAGE], devices=LOOP) is None


def test_encrypted_container_of_root_is_found_by_its_name():
    held = [HELD[0], *LOCKED]
    assert fault("/dev/mapper/of-dm-5 /data ext4 nofail 0 2", held=held, devices=UNLOCKED) is None


PARTS = {"/sys/block/sda/sda3/size": "9000\n", "/sys/block/sda/sda3/dev": "8:3\n", "/dev/sda": ""}
TWO = (*HELD, ("sda3", "/dev/sda3", "xfs", "", OTHER, "", ""))


@pytest.mark.parametrize(
    ("source", "fstype", "held", "way_out"),
    [
        ("/dev/sda", "xfs", TWO, f"write UUID={OTHER}, if /dev/sda3"),
        ("/dev/disk/by-id/ata-x", "auto", TWO, f"write UUID={OTHER}, if /dev/sda3"),
        (
            "/dev/sda",
            "ext4",
            TWO,
            f"write UUID={UUID}, if /dev/sdb",
        ),  # never what is mounted elsewhere: here /
        ("/dev/sda", "btrfs", TWO, "name the partition that is meant"),
    ],
)
def test_whole_disk_with_partitions(source, fstype, held, way_out):
    links = {"/dev/disk/by-id/ata-x": "/dev/sda"}
    facts = host(f"{source} /scratch {fstype} defaults 0 2", held=held, links=links, more=PARTS)
    found = find_fault(Sources(facts), facts.fstab.entries[0], ())
    assert found.kind is SourceKind.TYPE
    assert (
        "a whole disk, whose partitions hold what is on it: /dev/sda2 (UUID=0a11-22, ext4)"
        in found.sentence
    )
    assert found.way_out.startswith(way_out)
    (line,) = [one for one in look_at_boot_lines(facts) if one.target == "/scratch"]
    assert "the mount fails, and the boot ends in the emergency shell" in line.fault


def test_whole_disk_whose_partition_is_mounted_there():
    found = fault(
        "/dev/sda /data ext4 defaults 0 2", "31 22 8:2 / /data rw shared:9 - ext4 /dev/sda2 rw\n"
    )
    assert found.kind is SourceKind.TYPE
    assert "names /dev/sda, a whole disk with partitions, while /dev/sda2" in found.sentence


def test_file_system_on_a_whole_disk_beside_old_partitions_is_left_alone():
    held = (*HELD, ("sda", "/dev/sda", "ext4", "", OTHER, "", ""))
    assert fault("/dev/sda /scratch ext4 defaults 0 2", held=held) is None


@pytest.mark.parametrize(
    ("source", "name", "more"),
    [
        ("/dev/md127", "md127", {}),
        (
            "/dev/mapper/data-train",
            "dm-5",
            {"/sys/block/dm-5/dm/name": "data-train\n", "/sys/block/dm-5/dm/uuid": "LVM-x\n"},
        ),
    ],
)
def test_array_or_volume_of_a_users_image_has_the_name_that_the_user_gave_it(source, name, more):
    held = [HELD[0], (name, source, "ext4", "", OTHER, "", "")]
    found = fault(
        f"{source} /data ext4 defaults 0 2",
        held=held,
        devices=(*LOOP, (name, "9:1", ("loop0",))),
        more=more,
    )

    assert found.kind is SourceKind.MISSING
    assert "a file that a user can attach" in found.sentence


def test_many_images_of_a_user_do_not_push_out_the_disk_whose_uuid_they_have():
    names = [f"loop{number}" for number in range(300)]
    held = [*((name, f"/dev/{name}", "ext4", "my data", UUID, "", "") for name in names), *HELD]
    devices = [(name, f"7:{number}", ()) for number, name in enumerate(names)]
    facts = host(f"UUID={UUID} /data ext4 defaults 0 2", DATA, held=held, devices=devices)

    assert Sources(facts).find(f"UUID={UUID}") == ("sdb",)
    assert [one.sentence for one in look_at_boot_lines(facts)] == [""]


def test_image_of_a_user_is_no_part_of_a_mount_whose_uuid_it_has():
    held = [*HELD, ("loop0", "/dev/loop0", "ext4", "my data", UUID, "", "")]
    facts = host(f"UUID={UUID} /data ext4 defaults 0 2", DATA, held=held, devices=LOOP)

    (mount,) = [one for one in facts.mounts.all if one.target == "/data"]
    assert Sources(facts).below(mount) == {"sdb"}


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("/dev/sda2 / ext4 defaults 0 1", 1),
        ("UUID=0a11-22 / ext4 defaults 0 1", 0),
        ("/dev/disk/by-id/wwn-0x6 / ext4 defaults 0 1", 0),
    ],
)
def test_name_of_the_kernel_for_root_is_a_risk_with_several_disks(line, count):
    found = [one for one in look_at_boot_lines(host(line)) if one.risk]
    assert [one.target for one in found] == ["/"] * count
    assert all(
        "may be another disk after the next boot" in one.risk and "0a11-22" in one.way_out
        for one in found
    )


def test_name_of_the_kernel_for_root_is_fine_with_one_disk():
    facts = host("/dev/sda2 / ext4 defaults 0 1")
    facts.__dict__["disks"] = replace(
        facts.disks, all=tuple(one for one in facts.disks.all if one.name != "sdb")
    )
    assert not [one for one in look_at_boot_lines(facts) if one.risk]


def test_a_mapping_whose_encrypted_disk_is_gone_names_that_disk_and_its_line():
    crypttab = {
        "/etc/crypttab": f"media UUID={OTHER} /etc/keys/media nofail\n",
        "/dev/mapper/control": "",
    }
    found = fault("/dev/mapper/media /media ext4 nofail 0 2", more=crypttab.items())
    assert found.kind is SourceKind.MISSING
    made = f"made by line 1 of /etc/crypttab of UUID={OTHER}, which no device has"
    assert found.sentence == f"names /dev/mapper/media, {made}"
    assert found.way_out == "find the disk (sudo lsblk -f), or take both lines out"


def test_the_trap_a_mapping_whose_encrypted_disk_is_there_may_lie_in_it():
    crypttab = {"/etc/crypttab": f"media UUID={OTHER} none luks\n", "/dev/mapper/control": ""}
    held = (*HELD, ("sdc", "/dev/sdc", "crypto_LUKS", "", OTHER, "", ""))
    found = fault(
        "/dev/mapper/media /media ext4 nofail 0 2",
        more=crypttab.items(),
        held=held,
        devices=[("sdc", "8:32", ())],
    )
    assert found.kind is SourceKind.HIDDEN
