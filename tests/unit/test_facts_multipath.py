"""Disks of dm-multipath and their paths."""

from __future__ import annotations

import pytest

from hosttune.facts import Facts, UnknownFact
from hosttune.facts.storage.multipath import STATUS, parse_status
from tests.unit.fake_reader import FakeReader

DM = "/sys/block/dm-0"
FILES = {
    f"{DM}/dm/uuid": "mpath-3600a098038\n", f"{DM}/dm/name": "mpatha\n", f"{DM}/slaves/sdb/dev": "8:16\n",
    f"{DM}/slaves/nvme0n1/dev": "259:0\n", "/sys/block/sdb/device/state": "running\n",
    "/sys/block/nvme0n1/device/state": "live\n", "/sys/block/dm-1/dm/uuid": "LVM-Fx0\n",
}  # fmt: skip


GOOD = "mpatha: 0 2097152 multipath 2 0 0 0 1 1 A 0 2 0 8:16 A 0 259:0 A 0 \n"


def disks(files, status=GOOD, **more):
    return Facts(FakeReader(files, queries={STATUS: status}, **more)).multipath.disks


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
        _ = disks(FILES, unreadable={"/sys/block/sdb/device/state": "no"})[0].lost


def test_path_that_multipath_has_given_up_is_lost_while_scsi_calls_it_running():
    numbers = {"/sys/block/sdb/dev": "8:16\n", "/sys/block/nvme0n1/dev": "259:0\n"}
    (disk,) = disks({**FILES, **numbers}, GOOD.replace("8:16 A 0", "8:16 F 2"))
    assert disk.lost == ("sdb (failed)",)


def test_path_that_scsi_has_lost_needs_no_answer_of_dmsetup():
    (disk,) = disks(
        {**FILES, "/sys/block/sdb/device/state": "offline\n"}, "mpatha: 0 8 linear 8:0 0\n"
    )
    assert disk.lost == ("sdb (offline)",)


@pytest.mark.parametrize(
    "more", [{"is_privileged": False}, {"status": "mpatha: 0 8 linear 8:0 0\n"}]
)
def test_without_an_answer_of_dmsetup_it_is_not_known_that_all_paths_work(more):
    with pytest.raises(UnknownFact, match=r"needs root|which is no multipath"):
        _ = disks(FILES, **more)[0].lost


def test_no_map_has_no_failed_path():
    assert parse_status("No devices found\n") == parse_status("") == {}
