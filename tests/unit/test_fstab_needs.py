"""Lines that are on a disk which a boot can do without, and unions that come before their
branches.
"""

import re

import pytest

from hosttune.facts.storage.fstab_lines import parse
from hosttune.facts.storage.unions import branches_of
from hosttune.resources.storage.fstab_boot import look_at_boot_lines
from hosttune.resources.storage.fstab_lint import lint
from tests.unit.test_fstab_sources import OTHER, UUID, host

DATA = f"UUID={UUID} /data ext4 defaults,nofail 0 2"
DISKS = "LABEL=d1 /mnt/disk1 ext4 defaults 0 2\nLABEL=d2 /mnt/disk2 ext4 defaults 0 2"
NEEDS = "x-systemd.requires-mounts-for="
FREE = DISKS.replace("defaults", "nofail")


def codes(*lines):
    remarks = lint(parse(("\n".join(lines) + "\n").encode()))
    return [one for one in remarks if one.code in {"needs-nofail", "union-order"}]


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ((DATA, "/data/home /home none bind 0 0"), 1),
        ((DATA, "LABEL=x /data/inner xfs defaults 0 2"), 1),
        ((DATA, "tmpfs /data/tmp tmpfs size=1G 0 0"), 1),
        (
            (DATA.replace("nofail", "noauto"), "/data/home /home none bind 0 0"),
            1,
        ),  # the bind pulls it in
        (("/data/home /home none rbind 0 0", DATA), 1),
        ((DATA, "/img /srv ext4 loop,x-systemd.requires-mounts-for=/data/x 0 0"), 1),
        ((DATA, "/data/home /home none bind,nofail 0 0"), 0),
        ((DATA, "/data/home /home none bind,noauto 0 0"), 0),
        ((DATA, "/data/home /home none bind,x-systemd.automount 0 0"), 0),
        (
            (
                DATA.replace("nofail", "nofail,x-systemd.automount"),
                "/data/home /home none bind 0 0",
            ),
            0,
        ),
        ((DATA.replace(",nofail", ""), "/data/home /home none bind 0 0"), 0),
        (
            ("nas:/x /data nfs4 nofail 0 0", "/data/home /home none bind 0 0"),
            0,
        ),  # told as waiting for the network
        ((DATA, "/data/swap none swap sw 0 0"), 0),  # a boot goes on without it
        ((DATA, "nas:/x /data/nas nfs4 defaults 0 0"), 0),  # of the network nothing ends a boot
        ((DATA, "/database /home none bind 0 0"), 0),
        (
            (DATA, "overlay /pool overlay lowerdir=/usr/share:/data/low,x-systemd.after=/data 0 0"),
            1,
        ),
        (
            (
                DATA,
                "overlay /pool overlay lowerdir=/usr/share:/data/low,x-systemd.after=/data,nofail 0 0",
            ),
            0,
        ),
        (
            (DATA, "overlay /pool overlay lowerdir=/usr/share:/data,x-systemd.after=/data 0 0"),
            0,
        ),  # the folder is there
        ((DATA, "/data:/srv/b /pool fuse.mergerfs x-systemd.requires=/data 0 0"), 1),
        ((DATA, "/data:/srv/b /pool fuse.mergerfs x-systemd.requires=data.mount 0 0"), 1),
        (
            (
                DATA,
                "/data:/srv/b /pool fuse.mergerfs x-systemd.requires=/data/b,x-systemd.after=/data 0 0",
            ),
            0,
        ),  # another unit
        ((DATA, "/data:/srv/b /pool fuse.mergerfs x-systemd.after=/data 0 0"), 0),
        ((DATA, "/data:/srv/b /pool fuse.mergerfs x-systemd.requires=/data,nofail 0 0"), 0),
        ((DATA, "LABEL=x /srv/b ext4 x-systemd.requires=zfs-mount.service 0 2"), 0),
    ],
)
def test_line_without_nofail_on_a_disk_that_may_be_missing(lines, count):
    assert [one.code for one in codes(*lines)] == ["needs-nofail"] * count


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("/mnt/disk1:/mnt/disk2 /pool fuse.mergerfs defaults 0 0", 1),
        ("/mnt/disk1=RW,10G:/mnt/disk2=NC /pool mergerfs defaults,nofail 0 0", 1),
        ("/mnt/disk* /pool fuse.mergerfs defaults 0 0", 1),
        ("/mnt/*/data /pool fuse.mergerfs defaults 0 0", 1),
        ("mergerfs#/mnt/disk1:/mnt/disk2 /pool fuse defaults 0 0", 1),
        ("mhddfs#/mnt/disk1,/mnt/disk2 /pool fuse defaults 0 0", 1),
        ("/mnt/disk1=RW:/mnt/disk2=RO /pool fuse.unionfs-fuse cow 0 0", 1),
        ("none /pool aufs br=/mnt/disk1=rw:/mnt/disk2=ro 0 0", 1),
        (
            "overlay /pool overlay lowerdir=/usr/share:/mnt/disk1/low,upperdir=/mnt/disk2/u,workdir=/mnt/disk2/w 0 0",
            1,
        ),
        (
            "/mnt/disk1:/mnt/disk2 /pool fuse.mergerfs x-systemd.requires-mounts-for=/mnt/disk1 0 0",
            1,
        ),  # of one only
        ("/mnt/disk* /mnt/disk0 fuse.mergerfs defaults 0 0", 1),
        (
            f"/mnt/disk* /pool fuse.mergerfs {NEEDS}/mnt/disk1,{NEEDS}/mnt/disk2/x 0 0",
            0,
        ),
        (
            "/mnt/disk* /pool fuse.mergerfs x-systemd.requires=/mnt/disk1,x-systemd.after=mnt-disk2.mount 0 0",
            0,
        ),
        ("/mnt/disk* /pool fuse.mergerfs x-systemd.after=local-fs.target,nofail 0 0", 0),
        ("/mnt/disk* /pool fuse.mergerfs branches-mount-timeout=30 0 0", 0),
        ("/mnt/disk* /pool fuse.mergerfs branches-mount-timeout=0 0 0", 1),
        ("/mnt/disk* /pool fuse.mergerfs noauto 0 0", 0),
        ("/mnt/disk* /pool fuse.mergerfs nofail,x-systemd.automount 0 0", 0),
        (
            "/mnt/disk1 /pool fuse.mergerfs defaults 0 0",
            0,
        ),  # systemd waits for the one path of its first field
        ("/srv/a:/srv/b /pool fuse.mergerfs defaults 0 0", 0),
        ("/mnt/other* /pool fuse.mergerfs defaults 0 0", 0),
        ("overlay /pool overlay lowerdir=/usr/a:/usr/b 0 0", 0),
    ],
)
def test_union_without_an_order_on_its_branches(line, count):
    assert [one.code for one in codes(DISKS, line)] == ["union-order"] * count


def test_union_names_the_branches_and_what_to_add():
    (found,) = codes(DISKS, "/mnt/disk* /pool fuse.mergerfs defaults 0 0")
    assert (
        "its branches /mnt/disk1 (line 1), /mnt/disk2 (line 2): where it comes first"
        in found.message
    )
    assert (
        found.todo
        == "add x-systemd.requires-mounts-for=/mnt/disk1,x-systemd.requires-mounts-for=/mnt/disk2"
    )
    (found,) = codes(FREE, "/mnt/disk* /pool fuse.mergerfs nofail 0 0")
    assert (
        found.todo == "add x-systemd.after=/mnt/disk1,x-systemd.after=/mnt/disk2"
    )  # each may be missing


GFS = "gluster1:/vol0 /gfs glusterfs defaults,_netdev 0 0"  # systemd/systemd#14067
OVER_GFS = "overlay /srv/ov overlay lowerdir=/srv/lower,upperdir=/gfs/up,workdir=/gfs/work"


def test_union_on_the_network_is_to_be_counted_among_the_network():
    """Else what systemd counts among the disks waits for the network (ordering cycle)."""
    (found,) = codes(GFS, f"{OVER_GFS} 0 0")
    assert found.todo == f"add _netdev,{NEEDS}/gfs"
    (found,) = codes(GFS, f"{OVER_GFS},_netdev 0 0")
    assert found.todo == f"add {NEEDS}/gfs"
    assert codes(GFS, f"{OVER_GFS},_netdev,{NEEDS}/gfs 0 0") == []
    assert (
        codes(DISKS, "/mnt/disk1:/mnt/disk2 /pool fuse.mergerfs _netdev 0 0") == []
    )  # after all disks


LOCKED = (
    ("sda2", "/dev/sda2", "ext4", "", "0a11-22", "", ""),
    ("sdb", "/dev/sdb", "crypto_LUKS", "", OTHER, "", ""),
)


@pytest.mark.parametrize(
    ("crypttab", "nofail", "is_fault"),
    [
        ("", "", True),
        ("", ",nofail", False),
        ("data /dev/sdb none luks\n", "", False),
        ("x /dev/sdb none noauto\n", "", True),
    ],
)
def test_bind_on_a_disk_that_no_boot_opens_ends_the_boot(crypttab, nofail, is_fault):
    line = f"LABEL=Data1 /data ext4 nofail 0 2\n/data/home /home none bind{nofail} 0 0"
    more = {"/etc/crypttab": crypttab, "/sys/block/sdb/device/model": "x\n"}
    found = [
        one
        for one in look_at_boot_lines(host(line, held=LOCKED, more=more))
        if one.fault and one.target == "/home"
    ]
    assert bool(found) is is_fault
    assert not found or re.search(
        r"sudo cryptsetup open /dev/sdb (?:sdb_crypt\n.* tee|x\n.*take noauto out)",
        found[0].way_out,
    )


def test_branches_are_bounded():
    assert len(branches_of("fuse.mergerfs", ":".join(f"/b{n}" for n in range(1000)), ())) == 256
    assert branches_of("fuse.mergerfs", f"/a:{'/b' * 129}:{'/c' * 2000}", ()) == ("/a",)


@pytest.mark.parametrize(("nofail", "is_fault"), [("", True), (",nofail", False)])
def test_bind_on_a_disk_that_is_missing_ends_the_boot(nofail, is_fault):
    line = f"UUID={OTHER} /data ext4 nofail 0 2\n/data/home /home none bind{nofail} 0 0"
    found = [one for one in look_at_boot_lines(host(line)) if one.fault]
    assert [one.target for one in found] == ["/home"] * is_fault
    if is_fault:
        assert (
            "is on /data (line 1 of /etc/fstab), which the next boot does not mount"
            in found[0].fault
        )


@pytest.mark.parametrize(
    ("union", "relation"),
    [
        ("/data:/srv/b /pool fuse.mergerfs x-systemd.requires=/data 0 0", "requires"),
        (
            "/srv/b:/data /pool fuse.mergerfs x-systemd.requires=/srv/b,x-systemd.requires=/data 0 0",
            "requires",
        ),
        (
            "overlay /pool overlay lowerdir=/usr/share:/data/low,x-systemd.after=/data 0 0",
            "has a branch on",
        ),
    ],
)
def test_union_of_a_disk_that_is_missing_ends_the_boot(union, relation):
    there = f"\nUUID={UUID} /srv/b ext4 nofail 0 2"
    found = [
        one
        for one in look_at_boot_lines(host(f"UUID={OTHER} /data ext4 nofail 0 2\n{union}{there}"))
        if one.fault
    ]
    assert [one.target for one in found] == ["/pool"]
    assert (
        f"{relation} /data (line 1 of /etc/fstab), which the next boot does not mount"
        in found[0].fault
    )


def test_bind_on_a_disk_that_is_there_is_noted():
    facts = host(
        f"{DATA}\n/data/home /home none bind 0 0",
        "31 22 8:16 / /data rw shared:9 - ext4 /dev/sdb rw\n",
    )
    found = [one for one in look_at_boot_lines(facts) if one.note or one.fault]
    assert [(one.target, one.fault) for one in found] == [("/home", "")]
