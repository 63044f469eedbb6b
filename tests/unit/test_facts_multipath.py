"""Disks of dm-multipath and their paths."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from tests.unit.fake_reader import FakeReader

DM = "/sys/block/dm-0"
FILES = {
    f"{DM}/dm/uuid": "mpath-3600a098038\n", f"{DM}/dm/name": "mpatha\n", f"{DM}/slaves/sdb/dev": "8:16\n",
    f"{DM}/slaves/nvme0n1/dev": "259:0\n", "/sys/block/sdb/device/state": "running\n",
    "/sys/block/nvme0n1/device/state": "live\n", "/sys/block/dm-1/dm/uuid": "LVM-Fx0\n",
}  # fmt: skip


def disks(files, **more):
    return Facts(FakeReader(files, **more)).multipath.disks


def test_disk_whose_paths_work():
    (disk,) = disks(FILES)
    assert (disk.name, disk.paths, disk.lost, disk.sibling_paths) == ("mpatha", 2, (), 2)


@pytest.mark.parametrize("state", ["offline", "blocked", "transport-offline", "dead"])
def test_path_that_does_not_work(state):
    (disk,) = disks({**FILES, "/sys/block/sdb/device/state": f"{state}\n"})
    assert disk.lost == (f"sdb ({state})",)


def test_disk_without_a_path_left():
    (disk,) = disks({f"{DM}/dm/uuid": "mpath-3600a098038\n"})
    assert (disk.name, disk.paths, disk.lost) == ("dm-0", 0, ())


def test_what_cannot_be_read_is_unknown():
    with pytest.raises(UnknownFact, match="no"):
        _ = disks(FILES, unreadable={"/sys/block/sdb/device/state": "no"})
