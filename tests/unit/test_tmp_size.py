"""Whether /tmp belongs into memory, and how large: the table of cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hosttune.choices.tmp_size import TmpCase, TmpLimits, choose, decide
from hosttune.facts.base import UnknownFact
from hosttune.host.door import Space
from hosttune.values import Unreadable
from tests.unit.fake_reader import FakeReader
from tests.unit.storage_host import ROOT, StorageHost

GIB = 1 << 30
LIMITS = TmpLimits(128 * GIB, 0.25, 32 * GIB, 0.5, 0.05)
HOST = TmpCase(256 * GIB)
NOT_READ = Unreadable("not in this record")


@pytest.mark.parametrize(
    ("ram_gib", "gib"),
    [(2048, 512), (1024, 256), (512, 128), (256, 64), (192, 48), (129, 33), (128, 32)],
)
def test_size_is_a_quarter_of_ram_and_at_least_32_gib(ram_gib, gib):
    assert decide(replace(HOST, ram_bytes=ram_gib * GIB), LIMITS).size_bytes == gib * GIB


@pytest.mark.parametrize(
    ("ram_gib", "gib"), [(64, 32), (96, 32), (100, 32), (128, 32), (2048, 512)]
)
def test_tmpfs_that_is_there_is_grown_from_half_the_limit_on_and_to_at_most_half_of_ram(
    ram_gib, gib
):
    case = replace(HOST, ram_bytes=ram_gib * GIB, has_tmpfs=True)
    assert decide(case, LIMITS).size_bytes == gib * GIB
    assert decide(replace(case, used_bytes=ram_gib * GIB // 2), LIMITS).size_bytes == gib * GIB


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (replace(HOST, is_kubelet=True), "a Kubernetes node"),
        (
            replace(HOST, is_kubelet=True, used_bytes=NOT_READ, is_complete=NOT_READ),
            "a Kubernetes node",
        ),
        (replace(HOST, is_kubelet=True, has_tmpfs=True), "a Kubernetes node"),
        (
            replace(HOST, spills=("slurmd's TmpFS is /tmp", "enroot too"), has_tmpfs=True),
            "TmpFS is /tmp; enroot too",
        ),
        (replace(HOST, ram_bytes=127 * GIB), "127 GiB of RAM, below the 128 GiB"),
        (replace(HOST, ram_bytes=63 * GIB, has_tmpfs=True), "63 GiB of RAM, below the 64 GiB"),
        (replace(HOST, own_bytes=64 * GIB), "a file system of its own with 64 GiB"),
        (replace(HOST, ram_bytes=64 * GIB, own_bytes=1000 * GIB), "a file system of its own"),
        (replace(HOST, used_bytes=13 * GIB), "13 GiB are in /tmp, more than 5% of 256 GiB of RAM"),
        (
            replace(HOST, used_bytes=13 * GIB, is_complete=False, most_bytes=NOT_READ),
            "at least 13 GiB are in /tmp",
        ),
    ],
)
def test_tmp_stays_as_it_is(case, said):
    found = decide(case, LIMITS)
    assert said in found.leave
    assert found.size_bytes == 0


@pytest.mark.parametrize(
    "case",
    [
        replace(HOST, is_complete=False, most_bytes=13 * GIB),
        replace(HOST, is_complete=False, most_bytes=NOT_READ),
        replace(HOST, used_bytes=NOT_READ),
        replace(HOST, is_complete=NOT_READ),
    ],
)
def test_count_that_was_cut_or_not_made_is_unknown_not_small(case):
    with pytest.raises(UnknownFact):
        decide(case, LIMITS)


@pytest.mark.parametrize(
    "case",
    [
        replace(HOST, used_bytes=12 * GIB),
        replace(HOST, is_complete=False, most_bytes=12 * GIB),
        replace(HOST, own_bytes=63 * GIB),
        replace(HOST, has_tmpfs=True, used_bytes=NOT_READ, is_complete=NOT_READ),
    ],
)
def test_what_is_certainly_little_or_does_not_decide_is_no_reason(case):
    assert decide(case, LIMITS).leave == ""


def test_large_local_disk_is_named_before_memory_is():
    found = decide(replace(HOST, disks=("/data (3.4 TiB)",)), LIMITS)
    assert found.evidence[0] == (
        "large temporary files belong on /data (3.4 TiB) first (TMPDIR, see storage-scratch-variables)"
    )
    assert "64 GiB is 25% of 256 GiB RAM (at least 32 GiB, at most 50%)" in found.evidence[1]


def test_host_too_small_for_a_whole_gib_keeps_its_tmp():
    tiny = replace(LIMITS, min_ram_bytes=0)
    assert "leave no whole GiB" in decide(replace(HOST, ram_bytes=GIB), tiny).leave


PARAMS = {name: getattr(LIMITS, name) for name in TmpLimits.__dataclass_fields__}
STATUS = {
    "/var/lib/dpkg/status": "Package: dpkg\nStatus: install ok installed\nVersion: 1\n",
    "/etc/systemd/system/x": "",
}


@pytest.mark.parametrize(
    ("fstab", "ram_gib", "files", "is_counted"),
    [
        ("", 256, {}, True),
        ("", 64, {}, False),
        ("", 256, {"/sys/fs/cgroup/kubepods.slice/x": ""}, False),
        ("", 256, {"/etc/slurm/slurm.conf": "TmpFS=/tmp\n"}, False),
        ("tmpfs /tmp tmpfs size=4G 0 0\n", 256, {}, False),
    ],
)
def test_tmp_is_counted_only_where_the_count_decides(
    monkeypatch, fstab, ram_gib, files, is_counted
):
    counted = []
    usage = FakeReader.usage
    monkeypatch.setattr(FakeReader, "usage", lambda *args: counted.append(1) or usage(*args))
    choose(StorageHost(fstab, ROOT, ram_gib=ram_gib, files={**STATUS, **files}).facts, PARAMS)

    assert bool(counted) is is_counted


def test_tmp_on_a_disk_larger_than_memory_could_be_is_left_and_a_tmpfs_is_no_such_disk():
    disk = f"{ROOT}\n31 20 8:18 / /tmp rw - ext4 /dev/sdb2 rw\n"
    spaces = {"/": Space(GIB, GIB, 1, 1), "/tmp": Space(1000 * GIB, 900 * GIB, 1, 1)}
    found = choose(StorageHost("", disk, files=STATUS, spaces=spaces).facts, PARAMS)
    assert found.leave.startswith("/tmp is a file system of its own with 1000 GiB")
    memory = f"{ROOT}\n31 20 0:40 / /tmp rw - tmpfs tmpfs rw\n"
    assert (
        choose(StorageHost("", memory, files=STATUS, spaces=spaces).facts, PARAMS).size_bytes
        == 64 * GIB
    )


def test_just_what_may_lie_in_tmp_is_not_too_much():
    most = int(256 * GIB * 0.05)
    assert decide(replace(HOST, used_bytes=most), LIMITS).size_bytes == 64 * GIB
    assert "are in /tmp" in decide(replace(HOST, used_bytes=most + 1), LIMITS).leave
    cut = replace(HOST, is_complete=False, most_bytes=most)
    assert decide(cut, LIMITS).size_bytes == 64 * GIB
    with pytest.raises(UnknownFact, match=r"^not all of /tmp could be counted.*needs root"):
        decide(replace(cut, most_bytes=most + 1), LIMITS)


def test_disk_is_named_only_where_memory_would_be_taken_anew():
    disks = replace(HOST, disks=("/data (3.4 TiB)",))
    assert not any(
        "large temporary" in line
        for line in decide(replace(disks, has_tmpfs=True), LIMITS).evidence
    )
    assert not any("large temporary" in line for line in decide(HOST, LIMITS).evidence)


SLOW = replace(LIMITS, where="slow-disk")


@pytest.mark.parametrize(("ram_gib", "gib"), [(128, 12), (512, 51), (2048, 64)])
def test_on_a_slow_disk_it_gets_a_tenth_of_ram_and_at_most_64_gib(ram_gib, gib):
    case = TmpCase(ram_gib * GIB, slow_disk="/, a hard disk")
    assert decide(case, SLOW).size_bytes == gib * GIB
    assert decide(replace(case, used_bytes=gib * GIB // 4 + 1), SLOW).size_bytes == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"has_tmpfs": True}, "in memory already"),
        ({"scheduler": "slurmd.service runs"}, "slurmd.service runs: files that jobs put"),
        ({"slow_disk": "", "place": "/ (ext4)"}, "not known to be a hard disk"),
        (
            {"slow_disk": ""},
            "the disk of /tmp is not known, and training gains nothing",
        ),  # of an image
        ({"disks": ("/data (3 TiB)",), "has_tmpdir": True}, "/data (3 TiB) is the better place"),
        ({"age": "10d (/etc/tmpfiles.d/a.conf:1)"}, "kept for a time (10d"),
        ({"used_bytes": 17 * GIB}, "17 GiB are in /tmp, more than a quarter of 64 GiB"),
    ],
)
def test_by_default_it_is_left_where_memory_is_no_better(changes, said):
    found = decide(replace(TmpCase(1024 * GIB, slow_disk="/, a hard disk"), **changes), SLOW)
    assert (found.size_bytes, found.advice) == (0, "")
    assert said in found.leave


def test_larger_disk_is_advised_once():
    case = TmpCase(1024 * GIB, place="/ (ext4)", disks=("/data (3 TiB)",))
    assert (
        decide(case, SLOW).advice
        == "temporary files go to / (ext4), although /data (3 TiB) has more room"
    )
    assert decide(case, SLOW).disk == "/data"
    assert not decide(case, LIMITS).advice
