"""FUSE file systems whose program has ended, found without a look at them."""

from dataclasses import replace

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.host.door import Process
from hosttune.host.reading.bounded import CUT
from tests.unit.fake_reader import FakeReader

MOUNTS = """\
20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
21 20 0:60 / /nas rw shared:2 - fuse.mergerfs nas rw,user_id=0,group_id=0,allow_other
22 20 0:61 / /var/lib/lxcfs rw shared:3 - fuse.lxcfs lxcfs rw,user_id=0,group_id=0,allow_other
23 20 0:62 / /run/user/1000/gvfs rw shared:4 - fuse.gvfsd-fuse gvfsd-fuse rw,user_id=1000,group_id=1000
24 20 0:63 / /var/lib/kubelet/pods/x/volumes/y rw shared:5 - fuse bucket rw,user_id=0,group_id=0
25 20 0:64 / /sys/fs/fuse/connections rw shared:6 - fusectl fusectl rw
"""
LXCFS = ("lxcfs", "/var/lib/lxcfs")
MERGERFS = ("mergerfs", "/disk*", "/nas/", "-o", "rw")


def server(pid, command, devices=("/dev/fuse",)):
    return Process(pid, command[0], "root", tuple(command), 0, 0, tuple(devices), "/", 0.0, uid=0)


def dead(*processes, mounts=MOUNTS, fstab="", **options):
    files = {"/proc/self/mountinfo": mounts, "/sys/block/sda/size": "0\n", "/etc/fstab": fstab}
    return Facts(FakeReader(files, processes=processes, **options)).fuse.dead


def test_one_without_a_process_that_serves_it_is_dead():
    (one,) = dead(server(1, LXCFS))
    assert (one.target, one.source, one.fstype) == ("/nas", "nas", "fuse.mergerfs")
    assert one.way_out == "sudo umount -l /nas, and start what mounted it (no line of fstab has it)"
    (one,) = dead(server(1, LXCFS), fstab="/disk*/nas /nas fuse.mergerfs defaults 0 0\n")
    assert one.way_out == "sudo umount -l /nas && sudo mount /nas"


def test_one_that_is_served_is_not():
    assert dead(server(1, LXCFS), server(2, MERGERFS)) == ()


@pytest.mark.parametrize(
    "other",
    [server(3, ("rclone", "rcd")), server(3, ("gvfsd",), [CUT])],
    ids=["names no folder", "not all seen"],
)
def test_a_process_that_may_serve_any_of_them_leaves_it_open(other):
    assert dead(server(1, LXCFS), other) == ()


def test_a_process_of_a_person_that_names_no_folder_is_of_a_mount_of_that_person():
    app = replace(server(5, ("/home/a/x.AppImage",)), uid=1000)
    assert [one.target for one in dead(server(1, LXCFS), app)] == ["/nas"]
    assert dead(server(1, LXCFS), replace(server(5, MERGERFS), uid=1000)) == ()


def test_who_only_works_in_its_folder_does_not_serve_it():
    assert [one.target for one in dead(server(1, LXCFS), server(4, ("rsync", "/nas"), []))] == [
        "/nas"
    ]


def test_those_of_users_and_pods_are_not_looked_at():
    mounts = "".join(
        row + "\n" for row in MOUNTS.splitlines() if "0:60" not in row and "0:61" not in row
    )
    assert dead(mounts=mounts) == ()
    assert dead(mounts=mounts, is_privileged=False) == ()


def test_without_root_it_is_not_known():
    with pytest.raises(UnknownFact, match="needs root"):
        dead(server(1, LXCFS), is_privileged=False)


def test_nothing_is_asked_of_the_file_system():
    files = {"/proc/self/mountinfo": MOUNTS, "/sys/block/sda/size": "0\n"}
    reader = FakeReader(files, processes=(server(1, LXCFS),))
    assert len(Facts(reader).fuse.dead) == 1
    assert reader.asked == []
    assert not [path for path in reader.seen if path.startswith("/nas")]
