"""Bind mounts whose source a boot mounts later, or that is not there, and btrfs that lacks a
disk.
"""

import pytest

from hosttune.facts import Facts
from hosttune.resources.storage.fstab_boot import look_at_boot_lines
from hosttune.values import FileValue
from tests.unit.fake_reader import FakeReader
from tests.unit.test_fstab_sources import host

ROOT = "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
POOL = "30 22 0:45 / /ftp rw - zfs ftp rw,xattr\n"
BELOW = "40 22 8:2 /ftp/data /home/user1/ftp rw - ext4 /dev/sda2 rw\n"
RIGHT = "40 22 0:45 /data /home/user1/ftp rw - zfs ftp rw\n"
BIND = (
    "/ftp/data/ /home/user1/ftp none defaults,nofail,bind 0 0"  # amazonlinux/amazon-linux-2023#468
)
UUID = "9ad861cc-3eac-42b9-b446-a82525d6369f"  # systemd/systemd#36886


def bind_notes(line, mounts, *, files=(), folders=("/ftp/data", "/home/user1/ftp")):
    content = {"/etc/fstab": f"{line}\n", "/proc/self/mountinfo": mounts, **dict(files)}
    lines = look_at_boot_lines(Facts(FakeReader(content, folders=folders)))
    return [one for one in lines if one.note or one.fault]


@pytest.mark.parametrize(("shown", "is_wrong"), [(BELOW, True), (RIGHT, False), ("", False)])
def test_bind_of_what_zfs_mounts_by_itself_is_noted(shown, is_wrong):
    (found,) = bind_notes(BIND, ROOT + POOL + shown)

    assert "is on /ftp (zfs)" in found.note
    assert "x-systemd.requires=zfs-mount.service" in found.way_out
    assert ("as it does now (/dev/sda2, ext4)" in found.note) is is_wrong
    assert found.is_absent is (is_wrong or not shown)


@pytest.mark.parametrize(
    ("line", "pool", "files"),
    [
        (f"{BIND.replace('bind', 'bind,x-systemd.requires=zfs-mount.service')}", POOL, {}),
        (f"{BIND.replace('bind', 'bind,x-systemd.automount')}", POOL, {}),
        (f"ftp /ftp zfs defaults 0 0\n{BIND}", POOL, {}),  # mountpoint=legacy
        (BIND, POOL, {"/run/systemd/generator/ftp.mount": ""}),  # zfs-mount-generator(8)
        (BIND, "", {}),  # on /, which is there before any line
        (BIND, POOL.replace("zfs", "tmpfs"), {}),
        ("/ftp/data /home/user1/ftp none bind,_netdev 0 0", POOL, {}),
    ],
)
def test_bind_whose_source_is_there_in_time_is_left_alone(line, pool, files):
    assert (
        bind_notes(line, ROOT + pool + RIGHT.replace("0:45", "8:2") * (not pool), files=files) == []
    )


MP1 = "31 22 8:17 / /mnt/mp1 ro - ext4 /dev/sdb1 ro\n"
LINKED = "/pkg/fonts/myttf /fonts auto bind,ro"  # systemd/systemd#6010
MP1_LINE = "LABEL=mp1 /mnt/mp1 auto ro 0 2"


@pytest.mark.parametrize(
    ("line", "links", "is_noted"),
    [
        (LINKED, {"/pkg": "/mnt/mp1/pkg"}, True),
        (LINKED, {"/pkg": "mnt/mp1/my pkg"}, True),
        (LINKED.replace("/pkg/fonts/myttf", "/pkg"), {"/pkg": "/mnt/mp1"}, True),
        (LINKED, {"/pkg": "/srv/pkg"}, False),
        (LINKED.replace("/pkg", "/mnt/mp1/pkg"), {"/mnt/mp1/pkg": "/mnt/mp1/other"}, False),
        (f"{LINKED},x-systemd.requires-mounts-for=/mnt/mp1", {"/pkg": "/mnt/mp1/pkg"}, False),
        (f"{LINKED},x-systemd.requires=/mnt/mp1", {"/pkg": "/mnt/mp1/pkg"}, False),
        (f"{LINKED},x-systemd.after=local-fs.target", {"/pkg": "/mnt/mp1/pkg"}, False),
        (f"{LINKED},x-systemd.automount", {"/pkg": "/mnt/mp1/pkg"}, False),
    ],
)
@pytest.mark.parametrize("mounted", [MP1, ""])
def test_bind_of_a_link_to_what_a_boot_mounts_later_is_noted(line, links, is_noted, mounted):
    content = {"/etc/fstab": f"{MP1_LINE}\n{line} 0 0\n", "/proc/self/mountinfo": ROOT + mounted}
    folders = (
        "/fonts",
        "/srv/pkg/fonts/myttf",
        *(["/mnt/mp1/pkg/fonts/myttf"] if mounted else ["/mnt/mp1"]),
    )
    lines = look_at_boot_lines(Facts(FakeReader(content, links=links, folders=folders)))
    found = [one for one in lines if "a link leads to /mnt/mp1 (line 1 of /etc/fstab)" in one.note]
    assert [one.target for one in found] == ["/fonts"] * is_noted
    if is_noted:
        assert found[0].way_out.startswith("write /mnt/mp1")
        assert " " not in found[0].way_out.removeprefix("write ").partition(" as its source")[0]


@pytest.mark.parametrize(("option", "count"), [("", 1), (",_netdev", 0)])
def test_bind_of_a_link_to_the_network_is_to_come_after_the_disks(option, count):
    content = {
        "/etc/fstab": f"nas:/x /nas nfs4 _netdev 0 0\n{LINKED}{option} 0 0\n",
        "/proc/self/mountinfo": ROOT,
    }
    facts = Facts(FakeReader(content, links={"/pkg": "/nas/pkg"}, folders=("/fonts", "/nas")))
    (found,) = [one for one in look_at_boot_lines(facts) if "a link leads to /nas" in one.note]
    assert found.way_out.count("add _netdev") == count


@pytest.mark.parametrize(
    ("line", "is_noted"),
    [
        ("/media/data* /pool fuse.mergerfs nofail 0 0", True),  # trapexit/mergerfs#1360
        ("/gone1:/gone2=RW /pool mergerfs nofail 0 0", True),
        ("mergerfs#/gone1:/media/x* /pool fuse nofail 0 0", True),
        ("/mnt/disk* /pool fuse.mergerfs nofail 0 0", False),
        ("/gone1:/mnt/disk1 /pool fuse.mergerfs nofail 0 0", False),
        ("/m*/disk* /pool fuse.mergerfs nofail 0 0", False),  # not looked at
        ("/later/disk* /pool fuse.mergerfs nofail 0 0", False),  # below what is not mounted now
        ("overlay /pool overlay lowerdir=/gone1:/gone2,nofail 0 0", False),
        ("/media/data* /pool fuse.mergerfs noauto 0 0", False),
    ],
)
def test_union_without_a_branch_is_noted(line, is_noted):
    content = {
        "/etc/fstab": f"LABEL=x /later ext4 nofail 0 2\n{line}\n",
        "/proc/self/mountinfo": ROOT,
    }
    folders = ("/mnt/disk1", "/media/usb", "/pool", "/later")
    lines = look_at_boot_lines(Facts(FakeReader(content, folders=folders)))
    assert bool([one for one in lines if "has no branch" in one.note]) is is_noted


def test_bind_of_what_a_service_mounts_is_noted():
    (found,) = bind_notes(BIND, ROOT + POOL.replace("zfs ftp", "fuse.mergerfs pool"))

    assert "x-systemd.requires=UNIT" in found.way_out


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("/gone /srv/a none bind,nofail 0 0", 1),
        ("/run/later /srv/a none bind,nofail 0 0", 0),
        (
            "UUID=0f0e0d0c-0b0a-4908-8706-050403020100 /gone ext4 nofail 0 2\n/gone/x /srv/a none bind,nofail 0 0",
            0,
        ),
    ],
)
def test_bind_of_a_folder_that_is_not_there_is_noted(line, count):
    found = bind_notes(line, ROOT)

    assert ["an empty folder" in one.note for one in found] == [True] * count


def pool_lines(
    options,
    *,
    ready="0",
    missing="",
    is_mounted=False,
    target="/storage0",
    cmdline="",
    number="8:16",
):
    more = {
        "/proc/cmdline": f"{cmdline}\n",
        f"/run/udev/data/b{number}": f"E:ID_FS_TYPE=btrfs\nE:ID_BTRFS_READY={ready}\n",
    }
    if missing:
        folder = f"/sys/fs/btrfs/{UUID}"
        more |= {
            f"{folder}/devices/sdb": "",
            f"{folder}/devinfo/2/missing": f"{missing}\n",
            "/dev/sdb": "",
        }
    if target == "/":
        more["/proc/self/mountinfo"] = "31 1 0:40 / / rw - btrfs /dev/sdb rw\n"
    mounts = ["31 22 0:40 / /storage0 rw - btrfs /dev/sdb rw\n"] * is_mounted
    held = (("sdb", "/dev/sdb", "btrfs", "", UUID, "", ""),)
    facts = host(f"UUID={UUID} {target} btrfs {options} 0 0", *mounts, held=held, more=more)
    return [one for one in look_at_boot_lines(facts) if one.fault or one.note or one.remark]


@pytest.mark.parametrize("options", ["defaults", "degraded"])
def test_btrfs_that_udev_waits_for_ends_the_boot(options):
    (found,) = pool_lines(options)

    assert "a btrfs of which a disk is missing" in found.fault
    assert "ends in the emergency shell" in found.fault
    assert "sudo btrfs device remove missing /storage0\n" in found.way_out
    assert ("whatever `degraded` says" in found.fault) is (options == "degraded")


def test_btrfs_that_is_mounted_without_a_disk_is_lost_with_the_next_boot():
    (found,) = pool_lines("defaults,nofail", ready="1", missing="1", is_mounted=True)

    assert "disk 2 is missing" in found.fault
    assert "mounts nothing at /storage0" in found.fault


def test_root_without_a_disk_is_mounted_only_as_degraded():
    (found,) = pool_lines("defaults", ready="1", missing="1", is_mounted=True, target="/")

    assert "rootflags=degraded" in found.fault
    assert not pool_lines(
        "defaults",
        ready="1",
        missing="1",
        is_mounted=True,
        target="/",
        cmdline="rootflags=subvol=@,degraded",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"ready": "1"},
        {"ready": "1", "missing": "0", "is_mounted": True},
        {"number": "8:99"},
    ],  # whole, or not known
)
def test_btrfs_that_is_whole_is_left_alone(changes):
    assert not pool_lines("defaults", **changes)


def test_device_with_an_odd_uuid_is_held_to_its_type():
    """bigtreetech/CB2#9: a vfat in a line of ext4."""
    held = (("sdb", "/dev/sdb", "vfat", "", "0B22-1122", "", ""),)
    (found,) = [
        one
        for one in look_at_boot_lines(host("UUID=0B22-1122 /boot2 ext4 defaults 0 2", held=held))
        if one.fault
    ]

    assert "holds vfat" in found.fault
    assert found.way_out == "write vfat as its type"


EFI = "UUID=96BE-5EAB /ftp/efi vfat umask=0077 0 1"


@pytest.mark.parametrize(
    ("line", "pool", "files", "count"),
    [
        (EFI, POOL, {}, 1),  # openzfs/zfs#13295
        (EFI.replace("umask", "x-systemd.requires=zfs-mount.service,umask"), POOL, {}, 0),
        (EFI, POOL, {"/run/systemd/generator/ftp.mount": ""}, 0),
        (f"ftp /ftp zfs defaults 0 0\n{EFI}", POOL, {}, 0),
        (EFI, "", {}, 0),
        (EFI.replace("/ftp/efi", "/ftp"), POOL, {}, 0),  # the folder itself
        ("nas:/x /ftp/efi nfs4 nofail 0 0", POOL, {}, 0),  # after all that is local
    ],
)
def test_line_below_what_zfs_mounts_by_itself_is_noted(line, pool, files, count):
    found = bind_notes(line, ROOT + pool, files=files, folders=("/ftp/efi",))

    assert ["mounts below /ftp (zfs)" in one.note for one in found] == [True] * count


@pytest.mark.parametrize(
    ("fstype", "swaps", "count"),
    [("btrfs", "", 1), ("zfs", "", 1), ("ext4", "", 0), ("btrfs", "/s/f", 0)],
)
def test_swap_file_that_its_file_system_does_not_take_is_noted(fstype, swaps, count):
    rows = f"Filename Type Size Used Priority\n{swaps + ' file 9 0 -2' if swaps else ''}\n"
    files = {"/s/f": FileValue(b"x", 0o600), "/proc/swaps": rows}
    found = bind_notes(
        "/s/f none swap sw 0 0",
        ROOT + f"30 22 0:45 / /s rw - {fstype} x rw\n",
        files=files,
        folders=(),
    )

    assert ["which is there and not in use" in one.note for one in found] == [True] * count
