"""Pools of ZFS and thin pools of LVM."""

from __future__ import annotations

import pytest

from hosttune.actions.record.encode import encode_record
from hosttune.facts import Facts, UnknownFact
from hosttune.facts.storage.pools import THIN, data_errors_in, erring_in, parse_thin, percent_of
from hosttune.host.door import Completed
from hosttune.host.record.record import RecordingReader, RecordReader
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader

STATE = "/proc/spl/kstat/zfs/tank/state"
STATUS = ("zpool", "status", "tank")
LIST = ("zpool", "list", "-H", "-o", "capacity", "tank")
SOUND = "  pool: tank\n state: ONLINE\nconfig:\n\n\ttank  ONLINE  0  0  0\n\nerrors: No known data errors\n"
DM = {"/sys/block/dm-0/dm/uuid": "LVM-Fx0-tpool\n", "/sys/block/dm-0/dm/name": "vg-pool-tpool\n"}
LINE = "vg-pool-tpool: 0 131072 thin-pool 0 224/2048 896/1024 - rw discard_passdown queue_if_no_space - 512 \n"


def pools(files=None, queries=None, **more):
    reader = FakeReader(files or {}, queries=queries or {}, **more)
    return Facts(reader).pools.all, reader


def test_pool_of_zfs():
    files = {STATE: "ONLINE\n", "/proc/spl/kstat/zfs/arcstats": "13 1\n"}
    (pool,), _ = pools(files, {STATUS: SOUND, LIST: "62%\n"})
    assert (pool.name, pool.kind, pool.stopped, pool.is_degraded, pool.data_errors) == (
        "tank",
        "ZFS",
        "",
        False,
        0,
    )
    assert pool.used_percent == 62.0
    assert pool.is_rebuilt is False


def config(*rows):
    return (
        "  pool: tank\nconfig:\n\n\tNAME STATE READ WRITE CKSUM\n"
        + "".join(f"\t{row}\n" for row in rows)
        + "\nerrors: x\n"
    )


def test_disks_with_errors_are_named_in_the_place_of_their_groups():
    rows = (
        "tank ONLINE 0 0 4",
        "  raidz1-0  ONLINE 0 0 4",
        "    sda ONLINE 0 0 0",
        "    sdb  ONLINE  0 0 4",
        "    sdc ONLINE 0 0 0",
    )
    assert erring_in(config(*rows), is_whole=True) == ("sdb (0 read, 0 write, 4 checksum)",)
    unattributed = (*rows[:3], rows[4])
    assert erring_in(config(*unattributed), is_whole=True) == (
        "raidz1-0 (0 read, 0 write, 4 checksum)",
    )


def test_cache_or_spare_that_failed_leaves_the_pool_whole():
    rows = (
        "tank ONLINE 0 0 0", "  sda ONLINE 0 0 0", "cache", "  nvme0n1  UNAVAIL 0 0 0  cannot open", "spares",
        "  sdd  AVAIL   ", "  sde   UNAVAIL   cannot open",
    )  # fmt: skip
    assert erring_in(config(*rows), is_whole=True) == ("nvme0n1 UNAVAIL", "sde UNAVAIL")
    assert erring_in(config(*rows), is_whole=False) == ()  # the state of the pool tells
    assert erring_in(SOUND, is_whole=True) == ()


@pytest.mark.parametrize("state", ["FAULTED", "SUSPENDED", "UNAVAIL"])
def test_pool_that_would_hold_who_asks_is_not_asked(state):
    (pool,), reader = pools({STATE: f"{state}\n"})
    assert (pool.stopped, pool.data_errors, pool.used_percent) == (state, 0, 0.0)
    assert reader.asked == []


def test_what_zpool_does_not_tell_is_unknown():
    (pool,), _ = pools(
        {STATE: "DEGRADED\n"},
        {STATUS: Completed(1, b"", b"Permission denied\n"), LIST: Unreadable("slow")},
    )
    assert pool.is_degraded is True
    with pytest.raises(UnknownFact, match="zpool ended with status 1: Permission denied"):
        _ = pool.data_errors
    with pytest.raises(UnknownFact, match="slow"):
        _ = pool.used_percent
    (bare,), _ = pools({STATE: "ONLINE\n"})
    with pytest.raises(UnknownFact, match="zpool is not installed"):
        _ = bare.data_errors


def test_name_that_zpool_could_take_for_an_option():
    (pool,), reader = pools({"/proc/spl/kstat/zfs/-x/state": "ONLINE\n"})
    with pytest.raises(UnknownFact, match="no name that zpool takes"):
        _ = pool.data_errors
    assert reader.asked == []


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("No known data errors", 0),
        ("3 data errors, use '-v' for a list", 3),
        ("Permanent errors have been detected", 1),
    ],
)
def test_data_errors(line, count):
    assert data_errors_in(f"  pool: tank\nerrors: {line}\n") == count


def test_no_word_of_errors_is_no_answer():
    with pytest.raises(ValueError, match="nothing of data errors"):
        data_errors_in("  pool: tank\n")


def test_thin_pool_as_dmsetup_tells_it():
    (pool,), _ = pools(DM, {THIN: LINE})
    assert (pool.name, pool.kind, pool.stopped) == ("vg-pool-tpool", "thin pool", "")
    assert (pool.used_percent, pool.metadata_percent) == (87.5, 10.9)


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (
            "0 1/2 3/4 - out_of_data_space no_discard_passdown error_if_no_space - 512",
            "out_of_data_space",
        ),
        ("0 1/2 3/4 - ro discard_passdown queue_if_no_space needs_check 512", "ro"),
        ("0 1/2 3/4 12 rw discard_passdown queue_if_no_space needs_check 512", "needs_check"),
        ("Fail", "Fail"),
        ("0 1/2 3/4 - rw discard_passdown queue_if_no_space - 512", ""),
    ],
)
def test_thin_pool_that_takes_no_writes(status, word):
    assert (
        parse_thin(f"vg-pool-tpool: 0 131072 thin-pool {status}\n")["vg-pool-tpool"].stopped == word
    )


def test_thin_pools_need_root_and_are_seen_without():
    (pool,), reader = pools(DM, is_privileged=False)
    assert pool.name == "vg-pool-tpool"
    with pytest.raises(UnknownFact, match="needs root: how full the thin pools"):
        _ = pool.stopped
    assert reader.asked == []


def test_thin_pool_that_dmsetup_does_not_list():
    (pool,), _ = pools(DM, {THIN: LINE.replace("vg-pool", "vg-other")})
    with pytest.raises(UnknownFact, match="dmsetup tells nothing of vg-pool-tpool"):
        _ = pool.used_percent
    (pool,), _ = pools(DM, {THIN: "No devices found\n"})
    with pytest.raises(UnknownFact, match="which is no thin pool"):
        _ = pool.used_percent


def test_nothing_is_asked_where_there_is_no_pool():
    found, reader = pools({"/sys/block/dm-1/dm/uuid": "LVM-Fx0\n", "/sys/block/sda/size": "1\n"})
    assert found == ()
    assert reader.asked == []


def test_record_keeps_what_is_asked_and_no_serial_numbers():
    status = SOUND.replace("tank  ONLINE", "nvme-SAMSUNG_MZWLO3T8HCLS_S6XYZ0W123456  ONLINE")
    recorder = RecordingReader(
        FakeReader({STATE: "ONLINE\n"}, queries={STATUS: status, LIST: "62%\n"})
    )
    assert Facts(recorder).pools.all[0].data_errors == 0
    record = encode_record(recorder, share=False, tool_version="1")
    assert "S6XYZ0W123456" not in str(record)
    again = Facts(RecordReader(record, "a.json")).pools.all[0]
    assert (again.data_errors, again.is_rebuilt) == (0, False)


def test_a_record_keeps_errors_of_disks_without_their_serial_numbers():
    rows = (
        "tank ONLINE 0 0 0",
        "  mirror-0 ONLINE 0 0 0",
        "    wwn-0x5000c500a1b2c3d4 ONLINE 3 0 1.2K",
        "    sdb ONLINE 0 0 0",
    )
    recorder = RecordingReader(
        FakeReader({STATE: "ONLINE\n"}, queries={STATUS: config(*rows), LIST: "62%\n"})
    )
    assert Facts(recorder).pools.all[0].erring == (
        "wwn-0x5000c500a1b2c3d4 (3 read, 0 write, 1.2K checksum)",
    )
    record = encode_record(recorder, share=False, tool_version="1")
    assert "5000c500a1b2c3d4" not in str(record)
    (told,) = Facts(RecordReader(record, "a.json")).pools.all[0].erring
    assert told.startswith("disk-")
    assert told.endswith("(3 read, 0 write, 1.2K checksum)")


def test_thin_pool_of_a_users_image_is_no_fault_of_the_host():
    """A loop device is made of any file of a user (udisks2), and udev activates the volume group on
    it.
    """
    sizes = {
        f"/sys/block/{name}/{key}": value
        for name in ("dm-0", "loop3")
        for key, value in (("size", "2048"), ("dev", "7:3"))
    }
    found, _ = pools({**DM, **sizes, "/sys/block/dm-0/slaves/loop3/dev": ""})
    assert found == ()


@pytest.mark.parametrize(
    ("scan", "is_rebuilt"),
    [
        ("resilver in progress since Mon Nov 30 01:00:00 2026", True),
        ("resilver (mirror-0) in progress since Mon Nov 30 01:00:00 2026", True),
        ("resilver (mirror-0) canceled on Mon Nov 30 01:00:00 2026", False),
        ("scrub in progress since Mon Nov 30 01:00:00 2026", False),
    ],
)
def test_pool_is_rebuilt_also_while_it_is_copied_in_sequence(scan, is_rebuilt):
    status = SOUND.replace("config:", f"  scan: {scan}\nconfig:", 1)
    (pool,), _ = pools({STATE: "DEGRADED\n"}, {STATUS: status})
    assert pool.is_rebuilt is is_rebuilt


@pytest.mark.parametrize("printed", ["nan", "inf%", "-1%", "-"])
def test_what_is_not_a_percentage_is_unknown_and_not_room(printed):
    with pytest.raises(ValueError, match=r"percentage|convert"):
        percent_of(printed)
