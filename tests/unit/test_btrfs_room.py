"""A btrfs that can make no file any more, though df shows room."""

import pytest

from hosttune.facts import Facts
from hosttune.host.door import Space
from tests.unit.fake_reader import FakeReader

MIB = 1 << 20
PLACE = "/sys/fs/btrfs/b71f5c0e-3a44-4b8e-9d10-6c2f7e0a9b1f"
# As Linux 6.18 had it with 960 of 3072 MiB free in df, when `touch` failed with ENOSPC.
FULL = {
    "allocation/data/disk_total": 2666528768, "allocation/metadata/disk_total": 536870912,
    "allocation/system/disk_total": 16777216, "allocation/metadata/total_bytes": 268435456,
    "allocation/metadata/bytes_used": 258686976, "allocation/global_rsv_size": 5767168, "devices/sdb/size": 6291456,
}  # fmt: skip


def crowding(**changes):
    files = {
        "/proc/self/mountinfo": "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 0:40 / /data rw - btrfs /dev/sdb rw\n",
        "/sys/block/sda/size": "0\n", "/sys/block/sdb/size": "6291456\n", "/sys/class/block/sdb/size": "6291456\n",
    }  # fmt: skip
    files |= {
        f"{PLACE}/{name}": f"{size}\n"
        for name, size in {**FULL, **changes}.items()
        if size is not None
    }
    spaces = {"/": Space(1000, 100, 50, 25), "/data": Space(3072 * MIB, 960 * MIB, 0, 0)}
    return {one.target: one.crowding for one in Facts(FakeReader(files, spaces=spaces)).places.all}[
        "/data"
    ]


def test_full_metadata_without_a_piece_for_more_is_reported():
    assert crowding() == (
        "has given out all of its room, and 98 % of that for metadata is used, though df shows 960 MiB free"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"allocation/metadata/bytes_used": 238686976},
        {"allocation/data/disk_total": 2266528768},
        {"allocation/data/disk_total": None, "allocation/metadata/disk_total": None},
    ],
    ids=["room in its metadata", "room that is not given out", "data and metadata mixed"],
)
def test_one_that_still_takes_files_is_not(changes):
    assert crowding(**changes) == ""
