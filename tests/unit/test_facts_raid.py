"""Arrays of the kernel's RAID, from /proc/mdstat; the formats are those of drivers/md."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.facts.storage.raid import parse_mdstat
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

HEAD = "Personalities : [linear] [raid0] [raid1] [raid6] [raid5] [raid4] [raid10]\n"
RAID5 = "md0 : active raid5 sdd1[4] sdb1[1] sda1[0]\n      1 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/2] [UU_]\n"
RAID6 = "md5 : active raid6 sdd[3] sdc[2](W) sdb[1] sda[0](J)\n      1 blocks level 6, 64k chunk, algorithm 2 [5/3] [UUU__]\n"
TAIL = "\nunused devices: <none>\n"


def one(text):
    (array,) = parse_mdstat(HEAD + text + TAIL)
    return array


@pytest.mark.parametrize(
    ("text", "level", "wanted", "missing", "failed", "sync", "percent"),
    [
        ("md0 : active raid1 sdb1[1] sda1[0]\n      976630464 blocks super 1.2 [2/2] [UU]\n", "raid1", 2, 0, (), "", -1),
        ("md0 : active raid0 nvme3n1[3] nvme2n1[2]\n      29997998080 blocks super 1.2 512k chunks\n", "raid0", 0, 0, (), "", -1),
        ("md2 : active (auto-read-only) raid1 sdf1[0] sdg1[1](F)\n      1 blocks [2/1] [U_]\n", "raid1", 2, 1, ("sdg1",), "", -1),
        (
            f"{RAID6}      \tresync=DELAYED\n", "raid6", 5, 2, (), "resync", -1,
        ),
        (
            f"{RAID5}      [====>................]  recovery = 23.4% (1/2) finish=1.0min speed=1K/sec\n", "raid5", 3, 1, (), "recovery", 23.4,
        ),
        ("md0 : active raid1 sdb1[1] sda1[0]\n      1 blocks [2/2] [UU]\n      [>...]  check =  0.0% (1/2)\n", "raid1", 2, 0, (), "", -1),
    ],
)  # fmt: skip
def test_array_with_its_members_and_what_goes_on(text, level, wanted, missing, failed, sync, percent):
    array = one(text)
    assert (array.level, array.wanted, array.missing, array.failed) == (level, wanted, missing, failed)
    assert (array.sync, array.percent, array.is_active, array.is_container) == (sync, percent, True, False)


@pytest.mark.parametrize(
    ("level", "layout", "members", "is_lost"),
    [
        ("raid5", "level 5, 512k chunk, algorithm 2", "UU_", False), ("raid5", "level 5, 512k chunk", "U__", True),
        ("raid4", "level 4, 512k chunk", "U__", True), ("raid6", "level 6, 64k chunk", "UU__", False),
        ("raid6", "level 6, 64k chunk", "U___", True), ("raid1", "", "U__", False), ("raid1", "", "__", True),
        ("raid10", "512K chunks 2 near-copies", "U__U", False), ("raid10", "512K chunks 2 near-copies", "UU__", True),
        ("raid10", "512K chunks 2 near-copies", "UU_U_", False), ("raid10", "512K chunks 2 near-copies", "_UUU_", True),
        ("raid10", "512K chunks 2 far-copies", "U__U", True), ("raid10", "512K chunks 2 far-copies", "_U_U", False),
        ("raid10", "512K chunks 3 near-copies", "U__UUU", False), ("raid10", "2 near-copies 2 far-copies", "U__U", False),
    ],
)  # fmt: skip
def test_array_that_misses_more_than_its_level_can(level, layout, members, is_lost):
    count = f"[{len(members)}/{members.count('U')}] [{members}]"
    array = one(f"md0 : active {level} sdb1[1] sda1[0]\n      976630464 blocks super 1.2 {layout} {count}\n")
    assert array.is_lost is is_lost


def test_inactive_array_is_no_container_of_firmware_raid():
    broken, container = parse_mdstat(
        f"{HEAD}md127 : inactive sdb1[1](S) sda1[0](S)\n      1 blocks super 1.2\n\n"
        f"md128 : inactive sdb[1](S) sda[0](S)\n      1 blocks super external:imsm\n{TAIL}"
    )
    assert (broken.is_active, broken.is_container) == (False, False)
    assert (container.is_active, container.is_container) == (False, True)


def test_file_without_arrays_and_a_line_that_is_none():
    assert parse_mdstat(HEAD + TAIL) == ()
    with pytest.raises(ValueError, match="'md0 : gone fishing', which is no array"):
        parse_mdstat(HEAD + "md0 : gone fishing\n")


def test_file_is_read_only_where_there_is_an_array_and_unread_is_unknown():
    assert Facts(FakeReader({"/proc/mdstat": Unreadable("no")}, folders=("/sys/block",))).raid.arrays == ()
    hidden = Facts(FakeReader({"/sys/block/md0/size": "1\n", "/proc/mdstat": Unreadable("permission denied")}))
    with pytest.raises(UnknownFact, match="permission denied"):
        _ = hidden.raid.arrays
