"""Memory, limits of control groups of both versions, CPUs, and the workers that follow."""

from __future__ import annotations

import os

import pytest

from hosttune.facts.cpu.cpu import Quota
from hosttune.measure import page_cache
from hosttune.measure.cpus import Cpus, find_quotas, join_limits, usable_cpus
from hosttune.measure.dataset.room import Room, fit, inode_bytes, read_room
from hosttune.measure.workers import WORKER_BYTES, start_workers

GIB = 1 << 30
MEMINFO = "MemTotal:       67108864 kB\nMemAvailable:   41943040 kB\n"


def tree(tmp_path, **files):
    for path, content in files.items():
        place = tmp_path / path.strip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    return str(tmp_path)


def test_room_without_limits_is_available_memory(tmp_path):
    root = tree(tmp_path, **{"/proc/meminfo": MEMINFO, "/proc/self/cgroup": "0::/user.slice\n"})
    assert read_room(root=root) == Room(40 * GIB, 40 * GIB, None, "available memory")


@pytest.mark.parametrize(
    ("cgroup", "files", "limit", "path"),
    [
        ("0::/a/b\n", {"/sys/fs/cgroup/a/memory.max": "8589934592\n", "/sys/fs/cgroup/a/b/memory.max": "max\n"}, 8, "/sys/fs/cgroup/a/memory.max"),
        ("0::/a\n", {"/sys/fs/cgroup/a/memory.max": "max\n", "/sys/fs/cgroup/a/memory.high": "4294967296\n"}, 4, "/sys/fs/cgroup/a/memory.high"),
        ("0::/\n", {"/sys/fs/cgroup/memory.max": "2147483648\n"}, 2, "/sys/fs/cgroup/memory.max"),
        ("5:memory:/j\n0::/\n", {"/sys/fs/cgroup/memory/j/memory.limit_in_bytes": "1073741824\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1, "/sys/fs/cgroup/memory/j/memory.limit_in_bytes"),
    ],
    ids=["v2 above", "v2 high", "v2 container", "v1"],
)  # fmt: skip
def test_room_within_a_control_group_is_its_limit(tmp_path, cgroup, files, limit, path):
    root = tree(tmp_path, **{"/proc/meminfo": MEMINFO, "/proc/self/cgroup": cgroup, **files})
    assert read_room(root=root) == Room(limit * GIB, 40 * GIB, limit * GIB, f"limit of {path}")


def test_room_within_a_wide_limit_is_available_memory(tmp_path):
    files = {
        "/proc/meminfo": MEMINFO,
        "/proc/self/cgroup": "0::/a\n",
        "/sys/fs/cgroup/a/memory.max": "107374182400\n",
    }
    assert read_room(root=tree(tmp_path, **files)) == Room(
        40 * GIB, 40 * GIB, 100 * GIB, "available memory"
    )


@pytest.mark.parametrize(
    ("needs", "answer"),
    [
        (0, "fits"),
        (599, "fits"),
        (600, "tight"),
        (800, "tight"),
        (801, "too large"),
        (9999, "too large"),
    ],
)
def test_fit_ends_at_sixty_and_eighty_percent(needs, answer):
    assert fit(needs, Room(1000, 1000, None, "")).answer == answer


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (400, 599, "fits"), (400, 600, "unknown"), (610, 790, "tight"), (700, 801, "unknown"), (801, 9000, "too large"),
        (400, None, "unknown"), (801, None, "too large"),
    ],
)  # fmt: skip
def test_fit_says_a_word_only_where_the_whole_interval_does(low, high, answer):
    found = fit(500, Room(1000, 1000, None, ""), low, high)
    assert (found.answer, found.low_bytes, found.high_bytes) == (answer, low, high)
    assert found.why == ("" if answer != "unknown" else "guess" if high is None else "margin")


def test_fit_without_knowing_memory_is_unknown(tmp_path):
    nowhere = read_room(root=str(tmp_path))
    assert (nowhere.bytes, nowhere.reason) == (0, "memory is not known")
    assert fit(5, nowhere).answer == "unknown"


def test_inodes_of_a_million_files_take_over_a_gigabyte():
    assert inode_bytes("ext4", 1_000_000, 1_000) == 1_001_000 * (1128 + 192)
    assert inode_bytes("nfs4", 1, 0) == 1024 + 192


@pytest.mark.parametrize(
    ("cgroup", "files", "found"),
    [
        ("0::/a/b\n", {"/sys/fs/cgroup/a/cpu.max": "150000 100000\n", "/sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, ((1.5, "/sys/fs/cgroup/a/cpu.max"),)),
        ("3:cpu,cpuacct:/j\n", {"/sys/fs/cgroup/cpu/j/cpu.cfs_quota_us": "400000\n", "/sys/fs/cgroup/cpu/j/cpu.cfs_period_us": "100000\n"}, ((4.0, "/sys/fs/cgroup/cpu/j/cpu.cfs_quota_us"),)),
        ("3:cpu,cpuacct:/j\n", {"/sys/fs/cgroup/cpu/j/cpu.cfs_quota_us": "-1\n", "/sys/fs/cgroup/cpu/j/cpu.cfs_period_us": "100000\n"}, ()),
        ("0::/a\n", {"/sys/fs/cgroup/a/cpu.max": "nonsense\n"}, ()),
        ("", {}, ()),
    ],
    ids=["v2", "v1", "v1 without", "nonsense", "none"],
)  # fmt: skip
def test_quotas_of_both_versions_are_found(tmp_path, cgroup, files, found):
    root = tree(tmp_path, **{"/proc/self/cgroup": cgroup, **files})
    assert find_quotas(root=root) == tuple(Quota(*one) for one in found)


def test_cpus_are_those_of_the_affinity_within_the_quota():
    assert join_limits(8, ()) == Cpus(8.0, "8 usable CPUs")
    assert join_limits(8, (Quota(16.0, "x"),)).usable == 8
    tight = join_limits(8, (Quota(4.0, "wide"), Quota(1.5, "/sys/x/cpu.max")))
    assert (tight.usable, tight.whole, tight.reason) == (1.5, 1, "1.5 of 8 CPUs by /sys/x/cpu.max")
    assert join_limits(8, (Quota(0.2, "x"),)).whole == 1


def test_cpus_of_this_process_are_no_more_than_its_affinity():
    assert 0 < usable_cpus().usable <= len(os.sched_getaffinity(0))
    with pytest.raises(ProcessLookupError):
        usable_cpus(1 << 22)


@pytest.mark.parametrize(
    ("cpus", "more", "start"),
    [
        (8, {}, 7),
        (64, {"gpu_processes": 8}, 7),
        (2, {}, 2),
        (1, {}, 1),
        (0.5, {"gpu_processes": 8}, 1),
        (256, {}, 32),
        (64, {"available_bytes": 4 * WORKER_BYTES}, 4),
        (64, {"gpu_processes": 4, "available_bytes": 8 * WORKER_BYTES}, 2),
        (64, {"available_bytes": 0}, 1),
        (2, {"wait_per_cpu": 7.0}, 16),
        (2, {"wait_per_cpu": 0.1}, 2),
        (3, {}, 2),
        (2, {"wait_per_cpu": 1000.0}, 32),
        (2, {"measured": 3}, 3),
        (2, {"measured": 3, "wait_per_cpu": 7.0}, 3),
        (64, {"measured": 16, "gpu_processes": 4}, 4),
        (64, {"measured": 3, "gpu_processes": 8}, 1),
        (64, {"measured": 40}, 32),
        (64, {"measured": 16, "available_bytes": 4 * WORKER_BYTES}, 4),
    ],
)
def test_workers_follow_from_cpus_processes_memory_and_waits(cpus, more, start):
    found = start_workers(Cpus(float(cpus), f"{cpus} usable CPUs"), **more)
    assert found.start == start
    assert found.formula
    assert found.limits[0] == f"{cpus} usable CPUs"


def test_page_cache_of_a_file_just_written_is_all_there_by_both_calls(tmp_path):
    place = tmp_path / "f"
    place.write_bytes(bytes(100_000))
    with place.open("rb") as file:
        info = os.fstat(file.fileno())
        assert page_cache.resident_bytes(file.fileno()) == 100_000
        assert page_cache._ask_mincore(file.fileno(), info) == 25
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open("rb") as file:
        assert page_cache.resident_bytes(file.fileno()) == 0


def test_page_cache_windows_of_a_huge_file_stay_inside_and_few():
    size = (1 << 45) + 12_345
    windows = list(page_cache._spread_windows(size))
    assert len(windows) == 16
    assert all(
        offset % page_cache.PAGE == 0 and 0 <= offset < size - page_cache._WINDOW + page_cache.PAGE
        for offset in windows
    )
    assert list(page_cache._spread_windows(100 << 20)) == [0, 64 << 20]


def test_page_cache_of_somebody_elses_file_is_not_told_by_mincore(tmp_path, monkeypatch):
    place = tmp_path / "f"
    place.write_bytes(b"x")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with place.open("rb") as file:
        assert page_cache._ask_mincore(file.fileno(), os.fstat(file.fileno())) is None
