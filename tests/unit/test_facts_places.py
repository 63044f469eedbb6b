"""Places that fill up, and folders of caches."""

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.base import known_items
from hosttune.host.door import Space
from hosttune.values import NeverAsked, Unreadable
from tests.unit.fake_reader import FakeReader

MOUNTS = """\
20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
21 20 0:30 / /tmp rw shared:2 - tmpfs tmpfs rw
22 20 8:2 / /data rw shared:3 - btrfs /dev/sda2 rw
23 20 0:50 / /home rw shared:4 - nfs4 nfs:/home rw
24 20 7:0 / /snap/x ro shared:5 - squashfs /dev/loop0 ro
"""
SPACES = {
    "/": Space(1000, 100, 50, 25),
    "/tmp": Space(400, 400, 9, 9),
    "/data": Space(2000, 3, 0, 0),
}


def places(environment="", **options):
    files = {
        "/proc/self/mountinfo": MOUNTS, "/sys/block/sda/size": "0\n", "/etc/environment": environment,
        "/var/lib/docker/x": "", "/tmp/x": "", "/home/alice/x": "", "/snap/x/y": "", "/data/hf/x": "",
    }  # fmt: skip
    return Facts(FakeReader(files, spaces=SPACES, **options)).places


def test_places_with_what_lies_on_them():
    seen = {one.target: one for one in places().all}
    assert {name: one.holds for name, one in seen.items()} == {
        "/": ("/var", "/var/lib/docker"),
        "/tmp": (),
        "/data": (),
    }
    assert (seen["/"].free_percent, seen["/"].free_inodes_percent, seen["/tmp"].is_memory) == (
        10.0,
        50.0,
        True,
    )
    assert seen["/data"].free_inodes_percent == 100.0


def test_caches_tell_network_memory_and_what_is_missing():
    seen = places(
        "TRITON_CACHE_DIR=/home/cache\nHF_HOME=/data/hf\nTORCH_HOME=/data/torch\nTMPDIR=/tmp\nPIP_CACHE_DIR=~/x\n"
    )
    assert [
        (one.name, one.exists, one.is_network, one.is_memory, one.holds_compiled)
        for one in seen.caches
    ] == [
        ("TRITON_CACHE_DIR", True, True, False, True),
        ("HF_HOME", True, False, False, False),
        ("TORCH_HOME", False, False, False, False),
        ("TMPDIR", True, False, True, True),
    ]


def test_places_without_mounts_are_unknown():
    with pytest.raises(UnknownFact):
        _ = Facts(FakeReader({})).places.all


@pytest.mark.parametrize("mounted", ["nfs4 nfs:/x", "fuse.mergerfs a:b", "lustre mgs@tcp:/x"])
def test_nothing_is_asked_of_what_may_wait_for_a_server(mounted):
    far = ("/home", "/cache", "/var/crash", "/var/lib/docker")
    lines = (
        f"{number} 20 0:{number} / {path} rw - {mounted} rw\n"
        for number, path in enumerate(far, 30)
    )
    files = {
        "/proc/self/mountinfo": MOUNTS.partition("23 ")[0] + "".join(lines), "/etc/environment": "HF_HOME=/link/hf\n",
        "/var/lib/dpkg/status": "Package: docker-ce\nStatus: install ok installed\nVersion: 5:28.0.1-1\n\n",
        **{f"{path}/x": "" for path in ("/tmp", *far)},
    }  # fmt: skip
    reader = FakeReader(files, links={"/link": "/cache"}, spaces=SPACES)
    facts = Facts(reader)
    assert ([one.target for one in facts.places.all], facts.core_dumps.kept) == (
        ["/", "/data", "/tmp"],
        (),
    )
    assert (
        [one.exists for one in facts.places.caches],
        [one.path for one in facts.stores.all],
    ) == (
        [True],
        ["/var/lib/docker"],
    )
    assert not [path for path in reader.seen if path.startswith(("/link/", *far))]


def test_full_disk_that_a_user_mounted_over_is_not_known_to_have_room():
    """fusermount3(1) lets users mount over each folder that they may write."""
    over = "30 22 0:77 / /data rw,nosuid,nodev - fuse.x x rw,user_id=4001,group_id=4001\n"
    files = {"/proc/self/mountinfo": MOUNTS + over, "/sys/block/sda/size": "0\n"}
    found = Facts(FakeReader(files, spaces=SPACES)).places
    assert [one.target for one in known_items(found.all)] == ["/", "/tmp"]
    with pytest.raises(UnknownFact, match="a user mounted a file system over /data"):
        list(found.all)


def test_a_record_of_before_without_the_space_of_run_is_read():
    rows = MOUNTS + "25 20 0:24 / /run rw shared:6 - tmpfs tmpfs rw\n"
    files = {"/proc/self/mountinfo": rows, "/sys/block/sda/size": "0\n"}
    unasked = Unreadable(NeverAsked("this record lacks it"))
    for space, named in ((unasked, False), (Space(100, 1, 9, 9), True)):
        reader = FakeReader(files, spaces={**SPACES, "/run": space})
        assert ("/run" in {one.target for one in Facts(reader).places.all}) is named
