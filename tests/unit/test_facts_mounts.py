"""The mounts of a host: stacking, bind mounts, disks below, and what fstab alone tells under
another root.
"""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosttune.facts.base import UnknownFact, get_raw
from hosttune.facts.storage import mounts as module
from hosttune.facts.storage.mounts import (
    Mounts,
    asks_read_only,
    atime_of,
    is_network,
    mount_below,
    mount_of,
    unit_name,
)
from hosttune.host.door import Space
from hosttune.host.reading.mountinfo import MountLine, folders_above
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader
from tests.unit.storage_host import DISKS, ROOT, StorageHost, disk, make_facts

DATA = "30 20 8:17 / /data rw,nosuid,noatime - ext4 /dev/sdb1 rw,stripe=4"


def mounts(*lines, fstab="", **kwargs):
    return StorageHost(fstab, "\n".join((ROOT, *lines)) + "\n", **kwargs).facts.mounts


def test_mount_of_a_data_disk_tells_all_of_it():
    mount = mounts(DATA, spaces={"/data": Space(1000, 400, 1, 1)}).at["/data"]

    assert (mount.source, mount.fstype, mount.options) == (
        "/dev/sdb1",
        "ext4",
        ("rw", "nosuid", "noatime"),
    )
    assert (mount.super_options, mount.atime) == (("rw", "stripe=4"), "noatime")
    assert (mount.disks, mount.is_rotational) == (("sdb",), True)
    assert (mount.total_bytes, mount.available_bytes) == (1000, 400)
    assert (mount.is_bind, mount.is_read_only, mount.is_network) == (False, False, False)


def test_mount_without_an_atime_word_is_strictatime():
    assert mounts("30 20 8:17 / /data rw - ext4 /dev/sdb1 rw").at["/data"].atime == "strictatime"


def test_target_with_a_blank_is_decoded():
    assert "/my data" in mounts(r"30 20 8:17 / /my\040data rw - ext4 /dev/sdb1 rw").at


def test_mount_under_a_later_one_on_the_same_target_is_not_visible():
    found = mounts(DATA, "31 30 0:40 / /data rw,relatime - tmpfs tmpfs rw")

    assert [(mount.id, mount.is_topmost) for mount in found.all] == [
        (20, True),
        (30, False),
        (31, True),
    ]
    assert found.at["/data"].fstype == "tmpfs"


def test_mount_under_a_folder_that_was_covered_is_not_visible():
    found = mounts(
        "30 20 8:17 / /a/b rw - ext4 /dev/sdb1 rw", "31 20 0:40 / /a rw - tmpfs tmpfs rw"
    )

    assert set(found.at) == {"/", "/a"}


@pytest.mark.parametrize(
    ("line", "is_bind"),
    [
        ("31 20 8:2 /srv/x /x rw - ext4 /dev/sda2 rw", True),
        ("31 20 8:2 / /x rw - ext4 /dev/sda2 rw", True),
        ("31 20 0:50 /@home /x rw - btrfs /dev/sda3 rw,subvolid=256,subvol=/@home", False),
        ("31 20 0:50 /@home/u /x rw - btrfs /dev/sda3 rw,subvolid=256,subvol=/@home", True),
        ("31 20 8:17 / /x rw - ext4 /dev/sdb1 rw", False),
    ],
)
def test_bind_mount_is_told_from_a_subvolume(line, is_bind):
    assert mounts(line).at["/x"].is_bind is is_bind


def test_second_place_of_a_file_system_is_the_bind_and_the_first_is_not():
    found = mounts(DATA, "31 20 8:17 / /export rw - ext4 /dev/sdb1 rw")

    assert (found.at["/data"].is_bind, found.at["/export"].is_bind) == (False, True)


@pytest.mark.parametrize("order", [1, -1])
def test_disk_with_two_lines_of_fstab_is_at_the_first_one_in_whatever_order_a_boot_has_mounted_them(
    order,
):
    fstab = "/dev/sdb1 /data ext4 defaults 0 2\n/dev/sdb1 /export ext4 defaults 0 2\n"
    both = (DATA, "31 20 8:17 / /export rw - ext4 /dev/sdb1 rw")
    found = mounts(*both[::order], fstab=fstab)
    assert (found.at["/data"].is_bind, found.at["/export"].is_bind) == (False, True)


def test_bind_mount_with_an_id_that_was_used_before_is_the_bind():
    found = mounts(
        "21 1 8:17 / /data rw - ext4 /dev/sdb1 rw", "20 1 8:17 / /export rw - ext4 /dev/sdb1 rw"
    )
    assert (found.at["/data"].is_bind, found.at["/export"].is_bind) == (False, True)


@pytest.mark.parametrize("fstab", ["", "/dev/sdb1 /data ext4 defaults 0 2\n"])
def test_mount_that_a_user_made_over_a_mount_of_the_host_is_in_nobodys_way(fstab):
    over = "31 {} 0:70 / {} ro,nosuid - fuse.sshfs eve@x:/ ro,user_id=1001,group_id=1001"
    found = mounts(DATA, over.format(30, "/data"), fstab=fstab, spaces={"/data": Space(1, 1, 1, 1)})
    assert (found.at["/data"].fstype, found.at["/data"].is_read_only) == ("ext4", False)
    assert isinstance(get_raw(found.at["/data"], "total_bytes"), Unreadable)
    beside = mounts(DATA, over.format(20, "/home/eve/x"), fstab=fstab)
    assert beside.at["/home/eve/x"].is_of_user


def test_data_disk_that_is_missing_is_not_there_because_a_user_mounts_something_at_its_place():
    over = "31 20 0:70 / /data rw - fuse.x y rw,user_id=1001"
    found = mounts(over, fstab="/dev/sdb1 /data ext4 defaults 0 2\n")
    assert "/data" not in found.at
    assert [one.is_mounted for one in found.expected] == [False]


def test_mount_that_udisks_made_is_of_a_user():
    utab = "ID=31 SRC=/dev/sdb1 TARGET=/media/eve/my\\040stick ROOT=/ OPTS=uhelper=udisks2\n"
    line = "31 20 8:17 / /media/eve/my\\040stick rw - ext4 /dev/sdb1 rw"
    found = StorageHost("", f"{ROOT}\n{line}\n", files={"/run/mount/utab": utab}).facts.mounts
    assert [one.is_of_user for one in found.all] == [False, True]


def test_btrfs_ends_on_all_members_of_its_pool():
    folders = (
        "/sys/fs/btrfs/1-2/devices/dm-0",
        "/sys/fs/btrfs/1-2/devices/sdb1",
        "/sys/fs/btrfs/features",
    )
    links = {"/dev/mapper/vg-data": "../dm-0"}
    found = mounts(
        "30 20 0:50 / /data rw - btrfs /dev/mapper/vg-data rw,subvol=/",
        folders=folders, links=links, files={"/dev/dm-0": ""},
    )  # fmt: skip

    assert (found.at["/data"].disks, found.at["/data"].is_rotational) == (
        ("nvme0n1", "nvme1n1", "sdb"),
        True,
    )


def test_source_that_a_user_gave_a_fuse_mount_is_no_disk():
    found = mounts("30 20 0:50 / /home/eve/x rw - fuse.x /dev/sdb1 rw,user_id=1001")
    assert found.at["/home/eve/x"].disks == ()


def test_space_of_a_network_mount_is_never_asked_for():
    host = StorageHost("", f"{ROOT}\n30 20 0:60 / /nfs rw - nfs4 nas:/x rw\n")
    mount = host.facts.mounts.at["/nfs"]

    assert mount.is_network
    assert isinstance(get_raw(mount, "total_bytes"), Unreadable)
    assert "/nfs" not in host.writer.base.seen


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        (DATA, True),
        ("30 20 8:17 / /home rw,relatime - xfs /dev/sdb1 rw", True),
        ("30 20 8:17 / /var/lib/docker rw,relatime - ext4 /dev/sdb1 rw", True),
        ("30 20 8:17 / /var/log rw,relatime - ext4 /dev/sdb1 rw", False),
        ("30 20 8:17 / /boot rw,relatime - ext4 /dev/sdb1 rw", False),
        ("30 20 8:17 / /tmp rw,relatime - ext4 /dev/sdb1 rw", False),
        ("30 20 7:1 / /snap/core/1 ro - squashfs /dev/loop1 ro", False),
        ("30 20 8:17 / /data ro,relatime - ext4 /dev/sdb1 rw", False),
        ("30 20 8:17 / /data rw,relatime - ext4 /dev/sdb1 ro", False),
        ("30 20 8:2 /srv /data rw,relatime - ext4 /dev/sda2 rw", False),
        ("30 20 0:60 / /data rw,relatime - nfs nas:/x rw", False),
        ("30 20 8:17 / /bootstrap rw,relatime - ext4 /dev/sdb1 rw", True),
        ("30 20 8:17 / /media/eve/stick rw,relatime - ext4 /dev/sdb1 rw", False),  # of udisks2
    ],
)
def test_local_data_is_writable_disks_beside_the_system_that_no_user_mounted(line, counts):
    found = mounts(
        line,
        files={
            "/run/mount/utab": "SRC=/dev/sdb1 TARGET=/media/eve/stick ROOT=/ OPTS=uhelper=udisks2\n"
        },
    )

    assert [mount.id for mount in found.local_data] == ([30] if counts else [])


def test_mount_of_a_unit_names_its_file():
    unit = "/etc/systemd/system/data-my\\x2dset.mount"
    found = mounts("30 20 8:17 / /data/my-set rw - ext4 /dev/sdb1 rw", files={unit: "[Mount]\n"})

    assert found.at["/data/my-set"].unit == unit


@pytest.mark.parametrize(
    ("folder", "counts"), [("/etc", True), ("/run", True), ("/usr/lib", False)]
)
def test_mount_of_fstab_has_the_unit_that_comes_before_its_line(folder, counts):
    unit = f"{folder}/systemd/system/data.mount"
    found = mounts(DATA, fstab="/dev/sdb1 /data ext4 rw 0 0\n", files={unit: "x"})

    assert found.at["/data"].unit == (unit if counts else "")


def test_unreadable_mountinfo_makes_the_mounts_unknown():
    facts = make_facts(FakeReader(unreadable={"/proc": "permission denied"}))

    with pytest.raises(UnknownFact, match="permission denied"):
        _ = facts.mounts.local_data


def test_unread_disks_make_only_the_disks_of_a_mount_unknown():
    facts = make_facts(FakeReader({"/proc/self/mountinfo": f"{ROOT}\n{DATA}\n"}))
    facts.__dict__["disks"] = UnreadDisks()

    mount = Mounts.look(facts.reader, facts).at["/data"]

    assert mount.atime == "noatime"
    with pytest.raises(UnknownFact, match="no sysfs"):
        _ = mount.is_rotational


class UnreadDisks:
    @property
    def by_device(self):
        reason = "no sysfs"
        raise UnknownFact(reason)


def test_mounts_of_another_root_are_what_its_fstab_will_mount():
    fstab = "UUID=1 / ext4 defaults 0 1\n/dev/sdb1 /data xfs noatime 0 0\nnas:/x /nfs nfs ro 0 0\n/swap none swap sw 0 0\n"
    found = StorageHost(fstab, None, persistent_only=True).facts.mounts

    assert [(mount.target, mount.atime, mount.is_network) for mount in found.all] == [
        ("/", "relatime", False),
        ("/data", "noatime", False),
        ("/nfs", "relatime", True),
    ]
    assert [mount.target for mount in found.local_data] == ["/data"]
    with pytest.raises(UnknownFact):
        _ = found.at["/data"].is_rotational


def test_last_of_ro_and_rw_counts_in_the_fstab_of_an_image():
    fstab = "UUID=1 / ext4 ro,rw 0 1\nUUID=2 /data xfs rw,ro 0 0\n"
    found = StorageHost(fstab, None, persistent_only=True).facts.mounts.at
    assert (found["/"].is_read_only, found["/data"].is_read_only) == (False, True)


@pytest.mark.parametrize(
    ("options", "atime"),
    [
        ((), "relatime"),
        (("noatime",), "noatime"),
        (("noatime", "strictatime"), "strictatime"),
        (("atime",), "relatime"),
    ],
)
def test_atime_of_options_is_what_a_mount_makes_of_them(options, atime):
    assert atime_of(options) == atime


@pytest.mark.parametrize(
    ("fstype", "source", "network"),
    [
        ("nfs4", "nas:/x", True),
        ("fuse.sshfs", "u@h:/x", True),
        ("newfs", "10.0.0.1@tcp:/fs", True),
        ("newfs", "//nas/x", True),
        ("ext4", "/dev/disk/by-path/pci-0:1:/x", False),
        ("zfs", "pool/data", False),
    ],
)
def test_network_file_system_is_known_by_type_or_source(fstype, source, network):
    assert is_network(fstype, source) is network


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/data", "data.mount"),
        ("/", "-.mount"),
        ("/data/my-set", "data-my\\x2dset.mount"),
        ("/a/.b", "a-.b.mount"),
        ("/.a b", "\\x2ea\\x20b.mount"),
    ],
)
def test_unit_name_is_escaped_as_systemd_escape_does(target, name):
    assert unit_name(target) == name


def test_rotating_disk_below_one_of_several_is_told():
    facts = make_facts(
        FakeReader({"/proc/self/mountinfo": "30 1 9:0 / /data rw - xfs /dev/md0 rw\n"}),
        disks=(*DISKS, disk("md0", "9:0", ("sdb", "sdc"), is_rotational=True)),
    )

    assert facts.mounts.at["/data"].disks == ("sdb", "sdc")
    assert facts.mounts.at["/data"].is_rotational


def test_lines_of_fstab_that_a_boot_mounts_and_whether_something_is_there():
    fstab = (
        "/dev/sda1 / ext4 defaults 0 1\n/dev/sdb1 /data ext4 defaults,nofail 0 2\nnfs01:/x /work nfs4 _netdev 0 0\n"
        "/dev/sdc1 /spare ext4 noauto 0 2\n/dev/sdd1 /last ext4 noauto,auto,users 0 2\nnfs01:/y /home/shared nfs4 x-systemd.automount 0 0\n/swap.img none swap sw 0 0\n"
    )
    found = mounts(DATA, fstab=fstab).expected
    assert [(one.target, one.line, one.is_mounted, one.is_optional) for one in found] == [
        ("/", 1, True, False),
        ("/data", 2, True, False),
        ("/work", 3, False, False),
        ("/last", 5, False, True),
    ]


def test_share_of_a_server_that_is_mounted_where_a_link_leads():
    def found(links, target="/home", *also):
        table = (
            "\n".join((ROOT, "30 20 0:77 / /mnt/nfs/home rw - nfs4 nfs01:/home rw", *also)) + "\n"
        )
        fstab = f"UUID=1 / ext4 defaults 0 1\nnfs01:/home {target} nfs nofail,_netdev 0 0\n"
        reader = FakeReader({"/etc/fstab": fstab, "/proc/self/mountinfo": table}, links=links)
        return make_facts(reader).mounts.expected[1].is_mounted

    assert found({"/home": "/mnt/nfs/home"})
    assert found({"/mnt/shared": "nfs"}, "/mnt/shared/home")
    assert not found({})  # mounted by hand, and jobs look in /home
    assert not found(
        {"/srv/home": "/mnt/nfs/home"}, "/srv/home", "31 20 0:78 / /srv rw - nfs4 nfs02:/srv rw"
    )
    assert not found({"/other": "/mnt/nfs/home"})


@pytest.mark.parametrize(
    ("options", "asks"),
    [
        ("defaults", False), ("ro", True), ("ro,rw", False), ("rw,ro", True), ("ro,defaults", True), ("errors=remount-ro", False),
        ("ro=vfs", True), ("--read-only,rw", True), ("read_only", True), ("nosuid,norelatime", False), ("", False),
    ],
)  # fmt: skip
def test_line_that_asks_for_read_only(options, asks):
    assert asks_read_only(tuple(options.split(","))) is asks


def came(line, options="defaults", *also, source="/dev/sdb1", target="/data", fstab="", **more):
    found = mounts(
        line, *also, fstab=f"{source} {target} auto {options} 0 2\n{fstab}", **more
    ).expected
    return next(one for one in found if one.target == target).is_read_only


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("30 20 8:17 / /data ro - ext4 /dev/sdb1 ro", True),
        ("30 20 8:17 / /data ro - ext4 /dev/sdb1 rw", True),
        ("30 20 8:17 / /data rw - ext4 /dev/sdb1 rw", False),
        ("30 20 8:17 / /data rw - ext4 /dev/sdb1 ro", False),  # stopped by an error
        ("30 20 8:17 / /data rw - ext4 /dev/sdb1 rw,emergency_ro", False),
        ("30 20 8:17 / /data ro - ext4 /dev/sdb1 ro,shutdown", False),
        ("30 20 0:60 / /data rw - nfs4 nas:/x ro", True),
        ("30 20 0:60 / /data ro - fuse.cvmfs2 cvmfs2 ro", False),
        ("30 20 7:0 / /data ro - squashfs /dev/loop0 ro", False),
        ("30 20 0:60 / /data ro - zfs tank/data ro", False),
        ("30 20 0:60 / /data ro - tmpfs tmpfs ro", False),
    ],
)
def test_mount_that_came_read_only_and_was_not_asked_to(line, is_told):
    assert came(line) is is_told
    assert came(line, "nofail,ro") is False


def test_another_line_of_the_same_target_asks_for_read_only():
    assert (
        came("30 20 8:17 / /data ro - ext4 /dev/sdb1 ro", fstab="/dev/sdb1 /data ext4 ro 0 2\n")
        is False
    )


def test_own_mounts_of_the_unit_that_started_us_say_nothing_of_the_host():
    def own(line, *hosts):
        files = {"/proc/1/mountinfo": f"{hosts[0]}\n"} if hosts else {}
        return came(line, shares_init_mounts=False, files=files)

    mine, whole = (
        "30 20 8:17 / /data ro - ext4 /dev/sdb1 rw",
        "30 20 8:17 / /data ro - ext4 /dev/sdb1 ro",
    )
    assert own(mine, "7 1 8:17 / /data rw - ext4 /dev/sdb1 rw") is False
    assert own(mine, "7 1 8:17 / /data ro - ext4 /dev/sdb1 rw") is True
    assert own(mine, "7 1 8:2 / / rw - ext4 /dev/sda2 rw") is False
    assert own(whole) is True
    with pytest.raises(UnknownFact, match="/proc/1/mountinfo does not exist"):
        own(mine)


def test_bind_mount_is_as_its_source_is():
    def bind(how, of, *, device="8:17", source="/data/x"):
        table = (
            f"30 20 8:17 / /data {of} - ext4 /dev/sdb1 rw",
            f"31 20 {device} /x /x {how} - ext4 /dev/sdb1 rw",
        )
        return came(table[0], "bind", table[1], source=source, target="/x")

    assert bind("ro", "rw") is True
    assert bind("ro", "ro") is False
    assert bind("rw", "rw") is False
    assert (
        bind("ro", "rw", source="/link/x") is False
    )  # on / as it is written, and by a link elsewhere


def test_stopped_file_system_in_its_second_place_is_not_told_twice():
    line = "31 20 8:17 / /data rw - ext4 /dev/sdb1 ro"
    assert came("30 20 8:17 / /first rw - ext4 /dev/sdb1 ro", "defaults", line) is False


def test_mount_that_is_covered_or_missing_is_not_read_only():
    assert (
        came(
            "30 20 8:17 / /data ro - ext4 /dev/sdb1 ro",
            "defaults",
            "31 30 0:40 / /data rw - tmpfs tmpfs rw",
        )
        is False
    )
    assert came("30 20 8:17 / /other ro - ext4 /dev/sdb1 ro") is False


def test_mount_below_a_path_is_the_one_that_mount_of_finds():
    rows = (
        (1, 0, "/"),
        (2, 1, "/data"),
        (3, 2, "/data/a b"),
        (4, 1, "/data2"),
        (5, 1, "/x"),
        (6, 5, "/x"),
    )
    text = "".join(
        f"{number} {above} 8:{number} / {target.replace(' ', chr(92) + '040')} rw - ext4 /dev/sd{number} rw\n"
        for number, above, target in rows
    )
    facts = make_facts(FakeReader({"/proc/self/mountinfo": text}))
    for path in (
        "/",
        "/data",
        "/data/",
        "/data/a b/c",
        "/data/a",
        "/data2/x",
        "/data3",
        "/x/y",
        "relative",
    ):
        assert mount_below(facts, path) is mount_of(facts.mounts.visible, path), path


def test_mounts_are_gone_through_once_for_all_lines_of_fstab(monkeypatch):
    """A record may have thousands of both."""
    looked = []
    real = module.is_served
    monkeypatch.setattr(module, "is_served", lambda mount: looked.append(1) or real(mount))
    lines = "".join(f"/dev/x{number} /m{number} ext4 noauto 0 0\n" for number in range(60))
    table = "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
    table += "".join(
        f"{number} 1 9:{number} / /q{number} rw - ext4 /dev/z{number} rw\n"
        for number in range(2, 60)
    )
    facts = make_facts(FakeReader({"/etc/fstab": lines, "/proc/self/mountinfo": table}))
    assert facts.mounts.expected == ()
    assert len(looked) < 200


@given(
    st.lists(st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/ab", "/a.b", "/b"]), max_size=4),
    st.sampled_from(["/", "/a", "/a/b", "/ab"]),
)
def test_mount_of_a_user_is_in_the_way_of_what_is_at_it_and_below(places, target):
    lines = [
        MountLine(n, 1, "8:1", "/", one, (), (), "ext4", "x", ()) for n, one in enumerate(places)
    ]
    of_users = [MountLine(99, 1, "0:9", "/", target, (), (), "fuse", "x", ("user_id=1001",))]
    facts = SimpleNamespace(fstab=SimpleNamespace(by_path={}))
    expected = {99} if any(target in (one, *folders_above(one)) for one in places) else set()
    assert module._in_the_way(of_users, [*lines, *of_users], facts) == expected


def test_mounts_on_deep_paths_take_memory_in_proportion_to_their_length():
    """Each folder above each of a thousand took 4 GB."""
    deep = [
        MountLine(n, 1, "8:1", "/", f"/{n}" + "/a" * 1900, (), (), "ext4", "x", ())
        for n in range(50)
    ]
    of_users = [MountLine(99, 1, "0:9", "/", "/7/a", (), (), "fuse", "x", ("user_id=1001",))]
    tracemalloc.start()
    try:
        assert module._in_the_way(
            of_users, [*deep, *of_users], SimpleNamespace(fstab=SimpleNamespace(by_path={}))
        ) == {99}
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
