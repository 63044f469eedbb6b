"""Arrays of the kernel's RAID, from /proc/mdstat, and of LVM, from dmsetup; the formats are those
of drivers/md.
"""

from __future__ import annotations

import pytest

from hosttune.actions.record.encode import encode_record
from hosttune.facts import Facts
from hosttune.facts.base import UnknownFact
from hosttune.facts.storage.raid import VOLUMES, parse_mdstat, parse_volumes
from hosttune.host.door import Completed
from hosttune.host.record.record import RecordingReader, RecordReader
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
def test_array_with_its_members_and_what_goes_on(
    text, level, wanted, missing, failed, sync, percent
):
    array = one(text)
    assert (array.level, array.wanted, array.missing, array.failed) == (
        level,
        wanted,
        missing,
        failed,
    )
    assert (array.sync, array.percent, array.is_active, array.is_container) == (
        sync,
        percent,
        True,
        False,
    )


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
    array = one(
        f"md0 : active {level} sdb1[1] sda1[0]\n      976630464 blocks super 1.2 {layout} {count}\n"
    )
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
    assert (
        Facts(FakeReader({"/proc/mdstat": Unreadable("no")}, folders=("/sys/block",))).raid.arrays
        == ()
    )
    hidden = Facts(
        FakeReader({"/sys/block/md0/size": "1\n", "/proc/mdstat": Unreadable("permission denied")})
    )
    with pytest.raises(UnknownFact, match="permission denied"):
        _ = hidden.raid.arrays


def volume(status, pulled=frozenset(), name="vg-lv"):
    (array,) = parse_volumes(f"{name}: 0 8192 raid {status}\n", {"vg-lv": pulled}).values()
    return array


@pytest.mark.parametrize(
    ("status", "level", "wanted", "missing", "sync", "percent"),
    [
        ("raid1 2 AA 8192/8192 idle 0 0 -", "raid1", 2, 0, "", -1),
        ("raid1 2 aa 512/8192 resync 0 0 -", "raid1", 2, 0, "resync", 6.2),
        ("raid1 2 Aa 4096/8192 recover 0 0 -", "raid1", 2, 1, "recovery", 50.0),
        ("raid1 2 Aa 8192/8192 idle 0 0 -", "raid1", 2, 1, "", -1),
        ("raid1 2 aA 0/8192 frozen 0 0 -", "raid1", 2, 1, "", -1),
        ("raid1 2 aD 512/8192 resync 0 0 -", "raid1", 2, 1, "resync", 6.2),
        ("raid1 3 AA- 8192/8192 idle 0 0 -", "raid1", 3, 1, "", -1),
        ("raid6_zr 5 AAAAA 512/8192 check 0 0 -", "raid6", 5, 0, "", -1),
        ("raid5_ls 3 aaa 512/8192 reshape 0 2048 -", "raid5", 3, 0, "reshape", 6.2),
        ("raid10_near 4 ADAA 8192/8192 idle 0 0 -", "raid10", 4, 1, "", -1),
        ("raid0 2 AA 8192/8192 idle 0 0 -", "raid0", 0, 0, "", -1),
        ("raid4 5 AAAAA 2/8192", "raid4", 5, 0, "", -1),  # before version 1.5 of the target
    ],
)
def test_volume_of_lvm_with_its_members_and_what_goes_on(
    status, level, wanted, missing, sync, percent
):
    array = volume(status)
    assert (array.level, array.wanted, array.missing, array.sync, array.percent) == (
        level,
        wanted,
        missing,
        sync,
        percent,
    )
    assert (array.kind, array.is_active, array.is_container, array.is_lost, array.gone) == (
        "LVM",
        True,
        False,
        False,
        (),
    )


@pytest.mark.parametrize(
    ("status", "is_lost"),
    [
        ("raid5_ls 3 ADD 1/1 idle 0", True), ("raid5_ls 3 AAD 1/1 idle 0", False), ("raid6_zr 5 AAADD 1/1 idle 0", False),
        ("raid6_zr 5 AADDD 1/1 idle 0", True), ("raid1 2 DD 1/1 idle 0", True), ("raid10 4 DDAA 1/1 idle 0", True),
        ("raid10_near 4 ADDA 1/1 idle 0", False), ("raid10_offset 4 DAAD 1/1 idle 0", True),
    ],
)  # fmt: skip
def test_volume_of_lvm_that_misses_more_than_its_level_can(status, is_lost):
    assert volume(status).is_lost is is_lost


def test_member_of_lvm_that_was_pulled_counts_before_the_kernel_meets_it():
    array = volume("raid1 2 AA 1/1 idle 0 0 -", frozenset({1}))
    assert (array.missing, array.failed) == (1, ("vg-lv_rimage_1",))
    striped = volume("raid0 2 AA 1/1 idle 0 0 -", frozenset({0}))
    assert (striped.missing, striped.failed, striped.gone) == (0, (), ("vg-lv_rimage_0",))


def test_mismatches_of_lvm_count_where_there_is_parity():
    assert volume("raid6_zr 5 AAAAA 1/1 idle 128 0 -").mismatches == 128
    assert volume("raid1 2 AA 1/1 idle 128 0 -").mismatches == 0


# As Linux 6.1 of Debian 12 told them after a disk was pulled and all were written to, one of them
# under repair.
REAL = """\
vg--a-lin: 0 32768 raid raid1 2 AA 32768/32768 idle 0 0 -
vg--a-mir: 0 32768 raid raid1 2 Aa 8704/32768 recover 0 0 -
vg--a-par: 0 32768 raid raid5_ls 3 ADA 16384/16384 idle 0 0 -
vg--a-six: 0 12288 raid raid6_zr 5 ADAAA 4096/4096 idle 0 0 -
vg--a-str: 0 16384 raid raid0 2 AA 8192/8192 idle 0 0 -
vg--a-ten: 0 16384 raid raid10 4 ADAA 16384/16384 idle 0 0 -
"""


def test_volumes_of_which_a_disk_was_pulled():
    found = parse_volumes(REAL, {"vg--a-str": frozenset({1})}).values()
    assert [(one.level, one.missing, one.sync, one.is_lost, len(one.gone)) for one in found] == [
        ("raid1", 0, "", False, 0), ("raid1", 1, "recovery", False, 0), ("raid5", 1, "", False, 0),
        ("raid6", 1, "", False, 0), ("raid0", 0, "", False, 1), ("raid10", 1, "", False, 0),
    ]  # fmt: skip


def test_line_of_dmsetup_that_is_no_volume():
    assert parse_volumes("", {}) == {}
    for row in ("No devices found", "vg-lv: 0 8192 raid gone fishing", "vg-lv: 0 8192 linear"):
        with pytest.raises(ValueError, match="which is no RAID volume"):
            parse_volumes(f"{row}\n", {})


LVM = {
    "/sys/block/dm-0/dm/uuid": "LVM-a\n", "/sys/block/dm-0/dm/name": "vg--a-lv_rimage_0\n", "/sys/block/dm-0/slaves/sda/dev": "",
    "/sys/block/dm-1/dm/uuid": "LVM-b\n", "/sys/block/dm-1/dm/name": "vg--a-lv_rimage_1\n", "/sys/block/dm-1/slaves/sdb/dev": "",
    "/sys/block/dm-2/dm/uuid": "LVM-c\n", "/sys/block/dm-2/dm/name": "vg--a-lv\n",
    "/sys/class/block/sda/dev": "8:0\n", "/sys/class/block/sdb/dev": "8:16\n",
}  # fmt: skip
ROW = "vg--a-lv: 0 8192 raid raid1 2 AA 8192/8192 idle 0 0 -\n"


def volumes(files=LVM, said=ROW, **more):
    reader = FakeReader(files, queries={VOLUMES: said} if said else {}, **more)
    return Facts(reader).raid.arrays, reader


def test_volume_is_called_as_lvm_calls_it_and_asked_for_in_one_call():
    (array,), reader = volumes()
    assert (array.name, array.missing, array.level) == ("vg-a/lv", 0, "raid1")
    assert reader.asked == [VOLUMES]


def test_volume_below_a_snapshot_and_one_that_is_really_called_so():
    (array,), _ = volumes(said=ROW.replace("-lv:", "-lv-real:"))
    assert (array.name, array.missing) == ("vg-a/lv", 0)
    assert volume("raid1 2 AD 1/1 idle 0 0 -", name="vg-lv-real").failed == ("vg-lv_rimage_1",)
    named = {path: text.replace("vg--a-lv", "x-real") for path, text in LVM.items()}
    (array,), _ = volumes(named, ROW.replace("vg--a-lv", "x-real").replace("AA", "AD"))
    assert (array.name, array.failed) == ("x/real", ("x-real_rimage_1",))


def test_disk_that_is_gone_below_a_member():
    (array,), _ = volumes(
        {path: text for path, text in LVM.items() if path != "/sys/class/block/sdb/dev"}
    )
    assert (array.missing, array.failed) == (1, ("vg--a-lv_rimage_1",))


@pytest.mark.parametrize(
    ("said", "more", "reason"),
    [
        (ROW, {"is_privileged": False}, "needs root: how the RAID volumes"),
        ("", {}, "dmsetup is not installed"),
        (Unreadable("dmsetup did not end within 10 s"), {}, "did not end within"),
        (
            Completed(1, b"", b"Permission denied\n"),
            {},
            "dmsetup ended with status 1: Permission denied",
        ),
        (ROW.replace("--a", "--b"), {}, "dmsetup tells nothing of vg--a-lv"),
        ("No devices found\n", {}, "which is no RAID volume"),
        (ROW, {"unreadable": {"/sys/class/block": "no sysfs"}}, "no sysfs"),
    ],
)
def test_volume_that_cannot_be_asked_for_is_there_and_unknown(said, more, reason):
    (array,), _ = volumes(said=said, **more)
    assert (array.name, array.kind, array.is_broken) == ("vg-a/lv", "LVM", False)
    for field in ("level", "missing", "is_lost", "gone", "sync", "mismatches"):
        with pytest.raises(UnknownFact, match=reason):
            getattr(array, field)


def test_nothing_is_asked_where_lvm_has_no_raid():
    plain = {"/sys/block/dm-0/dm/uuid": "LVM-a\n", "/sys/block/dm-0/dm/name": "vg-data\n"}
    other = {
        "/sys/block/dm-1/dm/uuid": "CRYPT-LUKS2-a\n",
        "/sys/block/dm-1/dm/name": "own_rimage_0\n",
    }
    found, reader = volumes({**plain, **other})
    assert (found, reader.asked) == ((), [])


def test_record_of_an_earlier_version_has_no_answer_of_dmsetup():
    recorder = RecordingReader(FakeReader(LVM, queries={VOLUMES: ROW}))
    assert Facts(recorder).raid.arrays[0].missing == 0
    record = encode_record(recorder, share=False, tool_version="1")
    assert Facts(RecordReader(record, "a.json")).raid.arrays[0].missing == 0
    old = {**record, "queries": []}
    (array,) = Facts(RecordReader(old, "a.json")).raid.arrays
    with pytest.raises(UnknownFact, match="not in this record"):
        _ = array.missing


def block(name, number, *slaves, **more):
    base = f"/sys/block/{name}"
    files = {
        f"{base}/dev": number,
        f"{base}/size": "2048",
        **{f"{base}/{path}": text for path, text in more.items()},
    }
    return files | {f"{base}/slaves/{slave}/dev": "" for slave in slaves}


@pytest.mark.parametrize(
    "text",
    [
        "md127 : active raid1 loop3p1[0]\n      1 blocks super 1.2 [2/1] [U_]\n",
        "md127 : inactive loop3p1[0](S)\n      1 blocks super 1.2\n",
        "md127 : broken raid0 loop3p1[0] dm-7[1]\n      1 blocks super 1.2 512k chunks\n",
    ],
)
def test_array_of_a_users_images_is_no_fault_of_the_host(text):
    """udisks2 makes a loop device of any file of a user, and udev assembles the array that is on
    it.
    """
    files = {
        "/proc/mdstat": HEAD + RAID5 + text + TAIL, **block("md0", "9:0"), **block("md127", "9:127"),
        **block("loop3", "7:3"), "/sys/block/loop3/loop3p1/partition": "1", "/sys/block/loop3/loop3p1/dev": "259:1",
        "/sys/block/loop3/loop3p1/size": "2048", **block("dm-7", "253:7", "loop3p1"), **block("sda", "8:0"),
    }  # fmt: skip
    assert [one.name for one in Facts(FakeReader(files)).raid.arrays] == ["md0"]


def test_array_with_one_disk_of_the_host_counts():
    text = "md127 : active raid1 loop3[0] sda[1](F)\n      1 blocks super 1.2 [2/1] [U_]\n"
    files = {
        "/proc/mdstat": HEAD + text + TAIL,
        **block("md127", "9:127"),
        **block("loop3", "7:3"),
        **block("sda", "8:0"),
    }
    assert [one.missing for one in Facts(FakeReader(files)).raid.arrays] == [1]


def test_raid_volume_of_a_users_images_is_no_fault_of_the_host():
    named = {"dm/name": "evil-raid_rimage_0\n", "dm/uuid": "LVM-x\n"}
    files = {**block("loop3", "7:3"), **block("dm-0", "253:0", "loop3", **named)}
    assert Facts(FakeReader(files, is_privileged=True)).raid.arrays == ()
