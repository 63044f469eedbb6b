"""Slow targets of writes, and the limit of the host that their shares are of."""

import re

import pytest

from hosttune.facts import Facts, UnknownFact
from tests.unit.fake_reader import FakeReader

MOUNTS = """\
20 1 0:50 / /home rw shared:1 - nfs4 nfs01:/home rw,vers=4.2
21 1 0:50 /a /other rw shared:2 - nfs4 nfs01:/home rw,vers=4.2
22 1 0:51 / /var/lib/kubelet/pods/x/volumes/y rw shared:3 - nfs nfs02:/v rw
23 1 0:52 / /sets ro shared:4 - nfs nfs02:/sets rw
24 1 0:53 / /share rw shared:5 - cifs //nas/a rw
25 1 0:54 / /more rw shared:5 - cifs //nas/b rw
26 1 0:55 / /lustre rw shared:6 - lustre mgs:/x rw
"""
VM = "/proc/sys/vm"
VOLUMES = """\
NV SERVER   PORT DEV     FSID                              FSC
v4 0a000001  801 0:50    a1:0                              no
v3 0a000002  801 0:51    b2:7                              no
"""


def writeback(ratio="20", limit="0", **files):
    own = {
        "/proc/self/mountinfo": MOUNTS, "/sys/block/sda/size": "0\n", "/proc/meminfo": "MemTotal: 1048576 kB\n",
        f"{VM}/dirty_ratio": f"{ratio}\n", f"{VM}/dirty_bytes": f"{limit}\n", f"{VM}/dirty_background_ratio": "10\n",
        f"{VM}/dirty_background_bytes": "0\n", "/proc/fs/nfsfs/volumes": VOLUMES,
        "/var/lib/dpkg/status": "",
    }  # fmt: skip
    return Facts(FakeReader({**own, **files})).writeback


def test_targets_that_are_written_to_once_for_each_backing_device():
    seen = [(one.target, one.bdi) for one in writeback().slow]
    assert seen == [("/home", "/sys/class/bdi/0:50"), ("/more", "/sys/class/bdi/cifs-*")]


@pytest.mark.parametrize(
    ("ratio", "limit", "expected"),
    [("20", "0", 2**30 // 5), ("0", "629145600", 629145600), ("40", "0", 2**30 * 2 // 5)],
)
def test_limit_of_the_host_is_the_spelling_in_force(ratio, limit, expected):
    assert writeback(ratio, limit).limit_bytes == expected


def test_export_over_rdma_is_not_slow():
    over = MOUNTS.replace("- nfs4 ", "- nfs4 ").replace(" rw,vers=4.2", " rw,vers=4.2,proto=rdma")
    assert over != MOUNTS
    assert [one.target for one in writeback(**{"/proc/self/mountinfo": over}).slow] == ["/more"]


@pytest.mark.parametrize(
    ("option", "has_more"), [("nconnect=8", True), ("nconnect=1", False), ("noac", False)]
)
def test_several_connections_to_a_server_are_known(option, has_more):
    over = MOUNTS.replace(" rw,vers=4.2", f" rw,vers=4.2,{option}")
    assert over != MOUNTS
    found = writeback(**{"/proc/self/mountinfo": over}).slow
    assert found[0].has_more_connections is has_more
    assert not found[1].has_more_connections


def test_limit_that_could_not_be_read_is_unknown():
    with pytest.raises(UnknownFact):
        _ = writeback(ratio="x").limit_bytes


def test_mounts_that_could_not_be_read_are_unknown():
    with pytest.raises(UnknownFact):
        _ = Facts(FakeReader({})).writeback.slow


def test_udev_knows_an_export_by_its_server_and_number_and_no_other():
    (home, _) = writeback().slow
    assert home.match == (
        "PROGRAM==\"/bin/grep -qE '^v[0-9]+ 0a000001 +[0-9a-f]+ +$kernel +a1:0 ' /proc/fs/nfsfs/volumes\""
    )
    pattern = home.match.split("'")[1]
    then = VOLUMES.replace("0:50", "0:77")  # the superblock's number after a boot
    assert [
        bool(re.search(f"(?m){pattern.replace('$kernel', device)}", then))
        for device in ("0:77", "0:51")
    ] == [
        True,
        False,
    ]


def test_export_that_the_kernel_does_not_list_is_unknown():
    (home, _) = writeback(**{"/proc/fs/nfsfs/volumes": "NV\n"}).slow
    with pytest.raises(UnknownFact, match="does not list 0:50"):
        _ = home.match


def test_shares_of_a_kubernetes_node_may_be_those_of_pods():
    files = {"/var/lib/kubelet/config.yaml": ""}
    assert [one.target for one in writeback(**files).slow] == ["/home"]


def test_server_that_a_user_chose_is_no_target():
    """Who looks at /net/SERVER has autofs mount what that server exports (auto.master(5))."""
    more = (
        "80 1 0:60 / /net rw - autofs -hosts rw,fd=6\n"
        "95 80 0:61 / /net/evil/x rw - nfs4 evil:/x rw\n"
    )
    seen = writeback(**{"/proc/self/mountinfo": MOUNTS + more}).slow
    assert [one.target for one in seen] == ["/home", "/more"]
